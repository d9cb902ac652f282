"""Reading a configuration: YAML with `include`, overlays of nodes, dotted overrides and interpolation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from looktwice.pipelines.config.allowances import allowed_to
from looktwice.pipelines.config.build import ConfigError, Scope
from looktwice.pipelines.config.paths import Asker, OutsideError, allowed_roots, find_config, pass_fence, shipped
from looktwice.pipelines.config.suggest import did_you_mean
from looktwice.pipelines.config.yaml_input import MOST_DEPTH, check_yaml
from looktwice.pipelines.disk import read_file

Node = dict[str, Any]
REFERENCE = re.compile(r"\$\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}")
MOST_RESOLVED = 2_000_000
"""Characters that all `${...}` of a configuration may stand for."""

VALUE = 20  # characters as which each value counts, as its copy takes time and memory too


class Config(NamedTuple):
    """A configuration as the command line gave it: its node, what it may reach, and the faults found so far."""

    node: Node
    scope: Scope
    faults: list[str]


def read_config(
    source: Path | Node, overrides: Sequence[str] = (), plugins: Sequence[str] = (), allow: Sequence[str] = ()
) -> Config:
    """A configuration file, or the node of one, with the overrides laid over it. Raises ConfigError.

    Its paths count from the file's folder, those of a node or of a shipped configuration from the working folder;
    paths among the overrides are given by the user and may lie anywhere, as may those under the roots in `allow`, and
    what the user allowed this file for good.
    """
    roots, path = allowed_roots(allow), None
    if isinstance(source, dict):
        node, folder = source, Path.cwd()
    else:
        path = find_config(source)
        roots += allowed_to(path)
        node, folder = load(path, roots), Path.cwd() if path in shipped().values() else path.resolve().parent
    given: list[str] = []
    layer = Overlay()
    for place, value in map(parse_override, overrides):
        node = layer(node, nest(place, value))
        given += _existing_paths(value)
    return Config(node, Scope(folder, tuple(given), tuple(plugins), roots, source=path), layer.faults)


def _existing_paths(value: Any) -> Iterator[str]:
    """The texts of an override's value that are paths of something that is there.

    Not "" and ".": every path of the configuration would begin with them, and count from the working folder.
    """
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _existing_paths(inner)
    elif isinstance(value, str) and value not in ("", ".") and Path(value).expanduser().exists():
        yield value


def load(path: Path, allowed: Sequence[Path] = (), files: list[Path] | None = None) -> Node:
    """A configuration file with what it includes below it; `files` takes all that are read. Raises ConfigError."""
    files = [] if files is None else files
    return _load(Path(path), (Path(path).resolve().parent, *allowed, *shipped().values()), (), files)


def _load(path: Path, roots: Sequence[Path], seen: tuple[Path, ...], files: list[Path]) -> Node:
    node = _read(path)
    files.append(path.resolve())
    included = node.pop("include", None) or []
    base: Node = {}
    for name in included if isinstance(included, list) else [included]:
        if not isinstance(name, str) or "\0" in name:
            raise ConfigError([f"{path}: include: expected the name of a configuration, or a list, found {name!r:.80}"])
        inner = find_config(name, path.parent).resolve()
        try:
            if inner.exists():
                pass_fence(name, inner, [root.resolve() for root in roots], Asker(roots[0], typed=str(files[0])))
        except OutsideError as exc:
            raise ConfigError([f"{path}: include: {exc}"]) from exc
        if inner.exists() and not inner.is_file():
            raise ConfigError([f"{path}: include: {name!r} is no file"])
        if inner in (*seen, path.resolve()):
            raise ConfigError([f"{path}: include: {name!r} includes itself"])
        base = _overlaid(base, _load(inner, roots, (*seen, path.resolve()), files), str(path))
    return _overlaid(base, node, str(path))


def _overlaid(base: Node, top: Node, source: str) -> Node:
    layer = Overlay()
    merged: Node = layer(base, top)
    if layer.faults:
        raise ConfigError([f"{source}: {fault}" for fault in layer.faults])
    return merged


def _read(path: Path) -> Node:
    try:
        text = read_file(path).decode()
        check_yaml(text)
        node = OmegaConf.to_container(OmegaConf.load(StringIO(text)), resolve=False)
    except FileNotFoundError:
        known = did_you_mean(Path(path).stem, shipped())
        raise ConfigError([f"{path}: no such configuration file{known} (shipped: `looktwice list configs`)"]) from None
    except IsADirectoryError:
        raise ConfigError([f"{path}: a folder; give the YAML file of a study"]) from None
    except (OSError, yaml.YAMLError, OmegaConfBaseException, ValueError) as exc:
        raise ConfigError([f"{path}: not a YAML mapping ({str(exc).strip()})"]) from exc
    if not isinstance(node, dict):
        raise ConfigError([f"{path}: expected a YAML mapping at the top, found a {type(node).__name__}"])
    return {str(key): value for key, value in node.items()}


@dataclass
class Overlay:
    """Lays one node over another; what cannot be laid is noted in `faults` with its place.

    Another `use` replaces a node, the same `use` (or none) merges, `null` drops. A slot that is added to
    stages must say `before:` or `after:` which slot it stands; on a slot that is there, they move it. A contestant's
    stages are an overlay themselves, and find their places when they are laid over the file's. `alone` is the end of
    the sentence on a slot without a place: what else may be typed.
    """

    faults: list[str] = field(default_factory=list)
    alone: str = ""

    def __call__(self, base: Any, top: Any, place: str = "") -> Any:
        if not (isinstance(base, Mapping) and isinstance(top, Mapping)):
            return top
        if "use" in top and top["use"] != base.get("use"):
            return dict(top)
        if place.rpartition(".")[2] == "stages" and not place.startswith("contestants."):
            return self.stages(dict(base), top, place)
        merged = dict(base)
        for key, value in top.items():
            merged[key] = self(base.get(key), value, f"{place}.{key}" if place else str(key))
        return merged

    def stages(self, base: Node, top: Mapping[str, Any], place: str) -> Node:
        """Stages laid over stages: order is kept, and a new slot finds its place."""
        merged, free = dict(base), not base
        for slot, value in top.items():
            here = f"{place}.{slot}"
            anchors = {k: value[k] for k in ("before", "after") if isinstance(value, Mapping) and value.get(k)}
            known = slot in merged
            merged[slot] = self(base.get(slot), value, here) if known else value
            if anchors:
                merged = self._placed(merged, slot, anchors, here)
            elif not known and not free and value is not None:
                place_it = f"say `before:` or `after:` one of {', '.join(base)}"
                self.faults.append(f"{here}: a new slot needs its place; {place_it}{self.alone}")
        return merged

    def _placed(self, stages: Node, slot: str, anchors: Mapping[str, Any], place: str) -> Node:
        node = {k: v for k, v in stages.pop(slot).items() if k not in ("before", "after")}
        side, anchor = next(iter(anchors.items()))
        if len(anchors) > 1 or anchor not in stages:
            found = f"{side}: {anchor}" if len(anchors) == 1 else "both `before:` and `after:`"
            self.faults.append(f"{place}: found {found}; name one of {', '.join(stages)}")
            return {**stages, slot: node}
        order = list(stages)
        order.insert(order.index(anchor) + (side == "after"), slot)
        return {name: node if name == slot else stages[name] for name in order}


def parse_override(text: str) -> tuple[str, Any]:
    """`place=value` from the command line as (place, value), the value read as YAML. Raises ConfigError."""
    place, equals, value = text.partition("=")
    if not equals or not place.strip():
        raise ConfigError([f"{text!r}: an override is written place=value, such as stages.mark.radius=5"])
    try:
        check_yaml(value)
        read = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={value}"]), resolve=False)
    except (yaml.YAMLError, OmegaConfBaseException, ValueError) as exc:
        raise ConfigError([f"{text!r:.200}: the value is not YAML ({exc})"]) from exc
    return place.strip(), read["value"] if isinstance(read, dict) else value


def nest(place: str, value: Any) -> Node:
    """The node that sets `value` at a dotted place; what stands under `sweep` is one key, dots and all."""
    first, _, rest = place.partition(".")
    if first == "sweep" and rest:
        return {first: {rest: value}}
    return {first: nest(rest, value) if rest else value}


def resolve(node: Node, faults: list[str]) -> Node:
    """The node with every `${a.b}` replaced; resolvers, and references that lead nowhere, are faults."""
    texts = list(_texts_with_references(node, ""))
    if not texts:
        return node
    wrong = [
        f"{place}: {text!r} is refused: only ${{a.b}}, a place in this configuration, may stand in ${{...}}"
        for place, text in texts
        if "${" in REFERENCE.sub("", text)
    ]
    wrong = wrong or _unresolvable(node, texts) or _too_large(node, texts)
    plain: Any = node
    if not wrong:
        try:
            held = OmegaConf.create(_referring(node, texts))
            plain = {**node, **OmegaConf.to_container(held, resolve=True)}  # type: ignore[dict-item]
        except OmegaConfBaseException as exc:
            wrong = [f"{exc.full_key or 'the configuration'}: {str(exc).splitlines()[0]}"]
    faults += [fault for fault in wrong if fault not in faults]
    return plain if isinstance(plain, dict) else node


def _referring(node: Node, texts: Sequence[tuple[str, str]]) -> Node:
    """What holds a reference, or is referred to, whole: OmegaConf takes a second for a few thousand entries."""
    referred = {reference.split(".")[0] for _, text in texts for reference in REFERENCE.findall(text)}
    return {key: value for key, value in node.items() if key in referred or any(_texts_with_references(value, ""))}


def _texts_with_references(node: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every text that holds `${`, with its dotted place."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _texts_with_references(value, f"{place}.{key}" if place else str(key))
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for number, value in enumerate(node):
            yield from _texts_with_references(value, f"{place}[{number}]")
    elif isinstance(node, str) and "${" in node:
        yield place, node


def _unresolvable(node: Node, texts: Sequence[tuple[str, str]]) -> list[str]:
    """One sentence for each reference that leads nowhere, naming every place that holds it."""
    places: dict[tuple[str, str], list[str]] = {}
    for place, text in texts:
        for reference in REFERENCE.findall(text):
            if why := _follow(node, reference).why:
                places.setdefault((reference, why), []).append(place)
    faults = []
    for (reference, why), (first, *others) in places.items():
        more = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        also = f", and so for the other places that refer to it: {more}" if others else ""
        faults.append(f"{first}: ${{{reference}}} leads nowhere, because {why}; type {first}=VALUE{also}")
    return faults


class _Followed(NamedTuple):
    """What a reference leads to, or why it leads nowhere; neither where OmegaConf must follow another one."""

    value: Any
    why: str = ""


def _follow(node: Node, reference: str, depth: int = 0) -> _Followed:
    """What stands at a place, also behind other references on the way; None where these are no whole text."""
    here: Any = node
    place = ""
    for part in reference.split("."):
        if isinstance(here, str) and "${" in here:
            other = REFERENCE.fullmatch(here)
            here = _follow(node, other[1], depth + 1).value if other and depth < MOST_DEPTH else None
            if here is None:
                return _Followed(None)
        if isinstance(here, list) and part.isdigit() and int(part) < len(here):
            here = here[int(part)]
        elif isinstance(here, Mapping) and part in (inner := {str(key): value for key, value in here.items()}):
            here = inner[part]
        elif here is None:
            return _Followed(None, f"{place} is null")
        else:
            return _Followed(None, f"{place or 'the configuration'} has no {part!r}")
        place = f"{place}.{part}" if place else part
    return _Followed(here)


def _too_large(node: Node, texts: Sequence[tuple[str, str]]) -> list[str]:
    """A sentence on the first text with which the configuration, each `${...}` replaced, becomes too large."""
    sizes: dict[str, int] = {}

    def size(value: Any, depth: int) -> int:
        if isinstance(value, Mapping | list):
            inner = list(value.values()) if isinstance(value, Mapping) else value
            return VALUE + sum(size(each, depth) for each in inner)
        if not isinstance(value, str):
            return VALUE
        return VALUE + len(value) + sum(size_behind(reference, depth + 1) for reference in REFERENCE.findall(value))

    def size_behind(reference: str, depth: int) -> int:
        if depth > MOST_DEPTH:
            return MOST_RESOLVED
        if reference not in sizes:
            sizes[reference] = 0  # it may lead back to itself, of which OmegaConf tells
            sizes[reference] = size(_follow(node, reference).value, depth)
        return sizes[reference]

    whole = 0
    for place, text in texts:
        whole += size(text, 0)
        if whole > MOST_RESOLVED:
            return [
                f"{place}: {text!r:.80} makes the configuration larger than {MOST_RESOLVED:,} characters, or leads "
                f"from reference to reference more than {MOST_DEPTH} times; write what is meant"
            ]
    return []

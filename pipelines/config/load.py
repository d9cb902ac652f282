"""Reading a configuration: YAML with `include`, overlays of nodes, dotted overrides and
interpolation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import TypeAdapter, ValidationError

from looktwice.pipelines.config.classes import ConfigError, did_you_mean
from looktwice.pipelines.config.entries import Contestant, Needs, StudyConfig
from looktwice.pipelines.config.paths import (
    Asker,
    OutsideError,
    Scope,
    allowed_roots,
    allowed_to,
    find_config,
    pass_fence,
    shipped,
)
from looktwice.pipelines.config.yaml_input import check_yaml
from looktwice.pipelines.disk import read_file

Node = dict[str, Any]
REFERENCE = re.compile(r"\$\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}")
MISSING = object()


class Config(NamedTuple):
    """A configuration as the command line gave it: its node, what it may reach, and the faults
    found so far."""

    node: Node
    scope: Scope
    faults: list[str]


def read_config(
    source: Path | Node,
    overrides: Sequence[str] = (),
    plugins: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> Config:
    """A configuration file, or the node of one, with the overrides laid over it. Raises
    ConfigError.

    Its paths count from the file's folder, those of a node or of a shipped configuration from the
    working folder; paths among the overrides are given by the user and may lie anywhere, as may
    those under the roots in `allow`, and what the user allowed this file for good.
    """
    roots, path = allowed_roots(allow), None
    if isinstance(source, dict):
        node, folder = source, Path.cwd()
    else:
        path = find_config(source)
        roots += allowed_to(path)
        node, folder = (
            load(path, roots),
            Path.cwd() if path in shipped().values() else path.resolve().parent,
        )
    given: list[str] = []
    layer = Overlay()
    for place, value in map(parse_override, overrides):
        node = layer(node, nest(place, value))
        given += _existing_paths(value)
    return Config(
        node, Scope(folder, tuple(given), tuple(plugins), roots, source=path), layer.faults
    )


def _existing_paths(value: Any) -> Iterator[str]:
    """The texts of an override's value that are paths of something that is there.

    Not "" and ".": every path of the configuration would begin with them, and count from the
    working folder.
    """
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _existing_paths(inner)
    elif isinstance(value, str) and value not in ("", ".") and Path(value).expanduser().exists():
        yield value


def load(path: Path, allowed: Sequence[Path] = (), files: list[Path] | None = None) -> Node:
    """A configuration file with what it includes below it; `files` takes all that are read. Raises
    ConfigError."""
    files = [] if files is None else files
    return _load(
        Path(path), (Path(path).resolve().parent, *allowed, *shipped().values()), (), files
    )


def _load(path: Path, roots: Sequence[Path], seen: tuple[Path, ...], files: list[Path]) -> Node:
    node = _read(path)
    files.append(path.resolve())
    included = node.pop("include", None) or []
    base: Node = {}
    for name in included if isinstance(included, list) else [included]:
        if not isinstance(name, str) or "\0" in name:
            raise ConfigError(
                [
                    f"{path}: include: expected the name of a configuration, or a list, found"
                    f" {name!r:.80}"
                ]
            )
        inner = find_config(name, path.parent).resolve()
        try:
            if inner.exists():
                pass_fence(
                    name,
                    inner,
                    [root.resolve() for root in roots],
                    Asker(roots[0], typed=str(files[0])),
                )
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
        raise ConfigError(
            [f"{path}: no such configuration file{known} (shipped: `looktwice list configs`)"]
        ) from None
    except IsADirectoryError:
        raise ConfigError([f"{path}: a folder; give the YAML file of a study"]) from None
    except (OSError, yaml.YAMLError, OmegaConfBaseException, ValueError) as exc:
        raise ConfigError([f"{path}: not a YAML mapping ({str(exc).strip()})"]) from exc
    if not isinstance(node, dict):
        raise ConfigError(
            [f"{path}: expected a YAML mapping at the top, found a {type(node).__name__}"]
        )
    return {str(key): value for key, value in node.items()}


@dataclass
class Overlay:
    """Lays one node over another; what cannot be laid is noted in `faults` with its place.

    Another `use` replaces a node, the same `use` (or none) merges, `null` drops. A slot that is
    added to stages must say `before:` or `after:` which slot it stands; on a slot that is there,
    they move it. A contestant's stages are an overlay themselves, and find their places when they
    are laid over the file's. `alone` is the end of the sentence on a slot without a place: what
    else may be typed.
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
        if not place:
            base, top = _name_one_task(base, top)
        merged = dict(base)
        for key, value in top.items():
            merged[key] = self(base.get(key), value, f"{place}.{key}" if place else str(key))
        return merged

    def stages(self, base: Node, top: Mapping[str, Any], place: str) -> Node:
        """Stages laid over stages: order is kept, and a new slot finds its place."""
        merged, free = dict(base), not base
        for slot, value in top.items():
            here = f"{place}.{slot}"
            anchors = {
                k: value[k]
                for k in ("before", "after")
                if isinstance(value, Mapping) and value.get(k)
            }
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


def task_name(task: Any) -> str:
    """The name of the only task in tables: its `name` or `kind`, or `task`."""
    name = task.get("name") or task.get("kind") if isinstance(task, Mapping) else None
    return name if isinstance(name, str) else "task"


def _name_one_task(base: Mapping[str, Any], top: Mapping[str, Any]) -> tuple[Node, Node]:
    """Two configurations that name the same only task in the same way, `task:` or `tasks:`."""
    below, above = dict(base), dict(top)
    tasks = {name: node for name, node in (below.get("tasks") or {}).items() if node is not None}
    if len(tasks) == 1 and above.get("task") is not None and "tasks" not in above:
        above["tasks"] = {next(iter(tasks)): above.pop("task")}
    elif below.get("task") is not None and task_name(below["task"]) in (above.get("tasks") or {}):
        task = below.pop("task")
        below["tasks"] = {task_name(task): task}
    return below, above


def parse_override(text: str) -> tuple[str, Any]:
    """`place=value` from the command line as (place, value), the value read as YAML. Raises
    ConfigError."""
    place, equals, value = text.partition("=")
    if not equals or not place.strip():
        raise ConfigError(
            [f"{text!r}: an override is written place=value, such as stages.mark.radius=5"]
        )
    try:
        check_yaml(value)
        read = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={value}"]), resolve=False)
    except (yaml.YAMLError, OmegaConfBaseException, ValueError) as exc:
        raise ConfigError([f"{text!r:.200}: the value is not YAML ({exc})"]) from exc
    return place.strip(), read["value"] if isinstance(read, dict) else value


def nest(place: str, value: Any) -> Node:
    """The node that sets `value` at a dotted place; what stands under `sweep` is one key, dots and
    all."""
    first, _, rest = place.partition(".")
    if first == "sweep" and rest:
        return {first: {rest: value}}
    return {first: nest(rest, value) if rest else value}


def resolve(node: Node, faults: list[str]) -> Node:
    """The node with every `${a.b}` replaced, by OmegaConf; resolvers, which could read the
    environment, and references that lead nowhere are faults."""
    texts = list(_texts_with_references(node, ""))
    if not texts:
        return node
    tree, wrong = OmegaConf.create(node), dict[str, list[str]]()
    for place, text in texts:
        if what := _reference_fault(tree, text):
            wrong.setdefault(what, []).append(place)
    for what, (first, *others) in wrong.items():
        also = f", and so for the other places that refer to it: {', '.join(others[:3])}"
        fault = f"{first}: {what}; type {first}=VALUE{also if others else ''}"
        faults += [fault] if fault not in faults else []
    if wrong:
        return node
    plain = OmegaConf.to_container(tree, resolve=True)
    return cast(Node, plain)


def _texts_with_references(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Each text that holds `${`, and its place."""
    if isinstance(value, str) and "${" in value:
        yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts_with_references(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _texts_with_references(inner, f"{place}[{number}]")


def _reference_fault(tree: Any, text: str) -> str:
    """What is wrong with the references of a text; empty where nothing is."""
    if "${" in REFERENCE.sub("", text):
        only = "only ${a.b}, a place in this configuration, may stand in ${...}"
        return f"{text!r} is refused: {only}"
    for reference in REFERENCE.findall(text):
        *above, last = reference.split(".")
        try:
            inside = OmegaConf.select(tree, ".".join(above)) if above else tree
            value = (
                OmegaConf.select(inside, last, default=MISSING)
                if OmegaConf.is_config(inside)
                else MISSING
            )
        except (OmegaConfBaseException, RecursionError) as exc:
            return f"${{{reference}}} leads nowhere ({str(exc).splitlines()[0]:.80})"
        if value is MISSING:
            name = ".".join(above) or "the configuration"
            return f"${{{reference}}} leads nowhere, because {name} has no {last!r}"
    return ""


CHANGEABLE = ("task", "tasks", "model", "models", "stages", "read", "seed", "draws")


EXTRA = "extra_forbidden"


GONE = {
    "extend": (
        "a contestant's stages are laid over the file's now, so drop `extend`; "
        "`replace: true` lets them stand alone"
    )
}


KNOWN: dict[int, type] = {1: StudyConfig, 3: Contestant, 4: Needs}


def shape_faults(config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Entries that do not belong where they stand, and entries that hold the wrong kind of thing,
    with their places."""
    try:
        TypeAdapter(StudyConfig).validate_python(dict(config))
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_context=False)
        strange = [_strange(e["loc"]) for e in errors if e["type"] == EXTRA]
        wrong = [_wrong(e["loc"], e["msg"], e["input"]) for e in errors if e["type"] != EXTRA]
        return list(dict.fromkeys(strange)), list(dict.fromkeys(wrong))
    return [], []


def name_faults(config: Mapping[str, Any]) -> list[str]:
    """Changes under `sweep` and `each` that would change nothing, because what they name is not
    there."""
    slots = set(config.get("stages") or ())
    for contestant in (config.get("contestants") or {}).values():
        slots |= set((contestant or {}).get("stages") or ())
    there = {
        "stages": slots,
        "tasks": set(config.get("tasks") or ()),
        "models": set(config.get("models") or ()),
    }
    sweep, each = config.get("sweep") or {}, config.get("each") or ()
    changes = [(f"sweep.{key}", key, value) for key, values in sweep.items() for value in values]
    changes += [
        (f"each[{i}].{key}", key, value) for i, one in enumerate(each) for key, value in one.items()
    ]
    faults = (_name_fault(place, str(key), value, there) for place, key, value in changes)
    return list(dict.fromkeys(fault for fault in faults if fault))


def _name_fault(place: str, key: str, value: Any, there: Mapping[str, set[str]]) -> str:
    first, _, rest = key.partition(".")
    if first not in CHANGEABLE:
        return f"{place}: {first!r} is nothing that can be changed{did_you_mean(first, CHANGEABLE)}"
    name, known = rest.partition(".")[0], there.get(first, set())
    added = first == "stages" and isinstance(value, Mapping) and "use" in value
    if name and first in there and name not in known and not added:
        return f"{place}: there is no {name!r} under `{first}:`{did_you_mean(name, known)}"
    return ""


def _strange(loc: tuple[int | str, ...]) -> str:
    if loc[-1] in GONE:
        return f"{'.'.join(map(str, loc))}: {GONE[str(loc[-1])]}"
    known = list(KNOWN.get(len(loc), StudyConfig).__annotations__)
    return (
        f"{'.'.join(map(str, loc))}: no such entry{did_you_mean(str(loc[-1]), known)}; there are"
        f" {', '.join(known)}"
    )


def _wrong(loc: tuple[int | str, ...], message: str, found: Any) -> str:
    # pydantic puts words into the place to name a member of a union
    tags = ("str", "dict", "list", "none")
    places = [part for part in map(str, loc) if "[" not in part and part not in tags]
    shown, here = repr(found), ".".join(places)
    return (
        f"{here}: {message[0].lower()}{message[1:]}, found"
        f" {shown if len(shown) < 80 else shown[:77] + '...'}"
    )

"""Reads a configuration: YAML with `include`, overlays, dotted overrides and interpolation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast, get_type_hints

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from looktwice.pipelines.config.classes import (
    ConfigError,
    Faults,
    extend_hint,
    find_class,
    is_foreign,
    suggest_names,
)
from looktwice.pipelines.config.keys import FORBID_EXTRA, Contestant, Key, Needs, StudyConfig
from looktwice.pipelines.config.paths import URL_PATTERN, Scope, check_access, read_allowed
from looktwice.pipelines.config.shipped import find_config, list_configs
from looktwice.pipelines.config.spec import asks_model
from looktwice.pipelines.disk import check_yaml, read_file
from looktwice.pipelines.extensions import find_extension, list_extensions
from looktwice.pipelines.json_input import iterate_leaves

Node = dict[str, Any]
REFERENCE_PATTERN = re.compile(r"\$\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}")
MISSING = object()
YAML_ERRORS = (OSError, yaml.YAMLError, OmegaConfBaseException, ValueError)


class Config(NamedTuple):
    """A configuration with its overrides, the scope that it may reach, and the faults found so
    far."""

    node: Node
    scope: Scope
    faults: Faults


def read_config(
    source: Path | Node,
    overrides: Sequence[str] = (),
    plugins: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> Config:
    """Read a configuration from a file or a node, and apply the overrides. Raises ConfigError.

    Its paths are relative to the file's folder; for a node or a configuration bundled with
    looktwice, to the working folder. Paths in overrides come from the user and may lie anywhere, as
    may those below the folders in `allow` and those that the user has allowed this file to read.
    """
    allowed, path = read_allowed(allow), None
    if isinstance(source, dict):
        node, folder = source, Path.cwd()
    else:
        path = find_config(source)
        scope = Scope(path.resolve().parent, allowed=allowed, source=path)
        node = load(path, scope)
        folder = Path.cwd() if path in list_configs().values() else scope.folder
    given: list[str] = []
    layer = Overlay()
    if overrides:
        from looktwice.pipelines.config.overrides import find_swept_overrides, read_overrides

        settings = read_overrides(overrides, node)
        for place, value in settings:
            node = layer(node, nest_value(place, value))
            # not "" or ".": every path would start with them and be relative to the working folder
            given += [
                text
                for _, text in iterate_leaves(value)
                if isinstance(text, str)
                and text not in ("", ".")
                and (URL_PATTERN.fullmatch(text) or Path(text).expanduser().exists())
            ]
        layer.faults.note(*find_swept_overrides(settings, node.get("sweep")))
    scope = Scope(folder, tuple(given), tuple(plugins), allowed, source=path)
    if named := node.get("plugins"):
        from looktwice.pipelines.config.plugin_code import load_study_plugins

        scope = replace(scope, plugins=load_study_plugins(named, scope))
    return Config(node, scope, layer.faults)


def load(path: Path, scope: Scope | None = None) -> Node:
    """Load a configuration file with its includes. It may reach what `scope` allows, by default its
    own folder. Raises ConfigError."""
    return _load_with_includes(
        Path(path), scope or Scope(Path(path).resolve().parent, source=Path(path)), ()
    )


def _load_with_includes(path: Path, scope: Scope, seen: tuple[Path, ...]) -> Node:
    node = _read_yaml(path)
    seen = (*seen, path.resolve())
    included = node.pop("include", None) or []
    base: Node = {}
    for name in included if isinstance(included, list) else [included]:
        try:
            inner = _resolve_include(name, path, scope)
            if inner in seen:
                raise ValueError(f"{name!r} includes itself")
        except ValueError as exc:
            raise ConfigError([f"{path}: include: {exc}"]) from exc
        base = _overlay_file(base, _load_with_includes(inner, scope, seen), path)
    return _overlay_file(base, node, path)


def _resolve_include(name: Any, path: Path, scope: Scope) -> Path:
    """Return the file that `path` includes under this name. Raises ValueError if it is not a file
    or must not be read."""
    if not isinstance(name, str) or "\0" in name:
        raise ValueError(f"expected the name of a configuration, or a list, found {name!r:.80}")
    file = find_config(name, path.parent).resolve()
    if file.exists():
        roots = (scope.folder, *(config.resolve() for config in list_configs().values()))
        check_access(name, file, roots, scope, "include")
        if not file.is_file():
            raise ValueError(f"{name!r} is not a file")
    return file


def _overlay_file(base: Node, top: Node, path: Path) -> Node:
    layer = Overlay()
    merged: Node = layer(base, top)
    if layer.faults:
        raise ConfigError([f"{path}: {fault}" for fault in layer.faults])
    return merged


def _read_yaml(path: Path) -> Node:
    try:
        text = read_file(path).decode()
        check_yaml(text)
        node = OmegaConf.to_container(OmegaConf.load(StringIO(text)), resolve=False)
        if isinstance(node, dict):
            return {str(key): value for key, value in node.items()}
        fault = f"expected a YAML mapping at the top, found a {type(node).__name__}"
    except FileNotFoundError:
        near = suggest_names(Path(path).stem, list_configs())
        fault = f"no such configuration file{near} (bundled ones: `looktwice list configs`)"
    except IsADirectoryError:
        fault = "this is a folder; name the YAML file of a study"
    except YAML_ERRORS as exc:
        why = re.sub(r'\s*in "<\w+ string>"', "", str(exc).strip())
        why = re.sub(r"\s*\n\s*", "; ", why)
        fault = f"not a YAML mapping ({why})"
    raise ConfigError([f"{path}: {fault}"])


@dataclass
class Overlay:
    """Overlays one node on another, and collects conflicts in `faults`, each with its place.

    A node with another `use` is replaced, one with the same `use` (or none) is merged, and `null`
    drops it. A new slot is inserted at the position that `before:` or `after:` gives; without
    these, a stage that prepares the question is inserted before the first that calls the model. If
    the slot exists already, they move it. A contestant's stages are overlays themselves; their
    slots get a position when they are overlaid on the file's. `hint` is appended to the fault about
    a slot without a position.
    """

    faults: Faults = field(default_factory=Faults)
    hint: str = ""

    def __call__(self, base: Any, top: Any, place: str = "") -> Any:
        if not (isinstance(base, Mapping) and isinstance(top, Mapping)):
            return top
        if "use" in top and top["use"] != base.get("use"):
            return dict(top)
        if place.rpartition(".")[2] == "stages" and not place.startswith("contestants."):
            return self.overlay_stages(dict(base), top, place)
        if not place:
            base, top = _name_one_task(base, top)
        merged = dict(base)
        for key, value in top.items():
            merged[key] = self(base.get(key), value, f"{place}.{key}" if place else str(key))
        return merged

    def overlay_stages(self, base: Node, top: Mapping[str, Any], place: str) -> Node:
        """Overlay stages, keeping their order and inserting each new slot at its position."""
        merged = dict(base)
        for slot, value in top.items():
            here, is_there = f"{place}.{slot}", slot in merged
            node = value if isinstance(value, Mapping) else {}
            anchors = {side: node[side] for side in ("before", "after") if node.get(side)}
            merged[slot] = self(base.get(slot), value, here) if is_there else value
            is_new = base and not is_there and value is not None
            if is_new and not anchors and (asking := _find_calling_slot(base, node)):
                anchors = {"before": asking}
            if anchors:
                merged = self._insert_stages(merged, slot, anchors, here)
            elif is_new:
                place_it = f"add `before:` or `after:` with one of {', '.join(base)}"
                self.faults.append(f"{here}: a new slot needs a position; {place_it}{self.hint}")
        return merged

    def _insert_stages(
        self, stages: Node, slot: str, anchors: Mapping[str, Any], place: str
    ) -> Node:
        node = {k: v for k, v in stages.pop(slot).items() if k not in ("before", "after")}
        (side, anchor), *others = anchors.items()
        order = list(stages)
        if others or anchor not in stages:
            fault = "both `before:` and `after:`" if others else f"{side}: {anchor}"
            self.faults.append(f"{place}: found {fault}; name one of {', '.join(stages)}")
            order.append(slot)
        else:
            order.insert(order.index(anchor) + (side == "after"), slot)
        stages[slot] = node
        return {name: stages[name] for name in order}


def _find_calling_slot(stages: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the first slot that calls the model, before which a new stage that only prepares the
    question is inserted; "" if there is none, or if the new stage calls the model or answers."""
    use = str(new.get("use", "")).removeprefix("looktwice.")
    if not use or not (is_foreign(use) or (use.startswith("prompting.") and not _calls_model(new))):
        return ""
    return next((slot for slot, node in stages.items() if slot == "ask" or _calls_model(node)), "")


def _calls_model(node: Any) -> bool:
    """Return whether the class of a node belongs to looktwice and may call the model. A class that
    only delegates to the stages or sources in its settings may do so if one of them may."""
    if not isinstance(node, Mapping) or is_foreign(use := str(node.get("use", ""))):
        return False
    try:
        kind = find_class(use)
    except ValueError:  # reported when it is built
        return False
    if isinstance(getattr(kind, "asks", True), property):
        return any(_calls_model(inner) for inner in node.values() if _has_class(inner))
    return asks_model(kind)


def _has_class(node: Any) -> bool:
    return isinstance(node, Mapping) and "use" in node


def get_task_name(task: Any) -> str:
    """Return the name of a single task in tables: its `name` or `kind`, else `task`."""
    name = task.get("name") or task.get("kind") if isinstance(task, Mapping) else None
    return name if isinstance(name, str) else "task"


def _name_one_task(base: Mapping[str, Any], top: Mapping[str, Any]) -> tuple[Node, Node]:
    """Rewrite two configurations with the same single task so that both use `task:` or both use
    `tasks:`."""
    below, above = dict(base), dict(top)
    tasks = {name: node for name, node in (below.get("tasks") or {}).items() if node is not None}
    if len(tasks) == 1 and above.get("task") is not None and "tasks" not in above:
        above["tasks"] = {next(iter(tasks)): above.pop("task")}
    elif below.get("task") is not None and get_task_name(below["task"]) in (
        above.get("tasks") or {}
    ):
        task = below.pop("task")
        below["tasks"] = {get_task_name(task): task}
    return below, above


def nest_value(place: str, value: Any) -> Node:
    """Return the node that sets `value` at a dotted place; a place under `sweep` stays one key,
    including its dots."""
    first, _, rest = place.partition(".")
    if first == "sweep" and rest:
        return {first: {rest: value}}
    return {first: nest_value(rest, value) if rest else value}


def resolve_references(node: Node, faults: Faults) -> Node:
    """Resolve every `${a.b}` in a node with OmegaConf. Dangling references are noted as faults, and
    so are OmegaConf's resolvers, which could read the environment."""
    texts = {
        place: text
        for place, text in iterate_leaves(node)
        if isinstance(text, str) and "${" in text
    }
    if not texts:
        return node
    named = [*texts, *(name for text in texts.values() for name in REFERENCE_PATTERN.findall(text))]
    parts = {re.split(r"[.[]", place)[0] for place in named}  # resolving the rest would take long
    tree = OmegaConf.create({name: part for name, part in node.items() if name in parts})
    wrong = dict[str, list[str]]()
    for place, text in texts.items():
        if fault := _describe_reference_fault(tree, text):
            wrong.setdefault(fault, []).append(place)
    for fault, (first, *others) in wrong.items():
        also = f", and likewise for the other places that refer to it: {', '.join(others[:3])}"
        faults.note(f"{first}: {fault}; type {first}=VALUE{also if others else ''}")
    return node if wrong else node | cast(Node, OmegaConf.to_container(tree, resolve=True))


def _describe_reference_fault(tree: Any, text: str) -> str:
    """Describe what is wrong with the references in a string; "" if nothing is."""
    if "${" in REFERENCE_PATTERN.sub("", text):
        only = "${...} may hold only a place in this configuration, such as ${a.b}"
        return f"{text!r} is refused: {only}"
    for reference in REFERENCE_PATTERN.findall(text):
        try:
            if OmegaConf.select(tree, reference, default=MISSING) is not MISSING:
                continue
            above, _, last = reference.rpartition(".")
            why = f", because {above or 'the configuration'} has no {last!r}"
        except (OmegaConfBaseException, RecursionError) as exc:
            why = f" ({str(exc).splitlines()[0]:.80})"
        return f"${{{reference}}} refers to no entry{why}"
    return ""


OVERLAY_KEYS = ("model", "stages", "read", "draws")  # what a contestant may overlay
NESTED_SCHEMAS: dict[tuple[str, int], type] = {
    ("contestants", 3): Contestant,
    ("contestants", 4): Needs,
}
"""Schemas of nested entries, by the first part of a dotted place and its number of parts."""


def find_extension_keys(config: Mapping[str, Any]) -> dict[str, Key]:
    """Return the extension keys that a configuration uses, by name; `null` drops one."""
    keys = dict[str, Key]()
    for name, value in config.items():
        if name in StudyConfig.__annotations__ or value is None:
            continue
        if extension := find_extension("keys", name):
            keys[name] = extension.open()()
    return keys


def make_study_schema(keys: Mapping[str, Key]) -> Any:
    """Return the schema of a study that also has these extension keys."""
    if not keys:
        return StudyConfig
    entries = get_type_hints(StudyConfig, include_extras=True)
    for name, key in keys.items():
        entries[name] = Annotated[key.schema | None, key.about, key.example]
    make: Any = TypedDict  # its names are known only at run time
    schema = make("StudyConfig", entries, total=False)
    schema.__pydantic_config__ = FORBID_EXTRA
    return schema


def _list_entries(words: Sequence[str], keys: Mapping[str, Key]) -> list[str]:
    """Return the entries that are valid at the place of an unknown one."""
    if len(words) == 2 and words[0] in keys:
        return [*keys[words[0]].schema.__annotations__]
    if known := NESTED_SCHEMAS.get((words[0], len(words))):
        return [*known.__annotations__]
    return [*StudyConfig.__annotations__, *list_extensions("keys")]


def find_shape_faults(config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return a fault for each unknown entry and each entry of the wrong type."""
    unknown, wrong, keys = Faults(), Faults(), find_extension_keys(config)
    schema = make_study_schema(keys)
    try:
        TypeAdapter(schema).validate_python(dict(config))
    except ValidationError as exc:
        for error in exc.errors(include_url=False, include_context=False):
            words = [str(word) for word in error["loc"]]
            if error["type"] == "extra_forbidden":
                entries = _list_entries(words, keys)
                near = suggest_place(words[-1], config) or suggest_names(words[-1], entries)
                from looktwice.pipelines.config.foreign_names import HINTS

                hint = HINTS.get(words[-1], f"there are {', '.join(entries)}")
                unknown.note(f"{'.'.join(words)}: no such entry{extend_hint(near, hint)}")
            else:
                # pydantic inserts the names of union members into the location
                place = ".".join(
                    word for word in words if "[" not in word and word not in UNION_MEMBER_LOCATIONS
                )
                shown = repr(error["input"])
                shown = shown if len(shown) < 80 else f"{shown[:77]}..."
                message = error["msg"][0].lower() + error["msg"][1:]
                message = message.replace("valid dictionary", "mapping")
                entry = get_type_hints(schema, include_extras=True)[words[0]]
                example = entry.__metadata__[-1]
                wrong.note(f"{place}: {message}, found {shown}; example: `{example}`")
    return unknown, wrong


def suggest_place(word: str, config: Mapping[str, Any]) -> str:
    """Return `; did you mean 'X'?` with the place of a slot or stage setting of this name, or
    ""."""
    stages = config.get("stages")
    for slot, node in stages.items() if isinstance(stages, Mapping) else ():
        if word == slot or (isinstance(node, Mapping) and word in node):
            return f"; did you mean 'stages.{slot}{f'.{word}' * (word != slot)}'?"
    return ""


UNION_MEMBER_LOCATIONS = ("str", "dict", "list", "none")

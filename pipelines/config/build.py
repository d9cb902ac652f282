"""Builds objects from configuration nodes: `use` names the class, other keys are its fields."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from looktwice.pipelines.config.classes import (
    ClassKind,
    ConfigError,
    Faults,
    check_kind,
    explain_mismatch,
    find_class,
    find_dataclass,
    get_default,
    get_hints,
    get_inner_hint,
    holds_path,
    is_plain,
    list_union_members,
    suggest_names,
)
from looktwice.pipelines.config.paths import Scope, read_allowed, read_grant, require_permission
from looktwice.pipelines.json_input import find_non_finite

# otherwise the text "nan" would become a number
ARBITRARY_TYPES_CONFIG = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False)


@dataclass
class Binder:
    """Builds objects from nodes and collects every fault, prefixed with the place (the dotted path)
    of its entry; equal nodes share one object.

    A fault that several arms share is listed once in `faults`, but counted each time in
    `fault_count`. `files` maps the place of each named file to its path, `named_paths` holds all
    files and folders that nodes name, `hosts` the hosts of their URLs, and `permissions` what the
    user allowed their classes to do. `change_sources` maps the place of a changed setting to the
    entry of the study that changes it, such as one of `sweep`; faults are reported there.
    """

    scope: Scope = field(default_factory=Scope)
    models: Mapping[str, Any] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    built_objects: dict[str, Any] = field(default_factory=dict)
    fault_count: int = 0
    files: dict[str, Path] = field(default_factory=dict)
    named_paths: set[Path] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    permissions: set[str] = field(default_factory=set)
    change_sources: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def for_run(cls, run: Path, plugins: Sequence[str] = ()) -> Binder:
        """Create a binder for the records of a run, with the access rights of
        `Scope.for_records`."""
        names = tuple(plugins)
        if read_grant(run).plugins:
            from looktwice.pipelines.config.plugin_code import load_run_plugins

            names = (*names, *load_run_plugins(run, names))
        return cls(Scope.for_records(run, names))

    @classmethod
    def for_checked_paths(cls, plugins: Sequence[str] = ()) -> Binder:
        """Create a binder for nodes whose paths were already checked, such as those of a plan."""
        return cls(Scope(Path("/"), plugins=tuple(plugins)))

    def build(self, node: Any, place: str = "node") -> Any:
        """Build the object that a node describes. Raises ConfigError with all faults."""
        binder = dataclasses.replace(self, faults=Faults())
        made = binder.build_node(node, place)
        if binder.faults:
            raise ConfigError(binder.faults)
        return made

    def build_node(self, node: Any, place: str, kind: ClassKind | None = None) -> Any:
        """Build the object of a node with `use`, which must be of this kind; on a fault, note it
        and return None."""
        if not isinstance(node, Mapping) or not isinstance(node.get("use"), str):
            write = f"; write {{use: {node}}}" if isinstance(node, str) else ""
            return self.note_fault(
                place, f"expected a node with `use: folder.room.Class`, found {node!r}{write}"
            )
        if no_number := find_non_finite(node):
            return self.note_fault(
                f"{place}.{no_number[0]}", f"a number must be finite, found {no_number[1]}"
            )
        try:
            cls = find_class(node["use"], self.scope.plugins)
            check_kind(cls, kind)
            if permission := getattr(cls, "permission", None):
                self.permissions.add(require_permission(permission, self.scope))
        except ValueError as exc:
            return self.note_fault(f"{place}.use", str(exc))
        key = repr((node, self.models if "'ref':" in repr(node) else ()))
        if key in self.built_objects:
            return self.built_objects[key]
        # loading has already applied `before` and `after`
        given = {str(k): v for k, v in node.items() if k not in ("use", "before", "after")}
        made = self.build_fields(cls, given, place)
        if made is not None:
            self.built_objects[key] = made
        return made

    def build_fields(
        self, cls: type, settings: Mapping[str, Any], place: str, base: Any = None
    ) -> Any:
        """Build an object of the dataclass `cls`; on faults in its settings, note them and return
        None.

        Missing settings are taken from `base`, an object of the class, or else from the defaults.
        """
        if not dataclasses.is_dataclass(cls):
            return self.note_fault(
                place,
                f"{cls.__name__} is not a dataclass; its fields are its settings, so write"
                " @dataclass(frozen=True) above it",
            )
        before, hints = self.fault_count, get_hints(cls)
        own_fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
        for name in settings.keys() - own_fields.keys():
            from looktwice.pipelines.config.foreign_names import HINTS

            hint = HINTS.get(name, f"it has {', '.join(own_fields) or 'none'}")
            near = suggest_names(name, own_fields) or f"; {hint}"
            self.note_fault(f"{place}.{name}", f"{cls.__name__} has no setting {name!r}{near}")
        for name, f in own_fields.items():
            if base is None and name not in settings and get_default(f) is dataclasses.MISSING:
                wanted = f"; see `looktwice list {cls.__name__}`"
                if hints.get(name) is Path:
                    wanted = ", a path"
                elif get_origin(hints.get(name)) is Literal:
                    wanted = f", one of {', '.join(map(str, get_args(hints[name])))}"
                self.note_fault(place, f"{cls.__name__} needs the setting {name!r}{wanted}")
        values = {
            k: self.build_value(
                v, hints.get(k, Any), f"{place}.{k}", getattr(base, k, get_default(own_fields[k]))
            )
            for k, v in settings.items()
            if k in own_fields
        }
        if self.fault_count > before:
            return None
        try:
            return cls(**values) if base is None else dataclasses.replace(base, **values)
        except (ValueError, TypeError) as exc:
            # a class that rejects a value begins its message with the name of the setting
            setting = re.match(r"\w*", str(exc))[0]  # type: ignore[index]  # it always matches
            return self.note_fault(f"{place}.{setting}" if setting in settings else place, str(exc))

    def build_value(self, value: Any, hint: Any, place: str, default: Any = None) -> Any:
        """Build a setting's value and check it against its type hint. A mapping without `use`
        changes settings of the object `default`."""
        if isinstance(value, Mapping) and value.keys() == {"ref"}:
            return self._build_reference(value["ref"], place)
        before, made = self.fault_count, self._convert(value, hint, place, default)
        if self.fault_count > before:
            return None
        built = dataclasses.is_dataclass(made) or _has_node(value)
        return made if built else self._validate(made, hint, place)

    def _convert(self, value: Any, hint: Any, place: str, default: Any = None) -> Any:
        """Replace nodes, paths and mappings in a value with the objects that they describe."""
        if isinstance(value, str):
            if self.faults and "${" in value:  # a reference that was reported as unresolvable
                self.fault_count += 1
            if holds_path(hint):
                return self._resolve_path(value, place)
            self.hosts.update(filter(None, [self.scope.find_host(value, place)]))
            return value
        if not isinstance(value, Mapping | list | tuple):
            return value
        if isinstance(value, Mapping):
            if "use" in value:
                return self._build_node_for_hint(value, hint, place)
            base = default if dataclasses.is_dataclass(default) else None
            if cls := find_dataclass(hint) if base is None else type(base):
                return self.build_fields(cls, value, place, base)
        many = _has_node(value)  # each item is checked separately
        make = self.build_value if many else self._convert
        if isinstance(value, Mapping):
            return {
                key: make(inner, get_inner_hint(hint, key), f"{place}.{key}")
                for key, inner in value.items()
                if not (many and inner is None)
            }
        made = [make(v, get_inner_hint(hint, i), f"{place}[{i}]") for i, v in enumerate(value)]
        return tuple(made) if many else made

    def _build_node_for_hint(self, node: Mapping[str, Any], hint: Any, place: str) -> Any:
        if is_plain(hint):
            return self.note_fault(
                place, f"expected {_format_hint(hint)}, found a node of {node['use']!r}"
            )
        made = self.build_node(node, place)
        wrong = explain_mismatch(type(made), hint) if made is not None else ""
        return self.note_fault(f"{place}.use", wrong) if wrong else made

    def _resolve_path(self, text: str, place: str) -> Path | None:
        """Resolve a path; on a fault, note it and return None."""
        try:
            path = self.scope.resolve_path(text, place)
            self.named_paths.add(path)
            if path.is_file():
                self.files[place] = path
            return path
        except ValueError as exc:
            self.note_fault(place, str(exc))
        return None

    def _build_reference(self, name: Any, place: str) -> Any:
        if name not in self.models:
            return self.note_fault(
                f"{place}.ref",
                f"no model {name!r} under `models:`{suggest_names(str(name), self.models)}",
            )
        return self.build_node(self.models[name], f"models.{name}", "model")

    def _validate(self, value: Any, hint: Any, place: str) -> Any:
        if isinstance(value, bool) and is_plain(hint) and bool not in list_union_members(hint):
            return self.note_fault(place, f"expected {_format_hint(hint)}, found {value!r}")
        if value is None and type(None) in list_union_members(hint):
            return None
        try:
            # in a tuple, because pydantic allows only one configuration for a type
            return TypeAdapter(tuple[hint], config=ARBITRARY_TYPES_CONFIG).validate_python(
                (value,)
            )[0]
        except ValidationError as exc:
            wrong = exc.errors(include_url=False, include_context=False)[0]
            more = "" if wrong["type"] == "literal_error" else f" ({wrong['msg']})"
            if cls := find_dataclass(hint):
                more = f"; write a mapping of {', '.join(get_hints(cls))}"
            several = isinstance(value, list) or (isinstance(value, str) and "," in value)
            if several and is_plain(hint):
                more += f"; to try several values, sweep them: 'sweep.{place}=[ONE, OTHER]'"
            return self.note_fault(place, f"expected {_format_hint(hint)}, found {value!r}{more}")
        # the hint is a protocol, which no plain value satisfies; an empty list is fine
        except SchemaError:
            if isinstance(value, list | tuple) and not value:
                return ()
            wanted = f"expected a node with `use:` ({_format_hint(hint)}), found {value!r}"
            return self.note_fault(place, f"{wanted}; write {{use: folder.room.Class}}")

    def note_fault(self, place: str, text: str) -> None:
        """Note a fault, unless it is already listed."""
        self.fault_count += 1
        bare = re.sub(r"^contestants\.[^.]+\.", "", place)  # a change applies to every contestant
        own, where = place.removesuffix(bare).removesuffix("."), ""
        for changed, entry in self.change_sources.items():
            if f"{bare}.".startswith(f"{changed}."):
                where = f" (in {own})" if own and own not in entry else ""
                place = f"{entry}{bare.removeprefix(changed)}"
        fault = f"{place}: {text}"
        if not any(noted.startswith(fault) for noted in self.faults):
            self.faults.note(f"{fault}{where}")


def build(
    node: Mapping[str, Any],
    scope: Scope | None = None,
    place: str = "node",
    plugins: Sequence[str] = (),
    given_paths: Sequence[str] = (),
) -> Any:
    """Build the object of one node, which messages call `place`. Raises ConfigError with all
    faults.

    Without a scope, the node may reach the working folder, the paths in `given_paths`, and what the
    user allowed.
    """
    own = scope or Scope(Path(), tuple(given_paths), tuple(plugins), read_allowed())
    return Binder(own).build(node, place)


def _format_hint(hint: Any) -> str:
    return (
        hint.__name__
        if isinstance(hint, type)
        else str(hint).replace("typing.", "").replace("collections.abc.", "")
    )


def _has_node(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "use" in value or any(map(_has_node, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_node, value))

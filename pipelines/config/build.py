"""From a node of a configuration to an object: `use` names the class, the other keys are its
fields.

`use: prompting.markers.Circles` is the class that `from looktwice.prompting.markers import Circles`
gives: folder, room and class. A room is a module or a package directly under a folder; which of its
files defines the class is private. Only public classes defined in a room, under our own folders or
under packages that the caller named, can be reached.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from looktwice.pipelines.config.aliases import resolve_alias
from looktwice.pipelines.config.allowances import allowed_to
from looktwice.pipelines.config.paths import (
    Asker,
    OutsideError,
    allowed_roots,
    pass_fence,
    shortest,
)
from looktwice.pipelines.config.schema import (
    Kind,
    check_kind,
    dataclass_in,
    holds_path,
    inner_hint,
    is_plain,
    members,
    misfit,
    type_hints,
)
from looktwice.pipelines.config.suggest import did_you_mean
from looktwice.pipelines.model import canonical, first_non_finite

FOLDERS = ("pipelines", "prompting", "specialists", "eval")
REPLIES = "_replies"
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
ARBITRARY = ConfigDict(
    arbitrary_types_allowed=True, allow_inf_nan=False
)  # a text "nan" would become a number
_loaded: set[str] = set()  # the first words of the plugins' names


class ConfigError(ValueError):
    """Every fault of a configuration at once, each with the place where it stands."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True)
class Scope:
    """What a configuration may reach: its own folder, what the command line names or allows, and
    named plugins.

    What is guarded: a configuration that somebody else wrote must not read this machine's files and
    send them to the server that it names. Links are followed first, so a link in its folder opens
    nothing. `what` names in faults what the paths stand in, and `source` is its file, or the folder
    of a run, which the user may allow to read more.
    """

    folder: Path = Path()
    given: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    allowed: tuple[Path, ...] = ()
    what: str = "configuration"
    source: Path | None = None

    @classmethod
    def of_records(cls, run: Path, plugins: Sequence[str] = ()) -> Scope:
        """That of a run's own records, which name every file in full, and which somebody may have
        sent.

        They reach the run's folder, the working folder and what the user allows.
        """
        roots = (Path.cwd().resolve(), *allowed_roots(), *allowed_to(run))
        return cls(run, plugins=tuple(plugins), allowed=roots, what="run", source=run)

    def path(self, text: str) -> Path:
        """A path of the configuration as a real one. Raises OutsideError, and ValueError where it
        does not exist.

        A path given on the command line counts from the working folder, any other from the file's
        own folder. Beside given data its recorded replies may be read: with `data/blink`,
        `data/blink_replies` is given too.
        """
        if any(text.startswith(given) for given in self.given):
            found = Path(text).expanduser().resolve()
            roots = [
                Path(given + more).expanduser().resolve()
                for given in self.given
                for more in ("", REPLIES)
            ]
        else:
            found, roots = (
                (self.folder / Path(text).expanduser()).resolve(),
                [self.folder.resolve()],
            )
        if not found.exists():
            raise ValueError(f"{text!r} does not exist (looked for {found})")
        typed = shortest(self.source) if self.source else ""
        pass_fence(
            text, found, (*roots, *self.allowed), Asker(self.folder, self.what, typed, self.plugins)
        )
        if not (found.is_file() or found.is_dir()):
            raise ValueError(f"{text!r} is a pipe or a device ({found}); name a file or a folder")
        return found


def locate(use: str, plugins: Sequence[str] = ()) -> type:
    """The class behind a `use`. Raises ValueError that says what is wrong and what may have been
    meant.

    The words are checked before anything is imported.
    """
    parts = resolve_alias(use)[0].removeprefix("looktwice.").split(".")
    if len(parts) < 2 or not all(WORD.fullmatch(part) for part in parts):
        raise ValueError(
            f"{use!r} is not the path of a public class, such as prompting.markers.Circles"
        )
    ours, name = parts[0] in FOLDERS, parts[-1]
    room = _own_room(parts, use) if ours else _plugin_module(parts, use, plugins)
    try:
        module = importlib.import_module(room)
    except ImportError as exc:
        raise ValueError(f"{use!r}: {room} cannot be imported ({exc})") from exc
    public = getattr(module, "__all__", () if ours else vars(module))
    if name not in public or not _is_class(module, name):
        known = [n for n in public if _is_class(module, n)]
        raise ValueError(f"no public class {name!r} in {room}{did_you_mean(name, known)}")
    return getattr(module, name)  # type: ignore[no-any-return]


def place_in_plugins(exc: BaseException) -> str:
    """Function, file and line of the innermost code of a loaded plugin in an exception's traceback;
    empty without."""
    found, trace = "", exc.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if name in _loaded:
            code = trace.tb_frame.f_code
            found = f"{code.co_qualname} ({code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found


def is_foreign(use: str) -> bool:
    """Whether a `use` names a class outside looktwice, which only a plugin can bring."""
    return bool(use) and use.removeprefix("looktwice.").partition(".")[0] not in FOLDERS


def load_plugin(text: str) -> str:
    """Make a package, or one .py file, reachable for `use`; gives its name. Raises ConfigError.

    The file may import those beside it: its folder is put last among the places where Python looks.
    """
    path = Path(text)
    name = path.stem if path.suffix == ".py" else text
    if name.split(".")[0] in (*FOLDERS, "configs", "looktwice") or not WORD.fullmatch(name):
        raise ConfigError(
            [
                f"--plugin {text}: the name {name!r} is taken or not a plain name; rename the file"
                " or package"
            ]
        )
    if path.suffix != ".py":
        if importlib.util.find_spec(name) is None:
            raise ConfigError([f"--plugin {text}: no package of this name is installed"])
        _loaded.add(name.partition(".")[0])
        return name
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError([f"--plugin {text}: no such file"])
    if (
        name in sys.modules
        and Path(getattr(sys.modules[name], "__file__", None) or "").resolve() != path.resolve()
    ):
        raise ConfigError(
            [f"--plugin {text}: a module named {name!r} is already loaded; rename the file"]
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _loaded.add(name)
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError, NameError, AttributeError, TypeError, ValueError) as exc:
        del sys.modules[name]
        raise ConfigError(
            [f"--plugin {text}: it cannot be imported ({type(exc).__name__}: {exc})"]
        ) from exc
    return name


@dataclass
class Binder:
    """Checks and builds nodes, and gathers every fault with its place; equal nodes build one
    object.

    A fault met again, in another arm, is not said twice, but counts in `noticed`. `files` are those
    that it names, by the place of their name.
    """

    scope: Scope = field(default_factory=Scope)
    models: Mapping[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    built: dict[str, Any] = field(default_factory=dict)
    noticed: int = 0
    outside: set[Path] = field(default_factory=set)
    files: dict[str, Path] = field(default_factory=dict)

    def node(self, node: Any, place: str, kind: Kind | None = None) -> Any:
        """The object of a node with `use`, or None with its faults noted; `kind` says what it must
        be."""
        if not isinstance(node, Mapping) or not isinstance(node.get("use"), str):
            return self.fault(
                place, f"expected a node with `use: folder.room.Class`, found {node!r}"
            )
        if no_number := first_non_finite(node):
            return self.fault(
                f"{place}.{no_number[0]}", f"a number must be finite, found {no_number[1]}"
            )
        try:
            key = canonical(self._with_refs(node))
            cls = locate(node["use"], self.scope.plugins)
            check_kind(cls, kind)
        except ValueError as exc:
            return self.fault(f"{place}.use", str(exc))
        if key in self.built:
            return self.built[key]
        given = {str(k): v for k, v in node.items() if k not in ("use", "before", "after")}
        made = self.fields(cls, {**resolve_alias(node["use"])[1], **given}, place)
        if made is not None:
            self.built[key] = made
        return made

    def fields(self, cls: type, settings: Mapping[str, Any], place: str, base: Any = None) -> Any:
        """An object of the dataclass `cls`, or None with every fault of its settings noted.

        What is not given is as in `base`, an object of the class, or else the class's own default.
        """
        if not dataclasses.is_dataclass(cls):
            return self.fault(
                place,
                f"{cls.__name__} is not a dataclass; its fields are its settings, so make it one",
            )
        before, hints = self.noticed, type_hints(cls)
        known = {f.name: f for f in dataclasses.fields(cls) if f.init}
        for name in settings.keys() - known.keys():
            self.fault(
                f"{place}.{name}",
                f"{cls.__name__} has no setting {name!r}{did_you_mean(name, known)}",
            )
        for name, f in known.items():
            if base is None and name not in settings and _default(f) is dataclasses.MISSING:
                self.fault(place, f"{cls.__name__} needs the setting {name!r}")
        values = {
            k: self.value(
                v, hints.get(k, Any), f"{place}.{k}", getattr(base, k, _default(known[k]))
            )
            for k, v in settings.items()
            if k in known
        }
        if self.noticed > before:
            return None
        try:
            return cls(**values) if base is None else dataclasses.replace(base, **values)
        except (ValueError, TypeError) as exc:
            setting = re.match(r"\w*", str(exc))[0]  # type: ignore[index]  # it always matches
            return self.fault(f"{place}.{setting}" if setting in settings else place, str(exc))

    def value(self, value: Any, hint: Any, place: str, default: Any = None) -> Any:
        """A setting's value, checked against its type hint; a mapping without `use` changes
        `default`, an object."""
        if (
            self.faults and isinstance(value, str) and "${" in value
        ):  # a reference that was reported as unresolvable
            self.noticed += 1
            return None
        if isinstance(value, Mapping) and "use" in value:
            if is_plain(hint):
                return self.fault(
                    place, f"expected {_shown(hint)}, found a node of {value['use']!r}"
                )
            made = self.node(value, place)
            wrong = misfit(type(made), hint) if made is not None else ""
            return self.fault(f"{place}.use", wrong) if wrong else made
        if isinstance(value, Mapping) and value.keys() == {"ref"}:
            return self._model(value["ref"], place)
        if (
            isinstance(value, Mapping)
            and dataclasses.is_dataclass(default)
            and not isinstance(default, type)
        ):
            return self.fields(type(default), value, place, default)
        if isinstance(value, Mapping) and (cls := dataclass_in(hint)):
            return self.fields(cls, value, place)
        if _has_node(value):
            return self._inside(value, hint, place)
        before, value = self.noticed, self._inner(value, hint, place)
        return self._checked(value, hint, place) if self.noticed == before else None

    def _inner(self, value: Any, hint: Any, place: str) -> Any:
        """The value in which every path, and every mapping that stands for a dataclass, is made
        what it stands for."""
        if isinstance(value, str):
            return self._path(value, place) if holds_path(hint) else value
        if isinstance(value, Mapping):
            if cls := dataclass_in(hint):
                return self.fields(cls, value, place)
            return {
                key: self._inner(each, inner_hint(hint, key), f"{place}.{key}")
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                self._inner(each, inner_hint(hint, i), f"{place}[{i}]")
                for i, each in enumerate(value)
            ]
        return value

    def _path(self, text: str, place: str) -> Path | None:
        """The path, or None with a fault, which names the first of all paths that one root would
        allow."""
        try:
            found = self.scope.path(text)
            if found.is_file():
                self.files[place] = found
            return found
        except OutsideError as exc:
            self.noticed += 1
            if exc.root not in self.outside:
                self.fault(place, str(exc))
            self.outside.add(exc.root)
        except ValueError as exc:
            self.fault(place, str(exc))
        return None

    def _with_refs(self, value: Any) -> Any:
        """Plain values, in which a reference stands for what it names: two models under one name
        are two objects."""
        if isinstance(value, Mapping):
            named = (
                self.models.get(value["ref"])
                if value.keys() == {"ref"} and isinstance(value["ref"], str)
                else None
            )
            return (
                self._with_refs(named)
                if named
                else {str(k): self._with_refs(v) for k, v in value.items()}
            )
        return [self._with_refs(v) for v in value] if isinstance(value, list | tuple) else value

    def _inside(self, value: Any, hint: Any, place: str) -> Any:
        def inner(each: Any, key: Any, where: str) -> Any:
            return self.value(each, Any if _has_node(each) else inner_hint(hint, key), where)

        if isinstance(value, Mapping):
            return {k: inner(v, k, f"{place}.{k}") for k, v in value.items() if v is not None}
        return tuple(inner(v, i, f"{place}[{i}]") for i, v in enumerate(value))

    def _model(self, name: Any, place: str) -> Any:
        if name not in self.models:
            return self.fault(
                f"{place}.ref",
                f"no model {name!r} under `models:`{did_you_mean(str(name), self.models)}",
            )
        return self.node(self.models[name], f"models.{name}", "model")

    def _checked(self, value: Any, hint: Any, place: str) -> Any:
        if isinstance(value, bool) and is_plain(hint) and bool not in members(hint):
            return self.fault(place, f"expected {_shown(hint)}, found {value!r}")
        if value is None and type(None) in members(hint):
            return None
        try:
            return TypeAdapter(
                hint, config=None if _configured(hint) else ARBITRARY
            ).validate_python(value)
        except ValidationError as exc:
            wrong = exc.errors(include_url=False, include_context=False)[0]
            more = "" if wrong["type"] == "literal_error" else f" ({wrong['msg']})"
            return self.fault(place, f"expected {_shown(hint)}, found {value!r}{more}")
        # a protocol: any object may stand here, a plain value never; none of several is no value
        except SchemaError:
            if isinstance(value, list | tuple) and not value:
                return ()
            return self.fault(
                place, f"expected a node with `use:` ({_shown(hint)}), found {value!r}"
            )

    def fault(self, place: str, text: str) -> None:
        """Note a fault, once."""
        self.noticed += 1
        line = f"{place}: {text}"
        if line not in self.faults:
            self.faults.append(line)


def build(node: Mapping[str, Any], scope: Scope | None = None, place: str = "node") -> Any:
    """The object of one node, which stands at `place` in messages. Raises ConfigError with all
    faults."""
    binder = Binder(scope or Scope())
    made = binder.node(node, place)
    if binder.faults:
        raise ConfigError(binder.faults)
    return made


def _own_room(parts: Sequence[str], use: str) -> str:
    """The module of the room that a path of ours names. Raises ValueError with the right path where
    there is one."""
    rooms = {found.name: found.ispkg for found in _rooms(parts[0])}
    if len(parts) == 3 and parts[1] in rooms:
        return f"looktwice.{parts[0]}.{parts[1]}"
    packages = (
        (folder, found.name) for folder in FOLDERS for found in _rooms(folder) if found.ispkg
    )
    right = [
        f"{folder}.{room}.{parts[-1]}"
        for folder, room in packages
        if _holds(folder, room, parts[-1])
    ]
    meant = f"; did you mean {right[0]!r}?" if right else did_you_mean(parts[1], rooms)
    raise ValueError(
        f"no room {'.'.join(parts[:-1])!r} (from {use!r}; a class is named by"
        f" folder.room.Class){meant}"
    )


@cache
def _rooms(folder: str) -> list[pkgutil.ModuleInfo]:
    return list(pkgutil.iter_modules(importlib.import_module(f"looktwice.{folder}").__path__))


def _holds(folder: str, room: str, name: str) -> bool:
    return name in importlib.import_module(f"looktwice.{folder}.{room}").__all__


def _plugin_module(parts: Sequence[str], use: str, plugins: Sequence[str]) -> str:
    if parts[0] not in plugins:
        named = f"named are {', '.join(plugins)}" if plugins else "none is named"
        plugin = f"{parts[0]}.py" if Path(f"{parts[0]}.py").is_file() else parts[0]
        raise ValueError(
            f"{use!r} is refused: it lies neither in {', '.join(FOLDERS)} nor in a named plugin"
            f" ({named}); if you trust it, add --plugin {plugin}{did_you_mean(parts[0], FOLDERS)}"
        )
    return ".".join(parts[:-1])


def _is_class(module: Any, name: str) -> bool:
    """Whether the module, or a file of the room that it is, defines a public class of this name."""
    found = getattr(module, name, None)
    if not isinstance(found, type) or name.startswith("_"):
        return False
    return found.__module__ == module.__name__ or found.__module__.startswith(f"{module.__name__}.")


def _default(f: dataclasses.Field[Any]) -> Any:
    return f.default if f.default_factory is dataclasses.MISSING else f.default_factory()


def _configured(hint: Any) -> bool:
    """Whether pydantic refuses a configuration for this hint, because the type brings its own."""
    return isinstance(hint, type) and (
        dataclasses.is_dataclass(hint) or hasattr(hint, "__pydantic_config__")
    )


def _shown(hint: Any) -> str:
    return (
        hint.__name__
        if isinstance(hint, type)
        else str(hint).replace("typing.", "").replace("collections.abc.", "")
    )


def _has_node(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "use" in value or any(_has_node(inner) for inner in value.values())
    return isinstance(value, list | tuple) and any(_has_node(inner) for inner in value)

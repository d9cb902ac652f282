"""Finds the classes that a configuration names, and determines their kinds and settings.

`use: prompting.markers.Circles` is the class that `from looktwice.prompting.markers import Circles`
imports: folder, room and class. A room is a module or a package directly under a folder; which of
its files defines the class is private. A configuration can name only public classes that are
defined in a room, under looktwice's own folders or in packages that the caller named.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from looktwice.pipelines.extensions import list_own_classes

FOLDERS = ("pipelines", "prompting", "specialists", "eval")


CLASS_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


_loaded_plugins: set[str] = set()  # the top-level module names of plugins


class ConfigError(ValueError):
    """All faults of a configuration, each prefixed with the place of its entry."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class AbsentPartError(ValueError):
    """Raised for a part of a suite, such as one task of a benchmark, whose files are missing;
    `found` names the parts that exist, out of `total`."""

    def __init__(self, message: str, suite: str, found: Sequence[str], total: int) -> None:
        super().__init__(message)
        self.suite, self.found, self.total = suite, tuple(found), total


class Faults(list[str]):
    """The faults of a configuration, without duplicates."""

    def note(self, *faults: str) -> None:
        """Add faults that are not listed yet."""
        for fault in faults:
            if fault not in self:
                self.append(fault)


def find_class(use: str, plugins: Sequence[str] = ()) -> type:
    """Return the class that `use:` names. Raises ValueError, which suggests a similar name.

    The name is checked before anything is imported.
    """
    parts = use.removeprefix("looktwice.").split(".")
    if parts[0] == "__main__":
        raise ValueError(
            f"{use!r} is a class of the script or notebook that made the run and cannot be rebuilt;"
            " move it to a .py file and name that with `--plugin`"
        )
    if len(parts) < 2 or not all(CLASS_NAME_PATTERN.fullmatch(part) for part in parts):
        raise ValueError(
            f"{use!r} is not the path of a public class, such as prompting.markers.Circles"
            f"{_suggest_path(parts[-1])}; `looktwice list` lists them"
        )
    ours, name = parts[0] in FOLDERS, parts[-1]
    if ours and (extension := list_own_classes().get(".".join(parts))):
        return extension.open()  # type: ignore[no-any-return]
    room = _resolve_own_room(parts, use) if ours else _resolve_plugin_module(parts, use, plugins)
    try:
        module = importlib.import_module(room)
    except ImportError as exc:
        raise ValueError(f"{use!r}: {room} cannot be imported ({exc})") from exc
    public = getattr(module, "__all__", () if ours else vars(module))
    if name not in public or not _is_class(module, name):
        classes = [n for n in public if _is_class(module, n)]
        classes += _list_extension_names(".".join(parts[:-1])) if ours else []
        raise ValueError(f"no public class {name!r} in {room}{suggest_names(name, classes)}")
    return getattr(module, name)  # type: ignore[no-any-return]


def is_foreign(use: str) -> bool:
    """Return whether the class named by `use` is outside looktwice, so that only a plugin can
    provide it."""
    return bool(use) and use.removeprefix("looktwice.").partition(".")[0] not in FOLDERS


def load_plugin(text: str) -> str:
    """Load a package or a .py file whose classes `use:` may name, and return its module name.
    Raises ConfigError.

    The folder of a file is appended to Python's search path, so that it can import its neighbours.
    """
    path = Path(text)
    is_file = path.suffix == ".py"
    name = path.stem if is_file else text
    if name.split(".")[0] in (*FOLDERS, "configs", "looktwice") or not CLASS_NAME_PATTERN.fullmatch(
        name
    ):
        why = f"the name {name!r} is taken or not a valid name; rename the file or package"
        if Path(file := f"{name.split('.')[0]}.py").is_file():
            why = f"name the file itself: --plugin {file}"
        raise _make_plugin_error(text, why)
    if is_file:
        _import_file(path, name, text)
    elif importlib.util.find_spec(name) is None:
        raise _make_plugin_error(text, "no package of this name is installed")
    _loaded_plugins.add(name)
    return name


def _import_file(path: Path, name: str, text: str) -> None:
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise _make_plugin_error(text, "no such file")
    before = getattr(sys.modules.get(name, spec), "__file__", path)
    if Path(before or "").resolve() != path.resolve():
        raise _make_plugin_error(
            text, f"a module named {name!r} is already loaded; rename the file"
        )
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError, NameError, AttributeError, TypeError, ValueError) as exc:
        del sys.modules[name]
        why = f"it cannot be imported ({type(exc).__name__}: {exc})"
        raise _make_plugin_error(text, why) from exc


def _make_plugin_error(text: str, reason: str) -> ConfigError:
    return ConfigError([f"--plugin {text}: {reason}"])


def find_plugin_frame(exc: BaseException) -> str:
    """Return the function, file and line of the innermost plugin code in a traceback, or ""."""
    place, trace = "", exc.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if name in _loaded_plugins:
            code = trace.tb_frame.f_code
            place = f"{code.co_qualname} ({code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _resolve_own_room(parts: Sequence[str], use: str) -> str:
    """Return the module of the room in a looktwice class path. Raises ValueError, which suggests a
    similar path."""
    folder, rooms = parts[0], _list_rooms(parts[0])
    if len(parts) == 3 and parts[1] in rooms:
        return f"looktwice.{folder}.{parts[1]}"
    if names := _list_extension_names(room := ".".join(parts[:-1])):
        raise ValueError(
            f"no public class {parts[-1]!r} in {room}{suggest_names(parts[-1], names)}"
        )
    meant = _suggest_path(parts[-1]) or suggest_names(parts[1], rooms)
    raise ValueError(
        f"no room {'.'.join(parts[:-1])!r} (from {use!r}; a class is named as"
        f" folder.room.Class){meant}"
    )


def _list_extension_names(room: str) -> list[str]:
    """Return the names of our extensions' classes whose public path is in this room."""
    paths = [path.rpartition(".") for path in list_own_classes()]
    return [name for path_room, _, name in paths if path_room == room]


def _suggest_path(name: str) -> str:
    """Return `; did you mean 'X'?` with the path of the most similar public class, or ""."""
    paths = {path.rpartition(".")[2]: path for path in list_own_classes()}
    for folder in FOLDERS:
        for room in (room for room, is_package in _list_rooms(folder).items() if is_package):
            for public in importlib.import_module(f"looktwice.{folder}.{room}").__all__:
                paths.setdefault(public, f"{folder}.{room}.{public}")
    near = suggest_names(name, paths)
    return near and near.replace(last := near.split("'")[1], paths[last])


@cache
def _list_rooms(folder: str) -> dict[str, bool]:
    """Return a folder's rooms: name -> whether the room is a package."""
    places = importlib.import_module(f"looktwice.{folder}").__path__
    return {module.name: module.ispkg for module in pkgutil.iter_modules(places)}


def _resolve_plugin_module(parts: Sequence[str], use: str, plugins: Sequence[str]) -> str:
    if parts[0] not in plugins:
        named = f"named: {', '.join(plugins)}" if plugins else "none is named"
        plugin = f"{parts[0]}.py" if Path(f"{parts[0]}.py").is_file() else parts[0]
        raise ValueError(
            f"{use!r} is refused: it is neither in {', '.join(FOLDERS)} nor in a named plugin"
            f" ({named}); if you trust it, add --plugin {plugin}{suggest_names(parts[0], FOLDERS)}"
        )
    return ".".join(parts[:-1])


def _is_class(module: Any, name: str) -> bool:
    """Return whether the module, or a file of its room, defines a public class of this name."""
    value = getattr(module, name, None)
    home = f"{getattr(value, '__module__', '')}."
    return (
        isinstance(value, type)
        and not name.startswith("_")
        and home.startswith(f"{module.__name__}.")
    )


def suggest_names(word: str, known: Iterable[object], limit: int = 1) -> str:
    """Return `; did you mean 'X'?` with at most `limit` of the `known` names: those for which other
    programs use `word`, or that resemble it; "" if there are none.

    Ignores case, and treats a space or dash as an underscore.
    """

    def fold_name(name: object) -> str:
        return re.sub("[ -]", "_", str(name).casefold())

    names = {fold_name(name): str(name) for name in known}
    from looktwice.pipelines.config.foreign_names import FOREIGN_NAMES

    meant = [
        fold_name(name)
        for name, others in FOREIGN_NAMES.items()
        if fold_name(word) in others.split()
    ]
    near = [key for key in meant if key in names and fold_name(word) not in names]
    near = near or difflib.get_close_matches(fold_name(word), names, limit, 0.62)
    return (
        f"; did you mean {' or '.join(repr(names[key]) for key in near[:limit])}?" if near else ""
    )


def extend_hint(hint: str, sentence: str) -> str:
    """Append the rest of a message to a hint of `suggest_names`, which may be empty: as a new
    sentence after a question mark, otherwise after a semicolon."""
    return (
        f"{hint} {sentence[:1].upper()}{sentence[1:]}"
        if hint.endswith("?")
        else f"{hint}; {sentence}"
    )


ClassKind = Literal["task", "stage", "model"]


PLAIN_TYPES = (int, float, str, bool, bytes, type(None))


def list_union_members(hint: Any) -> Iterator[Any]:
    """Yield the members of a union, or the hint itself."""
    if get_origin(hint) in (Union, types.UnionType):
        for inner in get_args(hint):
            yield from list_union_members(inner)
    else:
        yield hint


def is_plain(hint: Any) -> bool:
    """Return whether a type hint allows only numbers, strings, booleans and paths, no objects."""
    return all(
        h in PLAIN_TYPES or h is Path or get_origin(h) is Literal for h in list_union_members(hint)
    )


def holds_path(hint: Any) -> bool:
    """Return whether a string with this type hint is the path of a file or folder."""
    return Path in list_union_members(hint) and str not in list_union_members(hint)


def get_inner_hint(hint: Any, key: Any) -> Any:
    """Return the type hint of the value at a key or index of a list, tuple or mapping."""
    for member in list_union_members(hint):
        origin, args = get_origin(member), get_args(member)
        if not (isinstance(origin, type) and issubclass(origin, Collection)):
            continue
        if issubclass(origin, Mapping):
            return args[1]
        if origin is not tuple or args[-1] is Ellipsis:
            return args[0]
        return args[key] if key < len(args) else Any
    return Any


def find_dataclass(hint: Any) -> type | None:
    """Return the dataclass among the members of a type hint, or None."""
    return next(
        (
            h
            for h in list_union_members(hint)
            if isinstance(h, type) and dataclasses.is_dataclass(h)
        ),
        None,
    )


def get_hints(cls: type) -> dict[str, Any]:
    """Return the types of a class's fields by name; empty if they cannot be resolved."""
    try:
        return get_type_hints(cls)
    except NameError:  # a name that a plugin imports for the type checker only
        return {}


def get_default(f: dataclasses.Field[Any]) -> Any:
    """Return the default of a dataclass field, or `dataclasses.MISSING`."""
    return f.default if f.default_factory is dataclasses.MISSING else f.default_factory()


def get_kind(cls: type) -> ClassKind | None:
    """Return the kind of a class, judged by its interface: tasks are iterable, models have an
    identity, stages are only callable."""
    if hasattr(cls, "__iter__") and hasattr(cls, "facts"):
        return "task"
    if "__call__" in dir(cls):
        return "model" if hasattr(cls, "identity") else "stage"
    return None


def explain_mismatch(cls: type, hint: Any) -> str:
    """Explain why an object of the class does not satisfy the hint; "" if it does.

    Function protocols are compared by their return types, so that a face finder does not pass as a
    detector; without a declared return type, the class is accepted.
    """
    classes = [member for member in list_union_members(hint) if isinstance(member, type)]
    protocols = [member for member in classes if getattr(member, "_is_protocol", False)]
    values = tuple(filter(dataclasses.is_dataclass, classes))
    if values and not protocols and not issubclass(cls, values):
        return f"expected {' or '.join(value.__name__ for value in values)}, found {cls.__name__}"
    given, asked = (
        get_return_class(cls),
        {protocol.__name__: get_return_class(protocol) for protocol in protocols},
    )
    if not asked or given is None or None in asked.values():
        return ""
    if issubclass(given, tuple(asked.values())):
        return ""
    wanted = " or ".join(f"a {name}, which returns {kind.__name__}" for name, kind in asked.items())
    return f"expected {wanted}, but {cls.__name__} returns {given.__name__}"


def get_return_class(cls: type) -> Any:
    """Return the class that calling an object of `cls` is declared to return, or None."""
    try:
        given = get_type_hints(cls.__call__).get("return")
    except (NameError, AttributeError):
        return None
    return given if isinstance(given, type) else None


def check_kind(cls: type, wanted: ClassKind | None) -> None:
    """Raise ValueError if a class is not of the wanted kind or lacks one of its methods."""
    if wanted is None:
        return
    if (kind := get_kind(cls)) not in (wanted, None):
        raise ValueError(f"expected a {wanted} here, but {cls.__name__} is a {kind}")
    parts = {*dir(cls), *getattr(cls, "__dataclass_fields__", ())}
    lacking = [
        f"`{part}`" for part in REQUIRED_ATTRIBUTES[wanted] if part.partition("(")[0] not in parts
    ]
    if wanted == "stage" and not lacking:
        takes = inspect.signature(cls.__call__)
        few = len(takes.parameters) < 3 and "*" not in str(takes)
        if few or ("state" not in takes.parameters and not is_foreign(cls.__module__)):
            lacking = [f"`{part}`" for part in REQUIRED_ATTRIBUTES[wanted]]
    if lacking:
        whole = ", ".join(f"`{part}`" for part in REQUIRED_ATTRIBUTES[wanted])
        reads = hasattr(cls, "read") and wanted == "stage"
        reader = "; a reader inherits looktwice.eval.readers.reader.Reader and defines `read`"
        raise ValueError(
            f"a {wanted} needs {whole}; {cls.__name__} lacks {', '.join(lacking)}{reader * reads}"
            " (example: docs/howto/own.md)"
        )


REQUIRED_ATTRIBUTES: Mapping[ClassKind, Sequence[str]] = {
    "task": ("facts", "__len__", "__iter__"),
    "stage": ("__call__(self, state, model)",),
    "model": ("identity", "__call__(self, messages, draw, options)"),
}
"""The attributes that a class of each kind must have."""


def flatten_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten nested changes to one entry per setting; a new node becomes the name of its class
    with its settings."""
    flat: dict[str, Any] = {}
    for key, value in changes.items():
        if isinstance(value, Mapping):
            inner = {k: v for k, v in value.items() if k not in ("use", "before", "after")}
            if "use" not in value:
                flat |= flatten_changes({f"{key}.{name}": v for name, v in inner.items()})
                continue
            shown = ", ".join(f"{name}={v}" for name, v in inner.items())
            flat[key] = _get_class_name(value["use"]) + (f"({shown})" if shown else "")
        else:
            flat[key] = _get_class_name(value) if key.endswith(".use") else value
    return flat


def is_within(place: str, outer: str) -> bool:
    """Return whether a dotted place equals another or lies below it."""
    return f"{place}.".startswith(f"{outer}.")


def _get_class_name(use: Any) -> str:
    return str(use).rpartition(".")[2]

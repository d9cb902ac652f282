"""The settings of a class as a configuration writes them: names, defaults and types."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

import yaml
from typing_extensions import is_typeddict

from looktwice.pipelines.config.classes import dataclass_in
from looktwice.pipelines.config.spec import public_path

__all__: list[str] = []

NEEDED = "..."
SIMPLE = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    type(None): "null",
    Path: "path",
}


def bases_of(cls: type) -> list[type]:
    """The classes from which a class has some of its settings."""
    names = {f.name for f in dataclasses.fields(cls) if f.init}
    return [base for base in cls.__mro__[1:] if names & inspect.get_annotations(base).keys()]


def settings_text(path: str, cls: type) -> str:
    """The class and its settings with their defaults and types, as they stand in a
    configuration."""
    hints, lines = get_type_hints(cls), [f"use: {path}"]
    for f in dataclasses.fields(cls):
        if f.init:
            lines += _setting_lines(f, hints[f.name])
    return "\n".join(lines)


def _setting_lines(f: dataclasses.Field[Any], hint: Any) -> list[str]:
    value = _default(f)
    if value is dataclasses.MISSING:
        return [f"{f.name}: {NEEDED}  # {type_words(hint)}"]
    if isinstance(value, str) and "\n" in value:
        body = (f"  {line}".rstrip() for line in value.splitlines())
        return [f"{f.name}: |{'' if value.endswith(chr(10)) else '-'}  # {type_words(hint)}", *body]
    return [f"{f.name}: {flow(plain(value, hint))}  # {type_words(hint)}"]


def plain(value: Any, hint: Any = None) -> Any:
    """A default as it would be written in place: an object by its class and what differs from that
    one's defaults."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        settings = ((f, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init)
        kept = {f.name: plain(inner) for f, inner in settings if inner != _default(f)}
        return (
            kept if dataclass_in(hint) is type(value) else {"use": public_path(type(value)), **kept}
        )
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def _default(f: dataclasses.Field[Any]) -> Any:
    """The default of a setting; MISSING where it must be given."""
    return f.default if f.default_factory is dataclasses.MISSING else f.default_factory()


def flow(value: Any) -> str:
    """A value in one line of YAML."""
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=float("inf"), allow_unicode=True
    )
    return text.removesuffix("...\n").strip()


def type_words(hint: Any) -> str:
    """A type in a few plain words."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Annotated, NotRequired):
        return type_words(args[0])
    if origin is Literal:
        return " | ".join(flow(arg) for arg in args)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(type_words(arg) for arg in args))
    if origin is tuple and args[-1] is not Ellipsis:
        return f"[{', '.join(map(type_words, args))}]"
    if origin is Callable:
        return "function"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = type_words(args[1])
        return "mapping" if args[1] is Any or inner.startswith("mapping") else f"mapping to {inner}"
    if isinstance(origin, type) and issubclass(origin, Collection):
        return f"list of {type_words(args[0])}" if args[0] is not Any else "list"
    return (
        "mapping"
        if is_typeddict(hint)
        else SIMPLE.get(hint) or str(getattr(hint, "__name__", hint))
    )

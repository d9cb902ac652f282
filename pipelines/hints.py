"""What a type hint of a setting accepts, and what kind of thing a class makes."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["Kind", "check_kind", "dataclass_in", "holds_path", "is_plain", "kind_of", "members", "misfit"]

Kind = Literal["task", "stage", "model"]

PLAIN = (int, float, str, bool, bytes, type(None))


def members(hint: Any) -> Iterator[Any]:
    """The alternatives of a union, or the hint alone."""
    if get_origin(hint) in (Union, types.UnionType):
        for inner in get_args(hint):
            yield from members(inner)
    else:
        yield hint


def is_plain(hint: Any) -> bool:
    """Whether no object can stand here, only numbers, texts, truth values or paths."""
    return all(h in PLAIN or h is Path or get_origin(h) is Literal for h in members(hint))


def holds_path(hint: Any) -> bool:
    """Whether a text given here is the path of a file or folder."""
    return Path in members(hint) and str not in members(hint)


def dataclass_in(hint: Any) -> type | None:
    """The dataclass that a mapping given here stands for, if there is one."""
    return next((h for h in members(hint) if isinstance(h, type) and dataclasses.is_dataclass(h)), None)


def kind_of(cls: type) -> Kind | None:
    """What a class makes, by what it can do: tasks are iterated, models have an identity, stages are only called."""
    if hasattr(cls, "__iter__") and hasattr(cls, "facts"):
        return "task"
    if any("__call__" in vars(base) for base in cls.__mro__):
        return "model" if hasattr(cls, "identity") else "stage"
    return None


def misfit(cls: type, hint: Any) -> str:
    """Why an object of the class cannot stand where the hint asks for a function of a protocol; empty where it can.

    Told by what the two give, so that a finder of faces is no detector; where that is not declared, it may fit.
    """
    asked = {each.__name__: _given_by(each) for each in members(hint) if getattr(each, "_is_protocol", False)}
    given = _given_by(cls)
    if not asked or given is None or any(wanted is None or issubclass(given, wanted) for wanted in asked.values()):
        return ""
    wanted = " or ".join(f"a {name}, which gives {each.__name__}," for name, each in asked.items() if each)
    return f"expected {wanted} and {cls.__name__} gives {given.__name__}"


def _given_by(cls: type) -> type | None:
    """The class of what calling an object of `cls` gives, where it is declared and a class."""
    try:
        given = get_type_hints(cls.__call__).get("return")
    except (NameError, AttributeError):
        return None
    return given if isinstance(given, type) else None


def check_kind(cls: type, wanted: Kind | None) -> None:
    """Raises ValueError where a class makes another kind of thing than its place asks for."""
    found = kind_of(cls)
    if wanted is not None and found != wanted:
        raise ValueError(f"a {wanted} belongs here, and {cls.__name__} makes {f'a {found}' if found else 'none'}")

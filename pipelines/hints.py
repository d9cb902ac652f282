"""What a type hint of a setting accepts, and what kind of thing a class makes."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

__all__ = ["Kind", "check_kind", "dataclass_in", "holds_path", "is_plain", "kind_of", "members"]

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


def check_kind(cls: type, wanted: Kind | None) -> None:
    """Raises ValueError where a class makes another kind of thing than its place asks for."""
    found = kind_of(cls)
    if wanted is not None and found != wanted:
        raise ValueError(f"a {wanted} belongs here, and {cls.__name__} makes {f'a {found}' if found else 'none'}")

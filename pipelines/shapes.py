"""What a JSON value that lies in a file must look like: a shape gives the first fault of a value, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__: list[str] = []

Shape = Callable[[Any], str]
"""The fault of a value, beginning with its place, such as ".calls[0].draw is 'x', not a whole number"; "" for none."""

MOST = 2**53  # beyond it a number is none that this program counts, and arithmetic with it may overflow


def text(value: Any) -> str:
    """A text."""
    return "" if type(value) is str else is_not(value, "a text")


def flag(value: Any) -> str:
    """True or false."""
    return "" if type(value) is bool else is_not(value, "true or false")


def whole(value: Any) -> str:
    """A whole number."""
    return "" if type(value) is int and -MOST < value < MOST else is_not(value, "a whole number")


def number(value: Any) -> str:
    """A number; of a float also one without end, which some servers give as a log-probability."""
    return "" if type(value) is float else whole(value) and is_not(value, "a number")


def anything(value: Any) -> str:
    """Whatever it is."""
    return ""


def maybe(shape: Shape) -> Shape:
    """Null, or a value of this shape."""
    return lambda value: "" if value is None else shape(value)


def list_of(shape: Shape) -> Shape:
    """A list of such values."""

    def check(value: Any) -> str:
        if type(value) is not list:
            return is_not(value, "a list")
        for place, inner in enumerate(value):
            if fault := shape(inner):
                return f"[{place}]{fault}"
        return ""

    return check


def mapping_of(shape: Shape) -> Shape:
    """A mapping from texts to such values."""

    def check(value: Any) -> str:
        if type(value) is not dict:
            return is_not(value, "a mapping")
        for name, inner in value.items():
            if type(name) is not str:
                return is_not(name, "a text, as the name of a field")
            if fault := shape(inner):
                return f".{name}{fault}"
        return ""

    return check


def fields(needed: Mapping[str, Shape], other: Mapping[str, Shape] | None = None, more: bool = False) -> Shape:
    """A mapping with the `needed` fields and perhaps `other` ones; `more` allows fields that neither names."""
    known = {**needed, **(other or {})}

    def check(value: Any) -> str:
        if type(value) is not dict:
            return is_not(value, "a mapping")
        for name, inner in value.items():
            shape = known.get(name, anything if more else None)
            if shape is None:
                return f" has the field {str(name)[:40]!r}, which this version does not know"
            if fault := shape(inner):
                return f".{name}{fault}"
        lacking = [name for name in needed if name not in value]
        return f" lacks the field {lacking[0]!r}" if lacking else ""

    return check


def is_not(value: Any, wanted: str) -> str:
    """The fault of a value that is something else."""
    shown = f"of type {type(value).__name__}" if isinstance(value, dict | list) else repr(value)[:40]
    return f" is {shown}, not {wanted}"

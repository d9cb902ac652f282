"""What a JSON value that lies in a file must look like: a shape gives the first fault of a value,
or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import SchemaValidator

from looktwice.pipelines.json_input import require_shallow

__all__: list[str] = []

Shape = Callable[[Any], str]
"""The fault of a value, beginning with its place, such as ".calls[0].draw is 'x', not a whole
number"; "" for none."""

MOST = (
    2**53
)  # beyond it a number is none that this program counts, and arithmetic with it may overflow


def text(value: Any) -> str:
    """A text."""
    return "" if type(value) is str else is_not(value, "a text")


def flag(value: Any) -> str:
    """True or false."""
    return "" if type(value) is bool else is_not(value, "true or false")


def whole(value: Any) -> str:
    """A whole number."""
    return "" if type(value) is int and -MOST < value < MOST else is_not(value, "a whole number")


def whole_in(low: int, end: int) -> Shape:
    """A whole number from `low` on and below `end`."""

    def check(value: Any) -> str:
        return (
            ""
            if type(value) is int and low <= value < end
            else is_not(value, f"a number from {low} to {end}")
        )

    _SCHEMAS[check] = {"type": "int", "strict": True, "ge": low, "lt": end}
    return check


def number(value: Any) -> str:
    """A number; of a float also one without end, which some servers give as a log-probability."""
    return "" if type(value) is float else whole(value) and is_not(value, "a number")


def anything(value: Any) -> str:
    """Whatever it is."""
    return ""


_WHOLE = {"type": "int", "strict": True, "gt": -MOST, "lt": MOST}
_NUMBER = {
    "type": "union",
    "mode": "left_to_right",
    "choices": [_WHOLE, {"type": "float", "strict": True}],
}
_SCHEMAS: dict[Shape, Any] = {
    text: {"type": "str", "strict": True},
    flag: {"type": "bool", "strict": True},
    whole: _WHOLE,
    number: _NUMBER,
}
"""The shapes for pydantic, which reads and checks a line in a fraction of the time, but words its
faults otherwise."""


@lru_cache
def json_reader(shape: Shape) -> Callable[[bytes | str], Any]:
    """Reads JSON that has this shape. Raises ValueError for every other one, and seldom for one
    that has it."""
    return SchemaValidator(_schema_of(shape)).validate_json


def _schema_of(shape: Shape) -> Any:
    def check(value: Any) -> Any:
        if fault := shape(value):
            raise ValueError(fault)
        require_shallow(value)
        return value

    own = {
        "type": "function-after",
        "function": {"type": "no-info", "function": check},
        "schema": {"type": "any"},
    }
    return _SCHEMAS.get(shape, own)


def quickly(shape: Shape, *kinds: str) -> Shape:
    """The same shape, which every value of these kinds of pydantic's has: those need not be asked
    after in Python.

    Of floats, those that have an end; "int" stands before "float", which takes whole numbers for
    its own.
    """
    known = [{"type": kind, "strict": True, "allow_inf_nan": False} for kind in kinds]
    _SCHEMAS[shape] = {
        "type": "union",
        "mode": "left_to_right",
        "choices": [*known, _schema_of(shape)],
    }
    return shape


def maybe(shape: Shape) -> Shape:
    """Null, or a value of this shape."""

    def check(value: Any) -> str:
        return "" if value is None else shape(value)

    _SCHEMAS[check] = {"type": "nullable", "schema": _schema_of(shape)}
    return check


def list_of(shape: Shape) -> Shape:
    """A list of such values."""

    def check(value: Any) -> str:
        if type(value) is not list:
            return is_not(value, "a list")
        for place, inner in enumerate(value):
            if fault := shape(inner):
                return f"[{place}]{fault}"
        return ""

    _SCHEMAS[check] = {"type": "list", "items_schema": _schema_of(shape), "strict": True}
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

    keys, values = _schema_of(text), _schema_of(shape)
    _SCHEMAS[check] = {"type": "dict", "keys_schema": keys, "values_schema": values, "strict": True}
    return check


def fields(
    needed: Mapping[str, Shape], other: Mapping[str, Shape] | None = None, more: bool = False
) -> Shape:
    """A mapping with the `needed` fields and perhaps `other` ones; `more` allows fields that
    neither names."""
    known = {**needed, **(other or {})}
    unknown, names = anything if more else _unknown, needed.keys()

    def check(value: Any) -> str:
        if type(value) is not dict:
            return is_not(value, "a mapping")
        for name, inner in value.items():
            if fault := known.get(name, unknown)(inner):
                return f".{str(name)[:40]}{fault}"
        if not names <= value.keys():
            return f" lacks the field {next(name for name in names if name not in value)!r}"
        return ""

    _SCHEMAS[check] = {
        "type": "typed-dict",
        "fields": {
            name: {
                "type": "typed-dict-field",
                "schema": _schema_of(shape),
                "required": name in needed,
            }
            for name, shape in known.items()
        },
        **(
            {"extra_behavior": "allow", "extras_schema": _schema_of(anything)}
            if more
            else {"extra_behavior": "forbid"}
        ),
    }
    return check


quickly(anything, "str", "int", "float", "bool", "none")


def _unknown(value: Any) -> str:
    return " is a field that this version does not know"


def is_not(value: Any, wanted: str) -> str:
    """The fault of a value that is something else."""
    shown = (
        f"of type {type(value).__name__}" if isinstance(value, dict | list) else repr(value)[:40]
    )
    return f" is {shown}, not {wanted}"

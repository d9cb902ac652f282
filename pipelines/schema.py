"""JSON and YAML that others wrote, held against types: what is wrong is said with its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema

__all__: list[str] = []

CLOSED = ConfigDict(extra="forbid", strict=True)
OPEN = ConfigDict(extra="allow", strict=True)
MOST = 2**53  # beyond it a number is none that this program counts, and sums may overflow
Whole = Annotated[int, Field(gt=-MOST, lt=MOST)]
Number = Whole | float
"""Of a float also one without end, which some servers give as a log-probability."""
WANTED = {
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
    "extra_forbidden": "a field that this version knows",
}
BRANCHES = {"constrained-int", "int", "float", "str", "PictureNode"}
"""What pydantic puts into a place to name a member of a union."""


@dataclass(frozen=True)
class Holds:
    """In `Annotated[Mapping[str, Any], Holds(Node)]`: what pydantic asks of the mapping."""

    kind: Any

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return handler.generate_schema(self.kind)


@lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read_as(kind: Any, line: bytes | str) -> Any:
    """The value of this type in a JSON text. Raises ValueError with the first thing that is
    wrong."""
    try:
        return _adapter(kind).validate_json(line)
    except ValidationError as exc:
        raise ValueError(_say_fault(exc)) from exc


def _say_fault(exc: ValidationError) -> str:
    error = exc.errors(include_url=False, include_context=False)[0]
    kind, loc, found = error["type"], error["loc"], error["input"]
    if kind == "missing":
        return f"{_place(loc[:-1])} lacks the field {loc[-1]!r}"
    if kind == "json_invalid":
        return error["msg"]
    shown = f"of type {type(found).__name__}" if isinstance(found, dict | list) else repr(found)
    wanted = WANTED.get(kind)
    said = f", not {wanted}" if wanted else f": {error['msg'].removeprefix('Value error, ')}"
    return f"{_place(loc)} is {shown[:40]}{said}"


def _place(loc: Sequence[int | str]) -> str:
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc if part not in BRANCHES
    )
    return "".join(parts).removeprefix(".")[:200] or "it"

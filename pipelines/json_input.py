"""Parses untrusted JSON from servers and files, validates it against types, parses table cells that
hold Python or numpy literals, and writes JSON."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, SchemaValidator

from looktwice.pipelines.disk import read_unpacked_lines

MAX_NESTING_DEPTH = 100
MAX_VALUES = 8_000_000
"""Limit on the number of values in one JSON text, counted by its commas and brackets. A reply of
32,768 tokens with 20 alternatives each, spelled out in bytes, has six million. 8 million lists
are parsed in seconds; as many as fit into 64 MiB take minutes."""
__all__: list[str] = []
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_CANONICAL = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
)


def read_json(data: bytes | str, max_values: int | None = MAX_VALUES, **settings: Any) -> Any:
    r"""Parse a JSON text; `settings` are passed to `json.loads`.

    A lone surrogate, such as "\ud83d", cannot be written as UTF-8 and becomes "?". Raises
    ValueError for text that is not JSON, for more than 100 levels of nesting, and for more than
    `max_values` values; pass None for the user's own files.
    """
    text = (
        data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
    )
    brackets = text.count("[") + text.count("{")
    if max_values is not None and brackets + text.count(",") > max_values:
        raise ValueError(f"more than {max_values:,} values")
    try:
        value = json.loads(repair_text(text), **settings)
    except RecursionError:
        raise ValueError(f"nested more than {MAX_NESTING_DEPTH} levels deep") from None
    if brackets > MAX_NESTING_DEPTH:
        _require_shallow(value)
    escaped = "\\ud" in text or "\\uD" in text  # a surrogate pair, or a lone surrogate
    return map_texts(value, repair_text) if escaped else value


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a plain or `.gz` JSON Lines file with their line numbers, skipping empty
    lines.

    Raises OSError, and ValueError for a line that holds no object; both name the file.
    """
    for number, line in enumerate(read_unpacked_lines(path), 1):
        if not line.strip():
            continue
        try:
            value = read_json(line, max_values=None)
        except ValueError as exc:
            raise ValueError(f"{path} line {number}: not JSON ({exc})") from exc
        if not isinstance(value, dict):
            raise ValueError(
                f"{path} line {number}: expected an object with fields, found"
                f" {type(value).__name__}"
            )
        yield number, value


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return the value with `change` applied to every string in it, including field names."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_texts(inner, change) for inner in value]
    if isinstance(value, dict):
        return {change(name): map_texts(inner, change) for name, inner in value.items()}
    return value


def write_json(value: Any) -> str:
    """Write a value as JSON in one line; NaN and infinite numbers become null."""
    try:
        return _encode(value)
    except (TypeError, ValueError):  # also raised for a Mapping that is not a dict
        return _encode(replace_non_finite(value))


def write_canonical(value: Any) -> str:
    """Write JSON with sorted keys and no spaces; rejects NaN and values that are not plain JSON."""
    return _CANONICAL.encode(value)


def replace_non_finite(value: Any) -> Any:
    """Replace every NaN and infinite number in a value with None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: replace_non_finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(inner) for inner in value]
    return value


def iterate_leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted place such as `a.b[0]`, value) for every plain value in mappings and lists."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from iterate_leaves(inner, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from iterate_leaves(inner, f"{place}[{number}]")
    else:
        yield place, value


def find_non_finite(value: Any) -> tuple[str, float] | None:
    """Return the first infinite or NaN number, which `write_canonical` rejects, as (dotted place,
    number)."""
    for place, leaf in iterate_leaves(value):
        if isinstance(leaf, float) and not math.isfinite(leaf):
            return place, leaf
    return None


def _require_finite(value: dict[str, Any]) -> dict[str, Any]:
    if {*map(type, value.values())} <= {str, int, bool}:  # the usual case
        return value
    if place_and_number := find_non_finite(value):
        raise ValueError(f"{place_and_number[0]} is {place_and_number[1]}, not a finite number")
    return value


FiniteObject = Annotated[dict[str, Any], AfterValidator(_require_finite)]
"""A JSON object without infinite numbers and NaN."""


def _require_shallow(value: Any) -> None:
    """Raise ValueError for more than 100 levels of nesting."""
    level = [value]
    for _ in range(
        MAX_NESTING_DEPTH
    ):  # level by level takes a tenth of the time of a call per value
        groups = (group.values() if isinstance(group, dict) else group for group in level)
        level = [inner for group in groups for inner in group if isinstance(inner, list | dict)]
        if not level:
            return
    raise ValueError(f"nested more than {MAX_NESTING_DEPTH} levels deep")


def repair_text(text: str) -> str:
    """Return text that can be written as UTF-8: a lone surrogate, which may end a truncated reply,
    becomes "?"."""
    return text.encode("utf-8", "replace").decode()


def is_text(value: object) -> bool:
    """Return whether a value is a string that UTF-8 can encode."""
    return isinstance(value, str) and (value.isascii() or repair_text(value) == value)


FORBID_EXTRA = ConfigDict(extra="forbid", strict=True)
ALLOW_EXTRA = ConfigDict(extra="allow", strict=True)
MAX_JSON_INTEGER = (
    2**53
)  # no count in this program is larger, and sums of larger numbers may overflow
JsonInteger = Annotated[int, Field(gt=-MAX_JSON_INTEGER, lt=MAX_JSON_INTEGER)]
Number = JsonInteger | float
"""A number; a float may be infinite, since some servers send that as a log-probability."""
EXPECTED_TYPES = {
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
UNION_BRANCHES = {"constrained-int", "int", "float", "str", "PictureNode"}
"""Names that pydantic inserts into a location for the members of a union."""


@dataclass(frozen=True)
class CheckedAs:
    """An annotation that makes pydantic validate a mapping as another type, as in
    `Annotated[Mapping[str, Any], CheckedAs(Node)]`."""

    kind: Any

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return handler.generate_schema(self.kind)


@lru_cache
def _get_validator(kind: Any) -> SchemaValidator:
    validator: Any = TypeAdapter(kind).validator
    return validator  # type: ignore[no-any-return]


def read_as(kind: Any, line: bytes | str) -> Any:
    """Parse a JSON text as a value of this type. Raises ValueError with the first fault."""
    try:
        return _get_validator(kind).validate_json(line)
    except ValidationError as exc:
        raise ValueError(_describe_fault(exc)) from exc


def _describe_fault(exc: ValidationError) -> str:
    error = exc.errors(include_url=False, include_context=False)[0]
    kind, loc, value = error["type"], error["loc"], error["input"]
    if kind == "missing":
        return f"{_format_location(loc[:-1])} lacks the field {loc[-1]!r}"
    if kind == "json_invalid":
        return error["msg"]
    shown = f"of type {type(value).__name__}" if isinstance(value, dict | list) else repr(value)
    wanted = EXPECTED_TYPES.get(kind)
    reason = f", not {wanted}" if wanted else f": {error['msg'].removeprefix('Value error, ')}"
    return f"{_format_location(loc)} is {shown[:40]}{reason}"


def _format_location(loc: Sequence[int | str]) -> str:
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part}"
        for part in loc
        if part not in UNION_BRANCHES
    )
    return "".join(parts).removeprefix(".")[:200] or "it"


LITERAL_ERRORS = (ValueError, SyntaxError, MemoryError, RecursionError, TypeError)
QUOTED_TEXT_REGEX = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
SPACED_TEXTS_PATTERN = re.compile(
    rf"\[\s*(?:(?:{QUOTED_TEXT_REGEX})\s+)+(?:{QUOTED_TEXT_REGEX})\s*\]"
)
PLAIN_VALUE_REGEX = r"(?:-?[\d.]+(?:e[+-]?\d+)?|True|False|nan)"
SPACED_VALUES_PATTERN = re.compile(rf"\[\s*(?:{PLAIN_VALUE_REGEX}\s+)+{PLAIN_VALUE_REGEX}\s*\]")
NAMED_VALUES = {"nan": None, "NaN": None, "null": None, "true": True, "false": False}


def read_literal(text: str) -> Any:
    """Parse a string as a JSON, Python or numpy value; return None if it is none of these."""
    text = text.strip()
    inner = re.fullmatch(r"(?:np\.|numpy\.)?array\((\[.*\])(?:,\s*dtype=[^()]*)?\)", text, re.S)
    text = inner[1] if inner else text
    if SPACED_TEXTS_PATTERN.fullmatch(text):  # Python would join adjacent texts
        return [ast.literal_eval(quoted) for quoted in re.findall(QUOTED_TEXT_REGEX, text)]
    if SPACED_VALUES_PATTERN.fullmatch(text):  # numpy prints 1.0 as "1."
        return [value.removesuffix(".") for value in text.strip("[] \n").split()]
    for parse in (read_json, _evaluate):
        try:
            return parse(text)
        except LITERAL_ERRORS:
            continue
    return None


def _evaluate(text: str) -> Any:
    """Evaluate a Python literal, which may contain numpy arrays and scalars. Raises ValueError,
    SyntaxError and what the parser raises."""
    return _evaluate_node(ast.parse(text, mode="eval").body)


def _evaluate_node(node: ast.expr) -> Any:
    match node:
        case ast.List(items) | ast.Tuple(items):
            values = [_evaluate_node(item) for item in items]
            return tuple(values) if isinstance(node, ast.Tuple) else values
        case ast.Dict(keys, values) if None not in keys:
            pairs = zip(keys, values, strict=True)
            return {_evaluate_node(key): _evaluate_node(value) for key, value in pairs if key}
        case ast.Name(name) if name in NAMED_VALUES:
            return NAMED_VALUES[name]
        case ast.Call(ast.Attribute(ast.Name("np" | "numpy")), [first, *_]):
            return _evaluate_node(first)
        case ast.Call(ast.Name("array"), [first, *_]):
            return _evaluate_node(first)
        case ast.Call(ast.Name("OrderedDict"), [first]):
            return dict(_evaluate_node(first))
    return ast.literal_eval(node)


def list_json_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the non-empty lines of a file with their line numbers."""
    lines = enumerate(data.split(b"\n"), 1)
    return ((number, line) for number, line in lines if line.strip())


def parse_json_object(line: str | bytes, **settings: Any) -> dict[str, Any]:
    """Parse one line as a JSON object; `settings` are passed to `json.loads`. Raises ValueError for
    anything else."""
    try:
        text = line if isinstance(line, str) else line.decode("utf-8-sig")
        row = read_json(text, **settings)
    except UnicodeDecodeError as exc:
        raise ValueError(f"not UTF-8 ({exc.reason} at byte {exc.start})") from exc
    except json.JSONDecodeError as exc:
        why = f"{exc.msg.removesuffix(' at')} at column {exc.colno}"
        raise ValueError(f"not a JSON object ({why}); write one per line") from exc
    if not isinstance(row, Mapping):
        raise ValueError(f"expected a JSON object, found {type(row).__name__}")
    return dict(row)

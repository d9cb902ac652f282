"""Values that a cell writes as text: JSON, literals of Python, and arrays as numpy prints them."""

from __future__ import annotations

import ast
import re
from typing import Any

from looktwice.pipelines.json_input import read_json

UNREADABLE = (ValueError, SyntaxError, MemoryError, RecursionError, TypeError)
QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
SPACED_TEXTS = re.compile(rf"\[\s*(?:(?:{QUOTED})\s+)+(?:{QUOTED})\s*\]")
PLAIN = r"(?:-?[\d.]+(?:e[+-]?\d+)?|True|False|nan)"
SPACED_VALUES = re.compile(rf"\[\s*(?:{PLAIN}\s+)+{PLAIN}\s*\]")
NAMES = {"nan": None, "NaN": None, "null": None, "true": True, "false": False}


def read_literal(text: str) -> Any:
    """The value that a text writes; None where it writes none."""
    text = text.strip()
    inner = re.fullmatch(r"(?:np\.|numpy\.)?array\((\[.*\])(?:,\s*dtype=[^()]*)?\)", text, re.S)
    text = inner[1] if inner else text
    if SPACED_TEXTS.fullmatch(text):  # Python would join these texts to one
        return [ast.literal_eval(quoted) for quoted in re.findall(QUOTED, text)]
    if SPACED_VALUES.fullmatch(text):  # numpy prints 1.0 as "1."
        return [value.removesuffix(".") for value in text.strip("[] \n").split()]
    for parse in (read_json, _evaluate):
        try:
            return parse(text)
        except UNREADABLE:
            continue
    return None


def _evaluate(text: str) -> Any:
    """The value of a literal of Python, or of numpy's arrays and scalars among literals. Raises
    ValueError, SyntaxError and what the parser raises."""
    return _value(ast.parse(text, mode="eval").body)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.List(items) | ast.Tuple(items):
            values = [_value(item) for item in items]
            return tuple(values) if isinstance(node, ast.Tuple) else values
        case ast.Dict(keys, values) if None not in keys:
            pairs = zip(keys, values, strict=True)
            return {_value(key): _value(value) for key, value in pairs if key}
        case ast.Name(name) if name in NAMES:
            return NAMES[name]
        case ast.Call(ast.Attribute(ast.Name("np" | "numpy")), [first, *_]):
            return _value(first)
        case ast.Call(ast.Name("array"), [first, *_]):
            return _value(first)
        case ast.Call(ast.Name("OrderedDict"), [first]):
            return dict(_value(first))
    return ast.literal_eval(node)

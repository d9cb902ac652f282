"""JSON that comes from elsewhere, a server or a file, as values that can be written again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

MOST_DEPTH = 100
__all__: list[str] = []


def read_json(data: bytes | str, mend: bool = False, **settings: Any) -> Any:
    """The value that a JSON text holds; `settings` are those of `json.loads`.

    Half a surrogate pair, such as "\\ud83d" alone, is a text that no UTF-8 file can hold: with `mend` it becomes "?".
    Raises ValueError for it without `mend`, for what is no JSON, and for more than 100 levels of nesting.
    """
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
    try:
        value = json.loads(text, **settings)
    except RecursionError:
        raise ValueError(f"nested more than {MOST_DEPTH} levels deep") from None
    if _may_hold_halves(text) or text.count("[") + text.count("{") > MOST_DEPTH:
        return _with_texts(value, mend_text if mend else _require_whole)
    return value


def _may_hold_halves(text: str) -> bool:
    """Whether it is worth a closer look; a whole pair that is written with escapes is, too."""
    if "\\ud" in text or "\\uD" in text:
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def mend_text(text: str) -> str:
    """Text that can be written as UTF-8: half a surrogate pair, which a cut-off reply may end in, becomes "?"."""
    return text.encode("utf-8", "replace").decode()


def _require_whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        found = ascii(text[max(0, exc.start - 10) : exc.end + 10])
        raise ValueError(f"a text holds half a surrogate pair, {found}; write the whole character") from None
    return text


def _with_texts(value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
    """The value with every text in it changed, the names of fields too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | dict) and depth == MOST_DEPTH:
        raise ValueError(f"nested more than {MOST_DEPTH} levels deep")
    if isinstance(value, list):
        return [_with_texts(inner, change, depth + 1) for inner in value]
    if isinstance(value, dict):
        return {change(name): _with_texts(inner, change, depth + 1) for name, inner in value.items()}
    return value

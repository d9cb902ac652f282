"""Compares two answers to an open question as texts."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from looktwice.eval.readers.clean import clean_text
from looktwice.eval.readers.open_answers import find_text

_QUOTES = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"')
    | {"\u2212": "-"}
)
_QUOTED_PATTERN = re.compile(r"\"[^\"]*\"|'[^']*'|`[^`]*`|\([^()]*\)|\[(?:[^\[\]]|\[[^\[\]]*\])*\]")
_BULLET_PATTERN = re.compile(r"\A[-*\u2022\u2013]\s+(?=[^\d\s])")
_NUMBER_PATTERN = re.compile(
    r"(?P<sign>[-+]?)(?P<unit>[$\u20ac\u00a3\u00a5]?)"
    r"(?P<whole>0|[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d*)(?P<decimals>\.\d+)?"
)


def is_same_text(answer: str, key: str) -> bool:
    """Return whether an answer equals the correct answer `key`.

    Case, white space, a leading bullet, enclosing quotation marks or brackets, and a final full
    stop are ignored. Numbers are compared by value: "24.50", "24.5" and "$24.50" are the same, but
    amounts in two currencies are not.
    """
    given = _fold(answer)
    keys = {_fold(key), _fold(find_text(clean_text(key)))}
    return given in keys or any(_are_same_number(given, folded) for folded in keys)


def _fold(text: str) -> str:
    """Return the text without ignored characters; a text that consists only of these is returned
    unchanged."""
    folded = " ".join(unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold().split())
    while (inner := _strip_enclosing_marks(folded)) != folded:
        folded = inner
    return folded


def _strip_enclosing_marks(text: str) -> str:
    inner = _BULLET_PATTERN.sub("", text).rstrip(".!,;: ") or text
    return (inner[1:-1].strip() if _QUOTED_PATTERN.fullmatch(inner) else inner) or text


def _are_same_number(answer: str, key: str) -> bool:
    numbers = _NUMBER_PATTERN.fullmatch(answer), _NUMBER_PATTERN.fullmatch(key)
    if numbers[0] is None or numbers[1] is None:
        return False
    values, units = (
        [
            Decimal(number["sign"] + number["whole"].replace(",", "") + (number["decimals"] or ""))
            for number in numbers
            if number
        ],
        {number["unit"] for number in numbers if number} - {""},
    )
    return values[0] == values[1] and len(units) < 2

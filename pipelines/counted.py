"""Counts: numbers in sentences, sentences of a length, and with how many entries two lists begin
alike."""

from collections.abc import Sequence
from itertools import takewhile

__all__: list[str] = []

NUMBER_WORDS = tuple(
    [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ]
)
"""The words of 0 to 20."""


def counted(number: int, noun: str, many: str = "") -> str:
    """The number with its noun, "1 sample" or "1,200 samples"; `many` is a plural that is not
    formed by an s."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """The first of some names, and how many more there are: "a, b and 4 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shorten(text: str, most: int = 300) -> str:
    """Text in one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."


def count_alike(turns: Sequence[str], earlier: Sequence[str]) -> int:
    """With how many of the earlier turns these begin."""
    pairs = zip(turns, earlier, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def format_number(value: float, digits: int = 3, sign: str = "") -> str:
    """Return a number with so many significant digits, in scientific notation only if it is huge or
    tiny."""
    rounded = float(f"{value:.{digits}g}")
    if not 1e-9 < abs(rounded) < 1e12:
        return f"{rounded:{sign}.{digits}g}"
    if abs(rounded) >= 10 ** (digits - 1):
        return f"{rounded:{sign}.0f}"
    return f"{rounded:{sign}.12f}".rstrip("0").rstrip(".")

"""Formatting of counts and lists, shortening of text, and counting the shared prefix of two
lists."""

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
"""English words for the numbers 0 to 20."""


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun: "1 sample", "1,200 samples". `plural` is an irregular
    plural."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_list(names: Sequence[str], max_names: int) -> str:
    """Format the first `max_names` names and the number of remaining ones: "a, b and 4 more"."""
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(names[:max_names]) + more


def shorten_text(text: str, max_length: int = 300) -> str:
    """Collapse text to one line of at most `max_length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= max_length else line[: max_length - 3] + "..."


def count_common_prefix(turns: Sequence[str], earlier: Sequence[str]) -> int:
    """Count the leading entries that two lists have in common."""
    pairs = zip(turns, earlier, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def format_number(value: float, digits: int = 3, sign: str = "") -> str:
    """Format a number with `digits` significant digits, in scientific notation only if it is huge
    or tiny."""
    rounded = float(f"{value:.{digits}g}")
    if not 1e-9 < abs(rounded) < 1e12:
        return f"{rounded:{sign}.{digits}g}"
    if abs(rounded) >= 10 ** (digits - 1):
        return f"{rounded:{sign}.0f}"
    return f"{rounded:{sign}.12f}".rstrip("0").rstrip(".")


def format_times(times: Sequence[float]) -> str:
    """Format the times of video frames for the end of a caption: " at 2.5 s", " at 0 to 5.9 s (8
    frames)", or "" for none."""
    if len(times) < 2:
        return "".join(f" at {time:g} s" for time in times)
    return f" at {times[0]:g} to {times[-1]:g} s ({len(times)} frames)"

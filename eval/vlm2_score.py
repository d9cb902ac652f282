"""VLM2-Bench as its authors score it: how they read replies, and their formulas.

The readings are the official scripts' rules, pitfalls included (2024-2025, the repository vlm2-bench/VLM2-Bench); the
alternatives named `vlmevalkit` are that toolkit's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean

__all__ = [
    "chance_numeric",
    "count_answer",
    "group_answer",
    "group_right",
    "judged_score",
    "numeric_score",
    "tf_answer",
    "tf_exact",
    "vid_scores",
]

_TF = re.compile(r"\b(t|f|true|false)\b", re.I)
_UNITS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: n for n, word in enumerate(_UNITS, 1)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_WORDS = re.compile(rf"\b({'|'.join((*_VALUES, 'hundred', 'thousand'))})\b", re.I)


def tf_exact(reply: str) -> str | None:
    """The reading of GC: the reply itself where it is exactly T or F; "T." and "True" are no answer."""
    said = reply.strip()
    return said if said in ("T", "F") else None


def tf_answer(reply: str) -> str | None:
    """The reading of OC-Cpr and PC-Cpr: the one word t, f, true or false; None for none or several.

    The t of "don't" is such a word.
    """
    found = _TF.findall(reply)
    return found[0][0].upper() if len(found) == 1 else None


def count_answer(reply: str) -> int | None:
    """The reading of counts: groups of digits, and all number words of the reply together as one more number.

    Only a single number is an answer: "2 (two)" has two, "one or two" is the one number 3, "zero" is none.
    """
    numbers = [int(digits) for digits in re.findall(r"\d+", reply)]
    words = _value([word.lower() for word in _WORDS.findall(reply)])
    numbers += [words] if words else []
    return numbers[0] if len(numbers) == 1 else None


def _value(words: Sequence[str]) -> int:
    whole = part = 0
    for word in words:
        if word == "hundred":
            part = max(part, 1) * 100
        elif word == "thousand":
            whole, part = whole + max(part, 1) * 1000, 0
        else:
            part += _VALUES[word]
    return whole + part


def group_answer(reply: str) -> str | None:
    """The reading of Grp: what stands before the first ")"; None where the reply has several "(X)"."""
    if len(re.findall(r"\([A-Z]\)", reply)) > 1:
        return None
    return reply.partition(")")[0].strip() or None


def group_right(reply: str, key: str) -> bool:
    """Whether a grouping reply is right officially: "D) 1 and 2", "D)" and "D" are; "(D)" and "D." are not."""
    found = group_answer(reply)
    return found is not None and found == key.partition(")")[0].strip()


def numeric_score(found: int, truth: int, images: int) -> float:
    """What a count is worth (0..1) on a question with this many images.

    1 where it is right, else 1 - (4/images) * e**(1/10), not below 0, with e the error over the largest that is
    possible. Worked values: 4 images, truth 1, found 2: 0.10404.
    """
    if found == truth:
        return 1.0
    largest = max(truth - 1, images - truth)
    if largest <= 0:
        return 0.0
    penalty = 4 / images * float((abs(found - truth) / largest) ** 0.1)
    return max(0.0, 1.0 - penalty)


def chance_numeric(truth: int, images: int) -> float:
    """The mean score of a count drawn evenly from 1 to the number of images."""
    return fmean(numeric_score(found, truth, images) for found in range(1, images + 1))


def judged_score(text: str) -> int | None:
    """The number after "Score:" in a judge's words; None where there is none, which official scoring drops."""
    found = re.search(r"Score:\s*(\d+)", text)
    return int(found[1]) if found else None


def vid_scores(ab: Sequence[int], aba: Sequence[int]) -> tuple[float, float, float]:
    """AB (each 0 or 1), ABA (each 0, 1 or 2) and VID, their mean, all in 0..1. Raises ValueError where one is empty."""
    if not ab or not aba:
        raise ValueError(f"VID needs judged videos of both kinds, found {len(ab)} AB and {len(aba)} ABA")
    first, second = fmean(ab), fmean(aba) / 2
    return first, second, (first + second) / 2

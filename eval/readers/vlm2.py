"""VLM2-Bench's replies as its own scripts read them, by the rule of each subtask, and as VLMEvalKit reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from looktwice.eval.readers.stages import WholeReply, found
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import Stage, State


@dataclass(frozen=True)
class Vlm2Exact:
    """VLM2-Bench's reading of GC: exactly T or F."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return found(state, tf_exact(state.reply))


@dataclass(frozen=True)
class Vlm2TrueFalse:
    """VLM2-Bench's reading of OC-Cpr and PC-Cpr: the only word that is t, f, true or false."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return found(state, tf_answer(state.reply))


@dataclass(frozen=True)
class Vlm2Count:
    """VLM2-Bench's reading of counts: the only number, where all number words together are one."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        count = count_answer(state.reply)
        return found(state, None if count is None else str(count))


@dataclass(frozen=True)
class Vlm2Grouping:
    """VLM2-Bench's reading of Grp: what stands before the first ")", so that "(D)" is not D."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return found(state, group_answer(state.reply))


RULES: dict[str, Stage] = {
    "Mat": Vlm2Exact(),
    "Trk": Vlm2Exact(),
    "Cpr": Vlm2TrueFalse(),
    "Cnt": Vlm2Count(),
    "Grp": Vlm2Grouping(),
    "VID": WholeReply(),
}


@dataclass(frozen=True)
class Vlm2Official:
    """GC: exactly T or F; Cpr: the only word for true or false; Cnt: the only number; Grp: before the first ")".

    A video's reply is the description or a judge's words ("Score: 1"), which the benchmark's scorer reads. Which
    subtask it is stands in `meta["subtask"]`, as `eval.tasks.Vlm2Bench` says it. Raises ValueError for any other.
    """

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        subtask = str(state.sample.meta.get("subtask", ""))
        rule = RULES.get(subtask.rpartition("-")[2])
        if rule is None:
            raise ValueError(
                f"{state.sample.id}: {subtask or 'no subtask'!r} is none of VLM2-Bench; read other tasks with "
                "eval.readers.Robust"
            )
        return rule(state, model)


@dataclass(frozen=True)
class Vlm2Vlmevalkit:
    """The only word for true or false also on GC, where the official script wants exactly T or F; else as officially.

    Its other difference, what counts in the denominators, is in the metrics named `..._vlmevalkit`. Raises ValueError
    for samples of another benchmark.
    """

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        cues = str(state.sample.meta.get("subtask", "")).startswith("GC-")
        return (Vlm2TrueFalse() if cues else Vlm2Official())(state, model)


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

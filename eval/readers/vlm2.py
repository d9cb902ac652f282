"""VLM2-Bench's replies as its own scripts read them, by the rule of each subtask, and as VLMEvalKit
reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from looktwice.eval.readers.fixed_forms import WholeReply
from looktwice.eval.readers.reader import Reader, Reading, subtask_of
from looktwice.pipelines.state import State


@dataclass(frozen=True)
class Vlm2Exact(Reader):
    """VLM2-Bench's reading of GC: exactly T or F; "T." and "True" are no answer."""

    def read(self, state: State) -> Reading:
        text = state.reply.strip()
        return Reading.of(text if text in ("T", "F") else None)


@dataclass(frozen=True)
class Vlm2TrueFalse(Reader):
    """VLM2-Bench's reading of OC-Cpr and PC-Cpr: the only word that is t, f, true or false.

    None where there are several; the t of "don't" is such a word.
    """

    def read(self, state: State) -> Reading:
        found = _TRUE_FALSE.findall(state.reply)
        return Reading.of(found[0][0].upper() if len(found) == 1 else None)


@dataclass(frozen=True)
class Vlm2Count(Reader):
    """VLM2-Bench's reading of counts: the only number, where all number words together are one.

    "2 (two)" has two numbers, "one or two" is the one number 3, "zero" is none. Words that make
    more than a trillion count nothing that an image shows, and are none either.
    """

    def read(self, state: State) -> Reading:
        numbers = [
            digits.lstrip("0") or "0" for digits in re.findall(r"\d+", state.reply)
        ]  # of any length
        words = _value_of_words([word.lower() for word in _NUMBER_WORDS.findall(state.reply)])
        numbers += [str(words)] if words else []
        return Reading.of(numbers[0] if len(numbers) == 1 and words <= MOST else None)


@dataclass(frozen=True)
class Vlm2Grouping(Reader):
    """VLM2-Bench's reading of Grp: what stands before the first ")", so that "(D)" is not D.

    None where the reply has several letters in brackets.
    """

    def read(self, state: State) -> Reading:
        several = len(re.findall(r"\([A-Z]\)", state.reply)) > 1
        return Reading.of(None if several else state.reply.partition(")")[0].strip() or None)


_RULES: Mapping[str, Reader] = {
    "Mat": Vlm2Exact(),
    "Trk": Vlm2Exact(),
    "Cpr": Vlm2TrueFalse(),
    "Cnt": Vlm2Count(),
    "Grp": Vlm2Grouping(),
    "VID": WholeReply(),
}


@dataclass(frozen=True)
class Vlm2Official(Reader):
    """GC: exactly T or F; Cpr: the only word for true or false; Cnt: the only number; Grp: before
    the first ")".

    A video's reply is the description or a judge's words ("Score: 1"), which the benchmark's scorer
    reads. Which subtask it is stands in `meta["subtask"]`, as `eval.tasks.Vlm2Bench` gives it.
    Raises ValueError for any other.
    """

    def read(self, state: State) -> Reading:
        subtask = subtask_of(state)
        rule = _RULES.get(subtask.rpartition("-")[2])
        if rule is None:
            raise ValueError(
                f"{state.sample.id}: {subtask or 'no subtask'!r} is none of VLM2-Bench's subtasks; "
                "read other tasks with eval.readers.Robust"
            )
        return rule.read(state)


@dataclass(frozen=True)
class Vlm2Vlmevalkit(Reader):
    """The only word for true or false also on GC, where the official script wants exactly T or F;
    else as officially.

    Its other difference, what counts in the denominators, is in the metrics named `..._vlmevalkit`.
    Raises ValueError for samples of another benchmark.
    """

    def read(self, state: State) -> Reading:
        cues = subtask_of(state).startswith("GC-")
        return (Vlm2TrueFalse() if cues else Vlm2Official()).read(state)


MOST = 10**12
_TRUE_FALSE = re.compile(r"\b(t|f|true|false)\b", re.I)
_UNITS = (
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
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: n for n, word in enumerate(_UNITS, 1)} | {
    word: 10 * n for n, word in enumerate(_TENS, 2)
}
_NUMBER_WORDS = re.compile(rf"\b({'|'.join((*_VALUES, 'hundred', 'thousand'))})\b", re.I)


def _value_of_words(words: Sequence[str]) -> int:
    """The number that the words make together; any one above MOST as soon as they make more than
    that."""
    whole = part = 0
    for word in words:
        if whole + part > MOST:
            break
        if word == "hundred":
            part = max(part, 1) * 100
        elif word == "thousand":
            whole, part = whole + max(part, 1) * 1000, 0
        else:
            part += _VALUES[word]
    return whole + part

"""VLM2-Bench's replies as its own scripts read them, by the rule of each subtask, and as VLMEvalKit
reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from looktwice.eval.readers.reader import Reader, Reading, subtask_of
from looktwice.eval.readers.vocabulary import NUMBERS
from looktwice.pipelines.state import State

MOST = 10**12
_VALUES = {
    word: int(digits)
    for word, digits in NUMBERS.items()
    if word.isascii() and word.isalpha() and word != "zero"
}
_NUMBER_WORDS = re.compile(rf"\b({'|'.join((*_VALUES, 'hundred', 'thousand'))})\b", re.I)


@dataclass(frozen=True)
class Vlm2(Reader):
    """VLM2-Bench's readings. `form` "official": GC "exact", Cpr "true_false", Cnt "count", Grp
    "grouping"; a video's reply is the description or a judge's words ("Score: 1"), which the
    benchmark's scorer reads.

    "vlmevalkit" is "true_false" on GC, else official; its other difference, what counts in the
    denominators, is in the metrics named `..._vlmevalkit`. Of these two the subtask stands in
    `meta["subtask"]`, as `eval.tasks.Vlm2Bench` gives it; a ValueError is raised for any other.

    "exact": exactly T or F; "T." and "True" are no answer. "true_false": the only word that is t,
    f, true or false; the t of "don't" is such a word. "count": the only number, where all number
    words together are one: "2 (two)" has two numbers, "one or two" is the one number 3, "zero" is
    none; words that make more than a trillion count nothing that an image shows. "grouping": what
    stands before the first ")", so that "(D)" is not D; none where there are several letters in
    brackets.
    """

    form: Literal["official", "vlmevalkit", "exact", "true_false", "count", "grouping"] = "official"

    def read(self, state: State) -> Reading:
        form, subtask = str(self.form), subtask_of(state)
        if form == "vlmevalkit" and subtask.startswith("GC-"):
            form = "true_false"
        elif form in ("official", "vlmevalkit"):
            form = _FORMS.get(subtask.rpartition("-")[2], "")
        if not form:
            raise ValueError(
                f"{state.sample.id}: {subtask or 'no subtask'!r} is none of VLM2-Bench's subtasks; "
                "read other tasks with eval.readers.Robust"
            )
        return Reading.of(_read_reply(state.reply, form) or None)


def _read_reply(reply: str, form: str) -> str:
    """The answer in a reply by one of the forms; empty for none."""
    text = reply.strip()
    match form:
        case "exact":
            return text if text in ("T", "F") else ""
        case "true_false":
            words = re.findall(r"\b(t|f|true|false)\b", text, re.I)
            return words[0][0].upper() if len(words) == 1 else ""
        case "count":
            # of any length
            numbers = [digits.lstrip("0") or "0" for digits in re.findall(r"\d+", text)]
            value = _value_of_words([word.lower() for word in _NUMBER_WORDS.findall(text)])
            numbers += [str(value)] if value else []
            return numbers[0] if len(numbers) == 1 and value <= MOST else ""
        case "grouping":
            several = len(re.findall(r"\([A-Z]\)", text)) > 1
            return "" if several else text.partition(")")[0].strip()
    return text


_FORMS = {
    "Mat": "exact",
    "Trk": "exact",
    "Cpr": "true_false",
    "Cnt": "count",
    "Grp": "grouping",
    "VID": "whole",
}


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

"""Readers of replies in a fixed format, which do not interpret free text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_uppercase
from typing import ClassVar, Literal

from looktwice.eval.readers.clean import clean_text
from looktwice.eval.readers.open_answers import JSON_ANSWER_PATTERN
from looktwice.eval.readers.reader import Reading, TextReader, get_choice_texts, get_subtask
from looktwice.eval.readers.robust import read_choice
from looktwice.eval.readers.vocabulary import pattern
from looktwice.pipelines.sample import Sample


@dataclass(frozen=True)
class Strict(TextReader):
    """Accepts only a bare answer: "B", "(B)", "B.", "B) its text" or the text of B alone; for an
    open question, the whole reply is the answer.

    Surrounding white space and end tokens are ignored, thoughts are removed.
    """

    def read_text(self, reply: str, sample: Sample) -> Reading:
        text = clean_text(reply)
        if not sample.choices:
            return Reading.from_answer(text)
        for letter, choice in zip(ascii_uppercase, get_choice_texts(sample), strict=False):
            bare = rf"(?:\({letter}\)|{letter}[).:]?)"
            either = rf"{bare}\s*(?:{re.escape(choice)})?|{re.escape(choice)}" if choice else bare
            if re.fullmatch(rf"(?:{either})\.?", text):
                return Reading.from_answer(letter)
        return Reading.from_answer(None)


_MARKER_PATTERN = pattern(
    r"(?m)(?:\bMY[_ ]ANSWER\b|\bFinal Answer\b|^[^\w\n]*Answer\b)(?:\s+is\b)?\s*[:=]?\s*(\S.*)"
)


@dataclass(frozen=True)
class Marked(TextReader):
    r"""Reads the text after the last "MY_ANSWER:", "Final Answer:" or "Answer:", or the content of
    the last \boxed{}, <answer> or JSON "answer".

    With choices, `Robust` reads this text; otherwise it is the answer. The contents of <think> are
    not an answer, and a reply without a marker has no answer.
    """

    def read_text(self, reply: str, sample: Sample) -> Reading:
        text = clean_text(reply)
        marked: list[str] = [
            value.strip('"') for value in JSON_ANSWER_PATTERN.findall(text)
        ] or _MARKER_PATTERN.findall(text)
        if not marked:
            return Reading(None, "unread: it marks no answer")
        answer = marked[-1].strip(" \t.").strip("\"'")
        if sample.choices:
            return read_choice(
                answer, get_choice_texts(sample), get_subtask(sample), sample.question
            )
        return Reading.from_answer(answer)


@dataclass(frozen=True)
class WholeReply(TextReader):
    """Takes the whole reply, without surrounding white space, as the answer to an open question."""

    part: ClassVar[Literal["answer", "turn", "reply"]] = "reply"

    def read_text(self, reply: str, sample: Sample) -> Reading:
        return Reading.from_answer(reply.strip())

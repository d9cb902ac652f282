"""Readers of replies in an agreed form: the answer and nothing else, an answer behind a marker, the
whole reply."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_uppercase

from looktwice.eval.readers.clean import clean_text
from looktwice.eval.readers.reader import Reader, Reading, choice_texts, subtask_of
from looktwice.eval.readers.robust import read_choice
from looktwice.pipelines.state import State


@dataclass(frozen=True)
class Strict(Reader):
    """The answer and nothing else: "B", "(B)", "B.", "B) its text" or its text alone; without
    choices the reply.

    White space around it and end tokens are forgiven, thoughts are left out.
    """

    def read(self, state: State) -> Reading:
        text = clean_text(state.reply)
        if not state.sample.choices:
            return Reading.of(text or None)
        for letter, choice in zip(ascii_uppercase, choice_texts(state), strict=False):
            bare = rf"(?:\({letter}\)|{letter}[).:]?)"
            either = rf"{bare}\s*(?:{re.escape(choice)})?|{re.escape(choice)}" if choice else bare
            if re.fullmatch(rf"(?:{either})\.?", text):
                return Reading.of(letter)
        return Reading.of(None)


_JSON = re.compile(r'"(?:my|final)?_?answer"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?)', re.I)
_MARKER = re.compile(
    r"(?:\bMY[_ ]ANSWER\b|\bFinal Answer\b|^[^\w\n]*Answer\b)(?:\s+is\b)?\s*[:=]?\s*(\S.*)",
    re.I | re.M,
)


@dataclass(frozen=True)
class Marked(Reader):
    r"""What stands after the last "MY_ANSWER:", "Final Answer:" or "Answer:", or in the last
    \boxed{} or <answer>, or as "answer" in JSON.

    With choices it is read as `Robust` does; without them it is the answer as it stands. What
    stands in <think> is not the answer, and without a marker there is none.
    """

    def read(self, state: State) -> Reading:
        text = clean_text(state.reply)
        marked: list[str] = [value.strip('"') for value in _JSON.findall(text)] or _MARKER.findall(
            text
        )
        if not marked:
            return Reading(None, "unread: it marks no answer")
        answer = marked[-1].strip(" \t.").strip("\"'")
        if state.sample.choices:
            return read_choice(
                answer, choice_texts(state), subtask_of(state), state.sample.question
            )
        return Reading.of(answer or None)


@dataclass(frozen=True)
class WholeReply(Reader):
    """The whole reply, without the white space around it, as the answer to an open question."""

    def read(self, state: State) -> Reading:
        return Reading.of(state.reply.strip() or None)

"""Readers: stages that scoring runs on a recorded conversation to find the answer in the model's words.

A reader sets `answer` (a letter of the choices, or text where there are none) or leaves it None with a `reason`.
It never asks a model and never guesses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from string import ascii_uppercase
from typing import ClassVar, Literal

from looktwice.eval.readers.clean import plain
from looktwice.eval.readers.open_answers import kind_of, read_open
from looktwice.eval.readers.robust import Reading, read_choice
from looktwice.eval.readers.toolkits import lmms_eval, vlmevalkit
from looktwice.pipelines.config.build import ConfigError
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import Stage, State

Kind = Literal["auto", "choice", "yes_no", "true_false", "integer", "letters", "text"]


@dataclass(frozen=True)
class Robust:
    """Our own rules for free words: the choice that a reply claims, in whatever way it claims it.

    Questions with choices are read with their texts and the words of their subtask (`meta["subtask"]`): the answer
    declared last, comparisons, letters, texts; refusals, several choices and none of them are no answer, with the
    reason (see `eval.readers.robust`). Open questions are read by what they ask for: `kind` "auto" tells it from
    the question (see `eval.readers.open_answers`). What stands in <think> and the like is no answer.
    """

    kind: Kind = "auto"
    asks: ClassVar[bool] = False
    version: ClassVar[int] = 3

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        sample, subtask = state.sample, str(state.sample.meta.get("subtask", ""))
        if self.kind in ("auto", "choice") and sample.choices:
            return _read(state, read_choice(state.reply, texts(state), subtask, sample.question))
        if self.kind == "choice":
            return _read(state, Reading(None, "unread: the sample has no choices"))
        kind = kind_of(sample.question, subtask) if self.kind == "auto" else self.kind
        return _read(state, read_open(state.reply, kind))


@dataclass(frozen=True)
class Strict:
    """The answer and nothing else: "B", "(B)", "B.", "B) its text" or its text alone; without choices the reply.

    White space around it and end tokens are forgiven, thoughts are left out.
    """

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        said = plain(state.reply)
        if not state.sample.choices:
            return found(state, said or None)
        for letter, text in zip(ascii_uppercase, texts(state), strict=False):
            alone = rf"(?:\({letter}\)|{letter}[).:]?)"
            either = rf"{alone}\s*(?:{re.escape(text)})?|{re.escape(text)}" if text else alone
            if re.fullmatch(rf"(?:{either})\.?", said):
                return found(state, letter)
        return found(state, None)


_JSON = re.compile(r'"(?:my|final)?_?answer"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?)', re.I)
_MARKER = re.compile(
    r"(?:\bMY[_ ]ANSWER\b|\bFinal Answer\b|^[^\w\n]*Answer\b)(?:\s+is\b)?\s*[:=]?\s*(\S.*)", re.I | re.M
)


@dataclass(frozen=True)
class Marked:
    r"""What stands after the last "MY_ANSWER:", "Final Answer:" or "Answer:", or in the last \boxed{} or <answer>, or
    as "answer" in JSON.

    With choices it is read as `Robust` does; without them it is the answer as it stands. What stands in <think> is
    not the answer, and without a mark there is none.
    """

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        text = plain(state.reply)
        marked: list[str] = [value.strip('"') for value in _JSON.findall(text)] or _MARKER.findall(text)
        if not marked:
            return _read(state, Reading(None, "unread: it marks no answer"))
        said = marked[-1].strip(" \t.").strip("\"'")
        if state.sample.choices:
            subtask = str(state.sample.meta.get("subtask", ""))
            return _read(state, read_choice(said, texts(state), subtask, state.sample.question))
        return found(state, said or None)


@dataclass(frozen=True)
class BlinkOfficial:
    """BLINK's own token rule (official `analyze_answer`, without its language model).

    A reply that is exactly a letter A-E, bare or in brackets, counts as it is, also beyond the choices. Else the
    tokens between white space that are exactly "(A)", "(B)" ... are looked at: the only one of the last paragraph
    wins, then the only one of the whole reply. Where the official code would go on to ask GPT-3.5, there is no
    answer here (reason "unread").
    """

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return found(state, self.rule(state.reply, len(state.sample.choices)))

    @staticmethod
    def rule(reply: str, choices: int) -> str | None:
        """The letter that the rule gives for a reply to a question with so many choices, or None."""
        exact = re.fullmatch(r"[A-E]|\([A-E]\)", reply)
        if exact:
            return exact[0].strip("()")
        tokens = {f"({letter})": letter for letter in ascii_uppercase[:choices]}
        last = tokens.keys() & set(reply.split("\n\n")[-1].split())
        whole = tokens.keys() & set(reply.split())
        for found in (last, whole):
            if len(found) == 1:
                return tokens[found.pop()]
        return None


@dataclass(frozen=True)
class Vlmevalkit:
    """VLMEvalKit's rules for multiple choice; where it would ask a judge or draw at random there is no answer."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return found(state, vlmevalkit(state.reply, texts(state)))


@dataclass(frozen=True)
class LmmsEval:
    """lmms-eval's rule for BLINK in 2026-08: the first letter of the reply, whichever it is."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return found(state, lmms_eval(state.reply))


@dataclass(frozen=True)
class WholeReply:
    """The whole reply, without the white space around it, as the answer to an open question."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return found(state, state.reply.strip() or None)


def reader(name: str) -> Stage:
    """The reader of this name as commands spell it: `blink_official` is BlinkOfficial. Raises ConfigError."""
    found = names()
    if name not in found:
        raise ConfigError([f"reader: no reader is named {name!r}; there are {', '.join(sorted(found))}"])
    built: Stage = found[name]()
    return built


def names() -> dict[str, type]:
    """Every reader of this room by its name in snake case, as `--reader` takes it."""
    room = import_module("looktwice.eval.readers")
    return {reader_name(name): getattr(room, name) for name in room.__all__}


def reader_name(class_name: str) -> str:
    """`BlinkOfficial` or `eval.readers.BlinkOfficial` as `blink_official`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name.rpartition(".")[2]).lower()


def found(state: State, answer: str | None) -> State:
    """The state with this answer, or with none and the reason "unread"."""
    return state.replace(answer=answer, reason="" if answer else "unread")


def _read(state: State, reading: Reading) -> State:
    return state.replace(answer=reading.answer, reason=reading.reason)


def texts(state: State) -> list[str]:
    """The texts of the choices, empty where a choice is an image."""
    return [choice if isinstance(choice, str) else "" for choice in state.sample.choices]

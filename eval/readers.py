"""Readers: stages that scoring runs on a recorded conversation to find the answer in the model's words.

A reader sets `answer` (a letter of the choices, or text where there are none) or leaves it None with a `reason`.
It never asks a model and never guesses.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from string import ascii_uppercase
from typing import ClassVar, Literal

from looktwice.eval.choice_rules import choice_letter
from looktwice.eval.clean import plain
from looktwice.eval.open_answers import kind_of, read_open
from looktwice.eval.reading import Reading
from looktwice.eval.robust import read_choice
from looktwice.eval.toolkit_rules import lmms_eval, vlmevalkit
from looktwice.eval.vlm2_score import count_answer, group_answer, tf_answer, tf_exact
from looktwice.pipelines.build import ConfigError
from looktwice.pipelines.model import Model
from looktwice.pipelines.state import Stage, State

__all__ = [
    "BlinkOfficial", "Choice", "LmmsEval", "Marked", "Robust", "Strict", "Verbatim", "Vlm2Count", "Vlm2Exact",
    "Vlm2Grouping", "Vlm2TrueFalse", "Vlmevalkit",
]  # fmt: skip

Kind = Literal["auto", "choice", "yes_no", "true_false", "integer", "letters", "text"]


@dataclass(frozen=True)
class Robust:
    """Our own rules for free words: the choice that a reply claims, in whatever way it claims it.

    Questions with choices are read with their texts and the words of their subtask (`meta["subtask"]`): the answer
    declared last, comparisons, letters, texts; refusals, several choices and none of them are no answer, with the
    reason (see `eval.robust`). Open questions are read by what they ask for: `kind` "auto" tells it from the question
    (see `eval.open_answers`). What stands in <think> and the like is no answer.
    """

    kind: Kind = "auto"
    asks: ClassVar[bool] = False
    version: ClassVar[int] = 3

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        sample, subtask = state.sample, str(state.sample.meta.get("subtask", ""))
        if self.kind in ("auto", "choice") and sample.choices:
            return _read(state, read_choice(state.reply, _texts(state), subtask, sample.question))
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
            return _found(state, said or None)
        for letter, text in zip(ascii_uppercase, _texts(state), strict=False):
            alone = rf"(?:\({letter}\)|{letter}[).:]?)"
            either = rf"{alone}\s*(?:{re.escape(text)})?|{re.escape(text)}" if text else alone
            if re.fullmatch(rf"(?:{either})\.?", said):
                return _found(state, letter)
        return _found(state, None)


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
            return _read(state, read_choice(said, _texts(state), subtask, state.sample.question))
        return _found(state, said or None)


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
        return _found(state, self.rule(state.reply, len(state.sample.choices)))

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
        return _found(state, vlmevalkit(state.reply, _texts(state)))


@dataclass(frozen=True)
class LmmsEval:
    """lmms-eval's rule for BLINK in 2026-08: the first letter of the reply, whichever it is."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return _found(state, lmms_eval(state.reply))


@dataclass(frozen=True)
class Vlm2Exact:
    """VLM2-Bench's reading of GC: exactly T or F."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return _found(state, tf_exact(state.reply))


@dataclass(frozen=True)
class Vlm2TrueFalse:
    """VLM2-Bench's reading of OC-Cpr and PC-Cpr: the only word that is t, f, true or false."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return _found(state, tf_answer(state.reply))


@dataclass(frozen=True)
class Vlm2Count:
    """VLM2-Bench's reading of counts: the only number, where all number words together are one."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        found = count_answer(state.reply)
        return _found(state, None if found is None else str(found))


@dataclass(frozen=True)
class Vlm2Grouping:
    """VLM2-Bench's reading of Grp: what stands before the first ")", so that "(D)" is not D."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return _found(state, group_answer(state.reply))


@dataclass(frozen=True)
class Choice:
    """The letter of one of the choices, from a reply in free words; no answer where the words leave it open.

    In this order: a reply that is a letter and nothing more; the last declaration ("the answer is (B)",
    "Answer: B"); the only letter in brackets, of the whole reply or of the last paragraph's last sentence with
    one; a letter that opens the reply ("B. the third image"); the choice whose text the reply begins with, or the
    only one that it names. What is negated, a list of the choices and a declaration of two letters ("A or B") are
    no answer, nor is a letter beyond the choices. For samples with choices: see `Verbatim` for open answers.
    """

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return _found(state, choice_letter(state.reply, _texts(state)))


@dataclass(frozen=True)
class Verbatim:
    """The whole reply, without the white space around it, as the answer to an open question."""

    asks: ClassVar[bool] = False

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply; the model is not asked."""
        return _found(state, state.reply.strip() or None)


def reader(name: str) -> Stage:
    """The reader of this name as commands spell it: `blink_official` is BlinkOfficial. Raises ConfigError."""
    found = names()
    if name not in found:
        raise ConfigError([f"reader: no reader is named {name!r}; there are {', '.join(sorted(found))}"])
    built: Stage = found[name]()
    return built


def names() -> dict[str, type]:
    """Every reader of this file by its name in snake case, as `--reader` takes it."""
    module = sys.modules[__name__]
    return {reader_name(public): getattr(module, public) for public in __all__}


def reader_name(class_name: str) -> str:
    """`BlinkOfficial` or `eval.readers.BlinkOfficial` as `blink_official`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name.rpartition(".")[2]).lower()


def _found(state: State, answer: str | None) -> State:
    return state.replace(answer=answer, reason="" if answer else "unread")


def _read(state: State, reading: Reading) -> State:
    return state.replace(answer=reading.answer, reason=reading.reason)


def _texts(state: State) -> list[str]:
    """The texts of the choices, empty where a choice is an image."""
    return [choice if isinstance(choice, str) else "" for choice in state.sample.choices]

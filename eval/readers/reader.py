"""The base class of readers, which are stages that find the answer in the model's last reply, and
look-up of readers by name."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from typing import ClassVar, Literal

from looktwice.pipelines.config.build import build
from looktwice.pipelines.config.classes import ConfigError, is_foreign, suggest_names
from looktwice.pipelines.config.spec import get_public_path
from looktwice.pipelines.extensions import list_own_classes
from looktwice.pipelines.model import Model
from looktwice.pipelines.models.keys import mask_keys
from looktwice.pipelines.replies.thoughts import (
    cut_at_new_turn,
    cut_at_turn_end,
    ends_in_thought,
    strip_beginning,
    strip_thoughts,
)
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State, WithoutModel

RELATION_PATTERNS = (
    ("Relative_Depth", re.compile(r"\b[a-z] is (?:closer|nearer)\b")),
    ("Relative_Reflectance", re.compile(r"\b[a-z] is darker\b")),
)
"""Patterns in the texts of choices by which a subtask can be recognised."""


@dataclass(frozen=True)
class Reading:
    """The answer, or None and a reason: one of scoring's reasons (unread, refused, empty, cut_off),
    followed by details."""

    answer: str | None
    reason: str = ""

    @classmethod
    def from_answer(cls, answer: str | None) -> Reading:
        """Return a reading with this answer; if it is None or empty, the reason is "unread"."""
        return cls(answer or None, "" if answer else "unread")

    @classmethod
    def from_letter(cls, letter: str, letters: str) -> Reading:
        """Return a reading of the letter that a reply names ("" if it names several or none); the
        letter is an answer only if it is one of `letters`."""
        if not letter:
            return cls(None, "unread: it names several choices, or none of them")
        if letter not in letters:
            return cls(None, f"unread: it names {letter}, which is not among {', '.join(letters)}")
        return cls(letter)

    @classmethod
    def for_empty_reply(cls, reply: str) -> Reading:
        """Return a reading of a reply that has no text after cleaning, because it was empty or held
        only thoughts."""
        if not reply.strip():
            return cls(None, "empty")
        if ends_in_thought(reply):
            return cls(None, "cut_off: the reply ends inside its thoughts")
        return cls(None, "empty: the reply holds nothing but thoughts or marks")


class Reader(WithoutModel, ABC):
    """A stage that sets the state's answer from the last reply, or leaves it None with a reason.

    Scoring runs it on recorded conversations. It never calls a model and never guesses. A subclass
    implements `read`, which gets the part of the reply that `part` names: "answer" is the text of
    the model's turn without thoughts and tool calls; "turn" continues after words such as "Human:"
    that begin another turn, for readers that follow the code of other projects; "reply" is the
    whole reply.
    """

    part: ClassVar[Literal["answer", "turn", "reply"]] = "answer"

    @abstractmethod
    def read(self, state: State) -> Reading:
        """Read the answer in `state.reply`: a letter of the sample's choices, or text for an open
        question.

        The text of a choice instead of its letter is not an answer: the reply counts as unreadable.
        """

    def __call__(self, state: State, model: Model) -> State:
        """Read the last reply without calling the model."""
        reading = self.read_masked(state)
        return state.replace(answer=reading.answer, reason=reading.reason)

    def read_masked(self, state: State, keys: Sequence[str] | None = None) -> Reading:
        """Return the result of `read` with secret keys masked, because removing markup may have
        joined the parts of a key.

        To read many states, pass the result of `list_known_keys` as `keys`.
        """
        read = partial(_read_with_reply, self, state)
        return _mask_reading(_read_part(self.part, state.reply, read), keys)


class TextReader(Reader):
    """A reader whose result depends only on the reply and on the sample's question, choices and
    `meta`, so that scoring reads equal replies once. A subclass implements `read_text`."""

    @abstractmethod
    def read_text(self, reply: str, sample: Sample) -> Reading:
        """Read the answer in a reply, as `read` does."""

    def read(self, state: State) -> Reading:
        """Read the answer in `state.reply`."""
        return self.read_text(state.reply, state.sample)

    def read_reply(self, reply: str, sample: Sample, keys: Sequence[str] | None = None) -> Reading:
        """Return what `read_masked` returns for a state with this reply."""
        read = partial(self.read_text, sample=sample)
        return _mask_reading(_read_part(self.part, reply, read), keys)


def _read_with_reply(reader: Reader, state: State, reply: str) -> Reading:
    return reader.read(_replace_reply(state, reply))


def _mask_reading(reading: Reading, keys: Sequence[str] | None) -> Reading:
    if keys is not None and not keys:
        return reading
    answer = reading.answer
    if isinstance(answer, str):
        answer = mask_keys(answer, keys)
    return Reading(answer, mask_keys(reading.reason, keys))


def _read_part(part: str, reply: str, read: Callable[[str], Reading]) -> Reading:
    """Return the result of `read` for this part of the reply."""
    if part == "reply":
        return read(reply)
    text, without_calls, first = _find_parts(reply, part)
    if not without_calls.strip():
        return _report_unparsed_call() if text.strip() else Reading.for_empty_reply(reply)
    reading = read(first)
    if reading.answer is None and first != without_calls:
        reading = read(without_calls)
    if reading.answer is None and without_calls != text:
        return _report_unparsed_call()
    return reading


@lru_cache(maxsize=8192)  # models repeat the same reply
def _find_parts(reply: str, part: str) -> tuple[str, str, str]:
    """Return this part of a reply: thoughts are removed first, then tool calls, then the text of
    further turns."""
    text = strip_thoughts(reply)
    text = cut_at_turn_end(text if part == "turn" else strip_beginning(text))
    without_calls = _strip_calls(text)
    return text, without_calls, without_calls if part == "turn" else cut_at_new_turn(without_calls)


CALL_HINT_PATTERN = re.compile(r"[<{\[`]|&lt;|\w\(|action|function", re.I)
"""Every tool call that a server left in the text matches this pattern."""


def _strip_calls(text: str) -> str:
    """Return the text without its tool calls."""
    if not CALL_HINT_PATTERN.search(text):
        return text
    from looktwice.pipelines.replies.text_calls import strip_text_calls

    return strip_text_calls(text)


def _report_unparsed_call() -> Reading:
    from looktwice.pipelines.replies.text_calls import UNPARSED_CALL_ADVICE

    return Reading(None, f"unread: {UNPARSED_CALL_ADVICE}")


def _replace_reply(state: State, reply: str) -> State:
    """Return the state with another text in the model's last turn."""
    if reply == state.reply:
        return state
    turns = list(state.messages)
    last = max(number for number, turn in enumerate(turns) if turn.role == "assistant")
    turns[last] = replace(turns[last], parts=(reply,))
    return state.replace(messages=tuple(turns))


def get_subtask(sample: Sample) -> str:
    """Return the subtask named in `meta`, otherwise the BLINK subtask recognised by its choices, or
    ""."""
    if named := sample.meta.get("subtask", ""):
        return str(named)
    texts = "\n".join(get_choice_texts(sample)).lower()
    return next((name for name, words in RELATION_PATTERNS if words.search(texts)), "")


def get_choice_texts(sample: Sample) -> list[str]:
    """Return the texts of the sample's choices; a choice that is an image has an empty text."""
    return [choice if isinstance(choice, str) else "" for choice in sample.choices]


def build_reader(name: str, plugins: Sequence[str] = ()) -> Stage:
    """Build the reader with this name, spelt as in commands: `blink_official` is BlinkOfficial,
    `mine.Last` is a plugin's reader.

    Raises ConfigError.
    """
    path = name if "." in name else map_readers().get(name)
    if path is None:
        names = sorted(map_readers())
        near = suggest_names(_to_snake_case(name), names)
        classes = (cls for module in plugins for cls in vars(import_module(module)).values())
        own = [
            get_public_path(cls) for cls in classes if isinstance(cls, type) and is_own_reader(cls)
        ]
        known = ", ".join(names) + (f", and in your plugin: {', '.join(own)}" if own else "")
        raise ConfigError([f"reader: there is no reader {name!r}{near or '.'} There are {known}"])
    reader: Stage = build({"use": path}, place="reader", plugins=plugins)
    return reader


def is_own_reader(cls: type) -> bool:
    """Return whether a plugin's class is a reader: a stage that uses the reply and calls no
    model."""
    # a plugin's reader need not inherit `Reader`: its code reads `reply` and calls no model
    names = getattr(vars(cls).get("__call__"), "__code__", is_own_reader.__code__).co_names
    is_reader = issubclass(cls, Reader) or ("reply" in names and "model" not in names)
    return is_reader and is_foreign(get_public_path(cls))


def map_readers() -> dict[str, str]:
    """Return the paths of the built-in readers by name, in snake case, which is the form that
    `--reader` takes."""
    room = "eval.readers"
    paths = {f"{room}.{name}" for name in import_module(f"looktwice.{room}").__all__}
    paths |= {path for path in list_own_classes() if path.rpartition(".")[0] == room}
    return {_to_snake_case(path): path for path in sorted(paths)}


def get_reader_name(reader: object) -> str:
    """Return the name of a reader in the form that `--reader` takes."""
    return _to_snake_case(type(reader).__name__)


def _to_snake_case(path: str) -> str:
    """Convert `eval.readers.BlinkOfficial` to `blink_official`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", path.rpartition(".")[2]).lower()

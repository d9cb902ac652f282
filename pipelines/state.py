"""The state of a sample between two stages, the interface of a stage, and remarks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, ClassVar, Protocol

import numpy as np

from looktwice.pipelines.counted import format_times
from looktwice.pipelines.json_input import is_text
from looktwice.pipelines.model import CallOptions, Message, Messages, Model, Reply
from looktwice.pipelines.picture import make_thumbnail_url
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.view import View

__all__ = ["Stage", "State", "WithoutModel"]

Measurement = float | str | None
"""One measured value: a number or a category name; None if nothing was measured."""

_REMARKS: ContextVar[list[str] | None] = ContextVar("looktwice_remarks", default=None)


def remark(sentence: str) -> None:
    """Add a note to the record from code that has no state to return, such as a detector.

    The pipeline adds it to the notes of the stage that runs in this thread. A stage itself uses
    `State.with_notes`.
    """
    remarks = _REMARKS.get()
    if remarks is not None:
        remarks.append(sentence)


@contextmanager
def collect_remarks() -> Iterator[list[str]]:
    """Collect the remarks made inside the context in a list."""
    remarks: list[str] = []
    token = _REMARKS.set(remarks)
    try:
        yield remarks
    finally:
        _REMARKS.reset(token)


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a model: what was sent, and the reply or the error; `model` names a stage's
    second model."""

    messages: Messages
    draw: int
    options: CallOptions
    reply: Reply | None
    error: str = ""
    model: str = ""


UNCHANGED_NOTE = "; kept as it is"
"""The end of a note saying why a stage had nothing to do and left the views unchanged."""
NO_MARK_NOTE = f"no mark to draw{UNCHANGED_NOTE}"
"""The note of a marker for a sample without marks."""


@dataclass(frozen=True, eq=False)
class Step:
    """The record of one stage: its slot, duration and calls, and the views and prompt after it."""

    slot: str
    seconds: float
    calls: tuple[Call, ...]
    views: tuple[View, ...]
    prompt: str


@dataclass(frozen=True, eq=False)
class State:
    """The state of a sample between stages; a stage returns a changed copy (`state.replace(...)`)
    and never mutates it.

    `views` are the images to show, `prompt` the text to send, `messages` the conversation so far.
    `answer` is set by specialists and by stages that read replies; `reason` says why there is none
    (`state.abstain`). `confidence` lies in 0..1. `seed` is the random seed of the run, `draw` the
    number of the repetition. `letters` maps each letter as now asked to the letter of the task's
    own sample, and is empty if they are the same; scoring maps answers back. `notes` are sentences
    for the record about anything unusual that a stage did (`state.with_notes`); `measures` are
    measured values (`state.measured`), from which scoring makes metrics, slices and tests.
    """

    sample: Sample
    views: tuple[View, ...] = ()
    prompt: str = ""
    messages: tuple[Message, ...] = ()
    answer: str | None = None
    reason: str = ""
    confidence: float | None = None
    trace: tuple[Step, ...] = field(default=(), repr=False)
    seed: int = 0
    draw: int = 0
    letters: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    measures: Mapping[str, Measurement | tuple[Measurement, ...]] = field(default_factory=dict)

    @classmethod
    def start(cls, sample: Sample, seed: int = 0, draw: int = 0) -> State:
        """Return the initial state: a view per image, the question as prompt. Raises
        PictureError."""
        if not isinstance(sample, Sample):
            kind = type(sample).__name__
            raise TypeError(f"State.start takes a Sample, such as an Item's `sample`, found {kind}")
        views = tuple(View.of(image, source=number) for number, image in enumerate(sample.images))
        return cls(sample, views, sample.question, seed=seed, draw=draw)

    def replace(self, **changes: Any) -> State:
        """Return a copy with these fields changed."""
        if type(self) is not State or not changes.keys() <= vars(self).keys():
            return replace(self, **changes)
        state = object.__new__(State)  # a third of the time that `dataclasses.replace` takes
        vars(state).update(vars(self), **changes)
        return state

    def abstain(self, reason: str) -> State:
        """Return a copy without an answer, for a stated reason. It is counted as an abstention,
        neither correct nor wrong.

        No later stage runs, so nothing is spent on a question that was given up.
        """
        return self.replace(answer=None, reason=f"abstained: {reason}")

    def with_notes(self, *notes: str) -> State:
        """Return a copy with these notes added for the record; repeated notes are dropped."""
        if not notes:
            return self
        return self.replace(notes=tuple(dict.fromkeys((*self.notes, *notes))))

    def measured(self, name: str, value: Measurement | Sequence[Measurement]) -> State:
        """Return a copy with a measurement of this sample added; an existing one of this name is
        replaced.

        `value` is a finite number or a category name, or a sequence with one of these (or None) per
        turn. Raises ValueError for anything else.
        """
        plain = (
            tuple(map(_convert_to_plain_number, value))
            if isinstance(value, list | tuple)
            else _convert_to_plain_number(value)
        )
        state = self.replace(measures={**self.measures, name: plain})
        if fault := state._find_measurement_fault():
            raise ValueError(fault)
        return state

    @property
    def ended(self) -> bool:
        """True once a stage has abstained."""
        return self.answer is None and self.reason.startswith("abstained")

    @property
    def has_result(self) -> bool:
        """True if the stages so far called a model, answered, or gave a reason not to."""
        return bool(self.answer is not None or self.reason or any(s.calls for s in self.trace))

    def find_fault(self) -> str:
        """Describe a field that a stage set to an invalid value; "" if every field can be recorded.

        Text must be a `str` that UTF-8 can encode, `confidence` a number in 0..1, and `sample` a
        Sample.
        """
        texts = {f"notes[{i}]": note for i, note in enumerate(self.notes)}
        texts = {"prompt": self.prompt, "reason": self.reason, **texts}
        texts |= {} if self.answer is None else {"answer": self.answer}
        for name, text in texts.items():
            if not isinstance(text, str):
                found = f"{text!r} ({type(text).__name__})"
                return f"{name} must be a string, found {found}; write str(...)"
            if not is_text(text):
                fault = "a lone surrogate, which UTF-8 cannot encode"
                return f"{name} holds {fault}: {text[:80]!a}"
        confidence, numbers = self.confidence, (float, int, np.float64)
        if confidence is not None and not (type(confidence) in numbers and 0 <= confidence <= 1):
            wanted = "confidence must be a float in 0..1 or None"
            return f"{wanted}, found {confidence!r}; write float(...)"
        for name, kind in {"views": View, "messages": Message}.items():
            values = getattr(self, name)
            if not isinstance(values, tuple) or not all(isinstance(x, kind) for x in values):
                kinds = f"{kind.__name__}, found {type(values).__name__}"
                return f"{name} must be a tuple of {kinds} {values!r:.80}"
        if isinstance(self.sample, Sample):
            return self._find_measurement_fault()
        return f"sample must be a Sample, found {type(self.sample).__name__}"

    def _find_measurement_fault(self) -> str:
        """Describe a measurement that cannot be recorded; "" if there is none."""
        for name, value in self.measures.items():
            if not (is_text(name) and name):
                return f"the name of a measurement must be a string, found {name!r:.80}"
            for part in value if isinstance(value, tuple) else (value,):
                number: Any = part if type(part) in (float, int) else 0.0
                plain = part is None or number is part or is_text(part)
                if not (plain and math.isfinite(number)):
                    wanted = "must be a finite number or a string"
                    return f"the measurement {name!r} {wanted}, found {part!r:.80}"
        return ""

    @property
    def shown_views(self) -> tuple[View, ...]:
        """The views that the model has been shown, in order."""
        return tuple(view for message in self.messages for view in message.views)

    @property
    def reply(self) -> str:
        """The text of the model's last turn; empty if it has not replied."""
        if self.messages and self.messages[-1].role == "assistant":
            return self.messages[-1].text
        # from the end, because messages of a recorded run are loaded one by one as they are read
        turns = (message.text for message in reversed(self.messages) if message.role == "assistant")
        return next(turns, "")

    def rng(self, slot: str) -> np.random.Generator:
        """Return the random generator of a slot, which is the same in every run for this seed,
        sample and draw."""
        name = f"{self.seed}\n{self.sample.id}\n{self.draw}\n{slot}"
        return np.random.default_rng(
            int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")
        )

    def _repr_html_(self) -> str:
        return render_html(self)


def render_html(state: State) -> str:
    """Render the views of a `State` side by side, then its prompt or turns, and the answer."""
    views, turns = "", ""
    for number, view in enumerate(state.views, 1):
        caption = f"view {number}{format_times(view.seconds)}, {view.size[0]}x{view.size[1]}"
        views += (
            '<figure style="margin:0"><img'
            f' src="{make_thumbnail_url(view.picture)}"><figcaption>{caption}</figcaption></figure>'
        )
    for message in state.messages:
        count = len(message.views)
        images = f"[{count} image{'s' * (count > 1)}] " if count else ""
        turns += f"<p><b>{message.role}</b> {images}{escape(message.text)}</p>"
    body = turns or f"<p><b>prompt</b> {escape(state.prompt)}</p>"
    answer = state.answer if state.answer is not None else (state.reason or "no answer yet")
    return (
        f'<div style="font-family:sans-serif"><p><b>{escape(state.sample.id)}</b></p><div'
        f' style="display:flex;gap:8px;flex-wrap:wrap">{views}</div><div'
        f' style="white-space:pre-wrap">{body}</div><p><b>answer</b> {escape(answer)}</p></div>'
    )


def _convert_to_plain_number(value: Any) -> Any:
    """Convert a numpy number or a bool to a plain Python number."""
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, bool) else value


class Stage(Protocol):
    """The interface of a stage: a frozen dataclass whose fields are its settings, called with a
    state and the model.

    A class that never calls the model may inherit `WithoutModel`. `version: ClassVar[int]` is
    raised when behaviour or a default changes.
    """

    def __call__(self, state: State, model: Model) -> State: ...


class WithoutModel:
    """A base class for stages that never call the model; arms with different models share their
    results."""

    asks: ClassVar[bool] = False

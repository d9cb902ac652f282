"""A pipeline: named stages called in order, and the model as they reach it, which records every call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

from looktwice.pipelines.model import CallOptions, Messages, Model, ModelError, Reply
from looktwice.pipelines.state import Call, Stage, State, Step, collect_remarks

__all__ = ["NoModel", "Pipeline", "RecordingModel", "SecondModel", "StageFailed", "cause_of", "step", "with_models"]


@runtime_checkable
class BySample(Protocol):
    """A model that answers from a table by sample, such as recorded replies."""

    def of(self, sample: str) -> Model: ...


@dataclass(frozen=True)
class NoModel:
    """Stands where no model may be called: in scoring, and behind stages that say that they never ask."""

    why: str = "this pipeline was given no model; pass one, or name one under `models:`"

    @property
    def identity(self) -> str:
        """No model has this name."""
        return "none"

    def __call__(self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()) -> Reply:
        """Raises ModelError."""
        raise ModelError(self.why)


class RecordingModel:
    """The model as the stages of one sample reach it: it keeps every call, and stops when the run does.

    `check` is called before each call and between stages and may raise Stopped. `around` gives a stage's second
    model as the run wraps it.
    """

    def __init__(
        self,
        model: Model,
        sample: str,
        check: Callable[[], None] = lambda: None,
        around: Callable[[Model], Model] = lambda model: model,
    ) -> None:
        self.sample, self.check, self.around = sample, check, around
        self.model = self._of_sample(model)
        self.calls: list[Call] = []

    @property
    def identity(self) -> str:
        """The identity of the model inside."""
        return self.model.identity

    def __call__(self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()) -> Reply:
        """Ask the model inside, and keep what was sent and what came back, also where it failed."""
        return self.ask(self.model, messages, draw, options)

    def ask(self, model: Model, messages: Messages, draw: int, options: CallOptions) -> Reply:
        """Ask this or a second model; the call of a second one is kept with its identity."""
        self.check()
        sent, name = tuple(messages), "" if model is self.model else model.identity
        try:
            reply = model(sent, draw, options)
        except Exception as exc:
            self.calls.append(Call(sent, draw, options, None, f"{type(exc).__name__}: {exc}", name))
            raise
        self.calls.append(Call(sent, draw, options, reply, "", name))
        return reply

    def beside(self, model: Model) -> Model:
        """A stage's second model: wrapped, stopped and recorded like the first."""
        return SecondModel(self, self._of_sample(self.around(model)))

    def _of_sample(self, model: Model) -> Model:
        return model.of(self.sample) if isinstance(model, BySample) else model


@dataclass(frozen=True)
class SecondModel:
    """A second model of a stage, whose calls the sample's `RecordingModel` keeps too."""

    door: RecordingModel
    model: Model

    @property
    def identity(self) -> str:
        """That of the second model."""
        return self.model.identity

    def __call__(self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()) -> Reply:
        """Ask the second model, recorded by the first."""
        return self.door.ask(self.model, messages, draw, options)


def with_models(thing: Any, change: Callable[[Model], Model]) -> Any:
    """The same stage with every model among its settings changed, however deep; itself where it holds none."""
    if isinstance(thing, type | RecordingModel | SecondModel):
        return thing
    if callable(thing) and isinstance(getattr(thing, "identity", None), str):  # a stage may hold another identity
        return change(thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        old = {f.name: getattr(thing, f.name) for f in fields(thing) if f.init}
        new = {name: with_models(value, change) for name, value in old.items()}
        changed = {name: value for name, value in new.items() if value is not old[name]}
        return replace(thing, **changed) if changed else thing
    if isinstance(thing, tuple | list):
        inner = [with_models(value, change) for value in thing]
        return type(thing)(inner) if any(a is not b for a, b in zip(inner, thing, strict=True)) else thing
    if isinstance(thing, Mapping):
        pairs = {key: with_models(value, change) for key, value in thing.items()}
        return pairs if any(pairs[key] is not thing[key] for key in pairs) else thing
    return thing


class StageFailed(Exception):
    """A stage raised; `state` is the sample as the stage got it, with every call and remark made until then."""

    def __init__(self, slot: str, state: State) -> None:
        super().__init__(f"stage {slot!r} failed")
        self.slot, self.state = slot, state


def cause_of(failed: StageFailed) -> BaseException:
    """The exception that a stage raised, also where it raised inside a pipeline within a pipeline."""
    cause = failed.__cause__ or failed
    return cause_of(cause) if isinstance(cause, StageFailed) and cause is not failed else cause


def step(slot: str, stage: Stage, state: State, door: RecordingModel) -> State:
    """Run one stage and write into the trace what it did. Raises StageFailed from the stage's own exception."""
    door.check()
    heard, start = len(door.calls), time.perf_counter()
    with collect_remarks() as said:
        try:
            after = with_models(stage, door.beside)(state, door)
        except Exception as exc:
            inner = exc.state.notes if isinstance(exc, StageFailed) else ()
            known = state.with_notes(*inner, *said)
            raise StageFailed(slot, _traced(slot, known, known, door.calls[heard:], start)) from exc
    if not isinstance(after, State):
        wrong = TypeError(f"stage {slot!r} ({type(stage).__name__}) gave back {type(after).__name__}, not a State")
        raise StageFailed(slot, _traced(slot, state, state, door.calls[heard:], start)) from wrong
    return _traced(slot, state, after.with_notes(*said), door.calls[heard:], start)


def _traced(slot: str, before: State, after: State, heard: list[Call], start: float) -> State:
    inner = after.trace[len(before.trace) :]
    known = {id(call) for entry in inner for call in entry.calls}
    calls = tuple(call for call in heard if id(call) not in known)
    entry = Step(slot, time.perf_counter() - start, calls, after.views, after.prompt)
    return after.replace(trace=(*after.trace, entry))


@dataclass(frozen=True)
class Pipeline:
    """Named stages, called in their order. A slot that holds None is skipped."""

    stages: Mapping[str, Stage | None]

    def __call__(self, state: State, model: Model | None = None) -> State:
        """Run every stage, until one abstains. Raises StageFailed, which names the slot and keeps the calls made."""
        door = model if isinstance(model, RecordingModel) else RecordingModel(model or NoModel(), state.sample.id)
        for slot, stage in self.stages.items():
            if stage is not None and not state.ended:
                state = step(slot, stage, state, door)
        return state

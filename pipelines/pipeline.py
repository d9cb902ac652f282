"""Runs stages on a sample, records their model calls, and makes failures traceable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

from looktwice.pipelines.counted import format_count
from looktwice.pipelines.json_input import is_text, read_as, repair_text, write_canonical
from looktwice.pipelines.model import (
    CallOptions,
    Message,
    Messages,
    Model,
    ModelError,
    ModelWrapper,
    Reply,
    ReplyNode,
    Stopped,
)
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Call, Stage, State, Step, collect_remarks, remark

__all__ = ["Pipeline"]


@dataclass(frozen=True)
class NoModel:
    """A model that raises ModelError on every call; for scoring, and for stages with `asks =
    False`."""

    reason: str = "this pipeline was given no model; pass one, or name one under `models:`"

    @property
    def identity(self) -> str:
        """The constant "none"."""
        return "none"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Raise ModelError."""
        raise ModelError(self.reason)


class RecordingModel:
    """The recording proxy through which the stages of one sample call the model; it stops with the
    run.

    `check` is called before each call and between stages and may raise Stopped. `wrap_second` adds
    the run's retries, limits and cache to a stage's second model. While an external request is
    being answered (`extras.integrations`), `request_options` override the options of a call, and
    its `later_turns` are appended to the messages of a call.
    """

    request_options: CallOptions | None = None
    later_turns: tuple[Message, ...] = ()

    def __init__(
        self,
        model: Model,
        sample: str,
        check: Callable[[], None] = lambda: None,
        wrap_second: Callable[[Model], Model] = lambda model: model,
    ) -> None:
        self.sample, self.check, self.wrap_second = sample, check, wrap_second
        self.model = self._get_sample_model(model)
        self.calls: list[Call] = []

    @property
    def identity(self) -> str:
        """The identity of the wrapped model."""
        return self.model.identity

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask the wrapped model and record the request with its reply or error."""
        if self.request_options is not None:
            messages = (*messages, *self.later_turns)
            options = self.request_options.fill_from(options)
        return self.ask(self.model, messages, draw, options)

    def for_request(self, options: CallOptions, later_turns: tuple[Message, ...]) -> RecordingModel:
        """Return a copy of this recorder for an external request with these options and later
        turns."""
        recorder = copy(self)
        recorder.request_options, recorder.later_turns = options, later_turns
        return recorder

    def ask(self, model: Model, messages: Messages, draw: int, options: CallOptions) -> Reply:
        """Ask this model or a second one, whose calls are recorded with its identity."""
        self.check()
        sent, name = tuple(messages), "" if model is self.model else model.identity
        if not all(isinstance(message, Message) for message in sent):
            wanted = "a model takes messages, such as (Message('user', (state.prompt,)),)"
            raise TypeError(f"{wanted}, found {messages!r:.80}")

        def record(reply: Reply | None, error: str = "") -> None:
            self.calls.append(Call(sent, draw, options, reply, error, name))

        try:
            reply = model(sent, draw, options)
            if fault := find_reply_fault(reply):
                raise TypeError(
                    f"the model {model.identity:.80} returned a reply that cannot be recorded:"
                    f" {fault}"
                )
        except Exception as exc:
            record(None, describe_exception(exc))
            raise
        record(reply)
        if reply.calls_left_out:
            kept = format_count(len(reply.tool_calls), "tool call")
            remark(
                f"a reply had {kept} that were kept, and {reply.calls_left_out:,} more that were"
                " left out"
            )
        return reply

    def make_second_model(self, model: Model) -> Model:
        """Return the proxy of a second model: wrapped, stopped and recorded like the first."""
        return SecondModel(self._get_sample_model(self.wrap_second(model)), self)

    def _get_sample_model(self, model: Model) -> Model:
        """Return the model for this sample: a model with separate replies per sample, such as
        recorded ones, has a method `for_sample` that selects them."""
        select: Callable[[str], Model] | None = getattr(model, "for_sample", None)
        return select(self.sample) if select is not None else model


@dataclass(frozen=True)
class SecondModel(ModelWrapper):
    """The proxy of a stage's second model, recorded by the sample's `RecordingModel`."""

    recorder: RecordingModel

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask the second model; the sample's recorder records the call."""
        return self.recorder.ask(self.model, messages, draw, options)


PLAIN_TYPES = (str, int, float, type, RecordingModel, SecondModel)


def replace_models(obj: Any, change: Callable[[Model], Model]) -> Any:
    """Return the stage with `change` applied to every model in its settings, at any depth; the same
    object if it has none."""
    if obj is None or isinstance(obj, PLAIN_TYPES):
        return obj
    # a model is callable and its `identity` is a text; a stage may have a setting of that name
    if callable(obj) and isinstance(getattr(obj, "identity", None), str):
        return change(obj)
    if is_dataclass(obj) and not isinstance(obj, type):
        changed = _change_models(
            {f.name: getattr(obj, f.name) for f in fields(obj) if f.init}, change
        )
        return replace(obj, **changed) if changed else obj
    if isinstance(obj, tuple | list):
        changed = _change_models(dict(enumerate(obj)), change)
        return type(obj)(changed.get(i, v) for i, v in enumerate(obj)) if changed else obj
    if isinstance(obj, Mapping):
        changed = _change_models(obj, change)
        return {**obj, **changed} if changed else obj
    return obj


def list_models(obj: Any) -> list[Model]:
    """Return every model in the settings of stages, at any depth, including duplicates."""
    models: list[Model] = []

    def collect(model: Model) -> Model:
        models.append(model)
        return model

    replace_models(obj, collect)
    return models


def _change_models(entries: Mapping[Any, Any], change: Callable[[Model], Model]) -> dict[Any, Any]:
    """Return the entries whose models `change` replaced."""
    made = {key: replace_models(holder, change) for key, holder in entries.items()}
    return {key: holder for key, holder in made.items() if holder is not entries[key]}


def find_reply_fault(reply: object) -> str:
    """Describe why a model's reply cannot be recorded; "" for a Reply of plain values."""
    if not isinstance(reply, Reply):
        return f"it is {type(reply).__name__}, not a Reply"
    try:
        text = write_canonical(reply.to_dict())
        if not is_text(text):
            return "a string in it holds a lone surrogate"
        read_as(ReplyNode, text)
    except (TypeError, ValueError, AttributeError, RecursionError) as exc:
        return str(exc)
    return ""


def count_calls(state: State, model: Model) -> int:
    """Count the calls made for this sample so far; the next one gets this number in the record."""
    earlier = [call for entry in state.trace for call in entry.calls]
    # a vote draws several times within its step, so these calls are not in the trace yet
    made = model.calls if isinstance(model, RecordingModel) else ()
    return len({id(call) for call in (*earlier, *made)})


class StageFailed(Exception):
    """Raised if a stage fails with an exception; `state` is its input, with all calls and remarks
    made so far."""

    def __init__(self, slot: str, state: State) -> None:
        super().__init__(f"stage {slot!r} failed")
        self.slot, self.state = slot, state


def describe_exception(exc: BaseException) -> str:
    """Return the class name and message of an exception as text that can be recorded, even if the
    exception fails to format its message."""
    try:
        text = repair_text(str(exc))
    except Exception as inner:
        text = f"(its message cannot be formatted: {type(inner).__name__})"
    return f"{type(exc).__name__}: {text}"


def find_cause(failed: StageFailed) -> BaseException:
    """Return the exception that a stage raised, even in a nested pipeline."""
    cause = failed.__cause__ or failed
    return find_cause(cause) if isinstance(cause, StageFailed) and cause is not failed else cause


def run_stage(
    slot: str, stage: Stage, state: State, recorder: RecordingModel, holds_model: bool = True
) -> State:
    """Run one stage and add a step to the trace. Raises StageFailed from the stage's own exception.

    Pass `holds_model=False` if the stage has no model among its settings: searching them takes
    longer than a short stage runs.
    """
    recorder.check()
    calls_before, start = len(recorder.calls), time.perf_counter()

    def traced(state_after: State) -> State:
        trace = state_after.trace
        earlier = {id(call) for entry in trace[len(state.trace) :] for call in entry.calls}
        calls = tuple(call for call in recorder.calls[calls_before:] if id(call) not in earlier)
        seconds = time.perf_counter() - start
        entry = Step(slot, seconds, calls, state_after.views, state_after.prompt)
        return state_after.replace(trace=(*trace, entry))

    with collect_remarks() as remarks:
        try:
            proxied = replace_models(stage, recorder.make_second_model) if holds_model else stage
            after = proxied(state, recorder)
        except (KeyboardInterrupt, Stopped):
            raise
        # `sys.exit` or a cancelled task of the stage's own event loop ends only this stage
        except BaseException as exc:
            inner = exc.state.notes if isinstance(exc, StageFailed) else ()
            raise StageFailed(slot, traced(state.with_notes(*inner, *remarks))) from exc
    fault = f"it returned {type(after).__name__}, not a State; end in `return state.replace(...)`"
    if isinstance(after, State):
        fault = after.find_fault()
    if fault:
        wrong = TypeError(f"stage {slot!r} ({type(stage).__name__}): {fault}")
        raise StageFailed(slot, traced(state)) from wrong
    return traced(after.with_notes(*remarks))


def explain_stage_fault(stage: object) -> str:
    """Describe why an object cannot be a stage; "" if it can."""
    if isinstance(stage, type):
        return f"is the class {stage.__name__}; write {stage.__name__}(...) to make a stage of it"
    wanted = "must be a stage or a Pipeline of stages"
    return "" if callable(stage) else f"{wanted}, found {stage!r:.80}"


@dataclass(frozen=True)
class Pipeline:
    """Named stages, called in order. A slot that holds None is skipped.

    It serves notebooks, `check` and `replay`; a run calls `run_stage` for each stage itself,
    because arms share their first stages (`eval.runs.trial`).
    """

    stages: Mapping[str, Stage | None]

    def __post_init__(self) -> None:
        if not isinstance(self.stages, Mapping):
            raise TypeError(
                "stages must be a mapping of named stages, such as {'ask': Ask()}, found"
                f" {type(self.stages).__name__}"
            )
        for slot, stage in self.stages.items():
            if fault := explain_stage_fault(stage) if stage is not None else "":
                raise TypeError(f"stages[{slot!r}] {fault}")

    def __call__(self, state: State, model: Model | None = None) -> State:
        """Run the stages until one abstains. Raises StageFailed, which names the slot and keeps the
        calls made."""
        if not isinstance(state, State):
            kind = type(state).__name__
            raise TypeError(f"a stage takes a State, such as State.start(sample), found {kind}")
        recorder = model
        if not isinstance(recorder, RecordingModel):
            recorder = RecordingModel(model or NoModel(), state.sample.id)
        for slot, stage in self.stages.items():
            if stage is not None and not state.ended:
                state = run_stage(slot, stage, state, recorder)
        return state


class Outcome(NamedTuple):
    """The state after the stages; if one failed, the state at that point and the error."""

    state: State
    error: BaseException | None = None


def run_stages(
    stages: Mapping[str, Stage | None],
    sample: Sample,
    seed: int,
    draw: int,
    model: Model,
    begin: Callable[[State], State] = lambda state: state,
) -> Outcome:
    """Run the stages on a sample, starting from its first state as changed by `begin`. Failures,
    such as an unreadable image, are returned as `error`."""
    state = State(sample, prompt=sample.question, seed=seed, draw=draw)
    try:
        return Outcome(Pipeline(stages)(begin(State.start(sample, seed, draw)), model))
    except StageFailed as exc:
        return Outcome(exc.state, find_cause(exc))
    except (PictureError, Stopped) as exc:
        return Outcome(state, exc)

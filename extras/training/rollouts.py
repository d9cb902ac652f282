"""Rollouts of a study's contestant whose replies come from a model in training: the stages, tools
and limits are the study's, and each rollout becomes a record in a run folder."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

from looktwice.eval.records.records import RunFolder, SampleRow
from looktwice.eval.records.writer import describe_failure, make_record
from looktwice.eval.scoring.record_scorer import RecordScorer
from looktwice.eval.scoring.score import ScoringTools
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.extras.integrations.recorded import Recorder
from looktwice.pipelines.config.classes import ConfigError, suggest_names
from looktwice.pipelines.config.plan import Plan, load_plan
from looktwice.pipelines.config.shipped import find_config
from looktwice.pipelines.config.spec import Arm, asks_model, find_settings
from looktwice.pipelines.model import CallOptions, Messages, Model, Reply, Stopped
from looktwice.pipelines.pipeline import RecordingModel, StageFailed, find_cause, run_stage
from looktwice.pipelines.sample import Item, hash_json
from looktwice.pipelines.state import State
from looktwice.prompting.agent.agent import Agent

STEP_MEASURE = "train_step"
"""The name of a record's measurement that holds the training step of its rollout."""


@dataclass(frozen=True)
class Rollouts:
    """A context manager for the rollouts of one arm, which are recorded in the run folder `out`.

    Each rollout of the same question is another draw. `looktwice report`, `view` and `export` can
    read the folder, even during training.
    """

    plan: Plan
    arm: Arm
    out: Path
    _is_open: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @classmethod
    def load(
        cls, study: str | Path, contestant: str, out: str | Path, overrides: Sequence[str] = ()
    ) -> Self:
        """Load a contestant of a study. Raises ConfigError if the contestant has several arms, or
        if it calls no model."""
        plan = load_plan(find_config(study), overrides)
        arms = [arm for arm in plan.points if arm.contestant == contestant]
        fault = ""
        if not arms:
            names = list(dict.fromkeys(arm.contestant for arm in plan.points))
            hint = suggest_names(contestant, names) or f"; use one of {', '.join(names)}"
            fault = f"there is no such contestant{hint}"
        elif len(arms) > 1:
            fault = f"it has {len(arms)} arms; use a study with one task and no sweep"
        elif not any(map(asks_model, arms[0].stages.values())):
            fault = "it asks no model, so it has nothing to train; name one that does"
        if fault:
            raise ConfigError([f"{study}: contestant {contestant!r}: {fault}"])
        return cls(plan, arms[0], Path(out))

    @cached_property
    def items(self) -> Mapping[str, Item]:
        """The questions of the task by id. Raises TaskError."""
        return {item.sample.id: item for item in self.arm.task}

    @cached_property
    def agent(self) -> Agent | None:
        """The contestant's agent, or None if it has none."""
        return next(find_settings(self.arm.stages, Agent), None)

    @cached_property
    def _recorder(self) -> Recorder:
        return Recorder(self.out, (self.arm,), self.out.name, self.plan.plugins)

    @cached_property
    def _scorer(self) -> RecordScorer:
        plan = Plan(self.plan.name, (self.arm,), plugins=self.plan.plugins)
        return ScoringTools(RunFolder(self.out), plan, plan.plugins).plan_scorers[self.arm.id]

    def __enter__(self) -> Self:
        """Open the folder. Raises RunError if it holds another run, or is in use."""
        self._recorder.__enter__()
        self._is_open.set()
        return self

    def __exit__(self, *raised: object) -> None:
        self._is_open.clear()
        self._recorder.__exit__(*raised)

    def run(
        self, item: Item, model: Model, get_step: Callable[[], int | None] = lambda: None
    ) -> ScoredRecord:
        """Run the stages on one question with a model, write the record, and return its verdict.

        `get_step`, called after the stages, returns the training step. If a stage fails, the record
        holds the error. Raises exceptions that end the stages before a record is written, such as
        Stopped, and ValueError outside the context.
        """
        if not self._is_open.is_set():
            raise ValueError(
                "the rollouts are closed; run them in `with Rollouts.load(...) as ...`"
            )
        arm, recorder, sample = self.arm, self._recorder, item.sample
        row = self._write_question(item)
        state, recording, error = (
            State.start(sample, arm.seed),
            RecordingModel(model, sample.id),
            "",
        )
        try:
            for slot, stage in arm.stages.items():
                state = state if state.ended else run_stage(slot, stage, state, recording)
        except StageFailed as exc:
            state, error = exc.state, describe_failure(find_cause(exc))
        if (step := get_step()) is not None:
            state = state.measured(STEP_MEASURE, step)
        state = state.replace(draw=recorder.reserve_draws(arm, sample.id, 1)[0])
        record = make_record(arm, sample, row.sha, state, recorder.writer.blobs, error)
        written = recorder.writer.record(record)
        recorder.writer.flush()
        return self._scorer(written, row)

    def _write_question(self, item: Item) -> SampleRow:
        """Return the row of a question, after writing it if the question is new."""
        plain, recorder = item.sample.to_dict(), self._recorder
        row = SampleRow(self.arm.task_id, hash_json(plain), item.answer, plain, item.truth)
        with recorder.lock:
            if row.id not in recorder.shas:
                recorder.writer.add_sample(row)
                recorder.shas[row.id] = row.sha
        return row


@dataclass(frozen=True, eq=False)
class PendingRequest:
    """A request to the model in training: the conversation so far, and the options."""

    messages: Messages
    options: CallOptions


class _AwaitedModel:
    """A model that passes its requests to another thread through the queue `requests`, and waits
    for replies."""

    identity = "a model in training"

    def __init__(self) -> None:
        self.requests: queue.SimpleQueue[PendingRequest | BaseException | None] = (
            queue.SimpleQueue()
        )
        self.replies: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Pass on the request, and return the reply when it is sent. Raises Stopped if None is sent
        instead."""
        self.requests.put(PendingRequest(tuple(messages), options))
        if (reply := self.replies.get()) is None:
            raise Stopped("the rollout was closed")
        return reply


class Rollout:
    """One attempt at a question, driven by the caller: the stages run in a separate thread, which
    waits for each reply.

    `pending_request` is the request to answer next, or None once the stages have ended; from then
    on `scored_record` holds the verdict. `step` is the training step, which may be set until the
    stages end.
    """

    def __init__(self, rollouts: Rollouts, item: Item) -> None:
        self.item = item
        self.pending_request: PendingRequest | None = None
        self.scored_record: ScoredRecord | None = None
        self.step: int | None = None
        self._model = _AwaitedModel()
        self._thread = threading.Thread(target=self._run, args=(rollouts,), daemon=True)
        self._thread.start()
        self._wait()

    def _run(self, rollouts: Rollouts) -> None:
        fault: BaseException | None = None
        try:
            self.scored_record = rollouts.run(self.item, self._model, lambda: self.step)
        except Stopped:
            pass
        except BaseException as exc:  # re-raised in the trainer's thread
            fault = exc
        self._model.requests.put(fault)

    def _wait(self) -> None:
        """Wait for the next request or the end of the stages. Reraises the exception that ended the
        stages before a record was written, if there was one."""
        asked = self._model.requests.get()
        self.pending_request = asked if isinstance(asked, PendingRequest) else None
        if isinstance(asked, BaseException):
            raise asked

    def send(self, reply: Reply) -> PendingRequest | None:
        """Send a reply to the pending request; return the next request, or None if the stages have
        ended.

        Raises ValueError if no request is pending.
        """
        if self.pending_request is None:
            raise ValueError(f"the rollout of {self.item.sample.id} has ended; start another one")
        self._model.replies.put(reply)
        self._wait()
        return self.pending_request

    def finish(self, reply: Reply) -> ScoredRecord:
        """Send the final reply, send it again for any further request, and return the verdict."""
        while self.pending_request is not None:
            self.send(reply)
        if self.scored_record is None:
            raise ValueError(f"the rollout of {self.item.sample.id} was closed; start another one")
        return self.scored_record

    def close(self) -> None:
        """Abort the rollout without writing a record, unless it has ended."""
        if self.pending_request is not None:
            self._model.replies.put(None)
            self._wait()
        self._thread.join()

"""Runs one sample through all arms as a prefix tree, so that shared leading stages are executed
once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from looktwice.eval.records.from_state import describe_failure, make_record
from looktwice.eval.records.records import Record, RunError, SampleRow
from looktwice.eval.records.writer import RunWriter
from looktwice.pipelines.clock import spend
from looktwice.pipelines.config.arm import Arm, say_no_answer
from looktwice.pipelines.config.spec import asks_model, identity
from looktwice.pipelines.model import Stopped, canonical
from looktwice.pipelines.models.cache import CacheError
from looktwice.pipelines.models.endpoint import EndpointError, FailureRow
from looktwice.pipelines.models.limits import TURN
from looktwice.pipelines.pipeline import NoModel, RecordingModel, StageFailed, cause_of, step
from looktwice.pipelines.sample import Sample, check_marks, say_key_fault
from looktwice.pipelines.state import Stage, State


@dataclass(eq=False)
class TreeNode:
    """One stage of the tree: the arms whose last stage this is, and the stages that follow it.

    `model` is None until a stage on the path asks a model, so that arms with different models share
    the work before.
    """

    slot: str
    stage: Stage
    model: Any
    ends: list[Arm] = field(default_factory=list)
    children: dict[tuple[str, str, int], TreeNode] = field(default_factory=dict)

    def arms(self) -> Iterator[Arm]:
        """Every arm that ends at this node or below it."""
        yield from self.ends
        for child in self.children.values():
            yield from child.arms()


def build_tree(arms: Sequence[Arm]) -> list[TreeNode]:
    """The roots of the prefix tree over the stages of these arms, which have the same task and
    seed."""
    roots: dict[tuple[str, str, int], TreeNode] = {}
    for arm in arms:
        level, asking = roots, False
        node: TreeNode | None = None
        for slot, stage in arm.stages.items():
            asking = asking or asks_model(stage)
            model = arm.model if asking else None
            key = (slot, canonical(identity(stage)), id(model))
            node = level.setdefault(key, TreeNode(slot, stage, model))
            level = node.children
        if node is not None:
            node.ends.append(arm)
    return list(roots.values())


NO_MODEL_ALLOWED = NoModel(
    "this stage declares `asks = False` but called the model; remove that line from its class"
)


@dataclass(frozen=True, eq=False)
class RunContext:
    """Shared by all walks of a run: wrapped models by id of the original, the writer, the pool, and
    the callbacks.

    A task takes one of the `turns`, which it gives back while it waits to ask again. Setting
    `drain` lets only those samples go on that have called a model already. `hold` keeps a failure
    back until it is known whether its endpoint can be blamed, `on_error` is told of what must end
    the run.
    """

    models: Mapping[int, Any]
    writer: RunWriter
    pool: ThreadPoolExecutor
    turns: threading.Semaphore
    raise_if_stopped: Callable[[], None]
    on_record: Callable[[Arm, SampleRow, Record], None]
    drain: threading.Event
    hold: Callable[[FailureRow, Callable[[], None]], None]
    on_error: Callable[[BaseException], None]


@dataclass(eq=False)
class Walk:
    """Runs the wanted part of the tree for one sample; stage tasks never block on each other.

    A stage task runs one stage and goes on with the first child of its node, the others go to the
    pool. The last task to end calls `finished`.
    """

    context: RunContext
    sample: Sample
    row: SampleRow
    draw: int
    wanted: frozenset[str]
    finished: Callable[[], None]
    pending: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, roots: Sequence[TreeNode], seed: int) -> None:
        """Submit the first task; returns immediately."""
        self._submit(partial(self._run_roots, roots, seed))

    def _submit(self, task: Callable[[], None]) -> None:
        with self.lock:
            self.pending += 1
        self.context.pool.submit(self._run_task, task)

    def _run_task(self, task: Callable[[], None]) -> None:
        try:
            with self.context.turns:
                TURN.set(self.context.turns)
                task()
        except BaseException as exc:
            self.context.on_error(exc)
        finally:
            with self.lock:
                self.pending -= 1
                last = self.pending == 0
            if last:
                self.finished()

    def _run_roots(self, roots: Sequence[TreeNode], seed: int) -> None:
        if self.context.drain.is_set():
            raise Stopped
        error, state = (
            "",
            State(self.sample, prompt=self.sample.question, seed=seed, draw=self.draw),
        )
        if wrong := say_key_fault(self.row.answer, len(self.sample.choices)):
            error = f"{wrong}, so nothing was asked; mend the task"
        try:
            check_marks(self.sample)
            state = state if error else State.start(self.sample, seed, self.draw)
        except (
            ValueError
        ) as exc:  # an image that cannot be read, or a mark outside, fails this sample in every arm
            error = describe_failure(exc)
        if not error:
            self._run_children(roots, state)
            return
        for arm in (arm for root in roots for arm in root.arms()):
            self._write(arm, state, error)

    def _run_children(self, nodes: Iterable[TreeNode], state: State) -> None:
        """The first in this thread, so that a sample stays in one where it has one way to go."""
        wanted = [node for node in nodes if any(arm.id in self.wanted for arm in node.arms())]
        for node in wanted[1:]:
            self._submit(partial(self._run_stage, node, state))
        for node in wanted[:1]:
            self._run_stage(node, state)

    def _run_stage(self, node: TreeNode, state: State) -> None:
        """Run one stage; while the run is being stopped, only where a reply would be lost
        otherwise."""
        if self.context.drain.is_set() and not any(entry.calls for entry in state.trace):
            raise Stopped
        model = self.context.models[id(node.model)] if node.model is not None else NO_MODEL_ALLOWED
        try:
            recording = RecordingModel(
                model,
                self.sample.id,
                self.context.raise_if_stopped,
                lambda second: self.context.models[id(second)],
            )
            with spend(f"stage {node.slot}", sample=self.sample.id, task=self.row.task):
                state = step(node.slot, node.stage, state, recording)
        except StageFailed as exc:
            cause = cause_of(exc)
            if isinstance(cause, CacheError):
                raise cause from exc
            fail = partial(self._fail, list(node.arms()), exc.state, cause)
            if isinstance(cause, EndpointError):
                self.context.hold(cause.row, fail)
            else:
                fail()
            return
        for arm in node.arms() if state.ended else node.ends:
            self._write(arm, state)
        if state.ended:
            return
        self._run_children(node.children.values(), state)

    def _fail(self, arms: Sequence[Arm], state: State, exc: BaseException) -> None:
        for arm in arms:
            self._write(arm, state, describe_failure(exc))

    def _write(self, arm: Arm, state: State, error: str = "") -> None:
        if arm.id in self.wanted:
            if state.silent and not error:
                where = f"contestants.{arm.contestant}.stages: sample {self.sample.id}"
                wrong = (
                    f"{say_no_answer(arm.stages)}; one that finds nothing says `state.abstain(why)`"
                )
                raise RunError(f"{where}: {wrong}")
            with spend("records"):
                record = make_record(
                    arm, self.sample, self.row.sha, state, self.context.writer.blobs, error
                )
                record = self.context.writer.record(record)
            self.context.on_record(arm, self.row, record)

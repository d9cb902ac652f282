"""Runs one sample through all arms as a prefix tree, so that shared leading stages are executed
once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from looktwice.eval.records.records import Key, Record, RunError, SampleRow
from looktwice.eval.records.writer import RunWriter, describe_failure, make_record
from looktwice.eval.runs.worker_pool import WorkerPool
from looktwice.pipelines.clock import track_time
from looktwice.pipelines.config.spec import Arm, asks_model, describe_missing_answer, identity
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import Deferred, Stopped
from looktwice.pipelines.models.stops import PERMIT, CacheError, EndpointError, FailureStreak
from looktwice.pipelines.pipeline import (
    NoModel,
    RecordingModel,
    StageFailed,
    find_cause,
    list_models,
    run_stage,
)
from looktwice.pipelines.sample import Sample, check_marks, describe_key_fault
from looktwice.pipelines.state import Stage, State


@dataclass(eq=False)
class TreeNode:
    """One stage of the tree: the arms whose last stage this is, and the stages that follow it.

    `model` is None until a stage on the path calls a model, so that arms with different models
    share the work before it.
    """

    slot: str
    stage: Stage
    model: Any
    final_arms: list[Arm] = field(default_factory=list)
    children: dict[tuple[str, str, int], TreeNode] = field(default_factory=dict)

    @cached_property
    def holds_model(self) -> bool:
        """True if the stage calls a model of its own."""
        return bool(list_models(self.stage))

    def arms(self) -> Iterator[Arm]:
        """Yield every arm that ends at this node or below it."""
        yield from self.final_arms
        for child in self.children.values():
            yield from child.arms()


def build_tree(arms: Sequence[Arm]) -> list[TreeNode]:
    """Return the roots of the prefix tree over the stages of these arms, which have the same task
    and seed."""
    roots: dict[tuple[str, str, int], TreeNode] = {}
    for arm in arms:
        level, asking = roots, False
        node: TreeNode | None = None
        for slot, stage in arm.stages.items():
            asking = asking or asks_model(stage)
            model = arm.model if asking else None
            key = (slot, write_canonical(identity(stage)), id(model))
            node = level.setdefault(key, TreeNode(slot, stage, model))
            level = node.children
        if node is not None:
            node.final_arms.append(arm)
    return list(roots.values())


Action = Callable[[], None]


def make_no_model(stage: Stage) -> NoModel:
    """Return the placeholder model of a stage that may not call one, or whose pipeline has none."""
    if asks_model(stage):
        return NoModel()
    return NoModel(
        "this stage declares `asks = False` but called the model; remove that line from its class"
    )


class Progress:
    """The shared state of a run in progress, and the events that stop it.

    Setting `drain` stops new requests and stages, while those in flight finish; setting `stop` ends
    the run at the next model call. `counts` counts records and deferred samples. `held_failures`
    are failures that may be the endpoint's fault. `why` is the reason that stopped the run,
    `signal` the number of the last signal, and `is_retrying` is True while samples that waited for
    a batched reply run again.
    """

    def __init__(self) -> None:
        self.stop, self.drain = threading.Event(), threading.Event()
        self.counts, self.errors = Counter[str](), list[BaseException]()
        self.held_failures = list[tuple[FailureStreak, Action]]()
        self.recorded, self.why, self.is_retrying = set[Key](), "", False
        self.signal = 0
        self.lock = threading.Lock()

    def give_up(self, why: str) -> None:
        """Stop because of a faulty endpoint: no further request starts, and `why` keeps the first
        reason."""
        with self.lock:
            self.why = self.why or why
        self.drain.set()

    def count(self, name: str, by: int = 1) -> None:
        """Add to a count."""
        with self.lock:
            self.counts[name] += by

    def handle_stop(self, exc: BaseException) -> None:
        """Handle an exception that ended a sample without a record: a stop, or an error that ends
        the run."""
        if isinstance(exc, Stopped):
            self.count("deferred" if isinstance(exc, Deferred) else "stopped")
            return
        self.errors.append(exc)
        self.drain.set()

    def hold(self, streak: FailureStreak, fail: Action) -> None:
        """Hold back a failure while it may be the endpoint's fault, and record it once it turns out
        to be the sample's."""
        with self.lock:
            self.held_failures.append((streak, fail))
        self.release(lambda streak: streak.ended)

    def release(self, wanted: Callable[[FailureStreak], bool]) -> None:
        """Record the held failures for which `wanted` is true."""
        with self.lock:
            ready = [fail for row, fail in self.held_failures if wanted(row)]
            self.held_failures = [
                (row, fail) for row, fail in self.held_failures if not wanted(row)
            ]
        for fail in ready:
            fail()

    def raise_if_stopped(self) -> None:
        """Raise Stopped after `stop` was set; called at each model call and between stages."""
        if self.stop.is_set():
            raise Stopped


@dataclass(eq=False)
class Trial:
    """Runs the wanted part of the tree for one sample; stage tasks never block on each other.

    All trials of a run share the wrapped models (by id of the original), the writer, the pool and
    `note`, which receives every record; `on_finish` is called when all tasks are done. A task holds
    one of the pool's turns, and releases it while it waits for a retry. A stage task runs one stage
    and continues with the first child of its node; the other children go to the pool.
    """

    models: Mapping[int, Any]
    writer: RunWriter
    pool: WorkerPool
    progress: Progress
    note: Callable[[Arm, SampleRow, Record], None]
    roots: Sequence[TreeNode]
    seed: int
    draw: int
    sample: Sample
    row: SampleRow
    wanted_arms: frozenset[str]
    on_finish: Action = lambda: None
    pending: int = 1
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> bool:
        """Run the first task, and those that continue in this thread; return whether all tasks are
        done."""
        return self._run_task(self._run_roots)

    def _run_task(self, task: Action) -> bool:
        try:
            with self.pool.turns:
                PERMIT.set(self.pool)
                task()
        except BaseException as exc:
            self.progress.handle_stop(exc)
        with self.lock:
            self.pending -= 1
            is_over = self.pending == 0
        if is_over:
            self.on_finish()
        return is_over

    def _run_roots(self) -> None:
        """Run the tree; an unreadable image, a mark outside its image or invalid ground truth fails
        the sample in every arm."""
        if self.progress.drain.is_set():
            raise Stopped
        state = State(self.sample, prompt=self.sample.question, seed=self.seed, draw=self.draw)
        error = describe_key_fault(self.row.answer, len(self.sample.choices))
        error = error and f"{error}, so nothing was asked; fix the task"
        try:
            check_marks(self.sample)
            state = state if error else State.start(self.sample, self.seed, self.draw)
        except ValueError as exc:
            error = describe_failure(exc)
        if not error:
            self._run_children(self.roots, state)
            return
        for root in self.roots:
            self._write(root.arms(), state, error)

    def _run_children(self, nodes: Iterable[TreeNode], state: State) -> None:
        """Run the first wanted node in this thread, so that a sample without branches stays in one
        thread, and submit the others."""
        wanted = [node for node in nodes if self._is_wanted(node)]
        for node in wanted[1:]:
            with self.lock:
                self.pending += 1
            self.pool.submit(partial(self._run_task, partial(self._run_stage, node, state)))
        for node in wanted[:1]:
            self._run_stage(node, state)

    def _is_wanted(self, node: TreeNode) -> bool:
        return any(arm.id in self.wanted_arms for arm in node.arms())

    def _run_stage(self, node: TreeNode, state: State) -> None:
        """Run one stage; while the run is stopping, only if a reply would be lost otherwise."""
        models, progress = self.models, self.progress
        if progress.drain.is_set() and not any(entry.calls for entry in state.trace):
            raise Stopped
        if self.pending == 1 and getattr(node.model, "remote", False):  # no other arm draws on them
            for picture in (*self.sample.images, *(view.picture for view in state.views)):
                picture.release()
        model = models[id(node.model)] if node.model is not None else make_no_model(node.stage)
        recorder = RecordingModel(
            model, self.sample.id, progress.raise_if_stopped, lambda second: models[id(second)]
        )
        try:
            with track_time(f"stage {node.slot}", sample=self.sample.id, task=self.row.task):
                state = run_stage(node.slot, node.stage, state, recorder, node.holds_model)
        except StageFailed as exc:
            cause = find_cause(exc)
            if isinstance(cause, CacheError):
                raise cause from exc
            fail = partial(self._write, list(node.arms()), exc.state, describe_failure(cause))
            if isinstance(cause, EndpointError):
                progress.hold(cause.streak, fail)
            else:
                fail()
            return
        self._write(node.arms() if state.ended else node.final_arms, state)
        if not state.ended:
            self._run_children(node.children.values(), state)

    def _write(self, arms: Iterable[Arm], state: State, error: str = "") -> None:
        blobs = self.writer.blobs
        for arm in (arm for arm in arms if arm.id in self.wanted_arms):
            if not state.has_result and not error:
                raise RunError(
                    f"contestants.{arm.contestant}.stages: sample {self.sample.id}:"
                    f" {describe_missing_answer(arm.stages)}; a stage that finds nothing returns"
                    " `state.abstain(why)`"
                )
            with track_time("records"):
                record = make_record(arm, self.sample, self.row.sha, state, blobs, error)
                record = self.writer.record(record)
            self.note(arm, self.row, record)

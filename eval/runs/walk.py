"""One sample through all points of a run: points that share their first stages share that work, as a tree."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from looktwice.eval.records.from_state import describe_failure, make_record
from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.records.writer import RunWriter
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.spec import asks_model, identity
from looktwice.pipelines.model import Stopped, canonical
from looktwice.pipelines.models.cache import CacheError
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.pipeline import NoModel, RecordingModel, StageFailed, cause_of, step
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State


@dataclass(eq=False)
class TreeNode:
    """One stage of the tree: the points that end here, and the stages that go on from here.

    `model` is None as long as no stage on the way asks one, so that such work is shared between models.
    """

    slot: str
    stage: Stage
    model: Any
    ends: list[Arm] = field(default_factory=list)
    children: dict[tuple[str, str, int], TreeNode] = field(default_factory=dict)

    def points(self) -> Iterator[Arm]:
        """Every point that ends here or further on."""
        yield from self.ends
        for child in self.children.values():
            yield from child.points()


def build_tree(points: Sequence[Arm]) -> list[TreeNode]:
    """The roots for points of one task and seed."""
    roots: dict[tuple[str, str, int], TreeNode] = {}
    for point in points:
        level, asking = roots, False
        node: TreeNode | None = None
        for slot, stage in point.stages.items():
            asking = asking or asks_model(stage)
            model = point.model if asking else None
            key = (slot, canonical(identity(stage)), id(model))
            node = level.setdefault(key, TreeNode(slot, stage, model))
            level = node.children
        if node is not None:
            node.ends.append(point)
    return list(roots.values())


NO_MODEL_ALLOWED = NoModel(
    "this stage says `asks = False` and called the model all the same; drop that line from its class"
)


@dataclass(frozen=True, eq=False)
class RunContext:
    """What every walk of a run shares: wrapped models by id, the writer, the pool, and the callbacks."""

    models: Mapping[int, Any]
    writer: RunWriter
    pool: ThreadPoolExecutor
    check: Callable[[], None]
    on_record: Callable[[Arm, SampleRow, Record], None]
    errors: list[BaseException]


@dataclass(eq=False)
class Walk:
    """Runs the wanted part of the tree for one sample; no visit waits for another.

    A visit runs one stage, hands its children to the pool and returns. The last one calls `finished`.
    """

    context: RunContext
    sample: Sample
    row: SampleRow
    draw: int
    wanted: frozenset[str]
    finished: Callable[[], None]
    under_way: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, roots: Sequence[TreeNode], seed: int) -> None:
        """Start; returns at once."""
        self._send([partial(self._start, roots, seed)])

    def _send(self, visits: Sequence[Callable[[], None]]) -> None:
        with self.lock:
            self.under_way += len(visits)
        for visit in visits:
            self.context.pool.submit(self._run, visit)

    def _run(self, visit: Callable[[], None]) -> None:
        try:
            visit()
        except Stopped:
            pass
        except BaseException as exc:
            self.context.errors.append(exc)
        finally:
            with self.lock:
                self.under_way -= 1
                last = self.under_way == 0
            if last:
                self.finished()

    def _start(self, roots: Sequence[TreeNode], seed: int) -> None:
        try:
            state = State.start(self.sample, seed, self.draw)
        except PictureError as exc:  # an image that cannot be read fails this sample alone
            empty = State(self.sample, prompt=self.sample.question, seed=seed, draw=self.draw)
            self._fail([p for root in roots for p in root.points()], empty, exc)
            return
        self._go_on(roots, state)

    def _go_on(self, nodes: Sequence[TreeNode], state: State) -> None:
        wanted = [node for node in nodes if any(point.id in self.wanted for point in node.points())]
        self._send([partial(self._visit, node, state) for node in wanted])

    def _visit(self, node: TreeNode, state: State) -> None:
        model = self.context.models[id(node.model)] if node.model is not None else NO_MODEL_ALLOWED
        try:
            recording = RecordingModel(
                model, self.sample.id, self.context.check, lambda second: self.context.models[id(second)]
            )
            state = step(node.slot, node.stage, state, recording)
        except StageFailed as exc:
            cause = cause_of(exc)
            if isinstance(cause, CacheError):
                raise cause from exc
            self._fail(list(node.points()), exc.state, cause)
            return
        for point in node.points() if state.ended else node.ends:
            self._write(point, state)
        if state.ended:
            return
        self._go_on(list(node.children.values()), state)

    def _fail(self, points: Sequence[Arm], state: State, exc: BaseException) -> None:
        for point in points:
            self._write(point, state, describe_failure(exc))

    def _write(self, point: Arm, state: State, error: str = "") -> None:
        if point.id in self.wanted:
            record = make_record(point, self.sample, self.row.sha, state, self.context.writer.blobs, error)
            self.context.writer.record(record)
            self.context.on_record(point, self.row, record)

"""One sample on its way through the tree of points."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from looktwice.eval.log import failure, recorded
from looktwice.eval.records import Record, SampleRow
from looktwice.eval.tree import Node
from looktwice.eval.writer import RunWriter
from looktwice.pipelines.cache import CacheError
from looktwice.pipelines.model import Stopped
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.pipeline import Door, NoModel, StageFailed, cause_of, step
from looktwice.pipelines.points import Point
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State

__all__ = ["Ground", "Walk"]

QUIET = NoModel("this stage says `asks = False` and called the model all the same; drop that line from its class")


@dataclass(frozen=True, eq=False)
class Ground:
    """What every walk of a run shares: wrapped models by id, the writer, the pool, and whom to tell."""

    models: Mapping[int, Any]
    writer: RunWriter
    pool: ThreadPoolExecutor
    check: Callable[[], None]
    heard: Callable[[Point, SampleRow, Record], None]
    trouble: list[BaseException]


@dataclass(eq=False)
class Walk:
    """Runs the wanted part of the tree for one sample; no visit waits for another.

    A visit runs one stage, hands its children to the pool and returns. The last one calls `finished`.
    """

    ground: Ground
    sample: Sample
    row: SampleRow
    draw: int
    wanted: frozenset[str]
    finished: Callable[[], None]
    under_way: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, roots: Sequence[Node], seed: int) -> None:
        """Start; returns at once."""
        self._send([partial(self._start, roots, seed)])

    def _send(self, visits: Sequence[Callable[[], None]]) -> None:
        with self.lock:
            self.under_way += len(visits)
        for visit in visits:
            self.ground.pool.submit(self._run, visit)

    def _run(self, visit: Callable[[], None]) -> None:
        try:
            visit()
        except Stopped:
            pass
        except BaseException as exc:
            self.ground.trouble.append(exc)
        finally:
            with self.lock:
                self.under_way -= 1
                last = self.under_way == 0
            if last:
                self.finished()

    def _start(self, roots: Sequence[Node], seed: int) -> None:
        try:
            state = State.start(self.sample, seed, self.draw)
        except PictureError as exc:  # an image that cannot be read fails this sample alone
            empty = State(self.sample, prompt=self.sample.question, seed=seed, draw=self.draw)
            self._fail([p for root in roots for p in root.points()], empty, exc)
            return
        self._go_on(roots, state)

    def _go_on(self, nodes: Sequence[Node], state: State) -> None:
        wanted = [node for node in nodes if any(point.id in self.wanted for point in node.points())]
        self._send([partial(self._visit, node, state) for node in wanted])

    def _visit(self, node: Node, state: State) -> None:
        model = self.ground.models[id(node.model)] if node.model is not None else QUIET
        try:
            door = Door(model, self.sample.id, self.ground.check, lambda second: self.ground.models[id(second)])
            state = step(node.slot, node.stage, state, door)
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

    def _fail(self, points: Sequence[Point], state: State, exc: BaseException) -> None:
        for point in points:
            self._write(point, state, failure(exc))

    def _write(self, point: Point, state: State, error: str = "") -> None:
        if point.id in self.wanted:
            record = recorded(point, self.sample, self.row.sha, state, self.ground.writer.blobs, error)
            self.ground.writer.record(record)
            self.ground.heard(point, self.row, record)

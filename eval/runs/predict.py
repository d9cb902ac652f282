"""Runs every sample through every arm, in threads; stages run, and their failures are caught, in `walk`."""

from __future__ import annotations

import hashlib
import os
import platform
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import cv2

from looktwice.eval.records.records import Key, PointRow, Record, RunError, RunFolder, SampleRow
from looktwice.eval.records.writer import RunWriter
from looktwice.eval.runs.walk import RunContext, Walk, build_tree
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.model import Stopped
from looktwice.pipelines.pipeline import with_models
from looktwice.pipelines.sample import Item


@dataclass(frozen=True)
class RunOptions:
    """How to run: none of it changes an answer.

    `limit` takes the first samples of each task, `shard` (i, n) every n-th sample by id, `keep_failed` does not
    ask FAILED samples again.
    """

    workers: int = 16
    limit: int | None = None
    shard: tuple[int, int] = (1, 1)
    keep_failed: bool = False


@dataclass(frozen=True)
class RunSummary:
    """What a run did: where it lies, how many records it wrote, how many were there, and whether it was stopped."""

    folder: Path
    written: int
    kept: int
    failed: int
    stopped: bool = False


@dataclass(eq=False)
class Run:
    """Runs a plan into a folder and goes on where an earlier run was stopped.

    `wrap` puts cache, retries and limits around a model; `on_record` is called with every record written,
    `on_skipped` with the number of records that were there already; setting `stop` ends the run at the next model
    call, setting `drain` lets calls in flight finish.
    """

    plan: Plan
    folder: Path
    options: RunOptions = RunOptions()
    wrap: Callable[[Any], Any] = lambda model: model
    on_record: Callable[[Arm, SampleRow, Record], None] = lambda point, row, record: None
    on_skipped: Callable[[int], None] = lambda number: None
    stop: threading.Event = field(default_factory=threading.Event)
    drain: threading.Event = field(default_factory=threading.Event)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    lock: threading.Lock = field(default_factory=threading.Lock)
    models: dict[int, Any] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)

    def __call__(self) -> RunSummary:
        """Run everything that is still to do. Raises RunError and TaskError; what was obtained is kept."""
        cv2.setNumThreads(max(1, (os.cpu_count() or 1) // self.options.workers))
        for model in self._all_models():
            self.models[id(model)] = self.wrap(model)
        with RunWriter(self.folder) as writer:
            there = RunFolder(self.folder)
            known, records = there.samples, there.records()
            rows = [_row(point) for point in (*self.plan.points, *self.plan.readings)]
            self._refuse_changed(known, _answered_samples([*rows, *writer.known.values()], records))
            writer.points(rows)
            started = there.facts.get("started") or datetime.now(UTC).isoformat(timespec="seconds")
            writer.yaml("run.yaml", self._facts() | {"started": started, "finished": False})
            done = {key for key, record in records.items() if not record.error or self.options.keep_failed}
            self._predict(writer, known, done)
            stopped = self.stop.is_set() or self.drain.is_set() or bool(self.errors)
            writer.yaml("run.yaml", self._facts() | {"started": started, "finished": not stopped})
        if self.errors:
            raise self.errors[0]
        counts = self.counts
        stopped = self.stop.is_set() or self.drain.is_set()
        return RunSummary(self.folder, counts["written"], counts["kept"], counts["failed"], stopped)

    def groups(self) -> dict[tuple[str, int, int], list[Arm]]:
        """The points by (task id, seed, draw): each group is one walk over a task's items."""
        groups: dict[tuple[str, int, int], list[Arm]] = defaultdict(list)
        for point in self.plan.points:
            for draw in range(point.draws):
                groups[point.task_id, point.seed, draw].append(point)
        return groups

    def items(self, task: Any) -> Iterator[Item]:
        """The items of this limit and shard. Raises TaskError for an id that comes twice, and for an empty set."""
        seen: set[str] = set()
        number, shards = self.options.shard
        for item in task:
            if item.sample.id in seen:
                raise TaskError(f"{type(task).__name__}: the id {item.sample.id!r} comes twice; ids must be unique")
            if self.options.limit is not None and len(seen) >= self.options.limit:
                return
            seen.add(item.sample.id)
            if _shard_of(item.sample.id, shards) == number - 1:
                yield item
        if not seen:
            raise TaskError(f"{type(task).__name__}: the set is empty; check its path, split and subset")

    def total(self) -> int:
        """How many records the whole plan comes to, as far as the tasks can tell."""
        limit = self.options.limit
        sizes = {p.task_id: len(p.task) if limit is None else min(limit, len(p.task)) for p in self.plan.points}
        return sum(sizes[point.task_id] * point.draws for point in self.plan.points) // self.options.shard[1]

    def _all_models(self) -> list[Any]:
        """Every model of every point once: its own, and those among its stages' settings."""
        held: dict[int, Any] = {}

        def seen(model: Any) -> Any:
            return held.setdefault(id(model), model)

        for point in self.plan.points:
            with_models((point.model, *point.stages.values()), seen)
        return list(held.values())

    def _refuse_changed(self, known: Mapping[tuple[str, str], SampleRow], answered: set[tuple[str, str]]) -> None:
        """Old answers must not be mixed with questions that changed under their ids; a repaired image has none."""
        for task_id, task in {p.task_id: p.task for p in self.plan.points}.items():
            old = {sample: row for (task_id_, sample), row in known.items() if task_id_ == task_id}
            if not old:
                continue
            now = {item.sample.id: item.sample.sha for item in self.items(task)}
            kept = {name: row.sha for name, row in old.items() if (task_id, name) in answered}
            changed = [name for name, sha in now.items() if kept.get(name, sha) != sha]
            whole = self.options.limit is None and self.options.shard == (1, 1)
            gone = [name for name in old if name not in now] if whole else []
            for names, what in ((changed, "changed under their ids"), (gone, "are no longer in the task")):
                if names:
                    raise RunError(
                        f"{self.folder}: {len(names)} samples {what} since the first run, such as "
                        f"{', '.join(names[:3])}; run into another --out, or start anew with --fresh"
                    )

    def _predict(self, writer: RunWriter, known: Mapping[tuple[str, str], SampleRow], done: set[Key]) -> None:
        with ThreadPoolExecutor(self.options.workers, thread_name_prefix="looktwice") as pool:
            context = RunContext(self.models, writer, pool, self._check, self._on_record, self.errors)
            room = threading.Semaphore(2 * self.options.workers)
            try:
                for (_, seed, draw), points in self.groups().items():
                    self._walk_all(points, seed, draw, context, room, known, done)
            finally:  # the pool takes no new visits once it is left, so every walk must have ended
                for _ in range(2 * self.options.workers):
                    _wait_for_room(room)

    def _walk_all(
        self, points: Sequence[Arm], seed: int, draw: int, context: RunContext, room: threading.Semaphore,
        known: Mapping[tuple[str, str], SampleRow], done: set[Key],
    ) -> None:  # fmt: skip
        """Send every item of one task through the tree, never more at once than twice the workers."""
        roots = build_tree(points)
        for item in self.items(points[0].task):
            if self.drain.is_set() or self.stop.is_set() or self.errors:
                return
            row = SampleRow(points[0].task_id, item.sample.sha, item.answer, item.sample.to_dict(), item.truth)
            old = known.get((row.task, row.id))
            if draw == 0 and (old is None or (old.answer, old.sha) != (row.answer, row.sha)):
                context.writer.sample(row)
            wanted = frozenset(p.id for p in points if (p.id, row.id, draw) not in done)
            if there := len(points) - len(wanted):
                self._count("kept", there)
                self.on_skipped(there)
            if wanted:
                _wait_for_room(room)
                Walk(context, item.sample, row, draw, wanted, room.release).begin(roots, seed)

    def _on_record(self, point: Arm, row: SampleRow, record: Record) -> None:
        self._count("failed" if record.error else "answered")
        self._count("written")
        self.on_record(point, row, record)

    def _count(self, what: str, by: int = 1) -> None:
        with self.lock:
            self.counts[what] += by

    def _check(self) -> None:
        """Called at each model call and between stages. Raises Stopped once the run is to stop at once."""
        if self.stop.is_set():
            raise Stopped

    def _facts(self) -> dict[str, Any]:
        names = (
            "looktwice",
            "numpy",
            "opencv-python-headless",
            "pillow",
            "scikit-image",
            "torch",
            "kornia",
            "transformers",
        )
        versions = {name: said for name in names if (said := _installed_version(name))}
        return {
            "name": self.plan.name,
            "left_out": dict(self.plan.left_out),
            "samples": {point.task_id: len(point.task) for point in self.plan.points},
            "limit": self.options.limit,
            "shard": list(self.options.shard),
            "versions": {"python": platform.python_version()} | versions,
            "config": self.plan.config,
        }


def _row(point: Arm) -> PointRow:
    facts = asdict(point.task.facts)
    return PointRow(
        point.id, point.contestant, point.task_name, point.task_id, dict(point.changes), point.baseline, facts,
        point.spec, spec(point.read), point.draws, point.seed, point.replies_of,
    )  # fmt: skip


def _answered_samples(points: Sequence[PointRow], records: Mapping[Key, Record]) -> set[tuple[str, str]]:
    """The samples, by task, of which some record did not fail."""
    tasks = {row.id: row.task_id for row in points}
    return {(tasks[r.point], r.sample) for r in records.values() if not r.error and r.point in tasks}


def _wait_for_room(room: threading.Semaphore) -> None:
    while not room.acquire(timeout=0.2):  # a wait without a timeout does not notice Ctrl-C on every platform
        pass


def _installed_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # another build of the same library, or a tree that is not installed
        return ""


def _shard_of(identifier: str, shards: int) -> int:
    return int.from_bytes(hashlib.sha256(identifier.encode()).digest()[:8], "big") % shards

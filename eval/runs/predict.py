"""Runs every sample through every arm, in threads; stages run, and their failures are caught, in
`walk`."""

from __future__ import annotations

import gc
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2

from looktwice.eval.records.from_state import make_point_rows
from looktwice.eval.records.records import (
    Key,
    Outcome,
    PointRow,
    Record,
    RunError,
    RunFolder,
    SampleRow,
)
from looktwice.eval.records.writer import RunWriter
from looktwice.eval.runs.made_with import (
    DataDigest,
    describe_plugin,
    hash_files,
    installed_versions,
    shard_of,
)
from looktwice.eval.runs.walk import RunContext, Walk, build_tree
from looktwice.eval.tasks.base import MadeTask, TaskError, checked_items, count_items
from looktwice.pipelines.clock import spend
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.counted import counted
from looktwice.pipelines.model import Deferred, Stopped
from looktwice.pipelines.models.endpoint import FailureRow
from looktwice.pipelines.models.wrappers import Stoppable
from looktwice.pipelines.sample import Item, sha_of

Chooser = Callable[[Sequence[Arm], Iterator[Item]], Iterator[tuple[Item, Sequence[Arm]]]]


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that do not change any answer.

    `limit` keeps only the first samples of each task, `shard` (i, n) the samples whose hashed id
    falls in shard i of n. With `keep_failed`, samples that FAILED in an earlier run are not run
    again. `budget` is the money that the run may cost in all, by the `prices` of its models;
    `max_requests` how many requests it may send this time.
    """

    workers: int = 16
    limit: int | None = None
    shard: tuple[int, int] = (1, 1)
    keep_failed: bool = False
    budget: float | None = None
    max_requests: int | None = None


@dataclass(frozen=True)
class RunSummary:
    """Outcome of a run: its folder, the numbers of records written, kept and failed, and whether it
    was stopped.

    `why` is the sentence of an endpoint that could not be asked, where that stopped the run.
    """

    folder: Path
    written: int
    kept: int
    failed: int
    stopped: bool
    why: str = ""


@dataclass(eq=False)
class Run:
    """Runs a plan into a folder, and resumes an earlier run in that folder.

    `wrap` adds cache, retries and limits to a model; `collect` waits for batches of requests, if
    there are any. `choose` says which of a task's items are asked of which arms, one after the
    other; without it, all of them of all. `on_begin` is called with the samples and draws of each
    arm that are done, `on_record` with every record written, `on_skipped` with the number of
    records that an earlier run wrote. Setting `drain` lets no request and no stage start any more,
    but what is on its way end; setting `stop` ends the run at the next model call.
    """

    plan: Plan
    folder: Path
    options: RunOptions = RunOptions()
    wrap: Callable[[Any], Any] = lambda model: model
    collect: Callable[[], None] = lambda: None
    choose: Chooser | None = None
    on_begin: Callable[[Mapping[str, set[tuple[str, int]]]], None] = lambda done: None
    on_record: Callable[[Arm, SampleRow, Record], None] = lambda arm, row, record: None
    on_skipped: Callable[[int], None] = lambda number: None
    stop: threading.Event = field(default_factory=threading.Event)
    drain: threading.Event = field(default_factory=threading.Event)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    lock: threading.Lock = field(default_factory=threading.Lock)
    models: dict[int, Any] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)
    held: list[tuple[FailureRow, Callable[[], None]]] = field(default_factory=list)
    why: str = ""
    again: bool = False
    remembers: bool = False
    in_parts: bool = False
    recorded: set[Key] = field(default_factory=set)
    data: dict[str, DataDigest] = field(default_factory=lambda: defaultdict(DataDigest))

    def __call__(self) -> RunSummary:
        """Run everything that has no record yet. Raises RunError and TaskError; records already
        written are kept."""
        self._prepare()
        with RunWriter(self.folder, self.drain.set) as writer:
            existing_run = RunFolder(self.folder)
            known = existing_run.samples
            outcomes = existing_run.outcomes()
            rows = make_point_rows(self.plan)
            same_versions = existing_run.facts.get("versions") == installed_versions()
            unchanged = self._unchanged(known) if same_versions else {}
            answered = _answered_samples([*rows, *writer.known.values()], outcomes)
            unchanged |= self._refuse_changed(known, answered, unchanged)
            writer.points(rows)
            started = existing_run.facts.get("started") or datetime.now(UTC).isoformat(
                timespec="seconds"
            )
            writer.yaml("run.yaml", self._run_facts() | {"started": started, "finished": False})
            kept = {"answered", "failed"} if self.options.keep_failed else {"answered"}
            done = {key for key, outcome in outcomes.items() if outcome in kept}
            self.on_begin(self._done_by_arm(done))
            self._predict_all(writer, known, done, unchanged)
            stopped = self.stop.is_set() or self.drain.is_set()
            writer.yaml(
                "run.yaml", self._run_facts() | {"started": started, "finished": not stopped}
            )
        if self.errors:
            raise self.errors[0]
        counts = self.counts
        if counts["stopped"] and not stopped:
            ended = counted(counts["stopped"], "time")
            raise RunError(
                f"a stage raised Stopped {ended}; only the run raises it, so raise another"
                " exception there"
            )
        return RunSummary(
            self.folder, counts["written"], counts["kept"], counts["failed"], stopped, self.why
        )

    def predict_into(self, writer: Any, done: set[Key]) -> None:
        """Run what is not done, for who keeps the folder elsewhere: `writer` has `blobs`, `sample`
        and `record`.

        Raises the first error.
        """
        self.in_parts = True
        self._prepare()
        self._predict_all(writer, {}, done, {})
        if self.errors:
            raise self.errors[0]

    def _prepare(self) -> None:
        cv2.setNumThreads(max(1, (os.cpu_count() or 1) // self.options.workers))
        gc.freeze()  # what is there by now stays, and need not be looked through again and again
        for model in self.plan.models:
            wrapped = self.wrap(model)
            self.models[id(model)] = Stoppable(model, self.drain) if wrapped is model else wrapped

    def _done_by_arm(self, done: Collection[Key]) -> Mapping[str, set[tuple[str, int]]]:
        """The planned samples and draws of each arm that need not be asked."""
        whole = self.options.limit is None and self.options.shard == (1, 1)
        by_arm: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for arm, sample, draw in done:
            by_arm[arm].add((sample, draw))
        if whole or not by_arm:
            return by_arm
        tasks = {arm.task_id: arm.task for arm in self.plan.points}
        ids = {name: {item.sample.id for item in self.items(task)} for name, task in tasks.items()}
        return {
            a.id: {key for key in by_arm[a.id] if key[0] in ids[a.task_id]}
            for a in self.plan.points
        }

    def give_up(self, why: str) -> None:
        """Stop because an endpoint cannot be asked: no request starts any more; the first reason
        counts."""
        with self.lock:
            self.why = self.why or why
        self.drain.set()

    def groups(self) -> dict[tuple[str, int, int], list[Arm]]:
        """The arms by (task id, seed, draw): each group takes one pass over the items of its
        task."""
        groups: dict[tuple[str, int, int], list[Arm]] = defaultdict(list)
        for arm in self.plan.points:
            for draw in range(arm.draws):
                groups[arm.task_id, arm.seed, draw].append(arm)
        return groups

    def items(self, task: Any) -> Iterator[Item]:
        """The items within the limit and the shard. Raises TaskError for a duplicate id and for an
        empty task."""
        return filter(self._in_shard, self._all_items(task))

    def _in_shard(self, item: Item) -> bool:
        number, shards = self.options.shard
        return shards == 1 or shard_of(item.sample.id, shards) == number - 1

    def _all_items(self, task: Any) -> Iterator[Item]:
        seen: set[str] = set()
        for item in checked_items(task):
            if item.sample.id in seen:
                raise TaskError(
                    f"{type(task).__name__}: the id {item.sample.id!r} comes twice; ids must be"
                    " unique"
                )
            if self.options.limit is not None and len(seen) >= self.options.limit:
                return
            seen.add(item.sample.id)
            yield item
        if not seen:
            raise TaskError(
                f"{type(task).__name__}: the set is empty; check its path, split and subset"
            )

    def total(self) -> int:
        """The number of records of the whole plan."""
        return sum(self.planned[arm.task_id] * arm.draws for arm in self.plan.points)

    @cached_property
    def planned(self) -> Mapping[str, int]:
        """Task id -> its samples within the limit and the shard; which of them fall into a shard,
        their ids tell."""
        tasks, limit = {arm.task_id: arm.task for arm in self.plan.points}, self.options.limit
        if self.options.shard[1] > 1:
            looked_at = {
                name: self.data[name].through(self._all_items(task)) for name, task in tasks.items()
            }
            return {name: sum(map(self._in_shard, items)) for name, items in looked_at.items()}
        counts = {name: count_items(task) for name, task in tasks.items()}
        return {
            name: count if limit is None else min(limit, count) for name, count in counts.items()
        }

    def _unchanged(self, known: Mapping[tuple[str, str], SampleRow]) -> dict[str, list[str]]:
        """Task id -> its sample ids, where all of them are known and follow from settings that are
        still the same."""
        if self.options.limit is not None or self.options.shard != (1, 1):
            return {}
        made = {arm.task_id: arm.task for arm in self.plan.points if isinstance(arm.task, MadeTask)}
        ids = {task_id: [sample for name, sample in known if name == task_id] for task_id in made}
        return {
            task_id: names for task_id, names in ids.items() if len(names) == len(made[task_id])
        }

    def _refuse_changed(
        self,
        known: Mapping[tuple[str, str], SampleRow],
        answered: set[tuple[str, str]],
        unchanged: Collection[str],
    ) -> dict[str, list[str]]:
        """Refuse to mix old answers with questions that changed under the same ids.

        A sample that only failed so far may change: an image that could not be read may have been
        repaired. Returns the sample ids of every task that was looked at and is the same as it is
        known.
        """
        same: dict[str, list[str]] = {}
        for task_id, task in {p.task_id: p.task for p in self.plan.points}.items():
            old = {sample: row for (task_id_, sample), row in known.items() if task_id_ == task_id}
            if not old or task_id in unchanged:
                continue
            found = [(item.sample.id, item.sample.sha, item.answer) for item in self.items(task)]
            if all(
                name in old and (old[name].sha, old[name].answer) == (sha, key)
                for name, sha, key in found
            ):
                same[task_id] = [name for name, *_ in found]
            now = {name: sha for name, sha, _ in found}
            answered_shas = {
                name: row.sha for name, row in old.items() if (task_id, name) in answered
            }
            changed = [name for name, sha in now.items() if answered_shas.get(name, sha) != sha]
            whole = self.options.limit is None and self.options.shard == (1, 1)
            gone = [name for name in old if name not in now] if whole else []
            for names, problem in (
                (changed, "changed under the same id"),
                (gone, "no longer in the task"),
            ):
                if names:
                    raise RunError(
                        f"{self.folder}: {counted(len(names), 'sample')} {problem} since the first"
                        f" run, such as {', '.join(names[:3])}; choose another --out, or start over"
                        " with --fresh"
                    )
        return same

    def _predict(
        self,
        writer: RunWriter,
        known: Mapping[tuple[str, str], SampleRow],
        done: set[Key],
        unchanged: Mapping[str, Sequence[str]],
    ) -> None:
        workers = self.options.workers
        threads = (
            2 * workers if workers > 1 else 1
        )  # some only wait to ask again; one worker asks in order
        with ThreadPoolExecutor(threads, thread_name_prefix="looktwice") as pool:
            context = RunContext(
                self.models,
                writer,
                pool,
                threading.Semaphore(workers),
                self._raise_if_stopped,
                self.note,
                self.drain,
                self._hold,
                self._on_error,
            )
            slots = threading.Semaphore(2 * self.options.workers)
            try:
                for (task_id, seed, draw), arms in self.groups().items():
                    ids = unchanged.get(task_id, ())
                    if ids and all((arm.id, name, draw) in done for arm in arms for name in ids):
                        self._skip(len(ids) * len(arms))
                        continue
                    self._run_items(arms, seed, draw, context, slots, known, done)
            except BaseException:
                self.drain.set()
                raise
            finally:  # the pool accepts no new work once it is left, so every walk must have ended
                for _ in range(2 * self.options.workers):
                    _acquire_slot(slots)

    def _predict_all(self, writer: RunWriter, known: Any, done: set[Key], unchanged: Any) -> None:
        """Every sample, and those that wait for a batch as often as they do."""
        self._predict(writer, known, done, unchanged)
        with suppress(Stopped):
            while self.counts.pop("deferred", 0) and not self.drain.is_set():
                self.collect()
                self._release(lambda row: row.over)
                self.held.clear()  # those samples are asked again, too
                self.again = True
                self._predict(writer, known, done | self.recorded, unchanged)
        self._settle()

    def _run_items(
        self,
        arms: Sequence[Arm],
        seed: int,
        draw: int,
        context: RunContext,
        slots: threading.Semaphore,
        known: Mapping[tuple[str, str], SampleRow],
        done: set[Key],
    ) -> None:
        """Run every item of one task through the tree, with at most twice as many items as workers
        in progress."""
        roots = build_tree(arms)
        items = self.items(arms[0].task)
        for item, asked in (
            self.choose(arms, items) if self.choose else ((item, arms) for item in _timed(items))
        ):
            if self.drain.is_set() or self.stop.is_set():
                return
            plain = item.sample.to_dict()
            row = SampleRow(arms[0].task_id, sha_of(plain), item.answer, plain, item.truth)
            old = known.get((row.task, row.id))
            if (
                draw == 0
                and not self.again
                and (old is None or (old.answer, old.sha) != (row.answer, row.sha))
            ):
                context.writer.sample(row)
            wanted = frozenset(arm.id for arm in asked if (arm.id, row.id, draw) not in done)
            if already_recorded := len(asked) - len(wanted):
                self._skip(already_recorded)
            if wanted:
                _acquire_slot(slots)
                Walk(context, item.sample, row, draw, wanted, slots.release).start(roots, seed)

    def _on_error(self, exc: BaseException) -> None:
        if isinstance(exc, Stopped):
            self._count("deferred" if isinstance(exc, Deferred) else "stopped")
            return
        self.errors.append(exc)
        self.drain.set()

    def _hold(self, row: FailureRow, fail: Callable[[], None]) -> None:
        """Keep a failure back while it may be the endpoint's own; what has become a sample's
        failure is recorded."""
        with self.lock:
            self.held.append((row, fail))
        self._release(lambda row: row.over)

    def _release(self, wanted: Callable[[FailureRow], bool]) -> None:
        with self.lock:
            ready = [fail for row, fail in self.held if wanted(row)]
            self.held = [(row, fail) for row, fail in self.held if not wanted(row)]
        for fail in ready:
            fail()

    def _settle(self) -> None:
        """At the end: what stopped the run was never asked, nor was anything of a model that has
        never answered."""
        new = not (
            self.counts["kept"] or self.in_parts
        )  # the rest of a part may have been answered elsewhere
        self._release(lambda row: row.over or not (self.why or (row.first and new)))
        if self.held:
            self.give_up(self.held[0][0].said)

    def note(self, arm: Arm, row: SampleRow, record: Record) -> None:
        """Count a record that was written, and tell of it."""
        self._count("failed" if record.error else "answered")
        self._count("written")
        if self.remembers:
            self.recorded.add(record.key)
        self.on_record(arm, row, record)
        self._release(lambda row: row.over)

    def _skip(self, number: int) -> None:
        if self.again:
            return
        self._count("kept", number)
        self.on_skipped(number)

    def _count(self, name: str, by: int = 1) -> None:
        with self.lock:
            self.counts[name] += by

    def _raise_if_stopped(self) -> None:
        """Called at each model call and between stages. Raises Stopped after `stop` was set."""
        if self.stop.is_set():
            raise Stopped

    def _run_facts(self) -> dict[str, Any]:
        return {
            "name": self.plan.name,
            "left_out": dict(self.plan.left_out),
            "arms": [arm.id for arm in (*self.plan.points, *self.plan.readings)],
            "plugins": [describe_plugin(name) for name in self.plan.plugins],
            "files": hash_files(self.plan.files),
            "samples": {arm.task_id: count_items(arm.task) for arm in self.plan.points},
            "planned": dict.fromkeys(self.planned, 0) if self.choose else dict(self.planned),
            "limit": self.options.limit,
            "shard": list(self.options.shard),
            "versions": installed_versions(),
            "config": self.plan.config,
        } | (
            {"data": {task: digest.to_dict() for task, digest in self.data.items()}}
            if self.data
            else {}
        )


def _answered_samples(
    rows: Sequence[PointRow], outcomes: Mapping[Key, Outcome]
) -> set[tuple[str, str]]:
    """(task id, sample id) of every sample with at least one record that did not fail."""
    tasks = {row.id: row.task_id for row in rows}
    answered = (key for key, outcome in outcomes.items() if outcome != "failed")
    return {(tasks[point], sample) for point, sample, _ in answered if point in tasks}


def _timed(items: Iterator[Item]) -> Iterator[Item]:
    """The items; the time in which they are made counts as that for questions."""
    while True:
        with spend("questions"):
            item = next(items, None)
        if item is None:
            return
        yield item


def _acquire_slot(slots: threading.Semaphore) -> None:
    while not slots.acquire(
        timeout=0.2
    ):  # a wait without a timeout does not notice Ctrl-C on every platform
        pass

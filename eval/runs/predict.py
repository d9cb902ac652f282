"""Runs every sample through every arm, in threads; stages run, and their failures are caught, in
`walk`."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import cv2

from looktwice.eval.records.records import Key, Record, RunError, RunFolder, SampleRow
from looktwice.eval.records.writer import RunWriter, make_point_rows
from looktwice.eval.runs.crew import Crew
from looktwice.eval.runs.made_with import (
    DataDigest,
    describe_plugin,
    hash_files,
    installed_versions,
    shard_of,
)
from looktwice.eval.runs.walk import Progress, Walk, build_tree
from looktwice.eval.tasks.base import MadeTask, TaskError, checked_items, count_items
from looktwice.pipelines.clock import spend
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.counted import counted
from looktwice.pipelines.model import Stopped
from looktwice.pipelines.models.limits import IN_FLIGHT
from looktwice.pipelines.models.wrappers import Stoppable
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.sample import Item, Sample, sha_of

WORKERS = 16

Chooser = Callable[[Sequence[Arm], Iterator[Item]], Iterator[tuple[Item, Sequence[Arm]]]]


@dataclass(frozen=True)
class RunOptions(Ranged):
    """Options of a run that do not change any answer.

    `limit` keeps only the first samples of each task, `shard` (i, n) the samples whose hashed id
    falls in shard i of n. With `keep_failed`, samples that FAILED in an earlier run are not run
    again. `budget` is the money that the run may cost in all, by the `prices` of its models;
    `max_requests` how many requests it may send this time.
    """

    workers: int = WORKERS
    limit: int | None = None
    shard: tuple[int, int] = (1, 1)
    keep_failed: bool = False
    budget: float | None = None
    max_requests: int | None = None
    ranges: ClassVar[tuple[str, ...]] = ("workers, limit >= 1",)


def default_workers(models: Iterable[Any]) -> int:
    """How many threads a run has where nobody says: 16, and as many more as the largest `in_flight`
    that a model sets, so that stages go on while as many requests are under way."""
    limits = [getattr(model, "in_flight", IN_FLIGHT) for model in models]
    return WORKERS + max((limit for limit in limits if limit != IN_FLIGHT), default=0)


@dataclass(frozen=True)
class RunSummary:
    """Outcome of a run: its folder, the numbers of records written, kept and failed, and whether it
    was stopped.

    `why` is the sentence of an endpoint that could not be asked, where that stopped the run, and
    `signal` the number of the signal that did.
    """

    folder: Path
    written: int
    kept: int
    failed: int
    stopped: bool
    why: str = ""
    signal: int = 0

    @property
    def sentences(self) -> Iterator[str]:
        """How many records the run wrote, and why it stopped, where it did."""
        there = f"{self.written} new, {self.kept} were there, {self.failed} failed"
        yield f"records: {self.folder}  ({there})"
        if self.failed:
            yield (
                f"{counted(self.failed, 'sample')} FAILED; the report says why, and the same"
                " command asks again"
            )
        if self.why:
            # what was spent counts in the next run too, so with the same budget nothing is asked
            later = "" if "--budget" in self.why else ", and the same command goes on later"
            yield f"stopped: {self.why}; what was answered is kept{later}"


class Work(NamedTuple):
    """What a run begins with: its writer, the key and sha of every sample that samples.jsonl holds,
    what needs no asking, and the sample ids of each task that is as it was (task id -> ids)."""

    writer: Any
    known: dict[tuple[str, str], tuple[str | None, str]]
    done: set[Key]
    same: Mapping[str, Sequence[str]]

    def sample(self, row: SampleRow) -> None:
        """Write a line of samples.jsonl, if it is not there as it is."""
        if self.known.get((row.task, row.id)) != (row.answer, row.sha):
            self.known[row.task, row.id] = row.answer, row.sha
            self.writer.sample(row)


@dataclass(eq=False)
class Run:
    """Runs a plan into a folder, and resumes an earlier run in that folder.

    `wrap` adds cache, retries and limits to a model; `collect` waits for batches of requests, if
    there are any. `choose` says which of a task's items are asked of which arms, one after the
    other, and `chosen_by` how; without it, all of them of all. `on_begin` is called with the
    samples and draws of each arm that are done, `on_record` with every record written, `on_skipped`
    with the number of records that an earlier run wrote. `elsewhere` may ask samples in other
    processes, and gives back the rest. `in_parts` says that other runs do the rest of it.
    """

    plan: Plan
    folder: Path
    options: RunOptions = RunOptions()
    wrap: Callable[[Any], Any] = lambda model: model
    collect: Callable[[], None] | None = None
    choose: Chooser | None = None
    chosen_by: str = ""
    on_begin: Callable[[Mapping[str, set[tuple[str, int]]]], None] = lambda done: None
    on_record: Callable[[Arm, SampleRow, Record], None] = lambda arm, row, record: None
    on_skipped: Callable[[int], None] = lambda number: None
    elsewhere: Callable[[Iterator[Walk], Any], Iterator[Walk]] = lambda walks, writer: walks
    in_parts: bool = False
    progress: Progress = field(default_factory=Progress)
    models: dict[int, Any] = field(default_factory=dict)
    data: dict[str, DataDigest] = field(default_factory=lambda: defaultdict(DataDigest))

    def __call__(self) -> RunSummary:
        """Run everything that has no record yet. Raises RunError and TaskError; records already
        written are kept."""
        self._prepare()
        progress, counts = self.progress, self.progress.counts
        with RunWriter(self.folder, progress.drain.set) as writer:
            folder, rows = RunFolder(self.folder), make_point_rows(self.plan)
            tasks = {row.id: row.task_id for row in [*writer.known.values(), *rows]}
            ended = {"answered", "failed"} if self.options.keep_failed else {"answered"}
            done, answered = set[Key](), set[tuple[str, str]]()
            for key, outcome in folder.outcomes().items():
                if outcome in ended:
                    done.add(key)
                if outcome != "failed" and key[0] in tasks:
                    answered.add((tasks[key[0]], key[1]))
            same = self._compare_samples(folder, answered)
            writer.points(rows)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            facts = self._run_facts() | {"started": folder.facts.get("started") or now}
            writer.yaml("run.yaml", facts | {"finished": False})
            self.on_begin(self._done_by_arm(done))
            keys_and_shas = {name: (row.answer, row.sha) for name, row in folder.samples.items()}
            self._predict_all(Work(writer, keys_and_shas, done, same))
            stopped = progress.stop.is_set() or progress.drain.is_set()
            writer.yaml("run.yaml", facts | {"finished": not stopped})
        if counts["stopped"] and not stopped:
            raise RunError(
                f"a stage raised Stopped {counted(counts['stopped'], 'time')}; only the run raises"
                " it, so raise another exception there"
            )
        written, kept, failed = counts["written"], counts["kept"], counts["failed"]
        return RunSummary(
            self.folder, written, kept, failed, stopped, progress.why, progress.signal
        )

    def predict_into(self, writer: Any, done: set[Key]) -> None:
        """Run what is not done, for who keeps the folder elsewhere: `writer` has `blobs`, `sample`
        and `record`.

        Raises the first error.
        """
        self._prepare()
        self._predict_all(Work(writer, {}, done, {}))

    def _prepare(self) -> None:
        cv2.setNumThreads(max(1, (os.cpu_count() or 1) // self.options.workers))
        gc.freeze()  # what is there by now stays, and need not be looked through again and again
        for model in self.plan.models:
            wrapped = self.wrap(model)
            drain = self.progress.drain
            self.models[id(model)] = Stoppable(model, drain) if wrapped is model else wrapped

    @property
    def _is_whole(self) -> bool:
        return self.options.limit is None and self.options.shard == (1, 1)

    @property
    def _tasks(self) -> dict[str, Any]:
        return {arm.task_id: arm.task for arm in self.plan.points}

    def _done_by_arm(self, done: Collection[Key]) -> Mapping[str, set[tuple[str, int]]]:
        """The planned samples and draws of each arm that need not be asked."""
        by_arm: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for arm_id, sample, draw in done:
            by_arm[arm_id].add((sample, draw))
        if self._is_whole or not by_arm:
            return by_arm
        ids, asked = dict[str, set[str]](), dict[str, set[tuple[str, int]]]()
        for name, task in self._tasks.items():
            ids[name] = {item.sample.id for item in self.items(task)}
        for arm in self.plan.points:
            asked[arm.id] = {pair for pair in by_arm[arm.id] if pair[0] in ids[arm.task_id]}
        return asked

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
        return shard_of(item.sample.id, shards) == number - 1

    def _all_items(self, task: Any) -> Iterator[Item]:
        seen, name = set[str](), type(task).__name__
        for item in checked_items(task):
            if item.sample.id in seen:
                raise TaskError(
                    f"{name}: the id {item.sample.id!r} comes twice; ids must be unique"
                )
            seen.add(item.sample.id)
            yield item
            if len(seen) == self.options.limit:  # the next one may take long to make
                return
        if not seen:
            raise TaskError(f"{name}: the set is empty; check its path, split and subset")

    def total(self) -> int:
        """The number of records of the whole plan."""
        return sum(self.planned[arm.task_id] * arm.draws for arm in self.plan.points)

    @cached_property
    def planned(self) -> Mapping[str, int]:
        """Task id -> its samples within the limit and the shard; which of them fall into a shard,
        their ids tell."""
        planned = {}
        for name, task in self._tasks.items():
            if self.options.shard[1] > 1:
                items = self.data[name].through(self._all_items(task))
                planned[name] = sum(map(self._in_shard, items))
            else:
                planned[name] = len(range(count_items(task))[: self.options.limit])
        return planned

    def _compare_samples(
        self, folder: RunFolder, answered: set[tuple[str, str]]
    ) -> dict[str, list[str]]:
        """Task id -> the ids of its samples, for tasks that are as they are known.

        Refuses to mix old answers with questions that changed under the same ids. A sample that
        only failed so far may change: an image that could not be read may have been repaired. Made
        questions follow from settings and versions alone.
        """
        same: dict[str, list[str]] = {}
        as_made = self._is_whole and folder.facts.get("versions") == installed_versions()
        for task_id, task in self._tasks.items():
            old = folder.samples_of.get(task_id, {})
            if as_made and isinstance(task, MadeTask) and len(old) == len(task):
                same[task_id] = [*old]
                continue
            now, changed = dict[str, None](), list[str]()
            is_same = True
            for item in self.items(task) if old else ():
                name, row = item.sample.id, old.get(item.sample.id)
                now[name] = None
                if row is None or row.sha != item.sample.sha:
                    is_same = False
                    changed += [name] if row and (task_id, name) in answered else []
                is_same = is_same and row is not None and row.answer == item.answer
            if now and is_same:
                same[task_id] = [*now]
            gone = [name for name in old if self._is_whole and name not in now]
            if names := changed or gone:
                problem = "changed under the same id" if changed else "no longer in the task"
                raise RunError(
                    f"{self.folder}: {counted(len(names), 'sample')} {problem} since the first run,"
                    f" such as {', '.join(names[:3])}; choose another --out, or start over: --again"
                    " all"
                )
        return same

    def _predict_all(self, work: Work) -> None:
        """Every sample, and those that wait for a batch as often as they do. Raises the first
        error."""
        progress = self.progress
        self._predict(work)
        with suppress(Stopped):
            while progress.counts.pop("deferred", 0) and not progress.drain.is_set():
                if self.collect is not None:
                    self.collect()
                progress.release(lambda row: row.over)
                progress.held.clear()  # those samples are asked again, too
                progress.again = True
                self._predict(work._replace(done=work.done | progress.recorded))
        # what stopped the run was never asked, nor was anything of a model that has never answered;
        # the rest of a part may have been answered elsewhere
        new = not (progress.counts["kept"] or self.in_parts)
        progress.release(lambda row: row.over or not (progress.why or (row.first and new)))
        if progress.held:
            progress.give_up(progress.held[0][0].said)
        if progress.errors:
            raise progress.errors[0]

    def _predict(self, work: Work) -> None:
        """Every sample that is not done, in the threads of a crew."""
        crew = Crew(self.options.workers, self.progress.end_with)
        walks = self.elsewhere(self._walks(work, crew), work.writer)
        crew.run(walks, self.progress.drain.set)

    def _walks(self, work: Work, crew: Crew) -> Iterator[Walk]:
        """The walk of each sample."""
        walk = partial(Walk, self.models, work.writer, crew, self.progress, self.note)
        for (task_id, seed, draw), arms in self.groups().items():
            ids = work.same.get(task_id, ())
            whole = ids and all((a.id, name, draw) in work.done for a in arms for name in ids)
            if whole and not self.choose:  # who chooses goes through what is answered, too
                self._skip(len(ids) * len(arms))
                continue
            roots = build_tree(arms)
            for sample, row, wanted in self._asked(arms, draw, work):
                yield walk(roots, seed, draw, sample, row, wanted)

    def _asked(
        self, arms: Sequence[Arm], draw: int, work: Work
    ) -> Iterator[tuple[Sample, SampleRow, frozenset[str]]]:
        """The samples of one task that are asked, each with its row and the ids of the arms."""
        for item, asked in self._chosen(arms):
            if self.progress.drain.is_set() or self.progress.stop.is_set():
                return
            plain = item.sample.to_dict()
            row = SampleRow(arms[0].task_id, sha_of(plain), item.answer, plain, item.truth)
            work.sample(row)
            wanted = frozenset(arm.id for arm in asked if (arm.id, row.id, draw) not in work.done)
            self._skip(len(asked) - len(wanted))
            if wanted:
                yield item.sample, row, wanted

    def _chosen(self, arms: Sequence[Arm]) -> Iterator[tuple[Item, Sequence[Arm]]]:
        """The items with the arms that are asked; the time in which they are made counts as that
        for questions."""
        items = self.items(arms[0].task)
        if self.choose:
            yield from self.choose(arms, items)
            return
        while True:
            with spend("questions"):
                item = next(items, None)
            if item is None:
                return
            yield item, arms

    def note(self, arm: Arm, row: SampleRow, record: Record) -> None:
        """Count a record that was written, and tell of it."""
        self.progress.count("failed" if record.error else "answered")
        self.progress.count("written")
        if self.collect is not None:  # to know what waits
            self.progress.recorded.add(record.key)
        self.on_record(arm, row, record)
        self.progress.release(lambda row: row.over)

    def _skip(self, number: int) -> None:
        if number and not self.progress.again:
            self.progress.count("kept", number)
            self.on_skipped(number)

    def _run_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "name": self.plan.name,
            "left_out": dict(self.plan.left_out),
            "arms": [arm.id for arm in (*self.plan.points, *self.plan.readings)],
            "plugins": list(map(describe_plugin, self.plan.plugins)),
            "files": hash_files(self.plan.files),
            "samples": {name: count_items(task) for name, task in self._tasks.items()},
            "planned": dict.fromkeys(self.planned, 0) if self.choose else dict(self.planned),
            "limit": self.options.limit,
            "shard": list(self.options.shard),
            "versions": installed_versions(),
            "config": self.plan.config,
        }
        for task_id, digest in self.data.items():
            facts.setdefault("data", {})[task_id] = digest.to_dict()
        if self.chosen_by:
            facts["chosen_by"] = self.chosen_by
        return facts

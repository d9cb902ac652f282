"""Runs every sample of a plan through every arm, and resumes an earlier run.

The order of a run: reading existing records, the trials of the rest (`trial`), their records
(`records`), and the companions that receive each record (`companions`).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import cv2

from looktwice.eval.records.records import Key, Record, RunError, RunFolder, SampleRow
from looktwice.eval.records.writer import RunWriter, make_point_rows
from looktwice.eval.runs.companions import Companion, Executor, Models, RunStart, StoppableModel
from looktwice.eval.runs.options import RunOptions, RunSummary
from looktwice.eval.runs.provenance import describe_plugin, hash_files, list_versions
from looktwice.eval.runs.questions import Questions
from looktwice.eval.runs.trial import Progress, Trial, build_tree
from looktwice.eval.runs.worker_pool import WorkerPool
from looktwice.eval.scoring.record_scorer import RecordScorer
from looktwice.eval.scoring.score import ScoringTools
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.eval.tasks.base import count_items
from looktwice.pipelines.clock import track_time
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.model import Stopped
from looktwice.pipelines.sample import Item, Sample, hash_json


@dataclass(eq=False)
class Run:
    """Runs a plan into a folder, and resumes an earlier run in that folder.

    `models` adds cache, retries and limits to each model; without it they are called directly.
    `companions` take part in the run, and one of them may choose the samples. The `executor` runs
    trials in other processes or on other machines, and returns the rest. `in_parts` is True if
    other processes run other parts of the plan.
    """

    plan: Plan
    folder: Path
    options: RunOptions = field(default_factory=RunOptions)
    models: Models | None = None
    companions: Sequence[Companion] = ()
    executor: Executor = field(default_factory=Executor)
    in_parts: bool = False
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        self.questions = Questions(self.plan, self.options)
        self.wrapped = dict[int, Any]()  # by the id() of the plan's model

    def __call__(self) -> RunSummary:
        """Run everything that has no record yet. Raises RunError and TaskError; records already
        written are kept."""
        self._prepare()
        progress, counts = self.progress, self.progress.counts
        with RunWriter(self.folder, progress.drain.set) as writer:
            folder, rows = RunFolder(self.folder), make_point_rows(self.plan)
            done, answered = self._read_outcomes(folder, rows, writer)
            same = self.questions.find_unchanged(folder, answered)
            writer.add_points(rows)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            facts = self._facts() | {"started": folder.facts.get("started") or now}
            writer.write_yaml("run.yaml", facts | {"finished": False})
            done_by_arm = self.questions.find_done_by_arm(done)
            for companion in self.companions:
                companion.start(done_by_arm)
            keys_and_shas = {name: (row.answer, row.sha) for name, row in folder.samples.items()}
            self._execute_all(RunStart(writer, keys_and_shas, done, same))
            stopped = progress.stop.is_set() or progress.drain.is_set()
            writer.write_yaml("run.yaml", facts | {"finished": not stopped})
        if counts["stopped"] and not stopped:
            raise RunError(
                f"a stage raised Stopped {format_count(counts['stopped'], 'time')}; only the"
                " run may"
                " raise it, so raise another exception there"
            )
        written, kept, failed = counts["written"], counts["kept"], counts["failed"]
        return RunSummary(
            self.folder, written, kept, failed, stopped, progress.why, progress.signal
        )

    def _read_outcomes(
        self, folder: RunFolder, rows: Sequence[Any], writer: RunWriter
    ) -> tuple[set[Key], set[tuple[str, str]]]:
        """Return the records that need not be made again, and the samples, by (task id, id), that
        were answered."""
        tasks = {row.id: row.task_id for row in [*writer.known_points.values(), *rows]}
        ended = {"answered", "failed"} if self.options.keep_failed else {"answered"}
        done, answered = set[Key](), set[tuple[str, str]]()
        for key, outcome in folder.outcomes().items():
            if outcome in ended:
                done.add(key)
            if outcome != "failed" and key[0] in tasks:
                answered.add((tasks[key[0]], key[1]))
        return done, answered

    def execute_into(self, writer: Any, done: set[Key]) -> None:
        """Run everything except the records `done`; `writer` replaces the run's own and needs
        `blobs`, `add_sample` and `record`. Raises the first error.
        """
        self._prepare()
        self._execute_all(RunStart(writer, {}, done, {}))

    @cached_property
    def scorers(self) -> Mapping[str, RecordScorer]:
        """The scorer of each arm's records, by arm id."""
        return ScoringTools(RunFolder(self.folder), self.plan).plan_scorers

    @cached_property
    def chooser(self) -> Companion | None:
        """The companion that chooses the questions to ask, or None."""
        return next((companion for companion in self.companions if companion.chooses), None)

    def begin(self) -> None:
        """Start the companions and the executor. Raises RunError."""
        for companion in self.companions:
            companion.begin(self)
        self.executor.start(self)

    @property
    def max_records(self) -> int:
        """The largest number of records that the run may write."""
        return self.chooser.max_records if self.chooser else self.questions.count_records()

    def _prepare(self) -> None:
        cv2.setNumThreads(max(1, (os.cpu_count() or 1) // self.options.workers))
        gc.freeze()  # existing objects stay alive, and need not be traversed again and again
        for model in self.plan.models:
            models = None if self.executor.wraps_models else self.models
            wrapped = models.wrap(model) if models else model
            drain = self.progress.drain
            self.wrapped[id(model)] = StoppableModel(model, drain) if wrapped is model else wrapped

    def _execute_all(self, work: RunStart) -> None:
        """Run every sample, and repeat those that wait for a batched reply until it arrives. Raises
        the first error."""
        progress = self.progress
        self._execute(work)
        with suppress(Stopped):
            while progress.counts.pop("deferred", 0) and not progress.drain.is_set():
                if self.models is not None:
                    self.models.wait_for_batches()
                progress.release(lambda streak: streak.ended)
                progress.held_failures.clear()  # these samples are asked again as well
                progress.is_retrying = True
                self._execute(work._replace(done_keys=work.done_keys | progress.recorded))
        # `held` are failures that may be an endpoint's fault (`FailureStreak`). They are recorded
        # if a later call had another outcome (`ended`). They are not if they stopped the run, or if
        # the model never answered (`first`) and nothing was recorded before: then their samples
        # count as never asked
        new = not (progress.counts["kept"] or self.in_parts)
        progress.release(
            lambda streak: streak.ended or not (progress.why or (streak.before_any_reply and new))
        )
        if progress.held_failures:
            progress.give_up(progress.held_failures[0][0].message)
        if progress.errors:
            raise progress.errors[0]

    def _execute(self, work: RunStart) -> None:
        """Run all trials that are not done, first by the executor, then in the pool's threads."""
        pool = WorkerPool(self.options.workers, self.progress.handle_stop)
        left = self.executor.execute(self, work, self._make_trials(work, pool))
        pool.run(left, self.progress.drain.set)

    def _make_trials(self, work: RunStart, pool: WorkerPool) -> Iterator[Trial]:
        """Yield the trial of each sample."""
        trial = partial(Trial, self.wrapped, work.writer, pool, self.progress, self.note)
        for (task_id, seed, draw), arms in self.questions.group_arms().items():
            ids = work.unchanged_samples.get(task_id, ())
            whole = ids and all((a.id, name, draw) in work.done_keys for a in arms for name in ids)
            if whole and not self.chooser:  # a chooser needs the answered samples as well
                self.skip(len(ids) * len(arms))
                continue
            roots = build_tree(arms)
            for sample, row, wanted in self._select_samples(arms, draw, work):
                yield trial(roots, seed, draw, sample, row, wanted)

    def _select_samples(
        self, arms: Sequence[Arm], draw: int, work: RunStart
    ) -> Iterator[tuple[Sample, SampleRow, frozenset[str]]]:
        """Yield the samples of one task to ask, each with its row and the ids of the arms."""
        for item, asked in self._select_items(arms):
            if self.progress.drain.is_set() or self.progress.stop.is_set():
                return
            plain = item.sample.to_dict()
            row = SampleRow(arms[0].task_id, hash_json(plain), item.answer, plain, item.truth)
            work.write_sample(row)
            wanted = frozenset(
                arm.id for arm in asked if (arm.id, row.id, draw) not in work.done_keys
            )
            self.skip(len(asked) - len(wanted))
            if wanted:
                yield item.sample, row, wanted

    def _select_items(self, arms: Sequence[Arm]) -> Iterator[tuple[Item, Sequence[Arm]]]:
        """Yield the items with the arms to ask; the time to make them is counted as "questions"."""
        items = self.questions.select_items(arms[0].task)
        if self.chooser:
            yield from self.chooser.select(arms, items)
            return
        while True:
            with track_time("questions"):
                item = next(items, None)
            if item is None:
                return
            yield item, arms

    def note(
        self, arm: Arm, row: SampleRow, record: Record, scored: ScoredRecord | None = None
    ) -> None:
        """Count a new record and notify the companions."""
        self.progress.count("failed" if record.error else "answered")
        self.progress.count("written")
        if (
            self.models is not None and self.models.may_defer_samples
        ):  # to know which samples still wait
            self.progress.recorded.add(record.key)
        self.notify_companions(arm, row, record, scored)
        self.progress.release(lambda streak: streak.ended)

    def notify_companions(
        self, arm: Arm, row: SampleRow, record: Record, scored: ScoredRecord | None = None
    ) -> None:
        """Pass a record to the companions, after scoring it unless it comes with its verdict."""
        if not self.companions:
            return
        scored = scored or self.scorers[arm.id](record, row)
        for companion in self.companions:
            companion.record(arm, row, record, scored)

    def skip(self, number: int) -> None:
        """Count records that existed already and notify the companions."""
        if number and not self.progress.is_retrying:
            self.progress.count("kept", number)
            for companion in self.companions:
                companion.skip(number)

    def _facts(self) -> dict[str, Any]:
        questions = self.questions
        planned = dict(questions.planned_counts)
        facts: dict[str, Any] = {
            "name": self.plan.name,
            "left_out": dict(self.plan.left_out),
            "arms": [arm.id for arm in (*self.plan.points, *self.plan.readings)],
            "plugins": list(map(describe_plugin, self.plan.plugins)),
            "files": hash_files(self.plan.files),
            "samples": {name: count_items(task) for name, task in questions.tasks.items()},
            "planned": dict.fromkeys(planned, 0) if self.chooser else planned,
            "limit": self.options.limit,
            "shard": list(self.options.shard),
            "versions": list_versions(),
            "config": self.plan.config,
        }
        for task_id, digest in questions.digests.items():
            facts.setdefault("data", {})[task_id] = digest.to_dict()
        for companion in self.companions:
            facts |= companion.facts()
        return facts

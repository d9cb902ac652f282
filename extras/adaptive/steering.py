"""The companion of a run that chooses its questions in rounds: each round depends on the answers of
the previous rounds."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from looktwice.eval.records.records import Record, RunError, RunFolder, SampleRow
from looktwice.eval.runs.companions import Companion, RunContext
from looktwice.eval.runs.trial import Progress
from looktwice.eval.scoring.record_scorer import RecordScorer
from looktwice.eval.scoring.verdict import ScoredRecord, Verdict
from looktwice.eval.tasks.base import GeneratedTask, find_item
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.model import is_deferring
from looktwice.pipelines.sample import Item, hash_json

Round = Sequence[tuple[str, Sequence[Arm]]]
"""Sample ids, each with the arms to ask."""
Answers = dict[tuple[str, str], float | None]
"""Values by (arm id, sample); None for a failure."""


@dataclass(eq=False)
class Pool:
    """The questions of a task that can be asked: their rows and their items, by id."""

    task: Any
    rows: dict[str, SampleRow]
    items: dict[str, Item]

    @classmethod
    def from_task(cls, task: Any, items: Iterator[Item]) -> Pool:
        """Collect all items of a task. Pictures of generated questions are dropped, since they can
        be generated again."""
        rows, kept = dict[str, SampleRow](), dict[str, Item]()
        for item in items:
            plain = item.sample.to_dict()
            rows[item.sample.id] = SampleRow("", hash_json(plain), item.answer, plain, item.truth)
            if not isinstance(task, GeneratedTask):
                kept[item.sample.id] = item
        return cls(task, rows, kept)

    def get_item(self, sample: str) -> Item:
        """Return the question with the id `sample`."""
        item = self.items.get(sample) or find_item(self.task, sample)
        if item is None:
            raise RunError(f"{type(self.task).__name__}: the question {sample!r} has disappeared")
        return item


@dataclass(eq=False)
class Steering(Companion, ABC):
    """A companion that chooses the samples that a run asks, in `choose_rounds`; `answers` are the
    values so far by (arm id, sample), None for a failure.

    `most` is the maximum number of answers, for the display. The run folder records the `kind` of
    choice, because a folder with questions chosen by two methods would fit neither.
    """

    kind: ClassVar[str]
    chooses = True

    def __post_init__(self) -> None:
        self.answers, self.max_records = Answers(), 0
        self.scorers: Mapping[str, RecordScorer] = {}
        self._progress, self._open = Progress(), set[tuple[str, str]]()
        self._told = threading.Condition()

    @abstractmethod
    def choose_rounds(self, arms: Sequence[Arm], pool: Pool) -> Iterator[Round]:
        """Yield rounds of questions for the arms of one task. When a round is requested, `answers`
        holds the answers of the previous rounds."""

    @abstractmethod
    def count_answers(self, arms: Sequence[Arm], samples: int) -> int:
        """Return the maximum number of answers from the arms of one task, for this many samples."""

    def begin(self, run: RunContext) -> None:
        """Prepare to choose the questions of this run. Raises RunError for settings that do not
        allow asking one question at a time."""
        if any(map(is_deferring, run.plan.models)):
            raise RunError(
                "`choose` needs the answers of each round before the next, and a batch may take a"
                " day; use the model without Batched"
            )
        if any(arm.draws > 1 for arm in run.plan.points):
            raise RunError("choosing questions needs a single draw per question; set `draws: 1`")
        asked = RunFolder(run.folder).facts.get("chosen_by") or self.kind
        if asked != self.kind:
            raise RunError(
                f"{run.folder} holds questions that a {asked} chose, and a {self.kind} chooses"
                " differently; name another --out"
            )
        self.scorers, self._progress = run.scorers, run.progress
        self.max_records = 0
        for (task, *_), arms in run.questions.group_arms().items():
            self.max_records += self.count_answers(arms, run.questions.planned_counts[task])

    def facts(self) -> Mapping[str, Any]:
        """Return the kind of choice, for the run folder."""
        return {"chosen_by": self.kind}

    def record(self, arm: Arm, row: SampleRow, record: Record, scored: ScoredRecord) -> None:
        """Store the value of a recorded answer."""
        with self._told:
            failed = scored.verdict in (Verdict.FAILED, Verdict.HIDDEN)
            self.answers[arm.id, scored.sample] = None if failed else scored.score.value
            self._open.discard((arm.id, scored.sample))
            self._told.notify_all()

    def select(
        self, arms: Sequence[Arm], items: Iterator[Item]
    ) -> Iterator[tuple[Item, Sequence[Arm]]]:
        """Yield the questions round by round; wait for the answers of a round before the next."""
        pool, recorded = Pool.from_task(arms[0].task, items), self._read_known_answers(arms)
        for wanted in self.choose_rounds(arms, pool):
            for sample, asked in wanted:
                new = list[Arm]()
                for arm in asked:
                    key = arm.id, sample
                    if key in recorded:
                        self.answers[key] = recorded[key]
                        self._progress.count("kept")
                        continue
                    new.append(arm)
                    with self._told:
                        self._open.add(key)
                if new:
                    yield pool.get_item(sample), new
            if not self._wait():
                return

    def _read_known_answers(self, arms: Sequence[Arm]) -> Answers:
        """Return the answers that an earlier command recorded."""
        folder = next(iter(self.scorers.values())).folder
        rows = folder.samples_by_task.get(arms[0].task_id, {})
        mine, answers = {arm.id for arm in arms}, Answers()
        for record in folder.last_records():
            if record.point in mine and not record.error and record.sample in rows:
                scored = self.scorers[record.point](record, rows[record.sample])
                hidden = scored.verdict is Verdict.HIDDEN
                answers[record.point, record.sample] = None if hidden else scored.score.value
        return answers

    def _wait(self) -> bool:
        """Wait until every question is answered, except for failures held back for a retry; return
        False if the run is being stopped."""
        with self._told:
            while len(self._open) > len(self._progress.held_failures):
                if self._progress.drain.is_set():
                    return False
                self._told.wait(0.2)  # without a timeout, Ctrl-C is not noticed on every platform
            self.answers |= dict.fromkeys(self._open)
            self._open.clear()
        return not self._progress.drain.is_set()

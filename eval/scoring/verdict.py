"""The data types of scoring: the result of extracting an answer, its verdict and score, the scores
of a run, and the interface through which a benchmark compares answers and adds its own metrics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from string import ascii_uppercase
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.records.judgements import Judgements
from looktwice.eval.records.records import PointRow, Record, RunFolder, SampleRow, read_records_at
from looktwice.eval.records.schema import SampleRows
from looktwice.eval.scoring.arm_columns import ArmColumns, ScoredColumns
from looktwice.eval.scoring.columns import (
    ABSTAINED as ABSTAINED,
    UNJUDGED as UNJUDGED,
    ReadResult as ReadResult,
    Score as Score,
    ScoredRecord as ScoredRecord,
    Verdict as Verdict,
    Words,
)
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.marks import Mark

LETTERS = frozenset(ascii_uppercase)
"""Letters that count as answers, including letters beyond a question's choices, which are wrong
answers; other texts are not answers."""


Samples = Mapping[str, SampleRow]
"""Samples by id."""
Levels = Mapping[str, float]
"""Chance levels by metric."""


@dataclass(frozen=True)
class PointScores:
    """All samples of a point's task with their scored records by draw; a sample without records was
    not asked.

    `contestant` and `task` are the labels of the point in tables. `samples` are rows by id.
    `planned` is the number of samples that the run has to ask (None: all of `samples`). `scorer` is
    the task's own `eval.scoring.Scorer`, or None; `score` reads and scores a record of this point,
    whole or cut after a turn. `is_older` is True if the point is not in the run's current plan.
    `run_clusters` are the clusters of the run's samples, the same in all variants of a task.
    """

    point: PointRow
    samples: Samples
    scored: Mapping[str, Mapping[int, ScoredRecord]]
    reader: str = ""
    contestant: str = ""
    task: str = ""
    planned: int | None = None
    scorer: Scorer | None = None
    score: Callable[[Record, SampleRow], ScoredRecord] | None = None
    is_older: bool = False
    run_clusters: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"PointScores({self.contestant!r} on {self.task!r}, {len(self.columns)} answers)"

    @cached_property
    def columns(self) -> ArmColumns:
        """The scored records as columns."""
        if isinstance(self.scored, ScoredColumns):
            return self.scored.columns
        return ArmColumns.from_records(list(self.samples), self.scored)

    @cached_property
    def all_records(self) -> list[ScoredRecord]:
        """Every scored record of the point."""
        if isinstance(self.scored, ScoredColumns):
            return self._records
        return [scored for draws in self.scored.values() for scored in draws.values()]

    @cached_property
    def _records(self) -> list[ScoredRecord]:
        """The rows of the columns as scored records."""
        return self.columns.records()

    def count_by_words(self, verdict: Verdict) -> dict[Words, int]:
        """Count the records with a verdict by their `Words`, in order of first appearance."""
        return self.columns.count_by_words(np.flatnonzero(self.columns.has_verdict(verdict)))

    def draws(self, sample: str) -> list[ScoredRecord | None]:
        """Return one scored record for each draw of the point, or None for a missing one."""
        by_draw = self.scored.get(sample, {})
        count = max(self.point.draws, 1 + max(by_draw, default=0))
        return [by_draw.get(draw) for draw in range(count)]

    @cached_property
    def keyed_samples(self) -> Samples:
        """The samples that have a correct answer; metrics are computed over these samples."""
        rows = self.samples
        if isinstance(rows, SampleRows) and rows.have_answers:
            return rows
        return {name: row for name, row in rows.items() if row.answer is not None}

    @property
    def metas(self) -> Mapping[str, Mapping[str, Any]]:
        """The meta fields of each sample."""
        rows = self.samples
        return rows.metas if isinstance(rows, SampleRows) else {n: r.meta for n, r in rows.items()}

    def first(self, sample: str) -> ScoredRecord | None:
        """Return the first draw of a sample, or None if it has no record."""
        return self.scored.get(sample, {}).get(0)

    @cached_property
    def first_rows(self) -> NDArray[np.intp]:
        """The rows of the columns with the first draw of each sample with a correct answer, except
        draws that FAILED or are unjudged."""
        columns = self.columns
        wanted = (
            ~columns.has_verdict(Verdict.FAILED) & ~columns.is_unjudged & (columns["draw"] == 0)
        )
        is_keyed = np.array([name in self.keyed_samples for name in columns.ids], bool)
        return np.flatnonzero(wanted & is_keyed[columns["sample"]])

    @cached_property
    def first_records(self) -> Mapping[str, ScoredRecord]:
        """The records of `first_rows` by sample."""
        return {first.sample: first for first in self.columns.records(self.first_rows)}

    def result_of(self, record: Record) -> ScoredRecord | None:
        """Return the scored record, or None if this arm has no such record."""
        return self.scored.get(record.sample, {}).get(record.draw)

    def get_recorded_draws(self, sample: str) -> Sequence[ScoredRecord]:
        """Return the draws of a sample that have a record, in order."""
        return self.recorded_draws.get(sample, ())

    def accepts(self, row: SampleRow, answer: str) -> bool:
        """Return whether an answer is right; the sample must have a correct answer."""
        given = ReadResult(answer=answer)
        return compare_with_key(given, row, self.scorer).verdict is Verdict.RIGHT

    def get_successful_draws(self, sample: str) -> list[ScoredRecord]:
        """Return the draws of a sample that have a record and did not fail."""
        return [
            scored
            for scored in self.get_recorded_draws(sample)
            if scored.verdict is not Verdict.FAILED
        ]

    @cached_property
    def recorded_draws(self) -> Mapping[str, Sequence[ScoredRecord]]:
        """For every sample with records, the draws that have a record, in order."""
        asked = defaultdict[str, list[ScoredRecord]](list)
        for row in self.columns.rows_by_draw.tolist():
            record = self._records[row]
            asked[record.sample].append(record)
        return dict(asked)

    def means(self, value: Callable[[ScoredRecord], float | None]) -> dict[str, float]:
        """Return the mean of `value` over the draws of each asked sample, without draws for which
        it is None."""
        means = {}
        for name, asked in self.recorded_draws.items():
            draws = [number for draw in asked if (number := value(draw)) is not None]
            if draws:
                means[name] = fmean(draws)
        return means

    @cached_property
    def comparable_values(self) -> Mapping[str, float]:
        """The values for a paired test, for samples with a correct answer and at least one draw
        that did not fail."""
        columns = self.columns
        wanted = ~columns.has_verdict(Verdict.FAILED) & ~columns.is_unjudged
        return self.select_keyed(columns.means(columns["value"], wanted))

    def select_keyed(self, values: dict[str, float]) -> dict[str, float]:
        """Return the values of the samples that have a correct answer."""
        keyed = self.keyed_samples.keys()
        if values.keys() <= keyed:
            return values
        return {name: value for name, value in values.items() if name in keyed}

    @cached_property
    def failure(self) -> str:
        """The most common failure if every answer failed; otherwise empty."""
        columns = self.columns
        if not len(columns) or not columns.has_verdict(Verdict.FAILED).all():
            return ""
        return find_commonest_failure(columns.count_by_words())

    @cached_property
    def clusters(self) -> Mapping[str, str]:
        """The name of each sample's cluster, which is the same in every arm and task of a run; see
        `get_cluster`."""
        if self.run_clusters:
            return self.run_clusters
        return {name: get_cluster(self.point.task, row) for name, row in self.samples.items()}

    def clusters_of(self, samples: Iterable[str]) -> list[str]:
        """Return the clusters of some samples, in order."""
        return [self.clusters[sample] for sample in samples]

    @cached_property
    def missing(self) -> int:
        """The number of draws of the planned samples that have no record.

        If more samples were asked than are planned now, those with the fewest missing draws are
        assumed to be the planned ones.
        """
        planned = len(self.samples) if self.planned is None else self.planned
        return self.columns.count_missing(planned, max(1, self.point.draws))

    def only(self, samples: set[str]) -> PointScores:
        """Return the scores restricted to some of the samples: a slice."""
        rows = self.samples
        kept: Samples = (
            rows.only(samples)
            if isinstance(rows, SampleRows)
            else {name: rows[name] for name in rows if name in samples}
        )
        scored = (
            self.scored.only(samples)
            if isinstance(self.scored, ScoredColumns)
            else {name: self.scored[name] for name in self.scored if name in samples}
        )
        return replace(self, samples=kept, scored=scored, planned=None)


@dataclass(frozen=True)
class RunScores:
    """The scores of a run folder: its points in the order of the plan, and the judgements used.

    `older_labels` holds the labels of points that are not in the run's current plan and were not
    scored; `older_draw_count` counts the records of draws that are not in that plan.
    """

    folder: RunFolder
    points: tuple[PointScores, ...]
    judged: Judgements = field(default_factory=Judgements)
    older_labels: tuple[str, ...] = ()
    older_draw_count: int = 0

    def __repr__(self) -> str:
        return f"RunScores({self.name!r}, {len(self.points)} arms)"

    @property
    def name(self) -> str:
        """The name of the run: its folder's name."""
        return self.folder.path.resolve().name

    @property
    def by_id(self) -> dict[str, PointScores]:
        """The points by id."""
        return {scores.point.id: scores for scores in self.points}

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the run; empty if its folder holds none."""
        config = self.folder.facts.get("config")
        return config if isinstance(config, Mapping) else {}

    def records_of(self, samples: Collection[str]) -> Iterator[Record]:
        """Yield the scored records of samples with these ids in any task, in the order of the
        lines; only their lines are read."""
        begins = set[int]()
        for scores in self.points:
            columns = scores.columns
            wanted = np.array([name in samples for name in columns.ids], bool)
            if len(columns):
                begins.update(columns["begin"][wanted[columns["sample"]]].tolist())
        yield from read_records_at(self.folder.path / "records.jsonl", sorted(begins))

    def records(self, holding: str = "") -> Iterator[tuple[PointScores, Record]]:
        """Yield each record whose line contains the text `holding`, with every arm that reads the
        record (several arms if they differ in the reader)."""
        arms = defaultdict[str, list[PointScores]](list)
        for scores in self.points:
            arms[scores.point.records_id].append(scores)
        for record in self.folder.last_records(holding=holding):
            for scores in arms.get(record.point, ()):
                yield scores, record


# ---- the interface of benchmarks


@dataclass(frozen=True)
class Metric:
    """One metric of one arm; `name` is its name in report.csv.

    `units` are the values (0..1) of what the metric counts, by name: samples, pairs, images or
    groups, as `unit` says. The metric is their mean unless `value` gives it, with `low` and `high`
    as its interval; paired tests use the units except those in `failed`. `slice` is a part of the
    samples ("rows=3"), `groups` is the number of groups that a test compared, and `p` is the
    p-value of that test. `clusters` names the clusters of units that are not independent; any other
    unit is a cluster of its own.
    """

    name: str
    units: Mapping[str, float] = field(default_factory=dict)
    unit: str = "sample"
    failed: frozenset[str] = frozenset()
    value: float | None = None
    slice: str = ""
    groups: int | None = None
    p: float | None = None
    low: float | None = None
    high: float | None = None
    clusters: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Total:
    """A benchmark's total over its subtasks: `parts` maps each subtask to the metric that enters
    it; all are needed.

    It is the unweighted mean of the subtasks or, if `pooled` is true, the mean over the units of
    all subtasks together.
    """

    metric: str
    parts: Mapping[str, str]
    pooled: bool = False


class Scorer(Protocol):
    """The scoring rules of a task: a frozen dataclass that the task names in its facts. Methods
    that it does not override apply the general rules.

    `suite` and `part` name the benchmark and its subtask, for the `totals` over them.
    `key_is_answer` is False if the stored key is not an answer to the question but, for example, a
    maximum number of points. `headlines` are the metrics and totals that tables show first, as the
    benchmark's papers do; None means every metric over a whole task. `needs_judge` is True if only
    a judge can grade replies: without one a reply is neither right nor wrong. `Samples` are rows
    (`SampleRow`) by sample id, `Levels` numbers in 0..1 by metric.
    """

    suite: ClassVar[str] = ""
    totals: ClassVar[tuple[Total, ...]] = ()
    key_is_answer: ClassVar[bool] = True
    needs_judge: ClassVar[bool] = False

    @property
    def headlines(self) -> tuple[str, ...] | None:
        """The metrics to show first; None stands for all metrics."""
        return None

    @property
    def part(self) -> str:
        """The subtask's name within the suite (by default the scorer's `name`)."""
        return str(getattr(self, "name", ""))

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """Return the score of an answer to a sample with a correct answer. None means that the
        answer is compared as for any task; a score with the verdict UNREADABLE means that the text
        is not an answer."""
        return None

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return the metrics of one arm, or of a slice of it."""
        return ()

    def chance(self, samples: Samples) -> Levels:
        """Return the chance level on these samples, by metric."""
        return {}

    def marks(self, answer: str | None, row: SampleRow) -> Sequence[Mark]:
        """Return the marks in the images for an answer that consists of boxes or points; if
        `answer` is None, the marks for the correct answer."""
        return ()

    def guesser(self, samples: Samples) -> float | None:
        """Return the accuracy of the best guesser who sees these images without marks and question;
        None if it is not known."""
        return None


def build_scorer(facts: Mapping[str, Any], binder: Binder | None = None) -> Scorer | None:
    """Return the scorer in a task's facts, built from its node if necessary; None if the facts have
    no scorer. Raises ConfigError."""
    named = facts.get("scorer")
    if not named:
        return None
    if isinstance(named, Mapping):
        named = (binder or Binder.for_checked_paths()).build(named)
    built: Scorer = named
    return built


def compare_with_key(
    result: ReadResult, row: SampleRow, scorer: Scorer | None, texts_are_wrong: bool = False
) -> Score:
    """Return the score of an extracted answer, by the benchmark's own comparison if it has one.

    Letters must be equal; texts are compared by `is_same_text`. A text where a letter is expected,
    such as a choice's text, is not an answer, unless `accepts_only_letters`.
    """
    group, answer = str(row.meta.get("group", "")), result.answer
    if result.verdict is not None or answer is None:
        return Score(result.verdict or Verdict.UNREADABLE, 0.0, group)
    if row.answer is None:
        return Score(Verdict.HIDDEN, 0.0, group)
    own = scorer.compare(answer, row) if scorer is not None else None
    if own is not None:
        return replace(own, group=own.group or group)
    if row.n_choices:
        if answer.strip() not in LETTERS and not texts_are_wrong:
            return Score(Verdict.UNREADABLE, 0.0, group)
        right = answer.strip() == row.answer
    else:
        from looktwice.eval.scoring.same_text import is_same_text

        right = is_same_text(answer, row.answer)
    return Score.of(right, group)


def find_commonest_failure(failed: Mapping[Words, int]) -> str:
    """Return the most common failure, by the first lines of the tracebacks; `failed` counts failed
    records by their `Words`."""
    lines = Counter[str]()
    for words, count in failed.items():
        lines[(words.detail.strip().splitlines() or ["no message"])[0]] += count
    return lines.most_common(1)[0][0][:500]


def get_cluster(task: str, row: SampleRow) -> str:
    """Return the name of a sample's cluster: its group within this task, or else its pictures, in
    any task.

    A sample with neither is its own cluster.
    """
    shared = row.shared_cluster
    return f"{task}: {shared or row.id}" if not shared or shared.startswith("group ") else shared

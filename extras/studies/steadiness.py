"""The stability of results over draws and over variants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike

from looktwice.eval.analysis.analyses import Analysis, make_table_builder
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    ARM_NAME_COLUMNS,
    Column,
    Columns,
    TextTable,
    attribute_columns,
    estimate_cell,
    nonzero_cell,
    percent,
    table,
)
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, Verdict
from looktwice.eval.statistics.answers import compute_majority_value
from looktwice.eval.statistics.intervals import Estimate, bootstrap_mean

DRAW_NOTE = (
    "The table covers samples with a correct answer whose draws were all asked and did not fail;"
    " others are left out. The standard error of accuracy is split, by the mean squares of a"
    " one-way analysis of variance, into the error from sampling the questions and the error from"
    " the draws. pass@k: at least one of k draws is right (Chen et al. 2021). Majority: the most"
    " frequent answer of a sample (the mean of equally frequent ones). Intervals: 95 %, bootstrap"
    " over clusters."
)


def find_complete_draws(scores: PointScores) -> dict[str, list[ScoredRecord]]:
    """Return the draws of each sample that has a key and no failed or missing draw, cut to the
    number of draws that all these samples have."""
    complete = dict[str, list[ScoredRecord]]()
    for name in scores.keyed_samples:
        kept = [draw for draw in scores.draws(name) if draw and draw.verdict is not Verdict.FAILED]
        if len(kept) == len(scores.draws(name)):
            complete[name] = kept
    least = min(map(len, complete.values()), default=0)
    return {name: draws[:least] for name, draws in complete.items()}


@dataclass(frozen=True)
class Draws:
    """The draws of an arm on the samples for which no draw is missing or failed."""

    scores: PointScores
    complete_draws: Mapping[str, list[ScoredRecord]]
    variance: DrawVariance

    @property
    def left_out_count(self) -> int:
        """The number of samples with a key of which a draw is missing or failed."""
        return len(self.scores.keyed_samples) - len(self.complete_draws)

    @property
    def share_any_right(self) -> Estimate:
        """The share of samples with at least one right draw: pass@k, where k is the number of
        draws."""
        right = [
            {d.verdict for d in draws} >= {Verdict.RIGHT} for draws in self.complete_draws.values()
        ]
        return bootstrap_mean(right, self.scores.clusters_of(self.complete_draws))

    @property
    def majority_accuracy(self) -> Estimate:
        """The accuracy of the most frequent answer of each sample."""
        votes = []
        for draws in self.complete_draws.values():
            answers, worth = zip(*((draw.answer, draw.score.value) for draw in draws), strict=True)
            votes.append(compute_majority_value(answers, worth))
        return bootstrap_mean(votes, self.scores.clusters_of(self.complete_draws))


DRAW_COLUMNS: Columns[Draws] = (
    *ARM_NAME_COLUMNS,
    Column("n", "variance.n"),
    Column("left\nout", "left_out_count", nonzero_cell),
    Column("draws", "variance.draw_count"),
    Column("accuracy %", "variance.mean", percent),
    Column("error from\nsamples", "variance.samples_error", percent),
    Column("error from\ndraws", "variance.draws_error", percent),
    Column("variance from\ndraws %", "variance.draw_share", percent),
    Column("pass@k %\n(k = draws)", "share_any_right", estimate_cell),
    Column("majority %", "majority_accuracy", estimate_cell),
)


def find_arms_with_draws(run: RunScores) -> Iterator[Draws]:
    """Yield each arm that has several draws, with the analysis of its draws."""
    for scores in run.points:
        complete = find_complete_draws(scores) if scores.point.draws > 1 else {}
        if len(complete) > 1:
            values = [[draw.score.value for draw in draws] for draws in complete.values()]
            yield Draws(scores, complete, split_variance(values))


# ---- variants

MIN_VARIANTS = 3  # with fewer variants, a spread means little


@dataclass(frozen=True)
class _Spread:
    """The rows of a contestant's variants on a task, ranked from worst to best."""

    contestant: str
    task: str
    ranked_rows: list[Row]

    @property
    def mean(self) -> float:
        return fmean(row.value or 0.0 for row in self.ranked_rows)

    @property
    def spread(self) -> float:
        return (self.ranked_rows[-1].value or 0.0) - (self.ranked_rows[0].value or 0.0)


SPREAD_COLUMNS: Columns[_Spread] = (
    *attribute_columns("contestant", "task"),
    Column("variants", lambda line: len(line.ranked_rows)),
    Column("mean %", "mean", percent),
    Column("worst %", lambda line: line.ranked_rows[0].value, percent),
    Column("worst variant", lambda line: _format_changes(line.ranked_rows[0])),
    Column("best %", lambda line: line.ranked_rows[-1].value, percent),
    Column("best variant", lambda line: _format_changes(line.ranked_rows[-1])),
    Column("spread", "spread", percent),
)


def _format_changes(row: Row) -> str:
    return row.contestant.partition(" [")[2].removesuffix("]") or "unchanged"


def make_spread_table(scored: Table) -> TextTable:
    """Build a table with a row per contestant and task that has at least three variants: mean,
    worst, best, and best minus worst.

    Variants are the points of one contestant that differ in its stages, model or draws, on the same
    samples.
    """
    variants = defaultdict[tuple[str, str, str], list[Row]](list)
    for row in scored.where(metric="accuracy", slice="").rows:
        if row.point and row.task_name and row.value is not None:
            variants[row.run, row.contestant.partition(" [")[0], row.task].append(row)
    many = len({run for run, _, _ in variants}) > 1
    lines = []
    for (run, name, task), rows in variants.items():
        if len(rows) >= MIN_VARIANTS:
            ranked = sorted(rows, key=lambda row: row.value or 0.0)
            lines.append(_Spread(f"{name} ({run})" if many else name, task, ranked))
    return table(SPREAD_COLUMNS, lines)


SPREAD_ANALYSIS = Analysis("spread", "Spread over variants", make_spread_table)
SEVERAL_DRAWS_ANALYSIS = Analysis(
    "draws",
    "Draws",
    make_table_builder(DRAW_COLUMNS, find_arms_with_draws, keep_empty=False),
    DRAW_NOTE,
)


@dataclass(frozen=True)
class DrawVariance:
    """The variance of a value, split into that between samples and that between draws.

    `samples_error` and `draws_error` are their contributions to the standard error of the mean over
    n samples with k draws each: more samples reduce both, more draws only the second.
    """

    mean: float
    between_samples: float
    within_samples: float
    n: int
    draw_count: int

    @property
    def samples_error(self) -> float:
        """The standard error of the mean that remains with any number of draws."""
        return sqrt(self.between_samples / self.n)

    @property
    def draws_error(self) -> float:
        """The standard error of the mean over repetitions of the run on the same samples."""
        return sqrt(self.within_samples / (self.n * self.draw_count))

    @property
    def draw_share(self) -> float:
        """The share of an answer's variance that lies within samples; 0 if nothing varies."""
        total = self.between_samples + self.within_samples
        return self.within_samples / total if total > 0 else 0.0


def split_variance(values: ArrayLike) -> DrawVariance:
    """Estimate the variance components of values (n samples, k draws) from the mean squares of a
    one-way analysis of variance.

    The component between samples is at least 0 (Searle, Casella and McCulloch 1992, section 3.6).
    Raises ValueError for fewer than two samples or draws.
    """
    data = np.asarray(values, float)
    if data.ndim != 2 or min(data.shape) < 2:
        raise ValueError(
            "splitting the variance needs two samples with two draws each, found the shape"
            f" {data.shape}"
        )
    n, draws = data.shape
    within = float(data.var(axis=1, ddof=1).mean())
    between = max(0.0, float(data.mean(axis=1).var(ddof=1)) - within / draws)
    return DrawVariance(float(data.mean()), between, within, n, draws)

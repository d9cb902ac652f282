"""The metrics that every task has, and their means over tasks.

With several draws a sample's value is the mean over its draws; intervals and tests are over samples, and the
verdicts are counted per draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.row import Row, fill
from looktwice.eval.scoring.verdict import UNJUDGED, PointScores, Verdict, mean
from looktwice.eval.statistics.shares import stratified_interval, wilson

ANSWERED = (Verdict.RIGHT, Verdict.WRONG, Verdict.HIDDEN)


def accuracy(scores: PointScores) -> dict[str, float]:
    """Mean score over the asked samples with ground truth; an unreadable or failed answer scores 0.

    None where every answer failed: then nothing was measured. What only a judge could score, and none has, is left out.
    """
    if scores.failure:
        return {}
    keyed = {name for name, row in scores.samples.items() if row.answer is not None}
    values = {
        name: [s.score.value for s in asked if s.reason != UNJUDGED]
        for name, asked in scores.draws_asked.items()
        if name in keyed
    }
    return {name: mean(draws) for name, draws in values.items() if draws}


def accuracy_answered(scores: PointScores) -> dict[str, float]:
    """Mean score over the draws with a verdict RIGHT or WRONG; samples without such a draw are left out."""
    graded = (Verdict.RIGHT, Verdict.WRONG)
    values = {
        name: [s.score.value for s in asked if s.score.verdict in graded] for name, asked in scores.draws_asked.items()
    }
    return {name: mean(draws) for name, draws in values.items() if draws}


def coverage(scores: PointScores) -> dict[str, float]:
    """The share of asked samples with a readable answer: right, wrong, or without ground truth to compare with."""
    return {name: mean([s.score.verdict in ANSWERED for s in asked]) for name, asked in scores.draws_asked.items()}


METRICS: dict[str, Callable[[PointScores], Mapping[str, float]]] = {
    "accuracy": accuracy,
    "accuracy_answered": accuracy_answered,
    "coverage": coverage,
}
"""Name -> function that returns a value (0..1) for each sample the metric covers. A metric added here gets its rows in
report.csv, with macro and micro, and its column in the printed tables; `accuracy` stays first."""


def measure(scores: PointScores, row: Row) -> list[Row]:
    """The rows of one arm (or one slice of it), one for each metric; `row` holds the names that they share.

    What was not asked is in none of them. A row "missing" with its share of the planned draws is added only if there
    are such draws.
    """
    counts, missing = Counter(s.verdict for s in scores.all), scores.missing
    costs = [s.cost for s in scores.all if s.cost is not None]
    row = replace(
        row,
        right=counts[Verdict.RIGHT],
        wrong=counts[Verdict.WRONG],
        unreadable=counts[Verdict.UNREADABLE],
        failed=counts[Verdict.FAILED],
        hidden=counts[Verdict.HIDDEN],
        missing=missing,
        failure=scores.failure,
        n_groups=len({s.score.group for s in scores.all if s.score.group}) or None,
        tokens_in=sum(s.tokens_in for s in scores.all),
        tokens_out=sum(s.tokens_out for s in scores.all),
        cost=sum(costs) if costs and len(costs) == len(scores.all) else None,
    )
    rows = [fill(row, Metric(name, metric(scores))) for name, metric in METRICS.items()]
    if missing:
        n = len(scores.samples) if scores.planned is None else scores.planned
        rows.append(replace(row, metric="missing", value=missing / (missing + len(scores.all)), n=n))
    return rows


def macro_row(rows: Sequence[Row]) -> Row:
    """The unweighted mean over tasks; a task swept over several variants counts as one task, with their mean."""
    rows_with_value = [row for row in rows if row.value is not None and row.n]
    variants = Counter(row.task_name for row in rows_with_value)
    total = replace(_sum_rows(rows), task="macro", n_tasks=len(variants))
    if not rows_with_value:
        return total
    weighted = [(row, row.value or 0.0, 1 / (len(variants) * variants[row.task_name])) for row in rows_with_value]
    low, high = stratified_interval([(value * row.n, row.n, weight) for row, value, weight in weighted])
    deltas = [row.delta * weight for row, _, weight in weighted if row.delta is not None]
    delta = sum(deltas) if len(deltas) == len(rows_with_value) else None
    return replace(total, value=sum(value * weight for _, value, weight in weighted), low=low, high=high, delta=delta)


def micro_row(rows: Sequence[Row]) -> Row:
    """All samples of all tasks as one set, tasks weighted by their size.

    Variants of one task ask the same questions again, so a value over several variants has no interval.
    """
    rows_with_value = [row for row in rows if row.value is not None and row.n]
    n, total = sum(row.n for row in rows_with_value), sum((row.value or 0.0) * row.n for row in rows_with_value)
    row = replace(_sum_rows(rows), task="micro", n_tasks=len({row.task_name for row in rows_with_value}), n=n)
    if not n:
        return row
    low, high = (None, None) if len(rows_with_value) > row.n_tasks else wilson(total, n)
    return replace(row, value=total / n, low=low, high=high)


def _sum_rows(rows: Sequence[Row]) -> Row:
    """One row that adds up the columns marked as summed and joins the distinct split, label version and reader."""
    first = rows[0]
    sums: dict[str, Any] = {}
    for name in (column.name for column in fields(Row) if column.metadata.get("summed")):
        values = [value for row in rows if (value := getattr(row, name)) is not None]
        sums[name] = sum(values) if values else None
    facts: dict[str, Any] = {
        name: "; ".join(dict.fromkeys(getattr(row, name) for row in rows if getattr(row, name)))
        for name in ("split", "label_version", "reader")
    }
    return Row(
        first.run, "", first.contestant, first.task, first.slice, first.metric, None, unit=first.unit, **sums, **facts
    )

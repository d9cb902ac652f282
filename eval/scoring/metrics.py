"""The metrics that every task has, and their means over tasks.

With several draws a sample's value is the mean over its draws; intervals and tests are over samples, and the
verdicts are counted per draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from statistics import fmean
from typing import Any

from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.row import Row, fill
from looktwice.eval.scoring.stats import stratified_interval, wilson
from looktwice.eval.scoring.verdict import PointScores, ScoredRecord, Verdict

ANSWERED = (Verdict.RIGHT, Verdict.WRONG, Verdict.HIDDEN)


def accuracy(scores: PointScores) -> dict[str, float]:
    """RIGHT over all samples with a key: what is wrong, unreadable, failed or missing counts 0."""
    names = (name for name, row in scores.samples.items() if row.answer is not None)
    return {name: fmean(s.score.value if s else 0.0 for s in scores.draws(name)) for name in names}


def accuracy_answered(scores: PointScores) -> dict[str, float]:
    """RIGHT/(RIGHT + WRONG): over the samples that were answered at all."""
    graded = (Verdict.RIGHT, Verdict.WRONG)
    held = {name: [s for s in scores.draws(name) if s and s.verdict in graded] for name in scores.samples}
    return {name: fmean(s.score.value for s in draws) for name, draws in held.items() if draws}


def coverage(scores: PointScores) -> dict[str, float]:
    """The share of samples that were answered, right or wrong."""
    return {name: fmean(_is_answered(s) for s in scores.draws(name)) for name in scores.samples}


METRICS: dict[str, Callable[[PointScores], Mapping[str, float]]] = {
    "accuracy": accuracy,
    "accuracy_answered": accuracy_answered,
    "coverage": coverage,
}
"""Name -> function that gives the value (0..1) of each sample that it is over. One that is added here gets its rows in
report.csv, with macro and micro, and its column in the printed tables; `accuracy` stays first."""


def measure(scores: PointScores, row: Row) -> list[Row]:
    """The rows of one point (or one slice of it): `row` holds its names, and comes back once per metric.

    A row "missing" with the share of draws that have no record is there only where there are some.
    """
    counts = Counter(s.verdict if s else None for name in scores.samples for s in scores.draws(name))
    costs = [s.cost for s in scores.all if s.cost is not None]
    row = replace(
        row,
        right=counts[Verdict.RIGHT],
        wrong=counts[Verdict.WRONG],
        unreadable=counts[Verdict.UNREADABLE],
        failed=counts[Verdict.FAILED],
        hidden=counts[Verdict.HIDDEN],
        missing=counts[None],
        n_groups=len({s.score.group for s in scores.all if s.score.group}) or None,
        tokens_in=sum(s.tokens_in for s in scores.all),
        tokens_out=sum(s.tokens_out for s in scores.all),
        cost=sum(costs) if costs and len(costs) == len(scores.all) else None,
    )
    rows = [fill(row, Metric(name, metric(scores))) for name, metric in METRICS.items()]
    if counts[None]:
        rows.append(replace(row, metric="missing", value=counts[None] / sum(counts.values()), n=len(scores.samples)))
    return rows


def macro_row(rows: Sequence[Row]) -> Row:
    """The unweighted mean over tasks; one that is swept into variants counts once, with their mean."""
    held = [row for row in rows if row.value is not None and row.n]
    variants = Counter(row.task_name for row in held)
    total = replace(_sum_rows(rows), task="macro", n_tasks=len(variants))
    if not held:
        return total
    weighted = [(row, row.value or 0.0, 1 / (len(variants) * variants[row.task_name])) for row in held]
    low, high = stratified_interval([(value * row.n, row.n, weight) for row, value, weight in weighted])
    deltas = [row.delta * weight for row, _, weight in weighted if row.delta is not None]
    delta = sum(deltas) if len(deltas) == len(held) else None
    return replace(total, value=sum(value * weight for _, value, weight in weighted), low=low, high=high, delta=delta)


def micro_row(rows: Sequence[Row]) -> Row:
    """All samples of all tasks as one set, tasks weighted by their size.

    Variants of one task ask the same questions again, so over them there is a value and no interval.
    """
    held = [row for row in rows if row.value is not None and row.n]
    n, total = sum(row.n for row in held), sum((row.value or 0.0) * row.n for row in held)
    row = replace(_sum_rows(rows), task="micro", n_tasks=len({row.task_name for row in held}), n=n)
    if not n:
        return row
    low, high = (None, None) if len(held) > row.n_tasks else wilson(total, n)
    return replace(row, value=total / n, low=low, high=high)


def _sum_rows(rows: Sequence[Row]) -> Row:
    """A row with the sums of the columns that are summed and the facts of all, without what belongs to one point."""
    first = rows[0]
    sums: dict[str, Any] = {}
    for name in (column.name for column in fields(Row) if column.metadata.get("summed")):
        held = [value for row in rows if (value := getattr(row, name)) is not None]
        sums[name] = sum(held) if held else None
    facts: dict[str, Any] = {
        name: "; ".join(dict.fromkeys(getattr(row, name) for row in rows if getattr(row, name)))
        for name in ("split", "label_version", "reader")
    }
    return Row(
        first.run, "", first.contestant, first.task, first.slice, first.metric, None, unit=first.unit, **sums, **facts
    )


def _is_answered(scored: ScoredRecord | None) -> float:
    return float(scored is not None and scored.verdict in ANSWERED)

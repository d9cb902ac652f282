"""The rows of report.csv: their columns, means over tasks, and comparisons with a baseline.

With several draws, the value of a sample is the mean over its draws; intervals and tests are over
samples, and verdicts are counted per draw.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import isfinite, nan
from statistics import fmean
from typing import Any, TypeVar

import numpy as np

from looktwice.eval.scoring.metrics import METRICS
from looktwice.eval.scoring.verdict import Metric, PointScores, RunScores
from looktwice.eval.statistics.intervals import (
    Estimate,
    Floats,
    Stratum,
    cluster_codes,
    find_scale,
    mean_of_shares,
    share_interval,
)
from looktwice.eval.statistics.paired import ValueMatrix, correct

Arm = TypeVar("Arm", bound=Hashable)


@dataclass(frozen=True)
class Row:
    """A row of the long table. Shares lie in 0..1, and None (empty in the file) means "does not
    apply".

    Counts, tokens and cost are repeated in the row of every metric of an arm; to avoid counting
    them twice, sum them only over the rows of `accuracy`.
    """

    run: str  # name of the run folder
    point: str  # id of the point in points.yaml; empty for means over tasks, majority and chance
    contestant: str  # with its changes, "plain [mark.radius=15]"
    # with its changes; "macro", "micro" and the name of a benchmark stand for several tasks
    task: str
    slice: str  # the part of the samples, "category=indoor"; empty for all
    metric: str
    value: float | None
    low: float | None = None  # 95 % interval of the value
    high: float | None = None
    n: int = 0  # units behind the value, see `unit`
    # groups of samples, or levels of a parameter
    n_groups: int | None = None
    right: int | None = None  # this column and the next three count draws
    wrong: int | None = None
    unreadable: int | None = None
    failed: int | None = None
    delta: float | None = None  # mean paired difference from the baseline
    # two-sided paired test against the baseline, see `test`, or the metric's own test
    p: float | None = None
    # of all calls, cached replies included
    tokens_in: int | None = None
    tokens_out: int | None = None
    # list price of all calls, see `record_scorer.sum_costs`
    cost: float | None = None
    split: str = ""
    label_version: str = ""
    reader: str = ""  # the reader of the replies
    # p of accuracy after Holm's correction over the run's comparisons on single tasks, or on micro
    p_holm: float | None = None
    baseline: str = ""  # the contestant that delta and p compare with
    discordant: int | None = None  # units on which arm and baseline differ
    excluded: int | None = None  # units left out of the test: failed or missing on either side
    missing: int = 0  # draws that have no record
    hidden: int = 0  # answers to samples without a correct answer to compare with
    unit: str = "sample"  # what the metric is a mean over: sample, pair, image, group ...
    task_name: str = ""  # the task's name in the configuration; empty for means over tasks
    n_tasks: int = 1  # tasks behind a mean
    of_tasks: int = 1  # tasks of the run; a mean is over `n_tasks` of them
    delta_low: float | None = None  # 95 % interval of delta, by a bootstrap over clusters
    delta_high: float | None = None
    # discordant units on which the arm does better than the baseline
    better: int | None = None
    compared: int | None = None  # units that arm and baseline have and on which neither failed
    # clusters of the compared units: units of one group or picture form one cluster
    n_clusters: int | None = None
    # the smallest delta that the compared units detect with 80 % power
    detectable: float | None = None
    # p of accuracy after Benjamini and Hochberg's correction over the same comparisons
    p_bh: float | None = None
    test: str = ""  # the test that gave p
    # the human accuracy, from a row of `published:` with `people: true`
    people: float | None = None
    failure: str = ""  # the most common failure, if every answer failed and there is no value
    # clusters of the units behind the value: units of one group or picture form one cluster
    clusters: int | None = None
    # the units behind the value; not a column of the file
    units: Stratum | None = field(default=None, repr=False, compare=False)

    @property
    def worse(self) -> int | None:
        """The number of discordant units on which the arm does worse than the baseline."""
        if self.better is None or self.discordant is None:
            return None
        return self.discordant - self.better


Rows = Sequence[Row]
COUNT_COLUMNS = "n", "n_groups", "right", "wrong", "unreadable", "failed", "missing", "hidden"
COMPARISON_COLUMNS = (
    "baseline",
    "excluded",
    "delta",
    "delta_low",
    "delta_high",
    "p",
    "test",
    "discordant",
    "better",
    "compared",
    "n_clusters",
    "detectable",
)
"""The columns that compare a row with the baseline."""
SUMMED_COLUMNS = (*COUNT_COLUMNS, "tokens_in", "tokens_out", "cost")
"""The columns that are summed over tasks in the rows `macro` and `micro`."""
COLUMNS = tuple(column.name for column in fields(Row) if column.name != "units")
"""The columns of report.csv."""


def make_empty_row(run: RunScores, scores: PointScores, part: str = "") -> Row:
    """Return the row of an arm, or of a slice of an arm, without a metric."""
    point = scores.point
    return Row(
        run.name,
        point.id,
        scores.contestant,
        scores.task,
        part,
        metric="accuracy",
        value=None,
        split=str(point.facts.get("split") or ""),
        label_version=str(point.facts.get("label_version") or ""),
        task_name=point.task,
        reader=scores.reader,
    )


def fill_row(row: Row, metric: Metric) -> Row:
    """Return the row of a metric: the mean of its units with an interval from `share_interval`, or
    the value that the metric itself sets."""
    n, units = len(metric.units), None
    if n:
        names = [*map(metric.clusters.get, metric.units)]
        if not all(names):  # such as pairs of samples, each of which is its own cluster
            own = zip(names, metric.units, strict=True)
            names = [name or f"{row.task_name}: {unit}" for name, unit in own]
        units = Stratum(np.fromiter(metric.units.values(), float, n), names)
    row = replace(
        row,
        metric=metric.name,
        value=metric.value,
        low=metric.low,
        high=metric.high,
        n=n,
        n_groups=(metric.groups or row.n_groups) if metric.unit == "sample" else n,
        p=metric.p,
        unit=metric.unit,
        slice=metric.slice or row.slice,
        clusters=None,
        units=units,
    )
    if units is None or metric.value is not None:
        return row
    return _set_interval(row, share_interval(*units[:2]))


def _set_interval(row: Row, mean: Row | Estimate) -> Row:
    return replace(row, value=mean.value, low=mean.low, high=mean.high, clusters=mean.clusters)


def make_arm_rows(scores: PointScores, row: Row) -> list[Row]:
    """Return the rows of one arm (or of a slice of it), one for each metric; `row` holds the
    columns that these rows share.

    Samples that were not asked count in none of the rows. If draws are missing, a row "missing"
    gives their share of the planned draws.
    """
    columns, missing = scores.columns, scores.missing
    costs, verdicts = columns.get_costs(), columns.count_verdicts()
    row = replace(
        row,
        **verdicts,  # type: ignore[arg-type]
        missing=missing,
        failure=scores.failure,
        n_groups=columns.count_groups() or None,
        tokens_in=int(columns["tokens_in"].sum()),
        tokens_out=int(columns["tokens_out"].sum()),
        cost=sum(costs) if costs and len(costs) == len(columns) else None,
    )
    rows = [
        fill_row(row, Metric(name, metric(scores), clusters=scores.clusters))
        for name, metric in METRICS.items()
    ]
    if missing:
        n = len(scores.samples) if scores.planned is None else scores.planned
        share = missing / (missing + len(columns))
        rows.append(replace(row, metric="missing", value=share, n=n))
    return rows


def make_macro_row(rows: Rows) -> Row:
    """Return the unweighted mean over tasks; a task swept over several variants counts as one task,
    with the mean of its variants.

    For the interval, a question that several variants ask counts once, and so does a picture that
    several tasks show.
    """
    variants = defaultdict[str, list[Row]](list)
    for row in rows:
        if row.value is not None and row.n:
            variants[row.task_name].append(row)
    total = replace(_sum_rows(rows), task="macro", n_tasks=len(variants))
    if not variants:
        return total
    values, deltas = list[float](), list[float | None]()
    for mine in variants.values():
        given = [row.delta for row in mine if row.delta is not None]
        values.append(fmean(row.value or 0.0 for row in mine))
        deltas.append(fmean(given) if len(given) == len(mine) else None)
    value, given = fmean(values), [delta for delta in deltas if delta is not None]
    delta = fmean(given) if len(given) == len(deltas) else None
    total = replace(total, value=value, delta=delta)
    (first, *more), *others = variants.values()
    if not more and not others:
        return replace(_set_interval(total, first), value=value)
    strata = [_pool_units(mine, 1 / len(variants)) for mine in variants.values()]
    if not all(strata):
        return total
    mean = mean_of_shares([stratum for stratum in strata if stratum])
    low, high = value - (mean.value - mean.low), value + (mean.high - mean.value)
    return replace(total, low=max(0.0, low), high=min(1.0, high), clusters=mean.clusters)


def make_micro_row(rows: Rows) -> Row:
    """Return the mean over the samples of all tasks together, so that tasks are weighted by their
    size.

    A question asked by several variants is one cluster, and so are questions of several tasks about
    one picture.
    """
    valued, names, n = list[Row](), set[str](), 0
    for row in rows:
        if row.value is not None and row.n:
            valued.append(row)
            names.add(row.task_name)
            n += row.n
    total = replace(_sum_rows(rows), task="micro", n_tasks=len(names), n=n)
    if not n:
        return total
    value = sum((row.value or 0.0) * row.n for row in valued) / n
    units = _pool_units(valued)
    if len(valued) == 1:
        total = _set_interval(total, valued[0])
    elif units is not None:
        total = _set_interval(total, share_interval(*units[:2]))
    return replace(total, value=value)


def _pool_units(rows: Rows, weight: float = 1.0) -> Stratum | None:
    """Return the units behind several rows as one set, in which each unit varies around the mean of
    its row; None if a row is a reference level, which has no units."""
    values, clusters, centres = list[Floats](), list[Hashable](), list[Floats]()
    for row in rows:
        if row.units is None:
            return None
        values.append(row.units.values)
        clusters += row.units.clusters or ()
        centres.append(np.full(len(values[-1]), values[-1].mean()))
    return Stratum(np.concatenate(values), clusters, weight, np.concatenate(centres))


def _sum_rows(rows: Rows) -> Row:
    """Return one row with the sums of the additive columns and the distinct splits, label versions
    and readers joined."""
    first, joined = rows[0], dict[str, Any]()
    for name in SUMMED_COLUMNS:
        given = [value for row in rows if (value := getattr(row, name)) is not None]
        joined[name] = sum(given) if given else None
    for name in ("split", "label_version", "reader"):
        joined[name] = "; ".join(dict.fromkeys(filter(None, (getattr(row, name) for row in rows))))
    names = first.run, "", first.contestant, first.task, first.slice, first.metric
    return Row(*names, None, unit=first.unit, **joined)


# ---- comparisons


def make_comparable_accuracy(scores: PointScores) -> Metric:
    """Return the accuracy for a paired test; failed and missing samples are excluded instead of
    counting as wrong."""
    values = scores.comparable_values
    units = dict.fromkeys(scores.keyed_samples, 0.0)
    units.update(values)
    has_failed = len(units) > len(values)
    failed = frozenset(units.keys() - values.keys() if has_failed else ())
    return Metric("accuracy", units, failed=failed, clusters=scores.clusters)


def get_units(arms: Mapping[Arm, Sequence[Metric]]) -> ValueMatrix[Arm, tuple[int, str]]:
    """Return the units of a metric for several arms on the same tasks, in the clusters of the first
    arm; a unit that failed is NaN."""
    first, *others = arms.values()
    orders = [[*metric.units] for metric in first]
    if all(
        [*metric.units] == own for arm in others for metric, own in zip(arm, orders, strict=True)
    ):
        return _stack_units(arms, orders)
    values: dict[Arm, dict[tuple[int, str], float]] = {arm: {} for arm in arms}
    for arm, metrics in arms.items():
        for task, metric in enumerate(metrics):
            for unit, value in metric.units.items():
                values[arm][task, unit] = nan if unit in metric.failed else value
    clusters = dict[tuple[int, str], str]()
    for task, metric in enumerate(next(iter(arms.values()))):
        clusters |= {(task, unit): cluster for unit, cluster in metric.clusters.items()}
    return ValueMatrix.of(values, clusters, lambda unit: unit[0])


def _stack_units(
    arms: Mapping[Arm, Sequence[Metric]], orders: Sequence[Sequence[str]]
) -> ValueMatrix[Arm, tuple[int, str]]:
    """Return the result of `get_units` for arms whose metrics have the same units in the same
    order."""
    units, names = list[tuple[int, str]](), list[Hashable]()
    for task, (order, metric) in enumerate(zip(orders, next(iter(arms.values())), strict=True)):
        own = [(task, unit) for unit in order]
        units += own
        named: list[Hashable] = [*map(metric.clusters.get, order)]
        if None in named:
            alone = zip(named, own, strict=True)
            named = [(place,) if name is None else name for name, place in alone]
        names += named
    lines = list[Floats]()
    for metrics in arms.values():
        parts = list[Floats]()
        for order, metric in zip(orders, metrics, strict=True):
            part = np.fromiter(metric.units.values(), float, len(order))
            if metric.failed:
                part[[unit in metric.failed for unit in order]] = nan
            parts.append(part)
        lines.append(np.concatenate(parts))
    tasks = np.repeat(np.arange(len(orders)), [*map(len, orders)])
    codes = cluster_codes(names, len(units)) if units else np.zeros(0, np.int64)
    strata = cluster_codes(tasks, len(units)) if units else None
    return ValueMatrix(np.array(lines), tuple(arms), tuple(units), codes, strata)


def compare(row: Row, baseline: str, pairs: Sequence[tuple[Metric, Metric]]) -> Row:
    """Return the row with the paired comparison of a metric with the baseline.

    Each pair is one task: (metric of the contestant, metric of the baseline). The comparison pools,
    over all pairs, the units that both sides have and on which neither failed; the other units are
    counted as excluded.
    """
    mine, theirs = zip(*pairs, strict=True)
    matrix = get_units({"mine": mine, "theirs": theirs})
    scale = find_scale([value for side in (*mine, *theirs) for value in side.units.values()])
    paired = replace(matrix, value=matrix.value / scale).compare_arms("mine", "theirs")
    row = replace(row, baseline=baseline, excluded=len(matrix.units) - (paired.n if paired else 0))
    if paired is None:
        return row
    row = replace(
        row,
        delta=_drop_infinite(scale * paired.value),
        delta_low=_drop_infinite(scale * paired.low),
        delta_high=_drop_infinite(scale * paired.high),
        p=paired.p,
        test=paired.test,
        discordant=paired.better + paired.worse,
        better=paired.better,
        compared=paired.n,
        n_clusters=paired.clusters,
        detectable=paired.detectable,
    )
    value, against = mine[0].value, theirs[0].value
    if len(pairs) > 1 or row.excluded or value is None or against is None:
        return row
    # a metric that is not the mean of its units has no such interval
    delta = _drop_infinite(value - against)
    return replace(row, delta=delta, delta_low=None, delta_high=None, detectable=None)


def _drop_infinite(number: float) -> float | None:
    """Return the number, or None if it is too large for a float."""
    return number if isfinite(number) else None


def correct_p_values(rows: Rows) -> list[Row]:
    """Return the rows with corrected p-values of accuracy. The comparisons on single tasks are one
    family; those of the micro rows are another."""
    return correct(
        rows,
        lambda row: row.p if row.metric == "accuracy" else None,
        lambda row: row.task == "micro",
    )

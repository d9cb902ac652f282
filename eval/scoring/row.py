"""One row of the long table: the columns of report.csv, each described here; `measure` in `metrics`
fills them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.shares import Stratum, share_interval

SUMMED = {"summed": True}
"""Metadata of a column that is summed over tasks in the rows `macro` and `micro`."""


@dataclass(frozen=True)
class Row:
    """A row of the long table; shares lie in 0..1, and None (empty in the file) means "does not
    apply".

    Counts, tokens and cost are repeated in the row of every metric of an arm: to avoid double
    counting, sum them only over the rows of `accuracy`.
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
    n: int = field(default=0, metadata=SUMMED)  # units behind the value, see `unit`
    n_groups: int | None = field(
        default=None, metadata=SUMMED
    )  # groups of samples, or levels of a parameter
    right: int | None = field(default=None, metadata=SUMMED)  # this and the next three count draws
    wrong: int | None = field(default=None, metadata=SUMMED)
    unreadable: int | None = field(default=None, metadata=SUMMED)
    failed: int | None = field(default=None, metadata=SUMMED)
    delta: float | None = None  # mean paired difference to the baseline
    p: float | None = (
        None  # two-sided paired test against the baseline, see `test`, or the metric's own test
    )
    tokens_in: int | None = field(
        default=None, metadata=SUMMED
    )  # of all calls, cached replies included
    tokens_out: int | None = field(default=None, metadata=SUMMED)
    cost: float | None = field(
        default=None, metadata=SUMMED
    )  # list price of all calls, see eval/scoring/cost.py
    split: str = ""
    label_version: str = ""
    reader: str = ""  # who read the replies
    p_holm: float | None = (
        None  # p of accuracy after Holm's correction over the run's comparisons, or its micro ones
    )
    baseline: str = ""  # the contestant that delta and p compare with
    discordant: int | None = None  # units on which the two differ
    excluded: int | None = None  # units out of the test: failed or missing on either side
    missing: int = field(default=0, metadata=SUMMED)  # draws that have no record
    hidden: int = field(default=0, metadata=SUMMED)  # answers to samples without a key
    unit: str = "sample"  # what the metric is a mean over: sample, pair, image, group ...
    task_name: str = ""  # the task's name in the configuration; empty for means over tasks
    n_tasks: int = 1  # tasks behind a mean
    of_tasks: int = 1  # tasks of the run, of which a mean is over `n_tasks`
    delta_low: float | None = None  # 95 % interval of delta, by a bootstrap over clusters
    delta_high: float | None = None
    better: int | None = (
        None  # of the discordant ones, those on which it does better than the baseline
    )
    compared: int | None = None  # units that both have and neither failed
    n_clusters: int | None = (
        None  # clusters of the compared units: those of one group or picture are one
    )
    detectable: float | None = (
        None  # the smallest delta that the compared units show with 80 % power
    )
    p_bh: float | None = (
        None  # p of accuracy after Benjamini and Hochberg's correction over the same comparisons
    )
    test: str = ""  # by which test p was found
    people: float | None = (
        None  # what people reach there, as `published:` says of a row of `people`
    )
    failure: str = ""  # where every answer failed, so that there is no value: why most did
    clusters: int | None = (
        None  # clusters of the units behind the value: units of one group or picture are one
    )
    units: Stratum | None = field(
        default=None, repr=False, compare=False
    )  # these units; no column of the file


COLUMNS = tuple(column.name for column in fields(Row) if column.name != "units")
"""The columns of report.csv."""


def empty_row(run: RunScores, scores: PointScores, part: str = "") -> Row:
    """The row of an arm, or of one slice of it, without any metric."""
    point = scores.point
    facts: dict[str, Any] = {
        name: str(point.facts.get(name) or "") for name in ("split", "label_version")
    }
    return Row(
        run.name,
        point.id,
        scores.contestant,
        scores.task,
        part,
        metric="accuracy",
        value=None,
        task_name=point.task,
        reader=scores.reader,
        **facts,
    )


def published_names(row: Row) -> tuple[str, ...]:
    """The names that `published:` may have for this value: the task, or `task.metric`, or the
    metric of a total."""
    if row.metric == "accuracy":
        return (row.task_name or row.task,)
    return (f"{row.task_name}.{row.metric}", *(() if row.point else (row.metric,)))


def fill(row: Row, metric: Metric) -> Row:
    """The row of a metric: the mean of its units with `share_interval`, or the value that the
    metric sets itself."""
    n = len(metric.units)
    groups = (metric.groups or row.n_groups) if metric.unit == "sample" else n
    row = replace(
        row,
        metric=metric.name,
        n=n,
        unit=metric.unit,
        slice=metric.slice or row.slice,
        n_groups=groups,
    )
    row = replace(
        row, value=metric.value, low=None, high=None, p=metric.p, clusters=None, units=None
    )
    if not n:
        return row
    clusters = [*map(metric.clusters.get, metric.units)]
    if None in clusters:
        named = zip(metric.units, clusters, strict=True)
        clusters = [cluster or f"{row.task_name}: {unit}" for unit, cluster in named]
    units = Stratum(np.fromiter(metric.units.values(), float, n), clusters)
    if metric.value is not None:
        return replace(row, units=units)
    found = share_interval(*units[:2])
    return replace(
        row, value=found.value, low=found.low, high=found.high, clusters=found.clusters, units=units
    )

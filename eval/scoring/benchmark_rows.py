"""Computes rows of benchmark-specific metrics: for one arm, over a benchmark's subtasks, and from
judges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from looktwice.eval.scoring.benchmark import Metric, Scorer, Total
from looktwice.eval.scoring.comparison import compare
from looktwice.eval.scoring.measurements import MEASURED, TURNS
from looktwice.eval.scoring.row import METRICS, Row, fill, macro_row, micro_row
from looktwice.eval.scoring.verdict import PointScores, RunScores


def is_benchmark_metric(row: Row) -> bool:
    """Whether the metric of a row is specific to a benchmark; every task has the others."""
    return row.metric not in (*METRICS, "missing") and not row.metric.startswith((MEASURED, TURNS))


def benchmark_rows(
    scores: PointScores, plain: Row, baseline: PointScores | None = None
) -> list[Row]:
    """A row for each metric of the task's scorer and of a judge, compared with `baseline` on the
    metric's own units.

    Slices of slices are left out, because they would need one row for every pair of values; so are
    comparisons of slices.
    """
    others = (
        {metric.name: metric for metric in _metrics(baseline) if not metric.slice}
        if baseline
        else {}
    )
    rows = []
    for metric in _metrics(scores):
        if plain.slice and metric.slice:
            continue
        row, other = fill(plain, metric), others.get(metric.name)
        if baseline and other and metric.p is None and not metric.slice:
            row = compare(row, baseline.contestant, [(metric, other)])
        rows.append(row)
    return rows


def total_rows(arms: Sequence[PointScores], rows: Sequence[Row]) -> list[Row]:
    """The totals of every benchmark of which each subtask occurs exactly once, for one contestant
    or chance level."""
    suites: dict[str, dict[str, Mapping[str, Row]]] = defaultdict(dict)
    totals: dict[str, tuple[Total, ...]] = {}
    twice = set()
    for scores in arms:
        scorer: Scorer | None = scores.scorer
        if scorer is None or not scorer.suite:
            continue
        twice |= {scorer.suite} if scorer.part in suites[scorer.suite] else set()
        suites[scorer.suite][scorer.part] = {
            r.metric: r for r in rows if r.task == scores.task and not r.slice
        }
        totals[scorer.suite] = scorer.totals
    single = (suite for suite in suites if suite not in twice)
    return [row for suite in single for row in _totals(suite, suites[suite], totals[suite])]


def _totals(
    suite: str, parts: Mapping[str, Mapping[str, Row]], totals: Sequence[Total]
) -> Iterator[Row]:
    for total in totals:
        rows = [parts.get(part, {}).get(metric) for part, metric in total.parts.items()]
        usable = [row for row in rows if row is not None and row.value is not None and row.n]
        if len(usable) < len(total.parts):
            continue
        mean = (micro_row if total.pooled else macro_row)(usable)
        yield replace(
            mean, metric=total.metric, task=suite, task_name=suite, n_groups=None, unit=""
        )


def _metrics(scores: PointScores) -> list[Metric]:
    return [*own_metrics(scores), *_judge_metrics(scores)]


def own_metrics(scores: PointScores) -> list[Metric]:
    """The metrics of the task's scorer; one over samples that names no clusters has those of the
    samples."""
    scorer: Scorer | None = scores.scorer
    if scores.failure:
        return []
    metrics = scorer.metrics(scores) if scorer is not None else ()
    return [
        (
            metric
            if metric.clusters or metric.units.keys() - scores.samples.keys()
            else replace(metric, clusters=scores.clusters)
        )
        for metric in metrics
    ]


def headline_rows(runs: Sequence[RunScores], rows: Sequence[Row]) -> list[Row]:
    """The rows of the metrics and totals by which the benchmarks themselves are quoted, totals
    first."""
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in runs:
        for scores in run.points:
            if scores.scorer is not None:
                names[run.name, scores.task] |= {*scores.scorer.headlines}
                names[run.name, scores.scorer.suite] |= {*scores.scorer.headlines}
    own = [row for row in rows if row.metric in names[row.run, row.task] and row.value is not None]
    return sorted(own, key=lambda row: row.unit != "")  # a total is over units of several kinds


def _judge_metrics(scores: PointScores) -> list[Metric]:
    """`cot_score` and its criteria: means over the replies that a judge graded."""
    values: dict[str, dict[str, list[float]]] = {}
    for entry in scores.all:
        for name, value in entry.judged.items():
            values.setdefault(name, {}).setdefault(entry.sample, []).append(value)
    means = {
        name: {sample: fmean(draws) for sample, draws in by.items()} for name, by in values.items()
    }
    if not means:
        return []
    both = {
        sample: fmean(by[sample] for by in means.values()) for sample in next(iter(means.values()))
    }
    named = {"cot_score": both} | {f"cot_{name}": by for name, by in means.items()}
    return [Metric(name, by, "reply", clusters=scores.clusters) for name, by in named.items()]

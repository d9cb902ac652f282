"""Computes the rows of report.csv for a run: arms, means over tasks, benchmarks' own metrics,
slices, circular evaluation, majority and chance; and compares contestants with their baseline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import nan
from statistics import fmean
from typing import Any

from looktwice.eval.records.records import PointRow
from looktwice.eval.scoring.benchmark import Metric, Scorer, right_by_draw
from looktwice.eval.scoring.chance import (
    beside_people,
    is_benchmark_metric,
    majority_and_chance,
    published_people,
)
from looktwice.eval.scoring.labels import baselines
from looktwice.eval.scoring.measurements import (
    mean_interval,
    measured_metrics,
    measured_parts,
    turn_metrics,
)
from looktwice.eval.scoring.row import METRICS, Row, empty_row, fill, macro_row, measure, micro_row
from looktwice.eval.scoring.values import Values
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.paired import correct
from looktwice.pipelines.config.spec import public_path
from looktwice.pipelines.model import canonical
from looktwice.prompting.controls import PermuteChoices, PermuteLabels

Rivals = Mapping[str, PointScores | None]
"""Point id -> the arm that it is compared with."""


def run_rows(run: RunScores, by: Sequence[str] = ()) -> list[Row]:
    """For each contestant the rows of its tasks, their macro and micro, and slices by the fields in
    `by`: of meta, or measurements.

    Circular evaluation, turns, majority and chance follow at the end.
    """
    rivals = baselines(run)
    by_contestant: dict[str, list[PointScores]] = defaultdict(list)
    for scores in run.points:
        by_contestant[scores.contestant].append(scores)
    rows: list[Row] = []
    for arms in by_contestant.values():
        own = [row for arm in arms for row in _arm_rows(run, arm, rivals[arm.point.id])]
        rows += [*own, *_means(own, arms, rivals), *_total_rows(arms, own)]
        for arm in arms:
            for part, sliced in _slices(arm, by):
                plain = empty_row(run, arm, part)
                rows += [*measure(sliced, plain), *benchmark_rows(sliced, plain)]
    rows = correct_p_values(rows)
    rows += [
        *circular_rows(run),
        *(fill(empty_row(run, arm), metric) for arm, metric in turn_metrics(run)),
        *_level_rows(run, by),
    ]
    whole = len({scores.point.task for scores in run.points})
    rows = [replace(row, of_tasks=whole) if row.task in ("macro", "micro") else row for row in rows]
    return beside_people(rows, published_people(run))


def _arm_rows(run: RunScores, scores: PointScores, rival: PointScores | None) -> list[Row]:
    plain = empty_row(run, scores)
    rows = measure(scores, plain)
    if rival is not None:
        rows[0] = _compare(rows[0], [(scores, rival)])
    rows += benchmark_rows(scores, plain, rival)
    others = dict(measured_metrics(rival)) if rival else {}
    for name, metric in measured_metrics(scores):
        row = fill(plain, metric)
        if metric.value is not None:
            clusters = [scores.clusters[unit] for unit in metric.units]
            low, high = mean_interval([*metric.units.values()], clusters)
            row = replace(row, low=low, high=high, clusters=len(set(clusters)))
        if rival and name in others:
            row = compare(row, rival.contestant, [(metric, others[name])])
        rows.append(row)
    return rows


def _compare(row: Row, pairs: Sequence[tuple[PointScores, PointScores]]) -> Row:
    """A row of accuracy with the comparison on all tasks of the pairs."""
    names = dict.fromkeys(rival.contestant for _, rival in pairs)
    metrics = [(accuracy_to_compare(arm), accuracy_to_compare(rival)) for arm, rival in pairs]
    return compare(row, ", ".join(names), metrics)


def _means(rows: Sequence[Row], arms: Sequence[PointScores], rivals: Rivals) -> list[Row]:
    """The macro and micro rows of a contestant; micro accuracy has the paired test over all its
    tasks."""
    means: list[Row] = []
    for metric in METRICS:
        of_metric = [row for row in rows if row.metric == metric]
        means += [macro_row(of_metric), micro_row(of_metric)]
    pairs = [(arm, rival) for arm in arms if (rival := rivals[arm.point.id]) is not None]
    if len(pairs) == len(arms):
        means[1] = _compare(means[1], pairs)
        means[0] = replace(means[0], baseline=means[1].baseline)
    return means


def _slices(scores: PointScores, by: Sequence[str]) -> Iterator[tuple[str, PointScores]]:
    for names in by:
        fields = {name: measured_parts(scores, name) for name in names.split(",")}
        values: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for sample, row in scores.samples.items():
            parts = (
                f"{name}={row.meta.get(name, measured.get(sample, ''))}"
                for name, measured in fields.items()
            )
            values[tuple(parts)].add(sample)
        for part, samples in sorted(values.items()):
            yield ", ".join(part), scores.only(samples)


def _level_rows(run: RunScores, by: Sequence[str]) -> list[Row]:
    """The majority and chance rows of all tasks with their macro and micro, the totals of the
    benchmarks, then those of slices."""
    tasks = list({scores.point.task_id: scores for scores in run.points}.values())
    levels = [row for arm in tasks for row in majority_and_chance(arm, empty_row(run, arm))]
    own = [row for row in levels if is_benchmark_metric(row)]
    rows: list[Row] = []
    totals: list[Row] = []
    for name in dict.fromkeys(row.contestant for row in levels if row not in own):
        of_level = [row for row in levels if row.contestant == name]
        plain = [row for row in of_level if row not in own]
        rows += [*plain, macro_row(plain), micro_row(plain)]
        totals += _total_rows(tasks, of_level)
    rows += [*own, *totals]
    for scores in tasks:
        for part, sliced in _slices(scores, by):
            rows += majority_and_chance(sliced, empty_row(run, scores, part))
    return rows


# ---- the metrics of benchmarks


def own_metrics(scores: PointScores) -> list[Metric]:
    """The metrics of the task's scorer; one over samples that names no clusters has those of the
    samples."""
    scorer: Scorer | None = scores.scorer
    metrics: list[Metric] = []
    for metric in scorer.metrics(scores) if scorer and not scores.failure else ():
        if not metric.clusters and metric.units.keys() <= scores.samples.keys():
            metric = replace(metric, clusters=scores.clusters)
        metrics.append(metric)
    return metrics


def _judge_metrics(scores: PointScores) -> list[Metric]:
    """`cot_score` and its criteria: means over the replies that a judge graded."""
    criteria = dict.fromkeys(name for entry in scores.all for name in entry.judged)
    if not criteria:
        return []

    def of_criterion(name: str) -> dict[str, float]:
        return scores.means(lambda draw: draw.judged.get(name))

    means = {f"cot_{name}": of_criterion(name) for name in criteria}
    graded = next(iter(means.values()))
    both = {sample: fmean(by[sample] for by in means.values()) for sample in graded}
    return [
        Metric(name, by, "reply", clusters=scores.clusters)
        for name, by in ({"cot_score": both} | means).items()
    ]


def benchmark_rows(
    scores: PointScores, plain: Row, rival: PointScores | None = None
) -> Iterator[Row]:
    """A row for each metric of the task's scorer and of a judge, compared with the rival on the
    metric's own units.

    Slices of slices are left out, because they would need one row for every pair of values; so are
    comparisons of slices.
    """
    theirs = [*own_metrics(rival), *_judge_metrics(rival)] if rival else []
    others = {metric.name: metric for metric in theirs if not metric.slice}
    for metric in (*own_metrics(scores), *_judge_metrics(scores)):
        if plain.slice and metric.slice:
            continue
        row = fill(plain, metric)
        if rival and metric.name in others and metric.p is None and not metric.slice:
            row = compare(row, rival.contestant, [(metric, others[metric.name])])
        yield row


def _total_rows(arms: Sequence[PointScores], rows: Sequence[Row]) -> Iterator[Row]:
    """The totals of every benchmark of which each subtask occurs exactly once, for one contestant
    or chance level."""
    suites: dict[str, list[PointScores]] = defaultdict(list)
    for scores in arms:
        if scores.scorer is not None and scores.scorer.suite:
            suites[scores.scorer.suite].append(scores)
    for suite, members in suites.items():
        tasks = {scores.scorer.part: scores.task for scores in members}
        if len(tasks) < len(members):
            continue
        by_name = {(row.task, row.metric): row for row in rows if not row.slice}
        for total in members[-1].scorer.totals:
            parts = [by_name.get((tasks.get(p, ""), name)) for p, name in total.parts.items()]
            usable = [row for row in parts if row is not None and row.value is not None and row.n]
            if len(usable) == len(parts):
                mean = (micro_row if total.pooled else macro_row)(usable)
                names = {"metric": total.metric, "task": suite, "task_name": suite}
                yield replace(mean, **names, n_groups=None, unit="")


def headline_rows(runs: Sequence[RunScores], rows: Sequence[Row]) -> list[Row]:
    """The rows of the metrics and totals by which the benchmarks themselves are quoted, totals
    first."""
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in runs:
        for scores in run.points:
            if scores.scorer is not None:
                for task in (scores.task, scores.scorer.suite):
                    names[run.name, task] |= {*scores.scorer.headlines}
    own = [row for row in rows if row.metric in names[row.run, row.task] and row.value is not None]
    return sorted(own, key=lambda row: row.unit != "")  # a total is over units of several kinds


def circular_rows(run: RunScores) -> Iterator[Row]:
    """Circular evaluation: a row for each contestant with rotated choices; all rotations of a
    sample must be right.

    Points belong together if they differ only in the `by` of one rotating stage. Only samples of
    which every rotation was asked count.
    """
    families: dict[str, dict[int, PointScores]] = defaultdict(dict)
    for scores in run.points:
        point = scores.point
        if slot := _rotating_slot(point):
            node = point.spec["stages"][slot]
            stages = {**point.spec["stages"], slot: {**node, "by": None}}
            spec = {**point.spec, "stages": stages}
            family = canonical([point.contestant, point.task_id, point.seed, spec])
            families[family][node["by"]] = scores
    for rotations in families.values():
        first = rotations[min(rotations)]
        units: dict[str, float] = {}
        for name, sample in first.keyed.items():
            count = sample.n_choices
            if count and {by % count for by in rotations} == set(range(count)):
                draws = right_by_draw(scores.draws(name) for scores in rotations.values())
                units |= {name: fmean(map(all, draws))} if draws else {}
        if units and len(rotations) > 1:
            name = f"{first.point.contestant} [{len(rotations)} rotations]"
            plain = replace(empty_row(run, first), point="", contestant=name)
            row = fill(plain, Metric("circular_accuracy", units, clusters=first.clusters))
            yield replace(row, n_groups=len(rotations))


def _rotating_slot(point: PointRow) -> str:
    """The slot of the only stage that rotates the choices; empty if there is none or several."""
    rotate = public_path(PermuteChoices), public_path(PermuteLabels)
    stages: Mapping[str, Any] = point.spec.get("stages") or {}
    slots = [
        slot
        for slot, node in stages.items()
        if isinstance(node, Mapping)
        and node.get("use") in rotate
        and node.get("order") == "rotated"
    ]
    return slots[0] if len(slots) == 1 else ""


# ---- comparisons


def accuracy_to_compare(scores: PointScores) -> Metric:
    """Accuracy for a paired test: failed or missing samples are excluded and not counted as
    wrong."""
    values = scores.comparable
    units = {name: values.get(name, 0.0) for name in scores.keyed}
    failed = frozenset(units.keys() - values.keys())
    return Metric("accuracy", units, failed=failed, clusters=scores.clusters)


def compare(row: Row, baseline: str, pairs: Sequence[tuple[Metric, Metric]]) -> Row:
    """The row with the paired comparison of a metric with the baseline.

    Each pair is one task: (metric of the contestant, metric of the baseline). The comparison pools
    the units of all pairs that both sides have and neither side failed; the others are counted as
    excluded.
    """
    sides: tuple[dict[tuple[int, str], float], ...] = {}, {}
    clusters = {}
    for task, metrics in enumerate(pairs):
        for values, side in zip(sides, metrics, strict=True):
            for unit, worth in side.units.items():
                values[task, unit] = nan if unit in side.failed else worth
        for unit, cluster in metrics[0].clusters.items():
            clusters[task, unit] = cluster
    matrix = Values.of(dict(enumerate(sides)), clusters)
    paired = matrix.pair(0, 1)
    row = replace(row, baseline=baseline, excluded=len(matrix.units) - (paired.n if paired else 0))
    if paired is None:
        return row
    row = replace(
        row,
        delta=paired.value,
        delta_low=paired.low,
        delta_high=paired.high,
        p=paired.p,
        test=paired.test,
        discordant=paired.better + paired.worse,
        better=paired.better,
        compared=paired.n,
        n_clusters=paired.clusters,
        detectable=paired.detectable,
    )
    value, other = pairs[0][0].value, pairs[0][1].value
    if len(pairs) > 1 or row.excluded or value is None or other is None:
        return row
    # a metric that is not the mean of its units has no such interval
    return replace(row, delta=value - other, delta_low=None, delta_high=None, detectable=None)


def correct_p_values(rows: Sequence[Row]) -> list[Row]:
    """The rows with the corrections of accuracy: over all comparisons on single tasks, and over
    those of micro."""
    return correct(
        rows,
        lambda row: row.p if row.metric == "accuracy" else None,
        lambda row: row.task == "micro",
    )

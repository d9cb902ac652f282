"""Computes the rows of report.csv for a run: arms, means over tasks, slices, majority and
chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from looktwice.eval.scoring.benchmark_rows import benchmark_rows, total_rows
from looktwice.eval.scoring.chance import (
    beside_people,
    majority_and_chance,
    mean_levels,
    published_people,
)
from looktwice.eval.scoring.comparison import (
    COMPARED,
    accuracy_to_compare,
    compare,
    correct_p_values,
)
from looktwice.eval.scoring.groups import circular_rows
from looktwice.eval.scoring.labels import baselines
from looktwice.eval.scoring.measurements import measured_parts, measurement_rows
from looktwice.eval.scoring.row import METRICS, Row, empty_row, macro_row, measure, micro_row
from looktwice.eval.scoring.turns import turn_rows
from looktwice.eval.scoring.verdict import PointScores, RunScores


def run_rows(run: RunScores, by: Sequence[str] = ()) -> list[Row]:
    """For each contestant the rows of its tasks, their macro and micro, and slices by the fields in
    `by`: of meta, or measurements.

    Circular evaluation, majority and chance follow at the end.
    """
    points = run.by_id
    rivals = baselines(run)
    rows = {name: _point_rows(run, scores, rivals[name]) for name, scores in points.items()}
    by_contestant: dict[str, list[PointScores]] = defaultdict(list)
    for scores in run.points:
        by_contestant[scores.contestant].append(scores)
    out: list[Row] = []
    for arms in by_contestant.values():
        mine = [row for scores in arms for row in rows[scores.point.id]]
        out += [*mine, *_means(mine, arms, rivals), *total_rows(arms, mine)]
        out += [row for scores in arms for row in _slice_rows(run, scores, by)]
    tasks = list({scores.point.task_id: scores for scores in run.points}.values())
    levels = [
        row for scores in tasks for row in majority_and_chance(scores, empty_row(run, scores))
    ]
    sliced = [
        row
        for scores in tasks
        for part, part_scores in _slices(scores, by)
        for row in majority_and_chance(part_scores, empty_row(run, scores, part))
    ]
    found = (
        correct_p_values(out)
        + circular_rows(run)
        + list(turn_rows(run))
        + mean_levels(tasks, levels)
        + sliced
    )
    whole = len({scores.point.task for scores in run.points})
    found = [
        replace(row, of_tasks=whole) if row.task in ("macro", "micro") else row for row in found
    ]
    return beside_people(found, published_people(run))


def _point_rows(run: RunScores, scores: PointScores, baseline: PointScores | None) -> list[Row]:
    rows = measure(scores, empty_row(run, scores))
    if baseline is not None:
        pair = accuracy_to_compare(scores), accuracy_to_compare(baseline)
        rows[0] = compare(rows[0], baseline.contestant, [pair])
    plain = empty_row(run, scores)
    return [
        *rows,
        *benchmark_rows(scores, plain, baseline),
        *measurement_rows(scores, plain, baseline),
    ]


def _means(
    rows: Sequence[Row], arms: Sequence[PointScores], compared: Mapping[str, PointScores | None]
) -> list[Row]:
    """The macro and micro rows of a contestant; micro accuracy has the paired test over all its
    tasks."""
    out: list[Row] = []
    for metric in METRICS:
        metric_rows = [row for row in rows if row.metric == metric]
        out += [macro_row(metric_rows), micro_row(metric_rows)]
    rivals = [rival for scores in arms if (rival := compared[scores.point.id]) is not None]
    if len(rivals) == len(arms):
        if len(arms) == 1:  # the same units again
            out[1] = replace(out[1], **{name: getattr(rows[0], name) for name in COMPARED})
        else:
            pairs = [
                (accuracy_to_compare(s), accuracy_to_compare(r))
                for s, r in zip(arms, rivals, strict=True)
            ]
            out[1] = compare(
                out[1], ", ".join(dict.fromkeys(rival.contestant for rival in rivals)), pairs
            )
        out[0] = replace(out[0], baseline=out[1].baseline)
    return out


def _slice_rows(run: RunScores, scores: PointScores, by: Sequence[str]) -> Iterator[Row]:
    for part, sliced in _slices(scores, by):
        yield from measure(sliced, empty_row(run, scores, part))
        yield from benchmark_rows(sliced, empty_row(run, scores, part))


def _slices(scores: PointScores, by: Sequence[str]) -> Iterator[tuple[str, PointScores]]:
    for names in by:
        values: dict[tuple[str, ...], set[str]] = defaultdict(set)
        fields = [(name, measured_parts(scores, name)) for name in names.split(",")]
        for sample, row in scores.samples.items():
            parts = (str(row.meta.get(name, measured.get(sample, ""))) for name, measured in fields)
            values[
                tuple(f"{name}={part}" for (name, _), part in zip(fields, parts, strict=True))
            ].add(sample)
        yield from (
            (", ".join(parts), scores.only(samples)) for parts, samples in sorted(values.items())
        )

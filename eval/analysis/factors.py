"""Why two contestants' numbers differ: the effect of each factor between them alone, on the same
samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean

from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    change_cell,
    format_p,
    names,
    percent,
    table,
)
from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.labels import contestant_changes, setting_at
from looktwice.eval.scoring.run_rows import accuracy_to_compare, own_metrics
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.paired import compare_paired, mean_difference

INTERACTION, WHOLE = "interaction", "the whole gap"


@dataclass(frozen=True)
class FactorEffect:
    """One factor: on the `n` units that all arms have, it alone changes the metric from `before` to
    `after`.

    Behind the factors come `interaction`, the gap less the sum of their effects, and
    `the whole gap`. `value`, `low` and `high` lie in -1..1, beyond it for `interaction`. `of_gap`
    is the effect over the gap, where p of the gap is below 0.05, or the interval of a mean over
    tasks excludes zero.
    """

    task: str
    metric: str
    factor: str
    value: float
    low: float
    high: float
    n: int
    p: float | None = None
    before: float | None = None
    after: float | None = None
    of_gap: float | None = None


def factor_effects(run: RunScores) -> list[FactorEffect]:
    """The effects in a run whose configuration says `gap: {from: ..., to: ...}`; none where it does
    not.

    For every task and each of its metrics that is a mean over units, then over all tasks: `macro`
    is the mean of the tasks' effects, `micro` is of all their units as one set.
    """
    gap = run.config.get("gap")
    if not isinstance(gap, dict):
        return []
    by_task = defaultdict[str, list[PointScores]](list)
    for scores in run.points:
        by_task[scores.point.task_id].append(scores)
    lines, accuracies = list[FactorEffect](), list[Mapping[str, Metric]]()
    for points in by_task.values():
        if arms := _arms(points, gap):
            metrics = _values_by_metric(arms)
            accuracies.append(metrics["accuracy"])
            for metric, table in metrics.items():
                lines += _effects(arms["from"].task, metric, table)
    return lines + (_over_tasks(accuracies) if len(accuracies) > 1 else [])


FACTORS: tuple[Column[FactorEffect], ...] = (
    *names("task", "metric", "factor"),
    Column("from", "before", percent),
    Column("with", "after", percent),
    Column("effect", lambda line: line, change_cell),
    Column("p", "p", format_p),
    Column("of gap", lambda line: None if line.of_gap is None else f"{100 * line.of_gap:.0f} %"),
    Column("n", "n"),
)


def factor_table(scored: Table) -> TextTable:
    """What each factor changes in percentage points, with its paired interval and test, where a run
    asks."""
    return table(FACTORS, [line for run in scored.scores for line in factor_effects(run)])


def _arms(points: Sequence[PointScores], gap: Mapping[str, str]) -> dict[str, PointScores]:
    """The arms of one task, "from" and "to" first, then those with one factor of the second by the
    factor's name.

    Empty where one of the two ends was not asked.
    """
    plain = {
        scores.point.contestant: scores for scores in points if not contestant_changes(scores.point)
    }
    start, end = plain.get(gap["from"]), plain.get(gap["to"])
    if start is None or end is None:
        return {}
    arms = {"from": start, "to": end}
    for scores in points:
        changes = contestant_changes(scores.point)
        if scores.point.contestant == gap["from"] and len(changes) == 1:
            ((place, value),) = changes.items()
            if _setting(scores, place) == _setting(end, place) != _setting(start, place):
                arms[f"{place.removeprefix('stages.')}: {'none' if value is None else value}"] = (
                    scores
                )
    return arms


def _setting(scores: PointScores, place: str) -> object:
    """What a point was built with at a dotted place; None where it has nothing there."""
    return scores.point.read if place == "read" else setting_at(scores.point.spec, place.split("."))


def _values_by_metric(arms: Mapping[str, PointScores]) -> dict[str, dict[str, Metric]]:
    """Accuracy and the benchmark's own metrics that are means, of every arm; only metrics that
    every arm has."""
    tables = defaultdict[str, dict[str, Metric]](dict)
    for name, scores in arms.items():
        for metric in (accuracy_to_compare(scores), *own_metrics(scores)):
            if metric.value is None and metric.p is None and not metric.slice:
                tables[metric.name][name] = metric
    return {metric: table for metric, table in tables.items() if len(table) == len(arms)}


def _effects(task: str, metric: str, table: Mapping[str, Metric]) -> list[FactorEffect]:
    """An effect per factor, the interaction, and the gap; none where no unit has every arm."""
    units = sorted(set.intersection(*(arm.units.keys() - arm.failed for arm in table.values())))
    if not units:
        return []
    clusters = [table["from"].clusters.get(unit, unit) for unit in units]
    rows = {name: [arm.units[unit] for unit in units] for name, arm in table.items()}
    start, end = rows.pop("from"), rows.pop("to")

    def effect(factor: str, values: Sequence[float]) -> FactorEffect:
        paired = compare_paired(values, start, clusters)
        return FactorEffect(
            task,
            metric,
            factor,
            paired.value,
            paired.low,
            paired.high,
            paired.n,
            paired.p,
            fmean(start),
            fmean(values),
        )

    lines = [effect(factor, values) for factor, values in rows.items()]
    if rows:
        moved = [sum(values[i] - start[i] for values in rows.values()) for i in range(len(units))]
        left = mean_difference([end[i] - start[i] - moved[i] for i in range(len(units))], clusters)
        lines.append(
            FactorEffect(task, metric, INTERACTION, left.value, left.low, left.high, left.n)
        )
    return _with_share_of_gap([*lines, effect(WHOLE, end)])


def _with_share_of_gap(lines: Sequence[FactorEffect]) -> list[FactorEffect]:
    """The effects with their share of the gap, the last of them, where p or, of a mean, the
    interval shows a gap."""
    whole = lines[-1]
    is_shown = whole.p < 0.05 if whole.p is not None else whole.low > 0 or whole.high < 0
    return [replace(line, of_gap=line.value / whole.value) if is_shown else line for line in lines]


def _over_tasks(tables: Sequence[Mapping[str, Metric]]) -> list[FactorEffect]:
    """The mean of the tasks' effects, and the effects over all samples together; of factors that
    every task has."""
    names = [name for name in tables[0] if all(name in table for table in tables)]
    shared = [{name: table[name] for name in names} for table in tables]
    by_task = [lines for table in shared if (lines := _effects("", "accuracy", table))]
    macro = [_mean(lines) for lines in zip(*by_task, strict=True)]
    pooled = {name: _pool([table[name] for table in shared]) for name in names}
    return (_with_share_of_gap(macro) if macro else []) + _effects("micro", "accuracy", pooled)


def _pool(metrics: Sequence[Metric]) -> Metric:
    """Accuracy on the samples of all tasks, each with the task's number before its name."""
    units, clusters, failed = dict[str, float](), dict[str, str](), set[str]()
    for number, metric in enumerate(metrics):
        units |= {f"{number} {unit}": value for unit, value in metric.units.items()}
        clusters |= {f"{number} {unit}": cluster for unit, cluster in metric.clusters.items()}
        failed |= {f"{number} {unit}" for unit in metric.failed}
    return Metric("accuracy", units, failed=frozenset(failed), clusters=clusters)


def _mean(lines: Sequence[FactorEffect]) -> FactorEffect:
    """One line over tasks; the limits of the tasks are combined (MOVER, Zou and Donner 2008)."""
    value = fmean(line.value for line in lines)
    below = sqrt(sum((line.value - line.low) ** 2 for line in lines)) / len(lines)
    above = sqrt(sum((line.high - line.value) ** 2 for line in lines)) / len(lines)
    before = [line.before for line in lines if line.before is not None]
    after = [line.after for line in lines if line.after is not None]
    return FactorEffect(
        "macro",
        lines[0].metric,
        lines[0].factor,
        value,
        value - below,
        value + above,
        sum(line.n for line in lines),
        before=fmean(before) if before else None,
        after=fmean(after) if after else None,
    )

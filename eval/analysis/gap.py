"""Why the numbers of two contestants differ: what each factor between them does alone, and what
remains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from statistics import fmean

import numpy as np

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
from looktwice.eval.scoring.labels import contestant_changes, setting_at
from looktwice.eval.scoring.row import accuracy_to_compare, units_of
from looktwice.eval.scoring.run_rows import own_metrics
from looktwice.eval.scoring.verdict import Metric, PointScores, RunScores
from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import compare_paired, mean_difference

INTERACTION, WHOLE = "interaction", "the whole gap"


@dataclass(frozen=True)
class FactorEffect:
    """One factor: on the units that all arms have, it alone changes the metric from `before` to
    `after`.

    Behind the factors come `interaction`, the gap less the sum of their effects, and the whole gap.
    The effect lies in -1..1, beyond it for `interaction`; its p is NaN where nothing is tested.
    `of_gap` is its share, where p of the gap, or of a mean over tasks its interval, shows a gap.
    """

    task: str
    metric: str
    factor: str
    effect: Estimate
    before: float | None = None
    after: float | None = None
    of_gap: float | None = None

    @property
    def p(self) -> float | None:
        """The p of the effect, where it was tested."""
        return None if isnan(self.effect.p) else self.effect.p


def factor_effects(run: RunScores) -> list[FactorEffect]:
    """The effects in a run whose configuration says `gap: {from: ..., to: ...}`; none where it does
    not.

    For every task and each of its metrics that is a mean over units, then over all tasks: `macro`
    is the mean of the tasks' effects, `micro` is of all their units as one set; both of factors
    that every task has.
    """
    gap = run.config.get("gap")
    if not isinstance(gap, dict):
        return []
    by_task = defaultdict[str, list[PointScores]](list)
    for scores in run.points:
        by_task[scores.point.task_id].append(scores)
    lines, accuracies = list[FactorEffect](), list[Mapping[str, Metric]]()
    for points in by_task.values():
        if arms := _ends_and_factors(points, gap):
            metrics = _shared_metrics(arms)
            accuracies.append(metrics["accuracy"])
            for name, by_arm in metrics.items():
                lines += _factors(arms["from"].task, name, [by_arm])
    if len(accuracies) < 2:
        return lines
    every = [name for name in accuracies[0] if all(name in by_arm for by_arm in accuracies)]
    shared = [{name: by_arm[name] for name in every} for by_arm in accuracies]
    tasks = [effects for by_arm in shared if (effects := _factors("", "accuracy", [by_arm]))]
    macro = [_mean(same) for same in zip(*tasks, strict=True)]
    return lines + _with_share_of_gap(macro) + _factors("micro", "accuracy", shared)


FACTORS: tuple[Column[FactorEffect], ...] = (
    *names("task", "metric", "factor"),
    Column("from", "before", percent),
    Column("with", "after", percent),
    Column("effect", "effect", change_cell),
    Column("p", "p", format_p),
    Column("of gap", lambda line: None if line.of_gap is None else f"{100 * line.of_gap:.0f} %"),
    Column("n", "effect.n"),
)


def factor_table(scored: Table) -> TextTable:
    """What each factor changes in percentage points, with its paired interval and test, where a run
    asks."""
    return table(FACTORS, [line for run in scored.scores for line in factor_effects(run)])


def _ends_and_factors(
    points: Sequence[PointScores], gap: Mapping[str, str]
) -> dict[str, PointScores]:
    """The arms of one task, "from" and "to" first, then those with one factor of the second by the
    factor's name.

    Empty where an end was not asked.
    """
    plain = {arm.point.contestant: arm for arm in points if not contestant_changes(arm.point)}
    if not {gap["from"], gap["to"]} <= plain.keys():
        return {}
    arms = {"from": plain[gap["from"]], "to": plain[gap["to"]]}
    for arm in points:
        changes = [*contestant_changes(arm.point).items()]
        if arm.point.contestant == gap["from"] and len(changes) == 1:
            place, value = changes[0]
            start, end = (_setting(arms[side], place) for side in ("from", "to"))
            if _setting(arm, place) == end != start:
                name = f"{place.removeprefix('stages.')}: {'none' if value is None else value}"
                arms[name] = arm
    return arms


def _setting(scores: PointScores, place: str) -> object:
    """What a point was built with at a dotted place; None where it has nothing there."""
    return scores.point.read if place == "read" else setting_at(scores.point.spec, place.split("."))


def _shared_metrics(arms: Mapping[str, PointScores]) -> dict[str, dict[str, Metric]]:
    """Accuracy and the benchmark's own metrics that are means, by arm; only metrics that every arm
    has."""
    by_name = defaultdict[str, dict[str, Metric]](dict)
    for name, scores in arms.items():
        for metric in (accuracy_to_compare(scores), *own_metrics(scores)):
            if metric.value is None and metric.p is None and not metric.slice:
                by_name[metric.name][name] = metric
    return {name: by_arm for name, by_arm in by_name.items() if len(by_arm) == len(arms)}


def _factors(task: str, metric: str, tasks: Sequence[Mapping[str, Metric]]) -> list[FactorEffect]:
    """An effect per factor, the interaction, and the gap, on the units of some tasks; none where no
    unit has every arm."""
    values = units_of({name: [by_arm[name] for by_arm in tasks] for name in tasks[0]})
    values = values.where(values.has())
    if not values.units:
        return []
    start, end = values["from"], values["to"]

    def effect(factor: str, arm: str) -> FactorEffect:
        paired = compare_paired(values[arm], start, values.clusters)
        return FactorEffect(task, metric, factor, paired, fmean(start), fmean(values[arm]))

    lines = [*map(effect, values.arms[2:], values.arms[2:])]
    if lines:
        left = end - start - (values.value[2:] - start).sum(axis=0)
        rest = mean_difference(left.round(12) + 0.0, values.clusters)
        lines.append(FactorEffect(task, metric, INTERACTION, replace(rest, p=nan)))
    return _with_share_of_gap([*lines, effect(WHOLE, "to")])


def _with_share_of_gap(lines: Sequence[FactorEffect]) -> list[FactorEffect]:
    """The effects with their share of the gap, the last of them, where p or, of a mean, the
    interval shows a gap."""
    if not lines:
        return []
    whole, p = lines[-1].effect, lines[-1].p
    if not (p < 0.05 if p is not None else whole.low > 0 or whole.high < 0):
        return [*lines]
    return [replace(line, of_gap=line.effect.value / whole.value) for line in lines]


def _mean(lines: Sequence[FactorEffect]) -> FactorEffect:
    """One line over tasks; the limits of the tasks are combined (MOVER, Zou and Donner 2008)."""
    first, rows = lines[0], []
    for line in lines:
        effect = line.effect
        rows.append((effect.value, effect.low, effect.high, effect.n, line.before, line.after))
    value, low, high, n, before, after = np.array(rows, float).T
    mean, units = fmean(value), int(n.sum())
    below, above = (float(np.linalg.norm(end - value)) / len(rows) for end in (low, high))
    ends = (None, None) if first.before is None else (fmean(before), fmean(after))
    whole = Estimate(mean, mean - below, mean + above, units, units)
    return FactorEffect("macro", first.metric, first.factor, whole, *ends)

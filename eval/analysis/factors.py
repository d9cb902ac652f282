"""What each factor does: of a sweep, of each two together, of each single change, and between two
contestants whose numbers differ; paired effects over all else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from math import isnan, nan
from operator import eq
from statistics import fmean
from typing import Any

import numpy as np

from looktwice.eval.display.printable import csv_text
from looktwice.eval.display.table import Table, once
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
from looktwice.eval.statistics.intervals import Clusters, Estimate, Floats
from looktwice.eval.statistics.paired import (
    Cell,
    Values,
    compare_paired,
    contrast,
    correct,
    mean_difference,
)
from looktwice.pipelines.config.expand import flat_changes
from looktwice.pipelines.model import canonical

ALL_TASKS = "all tasks"
UNCHANGED = "unchanged"
AS_IT_IS = "as it is"
BESIDE = " x "  # between two factors
INTERACTION, WHOLE = "interaction", "the whole gap"
MEAN = (
    "in percentage points with its 95 % interval, over the samples that none of these arms failed"
    " or lacks"
)
SWEEP_NOTE = (
    "sweep: the effect of a level is its mean difference to the factor's first level (`against`),"
    f" {MEAN}, and over the combinations of the other factors that were asked with both. That of"
    " two factors (`a x b`) is their interaction: what both changes together do beyond the sum of"
    " what each does alone. p is corrected by Holm and by Benjamini and Hochberg over these lines"
    " on single tasks, and over those on all tasks."
)
EACH_NOTE = (
    f"each: the effect of a change is its mean difference to the same contestant {UNCHANGED},"
    f" {MEAN}"
)
BOTH = ", and over the combinations of the sweep that were asked with and without it"
EFFECT_COLUMNS = (
    *("run", "contestant", "task", "factor", "level", "against", "effect", "low", "high"),
    *("p", "n", "p_holm", "p_bh", "clusters"),
)

Changes = Mapping[str, Any]
Sweep = Mapping[str, Sequence[Any]]
Cells = Sequence[Cell | None]
"""The level of every factor by arm; None for an arm that the sweep did not make."""
Weigh = Callable[[Cells, Sequence[Changes]], Mapping[tuple[str, str], Floats]]
"""By (level, against) the weight of each arm in the parts of an effect, (parts, arms)."""


@dataclass(frozen=True)
class LevelEffect:
    """What one level of a swept setting changes against its first, for one contestant, on a task or
    on all of them.

    Of a change of `each`, what it changes against the arm without it, "unchanged". An interaction
    is the sum of two `parts`: minus what the first level does where the second factor is as in
    `against`, and what it does where that is at its level.
    """

    contestant: str
    task: str
    factor: str
    level: str
    against: str
    effect: Estimate
    parts: tuple[float, ...] = ()
    p_holm: float | None = None
    p_bh: float | None = None


@once
def sweep_effects(run: RunScores) -> list[LevelEffect]:
    """The effects of every change of `each`, and of every level of a sweep that has several factors
    or stands with it.

    A sample's difference is its mean over the combinations of the other factors that were asked
    with both levels; a sample counts if none of these failed or is missing.
    """
    sweep, each = run.config.get("sweep") or {}, run.config.get("each") or ()
    swept = [*enumerate(sweep)] if len(sweep) > 1 or each else []
    factors = list[tuple[str, Weigh]]()
    for chosen in (*combinations(swept, 1), *combinations(swept, 2)):
        numbers, places = zip(*chosen, strict=True)
        factors.append((_join_places(BESIDE, places), partial(_weigh_levels, numbers)))
    for change in map(flat_changes, each):
        factors.append((_join_places(" + ", change), partial(_weigh_change, change)))
    arms = defaultdict[str, dict[tuple[str, str], PointScores]](dict)
    for scores in run.points if factors else ():
        setting = scores.point.task, canonical(scores.point.changes)
        arms[scores.point.contestant].setdefault(setting, scores)
    lines = [e for who, own in arms.items() for e in _effects(who, [*own.values()], sweep, factors)]
    return correct(lines, lambda line: line.effect.p, lambda line: line.task == ALL_TASKS)


def _join_places(separator: str, places: Iterable[str]) -> str:
    return separator.join(place.removeprefix("stages.") for place in places)


def _effects(
    who: str, arms: Sequence[PointScores], sweep: Sweep, factors: Sequence[tuple[str, Weigh]]
) -> Iterator[LevelEffect]:
    """Factor by factor: the tasks that have it, then all of them as one set of samples."""
    tasks, clusters = defaultdict[str, list[int]](list), dict[tuple[str, str], str]()
    values: dict[int, dict[tuple[str, str], float]] = {}
    for number, arm in enumerate(arms):
        task = arm.point.task
        tasks[task].append(number)
        clusters |= {(task, sample): cluster for sample, cluster in arm.clusters.items()}
        values[number] = {(task, sample): value for sample, value in arm.comparable.items()}
    matrix = Values.of(values, clusters)
    cells = [_cell(sweep, arm.point.changes) for arm in arms]
    for factor, weigh in factors:
        gaps = defaultdict[tuple[str, str], list[tuple[Floats, Clusters]]](list)
        for task, numbers in tasks.items():
            changes = [arms[number].point.changes for number in numbers]
            for levels, weights in weigh([cells[n] for n in numbers], changes).items():
                used = weights.any(axis=0)
                rows = np.array(numbers)[used]
                shared = matrix.where(matrix.has(*rows)) if len(rows) else None
                if shared and shared.units:
                    moved = shared.value[rows].T @ weights[:, used].T
                    gaps[levels].append((moved, shared.clusters))
                    yield LevelEffect(who, task, factor, *levels, *_mean_parts(gaps[levels][-1:]))
        for levels, measured in gaps.items():
            if len(measured) > 1:
                yield LevelEffect(who, ALL_TASKS, factor, *levels, *_mean_parts(measured))


def _mean_parts(tasks: Sequence[tuple[Floats, Clusters]]) -> tuple[Estimate, tuple[float, ...]]:
    """The effect over some tasks, (samples, parts) with their clusters each, and its parts."""
    parts, clusters = map(np.concatenate, zip(*tasks, strict=True))
    effect = mean_difference(parts.sum(axis=1).round(12) + 0.0, clusters)
    return effect, tuple(parts.mean(axis=0).tolist())


def _weigh_levels(
    numbers: Sequence[int], cells: Cells, changes: Sequence[Changes]
) -> dict[tuple[str, str], Floats]:
    """Each level of a factor against its first one; of two factors their interaction. The mean is
    over the other factors."""
    asked = []
    for number in numbers:
        asked.append([*dict.fromkeys(cell[number] for cell in cells if cell)] or [""])
    against, weights = next(product(*asked)), {}
    for levels in product(*asked):
        if not any(map(eq, levels, against)):
            names = BESIDE.join(levels), BESIDE.join(against)
            whole = contrast(cells, {n: (levels[i], against[i]) for i, n in enumerate(numbers)})
            last = [cell is not None and cell[numbers[-1]] == levels[-1] for cell in cells]
            weights[names] = np.stack([whole * np.logical_not(last), whole * last])
    return weights


def _weigh_change(
    change: Changes, cells: Cells, changes: Sequence[Changes]
) -> dict[tuple[str, str], Floats]:
    """A change of `each` against the same arm without it, averaged over the sweep.

    A contestant without some of the stages that it changes has an arm with the rest of the change.
    """
    made = [[p for p in change if p in arm and arm[p] == change[p]] for arm in changes]
    most, pairs, weights = max(map(len, made), default=0), 0, np.zeros(len(changes))
    for number, places in enumerate(made):
        if most == 0 or len(places) < most or cells[number] is not None:
            continue
        rest = _without(changes[number], places)
        for other, before in enumerate(changes):
            if cells[other] is not None and _without(before, places) == rest:
                weights[[number, other]] += 1, -1
                pairs += 1
    level = " + ".join(map(partial(_level, ""), change.values()))
    return {(level, UNCHANGED): weights[None] / max(1, pairs)}


def _cell(sweep: Sweep, changes: Changes) -> Cell | None:
    """The level of every factor of the arm with these changes; None if the sweep did not make
    it."""
    levels: dict[str, list[str]] = {factor: [] for factor in sweep}
    for place, value in changes.items():
        owners = [*filter(partial(is_within, place), sweep)]
        if not owners:
            return None
        factor = max(owners, key=len)
        levels[factor].append(_level(place[len(factor) + 1 :], value))
    cell = tuple(", ".join(parts) or AS_IT_IS for parts in levels.values())
    for level, (factor, values) in zip(cell, sweep.items(), strict=True):
        names = [AS_IT_IS]
        for value in values:
            parts = flat_changes({factor: value}).items()
            names.append(", ".join(_level(place[len(factor) + 1 :], part) for place, part in parts))
        if level not in names:
            return None
    return cell


def _level(name: str, value: Any) -> str:
    shown = "none" if value is None else str(value)
    return f"{name}={shown}" if name else shown


def is_within(place: str, outer: str) -> bool:
    """Whether a dotted place is another one or lies below it."""
    return f"{place}.".startswith(f"{outer}.")


def _without(changes: Changes, places: Sequence[str]) -> dict[str, Any]:
    """The changes that are not at or below these places."""
    return {k: v for k, v in changes.items() if not any(is_within(k, place) for place in places)}


EFFECTS: tuple[Column[LevelEffect], ...] = (
    *names("contestant", "task", "factor", "level", "against"),
    Column("effect", "effect", change_cell),
    Column("p", "effect.p", format_p),
    Column("p\n(Holm)", "p_holm", format_p),
    Column("p\n(BH)", "p_bh", format_p),
    Column("n", "effect.n"),
)


def sweep_table(scored: Table, whole: bool = True) -> TextTable:
    """A line per contestant, task, factor and level, and of each two factors together.

    Without `whole`: without interactions, and of several tasks only what is over all.
    """
    lines = [line for run in scored.scores for line in sweep_effects(run)]
    if whole:
        return table(EFFECTS, lines)
    pooled = {(e.contestant, e.factor, e.level) for e in lines if e.task == ALL_TASKS}
    short = []
    for line in lines:
        is_part = (line.contestant, line.factor, line.level) in pooled and line.task != ALL_TASKS
        short += [] if is_part or BESIDE in line.factor else [line]
    return table(EFFECTS, short).without("p\n(BH)").without_empty()


def effect_note(scored: Table) -> str:
    """What a reader of the effects must know of those of `sweep:` and of `each:`; of what the table
    has alone."""
    notes = list[str]()
    for run in scored.scores:
        kinds = {line.against == UNCHANGED for line in sweep_effects(run)}
        notes += [SWEEP_NOTE] if False in kinds else []
        notes += [f"{EACH_NOTE}{BOTH if False in kinds else ''}."] if True in kinds else []
    return "\n".join(dict.fromkeys(notes))


def effects_csv(scored: Table) -> str:
    """The effects as shares in -1..1, a header and a line each."""
    rows: list[Sequence[object]] = [EFFECT_COLUMNS]
    for run in scored.scores:
        for line in sweep_effects(run):
            cells = {"run": run.name, **vars(line.effect), **vars(line)}
            cells["effect"] = line.effect.value
            values = [cells[name] for name in EFFECT_COLUMNS]
            rows.append([f"{v:.6g}" if isinstance(v, float) else v for v in values])
    return csv_text(rows)


# ---- the gap between two contestants


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
            metrics = _metrics(arms)
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


def _metrics(arms: Mapping[str, PointScores]) -> dict[str, dict[str, Metric]]:
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

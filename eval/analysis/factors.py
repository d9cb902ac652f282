"""The effect of each factor of a sweep, of each pair of factors, and of each single change: paired
effects averaged over everything else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from operator import eq
from typing import Any

import numpy as np

from looktwice.eval.analysis.analyses import Analysis
from looktwice.eval.analysis.shared_samples import Question
from looktwice.eval.display.printable import format_csv
from looktwice.eval.display.table import Table, cache_measure
from looktwice.eval.display.text_tables import (
    CORRECTED_COLUMNS,
    Column,
    Columns,
    TextTable,
    attribute_columns,
    change_cell,
    format_p,
    table,
)
from looktwice.eval.scoring.labels import ALL_TASKS
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.contrasts import Cell, contrast, mean_difference
from looktwice.eval.statistics.intervals import Clusters, Estimate, Floats, Z
from looktwice.eval.statistics.paired import ALPHA, ValueMatrix, chi_squared_tail, correct
from looktwice.pipelines.config.classes import flatten_changes, is_within
from looktwice.pipelines.json_input import write_canonical

UNCHANGED = "unchanged"
UNCHANGED_LEVEL_NAME = "as it is"
FACTOR_SEPARATOR = " x "  # separates two factors
MEAN_NOTE = (
    "in percentage points with its 95 % interval, over the samples that all of these arms answered"
    " without failure"
)
SWEEP_NOTE = (
    "sweep: the effect of a level is its mean difference from the factor's first level (`against`),"
    f" {MEAN_NOTE}, and over the combinations of the other factors that were run with both. The"
    " effect"
    " of two factors (`a x b`) is their interaction: the effect of both changes together beyond the"
    " sum of their single effects. p is corrected by Holm and by Benjamini and Hochberg over these"
    " lines on single tasks, and separately over those on all tasks. If two factors interact"
    " significantly (5 %, after Holm's correction), the effect of each is given for every level of"
    " the other (`where`)."
)
EACH_NOTE = (
    f"each: the effect of a change is its mean difference from the same contestant {UNCHANGED},"
    f" {MEAN_NOTE}"
)
COMBINATIONS_NOTE = ", and over the combinations of the sweep that were run with and without it"
EFFECT_COLUMNS = (
    *("run", "contestant", "task", "factor", "level", "against", "effect", "low", "high"),
    *("p", "n", "p_holm", "p_bh", "clusters"),
)

Changes = Mapping[str, Any]
Levels = tuple[str, str]
"""A level and its reference level."""
Sweep = Mapping[str, Sequence[Any]]
Cells = Sequence[Cell | None]
"""The levels of all factors of each arm; None for an arm outside the sweep."""
WeightFunction = Callable[[Cells, Sequence[Changes]], Mapping[Levels, Floats]]
"""A function that returns, by (level, against), the weights of the arms in each part of an effect:
an array (parts, arms)."""


@dataclass(frozen=True)
class LevelEffect:
    """The effect of one level of a swept setting compared with its first level, for one contestant,
    on a task or on all of them.

    A change of `each` is compared with the arm without it, "unchanged". An interaction whose own p
    is below 5 % has four `parts`: the effect of the first factor's level with the second factor at
    `against` and at its level, and the effect of the second factor's level with the first factor
    likewise. In a line for such a part, `where` is the level of the other factor.
    """

    contestant: str
    task: str
    factor: str
    level: str
    against: str
    effect: Estimate
    parts: tuple[Estimate, ...] = ()
    p_holm: float | None = None
    p_bh: float | None = None
    where: str = ""

    @property
    def is_significant(self) -> bool:
        """True if the effect is significant at 5 % after Holm's correction."""
        return self.p_holm is not None and self.p_holm < ALPHA


@cache_measure
def find_sweep_effects(run: RunScores) -> list[LevelEffect]:
    """Return the effects of every change of `each`, and of every level of a sweep that has several
    factors or is combined with `each`.

    A sample's difference is its mean over the combinations of the other factors that were asked
    with both levels; a sample counts if none of these failed or is missing.
    """
    sweep, singles = run.config.get("sweep") or {}, run.config.get("each") or ()
    swept = [*enumerate(sweep)] if len(sweep) > 1 or singles else []
    factors = list[tuple[str, WeightFunction]]()
    for chosen in (*combinations(swept, 1), *combinations(swept, 2)):
        numbers, places = zip(*chosen, strict=True)
        factors.append((_join_places(FACTOR_SEPARATOR, places), partial(_weigh_levels, numbers)))
    for change in map(flatten_changes, singles):
        factors.append((_join_places(" + ", change), partial(_weigh_change, change)))
    arms = defaultdict[str, dict[tuple[str, str], PointScores]](dict)
    for scores in run.points if factors else ():
        setting = scores.point.task, write_canonical(scores.point.changes)
        arms[scores.point.contestant].setdefault(setting, scores)
    lines = [
        e for who, own in arms.items() for e in _find_effects(who, [*own.values()], sweep, factors)
    ]
    return correct(lines, lambda line: line.effect.p, lambda line: line.task == ALL_TASKS)


def _join_places(separator: str, places: Iterable[str]) -> str:
    return separator.join(place.removeprefix("stages.") for place in places)


def _find_effects(
    who: str,
    arms: Sequence[PointScores],
    sweep: Sweep,
    factors: Sequence[tuple[str, WeightFunction]],
) -> Iterator[LevelEffect]:
    """Yield the effects factor by factor: on each task that has the factor, then on all of these
    tasks pooled."""
    tasks, clusters = defaultdict[str, list[int]](list), dict[Question, str]()
    values = dict[int, dict[Question, float]]()
    for number, arm in enumerate(arms):
        task = arm.point.task
        tasks[task].append(number)
        clusters |= {(task, sample): cluster for sample, cluster in arm.clusters.items()}
        values[number] = {(task, sample): value for sample, value in arm.comparable_values.items()}
    matrix = ValueMatrix.of(values, clusters)
    cells = [_get_cell(sweep, arm.point.changes) for arm in arms]
    for factor, weigh in factors:
        differences = defaultdict[Levels, list[tuple[Floats, Clusters]]](list)
        for task, numbers in tasks.items():
            changes = [arms[number].point.changes for number in numbers]
            for levels, weights in weigh([cells[n] for n in numbers], changes).items():
                used = weights.any(axis=0)
                rows = np.array(numbers)[used]
                shared = matrix.where(matrix.valid_mask(*rows)) if len(rows) else None
                if shared and shared.units:
                    moved = shared.value[rows].T @ weights[:, used].T
                    differences[levels].append((moved, shared.clusters))
                    yield LevelEffect(
                        who, task, factor, *levels, *_measure_effect(differences[levels][-1:])
                    )
        for levels, measured in differences.items():
            if len(measured) > 1:
                yield LevelEffect(who, ALL_TASKS, factor, *levels, *_measure_effect(measured))


CORNER_SIGNS = (-1, 0, -1, 0), (0, 1, 0, 1), (-1, -1, 0, 0), (0, 0, 1, 1)
"""The signs of the four corners of an interaction in each of its parts."""


def _measure_effect(
    tasks: Sequence[tuple[Floats, Clusters]],
) -> tuple[Estimate, tuple[Estimate, ...]]:
    """Return the effect over some tasks and its parts, given an array (samples, corners) and the
    clusters of each task."""
    corners, clusters = map(np.concatenate, zip(*tasks, strict=True))
    strata = np.repeat(np.arange(len(tasks)), [len(of_task) for _, of_task in tasks])
    effect = mean_difference(corners.sum(axis=1).round(12) + 0.0, clusters, strata)
    sides = CORNER_SIGNS if corners.shape[1] == len(CORNER_SIGNS) and effect.p < ALPHA else ()
    parts = ((corners @ signs).round(12) + 0.0 for signs in sides)
    return effect, tuple(mean_difference(part, clusters, strata) for part in parts)


def _weigh_levels(
    numbers: Sequence[int], cells: Cells, changes: Sequence[Changes]
) -> dict[Levels, Floats]:
    """Return the weights that compare each level of a factor with its first level, or that measure
    the interaction of two factors, averaged over the other factors."""
    asked = []
    for number in numbers:
        asked.append([*dict.fromkeys(cell[number] for cell in cells if cell)] or [""])
    against, weights = next(product(*asked)), {}
    for levels in product(*asked):
        if not any(map(eq, levels, against)):
            names = FACTOR_SEPARATOR.join(levels), FACTOR_SEPARATOR.join(against)
            whole = contrast(cells, {n: (levels[i], against[i]) for i, n in enumerate(numbers)})
            at = [cell and tuple(map(cell.__getitem__, numbers)) for cell in cells]
            ends = product(*zip(against, levels, strict=True))
            corners = [np.where([place == end for place in at], whole, 0.0) for end in ends]
            weights[names] = np.stack(corners)
    return weights


def _weigh_change(
    change: Changes, cells: Cells, changes: Sequence[Changes]
) -> dict[Levels, Floats]:
    """Return the weights that compare a change of `each` with the same arm without it, averaged
    over the sweep.

    A contestant that lacks some of the changed stages has an arm with the rest of the change.
    """
    made = [[p for p in change if p in arm and arm[p] == change[p]] for arm in changes]
    most, pairs, weights = max(map(len, made), default=0), 0, np.zeros(len(changes))
    for number, places in enumerate(made):
        if most == 0 or len(places) < most or cells[number] is not None:
            continue
        rest = _drop_changes(changes[number], places)
        for start, before in enumerate(changes):
            if cells[start] is not None and _drop_changes(before, places) == rest:
                weights[[number, start]] += 1, -1
                pairs += 1
    level = " + ".join(map(partial(_get_level, ""), change.values()))
    return {(level, UNCHANGED): weights[None] / max(1, pairs)}


def _get_cell(sweep: Sweep, changes: Changes) -> Cell | None:
    """Return the level of every factor of the arm with these changes; None if the arm is not part
    of the sweep."""
    levels: dict[str, list[str]] = {factor: [] for factor in sweep}
    for place, value in changes.items():
        owners = [*filter(partial(is_within, place), sweep)]
        if not owners:
            return None
        factor = max(owners, key=len)
        levels[factor].append(_get_level(place[len(factor) + 1 :], value))
    cell = tuple(", ".join(parts) or UNCHANGED_LEVEL_NAME for parts in levels.values())
    for level, (factor, values) in zip(cell, sweep.items(), strict=True):
        names = [UNCHANGED_LEVEL_NAME]
        for value in values:
            parts = flatten_changes({factor: value}).items()
            names.append(
                ", ".join(_get_level(place[len(factor) + 1 :], part) for place, part in parts)
            )
        if level not in names:
            return None
    return cell


def _get_level(name: str, value: Any) -> str:
    shown = "none" if value is None else str(value)
    return f"{name}={shown}" if name else shown


def _drop_changes(changes: Changes, places: Sequence[str]) -> dict[str, Any]:
    """Return the changes without those at or below these paths."""
    return {k: v for k, v in changes.items() if not any(is_within(k, place) for place in places)}


EFFECT_TABLE_COLUMNS: Columns[LevelEffect] = (
    *attribute_columns("contestant", "task", "factor", "level", "against", "where"),
    Column("effect", "effect", change_cell),
    Column("p", lambda line: None if line.where else line.effect.p, format_p),
    *CORRECTED_COLUMNS,
    Column("n", "effect.n"),
)


def sweep_table(scored: Table, all_lines: bool = True) -> TextTable:
    """Return a line per contestant, task, factor and level, and per pair of factors; if a pair
    interacts significantly, a line for each level of the other factor.

    Without `all_lines`, an interaction is included only if its own p is below 5 %, and a single
    task, besides all tasks together, only if an effect differs between tasks or two factors
    interact on it.
    """
    lines = [line for run in scored.scores for line in _split_interactions(find_sweep_effects(run))]
    by_task = _choose_single_tasks(lines)
    short = []
    for line in lines:
        is_weak = FACTOR_SEPARATOR in line.factor and line.effect.p >= ALPHA
        is_part = line.task != ALL_TASKS and by_task.get(_get_effect_key(line)) is False
        short += [] if is_part or is_weak else [line]
    shown = table(EFFECT_TABLE_COLUMNS, lines if all_lines else short)
    shown = shown if any(line.where for line in lines) else shown.without("where")
    return shown if all_lines else shown.without("p\n(BH)").without_empty()


def _get_effect_key(line: LevelEffect) -> tuple[str, str, str]:
    return line.contestant, line.factor, line.level


def _choose_single_tasks(lines: Sequence[LevelEffect]) -> Mapping[tuple[str, str, str], bool]:
    """Return, for each effect over all tasks, whether single tasks are shown too: if it differs
    between them, by Cochran's test of heterogeneity at 5 % over all effects (Bonferroni), or is
    split by the level of another factor."""
    tasks = defaultdict[tuple[str, str, str], list[LevelEffect]](list)
    for line in lines:
        tasks[_get_effect_key(line)].append(line)
    pooled = {_get_effect_key(line) for line in lines if line.task == ALL_TASKS}
    shown = dict[tuple[str, str, str], bool]()
    for place in pooled:
        single = [line for line in tasks[place] if line.task != ALL_TASKS]
        values = np.array([line.effect.value for line in single])
        errors = np.array([line.effect.high - line.effect.low for line in single]) / (2 * Z)
        weights = 1 / np.maximum(errors, 1e-9) ** 2
        q = float((weights * (values - weights @ values / weights.sum()) ** 2).sum())
        differs = chi_squared_tail(len(single) - 1, q) < ALPHA / len(pooled)
        shown[place] = differs or any(line.where for line in single)
    return shown


def _split_interactions(lines: Sequence[LevelEffect]) -> Iterator[LevelEffect]:
    """Yield the effects; an effect of a factor that interacts significantly is replaced by its
    parts."""
    parts = defaultdict[tuple[str, ...], dict[str, LevelEffect]](dict)
    for line in lines:
        named = (text.split(FACTOR_SEPARATOR) for text in (line.factor, line.level, line.against))
        sides = [*zip(*named, strict=True)] if line.is_significant else []
        for number, (factor, level, against) in enumerate(sides[: len(line.parts) // 2]):
            place, (other, *ends) = (line.contestant, line.task, factor, level), sides[1 - number]
            for effect, end in zip(line.parts[2 * number :], reversed(ends), strict=False):
                where = f"{other} {end}"
                parts[place][where] = LevelEffect(*place, against, effect, where=where)
    for line in lines:
        place = line.contestant, line.task, line.factor, line.level
        yield from parts[place].values() if place in parts else (line,)


def effect_note(scored: Table) -> str:
    """Return the notes on `sweep:` and `each:` that apply to the effects in the table."""
    notes = list[str]()
    for run in scored.scores:
        kinds = {line.against == UNCHANGED for line in find_sweep_effects(run)}
        notes += [SWEEP_NOTE] if False in kinds else []
        notes += (
            [f"{EACH_NOTE}{COMBINATIONS_NOTE if False in kinds else ''}."] if True in kinds else []
        )
    return "\n".join(dict.fromkeys(notes))


def effects_csv(scored: Table) -> str:
    """Format the effects as CSV, as shares in -1..1: a header, and a line per effect."""
    rows: list[Sequence[object]] = [EFFECT_COLUMNS]
    for run in scored.scores:
        for line in find_sweep_effects(run):
            cells = {"run": run.name, **vars(line.effect), **vars(line)}
            cells["effect"] = line.effect.value
            values = [cells[name] for name in EFFECT_COLUMNS]
            rows.append([f"{v:.6g}" if isinstance(v, float) else v for v in values])
    return format_csv(rows)


EFFECTS_ANALYSIS = Analysis(
    "effects", "Effect of each factor", sweep_table, effect_note, lists_unchanged=True
)

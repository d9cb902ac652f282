"""What each factor of a sweep does: the paired effect of every level against the first, over the other factors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable, format_p, percent
from looktwice.eval.scoring.stats import MeanDifference, mean_difference
from looktwice.eval.scoring.verdict import RunScores

ALL_TASKS = "all tasks"
SWEEP_NOTE = (
    "sweep: every combination was asked. The effect of a level is its mean difference to the factor's first level, in "
    "percentage points with its 95 % interval, over the samples and over all combinations of the other factors.\n"
    "each: one change at a time, everything else as the file says. Its effect is the delta of its own line."
)
"""What a reader of the table must know to tell the effects of `sweep:` from those of `each:`."""

Cell = tuple[str, ...]
"""The level of every factor."""


@dataclass(frozen=True)
class LevelEffect:
    """What one level of a swept setting changes against its first, for one contestant, on a task or on all of them."""

    contestant: str
    task: str
    factor: str
    level: str
    against: str
    effect: MeanDifference


def sweep_effects(run: RunScores) -> list[LevelEffect]:
    """The effects of every level of a sweep with several factors; none where a run has no such sweep.

    A sample's difference is its mean over the combinations of the other factors that were asked with both levels; a
    sample counts if none of these failed or is missing. Points with changes of `each:` are left out.
    """
    config = run.folder.facts.get("config")
    factors = list((config.get("sweep") or {}) if isinstance(config, Mapping) else {})
    grids: dict[str, dict[str, dict[Cell, Mapping[str, float]]]] = defaultdict(lambda: defaultdict(dict))
    for scores in run.points:
        cell = _cell(scores.point.changes, factors)
        if cell is not None:
            grids[scores.point.contestant][scores.point.task].setdefault(cell, scores.comparable)
    return [line for who, tasks in grids.items() for line in _effects(who, tasks, factors)] if len(factors) > 1 else []


def sweep_table(table: Table, whole: bool = True) -> TextTable:
    """A line per contestant, task, factor and level; of several tasks, without `whole`, only the one over all."""
    header = ("contestant", "task", "factor", "level", "against", "effect", "p", "n")
    lines = []
    for run in table.scores:
        effects = sweep_effects(run)
        several = {line.contestant for line in effects if line.task == ALL_TASKS}
        for line in effects:
            if whole or line.task == ALL_TASKS or line.contestant not in several:
                found = line.effect
                shown = percent(found.value, sign=True)
                if found.low is not None and found.high is not None:
                    shown += f"\n{percent(found.low, sign=True)} to {percent(found.high, sign=True)}"
                names = (line.contestant, line.task, line.factor, line.level, line.against)
                lines.append((*names, shown, format_p(found.p), str(found.n)))
    return TextTable(header, tuple(lines), text_columns=5)


def _effects(
    contestant: str, tasks: Mapping[str, Mapping[Cell, Mapping[str, float]]], factors: Sequence[str]
) -> Iterator[LevelEffect]:
    """Factor by factor: the tasks that have it, then all of them as one set of samples."""
    for number, factor in enumerate(factors):
        pooled: dict[tuple[str, str], list[float]] = defaultdict(list)
        shared: dict[tuple[str, str], int] = defaultdict(int)
        for task, cells in tasks.items():
            for (level, against), gaps in _gaps(cells, number).items():
                if gaps:
                    pooled[level, against] += gaps
                    shared[level, against] += 1
                    yield _effect(contestant, task, factor, level, against, gaps)
        for (level, against), gaps in pooled.items():
            if shared[level, against] > 1:
                yield _effect(contestant, ALL_TASKS, factor, level, against, gaps)


def _effect(contestant: str, task: str, factor: str, level: str, against: str, gaps: Sequence[float]) -> LevelEffect:
    return LevelEffect(contestant, task, factor.removeprefix("stages."), level, against, mean_difference(gaps))


def _gaps(cells: Mapping[Cell, Mapping[str, float]], number: int) -> dict[tuple[str, str], list[float]]:
    """For each level of a factor and the first one: the difference of every sample, averaged over the other factors."""
    first, *others = dict.fromkeys(cell[number] for cell in cells)
    found = {}
    for level in others:
        pairs = [
            (cells[cell], cells[twin])
            for cell in cells
            if cell[number] == level and (twin := (*cell[:number], first, *cell[number + 1 :])) in cells
        ]
        samples = set.intersection(*(set(values) for pair in pairs for values in pair)) if pairs else set()
        found[level, first] = [fmean(mine[name] - theirs[name] for mine, theirs in pairs) for name in sorted(samples)]
    return found


def _cell(changes: Mapping[str, Any], factors: Sequence[str]) -> Cell | None:
    """The level of every factor in the changes of a point; None where something else was changed as well."""
    levels: dict[str, list[str]] = {factor: [] for factor in factors}
    for place, value in changes.items():
        owners = [factor for factor in factors if f"{place}.".startswith(f"{factor}.")]
        if not owners:
            return None
        factor = max(owners, key=len)
        name = place[len(factor) + 1 :]
        shown = "none" if value is None else str(value)
        levels[factor].append(f"{name}={shown}" if name else shown)
    return tuple(", ".join(parts) or "as it is" for parts in levels.values())

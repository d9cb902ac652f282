"""What each factor of a sweep and each single change does: paired effects, over everything else that was swept."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from looktwice.eval.display.printable import csv_cell
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable, format_p, percent
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.statistics.significance import MeanDifference, mean_difference
from looktwice.pipelines.config.expand import flat_changes

ALL_TASKS = "all tasks"
UNCHANGED = "unchanged"
AS_IT_IS = "as it is"
MEAN = "in percentage points with its 95 % interval, over the samples that none of these arms failed or lacks"
SWEEP_NOTE = (
    f"sweep: the effect of a level is its mean difference to the factor's first level (`against`), {MEAN}, and over "
    "the combinations of the other factors that were asked with both."
)
EACH_NOTE = f"each: the effect of a change is its mean difference to the same contestant {UNCHANGED}, {MEAN}"
EFFECT_COLUMNS = ("run", "contestant", "task", "factor", "level", "against", "effect", "low", "high", "p", "n")

Values = Mapping[str, float]
"""The value of every sample of an arm."""

Gaps = dict[tuple[str, str], list[float]]
"""By (level, against): the difference of every sample."""


@dataclass(frozen=True)
class LevelEffect:
    """What one level of a swept setting changes against its first, for one contestant, on a task or on all of them.

    Of a change of `each`, what it changes against the contestant's arm without it, which is called "unchanged".
    """

    contestant: str
    task: str
    factor: str
    level: str
    against: str
    effect: MeanDifference


def sweep_effects(run: RunScores) -> list[LevelEffect]:
    """The effects of every change of `each`, and of every level of a sweep that has several factors or stands with it.

    A sample's difference is its mean over the combinations of the other factors that were asked with both levels; a
    sample counts if none of these failed or is missing.
    """
    config = run.folder.facts.get("config")
    sweep, each = (config.get(name) for name in ("sweep", "each")) if isinstance(config, Mapping) else (None, None)
    grid = _Grid(sweep or {})
    names = list(grid.sweep) if len(grid.sweep) > 1 or each else []
    factors = [(name.removeprefix("stages."), _level_gaps(grid, number)) for number, name in enumerate(names)]
    changes = [flat_changes(change) for change in each or ()]
    factors += [(" + ".join(map(_short, change)), _change_gaps(grid, change)) for change in changes]
    arms: dict[str, dict[str, _Arms]] = defaultdict(lambda: defaultdict(_Arms))
    for scores in run.points:
        known = arms[scores.point.contestant][scores.point.task]
        if all(changes != scores.point.changes for changes, _ in known):
            known.append((scores.point.changes, scores.comparable))
    return [line for who, tasks in arms.items() for line in _effects(who, tasks, factors)]


def sweep_table(table: Table, whole: bool = True) -> TextTable:
    """A line per contestant, task, factor and level; of several tasks, without `whole`, only the one over all."""
    header = ("contestant", "task", "factor", "level", "against", "effect", "p", "n")
    lines = []
    for run in table.scores:
        effects = sweep_effects(run)
        several = {(line.contestant, line.factor, line.level) for line in effects if line.task == ALL_TASKS}
        for line in effects:
            if whole or line.task == ALL_TASKS or (line.contestant, line.factor, line.level) not in several:
                found = line.effect
                shown = percent(found.value, sign=True)
                if found.low is not None and found.high is not None:
                    shown += f"\n{percent(found.low, sign=True)} to {percent(found.high, sign=True)}"
                names = (line.contestant, line.task, line.factor, line.level, line.against)
                lines.append((*names, shown, format_p(found.p), str(found.n)))
    return TextTable(header, tuple(lines), text_columns=5)


def effect_note(table: Table) -> str:
    """What a reader of the effects must know of those of `sweep:` and of `each:`; of what the table has alone."""
    notes: dict[str, None] = {}
    for run in table.scores:
        kinds = {line.against == UNCHANGED for line in sweep_effects(run)}
        swept = ", and over the combinations of the sweep that were asked with and without it" * (False in kinds)
        notes |= dict.fromkeys([*[SWEEP_NOTE] * (False in kinds), *[f"{EACH_NOTE}{swept}."] * (True in kinds)])
    return "\n".join(notes)


def effects_csv(table: Table) -> str:
    """The effects as shares in -1..1, a header and a line each; an interval is empty where all samples agree."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(EFFECT_COLUMNS)
    for run in table.scores:
        for line in sweep_effects(run):
            names = (run.name, line.contestant, line.task, line.factor, line.level, line.against)
            numbers = ("" if number is None else f"{number:.6g}" for number in line.effect[:-1])
            writer.writerow((*map(csv_cell, names), *numbers, line.effect.n))
    return out.getvalue()


class _Arms(list[tuple[Mapping[str, Any], Values]]):
    """The arms of one contestant on one task: their changes, and the values of their samples."""


@dataclass(frozen=True)
class _Grid:
    """The combinations of a sweep, by the levels of its factors."""

    sweep: Mapping[str, Sequence[Any]]

    def cells(self, arms: _Arms) -> dict[tuple[str, ...], Values]:
        """The arms that the sweep made, by the level of every factor."""
        return {cell: values for changes, values in arms if (cell := self._cell(changes)) is not None}

    def holds(self, changes: Mapping[str, Any]) -> bool:
        """Whether the sweep made an arm with these changes, and no change of `each` did."""
        return self._cell(changes) is not None

    def _cell(self, changes: Mapping[str, Any]) -> tuple[str, ...] | None:
        levels: dict[str, list[str]] = {factor: [] for factor in self.sweep}
        for place, value in changes.items():
            owners = [factor for factor in self.sweep if f"{place}.".startswith(f"{factor}.")]
            if not owners:
                return None
            factor = max(owners, key=len)
            levels[factor].append(_level(place[len(factor) + 1 :], value))
        cell = tuple(", ".join(parts) or AS_IT_IS for parts in levels.values())
        known = zip(cell, self.sweep.items(), strict=True)
        return cell if all(level == AS_IT_IS or level in _levels(*factor) for level, factor in known) else None


def _levels(factor: str, values: Sequence[Any]) -> list[str]:
    """How the levels of a factor are called."""
    flat = (flat_changes({factor: value}) for value in values)
    return [", ".join(_level(place[len(factor) + 1 :], each) for place, each in one.items()) for one in flat]


def _level(name: str, value: Any) -> str:
    shown = "none" if value is None else str(value)
    return f"{name}={shown}" if name else shown


def _short(place: str) -> str:
    return place.removeprefix("stages.")


def _effects(
    contestant: str, tasks: Mapping[str, _Arms], factors: Sequence[tuple[str, Callable[[_Arms], Gaps]]]
) -> Iterator[LevelEffect]:
    """Factor by factor: the tasks that have it, then all of them as one set of samples."""
    for factor, find_gaps in factors:
        pooled: dict[tuple[str, str], list[float]] = defaultdict(list)
        shared: dict[tuple[str, str], int] = defaultdict(int)
        for task, arms in tasks.items():
            for (level, against), gaps in find_gaps(arms).items():
                if gaps:
                    pooled[level, against] += gaps
                    shared[level, against] += 1
                    yield LevelEffect(contestant, task, factor, level, against, mean_difference(gaps))
        for (level, against), gaps in pooled.items():
            if shared[level, against] > 1:
                yield LevelEffect(contestant, ALL_TASKS, factor, level, against, mean_difference(gaps))


def _level_gaps(grid: _Grid, number: int) -> Callable[[_Arms], Gaps]:
    """For each level of a factor and the first one: the difference of every sample, averaged over the other factors."""

    def find(arms: _Arms) -> Gaps:
        cells = grid.cells(arms)
        first, *others = dict.fromkeys(cell[number] for cell in cells) or [""]
        pairs: dict[tuple[str, str], list[tuple[Values, Values]]] = {(level, first): [] for level in others}
        for cell in cells:
            twin = (*cell[:number], first, *cell[number + 1 :])
            if cell != twin and twin in cells:
                pairs[cell[number], first].append((cells[cell], cells[twin]))
        return {levels: _mean_gaps(each) for levels, each in pairs.items()}

    return find


def _change_gaps(grid: _Grid, change: Mapping[str, Any]) -> Callable[[_Arms], Gaps]:
    """For a change of `each` and the same arm without it: the difference of every sample, averaged over the sweep.

    A contestant without some of the stages that it changes has an arm with the rest of the change.
    """

    def find(arms: _Arms) -> Gaps:
        made = [[p for p in change if p in changes and changes[p] == change[p]] for changes, _ in arms]
        most = max(map(len, made), default=0)
        pairs = [
            (values, others)
            for (changes, values), places in zip(arms, made, strict=True)
            if most and len(places) == most and not grid.holds(changes)
            for before, others in arms
            if grid.holds(before) and _without(before, places) == _without(changes, places)
        ]
        level = " + ".join(_level("", value) for value in change.values())
        return {(level, UNCHANGED): _mean_gaps(pairs)}

    return find


def _without(changes: Mapping[str, Any], places: Sequence[str]) -> dict[str, Any]:
    """The changes that are not at or below these places."""
    return {k: v for k, v in changes.items() if not any(f"{k}.".startswith(f"{place}.") for place in places)}


def _mean_gaps(pairs: Sequence[tuple[Values, Values]]) -> list[float]:
    """The difference of every sample that all of these have, as the mean over the pairs."""
    samples = set.intersection(*(set(values) for pair in pairs for values in pair)) if pairs else set[str]()
    return [fmean(mine[name] - theirs[name] for mine, theirs in pairs) for name in sorted(samples)]

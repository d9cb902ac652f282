"""What each factor of a sweep, each two together and each single change do: paired effects over all
else swept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from statistics import fmean
from typing import Any

from looktwice.eval.display.printable import csv_text
from looktwice.eval.display.table import Table, once
from looktwice.eval.display.text_tables import (
    Column,
    TextTable,
    change_cell,
    format_p,
    names,
    table,
)
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.statistics.intervals import Estimate
from looktwice.eval.statistics.paired import correct, mean_difference
from looktwice.eval.statistics.settings import contrast
from looktwice.pipelines.config.expand import flat_changes

ALL_TASKS = "all tasks"
UNCHANGED = "unchanged"
AS_IT_IS = "as it is"
BESIDE = " x "  # between two factors
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
    "run",
    "contestant",
    "task",
    "factor",
    "level",
    "against",
    "effect",
    "low",
    "high",
    "p",
    "n",
    "p_holm",
    "p_bh",
    "clusters",
)

Values = Mapping[str, float]
"""The value of every sample of an arm."""

Gaps = dict[tuple[str, str], Mapping[str, float]]
"""By (level, against): the difference of every sample."""


@dataclass(frozen=True)
class LevelEffect:
    """What one level of a swept setting changes against its first, for one contestant, on a task or
    on all of them.

    Of a change of `each`, what it changes against the contestant's arm without it, which is called
    "unchanged".
    """

    contestant: str
    task: str
    factor: str
    level: str
    against: str
    effect: Estimate
    p_holm: float | None = None
    p_bh: float | None = None

    @property
    def place(self) -> tuple[str, str, str]:
        """What its lines on several tasks have in common."""
        return self.contestant, self.factor, self.level

    @property
    def is_interaction(self) -> bool:
        """Whether it is what two factors do together."""
        return BESIDE in self.factor


@once
def sweep_effects(run: RunScores) -> list[LevelEffect]:
    """The effects of every change of `each`, and of every level of a sweep that has several factors
    or stands with it.

    A sample's difference is its mean over the combinations of the other factors that were asked
    with both levels; a sample counts if none of these failed or is missing.
    """
    sweep, changed = run.config.get("sweep"), run.config.get("each")
    grid = _Grid(sweep or {})
    names = list(grid.sweep) if len(grid.sweep) > 1 or changed else []
    factors = [(_short(name), _level_gaps(grid, (number,))) for number, name in enumerate(names)]
    twos = combinations(enumerate(names), 2) if len(names) > 1 else ()
    factors += [
        (f"{_short(a)}{BESIDE}{_short(b)}", _level_gaps(grid, (i, j))) for (i, a), (j, b) in twos
    ]
    changes = [flat_changes(change) for change in changed or ()]
    factors += [(" + ".join(map(_short, change)), _change_gaps(grid, change)) for change in changes]
    arms: dict[str, dict[str, _Arms]] = defaultdict(lambda: defaultdict(_Arms))
    for scores in run.points:
        cells = arms[scores.point.contestant][scores.point.task]
        cells.clusters |= scores.clusters
        if all(changes != scores.point.changes for changes, _ in cells):
            cells.append((scores.point.changes, scores.comparable))
    lines = [line for who, tasks in arms.items() for line in _effects(who, tasks, factors)]
    return correct(lines, lambda line: line.effect.p, lambda line: line.task == ALL_TASKS)


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

    Without `whole`, as on a terminal: without interactions, and of several tasks only what is over
    all.
    """
    lines = [line for run in scored.scores for line in sweep_effects(run)]
    if whole:
        return table(EFFECTS, lines)
    pooled = {line.place for line in lines if line.task == ALL_TASKS}
    kept = [line for line in lines if line.task == ALL_TASKS or line.place not in pooled]
    short = table(EFFECTS, [line for line in kept if not line.is_interaction])
    return short.without("p\n(BH)").without_empty()


def effect_note(scored: Table) -> str:
    """What a reader of the effects must know of those of `sweep:` and of `each:`; of what the table
    has alone."""
    notes: dict[str, None] = {}
    for run in scored.scores:
        kinds = {line.against == UNCHANGED for line in sweep_effects(run)}
        if False in kinds:
            notes[SWEEP_NOTE] = None
        if True in kinds:
            notes[f"{EACH_NOTE}{BOTH if False in kinds else ''}."] = None
    return "\n".join(notes)


def effects_csv(scored: Table) -> str:
    """The effects as shares in -1..1, a header and a line each."""
    rows: list[Sequence[object]] = [EFFECT_COLUMNS]
    for run in scored.scores:
        for line in sweep_effects(run):
            cells = {"run": run.name, **vars(line.effect), **vars(line)}
            cells["effect"] = line.effect.value
            rows.append([_short_number(cells[name]) for name in EFFECT_COLUMNS])
    return csv_text(rows)


def _short_number(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else value


class _Arms(list[tuple[Mapping[str, Any], Values]]):
    """The arms of one contestant on one task: their changes, and the values of their samples."""

    def __init__(self) -> None:
        super().__init__()
        self.clusters: dict[str, str] = {}  # sample -> what it shares with others


@dataclass(frozen=True)
class _Grid:
    """The combinations of a sweep, by the levels of its factors."""

    sweep: Mapping[str, Sequence[Any]]

    def cells(self, arms: _Arms) -> dict[tuple[str, ...], Values]:
        """The arms that the sweep made, by the level of every factor."""
        return {
            cell: values for changes, values in arms if (cell := self._cell(changes)) is not None
        }

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
        pairs = zip(cell, self.sweep.items(), strict=True)
        return (
            cell
            if all(level == AS_IT_IS or level in _levels(*factor) for level, factor in pairs)
            else None
        )


def _levels(factor: str, values: Sequence[Any]) -> list[str]:
    """How the levels of a factor are called."""
    flat = (flat_changes({factor: value}) for value in values)
    return [
        ", ".join(_level(place[len(factor) + 1 :], level) for place, level in changes.items())
        for changes in flat
    ]


def _level(name: str, value: Any) -> str:
    shown = "none" if value is None else str(value)
    return f"{name}={shown}" if name else shown


def _short(place: str) -> str:
    return place.removeprefix("stages.")


def _effects(
    contestant: str,
    tasks: Mapping[str, _Arms],
    factors: Sequence[tuple[str, Callable[[_Arms], Gaps]]],
) -> Iterator[LevelEffect]:
    """Factor by factor: the tasks that have it, then all of them as one set of samples."""
    for factor, find_gaps in factors:
        by_task = defaultdict[tuple[str, str], list[list[tuple[float, str]]]](list)
        for task, arms in tasks.items():
            for levels, gaps in find_gaps(arms).items():
                if gaps:
                    samples = [(gap, arms.clusters[name]) for name, gap in gaps.items()]
                    by_task[levels].append(samples)
                    yield LevelEffect(contestant, task, factor, *levels, _effect(samples))
        for levels, tasks_with_both in by_task.items():
            if len(tasks_with_both) > 1:
                yield LevelEffect(
                    contestant, ALL_TASKS, factor, *levels, _effect([*chain(*tasks_with_both)])
                )


def _effect(samples: Sequence[tuple[float, str]]) -> Estimate:
    """The mean difference of samples, of each the difference and the cluster."""
    return mean_difference([gap for gap, _ in samples], [cluster for _, cluster in samples])


def _level_gaps(grid: _Grid, numbers: tuple[int, ...]) -> Callable[[_Arms], Gaps]:
    """For each level of a factor and its first one: the difference of every sample; of two factors
    their interaction.

    It is averaged over the other factors.
    """

    def find(arms: _Arms) -> Gaps:
        cells = grid.cells(arms)
        asked = [list(dict.fromkeys(cell[number] for cell in cells)) or [""] for number in numbers]
        against = [first for first, *_ in asked]
        gaps: Gaps = {}
        for levels in product(*(others for _, *others in asked)):
            changes = zip(levels, against, strict=True)
            gaps[BESIDE.join(levels), BESIDE.join(against)] = contrast(
                cells, dict(zip(numbers, changes, strict=True))
            )
        return gaps

    return find


def _change_gaps(grid: _Grid, change: Mapping[str, Any]) -> Callable[[_Arms], Gaps]:
    """For a change of `each` and the same arm without it: the difference of every sample, averaged
    over the sweep.

    A contestant without some of the stages that it changes has an arm with the rest of the change.
    """

    def find(arms: _Arms) -> Gaps:
        made = [
            [p for p in change if p in changes and changes[p] == change[p]] for changes, _ in arms
        ]
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
    return {
        k: v
        for k, v in changes.items()
        if not any(f"{k}.".startswith(f"{place}.") for place in places)
    }


def _mean_gaps(pairs: Sequence[tuple[Values, Values]]) -> dict[str, float]:
    """The difference of every sample that all of these have, as the mean over the pairs."""
    samples = (
        set.intersection(*(set(values) for pair in pairs for values in pair))
        if pairs
        else set[str]()
    )
    return {
        name: fmean(mine[name] - theirs[name] for mine, theirs in pairs) for name in sorted(samples)
    }

"""Why two contestants' numbers differ: the effect of each factor between them alone, on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist, fmean, stdev

from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable, format_p, percent
from looktwice.eval.scoring.benchmark import Scorer
from looktwice.eval.scoring.labels import contestant_changes
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.shares import paired_difference
from looktwice.eval.statistics.significance import paired_test

Values = Mapping[str, float]
INTERACTION, WHOLE = "interaction", "the whole gap"


@dataclass(frozen=True)
class FactorEffect:
    """One factor: on the `n` units that all arms have, it alone changes the metric from `before` to `after`.

    Behind the factors come `interaction`, the gap less the sum of their effects, and `the whole gap`. `value`, `low`
    and `high` lie in -1..1, beyond it for `interaction`. `of_gap` is the effect over the gap, where the gap's interval
    excludes zero.
    """

    task: str
    metric: str
    factor: str
    value: float
    before: float | None = None
    after: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0
    of_gap: float | None = None


def factor_effects(run: RunScores) -> list[FactorEffect]:
    """The effects in a run whose configuration says `gap: {from: ..., to: ...}`; none where it does not.

    For every task and each of its metrics that is a mean over units, then over all tasks: `macro` is the mean of the
    tasks' effects, `micro` is of all their units as one set.
    """
    config = run.folder.facts.get("config")
    gap = config.get("gap") if isinstance(config, dict) else None
    if not isinstance(gap, dict):
        return []
    found: list[FactorEffect] = []
    arms = [_Arms.of(held, gap) for held in _by_task(run.points)]
    tables = [(one.task, _values_by_metric(one)) for one in arms if one is not None]
    for task, metrics in tables:
        for metric, table in metrics.items():
            found += _effects(task, metric, table)
    return found + (_over_tasks([metrics["accuracy"] for _, metrics in tables]) if len(tables) > 1 else [])


def factor_table(table: Table) -> TextTable:
    """What each factor changes in percentage points, with its paired interval and test, where a run asks."""
    header = ("task", "metric", "factor", "from", "with", "effect", "p", "of gap", "n")
    lines = []
    for run in table.scores:
        for line in factor_effects(run):
            wide = "" if line.low is None or line.high is None else f"\n{_signed(line.low)} to {_signed(line.high)}"
            part = "" if line.of_gap is None else f"{100 * line.of_gap:.0f} %"
            levels = percent(line.before), percent(line.after)
            test = f"{_signed(line.value)}{wide}", format_p(line.p), part
            lines.append((line.task, line.metric, line.factor, *levels, *test, str(line.n or "")))
    return TextTable(header, tuple(lines), text_columns=3)


@dataclass(frozen=True)
class _Arms:
    """The points of one task: both ends, and those with one factor of the second by the factor's name."""

    task: str
    start: PointScores
    end: PointScores
    between: Mapping[str, PointScores]

    @classmethod
    def of(cls, held: Sequence[PointScores], gap: Mapping[str, str]) -> _Arms | None:
        plain = {s.point.contestant: s for s in held if not contestant_changes(s.point)}
        start, end = plain.get(gap["from"]), plain.get(gap["to"])
        if start is None or end is None:
            return None
        between = {}
        for scores in held:
            changes = contestant_changes(scores.point)
            if scores.point.contestant == gap["from"] and len(changes) == 1:
                (place,) = changes
                if _setting(scores, place) == _setting(end, place) != _setting(start, place):
                    between[
                        f"{place.removeprefix('stages.')}: {'none' if changes[place] is None else changes[place]}"
                    ] = scores
        return cls(start.task, start, end, between)

    @property
    def all(self) -> dict[str, PointScores]:
        """Every arm, the two ends first."""
        return {"from": self.start, "to": self.end, **self.between}


def _by_task(points: Sequence[PointScores]) -> list[list[PointScores]]:
    tasks: dict[str, list[PointScores]] = {}
    for scores in points:
        tasks.setdefault(scores.point.task_id, []).append(scores)
    return list(tasks.values())


def _setting(scores: PointScores, place: str) -> object:
    """What a point was built with at a dotted place; None where it has nothing there."""
    if place == "read":
        return scores.point.read
    found: object = scores.point.spec
    for part in place.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _values_by_metric(arms: _Arms) -> dict[str, dict[str, Values]]:
    """For each metric the values of every arm, by unit; only metrics that every arm has."""
    tables: dict[str, dict[str, Values]] = {}
    for name, scores in arms.all.items():
        for metric, values in _metrics(scores).items():
            tables.setdefault(metric, {})[name] = values
    return {metric: table for metric, table in tables.items() if len(table) == len(arms.all)}


def _metrics(scores: PointScores) -> dict[str, Values]:
    """Accuracy by sample, and the benchmark's own metrics that are means, by what they count."""
    found: dict[str, Values] = {"accuracy": scores.comparable}
    scorer: Scorer | None = scores.scorer
    for metric in scorer.metrics(scores) if scorer is not None else ():
        if metric.value is None and metric.p is None and not metric.slice:
            found[metric.name] = {n: v for n, v in metric.units.items() if n not in metric.failed}
    return found


def _effects(task: str, metric: str, table: Mapping[str, Values]) -> list[FactorEffect]:
    """An effect per factor, the interaction, and the gap; none where no unit has every arm."""
    units = sorted(set.intersection(*(set(values) for values in table.values())))
    if not units:
        return []
    rows = {name: [values[unit] for unit in units] for name, values in table.items()}
    start, end = rows.pop("from"), rows.pop("to")
    whole = _effect(task, metric, WHOLE, start, end)
    found = [_effect(task, metric, factor, start, values) for factor, values in rows.items()]
    moved = [sum(values[i] - start[i] for values in rows.values()) for i in range(len(units))]
    left = [end[i] - start[i] - moved[i] for i in range(len(units))]
    rest = FactorEffect(task, metric, INTERACTION, fmean(left), n=len(units))
    if len(left) > 1:
        half = NormalDist().inv_cdf(0.975) * stdev(left) / sqrt(len(left))
        rest = replace(rest, low=rest.value - half, high=rest.value + half)
    return _with_share_of_gap([*found, *([rest] if rows else []), whole])


def _effect(task: str, metric: str, factor: str, start: Sequence[float], values: Sequence[float]) -> FactorEffect:
    low, high = paired_difference(values, start)
    test = paired_test(values, start)
    return FactorEffect(task, metric, factor, test.delta, fmean(start), fmean(values), low, high, test.p, len(start))


def _with_share_of_gap(lines: Sequence[FactorEffect]) -> list[FactorEffect]:
    """The effects with their share of the gap, which is the last of them, where its interval excludes zero."""
    whole = lines[-1]
    known = whole.low is not None and whole.high is not None and (whole.low > 0 or whole.high < 0)
    return [replace(line, of_gap=line.value / whole.value) if known else line for line in lines]


def _over_tasks(tables: Sequence[Mapping[str, Values]]) -> list[FactorEffect]:
    """The mean of the tasks' effects, and the effects over all samples together; of factors that every task has."""
    names = [name for name in tables[0] if all(name in table for table in tables)]
    shared = [{name: table[name] for name in names} for table in tables]
    single = [_effects("", "accuracy", table) for table in shared]
    held = [lines for lines in single if lines]
    macro = _with_share_of_gap([_mean([lines[i] for lines in held]) for i in range(len(held[0]))]) if held else []
    pooled = {
        name: {f"{number} {unit}": value for number, table in enumerate(shared) for unit, value in table[name].items()}
        for name in names
    }
    return macro + _effects("micro", "accuracy", pooled)


def _mean(lines: Sequence[FactorEffect]) -> FactorEffect:
    """One line over tasks; the limits of the tasks are combined (MOVER, Zou and Donner 2008)."""
    value = fmean(line.value for line in lines)
    below = sqrt(sum((line.value - (line.low if line.low is not None else line.value)) ** 2 for line in lines))
    above = sqrt(sum(((line.high if line.high is not None else line.value) - line.value) ** 2 for line in lines))
    before, after = [line.before for line in lines], [line.after for line in lines]
    return FactorEffect(
        "macro", lines[0].metric, lines[0].factor, value,
        None if None in before else fmean(x for x in before if x is not None),
        None if None in after else fmean(x for x in after if x is not None),
        value - below / len(lines), value + above / len(lines), None, sum(line.n for line in lines),
    )  # fmt: skip


def _signed(value: float) -> str:
    return percent(value, sign=True)

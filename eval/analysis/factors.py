"""Why two contestants' numbers differ: the effect of each factor between them alone, on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean

from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable, format_p, percent
from looktwice.eval.scoring.benchmark import Metric
from looktwice.eval.scoring.benchmark_rows import own_metrics
from looktwice.eval.scoring.comparison import accuracy_to_compare
from looktwice.eval.scoring.labels import contestant_changes
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.paired import compare_paired
from looktwice.eval.statistics.significance import mean_difference

INTERACTION, WHOLE = "interaction", "the whole gap"


@dataclass(frozen=True)
class FactorEffect:
    """One factor: on the `n` units that all arms have, it alone changes the metric from `before` to `after`.

    Behind the factors come `interaction`, the gap less the sum of their effects, and `the whole gap`. `value`, `low`
    and `high` lie in -1..1, beyond it for `interaction`. `of_gap` is the effect over the gap, where
    p of the gap is below 0.05, or the interval of a mean over tasks excludes zero.
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
    gap = run.config.get("gap")
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


def _values_by_metric(arms: _Arms) -> dict[str, dict[str, Metric]]:
    """For each metric that of every arm; only metrics that every arm has."""
    tables: dict[str, dict[str, Metric]] = {}
    for name, scores in arms.all.items():
        for metric in _metrics(scores):
            tables.setdefault(metric.name, {})[name] = metric
    return {metric: table for metric, table in tables.items() if len(table) == len(arms.all)}


def _metrics(scores: PointScores) -> list[Metric]:
    """Accuracy by sample, and the benchmark's own metrics that are means, by what they count."""
    own = own_metrics(scores)
    means = (metric for metric in own if metric.value is None and metric.p is None and not metric.slice)
    return [accuracy_to_compare(scores), *means]


def _effects(task: str, metric: str, table: Mapping[str, Metric]) -> list[FactorEffect]:
    """An effect per factor, the interaction, and the gap; none where no unit has every arm."""
    units = sorted(set.intersection(*(one.units.keys() - one.failed for one in table.values())))
    if not units:
        return []
    clusters = [table["from"].clusters.get(unit, unit) for unit in units]
    rows = {name: [one.units[unit] for unit in units] for name, one in table.items()}
    start, end = rows.pop("from"), rows.pop("to")

    def effect(factor: str, values: Sequence[float]) -> FactorEffect:
        found, ends = compare_paired(values, start, clusters), (fmean(start), fmean(values))
        return FactorEffect(task, metric, factor, found.value, *ends, found.low, found.high, found.p, found.n)

    moved = [sum(values[i] - start[i] for values in rows.values()) for i in range(len(units))]
    left = mean_difference([end[i] - start[i] - moved[i] for i in range(len(units))], clusters)
    rest = FactorEffect(task, metric, INTERACTION, left.value, low=left.low, high=left.high, n=left.n)
    found = [effect(factor, values) for factor, values in rows.items()]
    return _with_share_of_gap([*found, *([rest] if rows else []), effect(WHOLE, end)])


def _with_share_of_gap(lines: Sequence[FactorEffect]) -> list[FactorEffect]:
    """The effects with their share of the gap, the last of them, where p or, of a mean, the interval shows a gap."""
    whole = lines[-1]
    outside = whole.low is not None and whole.high is not None and (whole.low > 0 or whole.high < 0)
    known = outside if whole.p is None else whole.p < 0.05
    return [replace(line, of_gap=line.value / whole.value) if known else line for line in lines]


def _over_tasks(tables: Sequence[Mapping[str, Metric]]) -> list[FactorEffect]:
    """The mean of the tasks' effects, and the effects over all samples together; of factors that every task has."""
    names = [name for name in tables[0] if all(name in table for table in tables)]
    shared = [{name: table[name] for name in names} for table in tables]
    single = [_effects("", "accuracy", table) for table in shared]
    held = [lines for lines in single if lines]
    macro = _with_share_of_gap([_mean([lines[i] for lines in held]) for i in range(len(held[0]))]) if held else []
    pooled = {name: _pool([table[name] for table in shared]) for name in names}
    return macro + _effects("micro", "accuracy", pooled)


def _pool(metrics: Sequence[Metric]) -> Metric:
    """Accuracy on the samples of all tasks, each with the task's number before its name."""
    units, clusters, failed = dict[str, float](), dict[str, str](), set[str]()
    for number, one in enumerate(metrics):
        units |= {f"{number} {unit}": value for unit, value in one.units.items()}
        clusters |= {f"{number} {unit}": cluster for unit, cluster in one.clusters.items()}
        failed |= {f"{number} {unit}" for unit in one.failed}
    return Metric("accuracy", units, failed=frozenset(failed), clusters=clusters)


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

"""Rows of the metrics that are a benchmark's own: of a point, of guessing, over a suite, and from judges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from looktwice.eval.scoring.benchmark import Figure, Total, scorer_of
from looktwice.eval.scoring.metrics import METRICS, Comparison, Row, mean_over_tasks, pooled
from looktwice.eval.scoring.stats import paired, wilson
from looktwice.eval.scoring.verdict import PointScores

HOUSE = (*METRICS, "missing")


def is_own(row: Row) -> bool:
    """Whether a row is of a benchmark's own metric, and not of those that every task has."""
    return row.metric not in HOUSE


def own_rows(scores: PointScores, plain: Row, rival: PointScores | None = None) -> list[Row]:
    """A row for each metric of the task's scorer, with the paired test against `rival` on the metric's own units."""
    scorer = scorer_of(scores.point.facts)
    if scorer is None:
        return []
    theirs = {(f.metric, f.slice): f for f in (scorer.figures(rival) if rival else ())}
    rows = []
    for figure in scorer.figures(scores):
        if plain.slice and figure.slice:
            continue  # a slice of a slice would be one row for every pair of values
        row = filled(figure, plain)
        other = theirs.get((figure.metric, figure.slice))
        tested = rival is not None and other is not None and figure.p is None and not figure.slice
        rows.append(_compared(figure, other).fill(row, rival.contestant) if tested and rival and other else row)
    return rows


def filled(figure: Figure, plain: Row) -> Row:
    """The row of a figure: the mean of its units with Wilson's interval, or the value that it gives itself."""
    n, total = len(figure.units), sum(figure.units.values())
    row = replace(plain, metric=figure.metric, n=n, unit=figure.unit, slice=figure.slice or plain.slice, p=figure.p)
    row = replace(row, n_groups=figure.groups if figure.unit == "sample" else n)
    if figure.value is not None or not n:
        return replace(row, value=figure.value)
    low, high = wilson(total, n)
    return replace(row, value=total / n, low=low, high=high)


def _compared(mine: Figure, theirs: Figure) -> Comparison:
    shared = [name for name in mine.units if name in theirs.units and name not in mine.failed | theirs.failed]
    fell_out = len(mine.units.keys() | theirs.units.keys()) - len(shared)
    test = paired([mine.units[name] for name in shared], [theirs.units[name] for name in shared]) if shared else None
    if test is not None and mine.value is not None and theirs.value is not None and not fell_out:
        test = replace(test, delta=mine.value - theirs.value)  # of metrics that are no mean of their units
    return Comparison(test, fell_out)


def chance_rows(scores: PointScores, plain: Row, there: Sequence[Row]) -> list[Row]:
    """What guessing brings in the task's own metrics; a level that stands `there` already is not said twice."""
    scorer = scorer_of(scores.point.facts)
    samples = {name: row for name, row in scores.samples.items() if row.answer is not None}
    if scorer is None or not samples:
        return []
    said = {row.metric for row in there if row.contestant == "chance (level)"}
    level = replace(plain, point="", contestant="chance (level)", reader="", n=len(samples))
    found = scorer.chance(samples).items()
    return [replace(level, metric=metric, value=value) for metric, value in found if metric not in said]


def total_rows(held: Sequence[PointScores], rows: Sequence[Row]) -> list[Row]:
    """The totals of every suite whose subtasks are all there, once each: one contestant's rows, or a level's."""
    suites: dict[str, dict[str, Mapping[str, Row]]] = defaultdict(dict)
    totals: dict[str, tuple[Total, ...]] = {}
    twice = set()
    for scores in held:
        scorer = scorer_of(scores.point.facts)
        if scorer is None or not scorer.suite:
            continue
        found = {row.metric: row for row in rows if row.task == scores.task and not row.slice}
        twice |= {scorer.suite} if scorer.part in suites[scorer.suite] else set()
        suites[scorer.suite][scorer.part] = found
        totals[scorer.suite] = scorer.totals
    return [
        row for suite, parts in suites.items() if suite not in twice for row in _totals(suite, parts, totals[suite])
    ]


def _totals(suite: str, parts: Mapping[str, Mapping[str, Row]], totals: Sequence[Total]) -> Iterator[Row]:
    for total in totals:
        rows = [parts.get(part, {}).get(metric) for part, metric in total.parts.items()]
        found = [row for row in rows if row is not None and row.value is not None and row.n]
        if len(found) < len(total.parts):
            continue
        mean = (pooled if total.pooled else mean_over_tasks)(found)
        level = all(row.low is None for row in found)
        mean = replace(mean, low=None, high=None) if level else mean
        yield replace(mean, metric=total.metric, task=suite, name=suite, n_groups=None, unit="", against="")


def mark_rows(scores: PointScores, plain: Row, rival: PointScores | None = None) -> list[Row]:
    """`cot_score` and its two criteria: means over the judged samples, tested against `rival` on those of both."""
    theirs = {figure.metric: figure for figure in _marks(rival)} if rival is not None else {}
    rows = []
    for figure in _marks(scores):
        row = filled(figure, plain)
        other = theirs.get(figure.metric)
        rows.append(_compared_marks(figure, other).fill(row, rival.contestant) if rival is not None and other else row)
    return rows


def _marks(scores: PointScores) -> list[Figure]:
    values: dict[str, dict[str, list[float]]] = {}
    for entry in scores.all:
        for name, value in entry.judged.items():
            values.setdefault(name, {}).setdefault(entry.sample, []).append(value)
    means = {name: {sample: fmean(held) for sample, held in by.items()} for name, by in values.items()}
    if not means:
        return []
    both = {sample: fmean(by[sample] for by in means.values()) for sample in next(iter(means.values()))}
    return [Figure("cot_score", both, "reply"), *(Figure(f"cot_{name}", by, "reply") for name, by in means.items())]


def _compared_marks(mine: Figure, theirs: Figure) -> Comparison:
    shared = [name for name in mine.units if name in theirs.units]
    fell_out = len(mine.units.keys() | theirs.units.keys()) - len(shared)
    test = paired([mine.units[name] for name in shared], [theirs.units[name] for name in shared]) if shared else None
    return Comparison(test, fell_out)

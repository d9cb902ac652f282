"""The curves and heat maps of a sweep: accuracy along one swept number, and over two swept
settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean

from looktwice.eval.page.data import Level, PageGrid, PageLines, Point
from looktwice.eval.records.records import PointRow
from looktwice.eval.scoring.labels import (
    format_contestant_label,
    format_task_label,
    get_contestant_changes,
    get_factor_value,
    get_setting,
    get_task_changes,
)
from looktwice.eval.scoring.row import Row, Rows
from looktwice.eval.scoring.verdict import PointScores, RunScores

MAX_GRIDS = 12


def make_curves(runs: Sequence[RunScores], rows: Rows) -> list[PageLines]:
    """Return a chart for every setting that was swept over at least two numbers, for each task that
    it affects."""
    accuracy = _get_accuracy_rows(rows)
    chance = {
        row.task: row.value for row in rows if row.contestant == "chance (level)" and not row.slice
    }
    drawn: list[PageLines] = []
    for run in runs:
        arms, places = list[tuple[PointScores, Row]](), dict[str, object]()
        for scores in run.points:
            arms.append((scores, accuracy[run.name, scores.point.id]))
            places |= scores.point.changes
        for place in places:
            drawn += _make_curves_along(place, arms, chance)
    return drawn


def _get_accuracy_rows(rows: Rows) -> dict[tuple[str, str], Row]:
    """Return the accuracy of each arm, by run and point."""
    whole = (row for row in rows if row.metric == "accuracy" and not row.slice)
    return {(row.run, row.point): row for row in whole if row.point}


def _make_curves_along(
    place: str, arms: Sequence[tuple[PointScores, Row]], chance: dict[str, float | None]
) -> Iterator[PageLines]:
    lines = defaultdict[str, dict[str, dict[float, Row]]](lambda: defaultdict(dict))
    for scores, row in arms:
        point = scores.point
        value = get_factor_value(point, place)
        if value is not None and row.value is not None and _belongs_to(place, point):
            edition = scores.contestant.removeprefix(format_contestant_label(point))
            lines[format_task_label(point, place)][format_contestant_label(point, place) + edition][
                value
            ] = row
    for task, by_contestant in lines.items():
        points, levels = dict[str, list[Point]](), set[float | None]()
        for label, by_value in by_contestant.items():
            levels |= {chance.get(row.task) for row in by_value.values()}
            if len(by_value) > 1:
                points[label] = [
                    (x, row.value or 0.0, row.low or 0.0, row.high or 0.0)
                    for x, row in sorted(by_value.items())
                ]
        if points:
            level = levels.pop() if len(levels) == 1 else None
            yield PageLines(_shorten_path(place, task), task, points, level)


def _belongs_to(place: str, point: PointRow) -> bool:
    """Return whether the setting at this path belongs to the point, rather than to another task or
    contestant."""
    if place.startswith("tasks."):
        return place in get_task_changes(point) or place.split(".")[1] == point.task
    return place.startswith(("task.", "stages.")) or place in get_contestant_changes(point)


def make_grids(runs: Sequence[RunScores], rows: Rows) -> list[PageGrid]:
    """Return a heat map for every two settings that were swept together, for each contestant and
    task that has both.

    A cell is the mean accuracy over the other settings; its n is the total over the arms.
    """
    accuracy = _get_accuracy_rows(rows)
    drawn: list[PageGrid] = []
    for run in runs:
        arms = defaultdict[tuple[str, str], list[tuple[PointRow, Row]]](list)
        for scores in run.points:
            row = accuracy[run.name, scores.point.id]
            if row.value is not None and len(scores.point.changes) > 1:
                arms[scores.point.contestant, scores.point.task].append((scores.point, row))
        for place, mine in arms.items():
            drawn += _make_arm_grids(*place, mine)
    return drawn[:MAX_GRIDS]


def _make_arm_grids(
    contestant: str, task: str, arms: Sequence[tuple[PointRow, Row]]
) -> Iterator[PageGrid]:
    first, _ = arms[0]
    places = list[str]()
    for place in first.changes:
        if len({str(get_setting(point, place)) for point, _ in arms}) > 1:
            places.append(place)
    for x, y in combinations(places, 2):
        cells = defaultdict[tuple[Level, Level], list[Row]](list)
        for point, row in arms:
            left, top = ("none" if (at := get_setting(point, p)) is None else at for p in (x, y))
            cells[left, top].append(row)
        means = list[tuple[Level, Level, float, int]]()
        for levels, rows in cells.items():
            means.append((*levels, fmean(r.value or 0.0 for r in rows), sum(r.n for r in rows)))
        base = means[0][:2] if first.baseline else None  # the first level of every setting
        over = [_shorten_path(place, task) for place in places if place not in (x, y)]
        yield PageGrid(
            _shorten_path(x, task), _shorten_path(y, task), task, contestant, means, over, base
        )


def _shorten_path(place: str, task: str) -> str:
    return place.removeprefix("stages.").removeprefix(f"tasks.{task}.").removeprefix("task.")

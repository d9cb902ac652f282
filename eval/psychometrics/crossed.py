"""Two control parameters crossed: accuracy at every pair of their levels, as a table and as a heat
map."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean

from looktwice.eval.display.text_tables import TextTable, percent
from looktwice.eval.page.data import PageGrid
from looktwice.eval.scoring.labels import as_number
from looktwice.eval.scoring.verdict import PointScores, RunScores

MOST = 12  # maps
Level = str | float


def crossed_grids(runs: Sequence[RunScores], by: Sequence[str]) -> list[PageGrid]:
    """A map for each pair of fields in `by`, such as "size,rotation", and each arm whose samples
    have both."""
    pairs = [names for each in by if len(names := each.split(",")) == 2]
    found = (_grid(scores, *names) for names in pairs for run in runs for scores in run.points)
    return [grid for grid in found if len(grid.cells) > 1][:MOST]


def crossed_tables(runs: Sequence[RunScores], by: Sequence[str]) -> Iterator[tuple[str, TextTable]]:
    """The same as tables with their titles: the first field's levels downwards, the second's
    across."""
    for grid in crossed_grids(runs, by):
        cells = {(x, y): (accuracy, n) for x, y, accuracy, n in grid.cells}
        across = sorted({y for _, y in cells}, key=_order)
        lines = [
            (
                _said(x),
                *(
                    f"{percent(cells[x, y][0])}\n{cells[x, y][1]}" if (x, y) in cells else ""
                    for y in across
                ),
            )
            for x in sorted({x for x, _ in cells}, key=_order)
        ]
        header = (f"{grid.x} \\ {grid.y}", *map(_said, across))
        yield (
            f"{grid.contestant}, {grid.task}: % by {grid.x} and {grid.y}",
            TextTable(header, lines),
        )


def _grid(scores: PointScores, x: str, y: str) -> PageGrid:
    cells: dict[tuple[Level, Level], list[float]] = defaultdict(list)
    for name, value in scores.comparable.items():
        meta = scores.samples[name].meta
        if x in meta and y in meta:
            cells[_level(meta[x]), _level(meta[y])].append(value)
    found = [(*levels, fmean(values), len(values)) for levels, values in cells.items()]
    found.sort(key=lambda cell: (_order(cell[0]), _order(cell[1])))
    return PageGrid(x, y, scores.task, scores.contestant, found)


def _level(value: object) -> Level:
    number = as_number(value)
    return str(value) if number is None else number


def _order(level: Level) -> tuple[bool, Level]:
    return isinstance(level, str), level


def _said(level: Level) -> str:
    return level if isinstance(level, str) else f"{level:g}"

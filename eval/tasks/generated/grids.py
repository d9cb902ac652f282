"""Do You See Me's visual spatial subtask: grids of black and white shapes, counted along a row or
column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from looktwice.eval.tasks.generated.canvas import BLACK, WHITE, XY, blank, circle, fill, stroke
from looktwice.eval.tasks.generated.scene import Control, Scene, SceneParameters, SceneType
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

# pixels: a shape, a cell, the gap of two grids, the left and right margin
CELL, PITCH, BETWEEN, SIDE = 50, 55, 50, 20
SHAPES, FILLS = ("square", "circle", "triangle"), ("white", "black")
STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
UNIT = CELL * np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float64)
OUTLINES: Mapping[str, XY] = {
    "square": UNIT,
    "circle": circle(CELL / 2, CELL / 2, CELL / 2),
    "triangle": CELL * np.array([[0.5, 0], [1, 1], [0, 1]]),
}

Place = tuple[int, int]
Grid = Mapping[Place, tuple[str, str]]
"""(row, column) from 0 -> (shape, fill)."""


class Asked(NamedTuple):
    """Grid, place of the reference, direction, and shape and fill of what is counted, None for
    any."""

    grid: int
    place: Place
    direction: str
    shape: str | None
    fill: str | None

    def count(self, grids: Sequence[Grid]) -> int:
        """How many of them lie that way."""
        grid, (row, column), (down, right) = grids[self.grid], self.place, STEPS[self.direction]
        count = 0
        while (row := row + down, column := column + right) in grid:
            shape, color = grid[row, column]
            count += self.shape in (None, shape) and self.fill in (None, color)
        return count

    def question(self, grids: Sequence[Grid]) -> str:
        """The question in the authors' words."""
        shape, color = grids[self.grid][self.place]
        kind = f"{self.shape}s" if self.shape else "objects"
        target = f"{self.fill} {kind}" if self.fill else kind
        line = "row" if self.direction in ("left", "right") else "column"
        row, column = self.place
        return (
            f"In grid {self.grid + 1}, starting from the {color} {shape} at position (row"
            f" {row + 1}, column {column + 1}), how many {target} are there {self.direction} of it"
            f" in the same {line}?"
        )


def draw_grids(params: SceneParameters) -> Iterator[Scene]:
    """A scene. Official: a random question, of which two in five have the answer 0.

    Otherwise first the answer is drawn, among those that these grids allow, and then a question
    that has it.
    """
    rows, columns, number = (params.levels[name] for name in ("rows", "columns", "grids"))
    places = list(product(range(rows), range(columns)))
    grids: list[Grid] = [
        {place: (params.pick(SHAPES), params.pick(FILLS)) for place in places}
        for _ in range(number)
    ]
    asked = (_random_question if params.official else _balanced_question)(params, grids)
    truth = {
        "grids": [
            [[list(grid[row, column]) for column in range(columns)] for row in range(rows)]
            for grid in grids
        ],
        "asked": asked._asdict() | {"place": list(asked.place)},
    }
    marks = []
    for n, (row, column) in product(range(number), places):
        x, y = _corner(n, row, column, columns)
        label = f"grid {n + 1} (row {row + 1}, column {column + 1})"
        marks.append(Box(label, x, y, x + CELL, y + CELL))
    meta = {"direction": asked.direction, "coordinates": "from 1"}
    key = str(asked.count(grids))

    def paint() -> Pixels:
        wide, high = columns * PITCH, rows * PITCH
        pixels = blank(number * wide + (number - 1) * BETWEEN + 2 * SIDE, high)
        for n, grid in enumerate(grids):
            stroke(pixels, UNIT / CELL * (wide, high) + _corner(n, 0, 0, columns), 3)
            for (row, column), (shape, color) in grid.items():
                outline = OUTLINES[shape] + _corner(n, row, column, columns)
                fill(pixels, outline, BLACK if color == "black" else WHITE)
                stroke(pixels, outline, 2)
        return pixels

    yield Scene(asked.question(grids), key, truth, paint, tuple(marks), meta)


def _random_question(params: SceneParameters, grids: Sequence[Grid]) -> Asked:
    number = params.pick(range(len(grids)))
    direction = params.pick([step for step in STEPS if _starts(grids[number], step)])
    place = params.pick(_starts(grids[number], direction))
    sort = params.pick(("fill", "shape", "both"))
    shape = params.pick(SHAPES) if sort != "fill" else None
    color = params.pick(FILLS) if sort != "shape" else None
    return Asked(number, place, direction, shape, color)


def _balanced_question(params: SceneParameters, grids: Sequence[Grid]) -> Asked:
    direction = params.deal([step for step in STEPS if _starts(grids[0], step)])
    by_count: dict[int, list[Asked]] = defaultdict(list)
    for number, grid in enumerate(grids):
        for place in _starts(grid, direction):
            for shape, color in product((None, *SHAPES), (None, *FILLS)):
                if shape or color:
                    asked = Asked(number, place, direction, shape, color)
                    by_count[asked.count(grids)].append(asked)
    return params.pick(by_count[params.pick(sorted(by_count))])


def _starts(grid: Grid, direction: str) -> list[Place]:
    """The places from which something lies in this direction."""
    down, right = STEPS[direction]
    return [(row, column) for row, column in grid if (row + down, column + right) in grid]


def _corner(number: int, row: int, column: int, columns: int) -> tuple[int, int]:
    return SIDE + number * (columns * PITCH + BETWEEN) + column * PITCH, row * PITCH


KIND = SceneType(
    "visual_spatial",
    "integer",
    (
        Control("rows", (3, 6, 9), 1, 30, whole=True),
        Control("columns", (3, 6, 9), 2, 30, whole=True),
        Control("grids", (1, 3, 5), 1, 10, whole=True),
    ),
    draw_grids,
    ("always answering 0 is right for two in five of their questions",),
)

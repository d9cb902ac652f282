"""Do You See Me's visual spatial subtask: grids of black and white shapes, counted along a row or
column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from looktwice.eval.tasks.generated.canvas import BLACK, WHITE, blank, circle, fill, stroke
from looktwice.eval.tasks.generated.scene import Control, Scene, SceneParameters, SceneType
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

NAME = "visual_spatial"
CELL, PITCH, BETWEEN, SIDE = (
    50,
    55,
    50,
    20,
)  # pixels: a shape, a cell, the gap of two grids, the left and right margin
SHAPES, FILLS = ("square", "circle", "triangle"), ("white", "black")
STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}

Place = tuple[int, int]
Grid = Mapping[Place, tuple[str, str]]
"""(row, column) from 0 -> (shape, fill)."""


def draw_grids(params: SceneParameters) -> Scene:
    """A scene. Official: a random question, of which two in five have the answer 0.

    Otherwise first the answer is drawn, among those that these grids allow, and then a question
    that has it.
    """
    rows, columns, number = (params.levels[name] for name in ("rows", "columns", "grids"))
    places = [(row, column) for row in range(rows) for column in range(columns)]
    grids: list[Grid] = [
        {place: (params.pick(SHAPES), params.pick(FILLS)) for place in places}
        for _ in range(number)
    ]
    asked = (
        _random_question(params, grids) if params.official else _balanced_question(params, grids)
    )
    chosen, place, direction, kind, color, count = asked
    question = _question_text(grids[chosen][place], *asked[:-1])
    truth = {
        "grids": [
            [[list(grid[row, column]) for column in range(columns)] for row in range(rows)]
            for grid in grids
        ],
        "asked": {
            "grid": chosen,
            "place": list(place),
            "direction": direction,
            "shape": kind,
            "fill": color,
        },
    }
    marks = [
        Box(f"grid {n + 1} (row {row + 1}, column {column + 1})", x, y, x + CELL, y + CELL)
        for n in range(number)
        for row, column in places
        for x, y in [_corner(n, row, column, columns)]
    ]
    meta = {"direction": direction, "coordinates": "from 1"}
    return Scene(
        question, str(count), truth, lambda: _paint(grids, rows, columns), tuple(marks), meta
    )


Asked = tuple[int, Place, str, str | None, str | None, int]
"""Grid, place of the reference, direction, shape and fill of what is counted (None for any), and
the count."""


def _random_question(params: SceneParameters, grids: Sequence[Grid]) -> Asked:
    number = int(params.rng.integers(len(grids)))
    direction = params.pick(
        [step for step in STEPS if any(True for _ in _starts(grids[number], step))]
    )
    place = params.pick(list(_starts(grids[number], direction)))
    return number, place, direction, *_random_target(params, grids[number], place, direction)


def _random_target(
    params: SceneParameters, grid: Grid, place: Place, direction: str
) -> tuple[str | None, str | None, int]:
    sort = params.pick(("fill", "shape", "both"))
    shape = params.pick(SHAPES) if sort != "fill" else None
    color = params.pick(FILLS) if sort != "shape" else None
    return shape, color, _count(grid, place, direction, shape, color)


def _balanced_question(params: SceneParameters, grids: Sequence[Grid]) -> Asked:
    direction = params.deal([step for step in STEPS if any(True for _ in _starts(grids[0], step))])
    held: dict[int, list[Asked]] = defaultdict(list)
    for number, grid in enumerate(grids):
        for place in _starts(grid, direction):
            for shape, color in _all_targets():
                count = _count(grid, place, direction, shape, color)
                held[count].append((number, place, direction, shape, color, count))
    return params.pick(held[params.pick(sorted(held))])  # type: ignore[no-any-return]


def _all_targets() -> Iterator[tuple[str | None, str | None]]:
    for shape in (None, *SHAPES):
        for color in (None, *FILLS):
            if shape or color:
                yield shape, color


def _starts(grid: Grid, direction: str) -> Iterator[Place]:
    """The places from which something lies in this direction."""
    step = STEPS[direction]
    return (place for place in grid if (place[0] + step[0], place[1] + step[1]) in grid)


def _count(grid: Grid, place: Place, direction: str, shape: str | None, color: str | None) -> int:
    count, (down, right) = 0, STEPS[direction]
    while (place := (place[0] + down, place[1] + right)) in grid:
        count += shape in (None, grid[place][0]) and color in (None, grid[place][1])
    return count


def _question_text(
    base: tuple[str, str],
    number: int,
    place: Place,
    direction: str,
    shape: str | None,
    color: str | None,
) -> str:
    target = " ".join(word for word in (color, f"{shape}s" if shape else "objects") if word)
    line = "row" if direction in ("left", "right") else "column"
    return (
        f"In grid {number + 1}, starting from the {base[1]} {base[0]} at position (row"
        f" {place[0] + 1}, column {place[1] + 1}), how many {target} are there {direction} of it in"
        f" the same {line}?"
    )


def _corner(number: int, row: int, column: int, columns: int) -> tuple[int, int]:
    return SIDE + number * (columns * PITCH + BETWEEN) + column * PITCH, row * PITCH


def _paint(grids: Sequence[Grid], rows: int, columns: int) -> Pixels:
    wide, high = columns * PITCH, rows * PITCH
    pixels = blank(len(grids) * wide + (len(grids) - 1) * BETWEEN + 2 * SIDE, high)
    outlines: dict[str, Any] = {
        "square": np.array([[0, 0], [CELL, 0], [CELL, CELL], [0, CELL]], np.float64),
        "circle": circle(CELL / 2, CELL / 2, CELL / 2),
        "triangle": np.array([[CELL / 2, 0], [CELL, CELL], [0, CELL]], np.float64),
    }
    for number, grid in enumerate(grids):
        frame = np.array([[0, 0], [wide, 0], [wide, high], [0, high]], np.float64)
        stroke(pixels, frame + _corner(number, 0, 0, columns), 3)
        for (row, column), (shape, color) in grid.items():
            outline = outlines[shape] + _corner(number, row, column, columns)
            fill(pixels, outline, BLACK if color == "black" else WHITE)
            stroke(pixels, outline, 2)
    return pixels


KIND = SceneType(
    NAME,
    "integer",
    (
        Control("rows", (3, 6, 9), 1, 30, whole=True),
        Control("columns", (3, 6, 9), 2, 30, whole=True),
        Control("grids", (1, 3, 5), 1, 10, whole=True),
    ),
    draw_grids,
    ("always answering 0 is right for two in five of their questions",),
)

"""Do You See Me's two grid subtasks: counting black and white shapes along a row or column, and
reading letters of 7 x 5 dots, which gaps and colours make hard to see."""

from __future__ import annotations

import colorsys
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from string import ascii_uppercase
from typing import NamedTuple

import numpy as np

from looktwice.eval.tasks.outlines import XY, make_circle, make_rounded_square
from looktwice.eval.tasks.swept import Control, IntegerControl, SceneParameters
from looktwice.extras.do_you_see_me.subtasks import SUBTASKS
from looktwice.extras.scenes.canvas import (
    BLACK,
    RGB,
    SQUARE,
    TRIANGLE,
    WHITE,
    fill_outline,
    make_blank,
    stroke_outline,
)
from looktwice.extras.scenes.scene import Attempts, Scene, SceneType
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

# pixels: a shape, a cell, the gap between two grids, the left and right margin
CELL_SIDE, CELL_PITCH, GRID_GAP, SHAPE_SIDE = 50, 55, 50, 20
SHAPES, FILLS = ("square", "circle", "triangle"), ("white", "black")
DIRECTION_STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
OUTLINES: Mapping[str, XY] = {
    "square": CELL_SIDE * SQUARE,
    "circle": make_circle(CELL_SIDE / 2, CELL_SIDE / 2, CELL_SIDE / 2),
    "triangle": CELL_SIDE * TRIANGLE,
}

Cell = tuple[int, int]
Grid = Mapping[Cell, tuple[str, str]]
"""The (shape, fill) at each (row, column), counted from 0."""


class GridQuestion(NamedTuple):
    """A question about a grid: the grid's index (`grid`), the cell of the reference shape
    (`place`), the direction, and the shape and fill of the targets (None for any)."""

    grid: int
    place: Cell
    direction: str
    shape: str | None
    fill: str | None

    def count_targets(self, grids: Sequence[Grid]) -> int:
        """Count the targets in the question's direction from the reference shape."""
        grid, (row, column), (down, right) = (
            grids[self.grid],
            self.place,
            DIRECTION_STEPS[self.direction],
        )
        count = 0
        while (row := row + down, column := column + right) in grid:
            shape, color = grid[row, column]
            count += self.shape in (None, shape) and self.fill in (None, color)
        return count

    def format_question(self, grids: Sequence[Grid]) -> str:
        """Return the question in the authors' wording."""
        shape, color = grids[self.grid][self.place]
        target = f"{self.fill or ''} {self.shape or 'object'}s".strip()
        line = "row" if self.direction in ("left", "right") else "column"
        row, column = self.place
        return (
            f"In grid {self.grid + 1}, starting from the {color} {shape} at position (row"
            f" {row + 1}, column {column + 1}), how many {target} are there {self.direction} of it"
            f" in the same {line}?"
        )


def draw_grids(params: SceneParameters) -> Attempts:
    """Yield scenes. In the official version the question is random, and two in five answers are 0.

    Otherwise the answer is drawn first, from those possible in these grids, and then a question
    with this answer.
    """
    levels = params.levels
    rows, columns, number = levels["rows"], levels["columns"], levels["grids"]
    places = list(product(range(rows), range(columns)))
    grids: list[Grid] = []
    for _ in range(number):
        grids.append({place: (params.pick(SHAPES), params.pick(FILLS)) for place in places})
    asked = (_draw_question if params.official else _draw_balanced_question)(params, grids)
    cells = [np.reshape([*grid.values()], (rows, columns, 2)).tolist() for grid in grids]
    truth = {"grids": cells, "asked": asked._asdict() | {"place": list(asked.place)}}

    def find_corner(number: int, row: int, column: int) -> tuple[int, int]:
        return SHAPE_SIDE + number * (
            columns * CELL_PITCH + GRID_GAP
        ) + column * CELL_PITCH, row * CELL_PITCH

    marks = []
    for n, (row, column) in product(range(number), places):
        x, y = find_corner(n, row, column)
        label = f"grid {n + 1} (row {row + 1}, column {column + 1})"
        marks.append(Box(label, x, y, x + CELL_SIDE, y + CELL_SIDE))
    meta = {"direction": asked.direction, "coordinates": "from 1"}

    def paint() -> Pixels:
        wide, high = columns * CELL_PITCH, rows * CELL_PITCH
        pixels = make_blank(number * wide + (number - 1) * GRID_GAP + 2 * SHAPE_SIDE, high)
        for n, grid in enumerate(grids):
            stroke_outline(pixels, SQUARE * (wide, high) + find_corner(n, 0, 0), 3)
            for (row, column), (shape, color) in grid.items():
                outline = OUTLINES[shape] + find_corner(n, row, column)
                fill_outline(pixels, outline, BLACK if color == "black" else WHITE)
                stroke_outline(pixels, outline, 2)
        return pixels

    key = str(asked.count_targets(grids))
    yield Scene(asked.format_question(grids), key, truth, paint, tuple(marks), meta)


def _draw_question(params: SceneParameters, grids: Sequence[Grid]) -> GridQuestion:
    number = params.pick(range(len(grids)))
    direction = params.pick([step for step in DIRECTION_STEPS if _list_starts(grids[number], step)])
    place = params.pick(_list_starts(grids[number], direction))
    sort = params.pick(("fill", "shape", "both"))
    shape = params.pick(SHAPES) if sort != "fill" else None
    color = params.pick(FILLS) if sort != "shape" else None
    return GridQuestion(number, place, direction, shape, color)


def _draw_balanced_question(params: SceneParameters, grids: Sequence[Grid]) -> GridQuestion:
    direction = params.deal([step for step in DIRECTION_STEPS if _list_starts(grids[0], step)])
    by_count: dict[int, list[GridQuestion]] = defaultdict(list)
    targets = list(product((None, *SHAPES), (None, *FILLS)))[1:]
    for number, grid in enumerate(grids):
        for place, (shape, color) in product(_list_starts(grid, direction), targets):
            asked = GridQuestion(number, place, direction, shape, color)
            by_count[asked.count_targets(grids)].append(asked)
    return params.pick(by_count[params.pick(sorted(by_count))])


def _list_starts(grid: Grid, direction: str) -> list[Cell]:
    """Return the cells of a grid that have a neighbour in this direction."""
    down, right = DIRECTION_STEPS[direction]
    return [(row, column) for row, column in grid if (row + down, column + right) in grid]


GRIDS_TYPE = SceneType(
    "visual_spatial",
    "integer",
    (
        IntegerControl("rows", (3, 6, 9), 1, 30),
        IntegerControl("columns", (3, 6, 9), 2, 30),
        IntegerControl("grids", (1, 3, 5), 1, 10),
    ),
    draw_grids,
    ("the answer to two in five of their questions is 0",),
)

# ---- letters of dots

LETTERS_NAME = "letter_disambiguation"
LETTER_SIZE = 400  # pixels of the square of a letter; the gap between two is a fifth of it
LETTER_GAP = 80
# A to Z: seven rows of five dots, each row a number of base 32
_LETTER_ROWS = (
    "EHHVHHH",
    "UHHUHHU",
    "EHGGGHE",
    "UHHHHHU",
    "VGGUGGV",
    "VGGUGGG",
    "EHGNHHE",
    "HHHVHHH",
    "V44444V",
    "7222IIC",
    "HIKOKIH",
    "GGGGGGV",
    "HRLHHHH",
    "HPLJHHH",
    "EHHHHHE",
    "UHHUGGG",
    "EHHHLID",
    "UHHUKIH",
    "EHGE1HE",
    "V444444",
    "HHHHHHE",
    "HHHHHA4",
    "HHHHLRH",
    "HHA4AHH",
    "HHA4444",
    "V1248GV",
)
LETTER_DOTS: dict[str, tuple[int, ...]] = {
    letter: tuple(int(row, 32) for row in rows)
    for letter, rows in zip(ascii_uppercase, _LETTER_ROWS, strict=True)
}
BACKGROUND_COLORS: tuple[RGB, ...] = (
    (250, 243, 221),
    (232, 243, 214),
    (252, 228, 236),
    (240, 244, 248),
    (255, 230, 109),
)
# hue in degrees, saturation, value
COLOR_SHIFTS = {1: (180, 1.2, 0.85), 2: (60, 1.2, 0.9), 3: (10, 1.05, 0.95)}
CONTRAST_RATIOS = {1: 1.7, 2: 1.3, 3: 1.1}
"""The contrast ratios (WCAG 2) of the levels easy, medium and hard, which approximate the median
contrasts of the authors' colours with their backgrounds."""

RATIO_PATTERN = re.compile(r"(\d+(?:\.\d+)?):1")


class Contrast(Control):
    """A control parameter whose level is 1, 2 or 3, or a contrast ratio as a string, such as
    "1.5:1"."""

    def find_fault(self, value: object) -> str:
        """Return a sentence that says what is wrong with a level; "" if the level is valid."""
        ratio = RATIO_PATTERN.fullmatch(value) if isinstance(value, str) else None
        if value in CONTRAST_RATIOS or (ratio and 1 < float(ratio[1]) <= 15):
            return ""
        return (
            f'{self.name} must be 1 (easy), 2 or 3 (hard), or a ratio such as "1.5:1" up to'
            f' "15:1", got {value!r}'
        )


def compute_contrast(color: RGB, ground: RGB) -> float:
    """Compute the contrast ratio (WCAG 2) of two colours, 1 to 21."""
    low, high = sorted((_compute_luminance(color), _compute_luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def _compute_luminance(color: RGB) -> float:
    parts = np.array(color) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def choose_foreground(ground: RGB, level: int | str, official: bool) -> RGB:
    """Return the colour of the dots: the background's colour, shifted in hue, saturation and value
    as the authors shift it. Unless `official`, the colour is darkened or lightened until it has the
    level's contrast with the background.
    """
    hue, saturation, value = colorsys.rgb_to_hsv(*(part / 255 for part in ground))
    turn, more, less = COLOR_SHIFTS[level if isinstance(level, int) else 1]
    tint = colorsys.hsv_to_rgb(
        (hue + turn / 360) % 1, min(1, saturation * more), min(1, value * less)
    )
    color = _to_rgb(255 * np.array(tint))
    if official and level in COLOR_SHIFTS:
        return color
    ratio = CONTRAST_RATIOS[level] if isinstance(level, int) else float(level.partition(":")[0])
    end = np.array(BLACK if compute_contrast(color, ground) < ratio else WHITE)
    mixed = [
        _to_rgb((1 - share) * np.array(color) + share * end) for share in np.linspace(0, 1, 512)
    ]
    darker = [mix for mix in mixed if _compute_luminance(mix) < _compute_luminance(ground)]
    return min(darker, key=lambda mix: abs(compute_contrast(mix, ground) - ratio), default=mixed[0])


def _to_rgb(parts: Iterable[float]) -> RGB:
    red, green, blue = map(int, parts)
    return red, green, blue


def draw_letters(params: SceneParameters) -> Attempts:
    """Yield scenes of random letters, which may repeat, on one of five background colours."""
    letters = [params.pick(tuple(LETTER_DOTS)) for _ in range(params.levels["num_letters"])]
    ground = params.pick(BACKGROUND_COLORS)
    color = choose_foreground(ground, params.levels["contrast"], params.official)
    gap = LETTER_SIZE * params.levels["spacing"]
    dot = 0.8 * LETTER_SIZE / 7 - gap  # a seventh of the padded square, minus the gap
    width, height = 5 * dot + 4 * gap, 7 * dot + 6 * gap
    top = (LETTER_SIZE - height) / 2
    lefts = (
        np.arange(len(letters)) * (LETTER_SIZE + LETTER_GAP) + (LETTER_SIZE - width) / 2
    ).tolist()
    marks = [Box(f"letter {n}", x, top, x + width, top + height) for n, x in enumerate(lefts, 1)]
    truth = {"letters": letters, "ground": list(ground), "color": list(color)}
    meta = {"dot": round(dot, 2), "contrast_ratio": round(compute_contrast(color, ground), 3)}

    def paint() -> Pixels:
        wide = len(letters) * (LETTER_SIZE + LETTER_GAP) - LETTER_GAP
        pixels = make_blank(wide, LETTER_SIZE)
        for end in (0, wide - LETTER_SIZE):
            fill_outline(pixels, make_rounded_square(end, 0, LETTER_SIZE, LETTER_SIZE / 10), ground)
        pixels[:, LETTER_SIZE // 2 : wide - LETTER_SIZE // 2] = ground
        for letter, left in zip(letters, lefts, strict=True):
            for (row, bits), column in product(enumerate(LETTER_DOTS[letter]), range(5)):
                if bits >> (4 - column) & 1:
                    x, y = left + column * (dot + gap), top + row * (dot + gap)
                    fill_outline(pixels, make_rounded_square(x, y, dot, dot / 10), color)
        return pixels

    yield Scene(
        SUBTASKS["2D"][LETTERS_NAME].question, "".join(letters), truth, paint, tuple(marks), meta
    )


LETTERS_TYPE = SceneType(
    LETTERS_NAME,
    "letters",
    (
        IntegerControl("num_letters", (1, 5, 9), 1, 40),
        Contrast("contrast", (1, 2, 3)),
        Control("spacing", (0.04, 0.08, 0.1), 0.005, 0.11),
    ),
    draw_letters,
    ("on near-white grounds every contrast level is faint, so contrast does not follow its level",),
)

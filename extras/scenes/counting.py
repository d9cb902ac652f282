"""Do You See Me's subtasks that count shapes, and its two studies of object sizes.

Shape discrimination shows outlines of several kinds, some of them concentric; joint shape and
colour shows filled shapes that do not touch. The studies of appendix O measure sizes relative to
the encoder's patches of 14 px, so their pictures are 28 patches wide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from looktwice.eval.tasks.outlines import XY, make_circle, make_regular_polygon, make_star, rotate
from looktwice.eval.tasks.swept import Control, IntegerControl, SceneParameters
from looktwice.extras.scenes.canvas import (
    BLACK,
    RGB,
    SQUARE,
    fill_outline,
    get_extent,
    make_blank,
    stroke_outline,
)
from looktwice.extras.scenes.scene import Attempts, Scene, SceneType, number_labels
from looktwice.pipelines.geometry import Rect, grow, overlaps
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

PICTURE_SIDE = 400  # pixels of the picture
MAX_PLACEMENT_TRIES = 50  # positions tried for a figure
# pixels from the centre of an outline of scale 1 to the side of its square
HALF_SIDE = 30.0
RING_SCALES = (1.0, 0.7, 0.4)
OUTLINES: dict[str, XY] = {
    "circle": make_circle(HALF_SIDE),
    "rectangle": np.array([[-30, -20], [30, -20], [30, 20], [-30, 20]], np.float64),
    "triangle": np.array([[0, -30], [30, 30], [-30, 30]], np.float64),
    "hexagon": make_regular_polygon(6, HALF_SIDE, 0),
    "star": make_star(5, HALF_SIDE, HALF_SIDE / 2),
    "pentagon": make_regular_polygon(5, HALF_SIDE),
    "octagon": make_regular_polygon(8, HALF_SIDE, -22.5),
}
COLORS: dict[str, RGB] = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "orange": (255, 165, 0),
    "purple": (128, 0, 128),
    "black": (0, 0, 0),
    "gray": (128, 128, 128),
    "yellow": (255, 255, 0),
}


def _parse_corners(text: str) -> XY:
    """Parse corners "x,y x,y ..." and centre them on their mean."""
    points = np.array([pair.split(",") for pair in text.split()], np.float64)
    return np.asarray(points - points.mean(axis=0), np.float64)


FILLED_SHAPES: dict[str, XY] = {
    "star": _parse_corners("50,10 61,40 94,40 68,60 79,90 50,70 21,90 32,60 6,40 39,40"),
    "triangle": _parse_corners("50,20 80,80 20,80"),
    "pentagon": _parse_corners("50,20 80,40 70,80 30,80 20,40"),
    "hexagon": _parse_corners("50,20 80,35 80,65 50,80 20,65 20,35"),
    "octagon": _parse_corners("35,20 65,20 80,35 80,65 65,80 35,80 20,65 20,35"),
    "cross": _parse_corners(
        "35,20 65,20 65,35 80,35 80,65 65,65 65,80 35,80 35,65 20,65 20,35 35,35"
    ),
}


@dataclass(frozen=True)
class Figure:
    """A filled shape with a `color`, or an outline of `ring_count` concentric rings, whose line
    width shrinks with their size; about 60 px wide at scale 1."""

    shape: str
    x: float
    y: float
    scale: float
    rotation: float
    color: str = ""
    ring_count: int = 1

    @property
    def name(self) -> str:
        """The figure's name, such as "star" or "red star"."""
        return f"{self.color} {self.shape}".strip()

    @property
    def contours(self) -> list[XY]:
        """The corners of every ring, the largest first."""
        outline = (FILLED_SHAPES if self.color else OUTLINES)[self.shape]
        whole = rotate(outline * self.scale, self.rotation)
        return [whole * ring + (self.x, self.y) for ring in RING_SCALES[: self.ring_count]]

    @property
    def box(self) -> Rect:
        """The axis-aligned box around the figure."""
        return get_extent(
            self.contours[0], (PICTURE_SIDE, PICTURE_SIDE), 1 if self.color else self.scale / 2
        )

    @property
    def rotated_box(self) -> Rect:
        """The axis-aligned box around the rotated bounding box of a filled shape."""
        width, height = np.ptp(FILLED_SHAPES[self.shape], axis=0) * self.scale
        turn = math.radians(self.rotation)
        cos, sin = abs(math.cos(turn)), abs(math.sin(turn))
        wide, high = (width * cos + height * sin) / 2, (width * sin + height * cos) / 2
        return self.x - wide, self.y - high, self.x + wide, self.y + high

    def draw(self, pixels: Pixels) -> None:
        """Draw the figure on the pixels."""
        for ring, contour in zip(RING_SCALES, self.contours, strict=False):
            if self.color:
                fill_outline(pixels, contour, COLORS[self.color])
            stroke_outline(pixels, contour, 2 if self.color else self.scale * ring)

    def to_dict(self) -> dict[str, Any]:
        """Return the figure in the form of an item's truth."""
        numbers = {name: round(getattr(self, name), 3) for name in ("x", "y", "scale", "rotation")}
        if self.color:
            numbers = {"color": self.color, **numbers}
        else:
            numbers["rings"] = self.ring_count
        return {"shape": self.shape, **numbers, "box": list(self.box)}


def _make_scene(
    question: str, figures: Sequence[Figure], counts: Mapping[str, int], *asked: str
) -> Scene:
    """Build a scene whose question asks how many figures have a shape, or a shape and colour."""
    labels = number_labels(figure.name for figure in figures)
    marks = [Box(label, *figure.box) for label, figure in zip(labels, figures, strict=True)]
    name = " ".join(reversed(asked))
    words = asked[0] if len(asked) == 1 else [*asked]
    truth = {"objects": [*map(Figure.to_dict, figures)], "counts": dict(counts), "asked": words}

    def paint() -> Pixels:
        pixels = make_blank(PICTURE_SIDE, PICTURE_SIDE)
        for figure in figures:
            figure.draw(pixels)
        return pixels

    return Scene(question, str(counts.get(name, 0)), truth, paint, tuple(marks), counted_label=name)


# ---- shape discrimination

RINGED_SHARE = 0.4  # share of shapes with rings
RINGS_QUESTION = (
    "Count the total number of {0}s in the image, including each concentric {0} separately. For"
    " example, if there is one {0} with 2 inner concentric rings, that counts as 3 {0}s. Respond"
    " with only a number."
)


def are_separated(first: Figure, second: Figure, distance: float) -> bool:
    """Return whether the rotated squares around two outlines are more than `distance` apart; a
    negative distance allows overlap.

    Two squares are separated if their projections onto any of their four side directions are
    (separating axis theorem).
    """
    for axis in (a + turn for a in (first.rotation, second.rotation) for turn in (0, 90)):
        cos, sin = math.cos(math.radians(axis)), math.sin(math.radians(axis))
        between = abs((first.x - second.x) * cos + (first.y - second.y) * sin)
        for figure in (first, second):
            turn = math.radians(figure.rotation - axis)
            between -= HALF_SIDE * figure.scale * (abs(math.cos(turn)) + abs(math.sin(turn)))
        if between > distance:
            return True
    return False


def draw_shapes(params: SceneParameters) -> Attempts:
    """Yield scenes whose question asks for the number of a random shape among those present."""
    while True:
        figures = _place_outlines(params)
        counts: Counter[str] = Counter()
        for figure in figures:
            counts[figure.shape] += figure.ring_count
        if len(counts) == params.levels["num_shapes"] or (counts and params.official):
            asked = params.pick(sorted(counts))
            yield _make_scene(RINGS_QUESTION.format(asked), figures, counts, asked)
        else:
            yield None


def _place_outlines(params: SceneParameters) -> list[Figure]:
    """Place outlines where there is room. Except in the official version, begin with one of each
    kind, and return none if one of these has no room."""
    rng, levels = params.rng, params.levels
    kinds = params.shuffled(OUTLINES)[: levels["num_shapes"]]
    times = rng.integers(1, levels["max_instances"], len(kinds), endpoint=True)
    order = [(n, kind) for kind, repeats in zip(kinds, times, strict=True) for n in range(repeats)]
    if not params.official:
        order.sort(key=lambda numbered: numbered[0] > 0)
    placed: list[Figure] = []
    for number, kind in order:
        for _ in range(MAX_PLACEMENT_TRIES):
            scale, rotation = rng.uniform(0.8, 2.0), rng.uniform(0, 360)
            rim = 1.2 * 2 * HALF_SIDE * scale
            x, y = rng.uniform(rim, PICTURE_SIDE - rim, 2).tolist()
            figure = Figure(kind, x, y, scale, rotation)
            if all(
                are_separated(figure, neighbour, levels["min_distance"]) for neighbour in placed
            ):
                rings = params.draw_integer(2, 3) if rng.random() < RINGED_SHARE else 1
                placed.append(replace(figure, ring_count=rings))
                break
        else:
            if number == 0 and not params.official:
                return []
    return placed


SHAPES_TYPE = SceneType(
    "shape_discrimination",
    "integer",
    (
        IntegerControl("num_shapes", (3, 7), 1, 7),
        IntegerControl("max_instances", (3, 6, 10), 1, 100),
        Control("min_distance", (10, -20, -30, -40), -100, 200),
    ),
    draw_shapes,
    (
        "shapes without room are left out, so a quarter of the images hold fewer kinds than"
        " num_shapes says",
    ),
)

# ---- joint shape and colour

# pixels between the rooms of two figures, so that their lines do not touch
MIN_FIGURE_DISTANCE = 6.0
# the picture's area per figure, in areas of the mean figure's cell of 100 x 100 units
FIGURE_MARGIN = 4


def draw_colors(params: SceneParameters) -> Attempts:
    """Yield scenes whose question asks for the number of a shape in a colour. In the official
    version figures are placed as long as there is room, the question is about a pair that is
    present, and sizes depend on a number drawn independently of the figures.

    Otherwise every number from 0 to `max_instances` is the answer equally often, independently of
    the drawing.
    """
    most, tints = params.levels["max_instances"], params.levels["num_colors"]
    kinds = params.shuffled(FILLED_SHAPES)[: params.levels["num_shapes"]]
    for number in count():
        times = params.rng.integers(1, most, len(kinds), endpoint=True)
        if params.official:
            palette = list(COLORS)[:tints]
            order = [kind for kind in kinds for _ in range(params.draw_integer(1, most))]
            colors = [params.pick(palette) for _ in order]
            figures = _place_filled(params, order, colors, int(times.sum()), 1)
            pairs = sorted({(figure.shape, figure.color) for figure in figures})
            yield _make_color_scene(figures, *params.pick(pairs)) if figures else None
            continue
        key = params.deal(range(most + 1))
        times[0] = max(times[0], key)
        palette = params.shuffled(COLORS)[:tints]
        order = np.repeat(kinds, times).tolist()
        # `key` figures of the first kind have the first colour; other kinds have any colour
        colors = [palette[0]] * key
        while len(colors) < len(order):
            colors.append(params.pick(palette[1:] if len(colors) < times[0] else palette))
        figures = _place_filled(params, order, colors, len(order), 0.99**number)
        whole = len(figures) == len(order)
        yield _make_color_scene(figures, kinds[0], palette[0]) if whole else None


def _place_filled(
    params: SceneParameters, order: Sequence[str], colors: Sequence[str], sharing: int, size: float
) -> list[Figure]:
    """Place figures where there is room, at a random size around the mean for `size`, or slightly
    smaller; `sharing` is the number of figures among which the picture's area is divided."""
    mean = size * math.sqrt(PICTURE_SIDE * PICTURE_SIDE / (FIGURE_MARGIN * sharing)) / 100
    apart = 0 if params.official else MIN_FIGURE_DISTANCE
    placed: list[Figure] = []
    for kind, color in zip(order, colors, strict=True):
        own = params.rng.uniform(0.5, 1.5) * mean
        for smaller in np.repeat((1.0, 0.8), MAX_PLACEMENT_TRIES).tolist():
            scale = own * smaller
            sides = np.ptp(FILLED_SHAPES[kind], axis=0) * scale
            low = max(10.0, *(sides / 20)) + sides / 2
            if (low >= PICTURE_SIDE - low).any():
                continue
            x, y = params.rng.uniform(low, PICTURE_SIDE - low).tolist()
            figure = Figure(kind, x, y, scale, params.rng.uniform(0, 360), color)
            room = grow(figure.rotated_box, apart)
            if not any(overlaps(room, neighbour.rotated_box) for neighbour in placed):
                placed.append(figure)
                break
    return placed


def _make_color_scene(figures: Sequence[Figure], shape: str, color: str) -> Scene:
    ordered = sorted(figures, key=lambda figure: (figure.shape, figure.color))
    counts = Counter(figure.name for figure in ordered)
    question = f"Count the number of {shape}'s that are {color}."
    return _make_scene(question, figures, counts, shape, color)


COLORED_TYPE = SceneType(
    "joint_shape_color",
    "integer",
    (
        IntegerControl("num_shapes", (2, 4, 6), 1, 6),
        IntegerControl("max_instances", (2, 4, 6), 1, 30),
        IntegerControl("num_colors", (8,), 2, 8),
    ),
    draw_colors,
    (
        "questions ask only about pairs of shape and colour that are present, most of them once",
        "sizes depend on a number of figures that is not the picture's own; figures without room"
        " are left out; lines may touch",
    ),
)

# ---- sizes relative to patches

PATCH_SIDE = 14  # pixels
PICTURE_WIDTH = 28 * PATCH_SIDE
RECTANGLE_MARGIN = 4.0  # pixels between two rectangles, and between a rectangle and the border
MAX_ATTEMPTS = 200  # positions tried for all rectangles of a picture
EDGE_RATIO = 0.8  # a rectangle's shorter edge, as a share of the longer one


def draw_rotation(params: SceneParameters) -> Attempts:
    """Yield scenes of two filled squares side by side, of which the right one is rotated by
    `rotation` degrees, clockwise or counterclockwise.

    Their offset within a patch is random, and the same for both.
    """
    size = float(params.levels["size"])
    turn = float(params.levels["rotation"]) * params.pick((-1, 1))
    place = (
        np.array([PICTURE_WIDTH / 4, PICTURE_WIDTH / 2])
        + params.rng.uniform(0, PATCH_SIDE, 2)
        - PATCH_SIDE / 2
    )
    square = (2 * SQUARE - 1) * size / 2
    outlines = [square + place, rotate(square, turn) + place + (PICTURE_WIDTH / 2, 0)]
    truth = {"center": place.round(3).tolist(), "size": size, "turn": turn}
    question = "Is the right square rotated with respect to the left one? Answer Yes or No."
    labels = ("left square", "right square")
    yield _make_black_scene(question, "Yes" if turn else "No", truth, outlines, labels, size)


def draw_counting(params: SceneParameters) -> Attempts:
    """Yield scenes of filled axis-aligned rectangles of one size at random positions, which do not
    touch."""
    size, number = float(params.levels["size"]), params.levels["instances"]
    shape = np.array([size, EDGE_RATIO * size])
    while number * np.prod(shape + RECTANGLE_MARGIN) <= (PICTURE_WIDTH - RECTANGLE_MARGIN) ** 2:
        corners: list[XY] = []
        for _ in range(MAX_ATTEMPTS):
            corner = params.rng.uniform(RECTANGLE_MARGIN, PICTURE_WIDTH - RECTANGLE_MARGIN - shape)
            apart = (np.abs(corner - taken) >= shape + RECTANGLE_MARGIN for taken in corners)
            if len(corners) < number and all(beside.any() for beside in apart):
                corners.append(corner)
        if len(corners) < number:
            yield None
            continue
        places = np.reshape(corners, (-1, 2)).round(3).tolist()
        truth = {"corners": places, "size": shape.round(3).tolist()}
        outlines = [SQUARE * shape + corner for corner in corners]
        labels = list(number_labels(["rectangle"] * number))
        question = "How many rectangles are in the image? Answer with a number."
        scene = _make_black_scene(question, str(number), truth, outlines, labels, size)
        yield replace(scene, counted_label="rectangle")


def _make_black_scene(
    question: str,
    key: str,
    truth: dict[str, Any],
    outlines: Sequence[XY],
    labels: Sequence[str],
    size: float,
) -> Scene:
    def paint() -> Pixels:
        pixels = make_blank(PICTURE_WIDTH, PICTURE_WIDTH)
        for outline in outlines:
            fill_outline(pixels, outline, BLACK)
        return pixels

    named = zip(labels, outlines, strict=True)
    marks = tuple(Box(label, *get_extent(outline)) for label, outline in named)
    return Scene(question, key, truth, paint, marks, {"patches": round(size / PATCH_SIDE, 3)})


ROTATION_TYPE = SceneType(
    "patch_rotation",
    "yes_no",
    (
        Control("size", (7, 14, 28, 42, 56, 70), 2, 130),
        Control("rotation", (0, 0, 0, 0, 5, 10, 15, 20), 0, 45),
    ),
    draw_rotation,
    group="App. O",
)
COUNTING_TYPE = SceneType(
    "patch_counting",
    "integer",
    (
        Control("size", (7, 21, 35, 49, 63), 2, 180),
        IntegerControl("instances", (2, 3, 4, 5, 6, 7, 8), 1, 60),
    ),
    draw_counting,
    group="App. O",
)

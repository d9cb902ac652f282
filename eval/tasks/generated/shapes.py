"""Do You See Me's shape discrimination: outlines of several kinds, some of them concentric, of
which one is counted."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from looktwice.eval.tasks.generated.canvas import (
    XY,
    blank,
    circle,
    extent,
    regular_polygon,
    rotate,
    star,
    stroke,
)
from looktwice.eval.tasks.generated.scene import (
    TRIES,
    Control,
    Scene,
    SceneParameters,
    SceneType,
    no_room_error,
)
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

NAME = "shape_discrimination"
SIDE = 400  # pixels of the picture
# pixels from the centre of a shape of scale 1 to the side of the square that stands for it
HALF = 30.0
PLACES = 50  # that are tried for a shape
CONCENTRIC = 0.4  # how often a shape has rings
RINGS = (1.0, 0.7, 0.4)
OUTLINES: dict[str, XY] = {
    "circle": circle(HALF),
    "rectangle": np.array([[-30, -20], [30, -20], [30, 20], [-30, 20]], np.float64),
    "triangle": np.array([[0, -30], [30, 30], [-30, 30]], np.float64),
    "hexagon": regular_polygon(6, HALF, 0),
    "star": star(5, HALF, HALF / 2),
    "pentagon": regular_polygon(5, HALF),
    "octagon": regular_polygon(8, HALF, -22.5),
}
QUESTION = (
    "Count the total number of {0}s in the image, including each concentric {0} separately. For"
    " example, if there is one {0} with 2 inner concentric rings, that counts as 3 {0}s. Respond"
    " with only a number."
)


@dataclass(frozen=True)
class ConcentricShape:
    """A shape with its rings: the first is the shape itself, the others are smaller; the line
    shrinks with them."""

    shape: str
    x: float
    y: float
    scale: float
    rotation: float
    rings: int = 1

    @property
    def contours(self) -> list[XY]:
        """The corners of every ring."""
        whole = rotate(OUTLINES[self.shape] * self.scale, self.rotation)
        return [whole * ring + (self.x, self.y) for ring in RINGS[: self.rings]]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The upright box around it."""
        return extent(self.contours[0], (SIDE, SIDE), self.scale / 2)

    def to_dict(self) -> dict[str, Any]:
        """As truths hold it."""
        numbers = {name: round(getattr(self, name), 3) for name in ("x", "y", "scale", "rotation")}
        return {"shape": self.shape, **numbers, "rings": self.rings, "box": list(self.box)}


def are_apart(one: ConcentricShape, other: ConcentricShape, distance: float) -> bool:
    """Whether more than `distance` lies between the turned squares around two shapes; less than 0
    lets them overlap.

    Squares are apart where their shadows on one of the four directions of their sides are
    (separating axes).
    """
    for axis in (a + turn for a in (one.rotation, other.rotation) for turn in (0, 90)):
        cos, sin = math.cos(math.radians(axis)), math.sin(math.radians(axis))
        between = abs((one.x - other.x) * cos + (one.y - other.y) * sin)
        if between - _shadow(one, axis) - _shadow(other, axis) > distance:
            return True
    return False


def _shadow(shape: ConcentricShape, axis: float) -> float:
    turn = math.radians(shape.rotation - axis)
    return HALF * shape.scale * (abs(math.cos(turn)) + abs(math.sin(turn)))


def draw_shapes(params: SceneParameters) -> Scene:
    """A scene; the shape that is asked for is a random one of those that are there."""
    for _ in range(TRIES):
        outlines = _place_all(params)
        kinds = {outline.shape for outline in outlines}
        if (params.official and kinds) or len(kinds) == params.levels["num_shapes"]:
            return _make_scene(params, outlines)
    raise no_room_error(NAME, params)


def _place_all(params: SceneParameters) -> list[ConcentricShape]:
    """Shapes where there was room. The first of every kind come first, so that no kind is crowded
    out by another."""
    rng, levels = params.rng, params.levels
    kinds = [str(kind) for kind in rng.permutation(list(OUTLINES))[: levels["num_shapes"]]]
    times = rng.integers(1, levels["max_instances"], len(kinds), endpoint=True)
    order = [
        (number, kind) for kind, count in zip(kinds, times, strict=True) for number in range(count)
    ]
    order = order if params.official else sorted(order, key=lambda pair: pair[0] > 0)
    found: list[ConcentricShape] = []
    for number, kind in order:
        placed = _place(rng, kind, found, levels["min_distance"])
        if placed is None and number == 0 and not params.official:
            return []
        found += [placed] if placed else []
    return found


def _place(
    rng: Generator, kind: str, others: list[ConcentricShape], distance: float
) -> ConcentricShape | None:
    for _ in range(PLACES):
        scale, rotation = rng.uniform(0.8, 2.0), rng.uniform(0, 360)
        rim = 1.2 * 2 * HALF * scale
        x, y = rng.uniform(rim, SIDE - rim, 2)
        outline = ConcentricShape(kind, float(x), float(y), scale, rotation)
        if all(are_apart(outline, other, distance) for other in others):
            rings = int(rng.integers(2, 3, endpoint=True)) if rng.random() < CONCENTRIC else 1
            return ConcentricShape(kind, float(x), float(y), scale, rotation, rings)
    return None


def _make_scene(params: SceneParameters, outlines: list[ConcentricShape]) -> Scene:
    counts: Counter[str] = Counter()
    for outline in outlines:
        counts[outline.shape] += outline.rings
    asked = params.pick(sorted(counts))
    numbers: Counter[str] = Counter()
    marks = []
    for outline in outlines:
        numbers[outline.shape] += 1
        marks.append(Box(f"{outline.shape} {numbers[outline.shape]}", *outline.box))
    truth = {
        "objects": [outline.to_dict() for outline in outlines],
        "counts": dict(counts),
        "asked": asked,
    }
    return Scene(
        QUESTION.format(asked),
        str(counts[asked]),
        truth,
        lambda: _paint(outlines),
        tuple(marks),
        asked=asked,
    )


def _paint(outlines: list[ConcentricShape]) -> Pixels:
    pixels = blank(SIDE, SIDE)
    for outline in outlines:
        for ring, contour in zip(RINGS, outline.contours, strict=False):
            stroke(pixels, contour, outline.scale * ring)
    return pixels


KIND = SceneType(
    NAME,
    "integer",
    (
        Control("num_shapes", (3, 7), 1, 7, whole=True),
        Control("max_instances", (3, 6, 10), 1, 100, whole=True),
        Control("min_distance", (10, -20, -30, -40), -100, 200),
    ),
    draw_shapes,
    (
        (
            "shapes without room are left out, so a fourth of the images hold fewer kinds than"
            " num_shapes says"
        ),
    ),
)

"""Do You See Me's shape discrimination: outlines of several kinds, some of them concentric, of
which one is counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

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
    Control,
    Scene,
    SceneParameters,
    SceneType,
    number_labels,
)
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import Pixels

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


def are_apart(first: ConcentricShape, second: ConcentricShape, distance: float) -> bool:
    """Whether more than `distance` lies between the turned squares around two shapes; less than 0
    lets them overlap.

    Squares are apart where their shadows on one of the four directions of their sides are
    (separating axes).
    """
    for axis in (a + turn for a in (first.rotation, second.rotation) for turn in (0, 90)):
        cos, sin = math.cos(math.radians(axis)), math.sin(math.radians(axis))
        between = abs((first.x - second.x) * cos + (first.y - second.y) * sin)
        for shape in (first, second):
            turn = math.radians(shape.rotation - axis)
            between -= HALF * shape.scale * (abs(math.cos(turn)) + abs(math.sin(turn)))
        if between > distance:
            return True
    return False


def draw_shapes(params: SceneParameters) -> Iterator[Scene | None]:
    """Scenes; the shape that is asked for is a random one of those that are there."""
    while True:
        outlines = _place_all(params)
        kinds = {outline.shape for outline in outlines}
        enough = kinds if params.official else len(kinds) == params.levels["num_shapes"]
        yield _make_scene(params, outlines) if enough else None


def _place_all(params: SceneParameters) -> list[ConcentricShape]:
    """Shapes where there was room. The first of every kind come first, so that no kind is crowded
    out by another."""
    rng, levels = params.rng, params.levels
    kinds = params.shuffled(OUTLINES)[: levels["num_shapes"]]
    times = rng.integers(1, levels["max_instances"], len(kinds), endpoint=True)
    order = [(n, kind) for kind, much in zip(kinds, times, strict=True) for n in range(much)]
    if not params.official:
        order.sort(key=lambda numbered: numbered[0] > 0)
    placed: list[ConcentricShape] = []
    for number, kind in order:
        for _ in range(PLACES):
            scale, rotation = rng.uniform(0.8, 2.0), rng.uniform(0, 360)
            rim = 1.2 * 2 * HALF * scale
            x, y = (float(place) for place in rng.uniform(rim, SIDE - rim, 2))
            outline = ConcentricShape(kind, x, y, scale, rotation)
            if all(are_apart(outline, neighbour, levels["min_distance"]) for neighbour in placed):
                rings = params.whole(2, 3) if rng.random() < CONCENTRIC else 1
                placed.append(replace(outline, rings=rings))
                break
        else:
            if number == 0 and not params.official:
                return []
    return placed


def _make_scene(params: SceneParameters, outlines: list[ConcentricShape]) -> Scene:
    counts: Counter[str] = Counter()
    for outline in outlines:
        counts[outline.shape] += outline.rings
    asked = params.pick(sorted(counts))
    labels = number_labels(outline.shape for outline in outlines)
    marks = [Box(label, *outline.box) for label, outline in zip(labels, outlines, strict=True)]
    objects = [outline.to_dict() for outline in outlines]
    truth = {"objects": objects, "counts": dict(counts), "asked": asked}

    def paint() -> Pixels:
        pixels = blank(SIDE, SIDE)
        for outline in outlines:
            for ring, contour in zip(RINGS, outline.contours, strict=False):
                stroke(pixels, contour, outline.scale * ring)
        return pixels

    question, key = QUESTION.format(asked), str(counts[asked])
    return Scene(question, key, truth, paint, tuple(marks), asked=asked)


KIND = SceneType(
    "shape_discrimination",
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

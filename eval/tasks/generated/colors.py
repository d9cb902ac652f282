"""Do You See Me's joint shape and colour: filled shapes that do not touch; one kind in one colour
is counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from looktwice.eval.tasks.generated.canvas import (
    RGB,
    XY,
    blank,
    extent,
    fill,
    rotate,
    stroke,
    translate,
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
PLACES = 50  # that are tried for a figure, at each of two sizes
APART = (
    6.0  # pixels between the rooms of two figures, so that the points of their lines do not meet
)
# times the area of the mean figure's cell of 100 x 100 units that each figure has of the picture
SPACE = 4
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


def _corners(text: str) -> XY:
    """Corners "x,y x,y ..." around their own mean."""
    points = np.array([[float(number) for number in pair.split(",")] for pair in text.split()])
    return np.asarray(points - points.mean(axis=0), np.float64)


FIGURES: dict[str, XY] = {
    "star": _corners("50,10 61,40 94,40 68,60 79,90 50,70 21,90 32,60 6,40 39,40"),
    "triangle": _corners("50,20 80,80 20,80"),
    "pentagon": _corners("50,20 80,40 70,80 30,80 20,40"),
    "hexagon": _corners("50,20 80,35 80,65 50,80 20,65 20,35"),
    "octagon": _corners("35,20 65,20 80,35 80,65 65,80 35,80 20,65 20,35"),
    "cross": _corners("35,20 65,20 65,35 80,35 80,65 65,65 65,80 35,80 35,65 20,65 20,35 35,35"),
}


@dataclass(frozen=True)
class ColoredShape:
    """A filled shape; at scale 1 its corners span about 60 px."""

    shape: str
    color: str
    x: float
    y: float
    scale: float
    rotation: float

    @property
    def points(self) -> XY:
        """Its corners."""
        return translate(rotate(FIGURES[self.shape] * self.scale, self.rotation), self.x, self.y)

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The upright box around it."""
        return extent(self.points, (SIDE, SIDE), 1)

    @property
    def room(self) -> tuple[float, float, float, float]:
        """The upright box around its own upright box turned, which no other figure's may touch."""
        width, height = np.ptp(FIGURES[self.shape], axis=0) * self.scale
        turn = math.radians(self.rotation)
        cos, sin = abs(math.cos(turn)), abs(math.sin(turn))
        wide, high = (width * cos + height * sin) / 2, (width * sin + height * cos) / 2
        return self.x - wide, self.y - high, self.x + wide, self.y + high

    def touches(self, figure: ColoredShape, apart: float) -> bool:
        """Whether less than `apart` lies between their rooms in both directions."""
        (a0, b0, a1, b1), (c0, d0, c1, d1) = self.room, figure.room
        return a0 <= c1 + apart and c0 <= a1 + apart and b0 <= d1 + apart and d0 <= b1 + apart

    def to_dict(self) -> dict[str, Any]:
        """As truths hold it."""
        numbers = {name: round(getattr(self, name), 3) for name in ("x", "y", "scale", "rotation")}
        return {"shape": self.shape, "color": self.color, **numbers, "box": list(self.box)}


def draw_colors(params: SceneParameters) -> Iterator[Scene | None]:
    """Scenes. Official: whatever found room, and a question about a pair that is there; sizes come
    from a count of figures that is drawn apart from the figures themselves.

    Otherwise the answer is dealt: every number from 0 to `max_instances` is the answer equally
    often, whatever is drawn.
    """
    most, tints = params.levels["max_instances"], params.levels["num_colors"]
    kinds = params.shuffled(FIGURES)[: params.levels["num_shapes"]]
    for number in count():
        times = params.rng.integers(1, most, len(kinds), endpoint=True)
        if params.official:
            palette = list(COLORS)[:tints]
            order = [kind for kind in kinds for _ in range(params.whole(1, most))]
            colors = [params.pick(palette) for _ in order]
            figures = _place_figures(params, order, colors, int(times.sum()), 1)
            pairs = sorted({(figure.shape, figure.color) for figure in figures})
            yield _make_scene(figures, *params.pick(pairs)) if figures else None
            continue
        key = params.deal(range(most + 1))
        times[0] = max(times[0], key)
        palette = params.shuffled(COLORS)[:tints]
        order = [kind for kind, much in zip(kinds, times, strict=True) for _ in range(much)]
        # the first colour comes `key` times for the first kind, any colour for the other kinds
        colors = [palette[0]] * key
        colors += [params.pick(palette[1:]) for _ in range(times[0] - key)]
        colors += [params.pick(palette) for _ in order[times[0] :]]
        figures = _place_figures(params, order, colors, len(order), 0.99**number)
        whole = len(figures) == len(order)
        yield _make_scene(figures, kinds[0], palette[0]) if whole else None


def _place_figures(
    params: SceneParameters, order: Sequence[str], colors: Sequence[str], sharing: int, size: float
) -> list[ColoredShape]:
    """Figures where there was room; `sharing` is how many share the picture's area."""
    scale = size * math.sqrt(SIDE * SIDE / (SPACE * sharing)) / 100
    placed: list[ColoredShape] = []
    for kind, color in zip(order, colors, strict=True):
        own = params.rng.uniform(0.5, 1.5) * scale
        for smaller in (1.0, 0.8):
            if figure := _fit_figure(params, kind, color, own * smaller, placed):
                placed.append(figure)
                break
    return placed


def _fit_figure(
    params: SceneParameters, kind: str, color: str, scale: float, others: Sequence[ColoredShape]
) -> ColoredShape | None:
    width, height = np.ptp(FIGURES[kind], axis=0) * scale
    padding = max(10.0, width / 20, height / 20)
    low = padding + np.array([width, height]) / 2
    if (low >= SIDE - low).any():
        return None
    apart = 0 if params.official else APART
    for _ in range(PLACES):
        x, y = params.rng.uniform(low, SIDE - low)
        figure = ColoredShape(kind, color, float(x), float(y), scale, params.rng.uniform(0, 360))
        if not any(figure.touches(placed, apart) for placed in others):
            return figure
    return None


def _make_scene(figures: Sequence[ColoredShape], shape: str, color: str) -> Scene:
    counts = Counter((figure.shape, figure.color) for figure in figures)
    labels = number_labels(f"{figure.color} {figure.shape}" for figure in figures)
    marks = [Box(label, *figure.box) for label, figure in zip(labels, figures, strict=True)]
    truth = {
        "objects": [figure.to_dict() for figure in figures],
        "counts": {f"{tint} {kind}": number for (kind, tint), number in sorted(counts.items())},
        "asked": [shape, color],
    }

    def paint() -> Pixels:
        pixels = blank(SIDE, SIDE)
        for figure in figures:
            fill(pixels, figure.points, COLORS[figure.color])
            stroke(pixels, figure.points, 2)
        return pixels

    question = f"Count the number of {shape}'s that are {color}."
    asked = f"{color} {shape}"
    return Scene(question, str(counts[shape, color]), truth, paint, tuple(marks), asked=asked)


KIND = SceneType(
    "joint_shape_color",
    "integer",
    (
        Control("num_shapes", (2, 4, 6), 1, 6, whole=True),
        Control("max_instances", (2, 4, 6), 1, 30, whole=True),
        Control("num_colors", (8,), 2, 8, whole=True),
    ),
    draw_colors,
    (
        (
            "only pairs of shape and colour that are there are asked about, and most of these are"
            " there once"
        ),
        (
            "sizes follow a count of figures that is not the picture's own; what has no room is"
            " left out; lines may touch"
        ),
    ),
)

"""Patterns of circles, squares, triangles and lines, and the sheet on which a target stands above
four options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from looktwice.eval.tasks.generated.canvas import (
    XY,
    blank,
    circle,
    rotate,
    stroke,
    translate,
    write,
)
from looktwice.pipelines.marks import Box, Mark
from looktwice.pipelines.picture import Pixels

ELEMENTS = ("circle", "square", "triangle", "line")
SIZE = (600, 1000)  # pixels of the sheet
TARGET = (200, 100)
PANELS = ((100, 400), (350, 400), (100, 650), (350, 650))
"""Where the frames of the target and of the four options begin; elements lie at 10..150 in them."""

CORNERS = ((0, 0), (1, 0), (0, 1), (1, 1))
"""Four options as the combinations of two changes: none of them stands out, whichever the target
is."""

VISIBLE = 25.0  # black pixels' worth of difference between two options, at least


@dataclass(frozen=True)
class Element:
    """One shape; (x, y) is the centre of a circle and the upper left corner of the others before
    they are turned."""

    kind: str
    x: float
    y: float
    size: float
    rotation: float
    aspect: float = 1.0

    def draw(self, pixels: Pixels, left: float, top: float) -> None:
        """Draw it in a frame that begins at (left, top)."""
        stroke(pixels, translate(self.points, left, top), 2, closed=self.kind != "line")

    @property
    def points(self) -> XY:
        """Its corners. The aspect ratio is height over width of squares and triangles; the others
        keep theirs."""
        if self.kind == "circle":
            return circle(self.size / 2, self.x, self.y)
        width, height = self.size, self.size * (1 if self.kind == "line" else self.aspect)
        shares = {
            "square": ((0, 0), (1, 0), (1, 1), (0, 1)),
            "triangle": ((0.5, 0), (1, 1), (0, 1)),
            "line": ((0, 0), (1, 1)),
        }[self.kind]
        box = np.array([width, height])
        return translate(rotate(np.array(shares) * box, self.rotation, box / 2), self.x, self.y)

    def to_dict(self) -> dict[str, Any]:
        """As truths hold it."""
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


Pattern = tuple[Element, ...]


def random_pattern(rng: Generator, count: int) -> Pattern:
    """Elements at whole pixels, of sizes 30 to 50, at any angle of 10 to 360 degrees."""
    found = []
    for _ in range(count):
        x, y = (int(place) for place in rng.integers(10, 150, 2, endpoint=True))
        size, rotation = (
            int(rng.integers(30, 50, endpoint=True)),
            int(rng.integers(10, 360, endpoint=True)),
        )
        found.append(Element(ELEMENTS[int(rng.integers(4))], x, y, size, rotation))
    return tuple(found)


def all_differ(patterns: Sequence[Pattern]) -> bool:
    """Whether every two of them look different."""
    inks = [_ink(elements) for elements in patterns]
    pairs = ((one, other) for place, one in enumerate(inks) for other in inks[:place])
    return all(float(np.abs(one - other).sum()) / 255 >= VISIBLE for one, other in pairs)


def _ink(elements: Pattern) -> Any:
    pixels = blank(320, 320)
    for element in elements:
        element.draw(pixels, 60, 60)
    return pixels[:, :, 0].astype(np.float64)


def draw_sheet(
    title: str,
    target: Pattern,
    choices: Sequence[Pattern],
    under: Callable[[Pixels, int, tuple[int, int]], None] = lambda pixels, number, corner: None,
) -> Pixels:
    """The sheet; `under` draws beneath each pattern, of which the target is number 0, into the
    frame at its corner."""
    pixels = blank(*SIZE)
    write(pixels, title, 300, 40, 24)
    write(pixels, "Target Pattern", 300, 80, 18)
    write(pixels, "Options", 300, 350, 18)
    for number, (left, top) in enumerate(PANELS, 1):
        write(pixels, f"Option {number}", left + 75, top - 20, 14)
    frames = zip((TARGET, *PANELS), (target, *choices), strict=True)
    for number, (corner, elements) in enumerate(frames):
        under(pixels, number, corner)
        for element in elements:
            element.draw(pixels, *corner)
    return pixels


def sheet_marks() -> tuple[Mark, ...]:
    """Boxes around the target and the options; they are the same on every sheet."""
    names = ("Target", *(f"Option {number}" for number in range(1, 5)))
    frames = zip(names, (TARGET, *PANELS), strict=True)
    return tuple(Box(name, x - 30.0, y - 14.0, x + 220.0, y + 222.0) for name, (x, y) in frames)

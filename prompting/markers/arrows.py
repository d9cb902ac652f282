"""Marks on points that have corners: arrows, and the outlines of polygons."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from looktwice.pipelines.geometry import Rect
from looktwice.prompting.drawing.colors import RGB
from looktwice.prompting.drawing.placement import Anchor
from looktwice.prompting.drawing.shapes import Floats, Shape, square
from looktwice.prompting.markers.base import Spot
from looktwice.prompting.markers.points import PointMarking
from looktwice.prompting.ranges import check_ranges


@dataclass(frozen=True)
class Arrow:
    """An arrow whose tip stops `gap` pixels before the middle; it comes from `angle` degrees, 0
    right, 90 above.

    `length` runs from tip to tail, `head` is the head's length and width.
    """

    length: float
    thickness: float
    head: float
    gap: float
    angle: float

    @property
    def box(self) -> Rect:
        """The box around the shape, relative to its point (see `drawing.shapes.Shape`)."""
        (dx, dy), tail, half = self._way, self.gap + self.length, self.thickness / 2
        shoulder, wing = self.gap + self.head, self.head / 2
        outline = [
            (self.gap, 0.0),
            (shoulder, wing),
            (shoulder, -wing),
            (tail, half),
            (tail, -half),
        ]
        xs, ys = zip(*((a * dx - b * dy, a * dy + b * dx) for a, b in outline), strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """Signed distance to the outline, negative inside (see `drawing.shapes.Shape`)."""
        dx, dy = self._way
        along, aside = x * dx + y * dy - self.gap, np.abs(y * dx - x * dy)
        shaft = np.maximum(
            aside - self.thickness / 2, np.maximum(self.head / 2 - along, along - self.length)
        )
        steep = math.hypot(0.5, 1)
        before = along + aside / 2 < 0  # where the tip is what lies nearest
        sides = np.where(before, np.hypot(along, aside), (aside - along / 2) / steep)
        return np.asarray(np.minimum(shaft, np.maximum(sides, along - self.head)), np.float32)

    @property
    def tail(self) -> tuple[float, float]:
        """Where the arrow begins, in the middle of its shaft."""
        (dx, dy), tail = self._way, self.gap + self.length
        return tail * dx, tail * dy

    @property
    def _way(self) -> tuple[float, float]:
        return math.cos(math.radians(self.angle)), -math.sin(math.radians(self.angle))


@dataclass(frozen=True)
class Arrows(PointMarking):
    """An arrow that points at every point mark, its tip `gap` pixels before it.

    It comes from `angle` degrees, 0 right, 90 above; where its tail would leave the image it is
    turned by quarters. `length` runs from tip to tail, `thickness` is the stroke's, `head` the
    head's length and width.
    """

    length: float = 36
    thickness: float = 4
    head: float = 14
    gap: float = 4
    angle: float = 45

    def __post_init__(self) -> None:
        check_ranges(
            self, "length, thickness, head, gap > 0", "length, thickness, head, gap < 10000"
        )
        super().__post_init__()
        if not (math.isfinite(self.angle) and self.thickness <= self.head <= self.length):
            raise ValueError(
                "an arrow has a finite angle, and thickness <= head <= length, found angle"
                f" {self.angle}, thickness {self.thickness}, head {self.head}, length {self.length}"
            )

    @property
    def free(self) -> float:
        """The gap."""
        return self.gap

    def shape(self, scale: float, spot: Spot) -> Arrow:
        """An arrow that fits into the spot's frame if one of four directions does, else in the
        direction asked for."""
        gap, thickness = (
            max(self.gap * scale, self.halo.width * scale + 1),
            max(1.0, self.thickness * scale),
        )
        lengths = self.length * scale, thickness, max(self.head * scale, thickness), gap
        turned = [Arrow(*lengths, (self.angle + turn) % 360) for turn in (0, 90, 270, 180)]
        (x, y), (left, top, right, bottom) = spot.place.center, spot.part_rect
        for arrow in turned:
            x0, y0, x1, y1 = np.add(arrow.box, (x, y, x, y)) + 0.5
            if left <= x0 and top <= y0 and x1 <= right and y1 <= bottom:
                return arrow
        return turned[0]

    def anchors(self, spot: Spot, shape: Shape, color: RGB, grow: float) -> list[Anchor]:
        """The label belongs to the arrow's tail; it may hide neither the point nor, if it can, the
        arrow."""
        whole = super().anchors(spot, shape, color, grow)[0]
        if not isinstance(shape, Arrow):
            return [whole]
        (dx, dy), reach = shape.tail, shape.thickness / 2 + grow
        x, y = whole.x + dx, whole.y + dy
        box = x + 0.5 - reach, y + 0.5 - reach, x + 0.5 + reach, y + 0.5 + reach
        return [replace(whole, x=x, y=y, box=box, open=False), replace(whole, text="")]


PolygonName = Literal["square", "triangle", "diamond"]
NEAREST = {"square": 1.0, "triangle": 1 / math.sqrt(5), "diamond": 1 / math.sqrt(2)}
"""How far the nearest side of a shape of radius 1 is from its point."""


@dataclass(frozen=True)
class Outline:
    """The outline of a polygon; `radius` goes from the point to the sides of the square that just
    holds it."""

    name: PolygonName
    radius: float
    thickness: float

    @property
    def box(self) -> Rect:
        """The box around the shape with its pointed corners (see `drawing.shapes.Shape`)."""
        return square(self.radius + 1.2 * self.thickness)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """Signed distance to the outline, negative inside (see `drawing.shapes.Shape`)."""
        across, radius = np.abs(x), np.float32(self.radius)
        if self.name == "square":
            rim = np.maximum(across, np.abs(y)) - radius
        elif self.name == "diamond":
            rim = (across + np.abs(y) - radius) / np.float32(math.sqrt(2))
        else:
            rim = np.maximum(y - radius, (2 * across - y - radius) / np.float32(math.sqrt(5)))
        return np.asarray(np.abs(rim) - np.float32(self.thickness / 2), np.float32)


@dataclass(frozen=True)
class Polygons(PointMarking):
    """A `shape_name` outline around every point mark: square, triangle (its tip above) or diamond.

    `radius` goes from the point to the sides of the upright square that just holds the shape, to
    the middle of the stroke, whose width is `thickness`. Everything else is as with Circles; the
    pixel under the point keeps its colour. VPBench's own pixels of these shapes are in
    VPBenchStyle.
    """

    shape_name: PolygonName = "square"
    radius: float = 10
    thickness: float = 3

    def __post_init__(self) -> None:
        check_ranges(self, "radius, thickness > 0", "radius, thickness < 10000")
        super().__post_init__()

    @property
    def free(self) -> float:
        """Inside of the nearest side's stroke."""
        return self.radius * NEAREST[self.shape_name] - self.thickness / 2

    def shape(self, scale: float, spot: Spot) -> Outline:
        """An outline of at least a pixel's stroke, around at least a pixel."""
        thickness = max(1.0, self.thickness * scale)
        least = (thickness / 2 + self.halo.width * scale + 1) / NEAREST[self.shape_name]
        return Outline(self.shape_name, max(self.radius * scale, least), thickness)

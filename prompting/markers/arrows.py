"""Marker for points: arrows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from looktwice.pipelines.geometry import XY, Rect
from looktwice.prompting.drawing.colors import RGB
from looktwice.prompting.drawing.placement import Anchor
from looktwice.prompting.drawing.shapes import FloatArray, Shape
from looktwice.prompting.markers.base import Spot
from looktwice.prompting.markers.points import PointMarking


@dataclass(frozen=True)
class Arrow:
    """An arrow whose tip stops `gap` pixels before the point. It comes from the direction `angle`
    in degrees: 0 is right, 90 is above.

    `length` is measured from tip to tail; `head` is the head's length and width.
    """

    length: float
    thickness: float
    head: float
    gap: float
    angle: float

    @property
    def box(self) -> Rect:
        """The box around the shape, relative to its point (see `drawing.shapes.Shape`)."""
        (dx, dy), tail, half = self._direction, self.gap + self.length, self.thickness / 2
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

    def measure_distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the signed distance to the outline, negative inside (see `Shape`)."""
        dx, dy = self._direction
        along, aside = x * dx + y * dy - self.gap, np.abs(y * dx - x * dy)
        shaft = np.maximum(
            aside - self.thickness / 2, np.maximum(self.head / 2 - along, along - self.length)
        )
        steep = math.hypot(0.5, 1)
        before = along + aside / 2 < 0  # where the tip is nearest
        sides = np.where(before, np.hypot(along, aside), (aside - along / 2) / steep)
        return np.asarray(np.minimum(shaft, np.maximum(sides, along - self.head)), np.float32)

    @property
    def tail(self) -> XY:
        """The start of the arrow, in the middle of its shaft."""
        (dx, dy), tail = self._direction, self.gap + self.length
        return tail * dx, tail * dy

    @property
    def _direction(self) -> XY:
        return math.cos(math.radians(self.angle)), -math.sin(math.radians(self.angle))


@dataclass(frozen=True)
class Arrows(PointMarking):
    """Draws an arrow to every point mark; its tip stops `gap` pixels before the point.

    It comes from the direction `angle` in degrees (0 is right, 90 is above); if its tail would
    leave the image, it is turned by 90 degrees or more. `length` is measured from tip to tail,
    `thickness` is the width of the stroke, `head` the head's length and width.
    """

    length: float = 36
    thickness: float = 4
    head: float = 14
    gap: float = 4
    angle: float = 45

    ranges = ("length, thickness, head, gap > 0", "length, thickness, head, gap < 10000")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.angle) and self.thickness <= self.head <= self.length):
            raise ValueError(
                "an arrow needs a finite angle, and thickness <= head <= length, got angle"
                f" {self.angle}, thickness {self.thickness}, head {self.head}, length {self.length}"
            )

    @property
    def clearance(self) -> float:
        """The gap between the point and the tip."""
        return self.gap

    def make_shape(self, scale: float, spot: Spot) -> Arrow:
        """Return an arrow in the first of four directions in which it fits into the spot's frame,
        or in the configured direction if it fits in none."""
        gap = max(self.gap * scale, self.halo.width * scale + 1)
        thickness = max(1.0, self.thickness * scale)
        lengths = self.length * scale, thickness, max(self.head * scale, thickness), gap
        turned = [Arrow(*lengths, (self.angle + turn) % 360) for turn in (0, 90, 270, 180)]
        (x, y), (left, top, right, bottom) = spot.place.center, spot.part_rect
        for arrow in turned:
            x0, y0, x1, y1 = np.add(arrow.box, (x, y, x, y)) + 0.5
            if left <= x0 and top <= y0 and x1 <= right and y1 <= bottom:
                return arrow
        return turned[0]

    def make_anchors(self, spot: Spot, shape: Shape, color: RGB, grow: float) -> list[Anchor]:
        """Return anchors that place the label at the arrow's tail. The label never hides the point,
        and it hides the arrow only if nothing else is possible."""
        whole = super().make_anchors(spot, shape, color, grow)[0]
        if not isinstance(shape, Arrow):
            return [whole]
        (dx, dy), reach = shape.tail, shape.thickness / 2 + grow
        x, y = whole.x + dx, whole.y + dy
        box = x + 0.5 - reach, y + 0.5 - reach, x + 0.5 + reach, y + 0.5 + reach
        return [
            replace(whole, x=x, y=y, box=box, keeps_point_visible=False),
            replace(whole, text=""),
        ]

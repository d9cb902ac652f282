"""Markers for points: circles, dots, crosshairs, arrows and polygons.

A marker consists of two small classes, such as `Disc` and `Dots`: a shape, which computes the
distance of a pixel to its outline, and the stage, whose fields are the settings and whose `shape`
returns the shape at a scale. Colour, halo, scaling and labels come from `PointMarking`. To add a
marker, write both in a file next to this one and name the stage in `__init__.pyi`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from looktwice.pipelines.geometry import XY, Rect
from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB, parse_rgb, resolve_color
from looktwice.prompting.drawing.placement import Anchor
from looktwice.prompting.drawing.shapes import Floats, Shape, make_square, paint_shape
from looktwice.prompting.markers.base import ColoredMarking, Halo, Spot

Kind = Literal["points", "boxes", "masks", "all"]
MARK_TYPES: dict[str, type | tuple[type, ...]] = {
    "points": Point,
    "boxes": Box,
    "masks": Mask,
    "all": (Point, Box, Mask),
}


@dataclass(frozen=True)
class PointMarking(ColoredMarking):
    """Draws a shape around points; a subclass implements `shape`.

    `marks` selects what is drawn: points, or the centres of boxes and masks. `halo` is a rim around
    the drawing. The other settings are those of all markers.
    """

    halo: Halo = field(default_factory=Halo)
    marks: Kind = "points"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clearance - self.halo.width < 1:
            raise ValueError(
                f"{type(self).__name__} would hide the point: the clearance is {self.clearance:g}"
                f" pixels, minus a halo of {self.halo.width:g}; give a larger radius or gap, or a"
                " thinner stroke"
            )
        if self.lettering.placement == "inside" and self.open:
            raise ValueError(
                "label.placement: inside would hide the point; use Dots, or place the label"
                " next to it"
            )

    @property
    def clearance(self) -> float:
        """The distance that the drawing keeps from the point; infinite if it is meant to hide the
        point."""
        return math.inf

    @property
    def open(self) -> bool:
        """Return whether the pixel under the point stays visible, so that no label may cover it."""
        return True

    def accepts(self, mark: Mark) -> bool:
        """Return whether this kind of mark is drawn."""
        return isinstance(mark, MARK_TYPES[self.marks])

    def shape(self, scale: float, spot: Spot) -> Shape:
        """Return the shape to draw around a spot, at `scale` pixels per unit of length."""
        raise NotImplementedError

    def paint(self, pixels: Pixels, spots: Sequence[Spot], scale: float) -> list[Anchor]:
        """Draw every shape with its halo in place."""
        anchors: list[Anchor] = []
        grow = self.halo.width * scale
        drawn = []
        for spot in spots:
            shape = self.shape(scale, spot)
            reach = max(map(abs, shape.box))
            color = resolve_color(self.color, pixels, *spot.place.center, reach, spot.number)
            drawn.append((spot, shape, color))
        for spot, shape, color in drawn:
            (x, y), frame = spot.place.center, spot.part_rect
            self.paint_below(pixels, spot, scale, color)
            if grow:
                rim = self.halo.choose_color(color)
                paint_shape(pixels, frame, shape, x, y, rim, self.alpha, grow)
            paint_shape(pixels, frame, shape, x, y, color, self.alpha)
            anchors += self.make_anchors(spot, shape, color, grow)
        return anchors

    def make_anchors(self, spot: Spot, shape: Shape, color: RGB, grow: float) -> list[Anchor]:
        """Return the outline next to which a spot's label is placed: its shape, enlarged by `grow`
        pixels."""
        x, y = spot.place.center
        left, top, right, bottom = shape.box
        box = (
            x + 0.5 + left - grow,
            y + 0.5 + top - grow,
            x + 0.5 + right + grow,
            y + 0.5 + bottom + grow,
        )
        return [Anchor(self.format_label(spot), x, y, box, spot.part_rect, color, self.open)]

    def paint_below(self, pixels: Pixels, spot: Spot, scale: float, color: RGB) -> None:
        """Draw below the shape; only markers with a fill implement it."""


@dataclass(frozen=True)
class Ring:
    """A circular line; `radius` is measured to the middle of the stroke. `gap` pixels are left open
    on each of the four sides."""

    radius: float
    thickness: float
    gap: float = 0

    @property
    def box(self) -> Rect:
        """The box around the shape, relative to its point (see `drawing.shapes.Shape`)."""
        return make_square(self.radius + self.thickness / 2)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """Return the signed distance to the outline, negative inside (see `Shape`)."""
        rim = np.abs(np.hypot(x, y) - np.float32(self.radius)) - np.float32(self.thickness / 2)
        return np.maximum(rim, self.gap / 2 - np.minimum(np.abs(x), np.abs(y))) if self.gap else rim


@dataclass(frozen=True)
class Circles(PointMarking):
    """A ring around every point mark, on every view and every part of a view that shows it.

    `radius` is measured to the middle of the stroke, whose width is `thickness`; `gap` pixels of
    the stroke are left open at the top, the bottom and both sides. `fill` is a colour for the
    inside, or "mark" for the ring's own, with the opacity `fill_alpha`. Lengths are in pixels of
    the view, or as `reference_height` and `relative_to` define (BLINK, section 4: 10 px at a height
    of 1024). The pixel under the point keeps its colour, unless it is filled. The label is white on
    a black plate above the ring; if it would leave the image or cover another mark there, it is
    placed below or to the side.

    Calling raises ValueError for a mark outside its own image, and if the view is too small for a
    label that hides no point and no other label.
    """

    radius: float = 10
    thickness: float = 3
    gap: float = 0
    fill: str | None = None
    fill_alpha: float = 0.3

    ranges = (
        "radius, thickness, fill_alpha > 0",
        "radius, thickness, gap < 10000",
        "gap >= 0",
        "fill_alpha <= 1",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gap >= self.radius * math.sqrt(2):
            raise ValueError(
                f"a gap of {self.gap} leaves nothing of a ring of radius {self.radius}; give a"
                " smaller one"
            )

    @property
    def clearance(self) -> float:
        """The radius inside the stroke."""
        return self.radius - self.thickness / 2

    def shape(self, scale: float, spot: Spot) -> Ring:
        """Return a ring with a stroke and a hole of at least one pixel."""
        thickness = max(1.0, self.thickness * scale)
        radius = max(self.radius * scale, thickness / 2 + self.halo.width * scale + 1)
        return Ring(radius, thickness, self.gap * scale)

    def paint_below(self, pixels: Pixels, spot: Spot, scale: float, color: RGB) -> None:
        """Paint the fill, up to the middle of the stroke."""
        if self.fill is not None:
            filling = color if self.fill == "mark" else parse_rgb(self.fill)
            disc = Disc(self.shape(scale, spot).radius)
            paint_shape(pixels, spot.part_rect, disc, *spot.place.center, filling, self.fill_alpha)


@dataclass(frozen=True)
class Disc:
    """A filled circle."""

    radius: float

    @property
    def box(self) -> Rect:
        """The box around the shape, relative to its point (see `drawing.shapes.Shape`)."""
        return make_square(self.radius)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """Return the signed distance to the outline, negative inside (see `Shape`)."""
        return np.hypot(x, y) - np.float32(self.radius)


@dataclass(frozen=True)
class Dots(PointMarking):
    """A filled dot of `radius` on every point mark. It hides the pixels below it, and the label may
    be placed inside."""

    radius: float = 5

    ranges = ("radius > 0", "radius < 10000")

    @property
    def open(self) -> bool:
        """Return False if the label is placed inside the dot, otherwise True."""
        return self.lettering.placement != "inside"

    def shape(self, scale: float, spot: Spot) -> Disc:
        """Return a disc at least one pixel wide."""
        return Disc(max(0.5, self.radius * scale))


@dataclass(frozen=True)
class Cross:
    """Two crossed bars, horizontal and vertical, from `gap` to `radius` pixels from the middle on
    all four sides."""

    radius: float
    thickness: float
    gap: float

    @property
    def box(self) -> Rect:
        """The box around the shape, relative to its point (see `drawing.shapes.Shape`)."""
        return make_square(self.radius)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """Return the signed distance to the outline, negative inside (see `Shape`)."""
        across, down, half = np.abs(x), np.abs(y), self.thickness / 2
        level = np.maximum(np.maximum(down - half, across - self.radius), self.gap - across)
        upright = np.maximum(np.maximum(across - half, down - self.radius), self.gap - down)
        return np.minimum(level, upright)


@dataclass(frozen=True)
class Crosshairs(PointMarking):
    """Four bars, `thickness` wide, pointing at every point mark: from `radius` pixels away to `gap`
    pixels away."""

    radius: float = 14
    thickness: float = 3
    gap: float = 4

    ranges = ("radius, thickness, gap > 0", "radius, thickness, gap < 10000")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gap >= self.radius:
            raise ValueError(
                f"bars from {self.gap} to {self.radius} pixels have no length; give a smaller gap"
            )

    @property
    def clearance(self) -> float:
        """The gap between the point and the bars."""
        return self.gap

    def shape(self, scale: float, spot: Spot) -> Cross:
        """Return a cross with bars and a gap of at least one pixel."""
        gap = max(self.gap * scale, self.halo.width * scale + 1)
        return Cross(max(self.radius * scale, gap + 1), max(1.0, self.thickness * scale), gap)


@dataclass(frozen=True)
class Arrow:
    """An arrow whose tip stops `gap` pixels before the middle. It comes from the direction `angle`
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

    def distance(self, x: Floats, y: Floats) -> Floats:
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
    """An arrow that points at every point mark; its tip is `gap` pixels away from it.

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

    def shape(self, scale: float, spot: Spot) -> Arrow:
        """Return an arrow in the first of four directions in which it fits into the spot's frame,
        or else in the configured direction."""
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
        """Return anchors that place the label at the arrow's tail. The label may not hide the point
        and, if possible, not the arrow."""
        whole = super().make_anchors(spot, shape, color, grow)[0]
        if not isinstance(shape, Arrow):
            return [whole]
        (dx, dy), reach = shape.tail, shape.thickness / 2 + grow
        x, y = whole.x + dx, whole.y + dy
        box = x + 0.5 - reach, y + 0.5 - reach, x + 0.5 + reach, y + 0.5 + reach
        return [replace(whole, x=x, y=y, box=box, open=False), replace(whole, text="")]


PolygonName = Literal["square", "triangle", "diamond"]
SIDE_DISTANCES = {"square": 1.0, "triangle": 1 / math.sqrt(5), "diamond": 1 / math.sqrt(2)}
"""The distance from the point to the nearest side of a shape of radius 1."""


@dataclass(frozen=True)
class Outline:
    """The outline of a polygon; `radius` is the distance from the point to the sides of its
    bounding square."""

    name: PolygonName
    radius: float
    thickness: float

    @property
    def box(self) -> Rect:
        """The box around the shape, including its pointed corners (see `drawing.shapes.Shape`)."""
        return make_square(self.radius + 1.2 * self.thickness)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """Return the signed distance to the outline, negative inside (see `Shape`)."""
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
    """An outline with the shape `shape_name` around every point mark: square, triangle (pointing
    up) or diamond.

    `radius` is the distance from the point to the sides of the upright bounding square, measured to
    the middle of the stroke, whose width is `thickness`. The other settings are those of Circles;
    the pixel under the point keeps its colour. For VPBench's own rendering of these shapes, use
    VPBenchStyle.
    """

    shape_name: PolygonName = "square"
    radius: float = 10
    thickness: float = 3

    ranges = ("radius, thickness > 0", "radius, thickness < 10000")

    @property
    def clearance(self) -> float:
        """The distance from the point to the inside of the nearest side's stroke."""
        return self.radius * SIDE_DISTANCES[self.shape_name] - self.thickness / 2

    def shape(self, scale: float, spot: Spot) -> Outline:
        """Return an outline with a stroke and an inside of at least one pixel."""
        thickness = max(1.0, self.thickness * scale)
        least = (thickness / 2 + self.halo.width * scale + 1) / SIDE_DISTANCES[self.shape_name]
        return Outline(self.shape_name, max(self.radius * scale, least), thickness)

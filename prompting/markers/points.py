"""Marks on points, where the model can see them: circles, dots, crosshairs, arrows and polygons.

A marker is two small classes, see `Disc` and `Dots`: a shape, which says how far a pixel is from
its outline, and the stage, whose fields are the settings and whose `shape` gives the shape at a
scale. Colour, halo, scaling and labels come with `PointMarking`. To add a marker, write both in
a file beside this one and name the stage in `__init__.pyi`.
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
from looktwice.prompting.drawing.colors import RGB, resolve_color, rgb
from looktwice.prompting.drawing.placement import Anchor
from looktwice.prompting.drawing.shapes import Floats, Shape, paint_shape, square
from looktwice.prompting.markers.base import ColoredMarking, Halo, Spot

Kind = Literal["points", "boxes", "masks", "all"]
KINDS: dict[str, type | tuple[type, ...]] = {
    "points": Point,
    "boxes": Box,
    "masks": Mask,
    "all": (Point, Box, Mask),
}


@dataclass(frozen=True)
class PointMarking(ColoredMarking):
    """Draws a shape around points; a subclass gives its `shape`.

    `marks` says which are drawn: points, or the middles of boxes and masks. The other settings are
    those of all markers.
    """

    halo: Halo = field(default_factory=Halo)
    marks: Kind = "points"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.free - self.halo.width < 1:
            raise ValueError(
                f"{type(self).__name__} hides the point in its middle: {self.free:g} pixels are"
                f" free around it, less the halo of {self.halo.width:g}; give a larger radius or"
                " gap, or a thinner stroke"
            )
        if self.lettering.placement == "inside" and self.open:
            raise ValueError(
                "label.placement: inside would hide the point; use Dots, or place the label"
                " beside it"
            )

    @property
    def free(self) -> float:
        """How far the drawing keeps off the point; infinite where it is meant to hide it."""
        return math.inf

    @property
    def open(self) -> bool:
        """Return whether the pixel under the point stays visible, so that no label may lie on it.
        """
        return True

    def accepts(self, mark: Mark) -> bool:
        """Return whether this kind of mark is drawn."""
        return isinstance(mark, KINDS[self.marks])

    def shape(self, scale: float, spot: Spot) -> Shape:
        """What is drawn around a spot, at `scale` pixels for a unit of length."""
        raise NotImplementedError

    def paint(self, pixels: Pixels, spots: Sequence[Spot], scale: float) -> list[Anchor]:
        """Draw every shape with its halo on the picture itself."""
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
            self.below(pixels, spot, scale, color)
            if grow:
                rim = self.halo.against(color)
                paint_shape(pixels, frame, shape, x, y, rim, self.alpha, grow)
            paint_shape(pixels, frame, shape, x, y, color, self.alpha)
            anchors += self.anchors(spot, shape, color, grow)
        return anchors

    def anchors(self, spot: Spot, shape: Shape, color: RGB, grow: float) -> list[Anchor]:
        """What a spot's label belongs to: the shape with its halo of `grow` pixels."""
        x, y = spot.place.center
        left, top, right, bottom = shape.box
        box = (
            x + 0.5 + left - grow,
            y + 0.5 + top - grow,
            x + 0.5 + right + grow,
            y + 0.5 + bottom + grow,
        )
        return [Anchor(self.label_text(spot), x, y, box, spot.part_rect, color, self.open)]

    def below(self, pixels: Pixels, spot: Spot, scale: float, color: RGB) -> None:
        """Draw what lies under the shape: nothing, unless a marker has a filling."""


@dataclass(frozen=True)
class Ring:
    """A circle line; `radius` runs to the middle of the stroke. `gap` pixels are left open at the
    four sides."""

    radius: float
    thickness: float
    gap: float = 0

    @property
    def box(self) -> Rect:
        """The box around the shape, relative to its point (see `drawing.shapes.Shape`)."""
        return square(self.radius + self.thickness / 2)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """Signed distance to the outline, negative inside (see `drawing.shapes.Shape`)."""
        rim = np.abs(np.hypot(x, y) - np.float32(self.radius)) - np.float32(self.thickness / 2)
        return np.maximum(rim, self.gap / 2 - np.minimum(np.abs(x), np.abs(y))) if self.gap else rim


@dataclass(frozen=True)
class Circles(PointMarking):
    """A ring around every point mark, on every view and every part of a view that shows it.

    `radius` runs to the middle of the stroke, whose width is `thickness`; `gap` pixels of the
    stroke are left open at the top, the bottom and both sides. `fill` is a colour for the inside,
    or "mark" for the ring's own, at the opacity `fill_alpha`. Lengths are in pixels of the view, or
    as `reference_height` and `relative_to` say (BLINK, section 4: 10 px at a height of 1024). The
    pixel under the point keeps its colour, unless it is filled. The label stands in white on a
    black plate above the ring; where it would leave the image or lie on another mark it goes below
    or aside.

    Calling raises ValueError for a mark outside its own image, and where the view is too small for
    a label that hides no point and no other label.
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
    def free(self) -> float:
        """Inside of the stroke."""
        return self.radius - self.thickness / 2

    def shape(self, scale: float, spot: Spot) -> Ring:
        """Return a ring of at least a pixel's stroke, around at least a pixel."""
        thickness = max(1.0, self.thickness * scale)
        radius = max(self.radius * scale, thickness / 2 + self.halo.width * scale + 1)
        return Ring(radius, thickness, self.gap * scale)

    def below(self, pixels: Pixels, spot: Spot, scale: float, color: RGB) -> None:
        """Return the filling, up to the middle of the stroke."""
        if self.fill is not None:
            filling = color if self.fill == "mark" else rgb(self.fill)
            disc = Disc(self.shape(scale, spot).radius)
            paint_shape(pixels, spot.part_rect, disc, *spot.place.center, filling, self.fill_alpha)


@dataclass(frozen=True)
class Disc:
    """A filled circle."""

    radius: float

    @property
    def box(self) -> Rect:
        """The box around the shape, relative to its point (see `drawing.shapes.Shape`)."""
        return square(self.radius)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """Signed distance to the outline, negative inside (see `drawing.shapes.Shape`)."""
        return np.hypot(x, y) - np.float32(self.radius)


@dataclass(frozen=True)
class Dots(PointMarking):
    """A filled dot of `radius` on every point mark; it hides what lies under it, and may hold the
    label inside."""

    radius: float = 5

    ranges = ("radius > 0", "radius < 10000")

    @property
    def open(self) -> bool:
        """Return whether the pixel under the point stays visible: a label inside takes its place.
        """
        return self.lettering.placement != "inside"

    def shape(self, scale: float, spot: Spot) -> Disc:
        """Return a disc at least a pixel wide."""
        return Disc(max(0.5, self.radius * scale))


@dataclass(frozen=True)
class Cross:
    """Two upright bars from `gap` to `radius` pixels off the middle, on all four sides."""

    radius: float
    thickness: float
    gap: float

    @property
    def box(self) -> Rect:
        """The box around the shape, relative to its point (see `drawing.shapes.Shape`)."""
        return square(self.radius)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """Signed distance to the outline, negative inside (see `drawing.shapes.Shape`)."""
        across, down, half = np.abs(x), np.abs(y), self.thickness / 2
        level = np.maximum(np.maximum(down - half, across - self.radius), self.gap - across)
        upright = np.maximum(np.maximum(across - half, down - self.radius), self.gap - down)
        return np.minimum(level, upright)


@dataclass(frozen=True)
class Crosshairs(PointMarking):
    """Four bars, `thickness` wide, towards every point mark: from `radius` pixels off it to `gap`
    pixels before it."""

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
    def free(self) -> float:
        """The gap."""
        return self.gap

    def shape(self, scale: float, spot: Spot) -> Cross:
        """Return a cross of bars at least a pixel thick, around at least a pixel."""
        gap = max(self.gap * scale, self.halo.width * scale + 1)
        return Cross(max(self.radius * scale, gap + 1), max(1.0, self.thickness * scale), gap)


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
    def tail(self) -> XY:
        """Where the arrow begins, in the middle of its shaft."""
        (dx, dy), tail = self._way, self.gap + self.length
        return tail * dx, tail * dy

    @property
    def _way(self) -> XY:
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

    ranges = ("length, thickness, head, gap > 0", "length, thickness, head, gap < 10000")

    def __post_init__(self) -> None:
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
        """Return an arrow that fits into the spot's frame if one of four directions does, else in
        the direction asked for."""
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

    def anchors(self, spot: Spot, shape: Shape, color: RGB, grow: float) -> list[Anchor]:
        """Return the label belongs to the arrow's tail; it may hide neither the point nor, if it
        can, the arrow."""
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

    ranges = ("radius, thickness > 0", "radius, thickness < 10000")

    @property
    def free(self) -> float:
        """Inside of the nearest side's stroke."""
        return self.radius * NEAREST[self.shape_name] - self.thickness / 2

    def shape(self, scale: float, spot: Spot) -> Outline:
        """Return an outline of at least a pixel's stroke, around at least a pixel."""
        thickness = max(1.0, self.thickness * scale)
        least = (thickness / 2 + self.halo.width * scale + 1) / NEAREST[self.shape_name]
        return Outline(self.shape_name, max(self.radius * scale, least), thickness)

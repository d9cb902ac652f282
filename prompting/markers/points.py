"""Marks on points, where the model can see them: circles, dots, crosshairs and arrows.

A marker is two small classes, see `Disc` and `Dots`: a shape, which says how far a pixel is from
its outline, and the stage, whose fields are the settings and whose `shape` gives the shape at a
scale. Colour, halo, scaling and labels come with `PointMarking`. To add a marker, write both here
and name the stage in `__init__.pyi`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from looktwice.pipelines.geometry import Rect
from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB, resolve_color, rgb
from looktwice.prompting.drawing.placement import Anchor
from looktwice.prompting.drawing.shapes import Floats, Shape, paint_shape, square
from looktwice.prompting.markers.base import ColoredMarking, Halo, Spot, check_filling
from looktwice.prompting.ranges import check_ranges

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
        """Whether the pixel under the point stays visible, so that no label may lie on it."""
        return True

    def accepts(self, mark: Mark) -> bool:
        """Whether this kind of mark is drawn."""
        return isinstance(mark, KINDS[self.marks])

    def shape(self, scale: float, spot: Spot) -> Shape:
        """What is drawn around a spot, at `scale` pixels for a unit of length."""
        raise NotImplementedError

    def paint(self, pixels: Pixels, spots: Sequence[Spot], scale: float) -> list[Anchor]:
        """Draw every shape with its halo on the picture itself."""
        anchors: list[Anchor] = []
        grow = self.halo.width * scale
        shapes = [self.shape(scale, spot) for spot in spots]
        colors = [
            resolve_color(
                self.color, pixels, *spot.place.center, max(map(abs, shape.box)), spot.number
            )
            for spot, shape in zip(spots, shapes, strict=True)
        ]
        for spot, shape, color in zip(spots, shapes, colors, strict=True):
            x, y = spot.place.center
            self.below(pixels, spot, scale, color)
            if grow:
                rim = self.halo.against(color)
                paint_shape(pixels, spot.part_rect, shape, x, y, rim, self.alpha, grow)
            paint_shape(pixels, spot.part_rect, shape, x, y, color, self.alpha)
            anchors += self.anchors(spot, shape, color, grow)
        return anchors

    def anchors(self, spot: Spot, shape: Shape, color: RGB, grow: float) -> list[Anchor]:
        """What a spot's label belongs to: the shape with its halo of `grow` pixels."""
        (x, y), (left, top, right, bottom) = spot.place.center, shape.box
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

    def __post_init__(self) -> None:
        check_ranges(self, "radius, thickness > 0", "radius, thickness, gap < 10000", "gap >= 0")
        super().__post_init__()
        if self.gap >= self.radius * math.sqrt(2):
            raise ValueError(
                f"a gap of {self.gap} leaves nothing of a ring of radius {self.radius}; give a"
                " smaller one"
            )
        check_filling(self)

    @property
    def free(self) -> float:
        """Inside of the stroke."""
        return self.radius - self.thickness / 2

    def shape(self, scale: float, spot: Spot) -> Ring:
        """A ring of at least a pixel's stroke, around at least a pixel."""
        thickness = max(1.0, self.thickness * scale)
        radius = max(self.radius * scale, thickness / 2 + self.halo.width * scale + 1)
        return Ring(radius, thickness, self.gap * scale)

    def below(self, pixels: Pixels, spot: Spot, scale: float, color: RGB) -> None:
        """The filling, up to the middle of the stroke."""
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

    def __post_init__(self) -> None:
        check_ranges(self, "radius > 0", "radius < 10000")
        super().__post_init__()

    @property
    def open(self) -> bool:
        """Whether the pixel under the point stays visible: a label inside takes its place."""
        return self.lettering.placement != "inside"

    def shape(self, scale: float, spot: Spot) -> Disc:
        """A disc at least a pixel wide."""
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

    def __post_init__(self) -> None:
        check_ranges(self, "radius, thickness, gap > 0", "radius, thickness, gap < 10000")
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
        """A cross of bars at least a pixel thick, around at least a pixel."""
        gap = max(self.gap * scale, self.halo.width * scale + 1)
        return Cross(max(self.radius * scale, gap + 1), max(1.0, self.thickness * scale), gap)

"""Markers for points: circles, dots, and the base class of all markers for points.

A marker consists of two small classes, such as `Disc` and `Dots`: a shape, which computes the
distance of a pixel to its outline, and the stage, whose fields are the settings and whose `shape`
returns the shape at a scale. Colour, halo, scaling and labels come from `PointMarking`. To add a
marker, write both in a file next to this one and name the stage in `__init__.pyi`.
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
from looktwice.prompting.drawing.colors import RGB, parse_rgb, resolve_color
from looktwice.prompting.drawing.placement import Anchor
from looktwice.prompting.drawing.shapes import FloatArray, Shape, make_square, paint_shape
from looktwice.prompting.markers.base import ColoredMarking, Halo, Spot

MarkKind = Literal["points", "boxes", "masks", "all"]
MARK_TYPES: dict[str, type | tuple[type, ...]] = {
    "points": Point,
    "boxes": Box,
    "masks": Mask,
    "all": (Point, Box, Mask),
}


@dataclass(frozen=True)
class PointMarking(ColoredMarking):
    """Draws a shape around points; a subclass implements `make_shape`.

    `marks` selects what is drawn: points, or the centres of boxes and masks. `halo` is a rim around
    the drawing. The other settings are those of all markers.
    """

    halo: Halo = field(default_factory=Halo)
    marks: MarkKind = "points"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clearance - self.halo.width < 1:
            raise ValueError(
                f"{type(self).__name__} would hide the point: the clearance is {self.clearance:g}"
                f" pixels, minus a halo of {self.halo.width:g}; give a larger radius or gap, or a"
                " thinner stroke"
            )
        if self.label_settings.placement == "inside" and self.keeps_point_visible:
            raise ValueError(
                "label.placement: inside would hide the point; use Dots, or place the label"
                " next to it"
            )

    @property
    def clearance(self) -> float:
        """The distance between the point and the drawing around it; infinite for a drawing that is
        meant to hide the point, so that the check of this distance accepts it."""
        return math.inf

    @property
    def keeps_point_visible(self) -> bool:
        """Whether the pixel under the point must stay visible, so that no label may cover it."""
        return True

    def accepts(self, mark: Mark) -> bool:
        """Return whether this kind of mark is drawn."""
        return isinstance(mark, MARK_TYPES[self.marks])

    def make_shape(self, scale: float, spot: Spot) -> Shape:
        """Return the shape to draw around a spot, at `scale` pixels per unit of length."""
        raise NotImplementedError

    def paint(self, pixels: Pixels, spots: Sequence[Spot], scale: float) -> list[Anchor]:
        """Draw every shape, with its halo, into the picture."""
        anchors: list[Anchor] = []
        grow = self.halo.width * scale
        drawn = []
        for spot in spots:
            shape = self.make_shape(scale, spot)
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
        """Return the anchor of a spot's label: the box around the spot's shape, enlarged by `grow`
        pixels."""
        x, y = spot.place.center
        left, top, right, bottom = shape.box
        box = (
            x + 0.5 + left - grow,
            y + 0.5 + top - grow,
            x + 0.5 + right + grow,
            y + 0.5 + bottom + grow,
        )
        return [
            Anchor(
                self.format_label(spot), x, y, box, spot.part_rect, color, self.keeps_point_visible
            )
        ]

    def paint_below(self, pixels: Pixels, spot: Spot, scale: float, color: RGB) -> None:
        """Draw what lies below the shape; only markers with a fill implement this."""


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

    def measure_distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
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

    A call raises ValueError for a mark outside its own image, and if the view is too small for a
    label that hides neither a point nor another label.
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

    def make_shape(self, scale: float, spot: Spot) -> Ring:
        """Return a ring with a stroke and a hole of at least one pixel."""
        thickness = max(1.0, self.thickness * scale)
        radius = max(self.radius * scale, thickness / 2 + self.halo.width * scale + 1)
        return Ring(radius, thickness, self.gap * scale)

    def paint_below(self, pixels: Pixels, spot: Spot, scale: float, color: RGB) -> None:
        """Paint the fill, up to the middle of the stroke."""
        if self.fill is not None:
            filling = color if self.fill == "mark" else parse_rgb(self.fill)
            disc = Disc(self.make_shape(scale, spot).radius)
            paint_shape(pixels, spot.part_rect, disc, *spot.place.center, filling, self.fill_alpha)


@dataclass(frozen=True)
class Disc:
    """A filled circle."""

    radius: float

    @property
    def box(self) -> Rect:
        """The box around the shape, relative to its point (see `drawing.shapes.Shape`)."""
        return make_square(self.radius)

    def measure_distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the signed distance to the outline, negative inside (see `Shape`)."""
        return np.hypot(x, y) - np.float32(self.radius)


@dataclass(frozen=True)
class Dots(PointMarking):
    """A filled dot of `radius` on every point mark. It hides the pixels below it, and the label may
    be placed inside."""

    radius: float = 5

    ranges = ("radius > 0", "radius < 10000")

    @property
    def keeps_point_visible(self) -> bool:
        """Whether the label is placed outside the dot."""
        return self.label_settings.placement != "inside"

    def make_shape(self, scale: float, spot: Spot) -> Disc:
        """Return a disc at least one pixel wide."""
        return Disc(max(0.5, self.radius * scale))

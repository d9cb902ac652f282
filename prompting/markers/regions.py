"""Marks on regions: outlines of boxes and masks, tints, covers and spotlights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import cv2
import numpy as np

from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB, check_color, region_color, rgb
from looktwice.prompting.drawing.placement import Anchor
from looktwice.prompting.drawing.shapes import (
    coverage,
    inner_center,
    paint_coverage,
    pixel_area,
    region_edges,
    rim_distance,
)
from looktwice.prompting.markers.base import UNLABELLED, ColoredMarking, Halo, Label, Marking, Spot


@dataclass(frozen=True)
class RegionMarking(ColoredMarking):
    """Colour on boxes and masks.

    Points are left alone. A label stands `inside` at the middle of the largest circle that the
    region holds. The other settings are those of all markers.
    """

    def accepts(self, mark: Mark) -> bool:
        """Boxes and masks."""
        return not isinstance(mark, Point)

    def paint(self, pixels: Pixels, spots: Sequence[Spot], scale: float) -> list[Anchor]:
        """Colour every region on the picture itself, in order."""
        colored = []
        for spot in spots:
            spot = replace(spot, place=self.region(spot.place))
            edges = region_edges(spot.place)
            colored.append((spot, region_color(self.color, pixels, edges, spot.number)))
        anchors = []
        for spot, color in colored:
            self.shade(pixels, spot, color, scale)
            anchors.append(label_anchor(self, spot, self.reach(scale), color))
        return anchors

    def region(self, place: Mark) -> Mark:
        """Return the region that is drawn for a place."""
        return place

    def reach(self, scale: float) -> float:
        """Return how many pixels the drawing goes beyond the region."""
        return 0

    def shade(self, pixels: Pixels, spot: Spot, color: RGB, scale: float) -> None:
        """Colour one region on the picture itself."""
        _fill(pixels, spot, color, self.alpha)


@dataclass(frozen=True)
class Contours(RegionMarking):
    """A line along the rim of every box and mask, half inside and half outside, and a filling if
    asked for.

    `thickness` is the line's; `fill` is a colour for the inside, or "mark" for the line's own, at
    `fill_alpha`.
    """

    halo: Halo = field(default_factory=Halo)
    thickness: float = 3
    fill: str | None = None
    fill_alpha: float = 0.3

    version: ClassVar[int] = 2

    ranges = ("thickness, fill_alpha > 0", "thickness < 10000", "fill_alpha <= 1")

    def reach(self, scale: float) -> float:
        """Half the line, and its halo."""
        return max(1.0, self.thickness * scale) / 2 + self.halo.width * scale

    def shade(self, pixels: Pixels, spot: Spot, color: RGB, scale: float) -> None:
        """Return the filling, the halo, the line."""
        if self.fill is not None:
            _fill(pixels, spot, color if self.fill == "mark" else rgb(self.fill), self.fill_alpha)
        if self.halo.width:
            _fill(pixels, spot, self.halo.against(color), self.alpha, self.reach(scale))
        _fill(pixels, spot, color, self.alpha, max(1.0, self.thickness * scale) / 2)


@dataclass(frozen=True)
class Rectangles(Contours):
    """An upright box around every box and every mask. Settings as `Contours`."""

    def region(self, place: Mark) -> Mark:
        """Return the smallest upright box around the place."""
        return Box(place.label, *region_edges(place), place.image)


@dataclass(frozen=True)
class Tint(RegionMarking):
    """A translucent colour over every box and mask, as from a highlighter.

    With `thickness` the rim is drawn in the same colour, opaque.
    """

    color: str = "yellow"
    alpha: float = 0.4
    thickness: float = 0

    version: ClassVar[int] = 2

    ranges = ("thickness >= 0", "thickness < 10000")

    def reach(self, scale: float) -> float:
        """Half the rim's line."""
        return max(1.0, self.thickness * scale) / 2 if self.thickness else 0

    def shade(self, pixels: Pixels, spot: Spot, color: RGB, scale: float) -> None:
        """Return the tint, then the rim."""
        _fill(pixels, spot, color, self.alpha)
        if reach := self.reach(scale):
            _fill(pixels, spot, color, 1, reach)


@dataclass(frozen=True)
class Cover(RegionMarking):
    """One colour over every box and mask, so that nothing of it is seen: BLINK's black mask on the
    missing quadrant.

    Without a label, unless it is asked for.
    """

    color: str = "black"
    label: Label | None = UNLABELLED

    version: ClassVar[int] = 2


@dataclass(frozen=True)
class Spotlight(Marking):
    """Boxes, masks and circles around points stay as they are; all else is dimmed, blurred or
    turned grey.

    `dim` is how much of `color` is mixed in, 0..1; `blur` is the blur's standard deviation; `grey`
    takes the colours away. `radius` is the circle's around a point, `padding` widens every region,
    and the edge is `feather` pixels soft. A part of a view that shows no mark, such as the other
    image beside it, is left alone.
    """

    label: Label | None = UNLABELLED
    dim: float = 0.6
    blur: float = 0
    grey: bool = False
    color: str = "black"
    radius: float = 40
    padding: float = 0
    feather: float = 2

    version: ClassVar[int] = 2

    ranges = (
        "radius > 0",
        "radius, blur, padding, feather < 10000",
        "blur, padding, feather, dim >= 0",
        "dim <= 1",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_color(self.color)
        if not (self.dim or self.blur or self.grey):
            raise ValueError(
                "a spotlight without dim, blur and grey changes nothing; set at least one"
            )

    def accepts(self, mark: Mark) -> bool:
        """Return every kind of mark."""
        return True

    def paint(self, pixels: Pixels, spots: Sequence[Spot], scale: float) -> list[Anchor]:
        """Darken each part of the view that shows a mark, and give its marks their own pixels
        back."""
        for part_rect in dict.fromkeys(spot.part_rect for spot in spots):
            left, top, right, bottom = part_rect
            bright = pixels[top:bottom, left:right].copy()
            pixels[top:bottom, left:right] = self._dim(bright, scale)
            for spot in (spot for spot in spots if spot.part_rect == part_rect):
                # the soft edge lies outside, so that all of the region stays as it is
                grow, soft = self._grow(spot, scale), max(1.0, self.feather * scale)
                x0, y0, x1, y1 = pixel_area(region_edges(spot.place), grow + soft, part_rect)
                lit = 1 - (rim_distance(spot.place, (x0, y0, x1, y1)) - grow + 0.5) / soft
                own = bright[y0 - top : y1 - top, x0 - left : x1 - left]
                share = np.clip(lit, 0, 1).astype(np.float32)
                paint_coverage(pixels, part_rect, x0, y0, share, own)
        color = rgb(self.color)
        return [label_anchor(self, spot, self._grow(spot, scale), color) for spot in spots]

    def _grow(self, spot: Spot, scale: float) -> float:
        return (self.radius * isinstance(spot.place, Point) + self.padding) * scale

    def _dim(self, patch: Pixels, scale: float) -> Pixels:
        dark: Any = patch
        if self.grey:
            dark = cv2.cvtColor(cv2.cvtColor(dark, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
        if self.blur:
            dark = cv2.GaussianBlur(dark, (0, 0), max(0.3, self.blur * scale))
        if self.dim:
            values = np.arange(256)[:, None]
            table = values + self.dim * (np.array(rgb(self.color)) - values)
            dark = cv2.LUT(dark, np.rint(table).astype(np.uint8)[:, None])
        return np.asarray(dark, np.uint8)


def label_anchor(marker: Marking, spot: Spot, reach: float, color: RGB) -> Anchor:
    """What the label of a region belongs to, whose drawing goes `reach` pixels beyond it.

    It is centred on the middle of the region's box, or, inside, on that of its largest circle.
    """
    x0, y0, x1, y1 = region_edges(spot.place)
    inside = marker.lettering.placement == "inside"
    x, y = inner_center(spot.place) if inside else ((x0 + x1 - 1) / 2, (y0 + y1 - 1) / 2)
    box = x0 - reach, y0 - reach, x1 + reach, y1 + reach
    is_point = isinstance(spot.place, Point)
    return Anchor(marker.label_text(spot), x, y, box, spot.part_rect, color, is_point)


def _fill(pixels: Pixels, spot: Spot, color: RGB, alpha: float, line: float | None = None) -> None:
    """Colour a region; with `line` only its rim, so many pixels to each side."""
    area = pixel_area(region_edges(spot.place), 1 + (line or 0), spot.part_rect)
    distance = rim_distance(spot.place, area)
    if line is not None:
        distance = np.abs(distance) - np.float32(line)
    paint_coverage(pixels, spot.part_rect, *area[:2], coverage(distance), color, alpha)

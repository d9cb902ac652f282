"""Markers for regions: outlines of boxes and masks, tints, covers and spotlights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import cv2
import numpy as np

from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB, check_color, choose_region_color, parse_rgb
from looktwice.prompting.drawing.placement import Anchor
from looktwice.prompting.drawing.regions import (
    find_inner_center,
    find_pixel_area,
    find_region_edges,
    measure_rim_distance,
)
from looktwice.prompting.drawing.shapes import compute_coverage, paint_coverage
from looktwice.prompting.markers.base import NO_LABEL, ColoredMarking, Halo, Label, Marking, Spot


@dataclass(frozen=True)
class RegionMarking(ColoredMarking):
    """Colours boxes and masks; points are ignored. A label with the placement `inside` is at the
    centre of the region's largest inscribed circle. The other settings are those of all markers.
    """

    def accepts(self, mark: Mark) -> bool:
        """Return whether the mark is a box or a mask."""
        return not isinstance(mark, Point)

    def paint(self, pixels: Pixels, spots: Sequence[Spot], scale: float) -> list[Anchor]:
        """Colour every region in the picture, in order."""
        colored = []
        for spot in spots:
            spot = replace(spot, place=self.find_region(spot.place))
            edges = find_region_edges(spot.place)
            colored.append((spot, choose_region_color(self.color, pixels, edges, spot.number)))
        anchors = []
        for spot, color in colored:
            self.paint_region(pixels, spot, color, scale)
            anchors.append(make_label_anchor(self, spot, self.measure_reach(scale), color))
        return anchors

    def find_region(self, place: Mark) -> Mark:
        """Return the region to draw for a mark."""
        return place

    def measure_reach(self, scale: float) -> float:
        """Return how many pixels the drawing extends beyond the region."""
        return 0

    def paint_region(self, pixels: Pixels, spot: Spot, color: RGB, scale: float) -> None:
        """Colour one region in the picture."""
        _fill(pixels, spot, color, self.alpha)


@dataclass(frozen=True)
class Contours(RegionMarking):
    """Draws a line along the edge of every box and mask, half inside and half outside, with an
    optional fill.

    `thickness` is the width of the line; `fill` is a colour for the inside, or "mark" for the
    line's own, with the opacity `fill_alpha`. `halo` is a rim around the line.
    """

    halo: Halo = field(default_factory=Halo)
    thickness: float = 3
    fill: str | None = None
    fill_alpha: float = 0.3

    version: ClassVar[int] = 2

    ranges = ("thickness, fill_alpha > 0", "thickness < 10000", "fill_alpha <= 1")

    def measure_reach(self, scale: float) -> float:
        """Return half the line's width plus its halo."""
        return max(1.0, self.thickness * scale) / 2 + self.halo.width * scale

    def paint_region(self, pixels: Pixels, spot: Spot, color: RGB, scale: float) -> None:
        """Draw the fill, the halo and the line."""
        if self.fill is not None:
            _fill(
                pixels,
                spot,
                color if self.fill == "mark" else parse_rgb(self.fill),
                self.fill_alpha,
            )
        if self.halo.width:
            _fill(
                pixels, spot, self.halo.choose_color(color), self.alpha, self.measure_reach(scale)
            )
        _fill(pixels, spot, color, self.alpha, max(1.0, self.thickness * scale) / 2)


@dataclass(frozen=True)
class Rectangles(Contours):
    """An upright box around every box and every mask. The settings are those of `Contours`."""

    def find_region(self, place: Mark) -> Mark:
        """Return the smallest upright box around the mark."""
        return Box(place.label, *find_region_edges(place), place.image)


@dataclass(frozen=True)
class Tint(RegionMarking):
    """A translucent colour over every box and mask, like a highlighter.

    With `thickness` the outline is drawn in the same colour, opaque.
    """

    color: str = "yellow"
    alpha: float = 0.4
    thickness: float = 0

    version: ClassVar[int] = 2

    ranges = ("thickness >= 0", "thickness < 10000")

    def measure_reach(self, scale: float) -> float:
        """Return half the width of the outline."""
        return max(1.0, self.thickness * scale) / 2 if self.thickness else 0

    def paint_region(self, pixels: Pixels, spot: Spot, color: RGB, scale: float) -> None:
        """Draw the tint, then the outline."""
        _fill(pixels, spot, color, self.alpha)
        if reach := self.measure_reach(scale):
            _fill(pixels, spot, color, 1, reach)


@dataclass(frozen=True)
class Cover(RegionMarking):
    """Covers every box and mask completely with one colour, like BLINK's black mask on the missing
    quadrant.

    By default there is no label.
    """

    color: str = "black"
    label: Label | None = NO_LABEL

    version: ClassVar[int] = 2


@dataclass(frozen=True)
class Spotlight(Marking):
    """Keeps boxes, masks and circles around points unchanged, and dims, blurs or greys everything
    else.

    `dim` is the share of `color` that is mixed in, 0..1; `blur` is the blur's standard deviation;
    `grey` removes the colours. `radius` is that of the circle around a point, `padding` widens
    every region, and `feather` is the width of the soft edge in pixels. A part of a view that shows
    no mark, such as another image next to it, is left unchanged.
    """

    label: Label | None = NO_LABEL
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
        """Return True: every kind of mark is accepted."""
        return True

    def paint(self, pixels: Pixels, spots: Sequence[Spot], scale: float) -> list[Anchor]:
        """Dim each part of the view that shows a mark, and restore the pixels of its marks."""
        for part_rect in dict.fromkeys(spot.part_rect for spot in spots):
            left, top, right, bottom = part_rect
            bright = pixels[top:bottom, left:right].copy()
            pixels[top:bottom, left:right] = self._dim(bright, scale)
            for spot in (spot for spot in spots if spot.part_rect == part_rect):
                # the soft edge lies outside, so that the whole region stays unchanged
                grow, soft = self._grow(spot, scale), max(1.0, self.feather * scale)
                x0, y0, x1, y1 = find_pixel_area(
                    find_region_edges(spot.place), grow + soft, part_rect
                )
                lit = 1 - (measure_rim_distance(spot.place, (x0, y0, x1, y1)) - grow + 0.5) / soft
                own = bright[y0 - top : y1 - top, x0 - left : x1 - left]
                share = np.clip(lit, 0, 1).astype(np.float32)
                paint_coverage(pixels, part_rect, x0, y0, share, own)
        color = parse_rgb(self.color)
        return [make_label_anchor(self, spot, self._grow(spot, scale), color) for spot in spots]

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
            table = values + self.dim * (np.array(parse_rgb(self.color)) - values)
            dark = cv2.LUT(dark, np.rint(table).astype(np.uint8)[:, None])
        return np.asarray(dark, np.uint8)


def make_label_anchor(marker: Marking, spot: Spot, reach: float, color: RGB) -> Anchor:
    """Return the anchor for the label of a region whose drawing extends `reach` pixels beyond it.

    It is centred on the region's box, or, for labels inside, on the region's largest inscribed
    circle.
    """
    x0, y0, x1, y1 = find_region_edges(spot.place)
    inside = marker.label_settings.placement == "inside"
    x, y = find_inner_center(spot.place) if inside else ((x0 + x1 - 1) / 2, (y0 + y1 - 1) / 2)
    box = x0 - reach, y0 - reach, x1 + reach, y1 + reach
    is_point = isinstance(spot.place, Point)
    return Anchor(marker.format_label(spot), x, y, box, spot.part_rect, color, is_point)


def _fill(pixels: Pixels, spot: Spot, color: RGB, alpha: float, line: float | None = None) -> None:
    """Colour a region, or with `line` only its edge, `line` pixels to each side."""
    area = find_pixel_area(find_region_edges(spot.place), 1 + (line or 0), spot.part_rect)
    distance = measure_rim_distance(spot.place, area)
    if line is not None:
        distance = np.abs(distance) - np.float32(line)
    paint_coverage(pixels, spot.part_rect, *area[:2], compute_coverage(distance), color, alpha)

"""Boxes and masks in whole pixels: their visible parts, areas, edges and inner centres."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import XY, PixelRect, Rect, Size, intersect_boxes
from looktwice.pipelines.marks import Box, Mark, Mask, Point, bounding_box, mask_bounds
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB
from looktwice.prompting.drawing.shapes import FloatArray


def find_region_edges(place: Mark) -> Rect:
    """Return the smallest upright box around a mark, in edge coordinates; for a point, the box has
    no area."""
    if isinstance(place, Point):
        return place.x + 0.5, place.y + 0.5, place.x + 0.5, place.y + 0.5
    return bounding_box(place)


def measure_rim_distance(place: Mark, area: PixelRect) -> FloatArray:
    """Return, as HxW, the distance in pixels of each pixel's centre in `area` from the edge of a
    mark, negative inside.

    For a box it is the larger of the horizontal and the vertical distance, so that corners stay
    square.
    """
    left, top, right, bottom = area
    if isinstance(place, Mask):
        # padded, so that a full picture has an edge
        inside = np.zeros((bottom - top + 2, right - left + 2), np.uint8)
        height, width = place.pixels.shape
        if seen := intersect_boxes(area, (0, 0, width, height)):
            x0, y0, x1, y1 = seen
            shown = place.pixels[y0:y1, x0:x1]
            inside[y0 - top + 1 : y1 - top + 1, x0 - left + 1 : x1 - left + 1] = shown
        inner, outer = _measure_distance_to_zero(inside), _measure_distance_to_zero(1 - inside)
        return np.where(inside, 0.5 - inner, outer - 0.5)[1:-1, 1:-1].astype(np.float32)
    xs = np.arange(left, right, dtype=np.float32)[None] + np.float32(0.5)
    ys = np.arange(top, bottom, dtype=np.float32)[:, None] + np.float32(0.5)
    left_edge, top_edge, right_edge, bottom_edge = map(np.float32, find_region_edges(place))
    if isinstance(place, Point):
        return np.asarray(np.hypot(xs - left_edge, ys - top_edge), np.float32)
    across = np.maximum(left_edge - xs, xs - right_edge)
    down = np.maximum(top_edge - ys, ys - bottom_edge)
    return np.asarray(np.maximum(across, down), np.float32)


def _measure_distance_to_zero(mask: NDArray[np.uint8]) -> FloatArray:
    distance = cv2.distanceTransform(mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.asarray(distance, np.float32)


@dataclass(frozen=True, eq=False)
class Region:
    """The visible part of a box or mask: `pixels` (height, width) bool, with the top left corner at
    (left, top) of a frame."""

    left: int
    top: int
    pixels: NDArray[np.bool_]

    @classmethod
    def from_pixels(cls, pixels: NDArray[np.bool_], left: int = 0, top: int = 0) -> Region | None:
        """Return the region cut to its bounding box, or None if no pixel is set."""
        x0, y0, x1, y1 = mask_bounds(pixels)
        return cls(left + x0, top + y0, pixels[y0:y1, x0:x1]) if x1 else None

    @cached_property
    def area(self) -> int:
        """The number of pixels."""
        return int(np.count_nonzero(self.pixels))

    @property
    def box(self) -> PixelRect:
        """Left, top, right and bottom of the bounding box, half-open."""
        height, width = self.pixels.shape
        return self.left, self.top, self.left + width, self.top + height

    @cached_property
    def edge_distance(self) -> NDArray[np.float32]:
        """The distance of each pixel to the nearest pixel centre outside; the edge of the frame
        counts as outside too."""
        return _measure_distance_to_zero(np.pad(self.pixels, 1).astype(np.uint8))[1:-1, 1:-1]

    @property
    def inscribed_circle(self) -> tuple[int, int, float]:
        """The largest inscribed circle (x, y, radius), in pixels of the frame; its centre lies in
        the region."""
        y, x = np.unravel_index(int(np.argmax(self.edge_distance)), self.edge_distance.shape)
        return self.left + int(x), self.top + int(y), float(self.edge_distance[y, x])

    def find_room(self, width: int, height: int) -> tuple[int, int] | None:
        """Return the (left, top) at which a plate of this size fits completely inside the region,
        as far from its edge as possible, or None if it fits nowhere."""
        if width > self.pixels.shape[1] or height > self.pixels.shape[0]:
            return None
        anchor = ((width - 1) // 2, (height - 1) // 2)
        kernel, inside = np.ones((height, width), np.uint8), self.pixels.astype(np.uint8)
        fits = cv2.erode(
            inside, kernel, anchor=anchor, borderType=cv2.BORDER_CONSTANT, borderValue=0
        )
        if not fits.any():
            return None
        y, x = np.unravel_index(int(np.argmax(np.where(fits, self.edge_distance, 0))), fits.shape)
        return self.left + int(x) - anchor[0], self.top + int(y) - anchor[1]

    def subtract(self, cover: Region) -> Region | None:
        """Return the part of the region that `cover` does not cover, or None if nothing is left."""
        both = intersect_boxes(self.box, cover.box)
        if both is None:
            return self
        left, top, right, bottom = both
        over = cover.pixels[
            top - cover.top : bottom - cover.top, left - cover.left : right - cover.left
        ]
        here = slice(top - self.top, bottom - self.top), slice(left - self.left, right - self.left)
        if not (self.pixels[here] & over).any():
            return self
        pixels = self.pixels.copy()
        pixels[here] &= ~over
        return Region.from_pixels(pixels, self.left, self.top)

    def paint_tint(self, pixels: Pixels, color: RGB, alpha: float) -> None:
        """Blend a colour into the region's pixels of the frame; `alpha`, 0..1, is the colour's
        share."""
        window = self._get_window(pixels)
        paint = np.asarray(color, np.float32) * np.float32(alpha)
        mixed = window[self.pixels] * np.float32(1 - alpha) + paint
        window[self.pixels] = np.rint(mixed).astype(np.uint8)

    def paint_contour(self, pixels: Pixels, color: RGB, thickness: float) -> None:
        """Paint the region's edge inwards: its pixels within `thickness` of the outside."""
        self._get_window(pixels)[self.pixels & (self.edge_distance < thickness + 0.5)] = color

    def _get_window(self, pixels: Pixels) -> Pixels:
        left, top, right, bottom = self.box
        return pixels[top:bottom, left:right]


def _find_covered_range(low: float, high: float, side: int) -> tuple[int, int]:
    """Return the first pixel whose centre lies between two edges, and the one after the last. If
    there is none, use the pixel in the middle."""
    first, end = math.ceil(low - 0.5), math.ceil(high - 0.5)
    if end <= first and low < side and high > 0:
        first = min(max(0, math.floor((low + high) / 2)), side - 1)
        return first, first + 1
    return first, end


def rasterize(place: Box | Mask, size: Size) -> Region | None:
    """Return a mark as a region in a view of this size (width, height), or None if it lies outside.

    A box consists of the pixels whose centres it covers; a box too thin for that consists of the
    pixels at its middle.
    """
    if isinstance(place, Mask):
        return Region.from_pixels(place.pixels[: size[1], : size[0]])
    x0, x1 = _find_covered_range(place.x0, place.x1, size[0])
    y0, y1 = _find_covered_range(place.y0, place.y1, size[1])
    seen = intersect_boxes((x0, y0, x1, y1), (0, 0, *size))
    if seen is None:
        return None
    left, top, right, bottom = seen
    return Region(left, top, np.ones((bottom - top, right - left), bool))


def find_inner_center(place: Mark) -> XY:
    """Return the centre of a mask's largest inscribed circle, or the centre of a point or box, in
    pixel centres."""
    region = Region.from_pixels(place.pixels) if isinstance(place, Mask) else None
    if region is None:
        return place.center
    x, y, _ = region.inscribed_circle
    return float(x), float(y)


def find_pixel_area(box: Rect, grow: float, frame: PixelRect) -> PixelRect:
    """Return the whole pixels of the frame that a box touches after growing on all sides."""
    x0, y0, x1, y1 = box
    left, top = max(frame[0], math.floor(x0 - grow)), max(frame[1], math.floor(y0 - grow))
    return (
        left,
        top,
        max(left, min(frame[2], math.ceil(x1 + grow))),
        max(top, min(frame[3], math.ceil(y1 + grow))),
    )

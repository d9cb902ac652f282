"""Where the rim of a box or mask runs: how far each pixel is from it, which pixels it passes, and its middle."""

from __future__ import annotations

import math
from collections.abc import Iterator

import cv2
import numpy as np

from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.prompting.placement import Area
from looktwice.prompting.strokes import Floats

__all__ = ["Edges", "along", "distance", "edges", "middle", "within"]

Edges = tuple[float, float, float, float]
"""Left, top, right and bottom edge, half-open."""


def edges(place: Mark) -> Edges:
    """The smallest upright box around a place, in edge coordinates; of a point the point itself, without area."""
    if isinstance(place, Point):
        return place.x + 0.5, place.y + 0.5, place.x + 0.5, place.y + 0.5
    if isinstance(place, Box):
        return place.xyxy
    rows, columns = np.flatnonzero(place.pixels.any(1)), np.flatnonzero(place.pixels.any(0))
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def distance(place: Mark, area: Area) -> Floats:
    """The distance of each pixel's centre in `area` from the rim of a place, in pixels, negative inside: HxW.

    Of a box it is the larger of the two distances across and down, so that its corners stay square.
    """
    left, top, right, bottom = area
    if isinstance(place, Mask):
        return _from_mask(place, area)
    xs = np.arange(left, right, dtype=np.float32)[None] + np.float32(0.5)
    ys = np.arange(top, bottom, dtype=np.float32)[:, None] + np.float32(0.5)
    x0, y0, x1, y1 = map(np.float32, edges(place))
    if isinstance(place, Point):
        return np.asarray(np.hypot(xs - x0, ys - y0), np.float32)
    return np.asarray(np.maximum(np.maximum(x0 - xs, xs - x1), np.maximum(y0 - ys, ys - y1)), np.float32)


def _from_mask(mask: Mask, area: Area) -> Floats:
    left, top, right, bottom = area
    inside = np.zeros((bottom - top + 2, right - left + 2), np.uint8)  # with a rim, so that a full picture has an edge
    height, width = mask.pixels.shape
    x0, y0, x1, y1 = max(0, left), max(0, top), min(width, right), min(height, bottom)
    if x1 > x0 and y1 > y0:
        inside[y0 - top + 1 : y1 - top + 1, x0 - left + 1 : x1 - left + 1] = mask.pixels[y0:y1, x0:x1]
    within = cv2.distanceTransform(inside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    beyond = cv2.distanceTransform(1 - inside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.asarray(np.where(inside, 0.5 - within, beyond - 0.5)[1:-1, 1:-1], np.float32)


def along(place: Mark, reach: float) -> Iterator[Area]:
    """Areas that hold all pixels within `reach` of the rim, none twice: four strips of a large box."""
    x0, y0, x1, y1 = edges(place)
    left, top, right, bottom = (
        math.floor(x0 - reach),
        math.floor(y0 - reach),
        math.ceil(x1 + reach),
        math.ceil(y1 + reach),
    )
    inner = math.ceil(x0 + reach), math.ceil(y0 + reach), math.floor(x1 - reach), math.floor(y1 - reach)
    if isinstance(place, Mask) or inner[2] <= inner[0] or inner[3] <= inner[1]:
        yield left, top, right, bottom
        return
    yield left, top, right, inner[1]
    yield left, inner[3], right, bottom
    yield left, inner[1], inner[0], inner[3]
    yield inner[2], inner[1], right, inner[3]


def middle(place: Mark) -> tuple[float, float]:
    """The middle of the largest circle that a mask holds; of a point or a box its own middle. In pixel centres."""
    if not isinstance(place, Mask):
        return place.center
    inside = cv2.distanceTransform(np.pad(place.pixels, 1).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    row, column = np.unravel_index(inside.argmax(), inside.shape)
    return float(column) - 1, float(row) - 1


def within(box: Edges, grow: float, frame: Area) -> Area:
    """The whole pixels of the frame that a box grown on all sides touches."""
    x0, y0, x1, y1 = box
    left, top = max(frame[0], math.floor(x0 - grow)), max(frame[1], math.floor(y0 - grow))
    return left, top, max(left, min(frame[2], math.ceil(x1 + grow))), max(top, min(frame[3], math.ceil(y1 + grow)))

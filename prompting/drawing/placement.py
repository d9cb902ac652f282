"""Placement of labels: inside the image, without covering a point or another label."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import PixelRect, Rect, Size
from looktwice.prompting.drawing.colors import RGB

Placement = Literal["auto", "above", "below", "left", "right", "beside", "inside", "none"]

CORNER_SIDES = ("above-left", "above-right", "below-left", "below-right")
SIDE_ORDERS: dict[str, tuple[str, ...]] = {
    "below": ("below", "above", "right", "left"),
    "left": ("left", "right", "above", "below"),
    "right": ("right", "left", "above", "below"),
    "beside": ("right", "left", "above", "below"),
    "inside": ("inside", "above", "below", "right", "left"),
}
"""The sides of a mark in the order in which they are tried, for each placement. The default is
above, below, right, left. Corners are tried last."""


def compute_area_beside(
    side: str, size: Size, before: Size, middle: Size, after: Size
) -> PixelRect:
    """Return the area of this size on one side of a mark. `before`, `middle` and `after` are the
    (left, top) of areas above and left of the mark, centred on it, and below and right of it."""
    left = before[0] if "left" in side else after[0] if "right" in side else middle[0]
    top = before[1] if "above" in side else after[1] if "below" in side else middle[1]
    return left, top, left + size[0], top + size[1]


@dataclass(frozen=True)
class Anchor:
    """The drawing that a label belongs to, in pixels of the view. (`x`, `y`) is its centre, in
    pixel centres; `box` is what the drawing covers: left, top, right and bottom edge. `frame` is
    the area that the label must not leave: the part of the view that shows the mark. `color` is the
    drawing's colour. With `keeps_point_visible`, no label may cover the pixel at (`x`, `y`).
    """

    text: str
    x: float
    y: float
    box: Rect
    frame: PixelRect
    color: RGB = (255, 0, 0)
    keeps_point_visible: bool = True


def place_labels(
    anchors: Sequence[Anchor], sizes: Sequence[Size], placement: Placement = "auto", gap: float = 3
) -> list[PixelRect | None]:
    """Return an area beside its anchor for each (width, height) in `sizes`, placed one after the
    other. The list ends with None at the first label for which there is no room.

    Anchors beyond the last size get no label, but no label may hide them.

    No area covers another one, or the centre of an anchor with `keeps_point_visible`, and none
    leaves its frame. `placement` is the side that is tried first; `gap` pixels stay free between
    drawing and label. The first side that hides no drawing is used, or else the one that hides the
    fewest. If every side would hide a point or a label, the nearest free place in the frame is
    used.
    """
    count = len(anchors)
    rects: Rects = np.full((4, 2 * count + len(sizes)), np.nan)  # drawings, visible points, labels
    for number, anchor in enumerate(anchors):
        rects[:, number] = anchor.box
        if anchor.keeps_point_visible:
            rects[:, count + number] = anchor.x, anchor.y, anchor.x + 1, anchor.y + 1
    areas: list[PixelRect | None] = []
    for own, size in enumerate(sizes):
        best, least = None, math.inf
        for side, area in _list_sides(anchors[own], size, placement, gap):
            (left, top, right, bottom), (x0, y0, x1, y1) = rects, area
            hidden = (left < x1) & (x0 < right) & (top < y1) & (y0 < bottom)
            if side == "inside":
                hidden[[own, count + own]] = False
            drawings = int(np.count_nonzero(hidden))
            if drawings < least and not hidden[count:].any():
                best, least = area, drawings
            if not least:  # no other side can hide less
                break
        areas.append(best or _find_nearest_place(rects, count, anchors[own], size))
        if areas[-1] is None:
            break
        rects[:, 2 * count + own] = areas[-1]
    return areas


Rects = NDArray[np.float64]
"""(4, n): left, top, right and bottom edges in pixels of the view; NaN overlaps nothing."""


def _find_nearest_place(rects: Rects, count: int, anchor: Anchor, size: Size) -> PixelRect | None:
    """Return the nearest place in the frame that hides no point and no label. It avoids the
    drawings (the first `count` of `rects`) if possible."""
    (width, height), (low_x, low_y, high_x, high_y) = size, anchor.frame
    if width > high_x - low_x or height > high_y - low_y:
        return None
    lefts, tops = _list_positions(low_x, high_x - width), _list_positions(low_y, high_y - height)
    free = _count_overlaps_at(rects[:, count:], lefts, tops, size) == 0
    if not free.any():
        return None
    away = np.hypot(lefts + width / 2 - anchor.x, (tops + height / 2 - anchor.y)[:, None])
    away += _count_overlaps_at(rects[:, :count], lefts, tops, size) * height
    row, column = divmod(int(np.where(free, away, np.inf).argmin()), len(lefts))
    left, top = int(lefts[column]), int(tops[row])
    return left, top, left + width, top + height


def _count_overlaps_at(
    rects: Rects, lefts: NDArray[np.int64], tops: NDArray[np.int64], size: Size
) -> NDArray[np.int32]:
    """Return an array (tops, lefts) with the number of rectangles that an area of this size
    overlaps at each position.

    For each rectangle these places form a block of the grid, so marking the corners of the blocks
    and taking cumulative sums gives the counts.
    """
    x0, x1 = np.searchsorted(lefts, rects[0] - size[0], "right"), np.searchsorted(lefts, rects[2])
    y0, y1 = np.searchsorted(tops, rects[1] - size[1], "right"), np.searchsorted(tops, rects[3])
    corners = np.zeros((len(tops) + 1, len(lefts) + 1), np.int32)
    for rows, columns, sign in ((y0, x0, 1), (y1, x1, 1), (y0, x1, -1), (y1, x0, -1)):
        np.add.at(corners, (rows, columns), sign)
    return corners.cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32)[:-1, :-1]


def _list_sides(
    anchor: Anchor, size: Size, placement: Placement, gap: float
) -> Iterator[tuple[str, PixelRect]]:
    """Yield each side with its area, shifted into the frame; nothing if the frame is smaller than
    the label."""
    (width, height), (x0, y0, x1, y1) = size, anchor.box
    low_x, low_y, high_x, high_y = anchor.frame
    if width > high_x - low_x or height > high_y - low_y:
        return
    middle = math.floor(anchor.x + 1 - width / 2), math.floor(anchor.y + 1 - height / 2)
    before = math.floor(x0 - gap) - width, math.floor(y0 - gap) - height
    after = math.ceil(x1 + gap), math.ceil(y1 + gap)
    sides = SIDE_ORDERS.get(placement, ("above", "below", "right", "left"))
    for side in (*sides, *sorted(CORNER_SIDES, key=lambda corner: placement not in corner)):
        if side != "inside" or (width <= x1 - x0 and height <= y1 - y0):
            left, top, _, _ = compute_area_beside(side, size, before, middle, after)
            left, top = max(low_x, min(left, high_x - width)), max(low_y, min(top, high_y - height))
            yield side, (left, top, left + width, top + height)


def _list_positions(low: int, high: int) -> NDArray[np.int64]:
    """Return positions from `low` to `high`, both included, a few pixels apart."""
    return np.unique(np.append(np.arange(low, high + 1, max(1, (high - low) // 400)), high))

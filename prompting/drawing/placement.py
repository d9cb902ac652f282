"""Placement of labels, region numbers and insets: inside the image, without covering a point or
another label."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import PixelRect, Rect, Size, grow, intersect_boxes, overlaps
from looktwice.prompting.drawing.colors import RGB
from looktwice.prompting.drawing.shapes import Region

# shares of the configured size that are tried, so that nothing needs to be hidden
INSET_SCALES = (1.0, 0.75, 0.5)
CLEARANCE = 12  # free pixels around a mark: a ring of the usual size
NUMBER_GAP = 2  # free pixels between a region and its number outside
MAX_RINGS = 12  # maximum distance of a number from its region, in half heights of the number

Placement = Literal["auto", "above", "below", "left", "right", "beside", "inside", "none"]

CORNER_SIDES = ("above-left", "above-right", "below-left", "below-right")
SIDES: dict[str, tuple[str, ...]] = {
    "below": ("below", "above", "right", "left"),
    "left": ("left", "right", "above", "below"),
    "right": ("right", "left", "above", "below"),
    "beside": ("right", "left", "above", "below"),
    "inside": ("inside", "above", "below", "right", "left"),
}
"""The sides of a mark in the order in which they are tried. The default is above, below, right,
left. Corners are tried last."""
NUMBER_POSITIONS = (
    "above",
    "below",
    "right",
    "left",
    "above-right",
    "above-left",
    "below-right",
    "below-left",
)
"""The positions around a region that are tried in turn for its number."""
INSET_POSITIONS = ((2, 2), (2, 0), (0, 2), (0, 0), (2, 1), (0, 1), (1, 2), (1, 0))
"""Possible positions of an inset, in halves of the free room across and down."""


def count_overlaps(area: PixelRect, others: Iterable[Rect]) -> int:
    """Count how many of the others an area overlaps."""
    return sum(overlaps(area, rect) for rect in others)


def choose_area(
    areas: Iterable[PixelRect],
    taken: Sequence[PixelRect],
    cost: Callable[[PixelRect], tuple[float, ...]],
) -> PixelRect | None:
    """Return the first area with the lowest cost among those that overlap nothing in `taken`, or
    None if there is none."""
    free = (area for area in areas if not count_overlaps(area, taken))
    return min(free, key=cost, default=None)


def _compute_area_beside(
    side: str, size: Size, before: Size, middle: Size, after: Size
) -> PixelRect:
    """Return the area of this size on one side of a mark; (left, top) is taken from `before`,
    `middle` or `after`, depending on the side."""
    left = before[0] if "left" in side else after[0] if "right" in side else middle[0]
    top = before[1] if "above" in side else after[1] if "below" in side else middle[1]
    return left, top, left + size[0], top + size[1]


@dataclass(frozen=True)
class Anchor:
    """The drawing that a label belongs to, in pixels of the view.

    (`x`, `y`) is its middle in pixel centres; `box` is what the drawing covers: left, top, right
    and bottom edge. `frame` is the area that the label must not leave: the part of the view that
    shows the mark. `color` is the drawing's colour. If the anchor is `open`, the pixel in its
    middle must stay visible, so no label may cover it.
    """

    text: str
    x: float
    y: float
    box: Rect
    frame: PixelRect
    color: RGB = (255, 0, 0)
    open: bool = True


def place_labels(
    anchors: Sequence[Anchor], sizes: Sequence[Size], placement: Placement = "auto", gap: float = 3
) -> list[PixelRect | None]:
    """Return an area beside its anchor for each (width, height) in `sizes`, placed one after the
    other. The list ends with None at the first label for which there is no room.

    Anchors beyond the last size get no label, but no label may hide them.

    No area covers the middle of an open anchor or another area, and none leaves its frame.
    `placement` is the side that is tried first; `gap` pixels stay free between drawing and label.
    The first side that hides no drawing is used, or else the one that hides the fewest. If every
    side would hide a point or a label, the nearest free place in the frame is used.
    """
    count = len(anchors)
    rects: Rects = np.full((4, 2 * count + len(sizes)), np.nan)  # drawings, open points, labels
    for number, anchor in enumerate(anchors):
        rects[:, number] = anchor.box
        if anchor.open:
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
    lefts, tops = _list_steps(low_x, high_x - width), _list_steps(low_y, high_y - height)
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
    sides = SIDES.get(placement, ("above", "below", "right", "left"))
    for side in (*sides, *sorted(CORNER_SIDES, key=lambda corner: placement not in corner)):
        if side != "inside" or (width <= x1 - x0 and height <= y1 - y0):
            left, top, _, _ = _compute_area_beside(side, size, before, middle, after)
            left, top = max(low_x, min(left, high_x - width)), max(low_y, min(top, high_y - height))
            yield side, (left, top, left + width, top + height)


def _list_steps(low: int, high: int) -> NDArray[np.int64]:
    """Return positions from `low` to `high`, both included, a few pixels apart."""
    return np.unique(np.append(np.arange(low, high + 1, max(1, (high - low) // 400)), high))


@dataclass(frozen=True)
class Plate:
    """The number of a region: its area in the view, and the pixel (x, y) of the region that it
    refers to."""

    label: str
    area: PixelRect
    anchor: Size
    inside: bool


def place_numbers(
    regions: Sequence[tuple[str, Region]], sizes: Mapping[str, Size], frames: Sequence[PixelRect]
) -> list[Plate]:
    """Return a place for the number of each region; its plate has the (width, height) in `sizes`.

    Smaller regions come first, and a number avoids regions smaller than its own (Set-of-Mark, Yang
    et al. 2023, algorithm 1): it is placed deepest inside the remaining part of its region. A
    number without room there is placed beside its region, where it hides the least of the other
    small regions, within the region's frame (a part of the view). Raises ValueError if no place is
    free.
    """
    placed: list[Plate] = []
    outer: list[tuple[str, Region, Size]] = []
    smallest_first = sorted(regions, key=lambda entry: entry[1].area)
    for rank, (label, region) in enumerate(smallest_first):
        clear: Region | None = region
        for _, smaller in smallest_first[:rank]:
            clear = clear and clear.subtract(smaller)
        width, height = sizes[label]
        x, y, _ = (clear or region).inscribed
        if clear and (room := clear.find_room(width, height)):
            placed.append(Plate(label, (*room, room[0] + width, room[1] + height), (x, y), True))
        else:
            outer.append((label, region, (x, y)))
    small = [region.box for _, region, _ in outer]
    points = [(x, y, x + 1, y + 1) for _, _, (x, y) in outer]
    for label, region, (x, y) in outer:
        around = (f for f in reversed(frames) if f[0] <= x < f[2] and f[1] <= y < f[3])
        areas = list(_list_rings(region.box, sizes[label], next(around, frames[0])))
        own = region.box

        def cost(area: PixelRect, own: PixelRect = own) -> tuple[int, float]:
            """Return how many points and regions a number would hide, and its distance from its
            region."""
            across = max(own[0] - area[2], area[0] - own[2], 0)
            down = max(own[1] - area[3], area[1] - own[3], 0)
            hidden = 2 * count_overlaps(area, points) + count_overlaps(area, small)
            return hidden, math.hypot(across, down)

        best = choose_area(areas, [plate.area for plate in placed], cost)
        if best is None:
            raise ValueError(
                f"number {label} of {sizes[label][0]} x {sizes[label][1]} pixels has no room beside"
                f" its region of {region.pixels.shape[1]} x {region.pixels.shape[0]} pixels; use a"
                " smaller font_size or padding, a larger min_area, or fewer regions (most)"
            )
        placed.append(Plate(label, best, (x, y), False))
    return placed


def _list_rings(box: PixelRect, size: Size, frame: PixelRect) -> Iterator[PixelRect]:
    """Yield places on rings around a box that lie completely inside the frame."""
    (left, top, right, bottom), (width, height) = box, size
    middle = (left + right - width) // 2, (top + bottom - height) // 2
    for ring in range(MAX_RINGS):
        away = NUMBER_GAP + ring * height // 2
        before, after = (left - away - width, top - away - height), (right + away, bottom + away)
        for side in NUMBER_POSITIONS:
            area = _compute_area_beside(side, size, before, middle, after)
            if intersect_boxes(area, frame) == area:
                yield area


def place_inset(
    size: Size,
    piece: Size,
    room: tuple[float, float],
    areas: Sequence[PixelRect],
    marks: Sequence[Rect],
    taken: Sequence[PixelRect],
) -> PixelRect | None:
    """Return the best place for a piece of this shape, scaled into `room`, in a picture of this
    `size` (width, height); None if there is no room.

    It covers no inset in `taken`, covers and approaches as few `marks` as possible, and then covers
    as few of the outlined `areas` as possible. Among equally good places the largest inset wins,
    then corners win over the middles of the sides.
    """
    if min(room) < 1:
        return None
    places: list[PixelRect] = []
    near = [grow(mark, CLEARANCE) for mark in marks]
    fit = min(room[0] / piece[0], room[1] / piece[1])
    for share in INSET_SCALES:
        width, height = (max(1, round(side * share * fit)) for side in piece)
        right, bottom = size[0] - width, size[1] - height
        if right >= 0 and bottom >= 0:
            corners = ((right * a // 2, bottom * b // 2) for a, b in INSET_POSITIONS)
            places += [(x, y, x + width, y + height) for x, y in corners]

    def cost(area: PixelRect) -> tuple[int, ...]:
        return tuple(count_overlaps(area, others) for others in (marks, near, areas))

    return choose_area(places, taken, cost)

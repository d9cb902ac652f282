"""Chooses free areas for the numbers of regions and for insets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from looktwice.pipelines.geometry import PixelRect, Rect, Size, grow, intersect_boxes, overlaps
from looktwice.prompting.drawing.placement import compute_area_beside
from looktwice.prompting.drawing.regions import Region

# shares of the configured size that are tried, so that nothing needs to be hidden
INSET_SCALES = (1.0, 0.75, 0.5)

MARK_CLEARANCE = 12  # free pixels around a mark: a ring of the usual size

NUMBER_GAP = 2  # free pixels between a region and its number outside

MAX_RINGS = 12  # maximum distance of a number from its region, in half heights of the number

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
"""Possible positions of an inset, (x, y): 0 is the left or upper edge, 1 the middle, 2 the right or
lower edge."""


def count_overlaps(area: PixelRect, others: Iterable[Rect]) -> int:
    """Count the areas in `others` that `area` overlaps."""
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


@dataclass(frozen=True)
class Plate:
    """A plate with the number of a region: its area in the view, whether it lies inside the region,
    and the pixel (x, y) of the region that it refers to."""

    label: str
    area: PixelRect
    anchor: Size
    is_inside: bool


def place_numbers(
    regions: Sequence[tuple[str, Region]], sizes: Mapping[str, Size], frames: Sequence[PixelRect]
) -> list[Plate]:
    """Return the plate with the number of each region; `sizes` holds the (width, height) of the
    plates.

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
        x, y, _ = (clear or region).inscribed_circle
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

        def compute_cost(area: PixelRect, own: PixelRect = own) -> tuple[int, float]:
            """Return how many points and regions a number at this place would hide, and its
            distance from its own region."""
            across = max(own[0] - area[2], area[0] - own[2], 0)
            down = max(own[1] - area[3], area[1] - own[3], 0)
            hidden = 2 * count_overlaps(area, points) + count_overlaps(area, small)
            return hidden, math.hypot(across, down)

        best = choose_area(areas, [plate.area for plate in placed], compute_cost)
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
            area = compute_area_beside(side, size, before, middle, after)
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
    as few of the outlined `areas` as possible. Among equally good places the largest inset is
    preferred, then a corner over the middle of a side.
    """
    if min(room) < 1:
        return None
    places: list[PixelRect] = []
    near = [grow(mark, MARK_CLEARANCE) for mark in marks]
    fit = min(room[0] / piece[0], room[1] / piece[1])
    for share in INSET_SCALES:
        width, height = (max(1, round(side * share * fit)) for side in piece)
        right, bottom = size[0] - width, size[1] - height
        if right >= 0 and bottom >= 0:
            corners = ((right * a // 2, bottom * b // 2) for a, b in INSET_POSITIONS)
            places += [(x, y, x + width, y + height) for x, y in corners]

    def compute_cost(area: PixelRect) -> tuple[int, ...]:
        return tuple(count_overlaps(area, others) for others in (marks, near, areas))

    return choose_area(places, taken, compute_cost)

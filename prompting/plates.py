"""Where the numbers of regions stand: in the region where they have room, beside it where not, never on one another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from looktwice.prompting.patches import Region

__all__ = ["Plate", "place"]

Area = tuple[int, int, int, int]  # left, top, right, bottom; half-open
GAP = 2  # free pixels between a region and the number beside it
RINGS = 12  # how far a number may move away, in its own heights


@dataclass(frozen=True)
class Plate:
    """A number of a region: its place in the view, and the pixel (x, y) of the region that it stands for."""

    label: str
    area: Area
    anchor: tuple[int, int]
    inside: bool


def place(
    regions: Sequence[tuple[str, Region]], sizes: Mapping[str, tuple[int, int]], frames: Sequence[Area]
) -> list[Plate]:
    """A place for the number of each region, whose plate has the (width, height) in `sizes`.

    Smaller regions come first, and a number keeps off the regions that are smaller than its own (Set-of-Mark, Yang et
    al. 2023, algorithm 1): it stands deepest inside what is left of its region. Where it has no room there, it stands
    beside it, where it hides least of the other regions that are small, in the region's frame (a view's part).
    Raises ValueError where none is free.
    """
    anchors, inner, outer = {}, [], []
    for index, clear in _clear(regions):
        label, region = regions[index]
        width, height = sizes[label]
        x, y, _ = (clear or region).inscribed
        anchors[index] = x, y
        room = clear.room(width, height) if clear is not None else None
        if room is None:
            outer.append(index)
        else:
            inner.append(Plate(label, (*room, room[0] + width, room[1] + height), (x, y), True))
    taken = [plate.area for plate in inner]
    small = [(regions[index][1].box, anchors[index]) for index in outer]
    for index in outer:
        label, region = regions[index]
        frame = _frame(frames, anchors[index])
        area = _beside(label, region, sizes[label], frame, taken, small)
        taken.append(area)
        inner.append(Plate(label, area, anchors[index], False))
    return inner


def _clear(regions: Sequence[tuple[str, Region]]) -> Iterator[tuple[int, Region | None]]:
    """What smaller regions leave of each region, None where nothing, by its index, the smallest first."""
    order = sorted(range(len(regions)), key=lambda index: regions[index][1].area)
    for rank, index in enumerate(order):
        clear: Region | None = regions[index][1]
        for smaller in order[:rank]:
            clear = clear.without(regions[smaller][1]) if clear is not None else None
        yield index, clear


def _frame(frames: Sequence[Area], anchor: tuple[int, int]) -> Area:
    """The topmost frame around a pixel; frames are given bottom up."""
    x, y = anchor
    return next(f for f in (*reversed(frames), frames[0]) if (f[0] <= x < f[2] and f[1] <= y < f[3]) or f is frames[0])


def _beside(
    label: str,
    region: Region,
    size: tuple[int, int],
    frame: Area,
    taken: Sequence[Area],
    small: Sequence[tuple[Area, tuple[int, int]]],
) -> Area:
    free = [area for area in _around(region.box, size, frame) if not any(_meet(area, other) for other in taken)]
    if not free:
        raise ValueError(
            f"number {label} of {size[0]} x {size[1]} pixels has no room beside its region of "
            f"{region.pixels.shape[1]} x {region.pixels.shape[0]} pixels; give less font_size or padding, more "
            "min_area, or fewer regions (most)"
        )
    return min(free, key=lambda area: _cost(area, region.box, small))


def _cost(area: Area, own: Area, small: Sequence[tuple[Area, tuple[int, int]]]) -> tuple[int, float]:
    """How much a number beside its region hides, and how far off it is."""
    hidden = sum(area[0] <= x < area[2] and area[1] <= y < area[3] for _, (x, y) in small)
    over = sum(_meet(area, box) for box, _ in small)
    across = max(own[0] - area[2], area[0] - own[2], 0)
    down = max(own[1] - area[3], area[1] - own[3], 0)
    return 2 * hidden + over, math.hypot(across, down)


def _around(box: Area, size: tuple[int, int], frame: Area) -> Iterator[Area]:
    """Places on rings around a box that lie wholly in the frame: above, below, right, left, the corners."""
    (left, top, right, bottom), (width, height) = box, size
    middle, center = (left + right - width) // 2, (top + bottom - height) // 2
    for ring in range(RINGS):
        away = GAP + ring * height // 2
        above, below, before, after = top - away - height, bottom + away, left - away - width, right + away
        for x, y in (
            (middle, above), (middle, below), (after, center), (before, center),
            (after, above), (before, above), (after, below), (before, below),
        ):  # fmt: skip
            if frame[0] <= x and frame[1] <= y and x + width <= frame[2] and y + height <= frame[3]:
                yield x, y, x + width, y + height


def _meet(area: Area, other: Area) -> bool:
    return area[0] < other[2] and other[0] < area[2] and area[1] < other[3] and other[1] < area[3]

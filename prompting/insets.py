"""Where an inset may lie in a picture, so that it hides neither a mark nor what it shows larger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["Area", "Frame", "settled"]

Area = tuple[int, int, int, int]
"""Left, top, right and bottom edge in whole pixels of a view."""
Frame = tuple[float, float, float, float]
"""The same in parts of pixels."""

SMALLER = (1.0, 0.75, 0.5)  # shares of the wanted size that are tried, so that nothing need be hidden
CLEARANCE = 12  # pixels around a mark that stay free: a ring of the usual size


def settled(
    size: tuple[int, int],
    piece: tuple[int, int],
    room: tuple[float, float],
    areas: Sequence[Area],
    marks: Sequence[Frame],
    taken: Sequence[Area],
) -> tuple[Area, list[int]] | None:
    """Where a piece of this shape lies best in a picture of this `size` (width, height), scaled into `room`.

    It lies over no inset already `taken`, over as few `marks` as it can, near as few, and then over none of the
    outlined `areas`; the largest such place counts, corners before the middles of the sides. Gives the area and the
    numbers of the marks that it lies over; None where it has no room.
    """
    options = []
    for rank, share in enumerate(SMALLER):
        scale = share * min(room[0] / piece[0], room[1] / piece[1])
        width, height = (max(1, round(side * scale)) for side in piece)
        for spot, area in enumerate(_spots(size, width, height)):
            if any(_meet(area, other) for other in taken):
                continue
            hidden = [number for number, mark in enumerate(marks) if _meet(area, mark)]
            near = sum(_meet(area, _grown(mark)) for mark in marks)
            covers = sum(_meet(area, other) for other in areas)
            options.append(((len(hidden), near, covers, rank, spot), area, hidden))
    if not options or min(room) < 1:
        return None
    _, area, hidden = min(options)
    return area, hidden


def _spots(size: tuple[int, int], width: int, height: int) -> Iterator[Area]:
    right, bottom = size[0] - width, size[1] - height
    middle, center = right // 2, bottom // 2
    corners = [(right, bottom), (right, 0), (0, bottom), (0, 0)]
    sides = [(right, center), (0, center), (middle, bottom), (middle, 0)]
    for left, top in corners + sides:
        if left >= 0 and top >= 0:
            yield left, top, left + width, top + height


def _grown(mark: Frame) -> Frame:
    return mark[0] - CLEARANCE, mark[1] - CLEARANCE, mark[2] + CLEARANCE, mark[3] + CLEARANCE


def _meet(one: Frame, two: Frame) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]

"""A region as pixels: its inner place, tint and contour, its colour, and where its number stands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import PixelRect, common_rect, overlaps
from looktwice.pipelines.marks import Box, Mask, mask_bounds
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB


@dataclass(frozen=True, eq=False)
class Region:
    """What is seen of a box or mask: `pixels` (height, width) bool, their top left corner at (left, top) of a frame."""

    left: int
    top: int
    pixels: NDArray[np.bool_]

    @classmethod
    def of(cls, pixels: NDArray[np.bool_], left: int = 0, top: int = 0) -> Region | None:
        """The region cut to the smallest box around it; None where no pixel is set."""
        x0, y0, x1, y1 = mask_bounds(pixels)
        return cls(left + x0, top + y0, pixels[y0:y1, x0:x1]) if x1 else None

    @cached_property
    def area(self) -> int:
        """How many pixels are in it."""
        return int(np.count_nonzero(self.pixels))

    @property
    def box(self) -> PixelRect:
        """Left, top, right, bottom of the smallest box around it, half-open."""
        return self.left, self.top, self.left + self.pixels.shape[1], self.top + self.pixels.shape[0]

    @cached_property
    def depth(self) -> NDArray[np.float32]:
        """Per pixel the distance to the nearest pixel centre outside; the frame's rim counts as outside too."""
        padded = cv2.copyMakeBorder(self.pixels.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
        return np.asarray(cv2.distanceTransform(padded, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)[1:-1, 1:-1], np.float32)

    @property
    def inscribed(self) -> tuple[int, int, float]:
        """(x, y, radius) of the largest inscribed circle, in pixels of the frame; its centre lies in the region."""
        y, x = np.unravel_index(int(np.argmax(self.depth)), self.depth.shape)
        return self.left + int(x), self.top + int(y), float(self.depth[y, x])

    def room(self, width: int, height: int) -> tuple[int, int] | None:
        """Where a plate of this size lies wholly inside, as deep as it can: its (left, top); None where nowhere."""
        if width > self.pixels.shape[1] or height > self.pixels.shape[0]:
            return None
        anchor = ((width - 1) // 2, (height - 1) // 2)
        kernel, inside = np.ones((height, width), np.uint8), self.pixels.astype(np.uint8)
        fits = cv2.erode(inside, kernel, anchor=anchor, borderType=cv2.BORDER_CONSTANT, borderValue=0)
        if not fits.any():
            return None
        y, x = np.unravel_index(int(np.argmax(np.where(fits, self.depth, 0))), fits.shape)
        return self.left + int(x) - anchor[0], self.top + int(y) - anchor[1]

    def without(self, other: Region) -> Region | None:
        """The part of it that the other does not cover; None where nothing is left."""
        both = common_rect(self.box, other.box)
        if both is None:
            return self
        left, top, right, bottom = both
        over = other.pixels[top - other.top : bottom - other.top, left - other.left : right - other.left]
        here = slice(top - self.top, bottom - self.top), slice(left - self.left, right - self.left)
        if not (self.pixels[here] & over).any():
            return self
        pixels = self.pixels.copy()
        pixels[here] &= ~over
        return Region.of(pixels, self.left, self.top)

    def tint(self, pixels: Pixels, color: RGB, alpha: float) -> None:
        """Mix a colour into its pixels of the frame; `alpha` in 0..1 is the colour's share."""
        window = self._window(pixels)
        mixed = window[self.pixels] * np.float32(1 - alpha) + np.asarray(color, np.float32) * np.float32(alpha)
        window[self.pixels] = np.rint(mixed).astype(np.uint8)

    def contour(self, pixels: Pixels, color: RGB, thickness: float) -> None:
        """Paint its rim, inwards: its pixels whose distance to what is outside is at most `thickness`."""
        self._window(pixels)[self.pixels & (self.depth < thickness + 0.5)] = color

    def _window(self, pixels: Pixels) -> Pixels:
        left, top, right, bottom = self.box
        return pixels[top:bottom, left:right]


def raster(place: Box | Mask, size: tuple[int, int]) -> Region | None:
    """A mark in a view of this size (width, height) as its region; None where it covers no pixel centre there."""
    if isinstance(place, Mask):
        return Region.of(place.pixels[: size[1], : size[0]])
    x0, y0, x1, y1 = (math.ceil(edge - 0.5) for edge in place.xyxy)
    seen = common_rect((x0, y0, x1, y1), (0, 0, *size))
    if seen is None:
        return None
    left, top, right, bottom = seen
    return Region(left, top, np.ones((bottom - top, right - left), bool))


GAP = 2  # free pixels between a region and the number beside it
RINGS = 12  # how far a number may move away, in its own heights


@dataclass(frozen=True)
class Plate:
    """A number of a region: its place in the view, and the pixel (x, y) of the region that it stands for."""

    label: str
    area: PixelRect
    anchor: tuple[int, int]
    inside: bool


def place_numbers(
    regions: Sequence[tuple[str, Region]], sizes: Mapping[str, tuple[int, int]], frames: Sequence[PixelRect]
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


def _frame(frames: Sequence[PixelRect], anchor: tuple[int, int]) -> PixelRect:
    """The topmost frame around a pixel; frames are given bottom up."""
    x, y = anchor
    return next(f for f in (*reversed(frames), frames[0]) if (f[0] <= x < f[2] and f[1] <= y < f[3]) or f is frames[0])


def _beside(
    label: str,
    region: Region,
    size: tuple[int, int],
    frame: PixelRect,
    taken: Sequence[PixelRect],
    small: Sequence[tuple[PixelRect, tuple[int, int]]],
) -> PixelRect:
    free = [area for area in _around(region.box, size, frame) if not any(overlaps(area, other) for other in taken)]
    if not free:
        raise ValueError(
            f"number {label} of {size[0]} x {size[1]} pixels has no room beside its region of "
            f"{region.pixels.shape[1]} x {region.pixels.shape[0]} pixels; give less font_size or padding, more "
            "min_area, or fewer regions (most)"
        )
    return min(free, key=lambda area: _cost(area, region.box, small))


def _cost(area: PixelRect, own: PixelRect, small: Sequence[tuple[PixelRect, tuple[int, int]]]) -> tuple[int, float]:
    """How much a number beside its region hides, and how far off it is."""
    hidden = sum(area[0] <= x < area[2] and area[1] <= y < area[3] for _, (x, y) in small)
    over = sum(overlaps(area, box) for box, _ in small)
    across = max(own[0] - area[2], area[0] - own[2], 0)
    down = max(own[1] - area[3], area[1] - own[3], 0)
    return 2 * hidden + over, math.hypot(across, down)


def _around(box: PixelRect, size: tuple[int, int], frame: PixelRect) -> Iterator[PixelRect]:
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

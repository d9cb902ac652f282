"""What is seen of a region in a view, as pixels: its inner place, tint and contour, and colours to tell them apart."""

from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import Box, Mask
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.colors import RGB

__all__ = ["Region", "hue", "raster"]

GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False)
class Region:
    """What is seen of a box or mask: `pixels` (height, width) bool, their top left corner at (left, top) of a frame."""

    left: int
    top: int
    pixels: NDArray[np.bool_]

    @classmethod
    def of(cls, pixels: NDArray[np.bool_], left: int = 0, top: int = 0) -> Region | None:
        """The region cut to the smallest box around it; None where no pixel is set."""
        rows, columns = np.flatnonzero(pixels.any(1)), np.flatnonzero(pixels.any(0))
        if not len(rows):
            return None
        y0, y1, x0, x1 = int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1
        return cls(left + x0, top + y0, pixels[y0:y1, x0:x1])

    @cached_property
    def area(self) -> int:
        """How many pixels are in it."""
        return int(np.count_nonzero(self.pixels))

    @property
    def box(self) -> tuple[int, int, int, int]:
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
        left, top = max(self.left, other.left), max(self.top, other.top)
        right, bottom = min(self.box[2], other.box[2]), min(self.box[3], other.box[3])
        if right <= left or bottom <= top:
            return self
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
    width, height = size
    if isinstance(place, Mask):
        return Region.of(place.pixels[:height, :width])
    left, top = max(0, math.ceil(place.x0 - 0.5)), max(0, math.ceil(place.y0 - 0.5))
    right, bottom = min(width, math.ceil(place.x1 - 0.5)), min(height, math.ceil(place.y1 - 0.5))
    if right <= left or bottom <= top:
        return None
    return Region(left, top, np.ones((bottom - top, right - left), bool))


def hue(number: int) -> RGB:
    """Bright colours in a fixed order without end, each far from those just before it: golden steps round the hues."""
    red, green, blue = colorsys.hsv_to_rgb((number * GOLDEN) % 1, 0.85, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)

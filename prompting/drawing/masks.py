"""A region as pixels of a view: the middle of its largest circle, its tint and its contour."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import PixelRect, common_rect
from looktwice.pipelines.marks import Box, Mark, Mask, mask_bounds
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB


@dataclass(frozen=True, eq=False)
class Region:
    """What is seen of a box or mask: `pixels` (height, width) bool, their top left corner at (left,
    top) of a frame."""

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
        return (
            self.left,
            self.top,
            self.left + self.pixels.shape[1],
            self.top + self.pixels.shape[0],
        )

    @cached_property
    def depth(self) -> NDArray[np.float32]:
        """Per pixel the distance to the nearest pixel centre outside; the frame's rim counts as
        outside too."""
        padded = cv2.copyMakeBorder(
            self.pixels.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0
        )
        return np.asarray(
            cv2.distanceTransform(padded, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)[1:-1, 1:-1],
            np.float32,
        )

    @property
    def inscribed(self) -> tuple[int, int, float]:
        """(x, y, radius) of the largest inscribed circle, in pixels of the frame; its centre lies
        in the region."""
        y, x = np.unravel_index(int(np.argmax(self.depth)), self.depth.shape)
        return self.left + int(x), self.top + int(y), float(self.depth[y, x])

    def room(self, width: int, height: int) -> tuple[int, int] | None:
        """Where a plate of this size lies wholly inside, as deep as it can: its (left, top); None
        where nowhere."""
        if width > self.pixels.shape[1] or height > self.pixels.shape[0]:
            return None
        anchor = ((width - 1) // 2, (height - 1) // 2)
        kernel, inside = np.ones((height, width), np.uint8), self.pixels.astype(np.uint8)
        fits = cv2.erode(
            inside, kernel, anchor=anchor, borderType=cv2.BORDER_CONSTANT, borderValue=0
        )
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
        over = other.pixels[
            top - other.top : bottom - other.top, left - other.left : right - other.left
        ]
        here = slice(top - self.top, bottom - self.top), slice(left - self.left, right - self.left)
        if not (self.pixels[here] & over).any():
            return self
        pixels = self.pixels.copy()
        pixels[here] &= ~over
        return Region.of(pixels, self.left, self.top)

    def tint(self, pixels: Pixels, color: RGB, alpha: float) -> None:
        """Mix a colour into its pixels of the frame; `alpha` in 0..1 is the colour's share."""
        window = self._window(pixels)
        mixed = window[self.pixels] * np.float32(1 - alpha) + np.asarray(
            color, np.float32
        ) * np.float32(alpha)
        window[self.pixels] = np.rint(mixed).astype(np.uint8)

    def contour(self, pixels: Pixels, color: RGB, thickness: float) -> None:
        """Paint its rim, inwards: its pixels whose distance to what is outside is at most
        `thickness`."""
        self._window(pixels)[self.pixels & (self.depth < thickness + 0.5)] = color

    def _window(self, pixels: Pixels) -> Pixels:
        left, top, right, bottom = self.box
        return pixels[top:bottom, left:right]


def raster(place: Box | Mask, size: tuple[int, int]) -> Region | None:
    """A mark in a view of this size (width, height) as its region; None where it covers no pixel
    centre there."""
    if isinstance(place, Mask):
        return Region.of(place.pixels[: size[1], : size[0]])
    x0, y0, x1, y1 = (math.ceil(edge - 0.5) for edge in place.xyxy)
    seen = common_rect((x0, y0, x1, y1), (0, 0, *size))
    if seen is None:
        return None
    left, top, right, bottom = seen
    return Region(left, top, np.ones((bottom - top, right - left), bool))


def inner_center(place: Mark) -> tuple[float, float]:
    """The middle of the largest circle that a mask holds; of a point or a box its own middle. In
    pixel centres."""
    region = Region.of(place.pixels) if isinstance(place, Mask) else None
    if region is None:
        return place.center
    x, y, _ = region.inscribed
    return float(x), float(y)

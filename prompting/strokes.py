"""Smooth shapes around a point: each pixel takes as much colour as the shape covers of it, and only there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.prompting.colors import RGB
from looktwice.prompting.placement import Area

__all__ = ["Arrow", "Cross", "Disc", "Floats", "Ring", "Shape", "cover", "coverage", "paint", "stamp"]

Floats = NDArray[np.float32]
Extent = tuple[float, float, float, float]


class Shape(Protocol):
    """A shape around (0, 0), in pixels; frozen, so that it can be drawn once and kept."""

    @property
    def box(self) -> Extent:
        """Left, top, right and bottom of what it covers."""
        ...

    def __hash__(self) -> int: ...

    def distance(self, x: Floats, y: Floats) -> Floats:
        """The distance to its rim in pixels, negative inside; x and y broadcast to (height, width)."""
        ...


@dataclass(frozen=True)
class Ring:
    """A circle line; `radius` runs to the middle of the stroke. `gap` pixels are left open at the four sides."""

    radius: float
    thickness: float
    gap: float = 0

    @property
    def box(self) -> Extent:
        """See `Shape`."""
        return _around(self.radius + self.thickness / 2)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """See `Shape`."""
        rim = np.abs(np.hypot(x, y) - np.float32(self.radius)) - np.float32(self.thickness / 2)
        return np.maximum(rim, self.gap / 2 - np.minimum(np.abs(x), np.abs(y))) if self.gap else rim


@dataclass(frozen=True)
class Disc:
    """A filled circle."""

    radius: float

    @property
    def box(self) -> Extent:
        """See `Shape`."""
        return _around(self.radius)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """See `Shape`."""
        return np.hypot(x, y) - np.float32(self.radius)


@dataclass(frozen=True)
class Cross:
    """Two upright bars from `gap` to `radius` pixels off the middle, on all four sides."""

    radius: float
    thickness: float
    gap: float

    @property
    def box(self) -> Extent:
        """See `Shape`."""
        return _around(self.radius)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """See `Shape`."""
        across, down, half = np.abs(x), np.abs(y), self.thickness / 2
        level = np.maximum(np.maximum(down - half, across - self.radius), self.gap - across)
        upright = np.maximum(np.maximum(across - half, down - self.radius), self.gap - down)
        return np.minimum(level, upright)


@dataclass(frozen=True)
class Arrow:
    """An arrow whose tip stops `gap` pixels before the middle; it comes from `angle` degrees, 0 right, 90 above.

    `length` runs from tip to tail, `head` is the head's length and width.
    """

    length: float
    thickness: float
    head: float
    gap: float
    angle: float

    @property
    def box(self) -> Extent:
        """See `Shape`."""
        (dx, dy), tail, half = self._way, self.gap + self.length, self.thickness / 2
        shoulder, wing = self.gap + self.head, self.head / 2
        along = [(self.gap, 0.0), (shoulder, wing), (shoulder, -wing), (tail, half), (tail, -half)]
        xs, ys = zip(*((a * dx - b * dy, a * dy + b * dx) for a, b in along), strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """See `Shape`."""
        dx, dy = self._way
        along, aside = x * dx + y * dy - self.gap, np.abs(y * dx - x * dy)
        shaft = np.maximum(aside - self.thickness / 2, np.maximum(self.head / 2 - along, along - self.length))
        steep = math.hypot(0.5, 1)
        before = along + aside / 2 < 0  # where the tip is what lies nearest
        sides = np.where(before, np.hypot(along, aside), (aside - along / 2) / steep)
        return np.asarray(np.minimum(shaft, np.maximum(sides, along - self.head)), np.float32)

    @property
    def tail(self) -> tuple[float, float]:
        """Where the arrow begins, in the middle of its shaft."""
        (dx, dy), tail = self._way, self.gap + self.length
        return tail * dx, tail * dy

    @property
    def _way(self) -> tuple[float, float]:
        return math.cos(math.radians(self.angle)), -math.sin(math.radians(self.angle))


def stamp(
    pixels: Pixels, frame: Area, shape: Shape, x: float, y: float, color: RGB, alpha: float = 1, grow: float = 0
) -> None:
    """Paint a shape around the point (x, y), in pixel centres, on the picture itself, inside `frame` alone.

    `grow` pixels make it larger on all sides.
    """
    column, row = math.floor(x), math.floor(y)
    left, top, keep, add = _mixed(shape, x - column, y - row, color, alpha, grow)
    patch, inner = _cut(pixels, frame, column + left, row + top, keep.shape)
    mixed = patch * keep[inner]
    mixed += add[inner]
    mixed >>= 8
    patch[:] = mixed


@lru_cache(maxsize=512)
def coverage(shape: Shape, x: float, y: float, grow: float = 0) -> tuple[int, int, Floats]:
    """How much of each pixel a shape around (x, y) covers: the patch's left, its top, and 0..1, HxW, read-only."""
    x0, y0, x1, y1 = shape.box
    left, top = math.floor(x + x0 - grow - 0.5), math.floor(y + y0 - grow - 0.5)
    right, bottom = math.ceil(x + x1 + grow + 0.5) + 1, math.ceil(y + y1 + grow + 0.5) + 1
    xs = np.arange(left, right, dtype=np.float32)[None] - np.float32(x)
    ys = np.arange(top, bottom, dtype=np.float32)[:, None] - np.float32(y)
    covered = cover(shape.distance(xs, ys) - np.float32(grow))
    covered.flags.writeable = False
    return left, top, covered


@lru_cache(maxsize=512)
def _mixed(
    shape: Shape, x: float, y: float, color: RGB, alpha: float, grow: float
) -> tuple[int, int, NDArray[np.uint16], NDArray[np.uint16]]:
    """The patch's left and top, and what to multiply its pixels by and to add, in 1/256; both HxWx3."""
    left, top, covered = coverage(shape, x, y, grow)
    share = np.rint(np.repeat(covered[..., None], 3, axis=2) * (256 * alpha)).astype(np.uint16)
    return left, top, 256 - share, share * np.array(color, np.uint16) + np.uint16(128)


def cover(distance: Floats) -> Floats:
    """How much of a pixel lies inside a rim that passes its centre at this distance, negative inside: 0..1."""
    return np.asarray(np.clip(np.float32(0.5) - distance, 0, 1), np.float32)


def paint(
    pixels: Pixels, frame: Area, left: int, top: int, covered: Floats, color: RGB | Pixels, alpha: float = 1
) -> None:
    """Mix a colour, or other pixels of the patch's size, into the picture; `covered` is HxW in 0..1.

    The patch's top-left pixel stands at (left, top); what lies outside `frame` and the picture is cut.
    """
    patch, inner = _cut(pixels, frame, left, top, covered.shape)
    share = covered[inner][..., None]
    other = np.asarray(color, np.float32) if isinstance(color, tuple) else color[inner].astype(np.float32)
    patch[:] = np.rint(patch + (share * np.float32(alpha) if alpha != 1 else share) * (other - patch))


def _cut(
    pixels: Pixels, frame: Area, left: int, top: int, shape: tuple[int, ...]
) -> tuple[Pixels, tuple[slice, slice]]:
    """The pixels under a patch of this shape, and the part of the patch that lies in the frame and the picture."""
    x0, y0 = max(0, frame[0], left), max(0, frame[1], top)
    x1 = max(x0, min(pixels.shape[1], frame[2], left + shape[1]))
    y1 = max(y0, min(pixels.shape[0], frame[3], top + shape[0]))
    return pixels[y0:y1, x0:x1], (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))


def _around(reach: float) -> Extent:
    return -reach, -reach, reach, reach

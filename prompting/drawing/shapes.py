"""Paints shapes with smooth edges: each pixel is blended in proportion to the share of it that they
cover."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import PixelRect, Rect
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB

FloatArray = NDArray[np.float32]


class Shape(Protocol):
    """A shape around (0, 0), in pixels. It is frozen, so that its drawing can be cached."""

    @property
    def box(self) -> Rect:
        """Left, top, right and bottom of the area that the shape covers."""
        ...

    def __hash__(self) -> int: ...

    def measure_distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the distance to the shape's edge in pixels, negative inside; x and y broadcast to
        (height, width)."""
        ...


def make_square(reach: float) -> Rect:
    """Return the square around (0, 0) that extends `reach` pixels to each side."""
    return -reach, -reach, reach, reach


def paint_shape(
    pixels: Pixels,
    frame: PixelRect,
    shape: Shape,
    x: float,
    y: float,
    color: RGB,
    alpha: float = 1,
    grow: float = 0,
) -> None:
    """Paint a shape around the point (x, y), which is in pixel centres, into the picture, but only
    inside `frame`. The shape is enlarged by `grow` pixels on all sides.
    """
    column, row = math.floor(x), math.floor(y)
    left, top, keep, add = _compute_blend(shape, x - column, y - row, color, alpha, grow)
    patch, inner = _crop_patch(pixels, frame, column + left, row + top, keep.shape)
    mixed = patch * keep[inner]
    mixed += add[inner]
    mixed >>= 8
    patch[:] = mixed


@lru_cache(maxsize=512)
def _compute_blend(
    shape: Shape, x: float, y: float, color: RGB, alpha: float, grow: float
) -> tuple[int, int, NDArray[np.uint16], NDArray[np.uint16]]:
    """Return the left and top of the patch that a shape covers, and the factor and the summand that
    blend its pixels with the colour, both HxWx3 and in units of 1/256."""
    x0, y0, x1, y1 = shape.box
    left, top = math.floor(x + x0 - grow - 0.5), math.floor(y + y0 - grow - 0.5)
    right, bottom = math.ceil(x + x1 + grow + 0.5) + 1, math.ceil(y + y1 + grow + 0.5) + 1
    xs = np.arange(left, right, dtype=np.float32)[None] - np.float32(x)
    ys = np.arange(top, bottom, dtype=np.float32)[:, None] - np.float32(y)
    covered = compute_coverage(shape.measure_distance(xs, ys) - np.float32(grow))[..., None]
    share = np.rint(np.repeat(covered, 3, axis=2) * (256 * alpha)).astype(np.uint16)
    return left, top, 256 - share, share * np.array(color, np.uint16) + np.uint16(128)


def compute_coverage(distance: FloatArray) -> FloatArray:
    """Return the share, 0..1, of a pixel that lies inside an edge at this distance from its centre
    (negative inside)."""
    return np.asarray(np.clip(np.float32(0.5) - distance, 0, 1), np.float32)


def paint_coverage(
    pixels: Pixels,
    frame: PixelRect,
    left: int,
    top: int,
    covered: FloatArray,
    color: RGB | Pixels,
    alpha: float = 1,
) -> None:
    """Blend a colour, or other pixels of the patch's size, into the picture; `covered` is HxW in
    0..1.

    The patch's top-left pixel is at (left, top); parts outside `frame` and the picture are cut off.
    """
    patch, inner = _crop_patch(pixels, frame, left, top, covered.shape)
    share = covered[inner][..., None]
    paint = np.asarray(color if isinstance(color, tuple) else color[inner], np.float32)
    share = share * np.float32(alpha) if alpha != 1 else share
    patch[:] = np.rint(patch + share * (paint - patch))


def _crop_patch(
    pixels: Pixels, frame: PixelRect, left: int, top: int, shape: tuple[int, ...]
) -> tuple[Pixels, tuple[slice, slice]]:
    """Return the pixels under a patch of this shape, and the part of the patch inside the frame and
    the picture."""
    x0, y0 = max(0, frame[0], left), max(0, frame[1], top)
    x1 = max(x0, min(pixels.shape[1], frame[2], left + shape[1]))
    y1 = max(y0, min(pixels.shape[0], frame[3], top + shape[0]))
    return pixels[y0:y1, x0:x1], (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))

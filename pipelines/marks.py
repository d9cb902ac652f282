"""Marks in an image: labelled points, boxes and masks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import (
    TOLERANCE,
    Affine,
    PixelRect,
    Polygon,
    Rect,
    bounds,
    contains,
    intersect,
    rectangle,
    warp,
)

__all__ = ["Box", "Mark", "Mask", "Point"]

MAX_MASK_PIXELS = 2**28  # pixels of a mask; a larger size is an error in the file
NEAR_KERNEL, FAR_KERNEL = np.ones((3, 3), np.uint8), np.ones((7, 7), np.uint8)
"""Kernels that dilate a mask by 1 pixel, and by the 3 pixels by which a thin part may be shortened
in a view."""
# mask pixels along the side of a view pixel; a mask with more is downsampled first
MAX_PIXELS_ALONG_SIDE = 16
MAX_SEARCH_SIDE = 32  # pixels; a larger square takes longer to look for than it saves


@dataclass(frozen=True)
class Point:
    """A labelled point of image number `image`, in pixel-centre coordinates."""

    label: str
    x: float
    y: float
    image: int = 0

    @property
    def center(self) -> tuple[float, float]:
        """(x, y) in pixel-centre coordinates."""
        return self.x, self.y

    def transform(self, affine: Affine, clip: Polygon) -> Point | None:
        """Return the transformed point, or None if it falls outside the area `clip`."""
        x = affine.a * self.x + affine.b * self.y + affine.c
        y = affine.d * self.x + affine.e * self.y + affine.f
        return Point(self.label, x, y, self.image) if contains(clip, x + 0.5, y + 0.5) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the mark as plain JSON values, as in records and JSONL files."""
        return dict(vars(self))


@dataclass(frozen=True)
class Box:
    """A labelled upright box of image number `image`, in edge coordinates, half-open."""

    label: str
    x0: float
    y0: float
    x1: float
    y1: float
    image: int = 0

    def __post_init__(self) -> None:
        if not (self.x1 > self.x0 and self.y1 > self.y0):
            raise ValueError(
                f"box {self.label!r} has no area: x0={self.x0}, y0={self.y0}, x1={self.x1},"
                f" y1={self.y1}; give the left, top, right and bottom edge, in this order"
            )

    @property
    def center(self) -> tuple[float, float]:
        """(x, y) in pixel-centre coordinates."""
        return (self.x0 + self.x1 - 1) / 2, (self.y0 + self.y1 - 1) / 2

    @property
    def xyxy(self) -> Rect:
        """Left, top, right and bottom edge."""
        return self.x0, self.y0, self.x1, self.y1

    def transform(self, affine: Affine, clip: Polygon) -> Box | None:
        """Return the smallest upright box around the visible part of this one, or None."""
        seen = intersect(affine.map_polygon(rectangle(*self.xyxy)), clip)
        return Box(self.label, *bounds(seen), self.image) if seen else None

    def to_dict(self) -> dict[str, Any]:
        """Return the mark as plain JSON values, as in records and JSONL files."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Mask:
    """A labelled region of image number `image`: a boolean array HxW in that image's pixels."""

    label: str
    pixels: NDArray[np.bool_]
    image: int = 0

    def __post_init__(self) -> None:
        if self.pixels.ndim != 2 or not self.pixels.any():
            raise ValueError(f"mask {self.label!r} is empty or not HxW: shape {self.pixels.shape}")
        pixels = np.array(self.pixels, bool)
        pixels.flags.writeable = False
        object.__setattr__(self, "pixels", pixels)

    @property
    def center(self) -> tuple[float, float]:
        """The centroid (x, y) in pixel-centre coordinates."""
        ys, xs = np.nonzero(self.pixels)
        return float(xs.mean()), float(ys.mean())

    def transform(self, affine: Affine, clip: Polygon) -> Mask | None:
        """Return the visible part of the transformed mask, in the frame bounded by `clip`, or None.
        Sampling is nearest-pixel; parts too thin for it keep the pixels that they fall on."""
        width, height = (max(1, round(edge)) for edge in bounds(clip)[2:])
        warped = warp(self.pixels.astype(np.uint8), affine, (width, height), nearest=True)
        seen = warped.astype(bool)
        seen |= _find_lost_parts(self.pixels, affine, seen)
        ys, xs = np.nonzero(seen)
        inside = contains(clip, xs + 0.5, ys + 0.5)
        seen[ys, xs] = inside
        return Mask(self.label, seen, self.image) if inside.any() else None

    def to_dict(self) -> dict[str, Any]:
        """Return the mask as plain JSON values, as in records: its size, and row-major run lengths
        that begin with a run of False."""
        flat = self.pixels.ravel()
        edges = np.flatnonzero(np.diff(flat)) + 1
        runs = np.diff(np.concatenate(([0], edges, [flat.size]))).tolist()
        counts = [0, *runs] if flat[0] else runs
        return {
            "label": self.label,
            "size": list(self.pixels.shape),
            "counts": counts,
            "image": self.image,
        }


def _find_lost_parts(
    pixels: NDArray[np.bool_], affine: Affine, seen: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Find thin parts of a mask that nearest-pixel sampling lost, and return the view pixels that
    they cover. A part is lost if some of it lies more than 3 pixels from everything in `seen`."""
    import cv2

    linear = affine.matrix[:, :2]
    most, least = map(float, np.linalg.svd(linear, compute_uv=False))  # its two stretch factors
    is_upright = np.count_nonzero(np.abs(linear) > TOLERANCE) <= 2
    if least >= (1 - TOLERANCE if is_upright else math.sqrt(2)):  # no pixel of the mask is skipped
        return np.zeros(seen.shape, bool)
    step = max(1, int(1 / max(most, TOLERANCE)) // MAX_PIXELS_ALONG_SIDE)
    thin = _find_thin_parts(
        _downsample(pixels, step), math.ceil(1 / max(least * step, TOLERANCE)) + 1
    )
    ys, xs = ((place + 0.5) * step - 0.5 for place in np.nonzero(thin))
    columns, rows = (np.rint(a * xs + b * ys + c).astype(int) for a, b, c in affine.matrix)
    there = (columns >= 0) & (rows >= 0) & (columns < seen.shape[1]) & (rows < seen.shape[0])
    fallen = np.zeros(seen.shape, bool)
    fallen[rows[there], columns[there]] = True
    away = fallen & ~_dilate(seen, FAR_KERNEL)
    if not away.any():
        return away
    _, parts = cv2.connectedComponents((fallen & ~_dilate(seen, NEAR_KERNEL)).astype(np.uint8))
    lost = (parts > 0) & np.isin(parts, parts[away])
    return fallen & _dilate(lost, NEAR_KERNEL)


def _downsample(pixels: NDArray[np.bool_], step: int) -> NDArray[np.bool_]:
    """Downsample a mask: a square of `step` x `step` pixels is set if any of its pixels is set."""
    if step == 1:
        return pixels
    height, width = pixels.shape
    framed = np.pad(pixels, ((0, -height % step), (0, -width % step)))
    down, across = framed.shape[0] // step, framed.shape[1] // step
    return np.asarray(framed.reshape(down, step, across, step).any((1, 3)))


def _find_thin_parts(pixels: NDArray[np.bool_], side: int) -> NDArray[np.bool_]:
    """Return the pixels of a mask that lie in no full square of this side; all of its pixels if the
    square is too large to look for."""
    import cv2

    if side > MAX_SEARCH_SIDE:
        return pixels
    framed = np.pad(pixels, side).astype(np.uint8)
    broad = cv2.morphologyEx(framed, cv2.MORPH_OPEN, np.ones((side, side), np.uint8))
    return np.asarray(pixels & (broad[side:-side, side:-side] == 0))


def _dilate(pixels: NDArray[np.bool_], reach: NDArray[np.uint8]) -> NDArray[np.bool_]:
    import cv2

    return np.asarray(cv2.dilate(pixels.astype(np.uint8), reach), np.bool_)


Mark = Point | Box | Mask
Marks = tuple[Mark, ...]


def mark_from_dict(data: Mapping[str, Any]) -> Mark:
    """Build a mark from its `to_dict` form. Raises ValueError if the keys fit no kind of mark."""
    label, image = str(data.get("label", "")), int(data.get("image", 0))
    if data.keys() >= {"x", "y"}:
        return Point(label, float(data["x"]), float(data["y"]), image)
    if data.keys() >= {"x0", "y0", "x1", "y1"}:
        x0, y0, x1, y1 = (float(data[key]) for key in ("x0", "y0", "x1", "y1"))
        return Box(label, x0, y0, x1, y1, image)
    if data.keys() >= {"size", "counts"}:
        return Mask(label, _decode_runs(data["size"], data["counts"]), image)
    raise ValueError(
        f"not a mark: {dict(data)}; a point has x, y, a box x0, y0, x1, y1, a mask size, counts;"
        " each may have a label and an image number"
    )


def _decode_runs(size: Any, counts: Any) -> NDArray[np.bool_]:
    lengths = [int(count) for count in counts] if isinstance(counts, list) else []
    sides = [int(side) for side in size] if isinstance(size, list) else []
    area = math.prod(sides) if len(sides) == 2 else 0
    if not 0 < area <= MAX_MASK_PIXELS or min(lengths, default=-1) < 0 or sum(lengths) != area:
        raise ValueError(
            "a mask needs its size as [height, width] and counts of 0 or more that add up to that"
            f" many pixels (at most {MAX_MASK_PIXELS}), found size {size} and {len(lengths)} counts"
            f" of {sum(lengths)} pixels"
        )
    return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(sides)


def bounding_box(mark: Mark) -> Rect:
    """Return the smallest upright box around a mark, in edge coordinates; for a point, a pixel."""
    if isinstance(mark, Mask):
        x0, y0, x1, y1 = mask_bounds(mark.pixels)
        return float(x0), float(y0), float(x1), float(y1)
    return mark.xyxy if isinstance(mark, Box) else (mark.x, mark.y, mark.x + 1, mark.y + 1)


def mask_bounds(pixels: NDArray[np.bool_]) -> PixelRect:
    """Return the smallest upright box around the True pixels of an array HxW, half-open; (0, 0, 0,
    0) if there are none."""
    rows, columns = np.flatnonzero(pixels.any(1)), np.flatnonzero(pixels.any(0))
    if not len(rows):
        return 0, 0, 0, 0
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1

"""Affine maps between pixel frames, the convex areas that they transform, and upright boxes.

**Points** are in pixel-centre coordinates: (0, 0) is the centre of the top-left pixel.
**Areas** (boxes, clip polygons) are in edge coordinates, half-open: the top-left pixel covers
[0, 1) x [0, 1). An edge coordinate is therefore a centre coordinate plus one half. x grows to the
right, y grows downwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__: list[str] = []

Rect = tuple[float, float, float, float]
"""An upright box as left, top, right and bottom edge (xyxy)."""
PixelRect = tuple[int, int, int, int]
"""A `Rect` of whole pixels."""
Size = tuple[int, int]
"""Width and height in pixels."""
XYXY = Rect | NDArray[np.float64]

XY = tuple[float, float]
Polygon = tuple[XY, ...]
"""A convex polygon in edge coordinates, either orientation; () is the empty area."""

TOLERANCE = 1e-6
MAX_WARPED_SIDE = 32_766  # pixels along a side; OpenCV maps no more
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Affine:
    """The map x' = a x + b y + c, y' = d x + e y + f between two frames, in pixel-centre
    coordinates."""

    a: float = 1.0
    b: float = 0.0
    c: float = 0.0
    d: float = 0.0
    e: float = 1.0
    f: float = 0.0

    @classmethod
    def shift(cls, dx: float, dy: float) -> Affine:
        """Return the translation by (dx, dy) pixels."""
        return cls(c=dx, f=dy)

    @classmethod
    def resize(cls, sx: float, sy: float) -> Affine:
        """Return the map of an image resize by the factors `sx`, `sy`: x' = (x + 1/2) sx - 1/2."""
        return cls(a=sx, c=(sx - 1) / 2, e=sy, f=(sy - 1) / 2)

    @classmethod
    def rotation(cls, degrees: float) -> Affine:
        """Return the rotation about (0, 0), counter-clockwise as seen on the screen."""
        cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        return cls(a=cos, b=sin, d=-sin, e=cos)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The 2x3 matrix in the form of `cv2.warpAffine`."""
        return np.array([[self.a, self.b, self.c], [self.d, self.e, self.f]])

    @property
    def edge_map(self) -> Affine:
        """The same map in edge coordinates."""
        return Affine.shift(0.5, 0.5) @ self @ Affine.shift(-0.5, -0.5)

    @property
    def scale(self) -> float:
        """The factor by which lengths are scaled: the square root of the factor for areas."""
        return math.sqrt(abs(self.a * self.e - self.b * self.d))

    @property
    def inverse(self) -> Affine:
        """The inverse map. Raises ValueError if the map is singular."""
        det = self.a * self.e - self.b * self.d
        if abs(det) < 1e-12:
            raise ValueError(f"this map is singular and has no inverse: {self}")
        a, b, d, e = self.e / det, -self.b / det, -self.d / det, self.a / det
        return Affine(a, b, -(a * self.c + b * self.f), d, e, -(d * self.c + e * self.f))

    def __matmul__(self, first: Affine) -> Affine:
        """Compose two maps: apply `first`, then this one."""
        a, b, d, e = self.a, self.b, self.d, self.e
        return Affine(
            a * first.a + b * first.d,
            a * first.b + b * first.e,
            a * first.c + b * first.f + self.c,
            d * first.a + e * first.d,
            d * first.b + e * first.e,
            d * first.c + e * first.f + self.f,
        )

    def __call__(self, points: ArrayLike) -> NDArray[np.float64]:
        """Map points of shape (2,) or (n, 2)."""
        xy = np.asarray(points, np.float64)
        return xy @ self.matrix[:, :2].T + self.matrix[:, 2]

    def map_polygon(self, area: Polygon) -> Polygon:
        """Map a polygon from edge coordinates to edge coordinates."""
        return tuple((float(x), float(y)) for x, y in self.edge_map(area)) if area else ()


def rectangle(x0: float, y0: float, x1: float, y1: float) -> Polygon:
    """Return the four corners of a box in edge coordinates."""
    return ((x0, y0), (x1, y0), (x1, y1), (x0, y1))


def bounds(area: Polygon) -> Rect:
    """Return the smallest upright box (x0, y0, x1, y1) around a non-empty area."""
    xs, ys = [x for x, _ in area], [y for _, y in area]
    return min(xs), min(ys), max(xs), max(ys)


def intersect_boxes(
    first: tuple[Number, Number, Number, Number], second: tuple[Number, Number, Number, Number]
) -> tuple[Number, Number, Number, Number] | None:
    """Return the box in which two boxes overlap, or None if they share no area or only touch."""
    left, top = max(first[0], second[0]), max(first[1], second[1])
    right, bottom = min(first[2], second[2]), min(first[3], second[3])
    return (left, top, right, bottom) if left < right and top < bottom else None


def overlaps(first: Rect, second: Rect) -> bool:
    """Return whether two boxes share any area; boxes that only touch do not."""
    return intersect_boxes(first, second) is not None


def measure_overlap(first: XYXY, second: XYXY) -> float:
    """Return the area that two boxes share."""
    across = min(first[2], second[2]) - max(first[0], second[0])
    down = min(first[3], second[3]) - max(first[1], second[1])
    return float(max(0.0, across) * max(0.0, down))


def iou(first: XYXY, second: XYXY) -> float:
    """Return the intersection over union of two boxes, 0..1; 0 if neither has an area."""
    shared = measure_overlap(first, second)
    union = (
        (first[2] - first[0]) * (first[3] - first[1])
        + (second[2] - second[0]) * (second[3] - second[1])
        - shared
    )
    return float(shared / union) if union > 0 else 0.0


def grow(box: Rect, margin: float) -> Rect:
    """Return the box with every edge moved outwards by `margin`."""
    return box[0] - margin, box[1] - margin, box[2] + margin, box[3] + margin


def contains(area: Polygon, x: ArrayLike, y: ArrayLike) -> NDArray[np.bool_]:
    """Return whether edge coordinates (x, y), numbers or arrays, lie in the area or on its edge."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if len(area) < 3:
        return np.zeros(xs.shape, bool)
    sides = [_measure_signed_distance(p, q, xs, ys) for p, q in _list_edges(area)]
    return np.asarray(
        np.all(np.array(sides) >= -TOLERANCE, 0) | np.all(np.array(sides) <= TOLERANCE, 0)
    )


def intersect(area: Polygon, other: Polygon) -> Polygon:
    """Return the intersection of two convex polygons; () if they share no area (Sutherland and
    Hodgman, 1974)."""
    if len(other) < 3:
        return ()
    sign = 1.0 if _measure_signed_area(other) >= 0 else -1.0
    for p, q in _list_edges(other):
        area = _clip_half_plane(area, p, q, sign)
    return area if abs(_measure_signed_area(area)) > TOLERANCE else ()


def _measure_signed_distance(p: XY, q: XY, x: Any, y: Any) -> Any:
    """Return the signed distance of (x, y) from the line through p and q, in pixels."""
    length = math.hypot(q[0] - p[0], q[1] - p[1]) or 1.0
    return ((q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0])) / length


def _measure_signed_area(area: Polygon) -> float:
    return sum(p[0] * q[1] - q[0] * p[1] for p, q in _list_edges(area)) / 2


def _list_edges(area: Polygon) -> Iterable[tuple[XY, XY]]:
    """Return the end points of each edge."""
    return zip(area, area[1:] + area[:1], strict=True)


def _clip_half_plane(area: Polygon, p: XY, q: XY, sign: float) -> Polygon:
    clipped: list[XY] = []
    for start, end in _list_edges(area):
        here, there = (
            sign * _measure_signed_distance(p, q, *start),
            sign * _measure_signed_distance(p, q, *end),
        )
        if here >= 0:
            clipped.append(start)
        if here * there < 0:
            t = here / (here - there)
            clipped.append((start[0] + t * (end[0] - start[0]), start[1] + t * (end[1] - start[1])))
    return tuple(clipped)


def warp(
    array: NDArray[Any],
    affine: Affine,
    size: Size,
    nearest: bool = False,
    fill: tuple[int, ...] = (0,),
) -> NDArray[Any]:
    """Resample an array (height, width) or (height, width, channels) under a map into a frame of
    this size (width, height).

    Interpolates linearly, or takes the nearest pixel; outside the array the channels have the
    values of `fill`.
    """
    import cv2

    width, height = size
    if max(width, height, *array.shape[:2]) <= MAX_WARPED_SIDE:
        flags = cv2.INTER_NEAREST if nearest else cv2.INTER_LINEAR
        return np.asarray(
            cv2.warpAffine(array, affine.matrix, (width, height), flags=flags, borderValue=fill)
        )
    from scipy.ndimage import affine_transform

    (a, b, c), (d, e, f) = affine.inverse.matrix
    rows_first, shift = [[e, d], [b, a]], [f, c]
    channels = array[..., None] if array.ndim == 2 else array
    warped = np.empty((height, width, channels.shape[2]), array.dtype)
    for number, value in zip(range(channels.shape[2]), (*fill, 0, 0), strict=False):
        affine_transform(
            channels[..., number],
            rows_first,
            shift,
            (height, width),
            output=warped[..., number],
            order=0 if nearest else 1,
            cval=value,
        )
    return warped[..., 0] if array.ndim == 2 else warped

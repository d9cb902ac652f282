"""Ideal drawn shapes (rings, dots, boxes and arrows), fitted to a connected region of one
colour."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.extras.burnt_in.rings import Map
from looktwice.pipelines.geometry import XY

SAMPLES_PER_PIXEL = 4  # samples per pixel and axis for polygons
SHAPE_MARGIN = 4  # pixels of surroundings from which a shape must stand out
MIN_LINE_WIDTH = 0.8  # minimum line width in pixels
MIN_VISIBLE_SHARE = 0.5  # minimum share of a ring inside the picture
MAX_REFINEMENT_ROUNDS = 6  # per step size of the search
Points = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Patch:
    """A connected region and its surroundings: (`left`, `top`) is the upper left pixel in the
    picture, `mask` the region, `closeness` the closeness to the colour, `luma` the brightness, and
    `picture_shape` the picture's (height, width)."""

    left: int
    top: int
    mask: NDArray[np.bool_]
    closeness: Map
    luma: Map
    picture_shape: tuple[int, ...]

    @property
    def points(self) -> Points:
        """The x and y coordinates of the region's pixels."""
        ys, xs = np.nonzero(self.mask)
        return xs.astype(np.float64), ys.astype(np.float64)


class Fit(ABC):
    """A shape with its measures in pixels of a patch; a subclass is a frozen dataclass.
    `tuned_fields` names the fields that `refine` adjusts, `step_sizes` the step sizes."""

    tuned_fields: ClassVar[tuple[str, ...]]
    step_sizes: ClassVar[tuple[float, ...]] = (0.5, 0.25)

    @classmethod
    @abstractmethod
    def propose(cls, patch: Patch) -> Iterator[Self]:
        """Yield shapes that may fit the region."""

    @abstractmethod
    def compute_coverage(self, shape: tuple[int, ...]) -> Map:
        """Return the share of each pixel that the shape covers, HxW."""

    @property
    @abstractmethod
    def is_valid(self) -> bool:
        """Return whether the values form a valid shape of this kind, with a hole if it needs
        one."""

    def score(self, patch: Patch) -> float:
        """Return the correlation of the shape with the closeness around it."""
        covered = self.compute_coverage(patch.closeness.shape)
        reach = np.ones((2 * SHAPE_MARGIN + 1, 2 * SHAPE_MARGIN + 1), np.uint8)
        band = cv2.dilate((covered > 0.05).astype(np.uint8), reach).astype(bool)
        seen, drawn = patch.closeness[band], covered[band]
        if not band.any() or seen.std() < 0.02 or drawn.std() < 0.02:
            return 0.0
        return float(np.corrcoef(seen, drawn)[0, 1])

    def refine(self, patch: Patch) -> tuple[Self, float]:
        """Return the shape, adjusted in steps for as long as its correlation improves, and its
        score."""
        best, most = self, self.score(patch)
        for step in self.step_sizes:
            for _ in range(MAX_REFINEMENT_ROUNDS):
                start = best
                for name in self.tuned_fields:
                    for by in (step, -step):
                        option = replace(best, **{name: getattr(best, name) + by})  # type: ignore[type-var]
                        if option.is_valid and (score := option.score(patch)) > most + 1e-4:
                            best, most = option, score
                if best is start:
                    break
        return best, most


@dataclass(frozen=True)
class RingFit(Fit):
    """A circle drawn with a line `stroke` wide; `radius` reaches to the middle of the line."""

    x: float
    y: float
    radius: float
    stroke: float
    tuned_fields = ("x", "y", "radius", "stroke")

    @property
    def is_valid(self) -> bool:
        return MIN_LINE_WIDTH <= self.stroke <= self.radius

    @classmethod
    def propose(cls, patch: Patch) -> Iterator[Self]:
        xs, ys = patch.points
        equations = np.column_stack([xs, ys, np.ones_like(xs)])
        twice_x, twice_y, rest = np.linalg.lstsq(equations, xs**2 + ys**2, rcond=None)[0].tolist()
        x, y = twice_x / 2, twice_y / 2
        radius = float(np.sqrt(max(0.0, rest + x * x + y * y)))
        if not 2.5 <= radius <= 1.2 * max(patch.mask.shape):
            return
        angles = np.linspace(0, 2 * np.pi, 360, endpoint=False)
        across = patch.left + x + radius * np.cos(angles)
        down = patch.top + y + radius * np.sin(angles)
        inside = (across >= -0.5) & (across < patch.picture_shape[1] - 0.5)
        inside &= (down >= -0.5) & (down < patch.picture_shape[0] - 0.5)
        seen = float(inside.mean())
        if seen < MIN_VISIBLE_SHARE:
            return
        fit = cls(x, y, radius, len(xs) / (2 * np.pi * radius * seen))
        away = np.abs(np.hypot(xs - x, ys - y) - radius).max()
        if fit.is_valid and away <= fit.stroke / 2 + 1.0 + 0.03 * radius:
            yield fit

    def compute_coverage(self, shape: tuple[int, ...]) -> Map:
        away = np.abs(_measure_distance(shape, self.x, self.y) - self.radius)
        return np.clip(self.stroke / 2 + 0.5 - away, 0, 1).astype(np.float32)


@dataclass(frozen=True)
class DotFit(Fit):
    """A filled circle."""

    x: float
    y: float
    radius: float
    tuned_fields = ("x", "y", "radius")

    @property
    def is_valid(self) -> bool:
        return self.radius >= 2.5

    @classmethod
    def propose(cls, patch: Patch) -> Iterator[Self]:
        xs, ys = patch.points
        fit = cls(float(xs.mean()), float(ys.mean()), float(np.sqrt(len(xs) / np.pi)))
        farthest = np.hypot(xs - fit.x, ys - fit.y).max()
        if fit.is_valid and farthest <= 1.03 * fit.radius + 1.0:
            yield fit

    def compute_coverage(self, shape: tuple[int, ...]) -> Map:
        away = _measure_distance(shape, self.x, self.y)
        return np.clip(self.radius + 0.5 - away, 0, 1).astype(np.float32)


@dataclass(frozen=True)
class BoxFit(Fit):
    """An upright rectangle given by its outer edges, with lines `stroke` wide."""

    x0: float
    y0: float
    x1: float
    y1: float
    stroke: float
    tuned_fields = ("x0", "y0", "x1", "y1", "stroke")
    step_sizes = (0.5,)

    @property
    def is_valid(self) -> bool:
        inner = min(self.x1 - self.x0, self.y1 - self.y0) - 2 * self.stroke
        return self.stroke >= MIN_LINE_WIDTH and inner >= max(2.0, 0.8 * self.stroke)

    @classmethod
    def propose(cls, patch: Patch) -> Iterator[Self]:
        xs, ys = patch.points
        x0, x1, y0, y1 = xs.min(), xs.max() + 1, ys.min(), ys.max() + 1
        sides = x1 - x0 + y1 - y0
        root = sides * sides - 4 * len(xs)  # an area of 2 s (w + h) - 4 s², solved for s
        if root > 0:
            stroke = float(sides - np.sqrt(root)) / 4
            fit = cls(float(x0), float(y0), float(x1), float(y1), stroke)
            if fit.is_valid:
                yield fit

    def compute_coverage(self, shape: tuple[int, ...]) -> Map:
        height, width = shape
        inner = self.stroke
        outer = np.outer(
            _cover_span(height, self.y0, self.y1), _cover_span(width, self.x0, self.x1)
        )
        hole = np.outer(
            _cover_span(height, self.y0 + inner, self.y1 - inner),
            _cover_span(width, self.x0 + inner, self.x1 - inner),
        )
        return (outer - hole).astype(np.float32)


@dataclass(frozen=True)
class ArrowFit(Fit):
    """A straight arrow from (`tail_x`, `tail_y`) to its tip (`x`, `y`), with a shaft `stroke` wide.
    The head is `head_length` long and `head_width` wide; it is filled or, with `is_open`, consists
    of two lines."""

    x: float
    y: float
    tail_x: float
    tail_y: float
    head_length: float
    head_width: float
    stroke: float
    is_open: bool
    tuned_fields = ("stroke", "head_width", "head_length")
    step_sizes = (1.0, 0.5)

    @property
    def is_valid(self) -> bool:
        return (
            self.stroke >= 1 and self.head_width >= 1.7 * self.stroke + 1 and self.head_length >= 1
        )

    @property
    def length(self) -> float:
        """The distance from tail to tip."""
        return float(np.hypot(self.x - self.tail_x, self.y - self.tail_y))

    @classmethod
    def propose(cls, patch: Patch) -> Iterator[Self]:
        xs, ys = patch.points
        if len(xs) < 20:
            return
        spread, axes = np.linalg.eigh(np.cov(np.stack([xs, ys])))
        if spread[1] < 4 * max(spread[0], 0.1):
            return
        for towards in (axes[:, 1], -axes[:, 1]):
            yield from cls._propose_along(xs, ys, (float(towards[0]), float(towards[1])))

    @classmethod
    def _propose_along(
        cls, xs: NDArray[np.float64], ys: NDArray[np.float64], axis: XY
    ) -> Iterator[Self]:
        """Yield the arrow along an axis, if the region widens from the tip and then stays
        narrow."""
        (ax, ay), cx, cy = axis, float(xs.mean()), float(ys.mean())
        along, aside = (xs - cx) * ax + (ys - cy) * ay, (ys - cy) * ax - (xs - cx) * ay
        tip = float(along.max())
        behind = np.floor(tip - along + 0.5).astype(int)
        length = int(behind.max()) + 1
        low, high = np.full(length, np.inf), np.full(length, -np.inf)
        np.minimum.at(low, behind, aside)
        np.maximum.at(high, behind, aside)
        if length < 14 or not np.isfinite(low).all():
            return
        width = high - low + 1
        head = int(width[: int(0.6 * length) + 1].argmax())
        thick = float(np.median(width[int(0.6 * length) :]))
        begin = head + 2 + int(np.ceil(thick))
        shaft = width[begin : length - int(thick / 2) - 1]
        if len(shaft) < max(4, 0.2 * length):
            return
        thick, middle = float(np.median(shaft)), float(np.median((high + low)[begin:])) / 2
        x, y = cx + tip * ax - middle * ay, cy + tip * ay + middle * ax
        tail = x - (length - 1) * ax, y - (length - 1) * ay
        fit = cls(x, y, *tail, head + 1.0, float(width[head]), thick, False)
        if fit.is_valid and np.abs(shaft - thick).max() <= 1.2 + 0.3 * thick:
            yield fit
            yield replace(fit, is_open=True)

    @property
    def outline(self) -> list[XY]:
        """The corners of the shaft and the filled head, in order from the tip."""
        left, right = self._compute_barbs(self.head_width / 2)
        start, end = self._compute_barbs(self.stroke / 2)
        (ax, ay), back = self._axis, self.length - self.head_length
        ends = [(px - ax * back, py - ay * back) for px, py in (end, start)]
        return [(self.x, self.y), left, start, *ends[::-1], end, right]

    @property
    def _axis(self) -> XY:
        length = max(self.length, 1e-6)
        return (self.x - self.tail_x) / length, (self.y - self.tail_y) / length

    def _compute_barbs(self, half: float) -> tuple[XY, XY]:
        """Return the points `half` to either side of the axis, at the base of the head."""
        ax, ay = self._axis
        x, y = self.x - ax * self.head_length, self.y - ay * self.head_length
        return (x - ay * half, y + ax * half), (x + ay * half, y - ax * half)

    def compute_coverage(self, shape: tuple[int, ...]) -> Map:
        canvas = np.zeros((shape[0] * SAMPLES_PER_PIXEL, shape[1] * SAMPLES_PER_PIXEL), np.uint8)
        (ax, ay), base = self._axis, self._compute_barbs(0)[0]
        tip, tail = (self.x, self.y), (self.tail_x, self.tail_y)
        if self.is_open:
            lines = [
                (tail, tip),
                *((tip, barb) for barb in self._compute_barbs(self._inner_half_width)),
            ]
        else:
            lines = [(tail, base)]
            _fill_polygon(
                canvas,
                [(self.x + ax / 2, self.y + ay / 2), *self._compute_barbs(self.head_width / 2)],
            )
        for start, end in lines:
            _fill_polygon(canvas, _compute_line_corners(start, end, self.stroke))
        small = cv2.resize(canvas, shape[::-1], interpolation=cv2.INTER_AREA)
        return np.asarray(small, np.float32) / np.float32(255)

    @property
    def _inner_half_width(self) -> float:
        """The distance from the axis to the middle of a line's end in an open head."""
        return (self.head_width - self.stroke) / 2


def _measure_distance(shape: tuple[int, ...], x: float, y: float) -> NDArray[np.float64]:
    ys, xs = np.ogrid[: shape[0], : shape[1]]
    return np.asarray(np.hypot(xs - x, ys - y), np.float64)


def _cover_span(length: int, start: float, stop: float) -> NDArray[np.float64]:
    """Return the share of each pixel in a row that lies between two edges."""
    pixels = np.arange(length)
    inside = np.minimum(pixels + 1, stop) - np.maximum(pixels, start)
    return np.asarray(np.clip(inside, 0, 1), np.float64)


def _compute_line_corners(start: XY, end: XY, width: float) -> list[XY]:
    """Return the corners of a straight line of the given width."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    half = width / 2 / max(float(np.hypot(dx, dy)), 1e-6)
    dx, dy = dx * half, dy * half
    return [
        (start[0] - dy, start[1] + dx),
        (end[0] - dy, end[1] + dx),
        (end[0] + dy, end[1] - dx),
        (start[0] + dy, start[1] - dx),
    ]


def _fill_polygon(canvas: NDArray[np.uint8], corners: Sequence[XY]) -> None:
    """Paint a polygon with corners in pixel-centre coordinates onto a finer canvas; corners are
    rounded to 1/16 of its pixels."""
    places = ((np.asarray(corners) + 0.5) * SAMPLES_PER_PIXEL - 0.5) * 16
    cv2.fillPoly(canvas, [np.rint(places).astype(np.int32)], 255, cv2.LINE_8, 4)

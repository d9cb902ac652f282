"""Markers for points: crosshairs and polygons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from looktwice.pipelines.geometry import Rect
from looktwice.prompting.drawing.shapes import FloatArray, make_square
from looktwice.prompting.markers.base import Spot
from looktwice.prompting.markers.points import PointMarking


@dataclass(frozen=True)
class Cross:
    """A cross of horizontal and vertical bars, which extend from `gap` to `radius` pixels from the
    centre on all four sides."""

    radius: float
    thickness: float
    gap: float

    @property
    def box(self) -> Rect:
        """The box around the shape, relative to its point (see `drawing.shapes.Shape`)."""
        return make_square(self.radius)

    def measure_distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the signed distance to the outline, negative inside (see `Shape`)."""
        across, down, half = np.abs(x), np.abs(y), self.thickness / 2
        level = np.maximum(np.maximum(down - half, across - self.radius), self.gap - across)
        upright = np.maximum(np.maximum(across - half, down - self.radius), self.gap - down)
        return np.minimum(level, upright)


@dataclass(frozen=True)
class Crosshairs(PointMarking):
    """Draws four bars around every point mark; each is `thickness` wide and extends from `radius`
    to `gap` pixels from the point."""

    radius: float = 14
    thickness: float = 3
    gap: float = 4

    ranges = ("radius, thickness, gap > 0", "radius, thickness, gap < 10000")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gap >= self.radius:
            raise ValueError(
                f"bars from {self.gap} to {self.radius} pixels have no length; give a smaller gap"
            )

    @property
    def clearance(self) -> float:
        """The gap between the point and the bars."""
        return self.gap

    def make_shape(self, scale: float, spot: Spot) -> Cross:
        """Return a cross with bars and a gap of at least one pixel."""
        gap = max(self.gap * scale, self.halo.width * scale + 1)
        return Cross(max(self.radius * scale, gap + 1), max(1.0, self.thickness * scale), gap)


PolygonName = Literal["square", "triangle", "diamond"]

SIDE_DISTANCES = {"square": 1.0, "triangle": 1 / math.sqrt(5), "diamond": 1 / math.sqrt(2)}
"""The distance from the point to the nearest side of a shape of radius 1."""


@dataclass(frozen=True)
class Outline:
    """The outline of a polygon; `radius` is the distance from the point to the sides of its
    bounding square."""

    name: PolygonName
    radius: float
    thickness: float

    @property
    def box(self) -> Rect:
        """The box around the shape, including its pointed corners (see `drawing.shapes.Shape`)."""
        return make_square(self.radius + 1.2 * self.thickness)

    def measure_distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the signed distance to the outline, negative inside (see `Shape`)."""
        across, radius = np.abs(x), np.float32(self.radius)
        if self.name == "square":
            rim = np.maximum(across, np.abs(y)) - radius
        elif self.name == "diamond":
            rim = (across + np.abs(y) - radius) / np.float32(math.sqrt(2))
        else:
            rim = np.maximum(y - radius, (2 * across - y - radius) / np.float32(math.sqrt(5)))
        return np.asarray(np.abs(rim) - np.float32(self.thickness / 2), np.float32)


@dataclass(frozen=True)
class Polygons(PointMarking):
    """Draws an outline of the shape `shape_name` around every point mark: a square, a triangle
    (pointing up) or a diamond.

    `radius` is the distance from the point to the sides of the upright bounding square, measured to
    the middle of the stroke, whose width is `thickness`. The other settings are those of Circles;
    the pixel under the point keeps its colour. For VPBench's own rendering of these shapes, use
    VPBenchStyle.
    """

    shape_name: PolygonName = "square"
    radius: float = 10
    thickness: float = 3

    ranges = ("radius, thickness > 0", "radius, thickness < 10000")

    @property
    def clearance(self) -> float:
        """The distance from the point to the inner edge of the nearest side's stroke."""
        return self.radius * SIDE_DISTANCES[self.shape_name] - self.thickness / 2

    def make_shape(self, scale: float, spot: Spot) -> Outline:
        """Return an outline with a stroke and an inside of at least one pixel."""
        thickness = max(1.0, self.thickness * scale)
        least = (thickness / 2 + self.halo.width * scale + 1) / SIDE_DISTANCES[self.shape_name]
        return Outline(self.shape_name, max(self.radius * scale, least), thickness)

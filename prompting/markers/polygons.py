"""Squares, triangles and diamonds around points, with smooth edges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from looktwice.pipelines.geometry import Rect
from looktwice.prompting.drawing.shapes import Floats, square
from looktwice.prompting.markers.base import Spot, check_lengths
from looktwice.prompting.markers.points import PointMarking

PolygonName = Literal["square", "triangle", "diamond"]
NEAREST = {"square": 1.0, "triangle": 1 / math.sqrt(5), "diamond": 1 / math.sqrt(2)}
"""How far the nearest side of a shape of radius 1 is from its point."""


@dataclass(frozen=True)
class Outline:
    """The outline of a polygon; `radius` goes from the point to the sides of the square that just holds it."""

    name: PolygonName
    radius: float
    thickness: float

    @property
    def box(self) -> Rect:
        """The box around the shape with its pointed corners (see `drawing.shapes.Shape`)."""
        return square(self.radius + 1.2 * self.thickness)

    def distance(self, x: Floats, y: Floats) -> Floats:
        """Signed distance to the outline, negative inside (see `drawing.shapes.Shape`)."""
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
    """A `shape_name` outline around every point mark: square, triangle (its tip above) or diamond.

    `radius` goes from the point to the sides of the upright square that just holds the shape, to the middle of the
    stroke, whose width is `thickness`. Everything else is as with Circles; the pixel under the point keeps its colour.
    VPBench's own pixels of these shapes are in VPBenchStyle.
    """

    shape_name: PolygonName = "square"
    radius: float = 10
    thickness: float = 3

    def __post_init__(self) -> None:
        if self.shape_name not in NEAREST:
            raise ValueError(f"shape_name is {', '.join(NEAREST)}, found {self.shape_name!r}")
        check_lengths(self, "radius", "thickness")
        super().__post_init__()
        if self.radius * NEAREST[self.shape_name] - self.thickness / 2 - self.halo.width < 1:
            raise ValueError(
                f"a {self.shape_name} of radius {self.radius}, thickness {self.thickness} and halo {self.halo.width} "
                "hides the point in its middle; give a larger radius"
            )

    def shape(self, scale: float, spot: Spot) -> Outline:
        """An outline of at least a pixel's stroke, around at least a pixel."""
        thickness = max(1.0, self.thickness * scale)
        least = (thickness / 2 + self.halo.width * scale + 1) / NEAREST[self.shape_name]
        return Outline(self.shape_name, max(self.radius * scale, least), thickness)

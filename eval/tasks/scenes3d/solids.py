"""Five solids, how far they are along rays, and how far apart two points of them lie from rays.

Space is right-handed: x to the right, y away from where cameras stand, z up; the ground is z = 0.
Lengths are in units of which a solid of size 1 is two high. Written here and not taken from a
package: a sample's name is the hash of its pixels, so they may not follow a renderer's versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
XYZ = tuple[float, float, float]

REACH = 3**0.5  # from the middle of a solid of size 1 to its farthest corner
STEPS = 80  # at most, along a ray to a surface
NEAR = 2e-4  # a ray that comes so near has hit, in the solid's size
TUBE = 0.25  # of the torus' size is its tube's radius


def _capped(radial: Floats, along: Floats) -> Floats:
    """The distance to a profile from how far outside of it a point is in both directions."""
    outside = np.hypot(np.maximum(radial, 0), np.maximum(along, 0))
    return np.asarray(outside + np.minimum(np.maximum(radial, along), 0))


def _cube(points: Floats) -> Floats:
    over = np.abs(points) - 1
    outside = np.linalg.norm(np.maximum(over, 0), axis=1)
    return np.asarray(outside + np.minimum(over.max(axis=1), 0))


def _radius(points: Floats) -> Floats:
    return np.hypot(points[:, 0], points[:, 1])


def _torus(points: Floats) -> Floats:
    tube = _radius(points) - (1 - TUBE)
    return np.asarray(np.hypot(tube, points[:, 2]) - TUBE)


def _cone(points: Floats) -> Floats:
    side = (2 * _radius(points) + points[:, 2] - 1) / 5**0.5
    return np.maximum(side, -1 - points[:, 2])


DISTANCES: Mapping[str, Callable[[Floats], Floats]] = {
    "cube": _cube,
    "sphere": lambda points: np.linalg.norm(points, axis=1) - 1,
    "cylinder": lambda points: _capped(_radius(points) - 1, np.abs(points[:, 2]) - 1),
    "cone": _cone,
    "torus": _torus,
}
"""How far points (n, 3) are from each solid of size 1 around the origin, below 0 inside: exact, or
less than that beside a cone's rim and tip."""
SHAPES = tuple(DISTANCES)


GAMMA = 2.2
COLORS: Mapping[str, tuple[int, int, int]] = {
    "red": (214, 35, 35),
    "green": (40, 160, 60),
    "blue": (35, 80, 215),
    "orange": (245, 130, 20),
    "purple": (140, 45, 180),
    "black": (25, 25, 25),
    "gray": (128, 128, 128),
    "yellow": (245, 215, 45),
    "white": (240, 240, 240),
}


def linear(color: Sequence[float]) -> XYZ:
    """The reflectance of a colour of 0..255."""
    red, green, blue = ((part / 255) ** GAMMA for part in color)
    return red, green, blue


@dataclass(frozen=True)
class Solid:
    """A solid of `size` around `center`, tilted by `degrees` about an `axis` through it.

    Cube, cylinder, cone and sphere are two sizes wide and high, the torus lies and is half a size
    high. `color` is one of `COLORS`, or three reflectances in 0..1, linear.
    """

    shape: str
    color: str | XYZ
    center: XYZ
    size: float = 1.0
    axis: Literal["x", "y", "z"] = "z"
    degrees: float = 0.0

    @classmethod
    def standing(cls, shape: str, color: str | XYZ, x: float, y: float, size: float) -> Solid:
        """One on the ground."""
        return cls(shape, color, (x, y, size * (TUBE if shape == "torus" else 1)), size)

    @property
    def name(self) -> str:
        """In words: "red cube"; its shape alone where the colour has no name."""
        return f"{self.color} {self.shape}" if isinstance(self.color, str) else self.shape

    @property
    def albedo(self) -> XYZ:
        """Its reflectance, RGB in 0..1, linear."""
        return linear(COLORS[self.color]) if isinstance(self.color, str) else self.color

    @property
    def turn(self) -> Floats:
        """The 3x3 matrix whose columns are the solid's own axes."""
        cos, sin = np.cos(np.radians(self.degrees)), np.sin(np.radians(self.degrees))
        first, second = [n for n in range(3) if n != "xyz".index(self.axis)]
        matrix = np.eye(3)
        matrix[first, first] = matrix[second, second] = cos
        sign = -1 if self.axis == "y" else 1
        matrix[second, first], matrix[first, second] = sign * sin, -sign * sin
        return matrix

    def cast(self, origin: Floats, directions: Floats) -> Floats:
        """How far rays (n, 3) of length 1 go until they hit it; infinite where they miss."""
        turn, measure = self.turn, DISTANCES[self.shape]
        start = (origin - self.center) @ turn / self.size
        middle = -(directions @ (turn @ start))  # along each ray, where it passes nearest
        rays = np.flatnonzero(middle > np.sqrt(max(float(start @ start) - REACH**2, 0)))
        half = np.sqrt((REACH**2 - start @ start + middle[rays] ** 2).clip(0))
        far = np.full(len(directions), np.inf)
        own, along, ends = directions[rays] @ turn, middle[rays] - half, middle[rays] + half
        left = np.arange(len(rays))
        for _ in range(STEPS):
            gaps = measure(start + along[left, None] * own[left])
            along[left] += gaps
            hit = gaps < NEAR
            far[rays[left[hit]]] = self.size * along[left[hit]]
            left = left[~hit & (along[left] < ends[left])]
            if not len(left):
                break
        return far

    def normals(self, points: Floats) -> Floats:
        """The unit vectors (n, 3) that leave the surface at points on it."""
        turn, measure = self.turn, DISTANCES[self.shape]
        own = (points - self.center) @ turn / self.size
        steps = 1e-4 * np.concatenate([np.eye(3), -np.eye(3)])
        gaps = measure((own[:, None] + steps).reshape(-1, 3)).reshape(-1, 6)
        slopes = gaps[:, :3] - gaps[:, 3:]
        return np.asarray((slopes / np.linalg.norm(slopes, axis=1)[:, None]) @ turn.T)

    def to_dict(self) -> dict[str, Any]:
        """As truths hold it."""
        numbers = {"size": round(self.size, 4), "degrees": self.degrees}
        center = [round(part, 4) for part in self.center]
        return {"name": self.name, "center": center, "axis": self.axis, **numbers}

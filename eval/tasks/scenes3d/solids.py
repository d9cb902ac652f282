"""Five solids, and how far they are along rays.

Space is right-handed: x to the right, y away from where cameras stand, z up; the ground is z = 0.
Lengths are in units of which a solid of size 1 is two high. Written here and not taken from a
package: a sample's name is the hash of its pixels, so they may not follow a renderer's versions.
"""

from __future__ import annotations

import math
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
SPREAD = 1.45  # times both sizes are two middles apart, so that solids do not touch
TUBE = 0.25  # of the torus' size is its tube's radius
PLANES = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}  # in which a turn about an axis goes


def _radius(points: Floats) -> Floats:
    return np.hypot(points[:, 0], points[:, 1])


def _box(over: Floats) -> Floats:
    """The distance to a box or profile from how far (n, k) points are outside of its sides."""
    outside = np.linalg.norm(np.maximum(over, 0), axis=1)
    return np.asarray(outside + np.minimum(over.max(axis=1), 0))


DISTANCES: Mapping[str, Callable[[Floats], Floats]] = {
    "cube": lambda points: _box(np.abs(points) - 1),
    "sphere": lambda points: np.linalg.norm(points, axis=1) - 1,
    "cylinder": lambda points: _box(np.column_stack([_radius(points), np.abs(points[:, 2])]) - 1),
    "cone": lambda points: np.maximum(
        (2 * _radius(points) + points[:, 2] - 1) / 5**0.5, -1 - points[:, 2]
    ),
    "torus": lambda points: np.hypot(_radius(points) - (1 - TUBE), points[:, 2]) - TUBE,
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

    def stands_apart(self, solids: Sequence[Solid], sizes: float, least: float = 0.0) -> bool:
        """Whether its middle is so many times both sizes, and at least `least`, from that of each
        of them along the ground."""
        rooms = ((s.center[:2], max(least, sizes * (self.size + s.size))) for s in solids)
        return all(math.dist(self.center[:2], middle) >= room for middle, room in rooms)

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
        angle, (first, second) = np.radians(self.degrees), PLANES[self.axis]
        matrix = np.eye(3)
        matrix[first, first] = matrix[second, second] = np.cos(angle)
        matrix[second, first] = np.sin(angle)
        matrix[first, second] = -matrix[second, first]
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
        center, albedo = ([round(part, 4) for part in v] for v in (self.center, self.albedo))
        return {"name": self.name, "center": center, "axis": self.axis, "albedo": albedo, **numbers}

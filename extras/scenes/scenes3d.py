"""A small ray caster: five solids on a textured ground, cameras, and the ground truth of every
pixel: the solid, its distance, normal and reflectance.

Space is right-handed: x to the right, y away from the cameras, z up; the ground is z = 0. Lengths
are in units in which a solid of size 1 is 2 high. No external renderer is used, because a sample's
name is the hash of its pixels, which must not change with a renderer's version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from looktwice.pipelines.geometry import Size
from looktwice.pipelines.picture import Pixels

Floats = NDArray[np.float64]
XYZ = tuple[float, float, float]

SOLID_RADIUS = 3**0.5  # from the centre of a solid of size 1 to its farthest corner
MAX_RAY_STEPS = 80  # most steps along a ray to a surface
HIT_TOLERANCE = 2e-4  # distance at which a ray has hit, relative to the solid's size
MIN_DISTANCE_FACTOR = 1.45  # of solids that do not touch, as a multiple of the sum of sizes
TUBE_RADIUS = 0.25  # radius of the torus' tube, relative to its size
ROTATION_PLANES = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}  # the plane of a rotation about each axis


def _compute_radius(points: Floats) -> Floats:
    return np.hypot(points[:, 0], points[:, 1])


def _compute_box_distance(side_distances: Floats) -> Floats:
    """Return the signed distance of points to a box or profile, given their signed distances (n, k)
    to each of its sides."""
    outside = np.linalg.norm(np.maximum(side_distances, 0), axis=1)
    return np.asarray(outside + np.minimum(side_distances.max(axis=1), 0))


DISTANCE_FUNCTIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "cube": lambda points: _compute_box_distance(np.abs(points) - 1),
    "sphere": lambda points: np.linalg.norm(points, axis=1) - 1,
    "cylinder": lambda points: _compute_box_distance(
        np.column_stack([_compute_radius(points), np.abs(points[:, 2])]) - 1
    ),
    "cone": lambda points: np.maximum(
        (2 * _compute_radius(points) + points[:, 2] - 1) / 5**0.5, -1 - points[:, 2]
    ),
    "torus": lambda points: (
        np.hypot(_compute_radius(points) - (1 - TUBE_RADIUS), points[:, 2]) - TUBE_RADIUS
    ),
}
"""The signed distances of points (n, 3) from each solid of size 1 at the origin, negative inside;
near a cone's rim and tip they are lower bounds."""
SHAPES = tuple(DISTANCE_FUNCTIONS)


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


def to_linear_color(color: Sequence[float]) -> XYZ:
    """Convert a colour in 0..255 to linear reflectance."""
    red, green, blue = ((part / 255) ** GAMMA for part in color)
    return red, green, blue


@dataclass(frozen=True)
class Solid:
    """A solid of `size` around `center`, tilted by `degrees` about an `axis` through it.

    Cube, cylinder, cone and sphere are two sizes wide and high; the torus lies flat and is half a
    size high. `color` is one of `COLORS`, or three linear reflectances in 0..1.
    """

    shape: str
    color: str | XYZ
    center: XYZ
    size: float = 1.0
    axis: Literal["x", "y", "z"] = "z"
    degrees: float = 0.0

    @classmethod
    def on_ground(cls, shape: str, color: str | XYZ, x: float, y: float, size: float) -> Solid:
        """Return a solid that stands on the ground at (x, y)."""
        return cls(shape, color, (x, y, size * (TUBE_RADIUS if shape == "torus" else 1)), size)

    def is_separated(
        self, solids: Sequence[Solid], size_factor: float, min_distance: float = 0.0
    ) -> bool:
        """Return whether the distance from each of the solids, along the ground, is at least
        `size_factor` times the sum of the two solids' sizes, and at least `min_distance`."""
        rooms = (
            (s.center[:2], max(min_distance, size_factor * (self.size + s.size))) for s in solids
        )
        return all(math.dist(self.center[:2], middle) >= room for middle, room in rooms)

    @property
    def name(self) -> str:
        """The name, such as "red cube"; only the shape if the colour is unnamed."""
        return f"{self.color} {self.shape}" if isinstance(self.color, str) else self.shape

    @property
    def albedo(self) -> XYZ:
        """The linear reflectance, RGB in 0..1."""
        return to_linear_color(COLORS[self.color]) if isinstance(self.color, str) else self.color

    @property
    def rotation_matrix(self) -> Floats:
        """The 3x3 rotation matrix whose columns are the solid's axes."""
        angle, (first, second) = np.radians(self.degrees), ROTATION_PLANES[self.axis]
        matrix = np.eye(3)
        matrix[first, first] = matrix[second, second] = np.cos(angle)
        matrix[second, first] = np.sin(angle)
        matrix[first, second] = -matrix[second, first]
        return matrix

    def cast(self, origin: Floats, directions: Floats) -> Floats:
        """Return the distance at which rays with unit directions (n, 3) hit the solid; infinity for
        a miss."""
        turn, measure = self.rotation_matrix, DISTANCE_FUNCTIONS[self.shape]
        start = (origin - self.center) @ turn / self.size
        middle = -(directions @ (turn @ start))  # distance along each ray to its nearest point
        rays = np.flatnonzero(middle > np.sqrt(max(float(start @ start) - SOLID_RADIUS**2, 0)))
        half = np.sqrt((SOLID_RADIUS**2 - start @ start + middle[rays] ** 2).clip(0))
        far = np.full(len(directions), np.inf)
        own, along, ends = directions[rays] @ turn, middle[rays] - half, middle[rays] + half
        left = np.arange(len(rays))
        for _ in range(MAX_RAY_STEPS):
            gaps = measure(start + along[left, None] * own[left])
            along[left] += gaps
            hit = gaps < HIT_TOLERANCE
            far[rays[left[hit]]] = self.size * along[left[hit]]
            left = left[~hit & (along[left] < ends[left])]
            if not len(left):
                break
        return far

    def compute_normals(self, points: Floats) -> Floats:
        """Compute the outward unit normals (n, 3) at points on the surface."""
        turn, measure = self.rotation_matrix, DISTANCE_FUNCTIONS[self.shape]
        own = (points - self.center) @ turn / self.size
        steps = 1e-4 * np.concatenate([np.eye(3), -np.eye(3)])
        gaps = measure((own[:, None] + steps).reshape(-1, 3)).reshape(-1, 6)
        slopes = gaps[:, :3] - gaps[:, 3:]
        return np.asarray((slopes / np.linalg.norm(slopes, axis=1)[:, None]) @ turn.T)

    def to_dict(self) -> dict[str, Any]:
        """Return the solid in the form of an item's truth."""
        numbers = {"size": round(self.size, 4), "degrees": self.degrees}
        center, albedo = ([round(part, 4) for part in v] for v in (self.center, self.albedo))
        return {"name": self.name, "center": center, "axis": self.axis, "albedo": albedo, **numbers}


# ---- cameras and what they see

Ints = NDArray[np.int64]
SKY, GROUND = -2, -1
"""The identities of pixels that show no solid."""
AMBIENT_SHARE = 0.35  # share of ambient light
TEXTURE_SIDE = 512  # cells of a texture in each direction
TEXTURE_DENSITY = 24.0  # cells of the texture per unit of the ground
FADE_DISTANCE = (
    25.0  # distance, in units, at which the ground's texture has lost most of its contrast
)
BACKDROP_DISTANCE = 1e6  # units
EDGE_DIFFERENCE = (
    6.0  # if two neighbouring pixels differ by this many grey levels, both are supersampled
)
SUBPIXEL_OFFSETS = (-1 / 3, 0.0, 1 / 3)


def draw_grain(rng: Generator) -> Floats:
    """Draw a random periodic texture that has a mean of about 1, and coarse and fine structure."""
    rows, columns = np.meshgrid(*[np.fft.fftfreq(TEXTURE_SIDE, 1 / TEXTURE_SIDE)] * 2)
    spectrum = np.fft.fft2(rng.standard_normal((TEXTURE_SIDE, TEXTURE_SIDE))) / np.hypot(
        rows, columns
    ).clip(4)
    waves = np.fft.ifft2(spectrum).real
    return np.asarray((1 + 0.22 * waves / waves.std()).clip(0.4, 1.6))


@dataclass(frozen=True)
class Camera:
    """An upright camera at `eye` that looks at `target`; `focal` is the focal length as a multiple
    of the width in `size` (width, height)."""

    eye: XYZ
    target: XYZ
    size: Size
    focal: float = 1.2

    @cached_property
    def axes(self) -> Floats:
        """The directions right, down and forward as rows of a matrix (3, 3)."""
        forward = np.subtract(self.target, self.eye)
        forward = forward / np.linalg.norm(forward)
        right = np.cross(forward, (0.0, 0.0, 1.0))
        right = right / np.linalg.norm(right)
        return np.stack([right, np.cross(forward, right), forward])

    def compute_rays(self, xy: Floats) -> Floats:
        """Return the unit vectors (n, 3) through points (n, 2) in pixel-centre coordinates."""
        across = (xy - (np.array(self.size) - 1) / 2) / (self.focal * self.size[0])
        ways = np.column_stack([across, np.ones(len(xy))]) @ self.axes
        return np.asarray(ways / np.linalg.norm(ways, axis=1)[:, None])

    def project(self, points: Floats) -> Floats:
        """Project points (n, 3) in front of the camera to (n, 2) pixel-centre coordinates."""
        own = (points - np.array(self.eye)) @ self.axes.T
        middle = (np.array(self.size) - 1) / 2
        return np.asarray(own[:, :2] / own[:, 2:] * self.focal * self.size[0] + middle, np.float64)

    @property
    def pixel_centers(self) -> Floats:
        """The pixel centres (n, 2), row by row."""
        width, height = self.size
        places = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height))
        return np.asarray(np.stack(places, -1).reshape(-1, 2), np.float64)

    @cached_property
    def pixel_rays(self) -> Floats:
        """The unit vectors (n, 3) through the pixel centres, row by row."""
        return self.compute_rays(self.pixel_centers)

    def measure_distances(self, solid: Solid) -> Floats:
        """Return the distance to a solid at each pixel (height, width), ignoring occluders;
        infinity where the pixel's ray misses it."""
        return solid.cast(np.array(self.eye), self.pixel_rays).reshape(self.size[::-1])

    def to_dict(self) -> dict[str, Any]:
        """Return the camera in the form of an item's truth."""
        places = {name: [round(v, 4) for v in getattr(self, name)] for name in ("eye", "target")}
        return {**places, "size": list(self.size), "focal": self.focal}


class Hits(NamedTuple):
    """What rays hit: the identity (n,) and distance (n,), and the normal, reflectance and reflected
    light (n, 3 each)."""

    identity: Ints
    distance: Floats
    normal: Floats
    albedo: Floats
    radiance: Floats


@dataclass(frozen=True, eq=False)
class World:
    """Solids on a ground of one reflectance and grain, under a bright sky and a lamp at the point
    `light`."""

    solids: tuple[Solid, ...]
    ground: XYZ
    grain: Floats
    light: XYZ = (-5.0, -7.0, 12.0)

    def find_nearest(self, origin: Floats, directions: Floats) -> tuple[Floats, Ints]:
        """Return the distance of each ray (n, 3) to its first hit, and the identity of the object
        hit."""
        down = directions[:, 2]
        with np.errstate(divide="ignore"):
            far = np.where(down < 0, -origin[2] / down, np.inf)
        identity = np.where(down < 0, GROUND, SKY)
        for number, solid in enumerate(self.solids):
            reach = solid.cast(origin, directions)
            identity[reach < far] = number
            far = np.minimum(far, reach)
        return far, identity

    def trace(self, camera: Camera, xy: Floats) -> Hits:
        """Trace the rays of a camera through points (n, 2) in pixel-centre coordinates."""
        eye, directions = np.array(camera.eye), camera.compute_rays(xy)
        far, identity = self.find_nearest(eye, directions)
        points = eye + np.minimum(far, BACKDROP_DISTANCE)[:, None] * directions
        normal, albedo = np.zeros_like(points), np.ones_like(points)
        for number, solid in enumerate(self.solids):
            own = identity == number
            normal[own], albedo[own] = solid.compute_normals(points[own]), solid.albedo
        ground, sky = identity == GROUND, identity == SKY
        normal[ground] = 0, 0, 1
        fade = np.exp(-far[ground] / FADE_DISTANCE)
        contrast = 1 + fade * (self._sample_grain(TEXTURE_DENSITY * points[ground, :2]) - 1)
        albedo[ground] = contrast[:, None] * np.array(self.ground)
        clouds = self._sample_grain(1.5 * TEXTURE_SIDE * directions[sky][:, [0, 2]]) ** 0.5
        albedo[sky] = clouds[:, None] * np.array([0.55, 0.7, 0.9])
        away = points - np.array(self.light)
        length = np.linalg.norm(away, axis=1)
        away = away / length[:, None]
        lit = (self.find_nearest(np.array(self.light), away)[0] > length - 0.02) & ~sky
        facing = np.maximum(-(normal * away).sum(axis=1), 0) * lit
        light = np.where(sky, 1, AMBIENT_SHARE + (1 - AMBIENT_SHARE) * facing)
        return Hits(identity, far, normal, albedo, albedo * light[:, None])

    def _sample_grain(self, places: Floats) -> Floats:
        """Sample the texture bilinearly at positions (n, 2) in units of texture cells."""
        from scipy.ndimage import map_coordinates

        return map_coordinates(self.grain, places.T, order=1, mode="grid-wrap")


@dataclass(frozen=True, eq=False)
class View:
    """A camera's view of a world. Maps are (height, width), or (height, width, 3)."""

    world: World
    camera: Camera

    @cached_property
    def hits(self) -> Hits:
        """The hit at the centre of every pixel."""
        shape = self.camera.size[::-1]
        hits = self.world.trace(self.camera, self.camera.pixel_centers)
        return Hits._make(values.reshape(*shape, *values.shape[1:]) for values in hits)

    @property
    def points(self) -> Floats:
        """The point in space that each pixel shows, (height, width, 3); the sky is a million units
        away."""
        far = np.minimum(self.hits.distance, BACKDROP_DISTANCE)[..., None]
        return self.camera.eye + far * self.camera.pixel_rays.reshape(*far.shape[:2], 3)

    @cached_property
    def pixels(self) -> Pixels:
        """The picture, HxWx3 RGB uint8; where neighbours differ, the mean of nine rays per
        pixel."""
        radiance = self.hits.radiance.copy()
        gray = 255 * radiance.mean(axis=2).clip(0, 1) ** (1 / GAMMA)
        edge = np.zeros(gray.shape, bool)
        for differs, values in ((edge, gray), (edge.T, gray.T)):
            step = np.abs(np.diff(values, axis=0)) > EDGE_DIFFERENCE
            differs[1:] |= step
            differs[:-1] |= step
        rows, columns = np.nonzero(edge)
        places = np.column_stack([columns, rows]) * 1.0
        fine = (
            places[:, None] + [(x, y) for x in SUBPIXEL_OFFSETS for y in SUBPIXEL_OFFSETS]
        ).reshape(-1, 2)
        radiance[edge] = self.world.trace(self.camera, fine).radiance.reshape(-1, 9, 3).mean(axis=1)
        return np.asarray(np.rint(255 * radiance.clip(0, 1) ** (1 / GAMMA)), np.uint8)

    def locate_in(self, view: View, pixels: Ints) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the positions (n, 2) in another view of the points at pixels (n, 2) of this view,
        and a mask of the points that are visible there."""
        columns, rows = pixels.T
        spots = self.points[rows, columns]
        landed = view.camera.project(spots)
        ways = spots - np.array(view.camera.eye)
        length = np.linalg.norm(ways, axis=1)
        reach = self.world.find_nearest(np.array(view.camera.eye), ways / length[:, None])[0]
        inside = ((landed >= 0) & (landed <= np.array(view.camera.size) - 1)).all(axis=1)
        return landed, inside & (reach > length - 0.02)

    def measure_visible_shares(self) -> Floats:
        """Return the visible share of each solid's pixels; 0 if the border crops the solid."""
        alone = [*map(self.camera.measure_distances, self.world.solids)]
        return measure_visible_shares(alone) * [*map(is_fully_visible, alone)]


def is_fully_visible(distances: Floats) -> bool:
    """Return whether an object is visible and not cropped by the border, given its distance at each
    pixel (infinity elsewhere)."""
    shown = np.isfinite(distances)
    return bool(shown[1:-1, 1:-1].any() and shown[1:-1, 1:-1].sum() == shown.sum())


def measure_visible_shares(distances: Sequence[Floats]) -> Floats:
    """Return the visible share of each object's pixels, given each object's distance at each pixel
    (infinity elsewhere)."""
    alone = np.isfinite(distances)
    first = np.argmin(distances, axis=0) == np.arange(len(distances))[:, None, None]
    return np.asarray((alone & first).sum(axis=(1, 2)) / alone.sum(axis=(1, 2)).clip(1))

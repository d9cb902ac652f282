"""Outlines of shapes around the origin, as corners, and their rotation and translation.

Coordinates are edge coordinates: the upper left pixel spans 0..1 in both directions, as in boxes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

XY = NDArray[np.float64]
"""The corners of an outline, (n, 2)."""


def compute_circle_points(angles: XY) -> XY:
    """Return the points (n, 2) of a circle of radius 1 at angles (n,) in radians, clockwise from
    the right."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def make_circle(radius: float, x: float = 0.0, y: float = 0.0) -> XY:
    """Return a circle as corners about 2 px apart."""
    return translate(make_regular_polygon(max(24, round(math.pi * radius)), radius), x, y)


def make_regular_polygon(corners: int, radius: float, first: float = -90.0) -> XY:
    """Return a regular polygon around the origin; `first` is the angle of its first corner in
    degrees, clockwise from the right."""
    return radius * compute_circle_points(
        np.radians(first) + 2 * np.pi * np.arange(corners) / corners
    )


def make_star(tips: int, outer: float, inner: float, first: float = -90.0) -> XY:
    """Return a star around the origin."""
    radii = np.where(np.arange(2 * tips) % 2 == 0, outer, inner)
    return make_regular_polygon(2 * tips, 1.0, first) * radii[:, None]


def make_rounded_square(x: float, y: float, side: float, radius: float) -> XY:
    """Return a square with its upper left corner at (x, y) and quarter circles for corners."""
    quarter = radius * compute_circle_points(np.radians(np.linspace(0, 90, 7)))
    far = side - radius
    places = ((far, far), (radius, far), (radius, radius), (far, radius))
    corners = [rotate(quarter, 90 * turn) + place for turn, place in enumerate(places)]
    return translate(np.concatenate(corners), x, y)


def rotate(points: XY, degrees: float, center: Sequence[float] | XY = (0.0, 0.0)) -> XY:
    """Rotate points clockwise, as seen in the image, around a centre."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.asarray((points - center) @ np.array([[cos, sin], [-sin, cos]]) + center, np.float64)


def translate(points: XY, x: float, y: float) -> XY:
    """Move points right and down."""
    return points + np.array([x, y], np.float64)

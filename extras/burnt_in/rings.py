"""Detects single-colour rings by template matching; the template is an annulus with its hole and
its surroundings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import PixelRect
from looktwice.pipelines.picture import Pixels

TEMPLATE_MARGIN = (
    3.5  # pixels of hole and surroundings on either side of the stroke in the template
)
MIN_RING_DISTANCE = 3  # minimum distance between two rings in pixels
MIN_DEVIATION = 0.02  # standard deviation of closeness below which a neighbourhood is flat
MIN_LUMA_SCORE = 0.75  # minimum absolute correlation with luma for measuring the stroke
MAX_STROKE_SHARE = 0.7  # maximum stroke, as a share of the radius, in the first search
MIN_STROKE_SHARE = 0.45  # minimum share of a ring's stroke inside the image
LUMA_WEIGHTS = (0.299, 0.587, 0.114)
Map = NDArray[np.float32]


@dataclass(frozen=True)
class Ring:
    """A circle around (x, y) in pixel-centre coordinates, with `radius` to the middle of its
    stroke; all in pixels.

    `score` is the correlation of the neighbourhood with the ring, at most 1.
    """

    x: float
    y: float
    radius: float
    stroke: float
    color: str
    score: float

    @property
    def outer(self) -> float:
        """The radius to the outer edge of the stroke."""
        return self.radius + self.stroke / 2


def get_window(image: NDArray[Any], area: PixelRect, margin: int = 0) -> NDArray[Any]:
    """Return a writable window of an image's pixels: the area grown by `margin` pixels."""
    left, top = max(0, area[0] - margin), max(0, area[1] - margin)
    return image[top : max(0, area[3] + margin), left : max(0, area[2] + margin)]


def measure_closeness(pixels: Pixels, color: tuple[int, int, int]) -> Map:
    """Return the closeness of each pixel to a colour, 0..1, HxW.

    A saturated colour is compared by hue and saturation, on a scale that is linear in the share of
    the pixel that it covers, because JPEG halves the resolution of both. A grey is compared by
    distance, because a photograph is full of intermediate greys.
    """
    wanted, image = np.asarray(color, np.float32), pixels.astype(np.float32)
    tint = wanted - wanted.mean()
    length = np.linalg.norm(tint)
    if length < 60:
        difference = np.abs(image - wanted).max(-1)
        return np.asarray(np.clip(1 - difference / 128, 0, 1) ** 2, np.float32)
    # axes of the tint, of other hues, and of brightness
    axes = np.stack([tint / length, np.cross(tint, np.ones(3)) / length / np.sqrt(3), LUMA_WEIGHTS])
    along, across, luma = np.moveaxis(image @ axes.T.astype(np.float32), -1, 0)
    bright = np.clip(1.25 - np.abs(luma - wanted @ LUMA_WEIGHTS) / 150, 0, 1)
    return np.asarray(np.clip((along - np.abs(across)) / length, 0, 1) * bright, np.float32)


def find_rings(
    closeness: Map,
    color: str,
    radii: Sequence[float],
    stroke: float,
    max_count: int,
    min_score: float,
) -> list[Ring]:
    """Return the best rings in a map of closeness: at most `max_count`, each with a correlation of
    at least `min_score`, no two at about the same position.

    A ring may extend beyond the map; the part outside is ignored. Each ring has one of the `radii`,
    and all have the same stroke.
    """
    scores = np.stack([_compute_score_map(closeness, radius, stroke) for radius in radii])
    best = scores.max(0)
    rings: list[Ring] = []
    while len(rings) < max_count:
        y, x = (int(place) for place in np.unravel_index(best.argmax(), best.shape))
        score = float(best[y, x])
        if score < min_score:
            break
        radius = radii[int(scores[:, y, x].argmax())]
        rings.append(Ring(float(x), float(y), radius, stroke, color, score))
        get_window(best, (x, y, x + 1, y + 1), MIN_RING_DISTANCE)[:] = -1
    return rings


def refine_ring(closeness: Map, ring: Ring, radii: tuple[float, float]) -> Ring:
    """Return the ring with position, radius and stroke adjusted, in steps down to a quarter pixel,
    for as long as the correlation improves."""
    best = replace(ring, score=score_ring(closeness, ring))
    for step in (1.0, 0.5, 0.25):
        better = True
        while better:
            better, start = False, best
            for change in RING_STEPS:
                x, y, radius, stroke = (
                    getattr(start, name) + step * by
                    for name, by in zip(("x", "y", "radius", "stroke"), change, strict=True)
                )
                option = replace(start, x=x, y=y, radius=radius, stroke=stroke)
                if radii[0] <= radius <= radii[1] and stroke <= 6 and _has_hole(option):
                    score = score_ring(closeness, option)
                    if score > max(best.score, start.score + 1e-4):
                        best, better = replace(option, score=score), True
    return best


RING_MOVES = np.vstack([np.eye(4), (0, 0, 0.5, 1), (0, 0, 0.5, -1)])
RING_STEPS = np.vstack([RING_MOVES, -RING_MOVES]).tolist()
"""Steps of x, y, radius and stroke. The last two, of either sign, move one edge of the stroke
alone."""


def _has_hole(ring: Ring) -> bool:
    return 1 <= ring.stroke <= ring.radius * 1.2


def sharpen_rings(gray: NDArray[np.uint8], rings: Sequence[Ring]) -> list[Ring]:
    """Return rings of one style with the radius and stroke of the ring that is clearest in luma
    (HxW).

    JPEG smears colour over twice the distance, so strokes look too thick in colour. If no ring
    stands out in luma, all stay unchanged.
    """
    luma, clear, best = gray.astype(np.float32) / np.float32(255), MIN_LUMA_SCORE, None
    for ring in rings:
        for radius in ring.radius + np.arange(-0.5, 0.75, 0.25):
            for stroke in np.arange(1.5, ring.stroke + 0.5, 0.5):
                option = replace(ring, radius=float(radius), stroke=float(stroke))
                score = abs(score_ring(luma, option)) if radius >= 1 and _has_hole(option) else 0
                if score > clear:
                    clear, best = score, option
    if best is None:
        return list(rings)
    return [replace(ring, radius=best.radius, stroke=best.stroke) for ring in rings]


def score_ring(closeness: Map, ring: Ring) -> float:
    """Return the correlation of a ring with its neighbourhood in the map; 0 if most of the ring
    lies outside or the neighbourhood is flat."""
    reach = ring.outer + TEMPLATE_MARGIN
    left, top = max(0, int(ring.x - reach)), max(0, int(ring.y - reach))
    patch = closeness[top : int(ring.y + reach) + 2, left : int(ring.x + reach) + 2]
    ys, xs = np.ogrid[top : top + patch.shape[0], left : left + patch.shape[1]]
    covered, band = _compute_ring_weights(
        np.hypot(xs - ring.x, ys - ring.y), ring.radius, ring.stroke
    )
    if covered.sum() < MIN_STROKE_SHARE * 2 * np.pi * ring.radius * ring.stroke:
        return 0.0
    values, shares = patch[band], covered[band]
    return float(np.corrcoef(values, shares)[0, 1]) if values.std() >= MIN_DEVIATION else 0.0


def _compute_ring_weights(
    distance: Map, radius: float, stroke: float
) -> tuple[Map, NDArray[np.bool_]]:
    """Return, for pixels at each `distance` from the centre, the share that the stroke covers, and
    whether the pixel belongs to the template."""
    away = np.abs(distance - radius)
    covered = np.clip(stroke / 2 + 0.5 - away, 0, 1).astype(np.float32)
    return covered, np.asarray(away <= stroke / 2 + TEMPLATE_MARGIN)


def _compute_score_map(closeness: Map, radius: float, stroke: float) -> Map:
    """Return the score of a ring centred at each pixel, HxW."""
    stroke = min(stroke, MAX_STROKE_SHARE * radius)
    covered, band = _render_template(radius, stroke)
    total, share, square = _sum_inside(radius, stroke, closeness.shape)
    mean = _sum_under_kernel(closeness, band) / total
    spread = np.sqrt(np.maximum(_sum_under_kernel(closeness**2, band) / total - mean**2, 0))
    height = np.sqrt(np.maximum(square - share**2, 1e-6))
    scores = (_sum_under_kernel(closeness, covered) / total - share * mean) / np.maximum(
        spread * height, 1e-6
    )
    lost = share * total < MIN_STROKE_SHARE * 2 * np.pi * radius * stroke
    return np.where((spread < MIN_DEVIATION) | lost, 0, scores).astype(np.float32)


@lru_cache(maxsize=64)
def _render_template(radius: float, stroke: float) -> tuple[Map, Map]:
    """Return the coverage of a ring's stroke, and the mask of the whole template."""
    reach = int(radius + stroke / 2 + TEMPLATE_MARGIN) + 1
    ys, xs = np.ogrid[-reach : reach + 1, -reach : reach + 1]
    covered, band = _compute_ring_weights(np.hypot(xs, ys), radius, stroke)
    return covered, band.astype(np.float32)


# cached, since the maps of an image, and mostly of the next one, have the same size
@lru_cache(maxsize=64)
def _sum_inside(radius: float, stroke: float, size: tuple[int, ...]) -> tuple[Map, Map, Map]:
    """Return three maps of the part of a template, centred at each pixel, that lies inside the map:
    its area (at least 1), and the mean coverage and mean squared coverage of the stroke."""
    (covered, band), whole = _render_template(radius, stroke), np.ones(size, np.float32)
    total: Map = np.maximum(_sum_under_kernel(whole, band), np.float32(1))
    share: Map = _sum_under_kernel(whole, covered) / total
    square: Map = _sum_under_kernel(whole, covered**2) / total
    return total, share, square


def _sum_under_kernel(values: Map, kernel: Map) -> Map:
    """Return the sum of a map under a kernel centred at each pixel; pixels outside the map count as
    0."""
    return np.asarray(cv2.filter2D(values, -1, kernel, borderType=cv2.BORDER_CONSTANT), np.float32)

"""Detects single-colour rings by fitting a template: an annulus with its hole and surroundings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from looktwice.pipelines.picture import Pixels

AROUND = (
    3.5  # pixels of hole and surroundings, on either side of the stroke, that a ring is told from
)
APART = 3.0  # pixels between two rings that are told apart
FLAT = 0.02  # standard deviation of closeness below which a neighbourhood shows nothing
CLEAR = 0.75  # correlation with luma, either way, from which it tells the stroke
THICK = 0.7  # share of its radius that a ring's stroke takes at most when it is first looked for
WHOLE = 0.45  # share of a ring's stroke that must lie in the image
LUMA = np.array([0.299, 0.587, 0.114], np.float32)
Map = NDArray[np.float32]


@dataclass(frozen=True)
class Ring:
    """A circle of `radius` to the middle of its stroke, around (x, y) in pixel-centre coordinates;
    all in pixels.

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
        """The radius to the stroke's outer edge."""
        return self.radius + self.stroke / 2


def color_closeness(pixels: Pixels, color: tuple[int, int, int]) -> Map:
    """How close each pixel is to a colour, 0..1, HxW.

    A saturated colour is compared by hue and saturation, on a scale that is linear in how much of
    the pixel it covers, because JPEG halves the resolution of both; a grey one by its distance,
    because a photograph is full of greys in between.
    """
    wanted = np.asarray(color, np.float32)
    tint = wanted - wanted.mean()
    length = float(np.linalg.norm(tint))
    image = pixels.astype(np.float32)
    if length < 60:
        difference = np.abs(image - wanted).max(-1)
        return np.asarray(np.clip(1 - difference / 128, 0, 1) ** 2, np.float32)
    chroma = image - ((image[..., 0] + image[..., 1] + image[..., 2]) / 3)[..., None]
    along = chroma @ (tint / length)
    squares = chroma**2  # numpy takes ten times as long to sum along an axis of three
    across = np.sqrt(np.maximum(squares[..., 0] + squares[..., 1] + squares[..., 2] - along**2, 0))
    bright = np.clip(1.25 - np.abs(image @ LUMA - wanted @ LUMA) / 150, 0, 1)
    return np.asarray(np.clip((along - across) / length, 0, 1) * bright, np.float32)


def find_rings(
    near: Map, color: str, radii: Sequence[float], stroke: float, most: int, least: float
) -> list[Ring]:
    """The `most` best rings in a map of closeness that correlate by `least`, no two about the same
    place.

    A ring may leave the map; what is outside does not count. One radius of `radii` for each, all of
    one stroke.
    """
    scores = _score_maps(near, tuple(radii), stroke)
    best = scores.max(0)
    rings: list[Ring] = []
    while len(rings) < most:
        y, x = np.unravel_index(int(best.argmax()), best.shape)
        if best[y, x] < least:
            break
        radius = radii[int(scores[:, y, x].argmax())]
        rings.append(Ring(float(x), float(y), radius, stroke, color, float(best[y, x])))
        best[
            max(0, int(y - APART)) : int(y + APART) + 1, max(0, int(x - APART)) : int(x + APART) + 1
        ] = -1
    return rings


def refine_ring(
    near: Map, ring: Ring, radii: tuple[float, float], strokes: tuple[float, float] = (1.0, 6.0)
) -> Ring:
    """The ring moved, resized and thickened in steps down to a quarter pixel as long as it
    correlates better."""
    best = replace(ring, score=ring_score(near, ring))
    for step in (1.0, 0.5, 0.25):
        better: Ring | None = best
        while better:
            options = [
                option for option in _variations(best, step) if _is_possible(option, radii, strokes)
            ]
            scored = [replace(option, score=ring_score(near, option)) for option in options]
            better = max(scored, key=lambda option: option.score, default=None)
            better = better if better and better.score > best.score + 1e-4 else None
            best = better or best
    return best


def _variations(ring: Ring, step: float) -> Iterator[Ring]:
    """The ring with one thing changed by a step either way; the last two move one edge of the
    stroke alone."""
    for by in (step, -step):
        yield replace(ring, x=ring.x + by)
        yield replace(ring, y=ring.y + by)
        yield replace(ring, radius=ring.radius + by)
        yield replace(ring, stroke=ring.stroke + by)
        yield replace(ring, radius=ring.radius + by / 2, stroke=ring.stroke + by)
        yield replace(ring, radius=ring.radius + by / 2, stroke=ring.stroke - by)


def _is_possible(ring: Ring, radii: tuple[float, float], strokes: tuple[float, float]) -> bool:
    """Whether radius and stroke are possible; a ring has a hole."""
    thin = strokes[0] <= ring.stroke <= min(strokes[1], ring.radius * 1.2)
    return thin and radii[0] <= ring.radius <= radii[1]


def sharpen_rings(gray: NDArray[np.uint8], found: Sequence[Ring]) -> list[Ring]:
    """Rings of one style with the radius and stroke of the one that stands out best in luma (HxW).

    JPEG smears colour over twice the distance, so that strokes look too thick in it; where no ring
    stands out from its ground in luma, all stay as they are.
    """
    luma = np.asarray(gray, np.float32) / np.float32(255)
    options = [
        (abs(ring_score(luma, other)), other)
        for ring in found
        for radius in np.arange(-0.5, 0.75, 0.25)
        for stroke in np.arange(1.5, ring.stroke + 0.5, 0.5)
        if _is_possible(
            other := replace(ring, radius=float(ring.radius + radius), stroke=float(stroke)),
            (1, 1e6),
            (1, 1e6),
        )
    ]
    clear, best = max(options, key=lambda option: option[0], default=(0.0, None))
    if best is None or clear < CLEAR:
        return list(found)
    return [replace(ring, radius=best.radius, stroke=best.stroke) for ring in found]


def ring_score(near: Map, ring: Ring) -> float:
    """The correlation of a ring with its neighbourhood in the map; 0 where most of it is outside or
    all is flat."""
    reach = ring.outer + AROUND
    left, top = max(0, int(ring.x - reach)), max(0, int(ring.y - reach))
    patch = near[top : int(ring.y + reach) + 2, left : int(ring.x + reach) + 2]
    if not patch.size:
        return 0.0
    ys, xs = np.ogrid[top : top + patch.shape[0], left : left + patch.shape[1]]
    stroke, band = _ring_weights(np.hypot(xs - ring.x, ys - ring.y), ring.radius, ring.stroke)
    if stroke.sum() < WHOLE * 2 * np.pi * ring.radius * ring.stroke:
        return 0.0
    total = band.sum()
    mean, share = (band * patch).sum() / total, stroke.sum() / total
    spread = np.sqrt(max(0.0, (band * patch**2).sum() / total - mean**2))
    if spread < FLAT:
        return 0.0
    height = np.sqrt((stroke**2).sum() / total - share**2)
    return float(((stroke * patch).sum() / total - share * mean) / (spread * height))


def _ring_weights(distance: Map, radius: float, stroke: float) -> tuple[Map, Map]:
    """How much of each pixel at this distance from the centre the stroke covers, and the pixels of
    the template."""
    covered = np.clip(stroke / 2 + 0.5 - np.abs(distance - radius), 0, 1)
    return covered.astype(np.float32), (np.abs(distance - radius) <= stroke / 2 + AROUND).astype(
        np.float32
    )


def _score_maps(near: Map, radii: tuple[float, ...], stroke: float) -> Map:
    """The scores of a ring of each radius around each pixel, (n, H, W)."""
    size, reach = (near.shape[0], near.shape[1]), int(max(radii) + stroke / 2 + AROUND) + 1
    padded = (fft.next_fast_len(size[0] + reach, True), fft.next_fast_len(size[1] + reach, True))
    strokes, bands, _ = _spectra(radii, stroke, padded)
    total, share, square = _template_sums(radii, stroke, size, padded)
    values, squares = fft.rfft2(near, padded), fft.rfft2(near**2, padded)
    mean = _sums(values, bands, size, padded) / total
    spread = np.sqrt(np.maximum(_sums(squares, bands, size, padded) / total - mean**2, 0))
    scores = (_sums(values, strokes, size, padded) / total - share * mean) / np.maximum(
        spread * np.sqrt(np.maximum(square - share**2, 1e-6)), 1e-6
    )
    lengths = np.array(radii)[:, None, None]
    whole = 2 * np.pi * lengths * np.minimum(stroke, THICK * lengths)
    return np.where((spread < FLAT) | (share * total < WHOLE * whole), 0, scores).astype(np.float32)


def _sums(
    values: NDArray[np.complex64],
    kernels: NDArray[np.complex64],
    size: tuple[int, int],
    padded: tuple[int, int],
) -> Map:
    """The sums of a map under each kernel around each pixel, (n, H, W), of the spectra of both."""
    return np.asarray(
        fft.irfft2(values[None] * kernels, padded)[:, : size[0], : size[1]], np.float32
    )


# the maps of an image's colours, and mostly of the next image, are of one size
@lru_cache(maxsize=4)
def _template_sums(
    radii: tuple[float, ...], stroke: float, size: tuple[int, int], padded: tuple[int, int]
) -> tuple[Map, Map, Map]:
    """What of the template lies inside the map: all of it, at least 1, and the shares of strokes
    and their squares."""
    inside = np.asarray(fft.rfft2(np.ones(size, np.float32), padded), np.complex64)
    strokes, bands, squares = (
        _sums(inside, kernels, size, padded) for kernels in _spectra(radii, stroke, padded)
    )
    total = np.asarray(np.maximum(bands, 1), np.float32)
    return total, np.asarray(strokes / total, np.float32), np.asarray(squares / total, np.float32)


@lru_cache(maxsize=16)
def _spectra(
    radii: tuple[float, ...], stroke: float, shape: tuple[int, int]
) -> tuple[NDArray[np.complex64], ...]:
    """The spectra of strokes, bands and squared strokes; kernels are even, so correlation is
    convolution."""
    ys, xs = np.ogrid[: shape[0], : shape[1]]
    distance = np.hypot(np.minimum(ys, shape[0] - ys), np.minimum(xs, shape[1] - xs)).astype(
        np.float32
    )
    shapes = [_ring_weights(distance, radius, min(stroke, THICK * radius)) for radius in radii]
    kernels = (
        [covered for covered, _ in shapes],
        [band for _, band in shapes],
        [covered**2 for covered, _ in shapes],
    )
    return tuple(fft.rfft2(np.stack(kernel)).astype(np.complex64) for kernel in kernels)

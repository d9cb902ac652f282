"""Reflectance of an image: by colour Retinex, or the image's own colours as a baseline."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.pixels import InputSize, require_pixels
from looktwice.specialists.results import Floats
from looktwice.specialists.rules import Checked

MIN_LIGHT = 1e-3  # minimum share of full light, because the logarithm of less would be noise


@dataclass(frozen=True)
class ColorRetinex(Checked):
    """Reflectance by colour Retinex (Grosse et al., ICCV 2009, section 4.1).

    A step between two neighbouring pixels is attributed to the surface if the logarithm of its
    brightness changes by more than `brightness`, or that of its colour by more than `color`.
    Smaller steps are attributed to the light and removed; the rest is integrated by least squares.
    The light is assumed to be white, so colours do not change. A picture whose longer side has more
    than `longest` pixels is downsized first, which affects the steps. Both thresholds were chosen
    without fitting them to data.
    """

    brightness: float = 0.1
    color: float = 0.05
    longest: int = 512

    ranges = ("brightness, color >= 0", "longest >= 16")

    def __call__(self, pixels: Pixels, /) -> Floats:
        """Return linear RGB (height, width, 3) on an unknown scale. Raises NoEvidence for
        single-coloured images."""
        pixels = require_pixels(pixels, colors=True)
        size = InputSize.fit(pixels, self.longest, 1)
        seen = np.maximum(to_linear(size.resize(pixels)), MIN_LIGHT)
        # the logarithm of the light on each pixel, with the mean 0
        small = integrate_steps(self._find_light_steps(seen, 1), self._find_light_steps(seen, 0))
        light = cv2.resize(small, (size.width, size.height), interpolation=cv2.INTER_LINEAR)
        return to_linear(pixels) / np.exp(np.asarray(light, np.float64))[..., None]

    def _find_light_steps(self, seen: Floats, axis: int) -> Floats:
        """Return the differences of log grey values between neighbours along `axis`, with those
        attributed to a change of surface set to 0."""
        steps, gray = np.diff(np.log(seen), axis=axis), np.diff(np.log(seen.mean(-1)), axis=axis)
        mean = steps.mean(-1, keepdims=True)
        tint = np.linalg.norm(steps - mean, axis=-1)
        surface = (np.abs(mean[..., 0]) > self.brightness) | (tint > self.color)
        return np.where(surface, 0.0, gray)


@dataclass(frozen=True)
class ConstantShading:
    """Constant shading, the trivial baseline: the image's own colours as reflectance, as if it were
    evenly lit."""

    def __call__(self, pixels: Pixels, /) -> Floats:
        """Return linear RGB (height, width, 3) of the sRGB pixels, 0..1."""
        return to_linear(pixels)


def to_linear(pixels: Pixels) -> Floats:
    """Convert sRGB pixels to linear light, 0..1 (IEC 61966-2-1)."""
    return levels_to_linear(require_pixels(pixels).astype(np.float64) / 255)


def levels_to_linear(levels: Floats) -> Floats:
    """Convert sRGB levels, 0..1, to linear light (IEC 61966-2-1)."""
    return np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)


def integrate_steps(across: Floats, down: Floats) -> Floats:
    """Return the map (height, width) of mean 0 whose differences between neighbours are the least
    squares fit to the given ones.

    `across` (height, width - 1) and `down` (height - 1, width) are the differences to the right and
    downwards. The solution uses the cosine transform, whose basis functions are the eigenvectors of
    the Laplacian on a grid without steps across its border.
    """
    from scipy.fft import dctn, idctn

    height, width = across.shape[0], down.shape[1]
    sources = np.zeros((height, width))
    sources[:, :-1] += across
    sources[:, 1:] -= across
    sources[:-1] += down
    sources[1:] -= down
    waves = [2 * np.cos(np.pi * np.arange(side) / side) - 2 for side in (height, width)]
    scale = waves[0][:, None] + waves[1][None]
    scale[0, 0] = 1
    spectrum = dctn(sources, norm="ortho") / scale
    spectrum[0, 0] = 0
    surface: Floats = idctn(spectrum, norm="ortho")
    return surface

"""Relative depth from pictorial cues of one image, without weights: a `DepthMap` per cue, larger
values nearer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.networks.image_size import require_colors, require_pixels
from looktwice.specialists.results import DepthMap

Floats = NDArray[np.float64]
WINDOW = 0.05
"""The side of the window that cues are computed in, as a share of the image's longer side."""
SIGMA = 1.0  # pixels, of the blur that `Sharpness` compares with
BANDS = 5  # of frequency, from fine to coarse, that `TextureSize` compares


class _Cue(ABC):
    """A depth map from what `nearness` sees in the colours of an image."""

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        """The values of `nearness`; larger is nearer. Raises NoEvidence for a single-coloured
        image."""
        return DepthMap(self.nearness(require_colors(image)), larger_is_nearer=True)

    @abstractmethod
    def nearness(self, image: Pixels) -> Floats:
        """A number for each pixel of an image with colours (height, width)."""


@dataclass(frozen=True)
class VerticalPosition:
    """Lower in the image is nearer: the ground rises towards the horizon (Gibson, 1950)."""

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        """The row of each pixel; larger is nearer."""
        height, width = require_pixels(image).shape[:2]
        return DepthMap(
            np.repeat(np.arange(height, dtype=np.float64)[:, None], width, 1), larger_is_nearer=True
        )


@dataclass(frozen=True)
class Haze(_Cue):
    """Less haze is nearer: transmission by the dark channel prior (He et al., CVPR 2009).

    In clear air every window of a twentieth of the longer side holds a pixel that is dark in one
    channel; haze adds airlight, estimated from the brightest 0.1 % of the dark channel. The value
    is the transmission of equation 11 without its `omega`.
    """

    def nearness(self, image: Pixels) -> Floats:
        """The transmission, 0..1."""
        side = _side(image, WINDOW)
        kernel = np.ones((side, side), np.uint8)
        dark = cv2.erode(image.min(-1), kernel, borderType=cv2.BORDER_REPLICATE)
        brightest = np.argsort(dark.ravel(), kind="stable")[-max(1, dark.size // 1000) :]
        air = np.maximum(image.reshape(-1, 3)[brightest].max(0), 1).astype(np.float64)
        transmission = 1 - cv2.erode((image / air).min(-1), kernel, borderType=cv2.BORDER_REPLICATE)
        return np.asarray(transmission.clip(0, 1))


@dataclass(frozen=True)
class LocalContrast(_Cue):
    """Haze lowers contrast: regions with more contrast within a window are nearer."""

    def nearness(self, image: Pixels) -> Floats:
        """The standard deviation of grey in each window, 0..1."""
        gray, side = _gray(image), _side(image, WINDOW)
        mean, square = _window_mean(gray, side), _window_mean(gray**2, side)
        return np.asarray(np.sqrt(np.maximum(square - mean**2, 0)))


@dataclass(frozen=True)
class Saturation(_Cue):
    """Haze lowers saturation: more saturated regions are nearer."""

    def nearness(self, image: Pixels) -> Floats:
        """The mean saturation (of HSV) in each window, 0..1."""
        saturation = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)[..., 1].astype(np.float64) / 255
        return _window_mean(saturation, _side(image, WINDOW))


@dataclass(frozen=True)
class Brightness(_Cue):
    """Brighter is nearer, as in natural scenes a little more often than not (Potetz and Lee, JOSA A
    2003)."""

    def nearness(self, image: Pixels) -> Floats:
        """The mean grey in each window, 0..1."""
        return _window_mean(_gray(image), _side(image, WINDOW))


@dataclass(frozen=True)
class Sharpness(_Cue):
    """Sharper edges are nearer, as if the focus were on the foreground; independent of contrast.

    An edge that is blurred again loses the more the sharper it was (Zhuo and Sim, Pattern
    Recognition 2011).
    """

    def nearness(self, image: Pixels) -> Floats:
        """How many times steeper edges are than when blurred again; 1 where there are none."""
        gray, side = _gray(image), _side(image, WINDOW)
        first, second = (
            _window_mean(_gradient_magnitude(level), side) for level in (gray, _blur(gray, SIGMA))
        )
        return (first + 1e-3) / (second + 1e-3)


@dataclass(frozen=True)
class TextureSize(_Cue):
    """Texture gets finer with distance: coarser texture is nearer (Gibson, 1950).

    The grain of a window is the mean of its bands, weighted by its energy: five differences of
    Gaussian blurs, each twice as coarse as the one before.
    """

    def nearness(self, image: Pixels) -> Floats:
        """The mean number of the band, 0 for the finest, NaN where there is no texture."""
        gray, side = _gray(image), _side(image, 2 * WINDOW)
        blurs = [gray, *(_blur(gray, 2.0**band) for band in range(BANDS))]
        energies = np.stack(
            [_window_mean((fine - coarse) ** 2, side) for fine, coarse in pairwise(blurs)]
        )
        total = energies.sum(0)
        grain = np.tensordot(np.arange(BANDS, dtype=np.float64), energies, 1) / np.maximum(
            total, 1e-12
        )
        return np.where(total > 1e-7, grain, np.nan)


def _side(image: Pixels, share: float) -> int:
    """The odd side of a window in pixels."""
    return max(3, int(share * max(image.shape[:2])) | 1)


def _gray(image: Pixels) -> Floats:
    return cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float64) / 255


def _window_mean(values: Floats, side: int) -> Floats:
    return np.asarray(cv2.blur(values, (side, side), borderType=cv2.BORDER_REFLECT), np.float64)


def _blur(values: Floats, sigma: float) -> Floats:
    return np.asarray(
        cv2.GaussianBlur(values, (0, 0), sigma, borderType=cv2.BORDER_REFLECT), np.float64
    )


def _gradient_magnitude(values: Floats) -> Floats:
    return np.hypot(
        *(
            cv2.Sobel(values, cv2.CV_64F, *axis, borderType=cv2.BORDER_REFLECT)
            for axis in ((1, 0), (0, 1))
        )
    )

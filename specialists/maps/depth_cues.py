"""Relative depth without weights: from pictorial cues of one image, or by stereo."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.pixels import require_pixels
from looktwice.specialists.results import DepthMap, Floats
from looktwice.specialists.rules import Checked, NoEvidence

CueKind = Literal[
    "vertical_position",
    "haze",
    "local_contrast",
    "saturation",
    "brightness",
    "sharpness",
    "texture_size",
]
BLUR_SIGMA = 1.0  # pixels of the blur to which sharpness is compared
BAND_COUNT = 5  # frequency bands of texture_size, from fine to coarse


def _convert_to_gray(image: Pixels) -> Floats:
    return cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float64) / 255


def _average_windows(values: Floats, side: int) -> Floats:
    return np.asarray(cv2.blur(values, (side, side), borderType=cv2.BORDER_REFLECT), np.float64)


def _blur(values: Floats, sigma: float) -> Floats:
    return np.asarray(
        cv2.GaussianBlur(values, (0, 0), sigma, borderType=cv2.BORDER_REFLECT), np.float64
    )


def vertical_position(image: Pixels, side: int) -> Floats:
    height, width = image.shape[:2]
    return np.repeat(np.arange(height, dtype=np.float64)[:, None], width, 1)


def haze(image: Pixels, side: int) -> Floats:
    kernel = np.ones((side, side), np.uint8)
    dark = cv2.erode(image.min(-1), kernel, borderType=cv2.BORDER_REPLICATE)
    brightest = np.argsort(dark.ravel(), kind="stable")[-max(1, dark.size // 1000) :]
    air = np.maximum(image.reshape(-1, 3)[brightest].max(0), 1).astype(np.float64)
    veil = cv2.erode((image / air).min(-1), kernel, borderType=cv2.BORDER_REPLICATE)
    return (1 - veil).clip(0, 1)


def local_contrast(image: Pixels, side: int) -> Floats:
    gray = _convert_to_gray(image)
    mean, square = _average_windows(gray, side), _average_windows(gray**2, side)
    return np.sqrt(np.maximum(square - mean**2, 0))


def saturation(image: Pixels, side: int) -> Floats:
    levels = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)[..., 1].astype(np.float64) / 255
    return _average_windows(levels, side)


def brightness(image: Pixels, side: int) -> Floats:
    return _average_windows(_convert_to_gray(image), side)


def sharpness(image: Pixels, side: int) -> Floats:
    steepness = []
    for level in (_convert_to_gray(image), _blur(_convert_to_gray(image), BLUR_SIGMA)):
        across = cv2.Sobel(level, cv2.CV_64F, 1, 0, borderType=cv2.BORDER_REFLECT)
        down = cv2.Sobel(level, cv2.CV_64F, 0, 1, borderType=cv2.BORDER_REFLECT)
        steepness.append(_average_windows(np.hypot(across, down), side) + 1e-3)
    return np.divide(*steepness)


def texture_size(image: Pixels, side: int) -> Floats:
    gray = _convert_to_gray(image)
    blurs = [gray, *(_blur(gray, 2.0**band) for band in range(BAND_COUNT))]
    bands = [_average_windows((fine - coarse) ** 2, side) for fine, coarse in pairwise(blurs)]
    energies, total = np.stack(bands), np.stack(bands).sum(0)
    weighted = np.tensordot(np.arange(BAND_COUNT, dtype=np.float64), energies, 1)
    return np.where(total > 1e-7, weighted / np.maximum(total, 1e-12), np.nan)


CUES = {
    cue.__name__: cue
    for cue in (
        vertical_position,
        haze,
        local_contrast,
        saturation,
        brightness,
        sharpness,
        texture_size,
    )
}
"""Functions that compute how near each pixel (height, width) of an image is, from windows with an
odd side."""


@dataclass(frozen=True)
class DepthCue:
    """Relative depth from one pictorial cue, without weights; larger values are nearer.

    `kind` is the cue. "vertical_position": lower in the image is nearer, as the ground rises
    towards the horizon (Gibson, 1950); the value is the row. "haze": less haze is nearer, by the
    dark channel prior (He et al., CVPR 2009). In clear air every window contains a pixel that is
    dark in one channel; haze adds airlight, estimated from the brightest 0.1 % of the dark channel.
    The value is the transmission of equation 11 without its `omega`, 0..1. "local_contrast" and
    "saturation": haze lowers both; the standard deviation of grey, and the mean saturation of HSV,
    in each window, 0..1. "brightness": brighter is nearer, as in natural scenes slightly more often
    than not (Potetz and Lee, JOSA A 2003); the mean grey of each window, 0..1. "sharpness": sharper
    edges are nearer, assuming that the foreground is in focus, whatever their contrast: the ratio
    of the steepness of edges to their steepness after another blur, 1 if there are none; sharper
    edges lose more (Zhuo and Sim, Pattern Recognition 2011). "texture_size": texture gets finer
    with distance (Gibson, 1950); the mean number of the band, 0 for the finest, weighted by the
    energy of five differences of Gaussian blurs, each twice as coarse as the previous one, NaN
    where there is no texture.

    The side of a window is 5 % of the image's longer side, 10 % for texture.
    """

    kind: CueKind

    def __post_init__(self) -> None:
        if self.kind not in CUES:
            raise ValueError(f"`kind` must be one of {', '.join(CUES)}, found {self.kind!r}")

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        """Compute the cue for each pixel. Raises NoEvidence for a single-coloured image, except for
        "vertical_position"."""
        pixels = require_pixels(image, colors=self.kind != "vertical_position")
        window = 0.1 if self.kind == "texture_size" else 0.05  # of the image's longer side
        side = max(3, int(window * max(pixels.shape[:2])) | 1)
        return DepthMap(CUES[self.kind](pixels, side), larger_is_nearer=True)


SGBM_MODES = {
    "sgbm": cv2.STEREO_SGBM_MODE_SGBM,
    "hh": cv2.STEREO_SGBM_MODE_HH,
    "3way": cv2.STEREO_SGBM_MODE_SGBM_3WAY,
}


@dataclass(frozen=True)
class SGBM(Checked):
    """Semi-global block matching (Hirschmueller, PAMI 2008); needs a rectified left and right view.

    `disparities` is the largest shift searched, in pixels and a multiple of 16; `block` is the odd
    side of the matched blocks. `smooth_step` and `smooth_jump` are the penalties on disparity
    changes by one and by more, per pixel of the block and colour channel (OpenCV's P1 and P2
    divided by `channels * block**2`). Unknown disparities are NaN: ambiguous matches, matches that
    differ by over a pixel between the two directions, and small speckles. `mode` is OpenCV's: "hh"
    follows more directions and takes more memory, "3way" fewer of them.
    """

    disparities: int = 128
    block: int = 5
    smooth_step: float = 8
    smooth_jump: float = 32
    mode: Literal["sgbm", "hh", "3way"] = "sgbm"

    ranges = (
        "disparities >= 16",
        "block >= 1",
        "block is odd",
        "smooth_step > 0",
        "smooth_step < smooth_jump",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.disparities % 16:
            raise ValueError(f"`disparities` must be a multiple of 16, found {self.disparities}")

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        """Compute the left view's disparity in pixels, given the right view. Raises NoEvidence."""
        if len(others) != 1:
            raise NoEvidence(
                f"stereo needs a left and a right view, found {1 + len(others)} image(s)"
            )
        left, right = (require_pixels(view, self.block) for view in (image, *others))
        if left.shape != right.shape:
            raise NoEvidence(
                f"left and right view differ in size: {left.shape[1::-1]} and {right.shape[1::-1]}"
                " pixels"
            )
        # OpenCV returns no value in the first `disparities` columns, so the border is repeated to
        # the left
        padded = [
            np.pad(view, ((0, 0), (self.disparities, 0), (0, 0)), "edge") for view in (left, right)
        ]
        unit = 3 * self.block**2
        matcher = cv2.StereoSGBM.create(
            minDisparity=0,
            numDisparities=self.disparities,
            blockSize=self.block,
            P1=round(self.smooth_step * unit),
            P2=round(self.smooth_jump * unit),
            disp12MaxDiff=1,  # pixels
            uniquenessRatio=10,  # percent by which the best must beat the second
            speckleWindowSize=100,  # pixels of the largest speckle
            speckleRange=2,
            mode=SGBM_MODES[self.mode],
        )
        disparity = matcher.compute(*padded)[:, self.disparities :].astype(np.float64) / 16
        return DepthMap(np.where(disparity < 0, np.nan, disparity), larger_is_nearer=True)

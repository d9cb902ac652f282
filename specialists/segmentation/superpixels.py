"""Regions without weights: the superpixels of scikit-image, as any segmenter gives them."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.networks.image_size import require_pixels, shrink
from looktwice.specialists.results import Masks

Labels = NDArray[np.intp]


@dataclass(frozen=True)
class Felzenszwalb:
    """Regions that differ more from their neighbours than within (Felzenszwalb and Huttenlocher,
    IJCV 2004).

    A larger `scale` gives larger regions; `sigma` is the blur before, in pixels, and `min_size` the
    pixels of the smallest region, all three at the size at which it looks: a picture whose longer
    side has more than `longest` pixels is looked at smaller. Of more than `most` regions the
    largest are kept. The segments are disjoint; every score is 1.
    """

    scale: float = 300
    sigma: float = 0.8
    min_size: int = 200
    longest: int = 512
    most: int = 64

    def __post_init__(self) -> None:
        if not self.scale > 0 or not self.sigma >= 0 or self.min_size < 0:
            raise ValueError(
                "scale is more than 0, sigma and min_size 0 or more, "
                f"found {self.scale}, {self.sigma} and {self.min_size}"
            )
        _check_size(self.longest, self.most)

    def __call__(self, pixels: Pixels, /) -> Masks:
        """The regions at the size of the image, the largest first."""
        from skimage.segmentation import felzenszwalb

        pixels = require_pixels(pixels)
        small = shrink(pixels, self.longest)
        labels: Labels = felzenszwalb(
            small, scale=self.scale, sigma=self.sigma, min_size=self.min_size
        )
        return _masks(labels, pixels, self.most)


@dataclass(frozen=True)
class Slic:
    """About `segments` compact regions of like colour (Achanta et al., PAMI 2012).

    More `compactness` gives squarer regions; `sigma` is the blur before, in pixels at the size at
    which it looks: a picture whose longer side has more than `longest` pixels is looked at smaller.
    Of more than `most` regions the largest are kept. The segments are disjoint; every score is 1.
    """

    segments: int = 24
    compactness: float = 20
    sigma: float = 1
    longest: int = 512
    most: int = 64

    def __post_init__(self) -> None:
        if self.segments < 1 or not self.compactness > 0 or not self.sigma >= 0:
            raise ValueError(
                "segments is 1 or more, compactness more than 0, sigma 0 or more, "
                f"found {self.segments}, {self.compactness} and {self.sigma}"
            )
        _check_size(self.longest, self.most)

    def __call__(self, pixels: Pixels, /) -> Masks:
        """The regions at the size of the image, the largest first."""
        from skimage.segmentation import slic

        pixels = require_pixels(pixels)
        small = shrink(pixels, self.longest)
        labels: Labels = slic(
            small, self.segments, self.compactness, sigma=self.sigma, start_label=0
        )
        return _masks(labels, pixels, self.most)


def _check_size(longest: int, most: int) -> None:
    if longest < 1 or most < 1:
        raise ValueError(
            f"longest is 1 or more pixels and most 1 or more regions, found {longest} and {most}"
        )


def _masks(labels: Labels, pixels: Pixels, most: int) -> Masks:
    """Label numbers at any size as regions at the size of the image."""
    height, width = pixels.shape[:2]
    full = cv2.resize(
        labels.astype(np.int32), (width, height), interpolation=cv2.INTER_NEAREST_EXACT
    )
    numbers, counts = np.unique(full, return_counts=True)
    kept = numbers[np.argsort(-counts, kind="stable")][:most]
    return Masks(
        np.array([full == number for number in kept]), np.ones(len(kept)), np.full(len(kept), "")
    )

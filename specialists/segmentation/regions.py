"""Superpixels, computed by scikit-image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.pixels import require_pixels, shrink
from looktwice.specialists.results import Masks, argsort_descending
from looktwice.specialists.rules import Checked


@dataclass(frozen=True)
class Felzenszwalb(Checked):
    """Regions that differ more from their neighbours than within themselves (Felzenszwalb and
    Huttenlocher, IJCV 2004).

    A larger `scale` gives larger regions; `sigma` is the preceding blur in pixels, and `min_size`
    the number of pixels of the smallest region, all measured after resizing: a picture whose longer
    side has more than `longest` pixels is downsized first. At most `most` regions are returned, the
    largest first. They are disjoint; every score is 1.
    """

    scale: float = 300
    sigma: float = 0.8
    min_size: int = 200
    longest: int = 512
    most: int = 64

    ranges = ("scale > 0", "sigma, min_size >= 0", "longest, most >= 1")

    def __call__(self, pixels: Pixels, /) -> Masks:
        """Return the regions at the size of the image, largest first."""
        from skimage.segmentation import felzenszwalb

        small = shrink(require_pixels(pixels), self.longest)
        labels = felzenszwalb(small, scale=self.scale, sigma=self.sigma, min_size=self.min_size)
        return select_largest_regions(labels, pixels, self.most)


@dataclass(frozen=True)
class Slic(Checked):
    """About `segments` compact regions of similar colour (Achanta et al., PAMI 2012).

    A higher `compactness` gives squarer regions; `sigma` is the preceding blur in pixels, measured
    after resizing: a picture whose longer side has more than `longest` pixels is downsized first.
    At most `most` regions are returned, the largest first. They are disjoint; every score is 1.
    """

    segments: int = 24
    compactness: float = 20
    sigma: float = 1
    longest: int = 512
    most: int = 64

    ranges = ("compactness > 0", "sigma >= 0", "segments, longest, most >= 1")

    def __call__(self, pixels: Pixels, /) -> Masks:
        """Return the regions at the size of the image, largest first."""
        from skimage.segmentation import slic

        small = shrink(require_pixels(pixels), self.longest)
        labels = slic(small, self.segments, self.compactness, sigma=self.sigma, start_label=0)
        return select_largest_regions(labels, pixels, self.most)


def select_largest_regions(labels: NDArray[Any], pixels: Pixels, max_regions: int) -> Masks:
    """Convert a label map of any size to masks of its largest regions, at the size of the
    image."""
    height, width = require_pixels(pixels).shape[:2]
    full = cv2.resize(
        labels.astype(np.int32), (width, height), interpolation=cv2.INTER_NEAREST_EXACT
    )
    counts = np.bincount(full.ravel())  # `np.unique` would sort all pixels
    largest = argsort_descending(counts)[: min(max_regions, np.count_nonzero(counts))]
    masks = full == largest[:, None, None]
    return Masks(masks, np.ones(len(largest)), np.full(len(largest), ""))

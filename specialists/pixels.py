"""Validation of the images passed to a specialist, the size to which they are resized, and the
mapping of results back to the images' own pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.transforms import resample
from looktwice.specialists.rules import NoEvidence

__all__ = ["InputSize", "is_one_color", "require_pixels", "shrink"]


def require_pixels(image: Any, min_side: int = 1, colors: bool = False) -> Pixels:
    """Return the pixels of an image, HxWx3 RGB uint8, from an array or a PIL image in mode RGB.

    Raises ValueError for anything else, because a network would misinterpret it. Raises NoEvidence
    if a side is shorter than `min_side` pixels and, with `colors`, if all pixels are the same.
    """
    if isinstance(image, Image.Image):
        if image.mode != "RGB":
            raise ValueError(
                f"an image must be RGB, found a PIL image in mode {image.mode}; pass"
                ' image.convert("RGB")'
            )
        image = np.asarray(image)
    if not isinstance(image, np.ndarray):
        raise ValueError(
            "an image must be an HxWx3 uint8 array or a PIL image, found a"
            f" {type(image).__name__}; pass its pixels"
        )
    if image.dtype != np.uint8:
        raise ValueError(
            f"pixels must be uint8, 0..255, found {image.dtype} of shape {image.shape}; convert"
            " floats in 0..1 with (255 * image).round().astype(np.uint8)"
        )
    if image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise ValueError(
            f"pixels must be HxWx3 RGB, found the shape {image.shape}; convert a grey image with"
            " cv2.cvtColor(image, cv2.COLOR_GRAY2RGB) and RGBA with image[..., :3]; channels come"
            " last"
        )
    height, width = image.shape[:2]
    if min(width, height) < min_side:
        raise NoEvidence(
            f"an image of {width} x {height} pixels is too small, at least"
            f" {min_side} x {min_side} are needed"
        )
    if colors and is_one_color(image):
        raise NoEvidence("an image has a single colour, so nothing in it can be recognized")
    return image


def shrink(pixels: Pixels, longest: int) -> Pixels:
    """Downsize the image by area averaging if its longer side has more than `longest` pixels."""
    scale = min(1.0, longest / max(pixels.shape[:2]))
    if scale == 1:
        return pixels
    size = max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def is_one_color(pixels: Pixels) -> bool:
    """Return whether all pixels are the same; a network's results on such an image are
    artefacts."""
    return bool((pixels == pixels[:1, :1]).all())


@dataclass(frozen=True)
class InputSize:
    """The size, `columns` x `rows` pixels, to which an image of `width` x `height` is resized for a
    network."""

    width: int
    height: int
    columns: int
    rows: int

    @classmethod
    def fit(
        cls,
        pixels: Pixels,
        longest: int | None,
        multiple: int,
        min_side: int = 1,
        enlarge: bool = False,
    ) -> InputSize:
        """Return the input size of an image: its own size, with both sides rounded down to a
        multiple of `multiple`, but at least `multiple` pixels long.

        A longer side than `longest` is first reduced to that length; with `enlarge` a shorter one
        is increased to it. Raises NoEvidence if a side of the image is shorter than `min_side`
        pixels.
        """
        height, width = require_pixels(pixels, min_side).shape[:2]
        scale = longest / max(width, height) if longest is not None else 1.0
        scale = scale if enlarge else min(1.0, scale)
        columns, rows = (
            max(multiple, int(side * scale + 1e-6) // multiple * multiple)
            for side in (width, height)
        )
        return cls(width, height, columns, rows)

    @property
    def size(self) -> tuple[int, int]:
        """The size as (columns, rows)."""
        return self.columns, self.rows

    def resize(self, pixels: Pixels) -> Pixels:
        """Resize the image to this size, by averaging if it shrinks, bilinearly if it grows."""
        return resample(pixels, self.columns, self.rows, "linear")

    def to_image(self, xy: ArrayLike) -> NDArray[np.float64]:
        """Map points (n, 2) from this size to the image's pixels; both are in pixel centres."""
        scale = np.array([self.width / self.columns, self.height / self.rows])
        return np.asarray((np.asarray(xy, np.float64).reshape(-1, 2) + 0.5) * scale - 0.5)

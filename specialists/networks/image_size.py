"""The size to which an image is resized for a network, and the mapping back to the image's own pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.transforms import resample
from looktwice.specialists.protocols import NoEvidence

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, of red, green and blue in 0..1


def require_size(pixels: Pixels, least: int) -> None:
    """Raises NoEvidence where a side of the image is shorter than `least` pixels."""
    height, width = pixels.shape[:2]
    if min(width, height) < least:
        raise NoEvidence(f"an image of {width} x {height} pixels is too small, {least} x {least} are needed")


def is_one_color(pixels: Pixels) -> bool:
    """Whether all pixels of an image are the same; what a network finds in it then is an artefact."""
    return bool((pixels == pixels[:1, :1]).all())


def require_colors(pixels: Pixels) -> None:
    """Raises NoEvidence where all pixels of the image are the same."""
    if is_one_color(pixels):
        raise NoEvidence("an image is of one colour, so nothing in it can be told from the rest")


@dataclass(frozen=True)
class InputSize:
    """An image of `width` x `height` pixels is resized to `columns` x `rows` pixels for a network."""

    width: int
    height: int
    columns: int
    rows: int

    @classmethod
    def of(cls, pixels: Pixels, longest: int | None, multiple: int, least: int = 1, enlarge: bool = False) -> InputSize:
        """The image's own size, both sides rounded down to a multiple of `multiple`, and at least that.

        A longer side than `longest` is first brought to that length; with `enlarge` a shorter one too. Raises
        NoEvidence where a side of the image is shorter than `least` pixels.
        """
        require_size(pixels, least)
        height, width = pixels.shape[:2]
        scale = longest / max(width, height) if longest is not None else 1.0
        scale = scale if enlarge else min(1.0, scale)
        columns, rows = (max(multiple, int(side * scale + 1e-6) // multiple * multiple) for side in (width, height))
        return cls(width, height, columns, rows)

    def resized(self, pixels: Pixels) -> Pixels:
        """The image at this size; smaller by averages, larger bilinearly."""
        return resample(pixels, self.columns, self.rows, "linear")

    def to_image(self, xy: ArrayLike) -> NDArray[np.float64]:
        """Points (n, 2) at this size in the image's pixels; pixel centres on both sides."""
        scale = np.array([self.width / self.columns, self.height / self.rows])
        return np.asarray((np.asarray(xy, np.float64).reshape(-1, 2) + 0.5) * scale - 0.5)

"""The regions that set-of-mark may number: from a segmenter, a detector or the sample, filtered and
made disjoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import common_rect
from looktwice.pipelines.marks import Box, Mask
from looktwice.pipelines.sample import Sample
from looktwice.specialists.results import Boxes, Masks

Overlap = Literal["smaller", "larger", "score", "keep"]
Order = Literal["area", "reading", "score"]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A region of a source picture, in its pixels, and how certain its source is of it."""

    mark: Box | Mask
    score: float = 1.0

    @cached_property
    def area(self) -> float:
        """In pixels of the source picture."""
        if isinstance(self.mark, Mask):
            return float(np.count_nonzero(self.mark.pixels))
        return (self.mark.x1 - self.mark.x0) * (self.mark.y1 - self.mark.y0)


def from_masks(masks: Masks, size: tuple[int, int], image: int) -> Iterator[Candidate]:
    """What a segmenter found in a picture of this (width, height); empty masks are dropped.

    Raises ValueError for masks of another size.
    """
    if len(masks) and masks.masks.shape[:0:-1] != size:
        found = masks.masks.shape[:0:-1]
        raise ValueError(
            f"the masks of image {image} are {found[0]} x {found[1]} pixels, the image {size[0]} x"
            f" {size[1]}; a segmenter gives them at the size of the image"
        )
    for pixels, score, label in zip(masks.masks, masks.scores, masks.labels, strict=True):
        if pixels.any():
            yield Candidate(Mask(str(label), pixels, image), float(score))


def from_boxes(boxes: Boxes, size: tuple[int, int], image: int) -> Iterator[Candidate]:
    """What a detector found in a picture of this (width, height), cut at its rim; what is empty
    then is dropped."""
    for xyxy, score, label in zip(boxes.xyxy, boxes.scores, boxes.labels, strict=True):
        x0, y0, x1, y1 = (float(edge) for edge in xyxy)
        if seen := common_rect((x0, y0, x1, y1), (0.0, 0.0, float(size[0]), float(size[1]))):
            yield Candidate(Box(str(label), *seen, image), float(score))


def from_marks(sample: Sample, image: int) -> Iterator[Candidate]:
    """The sample's own boxes and masks on one of its pictures. Raises ValueError for a mask of
    another size."""
    size = sample.images[image].size
    for mark in sample.on(image):
        if isinstance(mark, Mask):
            yield from from_masks(
                Masks(mark.pixels[None], np.ones(1), np.array([mark.label])), size, image
            )
        elif isinstance(mark, Box):
            yield from from_boxes(
                Boxes(np.array([mark.xyxy]), np.ones(1), np.array([mark.label])), size, image
            )


def resolve_overlaps(found: Sequence[Candidate], overlap: Overlap) -> list[Candidate]:
    """The candidates with each pixel in one mask alone, that of the smaller, the larger or the
    higher score.

    What has no pixel left is dropped. Boxes are left whole; "keep" leaves all as it is.
    """
    if overlap == "keep":
        return list(found)
    order = {
        "smaller": lambda one: one.area,
        "larger": lambda one: -one.area,
        "score": lambda one: -one.score,
    }[overlap]
    claimed: NDArray[np.bool_] | None = None
    kept: list[Candidate] = []
    for one in sorted(found, key=order):
        if isinstance(one.mark, Box):
            kept.append(one)
            continue
        claimed = np.zeros_like(one.mark.pixels) if claimed is None else claimed
        own = one.mark.pixels & ~claimed
        claimed = claimed | own
        if own.any():
            kept.append(Candidate(Mask(one.mark.label, own, one.mark.image), one.score))
    return kept


def sort_candidates(found: Sequence[Candidate], order: Order, height: int) -> list[Candidate]:
    """The candidates in the order of their numbers; `height` is the picture's, for rows of a tenth
    of it."""
    if order == "area":
        return sorted(found, key=lambda one: -one.area)
    if order == "score":
        return sorted(found, key=lambda one: (-one.score, -one.area))
    return sorted(
        found, key=lambda one: (int(10 * (one.mark.center[1] + 0.5) / height), one.mark.center[0])
    )

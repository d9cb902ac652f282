"""What detectors share: the words they are asked for, and boxes from what a network gives or a
segmenter cuts out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import mask_bounds
from looktwice.pipelines.picture import Pixels
from looktwice.specialists.protocols import Segmenter
from looktwice.specialists.results import Boxes
from looktwice.specialists.sharing import look_once


def asked_words(words: Sequence[str] | None) -> tuple[str, ...]:
    """The words of a call in small letters, without full stops; a text is one word."""
    every = (words,) if isinstance(words, str) else words or ()
    return tuple(word.strip().lower().rstrip(".") for word in every if word.strip(" ."))


def to_numbers(values: Any) -> NDArray[np.float64]:
    """An array, or a tensor of any precision and place, as an array."""
    return np.asarray(
        values if isinstance(values, np.ndarray) else values.float().cpu().numpy(), np.float64
    )


def surest_boxes(xyxy: Any, scores: Any, labels: Sequence[str], image: Pixels, most: int) -> Boxes:
    """The boxes (n, 4) in the image's pixels with scores (n,), clipped to it, the surest `most`
    first."""
    sure, (height, width) = to_numbers(scores), image.shape[:2]
    edges = to_numbers(xyxy).reshape(-1, 4).clip(0, [width, height, width, height])
    order = np.argsort(-sure, kind="stable")
    kept = order[((edges[:, 2:] - edges[:, :2]) > 0).all(1)[order]][:most]
    return Boxes(edges[kept], sure[kept], np.array(labels, str)[kept])


def lines_with(lines: Boxes, words: Sequence[str]) -> Boxes:
    """The lines of text that hold one of the words, labelled with it, ignoring case; a text is one
    word."""
    words = (words,) if isinstance(words, str) else words
    kept = [
        (k, word)
        for word in words
        for k, text in enumerate(lines.labels)
        if word.lower() in text.lower()
    ]
    chosen = lines[[k for k, _ in kept]] if kept else lines[:0]
    return Boxes(chosen.xyxy, chosen.scores, np.array([word for _, word in kept], str))


@dataclass(frozen=True)
class MaskBoxes:
    """The boxes of a segmenter's masks, where a stage looks for a detector: `U2Net` zooms on what
    is salient.

    Words that are looked for take the place of the `segmenter`'s own where it has any, as `SAM3`
    and `GroundedSAM` do.
    """

    segmenter: Segmenter

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """A box for each mask of an HxWx3 RGB image, with its score and label."""
        segmenter: Any = self.segmenter
        if words and hasattr(segmenter, "words"):
            segmenter = replace(segmenter, words=asked_words(words))
        masks = look_once(segmenter, pixels)
        masks = masks[np.flatnonzero(masks.masks.any((1, 2)))]
        xyxy = [mask_bounds(mask) for mask in masks.masks]
        return Boxes(np.reshape(xyxy, (-1, 4)), masks.scores, masks.labels)

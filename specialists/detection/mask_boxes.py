"""Boxes around the masks of a segmenter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from looktwice.pipelines.marks import mask_bounds
from looktwice.pipelines.picture import Pixels
from looktwice.specialists.detection.network_boxes import asked_words
from looktwice.specialists.protocols import Segmenter
from looktwice.specialists.results import Boxes
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class MaskBoxes:
    """The boxes of a segmenter's masks, where a stage looks for a detector: `U2Net` zooms on what is salient.

    Words that are looked for take the place of the `segmenter`'s own where it has any, as `SAM3` and `GroundedSAM` do.
    """

    segmenter: Segmenter

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """A box for each mask of an HxWx3 RGB image, with its score and label."""
        segmenter: Any = self.segmenter
        if words and hasattr(segmenter, "words"):
            segmenter = replace(segmenter, words=asked_words(words))
        found = look_once(segmenter, pixels)
        found = found[np.flatnonzero(found.masks.any((1, 2)))]
        xyxy = [mask_bounds(mask) for mask in found.masks]
        return Boxes(np.reshape(xyxy, (-1, 4)), found.scores, found.labels)

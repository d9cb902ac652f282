"""Grounded-SAM: things named in words, found as boxes by a detector and cut out by a segmenter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.protocols import BoxSegmenter, Detector
from looktwice.specialists.results import Masks
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class GroundedSAM:
    """The things that `words` name, each as one mask (Ren et al., arXiv 2401.14159): a segmenter of two specialists.

    Scores are the detector's, labels its words, and the surest comes first, as the detector gives them.
    """

    detector: Detector
    segmenter: BoxSegmenter
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not any(word.strip() for word in self.words):
            raise ValueError("words names what is looked for, such as [cat, dog]; found none")

    def __call__(self, pixels: Pixels, /) -> Masks:
        """The masks at the size of the image; no find is no mask. Raises NoEvidence, WeightsError."""
        boxes = look_once(self.detector, pixels, self.words)
        if not len(boxes):
            return Masks(np.empty((0, *pixels.shape[:2]), bool), boxes.scores, boxes.labels)
        return Masks(look_once(self.segmenter, pixels, boxes).masks, boxes.scores, boxes.labels)

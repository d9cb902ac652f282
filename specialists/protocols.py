"""What a specialist model is to the stages that use it: a function of pixels, known by its result."""

from __future__ import annotations

from typing import Protocol

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.results import DepthMap, Matches

__all__ = ["Depth", "Matcher", "NoEvidence"]


class NoEvidence(Exception):
    """A specialist has nothing to go by; the message says why, and the stage abstains with it."""


class Depth(Protocol):
    """Depth of the first image, at its own size. Pixels are HxWx3 RGB uint8.

    One image is all that a monocular model looks at; a stereo method takes the right view as the second one.
    Raises NoEvidence where that is missing or does not fit.
    """

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap: ...


class Matcher(Protocol):
    """Places of image 0 found again in image 1. Pixels are HxWx3 RGB uint8; no match is an empty result."""

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches: ...

"""What a specialist model is to the stages that use it: a function of pixels, known by its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.results import Boxes, DepthMap, Faces, FeatureGrid, Masks, Matches

__all__ = [
    "BoxSegmenter",
    "DepthEstimator",
    "Detector",
    "FaceDetector",
    "FeatureExtractor",
    "GeneratedImageDetector",
    "IdentityEmbedder",
    "ImageSimilarity",
    "Matcher",
    "NoEvidence",
    "ReflectanceEstimator",
    "ScalarMap",
    "Segmenter",
]


class NoEvidence(Exception):
    """A specialist has nothing to go by; the message says why, and the stage abstains with it."""


class DepthEstimator(Protocol):
    """Depth of the first image, at its own size. Pixels are HxWx3 RGB uint8.

    One image is all that a monocular model looks at; a stereo method takes the right view as the second one.
    Raises NoEvidence where that is missing or does not fit.
    """

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap: ...


class Matcher(Protocol):
    """Places of image 0 found again in image 1. Pixels are HxWx3 RGB uint8; no match is an empty result."""

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches: ...


class Segmenter(Protocol):
    """Regions of an image, HxWx3 RGB uint8, at its own size; they may overlap, and no region is an empty result.

    Raises NoEvidence where it cannot look at such an image at all.
    """

    def __call__(self, pixels: Pixels, /) -> Masks: ...


class ScalarMap(Protocol):
    """One number for each pixel of an image, HxWx3 RGB uint8: floats (height, width), NaN where nothing is known."""

    def __call__(self, pixels: Pixels, /) -> NDArray[np.float64]: ...


class Detector(Protocol):
    """Things in an image, HxWx3 RGB uint8, as boxes in its pixels; no find is an empty result.

    `words` names what is looked for; a detector of one kind of thing takes None. Raises NoEvidence where it cannot
    look for such words or at such an image at all.
    """

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes: ...


class BoxSegmenter(Protocol):
    """The thing in each box of an image, HxWx3 RGB uint8: one mask for each box, in its order, with its label."""

    def __call__(self, pixels: Pixels, boxes: Boxes, /) -> Masks: ...


class FeatureExtractor(Protocol):
    """A feature vector for each cell of an image, HxWx3 RGB uint8.

    `prompt` is a word for what is seen, for networks that take one. Raises NoEvidence where the image is too small.
    """

    def __call__(self, pixels: Pixels, prompt: str = "", /) -> FeatureGrid: ...


class FaceDetector(Protocol):
    """Faces of an image, HxWx3 RGB uint8, the surest first, with an identity each where the method makes one.

    Vectors of one person lie close to one another in Euclidean distance. No face is an empty result.
    """

    def __call__(self, pixels: Pixels, /) -> Faces: ...


class ReflectanceEstimator(Protocol):
    """How much light each surface reflects: floats (height, width, 3) in linear RGB, in one unknown unit."""

    def __call__(self, pixels: Pixels, /) -> NDArray[np.float64]: ...


class GeneratedImageDetector(Protocol):
    """The probability, 0..1, that an image, HxWx3 RGB uint8, was made by a generator. Raises NoEvidence."""

    def __call__(self, pixels: Pixels, /) -> float: ...


class ImageSimilarity(Protocol):
    """How alike two images are, HxWx3 RGB uint8, a larger number more alike. Raises NoEvidence."""

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> float: ...


class IdentityEmbedder(Protocol):
    """Who or what is seen in an image, as vectors (n, d) that lie close together for one person or thing.

    `words` name the thing, "" where nobody did. Raises NoEvidence where nothing is seen.
    """

    def __call__(self, pixels: Pixels, words: str, /) -> NDArray[np.float64]: ...

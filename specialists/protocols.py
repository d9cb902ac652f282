"""Protocols of specialists: what a detector, matcher, depth estimator ... takes and returns.

To add a specialist, write a frozen dataclass whose `__call__` has the signature of one of these
protocols and returns its class of `results`. A specialist without weights inherits nothing, or
`Checked`, which validates settings against `ranges`. A network belongs to `extras/`: it inherits
`networks.HubNetwork` if Hugging Face transformers opens it (see `maps/depth_anything.py` there),
else `networks.Network`, for which you write `open_network` and `forward`; both provide devices,
batches over threads, and stored results. An ONNX file that OpenCV reads needs neither: use
`open_onnx` of `networks/packages.py`, as `U2Net` of `segmentation/u2net.py` does. Stages call every
specialist through `look_once` of `sharing`, so that a run processes the same pixels once. Put the
class in a file of the room named for what it computes (`segmentation`, `matching`, `features`,
`maps` for depth) and add `from .file import Name as Name` to that room's `__init__.pyi`; a network
needs a row of `CLASSES` in `extras/__init__.py` too. YAML can then name it as
`specialists.<room>.<Name>`, and every stage that takes the protocol accepts it. A rule that answers
questions is a stage, in `answers`.

All images are HxWx3 RGB uint8, or PIL images in mode RGB; anything else raises an error. Points are
in pixel centres: (0, 0) is the middle of the upper left pixel. Boxes are given by their edges: (0,
0) is the upper left corner of that pixel.
"""

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
    "ImageSimilarity",
    "Matcher",
    "ReflectanceEstimator",
    "Segmenter",
]


class DepthEstimator(Protocol):
    """Estimates the depth of the first image, at its size.

    A monocular method ignores the other images; a stereo method takes the right view as the second
    image and raises NoEvidence if it is missing or has another size.
    """

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap: ...


class Matcher(Protocol):
    """Matches points of image 0 to points of image 1; without a match the result is empty."""

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches: ...


class Segmenter(Protocol):
    """Segments an image into masks at its size; they may overlap, and the result may be empty.

    Raises NoEvidence for an image that it cannot process.
    """

    def __call__(self, pixels: Pixels, /) -> Masks: ...


class ScalarMap(Protocol):
    """Computes one number for each pixel: floats (height, width), NaN where unknown."""

    def __call__(self, pixels: Pixels, /) -> NDArray[np.float64]: ...


class OpensNetwork:
    """A marker for specialists that load a network, which takes too long to try before a run."""


class Detector(Protocol):
    """Detects objects as boxes in the image's pixels; without a detection the result is empty.

    `words` are the classes to detect; a single string is one class. A detector of a fixed class
    takes None. Raises NoEvidence for words or an image that it cannot process.
    """

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes: ...


class BoxSegmenter(Protocol):
    """Segments one mask for each box of an image, in the order and with the labels of the boxes."""

    def __call__(self, pixels: Pixels, boxes: Boxes, /) -> Masks: ...


class FeatureExtractor(Protocol):
    """Computes a feature vector for each cell of a grid over the image.

    `prompt` is a word for the image's content, for networks that take one. Raises NoEvidence if the
    image is too small.
    """

    def __call__(self, pixels: Pixels, prompt: str = "", /) -> FeatureGrid: ...


class FaceDetector(Protocol):
    """Detects faces, sorted by descending score, each with an identity vector if the method
    computes one.

    Vectors of the same person are close in Euclidean distance. Without a face the result is empty.
    """

    def __call__(self, pixels: Pixels, /) -> Faces: ...


class ReflectanceEstimator(Protocol):
    """Estimates the reflectance of each pixel's surface: linear RGB (height, width, 3), up to an
    unknown scale."""

    def __call__(self, pixels: Pixels, /) -> NDArray[np.float64]: ...


class GeneratedImageDetector(Protocol):
    """Estimates the probability, 0..1, that a model generated an image. Raises NoEvidence."""

    def __call__(self, pixels: Pixels, /) -> float: ...


class ImageSimilarity(Protocol):
    """Computes the similarity of two images; larger is more similar. Raises NoEvidence."""

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> float: ...


class IdentityEmbedder(Protocol):
    """Computes identity vectors (n, d) of the persons or objects in an image; vectors of the same
    person or object are close.

    `words` names the object; it is "" if the question names none. Raises NoEvidence if none is
    found.
    """

    def __call__(self, pixels: Pixels, words: str, /) -> NDArray[np.float64]: ...

"""Rules for identities: whether images show the same person or object, how many different persons
or objects there are, and which images show the same one."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.boxes import choose_number, detect_object
from looktwice.specialists.answers.choices import (
    AnswerRule,
    Decision,
    choose_true_or_false,
    find_best_choice,
    parse_count,
    parse_sameness,
)
from looktwice.specialists.pixels import require_pixels
from looktwice.specialists.protocols import (
    Detector,
    FaceDetector,
    FeatureExtractor,
    IdentityEmbedder,
)
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once

Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class FaceIdentity:
    """The identity of the face in an image.

    If there are several faces, `faces` decides whether to abstain ("one"), or to use the largest or
    all.
    """

    detector: FaceDetector
    faces: Literal["one", "largest", "all"] = "one"

    def __call__(self, pixels: Pixels, words: str, /) -> Vectors:
        """Return vectors (n, d), with n = 1 unless all faces are used. Raises NoEvidence."""
        faces = look_once(self.detector, pixels)
        if not len(faces):
            raise NoEvidence("there is no face in an image")
        if not faces.vectors.shape[1]:
            raise NoEvidence(
                f"{type(self.detector).__name__} finds faces but computes no identities"
            )
        if self.faces == "all":
            return faces.vectors
        if self.faces == "one" and len(faces) > 1:
            raise NoEvidence(f"an image has {len(faces)} faces; exactly one is needed")
        area = np.prod(faces.xyxy[:, 2:] - faces.xyxy[:, :2], axis=1)
        return faces.vectors[[int(np.argmax(area))]]


@dataclass(frozen=True)
class ObjectIdentity:
    """The mean feature vector of an image, normalised to length 1; with a `detector`, that of the
    highest-scoring box of the named object.

    For vectors of length 1 the Euclidean distance is sqrt(2 - 2 cos): 0.6 corresponds to a cosine
    of 0.82.
    """

    features: FeatureExtractor
    detector: Detector | None = None

    def __call__(self, pixels: Pixels, words: str, /) -> Vectors:
        """Return one vector (1, d). Raises NoEvidence, including for a single-coloured image."""
        require_pixels(pixels, colors=True)
        if self.detector is not None:
            boxes = detect_object(self.detector, pixels, words)
            if not len(boxes):
                raise NoEvidence(f"the detector finds no {words or 'object'} in an image")
            surest = np.round(boxes.xyxy[int(np.argmax(boxes.scores))])
            left, top, right, bottom = surest.astype(int).clip(0)
            pixels = pixels[top : max(bottom, top + 1), left : max(right, left + 1)]
        mean = look_once(self.features, pixels, words).values.mean(axis=(0, 1))
        length = float(np.linalg.norm(mean))
        if length == 0:
            raise NoEvidence("an image has no features: all of them are 0")
        vector: Vectors = mean[None] / length
        return vector


@dataclass(frozen=True)
class IdentityRule(AnswerRule):
    """A rule over identities: vectors closer together than `threshold` belong to the same person or
    object."""

    identity: IdentityEmbedder
    threshold: float = 0.6

    ranges = ("threshold > 0",)

    def embed(self, sample: Sample, words: str) -> list[Vectors]:
        """Return the identities (n, d) in each image. Raises NoEvidence."""
        return [look_once(self.identity, image.pixels, words) for image in sample.images]

    def embed_each(self, sample: Sample, words: str) -> Vectors:
        """Return one identity for each of two or more images, (n, d). Raises NoEvidence."""
        if len(sample.images) < 2:
            raise NoEvidence(
                f"comparing identities needs at least two images, found {len(sample.images)}"
            )
        identities = self.embed(sample, words)
        for number, vectors in enumerate(identities):
            if len(vectors) != 1:
                raise NoEvidence(
                    f"image {number} has {len(vectors)} identities; exactly one is needed"
                )
        return np.concatenate(identities)


@dataclass(frozen=True)
class SameIdentity(IdentityRule):
    """Answers whether the images show the same person or object: yes or no, or true or false for a
    claim.

    They are the same if no two images are further apart than `threshold` (Euclidean; 0.6 is dlib's
    for its faces). The claim and the object's name are read from the question ("The bags in these
    images are not the same bag."). Confidence is the difference between the largest distance and
    the threshold, as a share of the threshold. Abstains for the reason that `identity` gives, and
    if the question makes no such claim.
    """

    def decide(self, sample: Sample) -> Decision:
        """Return the answer and the confidence. Raises NoEvidence."""
        claimed, words = parse_sameness(sample)
        vectors = self.embed_each(sample, words)
        far = max(np.linalg.norm(first - second) for first, second in combinations(vectors, 2))
        if far == self.threshold:
            raise NoEvidence("the distance between the images equals the threshold")
        answer = choose_true_or_false(sample, bool(far < self.threshold) == claimed)
        return answer, abs(float(far) / self.threshold - 1)


@dataclass(frozen=True)
class CountIdentities(IdentityRule):
    """Answers how many different persons or objects the images show, by clustering their
    identities.

    Agglomerative clustering by `linkage` stops at `threshold` (Euclidean). The object's name is
    read from the question ("how many different bags") unless `words` gives it. Confidence is the
    difference between the threshold and the distance of the merge nearest to it, as a share of the
    threshold. Abstains for the reason that `identity` gives, and if no choice has the number.
    """

    linkage: Literal["single", "average", "complete"] = "average"
    words: str | None = None

    def decide(self, sample: Sample) -> Decision:
        """Return the letter or number, and the confidence. Raises NoEvidence."""
        from scipy.cluster.hierarchy import linkage

        if not sample.images:
            raise NoEvidence("there is no image")
        words = _parse_object_name(sample) if self.words is None else self.words
        vectors = np.concatenate(self.embed(sample, words))
        # the distances at which clusters merge, step by step
        joins = linkage(vectors, self.linkage)[:, 2] if len(vectors) > 1 else np.empty(0)
        number = len(vectors) - int((joins <= self.threshold).sum())
        sure = float(np.abs(joins / self.threshold - 1).min()) if len(joins) else 1.0
        answer, off = choose_number(sample, number, nearest=False)
        return answer, sure / 2**off


@dataclass(frozen=True)
class GroupIdentities(IdentityRule):
    """Answers with the choice that names images of the same person or object: "1 and 3", or "None".

    The margin of a choice is the smaller of two differences: `threshold` minus the largest distance
    among its images, and the smallest distance from them to the others minus `threshold`. For
    "None" it is the smallest distance between any two images minus `threshold`. The largest margin
    wins; its lead over the next, as a share of the threshold, is the confidence. The object's name
    is read from the question ("the same bag") unless `words` gives it. Abstains for the reason
    that `identity` gives, if a choice names no images, and on a tie.
    """

    words: str | None = None

    def decide(self, sample: Sample) -> Decision:
        groups = {}
        for letter, choice in sample.lettered.items():
            numbers = {int(number) - 1 for number in re.findall(r"\d+", str(choice))}
            none = not numbers and "none" not in str(choice).lower()
            if none or not numbers <= set(range(len(sample.images))):
                raise NoEvidence(
                    f"the choice {str(choice)!r} does not name images from 1 to"
                    f" {len(sample.images)}"
                )
            groups[letter] = numbers
        if len(groups) < 2:
            raise NoEvidence("there are fewer than two choices of groups")
        words = _parse_object_name(sample) if self.words is None else self.words
        vectors = self.embed_each(sample, words)
        margins = {
            letter: self._measure_margin(vectors, members) for letter, members in groups.items()
        }
        letter, lead = find_best_choice(margins, "the margins of")
        return letter, lead / self.threshold

    def _measure_margin(self, vectors: Vectors, members: set[int]) -> float:
        inside, outside = [-np.inf], [np.inf]
        for first, second in combinations(range(len(vectors)), 2):
            distance = float(np.linalg.norm(vectors[first] - vectors[second]))
            if first in members and second in members:
                inside.append(distance)
            elif not members or first in members or second in members:
                outside.append(distance)
        return min(self.threshold - max(inside), min(outside) - self.threshold)


def _parse_object_name(sample: Sample) -> str:
    """Return the object that the question names, or ""."""
    with suppress(NoEvidence):
        return parse_count(sample)
    with suppress(NoEvidence):
        return parse_sameness(sample)[1]
    return ""

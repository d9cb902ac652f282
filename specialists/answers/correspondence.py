"""Answers from what two images have in common: the point at the same place as the reference, how
the camera moved."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import Point
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule, find_choice, points_by_letter
from looktwice.specialists.features.similarity import cosines
from looktwice.specialists.networks.image_size import is_one_color
from looktwice.specialists.protocols import FeatureExtractor, Matcher, NoEvidence
from looktwice.specialists.results import FeatureGrid, Matches
from looktwice.specialists.sharing import look_once

Floats = NDArray[np.float64]
MIN_MATCHES = {"homography": 4, "affine": 3, "nearest": 1}


@dataclass(frozen=True)
class MatchedPoint(AnswerRule):
    """Maps the point `reference` of image 0 to image 1 and answers with the candidate nearest to it
    there.

    The candidates are the points on image 1 whose labels the choices name ("Point A"), else those
    labelled with the sample's letters. `transfer` says how: "homography" fits one homography to all
    matches (RANSAC), "affine" an affine map to the `neighbors` matches nearest to the reference
    (RANSAC), which follows scenes with depth; "nearest" applies the shift of the nearest match.
    `tolerance` is RANSAC's, in pixels of image 1. Confidence is 1 - d1 / d2 of the distances to the
    nearest and second nearest candidate.

    Abstains with fewer than `min_matches` matches or inliers of the fit, where the reference or a
    candidate is missing, and at a tie.
    """

    matcher: Matcher
    transfer: Literal["homography", "affine", "nearest"] = "affine"
    min_matches: int = 6
    neighbors: int = 16
    tolerance: float = 3.0
    reference: str = "REF"

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        least = MIN_MATCHES[self.transfer]
        if self.min_matches < least:
            raise ValueError(
                f"transfer {self.transfer!r} needs min_matches of {least} or more, found"
                f" {self.min_matches}"
            )
        if self.transfer == "affine" and self.neighbors < self.min_matches:
            raise ValueError(
                f"neighbors ({self.neighbors}) must not be fewer than min_matches"
                f" ({self.min_matches})"
            )
        if not self.tolerance > 0:
            raise ValueError(f"tolerance is in pixels and more than 0, found {self.tolerance}")

    def decide(self, sample: Sample) -> tuple[str, float]:
        reference, candidates = find_reference_and_candidates(sample, self.reference)
        x, y = self.transfer_point(
            reference, look_once(self.matcher, sample.images[0].pixels, sample.images[1].pixels)
        )
        distances = {
            letter: math.hypot(point.x - x, point.y - y) for letter, point in candidates.items()
        }
        first, second = sorted(distances, key=lambda letter: distances[letter])[:2]
        if distances[first] == distances[second]:
            raise NoEvidence(
                f"candidates {first} and {second} are equally far from ({x:.1f}, {y:.1f})"
            )
        return first, 1 - distances[first] / distances[second]

    def transfer_point(self, reference: Floats, matches: Matches) -> Floats:
        """Where a point (2,) of image 0 lies in image 1, both in pixel centres. Raises
        NoEvidence."""
        if len(matches) < self.min_matches:
            raise NoEvidence(f"{len(matches)} matches, at least {self.min_matches} are needed")
        methods: dict[str, Callable[[Floats, Matches], Floats]] = {
            "homography": self._by_homography,
            "affine": self._by_affine,
            "nearest": _by_nearest,
        }
        transferred = methods[self.transfer](reference, matches)
        if not np.isfinite(transferred).all():
            raise NoEvidence("the fitted map sends the reference point to infinity")
        return transferred

    def _by_homography(self, reference: Floats, matches: Matches) -> Floats:
        matrix, inliers = cv2.findHomography(matches.xy0, matches.xy1, cv2.RANSAC, self.tolerance)
        x, y, w = self._check_inliers(matrix, inliers) @ (*reference, 1.0)
        if w <= 0:  # beyond the horizon of the fitted plane
            return np.full(2, np.nan)
        return np.array([x / w, y / w])

    def _by_affine(self, reference: Floats, matches: Matches) -> Floats:
        near = matches[_sort_by_distance(reference, matches)[: self.neighbors]]
        matrix, inliers = cv2.estimateAffine2D(
            near.xy0, near.xy1, method=cv2.RANSAC, ransacReprojThreshold=self.tolerance
        )
        transferred: Floats = self._check_inliers(matrix, inliers) @ (*reference, 1.0)
        return transferred

    def _check_inliers(self, matrix: object, inliers: object) -> Floats:
        """The fitted matrix. Raises NoEvidence with too few inliers."""
        count = 0 if matrix is None else int(np.count_nonzero(np.asarray(inliers)))
        if count < self.min_matches:
            raise NoEvidence(
                f"{count} matches agree on one map, at least {self.min_matches} are needed"
            )
        return np.asarray(matrix, np.float64)


def find_reference_and_candidates(
    sample: Sample, reference: str
) -> tuple[Floats, dict[str, Point]]:
    """The point (2,) of image 0 with this label, and the point of image 1 for each choice. Raises
    NoEvidence."""
    if len(sample.images) < 2 or len(sample.letters) < 2:
        raise NoEvidence(
            f"there are {len(sample.images)} images and {len(sample.letters)} choices; 2 of each"
            " are needed"
        )
    references = [
        mark for mark in sample.on(0) if isinstance(mark, Point) and mark.label == reference
    ]
    if len(references) != 1:
        raise NoEvidence(
            f"{len(references) or 'no'} points {reference!r} are on image 0, one should be"
        )
    return np.array(references[0].center), points_by_letter(sample, image=1)


def _sort_by_distance(reference: Floats, matches: Matches) -> NDArray[np.intp]:
    """Row numbers of the matches, the one nearest to the reference in image 0 first."""
    order: NDArray[np.intp] = np.argsort(
        np.linalg.norm(matches.xy0 - reference, axis=1), kind="stable"
    )
    return order


def _by_nearest(reference: Floats, matches: Matches) -> Floats:
    nearest = _sort_by_distance(reference, matches)[0]
    transferred: Floats = reference + matches.xy1[nearest] - matches.xy0[nearest]
    return transferred


TIE_TOLERANCE = 1e-6  # a smaller difference of distances is rounding


@dataclass(frozen=True)
class NearestFeature(AnswerRule):
    """Answers with the candidate whose feature is most similar to that of the point `reference`, by
    cosine.

    The candidates are the points on image 1 whose labels the choices name ("Point A"), else those
    labelled with the sample's letters; the reference lies on image 0. `search` "candidates"
    compares the features at the candidates; "everywhere" first takes the most similar cell of image
    1, and then the candidate nearest to it. `prompt` is a word for the image's content, for
    features that take one. Confidence is 1 - d1 / d2 of the nearest and the second nearest
    candidate, by 1 - cosine or by distance. BLINK's paper does not say which search its DIFT rows
    use.

    Abstains where the reference or a candidate is missing, where an image is single-coloured, and
    at a tie.
    """

    features: FeatureExtractor
    search: Literal["candidates", "everywhere"] = "candidates"
    prompt: str = ""
    reference: str = "REF"

    def decide(self, sample: Sample) -> tuple[str, float]:
        reference, candidates = find_reference_and_candidates(sample, self.reference)
        images = [sample.images[number].pixels for number in (0, 1)]
        for number, pixels in enumerate(images):
            if is_one_color(pixels):
                raise NoEvidence(f"image {number} is of one color")
        grid0, grid1 = (look_once(self.features, pixels, self.prompt) for pixels in images)
        places = np.array([point.center for point in candidates.values()])
        distances = self._distances(grid0.at(reference), grid1, places)
        order = np.argsort(distances, kind="stable")[:2]
        (first, second), (d1, d2) = (list(candidates)[n] for n in order), distances[order]
        if d2 - d1 <= TIE_TOLERANCE:
            raise NoEvidence(f"candidates {first} and {second} are equally like the reference")
        return first, 1 - d1 / d2

    def _distances(
        self, reference: NDArray[np.float64], grid: FeatureGrid, places: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The distance of each place (n, 2) of image 1 from the reference's vector (1, d)."""
        if self.search == "candidates":
            return np.asarray(np.clip(1 - cosines(reference, grid.at(places))[0], 0, 2))
        alike = cosines(reference, grid.values.reshape(-1, grid.values.shape[-1]))[0]
        most_similar = grid.centers().reshape(-1, 2)[int(np.argmax(alike))]
        return np.asarray(np.linalg.norm(places - most_similar, axis=1))


Flow = NDArray[np.float64]
STILL = 1e-6  # pixels; less is the rounding of a mean, not a motion


@dataclass(frozen=True)
class CameraMotion(AnswerRule):
    """Answers left or right by the sign of the horizontal flow from image 0 to image 1.

    `flow` says which: the "mean" over all matches (the rule behind BLINK's published LoFTR numbers,
    with `min_matches: 1`), the "median", or the "inliers": the mean over those that agree with one
    epipolar geometry (MAGSAC, `tolerance` in pixels). `motion` is how the camera moves: in "orbit"
    around the scene, as in BLINK, where the background moves to the right when the camera does; or
    "sideways", as between the two views of a stereo pair, where everything moves to the left when
    the camera moves to the right. Confidence is the mean flow over the mean of its sizes: 1 where
    all matches move the same way. Abstains without two images, with fewer than `min_matches`
    matches, where the flow is 0, and where no choice says left or right.
    """

    matcher: Matcher
    flow: Literal["mean", "median", "inliers"] = "mean"
    motion: Literal["orbit", "sideways"] = "orbit"
    min_matches: int = 8
    tolerance: float = 1.0

    def __post_init__(self) -> None:
        if self.min_matches < 1 or (self.flow == "inliers" and self.min_matches < 8):
            raise ValueError(
                f"min_matches is 1 or more, and for inliers 8 or more; found {self.min_matches}"
            )
        if not self.tolerance > 0:
            raise ValueError(f"tolerance is in pixels and more than 0, found {self.tolerance}")

    def decide(self, sample: Sample) -> tuple[str, float]:
        left, right = find_choice(sample, r"\bleft\b"), find_choice(sample, r"\bright\b")
        if left is None or right is None or left == right:
            raise NoEvidence("the choices are not one for left and one for right")
        if len(sample.images) < 2:
            raise NoEvidence(f"camera motion needs two images, found {len(sample.images)}")
        across = self.across(
            look_once(self.matcher, sample.images[0].pixels, sample.images[1].pixels)
        )
        moved = float(np.median(across) if self.flow == "median" else across.mean())
        if abs(moved) < STILL:
            raise NoEvidence("the mean horizontal flow is 0")
        to_right = (moved > 0) == (self.motion == "orbit")
        return right if to_right else left, abs(float(across.mean())) / float(np.abs(across).mean())

    def across(self, matches: Matches) -> Flow:
        """The horizontal flow (n,) in pixels of the matches that `flow` selects. Raises NoEvidence
        for too few."""
        kept = matches
        if self.flow == "inliers" and len(matches) >= self.min_matches:
            _, agree = cv2.findFundamentalMat(
                matches.xy0, matches.xy1, cv2.USAC_MAGSAC, self.tolerance, 0.999, 10_000
            )
            kept = matches[np.asarray(agree, bool).ravel() if agree is not None else slice(0)]
        if len(kept) < self.min_matches:
            which = "matches agree" if self.flow == "inliers" else "matches"
            raise NoEvidence(f"{len(kept)} {which}, at least {self.min_matches} are needed")
        shift: Flow = kept.xy1[:, 0] - kept.xy0[:, 0]
        return shift

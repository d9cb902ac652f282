"""Rules that answer by comparing images: the point that corresponds to the reference, and how the
camera moved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import cv2
import numpy as np

from looktwice.pipelines.marks import Point
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import (
    AnswerRule,
    Decision,
    find_best_choice,
    find_choice,
    find_nearest_choice,
    map_letters_to_images,
    map_letters_to_marks,
)
from looktwice.specialists.features.similarity import compute_cosines
from looktwice.specialists.pixels import is_one_color, require_pixels
from looktwice.specialists.protocols import (
    FeatureExtractor,
    GeneratedImageDetector,
    ImageSimilarity,
    Matcher,
)
from looktwice.specialists.results import Floats, Matches
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once

MIN_MATCHES = {"homography": 4, "affine": 3, "nearest": 1}


@dataclass(frozen=True)
class MatchedPoint(AnswerRule):
    """Maps the point `reference` of image 0 to image 1 and answers with the nearest candidate.

    The candidates are the points on image 1 whose labels the choices name ("Point A"), else those
    labelled with the sample's letters. `transfer` is the method: "homography" fits one homography
    to all matches (RANSAC); "affine" fits an affine map to the `neighbors` matches nearest to the
    reference (RANSAC), which copes with scenes that have depth; "nearest" applies the shift of the
    nearest match. `tolerance` is the largest error of RANSAC's inliers, in pixels of image 1.
    Confidence is 1 - d1 / d2, where d1 and d2 are the distances to the nearest and second nearest
    candidate.

    Abstains if there are fewer than `min_matches` matches or inliers of the fit, if the reference
    or a candidate is missing, and on a tie.
    """

    matcher: Matcher
    transfer: Literal["homography", "affine", "nearest"] = "affine"
    min_matches: int = 6
    neighbors: int = 16
    tolerance: float = 3.0
    reference: str = "REF"

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_ranges(self, f"min_matches >= {MIN_MATCHES[self.transfer]}", "tolerance > 0")
        if self.transfer == "affine":
            check_ranges(self, "neighbors >= min_matches")

    def decide(self, sample: Sample) -> Decision:
        reference, candidates = find_reference_and_candidates(sample, self.reference)
        x, y = self.transfer_point(reference, match_images(self.matcher, sample))
        distances = {
            letter: math.hypot(point.x - x, point.y - y) for letter, point in candidates.items()
        }
        return find_nearest_choice(
            distances, f"the distances from ({x:.1f}, {y:.1f}) of candidates"
        )

    def transfer_point(self, reference: Floats, matches: Matches) -> Floats:
        """Map a point (2,) of image 0 to image 1, both in pixel centres. Raises NoEvidence."""
        if len(matches) < self.min_matches:
            raise NoEvidence(f"{len(matches)} matches, at least {self.min_matches} are needed")
        order = np.argsort(np.linalg.norm(matches.xy0 - reference, axis=1), kind="stable")
        if self.transfer == "nearest":
            return np.asarray(reference + matches.xy1[order[0]] - matches.xy0[order[0]])
        if self.transfer == "affine":
            near = matches[order[: self.neighbors]]
            matrix, inliers = cv2.estimateAffine2D(
                near.xy0, near.xy1, method=cv2.RANSAC, ransacReprojThreshold=self.tolerance
            )
        else:
            matrix, inliers = cv2.findHomography(
                matches.xy0, matches.xy1, cv2.RANSAC, self.tolerance
            )
        count = 0 if matrix is None else int(np.count_nonzero(inliers))
        if count < self.min_matches:
            raise NoEvidence(
                f"{count} matches agree on one map, at least {self.min_matches} are needed"
            )
        x, y, *w = np.asarray(matrix, np.float64) @ (*reference, 1.0)
        if w and w[0] <= 0:
            raise NoEvidence("the reference point lies beyond the horizon of the fitted map")
        return np.array([x, y]) / (w or 1.0)


def match_images(matcher: Matcher, sample: Sample) -> Matches:
    """Match the points of the sample's first two images."""
    return look_once(matcher, *(image.pixels for image in sample.images[:2]))


def find_reference_and_candidates(
    sample: Sample, reference: str
) -> tuple[Floats, dict[str, Point]]:
    """Return the point (2,) of image 0 with this label, and the point of image 1 for each choice.
    Raises NoEvidence."""
    if len(sample.images) < 2 or len(sample.letters) < 2:
        raise NoEvidence(
            f"there are {len(sample.images)} images and {len(sample.letters)} choices; 2 of each"
            " are needed"
        )
    references = [
        mark
        for mark in sample.list_marks_on(0)
        if isinstance(mark, Point) and mark.label == reference
    ]
    if len(references) != 1:
        raise NoEvidence(
            f"image 0 has {len(references) or 'no'} points {reference!r}; exactly one is needed"
        )
    return np.array(references[0].center), map_letters_to_marks(sample, Point, image=1)


@dataclass(frozen=True)
class NearestFeature(AnswerRule):
    """Answers with the candidate whose feature is most similar (cosine) to the point `reference`.

    The candidates are the points on image 1 whose labels the choices name ("Point A"), else those
    labelled with the sample's letters; the reference lies on image 0. With `search` "candidates"
    the features at the candidates are compared; "everywhere" first finds the most similar cell of
    image 1 and then the candidate nearest to it. `prompt` is a word for the image's content, for
    `features` that take one. Confidence is 1 - d1 / d2, where d1 and d2 are 1 - cosine, or the
    distances, of the nearest and second nearest candidate. BLINK's paper does not state which
    search its DIFT rows use.

    Abstains if the reference or a candidate is missing, for single-coloured images, and on a tie.
    """

    features: FeatureExtractor
    search: Literal["candidates", "everywhere"] = "candidates"
    prompt: str = ""
    reference: str = "REF"

    def decide(self, sample: Sample) -> Decision:
        reference, candidates = find_reference_and_candidates(sample, self.reference)
        grids = []
        for number, image in enumerate(sample.images[:2]):
            if is_one_color(image.pixels):
                raise NoEvidence(f"image {number} has a single colour")
            grids.append(look_once(self.features, image.pixels, self.prompt))
        vector, grid = grids[0].interpolate(reference), grids[1]
        places = np.array([point.center for point in candidates.values()])
        if self.search == "candidates":
            distances = np.clip(1 - compute_cosines(vector, grid.interpolate(places))[0], 0, 2)
        else:
            alike = compute_cosines(vector, grid.values.reshape(-1, grid.values.shape[-1]))[0]
            most_similar = grid.compute_centers().reshape(-1, 2)[int(np.argmax(alike))]
            distances = np.linalg.norm(places - most_similar, axis=1)
        far = dict(zip(candidates, distances.tolist(), strict=True))
        return find_nearest_choice(far, "the distances of candidates", rounding=1e-6)


MIN_MOTION = 1e-6  # pixels; smaller values are rounding errors of a mean


@dataclass(frozen=True)
class CameraMotion(AnswerRule):
    """Answers left or right by the sign of the horizontal flow from image 0 to image 1.

    `flow` selects the average: the "mean" over all matches (the rule behind BLINK's published LoFTR
    numbers, with `min_matches: 1`), the "median", or "inliers", the mean over the matches that
    agree with one epipolar geometry (MAGSAC, `tolerance` in pixels). `motion` is how the camera
    moves: "orbit" around the scene, as in BLINK, where the background moves to the right when the
    camera does, or "sideways", as between the two views of a stereo pair, where everything moves to
    the left when the camera moves to the right. Confidence is the mean flow divided by the mean of
    its absolute values: 1 if all matches move the same way. Abstains without two images, with fewer
    than `min_matches` matches, if the flow is 0, and if no choice says left or right.
    """

    matcher: Matcher
    flow: Literal["mean", "median", "inliers"] = "mean"
    motion: Literal["orbit", "sideways"] = "orbit"
    min_matches: int = 8
    tolerance: float = 1.0

    def __post_init__(self) -> None:
        least = 8 if self.flow == "inliers" else 1
        check_ranges(self, f"min_matches >= {least}", "tolerance > 0")

    def decide(self, sample: Sample) -> Decision:
        left, right = find_choice(sample, r"\bleft\b"), find_choice(sample, r"\bright\b")
        if left is None or right is None or left == right:
            raise NoEvidence("the choices are not one for left and one for right")
        if len(sample.images) < 2:
            raise NoEvidence(f"camera motion needs two images, found {len(sample.images)}")
        across = self.measure_flow(match_images(self.matcher, sample))
        moved = float(np.median(across) if self.flow == "median" else across.mean())
        if abs(moved) < MIN_MOTION:
            raise NoEvidence("the mean horizontal flow is 0")
        to_right = (moved > 0) == (self.motion == "orbit")
        return right if to_right else left, abs(float(across.mean())) / float(np.abs(across).mean())

    def measure_flow(self, matches: Matches) -> Floats:
        """Return the horizontal flow (n,) in pixels of the matches that `flow` selects. Raises
        NoEvidence if there are too few."""
        selected = matches
        if self.flow == "inliers" and len(matches) >= self.min_matches:
            _, agree = cv2.findFundamentalMat(
                matches.xy0, matches.xy1, cv2.USAC_MAGSAC, self.tolerance, 0.999, 10_000
            )
            selected = matches[np.asarray(agree, bool).ravel() if agree is not None else slice(0)]
        if len(selected) < self.min_matches:
            which = "matches agree" if self.flow == "inliers" else "matches"
            raise NoEvidence(f"{len(selected)} {which}, at least {self.min_matches} are needed")
        shift: Floats = selected.xy1[:, 0] - selected.xy0[:, 0]
        return shift


@dataclass(frozen=True)
class MostReal(AnswerRule):
    """Answers with the choice whose image is least likely to be generated, as in BLINK's forensic
    detection.

    Confidence is the difference between the two lowest probabilities. Abstains if images and
    choices do not pair up, if `detector` cannot process one of them, and on a tie.
    """

    detector: GeneratedImageDetector

    def decide(self, sample: Sample) -> Decision:
        images = map_letters_to_images(sample).items()
        real = {letter: -look_once(self.detector, image.pixels) for letter, image in images}
        return find_best_choice(real, "the scores of")


@dataclass(frozen=True)
class MostSimilar(AnswerRule):
    """Answers with the choice whose image is most similar to the first, as in BLINK's visual
    similarity and art style.

    `similarity` is the measure: `specialists.features.GlobalSimilarity` compares content,
    `GramSimilarity` style. Confidence is the lead over the next image, at most 1. Abstains if
    images and choices do not pair up, if one has a single colour, if `similarity` cannot process
    one, and on a tie.
    """

    similarity: ImageSimilarity

    def decide(self, sample: Sample) -> Decision:
        candidates = map_letters_to_images(sample)
        if not sample.images:
            raise NoEvidence("there is no image to compare the choices with")
        if any(image is sample.images[0] for image in candidates.values()):
            raise NoEvidence(
                "the first image is one of the candidates, so there is nothing to compare them with"
            )
        first = sample.images[0].pixels
        for image in (sample.images[0], *candidates.values()):
            require_pixels(image.pixels, colors=True)
        alike = {
            letter: look_once(self.similarity, first, image.pixels)
            for letter, image in candidates.items()
        }
        return find_best_choice(alike, "the likenesses of")

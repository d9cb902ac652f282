"""Whether the camera moved to the left or to the right between two images, from matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule, find_choice
from looktwice.specialists.protocols import Matcher, NoEvidence
from looktwice.specialists.results import Matches
from looktwice.specialists.sharing import look_once

Flow = NDArray[np.float64]
STILL = 1e-6  # pixels; less is the rounding of a mean, not a motion


@dataclass(frozen=True)
class CameraMotion(AnswerRule):
    """Answers left or right by the sign of the horizontal flow from image 0 to image 1.

    `flow` says which: the "mean" over all matches (the rule behind BLINK's published LoFTR numbers, with
    `min_matches: 1`), the "median", or the "inliers": the mean over those that agree with one epipolar geometry
    (MAGSAC, `tolerance` in pixels). `motion` is how the camera moves: in "orbit" around the scene, as
    in BLINK, where the background moves to the right when the camera does; or "sideways", as between the two views
    of a stereo pair, where everything moves to the left when the camera moves to the right. Confidence is the mean
    flow over the mean of its sizes: 1 where all matches move the same way. Abstains without two images, with fewer
    than `min_matches` matches, where the flow is 0, and where no choice says left or right.
    """

    matcher: Matcher
    flow: Literal["mean", "median", "inliers"] = "mean"
    motion: Literal["orbit", "sideways"] = "orbit"
    min_matches: int = 8
    tolerance: float = 1.0

    def __post_init__(self) -> None:
        if self.min_matches < 1 or (self.flow == "inliers" and self.min_matches < 8):
            raise ValueError(f"min_matches is 1 or more, and for inliers 8 or more; found {self.min_matches}")
        if not self.tolerance > 0:
            raise ValueError(f"tolerance is in pixels and more than 0, found {self.tolerance}")

    def decide(self, sample: Sample) -> tuple[str, float]:
        left, right = find_choice(sample, r"\bleft\b"), find_choice(sample, r"\bright\b")
        if left is None or right is None or left == right:
            raise NoEvidence("the choices are not one for left and one for right")
        if len(sample.images) < 2:
            raise NoEvidence(f"camera motion needs two images, found {len(sample.images)}")
        across = self.across(look_once(self.matcher, sample.images[0].pixels, sample.images[1].pixels))
        moved = float(np.median(across) if self.flow == "median" else across.mean())
        if abs(moved) < STILL:
            raise NoEvidence("the mean horizontal flow is 0")
        to_right = (moved > 0) == (self.motion == "orbit")
        return right if to_right else left, abs(float(across.mean())) / float(np.abs(across).mean())

    def across(self, matches: Matches) -> Flow:
        """The horizontal flow (n,) in pixels of the matches that `flow` selects. Raises NoEvidence for too few."""
        kept = matches
        if self.flow == "inliers" and len(matches) >= self.min_matches:
            _, agree = cv2.findFundamentalMat(matches.xy0, matches.xy1, cv2.USAC_MAGSAC, self.tolerance, 0.999, 10_000)
            kept = matches[np.asarray(agree, bool).ravel() if agree is not None else slice(0)]
        if len(kept) < self.min_matches:
            which = "matches agree" if self.flow == "inliers" else "matches"
            raise NoEvidence(f"{len(kept)} {which}, at least {self.min_matches} are needed")
        found: Flow = kept.xy1[:, 0] - kept.xy0[:, 0]
        return found

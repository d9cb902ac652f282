"""Which of two points is the darker surface, by a map of reflectance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import Point
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule, check_window, find_choice, points_by_letter
from looktwice.specialists.protocols import NoEvidence, ReflectanceEstimator
from looktwice.specialists.sharing import look_once

LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # Rec. 709, of linear RGB
SAME = r"\b(?:same|equal)\b"


@dataclass(frozen=True)
class DarkerPoint(AnswerRule):
    """Answers with the choice that refers to the point with the lower reflectance, or the one that says "the same".

    Each point of image 0 has the median luminance of the `window` x `window` pixels around it. The two are
    the same where the lighter has at most 1 + `tolerance` times the darker's: 0.10 is the margin of the WHDR
    (Bell et al., SIGGRAPH 2014, section 6). Without a choice that says so, the lower one is the answer. Confidence
    is the distance of the ratio from that margin, 0 on it. Abstains where a point is missing, where nothing is known
    around it, where both are black, and at a tie that no choice is for.
    """

    reflectance: ReflectanceEstimator
    tolerance: float = 0.10
    window: int = 5

    def __post_init__(self) -> None:
        if self.tolerance < 0:
            raise ValueError(f"tolerance is 0 or more, found {self.tolerance}")
        check_window(self.window)

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The letter and the confidence. Raises NoEvidence, and ValueError for a map of another size."""
        points, same = points_by_letter(sample), find_choice(sample, SAME)
        points.pop(same or "", None)
        if len(points) != 2:
            raise NoEvidence(f"two points are compared, and the choices name {len(points)}")
        albedo = self._luminance(sample)
        light = {letter: self._around(albedo, point) for letter, point in points.items()}
        low, high = sorted(light, key=lambda letter: light[letter])
        if light[high] <= 0:
            raise NoEvidence("both points are black, so their ratio says nothing")
        ratio = math.log(light[high] / light[low]) if light[low] > 0 else math.inf
        if same is None:
            if ratio == 0:
                raise NoEvidence("both points are equally dark, and no choice says so")
            return low, 1 - math.exp(-ratio)
        margin = math.log1p(self.tolerance)
        return (same, 1 - ratio / margin if margin else 1.0) if ratio <= margin else (low, 1 - math.exp(margin - ratio))

    def _luminance(self, sample: Sample) -> NDArray[np.float64]:
        found = np.asarray(look_once(self.reflectance, sample.images[0].pixels), np.float64)
        width, height = sample.images[0].size
        if found.shape != (height, width, 3):
            raise ValueError(
                f"the reflectance has the shape {found.shape}, its image is {width} x {height}; "
                f"it must be ({height}, {width}, 3)"
            )
        luminance: NDArray[np.float64] = found @ LUMINANCE
        return luminance

    def _around(self, albedo: NDArray[np.float64], point: Point) -> float:
        column, row, half = round(point.x), round(point.y), self.window // 2
        patch = albedo[max(0, row - half) : row + half + 1, max(0, column - half) : column + half + 1]
        known = patch[np.isfinite(patch)]
        if not len(known):
            raise NoEvidence(f"no reflectance is known around point {point.label} at ({point.x:g}, {point.y:g})")
        return float(np.median(known))

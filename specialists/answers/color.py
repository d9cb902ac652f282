"""Colours of marked places: which colour one has, and which of two is the darker surface."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ImageColor

from looktwice.pipelines.marks import Mark, Point
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import (
    AnswerRule,
    best_choice,
    check_window,
    find_choice,
    points_by_letter,
)
from looktwice.specialists.protocols import NoEvidence, ReflectanceEstimator
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class ColorAtMark(AnswerRule):
    """Answers with the choice that names the colour at the middle of the one mark of image 0.

    The place has the median colour of the `window` x `window` pixels around it; the choices, such
    as "red" or "light blue", are read as CSS names; the nearest by CIEDE2000 is the answer, its
    confidence the lead over the next as a share of the larger distance. Abstains where there is not
    one mark, where a choice names no colour, and at a tie.
    """

    window: int = 5

    def __post_init__(self) -> None:
        check_window(self.window)

    def decide(self, sample: Sample) -> tuple[str, float]:
        from skimage.color import deltaE_ciede2000

        marks = sample.on(0)
        if len(marks) != 1:
            raise NoEvidence(f"the colour at one mark is asked for, and image 0 has {len(marks)}")
        seen = _lab(self._around(sample, marks[0]))
        distance: Any = deltaE_ciede2000
        far = {
            letter: float(distance(seen, _lab(_named(choice))))
            for letter, choice in zip(sample.letters, sample.choices, strict=True)
        }
        if len(far) < 2:
            raise NoEvidence(f"{len(far)} choices name colours, and 2 or more are compared")
        letter, lead = best_choice(
            {letter: -away for letter, away in far.items()}, "the colours of"
        )
        return letter, lead / (far[letter] + lead)

    def _around(self, sample: Sample, mark: Mark) -> NDArray[np.uint8]:
        pixels, half = sample.images[0].pixels, self.window // 2
        x, y = mark.center
        column, row = round(x), round(y)
        patch = pixels[
            max(0, row - half) : row + half + 1, max(0, column - half) : column + half + 1
        ]
        if not (0 <= row < pixels.shape[0] and 0 <= column < pixels.shape[1]):
            raise NoEvidence(f"mark {mark.label} at ({x:g}, {y:g}) lies outside image 0")
        return np.asarray(np.median(patch.reshape(-1, 3), axis=0), np.uint8)


def _named(choice: object) -> NDArray[np.uint8]:
    try:
        return np.array(ImageColor.getrgb(str(choice).strip(" .").replace(" ", ""))[:3], np.uint8)
    except (ValueError, OverflowError):
        raise NoEvidence(f"the choice {str(choice)!r} names no colour of CSS") from None


def _lab(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    from skimage.color import rgb2lab

    return np.asarray(rgb2lab(rgb / 255), np.float64)


LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # Rec. 709, of linear RGB
SAME = r"\b(?:same|equal)\b"


@dataclass(frozen=True)
class DarkerPoint(AnswerRule):
    """Answers with the choice that refers to the point with the lower reflectance, or the one that
    says "the same".

    Each point of image 0 has the median luminance of the `window` x `window` pixels around it. The
    two are the same where the lighter has at most 1 + `tolerance` times the darker's: 0.10 is the
    margin of the WHDR (Bell et al., SIGGRAPH 2014, section 6). Without a choice that says so, the
    lower one is the answer. Confidence is the distance of the ratio from that margin, 0 on it.
    Abstains where a point is missing, where nothing is known around it, where both are black, and
    at a tie that no choice is for.
    """

    reflectance: ReflectanceEstimator
    tolerance: float = 0.10
    window: int = 5

    def __post_init__(self) -> None:
        if self.tolerance < 0:
            raise ValueError(f"tolerance is 0 or more, found {self.tolerance}")
        check_window(self.window)

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The letter and the confidence. Raises NoEvidence, and ValueError for a map of another
        size."""
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
        return (
            (same, 1 - ratio / margin if margin else 1.0)
            if ratio <= margin
            else (low, 1 - math.exp(margin - ratio))
        )

    def _luminance(self, sample: Sample) -> NDArray[np.float64]:
        reflectance = np.asarray(look_once(self.reflectance, sample.images[0].pixels), np.float64)
        width, height = sample.images[0].size
        if reflectance.shape != (height, width, 3):
            raise ValueError(
                f"the reflectance has the shape {reflectance.shape}, its image is"
                f" {width} x {height}; it must be ({height}, {width}, 3)"
            )
        luminance: NDArray[np.float64] = reflectance @ LUMINANCE
        return luminance

    def _around(self, albedo: NDArray[np.float64], point: Point) -> float:
        column, row, half = round(point.x), round(point.y), self.window // 2
        patch = albedo[
            max(0, row - half) : row + half + 1, max(0, column - half) : column + half + 1
        ]
        values = patch[np.isfinite(patch)]
        if not len(values):
            raise NoEvidence(
                f"no reflectance is known around point {point.label} at ({point.x:g}, {point.y:g})"
            )
        return float(np.median(values))

"""Which of the lettered points is nearer, by a depth map."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from looktwice.pipelines.marks import Point
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule, check_window, points_by_letter
from looktwice.specialists.protocols import DepthEstimator, NoEvidence
from looktwice.specialists.results import DepthMap
from looktwice.specialists.sharing import look_once

LARGE = "larger|largest|greater|greatest|longer|longest|higher|highest|bigger|biggest|more|most"
SMALL = "smaller|smallest|shorter|shortest|lower|lowest|less|least"
SPAN = "(?:distance|depth)"
NEAR = (
    rf"near(?:er|est)?|clos(?:e|er|est)|foremost|in front|(?:{SMALL}) {SPAN}|{SPAN}[^.?]*"
    rf" (?:{SMALL})"
)
FAR = (
    r"far(?:ther|thest)?|furthe(?:r|st)|distant|remote|deep(?:er|est)|behind|"
    rf"(?:{LARGE}) {SPAN}|{SPAN}[^.?]* (?:{LARGE})"
)
NOT = r"(?:\b(?:not|less|least)|n['\u2019]t) (?:the )?"
ASKED = re.compile(rf"(?P<not>{NOT})?\b(?:(?P<near>{NEAR})|(?P<far>{FAR}))\b", re.IGNORECASE)
"""A word for nearer or farther, and whether it is negated."""


@dataclass(frozen=True)
class NearerPoint(AnswerRule):
    """Answers with the choice that refers to the point nearest to the camera, or farthest, as the
    question asks.

    Question and choices tell which ("Which point is farther?", "A is closer"), in English. The
    points are those on image 0 whose labels the choices name ("B is closer"), else those labelled
    with the sample's letters; each has the median of the known depths in the `window` x `window`
    pixels around it. `depth` is given all images: a stereo method takes the second as the right
    view. Confidence is the lead over the next point as a share of the map's range (5th to 95th
    percentile). Abstains where neither or both of nearer and farther are asked for, where a point
    is missing, where no depth is known around it, and at a tie.
    """

    depth: DepthEstimator
    window: int = 5

    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        check_window(self.window)

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The letter and the confidence. Raises NoEvidence, and ValueError for a map of another
        size."""
        points = points_by_letter(sample)
        asks_near = _asks_near(sample)
        near_map = look_once(self.depth, *(image.pixels for image in sample.images))
        _same_size(near_map, sample)
        near = {letter: self._nearness(near_map, point) for letter, point in points.items()}
        first, second = sorted(
            near, key=lambda letter: -near[letter] if asks_near else near[letter]
        )[:2]
        if near[first] == near[second]:
            raise NoEvidence(
                f"points {points[first].label} and {points[second].label} are equally near"
            )
        low, high = np.nanpercentile(near_map.nearness, [5, 95])
        return first, abs(near[first] - near[second]) / (high - low) if high > low else 1.0

    def _nearness(self, near_map: DepthMap, point: Point) -> float:
        values = near_map.around(point.x, point.y, self.window)
        if not len(values):
            raise NoEvidence(
                f"no depth is known around point {point.label} at ({point.x:g}, {point.y:g})"
            )
        return float(np.median(values))


def _asks_near(sample: Sample) -> bool:
    """Whether the nearest point is asked for and not the farthest. Raises NoEvidence where that
    cannot be told."""
    asked = " ".join(
        [sample.question, *(choice for choice in sample.choices if isinstance(choice, str))]
    )
    wanted = {
        bool(match["near"]) != bool(match["not"])
        for match in ASKED.finditer(" ".join(asked.split()))
    }
    if len(wanted) != 1:
        both = "both the nearer and the farther" if wanted else "neither the nearer nor the farther"
        raise NoEvidence(f"{both} point is asked for: {sample.question!r}")
    return wanted.pop()


def _same_size(near_map: DepthMap, sample: Sample) -> None:
    size, map_size = sample.images[0].size, near_map.values.shape[::-1]
    if map_size != size:
        raise ValueError(
            f"the depth map is {map_size[0]} x {map_size[1]} pixels, its image"
            f" {size[0]} x {size[1]}; a depth method gives its map at the size of the image"
        )

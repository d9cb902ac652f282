"""Rules that answer from measured pixels: the colour, reflectance or depth of marked points, and
the seams of a missing piece."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from PIL import ImageColor

from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.transforms import resample
from looktwice.specialists.answers.choices import (
    AnswerRule,
    Decision,
    find_best_choice,
    find_choice,
    list_choice_texts,
    map_letters_to_marks,
)
from looktwice.specialists.protocols import DepthEstimator, ReflectanceEstimator
from looktwice.specialists.results import Floats, cut_patch
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class ColorAtMark(AnswerRule):
    """Answers with the choice that names the colour at the centre of the only mark of image 0.

    The colour is the median of the `window` x `window` pixels around the centre. The choices, such
    as "red" or "light blue", are parsed as CSS colour names. The nearest by CIEDE2000 is the
    answer; its lead over the next, as a share of the larger distance, is the confidence. Abstains
    if there is not exactly one mark, if a choice names no colour, and on a tie.
    """

    window: int = 5

    ranges = ("window >= 1", "window is odd")

    def decide(self, sample: Sample) -> Decision:
        from skimage.color import deltaE_ciede2000, rgb2lab

        marks = sample.list_marks_on(0)
        if len(marks) != 1:
            raise NoEvidence(f"exactly one mark is needed, image 0 has {len(marks)}")
        (x, y), (width, height) = marks[0].center, sample.images[0].size
        if not (0 <= round(x) < width and 0 <= round(y) < height):
            raise NoEvidence(f"mark {marks[0].label} at ({x:g}, {y:g}) lies outside image 0")
        patch = cut_patch(sample.images[0].pixels, x, y, self.window)
        seen = np.median(patch.reshape(-1, 3), axis=0).astype(np.uint8)
        distances = {}
        lab, distance = cast("Any", rgb2lab), cast("Any", deltaE_ciede2000)
        for letter, choice in sample.lettered.items():
            try:
                named = ImageColor.getrgb(str(choice).strip(" .").replace(" ", ""))[:3]
                color = np.array(named, np.uint8)
            except (ValueError, OverflowError):
                raise NoEvidence(f"the choice {str(choice)!r} is not a CSS colour name") from None
            distances[letter] = float(distance(lab(seen / 255), lab(color / 255)))
        if len(distances) < 2:
            raise NoEvidence(f"{len(distances)} choices name colours, at least 2 are needed")
        far = {letter: -away for letter, away in distances.items()}
        letter, lead = find_best_choice(far, "the colours of")
        return letter, lead / (distances[letter] + lead)


LUMINANCE_WEIGHTS = np.array([0.2126, 0.7152, 0.0722])  # Rec. 709, of linear RGB
SAME_REGEX = r"\b(?:same|equal)\b"


def measure_points(
    values: Floats,
    sample: Sample,
    points: Mapping[str, Point],
    window: int,
    what: str,
    weights: Floats | None = None,
) -> dict[str, float]:
    """Return the median of the known values around each point; with `weights`, the channels are
    first summed with these weights.

    Raises NoEvidence if no value is known around a point, and ValueError for a map that does not
    have the size of image 0.
    """
    width, height = sample.images[0].size
    shape = (height, width) if weights is None else (height, width, len(weights))
    if values.shape != shape:
        raise ValueError(
            f"the {what} map must have the shape {shape}, as its image has {width} x {height}"
            f" pixels, found {values.shape}"
        )
    if weights is not None:
        values = values @ weights
    measured = {}
    for letter, point in points.items():
        patch = cut_patch(values, point.x, point.y, window)
        if not np.isfinite(patch).any():
            place = f"{point.label} at ({point.x:g}, {point.y:g})"
            raise NoEvidence(f"no {what} is known around point {place}")
        measured[letter] = float(np.median(patch[np.isfinite(patch)]))
    return measured


@dataclass(frozen=True)
class DarkerPoint(AnswerRule):
    """Answers with the choice that refers to the point with the lower reflectance, or with the
    choice for "the same".

    The value of each point of image 0 is the median luminance of the `window` x `window` pixels
    around it. Two points are the same if the larger value is at most 1 + `tolerance` times the
    smaller: 0.10 is the margin of the WHDR (Bell et al., SIGGRAPH 2014, section 6). Without a
    choice for "the same", the point with the smaller value is the answer. Confidence is the
    distance of the ratio from that margin, 0 at the margin. Abstains if a point is missing, if no
    `reflectance` is known around it, if both are black, and on a tie that no choice covers.
    """

    reflectance: ReflectanceEstimator
    tolerance: float = 0.10
    window: int = 5

    ranges = ("tolerance >= 0", "window >= 1", "window is odd")

    def decide(self, sample: Sample) -> Decision:
        """Return the letter and the confidence. Raises NoEvidence, and ValueError for a map of
        another size."""
        points, same = map_letters_to_marks(sample, Point), find_choice(sample, SAME_REGEX)
        points.pop(same or "", None)
        if len(points) != 2:
            raise NoEvidence(f"the choices must name two points, found {len(points)}")
        albedo = look_once(self.reflectance, sample.images[0].pixels)
        light = measure_points(
            albedo, sample, points, self.window, "reflectance", LUMINANCE_WEIGHTS
        )
        low, high = sorted(light, key=lambda letter: light[letter])
        if light[high] <= 0:
            raise NoEvidence("both points are black, so their ratio is undefined")
        ratio = math.log(light[high] / light[low]) if light[low] > 0 else math.inf
        if same is None and ratio == 0:
            raise NoEvidence("both points are equally dark, and no choice says so")
        margin = 0.0 if same is None else math.log1p(self.tolerance)
        if same is None or ratio > margin:
            return low, 1 - math.exp(margin - ratio)
        return same, 1 - ratio / margin if margin else 1.0


LARGE_WORDS_REGEX = (
    "larger|largest|greater|greatest|longer|longest|higher|highest|bigger|biggest|more|most"
)
SMALL_WORDS_REGEX = "smaller|smallest|shorter|shortest|lower|lowest|less|least"
SPAN_WORDS_REGEX = "(?:distance|depth)"
NEAR_WORDS_REGEX = (
    rf"near(?:er|est)?|clos(?:e|er|est)|foremost|in front|(?:{SMALL_WORDS_REGEX})"
    rf" {SPAN_WORDS_REGEX}|{SPAN_WORDS_REGEX}[^.?]*"
    rf" (?:{SMALL_WORDS_REGEX})"
)
FAR_WORDS_REGEX = (
    r"far(?:ther|thest)?|furthe(?:r|st)|distant|remote|deep(?:er|est)|behind|"
    rf"(?:{LARGE_WORDS_REGEX}) {SPAN_WORDS_REGEX}|{SPAN_WORDS_REGEX}[^.?]* (?:{LARGE_WORDS_REGEX})"
)
NEGATION_REGEX = r"(?:\b(?:not|less|least)|n['\u2019]t) (?:the )?"
ASKED_DISTANCE_PATTERN = re.compile(
    rf"(?P<not>{NEGATION_REGEX})?\b(?:(?P<near>{NEAR_WORDS_REGEX})|(?P<far>{FAR_WORDS_REGEX}))\b",
    re.IGNORECASE,
)
"""Matches a word for nearer or farther, and whether it is negated."""


@dataclass(frozen=True)
class NearerPoint(AnswerRule):
    """Answers with the choice that refers to the point nearest to the camera, or farthest from it,
    depending on the question.

    The direction is read from the question and choices ("Which point is farther?", "A is closer"),
    in English. The points are those on image 0 whose labels the choices name ("B is closer"), else
    those labelled with the sample's letters. The value of each is the median of the known depths in
    the `window` x `window` pixels around it. `depth` is given all images: a stereo method takes the
    second as the right view. Confidence is the lead over the next point as a share of the map's
    range (5th to 95th percentile). Abstains if the question asks for neither or both of nearer and
    farther, if a point is missing, if no depth is known around it, and on a tie.
    """

    depth: DepthEstimator
    window: int = 5

    version: ClassVar[int] = 3
    ranges = ("window >= 1", "window is odd")

    def decide(self, sample: Sample) -> Decision:
        """Return the letter and the confidence. Raises NoEvidence, and ValueError for a map of
        another size."""
        points = map_letters_to_marks(sample, Point)
        text = " ".join([sample.question, *list_choice_texts(sample).values()])
        asked = ASKED_DISTANCE_PATTERN.finditer(" ".join(text.split()))
        wanted = {bool(match["near"]) != bool(match["not"]) for match in asked}
        if len(wanted) != 1:
            both = "both the nearer and" if wanted else "neither the nearer nor"
            raise NoEvidence(f"the question asks for {both} the farther point: {sample.question!r}")
        nearness = look_once(self.depth, *(image.pixels for image in sample.images)).nearness
        near = measure_points(nearness, sample, points, self.window, "depth")
        first, second = sorted(near, key=lambda letter: near[letter], reverse=wanted.pop())[:2]
        if near[first] == near[second]:
            raise NoEvidence(
                f"points {points[first].label} and {points[second].label} are equally near"
            )
        low, high = np.nanpercentile(nearness, [5, 95])
        return first, abs(near[first] - near[second]) / (high - low) if high > low else 1.0


MAX_BLACK_LEVEL = 2.0  # grey levels; the highest mean of a missing quadrant


@dataclass(frozen=True)
class SeamMatcher(AnswerRule):
    """Answers with the candidate that fits the blacked-out quadrant of the first image, as in
    BLINK's jigsaw task.

    The cost of a candidate is `color` times the mean step across both seams plus `gradient` times
    the mean change of slope there, in grey levels; the gradient term is from jigsaw solvers
    (Gallagher, CVPR 2012, section 3.1) without its covariance. A quadrant counts as missing if its
    mean is at most 2 grey levels. Candidates are the choices if these are pictures, else the images
    after the first. Confidence is the difference between the lowest and the second lowest cost, as
    a share of the latter. Abstains unless exactly one quadrant is missing, if candidates and
    choices do not pair up, and on a tie.
    """

    color: float = 1.0
    gradient: float = 1.0

    ranges = ("color, gradient >= 0",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.color + self.gradient == 0:
            raise ValueError("`color` and `gradient` must not both be 0")

    def decide(self, sample: Sample) -> Decision:
        costs = dict(zip(sample.letters, self.measure_costs(sample), strict=True))
        cheap = {letter: -cost for letter, cost in costs.items()}
        letter, margin = find_best_choice(cheap, "the costs of")
        return letter, margin / sorted(costs.values())[1]

    def measure_costs(self, sample: Sample) -> list[float]:
        """Return the cost of each candidate, in the order of the choices. Raises NoEvidence."""
        pieces = _list_candidates(sample)
        width, height = sample.images[0].size
        # mirrored so that the gap is always at the lower right and the seams are its left and its
        # top edge
        flips = slice(None, None, -1), slice(None)
        down, across = _find_missing_quadrant(sample.images[0].pixels)
        board = sample.images[0].pixels[flips[down], flips[across]].astype(np.float64)
        costs = []
        for piece in pieces:
            pixels = piece.pixels
            # if the size is odd, the gap may be the smaller or the larger half
            if max(abs(2 * np.subtract(pixels.shape[:2], (height / 2, width / 2)))) > 1:
                pixels = resample(pixels, width - width // 2, height - height // 2)
            inside = pixels[flips[down], flips[across]].astype(np.float64)
            top, left = height - inside.shape[0], width - inside.shape[1]
            above = board[top - 2 : top, left:]
            beside = board[top:, left - 2 : left].swapaxes(0, 1)
            inner = inside[:, :2].swapaxes(0, 1)
            seams = [self._measure_seam(above, inside[:2]), self._measure_seam(beside, inner)]
            costs.append(float(np.concatenate(seams).mean()))
        return costs

    def _measure_seam(self, outer: Floats, inner: Floats) -> Floats:
        """Return the cost of each pixel along a seam; `outer` and `inner` are the two lines (2, n,
        3) on either side of it."""
        step = inner[0] - outer[1]
        slope = (outer[1] - outer[0] + inner[1] - inner[0]) / 2
        cost: Floats = (self.color * np.abs(step) + self.gradient * np.abs(step - slope)).mean(-1)
        return cost


def _find_missing_quadrant(board: Pixels) -> tuple[int, int]:
    """Return the row and column, 0 or 1, of the black quadrant. Raises NoEvidence."""
    height, width = board.shape[0] // 2, board.shape[1] // 2
    if min(height, width) < 2:
        raise NoEvidence(
            f"the first image is too small to have quadrants: {board.shape[1]} x"
            f" {board.shape[0]} pixels"
        )
    black = []
    for row, rows in enumerate((board[:height], board[-height:])):
        for column, quadrant in enumerate((rows[:, :width], rows[:, -width:])):
            if quadrant.mean() <= MAX_BLACK_LEVEL:
                black.append((row, column))
    if len(black) != 1:
        raise NoEvidence(
            f"{len(black) or 'no'} quadrants of the first image are black, exactly one must be"
        )
    return black[0]


def _list_candidates(sample: Sample) -> Sequence[Picture]:
    if len(sample.choices) < 2 or not sample.images:
        raise NoEvidence(
            f"{len(sample.images)} images and {len(sample.choices)} choices are too few"
        )
    pictures = [choice for choice in sample.choices if isinstance(choice, Picture)]
    candidates = pictures or sample.images[1:]
    if len(candidates) != len(sample.choices):
        raise NoEvidence(
            f"there are {len(candidates)} candidate images for {len(sample.choices)} choices"
        )
    return candidates

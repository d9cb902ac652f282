"""Which point is nearer or darker, on maps whose values are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers import DarkerPoint, NearerPoint
from looktwice.specialists.maps import SGBM
from looktwice.specialists.results import DepthMap
from tests.specialists.samples import DARK, Paint, Plane, asked, check
from tests.specialists.scenes import BLANK, depths, run_stage, sample


@dataclass(frozen=True)
class Ramp:
    """A map whose value is the column; `hole` columns from the left are unknown."""

    larger_is_nearer: bool = True
    hole: int = 0
    width: int = 100

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        values = np.tile(np.arange(self.width, dtype=float), (100, 1))
        values[:, : self.hole] = np.nan
        return DepthMap(values, self.larger_is_nearer)


A, B, C = Point("A", 20, 50), Point("B", 70, 50), Point("C", 90, 10)


@pytest.mark.parametrize(
    ("depth", "asked", "answer", "reason"),
    [
        (Ramp(), depths(A, B), "B", ""),
        (Ramp(larger_is_nearer=False), depths(A, B), "A", ""),
        (Ramp(), depths(A, B, C), "C", ""),
        (Ramp(), depths(B, C, A), "C", ""),
        (Ramp(hole=19), depths(A, B), "B", ""),
        (Ramp(hole=23), depths(A, B), None, "no depth is known around point A at (20, 50)"),
        (Ramp(), depths(A, Point("B", 20, 10)), None, "points A and B are equally near"),
        (Ramp(), depths(A), None, "no point B on image 0"),
        (Ramp(), depths(A, replace(B, image=1), images=(BLANK, BLANK)), None, "no point B on"),
        (Ramp(), sample(), None, "there are 0 images and 2 choices"),
        (SGBM(), depths(A, B), None, "stereo needs a left and a right view, found 1 image(s)"),
        (SGBM(), depths(A, B, images=(BLANK, BLANK[:50])), None, "left and right view differ"),
        (SGBM(), depths(A, B, images=(BLANK[:, :2],) * 2), None, "an image of 2 x "),
    ],
)
def test_the_nearer_point(depth: Any, asked: Sample, answer: str | None, reason: str) -> None:
    state = run_stage(NearerPoint(depth), asked)
    assert state.answer == answer
    assert state.reason.startswith(f"abstained: {reason}") if reason else state.reason == ""
    if answer:
        assert 0 < (state.confidence or 0) <= 1


def test_one_wild_pixel_does_not_decide() -> None:
    values = np.full((100, 100), 5.0)
    values[:, 60:] = 6
    values[50, 20] = 100
    state = run_stage(NearerPoint(lambda *_: DepthMap(values, True)), depths(A, B))
    assert state.answer == "B"


def test_a_map_of_another_size_is_a_fault() -> None:
    with pytest.raises(ValueError, match="the map of depth has the shape"):
        run_stage(NearerPoint(Ramp(width=50)), depths(A, B))


def test_the_nearer_point_is_named_by_the_choices_and_not_by_their_order() -> None:
    points = Point("A", 20, 50), Point("B", 70, 50)
    check(NearerPoint(Plane()), asked(choices=("A is closer", "B is closer"), marks=points), "B")
    check(NearerPoint(Plane()), asked(choices=("B is closer", "A is closer"), marks=points), "A")


NEARER = [
    "Which point is closer to the camera?",
    "Which of the points is nearest?",
    "Which one is less far away?",
    "Which point is not the farthest?",
    "Which point has the smaller depth?",
    "Whose distance to us is shorter?",
    "Which point lies in front?",
]
FARTHER = [
    "Which point is farther from the camera?",
    "Which point is further away?",
    "Which is the more distant one?",
    "Which of the two points is furthest\nfrom the viewer?",
    "Which point isn't closer to the camera?",
    "Which point is less close?",
    "Which point is deeper in the scene?",
    "Which point has a greater depth?",
    "Whose distance to the camera is larger?",
    "Which one lies behind?",
]
UNTOLD = [
    "Which?",
    "Which point is brighter?",
    "Which point is closer, and which is farther?",
    "Is A nearer or more distant?",
]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        *((text, "B") for text in NEARER),
        *((text, "A") for text in FARTHER),
        *((text, None) for text in UNTOLD),
    ],
)
def test_the_question_tells_whether_the_nearer_or_the_farther_point_is_asked_for(
    question: str, answer: str | None
) -> None:
    state = run_stage(NearerPoint(Ramp()), replace(depths(A, B), question=question))
    assert state.answer == answer
    assert (state.confidence or 0) > 0 if answer else "farther point is asked for: " in state.reason


@pytest.mark.parametrize(
    ("question", "choices", "answer"),
    [
        ("Which is right?", ("A is farther", "B is farther"), "A"),
        ("Which is right?", ("B is closer", "A is closer"), "A"),
        ("Which point is farther?", ("Point B", "Point A"), "B"),
        ("Which point is farther?", ("A is closer", "B is closer"), None),
        ("Which is right?", ("A is closer", "B is farther"), None),
    ],
)
def test_choices_tell_it_too(question: str, choices: tuple[str, ...], answer: str | None) -> None:
    check(
        NearerPoint(Ramp()),
        asked(question, choices, marks=(A, B)),
        answer,
        "" if answer else "both the nearer",
    )


TURNED = ("About the same", "B is darker", "A is darker")


SPOTS = (Point("A", 20, 50), Point("B", 80, 50))


@pytest.mark.parametrize(
    ("paint", "choices", "settings", "answer", "reason"),
    [
        (Paint(0.2, 0.4), DARK, {}, "A", ""),
        (Paint(0.4, 0.2), DARK, {}, "B", ""),
        (Paint(0.4, 0.2), TURNED, {}, "B", ""),
        (Paint(0.2, 0.4), TURNED, {}, "C", ""),
        (Paint(0.40, 0.43), DARK, {}, "C", ""),
        (Paint(0.40, 0.43), TURNED, {}, "A", ""),
        (Paint(0.40, 0.43), DARK, {"tolerance": 0.05}, "A", ""),
        (Paint(0.3, 0.3), DARK, {"tolerance": 0.0}, "C", ""),
        (Paint(0.0, 0.3), DARK, {}, "A", ""),
        (Paint(0.40, 0.43), DARK[:2], {}, "A", ""),
        (Paint(0.3, 0.3), DARK[:2], {}, None, "both points are equally dark"),
        (Paint(0.0, 0.0), DARK, {}, None, "both points are black"),
        (Paint(0.3, 0.3, unknown=True), DARK, {}, None, "no reflectance is known around point B"),
    ],
)
def test_the_darker_point(
    paint: Paint, choices: Any, settings: Any, answer: str | None, reason: str
) -> None:
    check(DarkerPoint(paint, **settings), asked(choices=choices, marks=SPOTS), answer, reason)


def test_the_margin_between_same_and_darker_is_where_it_is_said_to_be() -> None:
    for ratio, answer in ((1.0999, "C"), (1.1001, "A")):
        state = check(
            DarkerPoint(Paint(0.4, 0.4 * ratio)), asked(choices=DARK, marks=SPOTS), answer
        )
        assert state.confidence == pytest.approx(0, abs=0.01)


def test_points_that_are_not_there_and_a_map_of_another_shape() -> None:
    three, spots = ("A is darker", "B is darker", "C is darker"), (*SPOTS, Point("C", 1, 1))
    rule = DarkerPoint(Paint(0.1, 0.2))
    check(rule, asked(choices=DARK, marks=SPOTS[:1]), None, "no point B on image 0")
    check(rule, asked(choices=three, marks=spots), None, "two points are")
    with pytest.raises(ValueError, match=r"must be \(100, 100, 3\)"):
        run_stage(DarkerPoint(lambda _: np.ones((100, 100))), asked(choices=DARK, marks=SPOTS))


def test_the_confidence_of_the_nearer_point_is_its_lead_over_the_range_of_the_map() -> None:
    state = run_stage(NearerPoint(Ramp()), depths(A, B, C))
    # from the 5th to the 95th percentile of 0 .. 99
    assert state.confidence == pytest.approx((90 - 70) / (0.9 * 99))
    flat = np.full((100, 100), 5.0)
    flat[48:53, 68:73] = 6  # too few pixels to reach a percentile
    assert run_stage(NearerPoint(lambda *_: DepthMap(flat, True)), depths(A, B)).confidence == 1


def test_each_point_counts_with_the_median_of_its_window() -> None:
    values = np.zeros((100, 100))
    values[48:53, 18:20] = 9  # two of the five columns around A
    values[48:53, 68:71] = 4  # three of the five columns around B
    near = NearerPoint(lambda *_: DepthMap(values, True))
    assert run_stage(near, depths(A, B)).answer == "B"
    assert run_stage(NearerPoint(near.depth, window=1), depths(Point("A", 19, 50), B)).answer == "A"

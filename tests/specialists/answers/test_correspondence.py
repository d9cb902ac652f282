"""The matched point, on matches whose map is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers import MatchedPoint
from looktwice.specialists.results import Matches
from tests.specialists.scenes import BLANK, Given, run_stage, sample, spread


def moved(warp: Callable[[Any], Any], count: int = 40, wrong: int = 0) -> Matches:
    """Matches on a grid of image 0 carried by `warp`, of which the last `wrong` are nonsense."""
    rng = np.random.default_rng(3)
    xy0 = rng.uniform(5, 95, (count, 2))
    xy1 = np.array([warp(xy) for xy in xy0])
    xy1[count - wrong :] = rng.uniform(0, 100, (wrong, 2))
    return Matches(xy0, xy1, np.full(count, 0.5))


def shift(xy: Any) -> Any:
    return xy + np.array([10.0, -5.0])


def perspective(xy: Any) -> Any:
    x, y, w = np.array([[1, 0.2, 3], [0.1, 1.1, -4], [0.002, 0.001, 1]]) @ (*xy, 1.0)
    return np.array([x / w, y / w])


def corresponding(
    spots: dict[str, tuple[float, float]], ref: tuple[float, float] = (50, 50)
) -> Sample:
    candidates = (Point(label, *xy, image=1) for label, xy in spots.items())
    marks: tuple[Mark, ...] = (Point("REF", *ref), Box("A", 1, 1, 9, 9, image=1), *candidates)
    return sample(BLANK, BLANK, choices=4, marks=marks)


@pytest.mark.parametrize(("transfer", "wrong"), [("homography", 12), ("affine", 4), ("nearest", 0)])
@pytest.mark.parametrize("warp", [shift, perspective])
@pytest.mark.parametrize("right", "ABCD")
def test_the_reference_lands_on_its_own_candidate(
    transfer: Any, warp: Any, wrong: int, right: str
) -> None:
    stage = MatchedPoint(Given(moved(warp, wrong=wrong)), transfer=transfer)
    state = run_stage(stage, corresponding(spread(warp(np.array([50.0, 50.0])), right)))
    assert state.answer == right
    assert 0.5 < (state.confidence or 0) <= 1


SPOTS = spread((60, 45))


GOOD = moved(shift)


HEAP = Matches(np.full((20, 2), 30.0), np.full((20, 2), 40.0), np.ones(20))


@pytest.mark.parametrize(
    ("matches", "spots", "fact"),
    [
        (Matches.none(), SPOTS, "0 matches"),
        (GOOD[slice(0, 5)], SPOTS, "5 matches, at least 6"),
        (moved(shift, count=12, wrong=12), SPOTS, "agree on one map"),
        (HEAP, SPOTS, "agree on one map"),
        (GOOD, {k: v for k, v in SPOTS.items() if k in "AC"}, "no point B, D on image 1"),
        (GOOD, {**SPOTS, "A": (60, 45)}, "from (60.0, 45.0)"),
    ],
)
def test_too_little_to_go_by_is_no_answer(matches: Matches, spots: Any, fact: str) -> None:
    for transfer in ("homography", "affine"):
        stage = MatchedPoint(Given(matches), transfer=transfer)  # type: ignore[arg-type]
        state = run_stage(stage, corresponding(spots))
        assert state.answer is None
        assert state.reason.startswith("abstained: ") and fact in state.reason


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (sample(BLANK, choices=4), "there are 1 images and 4 choices"),
        (sample(BLANK, BLANK, choices=0), "there are 2 images and 0 choices"),
        (sample(BLANK, BLANK, marks=(Point("ref", 1, 1),)), "no points 'REF' are on image 0"),
        (
            sample(BLANK, BLANK, marks=(Point("REF", 1, 1), Point("REF", 2, 2))),
            "2 points 'REF' are on image 0",
        ),
    ],
)
def test_a_sample_of_another_kind_is_no_answer(asked: Sample, reason: str) -> None:
    state = run_stage(MatchedPoint(Given(GOOD)), asked)
    assert (state.answer, state.reason.startswith(f"abstained: {reason}")) == (None, True)

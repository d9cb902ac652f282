"""Answer rules on marks that are burnt into the pixels."""

from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from looktwice.pipelines.marks import Point
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.burnt_in import EraseMarks, RecoverMarks
from looktwice.specialists.answers import DarkerPoint, MatchedPoint, NearerPoint
from looktwice.specialists.matching import SIFT
from looktwice.specialists.results import DepthMap
from tests.burnt_in import as_released
from tests.specialists.samples import DARK, asked


def read_and(rule: Stage, sample: Sample, **settings: Any) -> State:
    """The sample's marks read from its pixels and painted over, then the rule."""
    recover = RecoverMarks(**settings)
    pipeline = Pipeline({"recover": recover, "erase": EraseMarks(), "answer": rule})
    return pipeline(State.start(replace(sample, marks=())))


def test_points_that_are_burnt_in_reach_the_rules() -> None:
    """On a ramp of light that the rules see without the rings."""
    ramp = np.tile(np.linspace(40, 220, 300).astype(np.uint8)[None, :, None], (200, 1, 3))
    points, closer = (Point("A", 220, 120), Point("B", 70, 110)), ("A is closer", "B is closer")
    red = asked("Which is closer?", closer, [as_released(ramp, points, (255, 0, 0))])
    near = NearerPoint(lambda image, *_: DepthMap(image.mean(2), True))
    assert read_and(near, red, colors=("red",)).answer == "A"
    white = asked("Which is darker?", DARK, [as_released(ramp, points, (255, 255, 255))])
    state = read_and(DarkerPoint(lambda pixels: (pixels / 255.0) ** 2.2), white, colors=("white",))
    assert state.answer == "B"
    unmarked = asked("Which is closer?", closer, [ramp])
    assert read_and(near, unmarked).reason == "abstained: no point A, B on image 0"


def test_correspondence_is_read_from_two_images() -> None:
    rng = np.random.default_rng(3)
    small = rng.integers(40, 200, (60, 80, 3)).astype(np.uint8)
    ground = np.asarray(cv2.resize(small, (320, 240), interpolation=cv2.INTER_CUBIC), np.uint8)
    places = {"A": (60, 180), "B": (250, 190), "C": (160, 120), "D": (260, 70)}
    reference = as_released(ground, [Point("REF", 160, 120)], (255, 0, 0))
    marked = as_released(ground, [Point(label, *xy) for label, xy in places.items()], (255, 0, 0))
    choices = tuple(f"Point {letter}" for letter in "ABCD")
    sample = asked("Which point corresponds to REF?", choices, [reference, marked])
    state = read_and(MatchedPoint(SIFT()), sample, colors=("red",))
    assert state.answer == "C", state.reason

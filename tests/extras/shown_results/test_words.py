"""Evidence of specialists as text: the sentences, their gain, and the cost of false ones."""

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from looktwice.extras.shown_results import (
    ApplyStage,
    DepthOverlay,
    DepthWords,
    MatchWords,
    RegionWords,
    SimilarityWords,
)
from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.model import CallOptions, Messages, Reply, ToolCall
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.agent import Agent
from looktwice.prompting.agent.episode import Bounds
from looktwice.prompting.turns import Ask
from looktwice.prompting.where import Detected, Segmented
from looktwice.specialists.results import Boxes, DepthMap, Masks, Matches
from looktwice.specialists.rules import NoEvidence
from tests.prompting.scenes import plain, start


@dataclass(frozen=True)
class Red:
    """Nearness is the red level of a pixel, with `noise` in the last digits."""

    noise: float = 0.0

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        rng = np.random.default_rng(0)
        values = image[..., 0] + self.noise * rng.uniform(-1, 1, image.shape[:2])
        return DepthMap(-values, larger_is_nearer=False)


def slope(width: int = 200, height: int = 100) -> Picture:
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = np.linspace(0, 200, width)
    return Picture(pixels)


MASK = np.zeros((100, 200), bool)
MASK[:, 150:170] = True
MARKS: tuple[Mark, ...] = (
    Point("A", 40, 30),
    Box("B", 90, 0, 110, 50),
    Mask("C", MASK),
    Point("D", 41, 80),
)
DEPTHS = """\
Which?
How near places are to the camera, the nearest first, as a vision model sees it:
C, from 75 to 85 % across and 0 to 100 % down, rank 1 of 4 from the camera, nearness 81
B, from 45 to 55 % across and 0 to 50 % down, rank 2 of 4 from the camera, nearness 50
A, 20 % from the left and 30 % from the top, rank 3 of 4 from the camera, nearness 19
D, 21 % from the left and 80 % from the top, rank 3 of 4 from the camera, nearness 19"""


@pytest.mark.parametrize("noise", [0, 1e-7])
def test_the_same_scene_is_described_in_the_same_words(noise: float) -> None:
    state = DepthWords(depth=Red(noise))(start(*MARKS, images=(slope(),)), NoModel())
    assert state.prompt == DEPTHS
    assert [view.picture for view in state.views] == [*state.sample.images]


def test_false_descriptions_reverse_ranks_and_levels() -> None:
    stage = DepthWords(depth=Red(), lead="", invert=True)
    lines = stage(start(*MARKS, images=(slope(),)), NoModel()).prompt.splitlines()[1:]
    assert [line[0] + line[-2:] for line in lines] == ["A81", "D81", "B50", "C19"]


@dataclass(frozen=True)
class Fixed:
    """Always gives the same similarity."""

    result: Any

    def __call__(self, *given: Any) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


BOXES = Boxes(
    np.array([[10, 20, 70, 50], [0, 0, 120, 100.0]]), np.array([0.9, 0.8]), np.array(["cat", ""])
)
MASKS = Masks(MASK[None, :, :120] | True, np.ones(1), np.array(["wall"]))
SHIFT = np.array([[10, 10], [20, 50], [60, 60], [100, 20], [50, 90.0]])


SEEN = """\
Seen:
cat, from 8 to 58 % across and 20 to 50 % down, 15 % of the image
a region, from 0 to 100 % across and 0 to 100 % down, 100 % of the image"""
MATCHED = (
    "REF of image 1, 42 % from the left and 50 % from the top, in image 2 52 % from the left and"
    " 46 % from the top, nearest to A (1 % of the width away)"
)
WALL = "wall, from 0 to 100 % across and 0 to 100 % down, 100 % of the image"
MOVED = Fixed(Matches(SHIFT, np.add(SHIFT, (12, -5)), np.ones(5)))
POINTS = (Point("REF", 50, 50), Point("A", 62, 44, 1), Point("B", 50, 50, 1))


@pytest.mark.parametrize(
    ("stage", "images", "words"),
    [
        (RegionWords(where=Detected(Fixed(BOXES), ("cat",)), lead="Seen:"), 1, SEEN),
        (RegionWords(where=Segmented(Fixed(MASKS)), lead=""), 1, WALL),
        (MatchWords(matcher=MOVED, lead=""), 2, MATCHED),
        (
            SimilarityWords(Fixed(0.714), lead="Alike:"),
            2,
            "Alike:\nimage 1 and image 2: similarity 0.71",
        ),
    ],
    ids=["boxes", "segments", "matches", "similarity"],
)
def test_each_specialist_has_its_own_wording(stage: Stage, images: int, words: str) -> None:
    marks = POINTS if isinstance(stage, MatchWords) else ()
    state = stage(start(*marks, images=(plain(), plain(grey=20))[:images]), NoModel())
    assert state.prompt == f"Which?\n{words}"


def test_without_evidence_the_prompt_is_unchanged() -> None:
    stage = DepthWords(depth=Red())
    state = stage(start(), NoModel())
    assert (state.prompt, state.notes) == ("Which?", ("no mark is seen; kept as it is",))
    dark = replace(stage, depth=Fixed(NoEvidence("it is dark")), missing="abstain")
    assert dark(start(Point("A", 1, 1)), NoModel()).reason == "abstained: it is dark"
    few = MatchWords(matcher=Fixed(Matches.make_empty()), missing="fail")
    with pytest.raises(ValueError, match="0 matches, at least 5 are needed"):
        few(start(Point("A", 1, 1), images=(plain(), plain(grey=1))), NoModel())


class Reader:
    """Trusts the ranks in the text, otherwise the brightness in a second picture, and otherwise
    guesses."""

    identity = "reader"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        words = "\n".join(message.text for message in messages)
        views = [view for message in messages for view in message.views]
        if options.tools and not any(message.tool_calls for message in messages):  # asks first
            return Reply("", "tool", tool_calls=(ToolCall("1", "depth", '{"image": 1}'),))
        if ranked := re.search(r"^([AB]),.*rank 1 of 2", words, re.M):
            return Reply(ranked[1])
        if len(views) > 1:
            levels = {label: views[1].pixels[50, x].sum() for label, x in PLACES.items()}
            return Reply(max(levels, key=lambda label: int(levels[label])))
        return Reply("AB"[int(views[0].pixels[0, 0, 1]) % 2])


PLACES = {"A": 30, "B": 90}
ITEMS = 200


def accuracy(*stages: Stage) -> float:
    """Return the accuracy on pairs of points with planted nearness; a guess is right
    half the time."""
    right = 0
    for number in range(ITEMS):
        rng = np.random.default_rng(number)
        near, pixels = "AB"[number % 2], np.zeros((100, 120, 3), np.uint8)
        pixels[..., 0] = 40 + 150 * (np.arange(120) // 60 == "AB".index(near))
        pixels[..., 1] = int(rng.integers(256))
        marks = tuple(Point(label, x, 50) for label, x in PLACES.items())
        state = State.start(Sample(str(number), "Which?", (Picture(pixels),), ("A", "B"), marks))
        for stage in stages:
            state = stage(state, Reader())
        right += state.reply == near
    return right / ITEMS


@pytest.mark.slow
def test_a_reader_gains_by_true_depth_and_loses_as_much_by_false_depth() -> None:
    words, pixels = DepthWords(depth=Red()), DepthOverlay(depth=Red(), layout="extra")
    ask = Ask()
    alone = accuracy(ask)
    assert 0.4 < alone < 0.6
    tool = Agent({"depth": ApplyStage(words, "Tells depth.")}, bounds=Bounds(steps=1))
    arms: list[list[Stage]] = [[words, ask], [pixels, ask], [words, pixels, ask], [tool]]
    assert [accuracy(*arm) for arm in arms] == [1.0] * 4
    false = accuracy(replace(words, invert=True), ask)
    assert false == 0.0
    assert accuracy(replace(pixels, invert=True), ask) == 0.0

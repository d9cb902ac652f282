"""Naming the colour at a mark: on made scenes, on plain squares, and where there is no evidence."""

from __future__ import annotations

import numpy as np
import pytest

from looktwice.eval.tasks import MarkedScenes
from looktwice.pipelines import Picture, Point, Sample
from looktwice.pipelines.marks import Box
from looktwice.specialists import ColorAtMark
from looktwice.specialists.protocols import NoEvidence


def square(choices: tuple[str, ...], *marks: Point | Box) -> Sample:
    pixels = np.full((40, 60, 3), 128, np.uint8)
    pixels[10:20, 30:45] = (250, 5, 10)
    pixels[14, 37] = (0, 0, 255)  # a speck that the median passes over
    return Sample("square", "Which color?", (Picture(pixels, "square"),), choices, marks)


def test_colors_of_made_things_are_named() -> None:
    named: dict[bool, list[bool]] = {True: [], False: []}
    for item in MarkedScenes("color", n=96, controls={"size": 36}):
        x, y = item.sample.marks[0].center
        boxes = [(thing["box"], "crescent" in thing["name"]) for thing in item.truth["things"]]
        _, crescent = min(
            (abs(left + right - 2 * x) + abs(top + low - 2 * y), c)
            for (left, top, right, low), c in boxes
        )
        named[crescent].append(ColorAtMark().decide(item.sample)[0] == item.answer)
    assert np.mean(named[False]) >= 0.97
    assert np.mean(named[True]) < 0.9  # the middle of a crescent lies beside it


def test_the_nearest_color_is_named_and_the_lead_is_the_confidence() -> None:
    at = Point("A", 37, 14)
    assert ColorAtMark().decide(square(("blue", "red", "white"), at))[0] == "B"
    assert ColorAtMark(window=1).decide(square(("blue", "red", "white"), at))[0] == "A"
    sure = ColorAtMark().decide(square(("red", "blue"), at))[1]
    unsure = ColorAtMark().decide(square(("red", "tomato"), at))[1]
    assert 0 < unsure < sure <= 1
    assert ColorAtMark().decide(square(("Gray.", "light blue"), Box("A", 0, 0, 20, 20)))[0] == "A"


@pytest.mark.parametrize(
    ("choices", "marks", "words"),
    [
        (("red", "blue"), (), "image 0 has 0"),
        (("red", "blue"), (Point("A", 1, 1), Point("B", 5, 5)), "image 0 has 2"),
        (("red", "rad"), (Point("A", 1, 1),), "'rad' names no colour"),
        (("red",), (Point("A", 1, 1),), "1 choices name colours"),
        (("gray", "grey"), (Point("A", 1, 1),), "equal"),
        (("red", "blue"), (Point("A", 500, 1),), "lies outside image 0"),
        (("red", "blue"), (Point("A", -4, 1),), "lies outside image 0"),
        (("red", "rgb(300,0,0)"), (Point("A", 1, 1),), "names no colour"),
    ],
)
def test_without_evidence_it_abstains(
    choices: tuple[str, ...], marks: tuple[Point, ...], words: str
) -> None:
    with pytest.raises(NoEvidence, match=words):
        ColorAtMark().decide(square(choices, *marks))


def test_an_even_window_is_refused() -> None:
    with pytest.raises(ValueError, match="odd side of a square"):
        ColorAtMark(window=4)

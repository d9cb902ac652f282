"""Made scenes with marked things: their keys against what is drawn, their controls, and how places are scored."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from looktwice.eval.records.records import SampleRow
from looktwice.eval.tasks import MarkedScenes, SceneScorer, TaskError
from looktwice.eval.tasks.marked_scenes.kinds import KINDS
from looktwice.eval.tasks.marked_scenes.task import TEST_PHOTOS, TRAINING_PHOTOS
from looktwice.eval.tasks.marked_scenes.things import COLORS
from looktwice.eval.tasks.photographs import PHOTOGRAPHS
from looktwice.pipelines.marks import bounding_box
from looktwice.pipelines.sample import Item

SIDE = 320


def things_of(item: Item) -> list[dict[str, Any]]:
    """What was drawn, by the item's truth."""
    return list(item.truth["things"])


def marked_of(item: Item) -> list[dict[str, Any]]:
    """The things that are marked, A first."""
    boxes = [[round(edge, 2) for edge in bounding_box(mark)] for mark in item.sample.marks]
    return [next(thing for thing in things_of(item) if thing["box"] == box) for box in boxes]


def said(item: Item) -> str:
    """The right choice in words, or the key of an open question."""
    letters = dict(zip(item.sample.letters, map(str, item.sample.choices), strict=True))
    return letters.get(item.answer or "", item.answer or "")


def answer_from_truth(item: Item) -> str:
    """The answer in words, found anew from the boxes and names of the truth."""
    kind, things, marked = item.sample.meta["kind"], things_of(item), marked_of(item)
    question = item.sample.question
    if kind in ("shape", "color"):
        return str(marked[0]["name"].split()[kind == "shape"])
    if kind == "symbol":
        return str(marked[0]["symbol"])
    if kind in ("larger", "higher"):
        boxes = [thing["box"] for thing in marked]
        tall = [box[3] - box[1] for box in boxes]
        gain = tall[0] - tall[1] if kind == "larger" else sum(boxes[1][1::2]) - sum(boxes[0][1::2])
        same = "they are equally large" if kind == "larger" else "they are equally high up"
        return same if abs(gain) < 0.05 else "A" if gain > 0 else "B"
    if kind == "count":
        asked = question.removeprefix("How many ").removesuffix(" are in the image?").split()
        words = {word.removesuffix("es") if word == "crosses" else word.removesuffix("s") for word in asked} - {"thing"}
        return str(sum(words <= set(thing["name"].split()) for thing in things))
    if kind == "present":
        names = {thing["name"] for thing in things}
        return next(str(c) for c in item.sample.choices if str(c).split(" ", 1)[1] in names)
    name = question.split("Where is the ")[1].split("?")[0]
    box = next(thing["box"] for thing in things if thing["name"] == name)
    if kind == "where":
        return " ".join(f"{100 * edge / SIDE:.1f}" for edge in box)
    return f"row {1 + int(3 * (box[1] + box[3]) / 2 // SIDE)}, column {1 + int(3 * (box[0] + box[2]) / 2 // SIDE)}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_follows_from_what_is_drawn(kind: str) -> None:
    items = list(MarkedScenes(kind, n=24, ground="plain", mark="box"))
    for item in items:
        found, key = answer_from_truth(item), said(item)
        if kind == "where":
            assert [float(v) for v in key.split()] == pytest.approx([float(v) for v in found.split()], abs=0.11)
        else:
            assert key == found


def test_one_choice_alone_is_present() -> None:
    for item in MarkedScenes("present", n=24, ground="plain"):
        names = {thing["name"] for thing in things_of(item)}
        assert sum(str(choice).split(" ", 1)[1] in names for choice in item.sample.choices) == 1


@pytest.mark.parametrize("kind", ["shape", "symbol", "larger", "cell", "present"])
def test_right_choices_are_dealt(kind: str) -> None:
    choices = len(MarkedScenes(kind, n=1)._item(0).sample.choices)
    counts = Counter(item.answer for item in MarkedScenes(kind, n=12 * choices, ground="plain"))
    assert set(counts.values()) == {12}


def test_a_thing_is_where_its_mark_says_and_has_its_color() -> None:
    for item in MarkedScenes("color", n=24, ground="plain", controls={"size": 40}):
        x, y = (round(value) for value in item.sample.marks[0].center)
        seen = np.median(item.sample.images[0].pixels[y - 1 : y + 2, x - 3 : x + 4].reshape(-1, 3), axis=0)
        name = min(COLORS, key=lambda color: float(np.abs(seen - np.array(COLORS[color])).sum()))
        shape = next(t["name"].split()[1] for t in things_of(item) if abs(sum(t["box"][::2]) / 2 - x - 0.5) < 1)
        assert shape == "crescent" or name == said(item)  # the middle of a crescent may be open


def test_a_question_depends_on_its_number_and_the_settings_alone() -> None:
    few, many = MarkedScenes("shape", n=3), MarkedScenes("shape", n=30, mark="box")
    for one, other in zip(few, many, strict=False):
        assert one.sample.images[0].sha == other.sample.images[0].sha
        assert (one.sample.question, one.answer) == (other.sample.question, other.answer)
    assert next(iter(MarkedScenes("shape", n=1, seed=1))).sample.images[0].sha != next(iter(few)).sample.images[0].sha


def test_levels_are_dealt_and_sizes_are_kept() -> None:
    task = MarkedScenes("shape", n=24, ground="plain", mark="box", controls={"size": [16, 50], "things": 4})
    items = list(task)
    assert Counter(item.sample.meta["size"] for item in items) == {16: 12, 50: 12}
    for item in items:
        box = marked_of(item)[0]["box"]
        assert box[3] - box[1] == pytest.approx(item.sample.meta["size"], abs=0.02)
        assert len(things_of(item)) == 4


def test_things_cover_each_other_in_pairs_by_the_overlap_that_is_asked_for() -> None:
    def nearest(overlap: float) -> list[list[float]]:
        """Of each scene, how far things lie from each other, in sums of their sizes, nearest first."""
        found = []
        for item in MarkedScenes("count", n=12, ground="plain", controls={"things": 9, "overlap": overlap}):
            boxes = [thing["box"] for thing in things_of(item)]
            apart = [
                np.hypot(one[0] + one[2] - other[0] - other[2], one[1] + one[3] - other[1] - other[3])
                / (2 * (one[2] - one[0] + other[2] - other[0]))
                for one, other in combinations(boxes, 2)
            ]
            found.append(sorted(float(each) for each in apart))
        return found

    assert all(distances[0] >= 0.62 for distances in nearest(0.0))
    for overlap in (0.3, 0.6):
        for distances in nearest(overlap):
            assert distances[:4] == pytest.approx([(1 - overlap) / 2] * 4, abs=0.01)
            assert distances[4] >= 0.62, "nine things are four pairs, and one is alone"


def test_of_two_things_the_smaller_lies_in_front() -> None:
    for item in MarkedScenes("count", n=6, controls={"things": 6, "overlap": 0.6}):
        sizes = [round(thing["box"][3] - thing["box"][1], 3) for thing in things_of(item)]
        assert sizes == sorted(sizes, reverse=True), "they are drawn in this order"


def test_a_scene_is_begun_anew_where_its_last_things_find_no_room() -> None:
    assert len(list(MarkedScenes("shape", n=40, controls={"size": 28, "things": 21}))) == 40
    with pytest.raises(TaskError, match="no room for 40 things"):
        list(MarkedScenes("shape", n=1, controls={"size": 100, "things": 40}))


def test_the_photographs_of_training_are_others() -> None:
    assert not set(TEST_PHOTOS) & set(TRAINING_PHOTOS)
    assert set(TEST_PHOTOS) | set(TRAINING_PHOTOS) == set(PHOTOGRAPHS)


@pytest.mark.parametrize(
    ("answer", "value"),
    [("(50, 40)", 1.0), ("50 40", 1.0), ("x=1, y=2, so 45.0, 35.5", 1.0), ("44.9, 40", 0.0), ("50, 45.1", 0.0)],
)
def test_a_place_is_right_within_the_box(answer: str, value: float) -> None:
    row = SampleRow("t", "sha", "45.0 35.0 55.0 45.0", {"id": "a", "meta": {}})
    score = SceneScorer("where").compare(answer, row)
    assert score is not None
    assert score.value == value


def test_a_place_without_two_numbers_is_no_answer() -> None:
    row = SampleRow("t", "sha", "45.0 35.0 55.0 45.0", {"id": "a", "meta": {}})
    assert str(SceneScorer("where").compare("in the middle", row).verdict) == "unreadable"  # type: ignore[union-attr]
    assert SceneScorer("shape").compare("A", row) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "shapes"}, "no kind of question is named 'shapes'"),
        ({"kind": "shape", "n": 0}, "1 or more"),
        ({"kind": "shape", "controls": {"sizes": 3}}, "shape has no control 'sizes'"),
        ({"kind": "shape", "controls": {"things": 2.5}}, "things is a whole number"),
        ({"kind": "shape", "controls": {"size": []}}, "size has no level"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        MarkedScenes(**settings)

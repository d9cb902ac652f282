"""Answers of the rules on known evidence (`rules.yaml`), and evidence that decides nothing."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval.tasks import MarkedScenes
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.state import State
from looktwice.specialists import answers, features
from looktwice.specialists.answers import (
    ColorAtMark,
    Count,
    CountIdentities,
    DarkerPoint,
    FaceIdentity,
    FittingBox,
    MostSimilar,
    NearerPoint,
    ObjectIdentity,
    SameIdentity,
    SpatialRelation,
    choices as choices_of_answers,
)
from looktwice.specialists.answers.boxes import measure_relation
from looktwice.specialists.answers.choices import (
    RELATIONS,
    choose_true_or_false,
    map_letters_to_images,
    map_letters_to_labels,
    parse_relation,
)
from looktwice.specialists.maps import SGBM
from looktwice.specialists.results import DepthMap, Faces, FeatureGrid
from looktwice.specialists.rules import NoEvidence
from tests.specialists.samples import (
    BLANK,
    DARK,
    SAME,
    SOME,
    WHICH,
    Paint,
    Plane,
    check,
    make_detector,
    make_face_detector,
    make_matcher,
    make_sample,
    numbered_image,
)
from tests.specialists.scenes import depths, run_stage
from tests.tables import check_all, read_yaml

TABLES = read_yaml(Path(__file__).with_name("rules.yaml"))
CASES = [group | case for group in TABLES["rules"] for case in group["cases"]]


@dataclass(frozen=True)
class Ramp:
    """A map whose value is the column; the first `hole` columns are unknown."""

    larger_is_nearer: bool = True
    hole: int = 0
    width: int = 100

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        values = np.tile(np.arange(self.width, dtype=float), (100, 1))
        values[:, : self.hole] = np.nan
        return DepthMap(values, self.larger_is_nearer)


def square() -> Pixels:
    pixels = np.full((40, 60, 3), 128, np.uint8)
    pixels[10:20, 30:45] = (250, 5, 10)
    pixels[14, 37] = (0, 0, 255)  # a speck that the median ignores
    return pixels


def cells(case: dict[str, Any]) -> Any:
    """Return a similarity whose features of image n (its corner pixel) are row n of the cells."""

    def extract(pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        row = case["cells"][int(pixels[0, 0, 0])]
        return FeatureGrid(np.array([row], float), *pixels.shape[1::-1])

    return getattr(features, case["by"])(extract)


def likeness(value: Any) -> Any:
    def similarity(one: Pixels, two: Pixels) -> float:
        if value == "too small":
            raise NoEvidence("the image is too small")
        return float(value)

    return similarity


EVIDENCE: dict[str, Any] = {
    "stereo": lambda case: SGBM(),
    "ramp": lambda case: Ramp(**case["ramp"]),
    "people": lambda case: FaceIdentity(
        make_face_detector(*case["people"]), case.get("faces", "one")
    ),
    "flow": lambda case: make_matcher(
        *[shift for shift, count in case["flow"] for _ in range(count)]
    ),
    "paint": lambda case: Paint(*case["paint"]),
    "cells": cells,
    "likeness": lambda case: likeness(case["likeness"]),
    "fakes": lambda case: lambda pixels: case["fakes"][pixels[0, 0, 0]],
}


def evidence(case: dict[str, Any]) -> list[Any]:
    if "finds" in case:
        rows = case["finds"]
        rows = [SOME] * rows if isinstance(rows, int) else rows
        return [make_detector(*rows, labels=case.get("labels", ()), scores=case.get("scores", ()))]
    return [make(case) for kind, make in EVIDENCE.items() if kind in case][:1]


def mark(label: str, *place: float) -> Mark:
    return Point(label, *place) if len(place) < 4 else Box(label, *place)  # type: ignore[arg-type]


def test_a_rule_answers_or_gives_a_reason() -> None:
    check_all((case, partial(check_case, case)) for case in CASES)


def check_case(case: dict[str, Any]) -> None:
    images = case.get("images", len(case.get("people", [0])))
    if "drawn" in case:
        images = [square()]
    elif isinstance(images, list):
        images = [np.zeros((*size, 3), np.uint8) for size in images]
    marks = [mark(*row) for row in case.get("marks", ())]
    rule = getattr(answers, case["rule"])(*evidence(case), **case.get("settings", {}))
    question, choices = case.get("question", "Which?"), case.get("choices", [])
    answer, reason = case.get("answer"), case.get("reason", "")
    state = check(rule, make_sample(question, choices, images, marks), answer, reason)
    assert not case.get("sure") or answer is None or (state.confidence or 0) > 0
    if case.get("turned"):
        turned = {"A": "B", "B": "A", None: None}[answer]
        check(rule, make_sample(question, choices[::-1], images, marks), turned, reason[:6])


# What choices and questions refer to


@pytest.mark.parametrize(("choices", "labels"), TABLES["labels"])
def test_choices_refer_to_marks(choices: list[str], labels: str) -> None:
    assert "".join(map_letters_to_labels(make_sample(choices=choices)).values()) == labels


@pytest.mark.parametrize(("choices", "images", "places"), TABLES["images"])
def test_choices_refer_to_images(choices: list[str], images: int, places: list[int] | None) -> None:
    sample = make_sample(choices=choices, images=images)
    if places is None:
        with pytest.raises(NoEvidence, match="do not pair up"):
            map_letters_to_images(sample)
    else:
        named = [int(image.pixels[0, 0, 0]) for image in map_letters_to_images(sample).values()]
        assert named == places


@pytest.mark.parametrize(("question", "choices", "holds", "answer"), TABLES["truths"])
def test_yes_and_true_are_recognised(
    question: str, choices: list[str], holds: bool, answer: str
) -> None:
    assert choose_true_or_false(make_sample(question, choices), holds) == answer


@pytest.mark.parametrize("kind", TABLES["questions"])
def test_the_target_of_a_question(kind: str) -> None:
    parse = getattr(choices_of_answers, f"parse_{kind}")
    for question, thing in TABLES["questions"][kind].items():
        if thing is None:
            with pytest.raises(NoEvidence, match=re.escape(repr(question))):
                parse(make_sample(question))
        else:
            assert parse(make_sample(question)) == (
                tuple(thing) if isinstance(thing, list) else thing
            )


def test_every_wording_of_a_relation_is_parsed_as_that_relation() -> None:
    for kind, wordings in RELATIONS.items():
        for wording in wordings:
            question = f"Is the dining table {wording} the hot dog?"
            assert parse_relation(make_sample(question)) == ("dining table", kind, "hot dog")


# Boxes

BOXES = (Box("A", 10, 10, 50, 50), Box("B", 15, 15, 60, 60))
PLACES = {"LEFT": (10, 40, 30, 60), "RIGHT": (70, 40, 90, 60), "TOP": (12, 10, 28, 40)}
PLACES |= {"INNER": (14, 45, 22, 55)}


@pytest.mark.parametrize(("kind", "one", "two", "holds"), TABLES["relations"])
def test_relations_of_two_boxes(kind: str, one: str, two: str, holds: bool) -> None:
    margin = measure_relation(kind, *(np.array(PLACES[name], float) for name in (one, two)))
    assert (margin > 0) == holds
    assert margin != 0


def test_a_detector_is_given_the_phrase_of_the_question() -> None:
    boxes = make_detector((11, 9, 50, 51))
    check(FittingBox(boxes), make_sample(WHICH, ("Box A", "Box B"), marks=BOXES), "A")
    check(
        FittingBox(boxes, words=""), make_sample("Which box?", ("Box A", "Box B"), marks=BOXES), "A"
    )
    both = make_detector(PLACES["LEFT"], PLACES["RIGHT"], labels=["cat", "dog"])
    check(SpatialRelation(both), make_sample("Is the cat left of the dog?"), "Yes")
    assert (boxes.words, both.words) == ([["cat"], None], [["cat", "dog"]])
    # a count is more certain the nearer its choice is
    exact = check(Count(make_detector(SOME, SOME)), make_sample("How many cats?", ("2", "9")), "A")
    off = check(Count(make_detector(SOME, SOME)), make_sample("How many cats?", ("3", "9")), "A")
    assert (exact.confidence, off.confidence) == pytest.approx((0.9, 0.45))


def test_behind_is_decided_by_depth() -> None:
    boxes = make_detector(PLACES["LEFT"], PLACES["RIGHT"], labels=["cat", "dog"])
    behind, front = (
        make_sample(f"Is the cat {place} the dog?") for place in ("behind", "in front of")
    )
    check(SpatialRelation(boxes, Plane()), behind, "Yes")  # the plane is nearer at the right
    check(SpatialRelation(boxes, Plane()), front, "No")
    for values, reason in (
        (np.full((100, 100), np.nan), "no depth is known inside"),
        (np.ones((100, 100)), "the cat and the dog are exactly on the limit"),
    ):
        depth = DepthMap(values, True)
        check(SpatialRelation(boxes, lambda *_, depth=depth: depth), behind, None, reason)


# Identities and likeness


def test_a_rule_with_an_identity_is_not_a_model() -> None:
    identity = FaceIdentity(make_face_detector([0], [5]))
    for rule, question, answer in (
        (SameIdentity, SAME, "F"),
        (CountIdentities, "How many people?", "2"),
    ):
        pipeline = Pipeline({"answer": rule(identity)})
        assert pipeline(State(make_sample(question, (), 2))).answer == answer
    nobody = Faces(np.array([[0, 0, 9, 9]], float), np.ones(1), np.empty((1, 0)))
    check(
        SameIdentity(FaceIdentity(lambda _: nobody)),
        make_sample(SAME, (), 2),
        None,
        "function finds",
    )


def test_an_object_is_cropped_before_its_features_are_computed() -> None:
    seen: list[tuple[int, ...]] = []

    def extract(pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        seen.append(pixels.shape[:2])
        return FeatureGrid(np.ones((2, 2, 3)), *pixels.shape[1::-1])

    boxes = make_detector((0, 0, 99, 99), (10, 20, 40, 60), scores=[0.4, 0.8])
    bags = make_sample("The bags in these images are the same bag. T or F?", (), 2)
    bag = ObjectIdentity(extract, boxes)
    check(SameIdentity(bag), bags, "T")
    assert (seen, boxes.words) == ([(40, 30)] * 2, [["bag"]] * 2)
    check(CountIdentities(bag), make_sample("How many different bags are there?", (), 2), "1")
    none = ObjectIdentity(extract, make_detector())
    check(SameIdentity(none), bags, None, "the detector finds no bag")
    blank = make_sample(bags.question, (), [BLANK] * 2)
    check(SameIdentity(bag), blank, None, "an image has a single col")
    zero = ObjectIdentity(lambda *_: FeatureGrid(np.zeros((1, 1, 2)), 9, 9))
    check(SameIdentity(zero), bags, None, "an image has no features")


def test_similarity_needs_a_reference_image_and_more_than_one_colour() -> None:
    pictures = [Picture(numbered_image(number)) for number in (1, 2)]
    sample = make_sample(choices=pictures, images=0)
    check(MostSimilar(likeness(0.5)), sample, None, "there is no image")
    sample = make_sample(
        "", ("the second image", "the third image"), [*map(numbered_image, (1, 2)), BLANK]
    )
    rule = MostSimilar(lambda one, two: 1.0 * two[0, 0, 0])
    check(rule, sample, None, "an image has a single colour")


# Points

A, B, C = Point("A", 20, 50), Point("B", 70, 50), Point("C", 90, 10)


def test_a_map_of_another_size_is_a_fault() -> None:
    with pytest.raises(ValueError, match="the depth map must have the shape"):
        run_stage(NearerPoint(Ramp(width=50)), depths(A, B))
    with pytest.raises(ValueError, match=r"must have the shape \(100, 100, 3\)"):
        run_stage(
            DarkerPoint(lambda _: np.ones((100, 100))), make_sample(choices=DARK, marks=(A, B))
        )


def test_the_margin_between_same_and_darker_is_as_documented() -> None:
    for ratio, answer in ((1.0999, "C"), (1.1001, "A")):
        state = check(
            DarkerPoint(Paint(0.4, 0.4 * ratio)), make_sample(choices=DARK, marks=(A, B)), answer
        )
        assert state.confidence == pytest.approx(0, abs=0.01)


def test_the_confidence_of_the_nearer_point_is_its_lead_over_the_depth_range() -> None:
    state = run_stage(NearerPoint(Ramp()), depths(A, B, C))
    # from the 5th to the 95th percentile of 0 .. 99
    assert state.confidence == pytest.approx((90 - 70) / (0.9 * 99))
    flat = np.full((100, 100), 5.0)
    flat[48:53, 68:73] = 6  # too few pixels to reach a percentile
    assert run_stage(NearerPoint(lambda *_: DepthMap(flat, True)), depths(A, B)).confidence == 1


def test_each_point_uses_the_median_of_its_window() -> None:
    values = np.zeros((100, 100))
    values[48:53, 18:20] = 9  # two of the five columns around A
    values[48:53, 68:71] = 4  # three of the five columns around B
    values[50, 20] = 100  # one outlier does not decide
    near = NearerPoint(lambda *_: DepthMap(values, True))
    assert run_stage(near, depths(A, B)).answer == "B"
    assert run_stage(NearerPoint(near.depth, window=1), depths(Point("A", 19, 50), B)).answer == "A"


# Colours


def test_colors_of_generated_objects_are_named() -> None:
    named: dict[bool, list[bool]] = {True: [], False: []}
    for item in MarkedScenes("color", n=96, controls={"size": 36}):
        x, y = item.sample.marks[0].center
        things = []
        for thing in item.truth["things"]:
            left, top, right, low = thing["box"]
            away = abs(left + right - 2 * x) + abs(top + low - 2 * y)
            things.append((away, "crescent" in thing["name"]))
        named[min(things)[1]].append(ColorAtMark().decide(item.sample)[0] == item.answer)
    assert np.mean(named[False]) >= 0.97
    assert np.mean(named[True]) < 0.9  # the centre of a crescent is outside it
    point = [Point("A", 37, 14)]
    sure, unsure = (
        ColorAtMark().decide(make_sample("", choices, [square()], point))[1]
        for choices in (("red", "blue"), ("red", "tomato"))
    )
    assert 0 < unsure < sure <= 1

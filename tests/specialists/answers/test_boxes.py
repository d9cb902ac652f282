"""Boxes that fit, are counted and stand in relations, on boxes that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.marks import Box, Point
from looktwice.specialists.answers import Count, FittingBox, SpatialRelation
from looktwice.specialists.answers.boxes import relation_margin
from looktwice.specialists.results import DepthMap
from tests.specialists.samples import SOME, WHICH, Found, Plane, asked, check, finds

BOXES = (Box("A", 10, 10, 50, 50), Box("B", 15, 15, 60, 60))


@pytest.mark.parametrize(
    ("found", "settings", "marks", "answer", "reason"),
    [
        (finds((11, 9, 50, 51)), {}, BOXES, "A", ""),
        (finds((16, 16, 60, 62)), {}, BOXES, "B", ""),
        (finds((16, 16, 60, 62), (10, 10, 50, 50)), {}, BOXES, "A", ""),
        (finds((16, 16, 60, 62), (10, 10, 50, 50)), {"only_surest": True}, BOXES, "B", ""),
        (finds(), {}, BOXES, None, "the detector finds no cat"),
        (finds((70, 70, 90, 90)), {}, BOXES, None, "what the detector finds as cat overlaps none"),
        (
            finds((0, 0, 99, 99)),
            {},
            (BOXES[0], Box("B", 50, 50, 90, 90)),
            None,
            "the overlaps of A and B are equal",
        ),
        (finds((11, 9, 50, 51)), {}, BOXES[:1], None, "no box B on image 0"),
        (
            finds((11, 9, 50, 51)),
            {},
            (Point("A", 1, 1), Point("B", 2, 2)),
            None,
            "no box A, B on image 0",
        ),
    ],
)
def test_the_box_that_fits(
    found: Found, settings: Any, marks: Any, answer: str | None, reason: str
) -> None:
    check(
        FittingBox(found, **settings), asked(WHICH, ("Box A", "Box B"), marks=marks), answer, reason
    )
    turned = {"A": "B", "B": "A", None: None}[answer]
    check(
        FittingBox(found, **settings),
        asked(WHICH, ("Box B", "Box A"), marks=marks),
        turned,
        reason[:6],
    )


def test_a_detector_is_asked_for_what_the_question_names() -> None:
    found = finds((11, 9, 50, 51))
    check(FittingBox(found), asked(WHICH, ("Box A", "Box B"), marks=BOXES), "A")
    check(FittingBox(found, words=""), asked("Which box?", ("Box A", "Box B"), marks=BOXES), "A")
    check(
        FittingBox(found),
        asked("Which box?", ("Box A", "Box B"), marks=BOXES),
        None,
        "the question does not ask",
    )
    assert found.words == [["cat"], None]


@pytest.mark.parametrize(
    ("number", "choices", "settings", "answer", "reason"),
    [
        (3, ("1", "3", "0", "2"), {}, "B", ""),
        (5, ("1", "3", "0", "2"), {}, "B", ""),
        (
            5,
            ("1", "3", "0", "2"),
            {"nearest": False},
            None,
            "5 are found, and no choice is that number",
        ),
        (2, ("1", "3"), {}, None, "2 are found, and no choice is nearest"),
        (3, ("two", "three"), {}, "B", ""),
        (3, (), {}, "3", ""),
        (0, ("0", "1"), {}, None, "the detector finds no cats"),
        (0, ("1", "0"), {"nothing": "zero"}, "B", ""),
        (0, (), {"nothing": "zero"}, "0", ""),
        (1, ("many", "1"), {}, None, "not every choice says a number"),
    ],
)
def test_the_count(
    number: int, choices: Any, settings: Any, answer: str | None, reason: str
) -> None:
    rule = Count(finds(*[SOME] * number), **settings)
    check(rule, asked("How many cats are there?", choices), answer, reason)


def test_a_count_is_surer_the_nearer_its_choice_and_goes_over_all_images() -> None:
    exact = check(Count(finds(SOME, SOME)), asked("How many cats?", ("2", "9")), "A")
    off = check(Count(finds(SOME, SOME)), asked("How many cats?", ("3", "9")), "A")
    assert (exact.confidence, off.confidence) == pytest.approx((0.9, 0.45))
    check(Count(finds(SOME)), asked("How many cats?", (), 3), "3")
    check(Count(finds(SOME)), asked("How many cats?", (), 0), None, "there is no image to count in")


LEFT, RIGHT, TOP, INNER = (10, 40, 30, 60), (70, 40, 90, 60), (12, 10, 28, 40), (14, 45, 22, 55)


@pytest.mark.parametrize(
    ("kind", "one", "two", "holds"),
    [
        ("left", LEFT, RIGHT, True),
        ("right", LEFT, RIGHT, False),
        ("above", TOP, LEFT, True),
        ("above", TOP, RIGHT, False),
        ("below", LEFT, TOP, True),
        ("on", TOP, LEFT, True),
        ("on", LEFT, TOP, False),
        ("on", TOP, RIGHT, False),
        ("inside", INNER, LEFT, True),
        ("inside", LEFT, INNER, False),
        ("contains", LEFT, INNER, True),
        ("outside", INNER, LEFT, False),
        ("outside", RIGHT, LEFT, True),
        ("touching", TOP, LEFT, True),
        ("touching", LEFT, RIGHT, False),
        ("near", TOP, LEFT, True),
        ("near", LEFT, RIGHT, False),
        ("far", LEFT, RIGHT, True),
        ("far", TOP, LEFT, False),
    ],
)
def test_relations_of_two_boxes(kind: str, one: Any, two: Any, holds: bool) -> None:
    margin = relation_margin(kind, np.array(one, float), np.array(two, float))
    assert (margin > 0) == holds
    assert margin != 0


YES = ("yes", "no")


@pytest.mark.parametrize(
    ("question", "choices", "found", "answer", "reason"),
    [
        ("Is the cat left of the dog?", YES, finds(LEFT, RIGHT, labels=["cat", "dog"]), "A", ""),
        ("Is the dog left of the cat?", YES, finds(LEFT, RIGHT, labels=["cat", "dog"]), "B", ""),
        (
            "Is the cat left of the dog?",
            ("no", "yes"),
            finds(LEFT, RIGHT, labels=["cat", "dog"]),
            "B",
            "",
        ),
        ("Is the cat left of the dog?", (), finds(LEFT, RIGHT, labels=["cat", "dog"]), "Yes", ""),
        (
            "Is the cat left of the dog?",
            YES,
            finds(LEFT, labels=["cat"]),
            None,
            "the detector finds no dog",
        ),
        ("Is the cat left of the dog?", YES, finds(), None, "the detector finds no cat and no dog"),
        ("Is the cat left of the cat?", YES, finds(LEFT, RIGHT, labels=["cat", "cat"]), "A", ""),
        (
            "Is the cat left of the cat?",
            YES,
            finds(LEFT, labels=["cat"]),
            None,
            "the detector finds no second cat",
        ),
        (
            "Is the cat left of the dog?",
            YES,
            finds(LEFT, LEFT, labels=["cat", "dog"]),
            None,
            "the cat and the dog are",
        ),
        (
            "Is the cat behind the dog?",
            YES,
            finds(LEFT, RIGHT, labels=["cat", "dog"]),
            None,
            "two boxes do not show",
        ),
        (
            "Is the cat facing the dog?",
            YES,
            finds(LEFT, RIGHT, labels=["cat", "dog"]),
            None,
            "no relation that boxes",
        ),
    ],
)
def test_a_relation_is_answered(
    question: str, choices: Any, found: Found, answer: str | None, reason: str
) -> None:
    check(SpatialRelation(found), asked(question, choices), answer, reason)


def test_the_surest_of_several_counts() -> None:
    found = finds(
        RIGHT, LEFT, (45, 40, 55, 60), labels=["cat", "cat", "dog"], scores=[0.5, 0.8, 0.7]
    )
    check(SpatialRelation(found), asked("Is the cat left of the dog?", YES), "A")
    assert found.words == [["cat", "dog"]]


def test_what_is_behind_is_told_by_depth() -> None:
    found = finds(LEFT, RIGHT, labels=["cat", "dog"])  # the plane is nearer at the right
    check(SpatialRelation(found, Plane()), asked("Is the cat behind the dog?", YES), "A")
    check(SpatialRelation(found, Plane()), asked("Is the cat in front of the dog?", YES), "B")
    blind = SpatialRelation(found, lambda *_: DepthMap(np.full((100, 100), np.nan), True))
    check(blind, asked("Is the cat behind the dog?", YES), None, "no depth is known inside")
    flat = SpatialRelation(found, lambda *_: DepthMap(np.ones((100, 100)), True))
    check(
        flat,
        asked("Is the cat behind the dog?", YES),
        None,
        "the cat and the dog are exactly on the limit",
    )

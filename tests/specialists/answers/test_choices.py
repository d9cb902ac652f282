"""What choices and questions speak of, read from their texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import (
    RELATIONS,
    images_by_letter,
    label_by_letter,
    parse_count,
    parse_enclosed,
    parse_relation,
    parse_sameness,
    true_or_false,
)
from looktwice.specialists.protocols import NoEvidence
from tests.specialists.samples import asked


@pytest.mark.parametrize(
    ("choices", "labels"),
    [
        (("A is closer", "B is closer"), "AB"),
        (("B is closer", "A is closer"), "BA"),
        (("Point D", "Point C", "Point B", "Point A"), "DCBA"),
        (("A is darker", "B is darker", "About the same"), "AB"),
        (("left one", "right one"), "AB"),
        (("A dog", "A cat"), "AB"),
    ],
)
def test_choices_name_the_marks_that_they_speak_of(choices: tuple[str, ...], labels: str) -> None:
    assert "".join(label_by_letter(asked(choices=choices)).values()) == labels


@pytest.mark.parametrize(
    ("choices", "images", "places"),
    [
        (("the second image", "the third image"), 3, (1, 2)),
        (("the third image", "the second image"), 3, (2, 1)),
        (
            ("the first image", "the second image", "the third image", "the fourth image"),
            4,
            (0, 1, 2, 3),
        ),
        (("this", "that"), 3, (1, 2)),
        (("this", "that"), 2, (0, 1)),
        (("this", "that"), 5, None),
        (("the second image", "the fifth image"), 3, None),
        (("only one",), 2, None),
    ],
)
def test_choices_name_images(
    choices: tuple[str, ...], images: int, places: tuple[int, ...] | None
) -> None:
    sample = asked(choices=choices, images=images)
    if places is None:
        with pytest.raises(NoEvidence, match="do not pair up"):
            images_by_letter(sample)
    else:
        found = [int(image.pixels[0, 0, 0]) for image in images_by_letter(sample).values()]
        assert tuple(found) == places


@pytest.mark.parametrize(
    ("question", "choices", "holds", "answer"),
    [
        ("Is it?", ("yes", "no"), True, "A"),
        ("Is it?", ("no", "yes"), True, "B"),
        ("Is it?", ("True", "False"), False, "B"),
        ("Answer T or F.", (), False, "F"),
        ("Is it? Answer Yes or No.", (), False, "No"),
        ("True or false?", (), True, "T"),
    ],
)
def test_yes_and_true_are_found_by_their_words(
    question: str, choices: Any, holds: bool, answer: str
) -> None:
    assert true_or_false(asked(question, choices), holds) == answer


@pytest.mark.parametrize(
    ("read", "question", "found"),
    [
        (parse_count, "How many blue floats are there?", "blue floats"),
        (parse_count, "How many people in the boat are wearing hats?", "people"),
        (parse_count, "In these images, how many different bags are there in total?", "bags"),
        (parse_count, "How many wheels does the bike have?", "wheels"),
        (parse_count, "How many cats?", "cats"),
        (
            parse_count,
            "Count the total number of triangles in the image, each ring separately.",
            "triangles",
        ),
        (parse_count, "What is there?", None),
        (
            parse_enclosed,
            "Which bounding box more accurately localizes and encloses the tank top?",
            "tank top",
        ),
        (parse_enclosed, "Which one?", None),
        (parse_relation, "Is the car beneath the cat?", ("car", "below", "cat")),
        (parse_relation, "Is the hair drier left of the person?", ("hair drier", "left", "person")),
        (
            parse_relation,
            "Is the airplane far away from the bicycle?",
            ("airplane", "far", "bicycle"),
        ),
        (parse_relation, "Does the sink contain the cat?", ("sink", "contains", "cat")),
        (parse_relation, "Is the car at the back of the bicycle?", ("car", "behind", "bicycle")),
        (parse_relation, "Is the laptop facing the chair?", None),
        (parse_relation, "Is the laptop a part of the cake?", None),
        (parse_sameness, "The bags in these images are the same bag.", (True, "bag")),
        (parse_sameness, "The bags in these images are not the same bag. T or F?", (False, "bag")),
        (parse_sameness, "The people in these images are different people.", (False, "people")),
        (parse_sameness, "Which images show the same person?", (True, "person")),
        (parse_sameness, "What is this?", None),
    ],
)
def test_what_a_question_asks_for(read: Callable[[Sample], Any], question: str, found: Any) -> None:
    if found is None:
        with pytest.raises(NoEvidence, match=re.escape(repr(question))):
            read(asked(question))
    else:
        assert read(asked(question)) == found


def test_every_wording_of_a_relation_is_read_as_itself() -> None:
    for kind, wordings in RELATIONS.items():
        for wording in wordings:
            question = f"Is the dining table {wording} the hot dog?"
            assert parse_relation(asked(question)) == ("dining table", kind, "hot dog")

"""The same person or thing, on identities that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.state import State
from looktwice.specialists.answers import (
    CountIdentities,
    FaceIdentity,
    GroupIdentities,
    MostSimilar,
    ObjectIdentity,
    SameIdentity,
)
from looktwice.specialists.results import Faces, FeatureGrid
from tests.specialists.samples import BLANK, SAME, asked, check, faces, finds, numbered_image

OTHER = "The persons in these images are not the same person. Answer T or F."


@pytest.mark.parametrize(
    ("people", "question", "choices", "answer", "reason"),
    [
        (([0], [0.3]), SAME, (), "T", ""),
        (([0], [0.3]), OTHER, (), "F", ""),
        (([0], [0.9]), SAME, (), "F", ""),
        (([0], [0.9]), OTHER, (), "T", ""),
        (([0], [0.3], [0.9]), SAME, (), "F", ""),
        (([0], [0.3]), "Do the images show the same person?", ("no", "yes"), "B", ""),
        (([0], []), SAME, (), None, "there is no face in an image"),
        (([0], [0.3, 0.9]), SAME, (), None, "there are 2 faces in an image"),
        (([0], [0.6]), SAME, (), None, "the images are just as far apart as the threshold"),
        (([0],), SAME, (), None, "identities are compared between two images or more, found 1"),
        (
            ([0], [0.3]),
            "Who is this?",
            (),
            None,
            "the question says neither that things are the same",
        ),
    ],
)
def test_the_same_person(
    people: Any, question: str, choices: Any, answer: str | None, reason: str
) -> None:
    rule = SameIdentity(FaceIdentity(faces(*people)))
    check(rule, asked(question, choices, len(people)), answer, reason)


@pytest.mark.parametrize(
    ("rule", "question", "answer"),
    [(SameIdentity, SAME, "F"), (CountIdentities, "How many people?", "2")],
)
def test_a_rule_that_holds_an_identity_is_no_model(rule: Any, question: str, answer: str) -> None:
    pipeline = Pipeline({"answer": rule(FaceIdentity(faces([0], [5])))})
    assert pipeline(State(asked(question, (), 2))).answer == answer


@pytest.mark.parametrize(
    ("people", "settings", "choices", "answer", "reason"),
    [
        (([0], [0.1], [0.2], [0.3]), {}, (), "1", ""),
        (([0], [5], [0.1], [9]), {}, (), "3", ""),
        (([0], [5], [9]), {}, ("2", "3"), "B", ""),
        (([0], [5]), {}, ("3", "4"), None, "2 are found, and no choice is that number"),
        (([0], [0.5], [1.0]), {"linkage": "single"}, (), "1", ""),
        (([0], [0.5], [1.0]), {"linkage": "complete"}, (), "2", ""),
        (([4],), {}, (), "1", ""),
        (([0], []), {}, (), None, "there is no face"),
        ((), {}, (), None, "there is no image"),
    ],
)
def test_how_many_different_people(
    people: Any, settings: Any, choices: Any, answer: str | None, reason: str
) -> None:
    rule = CountIdentities(FaceIdentity(faces(*people)), **settings)
    check(rule, asked("How many distinct individuals?", choices, len(people)), answer, reason)


def test_faces_of_one_image_can_be_counted_and_the_largest_be_taken() -> None:
    crowd = faces([0, 3, 6], [0.1])
    check(CountIdentities(FaceIdentity(crowd, "all")), asked("How many people?", (), 2), "3")
    check(SameIdentity(FaceIdentity(crowd, "largest")), asked(SAME, (), 2), "T")
    check(
        SameIdentity(FaceIdentity(crowd, "all")),
        asked(SAME, (), 2),
        None,
        "image 0 has 3 identities",
    )
    nobody = Faces(np.array([[0, 0, 9, 9]], float), np.ones(1), np.empty((1, 0)))
    check(
        SameIdentity(FaceIdentity(lambda pixels: nobody)),
        asked(SAME, (), 2),
        None,
        "function finds faces and gives",
    )


GROUPS = ("1 and 2", "None", "1 and 3", "2 and 3")


@pytest.mark.parametrize(
    ("people", "choices", "answer", "reason"),
    [
        (([0], [0.1], [5]), GROUPS, "A", ""),
        (([0], [5], [0.1]), GROUPS, "C", ""),
        (([0], [5], [9]), GROUPS, "B", ""),
        (([0], [0.5], [0.8]), GROUPS, "D", ""),  # a chain: the closest two
        (([0], [0.1], [5], [5.1]), ("1 and 2", "1, 2 and 3"), "A", ""),
        (([0], [0.1], [0.2]), ("1, 2 and 3", "1 and 2"), "A", ""),
        (([0], [0.1], [5]), ("1 and 2", "1 and 2"), None, "the margins of A and B are equal"),
        (
            ([0], [0.1], [5]),
            ("1 and 2", "2 and 7"),
            None,
            "the choice '2 and 7' names no images of the 3",
        ),
        (([0], [0.1], [5]), (), None, "there are no choices of groups"),
    ],
)
def test_which_images_show_the_same_person(
    people: Any, choices: Any, answer: str | None, reason: str
) -> None:
    rule = GroupIdentities(FaceIdentity(faces(*people)))
    check(rule, asked("Which images show the same person?", choices, len(people)), answer, reason)


def test_pictures_as_choices_need_an_image_to_be_like() -> None:
    pictures = [Picture(numbered_image(number)) for number in (1, 2)]
    check(
        MostSimilar(lambda one, two: 0.5),
        asked(choices=pictures, images=0),
        None,
        "there is no image",
    )


def test_a_thing_is_cut_out_before_it_is_described() -> None:
    seen: list[tuple[int, ...]] = []

    def features(pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        seen.append(pixels.shape[:2])
        return FeatureGrid(np.ones((2, 2, 3)), *pixels.shape[1::-1])

    found = finds((0, 0, 99, 99), (10, 20, 40, 60), scores=[0.4, 0.8])
    question = "The bags in these images are the same bag. T or F?"
    check(SameIdentity(ObjectIdentity(features, found)), asked(question, (), 2), "T")
    assert (seen, found.words) == ([(40, 30)] * 2, [["bag"]] * 2)
    check(
        SameIdentity(ObjectIdentity(features, finds())),
        asked(question, (), 2),
        None,
        "the detector finds no bag",
    )
    check(
        CountIdentities(ObjectIdentity(features, found)),
        asked("How many different bags are there?", (), 2),
        "1",
    )
    check(
        SameIdentity(ObjectIdentity(features, found)),
        asked(question, (), [BLANK] * 2),
        None,
        "an image is of one col",
    )
    zero = ObjectIdentity(lambda *_: FeatureGrid(np.zeros((1, 1, 2)), 9, 9))
    check(SameIdentity(zero), asked(question, (), 2), None, "an image has no features")

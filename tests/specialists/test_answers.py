"""Every answer rule on made depth, flow, features, faces and boxes, where the right answer is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel, Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.burnt_in import EraseMarks, RecoverMarks
from looktwice.specialists.answers import (
    CameraMotion,
    Chance,
    Count,
    CountIdentities,
    DarkerPoint,
    FaceIdentity,
    FittingBox,
    GroupIdentities,
    Guess,
    MatchedPoint,
    MostReal,
    MostSimilar,
    NearerPoint,
    ObjectIdentity,
    SameIdentity,
    SpatialRelation,
)
from looktwice.specialists.answers.choices import images_by_letter, label_by_letter, true_or_false
from looktwice.specialists.answers.question_parsing import (
    RELATIONS,
    parse_count,
    parse_enclosed,
    parse_relation,
    parse_sameness,
)
from looktwice.specialists.answers.spatial import relation_margin
from looktwice.specialists.features import DenseSimilarity, GlobalSimilarity, GramSimilarity
from looktwice.specialists.matching import SIFT
from looktwice.specialists.protocols import ImageSimilarity, Matcher, NoEvidence
from looktwice.specialists.results import Boxes, DepthMap, Faces, FeatureGrid, Matches
from tests.burnt_in import as_released

BLANK = np.zeros((100, 100, 3), np.uint8)


def asked(
    question: str = "Which?",
    choices: Sequence[Any] = (),
    images: int | Sequence[Pixels] = 1,
    marks: Sequence[Mark] = (),
    name: str = "s1",
) -> Sample:
    """A sample; images given by their number are blank, each with its number in its corner pixel and white opposite."""
    pixels = [numbered_image(number) for number in range(images)] if isinstance(images, int) else images
    return Sample(name, question, tuple(map(Picture, pixels)), tuple(choices), tuple(marks))


def numbered_image(number: int) -> Pixels:
    pixels = BLANK.copy()
    pixels[0, 0], pixels[-1, -1] = number, 255
    return pixels


def check(stage: Stage, sample: Sample, answer: str | None, reason: str = "") -> State:
    """Run a rule; it must answer so with a confidence in 0..1, or abstain with a reason that begins so."""
    state = stage(State(sample), NoModel())
    assert state.answer == answer, state.reason
    if answer is None:
        assert state.reason.startswith(f"abstained: {reason}"), state.reason
        assert reason
    else:
        assert state.reason == ""
        assert state.confidence is not None
        assert 0 <= state.confidence <= 1
    return state


# What choices and questions say


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
        (("the first image", "the second image", "the third image", "the fourth image"), 4, (0, 1, 2, 3)),
        (("this", "that"), 3, (1, 2)),
        (("this", "that"), 2, (0, 1)),
        (("this", "that"), 5, None),
        (("the second image", "the fifth image"), 3, None),
        (("only one",), 2, None),
    ],
)
def test_choices_name_images(choices: tuple[str, ...], images: int, places: tuple[int, ...] | None) -> None:
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
def test_yes_and_true_are_found_by_their_words(question: str, choices: Any, holds: bool, answer: str) -> None:
    assert true_or_false(asked(question, choices), holds) == answer


@pytest.mark.parametrize(
    ("read", "question", "found"),
    [
        (parse_count, "How many blue floats are there?", "blue floats"),
        (parse_count, "How many people in the boat are wearing hats?", "people"),
        (parse_count, "In these images, how many different bags are there in total?", "bags"),
        (parse_count, "How many wheels does the bike have?", "wheels"),
        (parse_count, "How many cats?", "cats"),
        (parse_count, "Count the total number of triangles in the image, each ring separately.", "triangles"),
        (parse_count, "What is there?", None),
        (parse_enclosed, "Which bounding box more accurately localizes and encloses the tank top?", "tank top"),
        (parse_enclosed, "Which one?", None),
        (parse_relation, "Is the car beneath the cat?", ("car", "below", "cat")),
        (parse_relation, "Is the hair drier left of the person?", ("hair drier", "left", "person")),
        (parse_relation, "Is the airplane far away from the bicycle?", ("airplane", "far", "bicycle")),
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


# Depth and reflectance


@dataclass(frozen=True)
class Plane:
    """Nearness that grows with the column."""

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        return DepthMap(np.tile(np.arange(100.0), (100, 1)), True)


def test_the_nearer_point_is_named_by_the_choices_and_not_by_their_order() -> None:
    points = Point("A", 20, 50), Point("B", 70, 50)
    check(NearerPoint(Plane()), asked(choices=("A is closer", "B is closer"), marks=points), "B")
    check(NearerPoint(Plane()), asked(choices=("B is closer", "A is closer"), marks=points), "A")


@dataclass(frozen=True)
class Paint:
    """Reflectance (left half, right half) as linear grey."""

    left: float
    right: float
    unknown: bool = False

    def __call__(self, pixels: Pixels, /) -> Any:
        albedo = np.full((100, 100, 3), self.left)
        albedo[:, 50:] = self.right
        if self.unknown:
            albedo[:, 50:] = np.nan
        return albedo


DARK = ("A is darker", "B is darker", "About the same")
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
        (Paint(0.3, 0.3, unknown=True), DARK, {}, None, "no reflectance is known around point B at (80, 50)"),
    ],
)
def test_the_darker_point(paint: Paint, choices: Any, settings: Any, answer: str | None, reason: str) -> None:
    check(DarkerPoint(paint, **settings), asked(choices=choices, marks=SPOTS), answer, reason)


def test_the_margin_between_same_and_darker_is_where_it_is_said_to_be() -> None:
    for ratio, answer in ((1.0999, "C"), (1.1001, "A")):
        state = check(DarkerPoint(Paint(0.4, 0.4 * ratio)), asked(choices=DARK, marks=SPOTS), answer)
        assert state.confidence == pytest.approx(0, abs=0.01)


def test_points_that_are_not_there_and_a_map_of_another_shape() -> None:
    check(DarkerPoint(Paint(0.1, 0.2)), asked(choices=DARK, marks=SPOTS[:1]), None, "no point B on image 0")
    three = ("A is darker", "B is darker", "C is darker")
    check(DarkerPoint(Paint(0.1, 0.2)), asked(choices=three, marks=(*SPOTS, Point("C", 1, 1))), None, "two points are")
    with pytest.raises(ValueError, match=r"must be \(100, 100, 3\)"):
        check(DarkerPoint(lambda pixels: np.ones((100, 100))), asked(choices=DARK, marks=SPOTS), None)


# Camera


def flow(*across: float) -> Matcher:
    """A matcher whose matches move so far to the right."""
    rng = np.random.default_rng(0)
    xy = rng.uniform(0, 100, (len(across), 2))
    found = Matches(xy, xy + np.stack([across, np.zeros(len(across))], 1), np.ones(len(across)))
    return lambda one, two: found


@pytest.mark.parametrize(
    ("across", "settings", "answer", "reason"),
    [
        ([5] * 9, {}, "B", ""),
        ([-5] * 9, {}, "A", ""),
        ([5] * 9, {"motion": "sideways"}, "A", ""),
        ([-1] * 8 + [99], {}, "B", ""),
        ([-1] * 8 + [99], {"flow": "median"}, "A", ""),
        ([2, -2] * 5, {}, None, "the mean horizontal flow is 0"),
        ([5] * 7, {}, None, "7 matches, at least 8 are needed"),
        ([5] * 7, {"min_matches": 1}, "B", ""),
        ([], {"min_matches": 1}, None, "0 matches"),
        ([], {"flow": "inliers"}, None, "0 matches agree"),
    ],
)
def test_the_camera_moved(across: list[float], settings: Any, answer: str | None, reason: str) -> None:
    sample = asked("Is the camera moving left or right?", ("left", "right"), 2)
    check(CameraMotion(flow(*across), **settings), sample, answer, reason)


def test_matches_that_fit_no_camera_do_not_turn_its_direction() -> None:
    rng = np.random.default_rng(1)
    xyz = rng.uniform((-1, -1, 2), (1, 1, 4), (60, 3))
    xy0, moved = 300 * xyz[:, :2] / xyz[:, 2:], xyz - (0.2, 0, 0)
    xy1 = 300 * moved[:, :2] / moved[:, 2:]
    xy1[:15] += rng.uniform(200, 900, (15, 2))
    matches = Matches(xy0, xy1, np.ones(60))
    sample = asked(choices=("left", "right"), images=2)
    check(CameraMotion(lambda *_: matches, motion="sideways"), sample, "A")
    check(CameraMotion(lambda *_: matches, motion="sideways", flow="inliers"), sample, "B")


def test_the_camera_needs_two_images_and_two_sides() -> None:
    check(CameraMotion(flow(*[5] * 9)), asked(choices=("left", "right")), None, "motion is seen between two images")
    check(CameraMotion(flow(*[5] * 9)), asked(choices=("up", "down"), images=2), None, "the choices are not one")
    check(CameraMotion(flow(*[5] * 9)), asked(choices=("right", "left"), images=2), "A")


def stereo(name: str, data: Path) -> tuple[Pixels, Pixels]:
    """The left and the right view of a real scene, 320 pixels wide."""
    if name == "motorcycle":
        from skimage.data import stereo_motorcycle

        left, right, _ = stereo_motorcycle()  # type: ignore[no-untyped-call]
    else:
        left, right = (np.asarray(cv2.imread(str(data / "pairs" / f"aloe{side}.jpg")))[:, :, ::-1] for side in "LR")
    size = (320, round(320 * left.shape[0] / left.shape[1]))
    shrunk = [np.asarray(cv2.resize(view, size, interpolation=cv2.INTER_AREA), np.uint8) for view in (left, right)]
    return shrunk[0], shrunk[1]


def sideways(data: Path) -> list[tuple[list[Pixels], str]]:
    """Two pairs in both orders, plain and mirrored: eight questions, four of each answer."""
    questions = []
    for name in ("motorcycle", "aloe"):
        for swapped in (False, True):
            for mirrored in (False, True):
                views = stereo(name, data)[:: -1 if swapped else 1]
                images = [np.ascontiguousarray(view[:, ::-1]) if mirrored else view for view in views]
                questions.append((images, "A" if swapped != mirrored else "B"))
    return questions


@pytest.mark.parametrize("network", ["sift", "xfeat"])
def test_left_and_right_on_two_real_stereo_pairs(shared_data: Path, network: str) -> None:
    matcher, right = SIFT() if network == "sift" else small_xfeat(), {"mean": 0, "median": 0, "inliers": 0}
    for images, answer in sideways(shared_data):
        found = matcher(*images)
        for flow in right:
            rule = CameraMotion(lambda *_, found=found: found, flow=flow, motion="sideways")  # type: ignore[arg-type]
            right[flow] += rule(State(asked(choices=("left", "right"), images=images)), NoModel()).answer == answer
    assert right == {"mean": 8, "median": 8, "inliers": 8}


def small_xfeat() -> Matcher:
    pytest.importorskip("torch")
    from looktwice.specialists.matching import XFeat

    return XFeat(keypoints=256)


# Boxes


def boxes(*rows: tuple[float, float, float, float], labels: Sequence[str] = (), scores: Sequence[float] = ()) -> Boxes:
    names = list(labels) or ["thing"] * len(rows)
    return Boxes(np.array(rows, float).reshape(-1, 4), np.array(scores or [0.9] * len(rows)), np.array(names, str))


@dataclass(frozen=True, eq=False)
class Found:
    """A detector that always finds the same, and remembers what it was asked for."""

    boxes: Boxes
    words: list[Any]

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        self.words.append(words)
        return self.boxes


def finds(*rows: tuple[float, float, float, float], **more: Any) -> Found:
    return Found(boxes(*rows, **more), [])


BOXES = (Box("A", 10, 10, 50, 50), Box("B", 15, 15, 60, 60))
WHICH = "Which bounding box more accurately localizes and encloses the cat?"


@pytest.mark.parametrize(
    ("found", "settings", "marks", "answer", "reason"),
    [
        (finds((11, 9, 50, 51)), {}, BOXES, "A", ""),
        (finds((16, 16, 60, 62)), {}, BOXES, "B", ""),
        (finds((16, 16, 60, 62), (10, 10, 50, 50)), {}, BOXES, "A", ""),
        (finds((16, 16, 60, 62), (10, 10, 50, 50)), {"only_surest": True}, BOXES, "B", ""),
        (finds(), {}, BOXES, None, "the detector finds no cat"),
        (finds((70, 70, 90, 90)), {}, BOXES, None, "what the detector finds as cat overlaps none"),
        (finds((0, 0, 99, 99)), {}, (BOXES[0], Box("B", 50, 50, 90, 90)), None, "the overlaps of A and B are equal"),
        (finds((11, 9, 50, 51)), {}, BOXES[:1], None, "no box B on image 0"),
        (finds((11, 9, 50, 51)), {}, (Point("A", 1, 1), Point("B", 2, 2)), None, "no box A, B on image 0"),
    ],
)
def test_the_box_that_fits(found: Found, settings: Any, marks: Any, answer: str | None, reason: str) -> None:
    check(FittingBox(found, **settings), asked(WHICH, ("Box A", "Box B"), marks=marks), answer, reason)
    turned = {"A": "B", "B": "A", None: None}[answer]
    check(FittingBox(found, **settings), asked(WHICH, ("Box B", "Box A"), marks=marks), turned, reason[:6])


def test_a_detector_is_asked_for_what_the_question_names() -> None:
    found = finds((11, 9, 50, 51))
    check(FittingBox(found), asked(WHICH, ("Box A", "Box B"), marks=BOXES), "A")
    check(FittingBox(found, words=""), asked("Which box?", ("Box A", "Box B"), marks=BOXES), "A")
    check(FittingBox(found), asked("Which box?", ("Box A", "Box B"), marks=BOXES), None, "the question does not ask")
    assert found.words == [["cat"], None]


SOME = (1, 1, 5, 5)


@pytest.mark.parametrize(
    ("number", "choices", "settings", "answer", "reason"),
    [
        (3, ("1", "3", "0", "2"), {}, "B", ""),
        (5, ("1", "3", "0", "2"), {}, "B", ""),
        (5, ("1", "3", "0", "2"), {"nearest": False}, None, "5 are found, and no choice is that number"),
        (2, ("1", "3"), {}, None, "2 are found, and no choice is nearest"),
        (3, ("two", "three"), {}, "B", ""),
        (3, (), {}, "3", ""),
        (0, ("0", "1"), {}, None, "the detector finds no cats"),
        (0, ("1", "0"), {"nothing": "zero"}, "B", ""),
        (0, (), {"nothing": "zero"}, "0", ""),
        (1, ("many", "1"), {}, None, "not every choice says a number"),
    ],
)
def test_the_count(number: int, choices: Any, settings: Any, answer: str | None, reason: str) -> None:
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
        ("Is the cat left of the dog?", ("no", "yes"), finds(LEFT, RIGHT, labels=["cat", "dog"]), "B", ""),
        ("Is the cat left of the dog?", (), finds(LEFT, RIGHT, labels=["cat", "dog"]), "Yes", ""),
        ("Is the cat left of the dog?", YES, finds(LEFT, labels=["cat"]), None, "the detector finds no dog"),
        ("Is the cat left of the dog?", YES, finds(), None, "the detector finds no cat and no dog"),
        ("Is the cat left of the cat?", YES, finds(LEFT, RIGHT, labels=["cat", "cat"]), "A", ""),
        ("Is the cat left of the cat?", YES, finds(LEFT, labels=["cat"]), None, "the detector finds no second cat"),
        ("Is the cat left of the dog?", YES, finds(LEFT, LEFT, labels=["cat", "dog"]), None, "the cat and the dog are"),
        ("Is the cat behind the dog?", YES, finds(LEFT, RIGHT, labels=["cat", "dog"]), None, "two boxes do not tell"),
        ("Is the cat facing the dog?", YES, finds(LEFT, RIGHT, labels=["cat", "dog"]), None, "no relation that boxes"),
    ],
)
def test_a_relation_is_answered(question: str, choices: Any, found: Found, answer: str | None, reason: str) -> None:
    check(SpatialRelation(found), asked(question, choices), answer, reason)


def test_the_surest_of_several_counts() -> None:
    found = finds(RIGHT, LEFT, (45, 40, 55, 60), labels=["cat", "cat", "dog"], scores=[0.5, 0.8, 0.7])
    check(SpatialRelation(found), asked("Is the cat left of the dog?", YES), "A")
    assert found.words == [["cat", "dog"]]


def test_what_is_behind_is_told_by_depth() -> None:
    found = finds(LEFT, RIGHT, labels=["cat", "dog"])  # the plane is nearer at the right
    check(SpatialRelation(found, Plane()), asked("Is the cat behind the dog?", YES), "A")
    check(SpatialRelation(found, Plane()), asked("Is the cat in front of the dog?", YES), "B")
    blind = SpatialRelation(found, lambda *_: DepthMap(np.full((100, 100), np.nan), True))
    check(blind, asked("Is the cat behind the dog?", YES), None, "no depth is known inside")
    flat = SpatialRelation(found, lambda *_: DepthMap(np.ones((100, 100)), True))
    check(flat, asked("Is the cat behind the dog?", YES), None, "the cat and the dog are on the very limit")


# Likeness and forgery


def grids(*vectors: Sequence[Sequence[float]]) -> Callable[..., FeatureGrid]:
    """A feature map that gives image number n (its corner pixel) the cells `vectors[n]`, one row of them."""

    def features(pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        return FeatureGrid(np.array([vectors[int(pixels[0, 0, 0])]], float), *pixels.shape[1::-1])

    return features


LATER = ("the second image", "the third image")


@pytest.mark.parametrize(
    ("similarity", "vectors", "answer"),
    [
        (GlobalSimilarity, ([[1, 0]], [[1, 0.1]], [[0, 1]]), "A"),
        (GlobalSimilarity, ([[1, 0]], [[0, 1]], [[9, 1]]), "B"),
        (GlobalSimilarity, ([[3, 0], [0, 3]], [[2, 2], [2, 2]], [[3, 0], [0, 1]]), "A"),  # a mean sees no texture
        (DenseSimilarity, ([[3, 0], [0, 3]], [[2, 2], [2, 2]], [[0, 3], [3, 0]]), "B"),
        (GramSimilarity, ([[3, 0], [0, 3]], [[2, 2], [2, 2]], [[0, 3], [3, 0]]), "B"),
    ],
)
def test_the_most_similar_image(similarity: Callable[..., ImageSimilarity], vectors: Any, answer: str) -> None:
    rule = MostSimilar(similarity(grids(*vectors)))
    check(rule, asked(choices=LATER, images=3), answer)
    check(rule, asked(choices=LATER[::-1], images=3), {"A": "B", "B": "A"}[answer])


def nothing(one: Pixels, two: Pixels) -> float:
    raise NoEvidence("the image is too small")


@pytest.mark.parametrize(
    ("similarity", "images", "reason"),
    [
        (lambda one, two: 0.5, 3, "the likenesses of A and B are equal"),
        (nothing, 3, "the image is too small"),
        (lambda one, two: 0.5, 2, "the first image is one of the candidates"),
        (lambda one, two: 0.5, 1, "1 images and 2 choices do not pair up"),
        (lambda one, two: 1.0 * two[0, 0, 0], [*map(numbered_image, (1, 2)), BLANK], "an image is of one colour"),
    ],
)
def test_likeness_without_evidence(similarity: ImageSimilarity, images: Any, reason: str) -> None:
    choices = ("this", "that") if images in (1, 2) else LATER
    check(MostSimilar(similarity), asked(choices=choices, images=images), None, reason)


@pytest.mark.parametrize(
    ("fakes", "answer", "reason"),
    [
        ((0.9, 0.2, 0.8, 0.7), "B", ""),
        ((0.0, 0.2, 0.8, 0.7), "A", ""),
        ((0.9, 0.2, 0.2, 0.7), None, "the scores of B and C are equal"),
    ],
)
def test_the_most_real_image(fakes: Sequence[float], answer: str | None, reason: str) -> None:
    choices = tuple(f"the {name} image" for name in ("first", "second", "third", "fourth"))
    check(MostReal(lambda pixels: fakes[pixels[0, 0, 0]]), asked(choices=choices, images=4), answer, reason)
    check(MostReal(lambda pixels: 0.5), asked(choices=choices, images=2), None, "2 images and 4 choices")


# Identity


def faces(*people: Sequence[float]) -> Callable[[Pixels], Faces]:
    """A face detector that sees in image n the faces whose identities `people[n]` lie so on a line, largest first."""

    def detector(pixels: Pixels, /) -> Faces:
        seen = people[int(pixels[0, 0, 0])]
        sides = [(0, 0, 50 - number, 50 - number) for number in range(len(seen))]
        vectors = np.array([[place, 0.0] for place in seen]).reshape(-1, 2)
        return Faces(np.array(sides, float), np.ones(len(seen)), vectors)

    return detector


SAME = "The persons in these images are the same person. Answer T or F."
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
        (([0], [0.3]), "Who is this?", (), None, "neither that things are the same"),
    ],
)
def test_the_same_person(people: Any, question: str, choices: Any, answer: str | None, reason: str) -> None:
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
def test_how_many_different_people(people: Any, settings: Any, choices: Any, answer: str | None, reason: str) -> None:
    rule = CountIdentities(FaceIdentity(faces(*people)), **settings)
    check(rule, asked("How many distinct individuals?", choices, len(people)), answer, reason)


def test_faces_of_one_image_can_be_counted_and_the_largest_be_taken() -> None:
    crowd = faces([0, 3, 6], [0.1])
    check(CountIdentities(FaceIdentity(crowd, "all")), asked("How many people?", (), 2), "3")
    check(SameIdentity(FaceIdentity(crowd, "largest")), asked(SAME, (), 2), "T")
    check(SameIdentity(FaceIdentity(crowd, "all")), asked(SAME, (), 2), None, "image 0 has 3 identities")
    nobody = Faces(np.array([[0, 0, 9, 9]], float), np.ones(1), np.empty((1, 0)))
    check(SameIdentity(FaceIdentity(lambda pixels: nobody)), asked(SAME, (), 2), None, "function finds faces and gives")


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
        (([0], [0.1], [5]), ("1 and 2", "2 and 7"), None, "the choice '2 and 7' names no images of the 3"),
        (([0], [0.1], [5]), (), None, "there are no choices of groups"),
    ],
)
def test_which_images_show_the_same_person(people: Any, choices: Any, answer: str | None, reason: str) -> None:
    rule = GroupIdentities(FaceIdentity(faces(*people)))
    check(rule, asked("Which images show the same person?", choices, len(people)), answer, reason)


def test_pictures_as_choices_need_an_image_to_be_like() -> None:
    pictures = [Picture(numbered_image(number)) for number in (1, 2)]
    check(MostSimilar(lambda one, two: 0.5), asked(choices=pictures, images=0), None, "there is no image")


def test_a_thing_is_cut_out_before_it_is_described() -> None:
    seen: list[tuple[int, ...]] = []

    def features(pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        seen.append(pixels.shape[:2])
        return FeatureGrid(np.ones((2, 2, 3)), *pixels.shape[1::-1])

    found = finds((0, 0, 99, 99), (10, 20, 40, 60), scores=[0.4, 0.8])
    question = "The bags in these images are the same bag. T or F?"
    check(SameIdentity(ObjectIdentity(features, found)), asked(question, (), 2), "T")
    assert (seen, found.words) == ([(40, 30)] * 2, [["bag"]] * 2)
    check(SameIdentity(ObjectIdentity(features, finds())), asked(question, (), 2), None, "the detector finds no bag")
    check(CountIdentities(ObjectIdentity(features, found)), asked("How many different bags are there?", (), 2), "1")
    check(
        SameIdentity(ObjectIdentity(features, found)), asked(question, (), [BLANK] * 2), None, "an image is of one col"
    )
    zero = ObjectIdentity(lambda *_: FeatureGrid(np.zeros((1, 1, 2)), 9, 9))
    check(SameIdentity(zero), asked(question, (), 2), None, "an image has no features")


# Guessing is a baseline of its own


def guessed(rule: Stage, sample: Sample, seed: int = 0) -> State:
    return rule(State(sample, seed=seed), NoModel())


def test_a_guess_is_drawn_noted_and_only_where_there_is_no_evidence() -> None:
    empty, full = Count(finds()), Count(finds(SOME))
    sample = asked("How many cats?", ("1", "2", "3", "4"))
    state = guessed(Guess(empty), sample)
    assert state.answer in set("ABCD")
    assert (state.reason, state.confidence) == ("", 0.25)
    assert state.notes == ("guessed: the detector finds no cats",)
    assert guessed(Guess(full), sample).answer == guessed(full, sample).answer == "A"
    assert guessed(Guess(full), sample).notes == ()
    assert guessed(Guess(empty, on_empty="abstain"), sample).ended


def test_guesses_are_repeatable_and_fair() -> None:
    rule = Guess(Count(finds()))
    samples = [asked("How many cats?", ("1", "2", "3", "4"), name=f"s{n}") for n in range(400)]
    first, again, other = ([guessed(rule, s, seed).answer for s in samples] for seed in (0, 0, 1))
    assert first == again != other
    assert min(first.count(letter) for letter in "ABCD") > 70


def test_an_open_question_is_guessed_only_among_named_answers() -> None:
    sample = asked(SAME, (), 1)
    rule = SameIdentity(FaceIdentity(faces([])))
    assert guessed(Guess(rule), sample).ended
    assert guessed(Guess(rule, among=("T", "F")), sample).answer in ("T", "F")


def test_a_stage_that_asks_is_no_rule_to_guess_for() -> None:
    from looktwice.prompting.turns import Ask

    with pytest.raises(ValueError, match="Ask asks the model"):
        Guess(Ask())
    assert Guess(Chance()).on_empty == "guess"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DarkerPoint(Paint(1, 1), tolerance=-1), "tolerance is 0 or more"),
        (lambda: DarkerPoint(Paint(1, 1), window=4), "window is the odd side"),
        (lambda: CameraMotion(flow(1), min_matches=0), "min_matches is 1 or more"),
        (lambda: CameraMotion(flow(1), flow="inliers", min_matches=3), "for inliers 8 or more"),
        (lambda: CameraMotion(flow(1), tolerance=0), "tolerance is in pixels"),
        (lambda: SameIdentity(FaceIdentity(faces()), threshold=0), "threshold is a distance"),
    ],
)
def test_settings_that_cannot_be(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# Marks that are burnt into the pixels


def read_and(rule: Stage, sample: Sample, **settings: Any) -> State:
    """The sample's marks read from its pixels and painted over, then the rule."""
    pipeline = Pipeline({"recover": RecoverMarks(**settings), "erase": EraseMarks(), "answer": rule})
    return pipeline(State.start(replace(sample, marks=())))


def test_points_that_are_burnt_in_reach_the_rules() -> None:
    """A ramp of light that the rules see without the rings: darker and, told so, farther on the left."""
    ramp = np.ascontiguousarray(np.tile(np.linspace(40, 220, 300).astype(np.uint8)[None, :, None], (200, 1, 3)))
    points = (Point("A", 220, 120), Point("B", 70, 110))
    red = asked("Which is closer?", ("A is closer", "B is closer"), [as_released(ramp, points, (255, 0, 0))])
    near = NearerPoint(lambda image, *_: DepthMap(image.mean(2), True))
    assert read_and(near, red, colors=("red",)).answer == "A"
    white = asked("Which is darker?", DARK, [as_released(ramp, points, (255, 255, 255))])
    state = read_and(DarkerPoint(lambda pixels: (pixels / 255.0) ** 2.2), white, colors=("white",))
    assert state.answer == "B"
    unmarked = asked("Which is closer?", ("A is closer", "B is closer"), [ramp])
    assert read_and(near, unmarked).reason == "abstained: no point A, B on image 0"


def test_boxes_that_are_burnt_in_reach_the_rules() -> None:
    pixels = np.full((240, 320, 3), 128, np.uint8)
    for (left, top, right, bottom), color, label in (
        ((40, 60, 140, 160), (255, 0, 0), "A"),
        ((120, 110, 280, 200), (0, 255, 0), "B"),
    ):
        cv2.rectangle(pixels, (left, top), (right, bottom), color, 3)
        pixels[top - 18 : top - 3, left : left + 14] = 0
        cv2.putText(pixels, label, (left + 2, top - 5), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 255), 1, cv2.LINE_AA)
    seen: list[Pixels] = []

    def detector(image: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        seen.append(image)
        return boxes((118, 112, 284, 198))

    state = read_and(FittingBox(detector), asked(WHICH, ("Box A", "Box B"), [pixels]), kinds=("boxes",))
    assert state.answer == "B"
    assert np.abs(seen[0][70:100, 130:150].astype(int) - 128).max() <= 8, "the detector sees no drawn line"


def test_correspondence_is_read_from_two_images() -> None:
    rng = np.random.default_rng(3)
    small = rng.integers(40, 200, (60, 80, 3)).astype(np.uint8)
    ground = np.asarray(cv2.resize(small, (320, 240), interpolation=cv2.INTER_CUBIC), np.uint8)
    places = {"A": (60, 180), "B": (250, 190), "C": (160, 120), "D": (260, 70)}
    reference = as_released(ground, [Point("REF", 160, 120)], (255, 0, 0))
    marked = as_released(ground, [Point(label, *xy) for label, xy in places.items()], (255, 0, 0))
    sample = asked("Which point on the second image corresponds to REF?", tuple(f"Point {c}" for c in "ABCD"), [])
    sample = replace(sample, images=(Picture(reference), Picture(marked)))
    state = read_and(MatchedPoint(SIFT()), sample, colors=("red",))
    assert state.answer == "C", state.reason

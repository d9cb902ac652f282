"""Classical readers of Do You See Me's flat drawings: correct on generated and official ones,
abstaining otherwise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.extras.do_you_see_me import DoYouSeeMe
from looktwice.extras.drawings import (
    ColoredShapeCounter,
    DotLetterReader,
    MarkAskedShapes,
    OutlineCounter,
    PatternMatcher,
    ShapeGridReader,
)
from looktwice.extras.drawings.shapes import (
    classify_shape,
    find_background_color,
    find_shapes,
    measure_color_distance,
)
from looktwice.extras.drawings.sheets import read_grids
from looktwice.extras.scenes import GeneratedDoYouSeeMe
from looktwice.pipelines.marks import Mark, Point, bounding_box
from looktwice.pipelines.picture import Picture, PictureError, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import State
from looktwice.specialists.rules import NoEvidence

READERS: dict[str, Any] = {
    "shape_discrimination": OutlineCounter(),
    "joint_shape_color": ColoredShapeCounter(),
    "visual_spatial": ShapeGridReader(),
    "letter_disambiguation": DotLetterReader(),
    "visual_closure": PatternMatcher("closure"),
    "figure_ground": PatternMatcher("figure_ground"),
    "form_constancy": PatternMatcher("form_constancy"),
}
WHITE: Pixels = np.full((200, 300, 3), 255, np.uint8)


def run_reader(name: str, sample: Sample) -> str | None:
    after: State = READERS[name](State(sample), NoModel())
    assert after.answer is not None or after.reason
    return after.answer


def make_state(pixels: Pixels, question: str) -> State:
    return State(Sample("1", question, images=(Picture(pixels),)))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(READERS))
def test_generated_drawings_are_read(name: str) -> None:
    """Every answer is right; only outlines that cross each other may stay unanswered."""
    items = GeneratedDoYouSeeMe(name, n=14, seed=5)
    found = [(run_reader(name, item.sample), item.answer) for item in items]
    assert [(said, key) for said, key in found if said not in (None, key)] == []
    assert name == "shape_discrimination" or all(said for said, _ in found)
    assert any(said for said, _ in found)


@pytest.mark.slow
def test_official_samples_are_read(shared_data: Path) -> None:
    """Covers every sample whose file belongs to its row. The letters in 1.png are those of row 0:
    it shows a T where the key of row 1 has a D."""
    found = []
    for name in sorted(set(READERS) - {"shape_discrimination"}):
        items = filter(_there, DoYouSeeMe(name, shared_data / "dysm"))
        found += [(i.sample.id, run_reader(name, i.sample), i.answer) for i in items]
    assert len(found) == 30
    wrong = [row for row in found if row[1] != row[2]]
    assert wrong == [("2D_letter_disambiguation_1", "T", "D")]


def _there(item: Item) -> bool:
    try:
        return item.sample.images[0].pixels.size > 0
    except PictureError:
        return False


@pytest.mark.parametrize("radius", [12, 20, 40])
@pytest.mark.parametrize("turn", [0, 17, 45])
@pytest.mark.parametrize(
    ("shape", "corners"),
    [("triangle", 3), ("rectangle", 4), ("pentagon", 5), ("octagon", 8), ("circle", 90)],
)
def test_shapes_are_distinguished_by_their_outlines(
    shape: str, corners: int, turn: float, radius: int
) -> None:
    angles = np.radians(turn) + np.linspace(0, 2 * np.pi, corners, endpoint=False)
    points = 60.5 + radius * np.column_stack([np.cos(angles), np.sin(angles)])
    ink = np.zeros((120, 120), np.uint8)
    cv2.fillPoly(ink, [np.round(points * 256).astype(np.int32)], 255, cv2.LINE_AA, shift=8)
    (shapes,) = find_shapes(ink / 255, 0.5)
    assert classify_shape(shapes.contour) == shape
    assert shapes.hole_count == 0
    assert shapes.box == pytest.approx((*points.min(0), *points.max(0)), abs=1.5)


def test_stars_and_crosses_are_distinguished_by_their_notches() -> None:
    angles = np.linspace(0, 2 * np.pi, 10, endpoint=False)
    around = np.column_stack([np.cos(angles), np.sin(angles)])
    star = 50 + np.where(np.arange(10) % 2, 18, 40)[:, None] * around
    assert classify_shape(star) == "star"
    x = [1, 2, 2, 3, 3, 2, 2, 1, 1, 0, 0, 1]
    third = np.column_stack((x, np.roll(x, 3)))
    assert classify_shape(third * 20.0) == "cross"
    assert classify_shape(np.array([[0.0, 0], [10, 0]])) is None
    assert classify_shape(np.array([[3.0, 3]])) is None


def test_the_background_is_the_most_common_colour() -> None:
    pixels = WHITE.copy()
    pixels[:90] = (250, 3, 7)
    assert find_background_color(pixels).tolist() == [255, 255, 255]
    pixels[:110] = (250, 3, 7)
    assert find_background_color(pixels).tolist() == [250, 3, 7]
    away = measure_color_distance(pixels)
    assert (away.min(), away.max()) == (0, 1)


def test_nested_rings_are_counted_separately() -> None:
    pixels = WHITE.copy()
    for center, radius in (((80, 100), 60), ((80, 100), 40), ((80, 100), 20), ((220, 100), 30)):
        cv2.circle(pixels, center, radius, (0, 0, 0), 2, cv2.LINE_AA)
    cv2.rectangle(pixels, (200, 150), (250, 190), (0, 0, 0), 2)
    for question, number in (("How many circles?", "4"), ("How many stars?", "0")):
        assert OutlineCounter()(make_state(pixels, question), NoModel()).answer == number


@pytest.mark.parametrize("name", ["shape_discrimination", "joint_shape_color"])
def test_requested_shapes_are_marked_like_the_ground_truth(name: str) -> None:
    marked = 0
    for item in GeneratedDoYouSeeMe(name, n=14, seed=5, marks="asked"):
        bare = State.start(replace(item.sample, marks=(Point("old", 3, 3),)))
        after = MarkAskedShapes()(bare, NoModel())
        if any("lines cross" in note for note in after.notes):
            assert name == "shape_discrimination" and after.sample.marks == ()
            continue
        marked += 1
        truth = {mark.label.rpartition(" ")[0]: mark for mark in item.sample.marks}
        assert {mark.label.rpartition(" ")[0] for mark in after.sample.marks} == truth.keys()
        for mark in item.sample.marks:  # rings have separate boxes inside that of the shape
            assert min(_off(mark, each) for each in after.sample.marks) < 2
        if name == "joint_shape_color":
            assert len(after.sample.marks) == int(item.answer or 0)
    assert marked >= 5


def _off(one: Mark, other: Mark) -> float:
    return float(np.abs(np.subtract(bounding_box(one), bounding_box(other))).max())


def test_unrecognisable_shapes_are_not_marked() -> None:
    reasons = {
        "How many hearts?": "names no known shapes",
        "How many red stars?": "a single colour",
    }
    for question, reason in reasons.items():
        after = MarkAskedShapes()(make_state(WHITE, question), NoModel())
        assert after.sample.marks == () and reason in after.notes[0]


def test_official_shapes_are_marked(shared_data: Path) -> None:
    """The number of marks equals the key; the sample pictures of outlines belong to no row."""
    items = [item for item in DoYouSeeMe("joint_shape_color", shared_data / "dysm") if _there(item)]
    after = [MarkAskedShapes()(State.start(item.sample), NoModel()) for item in items]
    assert len(items) == 14
    assert [str(len(state.sample.marks)) for state in after] == [item.answer for item in items]


def test_crossing_outlines_are_not_read() -> None:
    pixels = WHITE.copy()
    for x in (100, 140):
        cv2.circle(pixels, (x, 100), 40, (0, 0, 0), 2, cv2.LINE_AA)
    after = OutlineCounter()(make_state(pixels, "How many circles?"), NoModel())
    assert after.answer is None
    assert "cross at 1 places" in str(after.reason)


def test_colors_have_the_names_that_the_question_uses() -> None:
    pixels = WHITE.copy()
    cv2.circle(pixels, (60, 60), 25, (255, 0, 0), -1)
    cv2.circle(pixels, (160, 60), 25, (0, 0, 255), -1)
    cv2.rectangle(pixels, (200, 110), (270, 180), (250, 10, 10), -1)
    for things, number in (("circle's are red", "1"), ("square's are red", "1")):
        question = make_state(pixels, f"How many {things}?")
        assert ColoredShapeCounter()(question, NoModel()).answer == number
    purple = make_state(pixels, "How many circle's are purple?")
    assert ColoredShapeCounter()(purple, NoModel()).answer == "0"


SPATIAL = (
    "In grid {grid}, starting from the {thing} at position (row 1, column 1), "
    "how many black objects are there right of it?"
)


@pytest.mark.parametrize(
    ("name", "question", "reason"),
    [
        ("shape_discrimination", "How many hearts?", "names no known shapes"),
        ("shape_discrimination", "How many circles?", "a single colour"),
        ("joint_shape_color", "How many circles?", "names no known colours"),
        ("joint_shape_color", "How many circles are red?", "a single colour"),
        ("visual_spatial", "What is this?", "names no cell of a grid"),
        ("visual_spatial", SPATIAL.format(grid=1, thing="black circle"), "no grid of shapes"),
        ("letter_disambiguation", "Which letters?", "a single colour"),
        ("visual_closure", "Which option?", "a single colour"),
    ],
)
def test_an_empty_drawing_gives_no_answer(name: str, question: str, reason: str) -> None:
    after = READERS[name](make_state(WHITE, question), NoModel())
    assert after.answer is None
    assert reason in str(after.reason)


@pytest.mark.parametrize("name", sorted(set(READERS) - {"visual_spatial"}))
def test_two_images_are_refused(name: str) -> None:
    sample = Sample("1", "How many red circles?", images=(Picture(WHITE),) * 2)
    after = READERS[name](State(sample), NoModel())
    assert "found 2" in str(after.reason)


def test_a_cell_that_differs_from_the_request_is_reported() -> None:
    (item,) = list(GeneratedDoYouSeeMe("visual_spatial", n=1))
    pixels = item.sample.images[0].pixels
    grid = read_grids(pixels)[0]
    fill, shape = grid[1, 1]
    other = "white" if fill == "black" else "black"
    for number, reason in ((1, f"is {fill} {shape}, not {other} {shape}"), (9, "is nothing")):
        question = SPATIAL.format(grid=number, thing=f"{other} {shape}")
        after = ShapeGridReader()(make_state(pixels, question), NoModel())
        assert reason in str(after.reason)


def test_equal_options_give_no_answer() -> None:
    """If the five panels of a sheet are equal, no option is nearer."""
    pixels = np.full((1000, 600, 3), 255, np.uint8)
    for x, y in ((190, 86), (90, 386), (340, 386), (90, 636), (340, 636)):
        cv2.line(pixels, (x + 40, y + 40), (x + 160, y + 120), (0, 0, 0), 3)
    matcher = PatternMatcher("form_constancy")
    after = matcher(make_state(pixels, "Which option?"), NoModel())
    assert "options 1 and 2 are equal" in str(after.reason)
    pixels[636:866, 340:585] = 255
    with pytest.raises(NoEvidence, match="nothing is drawn at"):
        matcher.measure_distances(pixels)

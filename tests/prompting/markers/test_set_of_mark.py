"""Set-of-mark: the numbered regions, the positions of numbers, and the region that a reply
names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from looktwice.pipelines.geometry import intersect_boxes, overlaps
from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.model import Message
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import crop, flip, join_side_by_side, resize, rotate
from looktwice.prompting.drawing.colors import choose_golden_ratio_color
from looktwice.prompting.drawing.free_areas import place_numbers
from looktwice.prompting.drawing.regions import Region, rasterize
from looktwice.prompting.drawing.text import render_plate
from looktwice.prompting.markers import ChosenMark, SetOfMark
from looktwice.prompting.markers.chosen_mark import read_choice
from looktwice.specialists.results import Boxes, Masks
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.segmentation import Felzenszwalb, Slic
from tests import tables
from tests.prompting.scenes import table

CASES = table("markers/set_of_mark.yaml")

GREY = 90


@dataclass(frozen=True)
class FixedDetector:
    """A segmenter that finds these boxes (x0, y0, x1, y1) as masks."""

    boxes: tuple[tuple[int, int, int, int], ...]
    scores: tuple[float, ...] = ()
    shape: tuple[int, int] | None = None

    def __call__(self, pixels: Pixels, /) -> Masks:
        masks = np.zeros((len(self.boxes), *(self.shape or pixels.shape[:2])), bool)
        for mask, (x0, y0, x1, y1) in zip(masks, self.boxes, strict=True):
            mask[y0:y1, x0:x1] = True
        count = len(self.boxes)
        return Masks(masks, np.array(self.scores or np.ones(count)), np.full(count, ""))


@dataclass(frozen=True)
class Detected:
    """A detector of these boxes, which expects the word cups."""

    xyxy: tuple[tuple[float, float, float, float], ...]

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        if words != ("cup",):
            raise NoEvidence(f"no words {words}")
        count = len(self.xyxy)
        return Boxes(np.array(self.xyxy), np.ones(count), np.full(count, "cup"))


def plain(width: int = 200, height: int = 150) -> Picture:
    return Picture(np.full((height, width, 3), GREY, np.uint8))


def start(*marks: Mark, images: tuple[Picture, ...] = (), choices: tuple[str, ...] = ()) -> State:
    return State.start(Sample("s1", "Which?", images or (plain(),), choices, marks))


def apply_marks(stage: SetOfMark, state: State | None = None) -> State:
    return stage(state or start(), NoModel())


def regions(stage: SetOfMark, state: State | None = None) -> dict[str, tuple[int, int, int, int]]:
    found = {}
    for mark in apply_marks(stage, state).sample.marks:
        region = rasterize(mark, (200, 150)) if not isinstance(mark, Point) else None
        found[mark.label] = region.box if region else (0, 0, 0, 0)
    return found


def plates_of(pixels: Pixels, label: str, size: float = 16) -> list[tuple[int, int]]:
    """Return the place (left, top) of the plate of each number."""
    wanted = render_plate(label, size, (255, 255, 255), (0, 0, 0), 2)
    windows = np.lib.stride_tricks.sliding_window_view(pixels, wanted.shape)[:, :, 0]
    return [(int(x), int(y)) for y, x in np.argwhere((windows == wanted).all((2, 3, 4)))]


TWO = FixedDetector(((10, 10, 110, 90), (120, 20, 180, 80)))


def test_a_region_is_tinted_outlined_and_numbered_at_its_centre() -> None:
    stage = SetOfMark(segmenter=TWO, alpha=0.5, contour=3, color="red")
    state = apply_marks(stage)
    pixels = state.views[0].pixels
    assert tuple(pixels[50, 20]) == (172, 45, 45)
    assert all(tuple(pixels[50, x]) == (255, 0, 0) for x in (10, 11, 12, 107, 108, 109))
    assert tuple(pixels[50, 13]) == tuple(pixels[50, 106]) == (172, 45, 45)
    assert tuple(pixels[50, 9]) == tuple(pixels[50, 110]) == tuple(pixels[5, 5]) == (GREY,) * 3
    ((left, top),) = plates_of(pixels, "1")
    assert abs(top + render_plate("1", 16).shape[0] / 2 - 50) <= 1
    assert (
        50 - 1 <= left + render_plate("1", 16).shape[1] / 2 <= 70 + 1
    )  # any place as deep as the centre
    assert plates_of(pixels, "2")
    assert [mark.label for mark in state.sample.marks] == ["1", "2"]


def test_the_number_is_in_the_largest_inscribed_circle() -> None:
    pixels = np.zeros((100, 100), bool)
    pixels[10:16, 5:95] = True  # a long bar with a square at its end
    pixels[10:60, 45:95] = True
    region = Region.from_pixels(pixels)
    assert region is not None
    x, y, radius = region.inscribed_circle
    assert (x, y) == pytest.approx((69.5, 34.5), abs=1)
    assert radius == pytest.approx(25, abs=1)
    left, top = region.find_room(11, 9) or (0, 0)
    assert (left + 5, top + 4) == pytest.approx((x, y), abs=1)
    assert region.find_room(50, 9) is not None
    assert region.find_room(51, 9) is None
    assert Region.from_pixels(np.zeros((4, 4), bool)) is None


@pytest.mark.parametrize(
    ("overlap", "big", "small"),
    [
        ("smaller", 100 * 80 - 30 * 30, 900),
        ("larger", 8000, 0),
        ("score", 7100, 900),
        ("keep", 8000, 900),
    ],
)
def test_pixels_of_two_masks_belong_to_one(overlap: Any, big: int, small: int) -> None:
    source = FixedDetector(((10, 10, 110, 90), (40, 40, 70, 70)), (0.5, 0.9))
    marks = apply_marks(SetOfMark(segmenter=source, overlap=overlap)).sample.marks
    areas = [int(mark.pixels.sum()) for mark in marks if isinstance(mark, Mask)]
    assert areas == [area for area in (big, small) if area]


@pytest.mark.parametrize("overlap", ["smaller", "keep"])
def test_a_number_avoids_a_smaller_region_inside(overlap: Any) -> None:
    source = FixedDetector(((10, 10, 110, 130), (35, 35, 85, 105)))
    pixels = apply_marks(SetOfMark(segmenter=source, overlap=overlap)).views[0].pixels
    ((left, top),) = plates_of(pixels, "1")
    height, width = render_plate("1", 16).shape[:2]
    assert left + width <= 35 or left >= 85 or top + height <= 35 or top >= 105
    assert 35 <= plates_of(pixels, "2")[0][0] <= 85 - width


WIDE, TINY, LEAST = (0, 0, 200, 100), (150, 120, 156, 126), (70, 140, 72, 142)
HIGH, SQUARE = (0, 110, 60, 150), (100, 110, 120, 130)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, [WIDE, HIGH, SQUARE, TINY]),
        ({"min_area": 0.01}, [WIDE, HIGH, SQUARE]),
        ({"max_area": 0.5}, [HIGH, SQUARE, TINY]),
        ({"most": 2}, [HIGH, SQUARE]),
        ({"order": "score"}, [SQUARE, HIGH, WIDE, TINY]),
        ({"order": "reading"}, [WIDE, HIGH, SQUARE, TINY]),
    ],
)
def test_filters_and_order(settings: dict[str, Any], kept: list[tuple[int, int, int, int]]) -> None:
    source = FixedDetector((WIDE, TINY, HIGH, SQUARE, LEAST), (0.3, 0.2, 0.5, 0.9, 0.95))
    assert list(regions(SetOfMark(segmenter=source, **settings)).values()) == kept


def test_a_small_region_has_its_number_next_to_it_with_a_line() -> None:
    source = FixedDetector(((100, 70, 108, 78), (112, 70, 120, 78), (124, 70, 132, 78)))
    stage = SetOfMark(segmenter=source, color="#00ff00")
    pixels = apply_marks(stage).views[0].pixels
    height, width = render_plate("1", 16).shape[:2]
    spots = [plates_of(pixels, label)[0] for label in "123"]
    for i, (x, y) in enumerate(spots):
        for a, b in spots[i + 1 :]:
            assert abs(x - a) >= width or abs(y - b) >= height - 1
        for x0 in (100, 112, 124):
            assert x + width <= x0 or x >= x0 + 8 or y + height <= 70 or y >= 78
    assert np.hypot(spots[0][0] - 104, spots[0][1] - 74) < 40


def test_boxes_of_a_detector_stay_whole_and_are_clipped_at_the_edge() -> None:
    nothing = (20, 20, 20, 60), (220, 10, 230, 20)
    detector = Detected(((-5, 10.5, 100, 80), (50, 40, 300, 140), *nothing))
    state = apply_marks(SetOfMark(detector=detector, words=("cup",)))
    boxes = [mark.xyxy for mark in state.sample.marks if isinstance(mark, Box)]
    assert boxes == [(50, 40, 200, 140), (0, 10.5, 100, 80)]


def test_boxes_and_masks_of_the_sample_can_be_numbered() -> None:
    mask = np.zeros((150, 200), bool)
    mask[100:140, 100:150] = True
    state = start(Box("A", 10, 10, 60, 60), Mask("B", mask), Point("C", 5, 5))
    first, second = (10, 10, 60, 60), (100, 100, 150, 140)
    numbered = {"A": first, "B": second, "C": (0, 0, 0, 0), "1": first, "2": second}
    assert regions(SetOfMark(), state) == numbered
    boxes = apply_marks(SetOfMark(keep="boxes"), state).sample.marks[-1]
    assert isinstance(boxes, Box)
    assert boxes.xyxy == (100, 100, 150, 140)


def test_numbers_continue_over_images_and_letters_continue_after_z() -> None:
    state = apply_marks(SetOfMark(segmenter=TWO), start(images=(plain(), plain())))
    assert [m.label for m in state.sample.marks] == ["1", "2", "3", "4"]
    assert [m.image for m in state.sample.marks] == [0, 0, 1, 1]
    corners = [(x * 20, y * 20) for y in range(4) for x in range(7)]
    many = FixedDetector(tuple((x, y, x + 20, y + 20) for x, y in corners))
    labels = [m.label for m in apply_marks(SetOfMark(segmenter=many, text="letters")).sample.marks]
    assert labels[:2] == ["A", "B"]
    assert labels[-2:] == ["AA", "AB"]
    with pytest.raises(ValueError, match="labels 1, 2, 3, 4 already; set text: letters"):
        apply_marks(SetOfMark(segmenter=TWO), state)


def test_only_views_that_show_a_region_are_changed() -> None:
    state = start(images=(plain(), plain(100, 100)))
    state = state.replace(views=(*state.views, crop(state.views[0], 0, 100, 200, 150)))
    after = apply_marks(SetOfMark(segmenter=TWO, images=(0,), say="Mind the numbers."), state)
    assert after.views[0] is not state.views[0]
    assert after.views[1:] == state.views[1:]
    assert after.prompt == "Which?\nMind the numbers."
    assert after.views[0].parts == state.views[0].parts


@pytest.mark.parametrize(
    "stage",
    [
        SetOfMark(segmenter=FixedDetector(())),
        SetOfMark(),
        SetOfMark(segmenter=FixedDetector(((5, 5, 5, 9),))),
    ],
)
def test_without_a_region_the_setting_decides(stage: SetOfMark) -> None:
    why = "no region of 30 to 30000 pixels was found in image 0"
    with pytest.raises(ValueError, match=f"sample s1: {why}; set missing"):
        apply_marks(stage)
    state = start()
    kept = apply_marks(replace(stage, missing="keep"), state)
    assert kept.views == state.views and kept.notes == (f"{why}; kept as it is",)
    assert apply_marks(replace(stage, missing="abstain")).reason.startswith("abstained: no region")


@pytest.mark.parametrize(
    ("stage", "image", "fact"),
    [
        (
            SetOfMark(FixedDetector(((1, 1, 9, 9),), shape=(20, 30))),
            plain(),
            "image 0 are 30 x 20.*200 x",
        ),
        (SetOfMark(segmenter=TWO, images=(1,)), plain(), "images names 1"),
        (SetOfMark(detector=Detected(()), words=("mug",)), plain(), r"\('mug',\)"),
        (SetOfMark(segmenter=FixedDetector(((1, 1, 5, 5),))), plain(8, 8), "s1: number 1 .*4 x 4"),
        (SetOfMark(segmenter=Slic()), plain(1, 1), "no room"),
    ],
)
def test_a_mismatched_source_is_named(stage: SetOfMark, image: Picture, fact: str) -> None:
    with pytest.raises(ValueError, match=fact):
        apply_marks(stage, start(images=(image,)))


@pytest.mark.parametrize(("reply", "label"), CASES["replies"])
def test_a_number_in_a_reply(reply: str, label: str | None) -> None:
    assert read_choice(reply, ["3", "7", "12"]) == label


def test_letters_in_a_reply() -> None:
    replies = {"B": "B", "(AA)": "AA", "Answer: B": "B", "A cup is at (B).": "B", "A cup.": None}
    assert {reply: read_choice(reply, ["A", "B", "AA"]) for reply in replies} == replies


def reply_with(state: State, reply: str) -> State:
    return state.replace(messages=(Message("user", ("?",)), Message("assistant", (reply,))))


@tables.table
def test_a_reply_is_mapped_back_to_its_region(gives: Any, reply: str, answer: str | None) -> None:
    own = Point("B", 30, 30), Box("A", 121, 20, 182, 79)
    state = apply_marks(SetOfMark(segmenter=TWO), start(*own, choices=("left", "right")))
    after = ChosenMark(gives)(reply_with(state, reply), NoModel())
    assert after.answer == answer
    assert after.reason.startswith("unread: the reply names no region" if answer is None else "")


def test_two_letters_are_no_answer_and_a_point_lies_in_its_region() -> None:
    both = start(Point("A", 30, 30), Point("B", 60, 60), choices=("left", "right"))
    state = reply_with(apply_marks(SetOfMark(segmenter=TWO), both), "1")
    after = ChosenMark("letter")(state, NoModel())
    assert (after.answer, after.reason.split(",")[0]) == (None, "unread: the reply names region 1")
    x, y = map(float, str(ChosenMark("point")(state, NoModel()).answer).split(", "))
    assert 10 + 39 <= x < 110 - 39
    assert y == pytest.approx(49.5, abs=0.5)
    with pytest.raises(ValueError, match="sample s1 has no boxes or masks with numbers as labels"):
        ChosenMark()(both, NoModel())


@pytest.mark.parametrize("segmenter", [Felzenszwalb(scale=100, min_size=50), Slic(segments=8)])
def test_superpixels_partition_the_picture(segmenter: Any) -> None:
    pixels = np.full((120, 160, 3), 40, np.uint8)
    inside = np.zeros((120, 160), bool)
    inside[30:90, 40:120] = True
    pixels[inside] = (200, 60, 60)
    masks, kind = segmenter(pixels).masks, type(segmenter)
    assert (masks.sum(0) == 1).all() and (np.diff(masks.sum((1, 2))) <= 0).all()
    assert all(min((m & inside).sum(), (m & ~inside).sum()) <= 0.05 * m.sum() for m in masks)
    assert kind(longest=80)(pixels).masks.shape[1:] == (120, 160)
    assert len(kind(most=1)(pixels)) == 1
    assert kind()(pixels[:1, :1]).masks.shape == (1, 1, 1)
    names = ["most", "longest", "segments" if kind is Slic else "scale"]
    for name in names:
        with pytest.raises(ValueError, match=name):
            kind(**{name: 0})


@settings(max_examples=40, deadline=None)
@given(
    box=st.tuples(
        st.integers(0, 150), st.integers(0, 100), st.integers(30, 50), st.integers(30, 50)
    ),
    degrees=st.sampled_from([0, 90, 180, 270, 25]),
    stretch=st.floats(0.7, 1.6),
    mirrored=st.booleans(),
)
def test_the_drawing_covers_the_mapped_region(
    box: tuple[int, int, int, int], degrees: float, stretch: float, mirrored: bool
) -> None:
    """In each part the tint ends within 1 px of where the region's corners map to."""
    x, y, width, height = box
    state = start()
    view = resize(state.views[0], round(200 * stretch), round(150 * stretch))
    view = rotate(flip(view) if mirrored else view, degrees)
    pair = join_side_by_side([view, flip(view)], 7)
    source = FixedDetector(((x, y, x + width, y + height),))
    stage = SetOfMark(segmenter=source, color="red", alpha=1, contour=0, font_size=8, padding=1)
    pixels = apply_marks(stage, state.replace(views=(pair,))).views[0].pixels
    half = (pair.size[0] - 7) // 2
    for part, left in zip(pair.parts, (0, half + 7), strict=True):
        piece = pixels[:, left : left + half]
        red = (piece == (255, 0, 0)).all(-1)
        far = min(199, x + width - 1), min(149, y + height - 1)
        corners = part.affine([(x, y), (x, far[1]), (far[0], y), far])
        ys, xs = np.nonzero(red)
        seen = np.transpose([xs + left, ys])
        assert seen.min(0) == pytest.approx(corners.min(0), abs=1.51)
        assert seen.max(0) == pytest.approx(corners.max(0), abs=1.51)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 380), st.integers(0, 280), st.integers(2, 80), st.integers(2, 80)),
        min_size=1,
        max_size=14,
    )
)
def test_numbers_never_overlap(boxes: list[tuple[int, int, int, int]]) -> None:
    spots = []
    for number, (x, y, width, height) in enumerate(boxes):
        region = rasterize(Box(str(number), x, y, x + width, y + height), (400, 300))
        if region is not None:
            spots.append((str(number), region))
    placed = place_numbers(spots, {label: (13, 11) for label, _ in spots}, [(0, 0, 400, 300)])
    assert sorted(number.label for number in placed) == sorted(label for label, _ in spots)
    areas = [number.area for number in placed]
    assert all(intersect_boxes(area, (0, 0, 400, 300)) == area for area in areas)
    assert not any(overlaps(*pair) for pair in combinations(areas, 2))


def test_hues_are_distinct() -> None:
    first = np.array([choose_golden_ratio_color(n) for n in range(6)], float)
    away = np.linalg.norm(first[:, None] - first[None], axis=2) + 1000 * np.eye(6)
    assert away.min() > 60


def test_only_visible_regions_are_numbered() -> None:
    """A crop, and a resize in which thin regions fall between pixel centres."""
    stage = SetOfMark(FixedDetector(((0, 0, 40, 40), (100, 10, 180, 90))), font_size=8, min_area=0)
    state = start()
    cut = state.replace(views=(crop(state.views[0], 90, 0, 200, 150),))
    shown = apply_marks(stage, cut)
    assert [mark.label for mark in shown.sample.marks] == ["1"]
    away = state.replace(views=(crop(state.views[0], 0, 100, 50, 150),))
    kept = apply_marks(replace(stage, missing="keep"), away)
    assert not kept.sample.marks and "no view shows any of 2 regions" in kept.notes[0]
    with pytest.raises(ValueError, match="no view shows any of 2 regions"):
        apply_marks(stage, away)


@pytest.mark.parametrize("thin", [Box("", 50.6, 20, 51.2, 90), Box("", 20, 50.6, 90, 51.2)])
def test_a_thin_region_is_drawn_and_numbered_in_a_small_view(thin: Box) -> None:
    wide = (thin.y1 - thin.y0) < 1
    pixels = np.zeros((150, 200), bool)
    pixels[(50, slice(20, 90)) if wide else (slice(20, 90), 50)] = True
    for mark in (thin, Mask("", pixels)):
        state = start(mark)
        for side in (20, 33, 47):
            small = state.replace(views=(resize(state.views[0], side * 2, side),))
            after = apply_marks(SetOfMark(font_size=6, padding=0, min_area=0, color="red"), small)
            assert [own.label for own in after.sample.marks] == ["", "1"]
            red = after.views[0].pixels.astype(int)
            assert ((red[..., 0] - red[..., 1]) > 100).any()

"""Reading and removing burnt-in markers, on BLINK and on photographs with known markers."""

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from looktwice.eval.tasks import Blink
from looktwice.eval.tasks.photographs import load_photograph
from looktwice.extras.burnt_in import EraseMarks, RecoverMarks
from looktwice.extras.burnt_in.label_ocr import ReadLabel
from looktwice.extras.burnt_in.recover import FoundRectangle, _match_labels, find_label_words
from looktwice.pipelines.marks import Box, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import resize
from looktwice.prompting.markers import Circles, Label
from tests.burnt_in import draw_as_released, make_picture
from tests.tables import read_yaml

CASES = read_yaml(Path(__file__).with_name("recover.yaml"))

TWO: tuple[Any, ...] = (Point("A", 120, 140), Point("B", 300, 200))
RED = (255, 0, 0)


def state_of(
    *images: Pixels, choices: tuple[str, ...] = ("A is closer", "B is closer"), prompt: str = ""
) -> State:
    pictures = tuple(Picture(image) for image in images)
    return State.start(Sample("s1", "Which point?", pictures, choices, meta={"prompt": prompt}))


def recover(state: State, **settings: Any) -> State:
    return RecoverMarks(**settings)(state, NoModel())


def points(state: State) -> dict[str, Point]:
    return {mark.label: mark for mark in state.sample.marks if isinstance(mark, Point)}


def away(first: Point, second: Point) -> float:
    return float(np.hypot(first.x - second.x, first.y - second.y))


@pytest.fixture(scope="module")
def coffee() -> Pixels:
    return load_photograph("coffee")


@pytest.fixture(scope="module")
def real(shared_data: Path) -> Callable[[int], list[State]]:
    """Return every n-th real Relative_Depth sample with its markers, each read once."""
    if not (shared_data / "blink" / "Relative_Depth").is_dir():
        pytest.skip(f"no BLINK Relative_Depth under {shared_data}")
    samples = [item.sample for item in Blink(shared_data / "blink", "Relative_Depth")]
    read = cache(lambda number: recover(State.start(samples[number])))
    return lambda step: [read(number) for number in range(0, len(samples), step)]


@pytest.mark.slow
def test_photographs_with_markers() -> None:
    wrong, total, invented = [], 0, 0
    for seed in range(16):  # `make bench` tests two thousand
        burnt = make_picture(seed)
        marks = points(recover(State.start(burnt.sample)))
        invented += len(marks.keys() - {point.label for point in burnt.points})
        total += len(burnt.points)
        lost = [
            p.label for p in burnt.points if p.label not in marks or away(marks[p.label], p) > 2
        ]
        wrong += [f"{burnt.how}: {label}" for label in lost]
    assert len(wrong) <= 0.005 * total, wrong
    assert not invented


@pytest.mark.slow
def test_photographs_without_markers_have_none() -> None:
    burnt = [make_picture(seed, marked=False) for seed in range(8)]
    found = {b.how: recover(state_of(b.pixels)).sample.marks for b in burnt}
    assert not {how: marks for how, marks in found.items() if marks}


@pytest.mark.slow
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.nightly)])
def test_real_images_have_two_markers_in_the_released_style(
    real: Callable[[int], list[State]], step: int
) -> None:
    whole, states = 0, real(step)
    for state in states:
        looks = state.sample.meta["burnt_in"]
        whole += sorted(points(state)) == ["A", "B"] == sorted(look["label"] for look in looks)
        # ring: outer radius about 6; plate: about 31 to 16 px above the point, centred on it
        for look in looks:
            assert look["color"] == "red"
            assert 5 <= look["radius"] + look["stroke"] / 2 <= 8
            if look["plate"] and look["y"] > 32:
                left, top, right, bottom = look["plate"]
                assert top - look["y"] <= -30 and bottom - look["y"] >= -18
                assert left <= look["x"] < right
    assert whole >= len(states) - 1


@pytest.mark.slow
def test_real_images_without_circles_have_no_marks(shared_data: Path) -> None:
    if not (shared_data / "blink" / "Spatial_Relation").is_dir():
        pytest.skip(f"no BLINK Spatial_Relation under {shared_data}")
    samples = [item.sample for item in Blink(shared_data / "blink", "Spatial_Relation")][::12]
    for letters in (("A", "B"), ("REF",)):
        assert not [s.id for s in samples if recover(State.start(s), letters=letters).sample.marks]


@pytest.mark.slow
def test_existing_marks_are_kept_on_request_if_none_is_in_the_pixels(coffee: Pixels) -> None:
    given = (Point("A", 60, 50), Point("B", 90, 70))
    plain, burnt = coffee, draw_as_released(coffee, [TWO[0]], RED)
    for pixels, ours in ((plain, ()), (burnt, ("A",))):
        state = state_of(pixels)
        state = state.replace(sample=replace(state.sample, marks=given))
        assert recover(state).sample.marks == recover(state_of(pixels)).sample.marks
        kept = recover(state, given="keep", on_missing="fail")
        assert [*points(kept)] == ["A", "B"] and points(kept)["B"] == given[1]
        assert (points(kept)["A"] == given[0]) == (not ours), "the pixels come first"
        assert [look["label"] for look in kept.sample.meta["burnt_in"]] == [*ours]


@pytest.mark.parametrize("label_height", [2, 6, 12, 30])
def test_a_label_clipped_at_the_edge_is_recognised(coffee: Pixels, label_height: int) -> None:
    cut = Point("B", 300, 16 + label_height)
    marks = points(recover(state_of(draw_as_released(coffee, [TWO[0], cut], RED))))
    assert marks.keys() == {"A", "B"}
    assert away(marks["B"], cut) < 1.5


def test_reference_and_candidates_are_found_on_their_own_images(coffee: Pixels) -> None:
    first = draw_as_released(coffee, [Point("REF", 200, 10)], RED)  # its label is not visible
    spots = [Point(letter, 80 + 120 * n, 150 + 20 * n, 1) for n, letter in enumerate("ABCD")]
    choices = tuple(f"Point {letter}" for letter in "ABCD")
    second = draw_as_released(coffee, spots, RED)
    state = recover(state_of(first, second, choices=choices, prompt="labeled with REF."))
    marks = points(state)
    assert [point.image for point in marks.values()] == [0, 1, 1, 1, 1]
    assert max(away(marks[spot.label], spot) for spot in spots) < 1.5
    assert [mark.label for mark in state.sample.marks] == ["REF", "A", "B", "C", "D"]


def test_a_white_ring_on_white_is_inferred_from_the_other_markers() -> None:
    ground = np.full((300, 400, 3), 90, np.uint8)
    ground[:, 200:] = 246
    marks = points(recover(state_of(draw_as_released(ground, TWO, (255, 255, 255)))))
    assert marks.keys() == {"A", "B"}
    assert max(away(marks[mark.label], mark) for mark in TWO) < 2


@pytest.mark.parametrize(("choices", "prompt", "words"), CASES["label_words"])
def test_the_question_determines_the_labels_to_find(
    choices: tuple[str, ...], prompt: str, words: list[str]
) -> None:
    sample = Sample("s", "Which?", choices=choices, meta={"prompt": prompt})
    assert list(find_label_words(sample)) == words


def test_missing_markers_are_handled_as_configured(coffee: Pixels) -> None:
    bare = state_of(coffee)
    assert recover(bare).sample.marks == ()
    assert recover(bare, on_missing="abstain").reason == "abstained: no marker A, B was found"
    with pytest.raises(ValueError, match="sample s1: no marker A, B was found"):
        recover(bare, on_missing="fail")


def draw_boxes(ground: Pixels, seed: int) -> tuple[Pixels, list[Box]]:
    """Return a red box A and a green box B that overlap, after JPEG of quality 90."""
    rng, pixels = np.random.default_rng(seed), ground.copy()
    boxes: list[Box] = []
    for label, color in (("A", RED), ("B", (0, 255, 0))):
        x0, y0 = (int(v) for v in rng.integers(30, 70, 2) + 45 * len(boxes))
        x1, y1 = x0 + int(rng.integers(80, 220)), y0 + int(rng.integers(80, 170))
        thick = int(rng.integers(2, 5))
        cv2.rectangle(pixels, (x0, y0), (x1, y1), color, thick)
        pixels[y0 - 18 : y0 - 3, x0 : x0 + 14] = 0
        corner, white, face = (x0 + 2, y0 - 5), (255, 255, 255), cv2.FONT_HERSHEY_SIMPLEX
        cv2.putText(pixels, label, corner, face, 0.45, white, 1, cv2.LINE_AA)
        boxes.append(Box(label, x0, y0, x1, y1))
    return as_jpeg(pixels, 90), boxes


def as_jpeg(pixels: Pixels, quality: int) -> Pixels:
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "JPEG", quality=quality)
    return np.asarray(Image.open(data))


@pytest.mark.slow
def test_red_and_green_boxes_are_read_with_their_labels() -> None:
    names = ("coffee", "astronaut", "chelsea", "motorcycle", "rocket")
    right = 0
    for seed in range(15):
        pixels, boxes = draw_boxes(load_photograph(names[seed % 5])[:420], seed)
        marks = recover(state_of(pixels), kinds=("boxes",)).sample.marks
        found = {mark.label: mark.xyxy for mark in marks if isinstance(mark, Box)}
        assert found.keys() <= {"A", "B", "red", "lime"}
        off = [np.subtract(found.get(box.label, (99,) * 4), box.xyxy) for box in boxes]
        right += int((np.abs(off).max(1) <= 2).sum())
    assert right >= 0.9 * 30
    for seed in range(6):
        bare = state_of(make_picture(seed, marked=False).pixels)
        assert not recover(bare, kinds=("boxes",)).sample.marks


def test_labels_of_touching_boxes_are_not_swapped() -> None:
    outlines = [
        FoundRectangle(60, 60, 160, 170, 3, "red", 1),
        FoundRectangle(150, 80, 280, 200, 3, "lime", 1),
    ]
    read = [
        ReadLabel(text, 1, area := (x, y, x + 14, y + 15), area)
        for text, x, y in (("A", 60, 42), ("B", 150, 62))
    ]
    assert _match_labels(outlines, read) == dict(enumerate(read))
    assert _match_labels(outlines, read[::-1]) == dict(enumerate(read))
    assert _match_labels(outlines, read[:1] * 2) == {0: read[0]}
    assert _match_labels([], read) == _match_labels(outlines, []) == {}


def markers_of(state: State) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, for every marker, the distance of each pixel from the point and its plate."""
    height, width = state.sample.images[0].pixels.shape[:2]
    ys, xs = np.mgrid[:height, :width]
    for look in state.sample.meta["burnt_in"]:
        left, top, right, bottom = look["plate"] or (0, 0, 0, 0)
        plate = (xs >= left - 2) & (xs < right + 2) & (ys >= top - 2) & (ys < bottom + 2)
        yield np.hypot(xs - look["x"], ys - look["y"]), plate


def test_erasing_changes_only_the_marker(coffee: Pixels) -> None:
    read = recover(state_of(draw_as_released(coffee, TWO, RED)))
    clean = EraseMarks()(read, NoModel())
    before, after = read.views[0].pixels, clean.views[0].pixels
    changed = (before != after).any(-1)
    for distance, _ in markers_of(read):
        assert not changed[distance <= 2.5].any()
    spared = np.logical_and.reduce(
        [(distance > 9.5) & ~plate for distance, plate in markers_of(read)]
    )
    assert not changed[spared].any()
    assert clean.sample.marks == read.sample.marks
    assert clean.views[0].picture is clean.sample.images[0]
    assert not recover(clean).sample.marks
    error = np.abs(after.astype(float) - coffee)[changed].mean()
    assert error < np.abs(before.astype(float) - coffee)[changed].mean() / 4


def test_views_in_other_frames_are_cleaned_and_untouched_ones_kept(coffee: Pixels) -> None:
    state = state_of(draw_as_released(coffee, TWO, RED), coffee)
    large = resize(state.views[0], 900, 600)
    clean = EraseMarks()(recover(state.replace(views=(large, *state.views))), NoModel())
    assert clean.views[2] is state.views[1]
    assert clean.sample.images[1] is state.sample.images[1]
    assert not recover(state_of(clean.views[0].pixels)).sample.marks


def test_recoloured_holes_lose_the_colour_bleeding_of_jpeg() -> None:
    grey = np.full((300, 400, 3), 120, np.uint8)
    read = recover(state_of(as_jpeg(draw_as_released(grey, TWO, RED), 80)))
    tints = []
    for hole in ("keep", "recolor"):
        after = EraseMarks(hole=hole)(read, NoModel()).views[0].pixels.astype(int)
        holes = [after[p.y - 1 : p.y + 2, p.x - 1 : p.x + 2] for p in TWO]
        tints.append(max(np.ptp(pixels, -1).max() for pixels in holes))
    assert tints[0] > 30 and tints[1] < 10


def test_erasing_requires_recovery_first(coffee: Pixels) -> None:
    with pytest.raises(ValueError, match="RecoverMarks before EraseMarks"):
        EraseMarks()(state_of(coffee), NoModel())


@pytest.mark.slow
def test_real_items_are_erased_and_marked_anew(real: Callable[[int], list[State]]) -> None:
    stage = Circles(radius=9, thickness=2, color="white", label=Label(font_size=14))
    for read in real(16):
        clean = EraseMarks()(read, NoModel())
        assert not recover(clean, colors=("red",)).sample.marks
        anew = recover(state_of(stage(clean, NoModel()).views[0].pixels), colors=("white",))
        old, new = points(read), points(anew)
        assert new.keys() == {"A", "B"}
        assert max(away(old[label], new[label]) for label in "AB") < 1

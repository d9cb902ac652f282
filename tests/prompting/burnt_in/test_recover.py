"""Reading burnt-in markers and removing them: on real BLINK images, and on photographs whose
markers are known."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from looktwice.eval.tasks import Blink
from looktwice.eval.tasks.photographs import photograph
from looktwice.pipelines.marks import Box, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import resize
from looktwice.prompting.burnt_in import EraseMarks, RecoverMarks
from looktwice.prompting.burnt_in.label_ocr import ReadLabel
from looktwice.prompting.burnt_in.recover import FoundRectangle, _match_labels, label_words
from looktwice.prompting.markers import Circles, Label
from looktwice.prompting.markers.styles import BlinkReleasedStyle
from tests.burnt_in import as_released, made
from tests.prompting.scenes import table

CASES = table("burnt_in/recover.yaml")

TWO: tuple[Any, ...] = (Point("A", 120, 140), Point("B", 300, 200))
RED = (255, 0, 0)


def state_of(
    *images: Pixels, choices: tuple[str, ...] = ("A is closer", "B is closer"), prompt: str = ""
) -> State:
    pictures = tuple(Picture(image) for image in images)
    return State.start(Sample("s1", "Which point?", pictures, choices, meta={"prompt": prompt}))


def recovered(state: State, **settings: Any) -> State:
    return RecoverMarks(**settings)(state, NoModel())


def points(state: State) -> dict[str, Point]:
    return {mark.label: mark for mark in state.sample.marks if isinstance(mark, Point)}


def away(first: Point, second: Point) -> float:
    return float(np.hypot(first.x - second.x, first.y - second.y))


@pytest.fixture(scope="module")
def coffee() -> Pixels:
    return photograph("coffee")


@pytest.fixture(scope="module")
def real(shared_data: Path) -> list[Sample]:
    """The samples of the real Relative_Depth."""
    if not (shared_data / "blink" / "Relative_Depth").is_dir():
        pytest.skip(f"no BLINK Relative_Depth under {shared_data}")
    return [item.sample for item in Blink(shared_data / "blink", "Relative_Depth")]


def test_photographs_with_markers() -> None:
    wrong, total, invented = [], 0, 0
    for seed in range(24):  # two thousand are `make bench`
        burnt = made(seed)
        found = points(recovered(State.start(burnt.sample)))
        invented += len(found.keys() - {point.label for point in burnt.points})
        total += len(burnt.points)
        lost = [
            p.label for p in burnt.points if p.label not in found or away(found[p.label], p) > 2
        ]
        wrong += [f"{burnt.how}: {label}" for label in lost]
    assert len(wrong) <= 0.005 * total, wrong
    assert not invented


def test_photographs_without_markers_have_none() -> None:
    burnt = [made(seed, marked=False) for seed in range(8)]
    found = {b.how: recovered(state_of(b.pixels)).sample.marks for b in burnt}
    assert not {how: marks for how, marks in found.items() if marks}


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_real_images_have_their_two_markers_in_the_released_style(
    real: list[Sample], step: int
) -> None:
    whole = 0
    for sample in real[::step]:
        state = recovered(State.start(sample))
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
    assert whole >= len(real[::step]) - 1


def test_real_images_without_circles_have_no_marks(shared_data: Path) -> None:
    if not (shared_data / "blink" / "Spatial_Relation").is_dir():
        pytest.skip(f"no BLINK Spatial_Relation under {shared_data}")
    samples = [item.sample for item in Blink(shared_data / "blink", "Spatial_Relation")][::6]
    for letters in (("A", "B"), ("REF",)):
        assert not [
            s.id for s in samples if recovered(State.start(s), letters=letters).sample.marks
        ]


@pytest.mark.parametrize("label_height", [2, 6, 12, 30])
def test_a_label_that_the_rim_cuts_off_is_told_from_what_is_left(
    coffee: Pixels, label_height: int
) -> None:
    cut = Point("B", 300, 16 + label_height)
    found = points(recovered(state_of(as_released(coffee, [TWO[0], cut], RED))))
    assert found.keys() == {"A", "B"}
    assert away(found["B"], cut) < 1.5


def test_reference_and_candidates_are_found_on_their_own_images(coffee: Pixels) -> None:
    first = as_released(coffee, [Point("REF", 200, 10)], RED)  # its label is out of sight
    spots = [Point(letter, 80 + 120 * n, 150 + 20 * n, 1) for n, letter in enumerate("ABCD")]
    choices = tuple(f"Point {letter}" for letter in "ABCD")
    state = recovered(
        state_of(
            first, as_released(coffee, spots, RED), choices=choices, prompt="labeled with REF."
        )
    )
    found = points(state)
    assert {label: point.image for label, point in found.items()} == {
        "REF": 0,
        "A": 1,
        "B": 1,
        "C": 1,
        "D": 1,
    }
    assert max(away(found[spot.label], spot) for spot in spots) < 1.5
    assert [mark.label for mark in state.sample.marks] == ["REF", "A", "B", "C", "D"]


def test_a_white_ring_on_white_is_found_by_the_arrangement_of_the_other() -> None:
    ground = np.full((300, 400, 3), 90, np.uint8)
    ground[:, 200:] = 246
    found = points(recovered(state_of(as_released(ground, TWO, (255, 255, 255)))))
    assert {label: away(found[label], mark) < 2 for label, mark in zip("AB", TWO, strict=True)} == {
        "A": True,
        "B": True,
    }


@pytest.mark.parametrize(("choices", "prompt", "words"), CASES["label_words"])
def test_the_question_says_which_labels_to_look_for(
    choices: tuple[str, ...], prompt: str, words: tuple[str, ...]
) -> None:
    sample = Sample("s", "Which?", choices=choices, meta={"prompt": prompt})
    assert list(label_words(sample)) == words


def test_what_happens_with_a_missing_marker_is_a_setting(coffee: Pixels) -> None:
    bare = state_of(coffee)
    assert recovered(bare).sample.marks == ()
    assert recovered(bare, on_missing="abstain").reason == "abstained: no marker A, B was found"
    with pytest.raises(ValueError, match="sample s1: no marker A, B was found"):
        recovered(bare, on_missing="fail")


def boxed(ground: Pixels, seed: int) -> tuple[Pixels, list[Box]]:
    """A red box A and a green box B around about the same place, as JPEG of quality 90 gives them
    back."""
    rng, pixels = np.random.default_rng(seed), ground.copy()
    boxes: list[Box] = []
    for label, color in (("A", RED), ("B", (0, 255, 0))):
        x0, y0 = (int(v) for v in rng.integers(30, 70, 2) + 45 * len(boxes))
        x1, y1 = x0 + int(rng.integers(80, 220)), y0 + int(rng.integers(80, 170))
        thick = int(rng.integers(2, 5))
        cv2.rectangle(pixels, (x0, y0), (x1, y1), color, thick)
        pixels[y0 - 18 : y0 - 3, x0 : x0 + 14] = 0
        cv2.putText(
            pixels,
            label,
            (x0 + 2, y0 - 5),
            cv2.FONT_HERSHEY_SIMPLEX,
            0.45,
            (255, 255, 255),
            1,
            cv2.LINE_AA,
        )
        boxes.append(Box(label, x0, y0, x1, y1))
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "JPEG", quality=90)
    return np.asarray(Image.open(data)), boxes


def test_red_and_green_boxes_are_read_with_their_labels() -> None:
    right = total = 0
    for seed in range(15):
        pixels, boxes = boxed(
            photograph(("coffee", "astronaut", "chelsea", "motorcycle", "rocket")[seed % 5])[:420],
            seed,
        )
        found = {
            m.label: m
            for m in recovered(state_of(pixels), kinds=("boxes",)).sample.marks
            if isinstance(m, Box)
        }
        assert found.keys() <= {"A", "B", "red", "lime"}
        for box in boxes:
            total += 1
            right += (
                box.label in found
                and np.abs(np.subtract(found[box.label].xyxy, box.xyxy)).max() <= 2
            )
    assert right >= 0.9 * total
    for seed in range(6):
        assert not recovered(
            state_of(made(seed, marked=False).pixels), kinds=("boxes",)
        ).sample.marks


def test_labels_of_touching_boxes_are_not_swapped() -> None:
    outlines = [
        FoundRectangle(60, 60, 160, 170, 3, "red", 1),
        FoundRectangle(150, 80, 280, 200, 3, "lime", 1),
    ]
    read = [
        ReadLabel(text, 1, area := (x, y, x + 14, y + 15), area)
        for text, x, y in (("A", 60, 42), ("B", 150, 62))
    ]
    for order in (read, read[::-1]):
        assert {place: label.text for place, label in _match_labels(outlines, order).items()} == {
            0: "A",
            1: "B",
        }
    assert {
        place: label.text for place, label in _match_labels(outlines, read[:1] * 2).items()
    } == {0: "A"}
    assert _match_labels([], read) == _match_labels(outlines, []) == {}


def markers_of(state: State) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For every marker: how far each pixel is from the point, and whether its plate is there."""
    height, width = state.sample.images[0].pixels.shape[:2]
    ys, xs = np.mgrid[:height, :width]
    for look in state.sample.meta["burnt_in"]:
        left, top, right, bottom = look["plate"] or (0, 0, 0, 0)
        plate = (xs >= left - 2) & (xs < right + 2) & (ys >= top - 2) & (ys < bottom + 2)
        yield np.hypot(xs - look["x"], ys - look["y"]), plate


def test_erasing_changes_the_marker_alone(coffee: Pixels) -> None:
    read = recovered(state_of(as_released(coffee, TWO, RED)))
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
    assert not recovered(clean).sample.marks
    error = np.abs(after.astype(float) - coffee)[changed].mean()
    assert error < np.abs(before.astype(float) - coffee)[changed].mean() / 4


def test_views_of_another_frame_are_cleaned_too_and_untouched_ones_passed_on(
    coffee: Pixels,
) -> None:
    state = state_of(as_released(coffee, TWO, RED), coffee)
    large = resize(state.views[0], 900, 600)
    clean = EraseMarks()(recovered(state.replace(views=(large, *state.views))), NoModel())
    assert clean.views[2] is state.views[1]
    assert clean.sample.images[1] is state.sample.images[1]
    assert not recovered(state_of(clean.views[0].pixels)).sample.marks


def test_recoloured_holes_lose_the_tint_that_jpeg_smears_into_them() -> None:
    data = io.BytesIO()
    Image.fromarray(as_released(np.full((300, 400, 3), 120, np.uint8), TWO, RED)).save(
        data, "JPEG", quality=80
    )
    read = recovered(state_of(np.asarray(Image.open(data))))
    tints = []
    for hole in ("keep", "recolor"):
        after = EraseMarks(hole=hole)(read, NoModel()).views[0].pixels.astype(int)
        tints.append(
            max(
                np.ptp(after[point.y - 1 : point.y + 2, point.x - 1 : point.x + 2], -1).max()
                for point in TWO
            )
        )
    assert tints[0] > 30
    assert tints[1] < 10


def test_erasing_asks_for_recovering_first(coffee: Pixels) -> None:
    with pytest.raises(ValueError, match="RecoverMarks before EraseMarks"):
        EraseMarks()(state_of(coffee), NoModel())


def test_real_items_are_erased_and_marked_anew(real: list[Sample]) -> None:
    """Redrawn markers are read where the old ones were: nothing of the old style is left to be
    found."""
    stage = Circles(radius=9, thickness=2, color="white", label=Label(font_size=14))
    for sample in real[::16]:
        read = recovered(State.start(sample))
        clean = EraseMarks()(read, NoModel())
        assert not recovered(clean, colors=("red",)).sample.marks
        anew = recovered(state_of(stage(clean, NoModel()).views[0].pixels), colors=("white",))
        old, new = points(read), points(anew)
        assert new.keys() == {"A", "B"}
        assert max(away(old[label], new[label]) for label in "AB") < 1


def test_the_released_preset_on_erased_images_measures_like_the_old_markers(
    real: list[Sample],
) -> None:
    """Within half a pixel in place, and in the ring's size; the plates stand where they stood."""
    for sample in real[::15]:
        read = recovered(State.start(sample))
        anew = recovered(
            state_of(BlinkReleasedStyle()(EraseMarks()(read, NoModel()), NoModel()).views[0].pixels)
        )
        assert points(anew).keys() == points(read).keys()
        for old, new in zip(
            read.sample.meta["burnt_in"], anew.sample.meta["burnt_in"], strict=True
        ):
            assert np.hypot(old["x"] - new["x"], old["y"] - new["y"]) < 1
            assert old["radius"] + old["stroke"] / 2 == pytest.approx(
                new["radius"] + new["stroke"] / 2, abs=0.8
            )

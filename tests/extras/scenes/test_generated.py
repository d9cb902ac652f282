"""Do You See Me, generated: answer keys recomputed from the pixels, and the authors' shortcuts only
if requested."""

from __future__ import annotations

import ast
import csv
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.eval.tasks import Subset, TaskError
from looktwice.eval.tasks.outlines import make_circle
from looktwice.extras.do_you_see_me.subtasks import SUBTASKS
from looktwice.extras.scenes import GeneratedDoYouSeeMe
from looktwice.extras.scenes.canvas import fill_outline, make_blank, stroke_outline
from looktwice.extras.scenes.closure import make_outline
from looktwice.extras.scenes.generated import KINDS
from looktwice.extras.scenes.grids import (
    BACKGROUND_COLORS,
    CONTRAST_RATIOS,
    LETTER_DOTS,
    choose_foreground,
    compute_contrast,
)
from looktwice.extras.scenes.scene import Scene
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.marks import Box
from looktwice.pipelines.sample import Item
from tests.dysm_keys import spatial_answer
from tests.paths import DOCS
from tests.tables import table

SEVEN = sorted(SUBTASKS["2D"])
# the frames of the target and of the four options
PANELS = ((200, 100), (100, 400), (350, 400), (100, 650), (350, 650))
FOLDERS = {name: subtask.folders[0] for name, subtask in SUBTASKS["2D"].items()}


@cache
def make_items(name: str, n: int, official: bool = False, **controls: Any) -> tuple[Item, ...]:
    return tuple(GeneratedDoYouSeeMe(name, n=n, official=official, controls=controls))


def scenes(name: str, n: int, official: bool = False, **controls: Any) -> list[Scene]:
    """Like `made`, but without drawing."""
    task = GeneratedDoYouSeeMe(name, n=n, official=official, controls=controls)
    return [task.make_scene(number) for number in range(n)]


def gray(item: Item) -> Any:
    return item.sample.images[0].pixels.astype(int).sum(axis=2) // 3


def parts(ink: Any) -> tuple[int, Any, Any]:
    """Return the number of connected components of ink, their labels, and (left, top, width,
    height, area) of each."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    return count - 1, labels, stats[1:]


def panels(item: Item, size: int = 160, before: int = 0) -> list[Any]:
    """Return target and options of a sheet of patterns, as ink in 0..1."""
    ink = 1 - gray(item) / 255
    return [ink[y - before : y + size, x - before : x + size] for x, y in PANELS]


def closure_panels(item: Item) -> list[Any]:
    ink = 1 - gray(item) / 255
    middles = [(186, 90), *((x, 232) for x in (186, 462, 738, 1014))]
    return [ink[y - 52 : y + 54, x - 120 : x + 120] for x, y in middles]


def share(right: Sequence[bool]) -> float:
    return sum(right) / len(right)


# ---------------------------------------------------------------- all subtasks


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_items_do_not_depend_on_their_number(name: str) -> None:
    first, *rest = (item.sample.sha for item in make_items(name, 2))
    (alone,), (reseeded,) = make_items(name, 1), GeneratedDoYouSeeMe(name, n=1, seed=1)
    assert alone.sample.sha == first
    assert len({first, *rest, reseeded.sample.sha}) == 3


@pytest.mark.slow
def test_another_process_makes_the_same_samples() -> None:
    code = (
        "from looktwice.extras.scenes.generated import KINDS, GeneratedDoYouSeeMe as G\n"
        "for name in KINDS:\n"
        "    item = next(iter(G(name, n=1)))\n"
        "    print(name, item.sample.sha, item.answer)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = [
        f"{name} {make_items(name, 1)[0].sample.sha} {make_items(name, 1)[0].answer}"
        for name in KINDS
    ]
    assert done.stdout.splitlines() == here


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_stages_do_not_see_the_ground_truth(name: str) -> None:
    n = 4 if name in SEVEN else 2
    task = GeneratedDoYouSeeMe(name, n=n)
    controls = {control.name for control in KINDS[name].controls}
    more = {"dot", "contrast_ratio", "direction", "coordinates", "patches", "num_shapes"}
    more |= {"image", "subtask", "kind", "prompt", "official"}
    for number, item in enumerate(make_items(name, n)):
        sample, scene = item.sample.to_dict(), task.make_scene(number)
        assert sample["marks"] == []
        assert controls <= sample["meta"].keys() <= controls | more
        assert json.loads(json.dumps(item.truth)) == item.truth == scene.truth
        assert scene.answer == item.answer


@pytest.mark.parametrize(
    "name",
    [name if name in SEVEN else pytest.param(name, marks=pytest.mark.slow) for name in KINDS],
)
def test_marks_of_requested_objects_lie_in_the_picture(name: str) -> None:
    task = GeneratedDoYouSeeMe(name, n=1, marks=True)
    (marked,) = task
    assert make_items(name, 1)[0].sample.images[0].sha == marked.sample.images[0].sha
    width, height = marked.sample.images[0].size
    shades = gray(marked)
    labels = {mark.label for mark in marked.sample.marks}
    assert labels and len(labels) == len(marked.sample.marks)
    for mark in marked.sample.marks:
        assert isinstance(mark, Box)
        assert 0 <= mark.x0 < mark.x1 <= width and 0 <= mark.y0 < mark.y1 <= height
        x0, y0, x1, y1 = (round(edge) for edge in mark.xyxy)
        assert np.ptp(shades[max(0, y0 - 3) : y1 + 3, max(0, x0 - 3) : x1 + 3]) > 3, mark.label
    assert "mark" in task.facts.note


SHAPES, COLORED = "shape_discrimination", "joint_shape_color"
COUNTED = (SHAPES, COLORED, "patch_counting")
SOLIDS = (f"{SHAPES}_3d", f"{COLORED}_3d")  # test_solid_scenes.py has their marks


@pytest.mark.parametrize("name", [name for name in KINDS if name not in SOLIDS])
def test_only_counted_objects_can_be_marked(name: str) -> None:
    if name not in COUNTED:
        with pytest.raises(TaskError, match=f"{name} asks"):
            GeneratedDoYouSeeMe(name, marks="asked")
        return
    fewer, task = 0, GeneratedDoYouSeeMe(name, n=12, marks="asked")
    for asked, every in zip(task, GeneratedDoYouSeeMe(name, n=12, marks=True), strict=True):
        words = every.sample.question.replace("'s", "s").rstrip(".").split()
        boxes = [mark.xyxy for mark in every.sample.marks if isinstance(mark, Box)]
        if objects := every.truth.get("objects"):
            mine = [o for o in objects if f"{o['shape']}s" in words]
            mine = [o for o in mine if o.get("color", words[-1]) == words[-1]]
            boxes = [tuple(o["box"]) for o in mine]
        if name == "joint_shape_color":
            assert len(boxes) == int(every.answer or 0)
        assert [mark.xyxy for mark in asked.sample.marks if isinstance(mark, Box)] == boxes
        fewer += len(asked.sample.marks) < len(every.sample.marks)
    assert fewer == (0 if name == "patch_counting" else 12)
    assert "gives the count away" in task.facts.note


@pytest.mark.parametrize("name", KINDS)
def test_every_combination_of_levels_occurs_once_and_is_scored(name: str) -> None:
    task = GeneratedDoYouSeeMe(name, n=1)
    total = len(task._combinations)
    counts = Counter(tuple(task._plan(number).values()) for number in range(total))
    assert counts == Counter(task._combinations)
    kind, facts = KINDS[name], task.facts
    controls = tuple(control.name for control in kind.controls)
    assert (facts.scorer.controls, facts.scorer.form) == (controls, kind.form)
    assert (facts.split, facts.errata) == (f"made ({kind.group})", ())
    assert not kind.flaws or GeneratedDoYouSeeMe(name, official=True).facts.errata == kind.flaws


@pytest.mark.parametrize("name", SEVEN)
def test_levels_and_names_match_the_official_files(shared_data: Path, name: str) -> None:
    """`max_instances` and the like have the loader's names and order, at the levels of the CSV."""
    path = shared_data / "dysm" / "2D_DoYouSeeMe" / FOLDERS[name] / "dataset_info.csv"
    with path.open(encoding="utf-8") as file:
        sweeps = [ast.literal_eval(row["sweep"]) for row in csv.DictReader(file)]
    levels, controls = GeneratedDoYouSeeMe(name).levels, SUBTASKS["2D"][name].controls
    for control, official in zip(controls, zip(*sweeps, strict=True), strict=True):
        assert set(levels[control]) == set(official)
    assert [control for control in levels if control in controls] == list(controls)


@table
def test_canvases_have_the_sizes_of_the_authors(name: str, size: list[int]) -> None:
    most = {control: max(levels) for control, levels in GeneratedDoYouSeeMe(name).levels.items()}
    assert make_items(name, 1, **most)[0].sample.images[0].size == tuple(size)


def test_the_first_questions_never_change() -> None:
    """A change here is a change of behaviour: raise the version with it."""
    answers = {name: " ".join(item.answer or "" for item in make_items(name, 4)) for name in SEVEN}
    assert answers == PINNED
    assert getattr(GeneratedDoYouSeeMe, "version", 1) == 1


def test_subset_by_levels_and_by_answer() -> None:
    chosen = GeneratedDoYouSeeMe("form_constancy", n=40, subset=Subset(n=2, per="rotation"))
    assert Counter(item.sample.meta["rotation"] for item in chosen) == {5: 2, 25: 2, 50: 2}
    chosen = GeneratedDoYouSeeMe("patch_rotation", n=20, subset=Subset(n=1, per="answer"))
    assert sorted(item.answer or "" for item in chosen) == ["No", "Yes"]
    with pytest.raises(TaskError, match="keeps none of"):
        len(GeneratedDoYouSeeMe("patch_rotation", n=3, subset=Subset(n=0)))


@table
def test_impossible_levels_are_named(name: str, controls: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match=f"{name}: no scene with .* choose easier levels"):
        list(GeneratedDoYouSeeMe(name, n=1, controls=controls))


@pytest.mark.slow
@table
def test_levels_that_differ_from_the_paper(name: str, controls: dict[str, Any]) -> None:
    for item in make_items(name, 3, **controls):
        assert controls.items() <= item.sample.meta.items()


# ---------------------------------------------------------------- strokes


def test_edge_pixels_have_their_exact_coverage() -> None:
    pixels = make_blank(10, 10)
    fill_outline(pixels, np.array([[2.25, 3.5], [6.5, 3.5], [6.5, 7.0], [2.25, 7.0]]), (0, 0, 0))
    ink = 1 - pixels[:, :, 0] / 255
    assert ink.sum() == pytest.approx(4.25 * 3.5, abs=0.05)
    assert ink[5, 2] == pytest.approx(0.75, abs=0.01)
    assert ink[3, 4] == pytest.approx(0.5, abs=0.01)


def test_a_line_has_the_requested_width() -> None:
    for width in (0.5, 1, 2, 3):
        pixels = make_blank(100, 100)
        stroke_outline(pixels, make_circle(30, 50, 50), width)
        area = (1 - pixels[:, :, 0] / 255).sum()
        assert area == pytest.approx(2 * np.pi * 30 * width, rel=0.02)


# ---------------------------------------------------------------- the seven, from their pixels


def corners_of(mask: Any, share: float) -> int:
    """Return the corners of the largest component, simplified by a share of its perimeter."""
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    whole = max(contours, key=cv2.contourArea)
    return len(cv2.approxPolyDP(whole, share * cv2.arcLength(whole, True), True))


CORNERS = {
    "shape_discrimination": dict(
        triangle=3, rectangle=4, pentagon=5, hexagon=6, octagon=8, star=10
    ),
    "joint_shape_color": dict(triangle=3, pentagon=5, hexagon=6, octagon=8, star=10, cross=12),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "large", "share"), [(SHAPES, 1, 0.035), (COLORED, 0.6, 0.02)])
def test_kinds_of_shapes_can_be_told_from_their_corners(
    name: str, large: float, share: float
) -> None:
    """For large shapes: the corners of the filled outline; circles have many."""
    checked = 0
    for item in make_items(name, 24, **({"min_distance": 10} if name == SHAPES else {})):
        _, labels, _ = parts(gray(item) < 200)
        for thing in item.truth["objects"]:
            x0, y0, x1, y1 = (round(edge) for edge in thing["box"])
            if thing["shape"] in CORNERS[name] and thing["scale"] > large:
                mask = gray(item)[y0 - 1 : y1 + 1, x0 - 1 : x1 + 1] < 250
                if name == COLORED:
                    mask = labels == labels[round(thing["y"]), round(thing["x"])]
                assert corners_of(np.pad(mask, 2), share) == CORNERS[name][thing["shape"]], thing
                checked += 1
    assert checked > 15


def test_every_separate_ring_is_a_connected_component() -> None:
    for item in make_items(SHAPES, 18, min_distance=10):
        counts = item.truth["counts"]
        assert parts(gray(item) < 250)[0] == sum(counts.values())
        assert item.answer == str(counts[item.truth["asked"]])
        assert f"number of {item.truth['asked']}s" in item.sample.question


def test_colours_and_counts_match_the_pixels() -> None:
    palette = {
        "red": (255, 0, 0),
        "green": (0, 255, 0),
        "blue": (0, 0, 255),
        "orange": (255, 165, 0),
        "purple": (128, 0, 128),
        "black": (0, 0, 0),
        "gray": (128, 128, 128),
        "yellow": (255, 255, 0),
    }
    for item in make_items(COLORED, 27):
        pixels, (shape, color) = item.sample.images[0].pixels, item.truth["asked"]
        seen = Counter((t["shape"], t["color"]) for t in item.truth["objects"])
        assert str(seen[shape, color]) == item.answer
        assert item.sample.question == f"Count the number of {shape}'s that are {color}."
        assert parts(gray(item) < 250)[0] == len(item.truth["objects"])
        for thing in item.truth["objects"]:
            there = pixels[round(thing["y"] - 0.5), round(thing["x"] - 0.5)]
            assert tuple(there.tolist()) == palette[thing["color"]]


LETTERS = {
    "A": ".###. #...# #...# ##### #...# #...# #...#",
    "K": "#...# #..#. #.#.. ##... #.#.. #..#. #...#",
    "Q": ".###. #...# #...# #...# #.#.# #..#. .##.#",
    "Z": "##### ....# ...#. ..#.. .#... #.... #####",
}


def test_letters_are_the_standard_ones() -> None:
    for letter, rows in LETTERS.items():
        assert [f"{bits:05b}" for bits in LETTER_DOTS[letter]] == rows.translate(
            {46: 48, 35: 49}
        ).split()
    assert len(set(LETTER_DOTS.values())) == 26


@pytest.mark.slow
@pytest.mark.parametrize("spacing", [0.04, 0.08, 0.1])
def test_letters_can_be_read_from_their_dots(spacing: float) -> None:
    """Components of ink are assigned to the grid of 7 x 5 whose pitch is a seventh of 320 px."""
    pitch = 320 / 7
    for item in make_items(
        "letter_disambiguation", 3, num_letters=5, contrast="2:1", spacing=spacing
    ):
        pixels = item.sample.images[0].pixels.astype(int)
        ink = np.abs(pixels - pixels[200, 2]).sum(axis=2) > 60
        ink[:, :30] = ink[:, -30:] = False  # the rounded corners of the ground
        _, _, found = parts(ink)
        read = ""
        for letter in range(5):
            rows = [0] * 7
            for x, y, w, h, _ in found:
                column = round((x + w / 2 - (480 * letter + 200)) / pitch) + 2
                row = round((y + h / 2 - 200) / pitch) + 3
                if 0 <= column < 5:
                    rows[row] |= 16 >> column
            read += next((name for name, dots in LETTER_DOTS.items() if dots == tuple(rows)), "?")
        assert read == item.answer


def grid_in(
    ink: Any, number: int, rows: int, columns: int
) -> dict[tuple[int, int], tuple[str, str]]:
    """Read a grid from the pixels: the right side of a square is black near its top, that of a
    circle half-way."""
    found = {}
    for row, column in product(range(rows), range(columns)):
        x, y = 20 + number * (columns * 55 + 50) + column * 55, row * 55
        shape = "circle" if ink[y + 25, x + 49] else "triangle"
        shape = "square" if ink[y + 12, x + 49] else shape
        found[row, column] = shape, "black" if ink[y + 30, x + 25] else "white"
    return found


@pytest.mark.slow
@pytest.mark.parametrize("official", [False, True])
def test_spatial_answers_match_the_pixels(official: bool) -> None:
    for item in make_items("visual_spatial", 12, official):
        rows, columns, grids = (item.sample.meta[name] for name in ("rows", "columns", "grids"))
        seen = [grid_in(gray(item) < 100, number, rows, columns) for number in range(grids)]
        told = [np.reshape(grid, (-1, 2)).tolist() for grid in item.truth["grids"]]
        assert [list(map(list, grid.values())) for grid in seen] == told
        assert str(spatial_answer(item.sample.question, seen)) == item.answer


GROUND = "figure_ground"


def same_as_target(frames: Sequence[Any]) -> list[float]:
    """Return how much more or less ink each option has than the target, in black pixels."""
    return [float(np.abs(frame - frames[0]).sum()) for frame in frames[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("official", [False, True])
@pytest.mark.parametrize(("name", "controls"), [("form_constancy", {}), (GROUND, {"density": 0})])
def test_the_correct_pattern_equals_the_target_in_every_pixel(
    name: str, controls: dict[str, Any], official: bool
) -> None:
    for item in make_items(name, 12, official, **controls):
        away = same_as_target(panels(item, 200))
        assert away[int(item.answer or 0) - 1] < 1
        assert name == GROUND or sorted(away)[1] > (1 if official else 15)


@pytest.mark.slow
@pytest.mark.parametrize("official", [False, True])
def test_the_noisy_options_show_the_same_elements(official: bool) -> None:
    for item in make_items("figure_ground", 9, official):
        options = item.truth["options"]
        assert options[int(item.answer or 0) - 1] == item.truth["target"]
        target, *others = panels(item, 200)
        if official:  # only the target has no noise, so its ink is visible in the right option
            assert (others[int(item.answer or 0) - 1][target > 0.99] > 0.99).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", CLOSED := ["capsule", "star", "hexagon", "circle", "pentagon", "rectangle", "triangle"]
)
def test_the_correct_closure_matches_the_target(name: str) -> None:
    """The drawn parts of the correct option match the target; every other option deviates."""
    for item in make_items("visual_closure", 4, shape=name):
        target, *others = closure_panels(item)
        strays = [float(np.clip(other - target, 0, None).sum()) for other in others]
        right = int(item.answer or 0) - 1
        assert strays[right] < 3  # the square ends of lines at gaps
        assert min(stray for place, stray in enumerate(strays) if place != right) > 5
        assert (target.sum() - others[right].sum()) > 3  # there are gaps


def test_rectangles_are_counted() -> None:
    for item in make_items("patch_counting", 35):
        count, _, found = parts(gray(item) < 200)
        assert str(count) == item.answer == str(item.sample.meta["instances"])
        assert np.ptp(found[:, 4]) <= 0.35 * found[:, 4].max() + 3


def test_the_correct_square_is_rotated_by_the_angle() -> None:
    for item in make_items("patch_rotation", 48, size=(28, 42, 56, 70)):
        ink = (gray(item) < 128).astype(np.uint8)
        angles = []
        for half in (ink[:, :196], ink[:, 196:]):
            (contour,), _ = cv2.findContours(half, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
            angle = cv2.minAreaRect(contour)[2] % 90
            angles.append(min(angle, 90 - angle))
        assert angles[0] < 1
        assert angles[1] == pytest.approx(item.sample.meta["rotation"], abs=2.5)
        assert (item.answer == "Yes") == (item.sample.meta["rotation"] > 0)


def test_half_of_the_squares_are_not_rotated() -> None:
    assert Counter(item.answer for item in make_items("patch_rotation", 48)) == {
        "Yes": 24,
        "No": 24,
    }


# ---------------------------------------------------------------- the authors' shortcuts


def measure_differences(frames: Sequence[Any]) -> list[float]:
    """Return how much each option differs from the others, ignoring the target."""
    return [sum(float(np.abs(a - b).sum()) for b in frames[1:]) for a in frames[1:]]


SHORTCUTS: list[tuple[str, Callable[[Item], int]]] = [
    ("form_constancy", lambda item: int(np.argmax(measure_differences(panels(item, 230, 20))))),
    ("visual_closure", lambda item: int(np.argmin(measure_differences(closure_panels(item))))),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "guess"), SHORTCUTS, ids=[name for name, _ in SHORTCUTS])
def test_a_guesser_that_ignores_the_target_scores_at_chance(
    name: str, guess: Callable[[Item], int]
) -> None:
    official = share(
        [guess(item) + 1 == int(item.answer or 0) for item in make_items(name, 12, True)]
    )
    ours = share([guess(item) + 1 == int(item.answer or 0) for item in make_items(name, 36)])
    assert official > 0.6
    assert 0.1 < ours < 0.4


@pytest.mark.parametrize("official", [False, True])
def test_only_official_options_lose_their_circles(official: bool) -> None:
    """With shape_change, the option that holds circles was the answer."""
    alone = []
    for scene in scenes("form_constancy", 20, official, shape_change=1):
        options = scene.truth["options"]
        circles = [any(e["kind"] == "circle" for e in option) for option in options]
        if circles[int(scene.answer) - 1]:
            alone.append(sum(circles) == 1)
    assert share(alone) == 1 if official else share(alone) < 0.4


@pytest.mark.slow
@pytest.mark.parametrize("official", [False, True])
def test_noise_covers_the_target_too_unless_official(official: bool) -> None:
    for item in make_items("figure_ground", 9, official):
        expected = int(400 * item.sample.meta["density"])
        assert item.truth["noise"] == [0 if official else expected, *[expected] * 4]
        specks = [parts(frame > 0.2)[0] for frame in panels(item, 200)]
        if official:
            assert specks[0] <= item.sample.meta["num_shapes"]
        assert min(specks[1:]) > item.sample.meta["num_shapes"]
        assert official or specks[0] > item.sample.meta["num_shapes"]


@pytest.mark.parametrize("official", [False, True])
def test_options_are_equal_only_if_official(official: bool) -> None:
    items = make_items("figure_ground", 12, official, num_shapes=1, density=0)
    alike = [sum(d < 1 for d in same_as_target(panels(item, 200, 12))) > 1 for item in items]
    assert sum(alike) > 1 if official else not any(alike)


@pytest.mark.parametrize("official", [False, True])
def test_an_invisible_bend_occurs_only_if_official(official: bool) -> None:
    items = make_items("visual_closure", 12, official, shape="rectangle", edges_distorted=1)
    alike = 0
    for _, *options in map(closure_panels, items):
        alike += any(float(np.abs(a - b).sum()) < 2 for a, b in combinations(options, 2))
    assert alike > 1 if official else alike == 0


def test_the_official_capsule_is_bent_inwards() -> None:
    def convex(points: Any) -> bool:
        hull = cv2.convexHull(points.astype(np.float32))
        return bool(cv2.contourArea(hull) < 1.01 * cv2.contourArea(points.astype(np.float32)))

    assert convex(make_outline("capsule"))
    assert not convex(make_outline("capsule", official=True))


@pytest.mark.parametrize("official", [False, True])
def test_no_kind_of_shape_is_underrepresented_unless_official(official: bool) -> None:
    drawn = scenes(SHAPES, 18, official, num_shapes=7, min_distance=(10, -20))
    lost = sum(len(scene.truth["counts"]) < 7 for scene in drawn)
    assert lost > 2 if official else lost == 0


def test_official_colours_have_the_answer_one_and_ours_are_balanced() -> None:
    official = Counter(scene.answer for scene in scenes(COLORED, 45, True))
    ours = Counter(scene.answer for scene in scenes(COLORED, 35, max_instances=6))
    assert official["0"] == 0 and official["1"] / 45 > 0.7
    assert ours == {str(answer): 5 for answer in range(7)}


def test_always_answering_zero_scores_higher_if_official() -> None:
    official, ours = (scenes("visual_spatial", 54, kind) for kind in (True, False))
    zeros = [share([scene.answer == "0" for scene in drawn]) for drawn in (official, ours)]
    assert zeros[0] > 0.35 > zeros[1]


def test_contrast_follows_its_level_unless_official() -> None:
    ours = {
        level: [compute_contrast(choose_foreground(g, level, False), g) for g in BACKGROUND_COLORS]
        for level in CONTRAST_RATIOS
    }
    theirs = {
        level: [compute_contrast(choose_foreground(g, level, True), g) for g in BACKGROUND_COLORS]
        for level in CONTRAST_RATIOS
    }
    for level, wanted in CONTRAST_RATIOS.items():
        assert ours[level] == pytest.approx([wanted] * 5, abs=0.02)
    assert min(theirs[1]) < max(theirs[2])  # for some background easy is harder than medium
    assert compute_contrast((255, 255, 255), (0, 0, 0)) == pytest.approx(21)


PINNED = {
    "figure_ground": "3 2 1 4",
    "form_constancy": "1 2 3 4",
    "joint_shape_color": "1 3 0 0",
    "letter_disambiguation": "N E T EPSGHRHTH",
    "shape_discrimination": "10 6 4 4",
    "visual_closure": "4 2 3 1",
    "visual_spatial": "0 2 3 2",
}


# ---------------------------------------------------------------- the page of pictures


@pytest.fixture(scope="module")
def script() -> Any:
    """The script, loaded like a plugin because it is in no package."""
    return importlib.import_module(load_plugin(str(DOCS / "dysm.py")))


def test_the_page_matches_its_table(script: Any) -> None:
    page = (DOCS / "dysm.md").read_text(encoding="utf-8")
    pictures = {f"dysm/{path.name}" for path in (DOCS / "dysm").iterdir()}
    assert pictures == set(re.findall(r"\]\(([^)]+)\)", page))
    names = set()
    for group in script.groups():
        assert f"## {group.heading}" in page
        assert group.says in page, "docs/dysm.md is older than its table; run `python docs/dysm.py`"
        assert all(entry.task in page for entry in group.entries)
        names |= {entry.built.name for entry in group.entries}
    assert names == set(KINDS)


def test_an_entry_is_written_with_its_pictures(script: Any, tmp_path: Path) -> None:
    task = "{use: eval.tasks.GeneratedDoYouSeeMe, name: letter_disambiguation}"
    text = script.written(script.Entry(task, (0, 2)), "letters", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letters-1.webp", "letters-2.webp"]
    assert task in text and "Respond with the letters only" in text


@pytest.mark.slow
def test_published_samples_are_shown_next_to_ours(
    script: Any, shared_data: Path, tmp_path: Path
) -> None:
    count = script.beside(shared_data / "dysm", tmp_path)
    assert count == 21
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<img") == 3 * count == len(list(tmp_path.glob("*.png")))
    for name in ("visual_spatial-1", "form_constancy-50", "figure_ground-89", "visual_closure-100"):
        sizes = {cv2.imread(str(tmp_path / f"{name}-{place}.png")).shape for place in range(3)}  # type: ignore[union-attr]
        assert len(sizes) == 1, name

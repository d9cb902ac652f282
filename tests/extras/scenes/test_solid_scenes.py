"""The renderer compared with independent geometry, Do You See Me's 3D subtasks with the published
rows and sidecars, and the answers of specialists that are given the ground truth of every pixel."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from looktwice.eval.tasks.photographs import deal_evenly
from looktwice.extras.do_you_see_me.subtasks import SUBTASKS, read_controls
from looktwice.extras.scenes import GeneratedDoYouSeeMe, RenderedScenes, rendered_scenes
from looktwice.extras.scenes.scene import Scene
from looktwice.extras.scenes.scenes3d import (
    GAMMA,
    GROUND,
    SHAPES,
    SKY,
    Camera,
    Solid,
    View,
    World,
    draw_grain,
)
from looktwice.extras.scenes.solid_scenes import SOLID_SCENE_TYPES
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import Stage, State
from looktwice.specialists.answers import (
    CameraMotion,
    Count,
    DarkerPoint,
    MatchedPoint,
    NearerPoint,
    SpatialRelation,
)
from looktwice.specialists.results import Boxes, DepthMap, Matches
from tests.dysm_keys import QUESTIONS_3D, sidecar_answer

FIVE = tuple(SOLID_SCENE_TYPES)


def small_view(*solids: Solid, eye: Any = (0.0, -10.0, 4.0), size: Any = (96, 72)) -> View:
    grain = draw_grain(np.random.default_rng(0))
    return View(World(solids, (0.3, 0.3, 0.3), grain), Camera(eye, (0.0, 0.0, 1.0), size))


# ---------------------------------------------------------------- the renderer


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_every_pixel_lies_on_the_surface_of_its_solid(shape: str, axis: Any) -> None:
    solid = Solid(shape, "red", (0.4, 0.0, 1.5), 1.2, axis, 25)
    assert solid.rotation_matrix == pytest.approx(
        Rotation.from_euler(axis, 25, degrees=True).as_matrix()
    )
    view = small_view(solid)
    hit = view.hits.identity == 0
    own = (view.points[hit] - solid.center) @ solid.rotation_matrix / solid.size
    radial, along = np.hypot(own[:, 0], own[:, 1]), own[:, 2]
    off = {
        "cube": np.abs(own).max(axis=1) - 1,
        "sphere": np.linalg.norm(own, axis=1) - 1,
        "cylinder": np.maximum(radial, np.abs(along)) - 1,
        "cone": np.maximum(radial - (1 - along) / 2, -1 - along),
        "torus": np.hypot(radial - 0.75, along) - 0.25,
    }[shape]
    assert hit.sum() > 200 and np.abs(off).max() < 2e-3
    normals = view.hits.normal[hit]
    to_eye = np.array(view.camera.eye) - view.points[hit]
    assert np.linalg.norm(normals, axis=1) == pytest.approx(1)
    assert (normals * to_eye).sum(axis=1).min() > -0.02
    assert solid.to_dict()["albedo"] == pytest.approx(solid.albedo, abs=1e-4)
    assert view.hits.albedo[hit] == pytest.approx(np.tile(solid.albedo, (hit.sum(), 1)))


def test_distances_match_the_sphere_and_the_ground_plane() -> None:
    view = small_view(Solid("sphere", "blue", (0.0, 2.0, 1.0)), size=(97, 73))
    eye, middle = np.array(view.camera.eye), (36, 48)
    rays = view.camera.compute_rays(view.camera.pixel_centers).reshape(73, 97, 3)
    gap = np.array((0.0, 2.0, 1.0)) - eye
    along = rays @ gap
    inside = along**2 - gap @ gap + 1
    sphere = np.where(inside > 0, along - np.sqrt(inside.clip(0)), np.inf)
    with np.errstate(divide="ignore"):
        ground = np.where(rays[..., 2] < 0, -eye[2] / rays[..., 2], np.inf)
    nearest = np.minimum(sphere, ground)
    finite = np.isfinite(nearest) & (np.abs(inside) > 0.02)
    assert view.hits.distance[finite] == pytest.approx(nearest[finite], abs=2e-3)
    assert view.hits.identity[middle] == 0 and view.hits.identity[-1, 0] == GROUND
    assert small_view(eye=(0.0, -10.0, 0.5)).hits.identity[0, 0] == SKY
    places = view.camera.project(view.points[20:60:9, 10:90:9].reshape(-1, 3))
    assert places[0] == pytest.approx((10, 20)) and places[-1] == pytest.approx((82, 56))


def test_a_shadow_falls_away_from_the_lamp_and_darkens_evenly() -> None:
    solid = Solid("cube", "white", (0.0, 0.0, 1.0), 0.5)
    view = small_view(solid, eye=(10.0, 0.0, 3.0))
    away = np.array(solid.center) - np.array(view.world.light)
    behind = np.array(view.world.light) + away * (view.world.light[2] / -away[2])
    places = view.camera.project(np.stack([behind, behind * (-1.5, -1.5, 1)])).round().astype(int)
    shares = view.hits.radiance / view.hits.albedo
    dark, bright = (shares[y, x, 0] for x, y in places)
    assert [view.hits.identity[y, x] for x, y in places] == [GROUND, GROUND]
    assert dark == pytest.approx(0.35) and bright > 0.7


def test_another_view_shows_the_same_points_unless_occluded() -> None:
    first = small_view(Solid("cube", "red", (0.0, 0.0, 1.0)), Solid("sphere", "blue", (2.0, 3, 1)))
    second = View(first.world, Camera((5.0, -9.0, 4.0), (0.0, 0.0, 1.0), (96, 72)))
    pixels = first.camera.pixel_centers.astype(int)
    landed, seen = first.locate_in(second, pixels)
    columns, rows = landed[seen].round().astype(int).T
    here = first.points[pixels[seen][:, 1], pixels[seen][:, 0]]
    there = second.points[rows, columns]
    same = first.hits.identity[pixels[seen][:, 1], pixels[seen][:, 0]]
    assert 0.4 < seen.mean() < 0.95
    assert np.median(np.linalg.norm(here - there, axis=1)[same >= 0]) < 0.15
    assert (second.hits.identity[rows, columns] == same).mean() > 0.95


# ---------------------------------------------------------------- Do You See Me's 3D subtasks


MANY = 8


@cache
def scenes(name: str, official: bool = False) -> tuple[Scene, ...]:
    task = GeneratedDoYouSeeMe(name, n=MANY, official=official)
    return tuple(map(task.make_scene, range(MANY)))


def read_published(data: Path, name: str) -> tuple[list[dict[str, str]], str, dict[str, Any]]:
    """Return the rows of a subtask, the stem of its sample and its sidecar."""
    folder = data / "dysm" / "3D_DoYouSeeMe" / SUBTASKS["3D"][name].folders[0]
    with (folder / "dataset_info.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    (sidecar,) = folder.glob("*.json")
    return rows, sidecar.stem, json.loads(sidecar.read_text())


REPEATS = {"letter_disambiguation": 2, "form_constancy": 4, "visual_spatial": 5}


@pytest.mark.parametrize("named", FIVE)
def test_published_rows_and_sidecars_follow_from_our_renderer(
    shared_data: Path, named: str
) -> None:
    kind = SOLID_SCENE_TYPES[named]
    rows, stem, sidecar = read_published(shared_data, kind.name)
    keys = {row["filename"]: row for row in rows}
    row = keys[f"{stem}.png"]
    assert sidecar_answer(kind.name, row["question"], sidecar) == row["answer"]
    drawn = scenes(named, official=True)
    fields = {re.sub(r"\d+", "0", name) for name in sidecar}
    assert {re.sub(r"\d+", "0", name) for name in drawn[0].truth["sidecar"]} == fields
    subtask = SUBTASKS["3D"][kind.name]
    sweeps = Counter(
        tuple(read_controls(subtask, row["sweep"], row["filename"]).values()) for row in rows
    )
    times = REPEATS.get(kind.name, 2)
    whole = dict.fromkeys(product(*(control.levels for control in kind.controls)), times)
    assert sweeps == whole
    assert tuple(control.name for control in kind.controls) == subtask.controls
    for row in rows:
        assert re.fullmatch(QUESTIONS_3D[kind.name], row["question"]), row["question"]


@pytest.mark.slow
@pytest.mark.parametrize("official", [False, True])
@pytest.mark.parametrize("name", FIVE)
def test_correct_answers_follow_from_the_sidecar(name: str, official: bool) -> None:
    for scene in scenes(name, official):
        sidecar = scene.truth["sidecar"]
        assert sidecar_answer(SOLID_SCENE_TYPES[name].name, scene.question, sidecar) == scene.answer


def view_of(scene: Scene) -> View:
    """Render the scene at half its size from its truth."""
    solids = []
    for part in scene.truth["objects"]:
        color, shape = part["name"].split()
        turn = part["axis"], part["degrees"]
        solids.append(Solid(shape, color, tuple(part["center"]), part["size"], *turn))
    fields = scene.truth["camera"]
    width, height = fields["size"]
    size = width // 2, height // 2
    camera = Camera(tuple(fields["eye"]), tuple(fields["target"]), size, fields["focal"])
    return View(small_view(*solids).world, camera)


COARSE = 0.06  # the largest difference of a share of few pixels between sizes


@pytest.mark.slow
def test_identities_show_the_promised_part_of_each_solid() -> None:
    least, hidden = list[float](), list[float]()
    for official, shares in ((False, least), (True, hidden)):
        task = GeneratedDoYouSeeMe(
            "shape_discrimination_3d",
            n=3,
            official=official,
            controls={"num_shapes": 5, "max_instances": 3, "min_visibility": 0.9},
        )
        shares += [
            view_of(task.make_scene(number)).measure_visible_shares().min() for number in range(2)
        ]
    assert min(least) >= 0.9 - COARSE
    assert min(hidden) < 0.9 - COARSE


def test_official_pairs_are_never_equal_and_ours_are_half_of_the_time() -> None:
    name = "form_constancy_3d"
    assert {scene.answer for scene in scenes(name, official=True)} == {"No"}
    ours = scenes(name)
    assert Counter(scene.answer for scene in ours) == {"Yes": MANY / 2, "No": MANY / 2}
    names = {part["name"].split()[1] for scene in ours for part in scene.truth["objects"]}
    assert names == set(SHAPES) - {"sphere"}
    for scene in ours:
        objects = scene.truth["objects"]
        half = len(objects) // 2
        turned = [bool(part["degrees"]) for part in objects]
        assert turned == [False] * half + [scene.answer == "No"] * half


def test_answers_of_grids_match_the_view_in_ours_and_are_mirrored_in_official_ones() -> None:
    for flaws, right in ((False, 1), (True, -1)):
        for scene in scenes("visual_spatial_3d", flaws):
            rows = [part["center"][1] for part in scene.truth["objects"]]
            across = view_of(scene).camera.project(
                np.array([part["center"] for part in scene.truth["objects"]])
            )[:, 0]
            first = [x for x, row in zip(across, rows, strict=True) if row == 0]
            assert (np.diff(first) * right > 0).all()
    zeros = [sum(s.answer == "0" for s in scenes("visual_spatial_3d", o)) for o in (False, True)]
    assert zeros[0] < MANY / 2 < zeros[1]


def test_most_official_colour_counts_are_one_and_ours_are_balanced() -> None:
    ours, official = (scenes("joint_shape_color_3d", flaws) for flaws in (False, True))
    assert Counter(scene.answer for scene in official)["1"] > 0.75 * MANY
    assert max(Counter(scene.answer for scene in ours).values()) <= MANY / 2


@pytest.mark.parametrize("name", ["shape_discrimination_3d", "joint_shape_color_3d"])
def test_the_number_of_marked_objects_is_the_correct_answer(name: str) -> None:
    for scene in scenes(name):
        assert len(scene.counted_marks) == int(scene.answer)
        assert len(scene.marks) == scene.truth["sidecar"]["num_objects"]


# ---------------------------------------------------------------- BLINK's tasks


@dataclass(frozen=True)
class Truth:
    """Every specialist at once, given the ground truth of the views that it recognises by their
    pixels."""

    views: Mapping[bytes, View]
    step: int = 7

    def of(self, pixels: Any) -> View:
        return self.views[pixels.tobytes()]

    def depth(self, image: Any, *others: Any) -> DepthMap:
        return DepthMap(self.of(image).hits.distance, larger_is_nearer=False)

    def albedo(self, pixels: Any) -> Any:
        return self.of(pixels).hits.albedo

    def matches(self, first: Any, second: Any) -> Matches:
        here = self.of(first)
        pixels = here.camera.pixel_centers.astype(int)[:: self.step]
        landed, seen = here.locate_in(self.of(second), pixels)
        return Matches(pixels[seen], landed[seen], np.ones(seen.sum()))

    def boxes(self, pixels: Any, words: Any = ()) -> Boxes:
        view, boxes, labels = self.of(pixels), list[list[float]](), list[str]()
        for number, solid in enumerate(view.world.solids):
            places = np.argwhere(view.hits.identity == number)[:, ::-1]
            for word in {*words} & {solid.name, f"{solid.color} objects"} if len(places) else ():
                boxes.append([*places.min(0).tolist(), *(places.max(0) + 1).tolist()])
                labels.append(word)
        return Boxes(np.array(boxes), np.ones(len(boxes)), np.array(labels))


@cache
def make_questions(kind: str, n: int) -> tuple[tuple[Item, ...], Truth]:
    """Return questions and the ground truth of their views, rendered once for both at half size;
    correspondence is at full size, since its points must be apart."""
    small = kind != "correspondence"
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(rendered_scenes, "PICTURE_SIZE", (240, 180))
        # no other test uses the small pictures of this seed
        task = RenderedScenes(kind, n=n, seed=83 if small else 0)
        drawn = [task.make_question(number) for number in range(n)]
        patch.setattr(RenderedScenes, "make_question", lambda self, number: drawn[number])
        items = tuple(task)
    return items, Truth({v.pixels.tobytes(): v for question in drawn for v in question.views})


def test_a_question_is_generated_once_for_all_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run and its page each have their own task object."""
    monkeypatch.setattr(rendered_scenes, "PICTURE_SIZE", (96, 72))
    (item,) = RenderedScenes("motion", n=1, seed=78)
    again, milder = (
        RenderedScenes("motion", n=3, seed=78, controls={"angle": angle}).item(item.sample.id)
        for angle in ((3, 8, 15), 30)
    )
    assert again is item is not milder


def share_right(stage: Stage, items: Sequence[Item]) -> float:
    answers = [stage(State.start(item.sample), NoModel()).answer for item in items]
    return float(np.mean([a == item.answer for a, item in zip(answers, items, strict=True)]))


def brightness(pixels: Any) -> Any:
    return (pixels / 255) ** GAMMA


def height(image: Any, *others: Any) -> DepthMap:
    rows = np.arange(image.shape[0], dtype=float)[:, None]
    return DepthMap(np.repeat(rows, image.shape[1], 1), larger_is_nearer=True)


SPECIALISTS: dict[str, tuple[int, Callable[[Truth], Stage]]] = {
    "depth": (8, lambda truth: NearerPoint(truth.depth)),
    "reflectance": (9, lambda truth: DarkerPoint(truth.albedo)),
    "motion": (2, lambda truth: CameraMotion(replace(truth, step=97).matches)),
    "correspondence": (8, lambda truth: MatchedPoint(truth.matches)),
    "relation": (2, lambda truth: SpatialRelation(truth.boxes, truth.depth)),
    "counting": (5, lambda truth: Count(truth.boxes)),
}


@pytest.mark.parametrize(
    "kind",
    [
        "relation",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in SPECIALISTS if kind != "relation"),
    ],
)
def test_a_specialist_given_the_ground_truth_is_always_correct(kind: str) -> None:
    n, stage = SPECIALISTS[kind]
    items, truth = make_questions(kind, n)
    assert share_right(stage(truth), items) == 1
    assert {item.answer for item in items} == {*items[0].sample.letters}


CUES: dict[str, tuple[Stage, float]] = {
    "depth": (NearerPoint(height), 1 / 2),
    "reflectance": (DarkerPoint(brightness), 1 / 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CUES)
def test_a_cue_of_the_picture_scores_at_chance(kind: str) -> None:
    cue, chance = CUES[kind]
    assert share_right(cue, make_questions(kind, SPECIALISTS[kind][0])[0]) == pytest.approx(chance)


@pytest.mark.slow
def test_wrong_points_nearer_to_the_place_of_the_reference_are_balanced() -> None:
    items, _ = make_questions("correspondence", 8)
    ranks = []
    for item in items:
        reference, *points = item.sample.marks
        shifts = {p.label: np.subtract(p.center, reference.center) for p in points}
        away = {label: float(np.hypot(*shift)) for label, shift in shifts.items()}
        ranks.append(sum(gap < away[item.answer or ""] for gap in away.values()))
    cards = [(letter, rank) for letter in "ABCD" for rank in range(4)]
    dealt = [deal_evenly(number, cards, "answer", "correspondence", 0) for number in range(8)]
    assert [(item.answer, rank) for item, rank in zip(items, ranks, strict=True)] == dealt

"""Two views: matches by reconstruction, the path of the camera, and Depth Anything 3."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from looktwice.extras.geometry import CameraPath, DepthAnythingViews, GeometricMatcher, Views
from looktwice.extras.networks import close_networks
from looktwice.extras.scenes import RenderedScenes
from looktwice.pipelines.config.classes import find_class
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers import CameraMotion, MatchedPoint
from looktwice.specialists.rules import NoEvidence
from tests.optional import optional
from tests.original_files import cat
from tests.paths import ROOT
from tests.specialists.scenes import run_stage, texture

torch = optional("torch")
HIGH, WIDE, FAR, FOCAL = 80, 100, 4.0, 100.0
ROOM = texture(WIDE, HIGH)
Floats = NDArray[np.float64]


def turn(degrees: float) -> Floats:
    """A turn to the right, from the space of camera 0 to that of a camera."""
    angle = np.radians(degrees)
    return np.array(
        [[np.cos(angle), 0, -np.sin(angle)], [0, 1, 0], [np.sin(angle), 0, np.cos(angle)]]
    )


def see(right: float = 0.4, degrees: float = 0.0, forward: float = 0.0) -> Views:
    """A wall at 4 units, seen by two cameras: the second stands further right and forward, and is
    turned to the right."""
    camera = np.array([[FOCAL, 0, WIDE / 2], [0, FOCAL, HIGH / 2], [0, 0, 1]])
    place, turned = np.array([right, 0, forward]), turn(degrees)
    columns, rows = np.meshgrid(np.arange(WIDE) + 0.5, np.arange(HIGH) + 0.5)
    rays = np.stack([columns, rows, np.ones_like(rows)], -1) @ np.linalg.inv(camera).T
    depth = (FAR - forward) / (rays @ turned)[..., 2]
    return Views(
        np.full((HIGH, WIDE), FAR),
        depth,
        np.linspace(0, 1, HIGH * WIDE).reshape(HIGH, WIDE),
        np.ones((HIGH, WIDE)),
        np.stack([camera, camera]),
        np.stack([np.eye(3, 4), np.column_stack([turned, -turned @ place])]),
    )


@dataclass(frozen=True, eq=False)
class Fixed:
    views: Views

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Views:
        return self.views


def match(views: Views, **settings: Any) -> Any:
    return GeometricMatcher(Fixed(views), **settings)(ROOM, ROOM)


def ask(question: str, *choices: str, marks: tuple[Point, ...] = ()) -> Sample:
    return Sample("s1", question, (Picture(ROOM), Picture(ROOM)), choices, marks)


@pytest.mark.parametrize("degrees", [0.0, 6.0, -6.0])
def test_matches_follow_the_homography_of_the_wall(degrees: float) -> None:
    views = see(degrees=degrees)
    found = match(views)
    turned, shift = views.extrinsics[1, :, :3], views.extrinsics[1, :, 3]
    plane = turned + np.outer(shift, [0, 0, 1 / FAR])
    plane = views.intrinsics[1] @ plane @ np.linalg.inv(views.intrinsics[0])
    expected = cv2.perspectiveTransform(found.xy0[:, None] + 0.5, plane)[:, 0] - 0.5
    assert 60 < len(found) <= 120
    np.testing.assert_allclose(found.xy1, expected, atol=1e-6)
    assert (np.diff(found.confidence) <= 0).all()
    if degrees == 0:
        np.testing.assert_allclose(
            found.xy1 - found.xy0, np.tile([-10.0, 0], (len(found), 1)), atol=1e-9
        )


def test_hidden_unknown_and_unseen_pixels_have_no_match() -> None:
    views = see()
    near = views.depth1.copy()
    near[:, 50:] = 2.0  # something in front of the wall
    found = match(replace(views, depth1=near))
    assert len(found) and found.xy1[:, 0].max() < 50
    unknown = views.depth0.copy()
    unknown[:40] = np.nan
    assert match(replace(views, depth0=unknown)).xy0[:, 1].min() >= 40
    assert len(match(see(degrees=180))) == 0
    assert len(match(see(right=50))) == 0
    assert len(match(views, step=20)) < len(match(views))


@pytest.mark.parametrize(
    ("right", "degrees", "answer"), [(0.4, 0, "B"), (-0.4, 0, "A"), (0.4, -9, "B"), (0.4, 9, "B")]
)
def test_the_place_of_the_second_camera_is_the_answer(
    right: float, degrees: float, answer: str
) -> None:
    asked = ask("Where does the camera move?", "left", "right")
    state = run_stage(CameraPath(Fixed(see(right, degrees))), asked)
    assert state.answer == answer


def test_matches_serve_the_rules_that_take_a_matcher() -> None:
    orbit = GeometricMatcher(Fixed(see(0.4, -9)))  # it turns left, so that the wall moves right
    asked = ask("Where does the camera move?", "left", "right")
    assert run_stage(CameraMotion(orbit), asked).answer == "B"
    places = {"A": (20, 40), "B": (40, 40), "C": (60, 20), "D": (80, 70)}
    marks = tuple(Point(label, *xy, image=1) for label, xy in places.items())
    found = ask("Which?", *places, marks=(Point("REF", 50, 40), *marks))
    assert run_stage(MatchedPoint(GeometricMatcher(Fixed(see()))), found).answer == "B"


@dataclass(frozen=True, eq=False)
class Truth:
    """The true geometry of rendered questions, by their pictures."""

    known: dict[bytes, Views]

    @classmethod
    def of(cls, task: RenderedScenes) -> "Truth":
        known = dict[bytes, Views]()
        for number in range(task.n):
            views, depths, cameras, places = task.make_views(number), [], [], []
            for view in views:
                own = (view.points - np.array(view.camera.eye)) @ view.camera.axes.T
                width, height = view.camera.size
                focal = view.camera.focal * width
                depths.append(own[..., 2])
                cameras.append([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
                axes, eye = view.camera.axes, np.array(view.camera.eye)
                places.append(np.column_stack([axes, -axes @ eye]))
            sure = np.ones_like(depths[0]), np.ones_like(depths[1])
            known[views[0].pixels.tobytes()] = Views(
                depths[0], depths[1], *sure, np.array(cameras), np.stack(places)
            )
        return cls(known)

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Views:
        return self.known[pixels0.tobytes()]


@pytest.mark.slow
def test_with_the_true_geometry_every_rendered_question_is_answered_correctly() -> None:
    motion, places = (RenderedScenes(kind, n=4) for kind in ("motion", "correspondence"))
    truth = Truth.of(motion)
    for item in motion:
        assert run_stage(CameraPath(truth), item.sample).answer == item.answer
        flow = CameraMotion(GeometricMatcher(truth))
        assert run_stage(flow, item.sample).answer == item.answer
    matched = MatchedPoint(GeometricMatcher(Truth.of(places)))
    right = [run_stage(matched, item.sample).answer == item.answer for item in places]
    assert sum(right) >= 3


def test_without_a_path_or_choices_it_abstains() -> None:
    for views, choices in [(see(0.0), ("left", "right")), (see(0.4), ("up", "down"))]:
        state = run_stage(CameraPath(Fixed(views)), ask("Where does it move?", *choices))
        assert state.answer is None
    one = Sample("s1", "Where?", (Picture(ROOM),), ("left", "right"))
    assert run_stage(CameraPath(Fixed(see())), one).answer is None


def test_views_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Views\.confidence1"):
        replace(see(), confidence1=np.ones((3, 3)))


def test_studies_name_the_classes_by_the_rooms_of_specialists() -> None:
    for path, own in [
        ("specialists.answers.CameraPath", CameraPath),
        ("specialists.maps.DepthAnythingViews", DepthAnythingViews),
        ("specialists.matching.GeometricMatcher", GeometricMatcher),
    ]:
        assert find_class(path) is own


@pytest.fixture
def da3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The folder of a small Depth Anything 3, for the package in `tests/authors`."""
    from safetensors.torch import save_file

    monkeypatch.syspath_prepend(str(Path(ROOT) / "tests" / "authors"))
    (tmp_path / "config.json").write_text('{"model_name": "da3-small"}')
    save_file({"scale": torch.full((2,), 3.0)}, tmp_path / "model.safetensors")
    yield str(tmp_path)
    close_networks()
    for name in [name for name in sys.modules if name.partition(".")[0] == "depth_anything_3"]:
        del sys.modules[name]


def test_depth_anything_3_resizes_the_results_of_its_package_to_the_images(da3: str) -> None:
    first, second = (np.ascontiguousarray(cat()[:100, at : at + 150]) for at in (0, 40))
    estimator = DepthAnythingViews(da3, device="cpu")
    views, network = estimator(first, second), estimator.network()
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(0)
        direct = network.inference([first, second])
    for number, depth, sure in (
        (0, views.depth0, views.confidence0),
        (1, views.depth1, views.confidence1),
    ):
        np.testing.assert_allclose(depth, cv2.resize(direct.depth[number], (150, 100)), rtol=1e-6)
        assert depth.shape == sure.shape == (100, 150)
        assert 0 < sure.min() < sure.max() < 1
        rows, columns = direct.depth.shape[1:]
        scales = np.diag([150 / columns, 100 / rows, 1])
        np.testing.assert_allclose(views.intrinsics[number], scales @ direct.intrinsics[number])
    np.testing.assert_array_equal(views.extrinsics, direct.extrinsics)
    np.testing.assert_array_equal(views.camera_path, [1, 0, 0])


def test_depth_of_images_of_two_sizes_is_known_inside_the_crop_of_the_package(da3: str) -> None:
    wide, high = np.ascontiguousarray(cat()[:100, :200]), np.ascontiguousarray(cat()[:200, :150])
    views = DepthAnythingViews(da3, device="cpu")(wide, high)
    for depth, pixels, known in ((views.depth0, wide, 0.75), (views.depth1, high, 0.5)):
        assert depth.shape == pixels.shape[:2]
        assert np.isfinite(depth).mean() == pytest.approx(known, abs=0.03)
        rows, columns = np.isfinite(depth).nonzero()
        middle = (rows.min() + rows.max()) / 2, (columns.min() + columns.max()) / 2
        assert middle == pytest.approx(
            ((pixels.shape[0] - 1) / 2, (pixels.shape[1] - 1) / 2), abs=2
        )
    for camera, pixels in zip(views.intrinsics, (wide, high), strict=True):
        assert camera[:2, 2] == pytest.approx((pixels.shape[1] / 2, pixels.shape[0] / 2))


def test_networks_without_cameras_and_other_input_are_refused(da3: str) -> None:
    with pytest.raises(NoEvidence, match="single colour"):
        DepthAnythingViews(da3, device="cpu")(ROOM, np.full((30, 30, 3), 9, np.uint8))
    with pytest.raises(ValueError, match="precision"):
        DepthAnythingViews(da3, dtype="float16")
    (Path(da3) / "config.json").write_text('{"model_name": "da3mono-large"}')
    close_networks()
    with pytest.raises(WeightsError, match="no cameras"):
        DepthAnythingViews(da3, device="cpu")(ROOM, ROOM)

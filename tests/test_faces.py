"""The face cascade: the face of a real photograph in its place, and none where there is none."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from skimage import data

from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import resize
from looktwice.pipelines.view import View
from looktwice.prompting.crops import Crop
from looktwice.prompting.zoom import ZoomOnDetections
from looktwice.specialists.faces import FaceCascade

FACE = (182, 76, 262, 168)  # brows to chin of the astronaut, by eye
OTHERS = ["camera", "coffee", "chelsea", "rocket", "coins", "brick", "grass", "immunohistochemistry"]


def photograph(name: str) -> Pixels:
    pixels = np.asarray(getattr(data, name)(), np.uint8)
    return np.ascontiguousarray(pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, 2))


def overlap(one: np.ndarray, two: tuple[float, ...]) -> float:
    across, down = min(one[2], two[2]) - max(one[0], two[0]), min(one[3], two[3]) - max(one[1], two[1])
    common = max(0, across) * max(0, down)
    return float(common / ((one[2] - one[0]) * (one[3] - one[1]) + (two[2] - two[0]) * (two[3] - two[1]) - common))


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_astronauts_face_is_found_in_its_place(scale: float, mirrored: bool) -> None:
    pixels = photograph("astronaut")
    view = resize(
        View.of(Picture(pixels[:, ::-1].copy() if mirrored else pixels)), round(512 * scale), round(512 * scale)
    )
    found = FaceCascade()(view.pixels)
    expected = (511 - FACE[2], FACE[1], 511 - FACE[0], FACE[3]) if mirrored else FACE
    assert len(found) == 1
    assert overlap(found.xyxy[0] / scale, expected) > 0.6
    assert found.labels.tolist() == ["face"]


@pytest.mark.parametrize("name", OTHERS)
def test_no_face_is_invented(name: str) -> None:
    assert len(FaceCascade()(photograph(name))) == 0


@pytest.mark.parametrize("shape", [(1, 1), (23, 80), (24, 24), (600, 3)])
def test_pictures_too_small_for_a_face_hold_none(shape: tuple[int, int]) -> None:
    assert len(FaceCascade()(np.zeros((*shape, 3), np.uint8), ("anything",))) == 0


def test_threads_find_the_same() -> None:
    faces = FaceCascade(scale=1.2, windows=1, longest=256)
    pixels = photograph("astronaut")
    alone = faces(pixels)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(faces, [pixels] * 8):
            np.testing.assert_array_equal(found.xyxy, alone.xyxy)
            np.testing.assert_array_equal(found.scores, alone.scores)
    assert (np.diff(alone.scores) <= 0).all()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"scale": 1.0}, "more than 1"),
        ({"smallest": 0.5, "largest": 0.2}, "smallest <= largest"),
        ({"windows": 0}, "windows is 1 or more"),
        ({"longest": 10}, "24 pixels or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        FaceCascade(**settings)  # type: ignore[arg-type]


def test_a_zoom_on_the_face_shows_it() -> None:
    state = State.start(Sample("s", "Who?", (Picture(photograph("astronaut")),)))
    after = ZoomOnDetections(FaceCascade(), crop=Crop(padding=0.1, aspect=1, upscale=336))(state, NoModel())
    (view,) = after.views
    assert view.size == (336, 336)
    assert after.notes == ()
    place = view.to_source(168, 168)
    assert place is not None
    assert np.hypot(place[1] - 222, place[2] - 118) < 20


def test_faces_in_real_questions(shared_data: Path) -> None:
    """Not a measure of the detector: the pipeline of bytes, boxes and map holds on pictures that nobody prepared."""
    import pyarrow.parquet as pq

    path = next((shared_data / "blink" / "Spatial_Relation").glob("*.parquet"))
    rows = pq.read_table(path, columns=["image_1"]).slice(0, 4).to_pylist()
    stage = ZoomOnDetections(FaceCascade(), crop=Crop(show="inset", most=1))
    for number, row in enumerate(rows):
        state = State.start(Sample(str(number), "Who?", (Picture.encoded(row["image_1"]["bytes"]),)))
        after = stage(state, NoModel())
        (view,) = after.views
        assert (view is state.views[0]) == any("kept as it is" in note for note in after.notes)
        assert view.size == state.views[0].size

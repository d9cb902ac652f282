"""Faces of real photographs are found and distinguished, and none is invented."""

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from skimage import data

from looktwice.extras.detection import FaceBoxes, FaceCascade, FaceRecognition, YuNet
from looktwice.pipelines.geometry import iou
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import resize
from looktwice.pipelines.view import View
from looktwice.prompting.views import ZoomOnDetections
from tests.specialists.scenes import photograph
from tests.tiny_yunet import yunet

FACE = (182, 76, 262, 168)  # brows to chin of the astronaut, by eye
OTHERS = ["camera", "coffee", "chelsea", "rocket", "coins", "brick", "grass"]
OTHERS += ["immunohistochemistry"]
needs_dlib = pytest.mark.skipif(
    None in map(find_spec, ("dlib", "face_recognition_models")),
    reason="dlib and its networks are not installed: pip install 'looktwice[faces]'",
)


def overlap(one: np.ndarray, two: tuple[float, ...]) -> float:
    return iou(tuple(one.tolist()), two)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_face_of_the_astronaut_is_found(scale: float, mirrored: bool) -> None:
    pixels = photograph("astronaut")
    seen, side = Picture(pixels[:, ::-1].copy() if mirrored else pixels), round(512 * scale)
    view = resize(View.of(seen), side, side)
    boxes = FaceCascade()(view.pixels)
    expected = (511 - FACE[2], FACE[1], 511 - FACE[0], FACE[3]) if mirrored else FACE
    assert len(boxes) == 1
    assert overlap(boxes.xyxy[0] / scale, expected) > 0.6
    assert boxes.labels.tolist() == ["face"]


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_no_face_is_found_where_there_is_none(name: str) -> None:
    assert len(FaceCascade()(photograph(name))) == 0


@pytest.mark.parametrize("shape", [(1, 1), (23, 80), (24, 24), (600, 3)])
def test_pictures_too_small_for_a_face_have_none(shape: tuple[int, int]) -> None:
    assert len(FaceCascade()(np.zeros((*shape, 3), np.uint8), ("anything",))) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "faces", [FaceCascade(scale=1.2, windows=1, longest=160), FaceRecognition()], ids=["cv", "dlib"]
)
def test_threads_find_the_same(faces: Any) -> None:
    pixels = photograph("astronaut")[:256, 100:356].copy()
    alone = faces(pixels)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(faces, [pixels] * 6):
            np.testing.assert_array_equal(found.xyxy, alone.xyxy)
            np.testing.assert_array_equal(found.scores, alone.scores)
    assert len(alone) and (np.diff(alone.scores) <= 0).all()


def small_faces(count: int) -> list[Pixels]:
    """Return other people: scikit-image's 25-pixel grey faces, enlarged ten times, with
    a border."""
    found = []
    for face in data.lfw_subset()[:count]:  # type: ignore[no-untyped-call]
        large = cv2.resize((face * 255).astype(np.uint8), (250, 250), interpolation=cv2.INTER_CUBIC)
        framed = cv2.copyMakeBorder(large, 80, 80, 80, 80, cv2.BORDER_REPLICATE)
        found.append(np.repeat(framed[..., None], 3, 2))
    return found


@pytest.mark.slow
@needs_dlib
def test_face_recognition_finds_and_distinguishes_real_faces() -> None:
    pixels, faces = photograph("astronaut")[:320, 100:420].copy(), FaceRecognition(threshold=0.5)
    dark = (pixels * 0.5).astype(np.uint8)
    mirrored, half = np.ascontiguousarray(pixels[:, ::-1]), cv2.resize(pixels, (160, 160))
    hers = [faces(np.asarray(image, np.uint8)) for image in (pixels, dark, mirrored, half)]
    assert [each.vectors.shape for each in hers] == [(1, 128)] * 4
    assert overlap(hers[0].xyxy[0] + (100, 0, 100, 0), FACE) > 0.6
    same = [np.linalg.norm(one.vectors[0] - two.vectors[0]) for one, two in combinations(hers, 2)]
    others = [each.vectors[0] for each in map(FaceRecognition(), small_faces(12)) if len(each) == 1]
    apart = [np.linalg.norm(hers[0].vectors[0] - other) for other in others]
    assert max(same) < 0.3 and len(others) >= 10 and min(apart) > 0.65


@pytest.mark.slow
@needs_dlib
def test_the_network_finds_the_same_face_as_the_histograms() -> None:
    pixels = photograph("astronaut")[:300, 100:400].copy()
    histograms, network = FaceRecognition()(pixels), FaceRecognition("cnn", upsample=0)(pixels)
    assert len(network) == 1 and overlap(network.xyxy[0], tuple(histograms.xyxy[0])) > 0.7
    assert np.linalg.norm(network.vectors[0] - histograms.vectors[0]) < 0.2


@needs_dlib
@pytest.mark.parametrize("size", [(1, 1), (5, 3), (40, 300), (120, 120)])
def test_a_uniform_image_has_no_face(size: tuple[int, int]) -> None:
    boxes = FaceRecognition()(np.full((*size, 3), 90, np.uint8))
    assert len(boxes) == 0 and boxes.vectors.shape == (0, 128)


@needs_dlib
def test_a_face_finder_can_replace_a_detector() -> None:
    pixels = photograph("astronaut")
    detector = FaceBoxes(FaceRecognition(threshold=0.5))
    assert detector(pixels, ["anything"]).labels.tolist() == ["face"]
    state = State.start(Sample("s", "Who?", (Picture(pixels),)))
    after = ZoomOnDetections(detector)(state, NoModel())
    assert after.views[0].size != state.views[0].size and after.notes == ()


@needs_dlib
def test_missing_or_broken_files_give_one_sentence(tmp_path: Path) -> None:
    pixels, five = photograph("coffee"), "shape_predictor_5_face_landmarks"
    with pytest.raises(WeightsError, match=f"{five}.dat in "):
        FaceRecognition(models=tmp_path)(pixels)
    with pytest.raises(WeightsError, match=r"none\.onnx.*set model:"):
        YuNet(tmp_path / "none.onnx")(pixels)
    for name in (f"{five}.dat", "dlib_face_recognition_resnet_model_v1.dat", "wrong.onnx"):
        (tmp_path / name).write_bytes(b"no network")
    with pytest.raises(WeightsError, match="dlib cannot read"):
        FaceRecognition(models=tmp_path)(pixels)
    with pytest.raises(WeightsError, match="not a YuNet"):
        YuNet(tmp_path / "wrong.onnx")(pixels)


def test_yunet_finds_the_boxes_that_its_file_encodes(tmp_path: Path) -> None:
    pixels = np.zeros((100, 130, 3), np.uint8)
    pixels[40:48, 64:72] = 255
    faces = YuNet(yunet(tmp_path / "tiny.onnx"), longest=130)
    boxes = faces(pixels)
    np.testing.assert_allclose(boxes.xyxy, [[60, 36, 76, 52]], atol=1e-3)
    assert boxes.scores[0] > 0.99 and boxes.vectors.shape == (1, 0)
    twice = np.repeat(np.repeat(pixels, 2, 0), 2, 1)
    np.testing.assert_allclose(faces(twice).xyxy, [[120, 72, 152, 104]], atol=1e-3)
    for size in ((1, 1), (3, 50), (64, 64)):
        assert len(faces(np.zeros((*size, 3), np.uint8))) == 0

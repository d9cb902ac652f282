"""Florence-2 compared with the steps of transformers on the same tiny network."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.extras.detection import Florence2
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime import use_result_store
from looktwice.specialists.rules import NoEvidence
from tests.optional import optional
from tests.specialists.scenes import noise

torch = optional("torch")
transformers = optional("transformers")

# wide, high, the network's own size, and larger than its input
SIZES = [(48, 80), (100, 30), (64, 64), (200, 300)]
LONGEST = 60


@pytest.fixture
def folder(built: Callable[[str], str]) -> str:
    return built("florence2")


IMAGES = [noise(size, seed) for seed, size in enumerate(SIZES)]


def run_transformers(
    folder: str, image: Pixels, task: str, words: str = "", dtype: str = "float32"
) -> Any:
    """Run processor, network and post-processing of transformers as documented."""
    processor = transformers.AutoProcessor.from_pretrained(folder, backend="pil")
    number = getattr(torch, dtype)
    kind = transformers.Florence2ForConditionalGeneration
    network = kind.from_pretrained(folder, dtype=number).eval()
    inputs = processor(images=image, text=task + words, return_tensors="pt").to("cpu", number)
    with torch.inference_mode():
        written = network.generate(**inputs, max_new_tokens=LONGEST, num_beams=3, do_sample=False)
    text = processor.batch_decode(written, skip_special_tokens=False)[0]
    height, width = image.shape[:2]
    return processor.post_process_generation(text, task=task, image_size=(width, height))[task]


def select_upright(boxes: Any) -> Any:
    """Return the boxes with an area, because a random network writes some from right to left."""
    boxes = np.reshape(np.asarray(boxes, float), (-1, 4))
    return (boxes[:, 2:] > boxes[:, :2]).all(1), boxes


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_all_detections_match_transformers(folder: str, dtype: Any) -> None:
    detector = Florence2(folder, longest=LONGEST, device="cpu", dtype=dtype)
    number = 0
    for image in IMAGES:
        found, expected = detector(image), run_transformers(folder, image, "<OD>", dtype=dtype)
        kept, boxes = select_upright(expected["bboxes"])
        np.testing.assert_array_equal(found.xyxy, boxes[kept])
        assert found.labels.tolist() == np.array(expected["labels"], str)[kept].tolist()
        assert set(found.scores) <= {1.0}
        number += len(found)
    assert number > 3


@pytest.mark.slow
def test_words_are_searched_separately_and_phrases_together(folder: str) -> None:
    image = IMAGES[3]
    found = Florence2(folder, longest=LONGEST, device="cpu")(image, ["Cat", "red box."])
    task = "<OPEN_VOCABULARY_DETECTION>"
    expected = [
        run_transformers(folder, image, task, word)["bboxes"] for word in ("cat", "red box")
    ]
    lists = [boxes[kept] for kept, boxes in map(select_upright, expected)]
    np.testing.assert_array_equal(found.xyxy, np.concatenate(lists))
    assert found.labels.tolist() == ["cat"] * len(lists[0]) + ["red box"] * len(lists[1])
    assert all(map(len, lists))
    phrases = Florence2(folder, task="phrases", longest=LONGEST, device="cpu")
    together = run_transformers(folder, image, "<CAPTION_TO_PHRASE_GROUNDING>", "cat, red box")
    kept, boxes = select_upright(together["bboxes"])
    np.testing.assert_array_equal(phrases(image, ["cat", "red box"]).xyxy, boxes[kept])
    assert kept.any()
    with pytest.raises(NoEvidence, match="needs words to look for"):
        phrases(image, [" "])


@pytest.mark.slow
def test_lines_of_text_are_the_bounds_of_their_corners(folder: str, tmp_path: Path) -> None:
    reader = Florence2(folder, task="text", longest=LONGEST, device="cpu")
    number = 0
    for image in IMAGES:
        expected = run_transformers(folder, image, "<OCR_WITH_REGION>")
        quads = np.reshape(expected["quad_boxes"], (-1, 4, 2))
        lines = reader(image)
        np.testing.assert_array_equal(lines.xyxy, np.hstack((quads.min(1), quads.max(1))))
        assert lines.labels.tolist() == expected["labels"]
        number += len(lines)
    assert number > 3
    letter = str(reader(IMAGES[0]).labels[0])[-1]
    chosen = reader(IMAGES[0], letter.upper())
    assert set(chosen.labels) == {letter.upper()} and 0 < len(chosen) <= len(reader(IMAGES[0]))
    with use_result_store(tmp_path):
        assert len(reader(IMAGES[0], ["no such word"])) == 0 < len(reader(IMAGES[0]))
    assert len(list(tmp_path.rglob("*.npz"))) == 1  # an image is encoded once for any request


@pytest.mark.slow
@pytest.mark.parametrize("task", ["things", "phrases", "text"])
def test_a_batch_of_mixed_sizes_equals_single_calls(folder: str, task: Any) -> None:
    detector = Florence2(folder, task=task, longest=LONGEST, device="cpu")
    words = [["cat"], ["dog", "cat"], ["cat"], ["dog", "cat"]]
    calls = list(zip(IMAGES, words, strict=True))
    for given, boxes in zip(calls, detector.many(calls), strict=True):
        alone = detector(*given)
        np.testing.assert_array_equal(boxes.xyxy, alone.xyxy)
        assert boxes.labels.tolist() == alone.labels.tolist()
        height, width = given[0].shape[:2]
        assert (boxes.xyxy >= 0).all() and (boxes.xyxy <= [width, height, width, height]).all()


def test_settings_have_an_effect(folder: str) -> None:
    detector = Florence2(folder, longest=LONGEST, device="cpu")
    every = detector(IMAGES[0], ["cat", "dog"])
    assert len(replace(detector, most=1)(IMAGES[0], ["cat", "dog"])) == 1 < len(every)
    assert len(replace(detector, longest=10)(IMAGES[0], ["cat", "dog"])) < len(every)

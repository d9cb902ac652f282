"""SAM 3 and EdgeTAM compared with the steps of transformers, with tiny networks."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from looktwice.extras.detection import MaskBoxes
from looktwice.extras.segmentation import SAM, SAM3
from looktwice.extras.segmentation.sam3 import resize_to_square
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime import use_result_store
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.results import Boxes, Masks
from looktwice.specialists.rules import NoEvidence
from tests.optional import optional
from tests.specialists.scenes import noise

torch = optional("torch")
transformers = optional("transformers")

# wide, high, the network's own size, and larger than its input
SIZES = [(48, 80), (100, 30), (56, 56), (200, 300)]
LEVEL = 0.03


IMAGES = [noise(size, seed) for seed, size in enumerate(SIZES)]


@pytest.fixture(params=["concepts", "video"])
def model(request: pytest.FixtureRequest, built: Callable[[str], str]) -> str:
    """The detector of concepts alone, and as it is published, with a tracker."""
    return built(request.param)


def test_images_are_preprocessed_as_by_transformers() -> None:
    """With its processor, or PIL's filter, which differs by at most one level."""
    whole = find_spec("torchvision") is not None
    for image in IMAGES:
        if whole:
            processor = transformers.Sam3ImageProcessor(size={"height": 56, "width": 56})
            seen = processor(images=image, return_tensors="pt")["pixel_values"]
        else:
            small = np.asarray(Image.fromarray(image).resize((56, 56), Image.Resampling.BILINEAR))
            seen = torch.from_numpy((small / 255 - 0.5) / 0.5).permute(2, 0, 1)[None].float()
        np.testing.assert_allclose(
            resize_to_square(image, 56), seen, atol=1e-6 if whole else 1 / 127.4
        )


@pytest.mark.slow
def test_masks_match_transformers(model: str) -> None:
    """Uses network and post-processing directly as documented, a word at a time."""
    network = transformers.Sam3Model.from_pretrained(model).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    words = ("cat", "red box")
    sam = SAM3(model, words=words, threshold=LEVEL, device="cpu")
    for image, boxes in zip(IMAGES, sam.many(IMAGES), strict=True):
        assert len(boxes) > 2
        for word in words:
            text = tokenizer(word, padding="max_length", max_length=32, return_tensors="pt")
            given = {name: text[name] for name in ("input_ids", "attention_mask")}
            with torch.no_grad():
                out = network(pixel_values=resize_to_square(image, 56), **given)
            scores = (out.pred_logits.sigmoid() * out.presence_logits.sigmoid())[0].numpy()
            small = out.pred_masks.sigmoid()[:, scores > LEVEL]
            ours = boxes[boxes.labels == word]
            assert len(ours) == small.shape[1]
            order = np.argsort(-scores[scores > LEVEL], kind="stable")
            np.testing.assert_allclose(ours.scores, scores[scores > LEVEL][order], atol=1e-5)
            if len(ours):
                large = torch.nn.functional.interpolate(
                    small, image.shape[:2], mode="bilinear", align_corners=False
                )
                assert (ours.masks != (large[0] > 0.5).numpy()[order]).mean() < 1e-3


def assert_same(one: Masks, two: Masks) -> None:
    np.testing.assert_allclose(one.scores, two.scores, atol=1e-4)
    assert one.labels.tolist() == two.labels.tolist()
    assert one.masks.shape == two.masks.shape and (one.masks != two.masks).mean() < 0.002


def test_a_batch_of_mixed_sizes_equals_single_calls(model: str) -> None:
    sam = SAM3(model, words=("Dog", "cat"), threshold=0, most=8, device="cpu")
    together = sam.many(IMAGES)
    for image, found in zip(IMAGES, together, strict=True):
        assert_same(found, sam(image))
        assert found.masks.shape == (8, *image.shape[:2])
        assert (np.diff(found.scores) <= 0).all()
        assert set(found.labels) <= {"dog", "cat"}
    shares = [found.masks.mean() for found in together]
    assert min(shares) < 0.9 and max(shares) > 0.1


def test_words_of_a_call_replace_the_configured_ones(model: str) -> None:
    sam = SAM3(model, words=("cat",), threshold=0, most=5, device="cpu")
    detector = MaskBoxes(sam)
    own, asked = detector(IMAGES[0]), detector(IMAGES[0], ["Red box."])
    assert set(own.labels) == {"cat"} and set(asked.labels) == {"red box"}
    boxes = replace(sam, words=("red box",))(IMAGES[0])
    assert asked.scores.tolist() == boxes.scores.tolist() != own.scores.tolist()
    assert len(MaskBoxes(replace(sam, words=()))(IMAGES[0], "dog")) > 0
    with pytest.raises(NoEvidence, match="needs words to look for"):
        replace(sam, words=(" ",))(IMAGES[0])


def test_results_are_stored_by_word(model: str, tmp_path: Path) -> None:
    sam = SAM3(model, words=("cat",), threshold=0, most=5, device="cpu")
    with use_result_store(tmp_path / "results"):
        first, again = sam(IMAGES[0]), sam(IMAGES[0])
        other = replace(sam, words=("dog",))(IMAGES[0])
    assert_same(first, again)
    assert set(other.labels) == {"dog"}
    assert len(list((tmp_path / "results").rglob("*.npz"))) == 2
    # so that words of many threads are one batch
    assert sam._get_batcher() is replace(sam, words=("dog",))._get_batcher()


# The tracker and EdgeTAM, as kinds of SAM


def stretch(image: Pixels, side: int) -> Any:
    """Return an image as SAM 2 and EdgeTAM see it: stretched and normalized."""
    pixels = torch.from_numpy(image.copy()).permute(2, 0, 1)[None] / 255
    small = torch.nn.functional.interpolate(pixels, (side, side), mode="bilinear", antialias=True)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (small - mean.view(3, 1, 1)) / std.view(3, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tracker", "video", "edgetam"])
def test_other_kinds_of_sam_match_transformers(name: str, built: Callable[[str], str]) -> None:
    """Uses the network directly, with the box in pixels of its square input."""
    folder = built(name)
    kind = transformers.EdgeTamModel if name == "edgetam" else transformers.Sam3TrackerModel
    network = kind.from_pretrained(folder).eval()
    side = 64 if name == "edgetam" else 56
    sam = SAM(folder, device="cpu")
    boxes = np.array([[2.0, 3, 20, 25], [10, 5, 29, 40]])
    asked = Boxes(boxes, np.ones(2), np.array(["cat", "dog"]))
    shares = []
    for image, found in zip(IMAGES, sam.many([(image, asked) for image in IMAGES]), strict=True):
        height, width = image.shape[:2]
        scale = np.array([side / width, side / height] * 2)
        # the processor's boxes are pixel centres of the square, ours edges
        given = torch.from_numpy(boxes * scale - 0.5).float()[None]
        seen = stretch(image, 64) if name == "edgetam" else resize_to_square(image, 56)
        with torch.no_grad():
            out = network(pixel_values=seen, input_boxes=given, multimask_output=False)
            resize = torch.nn.functional.interpolate
            large = resize(out.pred_masks[0], (height, width), mode="bilinear")[:, 0]
        np.testing.assert_allclose(found.scores, out.iou_scores[0, :, 0].numpy(), atol=1e-5)
        assert (found.masks != (large > 0).numpy()).mean() < 1e-3
        assert found.labels.tolist() == ["cat", "dog"]
        shares.append(found.masks.mean())
        assert_same(sam(image, asked), found)
    assert min(shares) < 0.7 and max(shares) > 0.3


@pytest.mark.skipif(find_spec("timm") is not None, reason="timm is installed")
def test_edgetam_without_timm_names_the_package(tmp_path: Path) -> None:
    transformers.EdgeTamConfig().save_pretrained(tmp_path)
    box = Boxes(np.array([[0, 0, 9, 9.0]]), np.ones(1), np.array(["a"]))
    with pytest.raises(WeightsError, match="pip install timm"):
        SAM(str(tmp_path), device="cpu")(IMAGES[0], box)

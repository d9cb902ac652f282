"""Both versions of Segment Anything, their original files, and compositions of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from looktwice.extras.networks.opening import Place
from looktwice.extras.segmentation import SAM, GroundedSAM, SegmentEverything
from looktwice.extras.segmentation.sam import SamNetwork, open_sam
from looktwice.extras.segmentation.sam_files import MaskFilter
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.results import Boxes, Masks
from looktwice.specialists.rules import NoEvidence
from tests.optional import optional
from tests.specialists.scenes import noise

torch = optional("torch")
optional("transformers")

SIZES = [(48, 80), (100, 30), (64, 64), (1, 9), (200, 3)]
BOXES = Boxes(
    np.array([[0, 0, 3, 1], [1, 0, 2, 1.0]]), np.array([0.9, 0.4]), np.array(["cat", "dog"])
)
ANY = MaskFilter(iou=0, stability=0, overlap=1)


@pytest.fixture(params=["sam", "sam2", "sam2_video", "sam_file"])
def model(request: pytest.FixtureRequest, built: Callable[[str], str]) -> str:
    """The tiny networks, by folder or by file."""
    return built(request.param)


def assert_same(one: Masks, two: Masks) -> None:
    """Equal up to rounding: scores within 1e-4, masks except for 1 pixel in 500."""
    np.testing.assert_allclose(one.scores, two.scores, atol=1e-4)
    assert one.masks.shape == two.masks.shape
    assert (one.masks != two.masks).mean() < 0.002
    assert one.labels.tolist() == two.labels.tolist()


def test_a_box_gets_one_mask_with_its_label_and_a_batch_equals_single_calls(model: str) -> None:
    sam = SAM(model=model, device="cpu")
    images = [noise(size, seed) for seed, size in enumerate(SIZES)]
    alone = [sam(image, BOXES) for image in images]
    for image, each in zip(images, alone, strict=True):
        assert each.masks.shape == (2, *image.shape[:2]) and each.labels.tolist() == ["cat", "dog"]
    together = sam.predict_many([(image, BOXES.xyxy, None) for image in images])
    for one, other in zip(alone, together, strict=True):
        assert_same(Masks(other.masks, other.scores, BOXES.labels), one)
    assert not all((one.masks[0] == one.masks[1]).all() for one in alone)


def test_points_and_batch_size_do_not_change_results(model: str) -> None:
    image, points = noise((48, 80)), [[x, y] for x in (3, 40, 77) for y in (2, 44)]
    found = SAM(model=model, device="cpu").at(image, points)
    assert len(found) == 6
    assert_same(SAM(model=model, device="cpu", prompts=4).at(image, points), found)


def test_a_prompt_outside_the_image_is_refused() -> None:
    points: list[list[float]] = [[80, 10], [-1, 10], [10, 48], [np.nan, 10], [200, 200]]
    boxes: list[list[float]] = [[80, 0, 90, 20], [-30, 0, 0, 20], [10, 48, 20, 60]]
    boxes += [[10, 20, 10, 30], [30, 20, 10, 30], [np.nan, 0, 9, 9]]
    sam = SAM(model="no network is opened", device="cpu")
    for prompt in points + boxes:
        inside = [[4.0, 4.0], [1.0, 1.0, 9.0, 9.0]][len(prompt) == 4]
        with pytest.raises(ValueError, match="outside the image of 80 x 48"):
            sam.at(noise((48, 80)), [inside, prompt])


def test_prompts_at_and_beyond_the_edge_are_answered(model: str) -> None:
    sam, image = SAM(model=model, device="cpu"), noise((48, 80))
    assert len(sam.at(image, [[-0.5, -0.5], [79.5, 47.5]])) == 2
    assert len(sam.at(image, [[-20, -20, 5, 5], [70, 40, 200, 200]])) == 2


def test_everything_keeps_only_good_masks(model: str) -> None:
    sam, image = SAM(model=model, device="cpu"), noise((48, 80))
    every = SegmentEverything(sam, 4, ANY)(image)
    area = every.masks.mean((1, 2))
    assert 0 < len(every) <= 48 and (np.diff(area) <= 0).all() and area.min() > 0
    apart = SegmentEverything(sam, 4, MaskFilter(0, 0, 0.5))(image)
    assert 0 < len(apart) < len(every)
    assert len(SegmentEverything(sam, 4, MaskFilter(0, 0, 1, most=2))(image)) == min(2, len(every))
    assert len(SegmentEverything(sam, 4, MaskFilter(0, 0, 1, smallest=0.99))(image)) == 0
    best = SegmentEverything(sam, 4, MaskFilter(0, 0, 1, most=1))(image)
    assert best.scores[0] == pytest.approx(every.scores.max())


def test_a_uniform_image_gives_no_evidence_and_no_box_gives_no_mask(model: str) -> None:
    sam = SAM(model=model, device="cpu")
    for size in ((1, 1), (40, 30)):
        image = np.full((*size, 3), 7, np.uint8)
        with pytest.raises(NoEvidence, match="single colour"):
            SegmentEverything(sam)(image)
        with pytest.raises(NoEvidence, match="single colour"):
            sam(image, BOXES)
    assert sam(noise((20, 30)), BOXES[[]]).masks.shape == (0, 20, 30)


def opened(folder: str) -> SamNetwork:
    return open_sam(folder, None, Place("cpu", "float32"))


def test_an_original_checkpoint_equals_the_network_it_came_from(
    built: Callable[[str], str],
) -> None:
    ours, theirs = built("sam"), built("sam_file")
    tensors = [opened(place).model.state_dict() for place in (ours, theirs)]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])
    for size in SIZES:
        image = noise(size)
        first, second = (SAM(place, device="cpu")(image, BOXES) for place in (ours, theirs))
        np.testing.assert_array_equal(first.masks, second.masks)
        np.testing.assert_array_equal(first.scores, second.scores)


@pytest.mark.parametrize("size", SIZES[:3])
def test_images_and_masks_are_processed_as_by_transformers(
    size: tuple[int, int], built: Callable[[str], str]
) -> None:
    from transformers import SamImageProcessorPil

    network, image = opened(built("sam")), noise(size)
    square = {"height": 64, "width": 64}
    processor = SamImageProcessorPil(size={"longest_edge": 64}, pad_size=square)
    theirs = processor(images=image, return_tensors="pt")
    # of whole grey levels
    torch.testing.assert_close(network._prepare_square(image), theirs["pixel_values"])
    logits = torch.randn(2, 3, 32, 32)
    sizes = theirs["reshaped_input_sizes"]
    (masks,) = processor.post_process_masks([logits], [size], sizes, binarize=False)
    for several, each in zip(logits, masks, strict=True):
        for small, large in zip(several, each, strict=True):
            torch.testing.assert_close(network.upscale(small, size), large)


def test_a_box_keeps_its_place_on_the_image(tmp_path: Path) -> None:
    """Prompts are mapped to the square like the image, as pixel centres."""
    seen: dict[str, Any] = {}

    class Spy:
        prompts = SimpleNamespace(image_size=64)
        config = SimpleNamespace(model_type="sam", prompt_encoder_config=prompts)

        def __call__(self, **given: Any) -> Any:
            seen.update(given)
            scores = torch.zeros(1, 1, 1)
            return SimpleNamespace(pred_masks=torch.zeros(1, 1, 1, 4, 4), iou_scores=scores)

    wide, high = ([8, 16, 64, 32], [9.5, 17.5]), ([8, 32, 64, 64], [9.5, 35.5])
    for pads, (box, point) in ((True, wide), (False, high)):
        network = SamNetwork(Spy(), Place("cpu", "float32"), pads)
        network.decode(None, np.array([[16.0, 32, 128, 64]]), (64, 128), False)
        np.testing.assert_allclose(seen["input_boxes"][0, 0], np.array(box) - 0.5)
        network.decode(None, np.array([[19.5, 35.5]]), (64, 128), True)
        np.testing.assert_allclose(seen["input_points"][0, 0, 0], point)


@dataclass(frozen=True)
class FixedDetector:
    """A detector with fixed boxes."""

    boxes: Boxes

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        assert list(words or ()) == ["cat", "dog"]
        return self.boxes


def test_grounded_sam_segments_what_words_name(model: str) -> None:
    sam, image = SAM(model=model, device="cpu"), noise((48, 80))
    found = GroundedSAM(FixedDetector(BOXES), sam, ("cat", "dog"))(image)
    assert_same(found, Masks(sam(image, BOXES).masks, BOXES.scores, BOXES.labels))
    assert GroundedSAM(FixedDetector(BOXES[[]]), sam, ("cat", "dog"))(image).masks.shape == (
        0,
        48,
        80,
    )


def test_a_network_other_than_segment_anything_is_refused_in_a_sentence(tmp_path: Path) -> None:
    from transformers import CLIPVisionConfig

    torch.save({"fc.weight": torch.zeros(2, 2)}, tmp_path / "wrong.pth")
    torch.save({"a": Path("x")}, tmp_path / "code.pth")
    CLIPVisionConfig().save_pretrained(tmp_path / "clip")
    facts = {
        "sam_vit_b.pth": "no weights file",
        "wrong.pth": "'fc.weight'; expected a file of SAM",
        "code.pth": "only tensors",
        "clip": "'clip_vision_model'",
        "none": "no folder",
    }
    for place, fact in facts.items():
        with pytest.raises(WeightsError, match=fact):
            SAM(model=str(tmp_path / place), device="cpu")(noise((8, 8)), BOXES)

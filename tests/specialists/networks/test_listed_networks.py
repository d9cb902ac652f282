"""The networks that the documents list work, or say what they need."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from looktwice.pipelines.config import build
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.runtime import WeightsError, close_networks
from looktwice.pipelines.state import State
from looktwice.specialists.detection import PPOCR, RFDETR, Florence2, GroundingDINO
from looktwice.specialists.features import DINOv2
from looktwice.specialists.maps import DepthAnything
from looktwice.specialists.matching import KeypointMatcher
from looktwice.specialists.results import Boxes
from looktwice.specialists.segmentation import SAM, SAM3, GroundedSAM, SegmentEverything
from tests import (
    tiny_backbones,
    tiny_depth,
    tiny_detectors,
    tiny_matchers,
    tiny_networks,
    tiny_sam3,
    tiny_segmenters,
)
from tests.original_files import cat
from tests.paths import ROOT
from tests.specialists.samples import asked

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


PHOTO = cat()[100:180, 100:220]
BOXES = Boxes(np.array([[10.0, 10, 60, 50]]), np.ones(1), np.array(["cat"]))
WORDS = ("cat",)
Opens = tuple[Callable[[Path], Path], Callable[[str], Any]]


def depth(model: str) -> Any:
    return DepthAnything(model, larger_is_nearer=None if "dpt" not in model else True)(PHOTO).values


def grid(model: str) -> Any:
    return DINOv2(model, longest=64)(PHOTO).values


def words(model: str) -> Any:
    return GroundingDINO(model, threshold=0, text_threshold=0)(PHOTO, WORDS).xyxy


def classes(model: str) -> Any:
    return RFDETR(model, threshold=0.05)(PHOTO).xyxy


def masks(model: str) -> Any:
    return SAM(model)(PHOTO, BOXES).scores


def matches(model: str) -> Any:
    return KeypointMatcher(model)(PHOTO, PHOTO[:, ::-1].copy()).xy0


def finder(folder: Path) -> Path:
    tiny_detectors.pp_ocr(folder.with_name("reader"), "PPOCRV6SmallRec", "_abc")
    return tiny_detectors.pp_ocr(folder, "PPOCRV5MobileDet")


def lines(model: str) -> Any:
    return PPOCR(
        threshold=0,
        box_threshold=0,
        detector=Path(model),
        recognizer=Path(model).with_name("reader"),
    )(PHOTO)


LISTED: dict[str, Opens] = {
    "PPOCR": (finder, lines),
    "PP-OCRv5": (finder, lines),
    "PP-OCRv6": (finder, lines),
    "KeypointMatcher": (tiny_matchers.efficient_loftr, matches),
    "EfficientLoFTR": (tiny_matchers.efficient_loftr, matches),
    "SuperGlue": (tiny_matchers.super_glue, matches),
    "LightGlue": (tiny_matchers.light_glue, matches),
    "DepthAnything": (tiny_depth.depth_anything, depth),
    "DPT": (tiny_depth.dpt, depth),
    "GLPN": (tiny_depth.glpn, depth),
    "ZoeDepth": (tiny_depth.zoedepth, depth),
    "Depth Pro": (tiny_depth.depth_pro, depth),
    "DINOv2": (tiny_backbones.dinov2, grid),
    "DINOv3": (tiny_backbones.dinov3, grid),
    "SigLIP": (tiny_backbones.siglip, grid),
    "SigLIP 2": (tiny_backbones.siglip2_naflex, grid),
    "CLIP": (tiny_backbones.clip, grid),
    "ViT": (tiny_backbones.vit, grid),
    "ConvNeXt": (tiny_backbones.convnext, grid),
    "ResNet": (tiny_backbones.resnet, grid),
    "GroundingDINO": (tiny_networks.grounding_dino, words),
    "MM-Grounding DINO": (tiny_networks.mm_grounding_dino, words),
    "OWLv2": (tiny_networks.owlv2, words),
    "RFDETR": (tiny_detectors.rf_detr, classes),
    "DETR": (tiny_detectors.detr, classes),
    "RT-DETR": (tiny_detectors.rt_detr, classes),
    "D-FINE": (tiny_detectors.d_fine, classes),
    "YOLOS": (tiny_detectors.yolos, classes),
    "Florence2": (tiny_detectors.florence2, lambda model: Florence2(model, longest=60)(PHOTO).xyxy),
    "SAM": (tiny_segmenters.sam, masks),
    "SAM-HQ": (tiny_segmenters.sam_hq, masks),
    "SAM 2": (tiny_segmenters.sam2, masks),
    "SAM 3": (tiny_sam3.tracker, masks),
    "EdgeTAM": (tiny_sam3.edgetam, masks),
    "SAM3": (tiny_sam3.video, lambda model: SAM3(model, words=WORDS, threshold=0)(PHOTO).scores),
    "SegmentEverything": (
        tiny_segmenters.sam,
        lambda model: SegmentEverything(SAM(model), side=2)(PHOTO).masks.shape,
    ),
    "GroundedSAM": (
        tiny_segmenters.sam,
        lambda model: GroundedSAM(lambda *_: BOXES, SAM(model), WORDS)(PHOTO).scores,
    ),
}
NAME = re.compile(r"[A-Z][\w-]*(?: (?:[A-Z][\w-]*|\d))*")


def listed_names() -> list[str]:
    """The networks of Hugging Face transformers in the table of the page, without what is said of
    them."""
    page = (
        (ROOT / "docs" / "specialists.md")
        .read_text("utf-8")
        .partition("## Specialists by protocol")[2]
    )
    rows = [
        row.split("|")[2]
        for row in page.partition("\n\n**")[0].splitlines()
        if row.endswith("| `hf` |")
    ]
    assert len(rows) > 5
    return sorted({name for row in rows for name in NAME.findall(row)})


def test_every_listed_network_is_run() -> None:
    assert listed_names() == sorted(LISTED)


@pytest.mark.parametrize("name", LISTED)
def test_a_listed_network_runs_or_says_what_it_needs(name: str, tmp_path: Path) -> None:
    make, run = LISTED[name]
    folder = str(make(tmp_path / make.__name__))
    if name == "Depth Pro" and find_spec("torchvision") is None:
        with pytest.raises(WeightsError, match="pip install torchvision"):
            run(folder)
    else:
        assert len(run(folder)) > 0
    close_networks()


def test_the_stages_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the page, with tiny networks in the folders that they name."""
    page = (
        (ROOT / "docs" / "specialists.md")
        .read_text("utf-8")
        .partition("**A detector of fixed classes**")[2]
    )
    block = page.partition("```yaml\n")[2].partition("```")[0]
    models = tmp_path / "models"
    tiny_detectors.rf_detr(models / "rf-detr-base")
    tiny_detectors.florence2(models / "florence-2-base")
    tiny_sam3.video(models / "sam3")
    finder(models / "PP-OCRv5_mobile_det").with_name("reader").rename(models / "PP-OCRv6_small_rec")
    for given, tiny in (
        ("model: models/rf", "threshold: 0.05, model: models/rf"),
        ("model: models/sam3", "threshold: 0.01, most: 2, model: models/sam3"),
        ("task: text", "task: text, longest: 60"),
        ("PPOCR,", "PPOCR, threshold: 0, box_threshold: 0,"),
    ):
        assert given in block
        block = block.replace(given, tiny)
    monkeypatch.chdir(tmp_path)
    stages = yaml.safe_load(block)
    state = State.start(asked("How many cats are there?", images=[cat()]))
    zoom, mark, count, read, lines = (
        build({key: value for key, value in node.items() if key != "before"})
        for node in stages.values()
    )
    assert zoom(state, NoModel()).views[-1].parts != state.views[-1].parts
    assert len(mark(state, NoModel()).sample.marks) > 0
    assert int(count(state, NoModel()).answer) > 0
    assert all(stage(state, NoModel()).answer for stage in (read, lines))
    close_networks()


@pytest.mark.parametrize("make", [tiny_backbones.vit, tiny_backbones.clip, tiny_backbones.siglip])
def test_backbones_give_what_transformers_gives(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    """The last state of the bare network, of an image of its own size, with the mean and deviation
    of its processor."""
    import transformers

    folder, photo = make(tmp_path / "tiny"), cat()[:64, :64]
    network = transformers.AutoModel.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    seen = processor(images=photo, do_resize=False, do_center_crop=False, return_tensors="pt")[
        "pixel_values"
    ]
    with torch.no_grad():
        theirs = getattr(network, "vision_model", network)(pixel_values=seen).last_hidden_state[
            0, -16:
        ]
    ours = DINOv2(str(folder), longest=64)(photo).values.reshape(16, -1)
    np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)
    wide, high = DINOv2(str(folder), longest=96).many([cat()[:64, :96], cat()[:96, :64]])
    assert wide.values.shape == (4, 6, 32) and high.values.shape == (6, 4, 32)
    close_networks()


@pytest.mark.parametrize(
    "make", [tiny_networks.grounding_dino, tiny_networks.mm_grounding_dino, tiny_networks.owlv2]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_detectors_by_words_give_what_transformers_gives(
    tmp_path: Path, make: Callable[[Path], Path], dtype: Any
) -> None:
    """Processor, network and post-processing used bare as its documentation shows, of wide, high
    and large images."""
    import transformers

    folder, level = make(tmp_path / "tiny"), 0.001
    number = getattr(torch, dtype)
    network = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(
        folder, dtype=number
    ).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder, backend="pil")
    for photo in (PHOTO, PHOTO[:, :50], cat()):
        inputs = processor(images=photo, text=[["cat", "dog"]], return_tensors="pt").to(
            "cpu", number
        )
        with torch.inference_mode():
            out = network(**inputs)
        both = {} if make is tiny_networks.owlv2 else {"text_threshold": level}
        (expected,) = processor.post_process_grounded_object_detection(
            out,
            threshold=level,
            target_sizes=[photo.shape[:2]],
            text_labels=[["cat", "dog"]],
            **both,
        )
        height, width = photo.shape[:2]
        boxes = expected["boxes"].float().numpy().clip(0, [width, height, width, height])
        scores = expected["scores"].float().numpy()
        order = np.argsort(-scores, kind="stable")
        order = order[(boxes[order, 2:] > boxes[order, :2]).all(1)]
        found = GroundingDINO(str(folder), threshold=level, text_threshold=level, dtype=dtype)(
            photo, ["cat", "dog"]
        )
        np.testing.assert_allclose(found.scores, scores[order], atol=1e-5)
        np.testing.assert_allclose(found.xyxy, boxes[order], atol=1e-3)
        assert len(found) > 3
    close_networks()


@pytest.mark.parametrize("size", [(100, 150), (150, 90)])
def test_zoedepth_looks_at_images_as_its_own_processor_pads_them(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    photo = cat()[: size[0], : size[1]]
    found = DepthAnything(str(tiny_depth.zoedepth(tmp_path)))(photo)
    assert found.values.shape == size and not found.larger_is_nearer
    assert np.ptp(found.values) > 0
    close_networks()


def test_a_rim_is_taken_off_each_side_of_a_map() -> None:
    from looktwice.specialists.maps.depth_anything import without_padding

    rim, side = int(np.sqrt(40 / 2) * 3), int(np.sqrt(30 / 2) * 3)
    padded = np.full((40 + 2 * rim, 30 + 2 * side), 9.0)
    padded[rim : rim + 40, side : side + 30] = np.arange(30)
    found = without_padding(torch.from_numpy(padded), (40, 30))
    np.testing.assert_allclose(found, np.tile(np.arange(30.0), (40, 1)), atol=1e-5)


def test_depth_pro_without_torchvision_names_it(tmp_path: Path) -> None:
    if find_spec("torchvision") is None:
        with pytest.raises(WeightsError, match="pip install torchvision"):
            DepthAnything(str(tiny_depth.depth_pro(tmp_path)))(cat()[:100, :150])
    else:
        assert DepthAnything(str(tiny_depth.depth_pro(tmp_path)))(
            cat()[:100, :150]
        ).values.shape == (100, 150)
    close_networks()


@pytest.mark.parametrize("make", [tiny_backbones.dinov3, tiny_backbones.siglip2_naflex])
@pytest.mark.parametrize("layer", [-1, 1])
def test_other_backbones_give_a_vector_for_each_patch(
    tmp_path: Path, make: Callable[[Path], Path], layer: int
) -> None:
    found = DINOv2(str(make(tmp_path)), longest=128, layer=layer)(cat()[:100, :150])
    assert found.values.shape == (5, 8, 32)
    close_networks()


def test_naflex_sees_the_patches_that_its_own_processor_cuts(tmp_path: Path) -> None:
    """The last state is the same as with the processor of transformers, which keeps an image of
    this size."""
    from transformers import Siglip2ImageProcessorPil, Siglip2VisionModel

    folder = tiny_backbones.siglip2_naflex(tmp_path)
    photo = cat()[:64, :128]
    inputs = Siglip2ImageProcessorPil(patch_size=16, max_num_patches=32)(
        images=photo, return_tensors="pt"
    )
    assert inputs["spatial_shapes"].tolist() == [[4, 8]]
    with torch.inference_mode():
        theirs = (
            Siglip2VisionModel.from_pretrained(folder).eval()(**inputs).last_hidden_state[0].numpy()
        )
    ours = DINOv2(str(folder), longest=128)(photo).values.reshape(32, -1)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    close_networks()

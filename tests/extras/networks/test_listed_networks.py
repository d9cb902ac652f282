"""The documented networks work, or report the packages that they need."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from looktwice.extras.detection import PPOCR, RFDETR, Florence2, GroundingDINO
from looktwice.extras.features import DINOv2
from looktwice.extras.maps import DepthAnything
from looktwice.extras.matching import KeypointMatcher
from looktwice.extras.segmentation import SAM, SAM3, GroundedSAM, SegmentEverything
from looktwice.pipelines.config import build
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.state import State
from looktwice.specialists.results import Boxes
from tests.optional import optional
from tests.original_files import cat
from tests.paths import ROOT
from tests.specialists.samples import make_sample
from tests.tiny import pp_ocr, tiny

torch = optional("torch")
optional("transformers")


PHOTO = cat()[100:180, 100:220]
BOXES = Boxes(np.array([[10.0, 10, 60, 50]]), np.ones(1), np.array(["cat"]))
WORDS = ("cat",)
Opens = tuple[str, Callable[[str], Any]]


def finder(folder: Path) -> Path:
    pp_ocr(folder.with_name("reader"), "PPOCRV6SmallRec", "_abc")
    return pp_ocr(folder, "PPOCRV5MobileDet")


RUN: dict[str, Callable[[str], Any]] = {
    "depth": lambda model: DepthAnything(model)(PHOTO).values,
    "dpt": lambda model: DepthAnything(model, larger_is_nearer=True)(PHOTO).values,
    "grid": lambda model: DINOv2(model, longest=64)(PHOTO).values,
    "words": lambda model: GroundingDINO(model, threshold=0, text_threshold=0)(PHOTO, WORDS).xyxy,
    "classes": lambda model: RFDETR(model, threshold=0.05)(PHOTO).xyxy,
    "florence": lambda model: Florence2(model, longest=60)(PHOTO).xyxy,
    "masks": lambda model: SAM(model)(PHOTO, BOXES).scores,
    "all": lambda model: SegmentEverything(SAM(model), side=2)(PHOTO).masks.shape,
    "grounded": lambda model: GroundedSAM(lambda *_: BOXES, SAM(model), WORDS)(PHOTO).scores,
    "concepts": lambda model: SAM3(model, words=WORDS, threshold=0)(PHOTO).scores,
    "matches": lambda model: KeypointMatcher(model)(PHOTO, PHOTO[:, ::-1].copy()).xy0,
    "lines": lambda model: PPOCR(0, 0, 2000, Path(model), Path(model).with_name("reader"))(PHOTO),
}
LISTED = {  # the name under which a tiny network is built, and how it is run
    **dict.fromkeys(("PPOCR", "PP-OCRv5", "PP-OCRv6"), ("", "lines")),
    **dict.fromkeys(("KeypointMatcher", "EfficientLoFTR"), ("efficient_loftr", "matches")),
    "SuperGlue": ("super_glue", "matches"),
    "LightGlue": ("light_glue", "matches"),
    "DepthAnything": ("depth_anything", "depth"),
    "DPT": ("dpt", "dpt"),
    "GLPN": ("glpn", "depth"),
    "ZoeDepth": ("zoedepth", "depth"),
    "Depth Pro": ("depth_pro", "depth"),
    "DINOv2": ("dinov2", "grid"),
    "DINOv3": ("dinov3", "grid"),
    "SigLIP": ("siglip", "grid"),
    "SigLIP 2": ("siglip2_naflex", "grid"),
    "CLIP": ("clip", "grid"),
    "ViT": ("vit", "grid"),
    "ConvNeXt": ("convnext", "grid"),
    "ResNet": ("resnet", "grid"),
    "GroundingDINO": ("grounding_dino", "words"),
    "MM-Grounding DINO": ("mm_grounding_dino", "words"),
    "OWLv2": ("owlv2", "words"),
    "RFDETR": ("rf_detr", "classes"),
    "DETR": ("detr", "classes"),
    "RT-DETR": ("rt_detr", "classes"),
    "D-FINE": ("d_fine", "classes"),
    "YOLOS": ("yolos", "classes"),
    "Florence2": ("florence2", "florence"),
    "SAM": ("sam", "masks"),
    "SAM-HQ": ("sam_hq", "masks"),
    "SAM 2": ("sam2", "masks"),
    "SAM 3": ("tracker", "masks"),
    "EdgeTAM": ("edgetam", "masks"),
    "SAM3": ("video", "concepts"),
    "SegmentEverything": ("sam", "all"),
    "GroundedSAM": ("sam", "grounded"),
}
PAGE = (ROOT / "docs" / "specialists.md").read_text("utf-8")
NAME = re.compile(r"[A-Z][\w-]*(?: (?:[A-Z][\w-]*|\d))*")


def listed_names() -> list[str]:
    """The networks of transformers in the table of the page."""
    page = PAGE.partition("## Specialists by protocol")[2].partition("\n\n**")[0]
    rows = [row.split("|")[2] for row in page.splitlines() if row.endswith("| `hf` |")]
    assert len(rows) > 5
    return sorted({name for row in rows for name in NAME.findall(row)})


def test_every_listed_network_is_tested() -> None:
    assert listed_names() == sorted(LISTED)


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTED)
def test_a_listed_network_runs_or_reports_what_it_needs(
    name: str, built: Callable[[str], str], tmp_path: Path
) -> None:
    kind, how = LISTED[name]
    run = RUN[how]
    folder = built(kind) if kind else str(finder(tmp_path / "finder"))
    if name == "Depth Pro" and find_spec("torchvision") is None:
        with pytest.raises(WeightsError, match="pip install torchvision"):
            run(folder)
    else:
        assert len(run(folder)) > 0


@pytest.mark.slow
def test_the_stages_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the page, with tiny networks in the folders that they name."""
    page = PAGE.partition("**A detector of fixed classes**")[2]
    block = page.partition("```yaml\n")[2].partition("```")[0]
    models = tmp_path / "models"
    tiny("rf_detr", models / "rf-detr-base")
    tiny("florence2", models / "florence-2-base")
    tiny("video", models / "sam3")
    finder(models / "PP-OCRv5_mobile_det").with_name("reader").rename(models / "PP-OCRv6_small_rec")
    for given, changed in (
        ("model: models/rf", "threshold: 0.05, model: models/rf"),
        ("model: models/sam3", "threshold: 0.01, most: 2, model: models/sam3"),
        ("task: text", "task: text, longest: 60"),
        ("PPOCR,", "PPOCR, threshold: 0, box_threshold: 0,"),
    ):
        assert given in block
        block = block.replace(given, changed)
    monkeypatch.chdir(tmp_path)
    stages = yaml.safe_load(block)
    state = State.start(make_sample("How many cats are there?", images=[cat()]))
    zoom, mark, count, read, lines = (
        build({key: value for key, value in node.items() if key != "before"})
        for node in stages.values()
    )
    assert zoom(state, NoModel()).views[-1].parts != state.views[-1].parts
    assert len(mark(state, NoModel()).sample.marks) > 0
    assert int(count(state, NoModel()).answer) > 0
    assert all(stage(state, NoModel()).answer for stage in (read, lines))


@pytest.mark.parametrize("name", ["vit", "clip", "siglip"])
def test_backbones_match_transformers(name: str, built: Callable[[str], str]) -> None:
    """The last state of the network alone, with mean and deviation of its processor."""
    import transformers

    folder, photo = built(name), cat()[:64, :64]
    network = transformers.AutoModel.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    seen = processor(images=photo, do_resize=False, do_center_crop=False, return_tensors="pt")
    with torch.no_grad():
        told = getattr(network, "vision_model", network)(pixel_values=seen["pixel_values"])
    theirs = told.last_hidden_state[0, -16:]
    ours = DINOv2(folder, longest=64)(photo).values.reshape(16, -1)
    np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)
    if name != "vit":
        with torch.no_grad():
            whole = network.get_image_features(pixel_values=seen["pixel_values"]).pooler_output
        embedding = DINOv2(folder, longest=64, part="embedding")(photo).values
        np.testing.assert_allclose(embedding[0, 0], whole[0].numpy(), atol=1e-5)
    wide, high = DINOv2(folder, longest=96).many([cat()[:64, :96], cat()[:96, :64]])
    assert wide.values.shape == (4, 6, 32) and high.values.shape == (6, 4, 32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grounding_dino", "mm_grounding_dino", "owlv2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_detectors_by_words_match_transformers(
    name: str, built: Callable[[str], str], dtype: Any
) -> None:
    """Uses processor, network and post-processing directly on wide, high and large images."""
    import transformers

    folder, level = built(name), 0.001
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
        more: dict[str, Any] = {"threshold": level, "target_sizes": [photo.shape[:2]]}
        if name != "owlv2":
            more["text_threshold"] = level
        process = processor.post_process_grounded_object_detection
        (expected,) = process(out, text_labels=[["cat", "dog"]], **more)
        height, width = photo.shape[:2]
        boxes = expected["boxes"].float().numpy().clip(0, [width, height, width, height])
        scores = expected["scores"].float().numpy()
        order = np.argsort(-scores, kind="stable")
        order = order[(boxes[order, 2:] > boxes[order, :2]).all(1)]
        found = GroundingDINO(folder, threshold=level, text_threshold=level, dtype=dtype)(
            photo, ["cat", "dog"]
        )
        np.testing.assert_allclose(found.scores, scores[order], atol=1e-5)
        np.testing.assert_allclose(found.xyxy, boxes[order], atol=1e-3)
        assert len(found) > 3


@pytest.mark.parametrize("size", [(100, 150), (150, 90)])
def test_zoedepth_pads_images_like_its_own_processor(
    size: tuple[int, int], built: Callable[[str], str]
) -> None:
    photo = cat()[: size[0], : size[1]]
    found = DepthAnything(built("zoedepth"))(photo)
    assert found.values.shape == size and not found.larger_is_nearer
    assert np.ptp(found.values) > 0


def test_a_border_is_removed_from_each_side_of_a_map() -> None:
    from looktwice.extras.maps.depth_anything import remove_padding

    rim, side = int(np.sqrt(40 / 2) * 3), int(np.sqrt(30 / 2) * 3)
    padded = np.full((40 + 2 * rim, 30 + 2 * side), 9.0)
    padded[rim : rim + 40, side : side + 30] = np.arange(30)
    found = remove_padding(torch.from_numpy(padded), (40, 30))
    np.testing.assert_allclose(found, np.tile(np.arange(30.0), (40, 1)), atol=1e-5)


@pytest.mark.parametrize("name", ["dinov3", "siglip2_naflex"])
@pytest.mark.parametrize("layer", [-1, 1])
def test_other_backbones_give_a_vector_for_each_patch(
    name: str, built: Callable[[str], str], layer: int
) -> None:
    found = DINOv2(built(name), longest=128, layer=layer)(cat()[:100, :150])
    assert found.values.shape == (5, 8, 32)


def test_naflex_uses_the_patches_of_its_own_processor(built: Callable[[str], str]) -> None:
    """The processor of transformers keeps an image of this size."""
    from transformers import Siglip2ImageProcessorPil, Siglip2VisionModel

    folder = built("siglip2_naflex")
    photo = cat()[:64, :128]
    processor = Siglip2ImageProcessorPil(patch_size=16, max_num_patches=32)
    inputs = processor(images=photo, return_tensors="pt")
    assert inputs["spatial_shapes"].tolist() == [[4, 8]]
    with torch.inference_mode():
        told = Siglip2VisionModel.from_pretrained(folder).eval()(**inputs)
    ours = DINOv2(folder, longest=128)(photo).values.reshape(32, -1)
    np.testing.assert_allclose(ours, told.last_hidden_state[0].numpy(), atol=1e-4)

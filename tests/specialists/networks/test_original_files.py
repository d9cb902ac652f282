"""The authors' files, made tiny, give what the authors' own code gives; other files are called what they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.runtime import WeightsError, close_networks
from looktwice.specialists.detection import GroundingDINO
from looktwice.specialists.features import DINOv2
from looktwice.specialists.maps import DepthAnything
from looktwice.specialists.matching import KeypointMatcher, LoFTR
from looktwice.specialists.results import Boxes
from looktwice.specialists.segmentation import SAM
from tests.original_files import cat, expected, write_file
from tests.original_networks import CPU, OPENED

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize("kind", OPENED)
def test_an_original_file_gives_what_its_authors_code_gives(kind: str, tmp_path: Path) -> None:
    with torch.inference_mode():
        told = OPENED[kind](write_file(kind, tmp_path))
    for name, theirs in expected(kind).items():
        assert list(told[name].shape) == theirs["shape"]
        np.testing.assert_allclose(told[name].numpy().ravel()[theirs["at"]], theirs["values"], atol=2e-4, rtol=2e-4)


SPECIALISTS: dict[str, Callable[[str], Any]] = {
    "depth_anything_v2": DepthAnything,
    "grounding_dino": GroundingDINO,
    "dinov2": DINOv2,
    "efficient_loftr": KeypointMatcher,
    "sam2": SAM,
    "loftr": LoFTR,
}


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        (
            "sam",
            "depth_anything_v2",
            "sam_vit_b_01ec64.pth is a checkpoint of SAM; for it use specialists.segmentation",
        ),
        ("depth_anything_v1", "grounding_dino", "is a checkpoint of Depth Anything; for it use specialists.maps"),
        ("grounding_dino", "dinov2", "is a checkpoint of GroundingDINO; for it use specialists.detection"),
        ("dinov2", "efficient_loftr", "is a checkpoint of DINOv2; for it use specialists.features"),
        ("efficient_loftr", "sam2", "is a checkpoint of EfficientLoFTR; for it use specialists.matching"),
        ("sam2", "loftr", "is a checkpoint of SAM 2; for it use specialists.segmentation.SAM; this takes"),
    ],
)
def test_a_file_of_another_network_is_called_what_it_is(kind: str, wrong: str, said: str, tmp_path: Path) -> None:
    path = write_file(kind, tmp_path)
    with pytest.raises(WeightsError, match=said):
        SPECIALISTS[wrong](str(path)).open_network(CPU)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1", "a pointer of Git LFS"),
        (b"\x08\x07\x12\x07pytorch", "an ONNX file"),
    ],
)
@pytest.mark.parametrize("specialist", SPECIALISTS.values())
def test_a_file_that_torch_cannot_read_is_called_what_it_is(
    specialist: Callable[[str], Any], content: bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "network.pth"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=said):
        specialist(str(path)).open_network(CPU)


@pytest.mark.parametrize("specialist", SPECIALISTS.values())
def test_a_file_that_is_not_there_is_no_folder(specialist: Callable[[str], Any], tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="there is no weights file"):
        specialist(str(tmp_path / "network.pth")).open_network(CPU)


def test_a_file_of_a_saved_folder_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    torch.save({"backbone.embeddings.cls_token": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="a part of a folder of transformers; set model: to the folder"):
        DepthAnything(str(tmp_path / "pytorch_model.bin")).open_network(CPU)


@pytest.mark.parametrize(
    ("name", "said"),
    [("vits.pth", "neither its tensors nor its name"), ("depth_anything_v2_metric_vits.pth", "its name alone tells")],
)
def test_depth_anything_is_not_guessed_from_a_name_that_does_not_tell(name: str, said: str, tmp_path: Path) -> None:
    path = write_file("depth_anything_v2", tmp_path).rename(tmp_path / name)
    with pytest.raises(WeightsError, match=said):
        DepthAnything(str(path)).open_network(CPU)


def test_depth_in_metres_has_the_range_of_its_scenes(tmp_path: Path) -> None:
    path = write_file("depth_anything_v2", tmp_path).rename(tmp_path / "depth_anything_v2_metric_vkitti_vits.pth")
    config = DepthAnything(str(path)).open_network(CPU).config
    assert (config.depth_estimation_type, config.max_depth) == ("metric", 80)


@pytest.mark.parametrize("kind", ["depth_anything_v2", "dinov2", "grounding_dino", "sam_hq", "sam2", "efficient_loftr"])
def test_a_file_that_lacks_a_tensor_is_refused(kind: str, tmp_path: Path) -> None:
    path = write_file(kind, tmp_path)
    held = torch.load(path)
    inner = next((each for each in held.values() if isinstance(each, dict)), held)
    name = next(name for name in reversed(inner) if "norm" in name and name.endswith("weight") and "memory" not in name)
    del inner[name]
    torch.save(held, path)
    with pytest.raises(WeightsError, match="lack 1 of the"):
        OPENED[kind](path)


def test_original_files_answer_on_pixels(tmp_path: Path) -> None:
    """From file to answer, as a user has it: features and masks of a photograph."""
    photo = cat()[:120, :160]
    assert DINOv2(str(write_file("dinov2", tmp_path)), longest=112)(photo).values.shape == (6, 8, 64)
    boxes = Boxes(np.array([[20.0, 30.0, 90.0, 100.0], [5.0, 5.0, 150.0, 110.0]]), np.ones(2), np.array(["cat", "cat"]))
    for kind in ("sam", "sam_hq"):
        assert SAM(str(write_file(kind, tmp_path)))(photo, boxes).masks.shape == (2, 120, 160)
    close_networks()

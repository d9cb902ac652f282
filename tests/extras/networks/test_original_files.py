"""Tiny versions of the authors' files match the authors' code; other files are recognised."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from looktwice.extras.detection import GroundingDINO
from looktwice.extras.detection.faces import DLIB_FILES
from looktwice.extras.features import DINOv2
from looktwice.extras.maps import DepthAnything
from looktwice.extras.matching import KeypointMatcher, LoFTR
from looktwice.extras.networks.packages import find_package_file
from looktwice.extras.segmentation import SAM
from looktwice.pipelines.config import build
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.results import Boxes
from tests.optional import optional
from tests.original_files import BERT, MEAN, STD, cat, read_expected, write_file
from tests.original_kinds import NAMED, RIGHT, TAKES, write_kinds
from tests.original_networks import CPU, OPENED
from tests.paths import DOCS
from tests.tiny import tiny

torch = optional("torch")
transformers = optional("transformers")


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPENED)
def test_an_original_file_matches_the_code_of_its_authors(kind: str, tmp_path: Path) -> None:
    with torch.inference_mode():
        told = OPENED[kind](write_file(kind, tmp_path))
    for name, theirs in read_expected(kind).items():
        assert list(told[name].shape) == theirs["shape"]
        np.testing.assert_allclose(
            told[name].numpy().ravel()[theirs["at"]], theirs["values"], atol=2e-4, rtol=2e-4
        )


SPECIALISTS: dict[str, Callable[[str], Any]] = {
    "depth_anything_v2": DepthAnything,
    "grounding_dino": GroundingDINO,
    "dinov2": DINOv2,
    "efficient_loftr": KeypointMatcher,
    "sam2": SAM,
    "loftr": LoFTR,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_kinds(tmp_path_factory.mktemp("kinds"))


@pytest.mark.slow
@pytest.mark.parametrize("specialist", TAKES)
def test_a_file_of_another_network_is_identified(specialist: str, files: dict[str, Path]) -> None:
    for kind, (what, use) in NAMED.items():
        if use == specialist or (kind, specialist) in RIGHT:
            continue
        with pytest.raises(WeightsError) as caught:
            TAKES[specialist](str(files[kind]))
        sentence = str(caught.value)
        assert f"{files[kind]} is {what}; " in sentence and f".{use}" in sentence, (kind, sentence)


@pytest.mark.parametrize("specialist", SPECIALISTS.values())
def test_a_file_that_torch_cannot_read_is_reported(
    specialist: Callable[[str], Any], tmp_path: Path
) -> None:
    path = tmp_path / "network.pth"

    def check(fact: str) -> None:
        with pytest.raises(WeightsError, match=fact):
            specialist(str(path)).open_network(CPU)

    check("no weights file")
    for content, fact in {
        b"": "is empty",
        b"<!DOCTYPE html><html>": "a web page",
        b"version https://git-lfs.github.com/spec/v1": "Git LFS",
        b"\x08\x07\x12\x07pytorch": "ONNX",
        b"hello": "KeyError: 101",
        b"\x80\x02jd1.q": "only tensors",
    }.items():
        path.write_bytes(content)
        check(fact)
    if specialist is not LoFTR:
        torch.save({"stem.weight": torch.zeros(1), "stem.bias": torch.zeros(1)}, path)
        check(r"2 entries such as 'stem\.weight'")


def test_depth_anything_is_identified_by_its_file_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    torch.save({"backbone.embeddings.cls_token": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    path = write_file("depth_anything_v2", tmp_path)
    for name, fact in (
        ("pytorch_model.bin", "set model: to the folder"),
        ("vits.pth", "neither its tensors nor its name"),
        ("depth_anything_v2_metric_vits.pth", "only its name determines"),
    ):
        if name.endswith("pth"):
            path = path.rename(tmp_path / name)
        with pytest.raises(WeightsError, match=fact):
            DepthAnything(str(tmp_path / name)).open_network(CPU)
    path = path.rename(tmp_path / "depth_anything_v2_metric_vkitti_vits.pth")
    config = DepthAnything(str(path)).open_network(CPU).config
    assert (config.depth_estimation_type, config.max_depth) == ("metric", 80)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["depth_anything_v2", "dinov2", "grounding_dino", "sam_hq", "sam2", "efficient_loftr"]
)
def test_a_file_that_lacks_a_tensor_is_refused(kind: str, tmp_path: Path) -> None:
    path = write_file(kind, tmp_path)
    held = torch.load(path)
    inner = next((each for each in held.values() if isinstance(each, dict)), held)
    norms = [name for name in inner if re.fullmatch(r"(?!.*memory).*norm.*weight", name)]
    del inner[norms[-1]]
    torch.save(held, path)
    with pytest.raises(WeightsError, match="lack 1 of the"):
        OPENED[kind](path)


def test_a_network_from_a_file_can_be_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: compiled.append(self))
    plain, fast = (
        DINOv2(str(write_file("dinov2", tmp_path)), compile=each).open_network(CPU)
        for each in (False, True)
    )
    assert compiled == [fast.model] and fast.model is not plain.model


@pytest.mark.parametrize("kind", ["dinov2", "dinov2_registers"])
def test_dinov2_from_a_file_normalises_colours_like_its_authors(kind: str, tmp_path: Path) -> None:
    encoder = DINOv2(str(write_file(kind, tmp_path)), longest=98, device="cpu")
    pixels = np.ascontiguousarray(cat()[:70, 100:198])
    seen = (torch.from_numpy(pixels) / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
    with torch.inference_mode():
        theirs = encoder.network().model(seen.permute(2, 0, 1)[None]).last_hidden_state[0, -35:]
    np.testing.assert_allclose(encoder(pixels).values.reshape(35, -1), theirs, atol=1e-4)


def on_page(language: str) -> str:
    """Return the block of the page of specialists that names original files."""
    page = (DOCS / "specialists.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    (block,) = [block for block in blocks if "models/outdoor_ds" in block]
    return str(block)


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder `models` of the page of specialists, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "models"
    for folder in ("dlib", "bert-base-uncased"):
        (place / folder).mkdir(parents=True)
    for kind in ("depth_anything_v2", "grounding_dino", "sam2"):
        write_file(kind, place)
    held = torch.load(tiny("loftr", place / "outdoor_ds.ckpt"))
    for name, tensor in held["state_dict"].items():
        if "loftr_coarse" in name and "norm2.weight" in name:
            tensor *= 10  # features so distinct that some places match with certainty
    torch.save(held, place / "outdoor_ds.ckpt")
    numbers = {word: number for number, word in enumerate(BERT)}
    transformers.BertTokenizer(vocab=numbers).save_pretrained(place / "bert-base-uncased")
    for name in DLIB_FILES.values():
        package = "face_recognition_models"
        (place / "dlib" / name).symlink_to(find_package_file(package, package, "models", name))


@pytest.mark.slow
def test_five_original_files_run_on_pixels(downloads: None) -> None:
    """Runs the YAML and Python of the page unchanged."""
    code, text = (on_page(language) for language in ("python", "yaml"))
    names: dict[str, Any] = {}
    exec(code, names)
    boxes = names["boxes"]
    shift = names["matches"].xy0 - names["matches"].xy1
    # a cell of the network
    assert len(shift) > 5 and np.abs(np.median(shift, 0) - [16, 0]).max() < 8
    assert len(boxes) and set(boxes.labels.tolist()) <= {"cat", "cup"}
    assert (boxes.xyxy >= 0).all() and (boxes.xyxy <= [208, 192, 208, 192]).all()
    masks = names["masks"].masks
    assert masks.shape == (len(boxes), 192, 208) and 0 < masks.mean() < 1
    assert names["depth"].values.shape == (192, 208) and np.ptp(names["depth"].values) > 0
    assert names["depth"].larger_is_nearer
    left, top, right, bottom = names["faces"].xyxy[0]
    assert left < 90 < right and top < 90 < bottom  # the centre of her face
    built = {name: build(node) for name, node in yaml.safe_load(text).items()}
    written = re.findall(r"^(\w+) = (\w+\(.*\))\(photo", code, re.MULTILINE)
    names["Path"] = Path.cwd().joinpath  # a path of a study is absolute
    assert built == {name: eval(specialist, names) for name, specialist in written}


def test_features_and_masks_of_original_files_have_the_size_of_the_image(tmp_path: Path) -> None:
    photo = cat()[:120, :160]
    encoder = DINOv2(str(write_file("dinov2", tmp_path)), longest=112)
    assert encoder(photo).values.shape == (6, 8, 64)
    xyxy = np.array([[20.0, 30.0, 90.0, 100.0], [5.0, 5.0, 150.0, 110.0]])
    boxes = Boxes(xyxy, np.ones(2), np.array(["cat", "cat"]))
    for kind in ("sam", "sam_hq"):
        assert SAM(str(write_file(kind, tmp_path)))(photo, boxes).masks.shape == (2, 120, 160)

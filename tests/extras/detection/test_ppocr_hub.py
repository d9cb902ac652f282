"""PP-OCR's networks within `PPOCR` compared with the steps of transformers."""

import json
import math
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.extras.detection import PPOCR
from looktwice.extras.detection.ppocr import compute_letter_scores, compute_text_map, recognize_line
from looktwice.extras.networks import close_networks
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from tests.optional import optional
from tests.specialists.scenes import noise
from tests.tiny import pp_ocr, tiny

torch = optional("torch")
transformers = optional("transformers")

LETTERS = "_abcdefghijklmnopqrstuvwxyz0123456789 "  # the first stands for none
SIZES = [(60, 90), (90, 60), (200, 300), (33, 400)]  # wide, high, larger than the input, slim
READERS = ["PPOCRV6SmallRec", "PPOCRV5ServerRec"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Path]]:
    """The folder of a network with random weights, built on first use."""
    place = tmp_path_factory.mktemp("ocr")

    def build(kind: str, **more: Any) -> Path:
        folder = place / "-".join((kind, *map(str, more.values())))
        letters = LETTERS if kind.endswith("Rec") else ""
        return folder if folder.exists() else pp_ocr(folder, kind, letters, **more)

    yield build
    close_networks()


IMAGES = [noise(size, seed) for seed, size in enumerate(SIZES)]


def preprocess_like_theirs(folder: Path, image: Pixels) -> Any:
    """Return the tensor of transformers' processor: itself with torchvision, else its formulas."""
    message = json.loads((folder / "preprocessor_config.json").read_text())
    kind = str(message["image_processor_type"])
    if find_spec("torchvision") is not None:
        return getattr(transformers, kind).from_pretrained(folder)(
            images=image, return_tensors="pt"
        )["pixel_values"]
    height, width = image.shape[:2]
    resize = torch.nn.functional.interpolate
    pixels = torch.from_numpy(image.copy()).permute(2, 0, 1)[None]
    if "Det" in kind:
        limit = message.get("limit_side_len", 960)
        by = {"max": min(1, limit / max(height, width)), "min": max(1, limit / min(height, width))}
        scale = by.get(message.get("limit_type", "max"), limit / max(height, width))
        rows, columns = (max(32, round(int(side * scale) / 32) * 32) for side in (height, width))
        small = resize(pixels.float(), (rows, columns), mode="bilinear", antialias=True)
        mean, std = torch.tensor([0.406, 0.456, 0.485]), torch.tensor([0.225, 0.224, 0.229])
        return ((small / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1))[:, [2, 1, 0]]
    columns = min(
        math.ceil(48 * width / height),
        int(48 * max(width / height, 320 / 48)),
        message["max_image_width"],
    )
    if "V5" in kind:
        small = resize(pixels.float(), (48, columns), mode="bilinear", antialias=True)
    else:
        small = resize(pixels, (48, columns), mode="bilinear")[:, [2, 1, 0]].float()
    return torch.nn.functional.pad(small / 127.5 - 1, (0, max(0, 320 - columns)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"limit_side_len": 128},
        {"limit_side_len": 96, "limit_type": "min"},
        {"limit_side_len": 160, "limit_type": "resize_long"},
    ],
)
def test_the_text_map_matches_transformers(
    built: Callable[..., Path], more: dict[str, Any]
) -> None:
    folder = built("PPOCRV5MobileDet", **more)
    network = transformers.PPOCRV5MobileDetForObjectDetection.from_pretrained(folder).eval()
    for image in IMAGES:
        with torch.no_grad():
            expected = network(preprocess_like_theirs(folder, image)).last_hidden_state.numpy()
        lines = compute_text_map(folder, image)
        assert np.ptp(expected) > 0.1
        np.testing.assert_allclose(lines, expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("width", [3200, 400])
def test_letters_match_transformers(built: Callable[..., Path], kind: str, width: int) -> None:
    folder = built(kind, max_image_width=width)
    network = transformers.AutoModelForTextRecognition.from_pretrained(folder).eval()
    lines = list[str]()
    for line in (noise((20, 90), 1), noise((60, 90), 2), noise((48, 300), 3), noise((16, 200), 4)):
        with torch.no_grad():
            expected = network(preprocess_like_theirs(folder, line)).last_hidden_state.numpy()
        found, letters = compute_letter_scores(folder, line)
        np.testing.assert_allclose(found, expected, atol=1e-4)
        best = expected[0].argmax(1)
        new = np.flatnonzero((best != 0) & np.concatenate(([True], best[1:] != best[:-1])))
        text, sure = recognize_line(line, folder)
        assert text == "".join(LETTERS[k] for k in best[new]).strip()
        assert sure == pytest.approx(expected[0].max(1)[new].mean() if len(new) else 0, abs=1e-4)
        assert letters == tuple(LETTERS)
        lines.append(text)
    assert any(lines)


def test_lines_are_found_and_read_with_model_folders(
    folders: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = PPOCR(threshold=0, box_threshold=0, **folders)
    for image in IMAGES:
        lines = reader(image)
        height, width = image.shape[:2]
        assert (lines.xyxy >= 0).all() and (lines.xyxy <= [width, height, width, height]).all()
    lines = reader(IMAGES[2])
    assert len(lines) > 0 and len(reader(IMAGES[2], [str(lines.labels[0])])) > 0
    # a map with one region, of another size than the image, in place of what the network gives
    likely = np.zeros((1, 1, 64, 96), np.float32)
    likely[..., 20:30, 30:70] = 0.9
    monkeypatch.setattr("looktwice.extras.detection.ppocr.compute_text_map", lambda *_: likely)
    (box,) = PPOCR(threshold=0, **folders)(noise((128, 288), 0)).xyxy
    grown = 1.6 * 400 / 50 / 2  # of the region in the map, on each side
    expected = np.array([30 - grown, 20 - grown, 70 + grown, 30 + grown]) * [3, 2, 3, 2]
    np.testing.assert_allclose(box, expected, atol=3)


@pytest.fixture
def folders(built: Callable[..., Path]) -> dict[str, Any]:
    reader = built("PPOCRV6SmallRec", max_image_width=3200)
    return {"detector": built("PPOCRV5MobileDet"), "recognizer": reader}


def test_a_wrong_folder_is_identified(folders: dict[str, Any], tmp_path: Path) -> None:
    mute = pp_ocr(tmp_path / "mute", "PPOCRV6SmallRec", "abc", character_list=[])
    for wrong, fact in (
        ({"detector": folders["recognizer"]}, "AutoModelForObjectDetection"),
        ({"detector": tiny("yolos", tmp_path / "yolos")}, "contains a yolos"),
        ({"recognizer": mute}, "no character_list"),
    ):
        with pytest.raises(WeightsError, match=fact):
            PPOCR(threshold=0, box_threshold=0, **(folders | wrong))(IMAGES[2])

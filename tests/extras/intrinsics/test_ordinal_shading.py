"""Ordinal Shading from its authors' file: values of their code, and BLINK's question about two
points."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from looktwice.extras.detection import DIRE
from looktwice.extras.detection.dire import run_resnet
from looktwice.extras.intrinsics import OrdinalShading
from looktwice.extras.intrinsics.midas import run_large, run_resnext_layer, run_small
from looktwice.extras.intrinsics.resolution import find_size
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers import DarkerPoint
from looktwice.specialists.rules import NoEvidence
from tests.extras.intrinsics.networks import (
    FULL,
    TINY,
    draw_tensors,
    list_large,
    write_ordinal_shading,
)
from tests.optional import optional
from tests.original_files import cat
from tests.specialists.scenes import run_stage

torch = optional("torch")
PHOTO = np.ascontiguousarray(cat()[60:124, 100:196])
THEIRS = {
    (10, 10): (0.42175031, 0.23012502, 0.11070668),
    (40, 50): (0.02076274, 0.00512624, 0.00329836),
    (70, 90): (0.48942244, 0.2378, 0.09116996),
}
"""Values at (row, column) of the authors' code (compphoto/Intrinsic f70db32, CCareaga/MiDaS and
chrislib) with these tensors, `resize_conf=64`, numpy's seed 0, on `chelsea()[60:220:2, 100:300:2]`
of scikit-image."""


NETWORKS = {
    "ord_state_dict": (run_large, 3, (0.49976122, 0.50329185, 0.50980181)),
    "iid_state_dict": (run_small, 5, (0.4898915, 0.49072108, 0.49065548)),
}
"""Channels of the input, and outputs of the authors' classes with these tensors at three places."""


@pytest.mark.slow
def test_the_released_networks_give_the_values_of_their_authors_code(tmp_path: Path) -> None:
    model = write_ordinal_shading(tmp_path / "final_weights.pt", FULL)
    parts = torch.load(model)
    for name, (run, channels, values) in NETWORKS.items():
        dice = torch.Generator().manual_seed(channels)
        with torch.inference_mode():
            out = run(parts[name], torch.rand(1, channels, 64, 96, generator=dice))[0, 0]
        places = [float(out[place]) for place in ((10, 10), (40, 50), (60, 90))]
        assert places == pytest.approx(values, abs=2e-6)
    pixels = np.ascontiguousarray(cat()[60:220:2, 100:300:2])
    albedo = OrdinalShading(model, longest=64, device="cpu")(pixels)
    assert albedo.shape == (80, 100, 3)
    for row, column in THEIRS:
        assert albedo[row, column] == pytest.approx(THEIRS[row, column], rel=1e-4)


def test_the_encoder_without_groups_is_the_resnet_of_dire() -> None:
    """The first layer is compared with code that another test compares with torchvision."""
    tensors = draw_tensors(list_large(TINY._replace(groups=1, depths=(1, 1, 1, 1))), 3)
    names = {"layer1.0.": "conv1.", "layer1.1.": "bn1.", "layer1.4.": "layer1."}
    plain = {}
    for name, tensor in tensors.items():
        own = name.removeprefix("pretrained.")
        start = next((part for part in names if own.startswith(part)), "")
        plain[names.get(start, "") + own.removeprefix(start)] = tensor
    last = tensors["scratch.layer4_rn.weight"].shape[1]
    plain |= {"fc.weight": torch.eye(last)[:1], "fc.bias": torch.zeros(1)}
    images = torch.rand(1, 3, 64, 96, generator=torch.Generator().manual_seed(1))
    x = images
    for layer in (1, 2, 3, 4):
        x = run_resnext_layer(tensors, layer, x)
    torch.testing.assert_close(x.mean((2, 3))[:, :1], run_resnet(plain, images))
    assert run_large(tensors, images).shape == (1, 1, 64, 96)


@pytest.mark.parametrize(
    ("height", "width", "size"),
    [(300, 451, (384, 576)), (120, 100, (384, 320)), (1600, 800, (1504, 768))],
)
def test_images_are_resized_until_every_pixel_is_near_an_edge(
    height: int, width: int, size: tuple[int, int]
) -> None:
    """For the cat and a small image, sizes are those of the authors' code, which fails at the
    latter; edges of a large one are dense."""
    image = np.asarray(cv2.resize(cat() / 255, (width, height)), np.float64)
    if height > 1000:
        image = np.random.default_rng(0).random((height, width, 3))
    assert find_size(image) == size


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_ordinal_shading(tmp_path_factory.mktemp("shading") / "final_weights.pt")


def test_blinks_question_is_answered_with_its_reflectance(model: str) -> None:
    shading = OrdinalShading(model, longest=64, device="cpu")
    albedo = shading(PHOTO)
    assert albedo.shape == PHOTO.shape and np.isfinite(albedo).all() and albedo.std() > 0
    marks = Point("A", 20, 20), Point("B", 80, 40)
    light = [
        float(np.median(albedo[y - 2 : y + 3, x - 2 : x + 3] @ [0.2126, 0.7152, 0.0722]))
        for x, y in ((20, 20), (80, 40))
    ]
    choices = "A is darker", "B is darker", "About the same"
    asked = Sample("s1", "Which point is darker?", (Picture(PHOTO),), choices, marks)
    state = run_stage(DarkerPoint(shading), asked)
    assert max(light) > 1.1 * min(light)
    assert state.answer == "AB"[int(light[1] < light[0])]


def test_wrong_files_and_settings_give_one_sentence(model: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"final_weights\.pt"):
        OrdinalShading()
    with pytest.raises(WeightsError, match=r"Ordinal Shading.*OrdinalShading"):
        DIRE(model, device="cpu")(PHOTO)
    parts = torch.load(model)
    torch.save({**parts, "iid_state_dict": parts["ord_state_dict"]}, tmp_path / "mixed.pt")
    with pytest.raises(WeightsError, match="its iid_state_dict does not hold"):
        OrdinalShading(str(tmp_path / "mixed.pt"), device="cpu")(PHOTO)
    torch.save(parts["ord_state_dict"], tmp_path / "half.pt")
    with pytest.raises(WeightsError, match="unknown network"):
        OrdinalShading(str(tmp_path / "half.pt"), device="cpu")(PHOTO)
    with pytest.raises(NoEvidence, match="single colour"):
        OrdinalShading(model, device="cpu")(np.full((64, 64, 3), 9, np.uint8))

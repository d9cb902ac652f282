"""Marigold's albedo: the map of that name, at the size of the image, in linear light."""

import json
from pathlib import Path

import numpy as np
import pytest

from looktwice.pipelines.runtime.networks import WeightsError
from looktwice.specialists.maps import MarigoldAlbedo
from looktwice.specialists.maps.reflectance import levels_to_linear
from tests.optional import optional
from tests.original_files import cat
from tests.tiny import tiny

torch = optional("torch")
diffusers = optional("diffusers")
PHOTO = cat()[:48, :64]


def intrinsics(folder: Path, names: list[str], space: str) -> Path:
    """A pipeline whose U-Net takes an image beside two maps."""
    for name in ("stable_diffusion", "intrinsics_unet"):
        tiny(name, folder)
    told = {
        "_class_name": "MarigoldIntrinsicsPipeline",
        "prediction_type": "intrinsics",
        "default_denoising_steps": 2,
        "default_processing_resolution": 64,
        "target_properties": {"target_names": names, "albedo": {"prediction_space": space}},
    }
    (folder / "model_index.json").write_text(json.dumps(told))
    return folder


@pytest.mark.dear
@pytest.mark.parametrize(("space", "place"), [("srgb", 0), ("linear", 0), ("srgb", 1)])
def test_the_albedo_is_that_of_the_pipeline_in_linear_light(
    tmp_path: Path, space: str, place: int
) -> None:
    names = ["material", "albedo"][:: 1 if place else -1]
    ours = MarigoldAlbedo(str(intrinsics(tmp_path, names, space)), device="cpu")
    depth = ours(PHOTO)
    dice = torch.Generator().manual_seed(0)
    told = ours.network()(PHOTO.astype(np.float32) / 255, generator=dice)
    theirs = told.prediction[place].astype(np.float64)
    expected = theirs if space == "linear" else levels_to_linear(theirs)
    assert depth.shape == (48, 64, 3)
    np.testing.assert_allclose(depth, expected, atol=1e-6)


def test_a_pipeline_without_an_albedo_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="no pipeline for intrinsic images"):
        MarigoldAlbedo(str(intrinsics(tmp_path, ["depth", "shade"], "srgb")), device="cpu")(PHOTO)

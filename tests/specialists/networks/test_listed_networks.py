"""The networks that the documents list beside Depth Anything and DINOv2 work, or say what they need."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from looktwice.pipelines.runtime import WeightsError, close_networks
from looktwice.specialists.features import DINOv2
from looktwice.specialists.maps import DepthAnything
from tests import tiny_depth
from tests.original_files import cat

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize("size", [(100, 150), (150, 90)])
def test_zoedepth_looks_at_images_as_its_own_processor_pads_them(tmp_path: Path, size: tuple[int, int]) -> None:
    photo = cat()[: size[0], : size[1]]
    found = DepthAnything(str(tiny_depth.zoedepth(tmp_path)))(photo)
    assert found.values.shape == size and not found.larger_is_nearer
    assert np.ptp(found.values) > 0
    close_networks()


def test_a_rim_is_taken_off_each_side_of_a_map() -> None:
    from looktwice.specialists.maps.depth_anything import _without_padding

    rim, side = int(np.sqrt(40 / 2) * 3), int(np.sqrt(30 / 2) * 3)
    padded = np.full((40 + 2 * rim, 30 + 2 * side), 9.0)
    padded[rim : rim + 40, side : side + 30] = np.arange(30)
    (found,) = _without_padding(torch.from_numpy(padded)[None], [(40, 30)])
    np.testing.assert_allclose(found, np.tile(np.arange(30.0), (40, 1)), atol=1e-5)


def test_depth_pro_without_torchvision_names_it(tmp_path: Path) -> None:
    if find_spec("torchvision") is None:
        with pytest.raises(WeightsError, match="pip install torchvision"):
            DepthAnything(str(tiny_depth.depth_pro(tmp_path)))(cat()[:100, :150])
    else:
        assert DepthAnything(str(tiny_depth.depth_pro(tmp_path)))(cat()[:100, :150]).values.shape == (100, 150)
    close_networks()


@pytest.mark.parametrize("make", [tiny_depth.dinov3, tiny_depth.siglip2_naflex])
@pytest.mark.parametrize("layer", [-1, 1])
def test_other_backbones_give_a_vector_for_each_patch(tmp_path: Path, make: Callable[[Path], Path], layer: int) -> None:
    found = DINOv2(str(make(tmp_path)), longest=128, layer=layer)(cat()[:100, :150])
    assert found.values.shape == (5, 8, 32)
    close_networks()


def test_naflex_sees_the_patches_that_its_own_processor_cuts(tmp_path: Path) -> None:
    """The last state is the same as with the processor of transformers, which keeps an image of this size."""
    from transformers import Siglip2ImageProcessorPil, Siglip2VisionModel

    folder = tiny_depth.siglip2_naflex(tmp_path)
    photo = cat()[:64, :128]
    inputs = Siglip2ImageProcessorPil(patch_size=16, max_num_patches=32)(images=photo, return_tensors="pt")
    assert inputs["spatial_shapes"].tolist() == [[4, 8]]
    with torch.inference_mode():
        theirs = Siglip2VisionModel.from_pretrained(folder).eval()(**inputs).last_hidden_state[0].numpy()
    ours = DINOv2(str(folder), longest=128)(photo).values.reshape(32, -1)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    close_networks()

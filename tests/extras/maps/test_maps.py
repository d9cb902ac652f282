"""Maps: Marigold's albedo, stereo disparity, pictorial depth cues, and reflectance."""

import json
from pathlib import Path
from typing import Any, get_args

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from looktwice.extras.maps import MarigoldAlbedo
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.answers import MatchedPoint, NearerPoint
from looktwice.specialists.maps import SGBM, ColorRetinex, ConstantShading, DepthCue
from looktwice.specialists.maps.depth_cues import CueKind
from looktwice.specialists.maps.reflectance import integrate_steps, levels_to_linear, to_linear
from looktwice.specialists.matching import SIFT
from looktwice.specialists.protocols import DepthEstimator
from looktwice.specialists.rules import NoEvidence
from tests.optional import optional
from tests.original_files import cat
from tests.specialists.scenes import (
    FixedMatcher,
    depths,
    place_candidates,
    run_stage,
    sample,
    texture,
)
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


@pytest.mark.slow
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
    with pytest.raises(WeightsError, match="not a pipeline for intrinsic images"):
        MarigoldAlbedo(str(intrinsics(tmp_path, ["depth", "shade"], "srgb")), device="cpu")(PHOTO)


@pytest.mark.parametrize("disparity", [5, 21])
@pytest.mark.parametrize("mode", ["sgbm", "hh", "3way"])
def test_sgbm_measures_a_shift(mode: Any, disparity: int) -> None:
    wide = texture(232, 120, grain=1)
    left, right = wide[:, :200], wide[:, disparity : 200 + disparity]
    depth = SGBM(disparities=32, mode=mode)(left, right)
    assert depth.values.shape == (120, 200)
    assert np.nanmedian(depth.values[:, disparity:]) == pytest.approx(disparity, abs=0.1)
    assert np.isfinite(depth.values[:, disparity + 5 :]).mean() > 0.9
    assert depth.larger_is_nearer


@pytest.mark.slow
def test_a_real_stereo_pair() -> None:
    """Compared with the true disparity of Middlebury's motorcycle (inf is unknown in skimage)."""
    from skimage import data

    left, right, truth = data.stereo_motorcycle()  # type: ignore[no-untyped-call]
    near, matches = SGBM()(left, right), SIFT()(left, right)
    depth, match = NearerPoint(lambda *_: near), MatchedPoint(FixedMatcher(matches))
    rng, right_of = np.random.default_rng(0), {"depth": 0, "match": 0}
    # the part that the right view can contain
    ys, xs = np.nonzero(np.isfinite(truth) & (np.arange(truth.shape[1]) >= truth))
    for _ in range(150):
        first, second = rng.integers(0, len(xs), 2)
        spots = {"A": first, "B": second}.items()
        marks = [Point(label, float(xs[at]), float(ys[at])) for label, at in spots]
        nearer = "A" if truth[ys[first], xs[first]] > truth[ys[second], xs[second]] else "B"
        right_of["depth"] += run_stage(depth, depths(*marks, images=(left, right))).answer == nearer
        target = (xs[first] - truth[ys[first], xs[first]], ys[first])
        places = place_candidates(target, "D", 3).items()
        candidates = [Point(label, *xy, image=1) for label, xy in places]
        asked = sample(left, right, choices=4, marks=(Point("REF", *marks[0].center), *candidates))
        right_of["match"] += run_stage(match, asked).answer == "D"
    assert right_of["depth"] >= 0.8 * 150
    assert right_of["match"] >= 0.8 * 150


Floats = NDArray[np.float64]
HIGH, WIDE = 120, 240
AIR = np.array([200, 205, 215.0])


def grainy(grain: float = 0.7, seed: int = 0) -> Floats:
    """Return colourful noise with detail of this size, levels 0..255."""
    rough = np.random.default_rng(seed).uniform(0, 255, (HIGH, WIDE, 3))
    smooth = np.asarray(cv2.GaussianBlur(rough, (0, 0), grain), np.float64)
    return np.asarray((smooth - smooth.mean()) / smooth.std() * 50 + 128)


def join(near: Floats, far: Floats) -> Pixels:
    """Join two images: near on the left, far on the right."""
    return np.hstack([near[:, : WIDE // 2], far[:, WIDE // 2 :]]).clip(0, 255).astype(np.uint8)


def hazy(share: float) -> Floats:
    return np.asarray(share * grainy() + (1 - share) * AIR)


def gray(values: Floats) -> Floats:
    return np.repeat(values.mean(2, keepdims=True), 3, axis=2)


PICTURES: dict[str, tuple[DepthEstimator, Pixels]] = {
    "haze": (DepthCue("haze"), join(hazy(0.9), hazy(0.4))),
    "contrast": (DepthCue("local_contrast"), join(hazy(0.9), hazy(0.4))),
    "saturation": (DepthCue("saturation"), join(grainy(), gray(grainy()))),
    "brightness": (DepthCue("brightness"), join(grainy() + 40, grainy() - 40)),
    "sharpness": (
        DepthCue("sharpness"),
        join(grainy(), np.asarray(cv2.GaussianBlur(grainy(), (0, 0), 2.0))),
    ),
    "texture": (DepthCue("texture_size"), join(grainy(4.0), grainy(1.0))),
}


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_cue_distinguishes_near_from_far(name: str) -> None:
    """Away from the seam, nearly all pixels on the left are nearer than on the right."""
    cue, picture = PICTURES[name]
    depth = cue(picture)
    assert depth.larger_is_nearer
    assert depth.values.shape == (HIGH, WIDE)
    left, right = depth.values[10:-10, 20:100], depth.values[10:-10, 140:220]
    assert np.percentile(left, 5) > np.percentile(right, 95)
    mirrored = cue(np.ascontiguousarray(picture[:, ::-1])).values
    np.testing.assert_allclose(mirrored[:, ::-1], depth.values, rtol=1e-6, atol=1e-6)


def test_lower_objects_are_nearer() -> None:
    depth = DepthCue("vertical_position")(np.zeros((5, 3, 3), np.uint8))
    assert depth.larger_is_nearer
    assert (np.diff(depth.values, axis=0) > 0).all() and (np.diff(depth.values, axis=1) == 0).all()


def test_sharpness_is_not_contrast() -> None:
    """Pale but sharp is nearer than strong but blurred."""
    pale: Floats = 128 + 0.3 * (grainy() - 128)
    strong = 128 + 2 * (np.asarray(cv2.GaussianBlur(grainy(), (0, 0), 2.5), np.float64) - 128)
    depth = DepthCue("sharpness")(join(pale, strong)).values
    assert np.median(depth[:, 20:100]) > np.median(depth[:, 140:220])


def test_without_texture_there_is_no_texture_gradient() -> None:
    flat = np.full((HIGH, WIDE, 3), 128.0)
    depth = DepthCue("texture_size")(join(grainy(), flat)).values
    assert np.isfinite(depth[:, :80]).all() and np.isnan(depth[:, 200:]).all()


@pytest.mark.parametrize("kind", [*get_args(CueKind), ""])
def test_a_uniform_image_gives_no_evidence(kind: Any) -> None:
    if kind == "vertical_position":
        return
    for size in ((1, 1), (40, 30)):
        with pytest.raises(NoEvidence, match="single colour"):
            (DepthCue(kind) if kind else ColorRetinex())(np.full((*size, 3), 90, np.uint8))


# Reflectance


def light_scene(light: Floats) -> tuple[Pixels, Floats]:
    """Return patches under uneven light as sRGB, and their reflectance."""
    rng = np.random.default_rng(4)
    colors = rng.uniform(0.15, 0.6, (4, 6, 3))
    colors[::2] = colors[::2].mean(-1, keepdims=True)
    reflected = np.asarray(np.kron(colors, np.ones((30, 40, 1))), np.float64)
    seen = reflected * light[..., None]
    encoded = np.where(
        seen <= 0.0031308, 12.92 * seen, 1.055 * np.maximum(seen, 1e-9) ** (1 / 2.4) - 0.055
    )
    return (255 * encoded).round().astype(np.uint8), reflected


def error(found: Floats, truth: Floats) -> float:
    """Return the spread of the log ratio, which no overall factor changes."""
    return float(np.std(np.log(found.mean(-1) / truth.mean(-1))))


def test_retinex_removes_illumination_and_only_rescales_even_light() -> None:
    light = np.outer(np.linspace(1, 0.5, HIGH), np.linspace(1, 0.4, WIDE))
    pixels, truth = light_scene(light)
    constant = error(ConstantShading()(pixels), truth)
    assert error(ColorRetinex()(pixels), truth) < 0.25 * constant
    smaller = ColorRetinex(longest=120)(pixels)
    assert smaller.shape == truth.shape and error(smaller, truth) < 0.5 * constant
    pixels, truth = light_scene(np.ones((HIGH, WIDE)))
    for kind in (ColorRetinex, ConstantShading):
        assert error(kind()(pixels), truth) < 0.02


def test_the_steps_of_a_map_reconstruct_it() -> None:
    whole = np.random.default_rng(0).normal(size=(9, 14))
    found = integrate_steps(np.diff(whole, axis=1), np.diff(whole, axis=0))
    np.testing.assert_allclose(found, whole - whole.mean(), atol=1e-10)


def test_linear_light_follows_the_srgb_standard() -> None:
    """IEC 61966-2-1: level 0.5 is 21.4 % of the light; the two pieces meet at 0.04045."""
    pixels = np.array([[[0, 255, 128]]], np.uint8)
    assert to_linear(pixels)[0, 0] == pytest.approx([0, 1, 0.2159], abs=1e-3)
    dark = to_linear(np.array([[[10, 11, 12]]], np.uint8))[0, 0]
    assert dark == pytest.approx([0.00304, 0.00335, 0.00368], abs=1e-5)

"""Pictorial cues of depth, and reflectance, on pictures whose truth is known."""

from typing import Any, get_args

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.maps import ColorRetinex, ConstantShading, DepthCue
from looktwice.specialists.maps.depth_cues import Kind
from looktwice.specialists.maps.reflectance import integrate_steps, to_linear
from looktwice.specialists.protocols import DepthEstimator
from looktwice.specialists.rules import NoEvidence

Floats = NDArray[np.float64]
HIGH, WIDE = 120, 240
AIR = np.array([200, 205, 215.0])


def texture(grain: float = 0.7, seed: int = 0) -> Floats:
    """Colourful noise with detail of this size, levels 0..255."""
    rough = np.random.default_rng(seed).uniform(0, 255, (HIGH, WIDE, 3))
    smooth = np.asarray(cv2.GaussianBlur(rough, (0, 0), grain), np.float64)
    return np.asarray((smooth - smooth.mean()) / smooth.std() * 50 + 128)


def beside(near: Floats, far: Floats) -> Pixels:
    """Near on the left, far on the right."""
    return np.hstack([near[:, : WIDE // 2], far[:, WIDE // 2 :]]).clip(0, 255).astype(np.uint8)


def hazy(share: float) -> Floats:
    return np.asarray(share * texture() + (1 - share) * AIR)


def gray(values: Floats) -> Floats:
    return np.repeat(values.mean(2, keepdims=True), 3, axis=2)


PICTURES: dict[str, tuple[DepthEstimator, Pixels]] = {
    "haze": (DepthCue("haze"), beside(hazy(0.9), hazy(0.4))),
    "contrast": (DepthCue("local_contrast"), beside(hazy(0.9), hazy(0.4))),
    "saturation": (DepthCue("saturation"), beside(texture(), gray(texture()))),
    "brightness": (DepthCue("brightness"), beside(texture() + 40, texture() - 40)),
    "sharpness": (
        DepthCue("sharpness"),
        beside(texture(), np.asarray(cv2.GaussianBlur(texture(), (0, 0), 2.0))),
    ),
    "texture": (DepthCue("texture_size"), beside(texture(4.0), texture(1.0))),
}


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_cue_tells_near_from_far(name: str) -> None:
    """Away from the seam, nearly all on the left is nearer than nearly all on the right."""
    cue, picture = PICTURES[name]
    depth = cue(picture)
    assert depth.larger_is_nearer
    assert depth.values.shape == (HIGH, WIDE)
    left, right = depth.values[10:-10, 20:100], depth.values[10:-10, 140:220]
    assert np.percentile(left, 5) > np.percentile(right, 95)
    mirrored = cue(np.ascontiguousarray(picture[:, ::-1])).values
    np.testing.assert_allclose(mirrored[:, ::-1], depth.values, rtol=1e-6, atol=1e-6)


def test_what_stands_lower_is_nearer() -> None:
    depth = DepthCue("vertical_position")(np.zeros((5, 3, 3), np.uint8))
    assert depth.larger_is_nearer
    assert (np.diff(depth.values, axis=0) > 0).all() and (np.diff(depth.values, axis=1) == 0).all()


def test_sharpness_is_not_contrast() -> None:
    """Pale but sharp is nearer than strong but blurred."""
    pale: Floats = 128 + 0.3 * (texture() - 128)
    strong = 128 + 2 * (np.asarray(cv2.GaussianBlur(texture(), (0, 0), 2.5), np.float64) - 128)
    depth = DepthCue("sharpness")(beside(pale, strong)).values
    assert np.median(depth[:, 20:100]) > np.median(depth[:, 140:220])


def test_where_there_is_no_texture_there_is_no_size_of_it() -> None:
    flat = np.full((HIGH, WIDE, 3), 128.0)
    depth = DepthCue("texture_size")(beside(texture(), flat)).values
    assert np.isfinite(depth[:, :80]).all() and np.isnan(depth[:, 200:]).all()


@pytest.mark.parametrize("kind", [*get_args(Kind), ""])
def test_one_colour_tells_nothing(kind: Any) -> None:
    if kind == "vertical_position":
        return
    for size in ((1, 1), (40, 30)):
        with pytest.raises(NoEvidence, match="of one colour"):
            (DepthCue(kind) if kind else ColorRetinex())(np.full((*size, 3), 90, np.uint8))


# Reflectance


def lit(light: Floats) -> tuple[Pixels, Floats]:
    """Grey and coloured patches in a light that falls off, as sRGB; and what they reflect."""
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
    """The spread of the logarithm of their quotient, which no overall factor changes."""
    return float(np.std(np.log(found.mean(-1) / truth.mean(-1))))


def test_retinex_takes_the_light_away_and_in_even_light_changes_the_scale_alone() -> None:
    light = np.outer(np.linspace(1, 0.5, HIGH), np.linspace(1, 0.4, WIDE))
    pixels, truth = lit(light)
    constant = error(ConstantShading()(pixels), truth)
    assert error(ColorRetinex()(pixels), truth) < 0.25 * constant
    smaller = ColorRetinex(longest=120)(pixels)
    assert smaller.shape == truth.shape and error(smaller, truth) < 0.5 * constant
    pixels, truth = lit(np.ones((HIGH, WIDE)))
    for kind in (ColorRetinex, ConstantShading):
        assert error(kind()(pixels), truth) < 0.02


def test_steps_of_a_map_give_the_map_back() -> None:
    whole = np.random.default_rng(0).normal(size=(9, 14))
    found = integrate_steps(np.diff(whole, axis=1), np.diff(whole, axis=0))
    np.testing.assert_allclose(found, whole - whole.mean(), atol=1e-10)


def test_linear_light_is_that_of_the_standard() -> None:
    """IEC 61966-2-1: level 0.5 is 21.4 % of the light; the two pieces meet at 0.04045."""
    pixels = np.array([[[0, 255, 128]]], np.uint8)
    assert to_linear(pixels)[0, 0] == pytest.approx([0, 1, 0.2159], abs=1e-3)
    dark = to_linear(np.array([[[10, 11, 12]]], np.uint8))[0, 0]
    assert dark == pytest.approx([0.00304, 0.00335, 0.00368], abs=1e-5)

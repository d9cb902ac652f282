"""Attention of a vision encoder: maps, shares on marks, and what other encoders are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from looktwice.pipelines.marks import Box, Mask, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.runtime import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.markers import ScalarOverlay
from looktwice.specialists.features import AttentionShare, VisionAttention
from looktwice.specialists.features.attention import measure_shares
from tests import tiny_networks

pytest.importorskip("transformers")


def picture(height: int, width: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize(("family", "grid"), [("llava", 2), ("idefics3", 2)])
def test_a_map_adds_up_and_a_batch_equals_single_images(family: str, grid: int, tmp_path: Path) -> None:
    attention = VisionAttention(model=str(getattr(tiny_networks, family)(tmp_path / family)))
    images = [picture(60, 80), picture(50, 40, 1), picture(50, 40, 2)]
    alone = [attention.predict((image,)).values for image in images]
    together = attention.predict_batch([(image,) for image in images])
    for one, other in zip(alone, together, strict=True):
        assert one.shape == (grid, grid) and one.sum() == pytest.approx(1)
        assert np.allclose(one, other.values, atol=1e-6)
    assert not np.allclose(alone[0], alone[1], atol=1e-4), "another picture is attended to otherwise"
    whole = attention(images[0])
    assert whole.shape == (60, 80) and whole.sum() == pytest.approx(1)
    assert whole[0, 0] / whole[0, -1] == pytest.approx(alone[0][0, 0] / alone[0][0, -1])


def test_a_family_without_a_plain_grid_is_refused(tmp_path: Path) -> None:
    attention = VisionAttention(model=str(tiny_networks.qwen2_5_vl(tmp_path / "qwen")))
    with pytest.raises(WeightsError, match="no plain grid"):
        attention(picture(56, 56))
    far = VisionAttention(model=str(tiny_networks.llava(tmp_path / "llava")), layer=5)
    with pytest.raises(WeightsError, match="has 2 layers"):
        far(picture(56, 56))


def test_shares_are_those_of_the_pixels_under_the_marks() -> None:
    attention = np.zeros((10, 10))
    attention[2:4, 2:4] = 0.1
    attention[8, 8] = 0.6
    corner = np.zeros((10, 10), bool)
    corner[8:, 8:] = True
    assert measure_shares(attention, [Box("", 2, 2, 4, 4)], 3) == pytest.approx((0.4, 0.04))
    assert measure_shares(attention, [Box("", 2, 2, 4, 4), Box("", 2, 2, 4, 4)], 3)[1] == pytest.approx(0.04)
    assert measure_shares(attention, [Mask("", corner)], 3) == pytest.approx((0.6, 0.04))
    assert measure_shares(attention, [Point("", 8, 8)], 1) == pytest.approx((0.6, 0.05))


def test_the_stage_notes_the_share_and_an_overlay_draws_the_map(tmp_path: Path) -> None:
    attention = VisionAttention(model=str(tiny_networks.llava(tmp_path / "llava")))
    sample = Sample("s", "?", (Picture(picture(60, 80)),), marks=(Box("", 0, 0, 40, 30),))
    noted = Pipeline({"share": AttentionShare(attention), "draw": ScalarOverlay(attention, layout="blend")})
    after = noted(State.start(sample))
    assert any(
        note.startswith("attention on the marks of image 0: 0.") and "area 0.2500" in note for note in after.notes
    )
    assert not np.array_equal(after.views[0].picture.pixels, sample.images[0].pixels)

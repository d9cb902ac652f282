"""SIFT: the matches that pass its two tests, and detection once per image and run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.stores import use_result_store
from looktwice.specialists.matching import SIFT, RotationSearch
from tests.specialists.scenes import texture

WIDE = texture(400, 300)
ONE, TWO = WIDE[:100, :120].copy(), WIDE[10:110, 12:132].copy()


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("ratio", [0.8, 1.0])
def test_matches_pass_the_ratio_test_and_agree_in_both_directions(
    mutual: bool, ratio: float
) -> None:
    sift = SIFT(mutual=mutual, ratio=ratio)
    (xy0, vectors0), (xy1, vectors1) = sift.detect(ONE), sift.detect(TWO)
    far = np.linalg.norm(vectors0[:, None] - vectors1[None], axis=2)
    nearest, back = far.argmin(1), far.argmin(0)
    first, second = np.sort(far, 1)[:, :2].T
    kept = first < ratio * second
    if mutual:
        kept &= back[nearest] == np.arange(len(xy0))
    expected = {(*xy0[n], *xy1[nearest[n]]) for n in np.flatnonzero(kept)}
    matches = sift(ONE, TWO)
    assert {(*a, *b) for a, b in zip(matches.xy0, matches.xy1, strict=True)} == expected
    assert len(matches) > 20 and (np.diff(matches.confidence) <= 0).all()


def test_a_run_detects_the_keypoints_of_an_image_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detected = list[int]()
    detect = SIFT._detect

    def count(self: SIFT, pixels: Pixels) -> Any:
        detected.append(pixels.shape[1])
        return detect(self, pixels)

    monkeypatch.setattr(SIFT, "_detect", count)
    one, two = WIDE[:100, :120].copy(), WIDE[10:110, 12:132].copy()
    turned = RotationSearch(SIFT(), (0.0, 20.0, -20.0))
    alone = turned(one, two)
    assert len(detected) == 6
    detected.clear()
    with use_result_store(tmp_path):
        shared = turned(one, two)
    assert len(detected) == 4
    assert np.array_equal(alone.xy1, shared.xy1) and len(alone) > 5

"""Disparity of stereo pairs, made and real."""

from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.marks import Point
from looktwice.specialists.answers import MatchedPoint, NearerPoint
from looktwice.specialists.maps import SGBM
from looktwice.specialists.matching import SIFT
from tests.specialists.scenes import Given, depths, run_stage, sample, spread, texture


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


@pytest.mark.dear
def test_a_real_stereo_pair() -> None:
    """Against the true disparity of Middlebury's motorcycle (in skimage inf is unknown)."""
    from skimage import data

    left, right, truth = data.stereo_motorcycle()  # type: ignore[no-untyped-call]
    near, matches = SGBM()(left, right), SIFT()(left, right)
    depth, match = NearerPoint(lambda *_: near), MatchedPoint(Given(matches))
    rng, right_of = np.random.default_rng(0), {"depth": 0, "match": 0}
    # what the right view can hold
    ys, xs = np.nonzero(np.isfinite(truth) & (np.arange(truth.shape[1]) >= truth))
    for _ in range(150):
        first, second = rng.integers(0, len(xs), 2)
        spots = {"A": first, "B": second}.items()
        marks = [Point(label, float(xs[at]), float(ys[at])) for label, at in spots]
        nearer = "A" if truth[ys[first], xs[first]] > truth[ys[second], xs[second]] else "B"
        right_of["depth"] += run_stage(depth, depths(*marks, images=(left, right))).answer == nearer
        target = (xs[first] - truth[ys[first], xs[first]], ys[first])
        places = spread(target, "D", 3).items()
        candidates = [Point(label, *xy, image=1) for label, xy in places]
        asked = sample(left, right, choices=4, marks=(Point("REF", *marks[0].center), *candidates))
        right_of["match"] += run_stage(match, asked).answer == "D"
    assert right_of["depth"] >= 0.8 * 150
    assert right_of["match"] >= 0.8 * 150

"""CPU time of specialists without networks, compared with direct calls of the libraries that they
use, with the same settings and inputs, on one thread.

Rounds alternate in one process; the medians and their ratio are printed, and the ratio is limited.
Real pairs come from the folder of benchmark files, if present, and from scikit-image's stereo pair,
in full size and at 1,000 pixels.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from skimage import data
from skimage.segmentation import felzenszwalb, slic

from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.runtime.stores import use_result_store
from looktwice.pipelines.transforms import rotate
from looktwice.pipelines.view import View
from looktwice.specialists.answers import MatchedPoint
from looktwice.specialists.maps import SGBM
from looktwice.specialists.matching import SIFT, RotationSearch
from looktwice.specialists.pixels import shrink
from looktwice.specialists.segmentation import Felzenszwalb, Slic
from tests.paths import DATA

ROUNDS, LIMIT, WIDTH = 3, 1.2, 1000
FILES = {"graf": ("graf1.png", "graf3.png"), "aloe": ("aloeL.jpg", "aloeR.jpg")}
TURNS = (0.0, -20.0, 20.0, -40.0, 40.0)
Pair = tuple[Pixels, Pixels]


def resize(pixels: Pixels) -> Pixels:
    high = round(pixels.shape[0] * WIDTH / pixels.shape[1])
    return np.asarray(cv2.resize(pixels, (WIDTH, high), interpolation=cv2.INTER_AREA), np.uint8)


def pairs() -> Iterator[tuple[str, Pair]]:
    """Yield the pairs, each in full size and at 1,000 pixels."""
    motorcycle = data.stereo_motorcycle()[:2]  # type: ignore[no-untyped-call]
    found = {"motorcycle": tuple(np.asarray(view, np.uint8) for view in motorcycle)}
    for name, files in FILES.items() if (DATA / "pairs").is_dir() else ():
        pixels = [np.asarray(Image.open(DATA / "pairs" / file).convert("RGB")) for file in files]
        found[name] = tuple(pixels)
    for name, (one, two) in found.items():
        yield name, (one, two)
        yield f"{name}, {WIDTH} pixels", (resize(one), resize(two))


def bare_features(pixels: Pixels) -> tuple[Any, Any]:
    detector = cv2.SIFT.create(nfeatures=SIFT.features, enable_precise_upscale=True)
    return detector.detectAndCompute(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), None)


def bare_matches(one: tuple[Any, Any], two: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return matches by the ratio test alone."""
    found = cv2.BFMatcher(cv2.NORM_L2).knnMatch(one[1], two[1], k=2)
    kept = [first for first, second in found if first.distance < SIFT.ratio * second.distance]
    xy0 = np.array([one[0][match.queryIdx].pt for match in kept])
    return xy0, np.array([two[0][match.trainIdx].pt for match in kept])


def bare_sift(pair: Pair) -> None:
    xy0, xy1 = bare_matches(*map(bare_features, pair))
    cv2.estimateAffine2D(xy0[:16], xy1[:16], method=cv2.RANSAC, ransacReprojThreshold=3.0)


def our_sift(pair: Pair) -> None:
    rule, matches = MatchedPoint(SIFT()), SIFT()(*pair)
    rule.transfer_point(matches.xy0[0], matches)


def bare_turns(pair: Pair) -> None:
    one, view = bare_features(pair[0]), View.of(Picture(pair[1]))
    for turn in TURNS:
        bare_matches(one, bare_features(rotate(view, turn).pixels if turn else pair[1]))


def our_turns(pair: Pair) -> None:
    RotationSearch(SIFT(), TURNS)(*pair)


def bare_stereo(pair: Pair) -> None:
    unit = 3 * SGBM.block**2
    matcher = cv2.StereoSGBM.create(
        0, SGBM.disparities, SGBM.block, 8 * unit, 32 * unit, 1, 0, 10, 100, 2
    )
    left, right = (
        cv2.copyMakeBorder(view, 0, 0, SGBM.disparities, 0, cv2.BORDER_REPLICATE) for view in pair
    )
    matcher.compute(left, right)


def bare_felzenszwalb(pair: Pair) -> None:
    felzenszwalb(shrink(pair[0], 512), scale=300, sigma=0.8, min_size=200)


def bare_slic(pair: Pair) -> None:
    slic(shrink(pair[0], 512), 24, 20, sigma=1, start_label=0)


SPECIALISTS: dict[str, tuple[Callable[[Pair], object], Callable[[Pair], object]]] = {
    "SIFT, affine": (our_sift, bare_sift),
    "RotationSearch": (our_turns, bare_turns),
    "SGBM": (lambda pair: SGBM()(*pair), bare_stereo),
    "Felzenszwalb": (lambda pair: Felzenszwalb()(pair[0]), bare_felzenszwalb),
    "Slic": (lambda pair: Slic()(pair[0]), bare_slic),
}


@pytest.mark.parametrize("name", SPECIALISTS)
def test_time_compared_with_the_bare_library(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        for what, pair in pairs():
            spent: list[list[float]] = [[], []]
            for _ in range(ROUNDS):
                for work, seconds in zip(SPECIALISTS[name], spent, strict=True):
                    # as in a run, but without results of an earlier round
                    with use_result_store(tmp_path_factory.mktemp("results")):
                        start = time.process_time()
                        work(pair)
                        seconds.append(time.process_time() - start)
            ours, bare = map(statistics.median, spent)
            print(f"\n{name:15} {what:25} {ours:6.2f} s, bare {bare:6.2f} s: {ours / bare:.2f}")
            assert ours / bare < LIMIT
    finally:
        cv2.setNumThreads(before)

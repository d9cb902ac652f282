"""Where the camera moved, on matches whose flow is known."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.state import State
from looktwice.specialists.answers import CameraMotion
from looktwice.specialists.matching import SIFT, XFeat
from looktwice.specialists.protocols import Matcher
from looktwice.specialists.results import Matches
from tests.specialists.samples import asked, check


def test_matches_that_fit_no_camera_do_not_turn_its_direction() -> None:
    rng = np.random.default_rng(1)
    xyz = rng.uniform((-1, -1, 2), (1, 1, 4), (60, 3))
    xy0, moved = 300 * xyz[:, :2] / xyz[:, 2:], xyz - (0.2, 0, 0)
    xy1 = 300 * moved[:, :2] / moved[:, 2:]
    xy1[:15] += rng.uniform(200, 900, (15, 2))
    matches = Matches(xy0, xy1, np.ones(60))
    sample = asked(choices=("left", "right"), images=2)
    check(CameraMotion(lambda *_: matches, motion="sideways"), sample, "A")
    check(CameraMotion(lambda *_: matches, motion="sideways", flow="inliers"), sample, "B")


@lru_cache
def stereo(name: str, data: Path) -> tuple[Pixels, Pixels]:
    """The left and the right view of a real scene, 240 pixels wide."""
    if name == "motorcycle":
        from skimage.data import stereo_motorcycle

        left, right, _ = stereo_motorcycle()  # type: ignore[no-untyped-call]
    else:
        files = [str(data / "pairs" / f"aloe{side}.jpg") for side in "LR"]
        left, right = (np.asarray(cv2.imread(file))[:, :, ::-1] for file in files)
    size = (240, round(240 * left.shape[0] / left.shape[1]))
    left, right = (cv2.resize(view, size, interpolation=cv2.INTER_AREA) for view in (left, right))
    return left, right


def sideways(data: Path) -> list[tuple[list[Pixels], str]]:
    """Two pairs in both orders, plain and mirrored: eight questions, four of each answer."""
    questions = []
    for name in ("motorcycle", "aloe"):
        for swapped in (False, True):
            for mirrored in (False, True):
                views = stereo(name, data)[:: -1 if swapped else 1]
                images = [
                    np.ascontiguousarray(view[:, ::-1]) if mirrored else view for view in views
                ]
                questions.append((images, "A" if swapped != mirrored else "B"))
    return questions


@pytest.mark.dear
@pytest.mark.parametrize("network", ["sift", "xfeat"])
def test_left_and_right_on_two_real_stereo_pairs(shared_data: Path, network: str) -> None:
    matcher: Matcher = SIFT()
    if network == "xfeat":
        pytest.importorskip("torch")
        matcher = XFeat(keypoints=256)
    kinds: list[Any] = ["mean", "median", "inliers"]
    right = dict.fromkeys(kinds, 0)
    for images, answer in sideways(shared_data):
        matches = matcher(*images)
        sample = asked(choices=("left", "right"), images=images)
        for kind in kinds:
            rule = CameraMotion(lambda *_, m=matches: m, flow=kind, motion="sideways")
            right[kind] += rule(State(sample), NoModel()).answer == answer
    assert right == dict.fromkeys(kinds, 8)

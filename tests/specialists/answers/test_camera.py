"""Where the camera moved, on matches whose flow is known."""

from __future__ import annotations

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
from looktwice.specialists.matching import SIFT
from looktwice.specialists.protocols import Matcher
from looktwice.specialists.results import Matches
from tests.specialists.samples import asked, check, flow


@pytest.mark.parametrize(
    ("across", "settings", "answer", "reason"),
    [
        ([5] * 9, {}, "B", ""),
        ([-5] * 9, {}, "A", ""),
        ([5] * 9, {"motion": "sideways"}, "A", ""),
        ([-1] * 8 + [99], {}, "B", ""),
        ([-1] * 8 + [99], {"flow": "median"}, "A", ""),
        ([2, -2] * 5, {}, None, "the mean horizontal flow is 0"),
        ([5] * 7, {}, None, "7 matches, at least 8 are needed"),
        ([5] * 7, {"min_matches": 1}, "B", ""),
        ([], {"min_matches": 1}, None, "0 matches"),
        ([], {"flow": "inliers"}, None, "0 matches agree"),
    ],
)
def test_the_camera_moved(
    across: list[float], settings: Any, answer: str | None, reason: str
) -> None:
    sample = asked("Is the camera moving left or right?", ("left", "right"), 2)
    check(CameraMotion(flow(*across), **settings), sample, answer, reason)


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


def test_the_camera_needs_two_images_and_two_sides() -> None:
    check(
        CameraMotion(flow(*[5] * 9)),
        asked(choices=("left", "right")),
        None,
        "camera motion needs two images",
    )
    check(
        CameraMotion(flow(*[5] * 9)),
        asked(choices=("up", "down"), images=2),
        None,
        "the choices are not one",
    )
    check(CameraMotion(flow(*[5] * 9)), asked(choices=("right", "left"), images=2), "A")


@lru_cache
def stereo(name: str, data: Path) -> tuple[Pixels, Pixels]:
    """The left and the right view of a real scene, 240 pixels wide."""
    if name == "motorcycle":
        from skimage.data import stereo_motorcycle

        left, right, _ = stereo_motorcycle()  # type: ignore[no-untyped-call]
    else:
        left, right = (
            np.asarray(cv2.imread(str(data / "pairs" / f"aloe{side}.jpg")))[:, :, ::-1]
            for side in "LR"
        )
    size = (240, round(240 * left.shape[0] / left.shape[1]))
    shrunk = [
        np.asarray(cv2.resize(view, size, interpolation=cv2.INTER_AREA), np.uint8)
        for view in (left, right)
    ]
    return shrunk[0], shrunk[1]


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


@pytest.mark.parametrize("network", ["sift", "xfeat"])
def test_left_and_right_on_two_real_stereo_pairs(shared_data: Path, network: str) -> None:
    matcher, right = (
        SIFT() if network == "sift" else small_xfeat(),
        {"mean": 0, "median": 0, "inliers": 0},
    )
    for images, answer in sideways(shared_data):
        found = matcher(*images)
        for kind in right:
            rule = CameraMotion(lambda *_, found=found: found, flow=kind, motion="sideways")  # type: ignore[arg-type]
            right[kind] += (
                rule(State(asked(choices=("left", "right"), images=images)), NoModel()).answer
                == answer
            )
    assert right == {"mean": 8, "median": 8, "inliers": 8}


def small_xfeat() -> Matcher:
    pytest.importorskip("torch")
    from looktwice.specialists.matching import XFeat

    return XFeat(keypoints=256)

"""Settings of specialists that cannot be, each told from its range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from looktwice.specialists import answers, detection, features, maps, matching, segmentation
from looktwice.specialists.networks.ranges import BELOW_1, POSITIVE, SHARE, Range
from looktwice.specialists.segmentation.sam_files import MaskFilter


@pytest.mark.parametrize(
    ("wanted", "inside", "outside", "words"),
    [
        (Range(3), (3, 9.5), (2, float("nan"), None), "3 or more"),
        (POSITIVE, (1e-9,), (0, -1), "more than 0"),
        (SHARE, (0, 1), (-0.1, 1.1), "0 or more and at most 1"),
        (BELOW_1, (0, 0.99), (1,), "0 or more and below 1"),
    ],
)
def test_a_range_holds_its_numbers_and_says_which(
    wanted: Range, inside: Any, outside: Any, words: str
) -> None:
    assert all(value in wanted for value in inside)
    assert not any(value in wanted for value in outside)
    assert str(wanted) == words


YUNET = {"model": Path("y.onnx")}
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (answers.CameraMotion, {"matcher": None, "min_matches": 0}, "min_matches"),
    (answers.CameraMotion, {"matcher": None, "flow": "inliers", "min_matches": 7}, "min_matches"),
    (answers.CameraMotion, {"matcher": None, "tolerance": 0}, "tolerance"),
    (answers.ColorAtMark, {"window": 4}, "window is the odd side"),
    (answers.DarkerPoint, {"reflectance": None, "tolerance": -1}, "tolerance"),
    (answers.DarkerPoint, {"reflectance": None, "window": 4}, "window is the odd side"),
    (answers.MatchedPoint, {"matcher": None, "neighbors": 4}, "neighbors is 6 or more"),
    (answers.MatchedPoint, {"matcher": None, "tolerance": 0}, "tolerance"),
    (
        answers.MatchedPoint,
        {"matcher": None, "transfer": "homography", "min_matches": 3},
        "min_matches is 4 or more",
    ),
    (answers.NearerPoint, {"depth": None, "window": 0}, "window is the odd side"),
    (answers.SameIdentity, {"identity": None, "threshold": 0}, "threshold"),
    (answers.SeamMatcher, {"color": 0, "gradient": 0}, "both 0"),
    (answers.SeamMatcher, {"color": -1}, "color"),
    (detection.FaceCascade, {"scale": 1.0}, "scale is more than 1"),
    (detection.FaceCascade, {"smallest": 1.5}, "smallest"),
    (detection.FaceCascade, {"windows": 0}, "windows"),
    (detection.FaceCascade, {"longest": 10}, "longest is 24 or more"),
    (detection.FaceRecognition, {"upsample": 5}, "upsample"),
    (detection.Florence2, {"beams": 0}, "beams is 1 or more, found 0"),
    (detection.GroundingDINO, {"threshold": 1.0}, "threshold is 0 or more and below 1"),
    (detection.GroundingDINO, {"text_threshold": 1.0}, "text_threshold"),
    (detection.RFDETR, {"threshold": 1}, "threshold"),
    (detection.YuNet, YUNET | {"threshold": 1.0}, "threshold"),
    (detection.YuNet, YUNET | {"longest": 5}, "longest is 32 or more"),
    (features.EfficientNet, {"block": 16}, "block is 0 or more and at most 15"),
    (maps.ColorRetinex, {"brightness": -1}, "brightness"),
    (maps.ColorRetinex, {"longest": 8}, "longest is 16 or more"),
    (matching.LightGlue, {"keypoints": 0}, "keypoints"),
    (matching.LoFTR, {"threshold": 1}, "threshold"),
    (segmentation.SAM, {"prompts": 0}, "prompts is 1 or more"),
    (segmentation.SAM, {"batch": 0}, "batch is 1 or more"),
    (segmentation.SAM3, {"threshold": 1}, "threshold"),
    (segmentation.SegmentEverything, {"side": 0}, "side"),
    (MaskFilter, {"iou": 1.2}, "iou"),
    (MaskFilter, {"most": 0}, "most"),
]


@pytest.mark.parametrize(("kind", "settings", "words"), WRONG)
def test_a_setting_out_of_its_range_is_refused(
    kind: Any, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        kind(**settings)

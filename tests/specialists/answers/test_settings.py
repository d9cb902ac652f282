"""Settings of answer rules that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from looktwice.specialists.answers import CameraMotion, DarkerPoint, FaceIdentity, SameIdentity
from tests.specialists.samples import Paint, faces, flow


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DarkerPoint(Paint(1, 1), tolerance=-1), "tolerance is 0 or more"),
        (lambda: DarkerPoint(Paint(1, 1), window=4), "window is the odd side"),
        (lambda: CameraMotion(flow(1), min_matches=0), "min_matches is 1 or more"),
        (lambda: CameraMotion(flow(1), flow="inliers", min_matches=3), "for inliers 8 or more"),
        (lambda: CameraMotion(flow(1), tolerance=0), "tolerance is in pixels"),
        (lambda: SameIdentity(FaceIdentity(faces()), threshold=0), "threshold is a distance"),
    ],
)
def test_settings_that_cannot_be(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()

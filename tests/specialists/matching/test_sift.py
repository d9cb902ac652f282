"""SIFT on an image and its affine copy."""

import cv2
import numpy as np

from looktwice.specialists.matching import SIFT
from tests.specialists.scenes import BLANK, texture


def test_sift_finds_an_image_again_to_a_fraction_of_a_pixel() -> None:
    image = texture(240, 200)
    affine = np.array([[0.9, 0.2, 10.3], [-0.2, 0.9, 40.6]])
    warped = np.asarray(cv2.warpAffine(image, affine, (240, 240), flags=cv2.INTER_CUBIC), np.uint8)
    matches = SIFT()(image, warped)
    away = np.linalg.norm(matches.xy0 @ affine[:, :2].T + affine[:, 2] - matches.xy1, axis=1)
    assert len(matches) > 60
    assert np.mean(away < 1) > 0.95
    offsets = matches.xy1 - (matches.xy0 @ affine[:, :2].T + affine[:, 2])
    assert np.abs(np.median(offsets, axis=0)).max() < 0.1
    assert (np.diff(matches.confidence) <= 0).all()
    assert len(SIFT(mutual=False)(image, warped)) >= len(matches)


def test_sift_finds_nothing_where_there_is_nothing() -> None:
    assert len(SIFT()(BLANK, texture())) == 0
    assert len(SIFT()(texture(), BLANK)) == 0

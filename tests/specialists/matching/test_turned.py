"""SIFT, and a matcher that is applied to rotations of an image."""

import math
from dataclasses import dataclass

import cv2
import numpy as np
import pytest

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.matching import SIFT, RotationSearch
from looktwice.specialists.results import Matches
from tests.specialists.scenes import BLANK, texture


def test_sift_locates_an_image_within_a_fraction_of_a_pixel() -> None:
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


def test_sift_finds_nothing_in_unrelated_images() -> None:
    assert len(SIFT()(BLANK, texture())) == 0
    assert len(SIFT()(texture(), BLANK)) == 0


DOTS = {(255, 0, 0): (60, 50), (0, 255, 0): (150, 60), (0, 0, 255): (110, 130)}


@dataclass(frozen=True)
class Upright:
    """Matches the coloured dots in views that are rotated by less than `most` degrees."""

    most: float = 12.0

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        seen0, seen1 = places(pixels0), places(pixels1)
        both = [color for color in DOTS if color in seen0 and color in seen1]
        xy0, xy1 = (np.reshape([seen[color] for color in both], (-1, 2)) for seen in (seen0, seen1))
        near = len(both) > 1 and abs(direction(xy1) - direction(xy0)) < self.most
        found = Matches(xy0, xy1, np.ones(len(both)))
        return found if near else found[:0]


def places(pixels: Pixels) -> dict[tuple[int, int, int], tuple[float, float]]:
    """Return the centre of the dot of each colour."""
    found = {}
    for color in DOTS:
        rows, columns = np.nonzero(np.abs(pixels.astype(int) - color).sum(-1) < 120)
        if len(rows) > 20:
            found[color] = (float(columns.mean()), float(rows.mean()))
    return found


def direction(xy: np.ndarray) -> float:
    (x0, y0), (x1, y1) = xy[:2]
    return math.degrees(math.atan2(y1 - y0, x1 - x0))


def picture() -> Pixels:
    pixels = np.full((180, 220, 3), 30, np.uint8)
    for color, place in DOTS.items():
        cv2.circle(pixels, place, 8, color, -1, cv2.LINE_AA)
    return pixels


@pytest.mark.parametrize("turn", [-40, -25, 0, 20, 44])
def test_a_rotated_view_is_matched_in_its_frame(turn: float) -> None:
    around = cv2.getRotationMatrix2D((109.5, 89.5), turn, 1.0)
    turned = cv2.warpAffine(picture(), around, (220, 180), borderValue=(30, 30, 30))
    view = np.asarray(turned, np.uint8)
    found = RotationSearch(Upright())(picture(), view)
    assert len(found) == 3
    np.testing.assert_allclose(found.xy1, found.xy0 @ around[:, :2].T + around[:, 2], atol=0.5)
    assert bool(len(Upright()(picture(), view))) is (abs(turn) < 12)


def test_matches_outside_the_image_are_dropped() -> None:
    """After a quarter turn, the middle of the left edge is inside the image."""

    def rim(pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        high, wide = pixels1.shape[:2]
        beside = np.array([[0, high / 2], [wide + 3.0, high / 2]])
        return Matches(np.zeros((2, 2)), beside, np.ones(2))

    found = RotationSearch(rim, degrees=(90,))(picture(), picture())
    np.testing.assert_allclose(found.xy1, [[109.0, 0.0]], atol=1e-6)


def test_the_first_of_equally_good_rotations_is_used() -> None:
    flat = np.zeros((20, 30, 3), np.uint8)
    assert len(RotationSearch(Upright())(flat, flat)) == 0


def test_a_uniform_image_is_not_rotated() -> None:
    """Its corners would have another colour, so it would no longer be uniform."""
    asked: list[Pixels] = []

    def matcher(pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        asked.append(pixels1)
        return Matches.make_empty()

    flat = np.full((40, 60, 3), 90, np.uint8)
    assert len(RotationSearch(matcher)(flat, flat)) == 0 and len(asked) == 1 and asked[0] is flat

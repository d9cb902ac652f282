"""Upright boxes: what two of them share, and the box around a mark or the True pixels of an
array."""

from __future__ import annotations

import numpy as np
import pytest

from looktwice.pipelines.geometry import PixelRect, Rect, common_rect, grow, iou, overlap, overlaps
from looktwice.pipelines.marks import Box, Mark, Mask, Point, bounding_box, mask_bounds

BOX = (0, 0, 10, 20)


@pytest.mark.parametrize(
    ("other", "common", "area", "share"),
    [
        ((0, 0, 10, 20), (0, 0, 10, 20), 200, 1),
        ((2, 4, 4, 9), (2, 4, 4, 9), 10, 0.05),  # contained
        ((-5, -5, 30, 40), (0, 0, 10, 20), 200, 200 / (35 * 45)),  # containing
        ((5, 10, 15, 30), (5, 10, 10, 20), 50, 50 / 350),
        ((-5, -10, 5, 10), (0, 0, 5, 10), 50, 50 / 350),
        ((9, 0, 19, 20), (9, 0, 10, 20), 20, 20 / 380),  # by one column
        ((10, 0, 20, 20), None, 0, 0),  # touching at a side
        ((0, 20, 10, 40), None, 0, 0),
        ((10, 20, 12, 22), None, 0, 0),  # touching at a corner
        ((30, 5, 40, 10), None, 0, 0),  # apart in x alone
        ((2, 40, 8, 50), None, 0, 0),  # apart in y alone
        ((-40, -40, -30, -30), None, 0, 0),
        ((5, 5, 5, 5), None, 0, 0),  # without an area
    ],
)
def test_shared_area(other: PixelRect, common: PixelRect | None, area: float, share: float) -> None:
    for one, two in ((BOX, other), (other, BOX)):
        assert common_rect(one, two) == common
        assert overlap(one, two) == area
        assert iou(one, two) == pytest.approx(share)
        assert iou(np.array(one, float), np.array(two, float)) == pytest.approx(share)
        if one[2] > one[0] and two[2] > two[0]:
            assert overlaps(one, two) is (common is not None)


def test_parts_of_pixels() -> None:
    assert common_rect((0.0, 0.25, 1.5, 1.0), (1.25, 0.5, 3.0, 3.0)) == (1.25, 0.5, 1.5, 1.0)
    assert overlaps((0, 0, 1.001, 1), (1, 0, 2, 1))
    assert iou((5, 5, 5, 5), (5, 5, 5, 5)) == 0  # neither has an area
    # an eighth of three eighths
    assert iou((0, 0, 0.5, 0.5), (0.25, 0, 0.75, 0.5)) == pytest.approx(1 / 3)
    assert grow((1, 2, 3, 4), 0.5) == (0.5, 1.5, 3.5, 4.5)


def mask(*pixels: tuple[int, int], shape: tuple[int, int] = (5, 7)) -> Mask:
    array = np.zeros(shape, bool)
    array[tuple(np.transpose(pixels))] = True
    return Mask("A", array)


@pytest.mark.parametrize(
    ("mark", "box"),
    [
        (Point("A", 3, 4), (3, 4, 4, 5)),
        (Point("A", -0.5, 2.25), (-0.5, 2.25, 0.5, 3.25)),
        (Box("A", 1.5, 2, 3, 4.25), (1.5, 2, 3, 4.25)),
        (mask((0, 0)), (0, 0, 1, 1)),
        (mask((4, 6)), (6, 4, 7, 5)),
        (mask((1, 5), (3, 2)), (2, 1, 6, 4)),
        (Mask("A", np.ones((5, 7), bool)), (0, 0, 7, 5)),
    ],
)
def test_bounding_box(mark: Mark, box: Rect) -> None:
    assert bounding_box(mark) == box
    if isinstance(mark, Mask):
        assert mask_bounds(mark.pixels) == box
        assert all(type(edge) is int for edge in mask_bounds(mark.pixels))


def test_bounds_of_nothing() -> None:
    assert mask_bounds(np.zeros((5, 7), bool)) == (0, 0, 0, 0)
    assert mask_bounds(np.zeros((0, 0), bool)) == (0, 0, 0, 0)

"""Results of specialists: checked, read-only, picked from, and looked up between pixels."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from looktwice.specialists.results import Boxes, DepthMap, FeatureGrid, Masks, Matches

XY, XYXY = [[1, 2]], [[1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("kind", "rows", "message"),
    [
        (Boxes, ([[1, 2, 3]], [1], ["a"]), r"Boxes.xyxy .* shape \(1, 4\), found \(1, 3\)"),
        (Boxes, (XYXY, [1, 1], ["a"]), r"Boxes.scores .* shape \(1\), found \(2,\)"),
        (Boxes, ([[3, 2, 1, 4]], [1], ["a"]), r"xyxy\[0\] = \[3.0, 2.0, 1.0, 4.0\] has its right"),
        (Boxes, ([[1, 2, np.nan, 4]], [1], ["a"]), "not finite"),
        (Masks, (np.ones((4, 5), bool), [1], ["a"]), r"Masks.masks .* shape \(4, any, any\)"),
        (Matches, (XY, XY, [1.5]), "Matches.confidence lies in 0..1, found 1.5"),
        (Matches, (XY, XY, [-0.5]), "Matches.confidence lies in 0..1, found -0.5"),
        (Matches, (XY, [[1, 2], [3, 4]], [1]), r"Matches.xy1 .* shape \(1, 2\)"),
        (DepthMap, (np.ones(4), True), r"shape \(height, width\), found \(4,\)"),
        (FeatureGrid, (np.ones(4), 8, 4), r"shape \(rows, columns, d\)"),
        (FeatureGrid, (np.ones((0, 4, 2)), 8, 4), r"shape \(rows, columns, d\)"),
        (FeatureGrid, (np.ones((2, 4)), 8, 4), r"shape \(rows, columns, d\)"),
    ],
)
def test_results_of_the_wrong_shape_are_refused(kind: Any, rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(*rows)


@pytest.mark.parametrize(
    ("pick", "left"),
    [
        (np.array([True, False, True]), "ac"),
        ([2, 0], "ca"),
        (slice(1, None), "bc"),
        (1, "b"),
        (slice(0, 0), ""),
    ],
)
def test_results_are_picked_from(pick: Any, left: str) -> None:
    xyxy, scores = np.arange(12.0).reshape(3, 4), np.array([0.1, 0.5, 0.9])
    boxes = Boxes(xyxy, scores, np.array(["a", "b", "c"]))
    picked = boxes[pick]
    assert (type(picked), len(picked), "".join(picked.labels)) == (Boxes, len(left), left)
    assert picked.xyxy.shape == (len(left), 4)
    assert picked.xyxy.tolist() == [xyxy["abc".index(label)].tolist() for label in left]


def test_a_confidence_may_be_none_or_full() -> None:
    ends = np.array([0.0, 1.0])
    assert Matches(np.ones((2, 2)), np.ones((2, 2)), ends).confidence.tolist() == [0, 1]


def test_results_are_copies_that_nobody_can_change() -> None:
    xyxy = np.array([[1.0, 2, 3, 4]])
    boxes = Boxes(xyxy, np.ones(1), np.array(["a"]))
    xyxy[:] = 0
    assert boxes.xyxy.tolist() == [[1, 2, 3, 4]]
    with pytest.raises(ValueError, match="read-only"):
        boxes.xyxy[0, 0] = 9
    with pytest.raises(ValueError, match="read-only"):
        DepthMap(np.ones((2, 2)), True).values[0, 0] = 3


def test_empty_results_keep_their_shape() -> None:
    assert Matches.none().xy0.shape == (0, 2)
    assert len(Boxes(np.array([]), np.array([]), np.array([]))) == 0
    assert Masks.none(5, 6)[slice(0, 3)].masks.shape == (0, 5, 6)


def test_a_depth_map_knows_which_way_is_near_and_where_it_knows_nothing() -> None:
    values = np.array([[1.0, 2, np.inf], [3, np.nan, 5]])
    assert DepthMap(values, True).around(0, 0, 1).tolist() == [1]
    assert DepthMap(values, False).around(1.4, 0.6, 3).tolist() == [-1, -2, -3, -5]
    assert DepthMap(values, True).around(2, 0, 1).size == 0


def test_boxes_without_supervision_say_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(ImportError, match=r"pip install 'looktwice\[sv\]'"):
        Boxes(np.ones((0, 4)), np.ones(0), np.ones(0, str)).to_supervision()


def test_boxes_to_supervision_and_back() -> None:
    supervision = pytest.importorskip("supervision", exc_type=ImportError)
    xyxy, labels = np.array([[1, 2, 3, 4], [5, 6, 7.5, 8]]), np.array(["dog", "cat"])
    boxes = Boxes(xyxy, np.array([0.5, 0.25]), labels)
    detections = boxes.to_supervision()
    assert detections[detections.confidence > 0.3].data["class_name"].tolist() == ["dog"]
    back = Boxes.from_supervision(detections)
    assert (back.xyxy == boxes.xyxy).all()
    assert (back.scores.tolist(), back.labels.tolist()) == ([0.5, 0.25], ["dog", "cat"])
    one = supervision.Detections(xyxy=np.array([[1.0, 2, 3, 4]]), class_id=np.array([7]))
    bare = Boxes.from_supervision(one)
    assert (bare.scores.tolist(), bare.labels.tolist()) == ([1.0], ["7"])
    assert len(Boxes.from_supervision(boxes[slice(0, 0)].to_supervision())) == 0


@pytest.mark.parametrize("own", [False, True])
def test_boxes_that_supervision_made_of_masks_keep_their_last_row_and_column(own: bool) -> None:
    supervision = pytest.importorskip("supervision", exc_type=ImportError)
    masks = np.zeros((3, 20, 30), bool)
    masks[0, 2:5, 3:8] = masks[1, 0:1, 0:1] = masks[2] = True
    detected = np.array([[2.5, 1.5, 8.5, 5.5]] * 3)
    xyxy = detected if own else supervision.mask_to_xyxy(masks)
    boxes = Boxes.from_supervision(supervision.Detections(xyxy=xyxy, mask=masks))
    expected = detected if own else [[3, 2, 8, 5], [0, 0, 1, 1], [0, 0, 30, 20]]
    assert np.array_equal(boxes.xyxy, expected)


# 10 for each row, 1 for each column
COUNTING = np.array([[0.0, 1, 2, 3], [10, 11, 12, 13]])[..., None]


@pytest.mark.parametrize(
    ("size", "xy", "value"),
    [
        ((8, 4), (0.5, 0.5), 0),  # the centre of the first cell, 2 x 2 pixels
        ((8, 4), (6.5, 2.5), 13),
        ((8, 4), (1.5, 0.5), 0.5),  # half-way to the next column
        ((8, 4), (0.5, 1.0), 2.5),  # a quarter of the way to the next row
        ((8, 4), (5.0, 2.0), 9.75),
        ((8, 4), (-0.5, -0.5), 0),  # the rim is repeated
        ((8, 4), (7.5, 3.5), 13),
        ((6, 3), (0.25, 0.25), 0),  # cells of 1.5 pixels
        ((6, 3), (4.75, 1.75), 13),
        ((6, 3), (1.0, 0.25), 0.5),
        ((4, 2), (2, 1), 12),  # a cell for each pixel
    ],
)
def test_features_are_interpolated_between_the_centres_of_cells(
    size: Any, xy: Any, value: float
) -> None:
    assert FeatureGrid(COUNTING, *size).at(xy).tolist() == [[pytest.approx(value)]]


@pytest.mark.parametrize("shape", [(2, 4), (1, 3), (3, 1), (1, 1)])
@pytest.mark.parametrize("size", [(8, 4), (7, 5)])
def test_the_centre_of_a_cell_has_its_own_vector(
    shape: tuple[int, int], size: tuple[int, int]
) -> None:
    values = np.random.default_rng(0).uniform(0, 1, (*shape, 3))
    grid = FeatureGrid(values, *size)
    assert grid.centers().shape == (*shape, 2)
    first = [size[0] / shape[1] / 2 - 0.5, size[1] / shape[0] / 2 - 0.5]
    assert grid.centers()[0, 0].tolist() == first
    assert grid.at(grid.centers().reshape(-1, 2)) == pytest.approx(values.reshape(-1, 3))


@pytest.mark.parametrize(
    ("xy", "window", "known"),
    [
        ((2, 1), 1, [12]),
        ((2, 1), 3, [1, 2, 3, 11, 12, 13]),
        ((0.4, 0.6), 1, [10]),
        ((3, 0), 3, [2, 3, 12, 13]),
    ],
)
def test_the_window_around_a_point_ends_at_the_rim(
    xy: tuple[float, float], window: int, known: list[float]
) -> None:
    assert DepthMap(COUNTING[..., 0], True).around(xy[0], xy[1], window).tolist() == known

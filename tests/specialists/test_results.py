"""Results of specialists: validated, read-only, selectable, and interpolated between pixels."""

import sys
from typing import Any

import numpy as np
import pytest

from looktwice.specialists.results import Boxes, DepthMap, FeatureGrid, Masks, Matches

XY, XYXY = [[1, 2]], [[1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("kind", "rows", "fact"),
    [
        (Boxes, ([[1, 2, 3]], [1], ["a"]), r"Boxes.xyxy .*\(1, 4\).*\(1, 3\)"),
        (Boxes, (XYXY, [1, 1], ["a"]), r"Boxes.scores .*\(1\).*\(2,\)"),
        (Boxes, ([[3, 2, 1, 4]], [1], ["a"]), r"xyxy\[0\] = \[3.0, 2.0, 1.0, 4.0\]"),
        (Boxes, ([[1, 2, np.nan, 4]], [1], ["a"]), "not finite"),
        (Masks, (np.ones((4, 5), bool), [1], ["a"]), r"Masks.masks .*\(4, any, any\)"),
        (Matches, (XY, XY, [1.5]), "Matches.confidence .*1.5"),
        (Matches, (XY, XY, [-0.5]), "Matches.confidence .*-0.5"),
        (Matches, (XY, [[1, 2], [3, 4]], [1]), r"Matches.xy1 .*\(1, 2\)"),
        (DepthMap, (np.ones(4), True), r"\(height, width\).*\(4,\)"),
        (FeatureGrid, (np.ones(4), 8, 4), r"\(rows, columns, d\)"),
        (FeatureGrid, (np.ones((0, 4, 2)), 8, 4), r"\(rows, columns, d\)"),
        (FeatureGrid, (np.ones((2, 4)), 8, 4), r"\(rows, columns, d\)"),
    ],
)
def test_results_of_the_wrong_shape_are_refused(kind: Any, rows: Any, fact: str) -> None:
    with pytest.raises(ValueError, match=fact):
        kind(*rows)


def test_results_can_be_selected() -> None:
    xyxy, scores = np.arange(12.0).reshape(3, 4), np.array([0.1, 0.5, 0.9])
    boxes = Boxes(xyxy, scores, np.array(["a", "b", "c"]))
    picks: dict[str, Any] = {"ca": [2, 0], "bc": slice(1, None), "b": 1, "": slice(0, 0)}
    for left, pick in {"ac": np.array([True, False, True]), **picks}.items():
        picked = boxes[pick]
        assert (type(picked), "".join(picked.labels)) == (Boxes, left)
        assert picked.xyxy.shape == (len(left), 4)
        assert picked.xyxy.tolist() == [xyxy["abc".index(label)].tolist() for label in left]


def test_results_are_immutable_copies_and_empty_ones_keep_their_shape() -> None:
    xyxy, ends = np.array([[1.0, 2, 3, 4]]), np.array([0.0, 1.0])
    boxes = Boxes(xyxy, np.ones(1), np.array(["a"]))
    xyxy[:] = 0
    assert boxes.xyxy.tolist() == [[1, 2, 3, 4]]
    for array in (boxes.xyxy, DepthMap(np.ones((2, 2)), True).values):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 9
    assert Matches(np.ones((2, 2)), np.ones((2, 2)), ends).confidence.tolist() == [0, 1]
    assert Matches.make_empty().xy0.shape == (0, 2)
    assert len(Boxes(np.array([]), np.array([]), np.array([]))) == 0
    assert Masks.make_empty(5, 6)[slice(0, 3)].masks.shape == (0, 5, 6)


def test_a_depth_map_has_a_direction_and_unknown_pixels() -> None:
    values = np.array([[1.0, 2, np.inf], [3, np.nan, 5]])
    assert DepthMap(values, True).get_values_around(0, 0, 1).tolist() == [1]
    assert DepthMap(values, False).get_values_around(1.4, 0.6, 3).tolist() == [-1, -2, -3, -5]
    assert DepthMap(values, True).get_values_around(2, 0, 1).size == 0
    counting = DepthMap(COUNTING[..., 0], True)
    for x, y, window, known in (
        (2, 1, 1, [12]),
        (2, 1, 3, [1, 2, 3, 11, 12, 13]),
        (0.4, 0.6, 1, [10]),
        (3, 0, 3, [2, 3, 12, 13]),
    ):
        assert counting.get_values_around(x, y, window).tolist() == known


def test_boxes_convert_to_supervision_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
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
    # supervision's boxes of masks lack their last row and column
    masks = np.zeros((3, 20, 30), bool)
    masks[0, 2:5, 3:8] = masks[1, 0:1, 0:1] = masks[2] = True
    own = np.array([[2.5, 1.5, 8.5, 5.5]] * 3)
    for given, expected in (
        (own, own),
        (supervision.mask_to_xyxy(masks), [[3, 2, 8, 5], [0, 0, 1, 1], [0, 0, 30, 20]]),
    ):
        made = Boxes.from_supervision(supervision.Detections(xyxy=given, mask=masks))
        assert np.array_equal(made.xyxy, expected)
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(ImportError, match=r"\[sv\]"):
        boxes.to_supervision()


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
        ((8, 4), (-0.5, -0.5), 0),  # the edge is repeated
        ((8, 4), (7.5, 3.5), 13),
        ((6, 3), (0.25, 0.25), 0),  # cells of 1.5 pixels
        ((6, 3), (4.75, 1.75), 13),
        ((6, 3), (1.0, 0.25), 0.5),
        ((4, 2), (2, 1), 12),  # a cell for each pixel
    ],
)
def test_features_are_interpolated_between_cell_centres(size: Any, xy: Any, value: float) -> None:
    assert FeatureGrid(COUNTING, *size).interpolate(xy).tolist() == [[pytest.approx(value)]]


@pytest.mark.parametrize("shape", [(2, 4), (1, 3), (3, 1), (1, 1)])
@pytest.mark.parametrize("size", [(8, 4), (7, 5)])
def test_the_centre_of_a_cell_has_its_own_vector(
    shape: tuple[int, int], size: tuple[int, int]
) -> None:
    values = np.random.default_rng(0).uniform(0, 1, (*shape, 3))
    grid = FeatureGrid(values, *size)
    assert grid.compute_centers().shape == (*shape, 2)
    first = [size[0] / shape[1] / 2 - 0.5, size[1] / shape[0] / 2 - 0.5]
    assert grid.compute_centers()[0, 0].tolist() == first
    assert grid.interpolate(grid.compute_centers().reshape(-1, 2)) == pytest.approx(
        values.reshape(-1, 3)
    )

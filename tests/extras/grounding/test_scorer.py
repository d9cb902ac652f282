"""Places are compared with the true ones: boxes, points, masks, labels and flags."""

from typing import Any

import pytest

from looktwice.eval.scoring.verdict import ReadResult, Verdict, compare_with_key
from looktwice.extras.grounding import PlacesScorer
from looktwice.extras.grounding.labels import match_label
from looktwice.pipelines import Box, Point
from tests.extras.grounding.scenes import find_figures, make_row
from tests.tables import table

BOX = {"box": [10, 10, 50, 50]}
FOUND = '[{"box": [10, 10, 50, 50]}]'
HALF = '[{"box": [10, 10, 50, 30]}]'


@table
def test_places_are_scored_by_rule(
    settings: dict[str, Any], places: Any, answer: str, value: float | str
) -> None:
    score = compare_with_key(
        ReadResult(answer=answer), make_row(0, places), PlacesScorer(**settings)
    )
    if value == "unreadable":
        assert score.verdict is Verdict.UNREADABLE
        return
    assert score.value == pytest.approx(value, abs=1e-4)
    assert score.verdict is (Verdict.RIGHT if value == 1 else Verdict.WRONG)


@table
def test_labels(label: str, names: list[str], category: str) -> None:
    assert match_label(label, names) == category


def test_one_box_has_a_mean_iou_and_accuracy_at_other_thresholds() -> None:
    rows = [make_row(number, [BOX]) for number in range(4)]
    scorer = PlacesScorer("box", thresholds=(0.3, 0.9))
    figures = find_figures(scorer, [FOUND, HALF, "[]", None], rows)
    assert figures == {
        "mean_iou": pytest.approx(1.5 / 4),
        "accuracy_iou_0.3": 0.5,
        "accuracy_iou_0.9": 0.25,
    }


def test_several_boxes_have_precision_and_recall() -> None:
    rows = [make_row(0, [BOX, {"box": [60, 60, 90, 90]}]), make_row(1, []), make_row(2, [BOX])]
    figures = find_figures(PlacesScorer("boxes"), [FOUND, FOUND, "[]"], rows)
    assert figures == {
        "mean_iou": pytest.approx((0.5 + 0) / 2),  # of the samples with something to find
        "precision": pytest.approx((1 + 0) / 2),  # of those with something found
        "recall": pytest.approx((0.5 + 0) / 2),
    }


def test_the_answer_is_the_truth_where_no_field_is_given() -> None:
    row = make_row(0, [])
    own = type(row)(row.task, row.sha, FOUND, row.sample, {})
    given = ReadResult(answer=FOUND)
    assert compare_with_key(given, own, PlacesScorer()).verdict is Verdict.RIGHT


def test_marks_are_those_of_answers_and_of_the_truth() -> None:
    row = make_row(0, [{"box": [1, 2, 3, 4], "label": "cup"}])
    scorer = PlacesScorer("boxes")
    assert scorer.marks(None, row) == (Box("cup", 1, 2, 3, 4),)
    found = scorer.marks('[{"point": [5, 6]}, {"box": [9, 9, 1, 1], "image": 1}]', row)
    assert found == (Point("", 5, 6), Point("", 9, 9, 1))
    assert scorer.marks("a cup", row) == ()


@pytest.mark.parametrize(
    "places", ["a cup", [{"label": "cup"}], [[1, 2, 3]], [{"box": [1, 2, 3, float("nan")]}]]
)
def test_truth_without_places_is_named(places: Any) -> None:
    with pytest.raises(ValueError, match=r"s0000.*`places`"):
        PlacesScorer().compare(FOUND, make_row(0, places))


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="threshold"):
        PlacesScorer(threshold=0)
    with pytest.raises(ValueError, match="rule: boxes"):
        PlacesScorer("box", mean_ap=True)


def test_average_precision_without_the_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("looktwice.extras.grounding.library.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install .*\[map\]"):
        PlacesScorer("boxes", mean_ap=True)

"""The paired comparison with a baseline: which units it runs on, and what it counts as excluded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from looktwice.eval.scoring import Row
from looktwice.eval.scoring.row import compare, correct_p_values, macro_row
from looktwice.eval.scoring.verdict import Metric

EMPTY = Row("run", "p", "c", "t", "", "m", None)


def metric(units: Mapping[str, float], failed: str = "", value: float | None = None) -> Metric:
    return Metric("m", units, failed=frozenset(failed.split()), value=value)


ALL = {"a": 1.0, "b": 1.0, "c": 0.0}


@pytest.mark.parametrize(
    ("mine", "other", "found"),
    [
        (metric(ALL), metric({**ALL, "b": 0.0}), (1 / 3, 0, 1)),
        (metric(ALL), metric({"a": 0.0, "b": 1.0}), (0.5, 1, 1)),  # a unit that one side lacks
        (metric({"a": 0.0}), metric(ALL), (-1.0, 2, 1)),
        (metric(ALL, "b"), metric({**ALL, "a": 0.0}, "c"), (1.0, 2, 1)),  # failed on either side
        (metric(ALL, "a b"), metric(ALL, "c"), (None, 3, None)),
        (metric(ALL, value=0.9), metric(ALL, value=0.6), (0.3, 0, 0)),  # no mean of its units
        # the test is on other units
        (metric(ALL, "a", value=0.9), metric(ALL, value=0.6), (0.0, 1, 0)),
    ],
)
def test_the_units_of_a_comparison(
    mine: Metric, other: Metric, found: tuple[float | None, int, int | None]
) -> None:
    delta, excluded, discordant = found
    row = compare(EMPTY, "base", [(mine, other)])
    assert (row.baseline, row.excluded, row.discordant) == ("base", excluded, discordant)
    assert row.delta == (None if delta is None else pytest.approx(delta))
    assert (row.p is None) == (delta is None)


def test_several_tasks_are_one_comparison() -> None:
    pairs = [
        (metric({"a": 1.0}), metric({"a": 0.0})),
        (metric({"a": 0.0, "b": 1.0}), metric({"a": 0.0})),
    ]
    row = compare(EMPTY, "base", pairs)
    assert (row.delta, row.excluded, row.discordant) == (0.5, 1, 1)


def test_holm_corrects_the_tasks_and_their_means_apart() -> None:
    given = [
        ("t", None),
        ("t", 0.01),
        ("u", 0.04),
        ("micro", 0.02),
        ("micro", 0.5),
        ("macro", None),
    ]
    rows = [Row("run", "", "c", task, "", "accuracy", 0.5, p=p) for task, p in given]
    other = replace(rows[1], metric="pair_accuracy", p=0.001)
    found = [row.p_holm for row in correct_p_values([*rows, other])]
    assert found[1:5] == pytest.approx([0.02, 0.04, 0.04, 0.5])
    assert [found[0], *found[5:]] == [None, None, None]


@pytest.mark.parametrize("rivals", [[], [1.0]])
def test_a_p_value_that_is_too_small_for_a_number_stays_zero(rivals: list[float]) -> None:
    rows = [
        Row("run", str(i), "c", "t", "", "accuracy", 0.5, p=p) for i, p in enumerate([0.0, *rivals])
    ]
    assert [row.p_holm for row in correct_p_values(rows)] == [0.0, *rivals]


@pytest.mark.parametrize(
    ("deltas", "mean"), [((0.2, 0.4), 0.3), ((0.2, None), None), ((None, None), None)]
)
def test_the_macro_delta_is_the_mean_of_the_tasks(
    deltas: tuple[float | None, ...], mean: float | None
) -> None:
    rows = [
        Row("run", "p", "c", name, "", "accuracy", 0.5, n=10, delta=delta, task_name=name)
        for name, delta in zip("tu", deltas, strict=True)
    ]
    assert macro_row(rows).delta == (None if mean is None else pytest.approx(mean))

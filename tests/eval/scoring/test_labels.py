"""The labels of points that were built differently, their baselines, and the numbers on the axis of
a curve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from looktwice.eval.records.records import PointRow
from looktwice.eval.scoring.labels import baseline_of, factor_value, labels


def point(name: str, settings: dict[str, Any] | None = None, **fields: Any) -> PointRow:
    spec = {"stages": {"mark": settings or {}}}
    return PointRow(name, fields.pop("contestant", "plain"), "t", "id-t", spec=spec, **fields)


@pytest.mark.parametrize(
    ("later", "label"),
    [
        ({"color": "red", "radius": 3, "width": 1}, "plain {mark.color=red}"),
        (
            {"color": "red", "radius": 4, "width": 2},
            "plain {mark.color=red, mark.radius=4, mark.width=2}",
        ),
        ({"color": "red", "radius": 4, "width": 2, "gap": 1}, "plain #2"),  # too much for a label
    ],
)
def test_points_of_one_name_say_what_differs(later: dict[str, Any], label: str) -> None:
    first = {"color": "blue", "radius": 3, "width": 1}
    named = labels([point("p0", first), point("p1", later)])
    assert [who for who, _ in named.values()] == ["plain", label]


def test_a_point_that_was_built_anew_has_one_name_on_every_task() -> None:
    points, later = list[PointRow](), ["plain {mark.color=red}"] * 2
    for color in ("blue", "red"):
        for task in ("t", "u"):
            made = point(f"{color} {task}", {"color": color})
            points.append(replace(made, task=task, task_id=f"id-{task}"))
    assert [who for who, _ in labels(points).values()] == [*["plain"] * 2, *later]


def test_points_that_no_two_tables_would_confuse_keep_their_names() -> None:
    """Built differently for another task, or of another data set for another contestant: each pair
    is there once."""
    first, second = point("p0", {"radius": 3}), point("p1", {"radius": 4})
    second = replace(second, task="u", task_id="id-u")
    assert list(labels([first, second]).values()) == [("plain", "t"), ("plain", "u")]
    other = point("p2", contestant="other")
    assert list(labels([first, replace(other, task_id="id-2")]).values()) == [
        ("plain", "t"),
        ("other", "t"),
    ]


def test_the_latest_of_several_baselines_counts() -> None:
    old, new = (point(name, contestant="base", baseline=True) for name in ("p0", "p1"))
    found = baseline_of(point("p2"), [old, new, point("p2")])
    assert found is not None and found.id == "p1"


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3.0), (0.5, 0.5), (True, None), ("red", None), (None, None)]
)
def test_only_numbers_are_an_axis(value: Any, number: float | None) -> None:
    assert (
        factor_value(point("p0", changes={"stages.mark.radius": value}), "stages.mark.radius")
        == number
    )
    assert factor_value(point("p0", {"radius": value}), "stages.mark.radius") == number

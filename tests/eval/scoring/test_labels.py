"""Labels and baselines of points that were built differently."""

from dataclasses import replace
from typing import Any

import pytest

from looktwice.eval.records.records import PointRow
from looktwice.eval.scoring.labels import find_baseline, get_factor_value, make_labels
from tests.tables import table


def point(name: str, settings: dict[str, Any] | None = None, **fields: Any) -> PointRow:
    spec = {"stages": {"mark": settings or {}}}
    return PointRow(name, fields.pop("contestant", "plain"), "t", "id-t", spec=spec, **fields)


@table
def test_points_with_the_same_name_are_labelled_by_what_differs(
    later: dict[str, Any], label: str
) -> None:
    first = {"color": "blue", "radius": 3, "width": 1}
    named = make_labels([point("p0", first), point("p1", later)])
    assert [who for who, _ in named.values()] == ["plain", label]


def test_a_rebuilt_point_has_one_name_on_every_task() -> None:
    points, later = list[PointRow](), ["plain {mark.color=red}"] * 2
    for color in ("blue", "red"):
        for task in ("t", "u"):
            made = point(f"{color} {task}", {"color": color})
            points.append(replace(made, task=task, task_id=f"id-{task}"))
    assert [who for who, _ in make_labels(points).values()] == [*["plain"] * 2, *later]


def test_points_that_no_table_confuses_keep_their_names() -> None:
    """Each pair of contestant and task exists once."""
    first, second = point("p0", {"radius": 3}), point("p1", {"radius": 4})
    second = replace(second, task="u", task_id="id-u")
    assert [*make_labels([first, second]).values()] == [("plain", "t"), ("plain", "u")]
    other = replace(point("p2", contestant="other"), task_id="id-2")
    assert [*make_labels([first, other]).values()] == [("plain", "t"), ("other", "t")]
    larger = replace(point("p3", {"radius": 3}), task_id="id-larger")
    assert [*make_labels([first, larger]).values()] == [("plain", "t"), ("plain", "t #2")]


def test_the_latest_of_several_baselines_is_used() -> None:
    old, new = (point(name, contestant="base", baseline=True) for name in ("p0", "p1"))
    assert find_baseline(point("p2"), [old, new, point("p2")]) == new


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3.0), (0.5, 0.5), (True, None), ("red", None), (None, None)]
)
def test_only_numbers_are_an_axis(value: Any, number: float | None) -> None:
    place = "stages.mark.radius"
    assert get_factor_value(point("p0", changes={place: value}), place) == number
    assert get_factor_value(point("p0", {"radius": value}), place) == number

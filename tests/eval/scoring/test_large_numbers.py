"""Numbers near the largest float in a record are scored, shown and compared."""

import json
import math

import pytest

from looktwice.eval.display.table import score_table
from looktwice.eval.report import write_report
from looktwice.eval.scoring.row import COLUMNS
from looktwice.eval.statistics.intervals import finite_mean, mean_interval
from tests.made_run import MadeRun
from tests.tables import table


def number(text: object) -> object:
    """A value as the YAML file writes it: "1e308" is a number, "far" a category."""
    return json.loads(text) if isinstance(text, str) and text[-1].isdigit() else text


@table
def test_a_run_with_very_large_measurements_is_scored(
    made: MadeRun, values: list[object], others: list[object], mean: object, delta: object
) -> None:
    n = len(values)
    made.task("t", ["A"] * n, meta=[{"group": f"g{place // 2}"} for place in range(n)])
    for name, mine in (("plain", values), ("other", others)):
        point = made.point(name, "t", baseline=name == "plain")
        for place, value in enumerate(map(number, mine)):
            answer, measured = "AB"[place % 3 == 0], {"size": value, "seen": [value, 1]}
            made.record(point, f"s{place}", answer=answer, measured=measured)
    folder = made.write().path
    scored = score_table(folder)
    sizes = [row for row in scored if row.metric.startswith("measured.size")]
    rows = {row.contestant: row for row in sizes if row.metric == "measured.size"}
    found = [rows["plain"].value, rows["other"].delta] if len(rows) == 2 else [None, None]
    wanted = [None if each is None else pytest.approx(number(each)) for each in (mean, delta)]
    assert found == wanted
    for row in scored:
        numbers = (getattr(row, column) for column in COLUMNS)
        assert all(math.isfinite(one) for one in numbers if isinstance(one, float))
    repr(scored)
    if sizes:
        score_table(folder, by=["size"])
    report = write_report([folder], folder)
    texts = [(folder / name).read_text().lower() for name in ("report.md", "report.csv")]
    assert report.exists() and not any(" inf" in text or "nan" in text for text in texts)


def test_means_of_large_numbers_equal_scaled_means_of_small_ones() -> None:
    values, clusters = [3.0, 1.0, 7.0, 5.0], [0, 0, 1, 2]
    scaled = [value * 2.0**1000 for value in values]
    assert finite_mean(scaled) == finite_mean(values) * 2.0**1000 == 4 * 2.0**1000
    low, high = mean_interval(values, clusters)
    assert low is not None and high is not None
    assert mean_interval(scaled, clusters) == pytest.approx((low * 2.0**1000, high * 2.0**1000))
    assert finite_mean([1e308] * 5) == pytest.approx(1e308)
    assert mean_interval([1.7e308, -1.7e308, 0.0], [0, 1, 2]) == (None, None)


def test_very_long_durations_are_on_the_page(made: MadeRun) -> None:
    made.task("t", "AAAA")
    point = made.point("plain", "t")
    for place in range(4):
        made.record(point, f"s{place}", answer="A", timings={"total": 1e308})
    assert write_report([made.write().path], made.path).exists()

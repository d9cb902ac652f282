"""Two control parameters crossed: slices, tables and maps."""

from __future__ import annotations

from pathlib import Path

import pytest

from looktwice.eval.display.table import score_table
from looktwice.eval.psychometrics.thresholds import crossed_grids, crossed_tables
from looktwice.eval.records.records import RunError
from looktwice.eval.report import write_report
from tests.made_run import MadeRun


def test_two_fields_are_crossed_everywhere(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run")
    meta = [
        {"size": size, "turn": turn} for size in (10, 9) for turn in ("a", "b") for _ in range(2)
    ]
    made.task("t", ["A"] * 8, meta=meta)
    made.answers(made.point("one", "t"), ["A", "A", "A", "B", "B", "B", "A", "A"])
    made.write()
    table = score_table([tmp_path / "run"], by=["size,turn", "turn"])
    slices = {
        row.slice: row.value
        for row in table.where(metric="accuracy", contestant="one").rows
        if row.slice
    }
    assert (
        slices["size=10, turn=b"] == 0.5
        and slices["size=9, turn=a"] == 0
        and slices["turn=a"] == 0.5
    )
    (grid,) = crossed_grids(table.scores, table.by)
    assert grid.cells == [
        (9.0, "a", 0.0, 2),
        (9.0, "b", 1.0, 2),
        (10.0, "a", 1.0, 2),
        (10.0, "b", 0.5, 2),
    ]
    ((title, shown),) = crossed_tables(table.scores, table.by)
    assert title == "one, t: % by size and turn" and shown.header == ("size \\ turn", "a", "b")
    assert shown.rows == [("9", "0.0\n2", "100.0\n2"), ("10", "100.0\n2", "50.0\n2")]
    page = write_report(table, tmp_path / "out")
    assert (
        "% by size and turn" in page.read_text()
        and "% by size and turn" in (tmp_path / "out/report.md").read_text()
    )
    with pytest.raises(
        RunError, match="--by angle: no sample has this field; there are size, turn"
    ):
        score_table([tmp_path / "run"], by=["size,angle"])

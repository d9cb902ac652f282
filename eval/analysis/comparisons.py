"""Every arm against its baseline: the difference, how sure it is, and what so many units could have shown."""

from __future__ import annotations

from collections.abc import Sequence

from looktwice.eval.display.text_tables import TextTable, contestant_of, format_p, percent, with_interval
from looktwice.eval.scoring.row import Row

COMPARISON_NOTE = (
    "Each arm less its baseline, on the units that both have and neither failed; `left out` counts the others. The "
    "difference is in percentage points with its 95 % bootstrap interval over clusters: units of one group or picture "
    "are drawn together. p is two-sided by the test that is named; of accuracy it is corrected by Holm and by "
    "Benjamini and Hochberg over all lines on single tasks, and over those of micro. `would show` is the smallest "
    "difference that so many units, with answers that differ as often, show with 80 % power at 5 % (Connor 1987)."
)


def comparison_table(rows: Sequence[Row]) -> TextTable:
    """Every arm and metric against its baseline: how much better, how sure, and what so many units could show."""
    header = (
        "contestant", "task", "metric", "against", "unit", "test", "difference", "p", "p\n(Holm)", "p\n(BH)",
        "would\nshow", "n", "clusters", "better", "worse", "left\nout",
    )  # fmt: skip
    lines = []
    for row in (row for row in rows if row.delta is not None and row.n_clusters is not None and not row.slice):
        worse = None if row.better is None or row.discordant is None else row.discordant - row.better
        lines.append((
            contestant_of(row), row.task, row.metric, row.baseline, row.unit, row.test,
            with_interval(row.delta or 0.0, row.delta_low, row.delta_high, sign=True), format_p(row.p),
            format_p(row.p_holm), format_p(row.p_bh), percent(row.detectable), _count(row.compared),
            _count(row.n_clusters), _count(row.better), _count(worse), _count(row.excluded or None),
        ))  # fmt: skip
    return TextTable(header, tuple(lines), text_columns=6).without_empty()


def _count(number: int | None) -> str:
    return "" if number is None else str(number)

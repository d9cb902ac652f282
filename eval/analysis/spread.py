"""Spread of a contestant's accuracy over variants of its settings: robustness to the style of
prompting."""

from __future__ import annotations

from collections.abc import Sequence

from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable, percent
from looktwice.eval.scoring.row import Row

MIN_VARIANTS = 3  # with fewer a spread means little


def spread_table(table: Table) -> TextTable:
    """A line per contestant and task with at least three variants: mean, worst, best, and best
    minus worst.

    Variants are the points of one contestant that differ in its stages, model or draws, on the same
    samples.
    """
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in table.where(metric="accuracy", slice="").rows:
        if row.point and row.task_name and row.value is not None:
            groups.setdefault((row.run, row.contestant.partition(" [")[0], row.task), []).append(
                row
            )
    many = len({run for run, _, _ in groups}) > 1
    lines = [
        (f"{name} ({run})" if many else name, task, *_cells(rows))
        for (run, name, task), rows in groups.items()
        if len(rows) >= MIN_VARIANTS
    ]
    header = (
        "contestant",
        "task",
        "variants",
        "mean %",
        "worst %",
        "worst variant",
        "best %",
        "best variant",
        "spread",
    )
    return TextTable(header, lines, text_columns=2)


def _cells(rows: Sequence[Row]) -> tuple[str, ...]:
    ranked = sorted(rows, key=lambda row: row.value or 0.0)
    worst, best = ranked[0], ranked[-1]
    mean = sum(row.value or 0.0 for row in rows) / len(rows)
    difference = (best.value or 0.0) - (worst.value or 0.0)
    return (
        str(len(rows)),
        percent(mean),
        percent(worst.value),
        _changes(worst),
        percent(best.value),
        _changes(best),
        percent(difference),
    )


def _changes(row: Row) -> str:
    return row.contestant.partition(" [")[2].removesuffix("]") or "unchanged"

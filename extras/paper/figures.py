"""Figures for papers as SVG and PDF, by matplotlib."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.eval.display.score_tables import drop_means_of_one, drop_repeats, format_contestant
from looktwice.eval.display.table import Table
from looktwice.eval.page.data import PageLines
from looktwice.eval.page.sweeps import make_curves
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring.row import Row, Rows
from looktwice.eval.statistics.paired import ALPHA
from looktwice.pipelines.runtime.install import format_install

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""The colour-blind-safe colours of Okabe and Ito."""
MARKER_SHAPES = "osD^vPX*"
MAX_SHOWN_DIFFERENCES = 40
PLOT_STYLE = {
    "font.size": 8,
    "svg.hashsalt": "looktwice",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


def save_figures(table: Table, folder: Path) -> list[Path]:
    """Write the figures that the table has data for (accuracies, differences, curves), and return
    their paths.

    The same table gives the same bytes. Raises RunError without matplotlib.
    """
    try:
        import matplotlib
    except ImportError as exc:
        command = format_install("figures")
        raise RunError(f"figures need matplotlib; type: {command}") from exc
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(PLOT_STYLE):
        for name, figure in _draw_figures(table).items():
            for ending, dates in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
                path = folder / f"{name}.{ending}"
                figure.savefig(path, bbox_inches="tight", metadata=dates)
                written.append(path)
    return written


def _draw_figures(table: Table) -> dict[str, Any]:
    rows = drop_repeats(drop_means_of_one(table.where(metric="accuracy", slice="").rows))
    several = len({row.task for row in rows if row.task_name}) > 1
    overall, compared = list[Row](), list[Row]()
    for row in rows:
        if row.low is not None and (row.task == "micro" if several else row.task_name):
            overall.append(row)
        if row.delta_low is not None and row.delta_high is not None:
            compared.append(row)
    if (
        len(compared) > MAX_SHOWN_DIFFERENCES
    ):  # with many tasks, only the differences over all tasks
        compared = [row for row in compared if row.task == "micro"]
    figures = dict[str, Any]()
    if overall:
        lines = [(format_contestant(row), True, (row.value, row.low, row.high)) for row in overall]
        figures["accuracy"], axes = _draw_intervals(lines)
        sizes = sorted({row.n for row in overall})
        asked = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
        axes.set_xlabel(f"accuracy %, 95 % interval, n = {asked}")
    if 0 < len(compared) <= MAX_SHOWN_DIFFERENCES:
        figures["differences"] = _draw_differences(compared, several)
    for curve in make_curves(table.scores, table.rows):
        name = re.sub(r"[^\w.-]+", "_", f"curve {curve.factor} {curve.task}").strip("_")
        figures[name] = _draw_curve(curve)
    return figures


def _make_axes(lines: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 0.8 + 0.24 * max(lines, 3)))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _draw_differences(rows: Rows, several: bool) -> Any:
    """Draw the paired differences from the baseline with their bootstrap intervals.

    A point is filled if p (Holm) is below 0.05 divided by the number of families of comparisons; in
    each run, single tasks are one family and all tasks together are another.
    """
    lines, level = list[tuple[str, bool, tuple[float | None, ...]]](), ALPHA
    level /= max(1, len({(row.run, row.task == "micro") for row in rows}))
    for row in rows:
        name = f"{format_contestant(row)}, {row.task}" if several else format_contestant(row)
        filled = row.p_holm is not None and row.p_holm < level
        lines.append((name, filled, (row.delta, row.delta_low, row.delta_high)))
    figure, axes = _draw_intervals(lines)
    axes.axvline(0, color="black", linewidth=0.6)
    baselines = ", ".join(dict.fromkeys(row.baseline for row in rows))
    axes.set_xlabel(
        f"points against {baselines}, 95 % bootstrap interval; filled: p (Holm) < {level:.3g}"
    )
    return figure


def _draw_intervals(lines: Sequence[tuple[str, bool, tuple[float | None, ...]]]) -> tuple[Any, Any]:
    """Draw one row for each line; a line holds a name, whether its point is filled, and its value
    and interval as shares."""
    figure, axes = _make_axes(len(lines))
    for place, (_, filled, ends) in enumerate(lines):
        value, low, high = (100 * (end or 0) for end in ends)
        face = COLORS[0] if filled else "white"
        axes.plot([low, high], [place, place], color=COLORS[0], linewidth=1)
        axes.plot(value, place, "o", color=COLORS[0], markerfacecolor=face, markersize=4)
    axes.set_yticks(range(len(lines)), [name.replace("$", r"\$") for name, *_ in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    return figure, axes


def _draw_curve(curve: PageLines) -> Any:
    """Plot accuracy over a swept number, with a line and intervals for each contestant."""
    figure, axes = _make_axes(10)
    for number, (label, points) in enumerate(curve.lines.items()):
        xs, ys, lows, highs = (100 * np.array(column) for column in zip(*points, strict=True))
        axes.errorbar(
            xs / 100,
            ys,
            [ys - lows, highs - ys],
            color=COLORS[number % len(COLORS)],
            linewidth=1,
            capsize=2,
            marker=MARKER_SHAPES[number % len(MARKER_SHAPES)],
            markersize=4,
            label=label.replace("$", r"\$"),
        )
    if curve.chance is not None:
        axes.axhline(
            100 * curve.chance, color="black", linewidth=0.6, linestyle=":", label="chance"
        )
    places = [x for points in curve.lines.values() for x, *_ in points]
    axes.set_xscale("log" if 0 < 30 * min(places) <= max(places) else "linear")
    axes.set_xlabel(f"{curve.factor} ({curve.task})".replace("$", r"\$"))
    axes.set_ylabel("accuracy %, 95 % interval")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure

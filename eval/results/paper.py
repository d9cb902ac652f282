"""The figures of a paper, as SVG and PDF by matplotlib, and its table of accuracies, for LaTeX with
the package booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.eval.display.score_tables import (
    contestant_of,
    drop_means_of_one,
    drop_repeats,
    sort_rows,
    to_people,
)
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import percent
from looktwice.eval.page.data import PageLines
from looktwice.eval.page.sweeps import curves
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring.row import Row

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""The colours of Okabe and Ito, which people with any colour vision tell apart."""
MARKERS, MOST = "osD^vPX*", 40
STYLE = {"font.size": 8, "svg.hashsalt": "looktwice", "svg.fonttype": "none", "pdf.fonttype": 42}


def save_figures(table: Table, folder: Path) -> list[Path]:
    """Write accuracy, difference and curve figures, as far as the table has what they show; their
    paths.

    The same table makes the same bytes. Raises RunError without matplotlib.
    """
    try:
        import matplotlib
    except ImportError as exc:
        raise RunError("figures need matplotlib: pip install 'looktwice[figures]'") from exc
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(STYLE):
        for name, figure in _figures(table):
            for ending, dates in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
                path = folder / f"{name}.{ending}"
                figure.savefig(path, bbox_inches="tight", metadata=dates)
                written.append(path)
    return written


def _figures(table: Table) -> list[tuple[str, Any]]:
    rows = drop_repeats(drop_means_of_one(table.where(metric="accuracy", slice="").rows))
    several = len({row.task for row in rows if row.task_name}) > 1
    whole = [
        row
        for row in rows
        if (row.task == "micro" if several else row.task_name) and row.low is not None
    ]
    compared = [row for row in rows if row.delta_low is not None and row.delta_high is not None]
    if len(compared) > MOST:  # of many tasks, those over all of them
        compared = [row for row in compared if row.task == "micro"]
    found = [("accuracy", _accuracy(whole))] if whole else []
    found += [("differences", _forest(compared, several))] if 0 < len(compared) <= MOST else []
    for curve in curves(table.scores, table.rows):
        name = re.sub(r"[^\w.-]+", "_", f"curve {curve.factor} {curve.task}").strip("_")
        found.append((name, _curve(curve)))
    return found


def _axes(lines: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 0.8 + 0.24 * max(lines, 3)))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _accuracy(rows: Sequence[Row]) -> Any:
    """A point and its 95 % interval for each contestant."""
    figure, axes = _axes(len(rows))
    ends = [(100 * (row.value or 0), 100 * (row.low or 0), 100 * (row.high or 0)) for row in rows]
    _bars(axes, ends, [contestant_of(row) for row in rows])
    least, most = min(row.n for row in rows), max(row.n for row in rows)
    axes.set_xlabel(
        f"accuracy %, 95 % interval, n = {least if least == most else f'{least} to {most}'}"
    )
    return figure


def _forest(rows: Sequence[Row], several: bool) -> Any:
    """The paired differences to the baseline with their bootstrap intervals; filled where p (Holm)
    is below 0.05."""
    figure, axes = _axes(len(rows))
    ends = [
        (100 * (row.delta or 0), 100 * (row.delta_low or 0), 100 * (row.delta_high or 0))
        for row in rows
    ]
    names = [f"{contestant_of(row)}, {row.task}" if several else contestant_of(row) for row in rows]
    _bars(axes, ends, names, [row.p_holm is not None and row.p_holm < 0.05 for row in rows])
    axes.axvline(0, color="black", linewidth=0.6)
    baselines = ", ".join(dict.fromkeys(row.baseline for row in rows))
    axes.set_xlabel(f"points against {baselines}, 95 % bootstrap interval; filled: p (Holm) < 0.05")
    return figure


def _bars(
    axes: Any,
    ends: Sequence[tuple[float, float, float]],
    names: Sequence[str],
    filled: Sequence[bool] = (),
) -> None:
    for place, (value, low, high) in enumerate(ends):
        face = COLORS[0] if not filled or filled[place] else "white"
        axes.plot([low, high], [place, place], color=COLORS[0], linewidth=1)
        axes.plot(value, place, "o", color=COLORS[0], markerfacecolor=face, markersize=4)
    axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)


def _curve(curve: PageLines) -> Any:
    """Accuracy against a swept number, a line with its interval for each contestant."""
    figure, axes = _axes(10)
    for number, (label, points) in enumerate(curve.lines.items()):
        xs, ys, lows, highs = (100 * np.array(column) for column in zip(*points, strict=True))
        axes.errorbar(
            xs / 100,
            ys,
            [ys - lows, highs - ys],
            color=COLORS[number % len(COLORS)],
            linewidth=1,
            capsize=2,
            marker=MARKERS[number % len(MARKERS)],
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


# ---- the table

LEVELS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def latex_table(table: Table) -> str:
    """A `table` with a line per contestant and a column per task, accuracy in percent.

    The best of each column is bold, ties too; majority and chance stand below a rule and do not
    take part, and below another what people reach, as published, with the points of each contestant
    less that. Stars are levels of p after Holm's correction against the baseline, over the
    comparisons of the run. The caption says n, the interval's and the test's method, and what was
    left out.
    """
    every = drop_means_of_one(sort_rows(table.where(metric="accuracy", slice="").rows))
    rows = [row for row in drop_repeats(every) if row.task != "micro" and row.value is not None]
    tasks = dict.fromkeys(row.task for row in rows)
    many, asked = len({row.run for row in rows}) > 1, {row.contestant for row in rows if row.point}
    contestants = [row for row in rows if row.contestant in asked]
    sizes, best = [], {}
    for task in tasks:
        of_task = [row for row in contestants if row.task == task]
        counts = sorted({row.n for row in of_task})
        sizes.append("--".join(map(str, dict.fromkeys((counts[0], counts[-1])))))
        best[task] = max(round(row.value or 0.0, 3) for row in of_task)
    blocks: dict[str, dict[str, dict[str, str]]] = {"arms": {}, "levels": {}, "people": {}}
    for row in rows:
        name = f"{contestant_of(row)} ({row.run})" if many else contestant_of(row)
        is_arm = row.contestant in asked
        cell = _cell(row, best[row.task] if is_arm else None)
        blocks["arms" if is_arm else "levels"].setdefault(name, {})[row.task] = cell
        if is_arm and row.people is not None:
            people = blocks["people"].setdefault("people, as published", {})
            people[row.task] = percent(row.people)
        if is_arm and (gap := to_people(row)):
            blocks["people"].setdefault(f"{name}, less people", {})[row.task] = f"${gap}$"
    lines = [" & ".join(["", *map(escape, tasks)]), " & ".join(["$n$", *sizes])]
    body = []
    for cells in filter(None, blocks.values()):
        body.append("\\midrule")
        for name, of_name in cells.items():
            line = " & ".join([escape(name), *(of_name.get(task, "--") for task in tasks)])
            body.append(f"{line} \\\\")
    return "\n".join(
        [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_caption(table, contestants)}}}",
            f"\\begin{{tabular}}{{l{'r' * len(tasks)}}}",
            "\\toprule",
            *(f"{line} \\\\" for line in lines),
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def _cell(row: Row, best: float | None) -> str:
    """An accuracy, bold where it is the best of the task, with stars for its p."""
    shown = percent(row.value)
    if best is not None and round(row.value or 0.0, 3) == best:
        shown = f"\\textbf{{{shown}}}"
    p = 1.0 if row.p_holm is None else row.p_holm
    star = next((star for level, star in LEVELS if p < level), "")
    return shown + (f"$^{{{star}}}$" if star else "")


def escape(text: str) -> str:
    """A text as LaTeX prints it."""
    return re.sub(r"[\\~^&%$#_{}]", lambda found: SIGNS[found[0]], " ".join(text.split()))


def _caption(table: Table, rows: Sequence[Row]) -> str:
    splits = ", ".join(dict.fromkeys(row.split for row in rows if row.split))
    baselines = dict.fromkeys(row.baseline for row in rows if row.baseline)
    tests = dict.fromkeys(row.test for row in rows if row.test)
    out = sum(row.excluded or 0 for row in rows)
    parts = [
        f"Accuracy in percent{f' ({splits})' if splits else ''}; $n$: samples with a key that were"
        " asked."
    ]
    if baselines:
        parts.append(
            f"Stars: paired difference to {', '.join(baselines)} at 5, 1 and 0.1 percent"
            f" ({', '.join(tests)}; Holm's correction over the comparisons on single tasks; {out}"
            " units left out)."
        )
    if any(row.people is not None for row in rows):
        parts.append("People: as published; below them points of difference.")
    return escape(" ".join([*parts, "Best in bold."])).replace("\\$n\\$", "$n$")

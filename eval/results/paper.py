"""Output for papers: figures as SVG and PDF (matplotlib), the table of accuracies in LaTeX
(booktabs), and a table with one row per record."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.eval.display.score_tables import (
    compare_to_people,
    drop_means_of_one,
    drop_repeats,
    format_contestant,
    sort_rows,
)
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import MINUS, percent
from looktwice.eval.page.data import PageLines
from looktwice.eval.page.sweeps import curves
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring.labels import get_setting
from looktwice.eval.scoring.row import Row, Rows
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.statistics.paired import ALPHA
from looktwice.pipelines.disk import open_atomic
from looktwice.pipelines.runtime.install import format_install

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""The colour-blind-safe colours of Okabe and Ito."""
MARKERS, MOST = "osD^vPX*", 40
STYLE = {"font.size": 8, "svg.hashsalt": "looktwice", "svg.fonttype": "none", "pdf.fonttype": 42}


def save_figures(table: Table, folder: Path) -> list[Path]:
    """Write figures of accuracies, differences and curves, for which the table has data; return
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
    with matplotlib.rc_context(STYLE):
        for name, figure in _figures(table).items():
            for ending, dates in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
                path = folder / f"{name}.{ending}"
                figure.savefig(path, bbox_inches="tight", metadata=dates)
                written.append(path)
    return written


def _figures(table: Table) -> dict[str, Any]:
    rows = drop_repeats(drop_means_of_one(table.where(metric="accuracy", slice="").rows))
    several = len({row.task for row in rows if row.task_name}) > 1
    whole, compared = list[Row](), list[Row]()
    for row in rows:
        if row.low is not None and (row.task == "micro" if several else row.task_name):
            whole.append(row)
        if row.delta_low is not None and row.delta_high is not None:
            compared.append(row)
    if len(compared) > MOST:  # with many tasks, only those over all of them
        compared = [row for row in compared if row.task == "micro"]
    figures = dict[str, Any]()
    if whole:
        lines = [(format_contestant(row), True, (row.value, row.low, row.high)) for row in whole]
        figures["accuracy"], axes = _bars(lines)
        sizes = sorted({row.n for row in whole})
        asked = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
        axes.set_xlabel(f"accuracy %, 95 % interval, n = {asked}")
    if 0 < len(compared) <= MOST:
        figures["differences"] = _forest(compared, several)
    for curve in curves(table.scores, table.rows):
        name = re.sub(r"[^\w.-]+", "_", f"curve {curve.factor} {curve.task}").strip("_")
        figures[name] = _curve(curve)
    return figures


def _axes(lines: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 0.8 + 0.24 * max(lines, 3)))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _forest(rows: Rows, several: bool) -> Any:
    """Draw the paired differences to the baseline with their bootstrap intervals.

    A point is filled if p (Holm) is below 0.05 divided by the number of families: single tasks and
    all tasks together, in each run.
    """
    lines, level = list[tuple[str, bool, tuple[float | None, ...]]](), ALPHA
    level /= max(1, len({(row.run, row.task == "micro") for row in rows}))
    for row in rows:
        name = f"{format_contestant(row)}, {row.task}" if several else format_contestant(row)
        filled = row.p_holm is not None and row.p_holm < level
        lines.append((name, filled, (row.delta, row.delta_low, row.delta_high)))
    figure, axes = _bars(lines)
    axes.axvline(0, color="black", linewidth=0.6)
    baselines = ", ".join(dict.fromkeys(row.baseline for row in rows))
    axes.set_xlabel(
        f"points against {baselines}, 95 % bootstrap interval; filled: p (Holm) < {level:.3g}"
    )
    return figure


def _bars(lines: Sequence[tuple[str, bool, tuple[float | None, ...]]]) -> tuple[Any, Any]:
    """Draw one row for each line: a name, whether its point is filled, and its value and interval
    as shares."""
    figure, axes = _axes(len(lines))
    for place, (_, filled, ends) in enumerate(lines):
        value, low, high = (100 * (end or 0) for end in ends)
        face = COLORS[0] if filled else "white"
        axes.plot([low, high], [place, place], color=COLORS[0], linewidth=1)
        axes.plot(value, place, "o", color=COLORS[0], markerfacecolor=face, markersize=4)
    axes.set_yticks(range(len(lines)), [name.replace("$", r"\$") for name, *_ in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    return figure, axes


def _curve(curve: PageLines) -> Any:
    """Draw accuracy against a swept number, with a line and intervals for each contestant."""
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
SIGNS = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)


def latex_table(table: Table) -> str:
    """Return a `table` with a line per contestant and a column per task, accuracy in percent.

    The best of each column is bold, including ties. Majority and chance are below a rule and are
    not compared; published human accuracies, and the difference of each contestant to them, are
    below another. Stars are levels of p after Holm's correction against the baseline, over the
    comparisons of the run, times the number of runs. The caption states n, the methods of the
    interval and the test, and what was left out.
    """
    every = drop_means_of_one(sort_rows(table.where(metric="accuracy", slice="").rows))
    rows = [row for row in drop_repeats(every) if row.task != "micro" and row.value is not None]
    tasks, runs = dict.fromkeys(row.task for row in rows), {row.run for row in rows}
    asked = {row.contestant for row in rows if row.point}
    sizes, best = defaultdict[str, list[int]](list), defaultdict[str, float](float)
    for row in rows:
        if row.contestant in asked:
            sizes[row.task].append(row.n)
            best[row.task] = max(best[row.task], round(row.value or 0.0, 3))
    blocks: dict[str, dict[str, dict[str, str]]] = {"arms": {}, "levels": {}, "people": {}}
    for row in rows:
        name, task, shown = format_contestant(row), row.task, percent(row.value)
        name = f"{name} ({row.run})" if len(runs) > 1 else name
        if row.contestant not in asked:
            blocks["levels"].setdefault(name, {})[task] = shown
            continue
        p = 1.0 if row.p_holm is None else len(runs) * row.p_holm
        star = next((f"$^{{{sign}}}$" for level, sign in LEVELS if p < level), "")
        if round(row.value or 0.0, 3) == best[task]:
            shown = f"\\textbf{{{shown}}}"
        blocks["arms"].setdefault(name, {})[task] = shown + star
        if row.people is not None:
            blocks["people"].setdefault("people, as published", {})[task] = percent(row.people)
        if gap := compare_to_people(row):
            gap = gap.replace(MINUS, "-")  # LaTeX sets a minus sign in math
            blocks["people"].setdefault(f"{name}, vs people", {})[task] = f"${gap}$"
    counts = (dict.fromkeys((min(sizes[task]), max(sizes[task]))) for task in tasks)
    lines = [["", *map(escape_latex, tasks)], ["$n$", *("--".join(map(str, n)) for n in counts)]]
    body = [*map(_latex_line, lines)]
    for cells in filter(None, blocks.values()):
        body.append("\\midrule")
        for name, of_name in cells.items():
            body.append(
                _latex_line([escape_latex(name), *(of_name.get(task, "--") for task in tasks)])
            )
    return "\n".join(
        [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_caption([row for row in rows if row.contestant in asked])}}}",
            f"\\begin{{tabular}}{{l{'r' * len(tasks)}}}",
            "\\toprule",
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def _latex_line(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX."""
    return " ".join(text.split()).translate(SIGNS)


def _caption(rows: Rows) -> str:
    def named(field: str) -> str:
        return ", ".join(dict.fromkeys(filter(None, map(attrgetter(field), rows))))

    splits, baselines, tests = named("split"), named("baseline"), named("test")
    out, runs = sum(row.excluded or 0 for row in rows), len({row.run for row in rows})
    of_runs = f", times the {runs} runs" if runs > 1 else ""
    parts = [
        f"Accuracy in percent{f' ({splits})' if splits else ''}; $n$: samples with a correct"
        " answer that were asked."
    ]
    if baselines:
        parts.append(
            f"Stars: paired difference to {baselines} at 5, 1 and 0.1 percent"
            f" ({tests}; Holm's correction over the comparisons on single tasks{of_runs}; {out}"
            " units left out)."
        )
    if any(row.people is not None for row in rows):
        parts.append("People: published accuracies; below them the differences in points.")
    return escape_latex(" ".join([*parts, "Best in bold."])).replace("\\$n\\$", "$n$")


# ---- the records

ROWS = 20_000  # written per batch

FIELDS = {
    "run": "string",
    "contestant": "string",  # with its changes
    "task": "string",  # with its changes
    "point": "string",  # id of the arm in points.yaml
    "sample": "string",
    "draw": "int64",
    "verdict": "string",  # right, wrong, unreadable, failed, hidden
    "score": "float64",  # 0..1
    "answer": "string",
    "key": "string",
    "reason": "string",  # why it is unreadable
    "group": "string",
    "question": "string",
    "reply": "string",  # the text of the last one
    "error": "string",
    "calls": "int64",
    "tokens_in": "int64",
    "tokens_out": "int64",
    "cost": "float64",
    "seconds": "float64",  # of all stages
    "cached": "int64",  # calls answered from the cache
}
"""The columns and their types.

They are followed by `pictures`, the sha256 of the pictures that were sent (under blobs/), and by a
text column for each setting that the study changes.
"""


def record_table(runs: Sequence[RunScores]) -> Any:
    """Return all records of these runs as a `pyarrow.Table`, in their stored order."""
    import pyarrow

    schema = _schema(runs)
    return pyarrow.Table.from_batches(_batches(runs, schema), schema=schema)


def write_parquet(runs: Sequence[RunScores], path: Path) -> int:
    """Write all records of these runs to a Parquet file in batches; return their number."""
    from pyarrow.parquet import ParquetWriter

    path.parent.mkdir(parents=True, exist_ok=True)
    schema, count = _schema(runs), 0
    with open_atomic(path) as file, ParquetWriter(file, schema) as writer:
        for batch in _batches(runs, schema):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _schema(runs: Sequence[RunScores]) -> Any:
    """Return the columns, including those of the settings that the runs change."""
    import pyarrow

    types = {name: pyarrow.type_for_alias(kind) for name, kind in FIELDS.items()}
    types["pictures"] = pyarrow.list_(pyarrow.string())
    for run in runs:
        for scores in run.points:
            types |= dict.fromkeys(scores.point.changes, pyarrow.string())
    return pyarrow.schema(types)


def _batches(runs: Sequence[RunScores], schema: Any) -> Iterator[Any]:
    import pyarrow

    rows = _rows(runs, schema.names[len(FIELDS) + 1 :])
    while some := list(islice(rows, ROWS)):
        yield pyarrow.RecordBatch.from_pylist(some, schema=schema)


def _rows(runs: Sequence[RunScores], places: Sequence[str]) -> Iterator[dict[str, Any]]:
    for run in runs:
        for scores, record in run.records():
            scored, sample = scores.result_of(record), scores.samples.get(record.sample)
            if scored is None or sample is None:
                continue
            settings = dict[str, str | None]()
            for place in places:
                value = get_setting(scores.point, place)
                settings[place] = None if value is None else str(value)
            reply = record.last_reply
            yield {
                "run": run.name,
                "contestant": scores.contestant,
                "task": scores.task,
                "point": scores.point.id,
                "sample": record.sample,
                "draw": record.draw,
                "verdict": scored.verdict.value,
                "score": scored.score.value,
                "answer": scored.answer,
                "key": sample.answer,
                "reason": scored.reason or None,
                "group": scored.score.group or None,
                "question": sample.sample["question"],
                "reply": reply["text"] if reply else None,
                "error": record.error or None,
                "calls": scored.calls,
                "tokens_in": scored.tokens_in,
                "tokens_out": scored.tokens_out,
                "cost": scored.cost,
                "seconds": record.timings.get("total"),
                "cached": sum(bool(c.get("cached")) for c in record.timings.get("calls") or ()),
                "pictures": list(record.pictures),
                **settings,
            }

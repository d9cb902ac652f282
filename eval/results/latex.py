"""The table of a paper: accuracy of every contestant on every task, for LaTeX with the package
booktabs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from looktwice.eval.display.score_tables import (
    contestant_of,
    drop_means_of_one,
    drop_repeats,
    sort_rows,
    to_people,
)
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import percent
from looktwice.eval.scoring.row import Row

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
    tasks = list(dict.fromkeys(row.task for row in rows))
    many = len({row.run for row in rows}) > 1
    names = {
        id(row): f"{contestant_of(row)} ({row.run})" if many else contestant_of(row) for row in rows
    }
    asked = {row.contestant for row in rows if row.point}
    contestants = [row for row in rows if row.contestant in asked]
    levels = [row for row in rows if row.contestant not in asked]
    best = {
        task: max(round(row.value or 0.0, 3) for row in contestants if row.task == task)
        for task in tasks
    }
    head = " & ".join(["", *(escape(task) for task in tasks)])
    size = " & ".join(
        ["$n$", *(_sizes([row.n for row in contestants if row.task == task]) for task in tasks)]
    )
    body = [
        *_lines(contestants, names, tasks, best),
        *(["\\midrule"] if levels else []),
        *_lines(levels, names, tasks, {}),
        *_people_lines(contestants, names, tasks),
    ]
    return "\n".join(
        [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_caption(table, contestants)}}}",
            f"\\begin{{tabular}}{{l{'r' * len(tasks)}}}",
            "\\toprule",
            f"{head} \\\\",
            f"{size} \\\\",
            "\\midrule",
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def escape(text: str) -> str:
    """A text as LaTeX prints it."""
    return re.sub(r"[\\~^&%$#_{}]", lambda found: SIGNS[found[0]], " ".join(text.split()))


def _lines(
    rows: Sequence[Row], names: dict[int, str], tasks: Sequence[str], best: dict[str, float]
) -> list[str]:
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        shown = percent(row.value)
        if row.task in best and round(row.value or 0.0, 3) == best[row.task]:
            shown = f"\\textbf{{{shown}}}"
        star = next(
            (star for level, star in LEVELS if row.p_holm is not None and row.p_holm < level), ""
        )
        cells.setdefault(names[id(row)], {})[row.task] = shown + (f"$^{{{star}}}$" if star else "")
    return _joined(cells, tasks)


def _joined(cells: Mapping[str, Mapping[str, str]], tasks: Sequence[str]) -> list[str]:
    """A line of the table for each name, with its cell of every task."""
    return [
        f"{' & '.join([escape(name), *(of_name.get(task, '--') for task in tasks)])} \\\\"
        for name, of_name in cells.items()
    ]


def _people_lines(rows: Sequence[Row], names: dict[int, str], tasks: Sequence[str]) -> list[str]:
    """What people reach, as published, and the points of each contestant less that; nothing where
    nothing is."""
    levels = {row.task: percent(row.people) for row in rows if row.people is not None}
    gaps: dict[str, dict[str, str]] = {}
    for row in rows:
        if gap := to_people(row):
            gaps.setdefault(names[id(row)], {})[row.task] = f"${gap}$"
    lines = {"people, as published": levels} | {
        f"{name}, less people": held for name, held in gaps.items()
    }
    return ["\\midrule", *_joined(lines, tasks)] if levels else []


def _sizes(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)}--{max(counts)}"


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

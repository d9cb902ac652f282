"""The table of accuracies in LaTeX, with booktabs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter

from looktwice.eval.display.score_tables import (
    compare_to_people,
    drop_means_of_one,
    drop_repeats,
    format_contestant,
    sort_rows,
)
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import MINUS, percent
from looktwice.eval.scoring.row import Rows

STAR_LEVELS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
LATEX_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)


def make_latex_table(table: Table) -> str:
    """Return a LaTeX `table` with a row per contestant and a column per task, in percent.

    The best accuracies of each column are bold, including ties. A rule separates the rows of
    majority and chance, which are not compared; another rule separates published human accuracies
    and the difference of each contestant from them. Stars mark the p values of the differences from
    the baseline, after Holm's correction over the comparisons of the run, multiplied by the number
    of runs. The caption states n, the methods of the interval and the test, and what was left out.
    """
    all_rows = drop_means_of_one(sort_rows(table.where(metric="accuracy", slice="").rows))
    rows = [row for row in drop_repeats(all_rows) if row.task != "micro" and row.value is not None]
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
        star = next((f"$^{{{sign}}}$" for level, sign in STAR_LEVELS if p < level), "")
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
    body = [*map(_format_latex_row, lines)]
    for cells in filter(None, blocks.values()):
        body.append("\\midrule")
        for name, by_task in cells.items():
            body.append(
                _format_latex_row(
                    [escape_latex(name), *(by_task.get(task, "--") for task in tasks)]
                )
            )
    return "\n".join(
        [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_write_caption([row for row in rows if row.contestant in asked])}}}",
            f"\\begin{{tabular}}{{l{'r' * len(tasks)}}}",
            "\\toprule",
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def _format_latex_row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def escape_latex(text: str) -> str:
    """Escape the characters of a text that LaTeX reserves, and join its lines."""
    return " ".join(text.split()).translate(LATEX_ESCAPES)


def _write_caption(rows: Rows) -> str:
    def join_values(field: str) -> str:
        return ", ".join(dict.fromkeys(filter(None, map(attrgetter(field), rows))))

    splits, baselines, tests = join_values("split"), join_values("baseline"), join_values("test")
    out, runs = sum(row.excluded or 0 for row in rows), len({row.run for row in rows})
    of_runs = f", times the {runs} runs" if runs > 1 else ""
    parts = [
        f"Accuracy in percent{f' ({splits})' if splits else ''}; $n$: samples with a correct"
        " answer that were asked."
    ]
    if baselines:
        parts.append(
            f"Stars: paired difference from {baselines}, significant at 5, 1 and 0.1 percent"
            f" ({tests}; Holm's correction over the comparisons on single tasks{of_runs}; {out}"
            " units left out)."
        )
    if any(row.people is not None for row in rows):
        parts.append("People: published accuracies; below them the differences in points.")
    return escape_latex(" ".join([*parts, "Best in bold."])).replace("\\$n\\$", "$n$")

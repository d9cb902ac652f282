"""What people reach, beside the contestants of a run on the same items."""

from __future__ import annotations

from collections import defaultdict

from looktwice.eval.annotation.ratings import HUMANS, MAJORITY
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable, estimate_cell
from looktwice.eval.statistics.intervals import share_interval
from looktwice.eval.tasks.table_files import read_texts


def ceiling_table(scored: Table) -> TextTable:
    """Percent right with 95 % intervals, by task, of all people of a sheet that lies in the folder
    of a run and was read, and below them of each contestant on the items that people answered.

    People's answers to one sample are a cluster; of a contestant the first draw counts.
    """
    cells: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for run in scored.scores:
        for file in sorted(run.folder.path.glob(f"*/{HUMANS}")):
            sheet = file.relative_to(run.folder.path).parts[0]
            answers: dict[str, list[tuple[str, bool]]] = defaultdict(list)
            for row in read_texts(file):
                if row["contestant"] != MAJORITY:
                    answers[row["task"]].append((row["sample"], row["value"] == "right"))
            for task, given in answers.items():
                samples, right = zip(*given, strict=True)
                cells[sheet, "people"][task] = estimate_cell(share_interval(right, samples))
            for arm in run.points:
                asked = dict.fromkeys(sample for sample, _ in answers.get(arm.task, ()))
                values = [first.score.value for first in map(arm.first, asked) if first]
                if values:
                    share = estimate_cell(share_interval(values))
                    cells[sheet, arm.contestant][arm.task] = share
    tasks = dict.fromkeys(task for shares in cells.values() for task in shares)
    lines = [(*who, *(shares.get(task, "") for task in tasks)) for who, shares in cells.items()]
    return TextTable(("sheet", "who", *tasks), lines, 2)

"""What people reach, beside the contestants of a run on the same items."""

from __future__ import annotations

from looktwice.eval.annotation.ratings import HUMANS, MAJORITY
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable, estimate_cell
from looktwice.eval.statistics.intervals import share_interval
from looktwice.eval.tasks.table_files import read_texts


def ceiling_table(scored: Table) -> TextTable:
    """The share right in percent of each contestant on the items of a sheet that lies in the folder
    of its run and was read, and that of the people, each with its 95 % interval.

    People's answers to one sample are a cluster; of a contestant the first draw counts.
    """
    lines = []
    for run in scored.scores:
        for file in sorted(run.folder.path.glob(f"*/{HUMANS}")):
            people = [row for row in read_texts(file) if row["contestant"] != MAJORITY]
            for arm in run.points:
                answers = [row for row in people if row["task"] == arm.task]
                samples = [row["sample"] for row in answers]
                firsts = filter(None, map(arm.first, dict.fromkeys(samples)))
                if values := [first.score.value for first in firsts]:
                    right = share_interval([row["value"] == "right" for row in answers], samples)
                    shares = estimate_cell(share_interval(values)), estimate_cell(right)
                    about = file.parts[-3], arm.task, arm.contestant, str(len(values))
                    lines.append((*about, *shares))
    return TextTable(("sheet", "task", "contestant", "items", "right %", "people %"), lines, 3)

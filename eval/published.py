"""Numbers that others published, beside those of a run and never among them: they were not run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from looktwice.eval.printed import Grid
from looktwice.eval.score import RunScores

__all__ = ["published_grid"]


def published_grid(runs: Sequence[RunScores]) -> Grid:
    """A line for each row of `published:` in the runs' configurations, in percent as published, with its source.

    A row is `name: {source: where it stands, accuracy: {task: percent}}`. The columns are those tasks of the runs
    that some row has, then any further entry, such as `macro`. A task with errata is flagged in its header.
    """
    rows: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in runs:
        config = run.folder.facts.get("config") or {}
        for name, row in (config.get("published") or {}).items():
            rows[str(name), str(row.get("source", ""))] = row.get("accuracy") or {}
    given = dict.fromkeys(task for held in rows.values() for task in held)
    asked = {scores.point.task: scores.point.facts.get("errata") for run in runs for scores in run.points}
    tasks = [*(task for task in asked if task in given), *(task for task in given if task not in asked)]
    titles = (f"{task}\nsee its errata" if asked.get(task) else task for task in tasks)
    lines = ((name, source, *(_percent(held.get(task)) for task in tasks)) for (name, source), held in rows.items())
    return Grid(("published, not run", "source", *titles), tuple(lines), words=2)


def _percent(value: Any) -> str:
    return "" if value is None else f"{float(value):.2f}"

"""Contestants beside what others published: the rows of `published:`, and how far a run is from
them; and beside people on the same items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from looktwice.eval.annotation.ratings import HUMANS, MAJORITY
from looktwice.eval.display.score_tables import to_people
from looktwice.eval.display.table import Table
from looktwice.eval.display.text_tables import TextTable, estimate_cell, percent, points
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.run_rows import of_another_split, published_names
from looktwice.eval.statistics.intervals import share_interval, two_shares
from looktwice.eval.tasks.table_files import read_texts

ROUNDED = 0.0101
"""Percent by which a printed share and k/n may differ: papers round, or cut off."""


def published_table(scored: Table) -> TextTable:
    """A line for each row of `published:` in the runs' configurations, in percent as published,
    with its source.

    A published row is `name: {source: where it stands, accuracy: {task: percent}}`. The columns are
    those tasks of the runs that some row has, then any further entry: a total such as `macro` or
    `blink_macro`, or `task.metric`. A task with errata is flagged in its header, a row of another
    split than the run's in its name. Below stand the contestants of the runs, and how many points
    each differs from people, whose row says `people: true`.
    """
    published: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in scored.scores:
        for name, row in (run.config.get("published") or {}).items():
            accuracies = row.get("accuracy") or {}
            if any(of_another_split(run, row, str(task)) for task in accuracies):
                suffix = f" on {row['split']}"
                name = str(name).removesuffix(suffix) + suffix
            published[str(name), str(row.get("source", ""))] = accuracies
    given = dict.fromkeys(task for accuracies in published.values() for task in accuracies)
    lines = list[tuple[str, str, Mapping[str, str]]]()
    for (name, source), accuracies in published.items():
        cells = {t: f"{float(v):.2f}" for t, v in accuracies.items() if v is not None}
        lines.append((name, source, cells))
    names = {arm.contestant for run in scored.scores for arm in run.points}
    here = defaultdict[str, dict[str, Row]](dict)
    for row in scored.where(slice=""):
        if row.value is not None and row.contestant in names:
            here[row.contestant] |= {n: row for n in published_names(row) if n in given}
    for name, rows in here.items():
        if rows:
            lines.append((name, "this run", {t: percent(r.value, 2) for t, r in rows.items()}))
            gaps = {task: to_people(row, 2) for task, row in rows.items()}
            lines += [(f"{name}, less people", "points", gaps)] if any(gaps.values()) else []
    errata = {
        arm.point.task: arm.point.facts.get("errata") for run in scored.scores for arm in run.points
    }
    tasks = sorted(given, key=lambda task: [*errata, task].index(task))
    titles = [f"{task}\nsee its errata" if errata.get(task) else task for task in tasks]
    shown = [(*who, *(cells.get(task, "") for task in tasks)) for *who, cells in lines]
    return TextTable(("who", "source", *titles), shown, 2)


def published_gaps(scored: Table) -> TextTable:
    """A line for each contestant and each row of `published:` that says of how many questions its
    numbers are: points of difference, with the exact interval of two samples, and an asterisk where
    Fisher's exact test gives p < 0.05. Rows of another split are left out."""
    lines = list[tuple[str, str, dict[str, str]]]()
    for run in scored.scores:
        names = {arm.contestant for arm in run.points}
        for name, published in (run.config.get("published") or {}).items():
            shares = dict(published_shares(published))
            asked = {task for task in shares if not of_another_split(run, published, task)}
            gaps = defaultdict[str, dict[str, str]](dict)
            for row in scored.where(slice=""):
                right = (row.value or 0.0) * row.n
                is_share = row.value is not None and row.n and abs(right - round(right)) < 1e-6
                shared = {*published_names(row)} & asked if is_share else ()
                for task in shared if row.contestant in names else ():
                    gap = two_shares(round(right), row.n, *shares[task])
                    star = "*" if gap.p < 0.05 else ""
                    cell = f"{points(gap.value)}{star}\n[{points(gap.low)}, {points(gap.high)}]"
                    gaps[row.contestant][task] = cell
            lines += [(who, str(name), cells) for who, cells in gaps.items()]
    tasks = list(dict.fromkeys(task for _, _, cells in lines for task in cells))
    shown = [(who, name, *(cells.get(task, "") for task in tasks)) for who, name, cells in lines]
    return TextTable(("contestant", "less", *tasks), sorted(shown), 2)


def published_shares(published: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, int]]]:
    """The k of n behind the numbers of a row of `published:` whose `n` is told, by task. A number
    that is no share of n, as one of graded values, is left out."""
    accuracies = published.get("accuracy") or {}
    for task, n in (published.get("n") or {}).items():
        value = accuracies.get(task)
        if value is not None:
            k = round(float(value) * n / 100)
            if abs(100 * k / n - float(value)) < ROUNDED:
                yield str(task), (k, int(n))


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

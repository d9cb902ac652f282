"""Published tables of accuracies, without items: the spread of each contestant over variants, the
changes of ranks, and the tables of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from looktwice.eval.display.text_tables import Column, Columns, TextTable, table, text
from looktwice.eval.tasks.base import TaskError
from looktwice.extras.logs.compare import find_name
from looktwice.extras.logs.log import NamedColumns
from looktwice.extras.logs.report import write_csv
from looktwice.extras.logs.tables import find_columns, open_columns, read_numbers
from looktwice.pipelines.disk import write_file


@dataclass(frozen=True)
class RankChange:
    """The change of ranks from the baseline variant to another variant on one task, over `models`
    contestants.

    `flipped` counts the pairs of contestants in strictly opposite order, `tied` the pairs that are
    equal in either variant, and `moved` the contestants whose competition rank (1 + the number of
    strictly better contestants) changed. `furthest` is the largest change of rank. `tau` is
    Kendall's tau-b. `mean_change` is the mean absolute difference of the accuracies, None if only
    ranks are known.
    """

    task: str
    variant: str
    models: int
    flipped: int
    tied: int
    moved: int
    furthest: int
    tau: float
    mean_change: float | None


@dataclass(frozen=True)
class Spread:
    """The difference between the best and the worst variant of one contestant on one task, in the
    table's units."""

    task: str
    contestant: str
    value: float
    best: str
    worst: str


@dataclass(frozen=True)
class Standings:
    """The spreads and rank changes in a published table; a table that only holds ranks has no
    spreads."""

    baseline: str
    spreads: tuple[Spread, ...]
    changes: tuple[RankChange, ...]


def is_published(paths: Sequence[Path], named: NamedColumns) -> bool:
    """Return whether the columns that the user named show that the input is a published table
    without items."""
    return len(paths) == 1 and "sample" not in named and bool({"accuracy", "rank"} & named.keys())


def read_standings(path: Path, named: NamedColumns, baseline: str) -> Standings:
    """Compute the spreads and rank changes of a table with a row per task, contestant and variant.

    `named` gives its columns: `contestant`, `variant`, `accuracy` or `rank`, and `task` if there
    are several. The variants are compared with the variant `baseline` (default: the first). Raises
    TaskError.
    """
    frame = open_columns(path)
    columns = find_columns(frame, named, path)
    for name in ("contestant", "variant"):
        if name not in columns:
            raise TaskError(
                f"{path}: which column is the {name}? Name it with --column {name}=COLUMN"
            )
    by_rank = "accuracy" not in named
    column = columns["rank" if by_rank else "accuracy"]
    measured = read_numbers(frame[column], column, path)
    whole = frame[list(columns.values())].set_axis(list(columns), axis=1)
    whole["value"] = -measured if by_rank else measured
    if "task" not in columns:
        whole["task"] = ""
    variants = whole["variant"].unique().tolist()
    base = variants[find_name(baseline or variants[0], variants, "variant")]
    spreads, changes = list[Spread](), list[RankChange]()
    for task, part in whole.groupby("task", sort=False):
        if part.duplicated(["contestant", "variant"]).any():
            raise TaskError(
                f"{path}: {task} has a contestant twice with the same variant; name the column of"
                " tasks with --column task=COLUMN"
            )
        wide = part.pivot(index="contestant", columns="variant", values="value").dropna(axis=1)
        if base not in wide.columns:
            raise TaskError(f"{path}: a contestant has no row for the baseline {base} on {task}")
        if not by_rank:
            for name, row in wide.iterrows():
                gap, best, worst = float(row.max() - row.min()), row.idxmax(), row.idxmin()
                spreads.append(Spread(str(task), str(name), gap, str(best), str(worst)))
        for variant in (name for name in variants if name != base and name in wide.columns):
            change = compare_ranks(wide[base].to_dict(), wide[variant].to_dict())
            change = change if len(wide) > 1 else change._replace(tau=1.0)
            mean = None if by_rank else float((wide[variant] - wide[base]).abs().to_numpy().mean())
            changes.append(RankChange(str(task), variant, len(wide), *change, mean))
    return Standings(base, tuple(spreads), tuple(changes))


def build_spread_table(standings: Standings) -> TextTable:
    """Build a table of the spreads by task and contestant, with the mean of each task."""
    lines = []
    for task, spreads in groupby(standings.spreads, attrgetter("task")):
        part = list(spreads)
        mean = fmean(spread.value for spread in part)
        lines += [*part, Spread(task, f"mean of {len(part)}", mean, "", "")]
    columns: Columns[Spread] = (
        Column("task", "task", text),
        Column("contestant", "contestant", text),
        Column("best - worst", "value", "{:.2f}"),
        Column("best", "best"),
        Column("worst", "worst"),
    )
    return table(columns, lines)


def build_rank_table(standings: Standings) -> TextTable:
    """Build a table of the rank changes from the baseline variant to each other variant."""
    columns: Columns[RankChange] = (
        Column("task", "task", text),
        Column("variant", "variant", text),
        Column("n", "models"),
        Column("pairs\nflipped", "flipped"),
        Column("pairs\ntied", "tied"),
        Column("moved", "moved"),
        Column("furthest", "furthest"),
        Column("tau-b", "tau", "{:.3f}"),
        Column("mean\nchange", "mean_change", "{:.2f}"),
    )
    return table(columns, standings.changes)


def write_standings(standings: Standings, folder: Path) -> list[Path]:
    """Write compare.md, spreads.csv and ranks.csv; return their paths. Raises OSError."""
    parts = ["# A published table", f"Every variant is compared with {standings.baseline}."]
    paths = [folder / "compare.md"]
    for name, lines, shown in (
        ("spreads.csv", standings.spreads, build_spread_table(standings)),
        ("ranks.csv", standings.changes, build_rank_table(standings)),
    ):
        if lines:
            parts.append(shown.markdown)
            paths.append(write_csv(folder / name, [vars(line) for line in lines]))
    write_file(paths[0], "\n\n".join(parts) + "\n")
    return paths


class RankChanges(NamedTuple):
    """The changes of contestants' competition ranks from one set of values to another.

    The fields are the numbers of pairs that swap, of pairs tied in either set and of contestants
    whose rank changes, the largest change, and Kendall's tau-b.
    """

    flipped: int
    tied: int
    moved: int
    furthest: int
    tau: float


def compare_ranks(before: Mapping[str, float], after: Mapping[str, float]) -> RankChanges:
    """Compare the ranks of names by their values in `before` and in `after`; larger values are
    better. Only names in both count."""
    from scipy.stats import kendalltau

    names = [name for name in before if name in after]
    values = [np.array([level[name] for name in names]) for level in (before, after)]
    upper = np.triu_indices(len(names), 1)
    first, second = (np.sign(level[:, None] - level)[upper] for level in values)
    # the number of strictly better ones
    old, new = ((level[:, None] + 1e-9 < level).sum(axis=1) for level in values)
    moves = np.abs(old - new)
    return RankChanges(
        int((first * second < 0).sum()),
        int((first * second == 0).sum()),
        int((moves > 0).sum()),
        int(moves.max(initial=0)),
        float(kendalltau(*values).statistic),
    )

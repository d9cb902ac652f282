"""What one opens in a notebook: the scored runs, what a variant flipped, and the files that a paper
needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from looktwice.eval.analysis.contestants import right_on_first_draw
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.records.records import RunError
from looktwice.eval.results.flips import Flip, Flips, Side
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.paired import compare_paired
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.state import Stage

if TYPE_CHECKING:
    import pandas

Arm = tuple[RunScores, PointScores]


@dataclass(frozen=True)
class Results:
    """The results of one or several runs; `table` holds the rows of report.csv, and the scores
    behind them.

        results = Results.open("runs/study")
        results.flips("plain", "circles")  # in a notebook: samples with pictures and replies
        results.to_pandas().groupby("contestant")["score"].mean()

    A contestant goes by its name in the table; of several runs, where two have the name, by "name
    (run)".
    """

    table: Table

    @classmethod
    def open(
        cls,
        *runs: str | Path,
        reader: Stage | None = None,
        judge: str = "",
        plugins: Sequence[str] = (),
    ) -> Results:
        """Read and score run folders; the arguments are those of `score_table`. Raises RunError."""
        if not runs:
            raise RunError("Results.open needs a run folder, such as Results.open('runs/study')")
        return cls(score_table(list(runs), reader, judge, plugins=plugins))

    @property
    def contestants(self) -> list[str]:
        """The names by which `flips` knows the contestants, with their changes."""
        return list(self._arms)

    def to_pandas(self) -> pandas.DataFrame:
        """A line per record, with the columns of `eval.results.parquet.FIELDS`; `table.to_pandas()`
        has the means."""
        from looktwice.eval.results.parquet import record_table

        return record_table(self.table.scores).to_pandas()

    def flips(self, before: str, after: str, task: str = "") -> Flips:
        """The samples that one of two contestants has right and the other does not, on one task or
        on all.

        Samples with a key that neither failed are compared, by their first draw. Raises RunError
        for an unknown contestant or task, and where the two have no task in common.
        """
        arms = [self._arms_of(name, task) for name in (before, after)]
        shared = [
            (one, other) for one in arms[0] for other in arms[1] if _same_task(one[1], other[1])
        ]
        if not shared:
            raise RunError(
                f"{before!r} and {after!r} have no task in"
                f" common{f' named {task!r}' if task else ''}"
            )
        hits, clusters, total = list[tuple[bool, bool]](), list[str](), 0
        changed = list[tuple[Arm, Arm, str]]()
        for one, other in shared:
            mine, theirs = right_on_first_draw(one[1]), right_on_first_draw(other[1])
            both = [name for name in mine if name in theirs]
            total += len(mine.keys() | theirs.keys())
            hits += [(mine[name], theirs[name]) for name in both]
            clusters += [one[1].clusters[name] for name in both]
            changed += [(one, other, name) for name in both if mine[name] != theirs[name]]
        if not hits:
            raise RunError(
                f"{before!r} and {after!r} have no sample with a key that both were asked"
            )
        compared = compare_paired([b for _, b in hits], [a for a, _ in hits], clusters)
        order = sorted(_flips(changed), key=lambda flip: not flip.gained)
        return Flips(before, after, tuple(order), len(hits), total - len(hits), compared)

    def save_figures(self, folder: str | Path) -> list[Path]:
        """Write the figures of a paper into a folder, each as SVG and PDF; their paths. Needs
        matplotlib."""
        from looktwice.eval.results.figures import save_figures

        return save_figures(self.table, Path(folder))

    def to_latex(self) -> str:
        """The accuracies as a LaTeX table with booktabs: the best of a column in bold, and marks of
        significance."""
        from looktwice.eval.results.latex import latex_table

        return latex_table(self.table)

    def save_latex(self, path: str | Path) -> Path:
        """Write `to_latex()` into a file."""
        write_file(Path(path), self.to_latex())
        return Path(path)

    def save_parquet(self, path: str | Path) -> int:
        """Write a line per record, as `to_pandas` has them, into a Parquet file; how many lines
        there are."""
        from looktwice.eval.results.parquet import write_parquet

        return write_parquet(self.table.scores, Path(path))

    @property
    def _arms(self) -> dict[str, list[Arm]]:
        named: dict[str, dict[str, list[Arm]]] = {}
        for run in self.table.scores:
            for scores in run.points:
                named.setdefault(scores.contestant, {}).setdefault(run.name, []).append(
                    (run, scores)
                )
        return {
            name if len(by_run) == 1 else f"{name} ({run})": arms
            for name, by_run in named.items()
            for run, arms in by_run.items()
        }

    def _arms_of(self, name: str, task: str) -> list[Arm]:
        arms = self._arms
        if name not in arms:
            close = get_close_matches(name, arms, 1)
            hint = (
                f"did you mean {close[0]!r}?"
                if close
                else f"there are {', '.join(map(repr, arms))}"
            )
            raise RunError(f"no contestant {name!r} here; {hint}")
        found = [
            (run, scores)
            for run, scores in arms[name]
            if task in ("", scores.task, scores.point.task)
        ]
        if not found:
            tasks = dict.fromkeys(scores.task for _, scores in arms[name])
            raise RunError(
                f"{name!r} was not asked {task!r}; its tasks are {', '.join(map(repr, tasks))}"
            )
        return found


def _same_task(one: PointScores, other: PointScores) -> bool:
    """Whether two arms were asked the same: the same task as built, or in runs of other data one of
    this name."""
    return one.point.task_id == other.point.task_id or (
        one.task == other.task and one.point.task == other.point.task
    )


def _flips(changed: Sequence[tuple[Arm, Arm, str]]) -> list[Flip]:
    """The flips of these samples; the records of each run are read once."""
    wanted: dict[str, tuple[RunScores, set[str]]] = {}
    for one, other, name in changed:
        for run, _ in (one, other):
            wanted.setdefault(str(run.folder.path), (run, set()))[1].add(name)
    records = {
        (path, record.point, record.sample): record
        for path, (run, names) in wanted.items()
        for record in run.folder.last_records(names)
        if record.draw == 0
    }

    def side(arm: Arm, name: str) -> Side:
        run, scores = arm
        record = records.get((str(run.folder.path), scores.point.recorded_as, name))
        return Side(scores.scored[name][0], record, run)

    return [
        Flip(one[1].task, one[1].samples[name], side(one, name), side(other, name))
        for one, other, name in changed
    ]

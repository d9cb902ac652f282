"""The long table of one or several runs, and how it is shown on a terminal, in a notebook and as CSV."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from looktwice.eval.display.grids import interval, ordered, percent, shown_p, task_grid, without_repeats
from looktwice.eval.records.records import RunError, RunFolder
from looktwice.eval.scoring.groups import circular_rows
from looktwice.eval.scoring.labels import baseline_of
from looktwice.eval.scoring.metrics import COLUMNS, Row, compared, floors, mean_over_tasks, measure, pooled
from looktwice.eval.scoring.rows import chance_rows, is_own, mark_rows, own_rows, total_rows
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.stats import holm
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.pipelines.state import Stage

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """Rows of the long table, in the order: tasks of a contestant, its macro and micro; then what needs no looking.

    `scores` are what the rows were made from. A notebook and `print` show the accuracy of every point.
    """

    rows: tuple[Row, ...]
    scores: tuple[RunScores, ...] = field(default=(), repr=False)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, **fields: Any) -> Table:
        """The rows whose fields have these values, such as `metric="accuracy", slice=""`."""
        return replace(self, rows=tuple(r for r in self.rows if all(getattr(r, k) == v for k, v in fields.items())))

    @property
    def csv(self) -> str:
        """The columns of report.csv, a header and a line per row; empty where a value does not apply."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in self.rows:
            writer.writerow([_cell(getattr(row, name)) for name in COLUMNS])
        return out.getvalue()

    def __repr__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=140)
        console.print(console_table(self))
        return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]

    def _repr_html_(self) -> str:
        return task_grid(ordered(self.rows), full=True).html

    def _repr_markdown_(self) -> str:
        return task_grid(ordered(self.rows), full=True).markdown


def table(
    runs: str | Path | Sequence[str | Path], reader: Stage | None = None, by: Sequence[str] = (), judge: str = ""
) -> Table:
    """Score runs and put them into one table; `by` names meta fields to slice by. Raises RunError.

    `judge` says whose verdicts count where a run was judged: "" those of the first judge, "none" nobody's.
    """
    paths = [runs] if isinstance(runs, str | Path) else list(runs)
    return make_table([score_run(RunFolder(Path(path)), reader, judge) for path in paths], by)


def make_table(runs: Sequence[RunScores], by: Sequence[str] = ()) -> Table:
    """The table of runs that are scored already. Raises RunError for a field `by` that no sample has."""
    known = {name for run in runs for scores in run.points for row in scores.samples.values() for name in row.meta}
    for name in by:
        if name not in known:
            raise RunError(f"--by {name}: no sample has this field; there are {', '.join(sorted(known)) or 'none'}")
    return Table(tuple(row for run in runs for row in _run_rows(run, by)), tuple(runs))


def _run_rows(run: RunScores, by: Sequence[str]) -> list[Row]:
    points = {scores.point.id: scores for scores in run.points}
    rows = {point: _point_rows(run, scores, points) for point, scores in points.items()}
    rows = _corrected(rows)
    of: dict[str, list[PointScores]] = defaultdict(list)
    for scores in run.points:
        of[scores.contestant].append(scores)
    out: list[Row] = []
    for held in of.values():
        mine = [row for scores in held for row in rows[scores.point.id]]
        out += mine + _means(mine, held, points) + total_rows(held, mine)
        out += [row for scores in held for row in _slices(run, scores, by)]
    return out + circular_rows(run) + _floor_rows(run, by)


def _plain(run: RunScores, scores: PointScores, part: str = "") -> Row:
    point = scores.point
    facts = {name: str(point.facts.get(name) or "") for name in ("split", "label_version")}
    names = (run.name, point.id, scores.contestant, scores.task, part)
    return Row(*names, metric="accuracy", value=None, name=point.task, reader=scores.reader, **facts)  # type: ignore[arg-type]


def _point_rows(run: RunScores, scores: PointScores, points: dict[str, PointScores]) -> list[Row]:
    rows = measure(scores, _plain(run, scores))
    rival = baseline_of(scores.point, [other.point for other in points.values()])
    if rival is not None:
        rows[0] = compared([(scores, points[rival.id])]).fill(rows[0], points[rival.id].contestant)
    other = points[rival.id] if rival is not None else None
    own = own_rows(scores, _plain(run, scores), other)
    return rows + own + mark_rows(scores, _plain(run, scores), other)


def _corrected(rows: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Holm's correction over all comparisons of a run, one per point."""
    tested = [point for point, held in rows.items() if held[0].p is not None]
    adjusted = holm([rows[point][0].p or 0.0 for point in tested])
    for point, p in zip(tested, adjusted, strict=True):
        rows[point] = [replace(rows[point][0], p_holm=p), *rows[point][1:]]
    return rows


def _means(rows: Sequence[Row], held: Sequence[PointScores], points: dict[str, PointScores]) -> list[Row]:
    """A contestant's macro and micro rows; the micro accuracy has the paired test over all its tasks."""
    out: list[Row] = []
    everyone = [other.point for other in points.values()]
    for metric in ("accuracy", "accuracy_answered", "coverage"):
        alike = [row for row in rows if row.metric == metric]
        out += [mean_over_tasks(alike), pooled(alike)]
    rivals = [(scores, baseline_of(scores.point, everyone)) for scores in held]
    pairs = [(scores, points[rival.id]) for scores, rival in rivals if rival is not None]
    if len(pairs) == len(held):
        labels = dict.fromkeys(rival.contestant for _, rival in pairs)
        out[1] = compared(pairs).fill(out[1], ", ".join(labels))
        if len(held) > out[1].tasks:  # a question asked in several variants must not count several times in a test
            out[1] = replace(out[1], p=None, discordant=None)
        out[0] = replace(out[0], against=out[1].against)
    return out


def _slices(run: RunScores, scores: PointScores, by: Sequence[str]) -> Iterator[Row]:
    for part, names in _parts(scores, by):
        yield from measure(scores.only(names), _plain(run, scores, part))
        yield from own_rows(scores.only(names), _plain(run, scores, part))
        yield from mark_rows(scores.only(names), _plain(run, scores, part))


def _parts(scores: PointScores, by: Sequence[str]) -> Iterator[tuple[str, set[str]]]:
    for name in by:
        values: dict[str, set[str]] = defaultdict(set)
        for sample, row in scores.samples.items():
            values[str(row.meta.get(name, ""))].add(sample)
        yield from ((f"{name}={value}", held) for value, held in sorted(values.items()))


def _floor_rows(run: RunScores, by: Sequence[str]) -> list[Row]:
    """Majority and chance, once for each task, for its slices, and over the tasks."""
    tasks = {scores.point.task_id: scores for scores in run.points}
    whole: dict[str, list[Row]] = defaultdict(list)
    own: list[Row] = []
    sliced: list[Row] = []
    for scores in tasks.values():
        found = floors(scores, _plain(run, scores))
        for row in found + chance_rows(scores, _plain(run, scores), found):
            (own if is_own(row) else whole[row.contestant]).append(row)
        for part, names in _parts(scores, by):
            sliced += floors(scores.only(names), _plain(run, scores, part))
    out: list[Row] = []
    for rows in whole.values():
        means = [mean_over_tasks(rows), pooled(rows)]
        if rows[0].right is None:  # a level, not a measurement: it has no interval
            means = [replace(mean, low=None, high=None) for mean in means]
        out += [*rows, *means]
    totals = [row for who in whole for row in total_rows(list(tasks.values()), _of(who, out + own))]
    return out + own + totals + sliced


def _of(contestant: str, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.contestant == contestant and row.name]


def console_table(shown: Table) -> RichTable:
    """The accuracy of every point with its interval, counts and comparison, for a terminal; a block per task."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    rows = without_repeats(ordered(shown.where(metric="accuracy").rows))
    single = len({row.task for row in rows if row.name}) == 1
    rows = [row for row in rows if row.name or not single]
    missing = any(row.missing for row in rows)
    counts = "r/w/u/f/m" if missing else "r/w/u/f"
    split, labels, readers = (_facts(rows, name) for name in ("split", "label_version", "reader"))
    words = "right, wrong, unreadable, failed" + (", missing" if missing else "")
    caption = (
        f"split: {split} | labels: {labels} | reader: {readers}\n"
        f"accuracy: right/n in percent with its 95 % interval; {counts}: {words}"
        + ("\none task: macro and micro are its accuracy" if single else "")
        + "".join(f"\n{line}" for run in shown.scores for line in _judge_lines(run))
    )
    out = RichTable(
        caption=Text(caption), caption_justify="left", header_style="bold", box=box.SIMPLE, padding=(0, 0, 0, 1)
    )
    out.add_column("task and contestant", overflow="fold")
    for name in ("accuracy", "n", counts, "delta", "p"):
        out.add_column(name, justify="right", no_wrap=True)
    blocks: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        blocks[f"{row.task} ({row.slice})" if row.slice else row.task].append(row)
    for title, held in blocks.items():
        out.add_row(Text(title, style="bold"))
        for row in held:
            out.add_row(*(Text(cell) for cell in _console_cells(row, missing)))
        out.add_section()
    return out


def _judge_lines(run: RunScores) -> Iterator[str]:
    """What the judge whose verdicts count found in how many replies."""
    entries = [entry for scores in run.points for entry in scores.all if entry.judge]
    none = sum(entry.answer is None for entry in entries)
    if entries:
        yield (
            f"judge {run.judged.counts}: read {len(entries) - none} replies, and found no answer in {none} more; its "
            "tokens are counted apart"
        )


def _console_cells(row: Row, missing: bool) -> list[str]:
    counts = (row.right, row.wrong, row.unreadable, row.failed, *((row.missing,) if missing else ()))
    value = percent(row.value) or ("key hidden" if row.hidden else "-")
    shown = f"{value} [{interval(row)}]" if row.low is not None else value
    cells = [f"  {row.contestant}", shown, str(row.n), "" if row.right is None else "/".join(map(str, counts))]
    return [*cells, percent(row.delta, sign=True), shown_p(row.p)]


def _facts(rows: Sequence[Row], name: str) -> str:
    found = dict.fromkeys(part for row in rows for part in str(getattr(row, name)).split("; ") if part)
    return ", ".join(found) or "-"


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value

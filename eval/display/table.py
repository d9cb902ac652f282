"""The long table of one or several runs, and how it is shown on a terminal, in a notebook and as
CSV."""

from __future__ import annotations

import csv
import html
import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from looktwice.eval.display.printable import cell, csv_cell
from looktwice.eval.display.score_tables import (
    LESS_PEOPLE,
    clusters_of,
    contestant_of,
    drop_means_of_one,
    drop_repeats,
    interval,
    notebook_table,
    place_of,
    say_no_value,
    sort_rows,
    to_people,
)
from looktwice.eval.display.subsets import keep_only
from looktwice.eval.display.text_tables import escaped, format_cost, format_p, percent
from looktwice.eval.records.records import PointRow, RunError, RunFolder
from looktwice.eval.scoring.labels import setting_of
from looktwice.eval.scoring.measurements import measurements
from looktwice.eval.scoring.notes import notes, unchanged
from looktwice.eval.scoring.row import COLUMNS, Row
from looktwice.eval.scoring.run_rows import headline_rows, run_rows
from looktwice.eval.scoring.score_run import score_run
from looktwice.eval.scoring.verdict import UNJUDGED, RunScores
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.counted import counted
from looktwice.pipelines.state import Stage

if TYPE_CHECKING:
    import pandas
    from rich.table import Table as RichTable

MOST_REASON = 160  # characters of a reason
SHOWN = 3  # arms that a line names


Found = TypeVar("Found")


def once(measure: Callable[[RunScores], Found]) -> Callable[[RunScores], Found]:
    """A measure of a run that several tables show: it is made once, and kept with the run's
    scores."""

    @wraps(measure)
    def kept(run: RunScores) -> Found:
        place, memory = f"_{measure.__module__}.{measure.__qualname__}", vars(run)
        if place not in memory:
            memory[place] = measure(run)
        value: Found = memory[place]
        return value

    return kept


@dataclass(frozen=True)
class Table:
    """Rows of the long table, in the order: tasks of a contestant, its macro and micro; then
    majority and chance.

    `scores` are the runs that the rows were computed from, `by` the fields that they are sliced by.
    A notebook and `print` show the accuracy of every point.
    """

    rows: tuple[Row, ...]
    scores: tuple[RunScores, ...] = field(default=(), repr=False)
    by: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, **fields: Any) -> Table:
        """The rows whose fields have these values, such as `metric="accuracy", slice=""`."""
        return replace(
            self,
            rows=tuple(r for r in self.rows if all(getattr(r, k) == v for k, v in fields.items())),
        )

    @cached_property
    def unchanged(self) -> tuple[str, ...]:
        """Which stages changed no request, or few: what explains a delta of zero."""
        return self._lines(unchanged)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What changed nothing, what delta compares with, and what was not asked or is left out,
        such as older arms."""
        return (*self.unchanged, *self._lines(notes))

    def _lines(self, say: Callable[[RunScores], Sequence[str]]) -> tuple[str, ...]:
        many = len(self.scores) > 1
        return tuple(
            f"{run.name}: {line}" if many else line for run in self.scores for line in say(run)
        )

    @property
    def csv(self) -> str:
        """The columns of report.csv, a header and a line per row; empty where a value does not
        apply.

        A text that begins as a formula does (`=`, `+`, `-`, `@`, a tab or a line break) stands
        behind a single quote.
        """
        return self._csv(changed=csv_cell)

    def to_pandas(self) -> pandas.DataFrame:
        """The columns of report.csv, and one for each setting that the study changes; NaN where
        nothing applies.

        `stages.mark.radius` holds the number that an arm has, changed or as the file says;
        `stages.think` the class of the stage, or "none". A mean over tasks has the settings that
        all its arms share.
        """
        import pandas

        places = dict.fromkeys(
            name for run in self.scores for arm in run.points for name in arm.point.changes
        )
        return pandas.read_csv(
            io.StringIO(self._csv(tuple(places))), keep_default_na=False, na_values=""
        )

    def _csv(
        self, places: Sequence[str] = (), changed: Callable[[Any], Any] = lambda value: value
    ) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow((*COLUMNS, *places))
        arms: dict[tuple[str, str], list[PointRow]] = defaultdict(list)
        for run in self.scores if places else ():
            for scores in run.points:
                for name in (scores.point.id, scores.contestant):
                    arms[run.name, name].append(scores.point)
        for row in self.rows:
            mine = arms.get((row.run, row.point or row.contestant), [])
            settings = ({setting_of(point, place) for point in mine} for place in places)
            same = (levels.pop() if len(levels) == 1 else None for levels in settings)
            writer.writerow(
                [*(changed(_cell(getattr(row, name))) for name in COLUMNS), *map(_cell, same)]
            )
        return out.getvalue()

    def __repr__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=140)
        console.print(console_table(self))
        return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]

    def _repr_html_(self) -> str:
        return notebook_table(self.rows).html + "".join(
            f"<p>{html.escape(line)}</p>" for line in self.notes
        )

    def _repr_markdown_(self) -> str:
        return "\n\n".join((notebook_table(self.rows).markdown, *map(escaped, self.notes)))


def score_table(
    runs: str | Path | Sequence[str | Path],
    reader: Stage | None = None,
    by: Sequence[str] = (),
    judge: str = "",
    *,
    plan: Plan | None = None,
    plugins: Sequence[str] = (),
    all_arms: bool = False,
    only: Path | None = None,
) -> Table:
    """Score runs and put them into one table; `by` names meta fields or measurements to slice by.
    Raises RunError.

    `judge` names the judge whose judgements are used: "" takes the one that read most, "none" uses
    no judge. `plan` is what the runs were just made from, `plugins` are loaded modules whose
    classes runs may name. `all_arms` adds the arms of earlier plans in the same folder. `only` is a
    file with the samples that are left, as `audit` writes it.
    """
    paths = [runs] if isinstance(runs, str | Path) else list(runs)
    folders = [RunFolder(Path(path)) for path in paths]
    scored = [
        score_run(f, reader, judge, plan=plan, plugins=plugins, all_arms=all_arms) for f in folders
    ]
    return make_table([keep_only(run, only) for run in scored] if only else scored, by)


def make_table(runs: Sequence[RunScores], by: Sequence[str] = ()) -> Table:
    """The table of scored runs; fields in `by` joined by a comma are crossed. Raises RunError for
    one no sample has."""
    # to look at every sample takes a while
    arms = [scores for run in runs for scores in run.points] if by else []
    fields = {name for scores in arms for row in scores.samples.values() for name in row.meta}
    fields |= {name for scores in arms for name in measurements(scores)}
    for name in (part for names in by for part in names.split(",")):
        if name not in fields:
            raise RunError(
                f"--by {name}: no sample has this field; there are"
                f" {', '.join(sorted(fields)) or 'none'}"
            )
    return Table(tuple(row for run in runs for row in run_rows(run, by)), tuple(runs), tuple(by))


def console_table(shown: Table) -> RichTable:
    """The accuracy of every point with its interval, counts and comparison, for a terminal; a block
    per task.

    Above it stand the metrics by which a benchmark itself is quoted, its totals above all.
    """
    from rich import box
    from rich.table import Table as RichTable

    every = sort_rows(shown.where(metric="accuracy").rows)
    rows = drop_repeats(drop_means_of_one(every))
    own = drop_repeats(headline_rows(shown.scores, shown.rows))
    missing = any(row.missing for row in rows)
    some_failed = any(row.failed and not row.failure for row in rows)
    answered = {
        place_of(row): percent(row.value) for row in shown.where(metric="accuracy_answered")
    }
    counts = "r/w/u/f/m" if missing else "r/w/u/f"
    caption = _caption(shown, own, rows, counts, len(rows) < len(drop_repeats(every)))
    below = cell(caption)
    below.highlight_words(shown.unchanged, "bold not dim not italic yellow")
    out = RichTable(
        caption=below,
        caption_justify="left",
        header_style="bold",
        box=box.SIMPLE,
        padding=(0, 0, 0, 1),
    )
    out.add_column("task and contestant", overflow="fold")
    people = (LESS_PEOPLE,) if any(map(to_people, rows)) else ()
    for name in ("accuracy", *(["answered"] * some_failed), "n", counts, "delta", "p", *people):
        out.add_column(name, justify="right", no_wrap=True)
    places = list(dict.fromkeys((row.task, row.slice) for row in rows))
    # a total has none, and is the first
    order = {place: number for number, place in enumerate(places, 1)}
    blocks: dict[str, list[Row]] = defaultdict(list)
    for row in sorted([*own, *rows], key=lambda row: order.get((row.task, row.slice), 0)):
        blocks[_block(row)].append(row)
    for title, block in blocks.items():
        out.add_row(cell(title, "bold"))
        for row in block:
            name, value, *cells = _console_cells(row, missing)
            beside = [
                answered.get(place_of(row), "") if row.failed and row.metric == "accuracy" else ""
            ]
            more = [to_people(row)] if people else []
            out.add_row(*map(cell, (name, value, *(beside * some_failed), *cells, *more)))
        out.add_section()
    return out


def _caption(
    shown: Table, own: Sequence[Row], rows: Sequence[Row], counts: str, single: bool
) -> str:
    """What stands below the console's table; `single` where means of one task were dropped."""
    split, labels, readers = (_facts(rows, name) for name in ("split", "label_version", "reader"))
    words = "right, wrong, unreadable, failed" + ", missing" * counts.endswith("m")
    accuracy = f"accuracy: mean score in percent with its 95 % interval; {counts}: {words}"
    if any(row.failed and not row.failure for row in rows):
        accuracy += "; answered: accuracy of what did not fail and was readable"
    lines = [
        f"split: {split} | labels: {labels}, as recorded | reader: {readers}",
        _named(own) + accuracy,
    ]
    if any(map(clusters_of, [*own, *rows])):
        lines.append(
            "n (in so many clusters): those that share a picture or a group are one; intervals"
            " are over clusters"
        )
    if single:
        lines.append(
            "macro and micro of a contestant with one task are not shown: they are its accuracy"
        )
    lines += [*shown.notes, *_failed_lines(rows), *_cost_lines(shown)]
    for run in shown.scores:
        lines += _judge_lines(run)
    return "\n".join(lines)


def _block(row: Row) -> str:
    """The title of the rows of one task and slice, and of one metric where that is the benchmark's
    own."""
    task = f"{row.task} ({row.slice})" if row.slice else row.task
    return task if row.metric == "accuracy" else f"{task}: {row.metric}"


def _named(own: Sequence[Row]) -> str:
    units = {row.metric: row.unit for row in own if row.point or not row.unit}
    names = [
        f"{name} (n: {unit}s)" if unit not in ("", "sample") else name
        for name, unit in units.items()
    ]
    return f"{', '.join(names)}: the benchmark's own, shown first\n" if own else ""


def _cost_lines(shown: Table) -> Iterator[str]:
    """Tokens and list price of each contestant whose model has prices."""
    priced = [
        row
        for row in shown.where(metric="accuracy", task="micro", slice="")
        if row.cost is not None
    ]
    for row in priced:
        cost = format_cost(row.cost or 0.0)
        yield (
            f"{row.contestant}: {row.tokens_in:,} tokens in, {row.tokens_out:,} out, cost {cost}"
            " (list price)"
        )
    if len(priced) > 1:
        yield (
            "cost: what each would cost alone; a reply that several share, or that was cached, is"
            " paid for once"
        )


def _judge_lines(run: RunScores) -> Iterator[str]:
    """Which judge counts, in how many replies it found an answer, and what waits for one."""
    yield from run.judged.which_counts
    for scores in run.points:
        if waiting := sum(entry.reason == UNJUDGED for entry in scores.all):
            replies = counted(waiting, "reply", "replies")
            yield (
                f"{scores.task}: {replies} without a score until a judge gives one: looktwice judge"
                " RUN --model NAME"
            )
    entries = [entry for scores in run.points for entry in scores.all if entry.judge]
    none = sum(entry.answer is None for entry in entries)
    if entries:
        yield (
            f"judge {run.judged.counts}: read {counted(len(entries) - none, 'reply', 'replies')},"
            f" and found no answer in {none} more; its tokens are counted separately"
        )


def _failed_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Why those failed of whom every answer did, a line for each reason."""
    names: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.failure:
            names[row.failure[:MOST_REASON]].append(f"{contestant_of(row)} on {row.task}")
    for reason, failed in names.items():
        more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        yield f"all failed: {', '.join(failed[:SHOWN])}{more}: {reason}"


def _console_cells(row: Row, missing: bool) -> list[str]:
    counts = (
        row.right,
        row.wrong,
        row.unreadable,
        row.failed,
        *((row.missing,) if missing else ()),
    )
    value = percent(row.value) or say_no_value(row).partition("\n")[0] or "-"
    shown = f"{value} [{interval(row)}]" if row.low is not None else value
    clusters = f" ({clusters_of(row)})" if clusters_of(row) else ""
    verdicts = "" if row.right is None else "/".join(map(str, counts))
    difference = percent(row.delta, sign=True), format_p(row.p)
    return [f"  {contestant_of(row)}", shown, f"{row.n}{clusters}", verdicts, *difference]


def _facts(rows: Sequence[Row], name: str) -> str:
    values = dict.fromkeys(
        part for row in rows for part in str(getattr(row, name)).split("; ") if part
    )
    return ", ".join(values) or "-"


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value

"""The printed tables of a report as grids of text, which Markdown, HTML and notebooks show
alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from looktwice.eval.display.printable import cell, printable
from looktwice.eval.scoring.benchmark_rows import is_benchmark_metric
from looktwice.eval.scoring.row import METRICS, Row
from looktwice.eval.scoring.verdict import REASONS, RunScores, Verdict
from looktwice.eval.statistics.intervals import Estimate

if TYPE_CHECKING:
    from rich.table import Table as RichTable


SIGNS = re.compile(r"[\\|*`\[\]!]|~(?=~)|(?<!\w)_|_(?!\w)|\A(?:[-+#](?=\s)|\d+(?=[.)]\s))")
"""What means something in Markdown: anywhere, or at the beginning of a line."""

LESS_PEOPLE = "less\npeople"
"""The header of a column with `to_people`."""

_TERMINAL, _NARROW = 78, 12  # columns: of a terminal, and at least of a text

ADDRESS = re.compile(r"\b(https?|ftp|www)([:.])", re.I)


@dataclass(frozen=True)
class TextTable:
    """A table of strings: the first `text_columns` columns hold text, the others numbers. A cell
    may have two lines."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1

    @property
    def markdown(self) -> str:
        """A GitHub table; characters with a meaning in Markdown or HTML are escaped."""
        rule = ["---" if i < self.text_columns else "---:" for i in range(len(self.header))]
        lines = (
            [escaped(cell) for cell in self.header],
            rule,
            *([escaped(cell) for cell in row] for row in self.rows),
        )
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    @property
    def html(self) -> str:
        """A plain HTML table."""
        head = "".join(_cell(f"th{self._number(i)}", cell) for i, cell in enumerate(self.header))
        body = "".join(f"<tr>{self._html_cells(row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def console(self, title: str, blocks: int = 0, caption: str = "") -> RichTable:
        """A table for a terminal; the first `blocks` columns become headings above their lines."""
        from rich import box
        from rich.table import Table as RichTable

        out = RichTable(
            title=cell(title, "bold"), title_justify="left", box=box.SIMPLE, padding=(0, 0, 0, 1)
        )
        out.caption, out.caption_justify = cell(caption) if caption else None, "left"
        lines: list[tuple[str, ...]] = []
        for above, row in zip(((), *self.rows), self.rows, strict=False):
            if row[:blocks] != above[:blocks]:
                lines.append((", ".join(row[:blocks]),))
            lines.append(
                (("  " if blocks else "") + row[blocks], *map(_one_line, row[blocks + 1 :]))
            )
        texts, wide = self.text_columns - blocks, 0
        for number, column in enumerate(zip_longest(self.header[blocks:], *lines, fillvalue="")):
            width = 2 + max(len(line) for text in column for line in text.split("\n"))
            wide += min(width, _NARROW) if number < texts else width
        for number, name in enumerate(self.header[blocks:]):
            whole = (
                number >= texts and wide <= _TERMINAL
            )  # in a table beyond that, rich would cut what is not wrapped
            out.add_column(
                cell(name),
                justify="left" if number < texts else "right",
                overflow="fold",
                no_wrap=whole,
            )
        for line in lines:
            out.add_row(*(cell(text, "bold" if len(line) == 1 else "") for text in line))
        return out

    def without_empty(self) -> TextTable:
        """The table without number columns that are empty."""
        kept = [
            i
            for i in range(len(self.header))
            if i < self.text_columns or any(row[i] for row in self.rows)
        ]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return TextTable(tuple(self.header[i] for i in kept), rows, self.text_columns)

    def without_repeats(self, column: int) -> TextTable:
        """The table with a text column's cell only where it differs from the one above."""
        above = ("", *(row[column] for row in self.rows))
        rows = tuple(
            (*row[:column], "" if row[column] == before else row[column], *row[column + 1 :])
            for before, row in zip(above, self.rows, strict=False)
        )
        return TextTable(self.header, rows, self.text_columns)

    def without_same(self, column: int) -> TextTable:
        """The table without a text column that says the same in every row."""
        return self if len({row[column] for row in self.rows}) > 1 else self.without(column)

    def without(self, column: int) -> TextTable:
        """The table without one of its text columns."""
        rows = tuple((*row[:column], *row[column + 1 :]) for row in self.rows)
        return TextTable(
            (*self.header[:column], *self.header[column + 1 :]), rows, self.text_columns - 1
        )

    def _html_cells(self, row: Sequence[str]) -> str:
        tags = ("th scope=row" if i == 0 else f"td{self._number(i)}" for i in range(len(row)))
        return "".join(_cell(tag, cell) for tag, cell in zip(tags, row, strict=True))

    def _number(self, column: int) -> str:
        return "" if column < self.text_columns else " class=n"


def overview_table(rows: Sequence[Row], own: Sequence[Row] = ()) -> TextTable:
    """Contestants by tasks: accuracy in percent with its interval below it, macro and micro first.

    Before these stand the metrics by which a benchmark itself is quoted, whose rows are `own`.
    """
    answered = {
        place_of(row): percent(row.value) for row in rows if row.metric == "accuracy_answered"
    }
    rows = [row for row in rows if row.metric == "accuracy" and not row.slice]
    tasks = list(dict.fromkeys(row.task for row in sort_rows(rows)))
    tasks = [*tasks[-2:], *tasks[:-2]]
    cells = {(row.run, row.contestant, row.task): row for row in rows}
    own = [row for row in own if not row.slice]
    first = list(dict.fromkeys((row.task, row.metric) for row in own))
    quoted = {(row.run, row.contestant, (row.task, row.metric)): row for row in own}
    many = len({row.run for row in rows}) > 1
    whole = len({row.task_name for row in rows} - {""})
    lines = []
    for run, contestant in dict.fromkeys((row.run, row.contestant) for row in rows):
        task_rows = [cells.get((run, contestant, task)) for task in tasks]
        part = len({row.task_name for row in task_rows if row is not None} - {""})
        name = f"{contestant} ({run})" if many else contestant
        name += f"\n{part} of {whole} tasks" if part < whole else ""
        values = [
            _overview_cell(row, answered.get(place_of(row), "") if row else "") for row in task_rows
        ]
        before = [quoted.get((run, contestant, column)) for column in first]
        lines.append((name, *(_overview_cell(row) if row else "" for row in before), *values))
    titles = [f"{task}\n{metric}" for task, metric in first]
    return TextTable(
        ("contestant", *titles, *(task.replace(" [", "\n[", 1) for task in tasks)), lines
    )


def place_of(row: Row) -> tuple[str, ...]:
    """What the rows of several metrics of one arm, or one slice of it, have in common."""
    return row.run, row.contestant, row.task, row.slice


def task_table(rows: Sequence[Row], full: bool = False) -> TextTable:
    """The rows of one task (all its metrics): a line per arm, with counts and the comparison to the
    baseline.

    `full` is for the rows of several tasks: it shows the task's name and not only its variant.
    """
    others = [name for name in METRICS if name != "accuracy"]
    header = (
        "contestant",
        "task" if full else "variant",
        "accuracy %",
        "n",
        "clusters",
        "right",
        "wrong",
        "unreadable",
        "failed",
        "missing",
        "key hidden",
        "groups",
        *(_title(name) for name in others),
        "delta",
        "p",
        LESS_PEOPLE,
    )
    by_name = {(r.run, r.contestant, r.task, r.slice, r.metric): r for r in rows}
    many = len({row.run for row in rows}) > 1
    lines = []
    for row in drop_repeats([row for row in rows if row.metric == "accuracy"]):
        beside = [
            by_name.get((row.run, row.contestant, row.task, row.slice, name)) for name in others
        ]
        who = contestant_of(row)
        names = f"{who} ({row.run})" if many else who, _variant(row, full)
        lines.append((*names, *_numbers(row, beside)))
    several = len({line[1] for line in lines}) > 1
    grid = TextTable(header, lines, text_columns=2).without_empty()
    return grid if several or full else grid.without(1)


def notebook_table(rows: Sequence[Row]) -> TextTable:
    """All rows in blocks of a task, which the block's first line names; of a single task without
    its means."""
    grid = task_table(sort_rows(drop_means_of_one(rows)), full=True)
    turned = tuple((row[1], row[0], *row[2:]) for row in grid.rows)
    return TextTable(("task", *grid.header[:1], *grid.header[2:]), turned, 2).without_repeats(0)


def drop_means_of_one(rows: Sequence[Row]) -> list[Row]:
    """The rows without the macro and micro of a contestant that was given one task, whose accuracy
    they are."""
    single = len({row.task for row in rows if row.task_name}) == 1
    return [row for row in rows if row.task_name or not (single or row.n_tasks == 1)]


def contestant_of(row: Row) -> str:
    """The contestant; for a mean that is not over all tasks of the run, over how many: "plain (2 of
    3 tasks)"."""
    part = row.task in ("macro", "micro") and row.n_tasks < row.of_tasks
    return f"{row.contestant} ({row.n_tasks} of {row.of_tasks} tasks)" if part else row.contestant


def benchmark_metric_table(rows: Sequence[Row]) -> TextTable:
    """The benchmarks' own metrics: a line per task, metric and contestant, with the unit of each
    metric."""
    header = (
        "task",
        "metric",
        "slice",
        "contestant",
        "value %",
        "n",
        "unit",
        "clusters",
        "levels",
        "delta",
        "p",
        LESS_PEOPLE,
    )
    many = len({row.run for row in rows}) > 1
    lines = []
    for row in (row for row in rows if is_benchmark_metric(row)):
        name = f"{row.contestant} ({row.run})" if many else row.contestant
        value = percent(row.value, 2) + (f"\n{interval(row)}" if row.low is not None else "")
        levels = count_cell(row.n_groups) if row.unit == "sample" else ""
        counts = (
            str(row.n),
            row.unit,
            clusters_of(row),
            levels,
            delta_cell(row),
            format_p(row.p),
            to_people(row, 2),
        )
        lines.append((row.task, row.metric, row.slice, name, value, *counts))
    order = {
        key: number
        for number, key in enumerate(dict.fromkeys((line[0], line[1]) for line in lines))
    }
    lines.sort(key=lambda line: order[line[0], line[1]])
    whole = TextTable(header, lines, text_columns=4).without_empty()
    return whole if any(line[2] for line in lines) else whole.without(2)


def reason_table(runs: Sequence[RunScores]) -> TextTable:
    """Why answers are unreadable: a line per arm that has unreadable answers."""
    lines = []
    for run in runs:
        for scores in run.points:
            counts = Counter(s.reason for s in scores.all if s.verdict is Verdict.UNREADABLE)
            if counts:
                cells = [str(counts[kind]) if counts[kind] else "" for kind in REASONS]
                lines.append((scores.contestant, scores.task, *cells))
    return TextTable(("contestant", "task", *REASONS), lines, text_columns=2).without_empty()


def failure_table(runs: Sequence[RunScores], limit: int = 12) -> TextTable:
    """Errors: the first line of each with its count and an example, most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    example: dict[tuple[str, str, str], str] = {}
    for run in runs:
        for scores in run.points:
            for scored in (s for s in scores.all if s.verdict is Verdict.FAILED):
                first = (scored.detail.strip().splitlines() or ["no message"])[0][:200]
                key = (scores.contestant, scores.task, first)
                counts[key] += 1
                example.setdefault(key, scored.sample)
    lines = tuple((*key, example[key], str(count)) for key, count in counts.most_common(limit))
    return TextTable(
        ("contestant", "task", "error", "for example", "samples"), lines, text_columns=4
    )


def token_table(rows: Sequence[Row]) -> TextTable:
    """Tokens of every contestant, as the server counted them, and their list price; cached replies
    are included."""
    rows = [
        r
        for r in rows
        if r.metric == "accuracy" and r.task == "micro" and not r.slice and r.tokens_in
    ]
    lines = tuple(
        (row.contestant, f"{row.tokens_in:,}", f"{row.tokens_out:,}", format_cost(row.cost))
        for row in rows
    )
    return TextTable(
        ("contestant", "tokens in", "tokens out", "cost\n(list price)"), lines
    ).without_empty()


def sort_rows(rows: Sequence[Row]) -> list[Row]:
    """The tasks in their order, the variants of each together, macro and micro at the end."""
    names = {
        name: number for number, name in enumerate(dict.fromkeys(row.task_name for row in rows))
    }
    tasks = {task: number for number, task in enumerate(dict.fromkeys(row.task for row in rows))}
    last = {"macro": 1, "micro": 2}
    return sorted(
        rows,
        key=lambda row: (
            0 if row.task_name else last[row.task],
            names[row.task_name],
            tasks[row.task],
        ),
    )


def drop_repeats(rows: Sequence[Row]) -> list[Row]:
    """Keep majority and chance only once for each task: variants of one task mostly have the same
    keys."""
    seen: set[tuple[Any, ...]] = set()
    kept = []
    for row in rows:
        identity = (row.run, row.contestant, row.task_name or row.task, row.slice, row.value, row.n)
        if row.point or identity not in seen:
            kept.append(row)
        seen.add(identity)
    return kept


def percent(value: float | None, digits: int = 1, sign: bool = False) -> str:
    """A share as a percentage, empty for None."""
    return "" if value is None else f"{100 * value:{'+' if sign else ''}.{digits}f}"


def to_people(row: Row, digits: int = 1) -> str:
    """How many points the value lies above or below what people reach, as published; empty where
    nothing is."""
    return (
        ""
        if row.people is None or row.value is None
        else percent(row.value - row.people, digits, sign=True)
    )


def with_interval(value: float, low: float | None, high: float | None, sign: bool = False) -> str:
    """A share in percent with its interval below it, where it has one."""
    wide = (
        ""
        if low is None or high is None
        else f"\n{percent(low, sign=sign)} to {percent(high, sign=sign)}"
    )
    return percent(value, sign=sign) + wide


def estimate_cell(estimate: Estimate, sign: bool = False) -> str:
    """An estimate in percent with its interval below it."""
    return with_interval(estimate.value, estimate.low, estimate.high, sign)


def share_cell(share: Estimate) -> str:
    """A share in percent with its limits below it, as those of accuracies are written."""
    return f"{percent(share.value)}\n{percent(share.low)}–{percent(share.high)}"


def delta_cell(row: Row) -> str:
    """The difference of a row to its baseline with its interval, where it has one."""
    return (
        ""
        if row.delta is None
        else with_interval(row.delta, row.delta_low, row.delta_high, sign=True)
    )


def format_cost(cost: float | None) -> str:
    """Money in the currency of the configured prices, small sums to three digits."""
    return "" if cost is None else f"{cost:,.2f}" if cost >= 1 else f"{cost:.3g}"


def format_p(p: float | None) -> str:
    """A p-value with three or four decimals, small ones as "<0.0001"."""
    return "" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def clusters_of(row: Row) -> str:
    """In how many clusters the units behind the value lie, where these are fewer."""
    return "" if row.clusters is None or row.clusters == row.n else str(row.clusters)


def interval(row: Row) -> str:
    """The interval in percent."""
    return "" if row.low is None or row.high is None else f"{percent(row.low)}–{percent(row.high)}"


def _one_line(cell: str) -> str:
    first, _, second = cell.partition("\n")
    return f"{first} [{second}]" if second else first


def _cell(tag: str, text: str) -> str:
    first, _, second = text.partition("\n")
    return (
        f"<{tag}>{escape(first)}{f' <small>{escape(second)}</small>' if second else ''}</{tag[:2]}>"
    )


def _variant(row: Row, full: bool) -> str:
    short = (
        row.task if full or not row.task_name else row.task.removeprefix(row.task_name).strip(" []")
    )
    return ", ".join(part for part in (short, row.slice) if part)


def _title(metric: str) -> str:
    """The header of a metric's column: "accuracy_answered" becomes "accuracy", and "answered %"
    below it."""
    first, _, rest = metric.partition("_")
    return f"{first}\n{rest.replace('_', ' ')} %" if rest else f"{first}\n%"


def _numbers(row: Row, beside: Sequence[Row | None]) -> tuple[str, ...]:
    counts = [count_cell(count) for count in (row.right, row.wrong, row.unreadable, row.failed)]
    rest = [count_cell(number or None) for number in (row.missing, row.hidden, row.n_groups)]
    values = [percent(other.value) if other else "" for other in beside]
    value = percent(row.value, 2) or say_no_value(row)
    value += f"\n{interval(row)}" if row.low is not None else ""
    tested = delta_cell(row), format_p(row.p), to_people(row)
    return value, str(row.n), clusters_of(row), *counts, *rest, *values, *tested


def _overview_cell(row: Row | None, answered: str = "") -> str:
    if row is None:
        return ""
    if row.value is None:
        return say_no_value(row) or ("not asked" if row.missing else "no samples")
    gap = to_people(row)
    failed = (
        f"{row.failed} of {row.n} failed; {answered} of what was answered" if row.failed else ""
    )
    below = [interval(row), failed, gap and f"less people {gap}"]
    return "\n".join((percent(row.value), "; ".join(filter(None, below)))).rstrip()


def say_no_value(row: Row) -> str:
    """Why a row has no value: every answer failed (below it the commonest reason), keys are hidden,
    no judge read."""
    if row.failure or (row.failed and not (row.point or row.hidden)):
        return f"failed\n{row.failure}".strip()
    return "key hidden" if row.hidden else "not judged" if row.unreadable else ""


def count_cell(number: int | None) -> str:
    """A count, empty for None."""
    return "" if number is None else str(number)


def escaped(cell: str) -> str:
    """A text for a line or cell of Markdown: characters with a meaning in Markdown or HTML are
    escaped.

    An address becomes no link either, so that nothing in a report leads elsewhere.
    """
    plain = SIGNS.sub(r"\\\g<0>", escape(printable(cell), quote=False))
    plain = ADDRESS.sub(r"\1<!-- -->\2", plain)
    return "<br>".join(plain.split("\n"))

"""Tables for a terminal of any width, and the table of scored runs in that form."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import chain, zip_longest
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from looktwice.eval.display.printable import cell, printable
from looktwice.eval.display.score_tables import (
    VERSUS_PEOPLE_HEADER,
    clusters_of,
    compare_to_people,
    drop_means_of_one,
    drop_repeats,
    explain_no_value,
    format_contestant,
    format_interval,
    get_row_place,
    sort_rows,
)
from looktwice.eval.display.table import Table, judge_lines
from looktwice.eval.display.text_tables import (
    Column,
    Columns,
    TextTable,
    format_cost,
    format_p,
    percent,
    points,
    table,
    text,
)
from looktwice.eval.scoring.row import Row, Rows
from looktwice.eval.scoring.run_rows import headline_rows
from looktwice.pipelines.counted import format_list

WORD_ENDS = r"\n|(?<=\S) "  # not within an indent

MIN_TEXT_WIDTH, MIN_NUMBERS_WIDTH = 12, 36
"""The least widths of a text, and of the numbers beside texts, in characters."""
Groups = list[tuple[str, list[list[str]]]]
"""The rows below each heading."""


@dataclass(frozen=True)
class ConsoleTable:
    """A table for a terminal of any width: if the columns do not fit side by side, they are split
    into blocks below one another, each with the text columns.

    The first `blocks` columns become headings above their lines. Long texts are wrapped between
    words, numbers never.
    """

    table: TextTable
    title: str
    blocks: int
    caption: str
    bold: Sequence[str]

    def __str__(self) -> str:
        # in a notebook, a console would display the text instead of writing it
        console = Console(file=StringIO(), width=140, force_jupyter=False)
        console.print(self)
        return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines; called by rich."""
        room, texts = options.max_width, self.table.text_columns - self.blocks
        header, groups = self.table.header[self.blocks :], self._groups(" [")
        widths = _widths(header, groups)
        if sum(widths) + 2 > room:  # keep the second line of a cell below its number
            groups = self._groups("\n[")
            widths = _widths(header, groups)
        if sum(widths) + 2 > room:  # fold texts
            spare = room - 2 - sum(widths[texts:])
            most = max(
                MIN_TEXT_WIDTH,
                (spare if spare >= MIN_TEXT_WIDTH * texts else room - MIN_NUMBERS_WIDTH)
                // max(texts, 1),
            )
            shorter = [
                min(width, most) if number < texts or _has_words(groups, number) else width
                for number, width in enumerate(widths)
            ]
            whole = [*map(max, shorter, _widths(header, groups, WORD_ENDS))]
            fits = sum(whole[:texts]) + max(whole[texts:], default=0) + 2 <= room
            widths = whole if fits else shorter  # break words only if there is no room for them
        if self.title:
            yield cell(self.title, "bold")
        for columns in _split_columns(widths, texts, room):
            wide = sum(widths[number] for number in columns)
            yield from (Text(""), *_print_row(header, columns, widths, texts, "bold"))
            yield Text(f" {'─' * wide}")
            for heading, rows in groups:
                if heading:
                    folded = wrap(printable(heading), room - 4, break_on_hyphens=False)
                    yield from (Text(f"  {line}", "bold") for line in folded)
                for row in rows:
                    yield from _print_row(row, columns, widths, texts)
            yield Text("")
        for line in self.caption.splitlines():
            style = "bold yellow" if line in self.bold else ""
            yield from (Text(folded, style) for folded in wrap(printable(line), room))

    def _groups(self, before: str) -> Groups:
        """Return the rows below each heading; the second line of a cell is put in brackets after
        `before`."""
        groups = Groups()
        for row in self.table.rows:
            heading, name, *cells = ", ".join(filter(None, row[: self.blocks])), *row[self.blocks :]
            if not groups or groups[-1][0] != heading:
                groups.append((heading, []))
            texts = [before.join(words.split("\n", 1)) + "]" * ("\n" in words) for words in cells]
            groups[-1][1].append([f"  {name}" if self.blocks else name, *texts])
        return groups


def _widths(header: Sequence[str], groups: Groups, ends: str = "\n") -> list[int]:
    """Return the widths of the columns plus two spaces; lines end at the pattern `ends`."""
    rows = (row for _, rows in groups for row in rows)
    return [
        2 + max(map(cell_len, re.split(ends, "\n".join(column))))
        for column in zip_longest(header, *rows, fillvalue="")
    ]


def _has_words(groups: Groups, number: int) -> bool:
    return any(row[number][:1].isalpha() for _, rows in groups for row in rows)


def _split_columns(widths: Sequence[int], texts: int, room: int) -> Iterator[Sequence[int]]:
    """Yield the column numbers of each block: the text columns, and as many others as fit."""
    first = list(range(texts))
    columns = first
    for number in range(texts, len(widths)):
        if len(columns) > len(first) and sum(widths[i] for i in (*columns, number)) + 2 > room:
            yield columns
            columns = first
        columns = [*columns, number]
    yield columns


def _print_row(
    row: Sequence[str], columns: Sequence[int], widths: Sequence[int], texts: int, style: str = ""
) -> Iterator[Text]:
    """Yield the lines of a row; the cells of a header (with `style`) are aligned at the bottom."""
    cells = []
    for number in columns:
        words = printable(row[number])
        indent, room = words[: len(words) - len(words.lstrip())], widths[number] - 2
        hyphens = max(map(cell_len, words.split()), default=0) > room
        folded = (
            wrap(part, room, subsequent_indent=indent, break_on_hyphens=hyphens)
            for part in words.split("\n")
        )
        cells.append([line for lines in folded for line in lines])
    high = max(map(len, cells))
    for height in range(high):
        line = " "
        for number, lines in zip(columns, cells, strict=True):
            place = height - (high - len(lines) if style else 0)
            words = lines[place] if 0 <= place < len(lines) else ""
            pad = " " * (widths[number] - 2 - cell_len(words))
            line += f" {words}{pad} " if number < texts else f" {pad}{words} "
        yield Text(line.rstrip(), style)


MAX_REASON_LENGTH = 160  # characters of a reason

MAX_NAMED_ARMS = 3  # arms that a line names


def console_table(shown: Table) -> ConsoleTable:
    """Return the accuracy of every point with its interval, counts and comparison, for a terminal;
    a block per task.

    Above it come the metrics by which a benchmark is quoted, its totals first.
    """
    every = drop_repeats(sort_rows(shown.where(metric="accuracy").rows))
    rows = drop_means_of_one(every)
    own = drop_repeats(headline_rows(shown.scores, shown.rows))
    counts = ["right", "wrong", "unreadable", "failed"] + ["missing"] * any(r.missing for r in rows)
    answered = {get_row_place(row): row.value for row in shown.where(metric="accuracy_answered")}

    def accuracy(row: Row) -> str:
        value = percent(row.value) or explain_no_value(row).partition("\n")[0] or "-"
        return f"{value}\n{format_interval(row)}".strip()

    def without_failed(row: Row) -> float | None:
        return answered.get(get_row_place(row)) if row.failed and row.metric == "accuracy" else None

    def verdicts(row: Row) -> str | None:
        return None if row.right is None else "/".join(str(getattr(row, name)) for name in counts)

    columns: Columns[Row] = (
        Column("block", _block, text),
        Column("task and contestant", format_contestant, text),
        Column("accuracy", accuracy),
        Column("answered", without_failed, percent),
        Column("n", lambda row: f"{row.n} ({clusters_of(row)})".removesuffix(" ()")),
        Column("/".join(name[0] for name in counts), verdicts),
        Column("delta", "delta", points),
        Column("p", "p", format_p),
        Column(VERSUS_PEOPLE_HEADER, compare_to_people),
    )
    places = list(dict.fromkeys((row.task, row.slice) for row in rows))
    # a total belongs to no single task and comes first
    order = {place: number for number, place in enumerate(places, 1)}
    blocks = defaultdict[str, list[Row]](list)
    for row in sorted([*own, *rows], key=lambda row: order.get((row.task, row.slice), 0)):
        blocks[_block(row)].append(row)
    caption = _caption(own, rows, counts)
    if len(rows) < len(every):
        single = (
            "macro and micro of a contestant with one task are not shown: they equal its accuracy"
        )
        caption.append(single)
    caption += [*shown.notes, *_note_lines(shown, rows)]
    for run in shown.scores:
        caption += judge_lines(run)
    grid = table(columns, chain(*blocks.values())).without_empty("delta", "p")
    return grid.console("", 1, "\n".join(caption), shown.unchanged)


def _block(row: Row) -> str:
    """Return the title of the rows of one task and slice, with the metric if it is the benchmark's
    own."""
    task = f"{row.task} ({row.slice})" if row.slice else row.task
    return task if row.metric == "accuracy" else f"{task}: {row.metric}"


def _caption(own: Rows, rows: Rows, counts: Sequence[str]) -> list[str]:
    """Return explanations of the numbers in the console's table."""
    facts = []
    for name in ("split", "label_version", "reader"):
        values = chain(*(str(getattr(row, name)).split("; ") for row in rows))
        facts.append(", ".join(filter(None, dict.fromkeys(values))) or "-")
    units = {row.metric: row.unit for row in own if row.point or not row.unit}
    names = [
        name if unit in ("", "sample") else f"{name} (n: {unit}s)" for name, unit in units.items()
    ]
    accuracy = (
        "accuracy: mean score in percent with its 95 % interval;"
        f" {'/'.join(name[0] for name in counts)}: {', '.join(counts)}"
    )
    if any(row.failed and not row.failure for row in rows):
        accuracy += "; answered: accuracy over the answers that neither failed nor were unreadable"
    lines = ["split: {} | labels: {}, as recorded | reader: {}".format(*facts)]
    if own:
        lines.append(f"{', '.join(names)}: the benchmark's own metrics, shown first")
    lines.append(accuracy)
    if any(map(clusters_of, [*own, *rows])):
        lines.append(
            "n (number of clusters): samples that share a picture or a group form one cluster;"
            " intervals are over clusters"
        )
    return lines


def _note_lines(shown: Table, rows: Rows) -> Iterator[str]:
    """Yield a line for each reason for which every answer of a contestant failed, and the tokens
    and list price of each contestant whose model has prices."""
    names = defaultdict[str, list[str]](list)
    for row in rows:
        if row.failure:
            names[row.failure[:MAX_REASON_LENGTH]].append(f"{format_contestant(row)} on {row.task}")
    for reason, failed in names.items():
        yield f"all failed: {format_list(failed, MAX_NAMED_ARMS)}: {reason}"
    totals = shown.where(metric="accuracy", task="micro", slice="")
    priced = [row for row in totals if row.cost is not None]
    for row in priced:
        yield (
            f"{row.contestant}: {row.tokens_in:,} tokens in, {row.tokens_out:,} out, cost"
            f" {format_cost(row.cost)} (list price)"
        )
    if len(priced) > 1:
        yield ("cost: what each would cost alone; a shared or cached reply is paid for only once")

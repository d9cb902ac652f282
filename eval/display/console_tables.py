"""Tables for a terminal of any width."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import zip_longest
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from looktwice.eval.display.printable import make_text, printable

WORD_END_PATTERN = r"\n|(?<=\S) "  # not within an indent

MIN_TEXT_WIDTH, MIN_NUMBERS_WIDTH = 12, 36
"""Minimum widths of a text column and of all number columns together, in characters."""
Groups = list[tuple[str, list[list[str]]]]
"""The rows below each heading."""


@dataclass(frozen=True)
class ConsoleTable:
    """A table for a terminal of any width: columns that do not fit side by side are split into
    blocks below one another, each with the text columns.

    The first `text_column_count` columns hold text, and the first `heading_count` of these
    become headings above their lines. Long texts are wrapped between words, numbers never. The
    lines of the caption that are in `bold_lines` are highlighted.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_column_count: int
    title: str
    heading_count: int
    caption: str
    bold_lines: Sequence[str]

    def __str__(self) -> str:
        # in a notebook, a console would display the text instead of writing it
        console = Console(file=StringIO(), width=140, force_jupyter=False)
        console.print(self)
        return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines; called by rich."""
        room, texts = options.max_width, self.text_column_count - self.heading_count
        header, groups = self.header[self.heading_count :], self._group_rows(" [")
        widths = _measure_widths(header, groups)
        if sum(widths) + 2 > room:  # keep the second line of a cell below its number
            groups = self._group_rows("\n[")
            widths = _measure_widths(header, groups)
        if sum(widths) + 2 > room:  # fold texts
            spare = room - 2 - sum(widths[texts:])
            most = max(
                MIN_TEXT_WIDTH,
                (spare if spare >= MIN_TEXT_WIDTH * texts else room - MIN_NUMBERS_WIDTH)
                // max(texts, 1),
            )
            shorter = [
                min(width, most) if number < texts or _holds_text(groups, number) else width
                for number, width in enumerate(widths)
            ]
            whole = [*map(max, shorter, _measure_widths(header, groups, WORD_END_PATTERN))]
            fits = sum(whole[:texts]) + max(whole[texts:], default=0) + 2 <= room
            widths = whole if fits else shorter  # break words only if there is no room for them
        if self.title:
            yield make_text(self.title, "bold")
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
            style = "bold yellow" if line in self.bold_lines else ""
            yield from (Text(folded, style) for folded in wrap(printable(line), room))

    def _group_rows(self, before: str) -> Groups:
        """Group the rows by heading; the second line of a cell is joined to the first by `before`,
        which opens a bracket."""
        groups = Groups()
        for row in self.rows:
            heading, name, *cells = (
                ", ".join(filter(None, row[: self.heading_count])),
                *row[self.heading_count :],
            )
            if not groups or groups[-1][0] != heading:
                groups.append((heading, []))
            texts = [before.join(words.split("\n", 1)) + "]" * ("\n" in words) for words in cells]
            groups[-1][1].append([f"  {name}" if self.heading_count else name, *texts])
        return groups


def _measure_widths(header: Sequence[str], groups: Groups, ends: str = "\n") -> list[int]:
    """Measure the columns, with two spaces of padding; a line of a cell may end at the pattern
    `ends`."""
    rows = (row for _, rows in groups for row in rows)
    return [
        2 + max(map(cell_len, re.split(ends, "\n".join(column))))
        for column in zip_longest(header, *rows, fillvalue="")
    ]


def _holds_text(groups: Groups, number: int) -> bool:
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

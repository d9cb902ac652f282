"""Printable tables, declared as columns: a title, a value for each line, and its format.

    TURNS = (
        Column("contestant", "contestant", text),
        Column("n", "n"),
        Column("accuracy %", lambda line: line.right / line.n, percent),
        Column("p", "paired.p", format_p),
    )
    table(TURNS, lines).without_empty().markdown

One declaration gives Markdown, HTML and a table for a terminal. Not here: the tables of scored
rows, which are in `score_tables`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from io import StringIO
from itertools import compress, zip_longest
from operator import attrgetter
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.cells import cell_len
from rich.text import Text

from looktwice.eval.display.printable import make_text, printable
from looktwice.pipelines.counted import format_number

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

    from looktwice.eval.statistics.intervals import Estimate

Line = TypeVar("Line")

MARKDOWN_PATTERN = re.compile(
    r"[\\|*`\[\]!]|~(?=~)|(?<!\w)_|_(?!\w)|\A(?:[-+#](?=\s)|\d+(?=[.)]\s))"
)
"""Characters with a meaning in Markdown: anywhere, or at the beginning of a line."""

ADDRESS_PATTERN = re.compile(r"\b(https?|ftp|www)([:.])", re.I)
WORD_ENDS = r"\n|(?<=\S) "  # not within an indent
MIN_TEXT_WIDTH, MIN_NUMBERS_WIDTH = (
    12,
    36,
)  # minimum widths of a text column and of all number columns together, in characters


def text(value: object) -> str:
    """Format a name for a left-aligned column; text columns come before all others."""
    return str(value)


@dataclass(frozen=True)
class Column(Generic[Line]):
    """A column of a table. `value` is a function of a line, or the path of an attribute
    ("paired.p"); if any attribute on the path is None, the cell is empty.

    `form` formats a value: `text`, `percent`, `points`, `nonzero_cell`, `format_p`, `format_cost`,
    `estimate_cell`, `change_cell`, `share_cell` below, or a format string such as "{:.2f}".
    """

    title: str
    value: Callable[[Line], object] | str
    form: Callable[[Any], str] | str = str

    def cell(self, line: Line) -> str:
        """Format this column's cell for a line."""
        value: object = line
        if not isinstance(self.value, str):
            value = self.value(line)
        else:
            for name in self.value.split("."):
                value = None if value is None else getattr(value, name)
        form = self.form.format if isinstance(self.form, str) else self.form
        return "" if value is None else form(value)


Columns = Sequence[Column[Line]]
"""The columns of a table."""


def attribute_columns(*titles: str, of: str = "") -> list[Column[Any]]:
    """Return a text column for each attribute of a line, or of the object in its attribute `of`;
    the attribute's name is the title."""
    return [Column(title, f"{of}.{title}" if of else title, text) for title in titles]


def table(columns: Columns[Line], lines: Iterable[Line]) -> TextTable:
    """Format each line as a row and return the table."""
    rows = [tuple(column.cell(line) for column in columns) for line in lines]
    titles, forms = map(attrgetter("title"), columns), map(attrgetter("form"), columns)
    return TextTable(tuple(titles), rows, list(forms).count(text))


@dataclass(frozen=True)
class TextTable:
    """A table of strings. The first `text_columns` columns hold text, the others numbers; a cell
    may have two lines. `print` and a notebook show it formatted."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1

    def __str__(self) -> str:
        return str(self.console(""))

    def _repr_html_(self) -> str:
        return self.html

    @property
    def markdown(self) -> str:
        """The table in GitHub's Markdown; characters with a meaning in Markdown or HTML are
        escaped."""
        rule = ["---" if i < self.text_columns else "---:" for i in range(len(self.header))]
        head, *body = ([*map(escape_markdown, row)] for row in (self.header, *self.rows))
        return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))

    @property
    def html(self) -> str:
        """The table in plain HTML."""
        head = self._html_row(self.header, "th", "th")
        body = "".join(self._html_row(row, "th scope=row", "td") for row in self.rows)
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"

    def _html_row(self, row: Sequence[str], first: str, tag: str) -> str:
        cells = []
        for number, words in enumerate(row):
            name = tag if number else first
            above, _, below = map(escape, words.partition("\n"))
            small = f" <small>{below}</small>" if below else ""
            right = "" if number < self.text_columns else " class=n"
            cells.append(f"<{name}{right}>{above}{small}</{name[:2]}>")
        return f"<tr>{''.join(cells)}</tr>"

    def console(
        self, title: str, blocks: int = 0, caption: str = "", bold: Sequence[str] = ()
    ) -> ConsoleTable:
        """Return a table for a terminal. The first `blocks` text columns become headings above
        their lines, and the caption's lines in `bold` are highlighted. At least two columns remain
        columns."""
        blocks = max(0, min(blocks, self.text_columns, len(self.header) - 2))
        return ConsoleTable(self, title, blocks, caption, bold)

    def append(self, other: TextTable) -> TextTable:
        """Return the table with the lines of another one below, matched by column titles."""
        rows = [*self.rows]
        for row in other.rows:
            cells = dict(zip(other.header, row, strict=True))
            rows.append(tuple(cells.get(title, "") for title in self.header))
        return replace(self, rows=rows)

    def without_empty(self, *kept: str) -> TextTable:
        """Return the table without empty number columns, except those with these titles."""
        empty = [
            title
            for number, title in enumerate(self.header)
            if number >= self.text_columns and not any(row[number] for row in self.rows)
        ]
        return self.without(*set(empty).difference(kept))

    def without_constant(self, title: str) -> TextTable:
        """Return the table without a column that has the same value in every row."""
        place = self.header.index(title)
        return self if len({row[place] for row in self.rows}) > 1 else self.without(title)

    def without_repeats(self, title: str) -> TextTable:
        """Return the table with a column's cells blank where they repeat the one above."""
        place, above, rows = self.header.index(title), "", list[Sequence[str]]()
        for row in self.rows:
            name = "" if row[place] == above else row[place]
            rows.append((*row[:place], name, *row[place + 1 :]))
            above = row[place]
        return replace(self, rows=rows)

    def without(self, *titles: str) -> TextTable:
        """Return the table without the columns of these titles."""
        kept = [title not in titles for title in self.header]
        header, *rows = (tuple(compress(row, kept)) for row in (self.header, *self.rows))
        return TextTable(header, rows, sum(kept[: self.text_columns]))


Groups = list[tuple[str, list[list[str]]]]
"""The rows below each heading."""


@dataclass(frozen=True)
class ConsoleTable:
    """A table for a terminal of any width: columns that do not fit side by side are split into
    blocks below one another, each with the text columns.

    The first `blocks` columns become headings above their lines. Long texts are wrapped between
    words, numbers never.
    """

    table: TextTable
    title: str
    blocks: int
    caption: str
    bold: Sequence[str]

    def __str__(self) -> str:
        from rich.console import Console

        # in a notebook, a console would display the text instead of writing it
        console = Console(file=StringIO(), width=140, force_jupyter=False)
        console.print(self)
        return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines; called by rich."""
        room, texts = options.max_width, self.table.text_columns - self.blocks
        header, groups = self.table.header[self.blocks :], self._group_rows(" [")
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
            whole = [*map(max, shorter, _measure_widths(header, groups, WORD_ENDS))]
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
            style = "bold yellow" if line in self.bold else ""
            yield from (Text(folded, style) for folded in wrap(printable(line), room))

    def _group_rows(self, before: str) -> Groups:
        """Group the rows by heading; the second line of a cell follows `before` in brackets."""
        groups = Groups()
        for row in self.table.rows:
            heading, name, *cells = ", ".join(filter(None, row[: self.blocks])), *row[self.blocks :]
            if not groups or groups[-1][0] != heading:
                groups.append((heading, []))
            texts = [before.join(words.split("\n", 1)) + "]" * ("\n" in words) for words in cells]
            groups[-1][1].append([f"  {name}" if self.blocks else name, *texts])
        return groups


def _measure_widths(header: Sequence[str], groups: Groups, ends: str = "\n") -> list[int]:
    """Measure the columns, with two spaces of padding; lines end at the pattern `ends`."""
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


def percent(value: float | None, digits: int = 1, sign: bool = False) -> str:
    """Format a share as a percentage, a difference with its `sign`; empty for None."""
    if value is None:
        return ""
    return format_signed(value, digits) if sign else f"{100 * value:.{digits}f}"


def points(value: float | None, digits: int = 1) -> str:
    """Return a difference of shares in percentage points with its sign; empty for None."""
    return percent(value, digits, sign=True)


MINUS = "\u2212"


def format_signed(value: float, digits: int = 1) -> str:
    """Format a difference of shares in percentage points, with its sign and never as negative
    zero."""
    rounded = round(100 * value, digits) + 0.0  # without the sign of -0.0
    return f"{rounded:+.{digits}f}".replace("-", MINUS)


def format_with_interval(value: float, low: float | None, high: float | None, sign: bool) -> str:
    """Return a share in percent with its interval below it, if it has one."""
    if low is None or high is None:
        return percent(value, sign=sign)
    return f"{percent(value, sign=sign)}\n{percent(low, sign=sign)} to {percent(high, sign=sign)}"


def estimate_cell(estimate: Estimate, sign: bool = False) -> str:
    """Return an estimate in percent with its interval below it."""
    return format_with_interval(estimate.value, estimate.low, estimate.high, sign)


def change_cell(estimate: Estimate) -> str:
    """Return a difference in percentage points with its interval below it."""
    return estimate_cell(estimate, sign=True)


def share_cell(share: Estimate) -> str:
    """Return a share in percent with its limits below it, in the format of accuracies."""
    return f"{percent(share.value)}\n{percent(share.low)}–{percent(share.high)}"


def number_cell(estimate: Estimate) -> str:
    """Return a number with two decimals and its interval below it."""
    return f"{estimate.value:.2f}\n{estimate.low:.2f} to {estimate.high:.2f}"


def format_cost(cost: float | None) -> str:
    """Return an amount in the currency of the configured prices; small sums have three significant
    digits."""
    return "" if cost is None else f"{cost:,.2f}" if cost >= 1 else format_number(cost)


def format_p(p: float | None) -> str:
    """Return a p-value with three or four decimals, small ones as "<0.0001"."""
    return "" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def nonzero_cell(count: int | None) -> str:
    """Return a count; empty for zero or None."""
    return str(count or "")


def escape_markdown(cell: str) -> str:
    """Return a text for a line or cell of Markdown, with the characters that mean something in
    Markdown or HTML escaped.

    URLs do not become links, so that nothing in a report leads to another site.
    """
    plain = MARKDOWN_PATTERN.sub(r"\\\g<0>", escape(printable(cell), quote=False))
    plain = ADDRESS_PATTERN.sub(r"\1<!-- -->\2", plain)
    return "<br>".join(plain.split("\n"))


CORRECTED_COLUMNS: Columns[Any] = (
    Column("p\n(Holm)", "p_holm", format_p),
    Column("p\n(BH)", "p_bh", format_p),
)
"""Columns of a line that `paired.correct` returns."""
ARM_NAME_COLUMNS = attribute_columns("contestant", "task", of="scores")
"""Columns of a line that holds the scores of an arm."""

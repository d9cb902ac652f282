"""Printed tables as declared columns: a title, where the value stands in a line, and how it is
written.

    TURNS = (
        Column("contestant", "contestant", text),
        Column("n", "n"),
        Column("accuracy %", lambda line: line.right / line.n, percent),
        Column("p", "paired.p", format_p),
    )
    table(TURNS, lines).without_empty().markdown

Such a table shows alike as Markdown, HTML and on a terminal. Not here: the tables of scored rows,
which stand in `score_tables`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from looktwice.eval.display.printable import cell, printable

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Line = TypeVar("Line")

SIGNS = re.compile(r"[\\|*`\[\]!]|~(?=~)|(?<!\w)_|_(?!\w)|\A(?:[-+#](?=\s)|\d+(?=[.)]\s))")
"""What means something in Markdown: anywhere, or at the beginning of a line."""

ADDRESS = re.compile(r"\b(https?|ftp|www)([:.])", re.I)
TERMINAL, NARROW = 78, 12  # columns: of a terminal, and at least of a text


class Bounded(Protocol):
    """A number with its 95 % interval."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def text(value: object) -> str:
    """The form of a column of names, which stands left; text columns come before all others."""
    return str(value)


@dataclass(frozen=True)
class Column(Generic[Line]):
    """A column: `value` is a function of a line, or the path of its attribute ("paired.p"); None is
    an empty cell.

    `form` writes a value: `text`, `percent`, `points`, `some`, `format_p`, `format_cost`,
    `estimate_cell`, `change_cell`, `share_cell` below, or the `format` of any text
    ("{:.2f}".format).
    """

    title: str
    value: Callable[[Line], object] | str
    form: Callable[[Any], str] = str

    def cell(self, line: Line) -> str:
        """The line's cell."""
        read = attrgetter(self.value) if isinstance(self.value, str) else self.value
        value = read(line)
        return "" if value is None else self.form(value)


def names(*titles: str) -> list[Column[Any]]:
    """Columns of names whose titles are the attributes of a line."""
    return [Column(title, title, text) for title in titles]


def table(columns: Sequence[Column[Line]], lines: Iterable[Line]) -> TextTable:
    """The lines under the columns."""
    return TextTable(
        tuple(column.title for column in columns),
        [tuple(column.cell(line) for column in columns) for line in lines],
        sum(column.form is text for column in columns),
    )


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
        head, *body = ([*map(escaped, row)] for row in (self.header, *self.rows))
        return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))

    @property
    def html(self) -> str:
        """A plain HTML table."""
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

    def console(self, title: str, blocks: int = 0, caption: str = "") -> RichTable:
        """A table for a terminal; the first `blocks` columns become headings above their lines."""
        from rich import box
        from rich.table import Table as RichTable

        out = RichTable(
            title=cell(title, "bold"), title_justify="left", box=box.SIMPLE, padding=(0, 0, 0, 1)
        )
        out.caption, out.caption_justify = cell(caption) if caption else None, "left"
        header, texts = self.header[blocks:], self.text_columns - blocks
        lines = self._lines(blocks, " [")
        widths = _widths(header, lines, texts)
        if sum(map(abs, widths)) > TERMINAL:  # what is below a number stays there
            lines = self._lines(blocks, "\n[")
            widths = _widths(header, lines, texts)
        # in a table that is too wide still, rich would cut what is not wrapped
        fits = sum(map(abs, widths)) <= TERMINAL
        for number, (name, width) in enumerate(zip(header, widths, strict=True)):
            side: Literal["left", "right"] = "left" if number < texts else "right"
            out.add_column(cell(name), justify=side, overflow="fold", no_wrap=fits and width > 0)
        for line in lines:
            out.add_row(*(cell(words, "bold" if len(line) == 1 else "") for words in line))
        return out

    def _lines(self, blocks: int, before: str) -> list[list[str]]:
        """The lines of a terminal, headings among them; what stands below a number comes in
        brackets."""
        lines, heading = list[list[str]](), ""
        for row in self.rows:
            above, name, *cells = ", ".join(row[:blocks]), *row[blocks:]
            if above != heading:
                lines.append([above])
            heading = above
            texts = [before.join(words.split("\n", 1)) + "]" * ("\n" in words) for words in cells]
            lines.append([f"  {name}" if blocks else name, *texts])
        return lines

    def above(self, other: TextTable) -> TextTable:
        """The table with the lines of another one below, whose cells stand under the same
        titles."""
        below = (dict(zip(other.header, row, strict=True)) for row in other.rows)
        rows = [tuple(cells.get(title, "") for title in self.header) for cells in below]
        return replace(self, rows=[*self.rows, *rows])

    def without_empty(self) -> TextTable:
        """The table without number columns that are empty."""
        empty = [
            title
            for number, title in enumerate(self.header)
            if number >= self.text_columns and not any(row[number] for row in self.rows)
        ]
        return self.without(*empty)

    def without_same(self, title: str) -> TextTable:
        """The table without a column that says the same in every row."""
        place = self.header.index(title)
        return self if len({row[place] for row in self.rows}) > 1 else self.without(title)

    def without_repeats(self, title: str) -> TextTable:
        """The table with a column's cell only where it differs from the one above."""
        place, above, rows = self.header.index(title), "", list[Sequence[str]]()
        for row in self.rows:
            name = "" if row[place] == above else row[place]
            rows.append((*row[:place], name, *row[place + 1 :]))
            above = row[place]
        return replace(self, rows=rows)

    def without(self, *titles: str) -> TextTable:
        """The table without the columns of these titles."""
        kept = [number for number, title in enumerate(self.header) if title not in titles]
        header, *rows = (tuple(row[i] for i in kept) for row in (self.header, *self.rows))
        return TextTable(header, rows, sum(number < self.text_columns for number in kept))


def _widths(header: Sequence[str], lines: Sequence[Sequence[str]], texts: int) -> list[int]:
    """How wide the columns are on a terminal; below zero those that hold words, which can be folded
    to NARROW."""
    widths = []
    for number, column in enumerate(zip_longest(header, *lines, fillvalue="")):
        width = 2 + max(len(part) for words in column for part in words.split("\n"))
        has_words = number < texts or any(words[:1].isalpha() for words in column[1:])
        widths.append(-min(width, NARROW) if has_words else width)
    return widths


def percent(value: float | None, digits: int = 1, sign: bool = False) -> str:
    """A share as a percentage, empty for None."""
    return "" if value is None else f"{100 * value:{'+' if sign else ''}.{digits}f}"


def points(value: float | None, digits: int = 1) -> str:
    """A difference of shares in percentage points with its sign, empty for None."""
    return percent(value, digits, sign=True)


def with_interval(value: float, low: float | None, high: float | None, sign: bool = False) -> str:
    """A share in percent with its interval below it, where it has one."""
    if low is None or high is None:
        return percent(value, sign=sign)
    return f"{percent(value, sign=sign)}\n{percent(low, sign=sign)} to {percent(high, sign=sign)}"


def estimate_cell(estimate: Bounded, sign: bool = False) -> str:
    """An estimate in percent with its interval below it."""
    return with_interval(estimate.value, estimate.low, estimate.high, sign)


def change_cell(estimate: Bounded) -> str:
    """A difference in percentage points with its interval below it."""
    return estimate_cell(estimate, sign=True)


def share_cell(share: Bounded) -> str:
    """A share in percent with its limits below it, as those of accuracies are written."""
    return f"{percent(share.value)}\n{percent(share.low)}–{percent(share.high)}"


def number_cell(estimate: Bounded) -> str:
    """A number with two decimals, its interval below it."""
    return f"{estimate.value:.2f}\n{estimate.low:.2f} to {estimate.high:.2f}"


def format_cost(cost: float | None) -> str:
    """Money in the currency of the configured prices, small sums to three digits."""
    return "" if cost is None else f"{cost:,.2f}" if cost >= 1 else f"{cost:.3g}"


def format_p(p: float | None) -> str:
    """A p-value with three or four decimals, small ones as "<0.0001"."""
    return "" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def some(count: int | None) -> str:
    """A count, empty for none."""
    return str(count or "")


def escaped(cell: str) -> str:
    """A text for a line or cell of Markdown: characters with a meaning in Markdown or HTML are
    escaped.

    An address becomes no link either, so that nothing in a report leads elsewhere.
    """
    plain = SIGNS.sub(r"\\\g<0>", escape(printable(cell), quote=False))
    plain = ADDRESS.sub(r"\1<!-- -->\2", plain)
    return "<br>".join(plain.split("\n"))

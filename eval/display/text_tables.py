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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from looktwice.eval.display.printable import printable
from looktwice.pipelines.counted import format_number

if TYPE_CHECKING:
    from looktwice.eval.display.console_tables import ConsoleTable
    from looktwice.eval.statistics.intervals import Estimate

Line = TypeVar("Line")

MARKDOWN_PATTERN = re.compile(
    r"[\\|*`\[\]!]|~(?=~)|(?<!\w)_|_(?!\w)|\A(?:[-+#](?=\s)|\d+(?=[.)]\s))"
)
"""Characters with a meaning in Markdown: anywhere, or at the beginning of a line."""

ADDRESS_PATTERN = re.compile(r"\b(https?|ftp|www)([:.])", re.I)


def text(value: object) -> str:
    """Format a name for a left-aligned column; text columns come before all others."""
    return str(value)


@dataclass(frozen=True)
class Column(Generic[Line]):
    """A column of a table. `value` is a function of a line, or the path of an attribute
    ("paired.p"); if any attribute on the path is None, the cell is empty.

    `form` is the format of a value: `text`, `percent`, `percentage_points`, `nonzero_cell`,
    `format_p`, `format_cost`, `estimate_cell`, `change_cell`, `share_cell` below, or a format
    string such as "{:.2f}".
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
    """Return a text column for each attribute of a line, or of the object in the line's attribute
    `of`; the attribute's name is the title."""
    return [Column(title, f"{of}.{title}" if of else title, text) for title in titles]


def table(columns: Columns[Line], lines: Iterable[Line]) -> TextTable:
    """Format each line as a row and return the table."""
    rows = [tuple(column.cell(line) for column in columns) for line in lines]
    titles, forms = map(attrgetter("title"), columns), map(attrgetter("form"), columns)
    return TextTable(tuple(titles), rows, list(forms).count(text))


@dataclass(frozen=True)
class TextTable:
    """A table of strings. The first `text_column_count` columns hold text, the others numbers; a
    cell may have two lines. `print` and a notebook show it formatted."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_column_count: int = 1

    def __str__(self) -> str:
        return str(self.console(""))

    def _repr_html_(self) -> str:
        return self.html

    @property
    def markdown(self) -> str:
        """The table in GitHub's Markdown; characters with a meaning in Markdown or HTML are
        escaped."""
        rule = ["---" if i < self.text_column_count else "---:" for i in range(len(self.header))]
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
            right = "" if number < self.text_column_count else " class=n"
            cells.append(f"<{name}{right}>{above}{small}</{name[:2]}>")
        return f"<tr>{''.join(cells)}</tr>"

    def console(
        self, title: str, heading_count: int = 0, caption: str = "", bold_lines: Sequence[str] = ()
    ) -> ConsoleTable:
        """Return a table for a terminal. The first `heading_count` text columns become
        headings above their lines, but at least two columns always remain; the caption's lines in
        `bold_lines` are highlighted."""
        from looktwice.eval.display.console_tables import ConsoleTable

        heading_count = max(0, min(heading_count, self.text_column_count, len(self.header) - 2))
        shape = self.header, self.rows, self.text_column_count
        return ConsoleTable(*shape, title, heading_count, caption, bold_lines)

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
            if number >= self.text_column_count and not any(row[number] for row in self.rows)
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
        return TextTable(header, rows, sum(kept[: self.text_column_count]))


def percent(value: float | None, digits: int = 1, sign: bool = False) -> str:
    """Format a share as a percentage, a difference with its `sign`; empty for None."""
    if value is None:
        return ""
    return format_signed(value, digits) if sign else f"{100 * value:.{digits}f}"


def percentage_points(value: float | None, digits: int = 1) -> str:
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
    """Escape the characters of a line or a table cell that mean something in Markdown or HTML.

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

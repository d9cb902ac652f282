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

from looktwice.eval.display.printable import cell, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

    from looktwice.eval.statistics.intervals import Estimate

Line = TypeVar("Line")

SIGNS = re.compile(r"[\\|*`\[\]!]|~(?=~)|(?<!\w)_|_(?!\w)|\A(?:[-+#](?=\s)|\d+(?=[.)]\s))")
"""What means something in Markdown: anywhere, or at the beginning of a line."""

ADDRESS = re.compile(r"\b(https?|ftp|www)([:.])", re.I)
WORD_ENDS = r"\n|(?<=\S) "  # an indent stays
NARROW, NUMBERS = 12, 36  # columns of a terminal: at least for a text, and for numbers beside texts


def text(value: object) -> str:
    """The form of a column of names, which stands left; text columns come before all others."""
    return str(value)


@dataclass(frozen=True)
class Column(Generic[Line]):
    """A column: `value` is a function of a line, or the path of its attribute ("paired.p"); None is
    an empty cell, and so is whatever a path would lead to from there.

    `form` writes a value: `text`, `percent`, `points`, `some`, `format_p`, `format_cost`,
    `estimate_cell`, `change_cell`, `share_cell` below, or a text that holds it,
    such as "{:.2f}".
    """

    title: str
    value: Callable[[Line], object] | str
    form: Callable[[Any], str] | str = str

    def cell(self, line: Line) -> str:
        """The line's cell."""
        value: object = line
        if not isinstance(self.value, str):
            value = self.value(line)
        else:
            for name in self.value.split("."):
                value = None if value is None else getattr(value, name)
        form = self.form.format if isinstance(self.form, str) else self.form
        return "" if value is None else form(value)


Columns = Sequence[Column[Line]]
"""Those of a table."""


def names(*titles: str, of: str = "") -> list[Column[Any]]:
    """Columns of names whose titles are the attributes of a line, or `of` what it holds there."""
    return [Column(title, f"{of}.{title}" if of else title, text) for title in titles]


def table(columns: Columns[Line], lines: Iterable[Line]) -> TextTable:
    """The lines under the columns."""
    rows = [tuple(column.cell(line) for column in columns) for line in lines]
    titles, forms = map(attrgetter("title"), columns), map(attrgetter("form"), columns)
    return TextTable(tuple(titles), rows, list(forms).count(text))


@dataclass(frozen=True)
class TextTable:
    """A table of strings: the first `text_columns` columns hold text, the others numbers. A cell
    may have two lines. `print` and a notebook show it as it is read."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1

    def __str__(self) -> str:
        return str(self.console(""))

    def _repr_html_(self) -> str:
        return self.html

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

    def console(
        self, title: str, blocks: int = 0, caption: str = "", bold: Sequence[str] = ()
    ) -> ConsoleTable:
        """A table for a terminal; the first `blocks` columns of texts become headings above their
        lines, and the lines `bold` of the caption stand out. Two columns at least stay columns."""
        blocks = max(0, min(blocks, self.text_columns, len(self.header) - 2))
        return ConsoleTable(self, title, blocks, caption, bold)

    def above(self, other: TextTable) -> TextTable:
        """The table with the lines of another one below, whose cells stand under the same
        titles."""
        rows = [*self.rows]
        for row in other.rows:
            cells = dict(zip(other.header, row, strict=True))
            rows.append(tuple(cells.get(title, "") for title in self.header))
        return replace(self, rows=rows)

    def without_empty(self, *kept: str) -> TextTable:
        """The table without number columns that are empty, but for those of these titles."""
        empty = [
            title
            for number, title in enumerate(self.header)
            if number >= self.text_columns and not any(row[number] for row in self.rows)
        ]
        return self.without(*set(empty).difference(kept))

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
        kept = [title not in titles for title in self.header]
        header, *rows = (tuple(compress(row, kept)) for row in (self.header, *self.rows))
        return TextTable(header, rows, sum(kept[: self.text_columns]))


Groups = list[tuple[str, list[list[str]]]]
"""The rows below each heading."""


@dataclass(frozen=True)
class ConsoleTable:
    """A table as a terminal of any width shows it: what does not fit side by side stands in blocks
    of columns below one another, each behind the texts of its lines.

    The first `blocks` columns become headings above their lines. Long texts are folded between
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
        """The lines. Rich calls this."""
        room, texts = options.max_width, self.table.text_columns - self.blocks
        header, groups = self.table.header[self.blocks :], self._groups(" [")
        widths = _widths(header, groups)
        if sum(widths) + 2 > room:  # what is below a number stays there
            groups = self._groups("\n[")
            widths = _widths(header, groups)
        if sum(widths) + 2 > room:  # the words of a text stand below one another
            spare = room - 2 - sum(widths[texts:])
            most = max(
                NARROW, (spare if spare >= NARROW * texts else room - NUMBERS) // max(texts, 1)
            )
            shorter = [
                min(width, most) if number < texts or _has_words(groups, number) else width
                for number, width in enumerate(widths)
            ]
            whole = [*map(max, shorter, _widths(header, groups, WORD_ENDS))]
            fits = sum(whole[:texts]) + max(whole[texts:], default=0) + 2 <= room
            widths = whole if fits else shorter  # no word is broken where there is room for it
        if self.title:
            yield cell(self.title, "bold")
        for columns in _side_by_side(widths, texts, room):
            wide = sum(widths[number] for number in columns)
            yield from (Text(""), *_printed(header, columns, widths, texts, "bold"))
            yield Text(f" {'─' * wide}")
            for heading, rows in groups:
                if heading:
                    folded = wrap(printable(heading), room - 4, break_on_hyphens=False)
                    yield from (Text(f"  {line}", "bold") for line in folded)
                for row in rows:
                    yield from _printed(row, columns, widths, texts)
            yield Text("")
        for line in self.caption.splitlines():
            style = "bold yellow" if line in self.bold else ""
            yield from (Text(folded, style) for folded in wrap(printable(line), room))

    def _groups(self, before: str) -> Groups:
        """The rows below each heading; what stands below a number comes in brackets."""
        groups = Groups()
        for row in self.table.rows:
            heading, name, *cells = ", ".join(row[: self.blocks]), *row[self.blocks :]
            if not groups or groups[-1][0] != heading:
                groups.append((heading, []))
            texts = [before.join(words.split("\n", 1)) + "]" * ("\n" in words) for words in cells]
            groups[-1][1].append([f"  {name}" if self.blocks else name, *texts])
        return groups


def _widths(header: Sequence[str], groups: Groups, ends: str = "\n") -> list[int]:
    """How wide the columns are, with two spaces, where a line `ends` at this pattern."""
    rows = (row for _, rows in groups for row in rows)
    return [
        2 + max(map(cell_len, re.split(ends, "\n".join(column))))
        for column in zip_longest(header, *rows, fillvalue="")
    ]


def _has_words(groups: Groups, number: int) -> bool:
    return any(row[number][:1].isalpha() for _, rows in groups for row in rows)


def _side_by_side(widths: Sequence[int], texts: int, room: int) -> Iterator[Sequence[int]]:
    """The numbers of the columns of each block: those of texts, and as many others as fit."""
    first = list(range(texts))
    columns = first
    for number in range(texts, len(widths)):
        if len(columns) > len(first) and sum(widths[i] for i in (*columns, number)) + 2 > room:
            yield columns
            columns = first
        columns = [*columns, number]
    yield columns


def _printed(
    row: Sequence[str], columns: Sequence[int], widths: Sequence[int], texts: int, style: str = ""
) -> Iterator[Text]:
    """The lines of a row, or of a header, which stands at the bottom of its lines."""
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
    return signed(value, digits) if sign else f"{100 * value:.{digits}f}"


def points(value: float | None, digits: int = 1) -> str:
    """A difference of shares in percentage points with its sign, empty for None."""
    return percent(value, digits, sign=True)


MINUS = "\u2212"


def signed(value: float, digits: int = 1) -> str:
    """A difference of shares in percentage points for a sentence; its minus sign is U+2212."""
    rounded = round(100 * value, digits) + 0.0  # without the sign of -0.0
    return f"{rounded:+.{digits}f}".replace("-", MINUS)


def with_interval(value: float, low: float | None, high: float | None, sign: bool) -> str:
    """A share in percent with its interval below it, where it has one."""
    if low is None or high is None:
        return percent(value, sign=sign)
    return f"{percent(value, sign=sign)}\n{percent(low, sign=sign)} to {percent(high, sign=sign)}"


def estimate_cell(estimate: Estimate, sign: bool = False) -> str:
    """An estimate in percent with its interval below it."""
    return with_interval(estimate.value, estimate.low, estimate.high, sign)


def change_cell(estimate: Estimate) -> str:
    """A difference in percentage points with its interval below it."""
    return estimate_cell(estimate, sign=True)


def share_cell(share: Estimate) -> str:
    """A share in percent with its limits below it, as those of accuracies are written."""
    return f"{percent(share.value)}\n{percent(share.low)}–{percent(share.high)}"


def number_cell(estimate: Estimate) -> str:
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


CORRECTED: Columns[Any] = (
    Column("p\n(Holm)", "p_holm", format_p),
    Column("p\n(BH)", "p_bh", format_p),
)
"""Columns of a line that `paired.correct` makes."""
OF_ARM = names("contestant", "task", of="scores")
"""Columns of a line that holds the scores of an arm."""

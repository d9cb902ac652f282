"""What was found as a terminal shows it at the end of a run: a bar for each row of the first
table, and as many sentences as there is room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from looktwice.eval.analysis.finding import Finding, TaskFinding
from looktwice.eval.analysis.one_change import FoundRow
from looktwice.eval.display.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

ROWS, LINES = 10, 18  # at most
LABEL, BAR = 24, 48  # columns of a terminal: at most
BESIDE = 22  # columns that number and difference take
SURE, BASELINE, LESS = "yellow", "bold", "dim"


class Ending:
    """The finding in at most 18 lines of any terminal from 60 columns on: sure changes in colour
    and with a star, the baseline bold, chance as a line through the bars."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The lines. Rich calls this."""
        room = options.max_width - 1
        if not self.finding.tasks:
            yield from (line for note in self.finding.notes for line in _folded(note, room))
        for task in self.finding.tasks[:1]:
            headline, *others = (_folded(sentence, room) for sentence in self.sentences)
            table = list(_table(task, room))
            yield from (*headline, *table)
            left = LINES - len(headline) - len(table)
            for lines in others:
                if len(lines) <= left:
                    yield from lines
                    left -= len(lines)

    @property
    def sentences(self) -> Sequence[str]:
        """Those of the first task, after whose first three, the third being the largest
        interaction where one is sure, come the notes, then those of other tasks."""
        first, notes = self.finding.tasks[0].sentences, self.finding.notes
        rest = [line for line in self.finding.sentences if line not in (*first, *notes)]
        return (*first[:3], *notes, *first[3:], *rest)


def _folded(text: str, room: int) -> list[Text]:
    lines = wrap(printable(text), room, break_long_words=False, break_on_hyphens=False)
    return [Text(f" {line}", no_wrap=True) for line in lines]


def _table(task: TaskFinding, room: int) -> Iterator[Text]:
    """A row for each change and what its signs mean; of more than ten those that are sure, then the
    first."""
    wanted = sorted(task.rows, key=lambda row: (not row.is_baseline, not row.sure))[:ROWS]
    rows = [row for row in task.rows if row in wanted]
    labels = [printable(row.label) for row in rows]
    wide = min(LABEL, max(map(cell_len, labels), default=0))
    failed = max((len(_failed(row)) for row in rows), default=0)
    bar = max(10, min(BAR, room - wide - BESIDE - failed))
    for label, row in zip(labels, rows, strict=True):
        short = label if cell_len(label) <= wide else f"{set_cell_size(label, wide - 1)}…"
        yield _row(set_cell_size(short, wide), row, bar, task.chance)
    signs = []
    if any(row.difference for row in rows):
        signs.append("* sure at 5 % (Holm)")
    if failed:
        signs.append("failed: 0 in the %, in no difference")
    if task.chance is not None:
        signs.append(f"┊ chance {100 * task.chance:.0f} %")
    if len(rows) < len(task.rows):
        signs.append(f"{len(task.rows) - len(rows)} more rows: --table full")
    line = "   ".join(signs)
    if line[:1] == "*" and len(line) < room - 24:
        line = f"rows: compared with ▸   {line}"
    if line:
        yield Text(f" {line}", LESS, no_wrap=True)


def _row(label: str, row: FoundRow, bar: int, chance: float | None) -> Text:
    sign, style = ("▸", BASELINE) if row.is_baseline else (" ", SURE if row.sure else "")
    beginning = f" {sign} {label}  "
    if row.accuracy is None:
        why = f"all failed: {printable(row.failure)}" if row.failure else "no score"
        text = Text(beginning + why, style, no_wrap=True, overflow="ellipsis")
        text.truncate(len(beginning) + bar + BESIDE - 8, overflow="ellipsis")
        return text
    signs = [" "] * (bar + 1)
    if chance is not None:
        signs[round(bar * chance)] = "┊"
    low, high = (round(bar * end) for end in (row.accuracy.low, row.accuracy.high))
    signs[low : high + 1] = "━" * (high + 1 - low)
    signs[round(bar * row.accuracy.value)] = "●"
    change = "baseline" if row.is_baseline else ""
    if row.difference:
        change = f"{100 * row.change:+.1f}{'*' if row.sure else ''}"
    value, change = f"{100 * row.accuracy.value:5.1f}", f"{change}{_failed(row)}"
    return Text(f"{beginning}{value} {''.join(signs)} {change}".rstrip(), style, no_wrap=True)


def _failed(row: FoundRow) -> str:
    return f"  {row.failed} failed" if row.failed and row.accuracy else ""

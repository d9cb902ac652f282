"""The findings as a terminal shows them at the end of a run: a bar for each row of the first table
and of tables with further contestants, and as many sentences as fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from looktwice.eval.analysis.finding import Finding, TaskFinding
from looktwice.eval.analysis.one_change import FindingRow
from looktwice.eval.display.printable import printable
from looktwice.eval.display.text_tables import format_signed

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

MAX_TASK_ROWS, MAX_LINES, MAX_FURTHER_LINES = (
    10,
    18,
    24,
)  # rows of a task, lines in all, and lines of further tasks
MAX_LABEL_WIDTH, MIN_LABEL_WIDTH, MAX_BAR_WIDTH = (
    24,
    9,
    48,
)  # in characters: the longest and the shortest label, the longest bar
NUMBER_COLUMNS_WIDTH = 22  # characters for number and difference
BETTER_STYLE, WORSE_STYLE, BASELINE_STYLE, DIM_STYLE = "bright_blue", "dark_orange", "bold", "dim"


class Ending:
    """The findings in at most 18 lines of any terminal with at least 60 columns.

    Significant changes have a star and are blue if better and orange if worse; the baseline is
    bold, and chance is a line through the bars. If contestants answer different tasks, each further
    task has its own rows, with up to 24 further lines for all of them.
    """

    def __init__(self, finding: Finding) -> None:
        self.finding = finding

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines; called by rich."""
        width = options.max_width - 1
        if not self.finding.tasks:
            yield from (line for note in self.finding.notes for line in _wrap_text(note, width))
            return
        folded = [_wrap_text(sentence, width) for sentence in self.sentences]
        leading = len(self.finding.left_out) + 1
        headline, others = [*chain.from_iterable(folded[:leading])], folded[leading:]
        first, *more = _format_tables(self.finding.shown_tasks, width)
        yield from (*headline, *first, *chain.from_iterable(more))
        left = MAX_LINES - len(headline) - len(first)
        for lines in others:
            if len(lines) <= left:
                yield from lines
                left -= len(lines)

    @property
    def sentences(self) -> Sequence[str]:
        """The sentences in order: what was left out, the first three of the first task (the third
        is the largest significant interaction, if any), the notes, the rest of the first task, and
        other tasks."""
        first, notes = self.finding.tasks[0].sentences, self.finding.notes
        left_out = self.finding.left_out
        listed = (*left_out, *first, *notes)
        rest = [line for line in self.finding.sentences if line not in listed]
        return (*left_out, *first[:3], *notes, *first[3:], *rest)


def _wrap_text(text: str, width: int) -> list[Text]:
    lines = wrap(printable(text), width, break_long_words=False, break_on_hyphens=False)
    return [Text(f" {line}", no_wrap=True) for line in lines]


def _format_tables(tasks: Sequence[TaskFinding], width: int) -> Iterator[list[Text]]:
    """Yield the rows of each task, with its name above if there are several, and the legend below
    the last."""
    chosen = [_choose_rows(task) for task in tasks]
    many, left_out = len(tasks) > 1, 0
    lengths = [len(rows) + many for rows in chosen]
    for number in range(1, len(tasks)):
        if sum(lengths[1 : number + 1]) > MAX_FURTHER_LINES:
            left_out += sum(len(task.rows) for task in tasks[number:])
            tasks, chosen = tasks[:number], chosen[:number]
            break
    left_out += sum(map(len, (task.rows for task in tasks))) - sum(map(len, chosen))
    layout = _Layout.from_rows([row for rows in chosen for row in rows], width)
    for number, (task, rows) in enumerate(zip(tasks, chosen, strict=True)):
        lines = [Text(f" {printable(task.task)}", DIM_STYLE, no_wrap=True)] if many else []
        lines += [layout.format_row(row, task.chance) for row in rows]
        if number == len(tasks) - 1 and (signs := layout.format_legend(tasks, left_out)):
            lines.append(Text(f" {signs}", DIM_STYLE, no_wrap=True))
        yield lines


def _choose_rows(task: TaskFinding) -> Sequence[FindingRow]:
    """Return the rows of a task; if there are more than ten, the significant ones first."""
    wanted = sorted(task.rows, key=lambda row: (not row.is_baseline, not row.is_significant))[
        :MAX_TASK_ROWS
    ]
    return [row for row in task.rows if row in wanted]


@dataclass(frozen=True)
class _Layout:
    """The widths of label and bar, and the rows to format with them."""

    rows: Sequence[FindingRow]
    width: int
    label_width: int
    bar_width: int

    @classmethod
    def from_rows(cls, rows: Sequence[FindingRow], width: int) -> _Layout:
        """Return the layout of rows in a terminal with `width` columns."""
        notes = max((len(_describe_answers(row)) for row in rows), default=0)
        widest = max((cell_len(printable(row.label)) for row in rows), default=0)
        label = min(
            MAX_LABEL_WIDTH, widest, max(MIN_LABEL_WIDTH, width - NUMBER_COLUMNS_WIDTH - notes - 10)
        )
        return cls(
            rows,
            width,
            label,
            max(10, min(MAX_BAR_WIDTH, width - label - NUMBER_COLUMNS_WIDTH - notes)),
        )

    @property
    def has_baseline(self) -> bool:
        """True if any row is compared with a baseline."""
        return any(row.difference for row in self.rows)

    def format_legend(self, tasks: Sequence[TaskFinding], left_out: int) -> str:
        """Return a legend that explains the signs in the rows."""
        signs = []
        if self.has_baseline:
            signs.append("* significant at 5 % (Holm)")
        if any(map(_format_failed, self.rows)):
            signs.append("failed: score 0, excluded from differences")
        levels = sorted({round(100 * task.chance) for task in tasks if task.chance is not None})
        if levels:
            ends = dict.fromkeys((levels[0], levels[-1]))
            signs.append(f"┊ chance {' to '.join(map(str, ends))} %")
        if left_out:
            signs.append(f"{left_out} more rows: --table full")
        line = "   ".join(signs)
        is_short = line[:1] == "*" and len(line) < self.width - 24
        return f"rows: compared with ▸   {line}" if is_short else line

    def format_row(self, row: FindingRow, chance: float | None) -> Text:
        """Return a row: its label, accuracy, interval and difference."""
        full = printable(row.label)
        short = (
            full
            if cell_len(full) <= self.label_width
            else f"{set_cell_size(full, self.label_width - 1)}…"
        )
        is_baseline = row.is_baseline and self.has_baseline
        sign, style = ("▸", BASELINE_STYLE) if is_baseline else (" ", "")
        style = (BETTER_STYLE if row.change > 0 else WORSE_STYLE) if row.is_significant else style
        beginning = f" {sign} {set_cell_size(short, self.label_width)}  "
        if row.accuracy is None:
            why = f"all failed: {printable(row.failure)}" if row.failure else "no score"
            text = Text(beginning + why, style, no_wrap=True, overflow="ellipsis")
            text.truncate(
                len(beginning) + self.bar_width + NUMBER_COLUMNS_WIDTH - 8, overflow="ellipsis"
            )
            return text
        signs = [" "] * (self.bar_width + 1)
        if chance is not None:
            signs[round(self.bar_width * chance)] = "┊"
        low, high = (round(self.bar_width * end) for end in (row.accuracy.low, row.accuracy.high))
        signs[low : high + 1] = "━" * (high + 1 - low)
        signs[round(self.bar_width * row.accuracy.value)] = "●"
        change = "baseline" if is_baseline else ""
        if row.difference:
            change = f"{format_signed(row.change)}{'*' if row.is_significant else ''}"
        value, change = f"{100 * row.accuracy.value:5.1f}", f"{change}{_describe_answers(row)}"
        return Text(f"{beginning}{value} {''.join(signs)} {change}".rstrip(), style, no_wrap=True)


def _describe_answers(row: FindingRow) -> str:
    """Describe how many answers failed, and, if some abstained, the accuracy of the rest."""
    if row.answered_accuracy is None:
        return _format_failed(row)
    share, accuracy = 1 - row.abstained_share, row.answered_accuracy.value
    answered = f"{100 * share:.0f} % answered: {100 * accuracy:.0f} %"
    return f"{_format_failed(row)}  {answered}"


def _format_failed(row: FindingRow) -> str:
    return f"  {row.failed_count} failed" if row.failed_count and row.accuracy else ""

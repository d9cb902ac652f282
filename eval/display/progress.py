"""The progress of a run: a bar on a terminal, plain lines in a log file."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID
from rich.table import Column
from rich.text import Text

from looktwice.eval.display.printable import cell
from looktwice.eval.display.text_tables import format_cost

EVERY = 10.0  # seconds between two lines of a log file
VERDICTS = ("right", "wrong", "unreadable", "failed", "hidden")
BESIDE = 12  # characters of a terminal's line that spinner and bar take at least


class Spent(NamedTuple):
    """The tokens that a run paid for so far, and their list price, where it is known."""

    tokens_in: int
    tokens_out: int
    cost: float | None = None


class Display:
    """Records done, verdicts, tokens, cost, rate and remaining time; a thread-safe context manager.

    `spent` gives tokens and cost so far. On a terminal it is a live bar in one line; anywhere else
    a line is printed at the start of the work, every ten seconds, and at the end, of JSON where a
    program is to read it.
    """

    def __init__(
        self, console: Console, total: int, spent: Callable[[], Spent], json_lines: bool = False
    ) -> None:
        self.console, self.total, self.spent, self.json_lines = console, total, spent, json_lines
        self.verdicts: Counter[str] = Counter()
        self.done, self.started, self.last = 0, time.monotonic(), 0.0
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Display:
        self.started = time.monotonic()
        if self.console.is_terminal and not self.json_lines:
            room = Column(ratio=1)
            columns = SpinnerColumn(), BarColumn(bar_width=None, table_column=room), _Words(self)
            self._bar = Progress(*columns, console=self.console, refresh_per_second=4, expand=True)
            self._task = self._bar.add_task("", total=self.total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)
            self._bar.stop()
        else:
            self._line()

    def add(self, verdict: str) -> None:
        """One more record, with its verdict in small letters."""
        with self._lock:
            self.done += 1
            self.verdicts[verdict] += 1
            now = time.monotonic()
            due = now - self.last >= EVERY
            if due:
                self.last = now
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)
        elif due:
            self._line()

    def skip(self, number: int) -> None:
        """Take off so many records, which exist already."""
        with self._lock:
            self.total = max(0, self.total - number)
        if self._bar is not None:
            self._bar.update(self._task, total=self.total)

    def words(self, width: int = 1000) -> str:
        """Where the run stands, in at most so many characters: what is less urgent is shortened,
        then left out."""
        spent, rate = self.spent(), f"{self._rate():.1f}/s"
        counts = [(name, self.verdicts[name]) for name in VERDICTS if self.verdicts[name]]
        done, left = f"{self.done}/{self.total}", self._time()
        verdicts = " ".join(f"{name} {number}" for name, number in counts)
        short = " ".join(f"{name[:1]}{_short(number)}" for name, number in counts)
        cost = "" if spent.cost is None else f"cost {format_cost(spent.cost)}"
        tokens = (
            f"tokens {_short(spent.tokens_in)} in {_short(spent.tokens_out)} out"
            if any(spent[:2])
            else ""
        )
        fewer = f"{_short(spent.tokens_in)}+{_short(spent.tokens_out)} tok" if tokens else ""
        choices = (
            (" | ", done, verdicts, tokens, cost, rate, left),
            ("  ", done, verdicts, fewer, cost, rate, left),
            ("  ", done, short, fewer, cost, rate, left),
            ("  ", done, short, cost or fewer, rate, left),
            ("  ", done, short, left),
        )
        lines = [gap.join(filter(None, parts)) for gap, *parts in choices]
        return next((line for line in lines if len(line) <= width), lines[-1][:width])

    def _rate(self) -> float:
        return self.done / max(1e-9, time.monotonic() - self.started)

    def _time(self) -> str:
        if self.done < self.total:
            return f"{_clock((self.total - self.done) / self._rate())} left" if self.done else ""
        return f"took {_clock(time.monotonic() - self.started)}"

    def _line(self) -> None:
        if self.json_lines:
            counts = {name: self.verdicts[name] for name in VERDICTS}
            seconds = round(time.monotonic() - self.started, 1)
            done = {"done": self.done, "total": self.total, "seconds": seconds}
            print_json(
                self.console, {"event": "progress", **done, **counts, **self.spent()._asdict()}
            )
            return
        self.console.print(Text(self.words()), soft_wrap=True)


def print_json(console: Console, value: Mapping[str, object]) -> None:
    """One line of JSON, whatever the width of the terminal."""
    console.print(
        cell(json.dumps(value).replace("\x7f", "\\u007f")), highlight=False, soft_wrap=True
    )


class _Words(ProgressColumn):
    """What the display says, made anew at each refresh, as wide as the terminal has room for."""

    def __init__(self, display: Display) -> None:
        super().__init__(Column(no_wrap=True))
        self.display = display

    def render(self, task: Task) -> Text:
        return Text(self.display.words(self.display.console.width - BESIDE), no_wrap=True)


def _short(number: int) -> str:
    return (
        f"{number / 1e6:.1f}M"
        if number >= 1e6
        else f"{number / 1e3:.1f}k"
        if number >= 1e4
        else str(number)
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
        if minutes >= 60
        else f"{minutes}:{rest:02d}"
    )

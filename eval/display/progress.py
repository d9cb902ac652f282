"""The progress of a run: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.table import Column
from rich.text import Text

from looktwice.eval.display.printable import make_text
from looktwice.eval.display.text_tables import format_cost

LOG_INTERVAL = 10.0  # seconds between two lines of a log
VERDICTS = ("right", "wrong", "unreadable", "failed", "hidden")
SPINNER_WIDTH = 12  # characters of a terminal's line reserved for spinner and bar


class Spending(NamedTuple):
    """The tokens that a run has paid for so far, and their list price if known."""

    tokens_in: int
    tokens_out: int
    cost: float | None = None


class Display:
    """A thread-safe display of records done, verdicts, tokens, cost, rate and remaining time.

    `spent` returns tokens and cost so far. On a terminal, the display is a live bar on one line.
    Elsewhere, it prints a line at the start, every ten seconds and at the end; with `json_lines`,
    as JSON.
    """

    def __init__(
        self, console: Console, total: int, spent: Callable[[], Spending], json_lines: bool = False
    ) -> None:
        self.console, self.total, self.spent, self.json_lines = console, total, spent, json_lines
        self.verdicts: Counter[str] = Counter()
        self.done, self.started, self.last = 0, time.monotonic(), 0.0
        self._lock = threading.Lock()
        self._is_live = console.is_terminal and not json_lines
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            _StateColumn(self),
            console=console,
            refresh_per_second=4,
            expand=True,
            disable=not self._is_live,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Display:
        self.started = time.monotonic()
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()
        if not self._is_live:
            self._print_line()

    def add(self, verdict: str) -> None:
        """Count a record with this verdict, in lower case."""
        with self._lock:
            self.done += 1
            self.verdicts[verdict] += 1
            now = time.monotonic()
            due = now - self.last >= LOG_INTERVAL
            if due:
                self.last = now
        self._bar.update(self._task, completed=self.done)
        if due and not self._is_live:
            self._print_line()

    def skip(self, number: int) -> None:
        """Subtract records that exist already from the total."""
        with self._lock:
            self.total = max(0, self.total - number)
        self._bar.update(self._task, total=self.total)

    def format_state(self, width: int = 1000) -> str:
        """Format the state of the run in at most `width` characters; less important parts are
        shortened first, then left out."""
        spent, rate = self.spent(), f"{self._compute_rate():.1f}/s" if self.done else ""
        names, letters = list[str](), list[str]()
        for name in VERDICTS:
            if number := self.verdicts[name]:
                names.append(f"{name} {number}")
                letters.append(f"{name[0]}{_shorten_number(number)}")
        done = f"{self.done}/{self.total}" if self.total else "nothing new to ask"
        left = self._format_time()
        verdicts, short = " ".join(names), " ".join(letters)
        cost = "" if spent.cost is None else f"cost {format_cost(spent.cost)}"
        tokens = fewer = ""
        if any(spent[:2]):
            read, written = map(_shorten_number, spent[:2])
            tokens, fewer = f"tokens {read} in {written} out", f"{read}+{written} tok"
        line = ""
        for gap, *parts in (
            (" | ", done, verdicts, tokens, cost, rate, left),
            ("  ", done, verdicts, fewer, cost, rate, left),
            ("  ", done, short, fewer, cost, rate, left),
            ("  ", done, short, cost or fewer, rate, left),
            ("  ", done, short, left),
        ):
            line = gap.join(filter(None, parts))
            if len(line) <= width:
                break
        return line[:width]

    def _compute_rate(self) -> float:
        return self.done / max(1e-9, time.monotonic() - self.started)

    def _format_time(self) -> str:
        if self.done < self.total:
            return (
                f"{_format_duration((self.total - self.done) / self._compute_rate())} left"
                if self.done
                else ""
            )
        return f"took {_format_duration(time.monotonic() - self.started)}"

    def _print_line(self) -> None:
        if not self.json_lines:
            self.console.print(Text(self.format_state()), soft_wrap=True)
            return
        seconds = round(time.monotonic() - self.started, 1)
        state = {"event": "progress", "done": self.done, "total": self.total, "seconds": seconds}
        counts = {name: self.verdicts[name] for name in VERDICTS}
        print_json(self.console, {**state, **counts, **self.spent()._asdict()})


def print_json(console: Console, value: Mapping[str, object]) -> None:
    """Print one line of JSON, whatever the width of the terminal."""
    console.print(
        make_text(json.dumps(value).replace("\x7f", "\\u007f")), highlight=False, soft_wrap=True
    )


class _StateColumn(ProgressColumn):
    """The column of the bar that shows the state, as wide as the terminal allows."""

    def __init__(self, display: Display) -> None:
        super().__init__(Column(no_wrap=True))
        self.display = display

    def render(self, task: Task) -> Text:
        return Text(
            self.display.format_state(self.display.console.width - SPINNER_WIDTH), no_wrap=True
        )


def _shorten_number(number: int) -> str:
    for unit, least, size in (("M", 1e6, 1e6), ("k", 1e4, 1e3)):
        if number >= least:
            return f"{number / size:.1f}{unit}"
    return str(number)


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, left = divmod(minutes, 60)
    return f"{hours}:{left:02d}:{rest:02d}" if hours else f"{left}:{rest:02d}"

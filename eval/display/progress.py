"""The progress of a run: a bar on a terminal, plain lines in a log file."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

EVERY = 10.0  # seconds between two lines of a log file
VERDICTS = ("right", "wrong", "unreadable", "failed", "hidden")


class Display:
    """Records done, verdicts, tokens, rate and remaining time; a thread-safe context manager.

    `tokens` gives tokens in and out so far. On a terminal it is a live bar; anywhere else a line is printed at
    the start of the work, every ten seconds, and at the end.
    """

    def __init__(self, console: Console, total: int, tokens: Callable[[], tuple[int, int]]) -> None:
        self.console, self.total, self.tokens = console, total, tokens
        self.verdicts: Counter[str] = Counter()
        self.done, self.started, self.last = 0, time.monotonic(), 0.0
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Display:
        self.started = time.monotonic()
        if self.console.is_terminal:
            self._bar = Progress(
                SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}"),
                TimeRemainingColumn(), console=self.console, refresh_per_second=4,
            )  # fmt: skip
            self._task = self._bar.add_task("", total=self.total, said="")
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, said=self.said())
            self._bar.stop()
        else:
            self._line()

    def add(self, verdict: str) -> None:
        """One more record, with its verdict in small letters."""
        with self._lock:
            self.done += 1
            self.verdicts[verdict] += 1
            now = time.monotonic()
            due = now - self.last >= (0.2 if self._bar else EVERY)
            if due:
                self.last = now
        if due and self._bar is not None:
            self._bar.update(self._task, completed=self.done, said=self.said())
        elif due:
            self._line()

    def skip(self, number: int) -> None:
        """Take off so many records, which exist already."""
        with self._lock:
            self.total = max(0, self.total - number)
        if self._bar is not None:
            self._bar.update(self._task, total=self.total)

    def said(self) -> str:
        """The verdicts, the tokens and the rate in words."""
        counts = " ".join(f"{name} {self.verdicts[name]}" for name in VERDICTS if self.verdicts[name])
        sent, received = self.tokens()
        tokens = f" | tokens {_short(sent)} in {_short(received)} out" if sent or received else ""
        return f"{counts}{tokens} | {self._rate():.1f}/s"

    def _rate(self) -> float:
        return self.done / max(1e-9, time.monotonic() - self.started)

    def _line(self) -> None:
        left = (self.total - self.done) / self._rate() if self.done else 0.0
        eta = (
            f" | {_clock(left)} left"
            if self.done < self.total
            else f" | took {_clock(time.monotonic() - self.started)}"
        )
        self.console.print(f"{self.done}/{self.total} | {self.said()}{eta}", highlight=False, soft_wrap=True)


def _short(number: int) -> str:
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number / 1e3:.1f}k" if number >= 1e4 else str(number)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"

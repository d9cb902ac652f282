"""Terminal output of a run: the requests it will send, its progress, and where its time went."""

from __future__ import annotations

import heapq
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.table import Column
from rich.text import Text

from looktwice.eval.display.printable import make_text
from looktwice.eval.display.text_tables import format_cost
from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.runs.companions import Companion, RunContext
from looktwice.eval.runs.options import Done, Spending
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.pipelines.clock import Clock
from looktwice.pipelines.config.spec import Arm

MAX_NAMED_SAMPLES = 3  # samples that are named at the end
SlowSample = tuple[float, str, str]
"""Seconds over all stages, the sample's id, and the contestant."""


@dataclass(frozen=True)
class RunOutput:
    """A function that prints messages about a run to the user: as text, or with `json_lines` as
    lines of JSON for a program."""

    console: Console
    json_lines: bool = False

    def __call__(self, sentence: str) -> None:
        """Print a sentence, unless it is empty."""
        if not sentence:
            return
        if self.json_lines:
            print_json(self.console, {"event": "note", "text": sentence})
        else:
            self.console.print(make_text(sentence), highlight=False, soft_wrap=True)


@dataclass(eq=False)
class Announcement(Companion):
    """A companion that prints the requests that the run will send over a network.

    If another companion chooses the samples, it prints the upper bound and the requests for all
    samples. `count_cached_replies` returns their number.
    """

    output: RunOutput
    count_cached_replies: Callable[[], int]

    def begin(self, run: RunContext) -> None:
        """Store the run."""
        self.run = run

    def start(self, done: Done) -> None:
        """Print the announcement."""
        run = self.run
        if not any(getattr(model, "remote", False) for model in run.plan.models):
            return
        from looktwice.eval.runs.dry_run import announce_requests

        asked = announce_requests(
            run.plan, run.questions.planned_counts, done, self.count_cached_replies()
        )
        if asked and run.chooser:
            share = 100 * run.max_records / max(1, run.questions.count_records())
            whole = asked.removeprefix("about to send ")
            asked = (
                f"about to ask for at most {run.max_records:,} answers, {share:.0f} % of those"
                f" planned; all of them would need {whole}"
            )
        self.output(asked)


@dataclass(eq=False)
class ProgressDisplay(Companion):
    """A companion that shows the progress of a run and collects its slowest samples; `spent`
    returns tokens and cost so far."""

    output: RunOutput
    get_spending: Callable[[], Spending]
    slowest: list[SlowSample] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, run: RunContext) -> None:
        """Create the progress bar, `shown`."""
        self.shown = Display(
            self.output.console, run.max_records, self.get_spending, self.output.json_lines
        )

    def record(self, arm: Arm, row: SampleRow, record: Record, scored: ScoredRecord) -> None:
        """Show the verdict of a record."""
        slow = record.timings.get("total", 0.0), record.sample, arm.contestant
        with self.lock:
            self.slowest[:] = heapq.nlargest(MAX_NAMED_SAMPLES, [*self.slowest, slow])
        self.shown.add(scored.verdict.value)

    def skip(self, number: int) -> None:
        """Show records that existed already."""
        self.shown.skip(number)

    def print_times(self, clock: Clock) -> None:
        """Print where the time went, summed over threads, and the slowest samples. A terminal's
        space is left to the results, so only logs get these lines."""
        console, json_lines = self.output.console, self.output.json_lines
        if console.is_terminal and not json_lines:
            return
        if not self.slowest or not (shares := clock.list_shares()):
            return
        if json_lines:
            slow = [{"seconds": s, "sample": i, "contestant": name} for s, i, name in self.slowest]
            times = {"event": "times", "seconds": dict(clock.seconds), "slowest": slow}
            print_json(console, times)
            return
        kinds = _format_shares(shares)
        if len(stages := clock.list_stage_shares()) > 1:
            whole = _format_seconds(clock.elapsed)
            kinds += f"; wall time {whole}, by stage (stages overlap): {_format_shares(stages)}"
        slowest = ", ".join(
            f"{sample} of {name} {_format_seconds(s)}" for s, sample, name in self.slowest
        )
        self.output(f"time: {kinds}; slowest: {slowest}")


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _format_shares(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shares)


LOG_INTERVAL = 10.0  # seconds between two lines of a log

VERDICTS = ("right", "wrong", "unreadable", "failed", "hidden")

SPINNER_WIDTH = 12  # characters of a terminal's line reserved for spinner and bar


class Display:
    """A thread-safe display of records done, verdicts, tokens, cost, rate and remaining time.

    `get_spending` returns tokens and cost so far. On a terminal, the display is a live bar on one
    line. Elsewhere, it prints a line at the start, every ten seconds and at the end; with
    `json_lines`, as JSON.
    """

    def __init__(
        self,
        console: Console,
        total: int,
        get_spending: Callable[[], Spending],
        json_lines: bool = False,
    ) -> None:
        self.console, self.total, self.get_spending, self.json_lines = (
            console,
            total,
            get_spending,
            json_lines,
        )
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
        spent, rate = self.get_spending(), f"{self._compute_rate():.1f}/s" if self.done else ""
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
        print_json(self.console, {**state, **counts, **self.get_spending()._asdict()})


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

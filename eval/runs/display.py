"""What a run tells: what it is about to ask, how far it is, and where its time went."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from looktwice.eval.display.printable import cell
from looktwice.eval.display.progress import Display, Spent, print_json
from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.runs.companions import Companion, RunContext
from looktwice.eval.runs.options import Done
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.pipelines.clock import Clock
from looktwice.pipelines.config.spec import Arm

SLOWEST = 3  # samples that are named at the end
Slow = tuple[float, str, str]
"""Seconds of all stages, the sample, and the contestant."""


@dataclass(frozen=True)
class Voice:
    """Tells the user of a run: words, or with `json_lines` lines of JSON for a program."""

    console: Console
    json_lines: bool = False

    def __call__(self, sentence: str) -> None:
        """Tell a sentence, if there is anything to say."""
        if not sentence:
            return
        if self.json_lines:
            print_json(self.console, {"event": "note", "text": sentence})
        else:
            self.console.print(cell(sentence), highlight=False, soft_wrap=True)


@dataclass(eq=False)
class Announcement(Companion):
    """Says what will be asked, where anything is asked over a network; of a run whose samples are
    chosen, what its arms would ask of every sample. `cached` tells how many replies are known."""

    voice: Voice
    cached: Callable[[], int]

    def begin(self, run: RunContext) -> None:
        """Keep the run, whose plan is announced."""
        self.run = run

    def start(self, done: Done) -> None:
        """Say it."""
        run = self.run
        if not any(getattr(model, "remote", False) for model in run.plan.models):
            return
        from looktwice.eval.runs.dry_run import announce_requests

        asked = announce_requests(run.plan, run.questions.planned, done, self.cached())
        if asked and run.chooser:
            share = 100 * run.most / max(1, run.questions.total())
            asked = f"{run.most:,} answers at most, {share:.0f} % of all, which were {asked}"
        self.voice(asked)


@dataclass(eq=False)
class ProgressDisplay(Companion):
    """Shows how far the run is, and notes its slowest samples; `spent` says what was used."""

    voice: Voice
    spent: Callable[[], Spent]
    slowest: list[Slow] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, run: RunContext) -> None:
        """Make the bar, which is shown inside `shown`."""
        self.shown = Display(self.voice.console, run.most, self.spent, self.voice.json_lines)

    def record(self, arm: Arm, row: SampleRow, record: Record, scored: ScoredRecord) -> None:
        """Show its verdict."""
        slow = record.timings.get("total", 0.0), record.sample, arm.contestant
        with self.lock:
            self.slowest[:] = heapq.nlargest(SLOWEST, [*self.slowest, slow])
        self.shown.add(scored.verdict.value)

    def skip(self, number: int) -> None:
        """Show them as there."""
        self.shown.skip(number)

    def tell_times(self, clock: Clock) -> None:
        """Where the time went, of all threads together, and which samples took longest; in a log
        alone, as a terminal has room for what was found."""
        console, json_lines = self.voice.console, self.voice.json_lines
        if console.is_terminal and not json_lines:
            return
        if not self.slowest or not (shares := clock.shares()):
            return
        if json_lines:
            slow = [{"seconds": s, "sample": i, "contestant": name} for s, i, name in self.slowest]
            times = {"event": "times", "seconds": dict(clock.seconds), "slowest": slow}
            print_json(console, times)
            return
        kinds = _shares(shares)
        if len(stages := clock.stages()) > 1:
            kinds += (
                f"; wall time {_seconds(clock.whole)}, by stage (stages overlap): {_shares(stages)}"
            )
        slowly = ", ".join(f"{sample} of {name} {_seconds(s)}" for s, sample, name in self.slowest)
        self.voice(f"time: {kinds}; slowest: {slowly}")


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _shares(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shares)

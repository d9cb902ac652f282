"""Terminal output of a run: the requests it will send, its progress, and where its time went."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from looktwice.eval.display.printable import make_text
from looktwice.eval.display.progress import Display, Spending, print_json
from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.runs.companions import Companion, RunContext
from looktwice.eval.runs.options import Done
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
    samples. `cached` returns the number of cached replies.
    """

    output: RunOutput
    cached: Callable[[], int]

    def begin(self, run: RunContext) -> None:
        """Store the run."""
        self.run = run

    def start(self, done: Done) -> None:
        """Print the announcement."""
        run = self.run
        if not any(getattr(model, "remote", False) for model in run.plan.models):
            return
        from looktwice.eval.runs.dry_run import announce_requests

        asked = announce_requests(run.plan, run.questions.planned, done, self.cached())
        if asked and run.chooser:
            share = 100 * run.most / max(1, run.questions.total())
            whole = asked.removeprefix("about to send ")
            asked = (
                f"about to ask for at most {run.most:,} answers, {share:.0f} % of all; all would"
            )
            asked += f" need {whole}"
        self.output(asked)


@dataclass(eq=False)
class ProgressDisplay(Companion):
    """A companion that shows the progress of a run and collects its slowest samples; `spent`
    returns tokens and cost so far."""

    output: RunOutput
    spent: Callable[[], Spending]
    slowest: list[SlowSample] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, run: RunContext) -> None:
        """Create the progress bar, `shown`."""
        self.shown = Display(self.output.console, run.most, self.spent, self.output.json_lines)

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
            whole = _format_seconds(clock.total)
            kinds += f"; wall time {whole}, by stage (stages overlap): {_format_shares(stages)}"
        slowest = ", ".join(
            f"{sample} of {name} {_format_seconds(s)}" for s, sample, name in self.slowest
        )
        self.output(f"time: {kinds}; slowest: {slowest}")


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _format_shares(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shares)

"""Runs a plan with cache and limits around the models, a progress display, and a Ctrl-C that loses no records."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from looktwice.eval.display.printable import cell
from looktwice.eval.display.progress import Display
from looktwice.eval.records.records import Record, RunFolder, SampleRow
from looktwice.eval.records.writer import RunWriter
from looktwice.eval.runs.dry_run import Done, announce_requests
from looktwice.eval.runs.models import RunModels
from looktwice.eval.runs.predict import Run, RunOptions, RunSummary, changed_plugins
from looktwice.eval.scoring.score import RecordScorer, ScoringTools
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.models.http_client import http_loop
from looktwice.pipelines.runtime.networks import close_networks
from looktwice.pipelines.runtime.stores import use_result_store

TOGETHER = 0.5  # seconds


@dataclass(frozen=True)
class Study:
    """Runs a plan into `out/<name>`.

    `cache` is the folder of the reply store (None: `out/.cache`); `fresh` moves an earlier run of the name aside;
    `only_cached` calls no server. Raises RunError, TaskError, CacheError.
    """

    plan: Plan
    out: Path = Path("runs")
    options: RunOptions = field(default_factory=RunOptions)
    cache: Path | None = None
    fresh: bool = False
    only_cached: bool = False
    console: Console = field(default_factory=lambda: Console(stderr=True))

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.out / self.plan.name

    def __call__(self) -> RunSummary:
        """Run everything that has no record yet, and close every model."""
        if self.fresh and self.folder.exists():
            with RunWriter(self.folder):  # takes the lock: the folder of a running study must not be moved
                now = f"{self.plan.name}.{time.strftime('%Y%m%d-%H%M%S')}"
                names = (now, *(f"{now}-{number}" for number in range(2, 100)))  # several in one second
                aside = next(path for name in names if not (path := self.folder.with_name(name)).exists())
                self.folder.rename(aside)
            self.console.print(cell(f"the earlier run was moved to {aside}"))
        scorers = ScoringTools(RunFolder(self.folder), self.plan).of_plan  # its faults come before the first request
        run = Run(self.plan, self.folder, self.options)
        models = RunModels(run, self.cache or self.out / ".cache", self.only_cached)
        run.wrap = models.wrap
        for sentence in changed_plugins(RunFolder(self.folder).facts, self.plan.plugins):
            self.console.print(cell(sentence), highlight=False, soft_wrap=True)
        display = Display(self.console, run.total(), models.spent)
        run.on_record = _score_for_display(display, scorers)
        run.on_skipped = display.skip
        run.on_begin = lambda done: self._announce(run, models, done)
        try:
            results = use_result_store((self.cache or self.out / ".cache") / "findings")
            with results, display, _handle_interrupts(run, self.console):
                summary = run()
            for sentence in models.remarks():
                self.console.print(cell(sentence), highlight=False, soft_wrap=True)
            return summary
        finally:
            models.close()
            close_networks()

    def _announce(self, run: Run, models: RunModels, done: Done) -> None:
        if not self.only_cached and (said := announce_requests(self.plan, run.planned, done, models.cached)):
            self.console.print(cell(said), highlight=False, soft_wrap=True)


def _score_for_display(
    display: Display, scorers: Mapping[str, RecordScorer]
) -> Callable[[Arm, SampleRow, Record], None]:
    def show_verdict(arm: Arm, row: SampleRow, record: Record) -> None:
        display.add(scorers[arm.id](record, row).verdict.value)

    return show_verdict


@contextmanager
def _handle_interrupts(run: Run, console: Console) -> Iterator[None]:
    """Ctrl-C, and the signals of a scheduler and of a closed terminal.

    At the first, no request leaves any more, but those on their way end; the second gives them up, the third exits
    immediately. Those that come together are one: `timeout` sends its own to the process and to its group.
    """
    last = -TOGETHER

    def interrupt(number: int, frame: Any) -> None:
        nonlocal last
        if time.monotonic() - last < TOGETHER:
            return
        last = time.monotonic()
        if run.stop.is_set():
            os._exit(130)
        if run.drain.is_set():
            run.stop.set()
            http_loop().cancel()
            said = "stopping now; the same command resumes the run later"
        else:
            run.drain.set()
            said = "asking no more; what is on its way ends and is kept; Ctrl-C again stops at once"
        with suppress(OSError):  # the terminal may be gone
            console.print(cell(said))  # a plain text would import more, in the middle of another import

    before: dict[int, Any] = {}
    try:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and (name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN):  # nohup
                before[number] = signal.signal(number, interrupt)
    except ValueError:  # not the main thread, which alone may set signal handlers
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

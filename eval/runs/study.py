"""Runs a plan with cache, limits and a progress display, and loses no records on Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console

from looktwice.eval.records.records import RunFolder
from looktwice.eval.records.writer import RunWriter
from looktwice.eval.runs.companions import Companion, Executor, Models
from looktwice.eval.runs.display import Announcement, ProgressDisplay, RunOutput
from looktwice.eval.runs.options import RunOptions, RunSummary
from looktwice.eval.runs.provenance import find_changed_plugins
from looktwice.eval.runs.run import Run
from looktwice.eval.runs.trial import Progress
from looktwice.eval.scoring.notes import COST_FILE
from looktwice.eval.tasks.base import prefix_task_errors
from looktwice.pipelines.clock import run_clock
from looktwice.pipelines.config.load import find_extension_keys
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.extensions import find_extension
from looktwice.pipelines.runtime.process import (
    ENDING_SIGNALS,
    cancel_waits,
    free_resources,
    get_exit_code,
)
from looktwice.pipelines.runtime.stores import use_result_store

SIGNAL_INTERVAL = 0.5  # seconds within which signals count as one
PROCESSES_VARIABLE = "LOOKTWICE_PROCESSES"
"""The environment variable for the number of processes; if it is not set, the run decides."""
MIN_PARALLEL_RECORDS = 500  # from which starting other processes may pay off


@dataclass(frozen=True)
class Study:
    """Runs a plan into `out/<name>`.

    `cache` is the folder of the reply cache (None: `out/.cache`); `fresh` moves an earlier run of
    the same name aside; `only_cached` calls no server. `companions` take part in the run (None:
    those that the study's keys create). The `executor` runs the trials; without one, threads do, or
    in a long run the processes of an extension. With `json_lines`, progress and remarks are lines
    of JSON for a program. With `may_fork`, the run may fork this process. Raises RunError,
    TaskError, CacheError.
    """

    plan: Plan
    out: Path = Path("runs")
    options: RunOptions = field(default_factory=RunOptions)
    cache: Path | None = None
    fresh: bool = False
    only_cached: bool = False
    console: Console = field(default_factory=lambda: Console(stderr=True))
    json_lines: bool = False
    companions: Sequence[Companion] | None = None
    executor: Executor | None = None
    may_fork: bool = False

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.out / self.plan.name

    @property
    def say(self) -> RunOutput:
        """The function that prints a message to the user."""
        return RunOutput(self.console, self.json_lines)

    def __call__(self) -> RunSummary:
        """Run everything that has no record yet, and close every model."""
        if self.fresh and self.folder.exists():
            self._move_aside()
        # find faults of the tasks before the first request
        for arm in self.plan.points:
            with prefix_task_errors(arm.task_name):
                arm.task.facts  # noqa: B018  reads the table
        progress = Progress()
        models, ledgers = self._open_models(progress)
        display = ProgressDisplay(self.say, models.get_spending)
        chosen = make_companions(self.plan) if self.companions is None else self.companions
        companions = [*chosen, *ledgers, display]
        if not self.only_cached:
            companions.append(Announcement(self.say, lambda: models.cached_reply_count))
        run = Run(self.plan, self.folder, self.options, models, companions, progress=progress)
        run.scorers  # noqa: B018  finds faults of readers, too
        run.executor = self.executor or self._find_executor(run)
        for sentence in find_changed_plugins(RunFolder(self.folder).facts, self.plan.plugins):
            self.say(sentence)
        try:
            run.begin()
            results = use_result_store(models.cache / "findings")
            with run_clock() as clock, results, display.shown, _handle_interrupts(run, self.say):
                summary = run()
            for sentence in models.list_remarks():
                self.say(sentence)
            display.print_times(clock)
        finally:
            run.executor.close()
            for companion in companions:
                companion.close()
            models.close()
            free_resources()
            self._allow_folder()
        lines = [line for companion in companions for line in companion.end(self, summary)]
        return replace(summary, lines=lines)

    def _find_executor(self, run: Run) -> Executor:
        """Return the default executor, or, in a long run whose models other processes may call, the
        extension's executor `processes`."""
        asked = self.plan.models
        is_long = (
            PROCESSES_VARIABLE in os.environ
            or run.questions.count_records() >= MIN_PARALLEL_RECORDS
        )
        may_go = asked and not run.chooser and all(getattr(m, "multiprocess", False) for m in asked)
        extension = find_extension("parts", "processes") if is_long and may_go else None
        if extension is None:
            return Executor()
        executor: Executor = extension.open()(may_fork=self.may_fork)
        return executor

    def _move_aside(self) -> None:
        # the writer takes the lock: the folder of a running study must not be moved
        with RunWriter(self.folder):
            now = f"{self.plan.name}.{time.strftime('%Y%m%d-%H%M%S')}"
            for number in count(1):  # several in one second
                aside = self.folder.with_name(now if number == 1 else f"{now}-{number}")
                if not aside.exists():
                    break
            self.folder.rename(aside)
        self.say(f"the earlier run was moved to {aside}")

    def _allow_folder(self) -> None:
        """Allow the run's folder to read what its study may read, so that `view` and other commands
        do not ask again."""
        if (self.folder / "points.yaml").is_file():
            with suppress(OSError):  # then the user is asked again
                self.plan.copy_grants_to(self.folder)

    def _open_models(self, progress: Progress) -> tuple[Models, list[Companion]]:
        """Return the models, and a ledger of their cost if any is called over a network. Raises
        RunError."""
        cache, asked = self.cache or self.out / ".cache", self.plan.models
        if not any(getattr(model, "remote", False) for model in asked):
            return Models(progress, cache, self.only_cached, self.say), []
        from looktwice.eval.runs.run_models import Ledger, RunModels, limit_requests

        models = RunModels(progress, cache, self.only_cached, self.say)
        ledger = Ledger(self.folder / COST_FILE, models)
        limit_requests(models, ledger, asked, self.options)
        return models, [ledger]


def make_companions(plan: Plan) -> list[Companion]:
    """Return the companions that the keys of a study create for its run. Raises RunError."""
    config = plan.config
    made = (
        key.make_companion(config[name], plan) for name, key in find_extension_keys(config).items()
    )
    return [companion for companion in made if companion is not None]


@contextmanager
def _handle_interrupts(run: Run, say: Callable[[str], None]) -> Iterator[None]:
    """Handle Ctrl-C, and the signals of a scheduler and of a closed terminal.

    The first signal stops new requests and waits for those in flight; the second abandons these;
    the third exits immediately. Signals in quick succession count as one, because `timeout` signals
    both the process and its group.
    """
    last = -SIGNAL_INTERVAL

    def interrupt(number: int, frame: Any) -> None:
        nonlocal last
        if time.monotonic() - last < SIGNAL_INTERVAL:
            return
        last = time.monotonic()
        run.progress.signal = number
        if run.progress.stop.is_set():
            os._exit(get_exit_code(number))
        if run.progress.drain.is_set():
            run.progress.stop.set()
            cancel_waits()
            sentence = "stopping now; the same command resumes the run"
        else:
            run.progress.drain.set()
            sentence = (
                "stopping: no new requests; waiting for those in flight (Ctrl-C again to abort)"
            )
        with suppress(OSError):  # the terminal may be gone
            say(sentence)

    before: dict[int, Any] = {}
    # the main thread alone may set signal handlers
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", *ENDING_SIGNALS):
            number = getattr(signal, name, None)
            if number is None or (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
                continue  # nohup
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Runs a plan with cache and limits around the models, a progress display, and a Ctrl-C that loses
no records."""

from __future__ import annotations

import heapq
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console

from looktwice.eval.display.printable import cell
from looktwice.eval.display.progress import Display, print_json
from looktwice.eval.records.records import Record, RunError, RunFolder, SampleRow
from looktwice.eval.records.writer import RunWriter
from looktwice.eval.runs.dry_run import Done, announce_requests, name_of
from looktwice.eval.runs.elsewhere.processes import Processes
from looktwice.eval.runs.made_with import Ledger, RunModels, changed_plugins, price
from looktwice.eval.runs.predict import Run, RunOptions, RunSummary
from looktwice.eval.runs.steering import Steering
from looktwice.eval.scoring.notes import SPENT
from looktwice.eval.scoring.score import ScoringTools
from looktwice.eval.tasks.base import at_task
from looktwice.pipelines.clock import Clock, run_clock
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.models.batched.model import Batched
from looktwice.pipelines.models.http_client import http_loop
from looktwice.pipelines.models.limits import Ration
from looktwice.pipelines.runtime.networks import close_networks
from looktwice.pipelines.runtime.signals import ENDING, exit_code
from looktwice.pipelines.runtime.stores import use_result_store

TOGETHER = 0.5  # seconds
SLOWEST = 3  # samples that are named at the end
Slow = tuple[float, str, str]
"""Seconds of all stages, the sample, and the contestant."""


@dataclass(frozen=True)
class Study:
    """Runs a plan into `out/<name>`.

    `cache` is the folder of the reply store (None: `out/.cache`); `fresh` moves an earlier run of
    the name aside; `only_cached` calls no server. `on` is "ray" or "ray://HOST:PORT" for a run by
    tasks of Ray, with so many `gpus` for each actor that holds networks. `steering` chooses what is
    asked. With `json_lines` progress and remarks are lines of JSON, for a program. With `may_fork`
    forks of this process may ask for the run. Raises RunError, TaskError, CacheError.
    """

    plan: Plan
    out: Path = Path("runs")
    options: RunOptions = field(default_factory=RunOptions)
    cache: Path | None = None
    fresh: bool = False
    only_cached: bool = False
    console: Console = field(default_factory=lambda: Console(stderr=True))
    on: str = ""
    gpus: float = 0.0
    json_lines: bool = False
    steering: Steering | None = None
    may_fork: bool = False

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.out / self.plan.name

    def __call__(self) -> RunSummary:
        """Run everything that has no record yet, and close every model."""
        if self.fresh and self.folder.exists():
            self._move_aside()
        # its faults come before the first request
        for arm in self.plan.points:
            with at_task(arm.task_name):
                arm.task.facts  # noqa: B018  reads the table
        scorers = ScoringTools(RunFolder(self.folder), self.plan).of_plan
        cache = self.cache or self.out / ".cache"
        run = self._make_run(cache)
        models = RunModels(run.progress, cache, self.only_cached, say=self.say)
        ledger = Ledger(self.folder / SPENT, models)
        models.ration = self._ration(models, ledger)
        run.wrap = models.wrap
        if any(isinstance(model, Batched) for model in self.plan.models):
            run.collect = models.collect
        for sentence in changed_plugins(RunFolder(self.folder).facts, self.plan.plugins):
            self.say(sentence)
        most = run.total()
        if self.steering is not None:
            self.steering.begin(run, scorers)
            most = self.steering.most
        display = Display(self.console, most, models.spent, self.json_lines)
        slowest = list[Slow]()
        lock = threading.Lock()

        def show_verdict(arm: Arm, row: SampleRow, record: Record) -> None:
            slow = record.timings.get("total", 0.0), record.sample, arm.contestant
            with lock:
                slowest[:] = heapq.nlargest(SLOWEST, [*slowest, slow])
                ledger.write_now_and_then()
            scored = scorers[arm.id](record, row)
            display.add(scored.verdict.value)
            if self.steering is not None:
                self.steering.take(arm, scored)

        run.on_record = show_verdict
        run.on_skipped = display.skip
        processes = Processes(run, most, models, cache, self.say, self.may_fork)
        run.elsewhere = processes
        if not self.only_cached:
            run.on_begin = partial(self._announce, run, most, models)
        try:
            results = use_result_store(cache / "findings")
            with run_clock() as clock, results, display, _handle_interrupts(run, self.say):
                summary = run()
            for sentence in models.remarks():
                self.say(sentence)
            self._say_times(clock, slowest)
            return summary
        finally:
            processes.close()
            ledger.write()
            models.close()
            close_networks()
            self._allow_folder()

    def _announce(self, run: Run, most: int, models: RunModels, done: Done) -> None:
        """Say what will be asked, and of a run that is steered, what its arms would ask of every
        sample."""
        asked = announce_requests(self.plan, run.planned, done, models.cached)
        if asked and self.steering is not None:
            share = 100 * most / max(1, run.total())
            asked = f"{most:,} answers at most, {share:.0f} % of all, which were {asked}"
        self.say(asked)

    def _move_aside(self) -> None:
        # takes the lock: the folder of a running study must not be moved
        with RunWriter(self.folder):
            now = f"{self.plan.name}.{time.strftime('%Y%m%d-%H%M%S')}"
            for number in count(1):  # several in one second
                aside = self.folder.with_name(now if number == 1 else f"{now}-{number}")
                if not aside.exists():
                    break
            self.folder.rename(aside)
        self.say(f"the earlier run was moved to {aside}")

    def _allow_folder(self) -> None:
        """Let the run read what its study read, so that `view` and the others do not ask again."""
        if (self.folder / "points.yaml").is_file():
            with suppress(OSError):  # it is asked for again
                self.plan.allow_as_this(self.folder)

    def _make_run(self, cache: Path) -> Run:
        if not self.on:
            return Run(self.plan, self.folder, self.options)
        from looktwice.eval.runs.elsewhere.on_ray import RayRun, parse_place

        return RayRun(
            self.plan,
            self.folder,
            self.options,
            address=parse_place(self.on),
            gpus=self.gpus,
            cache=cache,
            only_cached=self.only_cached,
        )

    def _ration(self, models: RunModels, ledger: Ledger) -> Ration:
        """What may be asked. Raises RunError for a budget where a model has no prices."""
        budget, most = None if self.only_cached else self.options.budget, self.options.max_requests
        bounded = not self.only_cached and (budget, most) != (None, None)
        if bounded and any(isinstance(model, Batched) for model in self.plan.models):
            raise RunError(
                "--budget and --max-requests cannot bound what is asked in batches; bound it with"
                " --limit"
            )
        for model in self.plan.models if budget is not None else ():
            if getattr(model, "remote", False) and not getattr(model, "prices", None):
                raise RunError(
                    f"--budget: {name_of(model)} has no prices; give it `prices: {{in: 0.15, out:"
                    " 0.6}`, per million"
                )

        return Ration(
            most,
            budget,
            price,
            uncounted=lambda: next(models.uncounted(), ""),
            give_up=models.progress.give_up,
            spent=ledger.before,
            dearest=ledger.dearest,
        )

    def say(self, sentence: str) -> None:
        """Tell the user, if there is anything to say."""
        if not sentence:
            return
        if self.json_lines:
            print_json(self.console, {"event": "note", "text": sentence})
        else:
            self.console.print(cell(sentence), highlight=False, soft_wrap=True)

    def _say_times(self, clock: Clock, slowest: Sequence[Slow]) -> None:
        """Where the time went, of all threads together, and which samples took longest; in a log
        alone, as a terminal has room for what was found."""
        if self.console.is_terminal and not self.json_lines:
            return
        if not slowest or not (shares := clock.shares()):
            return
        if self.json_lines:
            slow = [{"seconds": s, "sample": i, "contestant": name} for s, i, name in slowest]
            times = {"event": "times", "seconds": dict(clock.seconds), "slowest": slow}
            print_json(self.console, times)
            return
        kinds = ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shares)
        if len(stages := clock.stages()) > 1:
            beside = ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in stages)
            kinds += f"; beside one another, of {clock.whole:.2g} s: {beside}"
        slowly = ", ".join(f"{sample} of {name} {s:.2g} s" for s, sample, name in slowest)
        self.say(f"time: {kinds}; slowest: {slowly}")


@contextmanager
def _handle_interrupts(run: Run, say: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C, and the signals of a scheduler and of a closed terminal.

    At the first, no request leaves any more, but those on their way end; the second gives them up,
    the third exits immediately. Those that come together are one: `timeout` sends its own to the
    process and to its group.
    """
    last = -TOGETHER

    def interrupt(number: int, frame: Any) -> None:
        nonlocal last
        if time.monotonic() - last < TOGETHER:
            return
        last = time.monotonic()
        run.progress.signal = number
        if run.progress.stop.is_set():
            os._exit(exit_code(number))
        if run.progress.drain.is_set():
            run.progress.stop.set()
            http_loop().cancel()
            sentence = "stopping now; the same command resumes the run later"
        else:
            run.progress.drain.set()
            sentence = (
                "asking no more; what is on its way ends and is kept; Ctrl-C again stops at once"
            )
        with suppress(OSError):  # the terminal may be gone
            say(sentence)

    before: dict[int, Any] = {}
    # the main thread alone may set signal handlers
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", *ENDING):
            number = getattr(signal, name, None)
            if number is None or (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
                continue  # nohup
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

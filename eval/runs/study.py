"""Runs a plan with cache and limits around the models, a progress display, and a Ctrl-C that loses
no records."""

from __future__ import annotations

import heapq
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from looktwice.eval.display.printable import cell
from looktwice.eval.display.progress import Display, print_json
from looktwice.eval.records.records import Record, RunError, RunFolder, SampleRow
from looktwice.eval.records.writer import RunWriter
from looktwice.eval.runs.dry_run import Done, announce_requests
from looktwice.eval.runs.made_with import changed_plugins
from looktwice.eval.runs.models import RunModels
from looktwice.eval.runs.predict import Run, RunOptions, RunSummary
from looktwice.eval.runs.steering import Steering
from looktwice.eval.scoring.score import RecordScorer, price_of
from looktwice.eval.scoring.score_run import ScoringTools
from looktwice.pipelines.clock import Clock, run_clock
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.paths import allow, allowed_to
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.model import Usage
from looktwice.pipelines.models.batched.model import Batched
from looktwice.pipelines.models.http_client import http_loop
from looktwice.pipelines.models.limits import Ration
from looktwice.pipelines.runtime.networks import close_networks
from looktwice.pipelines.runtime.stores import use_result_store

TOGETHER = 0.5  # seconds
SLOWEST = 3  # samples that are named at the end
Slow = tuple[float, str, str]
"""Seconds of all stages, the sample, and the contestant."""


@dataclass(eq=False)
class Ledger:
    """What a run has cost in all, in a file of its folder, so that a later command with a budget
    knows.

    It is written each second while records come, and at the end: a kill forgets at most the last
    second. Below the sum stands the dearest call of each model. `models` know what this command
    has paid.
    """

    path: Path
    models: RunModels
    before: float = 0.0
    dearest: dict[str, float] = field(default_factory=dict)
    written: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        with suppress(OSError, ValueError, IndexError):
            cost, _, dearest = self.path.read_text(encoding="utf-8").partition("\n")
            self.before = float(cost.split()[0])
            self.dearest = json.loads(dearest or "{}")

    def write_now_and_then(self) -> None:
        """Write, if the last time was a second ago."""
        if time.monotonic() - self.written >= 1:
            self.write()

    def write(self) -> None:
        """Write what the run has cost up to now, if anything."""
        self.written = time.monotonic()
        if (cost := self.models.spent().cost) and self.path.parent.is_dir():
            with suppress(OSError):
                dearest = json.dumps(dict(self.models.ration.dearest))
                write_file(self.path, f"{self.before + cost:.9f}\n{dearest}\n")


@dataclass(frozen=True)
class Study:
    """Runs a plan into `out/<name>`.

    `cache` is the folder of the reply store (None: `out/.cache`); `fresh` moves an earlier run of
    the name aside; `only_cached` calls no server. `on` is "ray" or "ray://HOST:PORT" for a run by
    tasks of Ray, with so many `gpus` for each actor that holds networks. `steering` chooses what is
    asked. With `json_lines` progress and remarks are lines of JSON, for a program. Raises RunError,
    TaskError, CacheError.
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

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.out / self.plan.name

    def __call__(self) -> RunSummary:
        """Run everything that has no record yet, and close every model."""
        if self.fresh and self.folder.exists():
            # takes the lock: the folder of a running study must not be moved
            with RunWriter(self.folder):
                now = f"{self.plan.name}.{time.strftime('%Y%m%d-%H%M%S')}"
                # several in one second
                names = (now, *(f"{now}-{number}" for number in range(2, 100)))
                aside = next(
                    path for name in names if not (path := self.folder.with_name(name)).exists()
                )
                self.folder.rename(aside)
            self.say(f"the earlier run was moved to {aside}")
        scorers = ScoringTools(
            RunFolder(self.folder), self.plan
        ).of_plan  # its faults come before the first request
        run = self._make_run()
        models = RunModels(run, self.cache or self.out / ".cache", self.only_cached)
        ledger = Ledger(self.folder / ".spent", models)
        models.ration = self._ration(run, models, ledger)
        run.wrap, models.say = models.wrap, self.say
        for sentence in changed_plugins(RunFolder(self.folder).facts, self.plan.plugins):
            self.say(sentence)
        if self.steering is not None:
            self.steering.begin(run, scorers)
        most = self.steering.most if self.steering else run.total()
        display = Display(self.console, most, models.spent, self.json_lines)
        slowest = list[Slow]()
        run.on_record = _score_for_display(display, scorers, slowest, ledger, self.steering)
        run.on_skipped = display.skip
        run.on_begin = lambda done: self._announce(run, models, done)
        try:
            results = use_result_store((self.cache or self.out / ".cache") / "findings")
            with run_clock() as clock, results, display, _handle_interrupts(run, self.say):
                summary = run()
            for sentence in models.remarks():
                self.say(sentence)
            self._say_times(clock, slowest)
            return summary
        finally:
            ledger.write()
            models.close()
            close_networks()
            self._allow_folder()

    def _allow_folder(self) -> None:
        """Let the run read what its study may, so that `show` and the others need no word about
        it."""
        reads, points = (
            allowed_to(self.plan.source) if self.plan.source else (),
            self.folder / "points.yaml",
        )
        if reads and points.is_file():
            with suppress(OSError):  # it is asked for again
                allow(self.folder, [points], reads)

    def _make_run(self) -> Run:
        if not self.on:
            return Run(self.plan, self.folder, self.options)
        from looktwice.eval.runs.on_ray import RayRun, parse_place

        cache = self.cache or self.out / ".cache"
        return RayRun(
            self.plan,
            self.folder,
            self.options,
            address=parse_place(self.on),
            gpus=self.gpus,
            cache=cache,
            only_cached=self.only_cached,
        )

    def _ration(self, run: Run, models: RunModels, ledger: Ledger) -> Ration:
        """What may be asked. Raises RunError for a budget where a model has no prices."""
        budget = self.options.budget
        bounded = budget is not None or self.options.max_requests is not None
        if (
            bounded
            and not self.only_cached
            and any(isinstance(model, Batched) for model in self.plan.models)
        ):
            raise RunError(
                "--budget and --max-requests cannot bound what is asked in batches; bound it with"
                " --limit"
            )
        budget = None if self.only_cached else budget
        for model in self.plan.models if budget is not None else ():
            if getattr(model, "remote", False) and not getattr(model, "prices", None):
                name = getattr(model, "model", type(model).__name__)
                raise RunError(
                    f"--budget: {name} has no prices; give it `prices: {{in: 0.15, out: 0.6}}`, per"
                    " million"
                )

        def price(model: Any, usage: Usage) -> float:
            return price_of(usage, model.prices) if getattr(model, "prices", None) else 0.0

        return Ration(
            self.options.max_requests,
            budget,
            price,
            uncounted=lambda: next(models.uncounted(), ""),
            give_up=run.progress.give_up,
            spent=ledger.before,
            dearest=ledger.dearest,
        )

    def _announce(self, run: Run, models: RunModels, done: Done) -> None:
        if self.only_cached or self.steering:
            return
        if said := announce_requests(self.plan, run.planned, done, models.cached):
            self.say(said)

    def say(self, sentence: str) -> None:
        """Tell the user."""
        if self.json_lines:
            print_json(self.console, {"event": "note", "text": sentence})
        else:
            self.console.print(cell(sentence), highlight=False, soft_wrap=True)

    def _say_times(self, clock: Clock, slowest: Sequence[Slow]) -> None:
        """Where the time went, of all threads together, and which samples took longest."""
        if not slowest or not (shares := clock.shares()):
            return
        if self.json_lines:
            slow = [
                {"sample": sample, "contestant": name, "seconds": seconds}
                for seconds, sample, name in slowest
            ]
            print_json(
                self.console, {"event": "times", "seconds": dict(clock.seconds), "slowest": slow}
            )
            return
        kinds = ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shares)
        slowly = ", ".join(
            f"{sample} of {contestant} {seconds:.2g} s" for seconds, sample, contestant in slowest
        )
        self.say(f"time: {kinds}; slowest: {slowly}")


def _score_for_display(
    display: Display,
    scorers: Mapping[str, RecordScorer],
    slowest: list[Slow],
    ledger: Ledger,
    steering: Steering | None = None,
) -> Callable[[Arm, SampleRow, Record], None]:
    lock = threading.Lock()

    def show_verdict(arm: Arm, row: SampleRow, record: Record) -> None:
        with lock:
            slowest[:] = heapq.nlargest(
                SLOWEST,
                [*slowest, (record.timings.get("total", 0.0), record.sample, arm.contestant)],
            )
            ledger.write_now_and_then()
        scored = scorers[arm.id](record, row)
        display.add(scored.verdict.value)
        if steering is not None:
            steering.take(arm, scored)

    return show_verdict


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
        if run.progress.stop.is_set():
            os._exit(130)
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
    try:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            # nohup
            if number is not None and (
                name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN
            ):
                before[number] = signal.signal(number, interrupt)
    except ValueError:  # not the main thread, which alone may set signal handlers
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

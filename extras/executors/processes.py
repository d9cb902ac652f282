"""The main process of a run that uses several worker processes, each with its own threads, because
the threads of one Python interpreter run one at a time.

The processes share the cache, the endpoint limits and the pictures' folder. The run makes the
questions, writes and scores all records, and takes over the samples of a process that has died.
"""

from __future__ import annotations

import math
import os
import pickle
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.eval.records.writer import RunWriter
from looktwice.eval.runs.companions import Executor, RunContext, RunStart
from looktwice.eval.runs.run_models import Tally
from looktwice.eval.runs.trial import Trial
from looktwice.extras.executors.messages import (
    DRAIN,
    END,
    STOP,
    RecordMade,
    SampleEnded,
    SampleRequest,
    Setup,
    pickle_message,
    receive_message,
)
from looktwice.extras.executors.process import Process, is_safe_to_fork
from looktwice.pipelines.clock import add_seconds
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import get_public_path
from looktwice.pipelines.model import is_deferring
from looktwice.pipelines.models.limits import DEFAULT_IN_FLIGHT
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.runtime.process import limit_heaps

PROCESSES_VARIABLE = "LOOKTWICE_PROCESSES"
"""The environment variable that sets the number of processes; if it is not set, the run decides."""
MAX_PROCESSES = 4  # more processes would ask faster than the run writes and scores
MIN_RECORDS = 500  # minimum records of a run with worker processes
MIN_WORKERS = 32  # minimum threads with which one interpreter may be too slow
MIN_THREADS_PER_PROCESS = 8  # minimum threads of each process
MIN_WAITING_SAMPLES = 4  # minimum samples queued in a process, waiting for a free thread
SENDABLE_PACKAGES = ("looktwice.prompting.", "looktwice.pipelines.")
"""Packages with the classes of stages and models that other processes may run. Networks stay with
the run, and only the run has loaded plugins."""
DRAWING_PACKAGES = ("markers", "grids", "views", "controls", "burnt_in")
"""The packages of `prompting` whose stages draw pictures."""
STOP_CHECK_INTERVAL = 0.2  # seconds between checks whether the run is being stopped
STOP_TIMEOUT = 10.0  # seconds for a process to end after the order to stop at once
START_TIMEOUT = 120.0  # seconds for a process to become ready once there are samples
SENDING_ERRORS = (PictureError, TypeError, AttributeError, pickle.PicklingError)


def has_own_classes(value: Any) -> bool:
    """Return whether a stage, model or setting consists only of looktwice's own classes and plain
    values."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, f.name) for f in fields(value)]
        return type(value).__module__.startswith(SENDABLE_PACKAGES) and all(
            map(has_own_classes, inner)
        )
    if isinstance(value, Mapping):
        return all(map(has_own_classes, (*value.keys(), *value.values())))
    if isinstance(value, tuple | list | frozenset):
        return all(map(has_own_classes, value))
    return value is None or isinstance(value, str | bytes | int | float | Path | np.ndarray)


def list_usable_cores() -> list[int]:
    """Return the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return [*range(os.cpu_count() or 1)]


def count_processes(run: RunContext, records: int) -> int:
    """Return the number of processes for a run of `records` records; 0 for a run that should not
    use any."""
    options, plan, given = run.options, run.plan, os.environ.get(PROCESSES_VARIABLE, "")
    stages = [stage for arm in plan.points for stage in arm.stages.values()]
    is_bounded = options.budget is not None or options.max_requests is not None
    # OpenTelemetry, if active, needs a span of every stage in this process
    is_watched = "opentelemetry.trace" in sys.modules
    if run.chooser or is_bounded or is_watched or not plan.models:
        return 0
    for model in plan.models:
        if is_deferring(model) or not getattr(model, "multiprocess", False):
            return 0
    if not all(map(has_own_classes, (*stages, *plan.models))):
        return 0
    calls = min(getattr(model, "in_flight", DEFAULT_IN_FLIGHT) for model in plan.models)
    if given.isdecimal():
        return min(int(given), calls)
    rooms = {get_public_path(type(stage)).split(".")[1] for stage in stages}
    if records < MIN_RECORDS or (
        options.workers < MIN_WORKERS and rooms.isdisjoint(DRAWING_PACKAGES)
    ):
        return 0
    number = min(
        len(list_usable_cores()),
        MAX_PROCESSES,
        options.workers // MIN_THREADS_PER_PROCESS,
        calls // MIN_THREADS_PER_PROCESS,
    )
    return number if number > 1 else 0


@dataclass(eq=False)
class Processes(Executor):
    """Runs trials in worker processes, if `count_processes` asks for any.

    Usage tallies of the processes are added to the run's models, and a process that dies is
    reported. `may_fork` means that this process is a command that has not yet used anything that
    would fail in a fork. `returned_trials` are samples to send again, or to leave to the run if no
    process is left; `unsent_trials` are samples that could not be pickled.
    """

    may_fork: bool = False
    processes: list[Process] = field(default_factory=list)
    returned_trials: deque[Trial] = field(default_factory=deque)
    unsent_trials: list[Trial] = field(default_factory=list)
    take_lock: threading.Lock = field(default_factory=threading.Lock)
    sample_numbers: Iterator[int] = field(default_factory=count)
    begin_time: float = 0.0
    last_running: float = 0.0

    def start(self, run: RunContext) -> None:
        """Start the processes before the first question, unless an earlier run may have left
        nothing to ask."""
        if run.models is None:
            raise TypeError(
                "processes share the reply cache of the run's `Models`; this run has none"
            )
        self.run, self.models = run, run.models
        self.arms = {arm.id: arm for arm in run.plan.points}
        if not (run.folder / "records.jsonl").exists():
            self.begin()

    def begin(self) -> None:
        """Start the processes, so that they are ready when the first question is."""
        number = count_processes(self.run, self.run.questions.count_records())
        if not number:
            return
        run, usable, only_cached = self.run, list_usable_cores(), self.models.only_cached
        # the run itself makes the questions of its shard, and reads the answers
        arms = tuple(replace(arm, task=None, read=None) for arm in run.plan.points)
        workers = math.ceil(run.options.workers / number)
        options = replace(run.options, workers=workers, shard=(1, 1))
        limit_heaps(1)  # threads of this process only pass records on
        pinned: list[int | None] = [None] * number
        if number <= len(usable) and hasattr(os, "sched_setaffinity"):
            pinned = [
                *random.sample(usable, number)
            ]  # at random, since another run may do the same
        plan, room = Plan(run.plan.name, arms), workers + max(MIN_WAITING_SAMPLES, workers // 4)
        folders = run.folder.absolute(), self.models.cache.absolute()
        forked = self.may_fork and not run.plan.plugins and is_safe_to_fork()
        if forked:
            import_module("aiohttp")  # otherwise each process would import it
        for core in pinned:
            try:
                setup = pickle_message(Setup(plan, options, *folders, only_cached, number, core))
                self.processes.append(Process(setup, room, forked))
            except (*SENDING_ERRORS, OSError):  # there is no room for another process
                return

    def execute(self, run: RunContext, work: RunStart, trials: Iterator[Trial]) -> Iterator[Trial]:
        """Process all samples; return the samples that the run itself has to process. Raises
        KeyboardInterrupt."""
        writer = work.writer
        first: Trial | None = next(trials, None)
        if first is None:
            return trials
        if not self.processes:
            self.begin()
        if not self.processes or not _can_be_sent(first):
            return chain([first], trials)
        self.returned_trials.append(first)
        self.begin_time = self.last_running = time.monotonic()
        with ThreadPoolExecutor(len(self.processes), "looktwice-process") as pool:
            tasks = [
                pool.submit(self._serve_process, process, trials, writer)
                for process in self.processes
            ]
            try:
                while wait(tasks, STOP_CHECK_INTERVAL).not_done:
                    self._pass_on_stops()
                    self._kill_hung_processes()
            except BaseException:
                self.run.progress.drain.set()
                self._pass_on_stops()
                raise
        for tally in self.models.parts.values():
            add_seconds(tally.seconds, tally.busy_seconds)
        left = [*self.returned_trials, *self.unsent_trials]
        self.returned_trials.clear()
        self.unsent_trials.clear()
        return chain(left, trials)

    def _pass_on_stops(self) -> None:
        """Tell every process once that the run is being stopped."""
        progress = self.run.progress
        for order, event in ((DRAIN, progress.drain), (STOP, progress.stop)):
            for process in self.processes if event.is_set() else ():
                if order not in process.stops and process.send(
                    pickle.dumps(order), STOP_CHECK_INTERVAL
                ):
                    process.stops.add(order)

    def _kill_hung_processes(self) -> None:
        """Kill processes that fail to start or stop, since the run would wait for them forever."""
        now = time.monotonic()
        if not self.run.progress.stop.is_set():
            self.last_running = now
        for process in self.processes:
            is_late = not process.has_greeted and now - self.begin_time > START_TIMEOUT
            if is_late or now - self.last_running > STOP_TIMEOUT:
                process.handle.kill()

    def _serve_process(self, process: Process, trials: Iterator[Trial], writer: RunWriter) -> None:
        """Send samples to a process and handle its events until it has ended."""
        was_last_sent = False
        try:
            while not process.has_ended:
                for event in self._receive(process):
                    self._handle_event(process, event, writer)
                while not (process.has_ended or was_last_sent) and process.has_room:
                    if not self._send_next(process, trials):
                        break
                if not (process.asked or was_last_sent):
                    was_last_sent = True
                    process.send(pickle.dumps(END))
        except BaseException as exc:
            process.handle.kill()
            self.run.progress.handle_stop(exc)
        self.returned_trials.extend(trial for trial in process.asked.values() if trial.wanted_arms)

    def _receive(self, process: Process) -> list[Any]:
        """Receive events from a process; if it has died, its unfinished samples are processed
        again."""
        try:
            events: list[Any] = receive_message(process.answers)
        except (OSError, EOFError, pickle.UnpicklingError):
            process.has_ended = True
            process.handle.kill()
            process.asked |= process.over
            if not self.run.progress.drain.is_set():
                status = process.handle.wait()
                self.models.say(
                    f"a worker process has ended (exit status {status}); its samples are asked"
                    " again"
                )
            return []
        process.has_greeted = True
        return events

    def _send_next(self, process: Process, trials: Iterator[Trial]) -> bool:
        """Send the next sample to a process; return whether there was one."""
        try:
            with self.take_lock:
                trial = (
                    self.returned_trials.popleft() if self.returned_trials else next(trials, None)
                )
                number = next(self.sample_numbers)
        except BaseException as exc:
            self.run.progress.handle_stop(exc)
            return False
        if trial is None:
            return False
        group = trial.row.task, trial.seed, trial.draw
        try:
            message = pickle_message(
                [SampleRequest(number, group, trial.sample, trial.row, trial.wanted_arms)]
            )
        except SENDING_ERRORS:  # for example a file that is not a picture
            self.unsent_trials.append(trial)
            return True
        process.asked[number] = trial
        process.send(message)
        return True

    def _handle_event(self, process: Process, event: Any, writer: RunWriter) -> None:
        """Handle an event from a process, and write its record."""
        run = self.run
        if isinstance(event, RecordMade):
            arm = self.arms[event.record.point]
            _drop_arm(process, event.number, arm.id)
            run.note(arm, event.row, writer.record(event.record))
        elif isinstance(event, SampleEnded):
            trial = process.asked.pop(event.number)
            if trial.wanted_arms:
                process.over[event.number] = trial
        elif isinstance(event, Tally):
            self.models.parts[id(process)] = event
        else:
            process.has_ended = True
            run.progress.count("stopped", event.stop_count)
            if event.endpoint_error:
                run.progress.give_up(event.endpoint_error)
            if event.error is not None:
                run.progress.handle_stop(event.error)

    def close(self) -> None:
        """Terminate every process."""
        for process in self.processes:
            process.handle.kill()
        for process in self.processes:
            process.end()
        self.processes.clear()


def _drop_arm(process: Process, number: int, arm: str) -> None:
    """Remove this arm from the arms that a sample still needs."""
    if trial := process.asked.get(number) or process.over.get(number):
        trial.wanted_arms -= {arm}
        if not trial.wanted_arms:
            process.over.pop(number, None)


def _can_be_sent(trial: Trial) -> bool:
    """Return whether samples of this kind can be pickled for another process; those of a user's own
    class cannot."""
    try:
        pickle_message((trial.sample, trial.row))
    except PictureError:  # the error concerns only this sample
        return True
    except SENDING_ERRORS:
        return False
    return True

"""A worker process of a run: it processes the samples that it receives in its own threads, as a run
does, and sends each record back.

Pictures and messages of a record are written to the run's folder before the record is sent.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any

from looktwice.eval.records.records import Record, RunError, SampleRow
from looktwice.eval.runs.companions import RunStart
from looktwice.eval.runs.run import Run
from looktwice.eval.runs.run_models import RunModels, compute_price
from looktwice.eval.runs.trial import Progress, Trial, build_tree
from looktwice.eval.runs.worker_pool import WorkerPool
from looktwice.extras.executors.messages import (
    DRAIN,
    END,
    STOP,
    ProcessEnded,
    RecordMade,
    SampleEnded,
    SampleRequest,
    Setup,
    receive_message,
    send_message,
)
from looktwice.pipelines.clock import Clock, run_clock
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.models.http_client import get_http_loop
from looktwice.pipelines.models.limits import Budget, list_limiters
from looktwice.pipelines.picture import PIXEL_MEMORY
from looktwice.pipelines.pipeline import describe_exception
from looktwice.pipelines.runtime.process import keep_freed_memory, limit_heaps
from looktwice.pipelines.runtime.stores import Blobs

MESSAGE_INTERVAL = 0.01  # seconds during which events are collected for one message
TALLY_INTERVAL = 1.0  # seconds between two tallies


@dataclass(eq=False)
class Outbox:
    """Sends events to the run, several per message, and regularly a tally of the models' usage."""

    pipe: IO[bytes]
    models: RunModels
    clock: Clock
    waiting_events: deque[Any] = field(default_factory=deque)
    is_filled: threading.Event = field(default_factory=threading.Event)
    send_lock: threading.Lock = field(default_factory=threading.Lock)
    last_tally: float = field(default_factory=time.monotonic)

    def put(self, event: Any) -> None:
        """Send this event soon."""
        self.waiting_events.append(event)
        self.is_filled.set()

    def send_events(self) -> None:
        """Send waiting events until the process ends."""
        try:
            while self.is_filled.wait():
                time.sleep(MESSAGE_INTERVAL)
                self.is_filled.clear()
                if time.monotonic() - self.last_tally >= TALLY_INTERVAL:
                    self.waiting_events.append(self.models.tally(self.clock))
                    self.last_tally = time.monotonic()
                self.flush()
        finally:  # otherwise the run would wait forever for events that are not sent
            os._exit(1)

    def flush(self) -> None:
        """Send all waiting events now."""
        with self.send_lock:
            events = [self.waiting_events.popleft() for _ in range(len(self.waiting_events))]
            send_message(self.pipe, pickle.dumps(events, pickle.HIGHEST_PROTOCOL))


@dataclass(frozen=True)
class BlobWriter:
    """A stand-in for a `RunWriter` that holds only the blobs, since another process writes the
    lines."""

    blobs: Blobs

    def record(self, record: Record) -> Record:
        """Return the record unchanged: `ChildRun`, which knows its sample's number, sends it."""
        return record


@dataclass(eq=False)
class SharedModels(RunModels):
    """The models of one of `process_count` processes, which share the rate limits of an
    endpoint."""

    process_count: int = 1

    def wrap(self, model: Any) -> Any:
        """Return the model that the stages call here."""
        wrapped = super().wrap(model)
        for key, limiter in list_limiters().items():
            limiter.allot(max(1, key.in_flight // self.process_count))
        return wrapped


@dataclass(eq=False)
class ChildRun(Run):
    """The part of a run that one process executes: the samples that the queue `requests` yields
    before None. `emit` is called with the events for the run."""

    emit: Callable[[Any], None] = lambda event: None
    requests: queue.SimpleQueue[SampleRequest | None] = field(default_factory=queue.SimpleQueue)

    def _make_trials(self, work: RunStart, pool: WorkerPool) -> Iterator[Trial]:
        roots = {group: build_tree(arms) for group, arms in self.questions.group_arms().items()}
        while (asked := self.requests.get()) is not None:
            if self.progress.drain.is_set():  # the remaining samples are not asked
                return
            _, seed, draw = asked.group
            yield Trial(
                self.wrapped,
                work.writer,
                pool,
                self.progress,
                partial(self._emit_and_note, asked.number),
                roots[asked.group],
                seed,
                draw,
                asked.sample,
                asked.row,
                asked.wanted_arms,
                partial(self.emit, SampleEnded(asked.number)),
            )

    def _emit_and_note(self, number: int, arm: Arm, row: SampleRow, record: Record) -> None:
        self.emit(RecordMade(number, row, record))
        self.note(arm, row, record)


def run_samples(setup: Setup, orders: IO[bytes], answers: IO[bytes]) -> None:
    """Process the samples that arrive in `orders` until the end is announced or the run ends; write
    events to `answers`."""
    with run_clock() as clock:
        progress = Progress()
        budget = Budget(compute_cost=compute_price)
        models = SharedModels(
            progress,
            setup.cache,
            setup.only_cached,
            budget=budget,
            process_count=setup.process_count,
        )
        outbox = Outbox(answers, models, clock)
        run = ChildRun(
            setup.plan,
            setup.folder,
            setup.options,
            models,
            progress=progress,
            in_parts=True,
            emit=outbox.put,
        )

        for target in (outbox.send_events, partial(_obey_parent, run, orders)):
            threading.Thread(target=target, daemon=True).start()
        error: BaseException | None = None
        try:
            run.execute_into(BlobWriter(Blobs(setup.folder / "blobs")), set())
        except BaseException as exc:
            error = exc if _survives_pickling(exc) else RunError(describe_exception(exc))
        models.close()
        was_stopped = progress.drain.is_set() or progress.stop.is_set()
        stopped = 0 if was_stopped else progress.counts["stopped"]
        outbox.put(models.tally(clock))
        outbox.put(ProcessEnded(stopped, progress.why, error))
        outbox.flush()


def _survives_pickling(exc: BaseException) -> bool:
    try:
        return str(pickle.loads(pickle.dumps(exc))) == str(exc)
    except Exception:
        return False


def _obey_parent(run: ChildRun, orders: IO[bytes]) -> None:
    """Follow the parent's orders; if the parent has ended, end this process."""
    progress = run.progress
    while True:
        try:
            order = receive_message(orders)
        except BaseException:  # otherwise the sender would wait forever
            os._exit(1)
        if order == DRAIN:
            progress.drain.set()
        elif order == STOP:
            progress.stop.set()
            get_http_loop().cancel()
        elif order == END:
            run.requests.put(None)
        else:
            for asked in order:
                run.requests.put(asked)


def main() -> None:
    """Run as a worker process of a run: read orders from standard input, write events to standard
    output."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if number := getattr(
            signal, name, None
        ):  # the parent gets the signal, too, and sends an order
            signal.signal(number, signal.SIG_IGN)
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # output of libraries, or buffered before a fork, must not get between the events
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    limit_heaps(1)
    keep_freed_memory()
    setup: Setup = receive_message(orders)
    if setup.core is not None:
        # threads on one core pass the interpreter on in half the time
        os.sched_setaffinity(0, {setup.core})
        PIXEL_MEMORY.decode_slots = threading.Semaphore(1)
    send_message(answers, pickle.dumps([]))  # it is ready
    run_samples(setup, orders, answers)

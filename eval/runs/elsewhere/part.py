"""One of several processes that ask for a run: it works through the samples that it is sent in
threads of its own, as a run does, and sends each record back.

Pictures and messages of a record lie in the run's folder before the record is sent; who begins and
tells the processes is `processes`.
"""

from __future__ import annotations

import io
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
from pathlib import Path
from typing import IO, Any, NamedTuple

from looktwice.eval.records.records import Record, RunError, SampleRow
from looktwice.eval.runs.crew import Crew
from looktwice.eval.runs.made_with import RunModels
from looktwice.eval.runs.predict import Run, RunOptions, Work
from looktwice.eval.runs.walk import Progress, Walk, build_tree
from looktwice.pipelines.clock import Clock, run_clock
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.models.http_client import http_loop
from looktwice.pipelines.models.limits import limiters
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import describe
from looktwice.pipelines.runtime.heaps import collect_seldom, keep_memory, share_heaps
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.sample import Sample

PAUSE = 0.01  # seconds in which what is to be sent back comes together
EVERY = 1.0  # seconds between two tallies
Group = tuple[str, int, int]
"""The task id, seed and draw of arms that take one pass over the items."""


class Setup(NamedTuple):
    """What a process is told first: the plan without its tasks, how it is run, and where; it is one
    of `processes`, and stays on `core`, if there is one."""

    plan: Plan
    options: RunOptions
    folder: Path
    cache: Path
    only_cached: bool
    processes: int
    core: int | None


class Asked(NamedTuple):
    """A sample that is asked in a process, with its row and the ids of the arms."""

    number: int
    group: Group
    sample: Sample
    row: SampleRow
    wanted: frozenset[str]


class Recorded(NamedTuple):
    """A record of a sample that was asked."""

    number: int
    row: SampleRow
    record: Record


class Over(NamedTuple):
    """All that could be asked of this sample was."""

    number: int


class Ended(NamedTuple):
    """The last thing that is sent: how often a stage raised Stopped, why an endpoint could not be
    asked, and what ended the process's part of the run."""

    stopped: int
    why: str
    error: BaseException | None


class PicturePickler(pickle.Pickler):
    """Pickles pictures as they came: their encoded bytes, or their pixels. Raises PictureError."""

    def reducer_override(self, thing: Any) -> Any:
        """What makes the same picture in another process."""
        if not isinstance(thing, Picture):
            return NotImplemented
        if thing._fetch is None:
            return Picture, (thing.pixels, thing.name)
        return Picture.encoded, (thing.source, thing.name, thing._known_to_decode)


def dump(value: Any) -> memoryview:
    """A message to another process. Raises PictureError, and what pickle raises."""
    buffer = io.BytesIO()
    PicturePickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getbuffer()


def send(pipe: IO[bytes], message: bytes | memoryview) -> None:
    """Write a message behind its length."""
    pipe.write(len(message).to_bytes(8, "big"))
    pipe.write(message)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """The next message. Raises EOFError where the other side has ended."""
    length = pipe.read(8)
    message = pipe.read(int.from_bytes(length, "big"))
    if len(length) < 8 or len(message) < int.from_bytes(length, "big"):
        raise EOFError("the other side has ended")
    return pickle.loads(message)


@dataclass(eq=False)
class Outbox:
    """Sends back what comes of the samples, some at a time, and now and then what was used of the
    models."""

    pipe: IO[bytes]
    models: RunModels
    clock: Clock
    waiting: deque[Any] = field(default_factory=deque)
    is_filled: threading.Event = field(default_factory=threading.Event)
    sending: threading.Lock = field(default_factory=threading.Lock)
    told: float = field(default_factory=time.monotonic)

    def put(self, event: Any) -> None:
        """Send this soon."""
        self.waiting.append(event)
        self.is_filled.set()

    def work(self) -> None:
        """Send what waits, until the process ends."""
        while self.is_filled.wait():
            time.sleep(PAUSE)
            self.is_filled.clear()
            if time.monotonic() - self.told >= EVERY:
                self.waiting.append(self.models.tally(self.clock))
                self.told = time.monotonic()
            self.flush()

    def flush(self) -> None:
        """Send what waits now."""
        with self.sending:
            events = [self.waiting.popleft() for _ in range(len(self.waiting))]
            send(self.pipe, pickle.dumps(events, pickle.HIGHEST_PROTOCOL))


@dataclass(frozen=True)
class BlobWriter:
    """Stands in for a `RunWriter` where another process writes the lines."""

    blobs: Blobs

    def record(self, record: Record) -> Record:
        """Sent by `Part.note_of`, once it is known to which sample it belongs."""
        return record


@dataclass(eq=False)
class Part(Run):
    """The part of a run that one process does: the samples in `asked`, until there is None; `tell`
    takes what comes of them."""

    tell: Callable[[Any], None] = lambda event: None
    asked: queue.SimpleQueue[Asked | None] = field(default_factory=queue.SimpleQueue)

    def _walks(self, work: Work, crew: Crew) -> Iterator[Walk]:
        roots = {group: build_tree(arms) for group, arms in self.groups().items()}
        while (asked := self.asked.get()) is not None:
            _, seed, draw = asked.group
            yield Walk(
                self.models,
                work.writer,
                crew,
                self.progress,
                partial(self._send, asked.number),
                roots[asked.group],
                seed,
                draw,
                asked.sample,
                asked.row,
                asked.wanted,
                partial(self.tell, Over(asked.number)),
            )

    def _send(self, number: int, arm: Any, row: SampleRow, record: Record) -> None:
        self.tell(Recorded(number, row, record))
        self.note(arm, row, record)


def work_through(setup: Setup, orders: IO[bytes], back: IO[bytes]) -> None:
    """Ask what comes in until the end is said, or until whoever says it has ended."""
    with run_clock() as clock:
        progress = Progress()
        models = RunModels(progress, setup.cache, setup.only_cached)
        outbox = Outbox(back, models, clock)
        part = Part(
            setup.plan,
            setup.folder,
            setup.options,
            progress=progress,
            in_parts=True,
            tell=outbox.put,
        )

        def wrap(model: Any) -> Any:
            wrapped = models.wrap(model)
            for key, limiter in limiters().items():
                limiter.allot(max(1, key.in_flight // setup.processes))
            return wrapped

        part.wrap = wrap
        for target in (outbox.work, partial(_listen, part, orders)):
            threading.Thread(target=target, daemon=True).start()
        error: BaseException | None = None
        try:
            part.predict_into(BlobWriter(Blobs(setup.folder / "blobs")), set())
        except BaseException as exc:
            error = exc if _travels(exc) else RunError(describe(exc))
        models.close()
        was_stopped = progress.drain.is_set() or progress.stop.is_set()
        stopped = 0 if was_stopped else progress.counts["stopped"]
        outbox.put(models.tally(clock))
        outbox.put(Ended(stopped, progress.why, error))
        outbox.flush()


def _travels(exc: BaseException) -> bool:
    """Whether it is the same in another process."""
    try:
        return str(pickle.loads(pickle.dumps(exc))) == str(exc)
    except Exception:
        return False


def _listen(part: Part, orders: IO[bytes]) -> None:
    """Do as the run says; where it has ended, so does this process."""
    progress = part.progress
    while True:
        try:
            order = receive(orders)
        except (EOFError, OSError):
            os._exit(1)
        if order == "drain":
            progress.drain.set()
        elif order == "stop":
            progress.stop.set()
            http_loop().cancel()
        elif order == "end":
            part.asked.put(None)
        else:
            for asked in order:
                part.asked.put(asked)


def main() -> None:
    """Be one of the processes of a run, which tells what to do over the standard input."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if number := getattr(signal, name, None):  # the run is told, and tells
            signal.signal(number, signal.SIG_IGN)
    orders, back, sys.stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"), sys.stderr
    os.dup2(2, 1)
    share_heaps()
    keep_memory()
    collect_seldom()
    setup: Setup = receive(orders)
    if setup.core is not None:
        # threads on one core hand the interpreter to each other in half the time
        os.sched_setaffinity(0, {setup.core})
    send(back, pickle.dumps([]))
    work_through(setup, orders, back)

"""The processes that draw for a run: when they are begun, which of them does a sample, and what
becomes of one that ends."""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from looktwice.pipelines.config.spec import asks_model
from looktwice.pipelines.runtime.drawing import (
    UNDONE,
    Branch,
    Drawer,
    draws,
    is_own,
    read_states,
    write_job,
)
from looktwice.pipelines.state import Stage, State

SETTING = "LOOKTWICE_DRAWERS"
"""The environment variable with the number of processes; where it is not set, the run decides."""
MOST = 4  # processes: the run itself does not ask and record more than they draw
FEWEST = 300  # records of a run that is long enough to begin processes for
WINDOW, BUSY = 0.5, 0.8  # seconds that are looked at, and how much of a core the run took in them
WINDOWS, PAYS = 5, 1.1  # looks with processes, and how much faster than before they are kept for
AHEAD = 3  # jobs of a process, so that it need not wait for a thread of the run
AT_WORK = threading.Event()
"""Set while processes draw, so that what can wait does not take their cores."""


class Node(Protocol):
    """A stage of a run's tree; `model` is None until a stage on the path asks one."""

    slot: str
    stage: Stage
    model: Any

    @property
    def children(self) -> Mapping[Any, Node]: ...


@dataclass(eq=False)
class Drawers:
    """The processes of a run of so many `records`; begun as soon as it is seen to keep its
    interpreter busy, or at once, as many as `LOOKTWICE_DRAWERS` says.

    `say` is told where one ends before the run does.
    """

    records: int
    say: Callable[[str], None]
    idle: queue.SimpleQueue[Drawer | None] = field(default_factory=queue.SimpleQueue)
    drawers: list[Drawer] = field(default_factory=list)
    owns: dict[int, tuple[Stage, bool]] = field(default_factory=dict)
    ready: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        given, cores = os.environ.get(SETTING, ""), os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):
            cores = len(os.sched_getaffinity(0))
        # OpenTelemetry, where it watches, wants a span of every stage
        is_worth_it = (
            cores > 1 and self.records >= FEWEST and "opentelemetry.trace" not in sys.modules
        )
        self.most = int(given) if given.isdecimal() else min(cores, MOST) * is_worth_it
        self.is_asked_for = self.is_due = given.isdecimal()
        self.since, self.samples = (time.perf_counter(), time.process_time()), 0
        self.before, self.after = 0.0, list[float]()  # samples a second, without and with them
        self.thread: threading.Thread | None = None

    def __call__(
        self, roots: Iterable[Node], state: State, is_wanted: Callable[[Any], bool]
    ) -> dict[int, State]:
        """The states behind the first stages of a sample, by the identity of their nodes: none
        where the run is to run them itself."""
        nodes = list[Node]()
        branches = self._branches(roots, is_wanted, nodes) if self.most else []
        if not draws(branches) or not self._is_there():
            return {}
        # what cannot be read or pickled is the run's own, with its faults
        with suppress(ValueError, TypeError, AttributeError, pickle.PicklingError):
            if done := self._ask(write_job(branches, state)):
                pairs = zip(nodes, read_states(done, state), strict=True)
                return {id(node): after for node, after in pairs if after is not None}
        return {}

    def close(self) -> None:
        """End every process; what asks on gets nothing."""
        AT_WORK.clear()
        with self.lock:
            self.most, drawers = 0, [*self.drawers]
            self.drawers.clear()
        for drawer in drawers:
            drawer.end()
        if self.thread is not None:
            self.thread.join()
        self.idle.put(None)

    def _branches(
        self, level: Iterable[Node], is_wanted: Callable[[Any], bool], nodes: list[Node]
    ) -> list[Branch]:
        """What the processes may run of the tree; `nodes` gets its nodes in the same order."""
        branches = []
        for node in level:
            stage = node.stage
            if id(stage) not in self.owns:
                self.owns[id(stage)] = stage, not asks_model(stage) and is_own(stage)
            if node.model is None and self.owns[id(stage)][1] and is_wanted(node):
                nodes.append(node)
                children = self._branches(node.children.values(), is_wanted, nodes)
                branches.append(Branch(node.slot, stage, children))
        return branches

    def _is_there(self) -> bool:
        """Whether a process is; begins them where that is due, and ends them where samples do not
        begin faster with them."""
        with self.lock:
            self.samples += 1
            if time.perf_counter() - self.since[0] >= WINDOW:
                self._look()
            if self.is_due and self.thread is None and self.most:
                self.thread = threading.Thread(target=self._begin, name="looktwice-drawers")
                self.thread.start()
            rates = sorted(self.after)
        if len(rates) == WINDOWS and rates[WINDOWS // 2] < PAYS * self.before:
            self.close()
        if self.is_asked_for:
            self.ready.wait()
        return self.ready.is_set()

    def _look(self) -> None:
        now = time.perf_counter(), time.process_time()
        wall, cpu = now[0] - self.since[0], now[1] - self.since[1]
        rate, self.since, self.samples = self.samples / wall, now, 0
        if self.thread is None:
            # in the first window as many begin at once as there are threads
            self.is_due = self.is_due or (self.before > 0 and cpu >= BUSY * wall)
            self.before = rate
        elif self.ready.is_set() and not self.is_asked_for and len(self.after) < WINDOWS:
            self.after.append(rate)

    def _begin(self) -> None:
        for _ in range(self.most):
            with self.lock, suppress(OSError):  # there is no room for another process
                if self.most:
                    self.drawers.append(Drawer())
        for drawer in [*self.drawers]:
            try:
                drawer.greeting.result()
            except (OSError, ValueError, EOFError):
                self._lose(drawer)
            for _ in range(AHEAD):
                self.idle.put(drawer)
            self.ready.set()
            AT_WORK.set()
        if not self.ready.is_set():
            self.most = 0
            self.ready.set()
            self.idle.put(None)

    def _ask(self, job: bytes) -> Sequence[bytes]:
        """What comes of a job; nothing where no process can be asked."""
        drawer = self.idle.get()
        if drawer is None:
            self.idle.put(None)
            return ()
        try:
            done = drawer.ask(job)
        except (OSError, EOFError):
            self._lose(drawer)
            return ()
        self.idle.put(drawer)
        return () if done == [*UNDONE] else done

    def _lose(self, drawer: Drawer) -> None:
        """A process that has ended; the last one leaves the run to itself."""
        with self.lock:
            if drawer not in self.drawers:  # they are being closed
                return
            self.drawers.remove(drawer)
            left = len(self.drawers)
        status = drawer.end()
        if not left:
            self.most = 0
            self.idle.put(None)
        rest = "the others draw on" if left else "the run itself draws on"
        self.say(f"a process that draws pictures has ended (exit status {status}); {rest}")

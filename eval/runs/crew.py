"""The threads of a run. Each takes its samples by itself: to hand one over between threads takes
longer than a short stage does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

Task = Callable[[], bool]
"""Part of the work on a sample; says whether it was the last part."""


@dataclass(eq=False)
class Crew:
    """`workers` threads that work at a time. Where one sleeps, as before it asks again, another
    works in its place, up to as many again; a single one does all in order.

    `on_error` is told what is raised where the next sample is taken.
    """

    workers: int
    on_error: Callable[[BaseException], None]
    turns: threading.Semaphore = field(init=False)
    samples: Iterator[Task] = field(init=False)
    hired: int = 0
    asleep: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    taking: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.turns = threading.Semaphore(self.workers)
        self.most = 2 * self.workers if self.workers > 1 else 1
        self.pool = ThreadPoolExecutor(self.most, thread_name_prefix="looktwice")

    def run(self, samples: Iterator[Task], on_interrupt: Callable[[], None]) -> None:
        """Do all the work on all samples; on a Ctrl-C, call `on_interrupt`, and raise it once what
        was begun has ended."""
        self.samples = samples
        try:
            for _ in range(self.workers):
                self._hire()
            self._wait()
        except BaseException:
            on_interrupt()
            self._wait()
            raise
        finally:
            self.pool.shutdown()

    def submit(self, task: Task) -> None:
        """Let any thread do this part."""
        self.pool.submit(self._work, task)

    def release(self) -> None:
        """The calling thread is about to sleep, so that another may work."""
        self.turns.release()
        with self.lock:
            self.asleep += 1
            is_wanted = self.hired < min(self.most, self.workers + self.asleep)
        if is_wanted:
            self._hire()

    def acquire(self) -> None:
        """It works again, as soon as it may."""
        with self.lock:
            self.asleep -= 1
        self.turns.acquire()

    def _hire(self) -> None:
        with self.lock:
            self.hired += 1
        self.submit(lambda: True)

    def _work(self, task: Task | None) -> None:
        while task is not None and task():
            task = self._take()

    def _take(self) -> Task | None:
        """The first part of the next sample; None where there is no more, or where those who slept
        work again."""
        with self.lock:
            if self.hired > self.workers + self.asleep:
                self.hired -= 1
                return None
        try:
            with self.taking:
                task = next(self.samples, None)
        except BaseException as exc:
            self.on_error(exc)
            task = None
        if task is None:
            with self.lock:
                self.hired -= 1
                if not self.hired:
                    self.ended.set()
        return task

    def _wait(self) -> None:
        """A wait without a timeout does not notice Ctrl-C on every platform."""
        while not self.ended.wait(0.2):
            pass

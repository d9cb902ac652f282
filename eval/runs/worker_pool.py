"""The threads of a run. Each takes its own next sample, because passing one between threads takes
longer than a short stage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

SampleTask = Callable[[], bool]
"""A part of the work on a sample; returns True if it was the last part."""


@dataclass(eq=False)
class WorkerPool:
    """A thread pool in which at most `workers` threads run at the same time.

    While a thread sleeps, for example before a retry, another may work instead, up to twice
    `workers` threads in all. With a single worker, everything happens in order. `on_error` receives
    an error raised while taking the next sample.
    """

    workers: int
    on_error: Callable[[BaseException], None]
    turns: threading.Semaphore = field(init=False)
    samples: Iterator[SampleTask] = field(init=False)
    started_threads: int = 0
    sleeping_threads: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    take_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.turns = threading.Semaphore(self.workers)
        self.max_threads = 2 * self.workers if self.workers > 1 else 1
        self.pool = ThreadPoolExecutor(self.max_threads, thread_name_prefix="looktwice")

    def run(self, samples: Iterator[SampleTask], on_interrupt: Callable[[], None]) -> None:
        """Process all samples. On Ctrl-C, call `on_interrupt`, wait for started work to end, and
        re-raise."""
        self.samples = samples
        try:
            for _ in range(self.workers):
                self._start_thread()
            self._wait()
        except BaseException:
            on_interrupt()
            self._wait()
            raise
        finally:
            self.pool.shutdown()

    def submit(self, task: SampleTask) -> None:
        """Queue a task for any thread."""
        self.pool.submit(self._work, task)

    def release(self) -> None:
        """Give up the calling thread's turn before it sleeps, so that another thread can work."""
        self.turns.release()
        with self.lock:
            self.sleeping_threads += 1
            is_wanted = self.started_threads < min(
                self.max_threads, self.workers + self.sleeping_threads
            )
        if is_wanted:
            self._start_thread()

    def acquire(self) -> None:
        """Take a turn again after a sleep; blocks until one is free."""
        with self.lock:
            self.sleeping_threads -= 1
        self.turns.acquire()

    def _start_thread(self) -> None:
        with self.lock:
            self.started_threads += 1
        self.submit(lambda: True)

    def _work(self, task: SampleTask | None) -> None:
        while task is not None and task():
            task = self._take_sample()

    def _take_sample(self) -> SampleTask | None:
        """Return the first part of the next sample, or None if there is none left or too many
        threads are awake."""
        with self.lock:
            if self.started_threads > self.workers + self.sleeping_threads:
                self.started_threads -= 1
                return None
        try:
            with self.take_lock:
                task = next(self.samples, None)
        except BaseException as exc:
            self.on_error(exc)
            task = None
        if task is None:
            with self.lock:
                self.started_threads -= 1
                if not self.started_threads:
                    self.ended.set()
        return task

    def _wait(self) -> None:
        """Poll, because a wait without a timeout does not notice Ctrl-C on every platform."""
        while not self.ended.wait(0.2):
            pass

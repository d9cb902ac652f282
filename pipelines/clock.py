"""Where the time of a run goes: seconds by kind of work, summed over threads, each second counted once."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

__all__: list[str] = []


class Clock:
    """Seconds by kind of work. Work within other work is its own kind's alone: an image that a stage decodes counts as
    decoding, and not as that stage.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.lock, self.local = threading.Lock(), threading.local()

    def spend(self, kind: str) -> Spending:
        """Count the time inside as time for this kind of work."""
        return Spending(self, kind)

    def shares(self, least: float = 0.01) -> list[tuple[str, float]]:
        """Each kind with its share of all the time, the largest first, without those below `least`."""
        with self.lock:
            total = sum(self.seconds.values())
            ordered = sorted(self.seconds.items(), key=lambda each: -each[1])
            return [(kind, spent / total) for kind, spent in ordered if spent >= least * total > 0]


class Spending:
    """A stretch of time of one thread, and the seconds of the other kinds of work within it."""

    __slots__ = ("clock", "inside", "kind", "outer", "start")

    def __init__(self, clock: Clock, kind: str) -> None:
        self.clock, self.kind, self.inside = clock, kind, 0.0

    def __enter__(self) -> None:
        local = self.clock.local
        self.outer: Spending | None = getattr(local, "now", None)
        local.now, self.start = self, time.perf_counter()

    def __exit__(self, *raised: object) -> None:
        took = time.perf_counter() - self.start
        self.clock.local.now = self.outer
        if self.outer is not None:
            self.outer.inside += took
        with self.clock.lock:
            self.clock.seconds[self.kind] += took - self.inside


_running: Clock | None = None


@contextmanager
def run_clock() -> Iterator[Clock]:
    """Inside, `spend` counts on this clock, in every thread."""
    global _running
    before, _running = _running, Clock()
    try:
        yield _running
    finally:
        _running = before


def spend(kind: str) -> AbstractContextManager[None]:
    """Count the time inside as time for this kind of work, where a clock is running."""
    clock = _running
    return nullcontext() if clock is None else clock.spend(kind)

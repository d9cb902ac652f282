"""Where the time of a run goes: seconds by kind of work, summed over threads, each second counted once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

__all__: list[str] = []


class Clock:
    """Seconds by kind of work. Work within other work is its own kind's alone: an image that a stage decodes counts as
    decoding, and not as that stage.
    """

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._lock, self._local = threading.Lock(), threading.local()

    @contextmanager
    def spend(self, kind: str) -> Iterator[None]:
        """Count the time inside as time for this kind of work."""
        outer: list[float] | None = getattr(self._local, "inside", None)
        inside = self._local.inside = [0.0]  # seconds of the kinds within this one
        start = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - start
            self._local.inside = outer
            if outer is not None:
                outer[0] += took
            with self._lock:
                self.seconds[kind] += took - inside[0]

    def shares(self, least: float = 0.01) -> list[tuple[str, float]]:
        """Each kind with its share of all the time, the largest first, without those below `least`."""
        with self._lock:
            total = sum(self.seconds.values())
            return [(kind, spent / total) for kind, spent in self.seconds.most_common() if spent >= least * total > 0]


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

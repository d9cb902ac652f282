"""Where the time of a run goes: seconds by kind of work, summed over threads, each second counted
once.

A process that OpenTelemetry watches, as `opentelemetry-instrument looktwice run ...` begins one,
gets a span of each.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

__all__: list[str] = []


class Clock:
    """Seconds by kind of work. Work within other work is its own kind's alone: an image that a
    stage decodes counts as decoding, and not as that stage.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.lock, self.local = threading.Lock(), threading.local()

    def spend(self, kind: str, **facts: str) -> Spending:
        """Count the time inside as time for this kind of work; `facts` are attributes of its
        span."""
        return Spending(self, kind, facts)

    def shares(self, least: float = 0.01) -> list[tuple[str, float]]:
        """Each kind with its share of all the time, the largest first, without those below
        `least`."""
        with self.lock:
            total = sum(self.seconds.values())
            ordered = sorted(self.seconds.items(), key=lambda each: -each[1])
            return [(kind, spent / total) for kind, spent in ordered if spent >= least * total > 0]


class Spending:
    """A stretch of time of one thread, and the seconds of the other kinds of work within it."""

    __slots__ = ("clock", "facts", "inside", "kind", "outer", "span", "start")

    def __init__(self, clock: Clock, kind: str, facts: dict[str, str]) -> None:
        self.clock, self.kind, self.facts, self.inside = clock, kind, facts, 0.0

    def __enter__(self) -> None:
        self.span: Any = None
        # whoever wants spans has imported it before us
        if watched := sys.modules.get("opentelemetry.trace"):
            self.span = watched.get_tracer("looktwice").start_as_current_span(
                self.kind, attributes=self.facts
            )
            self.span.__enter__()
        local = self.clock.local
        self.outer: Spending | None = getattr(local, "now", None)
        local.now, self.start = self, time.perf_counter()

    def __exit__(self, *raised: object) -> None:
        took = time.perf_counter() - self.start
        if self.span is not None:
            self.span.__exit__(*raised)
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


def spend(kind: str, **facts: str) -> AbstractContextManager[None]:
    """Count the time inside as time for this kind of work, where a clock is running."""
    clock = _running
    return nullcontext() if clock is None else clock.spend(kind, **facts)

"""Accounting of the time of a run: seconds by kind of work, summed over all threads.

In a process instrumented by OpenTelemetry, for example with `opentelemetry-instrument looktwice run
...`, each timed block also becomes a span.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

__all__: list[str] = []


class TimedBlock:
    """A context manager that adds its duration to a clock, under one kind of work. It is a class
    because each stage enters several such blocks, and a generator-based context manager takes a
    quarter longer.
    """

    __slots__ = ("attributes", "clock", "kind", "outer_seconds", "span", "start")

    def __init__(self, clock: Clock, kind: str, attributes: Mapping[str, str]) -> None:
        self.clock, self.kind, self.attributes = clock, kind, attributes
        self.span: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        clock, kind = self.clock, self.kind
        # an instrumented process has already imported it
        if watched := sys.modules.get("opentelemetry.trace"):
            tracer = watched.get_tracer("looktwice")
            self.span = tracer.start_as_current_span(kind, attributes=self.attributes)
            self.span.__enter__()
        # seconds of nested work within the enclosing block
        self.outer_seconds = getattr(clock.local, "inside", 0.0)
        clock.local.inside, self.start = 0.0, time.perf_counter()
        with clock.lock:
            clock.active[kind] += 1
            if clock.active[kind] == 1:
                clock.busy_seconds[kind] -= self.start

    def __exit__(self, *raised: Any) -> None:
        clock, kind, local = self.clock, self.kind, self.clock.local
        end = time.perf_counter()
        took = end - self.start
        with clock.lock:
            clock.seconds[kind] += took - local.inside
            clock.active[kind] -= 1
            if not clock.active[kind]:
                clock.busy_seconds[kind] += end
        local.inside = self.outer_seconds + took
        if self.span is not None:
            self.span.__exit__(*raised)


class Clock:
    """Seconds by kind of work. Nested work counts under its own kind only: decoding an image inside
    a stage counts as decoding, not as that stage.

    `busy_seconds` holds the seconds in which at least one thread did a kind of work, including
    nested work.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.busy_seconds: defaultdict[str, float] = defaultdict(float)
        self.lock, self.local = threading.Lock(), threading.local()
        self.started, self.active = time.perf_counter(), Counter[str]()

    def track_time(self, kind: str, **attributes: str) -> TimedBlock:
        """Return a context manager that times its block as this kind of work; `attributes` become
        attributes of the span."""
        return TimedBlock(self, kind, attributes)

    def list_shares(self, min_share: float = 0.01) -> list[tuple[str, float]]:
        """Return each kind's share of the total time, largest first, omitting shares below
        `min_share`."""
        with self.lock:
            total = sum(self.seconds.values())
            ordered = sorted(self.seconds.items(), key=lambda each: -each[1])
            return [
                (kind, spent / total) for kind, spent in ordered if spent >= min_share * total > 0
            ]

    def snapshot(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return `seconds` and `busy_seconds` as of now."""
        now = time.perf_counter()
        with self.lock:
            busy = dict(self.busy_seconds)
            for kind, number in self.active.items():
                busy[kind] += now * (number > 0)  # its start time was subtracted
            return dict(self.seconds), busy

    @property
    def elapsed(self) -> float:
        """Seconds since the clock started."""
        return time.perf_counter() - self.started

    def list_stage_shares(self, min_share: float = 0.05) -> list[tuple[str, float]]:
        """Return each stage with the share of wall time in which it was active, largest first,
        omitting shares below `min_share`. Stages overlap, so the shares may add up to more than 1.
        """
        stages = [
            (kind, busy / self.elapsed) for kind, busy in self.busy_seconds.items() if busy > 0
        ]
        return sorted(
            (stage for stage in stages if stage[0].startswith("stage ") and stage[1] >= min_share),
            key=lambda stage: -stage[1],
        )


_running_clock: Clock | None = None


@contextmanager
def run_clock() -> Iterator[Clock]:
    """Run a clock inside the context; `track_time` reports to it from every thread."""
    global _running_clock
    before, _running_clock = _running_clock, Clock()
    try:
        yield _running_clock
    finally:
        _running_clock = before


def track_time(kind: str, **attributes: str) -> AbstractContextManager[None]:
    """Time the block inside the context as this kind of work, if a clock is running."""
    clock = _running_clock
    return nullcontext() if clock is None else clock.track_time(kind, **attributes)


def add_seconds(seconds: Mapping[str, float], busy: Mapping[str, float]) -> None:
    """Add the time measured in another process to the running clock, if there is one."""
    if clock := _running_clock:
        with clock.lock:
            for kind, spent in seconds.items():
                clock.seconds[kind] += spent
            for kind, spent in busy.items():
                clock.busy_seconds[kind] = max(spent, clock.busy_seconds[kind])

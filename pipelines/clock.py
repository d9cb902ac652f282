"""Where the time of a run goes: seconds by kind of work, summed over threads, each second counted
once.

A process that OpenTelemetry watches, as `opentelemetry-instrument looktwice run ...` begins one,
gets a span of each.
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


class Stretch:
    """A context in which a clock counts the time as time for one kind of work. Each stage enters
    several, and those that a generator makes take a quarter longer."""

    __slots__ = ("before", "clock", "facts", "kind", "span", "start")

    def __init__(self, clock: Clock, kind: str, facts: Mapping[str, str]) -> None:
        self.clock, self.kind, self.facts = clock, kind, facts
        self.span: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        clock, kind = self.clock, self.kind
        # whoever wants spans has imported it before us
        if watched := sys.modules.get("opentelemetry.trace"):
            tracer = watched.get_tracer("looktwice")
            self.span = tracer.start_as_current_span(kind, attributes=self.facts)
            self.span.__enter__()
        # seconds of other kinds within the work around this
        self.before = getattr(clock.local, "inside", 0.0)
        clock.local.inside, self.start = 0.0, time.perf_counter()
        with clock.lock:
            clock.under_way[kind] += 1
            if clock.under_way[kind] == 1:
                clock.busy[kind] -= self.start

    def __exit__(self, *raised: Any) -> None:
        clock, kind, local = self.clock, self.kind, self.clock.local
        end = time.perf_counter()
        took = end - self.start
        with clock.lock:
            clock.seconds[kind] += took - local.inside
            clock.under_way[kind] -= 1
            if not clock.under_way[kind]:
                clock.busy[kind] += end
        local.inside = self.before + took
        if self.span is not None:
            self.span.__exit__(*raised)


class Clock:
    """Seconds by kind of work. Work within other work is its own kind's alone: an image that a
    stage decodes counts as decoding, and not as that stage.

    `busy` has the seconds in which a kind of work was done by any thread, with what was within it.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.busy: defaultdict[str, float] = defaultdict(float)
        self.lock, self.local = threading.Lock(), threading.local()
        self.begun, self.under_way = time.perf_counter(), Counter[str]()

    def spend(self, kind: str, **facts: str) -> Stretch:
        """Count the time inside as time for this kind of work; `facts` are attributes of its
        span."""
        return Stretch(self, kind, facts)

    def shares(self, least: float = 0.01) -> list[tuple[str, float]]:
        """Each kind with its share of all the time, the largest first, without those below
        `least`."""
        with self.lock:
            total = sum(self.seconds.values())
            ordered = sorted(self.seconds.items(), key=lambda each: -each[1])
            return [(kind, spent / total) for kind, spent in ordered if spent >= least * total > 0]

    def snapshot(self) -> tuple[dict[str, float], dict[str, float]]:
        """The `seconds` and `busy` up to now."""
        now = time.perf_counter()
        with self.lock:
            busy = dict(self.busy)
            for kind, number in self.under_way.items():
                busy[kind] += now * (number > 0)  # when it began was taken off
            return dict(self.seconds), busy

    @property
    def whole(self) -> float:
        """The seconds up to now."""
        return time.perf_counter() - self.begun

    def stages(self, least: float = 0.05) -> list[tuple[str, float]]:
        """Each stage with the share of the whole time in which it was at work, beside the others,
        the largest first, without those below `least`."""
        stages = [(kind, busy / self.whole) for kind, busy in self.busy.items() if busy > 0]
        return sorted(
            (stage for stage in stages if stage[0].startswith("stage ") and stage[1] >= least),
            key=lambda stage: -stage[1],
        )


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


def add_seconds(seconds: Mapping[str, float], busy: Mapping[str, float]) -> None:
    """Count, where a clock is running, what another process has spent beside this one."""
    if clock := _running:
        with clock.lock:
            for kind, spent in seconds.items():
                clock.seconds[kind] += spent
            for kind, spent in busy.items():
                clock.busy[kind] = max(spent, clock.busy[kind])

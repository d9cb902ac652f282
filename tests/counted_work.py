"""Counts function calls instead of measuring time, which varies on a busy machine."""

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest


def count_calls(work: Callable[[], object]) -> int:
    """Count the Python and C functions that `work` calls in this thread."""
    counted, before = 0, sys.getprofile()

    def note(frame: object, event: str, called: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


class FakeTime(threading.Event):
    """A clock that advances only while something waits, and an event that waits in this way."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.waits = 0.0, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        """Advance the clock by the seconds at once."""
        assert timeout is not None
        self.now += timeout
        self.waits.append(timeout)
        return self.is_set()

    def replace_in(self, patch: pytest.MonkeyPatch, module: object) -> None:
        """Replace the time of a module that imports `time`."""
        clock = SimpleNamespace(monotonic=lambda: self.now, perf_counter=lambda: self.now)
        patch.setattr(module, "time", clock)

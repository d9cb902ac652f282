"""What ends a call without a reply: a stop, a failure of the endpoint, a cache that cannot be used;
and what lets another thread work while one sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Protocol

from looktwice.pipelines.clock import spend
from looktwice.pipelines.model import Around, ModelError, Reply, Stopped


class Turn(Protocol):
    """What a thread holds while it works, of as many as may work at a time."""

    def release(self) -> None:
        """Give it to another."""

    def acquire(self) -> object:
        """Wait for one."""


TURN: ContextVar[Turn | None] = ContextVar("TURN", default=None)
"""That of this thread."""


@contextmanager
def others_work() -> Iterator[None]:
    """Inside, another thread may work in place of this one, which sleeps."""
    turn = TURN.get()
    if turn is not None:
        turn.release()
    try:
        yield
    finally:
        if turn is not None:
            turn.acquire()


def stop_if(stopped: bool) -> None:
    """Raises Stopped."""
    if stopped:
        raise Stopped("stopped while waiting for the endpoint")


@dataclass(frozen=True)
class Stoppable(Around):
    """A model of this process, of which no call starts once `stop` is set."""

    stop: threading.Event = field(repr=False)

    def of(self, sample: str) -> Stoppable:
        """The same around the model of one sample, where the wrapped model has one for each."""
        return replace(self, model=self.model.of(sample)) if hasattr(self.model, "of") else self

    def around(self, ask: Callable[[], Reply]) -> Reply:
        """Ask. Raises what the model raises; Stopped."""
        stop_if(self.stop.is_set())
        with spend("model"):
            return ask()


@dataclass(eq=False)
class FailureRow:
    """Calls that failed alike, one after the other, for a reason of the endpoint.

    `first` says that the model had answered nothing before, `over` that something else came of a
    later call: then they are failures like others. Until then nobody knows whether their samples
    can be blamed.
    """

    reason: str
    said: str
    first: bool
    count: int = 0
    over: bool = False


class EndpointError(ModelError):
    """A call that failed for a reason of the endpoint; `row` says what became of the calls before
    and after it."""

    def __init__(self, exc: ModelError, row: FailureRow) -> None:
        super().__init__(str(exc), status=exc.status, retryable=exc.retryable)
        self.row = row


# in records and tables a failure has the same name, whoever is to blame for it
EndpointError.__name__ = ModelError.__name__


class CacheError(ValueError):
    """A cache folder that cannot be used; the message says what was found and what to set
    instead."""

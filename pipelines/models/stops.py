"""Errors of calls: a failure of the endpoint, an unusable cache; and the turn that a sleeping
thread passes to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from looktwice.pipelines.model import ModelError


class Turn(Protocol):
    """One of a limited number of permits to work; a thread holds one while it works."""

    def release(self) -> None:
        """Give the permit to another thread."""

    def acquire(self) -> object:
        """Wait for a permit."""


TURN: ContextVar[Turn | None] = ContextVar("TURN", default=None)
"""The permit of this thread."""


@contextmanager
def yield_turn() -> Iterator[None]:
    """Let another thread work inside the context, while this one sleeps."""
    turn = TURN.get()
    if turn is not None:
        turn.release()
    try:
        yield
    finally:
        if turn is not None:
            turn.acquire()


@dataclass(eq=False)
class FailureRow:
    """Consecutive calls that failed for the same reason of the endpoint.

    `first` is true if the model had not answered anything before. `over` is true if a later call
    ended differently; these calls are then ordinary failures. Until then it is unknown whether
    their samples are to blame.
    """

    reason: str
    message: str
    first: bool
    count: int = 0
    over: bool = False


class EndpointError(ModelError):
    """A call that failed because of the endpoint; `row` describes the calls before and after it."""

    def __init__(self, exc: ModelError, row: FailureRow) -> None:
        super().__init__(str(exc), status=exc.status, retryable=exc.retryable)
        self.row = row


# in records and tables a failure has the same name, whatever its cause
EndpointError.__name__ = ModelError.__name__


class CacheError(ValueError):
    """An unusable cache folder; the message says what was found and what to set instead."""

"""Errors of model calls (a failure of the endpoint, an unusable cache), and the permit to work that
a sleeping thread passes on to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from looktwice.pipelines.model import ModelError


class Permit(Protocol):
    """One of a limited number of permits to work; a thread holds one while it works."""

    def release(self) -> None:
        """Give the permit to another thread."""

    def acquire(self) -> object:
        """Wait for a permit."""


PERMIT: ContextVar[Permit | None] = ContextVar("PERMIT", default=None)
"""The permit of this thread."""


@contextmanager
def yield_permit() -> Iterator[None]:
    """Let another thread work inside the context, while this one sleeps."""
    permit = PERMIT.get()
    if permit is not None:
        permit.release()
    try:
        yield
    finally:
        if permit is not None:
            permit.acquire()


@dataclass(eq=False)
class FailureStreak:
    """Consecutive calls that failed for the same reason, which lies with the endpoint.

    `before_any_reply` is true if the model had not answered anything before. `ended` is true if a
    later call ended differently; these calls are then ordinary failures. Until then it is unknown
    whether their samples are to blame.
    """

    reason: str
    message: str
    before_any_reply: bool
    count: int = 0
    ended: bool = False


class EndpointError(ModelError):
    """Raised if a call fails because of the endpoint; `streak` is the failure streak to which the
    call belongs."""

    def __init__(self, exc: ModelError, streak: FailureStreak) -> None:
        super().__init__(str(exc), status=exc.status, retryable=exc.retryable)
        self.streak = streak


# in records and tables a failure has the same name, whatever its cause
EndpointError.__name__ = ModelError.__name__


class CacheError(ValueError):
    """Raised for an unusable cache folder; the message says what was found and what to set."""

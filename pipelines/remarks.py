"""Sentences for the record from where no state is at hand: a specialist says one, the running stage notes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["listening", "remark"]

_HEARD: ContextVar[list[str] | None] = ContextVar("looktwice_remarks", default=None)


def remark(sentence: str) -> None:
    """Say that something was done otherwise than usual; heard by the innermost `listening` of this thread."""
    heard = _HEARD.get()
    if heard is not None:
        heard.append(sentence)


@contextmanager
def listening() -> Iterator[list[str]]:
    """Gather in a list what is remarked inside."""
    heard: list[str] = []
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)

"""The process of a command: the signals that end it, and the exit codes that tell them apart, 130
for Ctrl-C, 143 for SIGTERM, 129 for a terminal that was closed; what a module that waits, or that
opens much, wants called when a run is stopped or ends; and what glibc's malloc is told."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h
HEAPS, LARGEST = 4, 1 << 28  # heaps, and bytes of an array that is kept in them
ENDING = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP


WAITING: list[Callable[[], None]] = []
"""Each ends what waits on a network, and was added by the module that waits."""
OPENED: list[Callable[[], None]] = []
"""Each frees what was opened in this process, and was added by the module that opens it."""


class Interrupted(KeyboardInterrupt):
    """A signal that does what Ctrl-C does, and its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def raise_interrupt(number: int, frame: Any) -> NoReturn:
    """Handle a signal. Raises Interrupted."""
    raise Interrupted(number)


def give_up_waiting() -> None:
    """End all that waits on a network."""
    for give_up in WAITING:
        give_up()


def free_opened() -> None:
    """Free all that was opened in this process; a later use opens it again."""
    for free in OPENED:
        free()


def exit_code(number: int) -> int:
    """The code with which a program ends by a signal, as a shell reports it."""
    return 128 + (number or signal.SIGINT)


def code_of(exc: KeyboardInterrupt) -> int:
    """The code with which a program ends that was interrupted so."""
    return exit_code(exc.number if isinstance(exc, Interrupted) else signal.SIGINT)


def share_heaps() -> None:
    """Let threads share four heaps, as MALLOC_ARENA_MAX=4 would: each heap keeps what was freed in
    it, and with one a thread a run that draws pictures held 1.5 GB."""
    if "MALLOC_ARENA_MAX" not in os.environ:
        _tell(M_ARENA_MAX, HEAPS)


def keep_memory() -> None:
    """Keep the memory of a picture for the next one: to get it anew takes half as long as to
    draw."""
    _tell(M_MMAP_THRESHOLD, LARGEST)
    _tell(M_TRIM_THRESHOLD, LARGEST)


def _tell(parameter: int, value: int) -> None:
    """Other systems have no such call, and go on without."""
    with suppress(AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(parameter, value)

"""Process-wide behaviour of a command: signals and exit codes, cleanup when a run stops or ends,
and settings of glibc's malloc.

Exit codes are 130 for Ctrl-C, 143 for SIGTERM, and 129 for a closed terminal.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # from malloc.h
HEAP_COUNT, MAX_KEPT_BYTES = 4, 1 << 28  # number of heaps, and bytes of the largest array in them
MAX_FREE_BYTES = 1 << 23  # bytes at the end of a heap that are kept for the next picture
ENDING_SIGNALS = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP


CANCELLERS: list[Callable[[], None]] = []
"""Functions that cancel network waits, each registered by the module that waits."""
CLEANUPS: list[Callable[[], None]] = []
"""Functions that free resources of this process, each registered by the module that opens them."""


class Interrupted(KeyboardInterrupt):
    """A signal that acts like Ctrl-C, with its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def raise_interrupt(number: int, frame: Any) -> NoReturn:
    """Handle a signal. Raises Interrupted."""
    raise Interrupted(number)


def cancel_waits() -> None:
    """Cancel all network waits."""
    for give_up in CANCELLERS:
        give_up()


def free_resources() -> None:
    """Free all resources that were opened in this process, and return its freed memory to the
    system; a later use reopens them."""
    for free in CLEANUPS:
        free()
    _call_malloc("malloc_trim", 0)


def get_exit_code(number: int) -> int:
    """Return the exit code of a program ended by a signal, as a shell reports it."""
    return 128 + (number or signal.SIGINT)


def get_interrupt_code(exc: KeyboardInterrupt) -> int:
    """Return the exit code of a program ended by this interrupt."""
    return get_exit_code(exc.number if isinstance(exc, Interrupted) else signal.SIGINT)


def limit_heaps(heaps: int = HEAP_COUNT) -> None:
    """Make all threads share a few heaps, as MALLOC_ARENA_MAX does. Each heap keeps freed memory;
    with one heap per thread, a run that draws pictures held 1.5 GB."""
    if "MALLOC_ARENA_MAX" not in os.environ:
        _call_malloc("mallopt", M_ARENA_MAX, heaps)


def keep_freed_memory() -> None:
    """Keep the freed memory of most pictures for the next ones, because allocating it again takes
    half as long as drawing."""
    _call_malloc("mallopt", M_MMAP_THRESHOLD, MAX_KEPT_BYTES)
    _call_malloc("mallopt", M_TRIM_THRESHOLD, MAX_FREE_BYTES)


def _call_malloc(function: str, *values: int) -> None:
    """Call a function of glibc's malloc; does nothing on systems without it."""
    with suppress(AttributeError, TypeError):
        getattr(ctypes.CDLL(None), function)(*values)

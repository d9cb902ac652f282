"""What glibc's malloc is told."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

__all__: list[str] = []

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h
HEAPS, LARGEST = 4, 1 << 28  # heaps, and bytes of an array that is kept in them


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

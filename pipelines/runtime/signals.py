"""The signals that end a program, and the exit codes that tell them apart: 130 for Ctrl-C, 143 for
SIGTERM, 129 for a terminal that was closed. And what a module that waits, or that opens much, wants
called when a run is stopped or ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any, NoReturn

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

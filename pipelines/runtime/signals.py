"""The signals that end a program, and the exit codes that tell them apart: 130 for Ctrl-C, 143 for
SIGTERM, 129 for a terminal that was closed."""

from __future__ import annotations

import signal
from typing import Any, NoReturn

ENDING = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP


class Interrupted(KeyboardInterrupt):
    """A signal that does what Ctrl-C does, and its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def raise_interrupt(number: int, frame: Any) -> NoReturn:
    """Handle a signal. Raises Interrupted."""
    raise Interrupted(number)


def exit_code(number: int) -> int:
    """The code with which a program ends by a signal, as a shell reports it."""
    return 128 + (number or signal.SIGINT)


def code_of(exc: KeyboardInterrupt) -> int:
    """The code with which a program ends that was interrupted so."""
    return exit_code(exc.number if isinstance(exc, Interrupted) else signal.SIGINT)

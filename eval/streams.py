"""Input, output and error output of the command: they may be closed, end early or be stopped, and
the work goes on."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from typing import Any

__all__: list[str] = []


class _Output(io.FileIO):
    """Output that nobody has to read: where the other end is closed, as by `head`, the rest goes
    nowhere."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as exc:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if exc.errno not in (errno.EPIPE, errno.EIO, errno.EBADF):
                raise OSError(exc.errno, exc.strerror, "the output") from exc
            return len(data)


def keep_streams() -> None:
    """Open what was closed, to nowhere, and let output that nobody reads any more end no command.

    Else the next file to be opened, such as the cache, would take the number of a closed one, and
    what is printed.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            os.set_inheritable(number, True)
            mode = "r" if name == "stdin" else "w"
            nowhere = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, nowhere)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if os.name == "posix" and isinstance(stream, io.TextIOWrapper):
            raw = io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False))
            said_as = stream.encoding, stream.errors, None, stream.line_buffering
            setattr(sys, name, io.TextIOWrapper(raw, *said_as))


def interrupt_when_told() -> None:
    """Let the signals of a scheduler and of a closed terminal do what Ctrl-C does."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores it
            signal.signal(number, signal.default_int_handler)

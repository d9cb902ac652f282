"""A worker process of a run, as seen by the run: a fork of the command if that is safe, otherwise a
new interpreter; and the pipes to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from contextlib import suppress
from typing import IO

from looktwice.eval.runs.trial import Trial
from looktwice.extras.executors.child import main
from looktwice.extras.executors.messages import send_message

PIPE_BYTES, F_SETPIPE_SZ = 1 << 20, 1031  # bytes of a pipe, so that a picture fits


class Fork:
    """A fork of this process, which starts at once, whereas a new interpreter has to import
    everything first. It has the methods of a Popen that `Process` needs."""

    def __init__(self) -> None:
        orders, stdin = os.pipe()
        stdout, answers = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # numpy's threads do not survive a fork
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.dup2(orders, 0)
                os.dup2(answers, 1)
                os.closerange(3, 1 << 16)
                main()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(orders)
        os.close(answers)
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        self.status: int | None = None

    def kill(self) -> None:
        """Kill the process at once."""
        if self.status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait until the process has ended; return its exit status, 0 if the system keeps none."""
        if self.status is None:
            try:
                self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:  # the parent of this process ignores SIGCHLD
                self.status = 0
        return self.status


def is_safe_to_fork() -> bool:
    """Return whether no other Python thread could hold a lock that a fork would wait for."""
    names = {thread.name for thread in threading.enumerate()}
    return sys.platform == "linux" and names <= {"MainThread"}


def start_interpreter() -> subprocess.Popen[bytes]:
    """Start a new interpreter as a worker process. Raises OSError if there is no room for
    another."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-c", "from looktwice.extras.executors.child import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # the run handles Ctrl-C
    )


class Process:
    """A worker process: a fork of this one, or a new interpreter. `asked` are its unfinished
    samples by number, at most `room`; samples in `over` have ended, but a failure of theirs may be
    held back."""

    def __init__(self, setup: memoryview, room: int, forked: bool) -> None:
        self.handle = Fork() if forked else start_interpreter()
        self.room = room
        self.orders: IO[bytes] = self.handle.stdin  # type: ignore[assignment]
        self.answers: IO[bytes] = self.handle.stdout  # type: ignore[assignment]
        for pipe in (self.orders, self.answers):
            with suppress(ImportError, OSError):  # only on Linux
                from fcntl import fcntl

                fcntl(pipe.fileno(), F_SETPIPE_SZ, PIPE_BYTES)
        self.lock, self.asked = threading.Lock(), dict[int, Trial]()
        self.over, self.stops = dict[int, Trial](), set[str]()
        self.has_greeted, self.has_ended = False, False
        self.send(setup)

    @property
    def has_room(self) -> bool:
        """True if the process can accept another sample."""
        return len(self.asked) < self.room

    def send(self, message: bytes | memoryview, patience: float = -1) -> bool:
        """Send a message, unless the process has ended. Return False if another message was still
        being written after `patience` seconds."""
        if not self.lock.acquire(timeout=patience):
            return False
        try:
            with suppress(OSError):
                send_message(self.orders, message)
        finally:
            self.lock.release()
        return True

    def end(self) -> int:
        """Close the pipes and wait until the process has ended; return its exit status."""
        for pipe in (self.orders, self.answers):
            with suppress(OSError):  # of unsent data
                pipe.close()
        return self.handle.wait()

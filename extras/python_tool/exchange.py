"""Exchange with a running sandbox: requests and answers as JSON lines, limited in time and size."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from looktwice.pipelines.json_input import read_as

MAX_ANSWER_BYTES = 64 << 20  # bytes of one answer; far more than the guest may send
StopProcess = Callable[[subprocess.Popen[bytes]], None]
Reason = Literal["time", "size", "ended"]


class ExchangeError(Exception):
    """Raised if a sandbox does not answer; `reason` is "time", "size" or "ended"."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class RunningSandbox:
    """A sandbox process whose input and output are pipes; `stop` terminates it and its children.

    It is stopped after an ExchangeError.
    """

    def __init__(self, process: subprocess.Popen[bytes], stop: StopProcess) -> None:
        self.process, self._stop, self.rest = process, stop, b""
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)

    def ask(self, request: Mapping[str, Any], kind: Any, seconds: float) -> Any:
        """Send a request and return the answer, validated as the type `kind`. Raises
        ExchangeError."""
        line = self.exchange(json.dumps(request).encode() + b"\n", seconds)
        try:
            return read_as(kind, line)
        except ValueError:
            self.close()
            raise ExchangeError("ended") from None

    def exchange(self, data: bytes, seconds: float) -> bytes:
        """Send bytes and return the next line of the output. Raises ExchangeError."""
        deadline, received = time.monotonic() + seconds, bytearray(self.rest)
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None or stdin.closed:
            raise ExchangeError("ended")
        left = memoryview(data)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stdin, selectors.EVENT_WRITE)
            while b"\n" not in received:
                wait = deadline - time.monotonic()
                reason: Reason | None = "time" if wait <= 0 else None
                ready = selector.select(wait) if reason is None else []
                for key, _ in ready:
                    if key.fileobj is stdin:
                        left = left[self._write(stdin.fileno(), left) :]
                        if not left:
                            selector.unregister(stdin)
                    elif chunk := os.read(stdout.fileno(), 1 << 16):
                        received += chunk
                    else:
                        reason = "ended"
                reason = "size" if len(received) > MAX_ANSWER_BYTES else reason
                if reason is not None:
                    self.close()
                    raise ExchangeError(reason)
        line, _, self.rest = bytes(received).partition(b"\n")
        return line

    @staticmethod
    def _write(pipe: int, data: memoryview) -> int:
        """Write as much as the pipe accepts. A closed pipe accepts everything; reading the output
        then shows that the process has ended."""
        with suppress(BlockingIOError):
            try:
                return os.write(pipe, data[: 1 << 16])
            except BrokenPipeError:
                return len(data)
        return 0

    def close(self) -> None:
        """Stop the sandbox and close its pipes."""
        self._stop(self.process)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

"""The interface of a sandbox, which is a model that replies with the output of the code it is sent.

Since it is called like any model of a stage, the code, the images, the output and the pictures are
recorded, and a replay answers from the record without running any code.
"""

from __future__ import annotations

import base64
import os
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Annotated, Any, ClassVar

from pydantic import Field, with_config
from typing_extensions import TypedDict

from looktwice.extras.python_tool.exchange import ExchangeError, RunningSandbox
from looktwice.pipelines.config.spec import settings
from looktwice.pipelines.json_input import FORBID_EXTRA, write_canonical
from looktwice.pipelines.model import (
    CallOptions,
    Message,
    Messages,
    ModelError,
    Reply,
    make_message_json,
)
from looktwice.pipelines.models.stops import yield_permit
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.view import View

__all__ = ["PythonSandbox"]

START_TIMEOUT_SECONDS = 30.0  # to start a sandbox, and for all pieces of code that ran before in it
LIMIT_SETTINGS = "memory_mb", "disk_mb", "characters", "pictures", "megapixels"
NO_OUTPUT_TEXT = "(the code printed nothing)"


@with_config(FORBID_EXTRA)
class GuestStarted(TypedDict):
    """The first answer of the program in the sandbox: its version of Python."""

    python: str


@with_config(FORBID_EXTRA)
class ShownPicture(TypedDict, total=False):
    """A picture as base64 of a PNG; `map` is the affine map from image number `image` to this
    picture, in coordinates whose integers are pixel centres."""

    png: str
    image: int
    map: Annotated[list[float], Field(min_length=6, max_length=6)]


@with_config(FORBID_EXTRA)
class CodeResult(TypedDict):
    """The result of a piece of code."""

    output: str
    error: str
    pictures: list[ShownPicture]
    notes: list[str]
    versions: dict[str, str]


@cache
def read_guest() -> str:
    """Return the source of the program that runs inside the sandbox."""
    return (files("looktwice.extras.python_tool") / "guest.py").read_text(encoding="utf-8")


@dataclass(eq=False)
class LiveSession:
    """The running sandbox of one sample, its identity, and the pieces of code that ran in it
    (`executed_code`)."""

    sandbox: RunningSandbox | None = None
    identity: str = ""
    executed_code: list[str] = field(default_factory=list)

    def close(self) -> None:
        """Stop the sandbox, which discards its variables."""
        sandbox, self.sandbox, self.executed_code = self.sandbox, None, []
        if sandbox is not None:
            sandbox.close()


_session: ContextVar[LiveSession | None] = ContextVar("session", default=None)
_run_slots = threading.BoundedSemaphore(
    os.cpu_count() or 1
)  # on an overloaded machine, code would reach its time limit too early


@contextmanager
def open_live_session() -> Iterator[LiveSession]:
    """Keep the variables of the code that runs within the context, and stop the sandbox at its
    end."""
    session = LiveSession()
    token = _session.set(session)
    try:
        yield session
    finally:
        _session.reset(token)
        session.close()


@dataclass(frozen=True)
class PythonSandbox(Ranged):
    """The base class of sandboxes, which run Python outside this process, without network and
    files; each sample has a sandbox.

    `seconds` limits the time of each piece of code, `memory_mb` its memory, `disk_mb` the files
    that it writes (they are in memory, and lost when the sandbox stops), `characters` its output,
    and `pictures` and `megapixels` the pictures that it shows.

    A sandbox of your own derives from this class: `start` starts a Python that runs a program,
    `find_fault` returns what must be installed, and `stop` terminates the processes.
    """

    seconds: float = 10.0
    memory_mb: int = 2048
    disk_mb: int = 64
    characters: int = 4000
    pictures: int = 4
    megapixels: float = 4.0

    ranges = (
        "seconds, megapixels > 0",
        "memory_mb >= 256",
        "disk_mb, characters >= 1",
        "pictures >= 0",
    )
    folder: ClassVar[str] = "/work"
    path: ClassVar[tuple[str, ...]] = ()

    def start(self, program: str) -> subprocess.Popen[bytes]:
        """Start a Python that runs the program, with pipes for input and output. Raises OSError."""
        raise NotImplementedError

    def find_fault(self) -> str:
        """Return a sentence that says what is missing and what to install; "" if the sandbox
        works."""
        raise NotImplementedError

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Terminate the process and its children."""
        process.kill()
        process.wait()

    @property
    def identity(self) -> str:
        """The class of the sandbox and its limits, without settings that differ between
        machines."""
        return write_canonical(settings(self))

    def missing(self) -> str:
        """Return what must be installed before code can run; "" if nothing is missing."""
        return self.find_fault()

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Run the code of the last message; first run the code of earlier messages that has not yet
        run in the sample's sandbox. Raises ModelError if there is no sandbox."""
        if fault := self.find_fault():
            raise ModelError(fault)
        session, start = _session.get(), time.perf_counter()
        kept = session or LiveSession()
        try:
            with yield_permit(), _run_slots:
                result, restarted = self._run(kept, messages)
        finally:
            if session is None:
                kept.close()
        attached: dict[str, Any] = {"pictures": result["pictures"]} if result["pictures"] else {}
        attached |= {"restarted": True} if restarted else {}
        parts = [result["output"].rstrip(), result["error"], *result["notes"]]
        text = "\n".join(filter(None, parts)) or (
            NO_OUTPUT_TEXT if not result["pictures"] else "(shown)"
        )
        seconds = time.perf_counter() - start
        return Reply(text, seconds=seconds, served_by=result["versions"], attached=attached)

    def _run(self, session: LiveSession, messages: Messages) -> tuple[CodeResult, bool]:
        """Run the code of new messages, and return the last result and whether the sandbox was
        stopped, so that the variables are lost."""
        wanted = [write_canonical(make_message_json(message)) for message in messages]
        is_same = session.identity == self.identity and session.executed_code == wanted[:-1]
        if session.sandbox is None or not is_same:
            session.close()
            session.sandbox, session.identity = self._start_guest(session), self.identity
        numbers = 1 + sum(len(m.views) for m in messages[: len(session.executed_code)])
        for message, name in list(zip(messages, wanted, strict=True))[len(session.executed_code) :]:
            request = build_request(message, numbers)
            numbers += len(message.views)
            try:
                result: CodeResult = session.sandbox.ask(request, CodeResult, self.seconds)
            except ExchangeError as exc:
                session.close()
                why = self._format_fault(exc)
                ended = CodeResult(output="", error=why, pictures=[], notes=[], versions={})
                return ended, True
            session.executed_code.append(name)
        return self._limit_result(result), False

    def _start_guest(self, session: LiveSession) -> RunningSandbox:
        try:
            running = RunningSandbox(self.start(read_guest()), self.stop)
        except OSError as exc:
            raise ModelError(f"the sandbox does not start: {exc}") from exc
        settings = {name: getattr(self, name) for name in ("folder", "path", *LIMIT_SETTINGS)}
        try:
            running.ask(settings, GuestStarted, START_TIMEOUT_SECONDS)
        except ExchangeError as exc:
            raise ModelError(f"Python does not start in the sandbox ({exc.reason})") from exc
        return running

    def _limit_result(self, result: CodeResult) -> CodeResult:
        """Cut the result to the limits, which code that manipulates the guest program could
        exceed."""
        max_output = self.characters + 100
        notes = [note[:200] for note in result["notes"][:8]]
        return CodeResult(
            output=result["output"][:max_output],
            error=result["error"][:4000],
            pictures=result["pictures"][: self.pictures],
            notes=notes,
            versions={k[:40]: v[:40] for k, v in islice(result["versions"].items(), 8)},
        )

    def _format_fault(self, exc: ExchangeError) -> str:
        why = {
            "time": f"the code was stopped after {self.seconds:g} seconds, which is the limit",
            "size": "the code was stopped because it returned too much",
            "ended": "the code ended the interpreter, for example by using more memory than the"
            f" {self.memory_mb} MB allowed",
        }[exc.reason]
        return f"{why}; all variables are lost, and the images are still there"


def build_request(message: Message, first: int) -> dict[str, Any]:
    """Build the request to the program in the sandbox: the code, and the new images as raw pixels,
    numbered from `first`."""
    images = [
        {"number": first + n, "size": list(view.size), "pixels": _pack_pixels(view)}
        for n, view in enumerate(message.views)
    ]
    return {"images": images, "code": message.text}


def _pack_pixels(view: View) -> str:
    return base64.b64encode(zlib.compress(view.pixels.tobytes(), 1)).decode()

"""Processes that run the first stages of samples for another one: looktwice's own that make
pictures, with the pictures encoded as they will be sent.

Nothing but time depends on them: what one cannot do, or was doing when it ended, is done by who
asked it, and so are the faults of stages.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import cv2
import numpy as np

from looktwice.pipelines.clock import add_seconds, run_clock, spend
from looktwice.pipelines.config.spec import public_path
from looktwice.pipelines.picture import Header, Payload, Picture
from looktwice.pipelines.pipeline import NoModel, RecordingModel, step
from looktwice.pipelines.state import Stage, State

UNDONE = (b"undone",)
"""What comes of a job that a process could not do."""

PIPE = 1 << 20  # bytes of a pipe, so that a picture passes at once
KEEP = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(1 << 28))
"""Lets glibc keep the memory of a picture for the next one: to get it anew takes half as long as to
draw."""
F_SETPIPE_SZ = 1031
OWN = ("looktwice.prompting.", "looktwice.pipelines.")
"""Where the classes of stages and their settings lie that other processes may run: networks are
the run's, and plugins were loaded by it."""
DRAW = ("markers", "grids", "views", "controls", "burnt_in")
"""The rooms of `prompting` whose stages make pictures."""


class Branch(NamedTuple):
    """A stage, and those that follow it."""

    slot: str
    stage: Stage
    children: list[Branch]


def run_branches(branches: Sequence[Branch], state: State) -> Iterator[State | None]:
    """What comes of each stage, with what follows it right behind it; None for one that failed or
    had no turn."""
    for branch in branches:
        recorder = RecordingModel(NoModel(), state.sample.id)
        try:
            with spend(f"stage {branch.slot}"):
                after = step(branch.slot, branch.stage, state, recorder)
        except Exception:  # the run meets it again, and says what is wrong
            yield from [None] * len([*flat([branch])])
            continue
        yield after
        if after.ended:
            yield from [None] * len([*flat(branch.children)])
        else:
            yield from run_branches(branch.children, after)


def flat(branches: Iterable[Branch]) -> Iterator[Branch]:
    """Each branch, and right behind it what follows it."""
    for branch in branches:
        yield branch
        yield from flat(branch.children)


def is_own(thing: Any) -> bool:
    """Whether a stage or setting is made of looktwice's own classes and plain values alone."""
    if is_dataclass(thing):
        inner = [getattr(thing, f.name) for f in fields(thing)]
        return type(thing).__module__.startswith(OWN) and all(map(is_own, inner))
    if isinstance(thing, Mapping):
        return all(map(is_own, (*thing.keys(), *thing.values())))
    if isinstance(thing, tuple | list | frozenset):
        return all(map(is_own, thing))
    return thing is None or isinstance(thing, str | bytes | int | float | Path | np.ndarray)


def draws(branches: Sequence[Branch]) -> bool:
    """Whether one of the stages makes a picture."""
    paths = (public_path(type(branch.stage)).split(".") for branch in flat(branches))
    return any(path[1] in DRAW for path in paths)


Made = tuple[Callable[..., Picture], tuple[Any, ...]]
"""A function, and what it makes a picture of in another process."""


def as_given(picture: Picture) -> Made:
    """The picture as it was made here. Raises PictureError."""
    if picture._fetch is None:
        return Picture, (picture.pixels, picture.name)
    return Picture.encoded, (picture.source, picture.name, picture._known_to_decode)


def as_encoded(picture: Picture) -> Made:
    """The picture with the bytes that are sent in place of its pixels. Raises PictureError."""
    if picture._fetch is not None:
        return as_given(picture)
    payload, parts = picture.payload, (picture.payload.data, picture.payload.text)
    about = picture.size, picture.name, payload.sha, payload.note
    return drawn_picture, (*map(pickle.PickleBuffer, parts), *about)


def drawn_picture(
    data: bytes, text: bytes, size: tuple[int, int], name: str, sha: str, note: str
) -> Picture:
    """A picture made of pixels, which are decoded where they are looked at; `size` is (width,
    height), `text` the base64 of its `data`."""
    picture, payload = Picture.encoded(data, name), Payload(data, "image/png", sha, note, text)
    picture._fetch = None
    vars(picture).update(__payload=payload, __header=Header(size, "image/png", payload.note))
    return picture


class ToDrawer(pickle.Pickler):
    """Pickles a state with its pictures as they came."""

    def reducer_override(self, thing: Any) -> Any:
        """What makes the same picture there."""
        return as_given(thing) if isinstance(thing, Picture) else NotImplemented


class FromDrawer(pickle.Pickler):
    """Pickles states for who has the `given` one: of new pictures go the bytes that are sent,
    which are put into `parts` as they are."""

    def __init__(self, file: IO[bytes], given: State, parts: list[Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL, buffer_callback=parts.append)
        self.numbers = {id(part): number for number, part in enumerate(parts_of(given))}

    def persistent_id(self, thing: Any) -> int | None:
        """The number of what is there already."""
        return self.numbers.get(id(thing))

    def reducer_override(self, thing: Any) -> Any:
        """What makes a picture there that is decoded where it is looked at."""
        return as_encoded(thing) if isinstance(thing, Picture) else NotImplemented


class OfDrawer(pickle.Unpickler):
    """Reads what `FromDrawer` wrote."""

    def __init__(self, file: IO[bytes], given: State, parts: Iterable[bytes]) -> None:
        super().__init__(file, buffers=parts)
        self.parts = parts_of(given)

    def persistent_load(self, number: int) -> Any:
        """The same as it is here."""
        return self.parts[number]


def parts_of(state: State) -> list[Any]:
    """What the states behind this one may have in common with it."""
    sample = state.sample
    choices = (choice for choice in sample.choices if isinstance(choice, Picture))
    wholes = sample, sample.images, sample.choices, sample.marks, sample.meta, state.views
    return [*wholes, *sample.images, *choices, *sample.marks, *state.views]


def write_job(branches: Sequence[Branch], state: State) -> bytes:
    """What a process is sent. Raises what pickle raises, and PictureError."""
    file = io.BytesIO()
    ToDrawer(file, pickle.HIGHEST_PROTOCOL).dump((state, branches))
    return file.getvalue()


def do_job(job: bytes) -> list[Any]:
    """What a process sends back: the states behind the stages, and its seconds; then the bytes of
    the pictures."""
    file, parts = io.BytesIO(), list[Any]()
    with run_clock() as clock:
        state, branches = pickle.loads(job)
        FromDrawer(file, state, parts).dump([*run_branches(branches, state)])
        pickle.dump(dict(clock.seconds), file)
    return [file.getvalue(), *(part.raw() for part in parts)]


def read_states(done: Sequence[bytes], given: State) -> list[State | None]:
    """The states behind the stages of a job, as `flat` lists its branches; their seconds are
    counted."""
    file = io.BytesIO(done[0])
    states: list[State | None] = OfDrawer(file, given, done[1:]).load()
    add_seconds(pickle.load(file))
    return states


def send(file: IO[bytes], *parts: bytes) -> None:
    """Write a message of some parts behind their number and lengths."""
    for number in (len(parts), *map(len, parts)):
        file.write(number.to_bytes(8, "big"))
    for part in parts:
        file.write(part)
    file.flush()


def receive(file: IO[bytes]) -> list[bytes]:
    """The parts of the next message. Raises EOFError where the other side has ended."""
    count = int.from_bytes(file.read(8), "big")
    sizes = [int.from_bytes(file.read(8), "big") for _ in range(count)]
    parts = [*map(file.read, sizes)]
    if not count or [*map(len, parts)] != sizes:
        raise EOFError("the other side has ended")
    return parts


class Drawer:
    """One process, with the jobs that it was sent in their order."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **KEEP, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # a Ctrl-C is the run's
        )
        self.to: IO[bytes] = self.process.stdin  # type: ignore[assignment]
        self.back: IO[bytes] = self.process.stdout  # type: ignore[assignment]
        for pipe in (self.to, self.back):
            with suppress(ImportError, OSError):  # Linux alone has it
                from fcntl import fcntl

                fcntl(pipe.fileno(), F_SETPIPE_SZ, PIPE)
        self.greeting = Future[list[bytes]]()
        self.jobs, self.has_ended, self.lock = deque([self.greeting]), False, threading.Lock()
        self.reader = threading.Thread(target=self._read, name="looktwice-drawer", daemon=True)
        self.reader.start()

    def ask(self, job: bytes) -> list[bytes]:
        """What comes of a job. Raises OSError or EOFError where the process has ended."""
        future = Future[list[bytes]]()
        with self.lock:
            if self.has_ended:
                raise EOFError("the process has ended")
            self.jobs.append(future)
            send(self.to, job)
        return future.result()

    def _read(self) -> None:
        try:
            while True:
                data = receive(self.back)
                self.jobs.popleft().set_result(data)
        except (OSError, ValueError, EOFError) as exc:
            self.process.kill()  # who sends to it must not wait
            with self.lock:
                self.has_ended = True
            for future in self.jobs:
                future.set_exception(exc)

    def end(self) -> int:
        """End it at once; gives its exit status."""
        self.process.kill()
        self.reader.join()
        self.back.close()
        with self.lock, suppress(OSError):  # what it was not sent any more
            self.to.close()
        return self.process.wait()


def main() -> None:
    """Do one job after the other, until there are no more."""
    back, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr
    os.dup2(2, 1)
    cv2.setNumThreads(1)  # the other processes have the other cores
    send(back, b"ready")
    with suppress(EOFError, OSError):  # the run has ended
        while True:
            (job,) = receive(sys.stdin.buffer)
            try:
                done: Sequence[bytes] = do_job(job)
            except Exception:  # a picture that cannot be encoded, say
                done = UNDONE
            send(back, *done)

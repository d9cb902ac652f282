"""Messages between a run and its worker processes: pickled values, each preceded by its length."""

from __future__ import annotations

import io
import pickle
import sys
from pathlib import Path
from typing import IO, Any, NamedTuple

from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.runs.options import RunOptions
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample

SHARED_PACKAGES = {"looktwice", "numpy", *sys.stdlib_module_names}
"""Packages whose classes every process has."""
Group = tuple[str, int, int]
"""The task id, seed and draw shared by arms that go through the items together."""


# ---- to a process: first its `Setup`, then lists of `SampleRequest`, or one of the orders below


DRAIN, STOP, END = "drain", "stop", "end"
"""The orders to a process: start nothing more; stop at the next model call; no more samples
follow."""


class Setup(NamedTuple):
    """The first message to a process: the plan without its tasks, the options, and the folders. The
    process is one of `process_count` processes, and stays on the CPU core `core` if one is
    given."""

    plan: Plan
    options: RunOptions
    folder: Path
    cache: Path
    only_cached: bool
    process_count: int
    core: int | None


class SampleRequest(NamedTuple):
    """A sample to process, with its row and the ids of the arms that still need it; `number` is
    unique within the run."""

    number: int
    group: Group
    sample: Sample
    row: SampleRow
    wanted_arms: frozenset[str]


# ---- from a process: lists of these events, with a `Tally` (in `run_models`) now and then


class RecordMade(NamedTuple):
    """A message with a record of the sample that was requested under `number`."""

    number: int
    row: SampleRow
    record: Record


class SampleEnded(NamedTuple):
    """A message that the sample requested under `number` has no more records."""

    number: int


class ProcessEnded(NamedTuple):
    """The last message of a process: how often a stage raised Stopped, why an endpoint could not be
    reached (empty if it could), and the error that ended this part of the run."""

    stop_count: int
    endpoint_error: str
    error: BaseException | None


# ---- encoding


class PicturePickler(pickle.Pickler):
    """Pickles pictures as their encoded bytes or their pixels. Raises PictureError, and
    PicklingError for a class that other processes may not have."""

    def reducer_override(self, value: Any) -> Any:
        """Return how to recreate the same picture in another process."""
        if not isinstance(value, Picture):
            named = value if hasattr(value, "__qualname__") else type(value)
            if str(named.__module__).partition(".")[0] not in SHARED_PACKAGES:
                raise pickle.PicklingError(
                    f"another process may lack the class {named.__qualname__}"
                )
            return NotImplemented
        if value._fetch is None:
            return (
                Picture,
                (value.pixels, value.name),
                {"seconds": value.seconds, "_sha": value.sha},
            )
        arguments = value.source, value.name, value._known_to_decode
        return Picture.encoded, arguments, {"_sha": value.sha}


def pickle_message(value: Any) -> memoryview:
    """Pickle a message that may hold pictures. Raises PictureError, and pickle's errors."""
    buffer = io.BytesIO()
    PicturePickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getbuffer()


def send_message(pipe: IO[bytes], message: bytes | memoryview) -> None:
    """Write a message preceded by its length. Raises OSError if the other process has ended."""
    pipe.write(len(message).to_bytes(8, "big"))
    pipe.write(message)
    pipe.flush()


def receive_message(pipe: IO[bytes]) -> Any:
    """Wait for the next message. Raises EOFError if the other process has ended."""
    length = pipe.read(8)
    message = pipe.read(int.from_bytes(length, "big"))
    if len(length) < 8 or len(message) < int.from_bytes(length, "big"):
        raise EOFError("the other process has ended")
    return pickle.loads(message)

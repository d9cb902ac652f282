"""Writes a run: builds the records of samples and the rows of points, and writes them to the run
folder line by line, from one thread of one process."""

from __future__ import annotations

import os
import re
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import FrozenInstanceError, asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from looktwice.eval.records.records import (
    PointRow,
    Record,
    RunError,
    RunFolder,
    SampleRow,
    refuse_links,
)
from looktwice.pipelines.config.classes import extend_hint, find_plugin_frame, suggest_names
from looktwice.pipelines.config.spec import Arm, spec
from looktwice.pipelines.disk import MAX_LINE_BYTES, append_file, dump_yaml, write_file
from looktwice.pipelines.json_input import (
    map_texts,
    read_json,
    repair_text,
    write_canonical,
    write_json,
)
from looktwice.pipelines.model import Reply, make_message_json
from looktwice.pipelines.models.keys import list_known_keys, mask_keys, reject_keys
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.pipeline import describe_exception
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Call, State

if TYPE_CHECKING:
    from looktwice.pipelines.config.plan import Plan

WRITE_INTERVAL_SECONDS, MAX_QUEUED_BYTES = (
    0.05,
    8 << 20,
)  # seconds between writes; bytes of queued lines


class RunWriter:
    """A context manager that appends to `records.jsonl` and `samples.jsonl` of one folder, from any
    thread.

    Entering acquires the folder's lock (RunError if another process holds it) and cuts off a torn
    last line that a killed writer left. Leaving writes the queued lines. If a write fails,
    `on_failure` is called, and the next call raises the error.
    """

    def __init__(self, path: Path, on_failure: Callable[[], None] = lambda: None) -> None:
        self.path, self.blobs, self.on_failure = path, Blobs(path / "blobs"), on_failure
        self._lock = FileLock(path / ".lock")
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._bytes = 0  # approximate: threads may add at the same time
        self._writing, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(
            target=self._flush_periodically, name="looktwice-writer", daemon=True
        )
        self._failure: OSError | None = None

    def __enter__(self) -> RunWriter:
        self.path.mkdir(parents=True, exist_ok=True)
        refuse_links(self.path)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise RunError(
                f"{self.path} is being written by another process; wait for that process to end, or"
                " name another --out"
            ) from None
        for name in ("records.jsonl", "samples.jsonl"):
            cut_torn_tail(self.path / name)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._thread.join()
        self._lock.release()
        if self._failure and not any(raised):
            raise self._failure

    def record(self, record: Record) -> Record:
        """Queue one record, whose blobs must already be stored, and return the record as written:
        secret keys are masked, and a record too large to be read becomes a failure."""
        text, keys = record.to_line(), list_known_keys()
        if any(key in text for key in keys):  # from a model or stage with its own client
            plain = read_json(text, max_values=None)
            for name in ("answer", "reason", "error", "calls", "notes"):
                plain[name] = map_texts(plain[name], partial(mask_keys, keys=keys))
            record = Record.from_line(write_json(plain))
            text = record.to_line()
        line = text.encode()
        if len(line) >= MAX_LINE_BYTES:
            problem = (
                f"its replies make a record of {len(line) >> 20} MiB, more than the limit of"
                f" {MAX_LINE_BYTES >> 20} MiB"
            )
            error = f"RunError: {problem}; limit them with `max_tokens`"
            record = Record(
                record.point, record.sample, record.sample_sha, record.draw, error=error
            )
            line = record.to_line().encode()
        self._enqueue("records.jsonl", line)
        return record

    def add_sample(self, row: SampleRow) -> None:
        """Queue one line of samples.jsonl."""
        self._enqueue("samples.jsonl", row.to_line())

    @property
    def known_points(self) -> Mapping[str, PointRow]:
        """The points of `points.yaml`, if it exists. Raises RunError if it is damaged."""
        return RunFolder(self.path).points if (self.path / "points.yaml").exists() else {}

    def add_points(self, rows: Sequence[PointRow]) -> None:
        """Add points to `points.yaml`; existing ones stay, and a new description of a point
        replaces the old one."""
        merged = {**self.known_points, **{row.id: row for row in rows}}
        self.write_yaml("points.yaml", [_to_plain(asdict(row)) for row in merged.values()])

    def write_yaml(self, name: str, value: Any) -> None:
        """Write a small YAML file atomically."""
        write_file(self.path / name, dump_yaml(value))

    def _enqueue(self, name: str, line: bytes) -> None:
        if self._failure:
            raise self._failure
        self._waiting.append((name, line))
        self._bytes += len(line)
        if self._bytes > MAX_QUEUED_BYTES:  # the disk is too slow
            self.flush()

    def _flush_periodically(self) -> None:
        while not self._ended.wait(WRITE_INTERVAL_SECONDS):
            self.flush()
        self.flush()

    def flush(self) -> None:
        """Write the queued lines of all threads."""
        with self._writing:
            self._bytes = 0
            try:
                batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
                # samples first, so that no answered sample is missing
                for name in ("samples.jsonl", "records.jsonl"):
                    lines = [line for target, line in batch if target == name]
                    if lines and self._failure is None:
                        append_file(self.path / name, b"".join(lines))
            except OSError as exc:  # a full disk must stop the run, not only this thread
                self._failure = exc
                self.on_failure()


def cut_torn_tail(path: Path) -> None:
    """Cut off an incomplete last line, which a killed process leaves."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        keep = start = end
        while start > 0:
            start = max(0, start - 65536)
            file.seek(start)
            newline = file.read(keep - start).rfind(b"\n")
            keep = start + newline + 1
            if newline >= 0:
                break
        if keep != end:
            file.truncate(keep)


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(inner) for inner in value]
    return value


def make_record(
    point: Arm, given: Sample, sha: str, state: State, blobs: Blobs, error: str = ""
) -> Record:
    """Return the record of one sample at one point, after storing the messages and pictures sent in
    `blobs`.

    `given` is the task's sample before the stages: marks and choices are recorded if a stage
    changed them.
    """
    calls = [call for entry in state.trace for call in entry.calls]
    sent = {node["sha"]: node for node in _store_pictures(calls, blobs)}
    asked, replies = state.sample, [call.reply for call in calls]
    timings = {
        "total": round(sum(entry.seconds for entry in state.trace), 6),
        "stages": {entry.slot: round(entry.seconds, 6) for entry in state.trace},
        "calls": [{"seconds": r.seconds, "cached": r.cached} if r else {} for r in replies],
    }
    return Record(
        point=point.id,
        sample=state.sample.id,
        sample_sha=sha,
        draw=state.draw,
        answer=None if error else state.answer,
        reason=state.reason,
        confidence=state.confidence,
        error=error,
        calls=tuple(_describe_call(call, blobs) for call in calls),
        pictures=tuple(sent),
        marks=tuple(mark.to_dict() for mark in asked.marks) if asked.marks != given.marks else None,
        notes=state.notes,
        timings=timings,
        sent=tuple(sent.values()),
        choices=tuple(asked.to_dict()["choices"]) if asked.choices != given.choices else None,
        letters=dict(state.letters) or None,
        measured=dict(state.measures) or None,
    )


def make_point_rows(plan: Plan) -> list[PointRow]:
    """Return the rows of points.yaml for a plan. Raises RunError if a setting holds a secret key,
    since all settings are written."""
    rows = [
        PointRow(
            arm.id,
            arm.contestant,
            arm.task_name,
            arm.task_id,
            dict(arm.changes),
            arm.baseline,
            asdict(arm.task.facts) | {"scorer": spec(arm.task.facts.scorer)},
            arm.spec,
            spec(arm.read),
            arm.draws,
            arm.seed,
            arm.replies_of,
        )
        for arm in (*plan.points, *plan.readings)
    ]
    try:
        reject_keys(**plan.config)
        for row in rows:  # contents of text files, and objects built without a configuration
            reject_keys(contestants={row.contestant: asdict(row)})
    except ValueError as exc:
        raise RunError(str(exc)) from exc
    return rows


def describe_failure(exc: BaseException) -> str:
    """Format the traceback of a stage's exception, with secret keys masked.

    The last line of the traceback comes first, because tables show only one line; it names the line
    of a plugin's code that raised the exception.
    """
    text, place = describe_exception(exc), find_plugin_frame(exc)
    if place:
        first, *more = text.split("\n", 1)
        text = "\n".join([f"{first}, in {place}{_suggest_fix(exc, text)}", *more])
    return mask_keys(f"{text}\n{repair_text(''.join(traceback.format_exception(exc)))}")


def _suggest_fix(exc: BaseException, text: str) -> str:
    """Suggest a fix for code that uses an attribute that our object lacks, or that sets one that
    cannot be set."""
    if isinstance(exc, FrozenInstanceError):
        return "; change a copy, such as state.replace(prompt=...)"
    owner, name = type(getattr(exc, "obj", None)), getattr(exc, "name", None)
    if strange := re.search(r"State\.__init__.. got an unexpected keyword argument '(\w+)'", text):
        owner, name = State, strange[1]
    if not isinstance(name, str) or not owner.__module__.startswith("looktwice.pipelines."):
        return ""
    names = {*dir(owner), *getattr(owner, "__dataclass_fields__", ())}
    return extend_hint(suggest_names(name, sorted(names)), f"see `looktwice list {owner.__name__}`")


def describe_reply(reply: Reply) -> dict[str, Any]:
    """Return a reply as a record holds it, without `seconds` and `cached`, which belong to the
    timings."""
    plain = reply.to_dict()
    return {key: value for key, value in plain.items() if key not in ("seconds", "cached")}


def _describe_call(call: Call, blobs: Blobs) -> dict[str, Any]:
    try:
        shas = [
            blobs.put(write_canonical(make_message_json(turn)).encode()) for turn in call.messages
        ]
    except PictureError:  # an unencodable picture made this call fail; its error says so
        shas = []
    more = {
        "options": call.options.to_dict(),
        "reply": call.reply and describe_reply(call.reply),
        "error": call.error,
        "model": call.model,
    }
    return {"messages": shas, "draw": call.draw} | {k: value for k, value in more.items() if value}


def _store_pictures(calls: Iterable[Call], blobs: Blobs) -> Iterable[dict[str, Any]]:
    for call in calls:
        for view in (view for message in call.messages for view in message.views):
            try:
                payload, (width, height) = view.picture.payload, view.size
            except PictureError:
                continue
            sent = {
                "sha": blobs.put(payload.data, payload.sha),
                "bytes": len(payload.data),
                "type": payload.media_type,
                "width": width,
                "height": height,
            }
            more = {"note": payload.note, "seconds": view.seconds}
            yield sent | {name: value for name, value in more.items() if value}

"""The record of one sample at one point as a line of JSON, and the run folder that holds the
lines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml

from looktwice.eval.records.checked import (
    FACTS,
    MESSAGE,
    POINTS,
    RECORD,
    RunError as RunError,
    parse_line,
    parse_yaml,
)
from looktwice.eval.records.sample_rows import (
    SampleRow as SampleRow,
    StoredSampleRow,
    stored_picture,
)
from looktwice.pipelines.disk import MOST_LINE, open_file, read_lines
from looktwice.pipelines.json_input import write_json
from looktwice.pipelines.model import Message, Reply, Role, ToolCall
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.view import View

VERSION = 1

Key = tuple[str, str, int]
Outcome = Literal["answered", "failed", "lost"]
"""(point id, sample id, draw): the last record of a key counts."""
_HEAD = re.compile(
    rb'{"point":"([^"\\]*)","sample":"([^"\\]*)","sample_sha":"[^"\\]*","draw":(\d{1,9}),'
)
"""How a line that this code wrote begins; another one is parsed as a whole to know its key."""


RUN_FILES = ("points.yaml", "samples.jsonl", "records.jsonl", "judged.jsonl", "run.yaml")


@dataclass(frozen=True)
class Record:
    """Record v1. `error` is the traceback of a FAILED sample; `reason` says why there is no answer.

    `calls` hold, per call, the messages (sha256 of their JSON in `blobs`), `draw`, `options`, and
    `reply` or `error`. `pictures` are the sha256 of every picture sent, `sent` the same with bytes,
    media type, width, height and, where they are not the source's own bytes, why. `marks` and
    `choices` are given where a stage changed them, `letters` (a letter as it was asked -> the
    sample's own letter) where a stage permuted them: `answer` and the replies speak of the letters
    as asked, and scoring maps them back. `notes` are what the stages say they did otherwise than
    usual, such as that nothing was found to zoom on. `measured` are the numbers and categories that
    stages measured, by name: one, or a list with one for each turn. `timings` hold seconds (total,
    by stage) and, per call, its seconds and whether it came from the cache.
    """

    point: str
    sample: str
    sample_sha: str
    draw: int = 0
    answer: str | None = None
    reason: str = ""
    confidence: float | None = None
    error: str = ""
    calls: tuple[Mapping[str, Any], ...] = ()
    pictures: tuple[str, ...] = ()
    marks: tuple[Mapping[str, Any], ...] | None = None
    notes: tuple[str, ...] = ()
    timings: Mapping[str, Any] = field(default_factory=dict)
    sent: tuple[Mapping[str, Any], ...] = ()
    choices: tuple[Any, ...] | None = None
    letters: Mapping[str, str] | None = None
    measured: Mapping[str, Any] | None = None
    v: int = VERSION

    @property
    def key(self) -> Key:
        """What makes this record the successor of an earlier one."""
        return self.point, self.sample, self.draw

    def to_line(self) -> str:
        """One line of JSON; numbers that JSON does not know become null."""
        return write_json({name: getattr(self, name) for name in _FIELDS}) + "\n"

    @classmethod
    def from_line(cls, line: str | bytes) -> Record:
        """The way back. Raises RunError for a version that this code does not know."""
        data = _parse_record(line)
        for name in ("calls", "pictures", "marks", "notes", "sent", "choices"):
            if data.get(name) is not None:
                data[name] = tuple(data[name])
        record = object.__new__(
            cls
        )  # to set 18 fields of a frozen class one by one takes longer than to read them
        vars(record).update({"timings": {}}, **data)
        return record

    @property
    def last_reply(self) -> Mapping[str, Any] | None:
        """The reply of the last call that brought one, as `Reply.to_dict` wrote it."""
        for call in reversed(self.calls):
            if reply := call.get("reply"):
                return reply  # type: ignore[no-any-return]
        return None

    @property
    def replies(self) -> list[Reply]:
        """The replies of every call that brought one, in order."""
        return [Reply.from_dict(call["reply"]) for call in self.calls if call.get("reply")]


_FIELDS = tuple(each.name for each in fields(Record))


def _parse_record(line: str | bytes) -> dict[str, Any]:
    data = parse_line(line, RECORD)
    if data["v"] != VERSION:
        raise RunError(f"a record of version {data['v']}; this looktwice reads version {VERSION}")
    return data


@dataclass(frozen=True)
class PointRow:
    """A point of points.yaml: who answered, on which task, and the full spec of what was built.

    `changes` are the swept or single changes behind it, by dotted place; `task` is the task's name
    in the configuration, `task_id` the identity of the task as built; `facts` are the task's split,
    label version, errata and note; `baseline` marks the points of the baseline contestant.
    `replies_of` is empty, or the id of the point whose records this one reads with another reader.
    """

    id: str
    contestant: str
    task: str
    task_id: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    baseline: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spec: Mapping[str, Any] = field(default_factory=dict, repr=False)
    read: Mapping[str, Any] = field(default_factory=dict, repr=False)
    draws: int = 1
    seed: int = 0
    replies_of: str = ""

    @property
    def recorded_as(self) -> str:
        """The id under which its records stand."""
        return self.replies_of or self.id


@dataclass(frozen=True)
class RunFolder:
    """`points.yaml`, `samples.jsonl`, `records.jsonl` and `blobs/` of one run, for reading."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # a notebook gives a text
        refuse_links(self.path)

    @cached_property
    def blobs(self) -> Blobs:
        """Every picture sent and every message, by sha256."""
        return Blobs(self.path / "blobs")

    @cached_property
    def points(self) -> dict[str, PointRow]:
        """The points by id, in the order in which they were asked. Raises RunError."""
        path = self.path / "points.yaml"
        if not path.exists():
            raise RunError(
                f"{self.path} is no run folder: it has no points.yaml; give the folder that `run`"
                " named"
            )
        try:
            return {row["id"]: PointRow(**row) for row in parse_yaml(path, POINTS) or ()}
        except (yaml.YAMLError, ValueError) as exc:
            raise RunError(
                f"{path} is damaged ({exc}); remove it and run the configuration again: it is"
                " written anew, and what was answered stays"
            ) from exc

    @property
    def samples(self) -> dict[tuple[str, str], SampleRow]:
        """The samples by (task id, sample id), in a new dictionary."""
        return {
            (task, name): row
            for task, rows in self.samples_of.items()
            for name, row in rows.items()
        }

    @cached_property
    def samples_of(self) -> dict[str, dict[str, SampleRow]]:
        """The samples by task id and sample id; the last line counts."""
        found: dict[str, dict[str, SampleRow]] = {}
        for number, line in enumerate(_lines(self.path / "samples.jsonl"), 1):
            try:
                row = StoredSampleRow(line)
                found.setdefault(row.task, {})[row.id] = row
            except ValueError as exc:
                raise _damaged(self.path / "samples.jsonl", number, "a sample", exc) from exc
        return found

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """run.yaml: who was left out and why, versions, how many samples the tasks hold, whether
        the run finished.

        Raises RunError.
        """
        path = self.path / "run.yaml"
        try:
            return (parse_yaml(path, FACTS) if path.exists() else None) or {}
        except (yaml.YAMLError, ValueError) as exc:
            raise RunError(
                f"{path} is damaged ({exc}); remove it and run the configuration again"
            ) from exc

    @property
    def present_and_older(self) -> tuple[list[PointRow], list[PointRow]]:
        """The points of the plan in run.yaml, in its order, and those of earlier plans (none
        without a list)."""
        listed = dict.fromkeys(self.facts.get("arms") or self.points)
        present = [self.points[name] for name in listed if name in self.points]
        return present, [point for name, point in self.points.items() if name not in listed]

    def records(self, sample: str | None = None) -> dict[Key, Record]:
        """The last record of every key, or of those of one sample, read afresh; `last_records`
        holds one at a time.

        Raises RunError with the line number of a damaged line.
        """
        return {
            record.key: record for record in self.last_records(None if sample is None else {sample})
        }

    def last_records(
        self, samples: Collection[str] | None = None, holding: str = ""
    ) -> Iterator[Record]:
        """The last record of every key, in the order of their lines, one after the other.

        With `samples` only theirs, with `holding` only those whose JSON holds this piece: the
        others are not parsed. Raises RunError with the line number of a damaged line.
        """
        path, piece, replaced = self.path / "records.jsonl", holding.encode(), None
        names = None if samples is None else {name.encode() for name in samples}
        for number, line in enumerate(_lines(path), 1):
            if piece not in line or not (names is None or self._raw_key(number, line)[1] in names):
                continue
            if (
                replaced is None
            ):  # where no line is wanted, as where no agent ran, nobody asks which of them count
                replaced = self._replaced_lines()
            if number not in replaced:
                yield self._parsed(number, line, Record.from_line)

    def outcomes(self) -> dict[Key, Outcome]:
        """How the last record of each key ended; "lost" is an answer of which a message or picture
        is gone.

        Raises RunError as `last_records` does.
        """
        outcomes, blobs = dict[Key, Outcome](), self.blobs.names()
        for number, line in enumerate(_lines(self.path / "records.jsonl"), 1):
            record = self._parsed(number, line, _parse_record)
            key = record["point"], record["sample"], record.get("draw", 0)
            messages = (sha for call in record.get("calls", ()) for sha in call["messages"])
            whole = blobs.issuperset(messages) and blobs.issuperset(record.get("pictures") or ())
            outcomes[key] = "failed" if record.get("error") else "answered" if whole else "lost"
        return outcomes

    def _replaced_lines(self) -> set[int]:
        """The numbers of the lines that a later one with the same key replaces; mostly none."""
        last, replaced = dict[Sequence[bytes], int](), set[int]()
        for number, line in enumerate(_lines(self.path / "records.jsonl"), 1):
            key = self._raw_key(number, line)
            if key in last:
                replaced.add(last[key])
            last[key] = number
        return replaced

    def _raw_key(self, number: int, line: bytes) -> Sequence[bytes]:
        if head := _HEAD.match(line):
            return head.groups()
        return tuple(
            str(part).encode() for part in self._parsed(number, line, Record.from_line).key
        )

    def _parsed(self, number: int, line: bytes, parse: Callable[[bytes], Any]) -> Any:
        try:
            return parse(line)
        except ValueError as exc:
            raise _damaged(self.path / "records.jsonl", number, "a record", exc) from exc

    def messages(self, record: Record, call: int = -1) -> tuple[Message, ...]:
        """The conversation of one call with its reply; a message is read from the blobs when it is
        looked at."""
        if not record.calls:
            return ()
        entry, blobs = record.calls[call], self.blobs
        sent = [StoredMessage(blobs, sha) for sha in entry["messages"]]
        if not (reply := entry.get("reply")):
            return tuple(sent)
        tools = tuple(ToolCall(**call) for call in reply.get("tool_calls", ()))
        return (*sent, Message("assistant", (reply["text"],), tools))


class StoredMessage(Message):
    """A message of a run's blobs, read when something of it is looked at; pictures come from the
    kept bytes.

    Most readers look at the reply alone, which stands in the record. Raises RunError where the blob
    is gone or damaged.
    """

    _stored: tuple[Blobs, str]

    def __init__(self, blobs: Blobs, sha: str) -> None:
        object.__setattr__(self, "_stored", (blobs, sha))

    @cached_property
    def _read(self) -> Message:
        blobs, sha = self._stored
        data = read_message(blobs, sha)
        parts = tuple(
            p if isinstance(p, str) else View(stored_picture(blobs, p["picture"]))
            for p in data["parts"]
        )
        calls = tuple(ToolCall(**call) for call in data.get("tool_calls", ()))
        return Message(data["role"], parts, calls, data.get("call_id", ""))

    @property
    def role(self) -> Role:
        return self._read.role

    @property
    def parts(self) -> tuple[str | View, ...]:
        return self._read.parts

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self._read.tool_calls

    @property
    def call_id(self) -> str:
        return self._read.call_id


def read_message(blobs: Blobs, sha: str) -> dict[str, Any]:
    """A message that was sent, as `message_json` wrote it. Raises RunError where it is gone or
    damaged."""
    data = b"?"
    try:
        data = blobs.get(sha)
        return parse_line(data, MESSAGE)
    except (OSError, ValueError) as exc:
        raise RunError(
            f"{blobs.folder}: the message {sha[:12]} is gone or damaged"
            f" ({exc if data else 'it is empty'}); remove its file if it is there, and run the"
            " configuration again: what was answered comes from the cache"
        ) from exc


def _lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a JSONL file; a torn last line, which a killed writer leaves, is passed
    over."""
    if not path.exists():
        return
    with open_file(path) as file:
        number = 0
        try:
            short = os.fstat(file.fileno()).st_size < MOST_LINE
            for number, line in enumerate(file if short else read_lines(file), 1):  # noqa: B007
                if line.endswith(b"\n"):
                    yield line
        except ValueError as exc:
            raise _damaged(path, number + 1, "a line", exc) from exc


def refuse_links(run: Path) -> None:
    """Raises RunError for a link, a pipe or a device in a run folder: in one that somebody sent it
    leads elsewhere.

    The folder itself may be a link.
    """
    if not run.is_dir():
        return
    with os.scandir(run) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
            what = "a link" if entry.is_symlink() else "a pipe or a device"
            raise RunError(
                f"{run / entry.name} is {what}; a run consists of its own files and folders, so"
                " remove it"
            )


def refuse_run_file(out: Path) -> None:
    """Raises RunError for a path at which a file lies that a run is made of: to write there would
    lose the run."""
    if out.name in RUN_FILES and (out.parent / "points.yaml").exists():
        raise RunError(
            f"{out} is what the run in {out.parent} is made of; name another file to write"
        )


def _damaged(path: Path, number: int, what: str, exc: Exception) -> RunError:
    advice = "delete the line and run the configuration again"
    return RunError(
        f"{path} line {number}: not {what} ({exc}); {advice}: what was answered comes from the"
        " cache"
    )

"""Reads a run folder, whose lines `schema` describes, and the messages that belong to a record."""

from __future__ import annotations

import glob
import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

import yaml
from pydantic import Field, with_config
from typing_extensions import TypedDict

from looktwice.eval.records.schema import (
    MAX_PARSED_SAMPLES,
    Json,
    Key as Key,
    KeyNode,
    MessageNode,
    PointRow as PointRow,
    Record as Record,
    RunError as RunError,
    SampleRow as SampleRow,
    SampleRows,
    load_stored_picture,
)
from looktwice.pipelines.disk import LOADER, check_yaml, has_text, open_file, read_file, read_lines
from looktwice.pipelines.json_input import ALLOW_EXTRA, FORBID_EXTRA, JsonInteger, Number, read_as
from looktwice.pipelines.model import Message, Role, ToolCall
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.view import View

if TYPE_CHECKING:
    from looktwice.prompting.agent.looks import Look

Outcome = Literal["answered", "failed", "lost"]
RUN_FILES = ("points.yaml", "samples.jsonl", "records.jsonl", "judged.jsonl", "run.yaml")


@with_config(ALLOW_EXTRA)
class PublishedNode(TypedDict, total=False):
    """A published result in a configuration."""

    accuracy: dict[str, Number] | None
    people: bool | None
    split: str | None
    n: dict[str, JsonInteger] | None


@with_config(ALLOW_EXTRA)
class ConfigNode(TypedDict, total=False):
    """The part of a run's configuration that the commands score and report read."""

    sweep: Json | None
    contestants: Json | None
    models: Json | None
    stages: Json | None
    fragility: Json | None
    thresholds: Json | None
    each: list[Json] | None
    published: dict[str, PublishedNode] | None


@with_config(FORBID_EXTRA)
class PluginNode(TypedDict):
    """A plugin of a run."""

    name: str
    path: str
    sha: NotRequired[str]


Pair = Annotated[list[JsonInteger], Field(min_length=2, max_length=2)]


@with_config(ALLOW_EXTRA)
class ShardNode(TypedDict):
    """A shard of a merged run."""

    folder: str
    records: JsonInteger
    failed: JsonInteger
    tokens_in: JsonInteger
    tokens_out: JsonInteger
    planned: NotRequired[dict[str, JsonInteger]]
    started: NotRequired[str | None]
    shard: NotRequired[Pair | None]


@with_config(ALLOW_EXTRA)
class FactsNode(TypedDict, total=False):
    """The contents of run.yaml."""

    name: str | None
    started: str | None
    left_out: Json | None
    config: ConfigNode | None
    versions: dict[str, str | list[str]] | None
    samples: dict[str, JsonInteger] | None
    planned: dict[str, JsonInteger] | None
    arms: list[str] | None
    plugins: list[PluginNode] | None
    limit: JsonInteger | None
    finished: bool
    shard: Pair | None
    data: dict[str, dict[str, str]] | None
    shards: list[ShardNode] | None


def read_yaml(path: Path, kind: Any) -> Any:
    """Read a YAML file and check it against the type `kind`; return None if it is empty. Raises
    ValueError and YAMLError with the fault."""
    text = read_file(path).decode()
    check_yaml(text)
    value = yaml.load(text, Loader=LOADER)
    if value is not None:
        read_as(kind, json.dumps(value, ensure_ascii=False, default=str).encode())
    return value


@dataclass(frozen=True)
class RunFolder:
    """`points.yaml`, `samples.jsonl`, `records.jsonl` and `blobs/` of one run, for reading.

    A folder that does not exist, as before a first run, has no samples and no records; `points`
    raises RunError if the folder is not a run.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # notebooks pass a string
        refuse_links(self.path)

    @cached_property
    def blobs(self) -> Blobs:
        """All sent pictures and messages, by sha256."""
        return Blobs(self.path / "blobs")

    @cached_property
    def points(self) -> dict[str, PointRow]:
        """The points by id, in the order in which they were run. Raises RunError."""
        if not is_run(self.path):
            of_study = Path("runs").glob(f"{glob.escape(self.path.stem)}/points.yaml")
            inner = (*self.path.glob("*/points.yaml"), *of_study)
            near = sorted(str(file.parent) for file in inner)[:3]
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise RunError(
                f"{self.path} is not a run folder: it has no points.yaml; name the folder that"
                f" `run` printed{hint}"
            )
        nodes = self._yaml("points.yaml", list[PointRow]) or ()
        return {node["id"]: PointRow(**node) for node in nodes}

    @property
    def samples(self) -> dict[tuple[str, str], SampleRow]:
        """The samples by (task id, sample id), in a new dictionary."""
        return {
            (task, name): row
            for task, rows in self.samples_by_task.items()
            for name, row in rows.items()
        }

    @cached_property
    def samples_by_task(self) -> dict[str, Mapping[str, SampleRow]]:
        """The samples by task id and sample id; the last line of a sample counts."""
        samples = defaultdict[str, SampleRows](SampleRows)
        lines = self._parse_lines("samples.jsonl", lambda line: (read_as(SampleRow, line), line))
        for number, (row, line) in lines:
            samples[row.task].add(row, row if number <= MAX_PARSED_SAMPLES else line)
        return dict(samples)

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The contents of run.yaml: contestants that were left out and why, versions, the number of
        samples of each task, whether the run finished.

        Raises RunError.
        """
        return ((self.path / "run.yaml").exists() and self._yaml("run.yaml", FactsNode)) or {}

    def _yaml(self, name: str, kind: Any) -> Any:
        path = self.path / name
        try:
            return read_yaml(path, kind)
        except (yaml.YAMLError, ValueError) as exc:
            raise RunError(
                f"{path} is damaged ({exc}); remove it and run the configuration again: it is"
                " rewritten, and existing answers are kept"
            ) from exc

    @property
    def current_and_earlier_points(self) -> tuple[list[PointRow], list[PointRow]]:
        """The points of the plan in run.yaml, in its order, and those of earlier plans. If run.yaml
        lists no points, all count as current."""
        listed = dict.fromkeys(self.facts.get("arms") or self.points)
        present = [self.points[name] for name in listed if name in self.points]
        return present, [point for name, point in self.points.items() if name not in listed]

    def records(self, sample: str | None = None) -> dict[Key, Record]:
        """Read the last record of every key, of all samples or of only one. `last_records` yields
        them one at a time.

        Raises RunError with the line number of a damaged line.
        """
        wanted = None if sample is None else {sample}
        return {record.key: record for record in self.last_records(wanted)}

    def last_records(
        self, samples: Collection[str] | None = None, holding: str = ""
    ) -> Iterator[Record]:
        """Yield the last record of every key, in the order of the lines.

        If `samples` are given, yields only their records; with `holding`, only lines whose JSON
        contains this text. Other lines are not parsed. Raises RunError with the line number of a
        damaged line.
        """
        name, piece = "records.jsonl", holding.encode()
        path = self.path / name
        if not path.exists() or (piece and not has_text(path, piece)):
            return
        last = {key: number for number, key in self._parse_lines(name, parse_key)}
        wanted = {n for key, n in last.items() if samples is None or key[1] in samples}
        for _, record in self._parse_lines(
            name, Record.from_line, lambda number, line: number in wanted and piece in line
        ):
            yield record

    def outcomes(self) -> dict[Key, Outcome]:
        """Return how the last record of each key ended; "lost" means that it has an answer, but a
        message or picture is missing.

        Raises RunError as `last_records` does.
        """
        outcomes, blobs = dict[Key, Outcome](), self.blobs.list_names()
        for _, record in self._parse_lines("records.jsonl", Record.from_line):
            named = {sha for call in record.calls for sha in call["messages"]}
            whole = blobs >= named.union(record.pictures)
            outcomes[record.key] = "failed" if record.error else "answered" if whole else "lost"
        return outcomes

    def _parse_lines(
        self,
        name: str,
        parse: Callable[[bytes], Any],
        wanted: Callable[[int, bytes], bool] = lambda number, line: True,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the wanted lines of a JSONL file, parsed, with their line numbers. A torn last
        line, which a killed writer leaves, is skipped."""
        path, number = self.path / name, 1
        if not path.exists():
            return
        with open_file(path) as file:
            try:
                for line in read_lines(file):
                    if line.endswith(b"\n") and wanted(number, line):
                        yield number, parse(line)
                    number += 1
            except ValueError as exc:
                raise make_damaged_line_error(path, number, exc) from exc

    def messages(self, record: Record, call: int = -1) -> tuple[Message, ...]:
        """Return the conversation of one call, including the reply; messages are read from the
        blobs on first use."""
        if not record.calls:
            return ()
        entry = record.calls[call]
        sent = [StoredMessage(self.blobs, sha) for sha in entry["messages"]]
        if not (reply := entry.get("reply")):
            return tuple(sent)
        tools = tuple(ToolCall(**call) for call in reply.get("tool_calls", ()))
        attached = reply.get("attached", {})
        return (*sent, Message("assistant", (reply["text"],), tools, attached=attached))


def make_damaged_line_error(path: Path, number: int, fault: ValueError) -> RunError:
    """Return the error for a line of a run's file that cannot be parsed."""
    if isinstance(fault, RunError):  # another version
        return RunError(f"{path} line {number}: {fault}")
    return RunError(
        f"{path} line {number}: not a {path.name.removesuffix('s.jsonl')} ({fault}); delete the"
        " line and run the configuration again: existing answers come from the cache"
    )


def parse_key(line: bytes) -> Key:
    """Parse only the key of a record, in half the time of the whole record."""
    node = read_as(KeyNode, line)
    return node["point"], node["sample"], node.get("draw", 0)


@dataclass
class RecordLines:
    """An iterable over the records of records.jsonl from the byte `end` on, at which line number
    `number` + 1 begins. Both numbers advance with each line; `begin` is the byte at which the line
    of the latest record began. A later record replaces an earlier one with the same key.

    A torn last line, which a killed writer leaves, is skipped. A damaged line raises RunError. If
    the key of the damaged line can be read, the error is raised only after the last line, and not
    at all if a later record replaces this one.
    """

    path: Path
    end: int = 0
    number: int = 0
    begin: int = 0

    def __iter__(self) -> Iterator[Record]:
        if not self.path.exists():
            return
        damaged = dict[Key, RunError]()
        with open_file(self.path) as file:
            file.seek(self.end)
            try:
                for line in read_lines(file):
                    if not line.endswith(b"\n"):
                        break
                    self.begin, self.end = self.end, self.end + len(line)
                    self.number += 1
                    try:
                        record = Record.from_line(line)
                    except ValueError as exc:
                        damaged[parse_key(line)] = make_damaged_line_error(
                            self.path, self.number, exc
                        )
                        continue
                    if damaged:
                        damaged.pop(record.key, None)
                    yield record
            except ValueError as exc:
                raise make_damaged_line_error(self.path, self.number, exc) from exc
        if damaged:
            raise next(iter(damaged.values()))


def read_records_at(path: Path, begins: Iterable[int]) -> Iterator[Record]:
    """Yield the records whose lines begin at these bytes. Raises RunError if the file has changed
    so that no record begins there."""
    with open_file(path) as file:
        for begin in begins:
            file.seek(begin)
            try:
                yield Record.from_line(next(read_lines(file), b""))
            except ValueError as exc:
                raise RunError(f"{path} changed after it was scored; start again ({exc})") from exc


class StoredMessage(Message):
    """A message from a run's blobs, read on first use; its pictures have the stored bytes.

    Most readers use only the reply, which is in the record itself. Raises RunError if the blob is
    missing or damaged.
    """

    _stored: tuple[Blobs, str]

    def __init__(self, blobs: Blobs, sha: str) -> None:
        object.__setattr__(self, "_stored", (blobs, sha))

    @cached_property
    def _read(self) -> Message:
        blobs, sha = self._stored
        node = read_message(blobs, sha)
        parts = tuple(
            part if isinstance(part, str) else View(load_stored_picture(blobs, part["picture"]))
            for part in node["parts"]
        )
        calls = tuple(ToolCall(**call) for call in node.get("tool_calls", ()))
        attached = node.get("attached", {})
        return Message(node["role"], parts, calls, node.get("call_id", ""), attached)

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

    @property
    def attached(self) -> Mapping[str, Any]:
        return self._read.attached


def read_message(blobs: Blobs, sha: str) -> Json:
    """Read a message that `make_message_json` wrote. Raises RunError if it is missing or
    damaged."""
    try:
        return read_as(MessageNode, blobs.get(sha))  # type: ignore[no-any-return]
    except (OSError, ValueError) as exc:
        raise RunError(
            f"{blobs.folder}: the message {sha[:12]} is missing or damaged ({exc}); remove its file"
            " if it exists and run the configuration again: existing answers come from the cache"
        ) from exc


def get_looks(record: Record) -> Sequence[Look]:
    """Return an agent's looks (tool calls) in a record, in order. Their parser is imported only if
    there are any."""
    if not any(note.startswith("look {") for note in record.notes):
        return ()
    from looktwice.prompting.agent.looks import read_looks

    return read_looks(record.notes)


def refuse_links(run: Path) -> None:
    """Raise RunError for a link, a pipe or a device in a run folder, which in a folder from an
    untrusted source could lead to other files.

    The folder itself may be a link.
    """
    for entry in list(os.scandir(run)) if run.is_dir() else ():
        if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
            raise RunError(
                f"{run / entry.name} is a link, a pipe or a device; remove it: a run consists of"
                " its own files and folders"
            )


def is_run(path: Path) -> bool:
    """Return whether this is a run folder."""
    return (path / "points.yaml").exists()


def refuse_run_file(out: Path) -> None:
    """Raise RunError if `out` is one of the files of a run, which writing would destroy."""
    if out.name in RUN_FILES and is_run(out.parent):
        raise RunError(f"{out} is a file of the run in {out.parent}; name another file to write")

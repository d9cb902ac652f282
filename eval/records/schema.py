"""Types of the lines and files in a run folder; pydantic checks the files against these types when
they are read."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Container, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from looktwice.pipelines.json_input import (
    ALLOW_EXTRA,
    FORBID_EXTRA,
    CheckedAs,
    FiniteObject,
    JsonInteger,
    Number,
    read_as,
    write_canonical,
    write_json,
)
from looktwice.pipelines.marks import mark_from_dict
from looktwice.pipelines.model import Reply, ReplyNode, ToolCallNode
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import UNCHANGED_NOTE

__all__ = ["PointRow", "Record", "RunError", "SampleRow"]

VERSION = 1
MAX_DRAWS = 10_000
"""The maximum number of draws per sample, because scoring allocates memory for every draw."""
Key = tuple[str, str, int]
"""(point id, sample id, draw): the last record with a key counts."""
MAX_PARSED_SAMPLES = 10_000
"""The number of samples of a run that are kept in parsed form, which needs four times the
memory."""
Draw = Annotated[int, Field(ge=0, lt=MAX_DRAWS)]
Nodes = Mapping[str, Any]
Json = dict[str, Any]


class RunError(ValueError):
    """An error for a run folder that cannot be read or resumed; the message names what was found
    and what to type."""


@with_config(FORBID_EXTRA)
class PictureNode(TypedDict):
    """A choice that is a picture, named by its sha256."""

    picture: str


Choice = str | PictureNode


@with_config(FORBID_EXTRA)
class MarkNode(TypedDict, total=False):
    """A mark as its class's `to_dict` writes it; a number that JSON cannot represent is null."""

    label: str
    image: JsonInteger
    x: Number | None
    y: Number | None
    x0: Number | None
    y0: Number | None
    x1: Number | None
    y1: Number | None
    size: list[JsonInteger]
    counts: list[JsonInteger]


@with_config(FORBID_EXTRA)
class CallNode(TypedDict):
    """A call: its messages, named by the sha256 of their JSON, and the reply or the error."""

    messages: list[str]
    draw: NotRequired[JsonInteger]
    options: NotRequired[Json]
    reply: NotRequired[ReplyNode | None]
    error: NotRequired[str]
    model: NotRequired[str]


@with_config(ConfigDict(extra="ignore", strict=True))
class KeyNode(TypedDict):
    """The key of a record: a later record with the same key replaces it."""

    point: str
    sample: str
    draw: NotRequired[Draw]


@with_config(ALLOW_EXTRA)
class CallTimeNode(TypedDict, total=False):
    """The duration of a call in seconds, and whether the reply was a cache hit."""

    seconds: Number | None
    cached: bool


@with_config(ALLOW_EXTRA)
class TimingsNode(TypedDict, total=False):
    """Times in seconds: the total, by stage and by call."""

    total: Number | None
    stages: dict[str, Number | None]
    calls: list[CallTimeNode]


@with_config(ALLOW_EXTRA)
class SentNode(TypedDict):
    """A picture that was sent."""

    sha: str
    bytes: NotRequired[JsonInteger]
    type: NotRequired[str]
    width: NotRequired[JsonInteger]
    height: NotRequired[JsonInteger]
    note: NotRequired[str]
    seconds: NotRequired[list[Number]]


@with_config(FORBID_EXTRA)
class MessageNode(TypedDict):
    """A message as `make_message_json` writes it."""

    role: str
    parts: list[Choice]
    tool_calls: NotRequired[list[ToolCallNode]]
    call_id: NotRequired[str]
    attached: NotRequired[FiniteObject]


@with_config(FORBID_EXTRA)
class QuestionNode(TypedDict):
    """The text of a sample and the hashes of its images, as `Sample.to_dict` writes them."""

    id: str
    question: str
    images: list[str]
    choices: list[Choice]
    marks: list[MarkNode]
    meta: FiniteObject


Measure = float | int | str | None


@dataclass(frozen=True)
class Record:
    """Record v1. `error` is the traceback of a FAILED sample, `reason` states why there is no
    answer.

    `calls` hold, per call, the messages (sha256 of their JSON in `blobs`), `draw`, `options`, and
    `reply` or `error`. `pictures` holds the sha256 of all pictures sent; `sent` adds their size in
    bytes, media type, width, height, the times of video frames, and the reason if they are not the
    source's own bytes. `marks` and `choices` are set if a stage changed them, `letters` (a letter
    as asked -> the sample's own letter) if a stage permuted them: `answer` and the replies use the
    letters as asked, and scoring maps them back. `notes` report where stages deviated from their
    usual work, for example because there was nothing to zoom on. `measured` holds what the stages
    measured, by name: a number or category, or a list with one for each turn. `timings` hold
    seconds (total, by stage) and, per call, its seconds and whether it was a cache hit.
    """

    __pydantic_config__ = FORBID_EXTRA
    point: str
    sample: str
    sample_sha: str
    draw: Draw = 0
    answer: str | None = None
    reason: str = ""
    confidence: Number | None = None
    error: str = ""
    calls: tuple[Annotated[Nodes, CheckedAs(CallNode)], ...] = ()
    pictures: tuple[str, ...] = ()
    marks: tuple[Annotated[Nodes, CheckedAs(MarkNode)], ...] | None = None
    notes: tuple[str, ...] = ()
    timings: Annotated[Nodes, CheckedAs(TimingsNode)] = field(default_factory=dict)
    sent: tuple[Annotated[Nodes, CheckedAs(SentNode)], ...] = ()
    choices: tuple[Annotated[Any, CheckedAs(Choice)], ...] | None = None
    letters: Annotated[Mapping[str, str], CheckedAs(dict[str, str])] | None = None
    measured: Annotated[Nodes, CheckedAs(dict[str, Measure | list[Measure]])] | None = None
    v: int = VERSION

    @property
    def key(self) -> Key:
        """The key of the record: a later record with the same key replaces it."""
        return self.point, self.sample, self.draw

    def to_line(self) -> str:
        """Format the record as one line of JSON; numbers that JSON cannot represent become null."""
        return (
            write_json({column.name: getattr(self, column.name) for column in fields(self)}) + "\n"
        )

    @classmethod
    def from_line(cls, line: str | bytes) -> Record:
        """Parse a line that `to_line` wrote. Raises ValueError for an unknown version."""
        record: Record = read_as(cls, line)
        if record.v != VERSION:
            raise RunError(
                f"it has format version {record.v}, and this looktwice reads version {VERSION};"
                " read the run with the looktwice that made it, or run its configuration again"
                " into another folder"
            )
        return record

    @property
    def last_reply(self) -> Nodes | None:
        """The reply of the last call that returned one, as `Reply.to_dict` wrote it."""
        for call in reversed(self.calls):
            if reply := call.get("reply"):
                return reply  # type: ignore[no-any-return]
        return None

    @property
    def request(self) -> bytes:
        """A digest of everything that the arm sent to models and of its answer; without a call,
        also of what it measured.

        Empty if unknown, that is, for a failed sample or for a record whose messages are missing.
        """
        if self.error:
            return b""
        sent = list[str]()
        for call in self.calls:
            get = call.get
            if not (messages := get("messages")):
                return b""
            sent += messages
            sent.append(f"{get('draw')} {get('options')} {get('model')!r}")
        own: list[Any] = [self.answer, self.reason]
        own += [] if sent else [self.confidence, self.measured]
        text = "\n".join([*sent, repr(own)]).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).digest()

    @property
    def kept_notes(self) -> tuple[str, ...]:
        """Notes of stages that found nothing to do."""
        return tuple([sys.intern(note) for note in self.notes if note.endswith(UNCHANGED_NOTE)])

    @property
    def replies(self) -> list[Reply]:
        """The replies of all calls that returned one, in order."""
        return [Reply.from_dict(call["reply"]) for call in self.calls if call.get("reply")]


@dataclass(frozen=True)
class SampleRow:
    """A line of samples.jsonl: a sample's text, marks and hashes, and its correct answer and truth,
    which only scoring reads."""

    __pydantic_config__ = FORBID_EXTRA
    task: str
    sha: str
    answer: str | None
    sample: Annotated[Nodes, CheckedAs(QuestionNode)]
    truth: Annotated[Nodes, CheckedAs(FiniteObject)] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The sample's id within its task."""
        return str(self.sample["id"])

    @property
    def meta(self) -> Nodes:
        """The sample's meta fields, for slices and groups."""
        return self.sample["meta"]  # type: ignore[no-any-return]

    @property
    def n_choices(self) -> int:
        """The number of choices, 0 for an open question."""
        return len(self.sample["choices"])

    @property
    def shared_cluster(self) -> str:
        """The cluster of dependent samples to which this one belongs: its group, otherwise its
        pictures."""
        group = self.meta.get("group")
        no_group = group in (None, "")
        return " ".join(map(str, self.sample["images"])) if no_group else f"group {group}"

    def without_pixels(self, blobs: Blobs, asked: Sequence[Any] | None = None) -> Sample:
        """Return the sample as a reader sees it: its images have hashes, and their pixels can be
        read only if the run stored them.

        `asked` are the choices of a record in which a stage changed them.
        """
        node = self.sample
        choices = [
            choice if isinstance(choice, str) else load_stored_picture(blobs, choice["picture"])
            for choice in (node["choices"] if asked is None else asked)
        ]
        try:
            marks = tuple(map(mark_from_dict, node["marks"]))
        except (ValueError, TypeError, OverflowError) as exc:
            raise RunError(
                f"samples.jsonl, sample {self.id}: {exc}; delete its line and run again"
            ) from exc
        images = tuple(load_stored_picture(blobs, sha) for sha in node["images"])
        return Sample(self.id, node["question"], images, tuple(choices), marks, node["meta"])

    def to_line(self) -> bytes:
        """Format the row as one line of JSON."""
        plain = {column.name: getattr(self, column.name) for column in fields(self)}
        return write_canonical(plain).encode() + b"\n"


class SampleRows(Mapping[str, SampleRow]):
    """The samples of one task by id; the last line of a sample counts.

    `have_answers` is true if every line has a correct answer.
    """

    def __init__(self) -> None:
        self._rows = dict[str, SampleRow | bytes]()
        self.have_answers = True

    def add(self, row: SampleRow, kept: SampleRow | bytes) -> None:
        """Add a row, which is kept as an object or as a line."""
        self._rows[row.id] = kept
        self.have_answers &= row.answer is not None

    def keys(self) -> KeysView[str]:
        """Return the ids of the samples."""
        return self._rows.keys()

    @cached_property
    def metas(self) -> Mapping[str, Mapping[str, Any]]:
        """The meta fields of each sample."""
        return {name: row.meta for name, row in self.items()}

    def only(self, names: Container[str]) -> SampleRows:
        """Return only the samples with these ids."""
        some = SampleRows()
        some._rows = {name: row for name, row in self._rows.items() if name in names}
        some.have_answers = self.have_answers
        return some

    def __getitem__(self, name: str) -> SampleRow:
        row = self._rows[name]
        return _parse_sample(row) if isinstance(row, bytes) else row

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@lru_cache(maxsize=5_000)
def _parse_sample(line: bytes) -> SampleRow:
    row: SampleRow = read_as(SampleRow, line)
    return row


def load_stored_picture(blobs: Blobs, sha: str) -> Picture:
    """Return a picture that the run stored; it is read when its pixels are needed."""

    def fetch() -> bytes:
        try:
            return blobs.get(sha)
        except (OSError, ValueError) as exc:  # it is missing, or its name is not a sha256
            raise PictureError(str(exc)) from exc

    return Picture.lazy(fetch, f"picture {sha[:12]}")


@with_config(ALLOW_EXTRA)
class ClassNode(TypedDict, total=False):
    """The settings of a class."""

    use: str


@with_config(ALLOW_EXTRA)
class SpecNode(TypedDict, total=False):
    """The spec from which an arm was built."""

    stages: Json
    task: Any


@with_config(ALLOW_EXTRA)
class TaskFactsNode(TypedDict, total=False):
    """The facts of a task."""

    scorer: ClassNode | None
    split: str | None
    label_version: str | None
    note: str | None
    revision: str | None
    errata: list[str] | None
    left_out: list[str] | None


@dataclass(frozen=True)
class PointRow:
    """A point of points.yaml: its contestant, its task, and the full spec of the objects built.

    `changes` holds its changes, from a sweep or single, by dotted path; `task` is the task's name
    in the configuration, `task_id` the identity of the task as built; `facts` are the task's split,
    label version, errata and note; `baseline` marks the points of the baseline contestant.
    `replies_of` is empty, or the id of the point whose records this point reads with another
    reader.
    """

    __pydantic_config__ = FORBID_EXTRA
    id: str
    contestant: str
    task: str
    task_id: str
    changes: Annotated[Nodes, CheckedAs(Json)] = field(default_factory=dict)
    baseline: bool = False
    facts: Annotated[Nodes, CheckedAs(TaskFactsNode)] = field(default_factory=dict, repr=False)
    spec: Annotated[Nodes, CheckedAs(SpecNode)] = field(default_factory=dict, repr=False)
    read: Annotated[Nodes, CheckedAs(ClassNode)] = field(default_factory=dict, repr=False)
    draws: Annotated[int, Field(ge=1, lt=MAX_DRAWS)] = 1
    seed: JsonInteger = 0
    replies_of: str = ""

    @property
    def records_id(self) -> str:
        """The id of the point whose records hold this point's replies."""
        return self.replies_of or self.id

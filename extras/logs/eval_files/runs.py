"""Export of runs as `.eval` files: records are read one by one at the offsets of their lines, and
verdicts are taken from the scores of the run, without a table of all rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from looktwice.eval.display.printable import make_file_names
from looktwice.eval.records.records import RunError, RunFolder, SampleRow, read_message
from looktwice.eval.records.schema import load_stored_picture
from looktwice.eval.scoring.columns import VERDICTS, Verdict
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import PointScores
from looktwice.eval.tasks.base import TaskError
from looktwice.extras.logs.eval_files.samples import (
    Attachment,
    Evaluation,
    Sample,
    Turn,
    make_turn,
    write_evaluation,
)
from looktwice.extras.logs.log import MISSING_VALUE, find_unique_names, join_hashes
from looktwice.pipelines.disk import MAX_LINE_BYTES, open_file
from looktwice.pipelines.json_input import Number, read_as
from looktwice.pipelines.model import ToolCall
from looktwice.pipelines.state import Stage

MAX_PICTURE_BYTES, MAX_TURNS = 64 << 20, 16
"""The amounts kept for later samples: bytes of pictures, and recent turns, such as system messages
and examples."""
UNVALUED_VERDICTS = Verdict.FAILED, Verdict.HIDDEN
NEEDED_FIELDS_CONFIG = ConfigDict(extra="ignore", strict=True)


@with_config(NEEDED_FIELDS_CONFIG)
class _ToolCallNode(TypedDict):
    id: str
    name: str
    arguments: str


@with_config(NEEDED_FIELDS_CONFIG)
class _ReplyNode(TypedDict):
    text: str
    tool_calls: NotRequired[list[_ToolCallNode]]


@with_config(NEEDED_FIELDS_CONFIG)
class _CallNode(TypedDict):
    messages: list[str]
    reply: NotRequired[_ReplyNode | None]


@with_config(NEEDED_FIELDS_CONFIG)
class _TimingsNode(TypedDict, total=False):
    total: Number | None


@with_config(NEEDED_FIELDS_CONFIG)
class _RecordNode(TypedDict, total=False):
    """The fields of a record that an export uses; each may be missing."""

    calls: list[_CallNode]
    timings: _TimingsNode


@dataclass(frozen=True)
class _Contestant:
    """A contestant of a run, with its scores on each task."""

    name: str
    source: str
    path: str
    folder: RunFolder = field(repr=False)
    points: Sequence[PointScores] = field(repr=False)
    detail: str = ""


def export_runs(
    paths: Sequence[Path], out: Path, reader: Stage | None = None, plugins: Sequence[str] = ()
) -> Iterator[str]:
    """Write each contestant of the runs into the folder `out`, as a `.eval` file for each task, and
    yield a line per file.

    The files equal those that `export_logs` writes. Raises RunError, and TaskError for an empty
    run.
    """
    contestants = [own for path in paths for own in _score_run(path, reader, plugins)]
    out.mkdir(parents=True, exist_ok=True)
    turns = _Turns(contestants[0].folder)
    for name, contestant in zip(find_unique_names(contestants), contestants, strict=True):
        if turns.folder is not contestant.folder:
            turns = _Turns(contestant.folder)
        files = make_file_names([f"{name}_{own.task}".strip("_") for own in contestant.points])
        for scores, file in zip(contestant.points, files.values(), strict=True):
            about = _describe(name, contestant.source, scores)
            written = write_evaluation(about, _read_samples(scores, turns), out / f"{file}.eval")
            yield f"written: {written}"


def _score_run(path: Path, reader: Stage | None, plugins: Sequence[str]) -> list[_Contestant]:
    run = score_run(RunFolder(path), reader, plugins=plugins)
    by_contestant = defaultdict[str, list[PointScores]](list)
    for scores in run.points:
        if len(scores.columns):
            by_contestant[scores.contestant].append(scores)
    if not by_contestant:
        raise TaskError(f"{path} holds no records yet; `looktwice run` its configuration first")
    return [
        _Contestant(name, run.name, str(path), run.folder, points)
        for name, points in by_contestant.items()
    ]


def _describe(name: str, source: str, scores: PointScores) -> Evaluation:
    columns = scores.columns
    rows = columns.rows_by_draw
    return Evaluation(
        name,
        source,
        scores.task,
        scores.point.spec.get("task") or {},
        columns.recorded_ids,
        sample_count=len(rows),
        epochs=1 + int(columns["draw"].max()),
        values=columns["value"][rows][~columns.has_verdict(*UNVALUED_VERDICTS)[rows]].tolist(),
        tokens=int(columns["tokens_in"].sum() + columns["tokens_out"].sum()),
    )


READ_COLUMNS = "sample", "draw", "verdict", "value", "tokens_in", "tokens_out", "cost", "begin"


def _read_samples(scores: PointScores, turns: _Turns) -> Iterator[Sample]:
    """Yield the samples of an arm, by sample and draw."""
    columns, path = scores.columns, turns.folder.path / "records.jsonl"
    rows = columns.rows_by_draw
    words, groups = (columns.pools[name].values for name in ("words", "group"))
    cells = (columns[name][rows].tolist() for name in (*READ_COLUMNS, "words", "group"))
    with open_file(path) as file:
        for place, draw, code, value, tokens_in, tokens_out, cost, begin, *codes in zip(
            *cells, strict=True
        ):
            row, verdict, tokens = scores.samples[columns.ids[place]], VERDICTS[code], 0
            file.seek(begin)
            try:
                record = read_as(_RecordNode, file.readline(MAX_LINE_BYTES))
            except ValueError as exc:
                raise RunError(f"{path} changed after it was scored; start again ({exc})") from exc
            seconds, tokens = record.get("timings", {}).get("total"), tokens_in + tokens_out
            yield Sample(
                row.id,
                draw,
                *_describe_question(row),
                words[codes[0]].answer or "",
                MISSING_VALUE if verdict in UNVALUED_VERDICTS else value,
                verdict.value,
                groups[codes[1]],
                _get_last_reply(record),
                MISSING_VALUE if seconds is None else float(seconds),
                tokens or MISSING_VALUE,
                cost,
                turns.make(record),
            )


def _describe_question(row: SampleRow) -> tuple[str, str, Sequence[str], str]:
    """Return the columns of a log that describe a question: its text, pictures, choices and key."""
    node = row.sample
    choices = [choice if isinstance(choice, str) else "" for choice in node["choices"]]
    return node["question"], join_hashes(node["images"]), choices, row.answer or ""


def _get_last_reply(record: Any) -> str:
    replies = (call.get("reply") for call in reversed(record.get("calls", ())))
    return next((reply["text"] for reply in replies if reply), "")


class _Turns:
    """Makes the turns of a run's records from the stored messages; pictures and recent turns are
    kept, because records share them."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._pictures = dict[str, Attachment]()
        self._room = MAX_PICTURE_BYTES
        self._get_turn = lru_cache(MAX_TURNS)(self._read_turn)

    def make(self, record: Any) -> list[Turn]:
        """Return the conversation of the last call of a record. Raises RunError if a message is
        missing, and PictureError if a picture is."""
        if not (calls := record.get("calls")):
            return []
        call = calls[-1]
        turns = [*map(self._get_turn, call["messages"])]
        if reply := call.get("reply"):
            tools = [ToolCall(**node) for node in reply.get("tool_calls", ())]
            turns.append(make_turn("assistant", [reply["text"]], tools))
        return turns

    def _read_turn(self, sha: str) -> Turn:
        node = read_message(self.folder.blobs, sha)
        parts = [
            part if isinstance(part, str) else self._load_picture(part["picture"])
            for part in node["parts"]
        ]
        calls = [ToolCall(**call) for call in node.get("tool_calls", ())]
        return make_turn(node["role"], parts, calls, node.get("call_id", ""))

    def _load_picture(self, sha: str) -> Attachment:
        if (picture := self._pictures.get(sha)) is None:
            stored = load_stored_picture(self.folder.blobs, sha)
            picture = Attachment.from_payload(stored.payload)
            self._room -= sum(map(len, picture.field))
            if self._room >= 0:  # arms show the same pictures in turn: the first ones come again
                self._pictures[sha] = picture
        return picture

"""Functions that read the logs of inspect_ai (`.eval` and `.json`) and write logs as `.eval`,
without importing that package."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

from looktwice.eval.display.printable import make_file_names
from looktwice.eval.tasks.base import TaskError
from looktwice.extras.logs.eval_files.samples import (
    Attachment,
    Evaluation,
    Sample,
    Turn,
    make_turn,
    write_evaluation,
)
from looktwice.extras.logs.inspect_scores import make_scorer_labels, read_grades
from looktwice.extras.logs.log import (
    MISSING_VALUE,
    UNSCORED,
    Cells,
    Fields,
    Grade,
    Log,
    NamedColumns,
    get_at_path,
    get_named_fields,
    hash_base64,
    join_hashes,
    make_rows,
    parse_value,
)
from looktwice.pipelines.disk import MAX_FILE_BYTES, open_file, read_file
from looktwice.pipelines.json_input import read_json, write_json
from looktwice.pipelines.model import Message, Messages, ToolCall
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.view import View

if TYPE_CHECKING:
    import pandas

ZSTD_METHOD = 93  # a zip compression method that Python's zipfile supports from 3.14 on


def read_inspect(path: Path, named: NamedColumns) -> list[Log]:
    """Read the log of one evaluation: one model on one task.

    The summaries of the samples are read if the log has any; the samples themselves, which hold
    pictures and replies, are then read on first use. The name that `named` gives for `value`
    selects one of several scorers; the default is the first one. Raises TaskError.
    """
    with _convert_errors(path):
        data, rows = _read(path, named, whole=False)
        about = data["eval"]
        if rows.empty:
            raise TaskError(
                "it holds no samples; was it stopped before the first one, or written without"
                " samples?"
            )
        log = Log(str(about["model"]), rows, path.name, str(about["task"]))
        written_by = str(get_at_path(about, "metadata", "written_by"))  # as we write it
        log = replace(
            log, harness=written_by or "inspect_ai", doubt=_describe_stop(data, len(rows))
        )
    if path.suffix != ".eval":
        return [log]

    def read_whole() -> pandas.DataFrame:
        with _convert_errors(path):
            return _read(path, named, whole=True)[1]

    def get_transcript(task: str, name: str, draw: int) -> Messages:
        with _convert_errors(path), open_file(path) as file, ZipFile(file) as archive:
            for place in (name, name.replace("/", "_")):
                member = f"samples/{place}_epoch_{draw + 1}.json"
                if member in archive.NameToInfo:
                    sample = _read_member(archive, member)
                    kept = sample.get("attachments") or {}
                    return [_read_message(turn, kept) for turn in sample["messages"]]
        return ()

    return [replace(log, read_whole=read_whole, get_transcript=get_transcript)]


def _read(path: Path, named: NamedColumns, whole: bool) -> tuple[Cells, pandas.DataFrame]:
    """Return the log's header and a row for each sample, read from the entire samples (`whole`) or
    from their summaries. A log without a final header has the status "started"."""
    if path.suffix != ".eval":
        data = read_json(read_file(path), max_values=None)
        samples = data["samples"]
    else:
        with open_file(path) as file, ZipFile(file) as archive:
            names = archive.NameToInfo
            head = "header.json" if "header.json" in names else "_journal/start.json"
            data, samples = _read_member(archive, head), []
            data["status"] = data.get("status") or "started"
            if "summaries.json" in names and not whole:
                samples = _read_member(archive, "summaries.json")
            if not samples:
                samples = [
                    _read_member(archive, name) for name in names if name.startswith("samples/")
                ]
    about = data["eval"]
    task, scorer, labels = str(about["task"]), named.get("value", ""), make_scorer_labels(data)
    rows = [
        _make_row(sample, task, scorer, labels) | get_named_fields(sample, named)
        for sample in samples
    ]
    return data, make_rows(rows)


def _describe_stop(data: Cells, count: int) -> str:
    """Say in a sentence that an evaluation stopped before its last sample; "" if it did not."""
    if (status := data.get("status") or "success") == "success":
        return ""
    planned = get_at_path(data, "eval", "dataset", "samples") or 0
    planned *= int(get_at_path(data, "eval", "config", "epochs") or 1)
    return (
        f"inspect_ai did not finish this evaluation (status: {status}); it holds {count}"
        f" of {planned or 'an unknown number of'} samples"
    )


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except TaskError as exc:
        raise TaskError(f"{path}: {exc}") from exc
    except BadZipFile as exc:
        raise TaskError(f"{path} is not a zip file or is damaged ({exc}); copy it again") from exc
    except Exception as exc:  # a damaged log can raise any exception
        raise TaskError(
            f"{path} cannot be read as a log of inspect_ai ({type(exc).__name__}: {exc}); copy it"
            " again"
        ) from exc


def _read_member(archive: ZipFile, name: str) -> Any:
    """Parse the JSON of a zip member. Members may be large, since one can describe all samples."""
    entry = archive.getinfo(name)
    if entry.file_size > MAX_FILE_BYTES:
        raise ValueError(
            f"{name} would unpack to {entry.file_size:,} bytes; the limit is {MAX_FILE_BYTES:,}"
        )
    if entry.compress_type != ZSTD_METHOD:
        return json.loads(archive.read(entry))
    import pyarrow

    file: Any = archive.fp
    file.seek(entry.header_offset + 26)
    file.seek(sum(struct.unpack("<HH", file.read(4))), 1)
    packed = pyarrow.BufferReader(file.read(entry.compress_size))
    data = bytes(pyarrow.CompressedInputStream(packed, "zstd").read(entry.file_size + 1))
    if zlib.crc32(data) != entry.CRC:
        raise ValueError(f"the checksum of {name} does not match")
    return json.loads(data)


def _make_row(sample: Cells, task: str, scorer: str, labels: Mapping[str, str]) -> Fields:
    failed = bool(sample.get("error"))
    grades = {} if failed else read_grades(sample.get("scores") or {}, scorer, labels)
    named, grade = next(
        iter(grades.items()), ("", Grade(MISSING_VALUE, "" if failed else UNSCORED))
    )
    words, pictures = _read_input(get_at_path(sample, "input"), sample.get("attachments") or {})
    kept, target = (sample.get("metadata") or {}).get("pictures"), get_at_path(sample, "target")
    usage = list((sample.get("model_usage") or {}).values())
    return {
        "task": task,
        "sample": str(sample["id"]),
        "draw": int(get_at_path(sample, "epoch") or 1) - 1,
        "question": words,
        "pictures": kept if isinstance(kept, str) else pictures,  # our logs: of the source files
        "choices": tuple(map(str, get_at_path(sample, "choices"))),
        "key": target if isinstance(target, str) else " | ".join(map(str, target)),
        **grade._asdict(),
        "scorer": named,
        "scores": grades,
        "group": str(get_at_path(sample, "metadata", "group")),
        "seconds": parse_value(sample.get("total_time")),
        "reply": str(get_at_path(sample, "output", "completion")),
        "tokens": _sum_tokens(usage, "total_tokens") if usage else MISSING_VALUE,
        "cost": _sum_tokens(usage, "total_cost") or MISSING_VALUE,
    }


def _sum_tokens(usage: Sequence[Cells], name: str) -> float:
    return sum(float(use.get(name) or 0) for use in usage)


def _read_message(turn: Cells, attachments: Mapping[str, str]) -> Message:
    """Convert a message of inspect_ai, with its text and pictures. Raises ValueError for a picture
    that the log does not hold."""
    parts = list[str | View]()
    for kind, text in _iterate_parts(turn, attachments):
        if kind == "image":
            data = base64.b64decode(text.partition(";base64,")[2], validate=True)
            parts.append(View.of(Picture.encoded(data, "a picture of the log")))
        elif kind == "text":
            parts.append(text)
    calls = tuple(
        ToolCall(call["id"], call["function"], write_json(call["arguments"]))
        for call in turn.get("tool_calls") or ()
    )
    return Message(turn["role"], tuple(parts), calls, turn.get("tool_call_id") or "")


def _read_input(asked: Any, attachments: Mapping[str, str]) -> tuple[str, str]:
    """Return the text and the picture hashes of a sample's input (a string or messages)."""
    messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    texts, shas = list[str](), list[str]()
    for turn in messages:
        for kind, text in _iterate_parts(turn, attachments) if turn.get("role") == "user" else ():
            if kind == "image":
                head, _, body = text.partition(";base64,")
                shas.append(hash_base64(body) if head.startswith("data:") else "")
            elif kind == "text" and text != "(Image)":
                texts.append(text)
    return "\n".join(texts), join_hashes(shas)


def _iterate_parts(turn: Cells, attachments: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield, for each part of a message, its type, and its text or the attachment that it refers
    to."""
    content = get_at_path(turn, "content")
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        kind = str(part.get("type"))
        text = str(get_at_path(part, kind))
        yield kind, attachments.get(text.removeprefix("attachment://"), text)


def write_inspect(log: Log, out: Path) -> Iterator[str]:
    """Write each task as one evaluation, a `.eval` file in the folder `out`; yield its path.

    If the log holds conversations, the last conversation of each sample is written, with its
    pictures. Raises OSError.
    """
    tasks = list(dict.fromkeys(log.rows["task"]))
    names = make_file_names([f"{log.name}_{task}".strip("_") for task in tasks])
    for task, name in zip(tasks, names.values(), strict=True):
        frame = log.rows[log.rows["task"] == task]
        rows = frame.to_dict("records")
        about = Evaluation(
            log.name,
            log.source,
            task,
            log.settings.get(task, {}),
            list(dict.fromkeys(row["sample"] for row in rows)),
            sample_count=len(rows),
            epochs=1 + max(row["draw"] for row in rows),
            values=[row["value"] for row in rows if row["value"] == row["value"]],
            tokens=int(frame["tokens"].sum()),
        )
        yield write_evaluation(
            about, (_make_sample(log, row) for row in rows), out / f"{name}.eval"
        )


def _make_sample(log: Log, row: Cells) -> Sample:
    cells = {name: row[name] for name in Sample._fields if name != "turns"}
    return Sample(**cells, turns=[_convert_message(message) for message in log.get_messages(row)])


def _convert_message(message: Message) -> Turn:
    parts = [
        part if isinstance(part, str) else Attachment.from_payload(part.picture.payload)
        for part in message.parts
    ]
    return make_turn(message.role, parts, message.tool_calls, message.call_id)

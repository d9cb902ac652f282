"""The logs of inspect_ai, `.eval` and `.json`, read without that package."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from looktwice.eval.logs.log import NOTHING, Log, parse_value, rows_of
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.disk import MOST_BYTES, open_file, read_file
from looktwice.pipelines.json_input import read_json

ZSTD = 93  # the method of a zip's member, which Python's own zipfile reads from 3.14 on


def read_inspect(path: Path, score: str = "") -> Log:
    """The log of one evaluation: one model on one task.

    The summaries of the samples are read where there are any; the samples themselves, which hold
    pictures and replies, where they are asked for. `score` names one of several scorers; the first
    is the default. Raises TaskError.
    """
    if path.suffix == ".json":
        return _log(path, load_json(path), score)
    with _Archive(path) as archive:
        head = "header.json" if "header.json" in archive.names else "_journal/start.json"
        header = archive.load(head)
        summaries = archive.load("summaries.json") if "summaries.json" in archive.names else None
    if not summaries:
        return _log(path, {**header, "samples": _samples(path)}, score)
    return _log(path, {**header, "samples": summaries}, score, whole=False)


def _log(path: Path, data: Mapping[str, Any], score: str, whole: bool = True) -> Log:
    try:
        about = data["eval"]
        name, task = str(about["model"]), str(about["task"])
        rows = rows_of([_row(sample, task, score) for sample in data["samples"]])
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        if isinstance(exc, TaskError):
            raise TaskError(f"{path}: {exc}") from exc
        raise TaskError(f"{path} is no log of inspect_ai ({type(exc).__name__}: {exc})") from exc
    if rows.empty:
        raise TaskError(
            f"{path} holds no sample; was it stopped before the first one, or written without"
            " samples?"
        )
    later = None if whole else partial(_whole_rows, path, data, score)
    return Log(name, rows, path.name, task, later)


def _whole_rows(path: Path, data: Mapping[str, Any], score: str) -> Any:
    return _log(path, {**data, "samples": _samples(path)}, score).rows


def _samples(path: Path) -> Iterator[Any]:
    with _Archive(path) as archive:
        for name in archive.names:
            if name.startswith("samples/"):
                yield archive.load(name)


def load_json(path: Path) -> Any:
    """The value in a JSON file, of any size. Raises TaskError where it is no JSON."""
    try:
        return read_json(read_file(path), most=None)
    except ValueError as exc:
        raise TaskError(f"{path} is not JSON ({exc})") from exc


@dataclass
class _Archive:
    """The members of a `.eval` file, which is a zip of JSON."""

    path: Path

    def __enter__(self) -> _Archive:
        self.file = open_file(self.path)
        try:
            self.zip = ZipFile(self.file)
        except (BadZipFile, OSError, ValueError) as exc:
            self.file.close()
            raise TaskError(
                f"{self.path} is no log of inspect_ai: it is not a zip ({exc})"
            ) from exc
        self.names = self.zip.NameToInfo
        if "header.json" not in self.names and "_journal/start.json" not in self.names:
            self.__exit__()
            raise TaskError(f"{self.path} is no log of inspect_ai: it holds no header.json")
        return self

    def __exit__(self, *exc: object) -> None:
        self.zip.close()
        self.file.close()

    def load(self, name: str) -> Any:
        """The JSON value of a member. Raises TaskError."""
        try:
            return json.loads(
                self._bytes(name)
            )  # no bound on its values: one member tells of every sample
        except RecursionError:
            raise TaskError(f"{self.path}: {name} is nested too deep to be a log") from None
        except (
            ValueError,
            OSError,
            EOFError,
            BadZipFile,
            NotImplementedError,
            zlib.error,
            struct.error,
        ) as exc:
            raise TaskError(
                f"{self.path}: {name} cannot be read ({exc}); copy the log again"
            ) from exc

    def _bytes(self, name: str) -> bytes:
        entry = self.zip.getinfo(name)
        if entry.file_size > MOST_BYTES:
            raise ValueError(
                f"it would unpack to {entry.file_size:,} bytes; {MOST_BYTES:,} are the most"
            )
        if entry.compress_type != ZSTD:
            return self.zip.read(entry)
        import pyarrow

        self.file.seek(entry.header_offset + 26)
        self.file.seek(sum(struct.unpack("<HH", self.file.read(4))), 1)
        packed = pyarrow.BufferReader(self.file.read(entry.compress_size))
        data = bytes(pyarrow.CompressedInputStream(packed, "zstd").read(entry.file_size + 1))
        if zlib.crc32(data) != entry.CRC:
            raise ValueError("its checksum differs")
        return data


def _row(sample: Mapping[str, Any], task: str, score: str) -> dict[str, Any]:
    scores = sample.get("scores") or {}
    if score and scores and score not in scores:
        raise TaskError(f"no scorer is named {score!r}; there are {', '.join(scores)}")
    found: Mapping[str, Any] = scores.get(score) or next(iter(scores.values()), {})
    value = NOTHING if sample.get("error") else _value(found.get("value"))
    words, pictures = _read_input(sample.get("input") or "", sample.get("attachments") or {})
    usage = [*(sample.get("model_usage") or {}).values()]
    target = sample.get("target") or ""
    metadata = sample.get("metadata") or {}
    return {
        "task": task,
        "sample": str(sample["id"]),
        "draw": int(sample.get("epoch") or 1) - 1,
        "question": words,
        "pictures": (
            kept if isinstance(kept := metadata.get("pictures"), str) else pictures
        ),  # of the sources
        "choices": tuple(map(str, sample.get("choices") or ())),
        "key": target if isinstance(target, str) else " | ".join(map(str, target)),
        "answer": str(found.get("answer") or ""),
        "value": value,
        "verdict": "unreadable" if found.get("value") == "N" else "",
        "group": str(metadata.get("group") or ""),
        "reply": str((sample.get("output") or {}).get("completion") or ""),
        "tokens": (
            float(sum(int(one.get("total_tokens") or 0) for one in usage)) if usage else NOTHING
        ),
        "cost": (
            (sum(float(one.get("total_cost") or 0) for one in usage) if usage else 0) or NOTHING
        ),
    }


def _value(value: Any) -> float:
    if isinstance(value, Mapping) and value:  # a scorer that grades by several names
        value = next(iter(value.values()))
    return parse_value(value)


def _read_input(said: Any, attachments: Mapping[str, str]) -> tuple[str, str]:
    """The words and the pictures' hashes of a sample's input, a text or messages."""
    if isinstance(said, str):
        return _attached(said, attachments), ""
    parts = [part for message in said if message.get("role") == "user" for part in _parts(message)]
    texts = [
        _attached(str(part.get("text") or ""), attachments)
        for part in parts
        if part.get("type") == "text"
    ]
    images = [
        _attached(str(part.get("image") or ""), attachments)
        for part in parts
        if part.get("type") == "image"
    ]
    return "\n".join(text for text in texts if text != "(Image)"), join_pictures(
        map(_sha_of_address, images)
    )


def _parts(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content") or ""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _attached(text: str, attachments: Mapping[str, str]) -> str:
    return (
        attachments.get(text.removeprefix("attachment://"), text)
        if text.startswith("attachment://")
        else text
    )


def _sha_of_address(address: str) -> str:
    """The sha256 of a picture given as a data URI; empty for another address, whose bytes are
    elsewhere."""
    head, _, body = address.partition(";base64,")
    if not head.startswith("data:"):
        return ""
    try:
        return hashlib.sha256(b64decode(body)).hexdigest()
    except ValueError:
        return ""


def join_pictures(hashes: Iterable[str]) -> str:
    """The hashes of a sample's pictures as one text; empty where one is unknown."""
    known = list(hashes)
    return "+".join(known) if all(known) else ""

"""The stored verdicts of a run: a table in its folder, so that scoring again need not read every
reply.

The file `verdicts.parquet` holds one row for each scored record; its metadata state from which
readers, scorers, code and lines it was made. The table is used only if all of them are unchanged;
lines that were added since then are scored and added to it. A table that is missing, damaged or of
another version is rebuilt. So is a table of another user, because a forged one could not be
detected: `verdicts.seal` is the table's digest, keyed with a secret of this user.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import looktwice
from looktwice.eval.records.records import PointRow, RecordLines, RunFolder
from looktwice.eval.scoring.columns import (
    COLUMN_TYPES,
    DIGEST_BYTES,
    POOLED_COLUMNS,
    RecordColumns,
    Words,
)
from looktwice.pipelines.config.spec import settings
from looktwice.pipelines.disk import open_file, read_file, write_file
from looktwice.pipelines.json_input import write_canonical

VERDICTS_FILE, SEAL_FILE = "verdicts.parquet", "verdicts.seal"
METADATA_KEY, SECRET_BYTES = b"looktwice", 32
BATCH_ROWS = 100_000
"""The number of rows that are read or written at once."""
TEXT_COLUMNS = ("arm", "sample", *POOLED_COLUMNS)
"""The columns whose codes represent strings."""
CODE_FOLDERS = ("pipelines", "specialists", "prompting", "eval", "extras")
"""The folders of looktwice's code."""
SETTLED_NS = 2_000_000_000
"""The time in nanoseconds within which a file may change again without getting a new modification
time."""
SampleIndices = Mapping[str, Mapping[str, int]]
"""The index of each sample in its task, by task and id."""


class RecordRules(Protocol):
    """The parts of a record scorer that verdicts depend on: its reader, its comparison of answers,
    and its prices."""

    @property
    def reader(self) -> Any:
        """The reader of replies."""

    @property
    def scorer(self) -> Any:
        """The benchmark's own comparison, or None."""

    @property
    def prices(self) -> Mapping[str, Mapping[str, float]]:
        """The prices of the models."""

    @property
    def reads_only_reply(self) -> bool:
        """True if the reader's result depends only on the reply and the sample's texts."""


@dataclass(frozen=True)
class StoredVerdicts:
    """The stored verdicts of a run's current points.

    `dependencies` holds what the verdicts depend on besides the records; `sample_indices` holds the
    indices of the samples of each task.
    """

    folder: RunFolder
    points: Sequence[PointRow]
    dependencies: Mapping[str, Any]
    sample_indices: SampleIndices

    @classmethod
    def of(
        cls,
        folder: RunFolder,
        points: Sequence[PointRow],
        scorers: Sequence[RecordRules],
        places: SampleIndices,
        whole: bool,
    ) -> StoredVerdicts | None:
        """Return the stored verdicts of these points; None if verdicts depend on code outside
        looktwice, or on anything besides the records."""
        parts = [part for scorer in scorers for part in (scorer.reader, scorer.scorer) if part]
        if not points or not all(scorer.reads_only_reply for scorer in scorers):
            return None
        if not all(type(part).__module__.startswith("looktwice.") for part in parts):
            return None
        arms = dict[str, Any]()
        for point, scorer in zip(points, scorers, strict=True):
            made = [settings(scorer.reader), scorer.scorer and settings(scorer.scorer)]
            draws = None if whole else point.draws
            arms[point.id] = [*made, dict(scorer.prices), draws, point.task_id, point.records_id]
        facts = {"code": hash_code(), "arms": json.loads(write_canonical(arms))}
        return cls(folder, points, facts | {"judged": _hash_judgements(folder)}, places)

    def load(self) -> tuple[RecordColumns, RecordLines] | None:
        """Return the stored verdicts and the record lines added since; None if no stored verdicts
        are still valid."""
        with suppress(OSError, ValueError, KeyError, TypeError, IndexError):
            data = read_file(self.folder.path / VERDICTS_FILE)
            seal = read_file(self.folder.path / SEAL_FILE).decode()
            if (own := _seal(data)) and secrets.compare_digest(own, seal):
                return self._parse(data)
        return None

    def _parse(self, data: bytes) -> tuple[RecordColumns, RecordLines] | None:
        import pyarrow
        from pyarrow import parquet

        # `read_table` would import pandas
        file = parquet.ParquetFile(pyarrow.BufferReader(data))
        kept = json.loads(file.schema_arrow.metadata[METADATA_KEY])
        if kept["facts"] != self.dependencies or not self._continues(kept):
            return None
        made = RecordColumns()
        for group in range(file.num_row_groups):  # a part at a time, for memory
            self._add(made, file.read_row_group(group, use_threads=False))
        _release_unused_memory()
        lines = RecordLines(self.folder.path / "records.jsonl", kept["end"], kept["lines"])
        return made, lines

    def _add(self, made: RecordColumns, table: Any) -> None:
        """Add part of the table to the columns. Raises KeyError for a sample or arm that the run
        does not have."""
        arms = {point.id: arm for arm, point in enumerate(self.points)}
        for name, kind in COLUMN_TYPES.items():
            column = _make_contiguous(table.column(name))
            if name not in TEXT_COLUMNS:
                own = _get_numbers(column, kind)
            else:
                texts, own = column.dictionary.to_pylist(), _get_numbers(column.indices, "i")
                if name == "arm":
                    own = arm = _map_codes([arms[text] for text in texts], own)
                elif name == "sample":
                    own = self._find_sample_indices(texts, arm, own)
                else:
                    words = map(_read_words, texts) if name == "words" else texts
                    own = _map_codes([*map(made.pools[name].get_code, words)], own)
            made.columns[name].frombytes(np.ascontiguousarray(own, kind).tobytes())
        requests = _make_contiguous(table.column("request"))
        begin = DIGEST_BYTES * requests.offset
        made.requests += requests.buffers()[1].to_pybytes()[begin:][: DIGEST_BYTES * len(table)]

    def _find_sample_indices(self, names: Sequence[str], arms: Any, codes: Any) -> Any:
        """Return the index of each row's sample in its task. Raises KeyError for an unknown
        sample."""
        places = np.zeros(len(codes), np.int64)
        by_task = dict[str, Any]()
        for number, point in enumerate(self.points):
            rows = np.flatnonzero(arms == number)
            if point.task_id not in by_task:
                own = self.sample_indices.get(point.task_id, {})
                by_task[point.task_id] = np.array([own.get(name, -1) for name in names], np.int64)
            places[rows] = by_task[point.task_id][codes[rows]]
        if len(places) and places.min() < 0:
            raise KeyError("a sample that the run does not have")
        return places

    def _continues(self, kept: Mapping[str, Any]) -> bool:
        """Return whether the files of the run begin with the same bytes as when the table was
        written, and no sample has been replaced since."""
        files = kept["files"]
        for name, (size, changed, end, digest) in files.items():
            path = self.folder.path / name
            now = path.stat()
            if (now.st_size, now.st_mtime_ns) == (size, changed):
                continue
            if now.st_size < end or _hash_beginning(path, end) != digest:
                return False
        size, *_, end, _ = files["samples.jsonl"]
        with open_file(self.folder.path / "samples.jsonl") as file:
            file.seek(end)
            added = file.read().count(b"\n")
        return sum(map(len, self.sample_indices.values())) - added == int(kept["samples"])

    def save(self, made: RecordColumns, lines: RecordLines) -> None:
        """Store the verdicts. Errors, such as a folder that cannot be written, are ignored: the run
        then has no stored verdicts."""
        made.append_pending()
        with suppress(OSError, ValueError, TypeError):
            data = self._write(made, lines)
            if seal := _seal(data):
                write_file(self.folder.path / VERDICTS_FILE, data)
                write_file(self.folder.path / SEAL_FILE, seal)
        _release_unused_memory()

    def _write(self, made: RecordColumns, lines: RecordLines) -> bytes:
        import pyarrow
        from pyarrow import parquet

        names = dict.fromkeys(chain.from_iterable(self.sample_indices.values()))
        numbers = {name: number for number, name in enumerate(names)}
        codes = {name: np.asarray(column) for name, column in made.columns.items()}
        by_task = {
            task: np.array([numbers[name] for name in own], np.int64)
            for task, own in self.sample_indices.items()
        }
        samples = np.zeros(len(made.columns["arm"]), np.int64)
        for arm, point in enumerate(self.points):
            rows = np.flatnonzero(codes["arm"] == arm)
            samples[rows] = by_task[point.task_id][codes["sample"][rows]] if len(rows) else 0
        pools = {name: made.pools[name].values for name in POOLED_COLUMNS}
        pools["words"] = [json.dumps(words, ensure_ascii=False) for words in pools["words"]]
        texts = {"arm": [point.id for point in self.points], "sample": [*names], **pools}
        about = {
            "facts": self.dependencies,
            "files": dict(self._describe_files(lines.end)),
            "samples": sum(map(len, self.sample_indices.values())),
            "end": lines.end,
            "lines": lines.number,
        }
        out, metadata = pyarrow.BufferOutputStream(), {METADATA_KEY: json.dumps(about)}
        codes["sample"] = samples.astype(COLUMN_TYPES["sample"])
        words = {name: _make_texts(own) for name, own in texts.items()}
        schema = _make_part(codes, words, made.requests, slice(0, 0)).schema
        settings = {"use_dictionary": [*TEXT_COLUMNS], "write_statistics": False}
        with parquet.ParquetWriter(out, schema.with_metadata(metadata), **settings) as writer:
            for begin in range(0, len(samples), BATCH_ROWS):
                part = slice(begin, begin + BATCH_ROWS)
                writer.write_table(_make_part(codes, words, made.requests, part))
        return bytes(out.getvalue())

    def _describe_files(self, end: int) -> Iterable[tuple[str, Any]]:
        """Yield each file with its size, its modification time, and the length and digest of the
        part that the table was made from."""
        for name in ("records.jsonl", "samples.jsonl"):
            path = self.folder.path / name
            now = path.stat()
            part = end if name == "records.jsonl" else now.st_size
            is_settled = time.time_ns() - now.st_mtime_ns > SETTLED_NS
            changed = now.st_mtime_ns if is_settled else None  # then the content is compared
            yield name, [now.st_size, changed, part, _hash_beginning(path, part)]


def _release_unused_memory() -> None:
    import pyarrow

    pyarrow.default_memory_pool().release_unused()


def _make_contiguous(column: Any) -> Any:
    """Return a column of a table as one contiguous array."""
    joined = column.unify_dictionaries().combine_chunks()
    return joined.chunk(0) if hasattr(joined, "chunk") else joined


def _make_part(
    codes: Mapping[str, Any], words: Mapping[str, Any], requests: bytearray, part: slice
) -> Any:
    """Return some rows as a table."""
    import pyarrow

    columns = dict[str, Any]()
    for name in COLUMN_TYPES:
        own = codes[name][part]
        kind, data = pyarrow.type_for_alias(own.dtype.name), pyarrow.py_buffer(own.tobytes())
        column = pyarrow.Array.from_buffers(kind, len(own), [None, data])
        if name in TEXT_COLUMNS:
            column = pyarrow.DictionaryArray.from_arrays(column, words[name])
        columns[name] = column
    digests = bytes(requests[part.start * DIGEST_BYTES : part.stop * DIGEST_BYTES])
    columns["request"] = pyarrow.Array.from_buffers(
        pyarrow.binary(DIGEST_BYTES), len(own), [None, pyarrow.py_buffer(digests)]
    )
    return pyarrow.table(columns)


def _map_codes(places: Sequence[int], codes: Any) -> Any:
    return np.array(places, np.int64)[codes] if len(codes) else np.zeros(0, np.int64)


def _make_texts(texts: Sequence[str]) -> Any:
    """Return strings as a column; `pyarrow.array` would import pandas. Raises
    UnicodeEncodeError."""
    import pyarrow

    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pyarrow.py_buffer(ends.tobytes()), pyarrow.py_buffer(b"".join(encoded))]
    return pyarrow.Array.from_buffers(pyarrow.large_string(), len(texts), buffers)


def _get_numbers(column: Any, kind: str) -> Any:
    """Return a column without missing values as an array; pyarrow's own conversion would import
    pandas."""
    return np.frombuffer(
        column.buffers()[1], kind, len(column), column.offset * np.dtype(kind).itemsize
    )


def _read_words(text: str) -> Words:
    answer, reason, detail, read, judge, kept = json.loads(text)
    return Words(answer, reason, detail, read, judge, tuple(kept))


def _hash_beginning(path: Path, length: int) -> str:
    """Return the sha256 of the first bytes of a file; most processors compute it fastest."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while length > 0 and (part := file.read(min(length, 1 << 20))):
            digest.update(part)
            length -= len(part)
    return digest.hexdigest()


def _hash_judgements(folder: RunFolder) -> str:
    path = folder.path / "judged.jsonl"
    return _hash_beginning(path, path.stat().st_size) if path.exists() else ""


@cache
def hash_code() -> str:
    """Return a digest of all of looktwice's code, because a scorer may call a parser in any
    module."""
    root = Path(looktwice.__path__[0])
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for file in sorted(chain(*((root / room).rglob("*.py") for room in CODE_FOLDERS))):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _seal(data: bytes) -> str:
    """Return a keyed digest of data with this user's secret, which is created on first use; empty
    if the secret cannot be stored."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser())
    path = home / "looktwice" / "seal"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, secrets.token_bytes(SECRET_BYTES))
            path.chmod(0o600)
        key = read_file(path)
    except OSError:
        return ""
    if len(key) != SECRET_BYTES:  # a truncated key may be guessed
        return ""
    return hashlib.blake2b(data, key=key, digest_size=32).hexdigest()

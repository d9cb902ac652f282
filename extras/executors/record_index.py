"""An index of the records of several runs: a few numbers for each line, so that millions of records
are compared without holding them in memory."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.records.records import RecordLines, RunFolder, read_records_at
from looktwice.eval.records.writer import RunWriter

DIGEST_BYTES = 16
COLUMN_TYPES = {
    "run": "i",
    "begin": "q",
    "point": "i",
    "sample": "i",
    "draw": "i",
    "failed": "B",
    "tokens_in": "q",
    "tokens_out": "q",
}
"""The columns and their types in `array`: the index of the run, the byte at which the line begins,
the parts of the key (numbers of texts, and the draw), whether the record failed, and its tokens."""
COUNTED_COLUMNS = "failed", "tokens_in", "tokens_out"
Rows = NDArray[np.int64]


class RecordIndex:
    """The records of all lines of several runs. Raises RunError for a damaged line."""

    def __init__(self, runs: Sequence[RunFolder]) -> None:
        self.runs = runs
        columns = {name: array(kind) for name, kind in COLUMN_TYPES.items()}
        digests, points, samples = bytearray(), dict[str, int](), dict[str, int]()
        for number, run in enumerate(runs):
            lines = RecordLines(run.path / "records.jsonl")
            for record in lines:
                replies = [call["reply"] for call in record.calls if call.get("reply")]
                usages = [reply.get("usage") or {} for reply in replies]
                row = (
                    number,
                    lines.begin,
                    points.setdefault(record.point, len(points)),
                    samples.setdefault(record.sample, len(samples)),
                    record.draw,
                    bool(record.error),
                    sum(usage.get("tokens_in", 0) for usage in usages),
                    sum(usage.get("tokens_out", 0) for usage in usages),
                )
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
                answer = repr((record.answer, [reply["text"] for reply in replies])).encode()
                digests += hashlib.blake2b(answer, digest_size=DIGEST_BYTES).digest()
        self.columns = {name: np.asarray(column) for name, column in columns.items()}
        self.answers = np.frombuffer(digests, f"V{DIGEST_BYTES}")

    @cached_property
    def keys(self) -> Rows:
        """A number for the key of each row, from 0 on."""
        key = self.columns["point"].astype(np.int64)
        for name in ("sample", "draw"):
            key *= int(self.columns[name].max(initial=0)) + 1
            key += self.columns[name]
        numbers: Rows = np.unique(key, return_inverse=True)[1]
        return numbers

    def find_last(self, run: int) -> Rows:
        """Return the row of the last record of every key of a run, in the order of the lines."""
        begin, end = np.searchsorted(self.columns["run"], [run, run + 1])
        _, from_end = np.unique(self.keys[begin:end][::-1], return_index=True)
        return np.sort(end - 1 - from_end)

    def count(self, run: int) -> dict[str, int]:
        """Count the records, failures and tokens of a run."""
        rows = self.find_last(run)
        counts = {name: int(self.columns[name][rows].sum()) for name in COUNTED_COLUMNS}
        return {"records": len(rows)} | counts

    def select_latest(self, count: int) -> tuple[Rows, int]:
        """Return the row of the latest record of every key in the first runs, by first appearance,
        and the number of keys with different answers. A later failure does not replace an earlier
        answer."""
        chosen = np.full(int(self.keys.max(initial=-1)) + 1, -1)
        differing, order = np.zeros(len(chosen), bool), list[Rows]()
        has_failed = self.columns["failed"].astype(bool)
        for run in range(count):
            rows = self.find_last(run)
            keys = self.keys[rows]
            before = chosen[keys]
            order.append(keys[before < 0])
            was_answered = (before >= 0) & ~has_failed[before]
            is_answered = ~has_failed[rows]
            differs = self.answers[before] != self.answers[rows]
            differing[keys[was_answered & is_answered & differs]] = True
            replaces = ~was_answered | is_answered
            chosen[keys[replaces]] = rows[replaces]
        return chosen[np.concatenate([*order, np.zeros(0, np.int64)])], int(differing.sum())

    def write_new(self, rows: Rows, earlier: Rows, writer: RunWriter) -> None:
        """Write the records of `rows`, except those that equal the record with the same key among
        `earlier`, which are rows of the first run."""
        before, columns = np.full(int(self.keys.max(initial=-1)) + 1, -1), self.columns
        before[self.keys[earlier]] = earlier
        changes = np.flatnonzero(np.diff(columns["run"][rows])) + 1
        for part in np.split(rows, changes) if len(rows) else ():
            path, old = self._get_path(columns["run"][part[0]]), before[self.keys[part]]
            part, old = part[old != part], old[old != part]
            records = read_records_at(path, map(int, columns["begin"][part]))
            olds = read_records_at(self._get_path(0), map(int, columns["begin"][old[old >= 0]]))
            for record, row in zip(records, old.tolist(), strict=True):
                if row < 0 or next(olds) != record:
                    writer.record(record)

    def _get_path(self, run: int) -> Path:
        return self.runs[run].path / "records.jsonl"

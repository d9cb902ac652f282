"""The records of a run in one pass over the lines of its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from looktwice.eval.records.records import explain_damaged_line, parse_key
from looktwice.eval.records.schema import Key, Record, RunError
from looktwice.pipelines.disk import open_file, read_lines


@dataclass
class RecordLines:
    """Yields the record of every whole line of records.jsonl, from the byte `end` on, which is line
    number `number` + 1; both count on, and `begin` is the byte at which the last line began. A
    later record replaces an earlier one of its key.

    A torn last line, which a killed writer leaves, is skipped. Raises RunError for a damaged line,
    at the end if it has a key, as a later record may replace it.
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
                        damaged[parse_key(line)] = explain_damaged_line(self.path, self.number, exc)
                        continue
                    if damaged:
                        damaged.pop(record.key, None)
                    yield record
            except ValueError as exc:
                raise explain_damaged_line(self.path, self.number, exc) from exc
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

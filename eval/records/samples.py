"""The samples of a task, of which most are parsed only when they are needed."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

from looktwice.eval.records.schema import SampleRow
from looktwice.pipelines.json_input import read_as

MAX_PARSED = 10_000
"""The number of samples of a run that stay parsed, which needs four times the memory."""


class SampleRows(Mapping[str, SampleRow]):
    """The samples of one task by id; the last line of a sample counts.

    `are_keyed` is true if every line has a correct answer.
    """

    def __init__(self) -> None:
        self._rows = dict[str, SampleRow | bytes]()
        self.are_keyed = True

    def add(self, row: SampleRow, kept: SampleRow | bytes) -> None:
        """Add a row, which is kept as it is or as its line."""
        self._rows[row.id] = kept
        self.are_keyed &= row.answer is not None

    @cached_property
    def metas(self) -> Mapping[str, Mapping[str, Any]]:
        """The meta fields of each sample."""
        return {name: row.meta for name, row in self.items()}

    def only(self, names: Container[str]) -> SampleRows:
        """Return some of the samples."""
        some = SampleRows()
        some._rows = {name: row for name, row in self._rows.items() if name in names}
        some.are_keyed = self.are_keyed
        return some

    def __getitem__(self, name: str) -> SampleRow:
        row = self._rows[name]
        return _parse(row) if isinstance(row, bytes) else row

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@lru_cache(maxsize=5_000)
def _parse(line: bytes) -> SampleRow:
    row: SampleRow = read_as(SampleRow, line)
    return row

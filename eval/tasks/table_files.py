"""Tables on disk, read row by row: parquet, JSON lines, CSV, TSV and Excel.

Of questions the words of all rows are read first; the images of a row only when it is its turn.
"""

from __future__ import annotations

import csv
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zipfile import ZipFile

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.cells import as_text
from looktwice.pipelines.disk import MOST_LINE, open_file, open_unpacked, read_lines
from looktwice.pipelines.json_input import read_json, read_json_lines

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

Row = dict[str, Any]
BATCH = 8  # rows with their images in memory at a time
WORDS_BATCH = 1024
BUFFER = 1 << 20
ENDINGS = (".parquet", ".jsonl", ".tsv", ".csv")


@dataclass(frozen=True)
class ParquetTable:
    """Parquet files as one table, streamed: pages are read through a small buffer and dropped
    again."""

    files: tuple[Path, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns. Raises TaskError where two files differ."""
        common: tuple[str, ...] | None = None
        for file in self.files:
            with _open_parquet(file) as parquet:
                names = tuple(parquet.schema_arrow.names)
            if common is not None and names != common:
                raise TaskError(
                    f"{file} has the columns {', '.join(names)}; {self.files[0]} has"
                    f" {', '.join(common)}"
                )
            common = names
        return common or ()

    @property
    def sha(self) -> str:
        """The sha256 of the files, of several that of their hashes."""
        return _sha256(self.files)

    @cached_property
    def heavy(self) -> frozenset[str]:
        """The columns of images and other bytes."""
        with _open_parquet(self.files[0]) as parquet:
            return frozenset(
                column.name for column in parquet.schema_arrow if _is_heavy(column.type)
            )

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """These cells of every row. Raises TaskError for a damaged file."""
        for file in self.files:
            with _open_parquet(file) as parquet:
                size = BATCH if self.heavy & set(columns) else WORDS_BATCH
                yield from _read_batches(parquet, file, batch_size=size, columns=list(columns))

    def rows_at(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
        """These cells of the wanted rows; row groups without any are not read. Raises TaskError."""
        first, wanted = 0, set(numbers)
        for file in self.files:
            with _open_parquet(file) as parquet:
                for group in range(parquet.metadata.num_row_groups):
                    end = first + parquet.metadata.row_group(group).num_rows
                    if not wanted.isdisjoint(range(first, end)):
                        rows = _read_batches(
                            parquet,
                            file,
                            batch_size=BATCH,
                            row_groups=[group],
                            columns=list(columns),
                        )
                        yield from ((n, row) for n, row in enumerate(rows, first) if n in wanted)
                    first = end


def _open_parquet(file: Path) -> ParquetFile:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
    except (OSError, pyarrow.ArrowException) as exc:
        raise TaskError(
            f"{file} is no whole parquet file ({exc}); it may be cut short: fetch it again"
        ) from exc


def _read_batches(parquet: ParquetFile, file: Path, **choice: Any) -> Iterator[Row]:
    import pyarrow

    try:
        for batch in parquet.iter_batches(use_threads=False, **choice):
            yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as exc:
        raise TaskError(f"{file} is damaged ({exc}); fetch it again") from exc


def _is_heavy(kind: Any) -> bool:
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        return _is_heavy(kind.value_type)
    if types.is_struct(kind):
        return any(_is_heavy(kind.field(number).type) for number in range(kind.num_fields))
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


@dataclass(frozen=True)
class TextTable:
    """A text table: it is read through once to find its rows; then any row is read from its place
    alone."""

    file: Path
    kind: str

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; of JSON lines those of the first twenty rows."""
        names: dict[str, None] = {}
        for number, row in enumerate(self._read(0)):
            names |= dict.fromkeys(row)
            if self.kind != "jsonl" or number >= 20:
                break
        return tuple(names) or tuple(self._header)

    @property
    def sha(self) -> str:
        """The sha256 of the file."""
        return _sha256((self.file,))

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """These cells of every row, None where a row lacks one. Raises TaskError with the line that
        is no row."""
        for row in self._read(0):
            yield {name: row.get(name) for name in columns}

    def rows_at(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
        """These cells of the wanted rows. Raises TaskError."""
        for number in numbers:
            row = self.row_at(number)
            yield number, {name: row.get(name) for name in columns}

    def row_at(self, number: int) -> Row:
        """One row, read from its place."""
        return next(self._read(self._places[number]))

    @cached_property
    def _places(self) -> list[int]:
        """Where each row begins."""
        return [place for place, _ in self._placed(0)]

    @cached_property
    def _header(self) -> list[str]:
        if self.kind == "jsonl":
            return []
        with self._lines(0) as lines:
            names = next(lines.cells(self.kind), None)
        if not names:
            raise TaskError(
                f"{self.file} is empty; a {self.kind.upper()} begins with the names of its columns"
            )
        if len(set(names)) < len(names):
            raise TaskError(f"{self.file}: a column comes twice in {', '.join(names)}")
        return [name.removeprefix("\ufeff") for name in names]

    def _read(self, place: int) -> Iterator[Row]:
        return (row for _, row in self._placed(place))

    def _placed(self, place: int) -> Iterator[tuple[int, Row]]:
        header = self._header
        with self._lines(place) as lines:
            if self.kind == "jsonl":
                yield from lines.objects()
                return
            cells = lines.cells(self.kind)
            if not place:
                next(cells, None)
            while True:
                start = lines.place
                values = next(cells, None)
                if values is None:
                    return
                if not values:  # an empty line
                    continue
                if len(values) != len(header):
                    raise TaskError(
                        f"{self.file} line {lines.number}: {len(values)} cells under {len(header)}"
                        " columns; the file may be cut short, or its quotes may be broken"
                    )
                yield start, dict(zip(header, values, strict=True))

    def _lines(self, place: int) -> _Lines:
        try:
            return _Lines(self.file, open_unpacked(self.file), place)
        except OSError as exc:
            raise TaskError(f"{self.file} cannot be read ({exc.strerror})") from exc


class _Lines:
    """The lines of an open file from a place on, and where the next one begins."""

    def __init__(self, path: Path, file: BinaryIO | BufferedIOBase, place: int) -> None:
        self.path, self.file, self.place, self.number = path, file, place, 0
        file.seek(place)

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *exc: object) -> None:
        self.file.close()

    def __iter__(self) -> Iterator[str]:
        try:
            for line in read_lines(self.file):
                self.place += len(line)
                self.number += 1
                yield line.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise TaskError(f"{self.path} line {self.number}: not UTF-8 ({exc.reason})") from exc
        except (OSError, EOFError, ValueError, zlib.error) as exc:
            raise TaskError(f"{self.path} line {self.number + 1} cannot be read ({exc})") from exc

    def cells(self, kind: str) -> Iterator[list[str]]:
        csv.field_size_limit(MOST_LINE)  # cells may hold whole images
        reader = csv.reader(iter(self), delimiter="\t" if kind == "tsv" else ",", strict=False)
        try:
            yield from reader
        except csv.Error as exc:
            raise TaskError(f"{self.path} line {self.number}: no {kind.upper()} ({exc})") from exc

    def objects(self) -> Iterator[tuple[int, Row]]:
        start = self.place
        for line in self:
            if line.strip():
                yield start, self._object(line)
            start = self.place

    def _object(self, line: str) -> Row:
        try:
            row = read_json(line)
        except ValueError as exc:
            raise TaskError(
                f"{self.path} line {self.number}: no JSON object ({exc}); write one a line"
            ) from exc
        if not isinstance(row, Mapping):
            raise TaskError(
                f"{self.path} line {self.number}: a JSON object is needed, found"
                f" {type(row).__name__}"
            )
        return dict(row)


TableFile = ParquetTable | TextTable
"""A table: its columns, the cells of some columns of all rows, and whole rows one after the
other."""


def open_table(path: Path) -> TableFile:
    """The table in a file, or in all parquet files of a folder. Raises TaskError with what is there
    instead."""
    path = Path(path)
    if path.is_dir():
        files = sorted(path.glob("*.parquet"))
        if not files:
            names = sorted(entry.name for entry in path.iterdir())[:12]
            raise TaskError(
                f"{path} has no parquet file; it has {', '.join(names) or 'nothing'}: name the file"
                " itself"
            )
        return ParquetTable(tuple(files))
    ending = path.suffix.lower()
    if not path.is_file() or ending not in ENDINGS:
        what = f"is no {', '.join(ENDINGS)}" if path.is_file() else "does not exist"
        raise TaskError(
            f"{path} {what}; a table of questions is one of these files, or a folder of parquet"
            " files"
        )
    return (
        ParquetTable((path,)) if ending == ".parquet" else TextTable(path, ending.removeprefix("."))
    )


def read_objects(path: Path) -> Iterator[tuple[int, Row]]:
    """The objects of a file of JSON lines, plain or `.gz`, with the numbers of their lines. Raises
    TaskError."""
    try:
        yield from read_json_lines(path)
    except (OSError, ValueError) as exc:
        raise TaskError(str(exc)) from exc


def read_texts(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV or TSV, plain or `.gz`, or of the first sheet of an `.xlsx`, as texts.
    Raises TaskError."""
    if path.suffix == ".xlsx":
        return _sheet_rows(path)
    table = TextTable(path, "tsv" if ".tsv" in path.suffixes else "csv")
    return table.rows(table.columns)


def _sheet_rows(file: Path) -> Iterator[dict[str, str]]:
    try:
        from openpyxl import load_workbook
    except ImportError as exc:
        raise TaskError(
            f"{file}: reading .xlsx needs openpyxl; type `pip install openpyxl`, or use .tsv"
        ) from exc
    try:
        with open_file(file) as source, ZipFile(source) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > MOST_LINE:
                raise ValueError(f"it would unpack to more than {MOST_LINE >> 20} MiB")
        with open_file(file) as source, closing(load_workbook(source, read_only=True)) as book:
            rows = book.worksheets[0].iter_rows(values_only=True)
            header = [str(name) for name in next(rows, ())]
            for row in rows:
                texts = (cell if isinstance(cell, str) else as_text(cell) for cell in row)
                yield dict(zip(header, texts, strict=False))
    except Exception as exc:  # a damaged table raises whatever its readers stumble over
        raise TaskError(f"{file} cannot be read as an Excel table ({exc})") from exc


def _sha256(files: Sequence[Path]) -> str:
    hashes = []
    for file in files:
        with file.open("rb") as source:
            hashes.append(hashlib.file_digest(source, "sha256"))
    if len(hashes) == 1:
        return hashes[0].hexdigest()
    return hashlib.sha256(b"".join(one.digest() for one in hashes)).hexdigest()

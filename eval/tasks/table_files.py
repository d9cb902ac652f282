"""Tables read row by row: parquet, JSON lines, CSV, TSV and Excel.

The texts of all rows are read first; the images of a row are read only when it is needed.
"""

from __future__ import annotations

import csv
import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.cells import Row, as_text
from looktwice.pipelines.disk import MAX_LINE_BYTES, open_file, open_unpacked, read_lines
from looktwice.pipelines.json_input import parse_json_object, read_json_lines

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

NumberedRows = Iterator[tuple[int, Row]]
IMAGE_ROWS_IN_MEMORY = 8  # rows with their images in memory at a time
TEXT_BATCH_ROWS = 1024
BUFFER_BYTES = 1 << 20
TABLE_ENDINGS = (".parquet", ".jsonl", ".tsv", ".csv")


@dataclass(frozen=True)
class ParquetTable:
    """Parquet files that form one table and are streamed: pages are read through a small buffer and
    then released."""

    files: tuple[Path, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns. Raises TaskError if two files differ."""
        names: tuple[str, ...] = ()
        for file in self.files:
            with _open_parquet(file) as parquet:
                first, names = names, tuple(parquet.schema_arrow.names)
            if first and names != first:
                raise TaskError(
                    f"{file} has the columns {', '.join(names)}; {self.files[0]} has"
                    f" {', '.join(first)}"
                )
        return names

    @property
    def sha(self) -> str:
        """The sha256 of the file; for several files, the sha256 of their hashes."""
        digests = digest_files(self.files)
        return (digests if len(self.files) == 1 else hashlib.sha256(digests).digest()).hex()

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield the cells of every row in these columns. Raises TaskError for a damaged file."""
        for file in self.files:
            with _open_parquet(file) as parquet:
                kinds = [str(parquet.schema_arrow.field(name).type) for name in columns]
                size = (
                    IMAGE_ROWS_IN_MEMORY
                    if any("binary" in kind for kind in kinds)
                    else TEXT_BATCH_ROWS
                )
                for batch in parquet.iter_batches(size, columns=list(columns), use_threads=False):
                    yield from batch.to_pylist()

    def read_rows_at(self, numbers: Sequence[int], columns: Sequence[str]) -> NumberedRows:
        """Yield the cells of these rows in these columns, skipping row groups without any of the
        rows. Raises TaskError."""
        number, wanted = 0, set(numbers)
        for file in self.files:
            with _open_parquet(file) as parquet:
                for group in range(parquet.metadata.num_row_groups):
                    start, number = number, number + parquet.metadata.row_group(group).num_rows
                    if wanted.isdisjoint(range(start, number)):
                        continue
                    batches = parquet.iter_batches(
                        IMAGE_ROWS_IN_MEMORY, [group], columns=list(columns), use_threads=False
                    )
                    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
                    yield from (pair for pair in enumerate(rows, start) if pair[0] in wanted)


@contextmanager
def _open_parquet(file: Path) -> Iterator[ParquetFile]:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(file, buffer_size=BUFFER_BYTES, pre_buffer=False) as parquet:
            yield parquet
    except (OSError, pyarrow.ArrowException) as exc:
        raise TaskError(
            f"{file} is not a complete parquet file ({exc}); it may be truncated or damaged:"
            " download it again"
        ) from exc


@dataclass(frozen=True)
class TextTable:
    """A text table whose `kind` is jsonl, csv or tsv: it is scanned once to find its rows, and then
    any row can be read directly.

    `data` is the content of the file if the file is in a zip.
    """

    file: Path
    kind: str
    data: bytes | None = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; for JSON lines, the keys of all rows."""
        return tuple(self._header if self.kind != "jsonl" else self._scan[1])

    @property
    def sha(self) -> str:
        """The sha256 of the file."""
        if self.data is not None:
            return hashlib.sha256(self.data).hexdigest()
        return digest_files([self.file]).hex()

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield the cells of every row in these columns, with None for a missing cell. Raises
        TaskError with the number of a faulty line."""
        for _, row in self._read_from():
            yield {name: row.get(name) for name in columns}

    def read_rows_at(self, numbers: Sequence[int], columns: Sequence[str]) -> NumberedRows:
        """Yield the cells of these rows in these columns. Raises TaskError."""
        for number in numbers:
            row = self.read_row_at(number)
            yield number, {name: row.get(name) for name in columns}

    def read_row_at(self, number: int) -> Row:
        """Read one row directly."""
        return next(self._read_from(self._row_offsets[number]))[1]

    @property
    def _row_offsets(self) -> list[int]:
        """The byte offset of each row."""
        return self._scan[0]

    @cached_property
    def _scan(self) -> tuple[list[int], list[str]]:
        """The byte offset of each row, and all column names in order of first occurrence."""
        places, names = list[int](), dict[str, None]()
        for place, row in self._read_from():
            places.append(place)
            names |= dict.fromkeys(row)
        return places, [*names]

    @cached_property
    def _header(self) -> list[str]:
        if self.kind == "jsonl":
            return []
        _, _, names = next(self._records(), (0, 0, None))
        if not names:
            raise TaskError(
                f"{self.file} is empty; a {self.kind.upper()} must begin with its column names"
            )
        if len(set(names)) < len(names):
            raise TaskError(f"{self.file}: a column occurs twice in {', '.join(names)}")
        return [name.removeprefix("\ufeff") for name in names]

    def _read_from(self, place: int = 0) -> NumberedRows:
        """Yield every row from a byte offset on, together with the row's offset."""
        header = self._header
        for start, number, record in self._records(place):
            if (header and not start) or not record:  # the header, or an empty line
                continue
            try:
                if header and len(record) != len(header):
                    raise ValueError(
                        f"it has {len(record)} cells for {len(header)} columns; the file may be"
                        " truncated, or its quotes may be broken"
                    )
                row = (
                    dict(zip(header, record, strict=True)) if header else parse_json_object(record)
                )
                yield start, row
            except ValueError as exc:
                raise TaskError(f"{self.file} line {number}: {exc}") from exc

    def _records(self, place: int = 0) -> Iterator[tuple[int, int, Any]]:
        """Yield, for every record from a byte offset on, its offset, the number of its last line,
        and its JSON or its cells."""
        number, end = 0, place

        def lines() -> Iterator[str]:
            nonlocal number, end
            for line in read_lines(file):
                end += len(line)
                number += 1
                yield line.decode("utf-8")

        csv.field_size_limit(MAX_LINE_BYTES)  # cells may hold whole images
        try:
            file = open_unpacked(self.file) if self.data is None else BytesIO(self.data)
        except OSError as exc:
            raise TaskError(f"{self.file} cannot be read ({exc.strerror})") from exc
        try:
            with file:
                file.seek(place)
                delimiter = "\t" if self.kind == "tsv" else ","
                cells: Iterator[Any] = csv.reader(lines(), delimiter=delimiter)
                for record in map(str.strip, lines()) if self.kind == "jsonl" else cells:
                    yield place, number, record
                    place = end
        except (csv.Error, OSError, EOFError, ValueError, zlib.error) as exc:
            why = f"not UTF-8 ({exc.reason})" if isinstance(exc, UnicodeDecodeError) else exc
            raise TaskError(f"{self.file} line {number}: {why}") from exc


TableFile = ParquetTable | TextTable
"""A table with columns, from which cells of all rows or of given rows can be read."""


def open_table(path: Path) -> TableFile:
    """Open the table in a file, or in all parquet files of a folder. Raises TaskError with what was
    found instead."""
    path = Path(path)
    if path.is_dir():
        files = sorted(path.glob("*.parquet"), key=_get_number_key)
        if not files:
            names = sorted(entry.name for entry in path.iterdir())[:12]
            holds = f"holds {', '.join(names)}" if names else "is empty"
            raise TaskError(
                f"{path} has no parquet file; it {holds}. Set `path` to a table, or to a folder of"
                " parquet files"
            )
        return ParquetTable(tuple(files))
    ending = path.suffix.lower()
    if not path.is_file() or ending not in TABLE_ENDINGS:
        what = "is not a table" if path.is_file() else "does not exist"
        raise TaskError(
            f"{path} {what}; a table of questions is a {', '.join(TABLE_ENDINGS)} file, or a"
            " folder of"
            " parquet files"
        )
    return ParquetTable((path,)) if ending == ".parquet" else TextTable(path, ending[1:])


def _get_number_key(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that orders paths by the numbers in them, so that part 2 precedes part
    10."""
    parts = re.split(r"(\d+)", path.name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def require_columns(source: object, needed: Sequence[str], available: Sequence[str]) -> None:
    """Raise TaskError if a table lacks one of the columns."""
    if missing := [name for name in needed if name not in available]:
        raise TaskError(
            f"{source} lacks the columns {', '.join(missing)}; it has"
            f" {', '.join(available) or 'none'}"
        )


def read_objects(path: Path) -> NumberedRows:
    """Yield the objects of a JSON lines file, plain or `.gz`, with their line numbers. Raises
    TaskError."""
    try:
        yield from read_json_lines(path)
    except (OSError, ValueError) as exc:
        raise TaskError(str(exc)) from exc


def read_texts(path: Path) -> Iterator[Mapping[str, str]]:
    """Return the rows of a CSV or TSV, plain or `.gz`, or of the first sheet of an `.xlsx`, as
    strings. Raises TaskError."""
    if path.suffix == ".xlsx":
        return _read_sheet(path)
    table = TextTable(path, "tsv" if ".tsv" in path.suffixes else "csv")
    return table.rows(table.columns)


def _read_sheet(file: Path) -> Iterator[dict[str, str]]:
    try:
        from openpyxl import load_workbook
    except ImportError as exc:
        raise TaskError(
            f"{file}: reading .xlsx needs openpyxl; type `pip install openpyxl`, or use .tsv"
        ) from exc
    try:
        with open_file(file) as source, ZipFile(source) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > MAX_LINE_BYTES:
                raise ValueError(f"it would unpack to more than {MAX_LINE_BYTES >> 20} MiB")
        with open_file(file) as source, closing(load_workbook(source, read_only=True)) as book:
            rows = book.worksheets[0].iter_rows(values_only=True)
            header = [*map(str, next(rows, ()))]
            for row in rows:
                texts = (cell if isinstance(cell, str) else as_text(cell) for cell in row)
                yield dict(zip(header, texts, strict=False))
    except Exception as exc:  # a damaged table can raise anything
        raise TaskError(f"{file} cannot be read as an Excel table ({exc})") from exc


def digest_files(files: Sequence[Path]) -> bytes:
    """Return the concatenated sha256 digests of the files."""
    digests = b""
    for file in files:
        with file.open("rb") as source:
            digests += hashlib.file_digest(source, "sha256").digest()
    return digests

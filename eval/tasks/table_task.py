"""What tasks of questions in a table share: the table's file, its columns, images in its cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import Facts, TaskError
from looktwice.eval.tasks.cells import Row, as_text
from looktwice.eval.tasks.files import DataLocation, Files, locate_data, open_files
from looktwice.eval.tasks.image_cells import image_cells, picture_from_cell
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion, RowTask
from looktwice.eval.tasks.table_files import TableFile, open_table
from looktwice.pipelines.config.classes import did_you_mean
from looktwice.pipelines.sample import Item


class TableTask(RowTask):
    """A task whose questions are rows of one table.

    It says which cells are read (`_word_columns`), which hold images (`_image_columns`) and what a
    row asks (`_questions`). Settings that it does not have keep the values below: `path` is the
    table, or, in its place, `hub` names a data set of the Hugging Face hub, `revision` its commit
    and `file` the table in it; `images` is the folder of the images; `where` keeps the rows with
    these values alone; `split`, `label_version`, `errata` and `note` are what tables say of the
    set.
    """

    images: Path | None = None
    where: Mapping[str, str] = {}
    label_version: str = ""
    revision: str = ""
    file: str = ""

    @property
    def split(self) -> str:
        """The part of the set."""
        return ""

    @property
    def errata(self) -> tuple[str, ...]:
        """What is known to be wrong in the set."""
        return ()

    @property
    def note(self) -> str:
        """The remark of the facts."""
        return ""

    @property
    def scorer(self) -> Scorer | None:
        """The benchmark's own rules, where it has any."""
        return None

    @property
    def _word_columns(self) -> Sequence[str]:
        """The columns that are read of every row."""
        raise NotImplementedError

    @property
    def _image_columns(self) -> Sequence[str]:
        """The columns that are read of a row when its turn has come."""
        return ()

    @property
    def facts(self) -> Facts:
        """What was said of the set, the sha256 of the table, and what was left out."""
        self._rows  # noqa: B018  what is left out is known only then
        return Facts(
            self.split,
            self.label_version or f"as in the file, sha256 {self._sha[:12]}",
            self.errata,
            self.note,
            self._location[1] or f"sha256 {self._sha}",
            self._left_out.sentences,
            self.scorer or {},
        )

    def __iter__(self) -> Iterator[Item]:
        """The items in their order; the images of a few rows are in memory at a time, encoded."""
        if not self._image_columns:
            yield from super().__iter__()
            return
        wanted: dict[int, Questions] = {}
        for question in self._chosen:
            wanted.setdefault(question.number, []).append(question)
        for number, cells in self.table.rows_at(sorted(wanted), self._image_columns):
            yield from (self._item(question, cells) for question in wanted[number])

    def _pictures(self, question: RowQuestion, cells: Row) -> Pictures:
        # without an image the question must fail, not be asked blindly
        images = image_cells(cells, self._image_columns) or [None]
        return tuple(
            picture_from_cell(cell, f"{question.id} image {number}", self._files)
            for number, cell in enumerate(images, 1)
        )

    @property
    def _patterns(self) -> Sequence[str]:
        """The files that are fetched of a data set of the hub."""
        return [self.file] if self.file else ["*.parquet", "**/*.parquet"]

    @cached_property
    def _location(self) -> DataLocation:
        return locate_data(self.path, self.hub, self.revision, self._patterns)

    @cached_property
    def table(self) -> TableFile:
        """The table whose rows are the questions. Raises TaskError."""
        place, _ = self._location
        return open_table(place / self.file if self.file else place)

    @cached_property
    def _sha(self) -> str:
        """The sha256 of the questions' file."""
        return self.table.sha

    @cached_property
    def _files(self) -> Files:
        """Where images lie whose cells are paths: `images`, or the table's folder."""
        place, _ = self._location
        return open_files(self.images or (place if place.is_dir() else place.parent))

    def _cells(self) -> Iterator[tuple[int, Any]]:
        """The rows with their numbers, less those that `where` does not keep."""
        rows = self.table.rows(list(dict.fromkeys(self._word_columns)))
        for number, cells in enumerate(rows):
            if all(as_text(cells[column]) == value for column, value in self.where.items()):
                yield number, cells


class MappedTask(TableTask):
    """A table task whose user says in `columns` which column, or columns, hold each of our fields.

    What `columns` leaves out is looked for under the names in `_usual`; `_needed` must be found.
    The field of the images is `_image_field`.
    """

    columns: Mapping[str, Any]
    _usual: ClassVar[Mapping[str, str]]
    _needed: ClassVar[Sequence[str]]
    _image_field: ClassVar[str] = "image"

    @property
    def _word_columns(self) -> list[str]:
        words = {name: columns for name, columns in self._map.items() if name != self._image_field}
        return list(chain.from_iterable(words.values()))

    @property
    def _image_columns(self) -> tuple[str, ...]:
        return self._map[self._image_field]

    def _row(self, cells: Row) -> Row:
        """The first cell of each of our fields, less those without a column and the images."""
        first = {name: columns[0] for name, columns in self._map.items() if columns}
        return {name: cells[column] for name, column in first.items() if column in cells}

    @cached_property
    def _map(self) -> dict[str, tuple[str, ...]]:
        """The columns of each of our fields."""
        names = self.table.columns
        if not names:
            raise TaskError(f"{self._left_out.source} is empty: it has no columns")
        if unknown := [name for name in self.columns if name not in self._usual]:
            raise TaskError(
                f"columns: {unknown[0]!r} is no setting of `columns`, which are"
                f" {', '.join(self._usual)}{did_you_mean(unknown[0], self._usual)}; the table has"
                f" the columns {', '.join(names)}"
            )
        mapping = {}
        for name, guesses in self._usual.items():
            columns = self.columns.get(name, guess_column(guesses, names))
            mapping[name] = (columns,) if isinstance(columns, str) else tuple(columns or ())
            require_known(mapping[name], names)
        self._complete(mapping)
        if missing := [name for name in self._needed if not mapping[name]]:
            entries = ", ".join(f"{name}: COLUMN" for name in missing)
            raise TaskError(
                f"no column for `{'` and `'.join(missing)}` is known; the table has the columns"
                f" {', '.join(names)}. Name it: columns: {{{entries}}}"
            )
        return mapping

    def _complete(self, mapping: dict[str, tuple[str, ...]]) -> None:
        """Adds the columns that are found by other means than their usual names."""


def guess_column(guesses: str, available: Sequence[str]) -> str | None:
    """The first of the likely names, parted by spaces, that a table has, in whatever case."""
    by_case = {name.casefold().replace(" ", "_"): name for name in reversed(available)}
    by_case |= zip(available, available, strict=True)
    return next((by_case[guess] for guess in guesses.split() if guess in by_case), None)


def require_known(columns: Iterable[str], available: Iterable[str]) -> None:
    """Raise TaskError for a column that the table has not."""
    names = [*available]
    for column in columns:
        if column not in names:
            raise TaskError(
                f"there is no column {column!r}{did_you_mean(column, names)}; the table has the"
                f" columns {', '.join(names)}"
            )

"""The base classes of tasks whose questions are in a table: they find its file, its columns, and
the images in its cells."""

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
from looktwice.eval.tasks.image_cells import list_image_cells, read_picture_cell
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion, RowTask
from looktwice.eval.tasks.table_files import TableFile, open_table
from looktwice.pipelines.config.classes import extend_hint, suggest_names
from looktwice.pipelines.sample import Item


class TableTask(RowTask):
    """A task whose questions are rows of one table.

    A subclass defines which cells are read (`_text_columns`), which hold images (`_image_columns`)
    and the questions of a row (`_questions`). Settings that the subclass lacks keep the values
    below: `path` is the table; instead, `hub` names a data set of the Hugging Face hub, `revision`
    its commit and `file` the table in it; `images` is the folder of the images; `where` keeps only
    rows with these values; `split`, `label_version`, `errata` and `note` describe the set in
    tables.
    """

    images: Path | None = None
    where: Mapping[str, str] = {}
    label_version: str = ""
    revision: str = ""
    file: str = ""

    @property
    def split(self) -> str:
        """The name of the split."""
        return ""

    @property
    def errata(self) -> tuple[str, ...]:
        """Known errors in the set."""
        return ()

    @property
    def note(self) -> str:
        """The note in the facts."""
        return ""

    @property
    def scorer(self) -> Scorer | None:
        """The benchmark's own scorer, if it has one."""
        return None

    @property
    def _text_columns(self) -> Sequence[str]:
        """The columns that are read for every row."""
        raise NotImplementedError

    @property
    def _image_columns(self) -> Sequence[str]:
        """The columns that are read only when a row is needed."""
        return ()

    @property
    def facts(self) -> Facts:
        """The description of the set, the sha256 of the table, and the rows left out."""
        self._usable_questions  # noqa: B018  determines what is left out
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
        """Yield the items in order; only a few rows' encoded images are in memory at a time."""
        if not self._image_columns:
            yield from super().__iter__()
            return
        wanted: dict[int, Questions] = {}
        for question in self._selected_questions:
            wanted.setdefault(question.number, []).append(question)
        for number, cells in self.table.read_rows_at(sorted(wanted), self._image_columns):
            yield from (self._item(question, cells) for question in wanted[number])

    def _pictures(self, question: RowQuestion, cells: Row) -> Pictures:
        # without an image the question must fail rather than be asked blindly
        images = list_image_cells(cells, self._image_columns) or [None]
        return tuple(
            read_picture_cell(cell, f"{question.id} image {number}", self._files)
            for number, cell in enumerate(images, 1)
        )

    @property
    def _patterns(self) -> Sequence[str]:
        """Patterns of the files to download from the hub."""
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
        """The files in the folder `images`, or else in the table's folder, to which the paths in
        cells refer."""
        place, _ = self._location
        return open_files(self.images or (place if place.is_dir() else place.parent))

    def _cells(self) -> Iterator[tuple[int, Any]]:
        """Yield the rows that `where` keeps, with their numbers."""
        rows = self.table.rows(list(dict.fromkeys(self._text_columns)))
        for number, cells in enumerate(rows):
            if all(as_text(cells[column]) == value for column, value in self.where.items()):
                yield number, cells


class MappedTask(TableTask):
    """A table task whose `columns` map each of our fields to one or more columns.

    Fields that `columns` omits are looked up under the names in `_default_columns`;
    `_required_fields` ones are required. `_image_field` is the field of the images.
    """

    columns: Mapping[str, Any]
    _default_columns: ClassVar[Mapping[str, str]]
    _required_fields: ClassVar[Sequence[str]]
    _image_field: ClassVar[str] = "image"

    @property
    def _text_columns(self) -> list[str]:
        words = {
            name: columns
            for name, columns in self._columns_by_field.items()
            if name != self._image_field
        }
        return list(chain.from_iterable(words.values()))

    @property
    def _image_columns(self) -> tuple[str, ...]:
        return self._columns_by_field[self._image_field]

    def _get_first_cells(self, cells: Row) -> Row:
        """Return the first cell of each of our fields, without unmapped fields and images."""
        first = {name: columns[0] for name, columns in self._columns_by_field.items() if columns}
        return {name: cells[column] for name, column in first.items() if column in cells}

    @cached_property
    def _columns_by_field(self) -> dict[str, tuple[str, ...]]:
        """The columns of each of our fields."""
        names = self.table.columns
        if not names:
            raise TaskError(f"{self._left_out.source} is empty: it has no columns")
        if unknown := [name for name in self.columns if name not in self._default_columns]:
            near = suggest_names(unknown[0], self._default_columns)
            hint = extend_hint(near, f"the table has the columns {', '.join(names)}")
            raise TaskError(
                f"columns: {unknown[0]!r} is not one of the fields"
                f" {', '.join(self._default_columns)}{hint}"
            )
        mapping = {}
        for name, guesses in self._default_columns.items():
            columns = self.columns.get(name, guess_column(guesses, names))
            mapping[name] = (columns,) if isinstance(columns, str) else tuple(columns or ())
            require_known_columns(mapping[name], names)
        self._add_other_columns(mapping)
        if missing := [name for name in self._required_fields if not mapping[name]]:
            entries = ", ".join(f"{name}: COLUMN" for name in missing)
            raise TaskError(
                f"no column was found for `{'` and `'.join(missing)}`; the table has the columns"
                f" {', '.join(names)}. Type: columns: {{{entries}}}"
            )
        return mapping

    def _add_other_columns(self, mapping: dict[str, tuple[str, ...]]) -> None:
        """Add to the mapping the columns that cannot be found by their usual names."""


def guess_column(guesses: str, available: Sequence[str]) -> str | None:
    """Return the first of these space-separated names that a table has, in any case, or None."""
    by_case = {name.casefold().replace(" ", "_"): name for name in reversed(available)}
    by_case |= zip(available, available, strict=True)
    return next((by_case[guess] for guess in guesses.split() if guess in by_case), None)


def require_known_columns(columns: Iterable[str], available: Iterable[str]) -> None:
    """Raise TaskError for a column that the table lacks."""
    names = [*available]
    for column in columns:
        if column not in names:
            near = suggest_names(column, names)
            hint = extend_hint(near, f"the table has the columns {', '.join(names)}")
            raise TaskError(f"there is no column {column!r}{hint}")

"""What tasks that read one table share: its rows, what is left out of them, the subset, and the
items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from looktwice.eval.scoring.benchmark import Scorer
from looktwice.eval.tasks.base import Facts, Subset
from looktwice.eval.tasks.cells import as_text, image_cells, picture_from_cell
from looktwice.eval.tasks.files import DataLocation, Files, locate_data, open_files
from looktwice.eval.tasks.row_errors import RowErrors
from looktwice.eval.tasks.table_files import TableFile, open_table
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample


@dataclass(frozen=True)
class TableQuestion:
    """A question of the row `number`, without its images; `answer` None is a key that is kept
    back."""

    number: int
    id: str
    question: str
    choices: tuple[str, ...]
    answer: str | None
    meta: Mapping[str, Any]


class TableTask:
    """A task whose questions are rows of one table; a subclass is a frozen dataclass with its
    settings as fields.

    It says which cells are read (`_word_columns`), which hold images (`_image_columns`) and what a
    row asks (`_questions`). Settings that it does not have keep the values below: `path` is the
    table, or, in its place, `hub` names a data set of the Hugging Face hub, `revision` its commit
    and `file` the table in it; `images` is the folder of the images; `split`, `label_version`,
    `errata` and `note` are what tables say of the set.
    """

    path: Any
    images: Path | None
    split: str
    label_version: str
    subset: Subset
    where: Mapping[str, str] = {}
    errata: tuple[str, ...] = ()
    note: str = ""
    scorer: Scorer | None = None
    hub: str = ""
    revision: str = ""
    file: str = ""

    @property
    def _word_columns(self) -> Sequence[str]:
        """The columns that are read of every row."""
        raise NotImplementedError

    @property
    def _image_columns(self) -> Sequence[str]:
        """The columns that are read of a row when its turn has come."""
        raise NotImplementedError

    def _questions(self, number: int, cells: Mapping[str, Any]) -> list[TableQuestion]:
        """What the row asks. Raises ValueError with the reason why it cannot be used."""
        raise NotImplementedError

    @property
    def facts(self) -> Facts:
        """What was said of the set, the sha256 of the table, and what was left out."""
        self._rows  # noqa: B018  what is left out is known only then
        sha = self._table.sha
        return Facts(
            self.split,
            self.label_version or f"as in the file, sha256 {sha[:12]}",
            self.errata,
            self._full_note,
            self._location[1] or f"sha256 {sha}",
            self._left_out.sentences,
            self.scorer or {},
        )

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        """The items in their order; the images of a few rows are in memory at a time, encoded."""
        wanted: dict[int, list[TableQuestion]] = {}
        for question in self._chosen:
            wanted.setdefault(question.number, []).append(question)
        for number, cells in self._table.rows_at(sorted(wanted), self._image_columns):
            for asked in wanted[number]:
                images = self._pictures(asked, cells)
                sample = Sample(asked.id, asked.question, images, asked.choices, meta=asked.meta)
                yield Item(sample, asked.answer)

    def _pictures(self, question: TableQuestion, cells: Mapping[str, Any]) -> tuple[Picture, ...]:
        found = image_cells(cells, self._image_columns) or [
            None
        ]  # without one it must fail, not be asked blindly
        names = [f"{question.id} image {number}" for number in range(1, len(found) + 1)]
        return tuple(
            picture_from_cell(cell, name, self._files)
            for cell, name in zip(found, names, strict=True)
        )

    @property
    def _full_note(self) -> str:
        """The remark of the facts."""
        return self.note

    @cached_property
    def _location(self) -> DataLocation:
        return locate_data(
            self.path,
            self.hub,
            self.revision,
            [self.file] if self.file else ["*.parquet", "**/*.parquet"],
        )

    @cached_property
    def _table(self) -> TableFile:
        place, _ = self._location
        return open_table(place / self.file if self.file else place)

    @cached_property
    def _files(self) -> Files:
        """Where images lie whose cells are paths: `images`, or the table's folder."""
        place, _ = self._location
        return open_files(self.images or (place if place.is_dir() else place.parent))

    @cached_property
    def _left_out(self) -> RowErrors:
        return RowErrors(Path(self.path or self.hub).name)

    @cached_property
    def _rows(self) -> list[TableQuestion]:
        """Every usable question; a row with an id that came before is left out."""
        self._left_out.clear()
        questions, total = [], 0
        for number, cells in enumerate(self._table.rows(list(dict.fromkeys(self._word_columns)))):
            if any(as_text(cells[column]) != value for column, value in self.where.items()):
                continue
            total += 1
            try:
                found = self._questions(number, cells)
            except ValueError as exc:
                self._left_out.add(number, str(exc))
                continue
            if not any(self._left_out.repeats(number, question.id) for question in found):
                questions += found
        self._check_left_out(total)
        return questions

    def _check_left_out(self, total: int) -> None:
        """Raises TaskError where too many of the rows cannot be used."""
        self._left_out.check_share(total)

    @cached_property
    def _chosen(self) -> list[TableQuestion]:
        rows = [
            (question.id, {**question.meta, "answer": question.answer}) for question in self._rows
        ]
        return [self._rows[place] for place in self.subset.choose(rows, self.path or self.hub)]

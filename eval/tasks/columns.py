"""Any table of questions as a task: parquet, JSON lines, CSV or TSV, with a map from our words to its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.scoring.benchmark import Scorer
from looktwice.eval.tasks.base import Facts, Subset, TaskError
from looktwice.eval.tasks.cells import answer_key, as_text, choice_texts, image_cells, picture_from_cell
from looktwice.eval.tasks.files import DataLocation, Files, locate_data, open_files
from looktwice.eval.tasks.row_errors import LeftOut, nearest
from looktwice.eval.tasks.table_files import TableFile, open_table
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

FIELDS = ("id", "question", "images", "choices", "answer", "prompt")
USUAL: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "index", "idx", "question_id", "qid", "uid"),
    "question": ("question", "query", "text"),
    "images": ("images", "image", "image_path", "img", "file_name", "filename"),
    "choices": ("choices", "options"),
    "answer": ("answer", "gt_answer", "ground_truth", "label"),
    "prompt": ("prompt",),
}
"""The names that are tried where the map names no column."""


@dataclass(frozen=True)
class Columns:
    """Questions from one table: `path` is a .parquet, .jsonl, .csv or .tsv file, or a folder of parquet files.

    `columns` maps our words (id, question, images, choices, answer, prompt) to a column or to a list of them
    (`choices: [A, B, C, D]`, `images: [image_1, image_2]`); what it leaves out is looked for under the usual names,
    and null says that there is none. Only `question` and `images` must be found; without an id rows are numbered.
    Images are embedded bytes, base64, or paths below `images` (a folder or a .zip; default: the table's folder).
    Answers are letters or choices' texts, or numbers where `answers_from` says 0 or 1; an empty or hidden answer is
    no key. `meta` names columns to keep for slices, `where` keeps the rows with these values alone. `file` is the
    table's path below a hub's data set. A row that cannot be used is left out and counted in the facts; more than a
    tenth of them stops. Raises TaskError.
    """

    path: Path | None = None
    columns: Mapping[str, str | Sequence[str] | None] = field(default_factory=dict)
    meta: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    answers_from: int | None = None
    split: str = ""
    label_version: str = ""
    errata: tuple[str, ...] = ()
    note: str = ""
    scorer: Scorer | None = None
    subset: Subset = field(default_factory=Subset)
    hub: str = ""
    revision: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        if unknown := [name for name in self.columns if name not in FIELDS]:
            raise TaskError(f"columns: {unknown[0]!r} is no word of ours{nearest(unknown[0], FIELDS)}")
        if self.answers_from not in (None, 0, 1):
            raise TaskError(f"answers_from is 0, 1 or null, found {self.answers_from}")
        if (self.path is None) == (not self.hub):
            raise TaskError("say where the table lies: either `path` or `hub`, and not both")

    @property
    def facts(self) -> Facts:
        """What was said of the set, the sha256 of the table, and what was left out."""
        self._rows  # noqa: B018  what is left out is known only then
        sha = self._source.sha
        return Facts(
            self.split,
            self.label_version or f"as in the file, sha256 {sha[:12]}",
            self.errata,
            self.note,
            self._place[1] or f"sha256 {sha}",
            self._left_out.sentences,
            spec(self.scorer) if self.scorer is not None else {},
        )

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        """The items in their order; the images of a few rows are in memory at a time, encoded."""
        rows = {row["number"]: row for row in (self._rows[place] for place in self._chosen)}
        for number, cells in self._source.rows_at(sorted(rows), self._map["images"]):
            row = rows[number]
            images = self._pictures(row["id"], cells)
            sample = Sample(row["id"], row["question"], images, row["choices"], meta=row["meta"])
            yield Item(sample, row["answer"])

    def _pictures(self, identifier: str, cells: Mapping[str, Any]) -> tuple[Picture, ...]:
        found = image_cells(cells, self._map["images"]) or [None]  # without one it must fail, and not be asked blindly
        names = [f"{identifier} image {number}" for number in range(1, len(found) + 1)]
        return tuple(picture_from_cell(cell, name, self._files) for cell, name in zip(found, names, strict=True))

    @cached_property
    def _place(self) -> DataLocation:
        return locate_data(
            self.path, self.hub, self.revision, [self.file] if self.file else ["*.parquet", "**/*.parquet"]
        )

    @cached_property
    def _source(self) -> TableFile:
        place, _ = self._place
        return open_table(place / self.file if self.file else place)

    @cached_property
    def _files(self) -> Files | None:
        place, _ = self._place
        return open_files(self.images if self.images is not None else place if place.is_dir() else place.parent)

    @cached_property
    def _left_out(self) -> LeftOut:
        return LeftOut(str((self.path or Path(self.hub)).name))

    @cached_property
    def _map(self) -> dict[str, tuple[str, ...]]:
        there = self._source.columns
        found = {name: self._named(name, there) for name in FIELDS}
        if not there:
            raise TaskError(f"{self._left_out.file} is empty: it has no columns")
        said = f"the table has the columns {', '.join(there)}"
        for name in ("question", "images"):
            if not found[name]:
                raise TaskError(f"no column for `{name}` is known; {said}. Name it: columns: {{{name}: COLUMN}}")
        wanted = [*(c for names in found.values() for c in names), *self.meta, *self.where]
        if missing := [column for column in wanted if column not in there]:
            raise TaskError(f"there is no column {missing[0]!r}{nearest(missing[0], there)} {said}")
        return found

    def _named(self, name: str, there: Sequence[str]) -> tuple[str, ...]:
        if name in self.columns:
            said = self.columns[name]
            return () if said is None else (said,) if isinstance(said, str) else tuple(said)
        usual = next(((column,) for column in USUAL[name] if column in there), ())
        if name == "choices" and not usual and {"A", "B"} <= set(there):
            return tuple(letter for letter in ascii_uppercase if letter in there)
        if name == "images" and "image_1" in there:
            return tuple(column for column in there if column.startswith("image_") and column[6:].isdecimal())
        return usual

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        """Every usable row without its images."""
        self._left_out.begin()
        words = [c for name, columns in self._map.items() if name != "images" for c in columns]
        rows, total = [], 0
        for number, cells in enumerate(self._source.rows([*dict.fromkeys((*words, *self.meta, *self.where))])):
            if any(as_text(cells[column]) != value for column, value in self.where.items()):
                continue
            total += 1
            try:
                row = self._row(number, cells)
            except ValueError as exc:
                self._left_out.add(number, str(exc))
                continue
            if not self._left_out.repeats(number, row["id"]):
                rows.append(row)
        self._left_out.check(total)
        return rows

    def _row(self, number: int, cells: Mapping[str, Any]) -> dict[str, Any]:
        def first(name: str) -> Any:
            return cells[self._map[name][0]] if self._map[name] else None

        question = as_text(first("question"))
        if not question.strip():
            raise ValueError("the question is empty")
        choices = choice_texts(cells, self._map["choices"])
        if len(choices) == 1 or len(set(choices)) < len(choices) or "" in choices:
            raise ValueError(f"choices are two different texts or more, found {list(choices)}")
        answer = answer_key(first("answer"), choices, self.answers_from)
        meta = {name: _plain(cells[name]) for name in self.meta} | {"row": number}
        if prompt := as_text(first("prompt")):
            meta["prompt"] = prompt
        identifier = as_text(first("id")) or f"row {number}"
        return {
            "number": number, "id": identifier, "question": question, "choices": choices, "answer": answer, "meta": meta
        }  # fmt: skip

    @cached_property
    def _chosen(self) -> list[int]:
        rows = [(row["id"], {**row["meta"], "answer": row["answer"]}) for row in self._rows]
        return self.subset.choose(rows)


def _plain(cell: Any) -> Any:
    return cell if isinstance(cell, str | int | float | bool | None) else as_text(cell)

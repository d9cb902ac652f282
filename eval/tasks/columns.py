"""Any table of questions as a task: parquet, JSON lines, CSV or TSV with a map from our field names
to its columns, and the TSVs that VLMEvalKit hands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.scoring.benchmark import Scorer
from looktwice.eval.tasks.base import Subset, TaskError
from looktwice.eval.tasks.cells import answer_key, as_text, choice_texts
from looktwice.eval.tasks.table_files import TextTable, require_columns
from looktwice.eval.tasks.table_task import TableQuestion, TableTask, map_columns, require_known
from looktwice.pipelines.picture import Picture

USUAL: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "index", "idx", "question_id", "qid", "uid"),
    "question": ("question", "query", "text"),
    "images": ("images", "image", "image_path", "img", "file_name", "filename"),
    "choices": ("choices", "options"),
    "answer": ("answer", "gt_answer", "ground_truth", "label"),
    "prompt": ("prompt",),
}
"""The column names that are tried for a field that `columns` does not name."""


@dataclass(frozen=True)
class Columns(TableTask):
    """Questions from one table: `path` is a .parquet, .jsonl, .csv or .tsv file, or a folder of
    parquet files.

    `columns` maps our field names (id, question, images, choices, answer, prompt) to a column or to
    a list of them (`choices: [A, B, C, D]`, `images: [image_1, image_2]`); what it leaves out is
    looked for under the usual names, and null says that there is none. Only `question` and `images`
    must be found; without an id rows are numbered. Images are embedded bytes, base64, or paths
    below `images` (a folder or a .zip; default: the table's folder). Answers are letters or
    choices' texts, or numbers where `answers_from` says 0 or 1; an empty or hidden answer is no
    key. `meta` names columns to keep for slices, `where` keeps the rows with these values alone.
    `file` is the table's path below a hub's data set. A row that cannot be used is left out and
    counted in the facts; more than a tenth of them stops. Raises TaskError.
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
        if self.answers_from not in (None, 0, 1):
            raise TaskError(f"answers_from is 0, 1 or null, found {self.answers_from}")

    @property
    def _word_columns(self) -> list[str]:
        words = (columns for name, columns in self._map.items() if name != "images")
        return [*(column for columns in words for column in columns), *self.meta, *self.where]

    @property
    def _image_columns(self) -> tuple[str, ...]:
        return self._map["images"]

    @cached_property
    def _map(self) -> dict[str, tuple[str, ...]]:
        names = self._table.columns
        if not names:
            raise TaskError(f"{self._left_out.source} is empty: it has no columns")
        mapping = map_columns(self.columns, USUAL, {name: name for name in names})
        require_known([*self.meta, *self.where], names)
        if not mapping["choices"] and "choices" not in self.columns and {"A", "B"} <= {*names}:
            mapping["choices"] = tuple(letter for letter in ascii_uppercase if letter in names)
        if "images" not in self.columns and "image_1" in names:
            mapping["images"] = tuple(
                name for name in names if name.startswith("image_") and name[6:].isdecimal()
            )
        for name in ("question", "images"):
            if not mapping[name]:
                raise TaskError(
                    f"no column for `{name}` is known; the table has the columns"
                    f" {', '.join(names)}. Name it: columns: {{{name}: COLUMN}}"
                )
        return mapping

    def _questions(self, number: int, cells: Mapping[str, Any]) -> list[TableQuestion]:
        first = {
            name: cells[columns[0]]
            for name, columns in self._map.items()
            if columns and name != "images"
        }
        question = as_text(first["question"])
        if not question.strip():
            raise ValueError("the question is empty")
        choices = choice_texts(cells, self._map["choices"])
        if len(choices) == 1 or len(set(choices)) < len(choices) or "" in choices:
            raise ValueError(f"choices are two different texts or more, found {list(choices)}")
        answer = answer_key(first.get("answer"), choices, self.answers_from)
        meta: dict[str, Any] = {}
        for name in self.meta:
            cell = cells[name]
            plain = isinstance(cell, str | int | float | bool | None)
            meta[name] = cell if plain else as_text(cell)
        meta["row"] = number
        if prompt := as_text(first.get("prompt")):
            meta["prompt"] = prompt
        identifier = as_text(first.get("id")) or f"row {number}"
        return [TableQuestion(number, identifier, question, choices, answer, meta)]


IMAGES = ("image", "image_path")
RESERVED_COLUMNS = ("index", "question", "answer", "hint", *IMAGES, *ascii_uppercase)
SHORT = 64  # an image cell that is no longer names another row, whose image it shares
CIRCLE = 1_000_000  # a circular file numbers rotation r of question i as r * CIRCLE + i


@dataclass(frozen=True)
class Tsv(TableTask):
    """Questions of a VLMEvalKit TSV (MMBench, MMMU, V*, HR-Bench ...): index, question, answer, A,
    B ..., image or image_path, and any other columns.

    Every other column (category, split ...) becomes a meta field, and `hint` one too. A short image
    cell names the row whose image it shares; images of paths lie below `images` (default: the
    file's folder). In files with rotated choices, `meta["circle"]` is the question that the
    rotations belong to: with `scorer: {use: eval.scoring.AllRight}` all of them must be right.
    `where` keeps the rows with these values alone. Rows that cannot be used are left out and
    counted in the facts. Raises TaskError.
    """

    path: Path
    where: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    split: str = ""
    label_version: str = ""
    errata: tuple[str, ...] = ()
    note: str = ""
    scorer: Scorer | None = None
    subset: Subset = field(default_factory=Subset)

    @property
    def _word_columns(self) -> list[str]:
        return [name for name in self._table.columns if name not in IMAGES]

    @property
    def _image_columns(self) -> tuple[str, ...]:
        return tuple(name for name in IMAGES if name in self._table.columns)

    def _pictures(self, question: TableQuestion, cells: Mapping[str, Any]) -> tuple[Picture, ...]:
        shared = as_text(cells.get("image")).strip()
        if shared in self._by_index and len(shared) <= SHORT:
            cells = self._table.row_at(self._by_index[shared])
        filled = [name for name in self._image_columns if as_text(cells[name])][:1]
        return super()._pictures(question, {name: cells[name] for name in filled})

    @cached_property
    def _table(self) -> TextTable:
        path = Path(self.path)
        if path.suffix.lower() != ".tsv" or not path.is_file():
            raise TaskError(f"{path} is no .tsv file; for other tables use eval.tasks.Columns")
        table = TextTable(path, "tsv")
        image = "image" if "image_path" not in table.columns else "image_path"
        require_columns(path, ["index", "question", image, *self.where], table.columns)
        return table

    @cached_property
    def _by_index(self) -> dict[str, int]:
        rows = enumerate(self._table.rows(["index"]))
        return {as_text(row["index"]): number for number, row in rows}

    def _questions(self, number: int, cells: Mapping[str, Any]) -> list[TableQuestion]:
        texts = {name: as_text(cell) for name, cell in cells.items()}
        identifier = texts["index"]
        if not identifier or not texts["question"].strip():
            raise ValueError("index and question must not be empty")
        choices = choice_texts(cells, [letter for letter in ascii_uppercase if letter in cells])
        if len(choices) == 1 or "" in choices:
            raise ValueError(
                f"{identifier}: choices are two or more without a gap, found {list(choices)}"
            )
        answer = answer_key(cells.get("answer"), choices)
        meta: dict[str, Any] = {
            name: text for name, text in texts.items() if text and name not in RESERVED_COLUMNS
        }
        turned = str(int(identifier) % CIRCLE) if identifier.isdecimal() else identifier
        meta |= {"row": number, "circle": texts.get("g_index") or turned}
        if hint := texts.get("hint"):
            meta["hint"] = hint
        return [TableQuestion(number, identifier, texts["question"], choices, answer, meta)]

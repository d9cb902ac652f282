"""Any table of questions as a task: parquet, JSON lines, CSV or TSV, with a map from our field
names to its columns."""

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
from looktwice.eval.tasks.row_errors import suggest_name
from looktwice.eval.tasks.table_task import TableQuestion, TableTask

FIELDS = ("id", "question", "images", "choices", "answer", "prompt")
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
        if unknown := [name for name in self.columns if name not in FIELDS]:
            raise TaskError(
                f"columns: {unknown[0]!r} is no setting of"
                f" `columns`{suggest_name(unknown[0], FIELDS)}"
            )
        if self.answers_from not in (None, 0, 1):
            raise TaskError(f"answers_from is 0, 1 or null, found {self.answers_from}")
        if (self.path is None) == (not self.hub):
            raise TaskError("say where the table lies: either `path` or `hub`, and not both")

    @property
    def _word_columns(self) -> list[str]:
        named = [
            column for name, columns in self._map.items() if name != "images" for column in columns
        ]
        return [*named, *self.meta, *self.where]

    @property
    def _image_columns(self) -> tuple[str, ...]:
        return self._map["images"]

    @cached_property
    def _map(self) -> dict[str, tuple[str, ...]]:
        available = self._table.columns
        mapping = {name: self._find_columns(name, available) for name in FIELDS}
        if not available:
            raise TaskError(f"{self._left_out.source} is empty: it has no columns")
        listing = f"the table has the columns {', '.join(available)}"
        for name in ("question", "images"):
            if not mapping[name]:
                raise TaskError(
                    f"no column for `{name}` is known; {listing}. Name it: columns: {{{name}:"
                    " COLUMN}"
                )
        wanted = [*(c for names in mapping.values() for c in names), *self.meta, *self.where]
        if missing := [column for column in wanted if column not in available]:
            raise TaskError(
                f"there is no column {missing[0]!r}{suggest_name(missing[0], available)} {listing}"
            )
        return mapping

    def _find_columns(self, name: str, available: Sequence[str]) -> tuple[str, ...]:
        if name in self.columns:
            named = self.columns[name]
            return () if named is None else (named,) if isinstance(named, str) else tuple(named)
        usual = next(((column,) for column in USUAL[name] if column in available), ())
        if name == "choices" and not usual and {"A", "B"} <= set(available):
            return tuple(letter for letter in ascii_uppercase if letter in available)
        if name == "images" and "image_1" in available:
            return tuple(
                column
                for column in available
                if column.startswith("image_") and column[6:].isdecimal()
            )
        return usual

    def _questions(self, number: int, cells: Mapping[str, Any]) -> list[TableQuestion]:
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
        return [TableQuestion(number, identifier, question, choices, answer, meta)]


def _plain(cell: Any) -> Any:
    return cell if isinstance(cell, str | int | float | bool | None) else as_text(cell)

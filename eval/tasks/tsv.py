"""Any benchmark that VLMEvalKit hands out as a TSV: MMBench, MMMU, V*, HR-Bench, BLINK and the next
one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.scoring.benchmark import Scorer
from looktwice.eval.tasks.base import Subset, TaskError
from looktwice.eval.tasks.cells import answer_key, as_text, choice_texts
from looktwice.eval.tasks.table_files import TextTable
from looktwice.eval.tasks.table_task import TableQuestion, TableTask
from looktwice.pipelines.picture import Picture

NEEDED = ("index", "question")
IMAGES = ("image", "image_path")
RESERVED_COLUMNS = ("index", "question", "answer", "hint", *IMAGES, *ascii_uppercase)
SHORT = 64  # an image cell that is no longer names another row, whose image it shares
CIRCLE = 1_000_000  # a circular file numbers rotation r of question i as r * CIRCLE + i


@dataclass(frozen=True)
class Tsv(TableTask):
    """Questions of a VLMEvalKit TSV: index, question, answer, A, B ..., image or image_path, and
    any other columns.

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
        found = TextTable(path, "tsv")
        missing = [name for name in NEEDED if name not in found.columns]
        if not set(IMAGES) & set(found.columns):
            missing.append("image (or image_path)")
        if missing:
            raise TaskError(
                f"{self.path} lacks the columns {', '.join(missing)}; it has"
                f" {', '.join(found.columns)}"
            )
        if wrong := [name for name in self.where if name not in found.columns]:
            raise TaskError(
                f"{self.path} has no column {wrong[0]!r} for `where`; it has"
                f" {', '.join(found.columns)}"
            )
        return found

    @cached_property
    def _by_index(self) -> dict[str, int]:
        return {
            as_text(row["index"]): number for number, row in enumerate(self._table.rows(["index"]))
        }

    def _questions(self, number: int, cells: Mapping[str, Any]) -> list[TableQuestion]:
        identifier, question = as_text(cells["index"]), as_text(cells["question"])
        if not identifier or not question.strip():
            raise ValueError("index and question must not be empty")
        choices = choice_texts(cells, [letter for letter in ascii_uppercase if letter in cells])
        if len(choices) == 1 or "" in choices:
            raise ValueError(
                f"{identifier}: choices are two or more without a gap, found {list(choices)}"
            )
        answer = answer_key(cells.get("answer"), choices)
        meta: dict[str, Any] = {
            name: as_text(cell)
            for name, cell in cells.items()
            if name not in RESERVED_COLUMNS and as_text(cell)
        }
        meta |= {"row": number, "circle": _circle(identifier, cells)}
        if hint := as_text(cells.get("hint")):
            meta["hint"] = hint
        return [TableQuestion(number, identifier, question, choices, answer, meta)]


def _circle(identifier: str, cells: Mapping[str, Any]) -> str:
    """The question of which this row is a rotation."""
    if stated := as_text(cells.get("g_index")):
        return stated
    return str(int(identifier) % CIRCLE) if re.fullmatch(r"\d+", identifier) else identifier

"""Any benchmark that VLMEvalKit hands out as a TSV: MMBench, MMMU, V*, HR-Bench, BLINK and the next one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.scoring.benchmark import Scorer
from looktwice.eval.tasks.base import Facts, Subset, TaskError
from looktwice.eval.tasks.cells import answer_key, as_text, choice_texts, image_cells, picture_from_cell
from looktwice.eval.tasks.files import Files, open_files
from looktwice.eval.tasks.row_errors import LeftOut
from looktwice.eval.tasks.table_files import TextTable
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

NEEDED = ("index", "question")
IMAGES = ("image", "image_path")
OWN = ("index", "question", "answer", "hint", *IMAGES, *ascii_uppercase)
SHORT = 64  # an image cell that is no longer names another row, whose image it shares
CIRCLE = 1_000_000  # a circular file numbers rotation r of question i as r * CIRCLE + i


@dataclass(frozen=True)
class Tsv:
    """Questions of a VLMEvalKit TSV: index, question, answer, A, B ..., image or image_path, and any other columns.

    Every other column (category, split ...) becomes a meta field, and `hint` one too. A short image cell names the
    row whose image it shares; images of paths lie below `images` (default: the file's folder). In files with
    rotated choices, `meta["circle"]` is the question that the rotations belong to: with
    `scorer: {use: eval.scoring.AllRight}` all of them must be right. `where` keeps the rows with these values
    alone. Rows that cannot be used are left out and counted in the facts. Raises TaskError.
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
    def facts(self) -> Facts:
        """What was said of the set, the sha256 of the file, and what was left out."""
        self._rows  # noqa: B018  what is left out is known only then
        sha = self._source.sha
        version = self.label_version or f"as in the file, sha256 {sha[:12]}"
        own = spec(self.scorer) if self.scorer is not None else {}
        left_out = self._left_out.sentences
        return Facts(self.split, version, self.errata, self.note, f"sha256 {sha}", left_out, own)

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        """The items in their order; a row's images are read when it is its turn."""
        for place in self._chosen:
            row = self._rows[place]
            sample = Sample(row["id"], row["question"], self._pictures(row), row["choices"], meta=row["meta"])
            yield Item(sample, row["answer"])

    def _pictures(self, row: Mapping[str, Any]) -> tuple[Picture, ...]:
        cells = self._source.row_at(row["number"])
        shared = as_text(cells.get("image")).strip()
        if shared in self._by_index and len(shared) <= SHORT:
            cells = self._source.row_at(self._by_index[shared])
        names = [name for name in IMAGES if name in cells and as_text(cells[name])][:1]
        found = image_cells(cells, names) or [None]
        labels = [f"{Path(self.path).name} row {row['number']} image {number}" for number in range(1, len(found) + 1)]
        return tuple(picture_from_cell(cell, label, self._files) for cell, label in zip(found, labels, strict=True))

    @cached_property
    def _source(self) -> TextTable:
        path = Path(self.path)
        if path.suffix.lower() != ".tsv" or not path.is_file():
            raise TaskError(f"{path} is no .tsv file; for other tables use eval.tasks.Columns")
        found = TextTable(path, "tsv")
        missing = [name for name in NEEDED if name not in found.columns]
        if not set(IMAGES) & set(found.columns):
            missing.append("image (or image_path)")
        if missing:
            raise TaskError(f"{self.path} lacks the columns {', '.join(missing)}; it has {', '.join(found.columns)}")
        if wrong := [name for name in self.where if name not in found.columns]:
            raise TaskError(f"{self.path} has no column {wrong[0]!r} for `where`; it has {', '.join(found.columns)}")
        return found

    @cached_property
    def _files(self) -> Files:
        return open_files(self.images or Path(self.path).parent)

    @cached_property
    def _left_out(self) -> LeftOut:
        return LeftOut(Path(self.path).name)

    @cached_property
    def _by_index(self) -> dict[str, int]:
        return {as_text(row["index"]): number for number, row in enumerate(self._source.rows(["index"]))}

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        self._left_out.begin()
        words = [name for name in self._source.columns if name not in IMAGES]
        rows, total = [], 0
        for number, cells in enumerate(self._source.rows(words)):
            if any(as_text(cells[column]) != value for column, value in self.where.items()):
                continue
            total += 1
            try:
                row = _row(number, cells)
            except ValueError as exc:
                self._left_out.add(number, str(exc))
                continue
            if not self._left_out.repeats(number, row["id"]):
                rows.append(row)
        self._left_out.check(total)
        return rows

    @cached_property
    def _chosen(self) -> list[int]:
        rows = [(row["id"], {**row["meta"], "answer": row["answer"]}) for row in self._rows]
        return self.subset.choose(rows, self.path)


def _row(number: int, cells: Mapping[str, Any]) -> dict[str, Any]:
    identifier, question = as_text(cells["index"]), as_text(cells["question"])
    if not identifier or not question.strip():
        raise ValueError("index and question must not be empty")
    choices = choice_texts(cells, [letter for letter in ascii_uppercase if letter in cells])
    if len(choices) == 1 or "" in choices:
        raise ValueError(f"{identifier}: choices are two or more without a gap, found {list(choices)}")
    answer = answer_key(cells.get("answer"), choices)
    meta: dict[str, Any] = {name: as_text(cell) for name, cell in cells.items() if name not in OWN and as_text(cell)}
    meta |= {"row": number, "circle": _circle(identifier, cells)}
    if hint := as_text(cells.get("hint")):
        meta["hint"] = hint
    return {
        "number": number, "id": identifier, "question": question, "choices": choices, "answer": answer, "meta": meta
    }  # fmt: skip


def _circle(identifier: str, cells: Mapping[str, Any]) -> str:
    """The question of which this row is a rotation."""
    if stated := as_text(cells.get("g_index")):
        return stated
    return str(int(identifier) % CIRCLE) if re.fullmatch(r"\d+", identifier) else identifier

"""A user's own tables: any table, given a map from our field names to its columns, and the TSVs
that VLMEvalKit distributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.answer_cells import (
    find_lettered_columns,
    read_answer_key,
    read_choice_texts,
    split_lettered_choices,
)
from looktwice.eval.tasks.base import Subset, TaskError
from looktwice.eval.tasks.cells import Row, as_text
from looktwice.eval.tasks.image_cells import find_numbered_columns
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion, VideoReader
from looktwice.eval.tasks.table_files import TextTable, require_columns
from looktwice.eval.tasks.table_task import MappedTask, TableTask, require_known_columns

DEFAULT_COLUMNS: Mapping[str, str] = {
    "id": "id index idx question_id qid uid",
    "question": "question query text",
    "images": "images image image_path img file_name filename image_list img_path image_file",
    "choices": "choices options",
    "answer": "answer gt_answer ground_truth label correct_answer",
    "prompt": "prompt",
}
"""Column names to try for a field that `columns` does not name."""


@dataclass(frozen=True)
class Columns(MappedTask):
    """Questions from one table: `path` is a .parquet, .jsonl, .csv or .tsv file, or a folder of
    parquet files. They cannot have marks; use `Folder` for these.

    `columns` maps our field names (id, question, images, choices, answer, prompt) to a column or a
    list of columns (`choices: [A, B, C, D]`, `images: [image_1, image_2]`). Fields that it omits
    are looked up under their usual names, also with numbers or letters (`image_2`, `choice_a`);
    null means that the table has no such column. Only `question` and `images` are required; without
    an id, rows are numbered. Images are embedded bytes, base64, or paths below `images` (a folder
    or a .zip; default: the table's folder); `image_name` turns a cell into a path: with "{}.jpg", 7
    becomes 7.jpg. Choices are a list or {"A": red}, or stand in one cell with letters, "(A) red (B)
    blue"; if that cell also holds the question, the question ends before the choices. Answers are
    letters, the texts of choices, or numbers counted from `answers_from` (0 or 1); an empty or
    hidden answer means that the correct answer is unknown. `meta` names columns to keep for slices,
    `truth` columns for scoring only, `numbered` makes fields from a row's number (`{pair: [2]}`),
    `where` keeps only rows with these values. `file` is the table's path below a folder `path`, or
    in the data set `hub` of the Hugging Face hub, whose commit is `revision`. `split`,
    `label_version`, `errata` and `note` describe the set in tables; `scorer` replaces plain
    accuracy; `subset` selects some of the questions. With `video: {use: eval.tasks.Video, frames:
    8}`, a column of videos replaces the images. An unusable row is left out and counted in the
    facts; more than a tenth of them is an error. Raises TaskError.
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
    subset: Subset = Subset()
    hub: str = ""
    revision: str = ""
    file: str = ""
    image_name: str = ""
    numbered: Mapping[str, Sequence[int]] = field(default_factory=dict)
    truth: tuple[str, ...] = ()
    video: VideoReader | None = None

    _default_columns = DEFAULT_COLUMNS
    _required_fields = ("question", "images")
    _image_field = "images"

    def __post_init__(self) -> None:
        if self.answers_from not in (None, 0, 1):
            raise TaskError(f"answers_from must be 0, 1 or null, found {self.answers_from}")

    @property
    def _text_columns(self) -> list[str]:
        return [*super()._text_columns, *self.meta, *self.truth, *self.where]

    def _add_other_columns(self, mapping: dict[str, tuple[str, ...]]) -> None:
        names = self.table.columns
        require_known_columns([*self.meta, *self.truth, *self.where], names)
        if not mapping["choices"] and "choices" not in self.columns:
            stems = "choice choices option options"
            mapping["choices"] = find_lettered_columns(names) or find_numbered_columns(stems, names)
        if self.video is not None:
            mapping["images"] = mapping["images"] if "images" in self.columns else ()
            mapping["images"] = mapping["images"] or self.video.find_columns(names)
        elif "images" not in self.columns:
            mapping["images"] = (
                find_numbered_columns(DEFAULT_COLUMNS["images"], names) or mapping["images"]
            )

    def _questions(self, number: int, cells: Row) -> Questions:
        row = self._get_first_cells(cells)
        question = as_text(row["question"])
        if not question.strip():
            raise ValueError("the question is empty")
        choices = read_choice_texts(cells, self._columns_by_field["choices"])
        if len(choices) == 1:
            before, choices = split_lettered_choices(choices[0])
            question = (
                before
                if self._columns_by_field["choices"] == self._columns_by_field["question"]
                else question
            )
        if len(choices) == 1 or len(set(choices)) < len(choices) or "" in choices:
            raise ValueError(f"choices must be two or more different texts, found {list(choices)}")
        try:
            answer = read_answer_key(row.get("answer"), choices, self.answers_from)
        except ValueError as exc:
            is_number = self.answers_from is None and as_text(row["answer"]).strip().isdecimal()
            hint = "; for answers that are numbers, set `answers_from` to 0 or 1, where they start"
            raise ValueError(f"{exc}{hint if is_number else ''}") from exc
        meta: dict[str, Any] = {}
        for name in (*self.meta, *self.truth):
            plain = isinstance(cells[name], str | int | float | bool | None)
            meta[name] = cells[name] if plain else as_text(cells[name])
        meta["row"] = number
        if prompt := as_text(row.get("prompt")):
            meta["prompt"] = prompt
        identifier = as_text(row.get("id")) or f"row {number}"
        return [RowQuestion(number, identifier, question, choices, answer, meta)]

    def _pictures(self, question: RowQuestion, cells: Row) -> Pictures:
        if self.image_name:
            texts = {name: as_text(cell) for name, cell in cells.items()}
            cells = {name: self.image_name.replace("{}", text) for name, text in texts.items()}
        return super()._pictures(question, cells)


IMAGE_COLUMNS = ("image", "image_path")
RESERVED_COLUMNS = ("index", "question", "answer", "hint", *IMAGE_COLUMNS, *ascii_uppercase)
# characters; an image cell up to this length names the row whose image it shares
MAX_REFERENCE_LENGTH = 64
CIRCULAR_OFFSET = 1_000_000  # rotation r of question i has the number r * CIRCULAR_OFFSET + i


@dataclass(frozen=True)
class Tsv(TableTask):
    """Questions of a VLMEvalKit TSV (MMBench, MMMU, V*, HR-Bench ...): index, question, answer, A,
    B ..., image or image_path, and any other columns.

    All other columns (category, split ...) and `hint` become meta fields. A short image cell names
    the row whose image it shares; image paths are below `images` (default: the file's folder). In
    files with rotated choices, `meta["circle"]` is the question that the rotations belong to: with
    `scorer: {use: eval.scoring.AllRight}` all of them must be right. `where` keeps only rows with
    these values, `numbered` makes fields from a row's number (`{pair: [2]}`), and `truth` names
    columns for scoring only. With `video: {use: eval.tasks.Video, frames: 8}`, a column of videos
    replaces the images. Unusable rows are left out and counted in the facts. Raises TaskError.
    """

    path: Path
    where: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    split: str = ""
    label_version: str = ""
    errata: tuple[str, ...] = ()
    note: str = ""
    scorer: Scorer | None = None
    subset: Subset = Subset()
    numbered: Mapping[str, Sequence[int]] = field(default_factory=dict)
    truth: tuple[str, ...] = ()
    video: VideoReader | None = None

    @property
    def _text_columns(self) -> list[str]:
        return [name for name in self.table.columns if name not in self._image_columns]

    @property
    def _image_columns(self) -> tuple[str, ...]:
        if self.video is not None:
            return self.video.find_columns(self.table.columns)
        own = [name for name in IMAGE_COLUMNS if name in self.table.columns]
        return tuple(dict.fromkeys((*own, *self._numbered_images)))

    @cached_property
    def _numbered_images(self) -> tuple[str, ...]:
        """The image columns with numbers, in order."""
        return find_numbered_columns(" ".join(IMAGE_COLUMNS), self.table.columns)

    def _pictures(self, question: RowQuestion, cells: Row) -> Pictures:
        if self.video is not None:
            return super()._pictures(question, cells)
        shared = as_text(cells.get("image")).strip()
        if shared in self._row_by_index and len(shared) <= MAX_REFERENCE_LENGTH:
            cells = self.table.read_row_at(self._row_by_index[shared])
        filled = [name for name in self._numbered_images if as_text(cells[name])]
        filled = filled or [name for name in self._image_columns if as_text(cells[name])][:1]
        return super()._pictures(question, {name: cells[name] for name in filled})

    @cached_property
    def table(self) -> TextTable:
        """The table whose rows are the questions. Raises TaskError."""
        path = Path(self.path)
        if path.suffix.lower() != ".tsv" or not path.is_file():
            raise TaskError(f"{path} is not a .tsv file; for other tables use eval.tasks.Columns")
        table = TextTable(path, "tsv")
        images = [name for name in IMAGE_COLUMNS if name in table.columns]
        images += find_numbered_columns(" ".join(IMAGE_COLUMNS), table.columns)
        if self.video is not None:
            images = [*self.video.find_columns(table.columns)]
        needed = ["index", "question", *(images[:1] or IMAGE_COLUMNS[:1]), *self.where]
        require_columns(path, needed, table.columns)
        return table

    @cached_property
    def _row_by_index(self) -> dict[str, int]:
        rows = enumerate(self.table.rows(["index"]))
        return {as_text(row["index"]): number for number, row in rows}

    def _questions(self, number: int, cells: Row) -> Questions:
        texts = {name: as_text(cell) for name, cell in cells.items()}
        identifier = texts["index"]
        if not identifier or not texts["question"].strip():
            raise ValueError("index and question must not be empty")
        choices = read_choice_texts(cells, [*filter(cells.__contains__, ascii_uppercase)])
        if len(choices) == 1 or "" in choices:
            raise ValueError(
                f"{identifier}: there must be two or more choices without a gap,"
                f" found {list(choices)}"
            )
        answer = read_answer_key(cells.get("answer"), choices)
        meta: dict[str, Any] = {
            name: text for name, text in texts.items() if text and name not in RESERVED_COLUMNS
        }
        turned = str(int(identifier) % CIRCULAR_OFFSET) if identifier.isdecimal() else identifier
        meta |= {"row": number, "circle": texts.get("g_index") or turned}
        if hint := texts.get("hint"):
            meta["hint"] = hint
        return [RowQuestion(number, identifier, texts["question"], choices, answer, meta)]

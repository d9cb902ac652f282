"""A user's own questions: a JSONL file beside its images, or any table with a map from our field
names to its columns, and the TSVs that VLMEvalKit hands out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import Facts, RowErrors, Subset, TaskError, suggest_name
from looktwice.eval.tasks.cells import (
    Row,
    answer_key,
    as_options,
    as_text,
    choice_texts,
    find_letter,
    lettered_columns,
    numbered_columns,
    split_lettered,
)
from looktwice.eval.tasks.files import FolderFiles, file_inside
from looktwice.eval.tasks.table_files import TextTable, json_lines, json_object, require_columns
from looktwice.eval.tasks.table_task import (
    MappedTask,
    Pictures,
    Questions,
    TableQuestion,
    TableTask,
    require_known,
)
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.marks import Marks, mark_from_dict
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item

KEYS = ("id", "question", "image", "images", "choices", "answer", "marks", "meta")


@dataclass(frozen=True)
class Folder(TableTask):
    """Questions from `file` in the folder `path`, one JSON object a line, with images in the same
    folder.

    A line has `id` and `question`, and may have `image` or `images` (paths inside the folder),
    `choices` (texts, numbers or {"image": path}; also {"A": text}), `answer` (a letter, "(B)" or a
    choice's text; without choices any text or number; absent or null where the key is hidden),
    `marks` (points `{label, x, y}` and boxes `{label, x0, y0, x1, y1}` in pixels of the first
    image, or of number `image`, from 0) and `meta` (an object of your own fields, by which scores
    can be sliced). `split`, `label_version` and `note` are what tables say of the set; an empty
    `label_version` becomes the sha256 of the file. `scorer` says what counts where that is not
    plain accuracy. Raises TaskError that lists every faulty line; an image that cannot be read, and
    a mark outside its image, fails only its own sample.
    """

    path: Path
    file: str = "samples.jsonl"
    split: str = ""
    label_version: str = ""
    note: str = field(default="", metadata=NOT_IDENTITY)
    scorer: Scorer | None = None
    subset: Subset = Subset()

    units = "lines"
    whole = True

    @property
    def facts(self) -> Facts:
        """What the user said of the set; the file's sha256 where nothing was said of its labels."""
        label_version = self.label_version or f"sha256 {self._sha[:12]}"
        return Facts(self.split, label_version, note=self.note, scorer=self.scorer or {})

    @cached_property
    def _files(self) -> FolderFiles:
        return FolderFiles(Path(self.path))

    @cached_property
    def table(self) -> TextTable:
        """The table whose rows are the questions. Raises TaskError."""
        return TextTable(self._files.root / self.file, "jsonl", self._files.read(self.file))

    @cached_property
    def _left_out(self) -> RowErrors:
        return RowErrors(self._files.root / self.file, self.units)

    def _cells(self) -> Iterator[tuple[int, bytes]]:
        return json_lines(self.table.data or b"")

    def _questions(self, number: int, line: bytes) -> Questions:
        row, root = json_object(line, parse_constant=_refuse), self._files.root
        if unknown := [key for key in row if key not in KEYS]:
            raise ValueError(
                f"unknown key {unknown[0]!r}{suggest_name(unknown[0], KEYS)} Fields of your own go"
                " under `meta`"
            )
        identifier, question, meta = row.get("id"), row.get("question"), row.get("meta") or {}
        if not isinstance(question, str) or not question.strip():
            raise ValueError(f"`question` must be a text that is not empty, found {question!r}")
        if not isinstance(meta, dict):
            raise ValueError(f"`meta` must be an object, found {meta!r}")
        if isinstance(identifier, bool | float) or not _is_plain(identifier):
            raise ValueError(f"`id` must be a text or a whole number, found {identifier!r}")
        images = _read_images(row)
        for name in images:
            file_inside(root, name)
        choices = _read_choices(row.get("choices"), root)
        answer = row.get("answer")
        if answer is not None:
            answer = answer.strip() if isinstance(answer, str) else answer
            if not _is_plain(answer):
                raise ValueError(
                    f"`answer` must be a text or a number, or null where it is hidden, found"
                    f" {answer!r}"
                )
            answer = str(answer)
            in_brackets = answer.startswith("(") and answer.endswith(")")
            bare = answer[1:-1] if in_brackets else answer
            answer = find_letter(answer, bare, choices) if choices else answer
        marks = _read_marks(row.get("marks") or [], len(images))
        return [
            TableQuestion(number, str(identifier), question, choices, answer, meta, images, marks)
        ]

    def __iter__(self) -> Iterator[Item]:
        images = [name for question in self._chosen for name in question.images]
        if images and not any(file_inside(self._files.root, n).exists() for n in images):
            raise TaskError(
                f"{self.path}: not one of the {len(images)} images exists; the first is"
                f" {self._files.root / images[0]}"
            )
        return super().__iter__()

    def _pictures(self, question: TableQuestion, cells: Any) -> Pictures:
        return tuple(Picture.open(file_inside(self._files.root, n)) for n in question.images)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number that JSON knows")


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, or a text that is not empty."""
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _read_images(row: Row) -> tuple[str, ...]:
    if "image" in row and "images" in row:
        raise ValueError("`image` and `images` are both there; keep one of them")
    images = row.get("images", [row["image"]] if row.get("image") is not None else []) or []
    if not isinstance(images, list) or not all(isinstance(name, str) and name for name in images):
        raise ValueError(f"`image` is a path and `images` a list of paths, found {images!r}")
    return tuple(images)


def _read_choices(listed: Any, root: Path) -> tuple[str | Path, ...]:
    if listed is None:
        return ()
    if isinstance(listed, dict | list) and listed:
        listed = as_options(listed)
    if not isinstance(listed, list) or not 2 <= len(listed) <= len(ascii_uppercase):
        raise ValueError(f"`choices` must be a list of 2 to 26, found {listed!r}")
    choices = list[str | Path]()
    for choice in listed:
        if isinstance(choice, dict) and [*choice] == ["image"] and isinstance(choice["image"], str):
            choices.append(file_inside(root, choice["image"]))
        elif _is_plain(choice):
            choices.append(str(choice))
        else:
            raise ValueError(f'a choice is a text, a number or {{"image": path}}, found {choice!r}')
    if len(set(choices)) < len(choices):
        raise ValueError(f"two of the `choices` are the same: {listed!r}")
    return tuple(choices)


def _read_marks(listed: Any, images: int) -> Marks:
    if not isinstance(listed, list) or not all(isinstance(mark, dict) for mark in listed):
        raise ValueError(f"`marks` must be a list of objects, found {listed!r}")
    try:
        marks = tuple(mark_from_dict(mark) for mark in listed)
    except (TypeError, OverflowError) as exc:
        raise ValueError(f"a mark has a value that is no number ({exc}): {listed!r}") from exc
    for mark in marks:
        if not 0 <= mark.image < images:
            raise ValueError(
                f"mark {mark.label!r} is on image {mark.image}, but there are {images}, counted"
                " from 0"
            )
    return marks


USUAL: Mapping[str, str] = {
    "id": "id index idx question_id qid uid",
    "question": "question query text",
    "images": "images image image_path img file_name filename image_list img_path image_file",
    "choices": "choices options",
    "answer": "answer gt_answer ground_truth label correct_answer",
    "prompt": "prompt",
}
"""The column names that are tried for a field that `columns` does not name."""


@dataclass(frozen=True)
class Columns(MappedTask):
    """Questions from one table: `path` is a .parquet, .jsonl, .csv or .tsv file, or a folder of
    parquet files; marks they cannot have, those of `Folder` can.

    `columns` maps our field names (id, question, images, choices, answer, prompt) to a column or to
    a list of them (`choices: [A, B, C, D]`, `images: [image_1, image_2]`); what it leaves out is
    looked for under the usual names, or these with numbers or letters (`image_2`, `choice_a`), and
    null says that there is none. Only `question` and `images` must be found; without an id rows are
    numbered. Images are embedded bytes, base64, or paths below `images` (a folder or a .zip;
    default: the table's folder); `image_name` makes a path of a cell, "{}.jpg" of 7 being 7.jpg.
    Choices are a list or {"A": red}, or stand lettered in one text, "(A) red (B) blue": where that
    is the question's own column, the question ends before them. Answers are letters or choices'
    texts, or numbers where `answers_from` says 0 or 1; an empty or hidden answer is no key. `meta`
    names columns to keep for slices, `truth` others for scoring alone, `numbered` makes fields of a
    row's number (`{pair: [2]}`), `where` keeps the rows with these values alone. `file` is the
    table's path below a folder `path` or a hub's data set. A row that cannot be used is left out
    and counted in the facts; more than a tenth of them stops. Raises TaskError.
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

    _usual = USUAL
    _needed = ("question", "images")
    _image_field = "images"

    def __post_init__(self) -> None:
        if self.answers_from not in (None, 0, 1):
            raise TaskError(f"answers_from is 0, 1 or null, found {self.answers_from}")

    @property
    def _word_columns(self) -> list[str]:
        return [*super()._word_columns, *self.meta, *self.truth, *self.where]

    def _complete(self, mapping: dict[str, tuple[str, ...]]) -> None:
        names = self.table.columns
        require_known([*self.meta, *self.truth, *self.where], names)
        if not mapping["choices"] and "choices" not in self.columns:
            stems = "choice choices option options"
            mapping["choices"] = lettered_columns(names) or numbered_columns(stems, names)
        if "images" not in self.columns:
            mapping["images"] = numbered_columns(USUAL["images"], names) or mapping["images"]

    def _questions(self, number: int, cells: Row) -> Questions:
        row = self._row(cells)
        question = as_text(row["question"])
        if not question.strip():
            raise ValueError("the question is empty")
        choices = choice_texts(cells, self._map["choices"])
        if len(choices) == 1:
            before, choices = split_lettered(choices[0])
            question = before if self._map["choices"] == self._map["question"] else question
        if len(choices) == 1 or len(set(choices)) < len(choices) or "" in choices:
            raise ValueError(f"choices are two different texts or more, found {list(choices)}")
        try:
            answer = answer_key(row.get("answer"), choices, self.answers_from)
        except ValueError as exc:
            is_number = self.answers_from is None and as_text(row["answer"]).strip().isdecimal()
            hint = "; of numbers, say from which they count: `answers_from: 0`, or 1"
            raise ValueError(f"{exc}{hint if is_number else ''}") from exc
        meta: dict[str, Any] = {}
        for name in (*self.meta, *self.truth):
            plain = isinstance(cells[name], str | int | float | bool | None)
            meta[name] = cells[name] if plain else as_text(cells[name])
        meta["row"] = number
        if prompt := as_text(row.get("prompt")):
            meta["prompt"] = prompt
        identifier = as_text(row.get("id")) or f"row {number}"
        return [TableQuestion(number, identifier, question, choices, answer, meta)]

    def _pictures(self, question: TableQuestion, cells: Row) -> Pictures:
        if self.image_name:
            texts = {name: as_text(cell) for name, cell in cells.items()}
            cells = {name: self.image_name.replace("{}", text) for name, text in texts.items()}
        return super()._pictures(question, cells)


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
    `where` keeps the rows with these values alone, `numbered` gives fields from a row's number, as
    `{pair: [2]}`, and `truth` names columns that scoring alone may read. Rows that cannot be used
    are left out and counted in the facts. Raises TaskError.
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

    @property
    def _word_columns(self) -> list[str]:
        return [name for name in self.table.columns if name not in self._image_columns]

    @property
    def _image_columns(self) -> tuple[str, ...]:
        own = [name for name in IMAGES if name in self.table.columns]
        return tuple(dict.fromkeys((*own, *self._numbered_images)))

    @cached_property
    def _numbered_images(self) -> tuple[str, ...]:
        """The columns of images that have numbers, in their order."""
        return numbered_columns(" ".join(IMAGES), self.table.columns)

    def _pictures(self, question: TableQuestion, cells: Row) -> Pictures:
        shared = as_text(cells.get("image")).strip()
        if shared in self._by_index and len(shared) <= SHORT:
            cells = self.table.row_at(self._by_index[shared])
        filled = [name for name in self._numbered_images if as_text(cells[name])]
        filled = filled or [name for name in self._image_columns if as_text(cells[name])][:1]
        return super()._pictures(question, {name: cells[name] for name in filled})

    @cached_property
    def table(self) -> TextTable:
        """The table whose rows are the questions. Raises TaskError."""
        path = Path(self.path)
        if path.suffix.lower() != ".tsv" or not path.is_file():
            raise TaskError(f"{path} is no .tsv file; for other tables use eval.tasks.Columns")
        table = TextTable(path, "tsv")
        images = [name for name in IMAGES if name in table.columns]
        images += numbered_columns(" ".join(IMAGES), table.columns)
        needed = ["index", "question", *(images[:1] or IMAGES[:1]), *self.where]
        require_columns(path, needed, table.columns)
        return table

    @cached_property
    def _by_index(self) -> dict[str, int]:
        rows = enumerate(self.table.rows(["index"]))
        return {as_text(row["index"]): number for number, row in rows}

    def _questions(self, number: int, cells: Row) -> Questions:
        texts = {name: as_text(cell) for name, cell in cells.items()}
        identifier = texts["index"]
        if not identifier or not texts["question"].strip():
            raise ValueError("index and question must not be empty")
        choices = choice_texts(cells, [*filter(cells.__contains__, ascii_uppercase)])
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

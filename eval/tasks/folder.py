"""A user's own questions: a JSONL file beside its images, each line checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.scoring.benchmark import Scorer
from looktwice.eval.tasks.base import Facts, Subset, TaskError
from looktwice.eval.tasks.row_errors import RowErrors, suggest_name
from looktwice.pipelines.config.allowances import allowed_to
from looktwice.pipelines.config.paths import (
    Asker,
    OutsideError,
    allowed_roots,
    pass_fence,
    shortest,
)
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.marks import Mark, mark_from_dict
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

KEYS = ("id", "question", "image", "images", "choices", "answer", "marks", "meta")


@dataclass(frozen=True, eq=False, slots=True)
class FolderRow:
    """A question as its line has it; `answer` is a letter where there are choices, None where it is
    hidden."""

    line: int
    id: str
    question: str
    images: tuple[Path, ...]
    choices: tuple[str | Path, ...]
    answer: str | None
    marks: tuple[Mark, ...]
    meta: dict[str, Any]

    def item(self) -> Item:
        """The question with its key; no image is read yet."""
        images = tuple(Picture.open(file) for file in self.images)
        choices = tuple(c if isinstance(c, str) else Picture.open(c) for c in self.choices)
        return Item(
            Sample(self.id, self.question, images, choices, self.marks, self.meta), self.answer
        )


def parse(number: int, line: bytes, root: Path) -> FolderRow:
    """Read one line of a file in the folder `root`. Raises ValueError with what is wrong in it."""
    row = _read(line)
    if unknown := [key for key in row if key not in KEYS]:
        raise ValueError(
            f"unknown key {unknown[0]!r}{suggest_name(unknown[0], KEYS)} Fields of your own go"
            " under `meta`"
        )
    question, meta = row.get("question"), row.get("meta") or {}
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"`question` must be a text that is not empty, found {question!r}")
    if not isinstance(meta, dict):
        raise ValueError(f"`meta` must be an object, found {meta!r}")
    images = _images(row, root)
    choices = _choices(row.get("choices"), root)
    answer = _answer(row.get("answer"), choices)
    return FolderRow(
        number, _identifier(row), question, images, choices, answer, _marks(row, len(images)), meta
    )


def _read(line: bytes) -> dict[str, Any]:
    try:
        row = read_json(line.decode("utf-8-sig"), parse_constant=_refuse)
    except UnicodeDecodeError as exc:
        raise ValueError(
            f"not UTF-8 ({exc.reason} at byte {exc.start}); save the file as UTF-8"
        ) from exc
    except json.JSONDecodeError as exc:
        raise ValueError(
            f"no JSON object ({exc.msg.removesuffix(' at')} at column {exc.colno}); write one"
            " object a line"
        ) from exc
    if not isinstance(row, dict):
        raise ValueError(f"a JSON object is needed, found {type(row).__name__}")
    return row


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number that JSON knows")


def _identifier(row: dict[str, Any]) -> str:
    found = row.get("id")
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise ValueError(f"`id` must be a text or a whole number, found {found!r}")
    return str(found)


def _images(row: dict[str, Any], root: Path) -> tuple[Path, ...]:
    if "image" in row and "images" in row:
        raise ValueError("`image` and `images` are both there; keep one of them")
    found = row.get("images", [row["image"]] if row.get("image") is not None else []) or []
    if not isinstance(found, list) or not all(isinstance(name, str) and name for name in found):
        raise ValueError(f"`image` is a path and `images` a list of paths, found {found!r}")
    return tuple(file_inside(root, name) for name in found)


def file_inside(root: Path, name: str) -> Path:
    """The file `name` of the folder; what leads out of it, and to no folder that is allowed, raises
    TaskError."""
    try:
        file = (root / name).resolve()
        inside = file.is_relative_to(root.resolve()) and not Path(name).is_absolute()
    except (OSError, RuntimeError, ValueError) as exc:
        raise TaskError(f"the path {name!r} leads nowhere ({exc})") from exc
    if not inside:
        asker = Asker(root, "folder of questions", shortest(root.resolve()))
        try:
            pass_fence(name, file, (*allowed_roots(), *allowed_to(root)), asker)
        except OutsideError as exc:
            raise TaskError(
                f"the path {name!r} leads out of the folder {root}; copy the file into it, or"
                f" {exc.advice}"
            ) from exc
    return root / name


def _choices(found: Any, root: Path) -> tuple[str | Path, ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or not 2 <= len(found) <= len(ascii_uppercase):
        raise ValueError(f"`choices` must be a list of 2 to 26, found {found!r}")
    choices = tuple(_choice(one, root) for one in found)
    if len(set(choices)) < len(choices):
        raise ValueError(f"two of the `choices` are the same: {found!r}")
    return choices


def _choice(found: Any, root: Path) -> str | Path:
    if isinstance(found, dict) and found.keys() == {"image"} and isinstance(found["image"], str):
        return file_inside(root, found["image"])
    if isinstance(found, bool) or not isinstance(found, str | int | float) or found == "":
        raise ValueError(f'a choice is a text, a number or {{"image": path}}, found {found!r}')
    return str(found)


def _answer(found: Any, choices: tuple[str | Path, ...]) -> str | None:
    if found is None:
        return None
    if (
        isinstance(found, bool)
        or not isinstance(found, str | int | float)
        or not str(found).strip()
    ):
        raise ValueError(
            f"`answer` must be a text or a number, or null where it is hidden, found {found!r}"
        )
    return _answer_letter(str(found).strip(), choices) if choices else str(found).strip()


def _answer_letter(text: str, choices: tuple[str | Path, ...]) -> str:
    letters = ascii_uppercase[: len(choices)]
    bare = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    meant = {bare} if len(bare) == 1 and bare in letters else set()
    meant |= {letter for letter, choice in zip(letters, choices, strict=True) if choice == text}
    if len(meant) > 1:
        raise ValueError(
            f"`answer` {text!r} is a letter and the text of another choice; write it as ({text})"
        )
    if not meant:
        texts = [choice for choice in choices if isinstance(choice, str)]
        raise ValueError(
            f"`answer` {text!r} is none of the letters {', '.join(letters)} and none of the texts"
            f" {texts}"
        )
    return meant.pop()


def _marks(row: dict[str, Any], images: int) -> tuple[Mark, ...]:
    found = row.get("marks") or []
    if not isinstance(found, list) or not all(isinstance(mark, dict) for mark in found):
        raise ValueError(f"`marks` must be a list of objects, found {found!r}")
    try:
        marks = tuple(mark_from_dict(mark) for mark in found)
    except (TypeError, OverflowError) as exc:
        raise ValueError(f"a mark has a value that is no number ({exc}): {found!r}") from exc
    for mark in marks:
        if not 0 <= mark.image < images:
            raise ValueError(
                f"mark {mark.label!r} is on image {mark.image}, but there are {images}, counted"
                " from 0"
            )
    return marks


@dataclass(frozen=True)
class Folder:
    """Questions from `file` in the folder `path`, one JSON object a line, with images in the same
    folder.

    A line has `id` and `question`, and may have `image` or `images` (paths inside the folder),
    `choices` (texts, numbers or {"image": path}), `answer` (a letter, "(B)" or a choice's text;
    without choices any text or number; absent or null where the key is hidden), `marks` (points
    `{label, x, y}` and boxes `{label, x0, y0, x1, y1}` in pixels of the first image, or of number
    `image`, from 0) and `meta` (an object of your own fields, by which scores can be sliced).
    `split`, `label_version` and `note` are what tables say of the set; an empty `label_version`
    becomes the sha256 of the file. `scorer` says what counts where that is not plain accuracy.
    Raises TaskError that lists every faulty line; an image that cannot be read, and a mark outside
    its image, fails only its own sample.
    """

    path: Path
    file: str = "samples.jsonl"
    split: str = ""
    label_version: str = ""
    note: str = field(default="", metadata=NOT_IDENTITY)
    scorer: Scorer | None = None
    subset: Subset = field(default_factory=Subset)

    @property
    def facts(self) -> Facts:
        """What the user said of the set; the file's sha256 where nothing was said of its labels."""
        sha = hashlib.sha256(self._data).hexdigest()[:12]
        return Facts(
            self.split,
            self.label_version or f"sha256 {sha}",
            note=self.note,
            scorer=self.scorer or {},
        )

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        for row in self._checked:
            yield row.item()

    @cached_property
    def _data(self) -> bytes:
        try:
            return read_file(file_inside(Path(self.path), self.file))
        except OSError as exc:
            raise TaskError(
                f"{Path(self.path) / self.file} cannot be read ({exc.strerror}); `path` is the"
                " folder and `file` the JSONL file in it, by default samples.jsonl"
            ) from exc

    @cached_property
    def _rows(self) -> list[FolderRow]:
        root = Path(self.path)
        faults, rows = RowErrors(root / self.file, "lines"), list[FolderRow]()
        for number, line in enumerate(self._data.split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                rows.append(parse(number, line, root))
                faults.repeats(number, rows[-1].id)
            except ValueError as exc:
                faults.add(number, str(exc))
        faults.raise_any()
        if not rows:
            raise TaskError(f"{faults.source} holds no questions; write one JSON object a line")
        return rows

    @cached_property
    def _chosen(self) -> list[FolderRow]:
        rows = self._rows
        if self.subset.n is None and not self.subset.ids:
            return rows
        fields = [(row.id, {**row.meta, "answer": row.answer}) for row in rows]
        numbers = self.subset.choose(fields, Path(self.path) / self.file)
        return [rows[number] for number in numbers]

    @cached_property
    def _checked(self) -> list[FolderRow]:
        """The chosen rows, now that some image is known to be there."""
        files = [file for row in self._chosen for file in row.images]
        if files and not any(file.exists() for file in files):
            raise TaskError(
                f"{self.path}: not one of the {len(files)} images exists; the first is {files[0]}"
            )
        return self._chosen

"""A user's own questions: a file of JSON lines in the folder of its images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import Facts, RowErrors, Subset, TaskError, suggest_name
from looktwice.eval.tasks.cells import Row, as_options, find_letter
from looktwice.eval.tasks.files import FolderFiles, resolve_inside
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion, RowTask, VideoReader
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.json_input import list_json_lines, parse_json_object
from looktwice.pipelines.marks import Marks, mark_from_dict
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item

LINE_KEYS = ("id", "question", "image", "images", "video", "choices", "answer", "marks", "meta")


@dataclass(frozen=True)
class Folder(RowTask):
    """Questions from `file` in the folder `path`, one JSON object per line, with images in the same
    folder.

    A line has `id` and `question`, and may have `image` or `images` (paths inside the folder),
    `choices` (texts, numbers or {"image": path}; also {"A": text}), `answer` (a letter, "(B)" or a
    choice's text; for an open question any text or number; absent or null if it is hidden), `marks`
    (points `{label, x, y}` and boxes `{label, x0, y0, x1, y1}` in pixels of the first image, or of
    number `image`, from 0) and `meta` (an object with your own fields, by which scores can be
    sliced). `split`, `label_version` and `note` describe the set in tables; an empty
    `label_version` becomes the sha256 of the file. `scorer` replaces plain accuracy, `subset`
    selects some of the questions. With `video: {use: eval.tasks.Video, frames: 8}`, a line has
    `video`, a path or a list of paths, instead of images; its marks name their frame by `image`,
    its number among the frames shown, or by `seconds`, a time in video number `image`. Raises
    TaskError that lists every faulty line; an unreadable image, or a mark outside its image, fails
    only its own sample.
    """

    path: Path
    file: str = "samples.jsonl"
    split: str = ""
    label_version: str = ""
    note: str = field(default="", metadata=NOT_IDENTITY)
    scorer: Scorer | None = None
    subset: Subset = Subset()
    video: VideoReader | None = None

    units = "lines"
    every_row_required = True

    @property
    def facts(self) -> Facts:
        """The facts that the user states about the set; if the label version is empty, it is the
        file's sha256."""
        label_version = self.label_version or f"sha256 {self._sha[:12]}"
        return Facts(self.split, label_version, note=self.note, scorer=self.scorer or {})

    @cached_property
    def _files(self) -> FolderFiles:
        return FolderFiles(Path(self.path))

    @cached_property
    def _lines(self) -> bytes:
        return self._files.read(self.file)

    @cached_property
    def _sha(self) -> str:
        return hashlib.sha256(self._lines).hexdigest()

    @cached_property
    def _left_out(self) -> RowErrors:
        return RowErrors(self._files.root / self.file, self.units)

    def _cells(self) -> Iterator[tuple[int, bytes]]:
        return list_json_lines(self._lines)

    def _questions(self, number: int, line: bytes) -> Questions:
        row, root = parse_json_object(line, parse_constant=_reject_constant), self._files.root
        if unknown := [key for key in row if key not in LINE_KEYS]:
            raise ValueError(
                f"unknown key {unknown[0]!r}{suggest_name(unknown[0], LINE_KEYS)} Fields of your"
                " own go"
                " under `meta`"
            )
        identifier, question, meta = row.get("id"), row.get("question"), row.get("meta") or {}
        if not isinstance(question, str) or not question.strip():
            raise ValueError(f"`question` must be a non-empty string, found {question!r}")
        if not isinstance(meta, dict):
            raise ValueError(f"`meta` must be an object, found {meta!r}")
        if isinstance(identifier, bool | float) or not _is_number_or_text(identifier):
            raise ValueError(f"`id` must be a string or a whole number, found {identifier!r}")
        images = _read_images(row, self.video is not None)
        for name in images:
            resolve_inside(root, name)
        choices = _read_choices(row.get("choices"), root)
        answer = row.get("answer")
        if answer is not None:
            answer = answer.strip() if isinstance(answer, str) else answer
            if not _is_number_or_text(answer):
                raise ValueError(
                    f"`answer` must be a string, a number, or null if it is hidden, found"
                    f" {answer!r}"
                )
            answer = str(answer)
            in_brackets = answer.startswith("(") and answer.endswith(")")
            bare = answer[1:-1] if in_brackets else answer
            answer = find_letter(answer, bare, choices) if choices else answer
        listed = row.get("marks") or []
        marks = _read_marks(listed, len(images) if self.video is None else None)
        moments = () if self.video is None else self.video.read_moments(listed)
        asked = str(identifier), question, choices, answer, meta, images, marks, moments
        return [RowQuestion(number, *asked)]

    def __iter__(self) -> Iterator[Item]:
        images = [name for question in self._selected_questions for name in question.images]
        if images and not any(resolve_inside(self._files.root, n).exists() for n in images):
            raise TaskError(
                f"{self.path}: none of the {len(images)} images exists; the first is"
                f" {self._files.root / images[0]}"
            )
        return super().__iter__()

    def _pictures(self, question: RowQuestion, cells: Any) -> Pictures:
        return tuple(Picture.open(resolve_inside(self._files.root, n)) for n in question.images)


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a number in JSON")


def _is_number_or_text(value: Any) -> bool:
    """Return whether a value is a number or a non-empty string."""
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _read_images(row: Row, are_videos: bool) -> tuple[str, ...]:
    if not are_videos and "video" in row:
        raise ValueError(
            "`video` needs a setting of the task, such as"
            " `video: {use: eval.tasks.Video, frames: 8}`"
        )
    if are_videos:
        if "image" in row or "images" in row:
            raise ValueError(
                "the task has `video`, so a line must name `video` instead of an image"
            )
        row = {"images" if isinstance(row.get("video"), list) else "image": row.get("video")}
    if "image" in row and "images" in row:
        raise ValueError("`image` and `images` are both given; keep one of them")
    images = row.get("images", [row["image"]] if row.get("image") is not None else []) or []
    if not isinstance(images, list) or not all(isinstance(name, str) and name for name in images):
        raise ValueError(f"`image` must be a path and `images` a list of paths, found {images!r}")
    return tuple(images)


def _read_choices(listed: Any, root: Path) -> tuple[str | Path, ...]:
    if listed is None:
        return ()
    if isinstance(listed, dict | list) and listed:
        listed = as_options(listed)
    if not isinstance(listed, list) or not 2 <= len(listed) <= len(ascii_uppercase):
        raise ValueError(f"`choices` must be a list of 2 to 26 choices, found {listed!r}")
    choices = list[str | Path]()
    for choice in listed:
        if isinstance(choice, dict) and [*choice] == ["image"] and isinstance(choice["image"], str):
            choices.append(resolve_inside(root, choice["image"]))
        elif _is_number_or_text(choice):
            choices.append(str(choice))
        else:
            raise ValueError(
                f'a choice must be a string, a number or {{"image": path}}, found {choice!r}'
            )
    if len(set(choices)) < len(choices):
        raise ValueError(f"two of the `choices` are the same: {listed!r}")
    return tuple(choices)


def _read_marks(listed: Any, images: int | None) -> Marks:
    if not isinstance(listed, list) or not all(isinstance(mark, dict) for mark in listed):
        raise ValueError(f"`marks` must be a list of objects, found {listed!r}")
    try:
        marks = tuple(mark_from_dict(mark) for mark in listed)
    except (TypeError, OverflowError) as exc:
        raise ValueError(f"a mark has a value that is not a number ({exc}): {listed!r}") from exc
    for mark in marks:
        if images is not None and not 0 <= mark.image < images:
            raise ValueError(
                f"mark {mark.label!r} is on image {mark.image} (counted from 0), but the sample has"
                f" {format_count(images, 'image')}"
            )
    return marks

"""One question as stages see it (`Sample`), and with its correct answer (`Item`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

from looktwice.pipelines.counted import format_count
from looktwice.pipelines.json_input import is_text, write_canonical
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Picture, PictureError

__all__ = ["Item", "Sample"]

PLACEHOLDERS_FIELD = "placed"
"""The field of `meta` that is true if the question contains image placeholders: `<image 1>`,
`<image 2>` ..."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A question with everything needed to ask it. The answer is not here, so that no stage can
    leak it.

    `images` are decoded on demand; `choices` are strings or pictures; `marks` are labelled points,
    boxes and masks in pixels of the image whose number they carry. `meta` holds plain JSON values
    that slice, group or document the question (subtask, pair, control parameters, the benchmark's
    own `prompt`).
    """

    id: str
    question: str
    images: tuple[Picture, ...] = ()
    choices: tuple[str | Picture, ...] = ()
    marks: tuple[Mark, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of the choices: A, B, C ..."""
        return tuple(ascii_uppercase[: len(self.choices)])

    @property
    def lettered(self) -> dict[str, str | Picture]:
        """The choices by letter."""
        return dict(zip(self.letters, self.choices, strict=True))

    @property
    def bare_question(self) -> str:
        """The question without its image placeholders."""
        places = r"<image \d+>" if self.meta.get(PLACEHOLDERS_FIELD) else r"\Z"
        return re.sub(places, "\n", self.question).strip()

    def list_marks_on(self, image: int) -> tuple[Mark, ...]:
        """Return the marks of one image."""
        return tuple(mark for mark in self.marks if mark.image == image)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except pixels as plain JSON values, with the sha256 of each picture."""
        return {
            **vars(self),
            "images": [_get_sha(image) for image in self.images],
            "choices": [
                c if isinstance(c, str) else {"picture": _get_sha(c)} for c in self.choices
            ],
            "marks": [mark.to_dict() for mark in self.marks],
            "meta": dict(self.meta),
        }

    @property
    def sha(self) -> str:
        """The sha256 of everything that is asked; it changes with any image, wording or mark."""
        return hash_json(self.to_dict())


def hash_json(plain: Mapping[str, Any]) -> str:
    """Return the sha256 of plain JSON values."""
    return hashlib.sha256(write_canonical(plain).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Item:
    """A sample with its correct answer; `answer` is None if it is hidden, as in a test split.

    `truth` holds further plain JSON values about the scene that would give the answer away. Like
    the answer, it is written to samples.jsonl only and never reaches a stage.
    """

    sample: Sample
    answer: str | None
    truth: Mapping[str, Any] = field(default_factory=dict)


def describe_item_fault(item: object) -> str:
    """Describe why an item of a task cannot be asked or recorded; "" if it can."""
    if not isinstance(item, Item) or not isinstance(item.sample, Sample):
        return f"it yielded {type(item).__name__}, not an Item with its Sample"
    sample = item.sample
    for name, text in (("id", sample.id), ("question", sample.question)):
        if not is_text(text):
            return f"the {name} of a sample must be a string, found {text!r:.80}"
    if item.answer is not None and not is_text(item.answer):
        key = f"{item.answer!r:.80}"
        return f"sample {sample.id}: its answer must be a string, or None if hidden, found {key}"
    for name, plain in (("meta", sample.meta), ("truth", item.truth)):
        try:
            fault = "" if is_text(write_canonical(dict(plain))) else "holds a lone surrogate"
        except (TypeError, ValueError, RecursionError) as exc:
            fault = f"must hold plain JSON values only: {exc}"
        if fault:
            return f"sample {sample.id}: {name} {fault}"
    return ""


def describe_key_fault(answer: object, choices: int) -> str:
    """Describe what is wrong with the correct answer of a question with this many choices (0: an
    open question); "" if nothing is."""
    letters = ascii_uppercase[:choices]
    if answer is None or (isinstance(answer, str) and (answer in [*letters] or not letters)):
        return ""
    wanted = f"none of {', '.join(letters)}" if letters else "not a string"
    return f"the correct answer {answer!r} is {wanted}"


@contextmanager
def prefix_errors(sample: Sample) -> Iterator[None]:
    """Prefix every ValueError raised inside the context with the sample's id."""
    try:
        yield
    except ValueError as exc:
        raise ValueError(f"sample {sample.id}: {exc}") from exc


def _get_sha(picture: Picture) -> str:
    try:
        return picture.sha
    except PictureError as exc:
        return f"unreadable: {exc}"


def check_marks(sample: Sample) -> None:
    """Raise ValueError if a mark of the sample lies outside its image."""
    for mark in sample.marks:
        subject = f"sample {sample.id}: {type(mark).__name__.lower()} {mark.label!r}"
        if not 0 <= mark.image < len(sample.images):
            raise ValueError(
                f"{subject} is on image {mark.image} (counted from 0), but the sample has"
                f" {format_count(len(sample.images), 'image')}"
            )
        width, height = sample.images[mark.image].size
        if isinstance(mark, Point):
            inside = -0.5 <= mark.x <= width - 0.5 and -0.5 <= mark.y <= height - 0.5
            where = f"at ({mark.x:g}, {mark.y:g}) lies"
        elif isinstance(mark, Box):  # it may extend beyond the edge by a pixel
            x0, y0, x1, y1 = mark.xyxy
            inside = x0 >= -1 and y0 >= -1 and x1 <= width + 1 and y1 <= height + 1
            where = f"({x0:g}, {y0:g}, {x1:g}, {y1:g}) reaches"
        else:
            rows, columns = mark.pixels.shape
            inside = (columns, rows) == (width, height)
            where = f"of {columns} x {rows} pixels lies"
        if not inside:
            raise ValueError(
                f"{subject} {where} outside its image {mark.image} of {width} x {height} pixels;"
                " marks are in pixels of the source image"
            )

"""ERQA: embodied reasoning about one or several pictures, in a TFRecord file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.answer_cells import read_answer_key, split_lettered_choices
from looktwice.eval.tasks.base import Subset, TaskError
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion
from looktwice.extras.sets.set_task import SetTask
from looktwice.extras.sets.tfrecord import Values, find_records, parse_example, read_record
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import PLACEHOLDERS_FIELD

IMAGE_FEATURE = "image/encoded"
LETTERS = ("A", "B", "C", "D")
FORM_INSTRUCTION_PATTERN = re.compile(r"\s*\bPlease answer\b")
"""The instruction about the form of the answer, which follows the choices."""


@dataclass(frozen=True)
class Erqa(SetTask):
    """ERQA (arXiv 2503.20020): `path` is `erqa.tfrecord`, or its folder.

    Records have `question` (which contains its choices and the form of the answer), `answer`,
    `question_type`, the images and `visual_indices`, the positions of the images as character
    offsets in the question. At these positions `<image 1>` and so on is inserted into the question
    and into `meta["prompt"]`, so that `prompting.turns.Ask` with `images: inline` sends the images
    there; if the numbers of positions and images differ, all images come first, as in VLMEvalKit.
    `meta` has `question_type` and `pictures`, the number of images. Raises TaskError.
    """

    path: Path
    scorer: Scorer | None = None
    subset: Subset = Subset()

    _file = "erqa.tfrecord"

    @cached_property
    def _record_file(self) -> Path:
        path = self._root
        if path.is_dir():
            path = path / next(self._files.find_by_suffix(self._file), self._file)
        if not path.is_file():
            raise TaskError(f"there is no file {path}; set `path` to {self._file}")
        return path

    @cached_property
    def _sha(self) -> str:
        with self._record_file.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def _records(self) -> Sequence[tuple[int, int]]:
        return [*find_records(self._record_file)]

    def _cells(self) -> Iterator[tuple[int, Any]]:
        for number, span in enumerate(self._records):
            yield number, read_record(self._record_file, *span)

    def _questions(self, number: int, cells: bytes) -> Questions:
        features = parse_example(cells)
        text, key = (_get_text(features.get(name)) for name in ("question", "answer"))
        if not text or not key:
            raise ValueError(f"question or answer is missing; found only {', '.join(features)}")
        count = len(features.get(IMAGE_FEATURE, ()))
        _, choices = split_lettered_choices(FORM_INSTRUCTION_PATTERN.split(text)[0])
        choices = choices if len(choices) > 1 else LETTERS
        prompt = insert_image_tags(
            text, [int(n) for n in features.get("visual_indices", ())], count
        )
        meta = {"question_type": _get_text(features.get("question_type")) or "Unknown"}
        more = {"pictures": count, "prompt": prompt, PLACEHOLDERS_FIELD: True}
        answer = read_answer_key(key, choices)
        return [RowQuestion(number, f"ERQA_{number + 1}", prompt, choices, answer, meta | more)]

    def _pictures(self, question: RowQuestion, cells: Any) -> Pictures:
        span = self._records[question.number]

        def read(number: int) -> bytes:
            record = parse_example(read_record(self._record_file, *span))
            image = record[IMAGE_FEATURE][number]
            if not isinstance(image, bytes):
                raise PictureError(f"{question.id}: image {number + 1} is not encoded")
            return image

        names = (f"{question.id} image {n + 1}" for n in range(question.meta["pictures"]))
        return tuple(Picture.lazy(partial(read, n), name) for n, name in enumerate(names))


def insert_image_tags(text: str, offsets: Sequence[int], count: int) -> str:
    """Insert `<image 1>` and so on at these character offsets of a text; offsets beyond its end
    count as its end.

    If there are not `count` offsets, insert all tags at the beginning.
    """
    if len(offsets) != count:
        offsets = [0] * count
    pieces, last = list[str](), 0
    for number, offset in sorted(enumerate(offsets, 1), key=lambda pair: pair[1]):
        offset = min(max(offset, last), len(text))
        pieces += [text[last:offset], f"<image {number}>"]
        last = offset
    return "".join([*pieces, text[last:]])


def _get_text(values: Values | None) -> str:
    first = values[0] if values else b""
    return first.decode("utf-8", "replace").strip("\n") if isinstance(first, bytes) else ""

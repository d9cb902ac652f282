"""A user's own questions: a JSONL file beside its images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from looktwice.eval.folder_rows import Row, inside, parse
from looktwice.eval.rows import Faults
from looktwice.eval.scorer import Scorer
from looktwice.eval.task import Facts, Subset, TaskError
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import Item
from looktwice.pipelines.spec import spec

__all__ = ["Folder"]

SLACK = 1.0  # pixels that a box may stick out of its image: detectors and rounding do that


@dataclass(frozen=True)
class Folder:
    """Questions from `path/file`, one JSON object a line, with images in the same folder.

    A line has `id` and `question`, and may have `image` or `images` (paths inside the folder), `choices` (texts,
    numbers or {"image": path}), `answer` (a letter, "(B)" or a choice's text; without choices any text or number;
    absent or null where the key is hidden), `marks` (as `mark_from_dict` reads them, in source pixels) and `meta`
    (an object of your own fields, by which scores can be sliced). An empty `label_version` becomes the sha256 of the
    file; `scorer` says what counts where that is not plain accuracy. Raises TaskError that lists every faulty line;
    an image that cannot be read fails only its own sample.
    """

    path: Path
    file: str = "samples.jsonl"
    split: str = ""
    label_version: str = ""
    note: str = field(default="", metadata={"identity": False})
    scorer: Scorer | None = None
    subset: Subset = field(default_factory=Subset)

    @property
    def facts(self) -> Facts:
        """What the user said of the set; the file's sha256 where nothing was said of its labels."""
        sha = hashlib.sha256(self._data).hexdigest()[:12]
        scorer = spec(self.scorer) if self.scorer is not None else {}
        return Facts(self.split, self.label_version or f"sha256 {sha}", note=self.note, scorer=scorer)

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        self._check_images()
        for row in self._chosen:
            yield row.item()

    @cached_property
    def _data(self) -> bytes:
        try:
            return inside(Path(self.path), self.file).read_bytes()
        except OSError as exc:
            raise TaskError(
                f"{Path(self.path) / self.file} cannot be read ({exc.strerror}); `path` is the folder and `file` the "
                "JSONL file in it, by default samples.jsonl"
            ) from exc

    @cached_property
    def _rows(self) -> list[Row]:
        faults = Faults(Path(self.path) / self.file, "line")
        rows = []
        for number, line in enumerate(self._data.split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                rows.append(parse(number, line, Path(self.path)))
                faults.seen(number, rows[-1].id)
            except ValueError as exc:
                faults.add(number, str(exc))
        faults.check()
        if not rows:
            raise TaskError(f"{faults.file} holds no questions; write one JSON object a line")
        return rows

    @cached_property
    def _chosen(self) -> list[Row]:
        rows = self._rows
        fields = [(row.id, {**row.meta, "answer": row.answer}) for row in rows]
        numbers = self.subset.choose(fields, Path(self.path) / self.file)
        return [rows[number] for number in numbers]

    def _check_images(self) -> None:
        files = [file for row in self._chosen for file in row.images]
        if files and not any(file.is_file() for file in files):
            raise TaskError(f"{self.path}: not one of the {len(files)} images exists; the first is {files[0]}")
        faults = Faults(Path(self.path) / self.file, "line")
        for row in self._chosen:
            for problem in _misplaced(row):
                faults.add(row.line, problem)
        faults.check()


def _misplaced(row: Row) -> Iterator[str]:
    for number, file in enumerate(row.images):
        marks = [mark for mark in row.marks if mark.image == number]
        try:
            width, height = Picture.open(file).size if marks else (0, 0)
        except PictureError:  # fails its own sample when it is looked at
            continue
        for mark in marks:
            if not _fits(mark, width, height):
                yield f"mark {mark.label!r} is outside its image {file.name}, {width}x{height}: {_where(mark)}"


def _fits(mark: Mark, width: int, height: int) -> bool:
    if isinstance(mark, Point):
        return -0.5 <= mark.x <= width - 0.5 and -0.5 <= mark.y <= height - 0.5
    if isinstance(mark, Box):
        return min(mark.x0, mark.y0) >= -SLACK and mark.x1 <= width + SLACK and mark.y1 <= height + SLACK
    return mark.pixels.shape == (height, width)


def _where(mark: Mark) -> str:
    if isinstance(mark, Point | Box):
        return str(mark.center if isinstance(mark, Point) else mark.xyxy)
    return f"a mask of {mark.pixels.shape[1]}x{mark.pixels.shape[0]}"

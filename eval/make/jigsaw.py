"""Jigsaw questions from any folder of images, as BLINK makes them: which piece is the missing
quarter?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from looktwice.eval.make.files import (
    MadeFromFiles,
    keep_readable,
    list_images,
    make_item,
    require_folder,
)
from looktwice.eval.tasks.base import TaskError, require_some
from looktwice.eval.tasks.photographs import QuestionImages, deal_evenly, seeded_rng
from looktwice.eval.tasks.photos.jigsaw import cut_jigsaw
from looktwice.eval.tasks.photos.task import JIGSAW_CHOICES, JIGSAW_QUESTION
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import Item


@dataclass(frozen=True)
class Jigsaw(MadeFromFiles):
    """One question for each image of the folder `path`, or `n` of them (BLINK, section 3.2 and
    files).

    Equal `seed`s give equal questions.

    The image is cut into 3x3 pieces of 200 px width; the first picture is the upper left 2x2 with
    its last piece black, and that piece stands beside one of the five that are not shown. With
    `whole` the image is cut as it is; without it each question has a random crop at the aspect of
    BLINK's files, so one image gives any number. An image whose pieces are flat or alike is left
    out and counted. Raises TaskError.
    """

    path: Path
    n: int | None = None
    seed: int = 0
    whole: bool = True

    def __post_init__(self) -> None:
        require_some(self.n)

    @property
    def _source(self) -> tuple[str, Iterable[object]]:
        names = [file.name for file in self._used]
        return f"jigsaws of {len(names)} images", names

    def __len__(self) -> int:
        return self.n if self.n is not None and not self.whole else len(self._used)

    def __iter__(self) -> Iterator[Item]:
        """The questions in their order; each is cut when it is asked for."""
        return map(self._item, range(len(self)))

    @property
    def _items(self) -> list[Item]:
        return list(self)

    def _item(self, number: int) -> Item:
        file = self._used[number % len(self._used)]
        answer = deal_evenly(number, "AB", "letter", "jigsaw", self.seed)
        drawn = self._cut(file, number, answer)
        meta = {"subtask": "Jigsaw", "source": file.name, **drawn.meta}
        name = f"jigsaw_{number:04}"
        return make_item(name, JIGSAW_QUESTION, drawn.images, JIGSAW_CHOICES, answer, **meta)

    def _cut(self, file: Path, number: int, answer: str) -> QuestionImages:
        rng = seeded_rng("jigsaw", file.name, number // max(1, len(self._files)), self.seed)
        return cut_jigsaw(
            rng, Picture.open(file).pixels, f"the image {file.name}", answer, whole=self.whole
        )

    @cached_property
    def _files(self) -> list[Path]:
        readable = keep_readable(list_images(require_folder(self.path, "images")), self._skipped)
        if not readable:
            raise self._skipped.nothing_left(Path(self.path), "there is no image that can be read")
        return readable

    @cached_property
    def _used(self) -> list[Path]:
        """The images that give a question: in turn, as many as are wanted."""
        used: list[Path] = []
        for file in self._files:
            if self.n is not None and len(used) == self.n:
                break
            try:
                self._cut(file, 0, "A")
            except (TaskError, PictureError) as exc:
                self._skipped.add(file.name, str(exc))
            else:
                used.append(file)
        if not used:
            raise self._skipped.nothing_left(Path(self.path), "no image gives a question")
        if self.n is not None and self.whole and len(used) < self.n:
            raise TaskError(
                f"{self.path}: {len(used)} images give {len(used)} questions and not {self.n}; say"
                " `whole: false` for several crops of each"
            )
        return used

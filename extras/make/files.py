"""The base class of tasks made from a user's own files, and jigsaws of the images in a folder."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from string import ascii_uppercase
from typing import Any, ClassVar, TypeVar

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import Facts, RowErrors, TaskError, require_positive
from looktwice.eval.tasks.files import resolve_inside
from looktwice.eval.tasks.photographs import QuestionImages, deal_evenly, make_rng
from looktwice.eval.tasks.photos.task import JIGSAW_CHOICES, JIGSAW_QUESTION, cut_jigsaw
from looktwice.pipelines.geometry import Size
from looktwice.pipelines.marks import Marks
from looktwice.pipelines.picture import Picture, PictureError, Pixels
from looktwice.pipelines.sample import Item, Sample

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff")
T = TypeVar("T")
MAX_TRIES = 20  # draws from one image or pair before trying the next one


def require_folder(path: Path, holds: str) -> Path:
    """Return the path of a folder. Raises TaskError if it does not exist; `holds` says what it
    should hold."""
    if not Path(path).is_dir():
        raise TaskError(f"there is no folder {path}; `path` is the folder that holds {holds}")
    return Path(path)


def require_file(root: Path, name: str) -> Path:
    """Return the path of the file `name` in the folder `root`. Raises TaskError if it is missing,
    or outside the folder."""
    file = resolve_inside(root, name)
    if not file.is_file():
        folder = file.parent
        names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        listing = f"{folder} holds {', '.join(names[:12])}" if names else f"{folder} is empty"
        raise TaskError(f"there is no file {file}; {listing}")
    return file


def require_pair(root: Path, pair: Mapping[str, str], *keys: str) -> list[Path]:
    """Return the paths of a pair's files, in the order of `keys`. Raises TaskError for other
    keys."""
    if pair.keys() != {*keys}:
        wanted = " and ".join([", ".join(keys[:-1]), keys[-1]])
        raise TaskError(f"a pair needs {wanted} (files in {root}), got {', '.join(sorted(pair))}")
    return [require_file(root, pair[key]) for key in keys]


def list_images(folder: Path) -> list[Path]:
    """Return the files of a folder that have the suffix of an image format, sorted."""
    return sorted(
        file
        for file in folder.iterdir()
        if file.suffix.lower() in IMAGE_SUFFIXES and file.is_file()
    )


def select_readable(files: Iterable[Path], skipped: RowErrors) -> list[Path]:
    """Return the image files whose header can be read, and record the others in `skipped`."""
    kept = []
    for file in files:
        try:
            get_image_size(file)
        except PictureError as exc:
            skipped.add(file.name, exc)
        else:
            kept.append(file)
    return kept


def get_image_size(file: Path) -> Size:
    """Return the width and height of an image as it is displayed. Raises PictureError."""
    return Picture.open(file).size


Source = tuple[str, Iterable[object]]
"""A note for the facts of the task, and values that identify the sources and their ground truth."""


class FileTask(ABC):
    """The base class of tasks made from a user's own files; it records the files that are left out.

    A subclass is a frozen dataclass; `units` is the plural noun for what may be left out, such as
    "images".
    """

    path: Path
    seed: int
    units: ClassVar[str] = "images"

    @property
    @abstractmethod
    def _items(self) -> Sequence[Item]:
        """The questions in order; their images are read on access."""

    @property
    @abstractmethod
    def _source(self) -> Source:
        """The source that these questions are made from."""

    @property
    def scorer(self) -> Scorer | None:
        """The scoring rules, if they are not plain accuracy."""
        return None

    @property
    def facts(self) -> Facts:
        """A description of the questions, the sha256 of their sources, and what was left out."""
        note, sources = self._source
        sha = hashlib.sha256("\n".join(map(str, sources)).encode()).hexdigest()
        left_out = self._skipped.sentences
        return Facts(
            "made", "by construction", (), note, f"sha256 {sha}", left_out, self.scorer or {}
        )

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    @cached_property
    def _skipped(self) -> RowErrors:
        return RowErrors(units=self.units)

    def _take_turns(self, number: int, sources: Sequence[T], word: str) -> Iterator[T]:
        """Yield the sources to try for question `number`, each several times: first the source
        whose turn it is, then the following ones. `word` names what is dealt; the random order
        depends on it."""
        turn = deal_evenly(number, range(len(sources)), word, self.seed)
        for source in (*sources[turn:], *sources[:turn]):
            yield from repeat(source, MAX_TRIES)

    def _deal(self, number: int, cards: Sequence[T]) -> T:
        """Return one of `cards` for question `number`, so that all cards are equally frequent over
        the questions."""
        card: T = deal_evenly(number, cards, "card", self.seed, str(cards))
        return card


def make_item(
    identifier: str,
    question: str,
    images: Sequence[Path | Pixels],
    choices: tuple[str, ...],
    answer: str,
    marks: Marks = (),
    **meta: Any,
) -> Item:
    """Build an item from image files or pixels; its `prompt` lists the choices with letters.

    Values of `meta` that are None are left out.
    """
    pictures = []
    for number, image in enumerate(images, 1):
        if isinstance(image, Path):
            pictures.append(Picture.open(image))
        else:
            pictures.append(Picture(image, f"{identifier} image {number}"))
    prompt = format_lettered_prompt(question, choices) if choices else question
    fields = {"prompt": prompt} | {name: value for name, value in meta.items() if value is not None}
    return Item(Sample(identifier, question, tuple(pictures), choices, marks, fields), answer)


def format_lettered_prompt(question: str, choices: Sequence[str]) -> str:
    """Return a question followed by its choices in lettered lines, in BLINK's wording."""
    pairs = zip(ascii_uppercase, choices, strict=False)
    lines = [f"({letter}) {choice}" for letter, choice in pairs]
    return "\n".join([question, "Select from the following choices.", *lines])


@dataclass(frozen=True)
class Jigsaw(FileTask):
    """Jigsaw questions: one for each image of the folder `path`, or `n` in all (made as in section
    3.2 of BLINK and in its files).

    Equal `seed`s give equal questions.

    The image is cut into 3x3 pieces of 200 px width. The first picture shows the upper left 2x2
    pieces, the last of them black; the choices are this piece and one of the five pieces that are
    not shown. With `whole` the entire image is cut; without it, each question cuts a random crop at
    the aspect ratio of BLINK's files, so one image can give any number of questions. An image whose
    pieces are flat or look alike is left out and counted. Raises TaskError.
    """

    path: Path
    n: int | None = None
    seed: int = 0
    whole: bool = True

    def __post_init__(self) -> None:
        require_positive(self.n)

    @property
    def _source(self) -> Source:
        names = [file.name for file in self._usable_images]
        return f"jigsaws of {len(names)} images", names

    def __len__(self) -> int:
        return self.n if self.n is not None and not self.whole else len(self._usable_images)

    def __iter__(self) -> Iterator[Item]:
        """Yield the questions in order; each is cut on demand."""
        return map(self._item, range(len(self)))

    @property
    def _items(self) -> list[Item]:
        return list(self)

    def _item(self, number: int) -> Item:
        file = self._usable_images[number % len(self._usable_images)]
        answer = deal_evenly(number, "AB", "letter", "jigsaw", self.seed)
        drawn = self._cut_pieces(file, number, answer)
        return make_item(
            f"jigsaw_{number:04}",
            JIGSAW_QUESTION,
            drawn.images,
            JIGSAW_CHOICES,
            answer,
            subtask="Jigsaw",
            source=file.name,
            **drawn.meta,
        )

    def _cut_pieces(self, file: Path, number: int, answer: str) -> QuestionImages:
        rng = make_rng("jigsaw", file.name, number // max(1, len(self._readable_images)), self.seed)
        return cut_jigsaw(
            rng, Picture.open(file).pixels, f"the image {file.name}", answer, whole=self.whole
        )

    @cached_property
    def _readable_images(self) -> list[Path]:
        readable = select_readable(list_images(require_folder(self.path, "images")), self._skipped)
        if not readable:
            raise self._skipped.make_empty_error(self.path, "there is no image that can be read")
        return readable

    @cached_property
    def _usable_images(self) -> list[Path]:
        """The images that yield a question, in order, up to the number needed."""
        used: list[Path] = []
        for file in self._readable_images:
            if self.n is not None and len(used) == self.n:
                break
            try:
                self._cut_pieces(file, 0, "A")
            except (TaskError, PictureError) as exc:
                self._skipped.add(file.name, exc)
            else:
                used.append(file)
        if not used:
            raise self._skipped.make_empty_error(self.path, "no image gives a question")
        if self.n is not None and self.whole and len(used) < self.n:
            raise TaskError(
                f"{self.path}: {len(used)} images give only {len(used)} of {self.n} questions; set"
                " `whole: false` for several crops of each image"
            )
        return used

"""A user's own images and maps as sources of questions: what lies there, what can be read, what is
left out."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from looktwice.eval.tasks.base import Facts, TaskError
from looktwice.eval.tasks.files import file_inside
from looktwice.eval.tasks.row_errors import RowErrors
from looktwice.pipelines.marks import Mark
from looktwice.pipelines.picture import Picture, PictureError, Pixels
from looktwice.pipelines.sample import Item, Sample

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff")
MOST_TRIES = 20  # draws from one image or pair before the next one has its turn


def require_folder(path: Path, holds: str) -> Path:
    """The folder itself. Raises TaskError that says what it should hold."""
    if not Path(path).is_dir():
        raise TaskError(f"there is no folder {path}; `path` is the folder that holds {holds}")
    return Path(path)


def require_file(root: Path, name: str) -> Path:
    """A file that a user named in the folder. Raises TaskError where it is missing, or outside."""
    file = file_inside(root, name)
    if not file.is_file():
        there = (
            sorted(entry.name for entry in file.parent.iterdir()) if file.parent.is_dir() else []
        )
        held = (
            f"{file.parent} holds {', '.join(there[:12]) or 'nothing'}"
            if there
            else f"there is no {file.parent}"
        )
        raise TaskError(f"there is no file {file}; {held}")
    return file


def list_images(place: Path) -> list[Path]:
    """The image files of a folder by their endings, sorted."""
    return sorted(
        file for file in place.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file()
    )


def keep_readable(files: Iterable[Path], skipped: RowErrors) -> list[Path]:
    """Those whose header can be read; the others are noted."""
    kept = []
    for file in files:
        try:
            image_size(file)
        except PictureError as exc:
            skipped.add(file.name, str(exc))
        else:
            kept.append(file)
    return kept


def image_size(file: Path) -> tuple[int, int]:
    """(width, height) as a person sees it. Raises PictureError."""
    return Picture.open(file).size


class MadeAtOnce(ABC):
    """A task whose questions are made all at once, and know what was left out of a user's files:
    `units`."""

    units: ClassVar[str] = "images"

    @property
    @abstractmethod
    def _items(self) -> Sequence[Item]:
        """The questions in their order; their images are read when they are looked at."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    @cached_property
    def _skipped(self) -> RowErrors:
        return RowErrors(units=self.units)


def make_item(
    identifier: str,
    words: str,
    images: Sequence[Path | Pixels],
    choices: tuple[str, ...],
    answer: str,
    marks: tuple[Mark, ...] = (),
    **meta: Any,
) -> Item:
    """An item whose pictures are files as they are, or pixels; `prompt` has the choices in lettered
    lines.

    What is None in `meta` is left out.
    """
    pictures = tuple(
        (
            Picture.open(image)
            if isinstance(image, Path)
            else Picture(image, f"{identifier} image {number}")
        )
        for number, image in enumerate(images, 1)
    )
    lines = [f"({letter}) {choice}" for letter, choice in zip("ABCDEFGH", choices, strict=False)]
    prompt = "\n".join([words, "Select from the following choices.", *lines]) if choices else words
    said = {"prompt": prompt} | {name: value for name, value in meta.items() if value is not None}
    return Item(Sample(identifier, words, pictures, choices, marks, said), answer)


def make_facts(
    note: str, skipped: RowErrors, sources: Iterable[object], scorer: dict[str, Any] | None = None
) -> Facts:
    """Made from a user's files: the revision is the sha256 of what names the sources and gives the
    truth."""
    sha = hashlib.sha256("\n".join(str(source) for source in sources).encode()).hexdigest()
    return Facts(
        "made", "by construction", (), note, f"sha256 {sha}", skipped.sentences, scorer or {}
    )

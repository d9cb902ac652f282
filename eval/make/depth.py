"""Relative depth questions from a user's images and their depth or disparity maps: which point is
nearer?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.eval.make.files import (
    MOST_TRIES,
    MadeAtOnce,
    image_size,
    list_images,
    make_facts,
    make_item,
    require_file,
    require_folder,
)
from looktwice.eval.tasks.base import Facts, TaskError
from looktwice.eval.tasks.photographs import deal_evenly, seeded_rng
from looktwice.eval.tasks.photos.correspondence import MARGIN
from looktwice.eval.tasks.photos.stereo import RATIO, near_and_far
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.sample import Item

WORDS = "Two points, A and B, are marked on the image. Which of them is closer to the camera?"
CHOICES = ("A is closer", "B is closer")
MAPS = (".npy", ".npz", ".png", ".tif", ".tiff", ".pfm", ".pgm")
SMOOTH = (
    1.05  # largest over smallest value in 7x7: a point on an edge belongs to neither side of it
)
APART = 0.08  # of the image's diagonal, between the two points

Map = NDArray[np.float64]


@dataclass(frozen=True)
class RelativeDepth(MadeAtOnce):
    """`n` questions about two points of an image whose depth is known (BLINK, section 3.2, from
    measured depth).

    Equal `seed`s give equal questions.

    `path` holds the folders `images` and `maps` with files of the same stems, or the files that
    `pairs` names, each {image, map}. A map is a .npy, .npz, .pfm or one-channel .png, .tif or .pgm
    file of its image's size; zero, negative and infinite values are unknown. `larger` says what
    larger values mean: "farther" is depth, "nearer" disparity or inverse depth. The nearer point is
    at least `ratio` times nearer, both lie on smooth surfaces, 8 % of the diagonal or more apart,
    and neither height nor distance from the middle tells the answer: the nearer one is the lower in
    half of the questions, and the outer one in half. Images stay as they are. A pair that cannot be
    used is left out and counted. Raises TaskError.
    """

    path: Path
    larger: Literal["farther", "nearer"]
    n: int = 100
    seed: int = 0
    ratio: float = RATIO
    images: str = "images"
    maps: str = "maps"
    pairs: tuple[Mapping[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.n < 1 or self.ratio <= 1:
            raise TaskError(
                f"n is 1 or more and ratio above 1, found n={self.n}, ratio={self.ratio}"
            )

    @property
    def facts(self) -> Facts:
        """What was made, and which pairs could not be used."""
        note = f"{len(self._pairs)} images: questions on one image are not independent"
        return make_facts(
            note, self._skipped, (f"{image.name} {held.name}" for image, held in self._pairs)
        )

    @cached_property
    def _pairs(self) -> list[tuple[Path, Path]]:
        """The usable pairs. Raises TaskError where none is, and at once for a pair that the user
        named."""
        root = require_folder(
            self.path,
            f"the folders {self.images}/ and {self.maps}/, or the files that `pairs` names",
        )
        self._skipped.clear()
        if self.pairs:
            named = [_read_pair(root, pair) for pair in self.pairs]
            for image, held in named:
                _check_sizes(image, held)
            return named
        kept = [pair for pair in self._in_folders(root) if self._can_be_used(*pair)]
        if not kept:
            raise self._skipped.nothing_left(
                root, f"no image of {self.images}/ has a map of its name in {self.maps}/"
            )
        return kept

    def _in_folders(self, root: Path) -> Iterator[tuple[Path, Path]]:
        places = [root / name for name in (self.images, self.maps)]
        if gone := [place for place in places if not place.is_dir()]:
            raise TaskError(
                f"there is no folder {gone[0]}; `path` holds {self.images}/ and {self.maps}/ with"
                " files of the same stems (settings `images` and `maps`), or `pairs` names the"
                " files"
            )
        held = {
            file.stem: file for file in sorted(places[1].iterdir()) if file.suffix.lower() in MAPS
        }
        for image in list_images(places[0]):
            if image.stem in held:
                yield image, held[image.stem]
            else:
                self._skipped.add(
                    image.name, f"there is no map {image.stem}{{{','.join(MAPS)}}} in {self.maps}/"
                )

    def _can_be_used(self, image: Path, held: Path) -> bool:
        try:
            _check_sizes(image, held)
        except (TaskError, PictureError) as exc:
            self._skipped.add(image.name, str(exc))
            return False
        return True

    @cached_property
    def _items(self) -> list[Item]:
        surfaces: dict[Path, tuple[Map, Map]] = {}
        return [self._item(number, surfaces) for number in range(self.n)]

    def _item(self, number: int, surfaces: dict[Path, tuple[Map, Map]]) -> Item:
        """The question about the image whose turn it is, or about the next one that gives one."""
        rng = seeded_rng("depth", self.seed, number)
        turn = deal_evenly(number, range(len(self._pairs)), "image", self.seed)
        rank, letter = (
            deal_evenly(number, cards, "card", self.seed, str(cards)) for cards in (range(4), "AB")
        )
        for image, held in (
            self._pairs[place] for place in chain(range(turn, len(self._pairs)), range(turn))
        ):
            size = image_size(image)
            if image not in surfaces:
                surfaces[image] = _smooth_points(_check_sizes(image, held), self.larger)
            points, near = surfaces[image]
            apart = APART * float(np.hypot(*size))
            for _ in range(MOST_TRIES):
                found = near_and_far(
                    rng, points, near, size, rank % 2 == 1, rank > 1, self.ratio, apart
                )
                if found is not None:
                    return _question(number, image, letter, *found)
        raise TaskError(
            f"{self.path}: question {number + 1} cannot be made: no image has two smooth points of"
            f" which one is {self.ratio:g} times nearer than the other; lower `ratio`, or see that"
            " `larger` is right"
        )


def _question(
    number: int, image: Path, letter: str, points: list[list[float]], ratio: float
) -> Item:
    labels = (letter, "B" if letter == "A" else "A")
    marked = tuple(Point(label, x, y) for label, (x, y) in sorted(zip(labels, points, strict=True)))
    meta: dict[str, Any] = {
        "subtask": "Relative_Depth",
        "source": image.name,
        "ratio": round(ratio, 3),
    }
    return make_item(f"depth_{number:04}", WORDS, (image,), CHOICES, letter, marked, **meta)


def _read_pair(root: Path, pair: Mapping[str, str]) -> tuple[Path, Path]:
    if pair.keys() != {"image", "map"}:
        raise TaskError(
            f"a pair has image and map (files in {root}), found {', '.join(sorted(pair))}"
        )
    return require_file(root, pair["image"]), require_file(root, pair["map"])


def _check_sizes(image: Path, held: Path) -> Map:
    """The map of an image. Raises TaskError where it has another size, PictureError for a faulty
    image."""
    values, (width, height) = read_map(held), image_size(image)
    if values.shape != (height, width):
        found = f"{values.shape[1]}x{values.shape[0]}"
        raise TaskError(
            f"{held} is {found} and its image {image.name} {width}x{height}; a map has its image's"
            " size"
        )
    return values


def read_map(file: Path) -> Map:
    """A depth or disparity map HxW, not-a-number where it is unknown. Raises TaskError."""
    try:
        raw = (
            _load_array(file)
            if file.suffix.lower() in (".npy", ".npz")
            else cv2.imread(str(file), cv2.IMREAD_UNCHANGED)
        )
    except (OSError, ValueError, cv2.error) as exc:
        raise TaskError(f"{file} cannot be read as a map ({exc})") from exc
    if raw is None or raw.dtype.kind not in "uif":
        raise TaskError(f"{file} cannot be read as a map; expected one of {', '.join(MAPS)}")
    if raw.ndim == 3 and all(
        np.array_equal(raw[..., 0], raw[..., i]) for i in range(1, min(raw.shape[2], 3))
    ):
        raw = raw[..., 0]
    if raw.ndim != 2:
        raise TaskError(
            f"{file} has the shape {raw.shape}; a map has one value per pixel, so a coloured one is"
            " none"
        )
    values = raw.astype(np.float64)
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def _load_array(file: Path) -> NDArray[Any]:
    loaded = np.load(file, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        return np.asarray(loaded[loaded.files[0]])


def _smooth_points(values: Map, larger: str) -> tuple[Map, Map]:
    """The pixels (n, 2) that lie on a smooth known surface and not at a rim, and how near each
    is."""
    known = np.isfinite(values)
    kernel = np.ones((7, 7), np.uint8)
    high = cv2.dilate(np.where(known, values, np.inf), kernel)
    low = cv2.erode(np.where(known, values, 0.0), kernel)
    smooth = known & (high <= SMOOTH * low)
    rim = int(MARGIN)
    smooth[:rim], smooth[-rim:], smooth[:, :rim], smooth[:, -rim:] = False, False, False, False
    rows, columns = np.nonzero(smooth)
    found = values[rows, columns]
    return np.stack([columns, rows], 1).astype(np.float64), (
        found if larger == "nearer" else 1 / found
    )

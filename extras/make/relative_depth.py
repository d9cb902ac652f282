"""Questions about which of two points of an image is closer, made from a user's own images and
depth or disparity maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.photographs import make_rng
from looktwice.eval.tasks.photos.correspondence import (
    MIN_BORDER_DISTANCE,
    MIN_DISPARITY_RATIO,
    choose_depth_points,
    make_depth_marks,
)
from looktwice.extras.make.files import (
    FileTask,
    Source,
    get_image_size,
    list_images,
    make_item,
    require_folder,
    require_pair,
)
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.sample import Item

QUESTION_TEXT = (
    "Two points, A and B, are marked on the image. Which of them is closer to the camera?"
)
CHOICES = ("A is closer", "B is closer")
MAP_SUFFIXES = (".npy", ".npz", ".png", ".tif", ".tiff", ".pfm", ".pgm")
MAX_SMOOTH_RATIO = (
    1.05  # largest over smallest value in 7x7: a point on an edge belongs to neither side of it
)
MIN_DISTANCE_SHARE = 0.08  # of the image's diagonal, between the two points

Map = NDArray[np.float64]


@dataclass(frozen=True)
class RelativeDepth(FileTask):
    """`n` relative-depth questions: which of two points of an image is closer (BLINK, section 3.2,
    with measured depth)?

    Equal `seed`s give equal questions.

    `path` holds the folders `images` and `maps` with files of the same stems, or the files that
    `pairs` names, each {image, map}. A map is a .npy, .npz, .pfm or one-channel .png, .tif or .pgm
    file of its image's size; zero, negative and infinite values are unknown. `larger` gives the
    meaning of larger values: "farther" for depth, "nearer" for disparity or inverse depth. The
    nearer point is at least `ratio` times nearer; both points lie on smooth surfaces, at least 8 %
    of the diagonal apart. Neither height nor distance from the centre gives the answer away: the
    nearer point is the lower one in half of the questions, and the outer one in half. Images are
    not changed. A pair that cannot be used is left out and counted. Raises TaskError.
    """

    path: Path
    larger: Literal["farther", "nearer"]
    n: int = 100
    seed: int = 0
    ratio: float = MIN_DISPARITY_RATIO
    images: str = "images"
    maps: str = "maps"
    pairs: tuple[Mapping[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.n < 1 or self.ratio <= 1:
            raise TaskError(
                f"`n` must be at least 1 and `ratio` above 1, got n={self.n}, ratio={self.ratio}"
            )

    @property
    def _source(self) -> Source:
        note = f"{len(self._pairs)} images: questions on one image are not independent"
        return note, (f"{image.name} {file.name}" for image, file in self._pairs)

    @cached_property
    def _pairs(self) -> list[tuple[Path, Path]]:
        """The usable pairs of an image and its map. Raises TaskError if there are none, or if a
        pair that the user named is unusable."""
        root = require_folder(
            self.path,
            f"the folders {self.images}/ and {self.maps}/, or the files that `pairs` names",
        )
        self._skipped.clear()
        named = [require_pair(root, pair, "image", "map") for pair in self.pairs]
        usable = []
        for image, file in named or self._find_pairs_in_folders(root):
            try:
                _read_matching_map(image, file)
            except (TaskError, PictureError) as exc:
                if named:
                    raise
                self._skipped.add(image.name, exc)
            else:
                usable.append((image, file))
        if not usable:
            raise self._skipped.make_empty_error(
                root, f"no image of {self.images}/ has a map with its name in {self.maps}/"
            )
        return usable

    def _find_pairs_in_folders(self, root: Path) -> Iterator[tuple[Path, Path]]:
        for place in (root / self.images, root / self.maps):
            if not place.is_dir():
                raise TaskError(
                    f"there is no folder {place}; `path` must hold {self.images}/ and"
                    f" {self.maps}/ (settings `images` and `maps`) with files of the same stems, or"
                    " `pairs` must name the files"
                )
        files = (file for file in sorted(place.iterdir()) if file.suffix.lower() in MAP_SUFFIXES)
        maps = {file.stem: file for file in files}
        for image in list_images(root / self.images):
            if image.stem in maps:
                yield image, maps[image.stem]
            else:
                self._skipped.add(
                    image.name,
                    f"there is no map {image.stem}{{{','.join(MAP_SUFFIXES)}}} in {self.maps}/",
                )

    @cached_property
    def _items(self) -> list[Item]:
        return [self._item(number) for number in range(self.n)]

    @cached_property
    def _smooth_points(self) -> dict[Path, tuple[Map, Map]]:
        """A cache of each image's smooth points and their nearness."""
        return {}

    def _item(self, number: int) -> Item:
        """Make question `number` about the image whose turn it is, or about the next one that
        yields a question."""
        rng = make_rng("depth", self.seed, number)
        rank, letter = self._deal(number, range(4)), self._deal(number, "AB")
        for image, file in self._take_turns(number, self._pairs, "image"):
            if image not in self._smooth_points:
                self._smooth_points[image] = _find_smooth_points(
                    _read_matching_map(image, file), self.larger
                )
            points, near = self._smooth_points[image]
            size = get_image_size(image)
            apart = MIN_DISTANCE_SHARE * float(np.hypot(*size))
            chosen = choose_depth_points(
                rng, points, near, size, rank % 2 == 1, rank > 1, self.ratio, apart
            )
            if chosen is not None:
                places, ratio = chosen
                return make_item(
                    f"depth_{number:04}",
                    QUESTION_TEXT,
                    (image,),
                    CHOICES,
                    letter,
                    make_depth_marks(places, letter),
                    subtask="Relative_Depth",
                    source=image.name,
                    ratio=round(ratio, 3),
                )
        raise TaskError(
            f"{self.path}: question {number + 1} cannot be made: no image has two smooth points of"
            f" which one is {self.ratio:g} times nearer than the other; lower `ratio`, or check"
            " `larger`"
        )


def _read_matching_map(image: Path, file: Path) -> Map:
    """Read an image's map. Raises TaskError if its size differs from the image's, and PictureError
    for a faulty image."""
    values, (width, height) = read_map(file), get_image_size(image)
    if values.shape != (height, width):
        raise TaskError(
            f"{file} is {values.shape[1]}x{values.shape[0]} but its image {image.name} is"
            f" {width}x{height}; they must have the same size"
        )
    return values


def read_map(file: Path) -> Map:
    """Read a depth or disparity map HxW, NaN where it is unknown. Raises TaskError."""
    try:
        if file.suffix.lower() == ".npy":
            raw = np.load(file, allow_pickle=False)
        elif file.suffix.lower() == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                raw = arrays[arrays.files[0]]
        else:
            raw = cv2.imread(str(file), cv2.IMREAD_UNCHANGED)
    except (OSError, ValueError, cv2.error) as exc:
        raise TaskError(f"{file} cannot be read as a map ({exc})") from exc
    if raw is None or raw.dtype.kind not in "uif":
        raise TaskError(
            f"{file} cannot be read as a map; expected one of {', '.join(MAP_SUFFIXES)}"
        )
    if raw.ndim == 3 and (raw[..., :3] == raw[..., :1]).all():
        raw = raw[..., 0]
    if raw.ndim != 2:
        raise TaskError(
            f"{file} has the shape {raw.shape}; a map needs one value per pixel, so it cannot be a"
            " colour image"
        )
    values = raw.astype(np.float64)
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def _find_smooth_points(values: Map, larger: str) -> tuple[Map, Map]:
    """Return the pixels (n, 2) that lie on smooth surfaces of known depth and away from the border,
    and their nearness (n,), which is larger for closer pixels."""
    measured = np.isfinite(values)
    kernel = np.ones((7, 7), np.uint8)
    high = cv2.dilate(np.where(measured, values, np.inf), kernel)
    low = cv2.erode(np.where(measured, values, 0.0), kernel)
    smooth = measured & (high <= MAX_SMOOTH_RATIO * low)
    rim = int(MIN_BORDER_DISTANCE)
    smooth[:rim], smooth[-rim:], smooth[:, :rim], smooth[:, -rim:] = False, False, False, False
    rows, columns = np.nonzero(smooth)
    near = values[rows, columns] if larger == "nearer" else 1 / values[rows, columns]
    return np.stack([columns, rows], 1).astype(np.float64), near

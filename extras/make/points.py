"""Questions about which points of two images show the same spot, made from a user's own images and
their homographies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from looktwice.eval.tasks.base import RowErrors, TaskError, require_positive
from looktwice.eval.tasks.photographs import make_rng
from looktwice.eval.tasks.photos.correspondence import (
    MIN_POINT_DISTANCE,
    XY,
    are_inside,
    choose_points,
    find_corners,
    make_marks,
)
from looktwice.eval.tasks.photos.task import KINDS
from looktwice.extras.make.files import (
    FileTask,
    Source,
    get_image_size,
    list_images,
    make_item,
    require_file,
    require_folder,
    require_pair,
)
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.marks import Marks
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item

Matrix = NDArray[np.float64]
TEXT_ENDINGS = (".xml", ".yml", ".yaml")


@dataclass(frozen=True, eq=False)
class HomographyScene:
    """Views of one scene, and the 3x3 homography from the first view to each, in pixel coordinates.

    `change` is what differs between the views ("viewpoint" or "illumination"), if the folder's name
    says so.
    """

    name: str
    views: tuple[Path, ...]
    maps: tuple[Matrix, ...]
    change: str | None = None

    def compute_homography(self, start: int, end: int) -> Matrix:
        """Return the homography from the view `start` to the view `end`."""
        return self.maps[end] @ np.linalg.inv(self.maps[start])


def find_scenes(root: Path, skipped: RowErrors) -> Iterator[HomographyScene]:
    """Yield the scenes in the folder `root` and its subfolders that have HPatches' layout (1.ppm,
    2.ppm ... and H_1_2, H_1_3 ...), and record faulty views and folders in `skipped`."""
    for place in [root, *sorted(entry for entry in root.iterdir() if entry.is_dir())]:
        images = list_images(place)
        numbered = {int(file.stem): file for file in images if file.stem.isdecimal()}
        if 1 not in numbered:
            if place != root and images:
                skipped.add(
                    place.name, "it has no image named 1; HPatches' views are 1.ppm, 2.ppm ..."
                )
            continue
        views, maps = [numbered.pop(1)], [np.eye(3)]
        for _, view in sorted(numbered.items()):
            try:
                maps.append(read_homography(require_file(place, f"H_1_{view.stem}")))
                views.append(view)
            except TaskError as exc:
                skipped.add(f"{place.name}/{view.name}", str(exc).partition(";")[0])
        if len(views) < 2:
            skipped.add(place.name, "it has no second view with its homography H_1_2, H_1_3 ...")
            continue
        change = {"v": "viewpoint", "i": "illumination"}.get(place.name.partition("_")[0])
        yield HomographyScene(place.name, tuple(views), tuple(maps), change)


def read_homography(file: Path) -> Matrix:
    """Read nine numbers from a text file, or the first matrix of an OpenCV .xml or .yml file.
    Raises TaskError."""
    matrix: Matrix | None = None
    try:
        if file.suffix.lower() in TEXT_ENDINGS:
            storage = cv2.FileStorage(str(file), cv2.FILE_STORAGE_READ)
            matrix = np.asarray(storage.getFirstTopLevelNode().mat(), np.float64)
            storage.release()
        else:
            words = re.split(r"[\s,;]+", read_file(file).decode().strip())
            matrix = np.array([float(word) for word in words])
    except (OSError, ValueError, TypeError, cv2.error):
        pass  # reported below
    if matrix is None or matrix.size != 9:
        count = "none" if matrix is None else str(matrix.size)
        raise TaskError(f"{file}: a homography is nine numbers, three per line, found {count}")
    matrix = matrix.reshape(3, 3)
    if not np.isfinite(matrix).all() or abs(np.linalg.det(matrix)) < 1e-12:
        raise TaskError(f"{file}: the matrix cannot be inverted, so it is not a homography")
    return matrix


AskedSpots = set[tuple[Path, float, float]]
"""The spots that earlier questions are about, each given by a view and a position (x, y) in it."""
MAX_INTEREST_POINTS = 1500  # interest points of one image


@dataclass(frozen=True)
class Correspondence(FileTask):
    """`n` correspondence questions about two views of a scene: which of the points A to D in the
    second view shows the same spot as the point REF in the first (BLINK, section 3.2)?

    Equal `seed`s give equal questions.

    The method is the paper's for HPatches: two random views of a scene, an interest point, its
    position in the second view by the true homography, and three more interest points. In addition,
    so that position alone gives nothing away: candidates are at least 32 px apart in both views,
    none lies near the image border, and the number of wrong candidates that are nearer to REF's
    position than the right one is balanced over questions. No spot is asked about twice.

    `path` holds folders in HPatches' layout (1.ppm, 2.ppm ... with H_1_2, H_1_3 ...; any image
    format), or the files that `pairs` names, each {first, second, homography}, where the homography
    is nine numbers as text or an OpenCV .xml or .yml file and maps pixels of the first image to
    pixels of the second. Images are not changed. Raises TaskError.
    """

    path: Path
    n: int = 100
    seed: int = 0
    pairs: tuple[Mapping[str, str], ...] = ()

    units = "views and scenes"

    def __post_init__(self) -> None:
        require_positive(self.n)

    @property
    def _source(self) -> Source:
        sources = []
        for scene in self._scenes:
            maps = [matrix.tolist() for matrix in scene.maps]
            sources.append(f"{scene.name} {[view.name for view in scene.views]} {maps}")
        return f"{len(sources)} scenes: questions on one scene are not independent", sources

    @cached_property
    def _scenes(self) -> list[HomographyScene]:
        root = require_folder(self.path, "HPatches' folders, or the files that `pairs` names")
        self._skipped.clear()
        scenes = []
        for pair in self.pairs:
            first, second, file = require_pair(root, pair, "first", "second", "homography")
            maps = (np.eye(3), read_homography(file))
            scenes.append(HomographyScene(f"{first.stem}-{second.stem}", (first, second), maps))
        scenes = scenes or list(find_scenes(root, self._skipped))
        if not scenes:
            wanted = (
                "no folder has views 1.ppm, 2.ppm ... with homographies H_1_2, H_1_3 ...; name"
                " files in `pairs`"
            )
            raise self._skipped.make_empty_error(root, wanted)
        return scenes

    @cached_property
    def _items(self) -> list[Item]:
        asked: AskedSpots = set()
        return [self._item(number, asked) for number in range(self.n)]

    def _item(self, number: int, asked: AskedSpots) -> Item:
        """Make question `number` about the next scene that yields one."""
        rng = make_rng("correspondence", self.seed, number)
        rank, letter = self._deal(number, range(4)), self._deal(number, "ABCD")
        words, choices, *_ = KINDS["correspondence"]
        for scene in self._take_turns(number, self._scenes, "scene"):
            start, end = (int(view) for view in rng.permutation(len(scene.views))[:2])
            marks = _choose_marks(rng, scene, (start, end), letter, rank, asked)
            if marks:
                return make_item(
                    f"correspondence_{number:04}",
                    words,
                    (scene.views[start], scene.views[end]),
                    choices,
                    letter,
                    marks,
                    subtask="Visual_Correspondence",
                    source=scene.name,
                    change=scene.change,
                    views=[start + 1, end + 1],
                )
        raise TaskError(
            f"{self.path}: question {number + 1} of {self.n} cannot be made: no two views share"
            f" another four interest points at least {MIN_POINT_DISTANCE:g} px apart; lower"
            " `n` or add scenes"
        )


def _choose_marks(
    rng: Generator,
    scene: HomographyScene,
    pair: tuple[int, int],
    letter: str,
    rank: int,
    asked: AskedSpots,
) -> Marks:
    """Return REF and the four candidates as marks, or no marks if no such points can be found;
    record the spot of REF in `asked`."""
    first, second = (scene.views[number] for number in pair)
    points, matrix = _find_interest_points(first), scene.compute_homography(*pair)
    if not len(points):
        return ()
    # keep the side of the homography's horizon on which most points lie
    depth = points @ matrix[2, :2] + matrix[2, 2]
    fresh = [(first, x, y) not in asked for x, y in points.tolist()]
    seen = points[(depth * np.sign(np.median(depth)) > 0) & fresh]
    if not len(seen):
        return ()
    landed = cv2.perspectiveTransform(seen[None], matrix)[0]
    sizes = [get_image_size(view) for view in (first, second)]
    inside = are_inside(seen, sizes[0]) & are_inside(landed, sizes[1])
    seen, landed = seen[inside], landed[inside]
    widest = (max(width for width, _ in sizes), max(height for _, height in sizes))
    chosen = choose_points(rng, [seen, landed], widest, rank) if len(seen) > 3 else None
    if chosen is None:
        return ()
    asked.add((first, *seen[chosen[0]].tolist()))
    return make_marks(seen[chosen[0]], landed[chosen], letter)


@cache
def _find_interest_points(file: Path) -> XY:
    return find_corners(Picture.open(file).pixels, MAX_INTEREST_POINTS)

"""Visual correspondence questions from views of one scene and the homographies between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.random import Generator
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
from looktwice.eval.tasks.photos.correspondence import (
    APART,
    MARGIN,
    XY,
    choose_points,
    find_corners,
    make_marks,
)
from looktwice.eval.tasks.row_errors import RowErrors
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.marks import Mark
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item

Matrix = NDArray[np.float64]
TEXT_ENDINGS = (".xml", ".yml", ".yaml")
KEYS = {"first", "second", "homography"}


@dataclass(frozen=True, eq=False)
class HomographyScene:
    """Views of one scene, and for each the 3x3 map from the first view to it, in pixel coordinates.

    `change` is what differs between the views where the folder's name says it: viewpoint or
    illumination.
    """

    name: str
    views: tuple[Path, ...]
    maps: tuple[Matrix, ...]
    change: str | None = None

    def between(self, one: int, other: int) -> Matrix:
        """The map from one view to another."""
        return np.asarray(self.maps[other] @ np.linalg.inv(self.maps[one]))


def read_pair(root: Path, pair: Mapping[str, str]) -> HomographyScene:
    """A pair of images and the file with the map from the first to the second. Raises TaskError."""
    if pair.keys() != KEYS:
        raise TaskError(
            f"a pair has first, second and homography (files in {root}), found"
            f" {', '.join(sorted(pair))}"
        )
    first, second, file = (
        require_file(root, pair[key]) for key in ("first", "second", "homography")
    )
    return HomographyScene(
        f"{first.stem}-{second.stem}", (first, second), (np.eye(3), read_homography(file))
    )


def find_scenes(root: Path, skipped: RowErrors) -> Iterator[HomographyScene]:
    """The folders laid out as HPatches: 1.ppm, 2.ppm ... and H_1_2, H_1_3 ...; faulty views and
    folders are noted."""
    for place in [root, *sorted(entry for entry in root.iterdir() if entry.is_dir())]:
        views = {file.stem: file for file in list_images(place) if file.stem.isdecimal()}
        if "1" in views:
            scene = _read_scene(place, views, skipped)
            if scene is not None:
                yield scene
        elif place != root and list_images(place):
            skipped.add(place.name, "it has no image named 1; HPatches' views are 1.ppm, 2.ppm ...")


def _read_scene(
    place: Path, views: Mapping[str, Path], skipped: RowErrors
) -> HomographyScene | None:
    held, maps = [views["1"]], [np.eye(3)]
    for number in sorted((name for name in views if name != "1"), key=int):
        try:
            maps.append(read_homography(require_file(place, f"H_1_{number}")))
            held.append(views[number])
        except TaskError as exc:
            skipped.add(f"{place.name}/{views[number].name}", str(exc).partition(";")[0])
    if len(held) < 2:
        skipped.add(place.name, "it has no second view with its homography H_1_2, H_1_3 ...")
        return None
    change = {"v": "viewpoint", "i": "illumination"}.get(place.name.partition("_")[0])
    return HomographyScene(place.name, tuple(held), tuple(maps), change)


def read_homography(file: Path) -> Matrix:
    """Nine numbers as text, or the first matrix of an OpenCV .xml or .yml file. Raises
    TaskError."""
    found = _read_opencv(file) if file.suffix.lower() in TEXT_ENDINGS else _read_numbers(file)
    if found is None or found.size != 9:
        count = "none" if found is None else str(found.size)
        raise TaskError(f"{file}: a homography is nine numbers, three a line, found {count}")
    matrix: Matrix = found.reshape(3, 3)
    if not np.isfinite(matrix).all() or abs(np.linalg.det(matrix)) < 1e-12:
        raise TaskError(
            f"{file}: these nine numbers are no homography, because they cannot be inverted"
        )
    return matrix


def _read_numbers(file: Path) -> Matrix | None:
    try:
        words = re.split(r"[\s,;]+", read_file(file).decode().strip())
        return np.array([float(word) for word in words])
    except (OSError, ValueError):
        return None


def _read_opencv(file: Path) -> Matrix | None:
    try:
        storage = cv2.FileStorage(str(file), cv2.FILE_STORAGE_READ)
        matrix = storage.getFirstTopLevelNode().mat()
        storage.release()
    except cv2.error:
        return None
    return None if matrix is None else np.asarray(matrix, np.float64)


WORDS = "Which point on the second image shows the same spot as the point REF on the first image?"
CHOICES = ("Point A", "Point B", "Point C", "Point D")
MOST = 1500  # interest points of one image


@dataclass(frozen=True)
class Correspondence(MadeAtOnce):
    """`n` questions about two views of a scene: REF on the first, A to D on the second (BLINK,
    section 3.2).

    Equal `seed`s give equal questions.

    As the paper does on HPatches: two random views of a scene, an interest point, its place in the
    second view by the true homography, and three more interest points. Beyond it, so that place
    alone tells nothing and every question is fair: candidates are 32 px apart in both views, none
    lies at a rim, and how many of the wrong ones are nearer than the right one to where REF was is
    dealt evenly. No spot is asked about twice.

    `path` holds folders as HPatches has them (1.ppm, 2.ppm ... with H_1_2, H_1_3 ...; any image
    format), or the files that `pairs` names, each {first, second, homography}, where the homography
    is nine numbers as text or an OpenCV .xml or .yml file and maps pixels of the first to the
    second. Images stay as they are. Raises TaskError.
    """

    path: Path
    n: int = 100
    seed: int = 0
    pairs: tuple[Mapping[str, str], ...] = ()

    units: ClassVar[str] = "views and scenes"

    def __post_init__(self) -> None:
        if self.n < 1:
            raise TaskError(f"n is how many questions are made, 1 or more; found {self.n}")

    @property
    def facts(self) -> Facts:
        """What was made, and which views could not be used."""
        scenes = self._scenes
        sources = (
            f"{s.name} {[view.name for view in s.views]} {[m.tolist() for m in s.maps]}"
            for s in scenes
        )
        note = f"{len(scenes)} scenes: questions on one scene are not independent"
        return make_facts(note, self._skipped, sources)

    @cached_property
    def _scenes(self) -> list[HomographyScene]:
        root = require_folder(self.path, "HPatches' folders, or the files that `pairs` names")
        self._skipped.clear()
        scenes = [read_pair(root, pair) for pair in self.pairs] or list(
            find_scenes(root, self._skipped)
        )
        if not scenes:
            wanted = (
                "no folder has views 1.ppm, 2.ppm ... with homographies H_1_2, H_1_3 ...; name"
                " files in `pairs`"
            )
            raise self._skipped.nothing_left(root, wanted)
        return scenes

    @cached_property
    def _items(self) -> list[Item]:
        asked: set[tuple[Path, float, float]] = set()
        return [self._item(number, asked) for number in range(self.n)]

    def _item(self, number: int, asked: set[tuple[Path, float, float]]) -> Item:
        """The question about the scene whose turn it is, or about the next one that gives one."""
        rng = seeded_rng("correspondence", self.seed, number)
        first = deal_evenly(number, range(len(self._scenes)), "scene", self.seed)
        rank, letter = (
            deal_evenly(number, cards, "card", self.seed, str(cards))
            for cards in (range(4), "ABCD")
        )
        order = chain(range(first, len(self._scenes)), range(first))
        for scene in (self._scenes[place] for place in order):
            for _ in range(MOST_TRIES):
                one, other = (int(view) for view in rng.permutation(len(scene.views))[:2])
                found = _choose_marks(rng, scene, (one, other), letter, rank, asked)
                if found is not None:
                    meta = {
                        "source": scene.name,
                        "change": scene.change,
                        "views": [one + 1, other + 1],
                    }
                    return self._question(
                        number, (scene.views[one], scene.views[other]), found, letter, meta
                    )
        raise TaskError(
            f"{self.path}: question {number + 1} of {self.n} cannot be made: no two views share"
            f" four more interest points that are {APART:g} px apart; ask for fewer (n) or add"
            " scenes"
        )

    def _question(
        self,
        number: int,
        views: tuple[Path, Path],
        found: tuple[Mark, ...],
        letter: str,
        meta: dict[str, Any],
    ) -> Item:
        subtask = {"subtask": "Visual_Correspondence"}
        return make_item(
            f"correspondence_{number:04}", WORDS, views, CHOICES, letter, found, **subtask, **meta
        )


def _choose_marks(
    rng: Generator,
    scene: HomographyScene,
    pair: tuple[int, int],
    letter: str,
    rank: int,
    asked: set[tuple[Path, float, float]],
) -> tuple[Mark, ...] | None:
    """REF and the candidates; the true one is noted in `asked`."""
    here, there = (scene.views[number] for number in pair)
    points, matrix = _interest_points(here), scene.between(*pair)
    seen = points[_in_front(points, matrix)]
    seen = seen[[(here, x, y) not in asked for x, y in seen.tolist()]] if len(seen) else seen
    landed = cv2.perspectiveTransform(seen[None], matrix)[0] if len(seen) else seen
    sizes = [image_size(view) for view in (here, there)]
    inside = _inside(seen, sizes[0]) & _inside(landed, sizes[1])
    seen, landed = seen[inside], landed[inside]
    if len(seen) < 4:
        return None
    widest = (max(width for width, _ in sizes), max(height for _, height in sizes))
    chosen = choose_points(rng, [seen, landed], widest, rank)
    if chosen is None:
        return None
    asked.add((here, *seen[chosen[0]].tolist()))
    return make_marks(seen[chosen[0]], landed[chosen], letter)


@cache
def _interest_points(file: Path) -> XY:
    return find_corners(Picture.open(file).pixels, MOST)


def _in_front(points: XY, matrix: XY) -> Any:
    """Which points lie before the horizon of the map, on the same side as the middle of them
    all."""
    depth = points @ matrix[2, :2] + matrix[2, 2]
    return depth * np.sign(np.median(depth)) > 0 if len(points) else np.zeros(0, bool)


def _inside(points: XY, size: tuple[int, int]) -> Any:
    return ((points >= MARGIN) & (points <= np.array(size) - 1 - MARGIN)).all(1)

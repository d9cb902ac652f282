"""Visual correspondence questions from a user's views of one scene and the homographies between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.random import Generator

from looktwice.eval.made_files import MOST_TRIES, Skipped, folder, made_facts, question, size_of
from looktwice.eval.made_homographies import Scene, named_pair, sequences
from looktwice.eval.photo_points import APART, MARGIN, XY, choose, corners, marks
from looktwice.eval.photographs import dealt, dice
from looktwice.eval.task import Facts, TaskError
from looktwice.pipelines.marks import Mark
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item

__all__ = ["Correspondence"]

WORDS = "Which point on the second image shows the same spot as the point REF on the first image?"
CHOICES = ("Point A", "Point B", "Point C", "Point D")
MOST = 1500  # interest points of one image


@dataclass(frozen=True)
class Correspondence:
    """`n` questions about two views of a scene: REF on the first, A to D on the second (BLINK, section 3.2).

    As the paper does on HPatches: two random views of a scene, an interest point, its place in the second view by
    the true homography, and three more interest points. Beyond it, so that place alone tells nothing and every
    question is fair: candidates are 32 px apart in both views, none lies at a rim, and how many of the wrong ones
    are nearer than the right one to where REF was is dealt evenly. No spot is asked about twice.

    `path` holds folders as HPatches has them (1.ppm, 2.ppm ... with H_1_2, H_1_3 ...; any image format), or the
    files that `pairs` names, each {first, second, homography}, where the homography is nine numbers as text or an
    OpenCV .xml or .yml file and maps pixels of the first to the second. Images stay as they are. Raises TaskError.
    """

    path: Path
    n: int = 100
    seed: int = 0
    pairs: tuple[Mapping[str, str], ...] = ()

    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.n < 1:
            raise TaskError(f"n is how many questions are made, 1 or more; found {self.n}")

    @property
    def facts(self) -> Facts:
        """What was made, and which views could not be used."""
        scenes = self._scenes
        sources = (f"{s.name} {[view.name for view in s.views]} {[m.tolist() for m in s.maps]}" for s in scenes)
        note = f"{len(scenes)} scenes: questions on one scene are not independent"
        return made_facts(note, self._skipped, sources)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        """The questions in their order; the images are read when they are looked at."""
        return iter(self._items)

    @cached_property
    def _skipped(self) -> Skipped:
        return Skipped("views and scenes")

    @cached_property
    def _scenes(self) -> list[Scene]:
        root = folder(self.path, "HPatches' folders, or the files that `pairs` names")
        self._skipped.found.clear()
        scenes = [named_pair(root, pair) for pair in self.pairs] or list(sequences(root, self._skipped))
        if not scenes:
            wanted = "no folder has views 1.ppm, 2.ppm ... with homographies H_1_2, H_1_3 ...; name files in `pairs`"
            raise self._skipped.nothing(root, wanted)
        return scenes

    @cached_property
    def _items(self) -> list[Item]:
        asked: set[tuple[Path, float, float]] = set()
        return [self._item(number, asked) for number in range(self.n)]

    def _item(self, number: int, asked: set[tuple[Path, float, float]]) -> Item:
        """The question about the scene whose turn it is, or about the next one that gives one."""
        rng = dice("correspondence", self.seed, number)
        first = dealt(number, range(len(self._scenes)), "scene", self.seed)
        rank, letter = (dealt(number, cards, "card", self.seed, str(cards)) for cards in (range(4), "ABCD"))
        order = chain(range(first, len(self._scenes)), range(first))
        for scene in (self._scenes[place] for place in order):
            for _ in range(MOST_TRIES):
                one, other = (int(view) for view in rng.permutation(len(scene.views))[:2])
                found = _marked(rng, scene, (one, other), letter, rank, asked)
                if found is not None:
                    meta = {"source": scene.name, "change": scene.change, "views": [one + 1, other + 1]}
                    return self._question(number, (scene.views[one], scene.views[other]), found, letter, meta)
        raise TaskError(
            f"{self.path}: question {number + 1} of {self.n} cannot be made: no two views share four more interest "
            f"points that are {APART:g} px apart; ask for fewer (n) or add scenes"
        )

    def _question(
        self, number: int, views: tuple[Path, Path], found: tuple[Mark, ...], letter: str, meta: dict[str, Any]
    ) -> Item:
        subtask = {"subtask": "Visual_Correspondence"}
        return question(f"correspondence_{number:04}", WORDS, views, CHOICES, letter, found, **subtask, **meta)


def _marked(
    rng: Generator,
    scene: Scene,
    pair: tuple[int, int],
    letter: str,
    rank: int,
    asked: set[tuple[Path, float, float]],
) -> tuple[Mark, ...] | None:
    """REF and the candidates; the true one is noted in `asked`."""
    here, there = (scene.views[number] for number in pair)
    points, matrix = _interest(here), scene.between(*pair)
    seen = points[_in_front(points, matrix)]
    seen = seen[[(here, x, y) not in asked for x, y in seen.tolist()]] if len(seen) else seen
    landed = cv2.perspectiveTransform(seen[None], matrix)[0] if len(seen) else seen
    sizes = [size_of(view) for view in (here, there)]
    inside = _inside(seen, sizes[0]) & _inside(landed, sizes[1])
    seen, landed = seen[inside], landed[inside]
    if len(seen) < 4:
        return None
    widest = (max(width for width, _ in sizes), max(height for _, height in sizes))
    chosen = choose(rng, [seen, landed], widest, rank)
    if chosen is None:
        return None
    asked.add((here, *seen[chosen[0]].tolist()))
    return marks(seen[chosen[0]], landed[chosen], letter)


@cache
def _interest(file: Path) -> XY:
    return corners(Picture.open(file).pixels, MOST)


def _in_front(points: XY, matrix: XY) -> Any:
    """Which points lie before the horizon of the map, on the same side as the middle of them all."""
    depth = points @ matrix[2, :2] + matrix[2, 2]
    return depth * np.sign(np.median(depth)) > 0 if len(points) else np.zeros(0, bool)


def _inside(points: XY, size: tuple[int, int]) -> Any:
    return ((points >= MARGIN) & (points <= np.array(size) - 1 - MARGIN)).all(1)

"""Scenes seen several times, with the homographies between the views: HPatches' folders, or pairs that a user names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.eval.made_files import Skipped, images_in, within
from looktwice.eval.task import TaskError

__all__ = ["Scene", "named_pair", "read_homography", "sequences"]

Matrix = NDArray[np.float64]
TEXT_ENDINGS = (".xml", ".yml", ".yaml")
KEYS = {"first", "second", "homography"}


@dataclass(frozen=True, eq=False)
class Scene:
    """Views of one scene, and for each the 3x3 map from the first view to it, in pixel coordinates.

    `change` is what differs between the views where the folder's name says it: viewpoint or illumination.
    """

    name: str
    views: tuple[Path, ...]
    maps: tuple[Matrix, ...]
    change: str | None = None

    def between(self, one: int, other: int) -> Matrix:
        """The map from one view to another."""
        return np.asarray(self.maps[other] @ np.linalg.inv(self.maps[one]))


def named_pair(root: Path, pair: Mapping[str, str]) -> Scene:
    """A pair of images and the file with the map from the first to the second. Raises TaskError."""
    if pair.keys() != KEYS:
        raise TaskError(f"a pair has first, second and homography (files in {root}), found {', '.join(sorted(pair))}")
    first, second, file = (within(root, pair[key]) for key in ("first", "second", "homography"))
    return Scene(f"{first.stem}-{second.stem}", (first, second), (np.eye(3), read_homography(file)))


def sequences(root: Path, skipped: Skipped) -> Iterator[Scene]:
    """The folders laid out as HPatches: 1.ppm, 2.ppm ... and H_1_2, H_1_3 ...; faulty views and folders are noted."""
    for place in [root, *sorted(entry for entry in root.iterdir() if entry.is_dir())]:
        views = {file.stem: file for file in images_in(place) if file.stem.isdecimal()}
        if "1" in views:
            scene = _sequence(place, views, skipped)
            if scene is not None:
                yield scene
        elif place != root and images_in(place):
            skipped.add(place.name, "it has no image named 1; HPatches' views are 1.ppm, 2.ppm ...")


def _sequence(place: Path, views: Mapping[str, Path], skipped: Skipped) -> Scene | None:
    held, maps = [views["1"]], [np.eye(3)]
    for number in sorted((name for name in views if name != "1"), key=int):
        try:
            maps.append(read_homography(within(place, f"H_1_{number}")))
            held.append(views[number])
        except TaskError as exc:
            skipped.add(f"{place.name}/{views[number].name}", str(exc).partition(";")[0])
    if len(held) < 2:
        skipped.add(place.name, "it has no second view with its homography H_1_2, H_1_3 ...")
        return None
    change = {"v": "viewpoint", "i": "illumination"}.get(place.name.partition("_")[0])
    return Scene(place.name, tuple(held), tuple(maps), change)


def read_homography(file: Path) -> Matrix:
    """Nine numbers as text, or the first matrix of an OpenCV .xml or .yml file. Raises TaskError."""
    found = _opencv(file) if file.suffix.lower() in TEXT_ENDINGS else _numbers(file)
    if found is None or found.size != 9:
        count = "none" if found is None else str(found.size)
        raise TaskError(f"{file}: a homography is nine numbers, three a line, found {count}")
    matrix: Matrix = found.reshape(3, 3)
    if not np.isfinite(matrix).all() or abs(np.linalg.det(matrix)) < 1e-12:
        raise TaskError(f"{file}: these nine numbers are no homography, because they cannot be inverted")
    return matrix


def _numbers(file: Path) -> Matrix | None:
    try:
        words = re.split(r"[\s,;]+", file.read_text(encoding="utf-8").strip())
        return np.array([float(word) for word in words])
    except (OSError, ValueError):
        return None


def _opencv(file: Path) -> Matrix | None:
    try:
        storage = cv2.FileStorage(str(file), cv2.FILE_STORAGE_READ)
        matrix = storage.getFirstTopLevelNode().mat()
        storage.release()
    except cv2.error:
        return None
    return None if matrix is None else np.asarray(matrix, np.float64)

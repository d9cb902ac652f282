"""Well textured points of two images, chosen so that their places alone do not tell which belong
together."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from looktwice.pipelines.marks import Mark, Point
from looktwice.pipelines.picture import Pixels

XY = NDArray[np.float64]
"""Pixel-centre coordinates, (n, 2)."""

LETTERS = "ABCD"
SHARE = 0.75  # side of either view, as a share of the photograph's
SHORTEST = 0.6  # of the shift between two windows, in units of the room that the frame leaves
# pixels between any two candidates in the second image, and between their places in the first
APART = 32.0
MARGIN = 16.0  # pixels between a mark and the rim of its image


def two_windows(rng: Generator, frame: tuple[int, int]) -> tuple[XY, XY, tuple[int, int]]:
    """The upper left corners of two windows on a frame (width, height), and their common size.

    Their shift is uniform over what the frame allows, short ones left out: otherwise most true
    points would lie about where the reference was.
    """
    size = (round(SHARE * frame[0]), round(SHARE * frame[1]))
    room = np.array([frame[0] - size[0], frame[1] - size[1]])
    shift = np.zeros(2, int)
    while np.hypot(*(shift / room)) < SHORTEST:
        shift = rng.integers(-room, room, endpoint=True)
    first = rng.integers(np.maximum(0, -shift), np.minimum(room, room - shift), endpoint=True)
    return first.astype(np.float64), (first + shift).astype(np.float64), size


def find_corners(pixels: Pixels, most: int = 400) -> XY:
    """Well textured pixels (n, 2), 8 px apart or more (Shi and Tomasi, CVPR 1994)."""
    gray = cv2.GaussianBlur(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), (0, 0), 1)
    found = cv2.goodFeaturesToTrack(gray, most, 0.01, 8, blockSize=7)
    return np.zeros((0, 2)) if found is None else found.reshape(-1, 2).astype(np.float64)


def choose_points(
    rng: Generator, places: list[XY], size: tuple[int, int], rank: int
) -> list[int] | None:
    """Numbers of the true point and three others; `places` are theirs in the first view and in
    second views.

    They are inside all views and apart in all of them, and in every second view `rank` of the three
    are nearer than the true point to the place that this has in the first view, the others farther.
    """
    inside = np.logical_and.reduce([_inside(place, size) for place in places])
    numbers = rng.permutation(np.flatnonzero(inside))
    for true in numbers[:40]:
        away = np.array([np.hypot(*(place - places[0][true]).T) for place in places[1:]])
        picked = [int(true)]
        nearer, farther = (
            numbers[(lead[:, numbers] > 0).all(0)]
            for lead in (away[:, [true]] - away, away - away[:, [true]])
        )
        for others, count in ((nearer, rank), (farther, 3 - rank)):
            picked += _keep_apart(picked, others.tolist(), places, count)
        if len(picked) == 4:
            return picked
    return None


def _keep_apart(picked: list[int], others: list[int], places: list[XY], count: int) -> list[int]:
    """The first `count` others that are far enough, in all views, from those picked and from each
    other."""
    found: list[int] = []
    for other in others:
        if len(found) == count:
            break
        near = (np.hypot(*(place[[*picked, *found]] - place[other]).T).min() for place in places)
        if all(distance >= APART for distance in near):
            found.append(other)
    return found


def _inside(place: XY, size: tuple[int, int]) -> NDArray[np.bool_]:
    return np.asarray(((place >= MARGIN) & (place <= np.array(size) - 1 - MARGIN)).all(1))


def make_marks(reference: XY, candidates: XY, letter: str) -> tuple[Mark, ...]:
    """REF on image 0, and on image 1 the candidates, of which the first is the true one and gets
    `letter`."""
    labels = [letter, *(other for other in LETTERS if other != letter)]
    named = sorted(zip(labels, candidates.round(2).tolist(), strict=True))
    return (
        Point("REF", *reference.round(2).tolist()),
        *(Point(label, x, y, 1) for label, (x, y) in named),
    )

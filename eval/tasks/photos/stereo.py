"""Questions from the Middlebury stereo pair, whose true disparity is known: correspondence and
relative depth."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.photographs import (
    Light,
    QuestionImages,
    cut_window,
    random_corner,
    stereo_pair,
)
from looktwice.eval.tasks.photos.correspondence import (
    APART,
    MARGIN,
    XY,
    choose_points,
    find_corners,
    make_marks,
    two_windows,
)
from looktwice.pipelines.marks import Mark, Point

RATIO = 1.25  # the nearer point's disparity is at least this many times the other's
DEPTH_WINDOW = (560, 400)  # width and height of what a depth question shows
DEPTH_APART = 48.0  # pixels between the two points of a depth question
TILT = 0.25  # the two points differ in height by at least this share of their distance


def draw_stereo(rng: Generator, letter: str, rank: int, strength: float) -> QuestionImages:
    """Windows of the left and the right view of a stereo pair, at different places; the truth is
    the disparity.

    Points are corners whose disparity is known and smooth around them, and that nothing hides in
    the right view. `strength` changes the light of the second view alone. For the rest, see
    `draw_correspondence`.
    """
    left_view, right_view, disparity = stereo_pair()
    points = _stereo_points()
    columns, rows = points.astype(int).T
    landed = points - np.stack([disparity[rows, columns], np.zeros(len(points))], 1)
    for _ in range(100):
        first, second, size = two_windows(rng, (left_view.shape[1], left_view.shape[0]))
        there = landed - second
        chosen = choose_points(rng, [points - first, there], size, rank)
        if chosen is not None:
            break
    else:
        raise TaskError(
            f"no two windows on the stereo pair share four points that are {APART:g} px apart"
        )
    light = Light.draw(rng, strength)
    images = (cut_window(left_view, first, size), light(cut_window(right_view, second, size), rng))
    marks = make_marks(points[chosen[0]] - first, there[chosen], letter)
    return QuestionImages(images, marks, light.settings)


def draw_depth(
    rng: Generator, letter: str, lower: bool, outer: bool, strength: float, pair: bool
) -> QuestionImages:
    """Two points A and B on a window of the left view, and with `pair` the same window of the right
    view.

    The disparity of the nearer point, which gets `letter`, is at least 1.25 times the other's;
    depth is inversely related to disparity. The points are 48 px apart or more. The nearer one is
    the lower of the two if and only if `lower`, and the one farther from the middle if and only if
    `outer`, so that place alone tells nothing. `strength` changes the light, of both views in one
    direction, with noise of their own. Raises TaskError.
    """
    left_view, right_view, disparity = stereo_pair()
    wide, high = DEPTH_WINDOW
    for _ in range(100):
        left, top = random_corner(rng, (left_view.shape[1], left_view.shape[0]), DEPTH_WINDOW)
        part = (slice(top, top + high), slice(left, left + wide))
        rows, columns = np.nonzero(known_surface()[part])
        value = disparity[part][rows, columns]
        # both windows show the point
        seen = (columns - value >= MARGIN) & (columns < wide - MARGIN)
        seen &= (rows >= MARGIN) & (rows < high - MARGIN)
        points = np.stack([columns, rows], 1)[seen].astype(np.float64)
        chosen = near_and_far(rng, points, value[seen], DEPTH_WINDOW, lower, outer)
        if chosen is not None:
            break
    else:
        raise TaskError("no window of the stereo pair has two such points")
    places, ratio = chosen
    views = [left_view, right_view] if pair else [left_view]
    light = Light.draw(rng, strength)
    images = tuple(light(cut_window(view, (left, top), DEPTH_WINDOW), rng) for view in views)
    meta = {"ratio": round(ratio, 3), "window": [left, top], **light.settings}
    return QuestionImages(images, depth_marks(places, letter), meta)


def depth_marks(places: list[list[float]], letter: str) -> tuple[Mark, ...]:
    """The nearer point, which gets `letter`, and the other, as A and B."""
    labels = (letter, "B" if letter == "A" else "A")
    return tuple(Point(label, x, y) for label, (x, y) in sorted(zip(labels, places, strict=True)))


def near_and_far(
    rng: Generator,
    points: XY,
    value: NDArray[np.float64],
    size: tuple[int, int],
    lower: bool,
    outer: bool,
    ratio: float = RATIO,
    apart: float = DEPTH_APART,
) -> tuple[list[list[float]], float] | None:
    """Two of the points (n, 2), the nearer first, and the ratio of their nearness; None where no
    two fit.

    `value` (n,) is the nearness of each, as disparity is: at least `ratio` apart, and the points
    `apart` pixels. `lower` and `outer` are as in `draw_depth`, on an image of this `size` (width,
    height).
    """
    if len(points) < 2:
        return None
    first, second = rng.integers(len(points), size=(2, 4000))
    near, far = np.where(value[first] >= value[second], (first, second), (second, first))
    times, away = value[near] / value[far], points[near] - points[far]
    distance = np.hypot(*away.T)
    spread = np.hypot(*(points - np.array(size) / 2).T)
    fits = (times >= ratio) & (distance >= apart)
    fits &= away[:, 1] * (1 if lower else -1) >= TILT * distance
    fits &= (spread[near] > spread[far]) == outer
    if not fits.any():
        return None
    pick = int(np.flatnonzero(fits)[0])
    return [points[near[pick]].tolist(), points[far[pick]].tolist()], float(times[pick])


@cache
def known_surface() -> NDArray[np.bool_]:
    """Where on the left view the disparity is known and smooth (1 px in 7x7), and the right view
    shows the spot: nothing nearer lands within 1 px of it."""
    disparity = stereo_pair()[2]
    height, width = disparity.shape
    measured = np.isfinite(disparity)
    filled = np.where(measured, disparity, 1e3).astype(np.float32)
    kernel = np.ones((7, 7), np.uint8)
    smooth = cv2.dilate(filled, kernel) - cv2.erode(filled, kernel) <= 1
    rows, columns = np.nonzero(measured)
    landed = np.rint(columns - disparity[rows, columns]).astype(int)
    inside = (landed >= 0) & (landed < width)
    rows, columns, landed = rows[inside], columns[inside], landed[inside]
    depth = disparity[rows, columns]
    nearest = np.zeros((height, width + 2))
    for shift in (0, 1, 2):
        np.maximum.at(nearest, (rows, landed + shift), depth)
    visible = np.zeros(disparity.shape, bool)
    visible[rows, columns] = nearest[rows, landed + 1] <= depth + 1
    return np.asarray(smooth & visible)


@cache
def _stereo_points() -> XY:
    points = find_corners(stereo_pair()[0], most=1500)
    columns, rows = points.astype(int).T
    return np.asarray(points[known_surface()[rows, columns]])

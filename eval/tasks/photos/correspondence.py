"""Questions about two views of one photograph or a stereo pair: which points correspond, and which
of two points is nearer. Points are chosen so that their positions alone reveal nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.outlines import rotate
from looktwice.eval.tasks.photographs import (
    Light,
    QuestionImages,
    cut_window,
    draw_corner,
    load_photograph,
    load_stereo_pair,
)
from looktwice.pipelines.geometry import Size
from looktwice.pipelines.marks import Marks, Point
from looktwice.pipelines.picture import Pixels

XY = NDArray[np.float64]
"""Pixel-centre coordinates, (n, 2)."""

LETTERS = "ABCD"
VIEW_SHARE = 0.75  # side of each view, as a share of the photograph's
MIN_SHIFT_SHARE = 0.6  # shift between two windows, as a share of the room that the frame leaves
# pixels between any two candidates in the second image, and between their places in the first
MIN_POINT_DISTANCE = 32.0
MIN_BORDER_DISTANCE = 16.0  # pixels between a mark and the rim of its image


def draw_windows(rng: Generator, frame: Size) -> tuple[XY, XY, Size]:
    """Return the upper left corners of two windows on a frame (width, height), and their common
    size.

    The shift between them is uniform over what the frame allows, without short shifts: otherwise
    most true points would lie close to the reference's position.
    """
    size = (round(VIEW_SHARE * frame[0]), round(VIEW_SHARE * frame[1]))
    room = np.array([frame[0] - size[0], frame[1] - size[1]])
    shift = np.zeros(2, int)
    while np.hypot(*(shift / room)) < MIN_SHIFT_SHARE:
        shift = rng.integers(-room, room, endpoint=True)
    first = rng.integers(np.maximum(0, -shift), np.minimum(room, room - shift), endpoint=True)
    return first.astype(np.float64), (first + shift).astype(np.float64), size


def find_corners(pixels: Pixels, most: int = 400) -> XY:
    """Return the positions of well-textured pixels (n, 2), at least 8 px apart (Shi and Tomasi,
    CVPR 1994)."""
    gray = cv2.GaussianBlur(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), (0, 0), 1)
    corners = cv2.goodFeaturesToTrack(gray, most, 0.01, 8, blockSize=7)
    return np.zeros((0, 2)) if corners is None else corners.reshape(-1, 2).astype(np.float64)


def are_inside(place: XY, size: Size) -> NDArray[np.bool_]:
    """Return a mask of the points (n, 2) that lie inside an image of this `size` (width, height),
    away from its rim."""
    return np.asarray(
        ((place >= MIN_BORDER_DISTANCE) & (place <= np.array(size) - 1 - MIN_BORDER_DISTANCE)).all(
            1
        )
    )


def choose_points(rng: Generator, places: list[XY], size: Size, rank: int) -> list[int] | None:
    """Return the indices of the true point and three others; `places` holds the positions of all
    points in the first view and in the second views.

    The points are inside all views and far enough apart in all of them. In every second view,
    `rank` of the three others are nearer than the true point to the true point's position in the
    first view.
    """
    inside = np.logical_and.reduce([are_inside(place, size) for place in places])
    numbers = rng.permutation(np.flatnonzero(inside))
    for true in numbers[:40]:
        away = np.array([np.hypot(*(place - places[0][true]).T) for place in places[1:]])
        lead = (away[:, [true]] - away)[:, numbers]
        picked = [int(true)]
        for others, count in ((lead > 0, rank), (lead < 0, 3 - rank)):
            wanted = len(picked) + count
            for number in numbers[others.all(0)].tolist():
                if len(picked) == wanted:
                    break
                gaps = [np.hypot(*(place[picked] - place[number]).T).min() for place in places]
                if min(gaps) >= MIN_POINT_DISTANCE:
                    picked.append(number)
        if len(picked) == 4:
            return picked
    return None


def make_marks(reference: XY, candidates: XY, letter: str) -> Marks:
    """Return the mark REF on image 0 and the candidates on image 1; the first candidate is the true
    one and gets `letter`."""
    labels = [letter, *LETTERS.replace(letter, "")]
    named = sorted(zip(labels, candidates.round(2).tolist(), strict=True))
    marks = (Point(label, x, y, 1) for label, (x, y) in named)
    return Point("REF", *reference.round(2).tolist()), *marks


MAX_WINDOW_SIZE = (640, 480)  # width and height of the visible part of a photograph
CHECKED_STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Strengths at which the points of a question must be visible and far enough apart."""


@dataclass(frozen=True, eq=False)
class Viewpoint:
    """The viewpoint of the second view of a photograph: its directions are random, its size depends
    on the strength in 0..1.

    At strength 0 the view is another upright window of the same scale on the photograph. At
    strength 1 it is rotated by `turn` degrees, its corners are moved by up to a tenth of its sides
    (perspective), and it is zoomed in by a factor of at least 1.25, as far as needed to stay within
    the photograph; in between, angle and shifts grow in proportion. `frame` and `size` are the
    (width, height) of the photograph and the view, `center` is the view's centre at strength 0 in
    edge coordinates, `turn` is clockwise if positive, and `skew` (4, 2) holds the shifts of the
    corners in -1..1.
    """

    frame: Size
    size: Size
    center: tuple[float, float]
    turn: float
    skew: XY

    @classmethod
    def draw(
        cls, rng: Generator, frame: Size, corner: XY, size: Size, turn: float = 40.0
    ) -> Viewpoint:
        """Draw a viewpoint whose view at strength 0 is the window of this `size` with this upper
        left `corner`; it is rotated in either direction."""
        left, top = corner.tolist()
        center = (left + size[0] / 2, top + size[1] / 2)
        return cls(frame, size, center, turn * int(rng.choice([-1, 1])), rng.uniform(-1, 1, (4, 2)))

    def homography(self, strength: float) -> XY:
        """Return the 3x3 map from the photograph to the view, in pixel-centre coordinates."""
        width, height = self.size
        view = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
        corners = self._compute_outline(strength).astype(np.float32)
        return np.asarray(
            cv2.getPerspectiveTransform(corners - np.float32(0.5), view - np.float32(0.5)),
            np.float64,
        )

    def _compute_outline(self, strength: float) -> XY:
        """Return the view's corners on the photograph (4, 2), clockwise from the upper left, in
        edge coordinates."""
        unit = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2 + 0.1 * strength * self.skew
        corners = rotate(unit * self.size, strength * self.turn)
        extent = corners.max(0) - corners.min(0)
        corners *= min(1 - 0.2 * strength, *(np.array(self.frame) / extent))
        center = np.clip(self.center, -corners.min(0), self.frame - corners.max(0))
        return np.asarray(corners + center)


def draw_correspondence(
    rng: Generator, scene: str, letter: str, rank: int, strength: float, turn: float = 40.0
) -> QuestionImages:
    """Draw two views of one photograph, with REF on the first and A to D on the second, all visible
    in both.

    The first view is an unchanged window on the photograph; the second is seen from a `Viewpoint`
    and under a changed `Light`, both of this strength; `turn` is the rotation of the viewpoint at
    strength 1, in degrees. The points are well-textured corners in the photograph and are the same
    for every strength; the true one is exact up to rounding to 0.01 px. Candidates are at least 32
    px apart in both images, and `rank` of the three wrong ones are nearer to REF's position than
    the true point. Raises TaskError.
    """
    photo = load_photograph(scene)
    tall, wide = photo.shape[:2]
    frame = (min(MAX_WINDOW_SIZE[0], wide), min(MAX_WINDOW_SIZE[1], tall))
    for _ in range(100):
        base = cut_window(photo, draw_corner(rng, (wide, tall), frame), frame)
        first, second, size = draw_windows(rng, frame)
        view = Viewpoint.draw(rng, frame, second, size, turn)
        points = find_corners(base)
        places = [
            points - first,
            *(_project(view.homography(step), points) for step in CHECKED_STRENGTHS),
        ]
        chosen = choose_points(rng, places, size, rank)
        if chosen is not None:
            break
    else:
        raise TaskError(
            f"no two views of the photograph {scene!r} share four points that are"
            f" {MIN_POINT_DISTANCE:g} px"
            " apart"
        )
    matrix = view.homography(strength)
    seen = cv2.warpPerspective(
        base, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    light = Light.draw(rng, strength)
    images = (cut_window(base, first, size), light(np.asarray(seen, np.uint8), rng))
    candidates = _project(matrix, points[chosen])
    marks = make_marks(points[chosen[0]] - first, candidates, letter)
    meta = {"turn": round(strength * view.turn, 2), **light.settings}
    return QuestionImages(images, marks, meta)


def _project(matrix: XY, points: XY) -> XY:
    moved = np.column_stack([points, np.ones(len(points))]) @ matrix.T
    return moved[:, :2] / moved[:, 2:]


MIN_DISPARITY_RATIO = 1.25  # the nearer point's disparity is at least this many times the other's
DEPTH_WINDOW_SIZE = (560, 400)  # width and height of the images of a depth question
MIN_DEPTH_DISTANCE = 48.0  # pixels between the two points of a depth question
MIN_SLOPE = 0.25  # the two points differ in height by at least this share of their distance


def draw_stereo(rng: Generator, letter: str, rank: int, strength: float) -> QuestionImages:
    """Draw windows at different positions on the left and the right view of a stereo pair; the true
    correspondence follows from the disparity.

    Points are corners with a known and smooth disparity that are not occluded in the right view.
    `strength` changes only the light of the second view. All else is as in `draw_correspondence`.
    """
    left_view, right_view, disparity = load_stereo_pair()
    points = _find_stereo_points()
    columns, rows = points.astype(int).T
    landed = points - np.stack([disparity[rows, columns], np.zeros(len(points))], 1)
    for _ in range(100):
        first, second, size = draw_windows(rng, (left_view.shape[1], left_view.shape[0]))
        there = landed - second
        chosen = choose_points(rng, [points - first, there], size, rank)
        if chosen is not None:
            break
    else:
        raise TaskError(
            "no two windows on the stereo pair share four points that are"
            f" {MIN_POINT_DISTANCE:g} px apart"
        )
    light = Light.draw(rng, strength)
    images = (cut_window(left_view, first, size), light(cut_window(right_view, second, size), rng))
    marks = make_marks(points[chosen[0]] - first, there[chosen], letter)
    return QuestionImages(images, marks, light.settings)


def draw_depth(
    rng: Generator, letter: str, lower: bool, outer: bool, strength: float, pair: bool
) -> QuestionImages:
    """Draw two points A and B on a window of the left view and, with `pair`, the same window of the
    right view.

    The disparity of the nearer point, which gets `letter`, is at least 1.25 times the other's;
    depth is inversely related to disparity. The points are at least 48 px apart. The nearer point
    is the lower of the two if and only if `lower` is true, and is the one farther from the centre
    if and only if `outer` is true, so that position alone reveals nothing. `strength` changes the
    light of both views in one direction, with separate noise. Raises TaskError.
    """
    left_view, right_view, disparity = load_stereo_pair()
    wide, high = DEPTH_WINDOW_SIZE
    for _ in range(100):
        left, top = draw_corner(rng, (left_view.shape[1], left_view.shape[0]), DEPTH_WINDOW_SIZE)
        part = (slice(top, top + high), slice(left, left + wide))
        rows, columns = np.nonzero(find_known_surface()[part])
        value = disparity[part][rows, columns]
        # both windows show the point
        seen = (columns - value >= MIN_BORDER_DISTANCE) & (columns < wide - MIN_BORDER_DISTANCE)
        seen &= (rows >= MIN_BORDER_DISTANCE) & (rows < high - MIN_BORDER_DISTANCE)
        points = np.stack([columns, rows], 1)[seen].astype(np.float64)
        chosen = choose_depth_points(rng, points, value[seen], DEPTH_WINDOW_SIZE, lower, outer)
        if chosen is not None:
            break
    else:
        raise TaskError("no window of the stereo pair has two points for this question")
    places, ratio = chosen
    views = [left_view, right_view] if pair else [left_view]
    light = Light.draw(rng, strength)
    images = tuple(light(cut_window(view, (left, top), DEPTH_WINDOW_SIZE), rng) for view in views)
    meta = {"ratio": round(ratio, 3), "window": [left, top], **light.settings}
    return QuestionImages(images, make_depth_marks(places, letter), meta)


def make_depth_marks(places: list[list[float]], letter: str) -> Marks:
    """Return the nearer point, which gets `letter`, and the other one, as marks A and B."""
    labels = (letter, "B" if letter == "A" else "A")
    return tuple(Point(label, x, y) for label, (x, y) in sorted(zip(labels, places, strict=True)))


def choose_depth_points(
    rng: Generator,
    points: XY,
    value: NDArray[np.float64],
    size: Size,
    lower: bool,
    outer: bool,
    ratio: float = MIN_DISPARITY_RATIO,
    apart: float = MIN_DEPTH_DISTANCE,
) -> tuple[list[list[float]], float] | None:
    """Return two of the points (n, 2), the nearer one first, and the ratio of their nearness; None
    if no two points fit.

    `value` (n,) is the nearness of each point, such as its disparity. The nearness of the two
    differs by at least the factor `ratio`, and they are at least `apart` pixels apart. `lower` and
    `outer` are as in `draw_depth`, on an image of this `size` (width, height).
    """
    if len(points) < 2:
        return None
    first, second = rng.integers(len(points), size=(2, 4000))
    near, far = np.where(value[first] >= value[second], (first, second), (second, first))
    times, away = value[near] / value[far], points[near] - points[far]
    distance = np.hypot(*away.T)
    spread = np.hypot(*(points - np.array(size) / 2).T)
    fits = (times >= ratio) & (distance >= apart)
    fits &= away[:, 1] * (1 if lower else -1) >= MIN_SLOPE * distance
    fits &= (spread[near] > spread[far]) == outer
    if not fits.any():
        return None
    pick = int(np.flatnonzero(fits)[0])
    return [points[near[pick]].tolist(), points[far[pick]].tolist()], float(times[pick])


@cache
def find_known_surface() -> NDArray[np.bool_]:
    """Return a mask of the pixels of the left view whose disparity is known and smooth (1 px in
    7x7), and which are visible in the right view (nothing nearer lands within 1 px of them)."""
    disparity = load_stereo_pair()[2]
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
    return smooth & visible


@cache
def _find_stereo_points() -> XY:
    points = find_corners(load_stereo_pair()[0], most=1500)
    columns, rows = points.astype(int).T
    return np.asarray(points[find_known_surface()[rows, columns]])

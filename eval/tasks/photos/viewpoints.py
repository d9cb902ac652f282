"""Visual correspondence questions from one photograph: which point of the second view is the marked
one?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.random import Generator

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.photographs import (
    Light,
    QuestionImages,
    cut_window,
    photograph,
    random_corner,
)
from looktwice.eval.tasks.photos.points import (
    APART,
    XY,
    choose_points,
    find_corners,
    make_marks,
    two_windows,
)
from looktwice.pipelines.picture import Pixels

LARGEST = (640, 480)  # width and height of what is seen of a photograph
STEPS = (
    0.0,
    0.25,
    0.5,
    0.75,
    1.0,
)  # strengths at which the points of a question must be visible and apart


@dataclass(frozen=True, eq=False)
class Viewpoint:
    """How the second view looks at a photograph: directions are drawn, sizes are set by the
    strength in 0..1.

    At strength 0 it is another upright window, of the same scale, on the photograph. At 1 it is
    turned by `turn` degrees, its corners are moved by up to a tenth of its sides (perspective), and
    it is zoomed in by 1.25 or more, as far as is needed to stay within the photograph; between,
    angle and shifts grow in proportion. `frame` and `size` are the (width, height) of photograph
    and view, `center` the view's centre at strength 0 in edge coordinates, `turn` is clockwise or
    below 0, and `skew` (4, 2) are the shifts of the corners in -1..1.
    """

    frame: tuple[int, int]
    size: tuple[int, int]
    center: tuple[float, float]
    turn: float
    skew: XY

    @classmethod
    def draw(
        cls,
        rng: Generator,
        frame: tuple[int, int],
        corner: XY,
        size: tuple[int, int],
        turn: float = 40.0,
    ) -> Viewpoint:
        """One that at strength 0 is the window of this `size` with this upper left `corner`; turned
        either way."""
        left, top = corner.tolist()
        center = (left + size[0] / 2, top + size[1] / 2)
        return cls(frame, size, center, turn * int(rng.choice([-1, 1])), rng.uniform(-1, 1, (4, 2)))

    def homography(self, strength: float) -> XY:
        """The 3x3 map from the photograph to the view, in pixel-centre coordinates."""
        width, height = self.size
        view = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
        corners = self._outline(strength).astype(np.float32)
        return np.asarray(
            cv2.getPerspectiveTransform(corners - np.float32(0.5), view - np.float32(0.5)),
            np.float64,
        )

    def _outline(self, strength: float) -> XY:
        """The view's corners on the photograph (4, 2), clockwise from the upper left, in edge
        coordinates."""
        angle = math.radians(strength * self.turn)
        turned = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        unit = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2 + 0.1 * strength * self.skew
        corners = unit * self.size @ turned.T
        extent = corners.max(0) - corners.min(0)
        corners *= min(1 - 0.2 * strength, *(np.array(self.frame) / extent))
        center = np.clip(self.center, -corners.min(0), self.frame - corners.max(0))
        return np.asarray(corners + center)


def draw_correspondence(
    rng: Generator, scene: str, letter: str, rank: int, strength: float, turn: float = 40.0
) -> QuestionImages:
    """Two views of one photograph; REF on the first, A to D on the second, all visible in both.

    The first view is a window on the photograph, untouched; the second is seen from a `Viewpoint`
    and under another `Light`, both of this strength; `turn` is that of the viewpoint at strength 1,
    in degrees. The points are corners of the photograph and the same for every strength; the true
    one is exact up to the rounding to 0.01 px. Candidates are at least 32 px apart in both images,
    and `rank` of the three others lie nearer to where REF was than the true point. Raises
    TaskError.
    """
    for _ in range(100):
        base = _random_window(rng, photograph(scene))
        frame = (base.shape[1], base.shape[0])
        first, second, size = two_windows(rng, frame)
        view = Viewpoint.draw(rng, frame, second, size, turn)
        points = find_corners(base)
        places = [points - first, *(_project(view.homography(step), points) for step in STEPS)]
        chosen = choose_points(rng, places, size, rank)
        if chosen is not None:
            break
    else:
        raise TaskError(
            f"no two views of the photograph {scene!r} share four points that are {APART:g} px"
            " apart"
        )
    matrix = view.homography(strength)
    seen = cv2.warpPerspective(
        base, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    light = Light.draw(rng, strength)
    images = (cut_window(base, first, size), light(np.asarray(seen, np.uint8), rng))
    meta = {"turn": round(strength * view.turn, 2), **light.settings}
    return QuestionImages(
        images,
        make_marks(points[chosen[0]] - first, _project(matrix, points[chosen]), letter),
        meta,
    )


def _random_window(rng: Generator, photo: Pixels) -> Pixels:
    size = (min(LARGEST[0], photo.shape[1]), min(LARGEST[1], photo.shape[0]))
    return cut_window(photo, random_corner(rng, (photo.shape[1], photo.shape[0]), size), size)


def _project(matrix: XY, points: XY) -> XY:
    moved = np.column_stack([points, np.ones(len(points))]) @ matrix.T
    return np.asarray(moved[:, :2] / moved[:, 2:])

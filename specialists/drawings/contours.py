"""Contours of flat drawings: ink, connected shapes, and which shape a contour is."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.protocols import NoEvidence

Floats = NDArray[np.float64]
Contour = NDArray[np.int32]
# times as fine as the pixels is the raster in which contours are followed, by their shares of ink
FINER = 3
HOLE = 6.0  # square pixels; smaller ones are gaps that a thin line has where it is paler
SHAPES = {
    "circle": "circle",
    "triangle": "triangle",
    "square": "rectangle",
    "rectangle": "rectangle",
    "pentagon": "pentagon",
    "hexagon": "hexagon",
    "octagon": "octagon",
    "star": "star",
    "cross": "cross",
}
"""Words for shapes -> what `classify_shape` says; squares are rectangles here."""
CORNERS = {
    3: "triangle",
    4: "rectangle",
    5: "pentagon",
    6: "hexagon",
    7: "octagon",
    8: "octagon",
    9: "octagon",
}


@dataclass(frozen=True, eq=False)
class DrawnShape:
    """Connected ink: its outer contour (n, 2) in pixel centres of the image, and its number of
    holes."""

    contour: Floats
    holes: int

    @property
    def area(self) -> float:
        """Square pixels within the outer contour."""
        return float(cv2.contourArea(self.contour.astype(np.float32)))

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of the contour."""
        (left, top), (right, bottom) = self.contour.min(0), self.contour.max(0)
        return float(left), float(top), float(right), float(bottom)


def background_color(pixels: Pixels) -> Floats:
    """The colour (3,) that most pixels have. Raises NoEvidence where all have it."""
    packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colors, counts = np.unique(packed, return_counts=True)
    if len(colors) == 1:
        raise NoEvidence("the image is of one colour, and nothing is drawn on it")
    most = int(colors[counts.argmax()])
    return np.array([most >> 16, most >> 8 & 255, most & 255], np.float64)


def color_distance(pixels: Pixels) -> Floats:
    """How far each pixel's colour is from the ground's, (height, width), 1 for the farthest. Raises
    NoEvidence."""
    difference = np.linalg.norm(pixels - background_color(pixels), axis=-1)
    scaled: Floats = difference / difference.max()
    return scaled


def find_shapes(ink: Floats, level: float) -> list[DrawnShape]:
    """Connected shapes where the ink (height, width), 0..1, is above `level`, the largest first."""
    height, width = ink.shape
    fine = cv2.resize(
        np.pad(ink, 1), ((width + 2) * FINER, (height + 2) * FINER), interpolation=cv2.INTER_LINEAR
    )
    contours, tree = cv2.findContours(
        (fine > level).astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE
    )
    shapes = []
    for number, contour in enumerate(contours):
        if tree[0][number][3] < 0:
            within = [
                cv2.contourArea(shape)
                for shape, place in zip(contours, tree[0], strict=True)
                if place[3] == number
            ]
            holes = sum(1 for area in within if area >= HOLE * FINER**2)
            shapes.append(DrawnShape((contour[:, 0] + 0.5) / FINER - 1.5, holes))
    return sorted(shapes, key=lambda shape: -shape.area)


def classify_shape(contour: Floats) -> str | None:
    """The shape of a contour (n, 2), one of the values of `SHAPES`; None where it is none of them.

    A circle fills the smallest circle around it, an octagon nine tenths of it. What is convex is
    told by its corners (Douglas and Peucker, to 3 % of its length); a star has five or six notches,
    a cross four.
    """
    points = np.round(np.asarray(contour) * 64).astype(np.int32)
    area, (_, radius) = cv2.contourArea(points), cv2.minEnclosingCircle(points)
    hull = cv2.convexHull(points)
    if area <= 0 or radius <= 0:
        return None
    if area / cv2.contourArea(hull) < 0.925:
        return {4: "cross", 5: "star", 6: "star"}.get(_notches(points, area))
    if area / (np.pi * radius**2) > 0.93:
        return "circle"
    corners = cv2.approxPolyDP(hull, 0.03 * cv2.arcLength(hull, True), True)
    return CORNERS.get(len(corners))


def parse_shape(text: str) -> str:
    """The one shape that a question names, one of the values of `SHAPES`. Raises NoEvidence."""
    named = {shape for word, shape in SHAPES.items() if word in text.lower()}
    if len(named) != 1:
        raise NoEvidence(
            f"the question names {len(named) or 'no'} shapes that are known, one should be:"
            f" {text!r}"
        )
    return named.pop()


def _notches(points: Contour, area: float) -> int:
    """The dents that are deeper than a tenth of the shape's size."""
    around = cv2.approxPolyDP(points, 0.01 * cv2.arcLength(points, True), True)
    hull = cv2.convexHull(around, returnPoints=False)
    hull[::-1].sort(axis=0)  # OpenCV asks for falling numbers
    defects = cv2.convexityDefects(around, hull)
    depths = [] if defects is None else np.reshape(defects, (-1, 4))[:, 3] / 256
    return sum(1 for depth in depths if depth > 0.1 * np.sqrt(area))

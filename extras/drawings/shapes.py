"""Contours of flat drawings: ink, connected shapes, and the classification of a contour as a
shape."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import ImageColor

from looktwice.pipelines.marks import Box
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.specialists.answers.choices import AnswerRule, Decision, get_only_pixels
from looktwice.specialists.results import Floats
from looktwice.specialists.rules import NoEvidence

# contours are traced in a raster this many times finer than the pixels, which hold shares of ink
RASTER_FACTOR = 3
MIN_HOLE_AREA = 6.0  # square pixels; smaller holes are gaps in pale parts of a thin line
CORNER_SHAPES = {3: "triangle", 4: "rectangle", 5: "pentagon", 6: "hexagon"}
CORNER_SHAPES |= dict.fromkeys((7, 8, 9), "octagon")
NOTCH_SHAPES = {4: "cross", 5: "star", 6: "star"}
SHAPES = {name: name for name in (*CORNER_SHAPES.values(), *NOTCH_SHAPES.values(), "circle")}
SHAPES["square"] = "rectangle"
"""A map from names of shapes to the classes that `classify_shape` returns; squares count as
rectangles."""


@dataclass(frozen=True, eq=False)
class DrawnShape:
    """Connected ink: its outer contour (n, 2) in pixel centres of the image, and its number of
    holes."""

    contour: Floats
    hole_count: int

    @property
    def area(self) -> float:
        """The area within the outer contour, in square pixels."""
        return float(cv2.contourArea(self.contour.astype(np.float32)))

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the contour."""
        (left, top), (right, bottom) = self.contour.min(0), self.contour.max(0)
        return float(left), float(top), float(right), float(bottom)


def find_background_color(pixels: Pixels) -> Floats:
    """Return the most common colour (3,). Raises NoEvidence if all pixels have it."""
    packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colors, counts = np.unique(packed, return_counts=True)
    if len(colors) == 1:
        raise NoEvidence("the image has a single colour, and nothing is drawn on it")
    most = int(colors[counts.argmax()])
    return np.array([most >> 16, most >> 8 & 255, most & 255], np.float64)


def measure_color_distance(pixels: Pixels) -> Floats:
    """Return the distance of each pixel's colour from the background, (height, width), scaled so
    that the maximum is 1. Raises NoEvidence."""
    difference = np.linalg.norm(pixels - find_background_color(pixels), axis=-1)
    scaled: Floats = difference / difference.max()
    return scaled


def find_shapes(ink: Floats, level: float) -> list[DrawnShape]:
    """Return connected shapes where the ink (height, width), 0..1, is above `level`, the largest
    first."""
    height, width = ink.shape
    fine = cv2.resize(
        np.pad(ink, 1),
        ((width + 2) * RASTER_FACTOR, (height + 2) * RASTER_FACTOR),
        interpolation=cv2.INTER_LINEAR,
    )
    contours, tree = cv2.findContours(
        (fine > level).astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE
    )
    outer, holes = list[int](), Counter[int]()
    for number, contour in enumerate(contours):
        around = int(tree[0][number][3])
        if around < 0:
            outer.append(number)
        else:
            holes[around] += cv2.contourArea(contour) >= MIN_HOLE_AREA * RASTER_FACTOR**2
    shapes = [DrawnShape((contours[n][:, 0] + 0.5) / RASTER_FACTOR - 1.5, holes[n]) for n in outer]
    return sorted(shapes, key=lambda shape: -shape.area)


def classify_shape(contour: Floats) -> str | None:
    """Return the shape of a contour (n, 2), one of the values of `SHAPES`; None if it matches none
    of them.

    A circle fills the smallest circle around it, an octagon nine tenths of it. Other convex shapes
    are classified by their number of corners (Douglas and Peucker, to 3 % of the contour's length);
    a star has five or six notches, a cross four.
    """
    points = np.round(np.asarray(contour) * 64).astype(np.int32)
    area, (_, radius) = cv2.contourArea(points), cv2.minEnclosingCircle(points)
    hull = cv2.convexHull(points)
    if area <= 0 or radius <= 0:
        return None
    if area / cv2.contourArea(hull) < 0.925:
        around = cv2.approxPolyDP(points, 0.01 * cv2.arcLength(points, True), True)
        corners = cv2.convexHull(around, returnPoints=False)
        corners[::-1].sort(axis=0)  # OpenCV needs decreasing indices
        defects = cv2.convexityDefects(around, corners)
        # count the notches deeper than a tenth of the shape's size
        depths = np.reshape([] if defects is None else defects, (-1, 4))[:, 3] / 256
        return NOTCH_SHAPES.get(int((depths > 0.1 * np.sqrt(area)).sum()))
    if area / (np.pi * radius**2) > 0.93:
        return "circle"
    return CORNER_SHAPES.get(len(cv2.approxPolyDP(hull, 0.03 * cv2.arcLength(hull, True), True)))


def parse_shape(text: str) -> str:
    """Return the one shape that a question names, one of the values of `SHAPES`. Raises
    NoEvidence."""
    named = {shape for word, shape in SHAPES.items() if word in text.lower()}
    if len(named) != 1:
        raise NoEvidence(
            f"the question names {len(named) or 'no'} known shapes; exactly one is needed: {text!r}"
        )
    return named.pop()


COLOR_NAMES = "red green blue orange purple black gray yellow white"
COLORS = {name: ImageColor.getrgb(name) for name in COLOR_NAMES.split()}
COLORS["green"] = (0, 255, 0)  # brighter than CSS green
# minimum share of ink of a line's pixel, and of a filled shape's
LINE_LEVEL, FILL_LEVEL = (0.12, 0.3)
MIN_SHAPE_AREA = 25.0  # square pixels; anything smaller is a speck
ONE_IMAGE_ERROR = "shapes are counted in one image"


@dataclass(frozen=True)
class OutlineCounter(AnswerRule):
    """Counts the outlines of the shape that the question names, including rings within rings (the
    first task of Do You See Me).

    Each closed outline is one shape. It abstains if lines cross, since contours do not show which
    lines belong together.
    """

    def decide(self, sample: Sample) -> Decision:
        """Return the number, and the share of outlines that are a known shape. Raises
        NoEvidence."""
        asked = parse_shape(sample.question)
        return _count_shapes(_find_outlines(sample), asked)


@dataclass(frozen=True)
class ColoredShapeCounter(AnswerRule):
    """Counts the filled shapes of the kind and colour that the question names (the joint task of Do
    You See Me).

    A shape's colour is the one of `COLORS` nearest to its inner half. Shapes must not touch.
    """

    def decide(self, sample: Sample) -> Decision:
        """Return the number, and the share of shapes of that colour whose kind is known. Raises
        NoEvidence."""
        asked, color = parse_shape(sample.question), _parse_color(sample.question)
        return _count_shapes(_find_filled_shapes(sample, color), asked)


@dataclass(frozen=True)
class MarkAskedShapes(WithoutModel):
    """Draws a box around each shape that the question asks for, and removes all other marks of the
    sample.

    It is made for Do You See Me's own pictures, which lack the positions of their shapes. It finds
    outlines, including rings within rings, or filled shapes if the question names a colour. Each
    box is labelled with the shape and a number, "star 1" or "red star 1". The boxes follow the
    shapes as drawn, so they give the answer away: use them for measurements and oracles. If the
    shapes cannot be separated, there are no marks, and a note gives the reason.
    """

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the marked sample; the views stay as they are."""
        sample = state.sample
        try:
            asked, color = parse_shape(sample.question), ""
            if COLORS.keys() & _split_words(sample.question):
                color = _parse_color(sample.question)
            shapes = _find_filled_shapes(sample, color) if color else _find_outlines(sample)
        except NoEvidence as exc:
            return state.replace(sample=replace(sample, marks=())).with_notes(
                f"no shape is marked: {exc}"
            )
        marks, kind = list[Box](), f"{color} {asked}".strip()
        for shape in shapes:
            if classify_shape(shape.contour) == asked:
                edges = (np.array(shape.box) + 0.5).tolist()
                marks.append(Box(f"{kind} {len(marks) + 1}", *edges))
        return state.replace(sample=replace(sample, marks=tuple(marks)))


def _find_outlines(sample: Sample) -> list[DrawnShape]:
    """Return every closed outline. Raises NoEvidence if lines cross."""
    outlines = _find_ink_shapes(get_only_pixels(sample, ONE_IMAGE_ERROR), LINE_LEVEL)
    if crossing := sum(1 for shape in outlines if shape.hole_count > 1):
        raise NoEvidence(f"lines cross at {crossing} places, where contours cannot be separated")
    return outlines


def _find_filled_shapes(sample: Sample, color: str) -> list[DrawnShape]:
    """Return the filled shapes of a colour. Raises NoEvidence."""
    pixels = get_only_pixels(sample, ONE_IMAGE_ERROR)
    shapes = _find_ink_shapes(pixels, FILL_LEVEL)
    return [shape for shape in shapes if find_inner_color(pixels, shape) == color]


def _find_ink_shapes(pixels: Pixels, level: float) -> list[DrawnShape]:
    shapes = find_shapes(measure_color_distance(pixels), level)
    return [shape for shape in shapes if shape.area >= MIN_SHAPE_AREA]


def _count_shapes(shapes: list[DrawnShape], wanted: str) -> Decision:
    """Count the shapes of the wanted kind; also return the share of shapes whose kind is known."""
    kinds = [classify_shape(shape.contour) for shape in shapes]
    named = len(kinds) - kinds.count(None)
    return str(kinds.count(wanted)), named / len(kinds) if kinds else 0.0


def _parse_color(question: str) -> str:
    colors = COLORS.keys() & _split_words(question)
    if len(colors) != 1:
        raise NoEvidence(
            f"the question names {len(colors) or 'no'} known colours; exactly one is needed:"
            f" {question!r}"
        )
    return colors.pop()


def _split_words(question: str) -> set[str]:
    return set(re.findall(r"[a-z]+", question.lower().replace("grey", "gray")))


def find_inner_color(pixels: Pixels, shape: DrawnShape) -> str:
    """Return the colour of the inner half of a shape: the pixels at least half as deep inside it as
    the deepest."""
    within: NDArray[np.uint8] = np.zeros(pixels.shape[:2], np.uint8)
    cv2.fillPoly(within, [np.round(shape.contour).astype(np.int32)], 1)
    depth = cv2.distanceTransform(within, cv2.DIST_L2, 3)
    inner: Floats = np.median(pixels[depth >= max(depth.max() / 2, 1e-6)], axis=0)
    return min(COLORS, key=lambda name: float(np.linalg.norm(inner - COLORS[name])))

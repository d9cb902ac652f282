"""Which shapes of a kind, or of a kind and colour, are drawn in a picture, and how many, told from
their contours."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import Box
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.specialists.answers.choices import AnswerRule
from looktwice.specialists.drawings.contours import (
    DrawnShape,
    classify_shape,
    color_distance,
    find_shapes,
    parse_shape,
)
from looktwice.specialists.protocols import NoEvidence

COLORS: dict[str, tuple[int, int, int]] = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "orange": (255, 165, 0),
    "purple": (128, 0, 128),
    "black": (0, 0, 0),
    "gray": (128, 128, 128),
    "yellow": (255, 255, 0),
    "white": (255, 255, 255),
}
# shares of ink from which on a pixel belongs to a line, to a filled shape
LINE_LEVEL, FILL_LEVEL = (0.12, 0.3)
SMALLEST = 25.0  # square pixels; what is smaller is a speck


@dataclass(frozen=True)
class OutlineCounter(AnswerRule):
    """Counts the outlines of the shape that the question names, rings within rings too (Do You See
    Me's first).

    Each outline that closes by itself is one shape. Where lines cross, no contour tells which of
    them belong together, so it abstains.
    """

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The number, and the share of outlines that are a known shape. Raises NoEvidence."""
        asked = parse_shape(sample.question)
        return _count([classify_shape(shape.contour) for shape in _outlines(sample)], asked)


@dataclass(frozen=True)
class ColoredShapeCounter(AnswerRule):
    """Counts the filled shapes of the kind and colour that the question names (Do You See Me's
    joint task).

    A shape's colour is that of `COLORS` nearest to its inner half. Shapes must not touch.
    """

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The number, and the share of shapes of that colour whose kind is known. Raises
        NoEvidence."""
        asked, color = parse_shape(sample.question), _parse_color(sample.question)
        return _count([classify_shape(shape.contour) for shape in _filled(sample, color)], asked)


@dataclass(frozen=True)
class MarkAskedShapes(WithoutModel):
    """The sample with a box around each drawn shape that the question asks for, and no other marks.

    For Do You See Me's own pictures, which come without the places of their shapes: outlines, rings
    within rings too, or filled shapes where the question names a colour, each labelled with what it
    is and a number, "star 1" or "red star 1". A box is one for the shape as it is drawn, so it
    gives the answer away: for measurements and oracles. Where the shapes cannot be told apart there
    are no marks, and a note says why.
    """

    def __call__(self, state: State, model: Model) -> State:
        """The state with another sample; the views are left as they are."""
        sample = state.sample
        try:
            asked = parse_shape(sample.question)
            color = (
                _parse_color(sample.question) if set(_words(sample.question)) & set(COLORS) else ""
            )
            shapes = _filled(sample, color) if color else _outlines(sample)
        except NoEvidence as exc:
            return state.replace(sample=replace(sample, marks=())).with_notes(
                f"no shape is marked: {exc}"
            )
        kind = f"{color} {asked}".strip()
        boxes = [
            np.array(shape.box) + 0.5 for shape in shapes if classify_shape(shape.contour) == asked
        ]
        marks = tuple(Box(f"{kind} {n}", *edges.tolist()) for n, edges in enumerate(boxes, 1))
        return state.replace(sample=replace(sample, marks=marks))


def _outlines(sample: Sample) -> list[DrawnShape]:
    """Every outline that closes by itself. Raises NoEvidence where lines cross."""
    outlines = [
        shape
        for shape in find_shapes(color_distance(_picture(sample)), LINE_LEVEL)
        if shape.area >= SMALLEST
    ]
    if crossing := sum(1 for shape in outlines if shape.holes > 1):
        raise NoEvidence(
            f"lines cross at {crossing} places, and contours cannot be told apart there"
        )
    return outlines


def _filled(sample: Sample, color: str) -> list[DrawnShape]:
    """The filled shapes of a colour. Raises NoEvidence."""
    pixels = _picture(sample)
    shapes = [
        shape for shape in find_shapes(color_distance(pixels), FILL_LEVEL) if shape.area >= SMALLEST
    ]
    return [shape for shape in shapes if _color(pixels, shape) == color]


def _picture(sample: Sample) -> Pixels:
    if len(sample.images) != 1:
        raise NoEvidence(f"shapes are counted in one image, found {len(sample.images)}")
    return sample.images[0].pixels


def _count(shapes: list[str | None], asked: str) -> tuple[str, float]:
    named = sum(1 for shape in shapes if shape)
    return str(shapes.count(asked)), named / len(shapes) if shapes else 0.0


def _parse_color(question: str) -> str:
    colors = set(_words(question)) & set(COLORS)
    if len(colors) != 1:
        raise NoEvidence(
            f"the question names {len(colors) or 'no'} colours that are known, one should be:"
            f" {question!r}"
        )
    return colors.pop()


def _words(question: str) -> list[str]:
    return re.findall(r"[a-z]+", question.lower().replace("grey", "gray"))


def _color(pixels: Pixels, shape: DrawnShape) -> str:
    """The colour of the inner half of a shape: the pixels at least half as deep in it as the
    deepest."""
    within: NDArray[np.uint8] = np.zeros(pixels.shape[:2], np.uint8)
    cv2.fillPoly(within, [np.round(shape.contour).astype(np.int32)], 1)
    depth = cv2.distanceTransform(within, cv2.DIST_L2, 3)
    inner: NDArray[np.float64] = np.median(pixels[depth >= max(depth.max() / 2, 1e-6)], axis=0)
    distances = [float(np.linalg.norm(inner - color)) for color in COLORS.values()]
    return list(COLORS)[int(np.argmin(distances))]

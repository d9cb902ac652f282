"""Grids of small shapes: read cell by cell, and questions about a row or a column answered from
them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule
from looktwice.specialists.protocols import NoEvidence

Grid = Mapping[tuple[int, int], tuple[str, str]]
"""(row, column), from 1 -> (fill, shape)."""
Ink = NDArray[np.bool_]
# grey levels; lines that cover half a pixel are none, so that a frame ends with its last whole line
DARK = 64
STEPS = {
    "left": (0, -1),
    "right": (0, 1),
    "up": (-1, 0),
    "top": (-1, 0),
    "down": (1, 0),
    "bottom": (1, 0),
}
ASKED = re.compile(
    r"in grid (?P<grid>\d+).*?from the (?P<fill>\w+) (?P<shape>\w+) at position \(row"
    r" (?P<row>\d+), "
    r"column (?P<column>\d+)\), how many (?P<what>.+?) are there"
    r" (?P<way>left|right|up|down|top|bottom) of it",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class ShapeGridReader(AnswerRule):
    """Answers how many things lie on one side of a cell in its row or column (Do You See Me's
    visual spatial task).

    Rows, columns and grids count from 1, grids from left to right. Each grid is a frame with black
    or white squares, circles and triangles in rows and columns. Abstains where the question is
    another, or the cell is not as it says.
    """

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The number and the confidence, 1: it reads every cell or abstains. Raises NoEvidence."""
        asked = ASKED.search(sample.question)
        if asked is None or len(sample.images) != 1:
            raise NoEvidence(f"no cell of a grid is asked about in {sample.question!r}")
        grids = read_grids(sample.images[0].pixels)
        number, place = int(asked["grid"]), (int(asked["row"]), int(asked["column"]))
        seen = grids[number - 1].get(place) if 0 < number <= len(grids) else None
        expected = asked["fill"].lower(), asked["shape"].lower()
        if seen != expected:
            raise NoEvidence(
                f"at {place} of grid {number} is {' '.join(seen or ('nothing',))}, not"
                f" {' '.join(expected)}"
            )
        words = asked["what"].lower().split()
        step, number_of_steps = STEPS[asked["way"].lower()], 0
        while (place := (place[0] + step[0], place[1] + step[1])) in grids[number - 1]:
            number_of_steps += _fits_words(grids[number - 1][place], words)
        return str(number_of_steps), 1.0


def read_grids(pixels: Pixels) -> list[Grid]:
    """The grids of a picture from left to right. Raises NoEvidence where there is none."""
    ink = pixels.mean(-1) < DARK
    count, _, stats, _ = cv2.connectedComponentsWithStats(_fill_contours(ink), connectivity=8)
    frames = sorted(
        (stats[n] for n in range(1, count) if min(stats[n][2:4]) >= 20), key=lambda stat: stat[0]
    )
    grids = [_read_cells(ink[y : y + high, x : x + wide]) for x, y, wide, high, _ in frames]
    if not grids or not all(grids):
        raise NoEvidence("no grid of shapes within a frame is seen")
    return grids


def _fill_contours(ink: Ink) -> NDArray[np.uint8]:
    """Everything within outer contours, so that a frame is one thing with what it holds."""
    contours, _ = cv2.findContours(ink.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    whole = np.zeros(ink.shape, np.uint8)
    cv2.drawContours(whole, contours, -1, 1, cv2.FILLED)
    return whole


def _read_cells(ink: Ink) -> Grid:
    """The cells of one framed grid."""
    inner = _strip_frame(ink)
    rows, columns = _runs(inner.sum(1) > 1), _runs(inner.sum(0) > 1)
    cells = {
        (row, column): _classify_cell(inner[top:bottom, left:right])
        for row, (top, bottom) in enumerate(rows, 1)
        for column, (left, right) in enumerate(columns, 1)
    }
    return {place: drawing for place, drawing in cells.items() if drawing}


def _strip_frame(ink: Ink) -> Ink:
    """The ink without the lines that run along its whole rim."""
    top, bottom = _count_frame_lines(ink)
    left, right = _count_frame_lines(ink.T)
    return ink[top : len(ink) - bottom, left : ink.shape[1] - right]


def _count_frame_lines(ink: Ink) -> tuple[int, int]:
    """How many rows at the top and at the bottom are ink all along."""
    full = ink.mean(1) > 0.98
    if full.all():
        return len(ink), 0
    return int(np.argmin(full)), int(np.argmin(full[::-1]))


def _runs(filled: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where something is, from and up to, without the slivers that a frame leaves."""
    steps = np.flatnonzero(np.diff(np.concatenate(([0], filled.astype(np.int8), [0]))))
    return [
        (int(start), int(end))
        for start, end in zip(steps[::2], steps[1::2], strict=True)
        if end - start > 5
    ]


def _classify_cell(ink: Ink) -> tuple[str, str] | None:
    """Fill and shape of what is in a cell: all three are convex, and fill 1, pi / 4 and 1 / 2 of
    their boxes.

    What is looked at is the black or white around the middle: the frame may hide the line around a
    white thing, but not where its inside ends.
    """
    black = bool(ink[ink.shape[0] // 2, ink.shape[1] // 2])
    alike = (ink == black).astype(np.uint8)
    _, labels = cv2.connectedComponents(alike, connectivity=8 if black else 4)
    points = np.argwhere(labels == labels[ink.shape[0] // 2, ink.shape[1] // 2])
    if len(points) < 10:
        return None
    high, wide = np.ptp(points, axis=0)
    share = cv2.contourArea(cv2.convexHull(points.astype(np.int32))) / max(1, high * wide)
    shapes = {"square": 1.0, "circle": np.pi / 4, "triangle": 0.5}
    return (
        "black" if black else "white",
        min(shapes, key=lambda shape: abs(shapes[shape] - share)),
    )


def _fits_words(drawing: tuple[str, str], words: list[str]) -> bool:
    """Whether a thing is of "black objects", "circles" or "black circles"."""
    fill, shape = drawing
    fills = words[0] in ("black", "white")
    return (not fills or words[0] == fill) and words[-1].removesuffix("s") in (shape, "object")

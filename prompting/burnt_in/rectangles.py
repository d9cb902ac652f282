"""Finds upright rectangles drawn as thin lines of one colour: the boxes that are burnt into localisation questions."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.prompting.burnt_in.rings import Map

CLOSE = 0.25  # closeness to the colour from which a pixel may be a line's
CLOSER = 0.15  # by how much a line is closer to the colour than its ground, which may be of a like colour
SHORTEST = 16  # pixels of a side, at least
THICKEST = 8  # pixels of a line, at most
WHOLE = 0.8  # share of each side that must show its line; labels and other boxes may cover the rest
BEYOND = 8  # pixels behind a corner that the lines must not run on
LINES = 16  # lines of either direction that are followed up


@dataclass(frozen=True)
class FoundRectangle:
    """A rectangle whose edges, in edge coordinates, run along the middle of lines `stroke` pixels thick."""

    x0: float
    y0: float
    x1: float
    y1: float
    stroke: float
    color: str
    score: float


@dataclass(frozen=True, eq=False)
class Line:
    """A thin straight line across the picture: its middle, its thickness, and where along it colour is seen."""

    middle: float
    thickness: float
    seen: NDArray[np.bool_]


def find_rectangles(near: Map, color: str, most: int = 1) -> list[FoundRectangle]:
    """The `most` most complete rectangles in a map of closeness HxW; none may share a side with a better one."""
    ground = cv2.morphologyEx(near, cv2.MORPH_OPEN, np.ones((THICKEST + 1, THICKEST + 1), np.uint8))
    thin = ((near >= CLOSE) & (near - ground >= CLOSER)).astype(np.uint8)
    level, upright = _find_lines(thin), _find_lines(np.ascontiguousarray(thin.T))
    found: list[FoundRectangle] = []
    for top, bottom in itertools.combinations(level, 2):
        for left, right in itertools.combinations(upright, 2):
            outline = _rectangle(top, bottom, left, right, color)
            if outline:
                found.append(outline)
    found.sort(key=lambda outline: -outline.score)
    kept: list[FoundRectangle] = []
    for outline in found:
        if len(kept) < most and not any(_share_a_side(outline, other) for other in kept):
            kept.append(outline)
    return kept


def _find_lines(mask: NDArray[np.uint8]) -> list[Line]:
    """The level lines of a mask, from top to bottom, the longest if there are many."""
    closed = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((1, 5), np.uint8))
    runs = cv2.morphologyEx(closed, cv2.MORPH_OPEN, np.ones((1, SHORTEST), np.uint8))
    count = runs.sum(1).astype(int)
    found: list[tuple[int, Line]] = []
    for start, stop in _runs(count >= SHORTEST):
        strong = start + np.flatnonzero(count[start:stop] >= 0.5 * count[start:stop].max())
        first, last = int(strong[0]), int(strong[-1])
        if last - first < THICKEST:
            seen = closed[max(0, first - 1) : last + 2].max(0).astype(bool)
            found.append((int(count[first : last + 1].max()), Line((first + last) / 2, last - first + 1.0, seen)))
    found = sorted(found, key=lambda pair: -pair[0])[:LINES]
    return [line for _, line in sorted(found, key=lambda pair: pair[1].middle)]


def _runs(there: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where runs of True start and stop."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], there, [False])).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _rectangle(top: Line, bottom: Line, left: Line, right: Line, color: str) -> FoundRectangle | None:
    """The rectangle of four lines, or None where a side is not there or runs on."""
    y0, y1, x0, x1 = top.middle, bottom.middle, left.middle, right.middle
    if min(x1 - x0, y1 - y0) < SHORTEST:
        return None
    sides = [(top, x0, x1), (bottom, x0, x1), (left, y0, y1), (right, y0, y1)]
    stroke = float(np.median([line.thickness for line, _, _ in sides]))
    whole = [float(line.seen[round(start) : round(stop) + 1].mean()) for line, start, stop in sides]
    over = round(stroke / 2) + 2
    if min(whole) < WHOLE or any(_runs_on(line.seen, start - over, stop + over) for line, start, stop in sides):
        return None
    return FoundRectangle(x0 + 0.5, y0 + 0.5, x1 + 0.5, y1 + 0.5, stroke, color, float(np.mean(whole)))


def _runs_on(seen: NDArray[np.bool_], start: float, stop: float) -> bool:
    before = seen[max(0, round(start) - BEYOND) : max(0, round(start))]
    after = seen[round(stop) + 1 : round(stop) + 1 + BEYOND]
    return any(len(part) == BEYOND and part.sum() >= BEYOND - 1 for part in (before, after))


def _share_a_side(first: FoundRectangle, second: FoundRectangle) -> bool:
    """Whether two rectangles have a side in common."""
    one, other = (np.array([box.x0, box.y0, box.x1, box.y1]) for box in (first, second))
    return bool((np.abs(one - other) < 3).sum() >= 2)

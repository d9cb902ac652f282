"""Readers of drawn sheets: grids of small shapes, read cell by cell; a pattern to find among
options; and letters of dots, compared with letterforms of five by seven dots."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.extras.drawings.shapes import find_background_color, measure_color_distance
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import (
    AnswerRule,
    Decision,
    find_nearest_choice,
    get_only_pixels,
)
from looktwice.specialists.results import Floats
from looktwice.specialists.rules import NoEvidence

Grid = Mapping[tuple[int, int], tuple[str, str]]
"""A map from (row, column), counted from 1, to (fill, shape)."""
Ink = NDArray[np.bool_]
# grey level of ink: half-covered pixels are lighter, so that a frame ends with its last whole line
MAX_DARK_LEVEL = 64
DIRECTION_STEPS = {
    "left": (0, -1),
    "right": (0, 1),
    "up": (-1, 0),
    "top": (-1, 0),
    "down": (1, 0),
    "bottom": (1, 0),
}
ASKED_CELL_PATTERN = re.compile(
    r"in grid (?P<grid>\d+).*?from the (?P<fill>\w+) (?P<shape>\w+) at position \(row"
    r" (?P<row>\d+), "
    r"column (?P<column>\d+)\), how many (?P<what>.+?) are there"
    r" (?P<way>left|right|up|down|top|bottom) of it",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class ShapeGridReader(AnswerRule):
    """Counts the objects on one side of a cell in its row or column (the visual spatial task of Do
    You See Me).

    Rows, columns and grids are counted from 1, grids from left to right. Each grid is a frame with
    black or white squares, circles and triangles in rows and columns. Abstains from other
    questions, and if the cell does not contain the shape that the question names.
    """

    def decide(self, sample: Sample) -> Decision:
        """Return the number, and confidence 1, since it reads every cell or abstains. Raises
        NoEvidence."""
        asked = ASKED_CELL_PATTERN.search(sample.question)
        if asked is None or len(sample.images) != 1:
            raise NoEvidence(f"the question names no cell of a grid: {sample.question!r}")
        grids = read_grids(sample.images[0].pixels)
        number, (row, column) = int(asked["grid"]), (int(asked["row"]), int(asked["column"]))
        grid = grids[number - 1] if 0 < number <= len(grids) else {}
        seen, expected = grid.get((row, column)), (asked["fill"].lower(), asked["shape"].lower())
        if seen != expected:
            raise NoEvidence(
                f"at {row, column} of grid {number} there is {' '.join(seen or ('nothing',))}, not"
                f" {' '.join(expected)}"
            )
        # "black objects", "circles" or "black circles"
        first, *_, last = asked["what"].lower().split() * 2
        down, across = DIRECTION_STEPS[asked["way"].lower()]
        things = 0
        while cell := grid.get((row := row + down, column := column + across)):
            fits = last.removesuffix("s") in (cell[1], "object")
            things += fits and (first not in ("black", "white") or first == cell[0])
        return str(things), 1.0


def read_grids(pixels: Pixels) -> list[Grid]:
    """Return the grids of a picture from left to right. Raises NoEvidence if there is none."""
    ink = pixels.mean(-1) < MAX_DARK_LEVEL
    # outer contours only, so that a frame is one object with its content
    contours, _ = cv2.findContours(ink.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    frames = sorted(tuple(cv2.boundingRect(contour)) for contour in contours)
    grids = list[Grid]()
    for x, y, wide, high in frames:
        if min(wide, high) < 20:
            continue
        inner = ink[y : y + high, x : x + wide]
        for _ in range(
            2
        ):  # remove the lines along the frame's top and bottom, then along its sides
            full = inner.mean(1) > 0.98
            start, end = np.argmin(full), len(full) - np.argmin(full[::-1])
            inner = inner[start : 0 if full.all() else end].T
        cells = {}
        for row, (top, bottom) in enumerate(_find_runs(inner.sum(1) > 1), 1):
            for column, (left, right) in enumerate(_find_runs(inner.sum(0) > 1), 1):
                if cell := classify_cell(inner[top:bottom, left:right]):
                    cells[row, column] = cell
        grids.append(cells)
    if not grids or not all(grids):
        raise NoEvidence("found no grid of shapes within a frame")
    return grids


def _find_runs(filled: Ink) -> list[tuple[int, int]]:
    """Return the (start, end) of each run of ink, without slivers left by a frame."""
    steps = np.flatnonzero(np.diff(filled.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    return [(int(start), int(end)) for start, end in steps if end - start > 5]


def classify_cell(ink: Ink) -> tuple[str, str] | None:
    """Return the fill and shape in a cell; None if there is nothing. The three shapes are convex,
    and fill 1, pi / 4 and 1 / 2 of their boxes.

    The region examined is the black or white one around the middle: the frame may hide the outline
    of a white shape, but not the border of its interior.
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
    shape = min(shapes, key=lambda shape: abs(shapes[shape] - share))
    return "black" if black else "white", shape


Panel = tuple[float, float, float, float]
"""Left, top, right, bottom as shares of the sheet."""
Sheet = tuple[Panel, ...]
"""The target's panel, then those of the options."""
MAX_DISTANCE = 4.0  # pixels; larger distances count as this one
ALIGNMENT_ROUNDS = 20  # iterations that align one pattern with the other


ROW_LAYOUT: Sheet = (
    (0.03, 0.12, 0.28, 0.5),
    *((0.04 + 0.23 * n, 0.6, 0.27 + 0.23 * n, 1) for n in range(4)),
)
SQUARE_LAYOUT: Sheet = tuple(
    (x / 600, y / 1000, (x + 245) / 600, (y + 230) / 1000)
    for x, y in ((190, 86), (90, 386), (340, 386), (90, 636), (340, 636))
)


@dataclass(frozen=True)
class PatternMatcher(AnswerRule):
    """Answers with the number of the option whose lines are nearest to the target's (chamfer
    distance).

    `kind` is one of three tasks of Do You See Me. In "closure" an option lacks parts, so its ink
    must lie on the target's, after its size and position are fitted; in "figure_ground" options lie
    in noise, so the target's ink must lie on theirs; in "form_constancy" both. The distance is the
    mean over the ink, in pixels and at most 4. The confidence is the lead of the best option over
    the second, in 0..1. Abstains if a panel is empty, and at a tie.
    """

    kind: Literal["closure", "figure_ground", "form_constancy"]

    def decide(self, sample: Sample) -> Decision:
        """Return the number of the option, and the confidence. Raises NoEvidence."""
        far = self.measure_distances(get_only_pixels(sample, "target and options are on one image"))
        numbers = {str(number): distance for number, distance in enumerate(far, 1)}
        return find_nearest_choice(numbers, "the distances of options")

    def measure_distances(self, pixels: Pixels) -> list[float]:
        """Return the mean distance of each option in pixels. Raises NoEvidence."""
        ink, panels = (
            measure_color_distance(pixels) > 0.5,
            ROW_LAYOUT if self.kind == "closure" else SQUARE_LAYOUT,
        )
        target, *options = (_find_points(ink, panel) for panel in panels)
        far = []
        for option in options:
            if self.kind == "closure":
                far.append(_measure_chamfer_distance(_fit_points(option, target), target))
            elif self.kind == "figure_ground":
                far.append(_measure_chamfer_distance(target, option))
            else:
                both = _measure_chamfer_distance(option, target)
                far.append(_measure_chamfer_distance(target, option) + both)
        return far


def _find_points(ink: Ink, panel: Panel) -> Floats:
    """Return the ink of a panel as points (n, 2), x and y from its corner. Raises NoEvidence if it
    is empty."""
    height, width = ink.shape
    left, top, right, bottom = (
        round(share * side) for share, side in zip(panel, (width, height) * 2, strict=True)
    )
    points = np.argwhere(ink[top:bottom, left:right])[:, ::-1].astype(np.float64)
    if len(points) < 10:
        raise NoEvidence(
            f"nothing is drawn at ({left}, {top}) to ({right}, {bottom}), where a pattern should be"
        )
    return points


def _measure_chamfer_distance(points: Floats, others: Floats) -> float:
    """Return the mean distance from each point to the nearest of the others; distances are capped
    at `MAX_DISTANCE`."""
    from scipy.spatial import cKDTree

    away, _ = cKDTree(others).query(points, distance_upper_bound=MAX_DISTANCE)
    return float(np.minimum(away, MAX_DISTANCE).mean())


def _fit_points(points: Floats, target: Floats) -> Floats:
    """Move and scale points onto the target's, starting from aligned centres (iterative closest
    point)."""
    from scipy.spatial import cKDTree

    tree = cKDTree(target)
    moved: Floats = (
        points - (points.min(0) + points.max(0)) / 2 + (target.min(0) + target.max(0)) / 2
    )
    for _ in range(ALIGNMENT_ROUNDS):
        away, nearest = (np.asarray(values) for values in tree.query(moved))
        # exclude bent parts from the alignment of the rest
        near = away <= max(1.5, float(np.quantile(away, 0.8)))
        source, nearby = moved[near], target[nearest[near]]
        apart = source - source.mean(0)
        scale = float((apart * (nearby - nearby.mean(0))).sum() / max(1e-9, (apart**2).sum()))
        moved = (moved - source.mean(0)) * np.clip(scale, 0.8, 1.25) + nearby.mean(0)
    return moved


# A to Z, as five by seven dot displays commonly show them
LETTER_FORMS = """\
01110 10001 10001 11111 10001 10001 10001
11110 10001 10001 11110 10001 10001 11110
01110 10001 10000 10000 10000 10001 01110
11110 10001 10001 10001 10001 10001 11110
11111 10000 10000 11110 10000 10000 11111
11111 10000 10000 11110 10000 10000 10000
01110 10001 10000 10111 10001 10001 01110
10001 10001 10001 11111 10001 10001 10001
01110 00100 00100 00100 00100 00100 01110
00111 00010 00010 00010 00010 10010 01100
10001 10010 10100 11000 10100 10010 10001
10000 10000 10000 10000 10000 10000 11111
10001 11011 10101 10101 10001 10001 10001
10001 11001 10101 10011 10001 10001 10001
01110 10001 10001 10001 10001 10001 01110
11110 10001 10001 11110 10000 10000 10000
01110 10001 10001 10001 10101 10010 01101
11110 10001 10001 11110 10100 10010 10001
01111 10000 10000 01110 00001 00001 11110
11111 00100 00100 00100 00100 00100 00100
10001 10001 10001 10001 10001 10001 01110
10001 10001 10001 10001 10001 01010 00100
10001 10001 10001 10101 10101 11011 10001
10001 10001 01010 00100 01010 10001 10001
10001 10001 01010 00100 00100 00100 00100
11111 00001 00010 00100 01000 10000 11111
"""
# letters that some displays show differently
ALTERNATIVE_FORMS = {
    "I": "11111 00100 00100 00100 00100 00100 11111",
    "S": "01110 10001 10000 01110 00001 10001 01110",
}


LETTERS = []
for letter, rows in (
    *zip(ascii_uppercase, LETTER_FORMS.splitlines(), strict=True),
    *ALTERNATIVE_FORMS.items(),
):
    dots = np.array([list(row) for row in rows.split()], float)  # 1 marks a dot
    LETTERS.append((letter, dots[:, dots.any(0)]))
MIN_LETTER_GAP = (
    0.3  # of the letters' height: dots of one letter are closer together, letters are not
)
MIN_CONTRAST = 2.0  # of 255 levels: the minimum difference from the background


@dataclass(frozen=True)
class DotLetterReader(AnswerRule):
    """Reads a line of letters from left to right (the letter disambiguation task of Do You See Me).

    Each letter is scaled to five by seven cells, by the distance of its dots or, if it is drawn in
    one piece, by its height. It is read as the letterform that correlates best with the ink in the
    cells. The confidence is the smallest lead over the second-best letter. Abstains if nothing
    differs from the background by two grey levels, and if a letter's dots lie in more than five
    columns.
    """

    def decide(self, sample: Sample) -> Decision:
        """Return the letters, and the confidence. Raises NoEvidence."""
        ink = find_ink(get_only_pixels(sample, "letters are read in one image"))
        # split the line into letters at gaps between columns
        rows = np.flatnonzero(ink.any(1))
        line = ink[rows[0] : rows[-1] + 1]
        columns = np.flatnonzero(line.any(0))
        gaps = np.flatnonzero(np.diff(columns) > MIN_LETTER_GAP * len(line)) + 1
        text, least = "", 1.0
        for part in np.split(columns, gaps):
            letter, lead = read_letter(convert_to_cells(line[:, part[0] : part[-1] + 1]))
            text, least = text + letter, min(least, lead)
        return text, least


def find_ink(pixels: Pixels) -> Ink:
    """Return the mask of pixels that differ from the background by at least half as much as the
    most different one, without the ink at the picture's border.

    Pale dots may differ less than rounded corners do, so everything connected to the border is
    removed first.
    """
    away = np.linalg.norm(pixels - find_background_color(pixels), axis=-1)
    differs = away > MIN_CONTRAST
    _, labels = cv2.connectedComponents(differs.astype(np.uint8), connectivity=8)
    rim = np.unique(np.concatenate((labels[0], labels[-1], labels[:, 0], labels[:, -1])))
    inner = np.where(np.isin(labels, rim[rim > 0]), 0.0, away)
    if not (inner > MIN_CONTRAST).any():
        raise NoEvidence("nothing differs from the background")
    ink: Ink = inner > inner.max() / 2
    return ink


def convert_to_cells(ink: Ink) -> Floats:
    """Convert one letter to the share of ink in each of its cells (7 rows, at most 5 columns).
    Raises NoEvidence."""
    height, width = ink.shape
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    dot = float(np.median(stats[1:, cv2.CC_STAT_HEIGHT]))
    dotted = len(stats) > 5 and dot < height / 6
    pitch = (height - dot) / 6 if dotted else height / 7
    count = round((width - dot) / pitch) + 1 if dotted else 5
    if not 1 <= count <= 5:
        raise NoEvidence(f"found a letter with {count} columns of dots, and five is the maximum")
    if not dotted:
        return np.asarray(cv2.resize(ink.astype(np.float64), (5, 7), interpolation=cv2.INTER_AREA))
    # sample the middle of each dot
    down, across = (
        np.round((dot - 1) / 2 + pitch * np.arange(number)).astype(int) for number in (7, count)
    )
    near = cv2.blur(ink.astype(np.float64), (2 * max(1, int(dot / 4)) + 1,) * 2)
    return np.asarray(near[np.ix_(down.clip(0, height - 1), across.clip(0, width - 1))])


def read_letter(cells: Floats) -> tuple[str, float]:
    """Return the letter whose form correlates best with the cells, and its lead over the second,
    0..1. Raises NoEvidence."""
    alike: dict[str, float] = {}
    inked = cells - cells.mean()
    for letter, form in LETTERS:
        if form.shape == cells.shape:
            dots = form - form.mean()
            product = max(1e-12, float(np.linalg.norm(inked) * np.linalg.norm(dots)))
            alike[letter] = max(alike.get(letter, -1.0), float((inked * dots).sum() / product))
    if not alike:
        raise NoEvidence(f"no letter has {cells.shape[1]} columns of dots")
    best, *others = sorted(alike, key=lambda letter: -alike[letter])
    return best, float(np.clip(alike[best] - alike[others[0]], 0, 1)) if others else 1.0

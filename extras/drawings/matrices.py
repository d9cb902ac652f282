"""Solvers of matrix puzzles. Matrices of spokes, three rows of three pictures with the last one
missing and four options, are read from the pixels, and every rule is tried. In other puzzles,
figures are compared as images."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.boxes import choose_number
from looktwice.specialists.answers.choices import AnswerRule, Decision
from looktwice.specialists.rules import NoEvidence

SPOKE_COUNT = 8
"""Number of directions of spokes, which are lines from a picture's centre; direction 0 is up, and
the others follow clockwise."""
ALL_SPOKES = (1 << SPOKE_COUNT) - 1
PANEL_COUNT = 13  # nine of the matrix, the last of them empty, and four options
SPOKE_RANGE = (0.45, 0.75)  # where spokes are sampled, as shares of half a panel
INK_LEVEL = 110  # grey level; ink is darker
MIN_INK_CONTRAST = 40  # minimum difference of ink from the paper, in grey levels
MAX_PART_DISTANCE = 0.01  # of the longer side: parts at most this far apart belong to one figure
FIGURE_SIDE = 48  # pixels; figures are scaled to this side to be compared
ASKED_CELL_PATTERN = re.compile(r"how many lines .*\brow ([123]), column ([123])\b", re.IGNORECASE)

Ink = NDArray[Any]
Rule = Callable[[int, int], int | None]
"""A function from the first two pictures of a row, as bits of spokes, to the third; None if it does
not apply to them."""


def turn_spokes(bits: int, steps: int) -> int:
    """Rotate spokes clockwise by `steps` eighths of a turn."""
    whole = bits << steps % SPOKE_COUNT
    return whole & ALL_SPOKES | whole >> SPOKE_COUNT


def spread_spokes(bits: int, steps: int) -> int:
    """Add the next `steps` spokes clockwise to each spoke; if `steps` is negative, remove the first
    `-steps` spokes of each run instead."""
    for _ in range(abs(steps)):
        beside = turn_spokes(bits, 1)
        bits = bits | beside if steps > 0 else bits & beside
    return bits


def _apply_change(
    change: Callable[[int, int], int], steps: int, first: int, second: int
) -> int | None:
    return change(second, steps) if change(first, steps) == second else None


RULES: Mapping[str, Mapping[str, Rule]] = {
    "rotation": {
        f"turn by {n}": partial(_apply_change, turn_spokes, n) for n in range(1, SPOKE_COUNT)
    },
    "progression": {
        f"spread by {n}": partial(_apply_change, spread_spokes, n) for n in (1, 2, -1, -2)
    },
    "overlay": {
        "either": lambda first, second: first | second,
        "not both": lambda first, second: first ^ second,
        "both": lambda first, second: first & second,
        "first alone": lambda first, second: first & ~second,
    },
}
"""All rules, by kind and name."""


def solve_matrix(pictures: Sequence[int], options: Sequence[int]) -> list[int]:
    """Return the indices of the options that follow from a rule that holds in the first two rows;
    `pictures` are the eight given ones, row by row."""
    rows = [pictures[0:3], pictures[3:6]]
    last: set[int | None] = set()
    for rule in (rule for rules in RULES.values() for rule in rules.values()):
        if all(rule(first, second) == third for first, second, third in rows):
            last.add(rule(*pictures[6:8]))
    return [number for number, option in enumerate(options) if option in last]


def find_boxes(pixels: Pixels) -> tuple[NDArray[np.int64], int]:
    """Return left, top, width and height (n, 4) of the figures of a page in reading order, and the
    number of figures in the first row. Contours less than half as wide or high as the largest one
    count as text."""
    gray = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(int)
    dark = abs(gray - np.bincount(gray.ravel()).argmax()) > MIN_INK_CONTRAST
    rim = int(MAX_PART_DISTANCE * max(gray.shape) / 2)
    joined = cv2.dilate(dark.astype(np.uint8), np.ones((2 * rim + 1, 2 * rim + 1)))
    contours, _ = cv2.findContours(joined, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    boxes = np.array([*map(cv2.boundingRect, contours)], int).reshape(-1, 4)
    boxes += np.array([rim, rim, -2 * rim, -2 * rim])
    largest = boxes[:, 2:].max(0, initial=0)
    boxes = boxes[(boxes[:, 2:] > largest / 2).all(1)]
    boxes = boxes[boxes[:, 1].argsort()]
    rows = (np.diff(boxes[:, 1], prepend=boxes[:1, 1]) > largest[1] / 2).cumsum()
    return boxes[np.lexsort((boxes[:, 0], rows))], int((rows == 0).sum())


def read_panels(pixels: Pixels) -> list[int]:
    """Read the spokes of each panel, row by row, as bits. Raises NoEvidence unless there are
    thirteen panels."""
    gray = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    boxes, _ = find_boxes(pixels)
    if len(boxes) != PANEL_COUNT:
        raise NoEvidence(f"found {len(boxes)} panels; a matrix with options has {PANEL_COUNT}")
    bits = []
    for box in boxes:
        middle, half = box[:2] + (box[2:] - 1) / 2, box[2] / 2
        seen = 0
        for number in range(SPOKE_COUNT):
            angle = 2 * np.pi * number / SPOKE_COUNT
            way = half * np.array([np.sin(angle), -np.cos(angle)])
            xs, ys = np.rint(middle + np.linspace(*SPOKE_RANGE, 5)[:, None] * way).astype(int).T
            seen |= int(np.median(gray[ys, xs]) < INK_LEVEL) << number
        bits.append(seen)
    return bits


@dataclass(frozen=True)
class MatrixSolver(AnswerRule):
    """Answers questions about a matrix of spokes, such as `eval.tasks.Puzzles` draws: which option
    completes it, by exhaustive search over `RULES`, or how many lines a picture has.

    It reads the pixels of image 0. Abstains unless they show nine panels and four options, and
    unless exactly one option follows from the rules that hold in the first two rows.
    """

    def decide(self, sample: Sample) -> Decision:
        """Return the letter, and confidence 1. Raises NoEvidence."""
        if not sample.images:
            raise NoEvidence("there is no image")
        bits = read_panels(sample.images[0].pixels)
        if place := ASKED_CELL_PATTERN.search(sample.question):
            number = bits[3 * int(place[1]) + int(place[2]) - 4].bit_count()
            return choose_number(sample, number, nearest=False)[0], 1.0
        fitting = solve_matrix(bits[:8], bits[9:])
        if len(fitting) != 1 or len(sample.letters) != 4:
            raise NoEvidence(f"{len(fitting)} of the options follow from a rule")
        return sample.letters[fitting[0]], 1.0


def _extract_ink(pixels: Pixels) -> Ink:
    small = cv2.resize(pixels, (FIGURE_SIDE, FIGURE_SIDE), interpolation=cv2.INTER_AREA)
    return cv2.GaussianBlur(255.0 - cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), (0, 0), 1.5)


def _turn_and_join(eighths: int, first: Ink, second: Ink) -> Ink:
    matrix = cv2.getRotationMatrix2D((FIGURE_SIDE / 2, FIGURE_SIDE / 2), 45 * eighths, 1)
    return cv2.warpAffine(second, matrix, (FIGURE_SIDE, FIGURE_SIDE))


CHANGES: Sequence[Callable[[Ink, Ink], Ink]] = (
    *(partial(_turn_and_join, eighths) for eighths in range(SPOKE_COUNT)),
    np.maximum,
    np.minimum,
    cv2.absdiff,
    lambda first, second: np.maximum(first - second, 0),
)
"""Functions from two figures to the next one: eight rotations of the second; the union, the
intersection, the symmetric difference, and the first without the second."""


@dataclass(frozen=True)
class FigureAnalogy(AnswerRule):
    """Answers any puzzle of figures on one page, the last four of which are the options, by the
    affine and set transformations of Kunda, McGreggor and Goel (2013): the change (`CHANGES`) that
    fits the rows best is applied once more, and the option most similar to the result is the
    answer.

    It reads the pixels of image 0. Parts that all figures share, such as a frame, are removed, and
    so is a placeholder of the missing figure. Similarity is the intersection over union of the ink;
    the confidence is the similarity of the chosen option. Abstains if fewer than seven figures are
    found. It cannot solve puzzles of folding, cubes or numbers.
    """

    def decide(self, sample: Sample) -> Decision:
        """Return the letter of the most similar option, and its similarity. Raises NoEvidence."""
        if not sample.images:
            raise NoEvidence("there is no image")
        pixels = sample.images[0].pixels
        boxes, wide = find_boxes(pixels)
        if len(boxes) < 7 or len(sample.letters) != 4:
            raise NoEvidence(
                f"found {len(boxes)} figures and {len(sample.letters)} choices; 7 and 4 are needed"
            )
        figures = [
            _extract_ink(pixels[y : y + height, x : x + width]) for x, y, width, height in boxes
        ]
        shared = np.min(figures, axis=0)
        *given, _, _, _, _ = figures = [figure - shared for figure in figures]
        if len(given) % wide == 0 and len(given) > wide:
            given.pop()  # a placeholder of the missing figure
        fits = np.zeros(len(CHANGES))
        for n in range(1, len(given)):
            if n % wide >= max(1, min(2, wide - 1)):
                before = given[n - min(2, n % wide)], given[n - 1]
                fits += [compute_ink_iou(change(*before), given[n]) for change in CHANGES]
        wanted = CHANGES[int(fits.argmax())](*given[-2:])
        alike = [compute_ink_iou(wanted, option) for option in figures[-4:]]
        return sample.letters[np.argmax(alike)], max(alike)


def compute_ink_iou(first: Ink, second: Ink) -> float:
    """Return the intersection over union of the ink of two figures."""
    return float(np.minimum(first, second).sum() / max(np.maximum(first, second).sum(), 1e-6))

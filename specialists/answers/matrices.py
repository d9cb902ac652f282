"""Answers to matrices of spokes: three rows of three pictures, the last one missing, and four to
choose from. Pictures are read from the pixels, and every rule is tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.boxes import choose_number
from looktwice.specialists.answers.choices import AnswerRule
from looktwice.specialists.protocols import NoEvidence

SPOKES = 8
"""Directions that a line from a picture's middle may have: clockwise, from the top."""
WHOLE = (1 << SPOKES) - 1
PANELS = 13  # nine of the matrix, the last of them empty, and four to choose from
REACH = (0.45, 0.75)  # of half a panel, between which spokes are looked for
DARK = 110  # grey levels; ink is darker
ASKED = re.compile(r"how many lines .*\brow ([123]), column ([123])\b", re.IGNORECASE)

Rule = Callable[[int, int], int | None]
"""The third picture of a row from the first two, as bits of spokes; None where these do not fit."""


def turn(bits: int, steps: int) -> int:
    """Spokes turned clockwise by so many eighths."""
    whole = bits << steps % SPOKES
    return whole & WHOLE | whole >> SPOKES


def spread(bits: int, steps: int) -> int:
    """Spokes with the `steps` next ones of each, clockwise; below 0 without so many last ones of
    each run."""
    for _ in range(abs(steps)):
        beside = turn(bits, 1)
        bits = bits | beside if steps > 0 else bits & beside
    return bits


def _again(change: Callable[[int, int], int], steps: int, first: int, second: int) -> int | None:
    return change(second, steps) if change(first, steps) == second else None


RULES: Mapping[str, Mapping[str, Rule]] = {
    "rotation": {f"turn by {n}": partial(_again, turn, n) for n in range(1, SPOKES)},
    "progression": {f"spread by {n}": partial(_again, spread, n) for n in (1, 2, -1, -2)},
    "overlay": {
        "either": lambda first, second: first | second,
        "not both": lambda first, second: first ^ second,
        "both": lambda first, second: first & second,
        "first alone": lambda first, second: first & ~second,
    },
}
"""All rules, by kind and name."""


def solve(pictures: Sequence[int], options: Sequence[int]) -> list[int]:
    """The numbers of the options that some rule gives which holds in the first two rows; `pictures`
    are eight, row by row."""
    rows = [pictures[0:3], pictures[3:6]]
    last: set[int | None] = set()
    for rule in (rule for rules in RULES.values() for rule in rules.values()):
        if all(rule(first, second) == third for first, second, third in rows):
            last.add(rule(*pictures[6:8]))
    return [number for number, option in enumerate(options) if option in last]


def read_panels(pixels: Pixels) -> list[int]:
    """The spokes of each panel, row by row, as bits. Raises NoEvidence where there are not
    thirteen."""
    gray = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    light = (gray > DARK).astype(np.uint8)
    _, _, stats, _ = cv2.connectedComponentsWithStats(light, connectivity=4)
    boxes = [(int(y), int(x), int(w)) for x, y, w, h, _ in stats[2:] if abs(w - h) < 2 and w > 15]
    panels = sorted(box for box in boxes if box[2] > 0.9 * max(boxes, key=lambda b: b[2])[2])
    if len(panels) != PANELS:
        raise NoEvidence(f"{len(panels)} panels are seen, and a matrix with options has {PANELS}")
    bits = []
    for top, left, side in panels:
        middle, half = np.array([left, top]) + (side - 1) / 2, side / 2
        seen = 0
        for number in range(SPOKES):
            angle = 2 * np.pi * number / SPOKES
            way = half * np.array([np.sin(angle), -np.cos(angle)])
            xs, ys = np.rint(middle + np.linspace(*REACH, 5)[:, None] * way).astype(int).T
            seen |= int(np.median(gray[ys, xs]) < DARK) << number
        bits.append(seen)
    return bits


@dataclass(frozen=True)
class MatrixSolver(AnswerRule):
    """Answers questions about a matrix of spokes, such as `eval.tasks.Puzzles` draws: which option
    completes it, by exhaustive search over `RULES`, or how many lines a picture has.

    It reads the pixels of image 0. Abstains where these do not show nine panels and four options,
    and where no option, or more than one, follows from a rule that holds in the first two rows.
    """

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The letter, and 1. Raises NoEvidence."""
        if not sample.images:
            raise NoEvidence("there is no image")
        bits = read_panels(sample.images[0].pixels)
        if place := ASKED.search(sample.question):
            number = bits[3 * int(place[1]) + int(place[2]) - 4].bit_count()
            return choose_number(sample, number, nearest=False)[0], 1.0
        fitting = solve(bits[:8], bits[9:])
        if len(fitting) != 1 or len(sample.letters) != 4:
            raise NoEvidence(f"{len(fitting)} of the options follow from a rule")
        return sample.letters[fitting[0]], 1.0

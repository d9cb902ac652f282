"""Capital letters made of dots, read dot by dot and compared with the letterforms of five by seven
dots."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_uppercase

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.specialists.answers.choices import AnswerRule
from looktwice.specialists.drawings.shapes import background_color
from looktwice.specialists.protocols import NoEvidence

Grid = NDArray[np.float64]
Ink = NDArray[np.bool_]
# A to Z, as displays of five by seven dots commonly show them
FORMS = (
    "01110 10001 10001 11111 10001 10001 10001",
    "11110 10001 10001 11110 10001 10001 11110",
    "01110 10001 10000 10000 10000 10001 01110",
    "11110 10001 10001 10001 10001 10001 11110",
    "11111 10000 10000 11110 10000 10000 11111",
    "11111 10000 10000 11110 10000 10000 10000",
    "01110 10001 10000 10111 10001 10001 01110",
    "10001 10001 10001 11111 10001 10001 10001",
    "01110 00100 00100 00100 00100 00100 01110",
    "00111 00010 00010 00010 00010 10010 01100",
    "10001 10010 10100 11000 10100 10010 10001",
    "10000 10000 10000 10000 10000 10000 11111",
    "10001 11011 10101 10101 10001 10001 10001",
    "10001 11001 10101 10011 10001 10001 10001",
    "01110 10001 10001 10001 10001 10001 01110",
    "11110 10001 10001 11110 10000 10000 10000",
    "01110 10001 10001 10001 10101 10010 01101",
    "11110 10001 10001 11110 10100 10010 10001",
    "01111 10000 10000 01110 00001 00001 11110",
    "11111 00100 00100 00100 00100 00100 00100",
    "10001 10001 10001 10001 10001 10001 01110",
    "10001 10001 10001 10001 10001 01010 00100",
    "10001 10001 10001 10101 10101 11011 10001",
    "10001 10001 01010 00100 01010 10001 10001",
    "10001 10001 01010 00100 00100 00100 00100",
    "11111 00001 00010 00100 01000 10000 11111",
)
# letters that some displays show another way
OTHERS = {
    "I": "11111 00100 00100 00100 00100 00100 11111",
    "S": "01110 10001 10000 01110 00001 10001 01110",
}


LETTERS = []
for letter, rows in (*zip(ascii_uppercase, FORMS, strict=True), *OTHERS.items()):
    dots = np.array([list(row) for row in rows.split()], float)  # 1 where a dot is
    LETTERS.append((letter, dots[:, dots.any(0)]))
APART = 0.3  # of the letters' height: dots of one letter lie closer than that, letters do not
FAINTEST = 2.0  # of 255 levels: what differs less from the ground is not seen


@dataclass(frozen=True)
class DotLetterReader(AnswerRule):
    """Answers with the letters of a line, from left to right (Do You See Me's letter
    disambiguation).

    Each letter is brought to five by seven cells by the distance of its dots, or, where it is drawn
    in one piece, by its height, and is the one with the letterform that correlates best with the
    ink in them. Confidence is the least lead over the second letter. Abstains where nothing stands
    out from the ground by two grey levels, and where a letter's dots lie in more than five columns.
    """

    def decide(self, sample: Sample) -> tuple[str, float]:
        """The letters and the confidence. Raises NoEvidence."""
        if len(sample.images) != 1:
            raise NoEvidence(f"letters are read in one image, found {len(sample.images)}")
        ink = find_ink(sample.images[0].pixels)
        # a line of letters, each in one part of its columns
        rows = np.flatnonzero(ink.any(1))
        line = ink[rows[0] : rows[-1] + 1]
        columns = np.flatnonzero(line.any(0))
        gaps = np.flatnonzero(np.diff(columns) > APART * len(line)) + 1
        text, least = "", 1.0
        for part in np.split(columns, gaps):
            letter, lead = read_letter(to_cells(line[:, part[0] : part[-1] + 1]))
            text, least = text + letter, min(least, lead)
        return text, least


def find_ink(pixels: Pixels) -> Ink:
    """What differs from the ground by at least half as much as the most different thing, without
    the picture's rim.

    Pale dots may differ less than rounded corners do, so what hangs together with the rim is put
    away first.
    """
    away = np.linalg.norm(pixels - background_color(pixels), axis=-1)
    differs = away > FAINTEST
    _, labels = cv2.connectedComponents(differs.astype(np.uint8), connectivity=8)
    rim = np.unique(np.concatenate((labels[0], labels[-1], labels[:, 0], labels[:, -1])))
    inner = np.where(np.isin(labels, rim[rim > 0]), 0.0, away)
    if not (inner > FAINTEST).any():
        raise NoEvidence("nothing stands out from the ground")
    ink: Ink = inner > inner.max() / 2
    return ink


def to_cells(ink: Ink) -> Grid:
    """One letter as shares of ink (7, 5 or fewer columns). Raises NoEvidence."""
    height, width = ink.shape
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    dot = float(np.median(stats[1:, cv2.CC_STAT_HEIGHT]))
    dotted = len(stats) > 5 and dot < height / 6
    pitch = (height - dot) / 6 if dotted else height / 7
    count = round((width - dot) / pitch) + 1 if dotted else 5
    if not 1 <= count <= 5:
        raise NoEvidence(
            f"a letter of {count} columns of dots is seen, of which there are five at most"
        )
    if not dotted:
        return np.asarray(cv2.resize(ink.astype(np.float64), (5, 7), interpolation=cv2.INTER_AREA))
    # the middle of each dot
    down, across = (
        np.round((dot - 1) / 2 + pitch * np.arange(number)).astype(int) for number in (7, count)
    )
    near = cv2.blur(ink.astype(np.float64), (2 * max(1, int(dot / 4)) + 1,) * 2)
    return np.asarray(near[np.ix_(down.clip(0, height - 1), across.clip(0, width - 1))])


def read_letter(cells: Grid) -> tuple[str, float]:
    """The letter whose form correlates best with the cells, and its lead over the second, 0..1.
    Raises NoEvidence."""
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

"""Finds short white words on black plates, and reads them: the labels that are burnt in beside
markers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from looktwice.pipelines.geometry import PixelRect, overlaps
from looktwice.prompting.drawing.text import BLINK_LETTERS, BLINK_SIZE, render_text

# luma between white strokes and black plate: the lower for thin ones, the upper for blurred ones
CUTS = (96, 150)
HEIGHTS = (5, 40)  # pixels of a capital
BLACK = 56.0  # mean luma of a plate's margin, at most; JPEG of quality 75 leaves about 20
CANVAS = 16  # side of the square on which glyphs are compared
SIZES = (5, 7, 9, 12, 18, 28)  # capital heights of the templates, in pixels
LIKENESS = 0.72  # correlation with the best template, at least
Stroke = tuple[tuple[float, float], ...]
Gray = NDArray[np.uint8]

# width, height, stroke; the last one is thinner across than along
PENS = ((48, 70, 9), (58, 70, 14), (54, 140, 16))

# Skeletons of stroke-font capitals, as drawing libraries without TrueType have them; x and y run
# over 0..1, y down.
BOWL: Stroke = ((0.6, 0.0), (0.9, 0.08), (1.0, 0.25), (0.9, 0.42), (0.6, 0.5))
BELLY: Stroke = ((0.6, 0.5), (0.9, 0.56), (1.0, 0.75), (0.9, 0.92), (0.6, 1.0))
OPEN: Stroke = (
    (1, 0.25),
    (0.9, 0.1),
    (0.7, 0),
    (0.35, 0),
    (0.12, 0.12),
    (0, 0.35),
    (0, 0.65),
    (0.12, 0.88),
    (0.35, 1),
)
STEM: Stroke = ((0, 0), (0, 1))
STROKES: dict[str, tuple[Stroke, ...]] = {
    "A": (((0, 1), (0.5, 0), (1, 1)), ((0.18, 0.65), (0.82, 0.65))),
    "B": (STEM, ((0, 0), *BOWL), ((0, 0.5), *BELLY), ((0, 1), (0.6, 1))),
    "B ": (STEM, ((0, 0), *BOWL, (0, 0.5)), ((0, 0.5), *BELLY, (0, 1))),
    "C": ((*OPEN, (0.7, 1), (0.9, 0.9), (1, 0.75)),),
    "D": (
        STEM,
        ((0, 0), (0.5, 0), (0.85, 0.12), (1, 0.38), (1, 0.62), (0.85, 0.88), (0.5, 1), (0, 1)),
    ),
    "E": (STEM, ((0, 0), (1, 0)), ((0, 0.5), (0.75, 0.5)), ((0, 1), (1, 1))),
    "F": (STEM, ((0, 0), (1, 0)), ((0, 0.5), (0.75, 0.5))),
    "R": (STEM, ((0, 0), *BOWL, (0, 0.5)), ((0.5, 0.5), (1, 1))),
}


@dataclass(frozen=True)
class ReadLabel:
    """A word that was read: `area` encloses its glyphs in pixels, `plate` the black around them."""

    text: str
    likeness: float
    area: PixelRect
    plate: PixelRect

    @property
    def center(self) -> tuple[float, float]:
        """(x, y) of the middle of the plate, in pixel-centre coordinates."""
        left, top, right, bottom = self.plate
        return (left + right - 1) / 2, (top + bottom - 1) / 2


@dataclass(frozen=True, eq=False)
class Glyph:
    """A white shape on black, and how like it is to each capital of the alphabet that is looked
    for."""

    area: PixelRect
    likeness: NDArray[np.float32]


def read_labels(gray: Gray, words: Sequence[str]) -> list[ReadLabel]:
    """Every place (luma HxW) that reads as one of `words`, capitals all; the likeliest first."""
    letters = "".join(sorted({letter for word in words for letter in word}))
    if not letters:
        return []
    readings: list[ReadLabel] = []
    glyphs = [glyph for cut in CUTS for glyph in _glyphs(gray, cut, letters)]
    for word in sorted(words, key=lambda word: -len(word)):
        for likeness, area in _find_words(word, letters, glyphs):
            plate = plate_around(gray, area)
            if plate is not None:
                readings.append(ReadLabel(word, likeness, area, plate))
    # one label for each place and word: the longest word first, then the likeliest reading
    kept: list[ReadLabel] = []
    for label in sorted(readings, key=lambda label: (-len(label.text), -label.likeness)):
        over = [longer.text for longer in kept if overlaps(label.area, longer.area)]
        if not any(text == label.text or len(text) > len(label.text) for text in over):
            kept.append(label)
    return sorted(kept, key=lambda label: -label.likeness)


def shift(area: PixelRect, x: int, y: int) -> PixelRect:
    """An area moved by whole pixels."""
    return area[0] + x, area[1] + y, area[2] + x, area[3] + y


def plate_around(gray: Gray, area: PixelRect) -> PixelRect | None:
    """The black rectangle around glyphs, or None where black does not surround them.

    A plate on a dark ground has no edge of its own: it is taken to reach half a capital's height at
    most.
    """
    most = max(3, (area[3] - area[1]) // 2)
    left, top, right, bottom = area
    rows, columns = slice(max(0, top - 1), bottom + 1), slice(max(0, left - 1), right + 1)
    reach = [
        _count_black_lines(gray[rows, max(0, left - most) : left][:, ::-1].T),
        _count_black_lines(gray[max(0, top - most) : top, columns][::-1]),
        _count_black_lines(gray[rows, right : right + most].T),
        _count_black_lines(gray[bottom : bottom + most, columns]),
    ]
    edges = (left, top, gray.shape[1] - right, gray.shape[0] - bottom)
    if any(lines < 1 and edge > 0 for lines, edge in zip(reach, edges, strict=True)):
        return None
    return left - reach[0], top - reach[1], right + reach[2], bottom + reach[3]


def partial_likeness(gray: Gray, area: PixelRect, word: str) -> float:
    """How like the visible part of `area` is to the same part of the word, -1..1; the place may be
    2 px out."""
    left, top, right, bottom = area
    height, width = gray.shape
    shape = (right - left, bottom - top)
    best = 0.0
    for large in _render_letter(word):
        glyph = np.pad(_resize(large, shape), 2)
        for dx, dy in itertools.product(range(-2, 3), repeat=2):
            x0, y0, x1, y1 = left - 2 + dx, top - 2 + dy, right + 2 + dx, bottom + 2 + dy
            seen = gray[max(0, y0) : max(0, min(y1, height)), max(0, x0) : max(0, min(x1, width))]
            part = glyph[
                max(0, -y0) : max(0, -y0) + seen.shape[0], max(0, -x0) : max(0, -x0) + seen.shape[1]
            ]
            if min(seen.shape) >= 3 and seen.max() >= 150 and part.max() >= 150:
                a, b = seen - seen.mean(), part - part.mean()
                likeness = (a * b).sum() / max(1e-6, np.sqrt((a * a).sum() * (b * b).sum()))
                best = max(best, float(likeness))
    return best


def _count_black_lines(lines: Gray) -> int:
    """How many lines beside the glyphs are black, the nearest first; that one may hold a glyph's
    blurred edge."""
    if not lines.size:
        return 0
    dark = np.percentile(lines, 90, axis=1) < CUTS[0]
    black = dark & (lines.mean(1) < BLACK)
    black[0] = dark[0] and (black[0] or bool(black[1:2].any()))
    return len(black) if black.all() else int(np.argmin(black))


def _glyphs(gray: Gray, cut: int, letters: str) -> list[Glyph]:
    """The connected bright shapes on black that could be capitals, and what they look like."""
    _, _, stats, _ = cv2.connectedComponentsWithStats((gray > cut).astype(np.uint8), connectivity=8)
    w, h, size = stats[1:, 2:].T
    shape = (h >= HEIGHTS[0]) & (h <= HEIGHTS[1]) & (w >= 0.35 * h) & (w <= 1.25 * h)
    keep = shape & (size >= 0.15 * w * h) & (size <= 0.85 * w * h)
    boxes = stats[1:][keep][:, :4]
    boxes = boxes[_on_black(gray, boxes)]
    if not len(boxes):
        return []
    patches = np.stack([_normalize(gray[y : y + h, x : x + w]) for x, y, w, h in boxes])
    templates, owner = _templates(letters)
    scores = patches @ templates.T  # correlations; for each letter the best over fonts and sizes
    likeness = np.stack([scores[:, owner == n].max(1) for n in range(len(letters))], axis=1)
    return [
        Glyph((int(x), int(y), int(x + w), int(y + h)), row)
        for (x, y, w, h), row in zip(boxes, likeness, strict=True)
    ]


def _on_black(gray: Gray, boxes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether the pixel lines just around each box are black in the mean."""
    total = cv2.integral(gray)
    height, width = gray.shape
    x, y, w, h = boxes.T.astype(int)

    def sums(margin: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        left, top = np.maximum(x - margin, 0), np.maximum(y - margin, 0)
        right, bottom = np.minimum(x + w + margin, width), np.minimum(y + h + margin, height)
        inner = (
            total[bottom, right].astype(np.int64)
            - total[top, right]
            - total[bottom, left]
            + total[top, left]
        )
        return inner, (right - left) * (bottom - top)

    (outer, outer_size), (inner, inner_size) = sums(1), sums(0)
    return np.asarray((outer - inner) < BLACK * np.maximum(outer_size - inner_size, 1))


def _normalize(patch: Gray) -> NDArray[np.float32]:
    """A glyph stretched to the canvas, with mean 0 and length 1."""
    canvas = (
        cv2.resize(patch, (CANVAS, CANVAS), interpolation=cv2.INTER_LINEAR)
        .astype(np.float32)
        .ravel()
    )
    canvas -= canvas.mean()
    return np.asarray(canvas / max(1e-6, float(np.linalg.norm(canvas))), np.float32)


@lru_cache(maxsize=32)
def _templates(letters: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Canvases (n, CANVAS²) of all letters in all fonts and sizes, and the number of the letter of
    each."""
    made = [
        (_normalize(small), number)
        for number, letter in enumerate(letters)
        for large in _render_letter(letter)
        for size in SIZES
        for phase in (0.0, 0.5)
        for small in _shrink(large, size, phase)
    ]
    return np.stack([canvas for canvas, _ in made]), np.array([number for _, number in made])


def _render_letter(letter: str) -> Iterator[Gray]:
    """The letter, large, white on black: Pillow's own font plain and bold, and as thin and thick
    strokes."""
    font = ImageFont.load_default(96)
    for weight in (0, 4):
        image = Image.new("L", (220, 220))
        ImageDraw.Draw(image).text((60, 40), letter, fill=255, font=font, stroke_width=weight)
        yield _trim(np.asarray(image))
    if letter in BLINK_LETTERS:
        yield _trim(render_text(letter, BLINK_SIZE, "blink"))
    for name in (letter, f"{letter} "):
        for width, height, weight in PENS:
            if name in STROKES:
                canvas = np.zeros((height + 50, 120), np.uint8)
                for stroke in STROKES[name]:
                    path = np.rint(np.array(stroke) * (width, height) + 20).astype(np.int32)
                    cv2.polylines(canvas, [path], False, 255, weight, cv2.LINE_AA)
                yield _resize(_trim(canvas), (width + weight, 80))


def _resize(image: Gray, size: tuple[int, int]) -> Gray:
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def _trim(image: Gray, cut: int = CUTS[0]) -> Gray:
    ys, xs = np.nonzero(image > cut)
    return image[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1]


def _shrink(large: Gray, size: int, phase: float) -> Iterator[Gray]:
    """The letter at a capital height of `size` pixels, shifted by a part of a pixel."""
    scale = size / large.shape[0]
    shift = round(phase / scale)
    pad = round(1 / scale)
    framed = np.pad(large, ((pad + shift, pad), (pad + shift, pad)))
    shape = (max(3, round(framed.shape[1] * scale)), max(3, round(framed.shape[0] * scale)))
    small = _resize(framed, shape)
    for image in (small, np.uint8(255) * (small > 60), np.uint8(255) * (small > 127)):
        if (image > CUTS[0]).any():
            yield _trim(image)


def _find_words(
    word: str, letters: str, glyphs: Sequence[Glyph]
) -> Iterator[tuple[float, PixelRect]]:
    """Where glyphs in a row spell the word, with their mean likeness."""

    def follows(first: PixelRect, second: PixelRect) -> bool:
        """Whether the second glyph stands next in the row of the first."""
        height = first[3] - first[1]
        level = max(abs(first[3] - second[3]), abs(first[1] - second[1])) <= 1 + height // 8
        return level and -1 <= second[0] - first[2] <= 0.5 * height

    numbers = [letters.index(letter) for letter in word]
    rows = [[glyph] for glyph in glyphs if glyph.likeness[numbers[0]] >= LIKENESS]
    for number in numbers[1:]:
        next_ones = [glyph for glyph in glyphs if glyph.likeness[number] >= LIKENESS]
        rows = [
            [*row, glyph]
            for row in rows
            for glyph in next_ones
            if follows(row[-1].area, glyph.area)
        ]
    for row in rows:
        likeness = float(
            np.mean([glyph.likeness[number] for glyph, number in zip(row, numbers, strict=True)])
        )
        areas = np.array([glyph.area for glyph in row])
        left, top = (int(edge) for edge in areas[:, :2].min(0))
        right, bottom = (int(edge) for edge in areas[:, 2:].max(0))
        yield likeness, (left, top, right, bottom)

"""Finds and reads short white words on black plates: the burnt-in labels of markers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from looktwice.extras.burnt_in.rings import get_window
from looktwice.extras.toolkits.hershey import get_hershey_strokes
from looktwice.pipelines.geometry import XY, PixelRect, Size, intersect_boxes, overlaps
from looktwice.pipelines.marks import mask_bounds
from looktwice.prompting.drawing.text import BLINK_FONT_SIZE, BLINK_LETTERS, render_text

# thresholds between white strokes and black plate: the lower for thin, the upper for blurred ones
INK_THRESHOLDS = (96, 150)
CAPITAL_HEIGHT_RANGE = (5, 40)  # pixels of a capital
MAX_BLACK_LUMA = 56.0  # maximum mean luma of a plate's margin; JPEG of quality 75 leaves about 20
CANVAS_SIDE = 16  # side of the square on which glyphs are compared
TEMPLATE_HEIGHTS = (5, 7, 9, 12, 18, 28)  # capital heights of the templates, in pixels
MIN_LIKENESS = 0.72  # minimum correlation with the best template
Gray = NDArray[np.uint8]

# width, height, stroke; the last one has thinner horizontal strokes
PEN_SETTINGS = ((48, 70, 9), (58, 70, 14), (54, 140, 16))


@dataclass(frozen=True)
class ReadLabel:
    """A label that was read: `area` encloses its glyphs in pixels, `plate` is the black rectangle
    around them."""

    text: str
    likeness: float
    area: PixelRect
    plate: PixelRect

    @property
    def center(self) -> XY:
        """The centre (x, y) of the plate, in pixel-centre coordinates."""
        left, top, right, bottom = self.plate
        return (left + right - 1) / 2, (top + bottom - 1) / 2


@dataclass(frozen=True, eq=False)
class Glyph:
    """A white shape on black, and its similarity to each capital that is searched for."""

    area: PixelRect
    likeness: NDArray[np.float32]


def read_labels(gray: Gray, words: Sequence[str]) -> list[ReadLabel]:
    """Find every area in the luma (HxW) that reads as one of `words`, which are in capitals; the
    most likely first."""
    letters = "".join(sorted(set("".join(words))))
    if not letters:
        return []
    glyphs = [glyph for cut in INK_THRESHOLDS for glyph in _find_glyphs(gray, cut, letters)]
    readings: list[ReadLabel] = []
    for word in words:
        for likeness, area in _find_words(word, letters, glyphs):
            plate = find_plate(gray, area)
            if plate is not None:
                readings.append(ReadLabel(word, likeness, area, plate))
    # one label for each place and word: the longest word first, then the likeliest reading
    kept: list[ReadLabel] = []
    for label in sorted(readings, key=lambda label: (-len(label.text), -label.likeness)):
        over = [longer.text for longer in kept if overlaps(label.area, longer.area)]
        if not any(text == label.text or len(text) > len(label.text) for text in over):
            kept.append(label)
    return sorted(kept, key=lambda label: -label.likeness)


def shift_area(area: PixelRect, x: int, y: int) -> PixelRect:
    """Return an area moved by whole pixels."""
    return area[0] + x, area[1] + y, area[2] + x, area[3] + y


def find_plate(gray: Gray, area: PixelRect) -> PixelRect | None:
    """Return the black rectangle around glyphs, or None if black does not surround them.

    A plate on a dark background has no visible edge, so it is taken to extend by at most half a
    capital's height.
    """
    left, top, right, bottom = area
    most = max(3, (bottom - top) // 2)
    columns = get_window(gray, (left - most, top - 1, right + most, bottom + 1)).T
    rows = get_window(gray, (left - 1, top - most, right + 1, bottom + most))
    reach: list[int] = []
    for lines, start, length in ((columns, left, right - left), (rows, top, bottom - top)):
        first = min(most, start)  # lines before the glyphs, inside the picture
        for beside in (lines[:first][::-1], lines[first + length :]):
            black = _count_black_lines(beside)
            if black < 1 and len(beside):
                return None
            reach.append(black)
    return left - reach[0], top - reach[2], right + reach[1], bottom + reach[3]


def measure_partial_likeness(gray: Gray, area: PixelRect, word: str) -> float:
    """Return the correlation, -1..1, of the visible part of `area` with the same part of the word.
    The area may be off by 2 px."""
    best, (height, width) = 0.0, gray.shape
    around = (area[0] - 2, area[1] - 2, area[2] + 2, area[3] + 2)
    for large in _render_letter(word):
        glyph = np.pad(_resize(large, (area[2] - area[0], area[3] - area[1])), 2)
        for dx, dy in itertools.product(range(-2, 3), repeat=2):
            place = shift_area(around, dx, dy)
            seen = intersect_boxes(place, (0, 0, width, height))
            if seen is None or min(seen[2] - seen[0], seen[3] - seen[1]) < 3:
                continue
            shown, part = (
                get_window(gray, seen),
                get_window(glyph, shift_area(seen, -place[0], -place[1])),
            )
            if shown.max() >= 150 and part.max() >= 150:
                best = max(best, float(np.corrcoef(shown.ravel(), part.ravel())[0, 1]))
    return best


def _count_black_lines(lines: Gray) -> int:
    """Count the black lines beside the glyphs, from the nearest on; the nearest may contain a
    glyph's blurred edge."""
    if not lines.size:
        return 0
    dark = np.percentile(lines, 90, axis=1) < INK_THRESHOLDS[0]
    black = dark & (lines.mean(1) < MAX_BLACK_LUMA)
    black[0] = dark[0] and black[:2].any()
    return int(np.argmin([*black, False]))


def _find_glyphs(gray: Gray, least: int, letters: str) -> list[Glyph]:
    """Find the connected components brighter than `least` that lie on a black background and have
    the size and aspect ratio of a capital letter."""
    bright = (gray > least).astype(np.uint8)
    _, _, stats, _ = cv2.connectedComponentsWithStats(bright, connectivity=8)
    w, h = stats[1:, 2:4].T
    shape = (
        (h >= CAPITAL_HEIGHT_RANGE[0])
        & (h <= CAPITAL_HEIGHT_RANGE[1])
        & (w >= 0.35 * h)
        & (w <= 1.25 * h)
    )
    templates, owner = _render_templates(letters)
    glyphs: list[Glyph] = []
    for x, y, width, height, count in stats[1:][shape].tolist():
        area = (x, y, x + width, y + height)
        inner, outer = get_window(gray, area), get_window(gray, area, 1)
        rim = int(outer.sum(dtype=int)) - int(inner.sum(dtype=int))
        on_black = rim < MAX_BLACK_LUMA * max(1, outer.size - inner.size)
        if on_black and 0.15 <= count / inner.size <= 0.85:
            scores = templates @ _normalize(inner)
            best = np.full(len(letters), -1, np.float32)  # per letter, over fonts and sizes
            np.maximum.at(best, owner, scores)
            glyphs.append(Glyph(area, best))
    return glyphs


def _normalize(patch: Gray) -> NDArray[np.float32]:
    """Return a glyph stretched to the canvas, with mean 0 and length 1."""
    canvas = cv2.resize(patch, (CANVAS_SIDE, CANVAS_SIDE)).astype(np.float32).ravel()
    canvas -= canvas.mean()
    return np.asarray(canvas / max(1e-6, float(np.linalg.norm(canvas))), np.float32)


@lru_cache(maxsize=32)
def _render_templates(letters: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return canvases (n, CANVAS_SIDE²) of all letters in all fonts and sizes, and the index of the
    letter on each canvas."""
    canvases, owner = [], []
    for number, letter in enumerate(letters):
        for large, size, phase in itertools.product(
            _render_letter(letter), TEMPLATE_HEIGHTS, (0, 0.5)
        ):
            # at a capital height of `size` pixels, shifted by a fraction of a pixel
            pixel = large.shape[0] / size
            before, after = round(pixel) + round(phase * pixel), round(pixel)
            framed = np.pad(large, (before, after))
            height, width = (max(3, round(side / pixel)) for side in framed.shape)
            small = _resize(framed, (width, height))
            for image in (small, np.uint8(255) * (small > 60), np.uint8(255) * (small > 127)):
                if image.max() > INK_THRESHOLDS[0]:
                    canvases.append(_normalize(_trim(image)))
                    owner.append(number)
    return np.stack(canvases), np.array(owner)


def _render_letter(letter: str) -> Iterator[Gray]:
    """Yield the letter, large, white on black: in Pillow's own font, plain and bold, and in thin
    and thick strokes, as drawing libraries without TrueType render it."""
    font = ImageFont.load_default(96)
    for weight in (0, 4):
        image = Image.new("L", (220, 220))
        ImageDraw.Draw(image).text((60, 40), letter, fill=255, font=font, stroke_width=weight)
        yield _trim(np.asarray(image))
    if letter in BLINK_LETTERS:
        yield _trim(render_text(letter, BLINK_FONT_SIZE, "blink"))
    if len(letter) == 1:
        _, *strokes = get_hershey_strokes(letter)
        points = np.concatenate(strokes)
        low, span = points.min(0), np.maximum(np.ptp(points, axis=0), 1)
        for width, height, weight in PEN_SETTINGS:
            canvas = np.zeros((height + 50, 120), np.uint8)
            for stroke in strokes:
                path = np.rint((stroke - low) / span * (width, height) + 20).astype(np.int32)
                cv2.polylines(canvas, [path], False, 255, weight, cv2.LINE_AA)
            yield _resize(_trim(canvas), (width + weight, 80))


def _resize(image: Gray, size: Size) -> Gray:
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def _trim(image: Gray) -> Gray:
    left, top, right, bottom = mask_bounds(image > INK_THRESHOLDS[0])
    return image[top:bottom, left:right]


def _find_words(
    word: str, letters: str, glyphs: Sequence[Glyph]
) -> Iterator[tuple[float, PixelRect]]:
    """Yield the areas where glyphs in a row spell the word, with their mean likeness."""
    rows: list[list[tuple[float, PixelRect]]] = [[]]
    for letter in word:
        likeness = [float(glyph.likeness[letters.index(letter)]) for glyph in glyphs]
        fits = [
            (like, g.area) for like, g in zip(likeness, glyphs, strict=True) if like >= MIN_LIKENESS
        ]
        longer = []
        for row, (like, area) in itertools.product(rows, fits):
            left, top, right, bottom = row[-1][1] if row else area
            high = bottom - top
            level = max(abs(bottom - area[3]), abs(top - area[1])) <= 1 + high // 8
            # the next glyph of the row
            if not row or (level and -1 <= area[0] - right <= 0.5 * high):
                longer.append([*row, (like, area)])
        rows = longer
    for row in rows:
        likeness, areas = [like for like, _ in row], np.array([area for _, area in row])
        left, top = areas[:, :2].min(0).tolist()
        right, bottom = areas[:, 2:].max(0).tolist()
        yield float(np.mean(likeness)), (left, top, right, bottom)

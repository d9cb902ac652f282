"""Finds the markers in a picture: pairs rings of one style with the labels beside them, even if a
label is cut off."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from looktwice.extras.burnt_in.label_ocr import (
    Gray,
    ReadLabel,
    measure_partial_likeness,
    read_labels,
    shift_area,
)
from looktwice.extras.burnt_in.rings import (
    Map,
    Ring,
    find_rings,
    get_window,
    measure_closeness,
    refine_ring,
    score_ring,
    sharpen_rings,
)
from looktwice.pipelines.geometry import XY, PixelRect, intersect_boxes, overlaps
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import parse_rgb

COARSE_STROKE = 3.0  # stroke, in pixels, for the first search for rings
MIN_RING_SCORE = 0.5  # minimum correlation of a ring beside a label
MIN_SIMILAR_SCORE = (
    0.35  # the same, if another marker of the picture has the same style and arrangement
)
MIN_LONE_SCORE = 0.8  # the same, if it is the only one found of several expected
ARRANGEMENT_BONUS = 0.1  # bonus, in correlation, for two markers with the same arrangement
MIN_PREDICTED_SCORE = 0.25  # minimum correlation at the place predicted from another marker
PLATE_GAP_RANGE = (-3.0, 18.0)  # pixels between a ring's outer edge and its plate
MAX_READINGS = 4  # readings per word to follow up


@dataclass(frozen=True)
class Marker:
    """A ring and its label; `plate` is the black rectangle behind the label in pixels, `glyphs` the
    letters on it.

    Both are None if they lie outside the picture.
    """

    label: str
    ring: Ring
    plate: PixelRect | None = None
    glyphs: PixelRect | None = None


@dataclass(frozen=True, eq=False)
class MarkerScene:
    """A picture prepared for the search: its luma, and the closeness of each pixel to each named
    colour."""

    gray: Gray
    closeness: Mapping[str, Map]
    radii: tuple[float, float]

    @classmethod
    def from_pixels(
        cls, pixels: Pixels, colors: Sequence[str], radii: tuple[float, float]
    ) -> MarkerScene:
        """Prepare RGB pixels HxWx3 for the search."""
        gray = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.uint8)
        closeness = {color: measure_closeness(pixels, parse_rgb(color)) for color in colors}
        return cls(gray, closeness, radii)

    @property
    def coarse_radii(self) -> list[float]:
        """The radii that are tried first: 1 pixel apart, then 1.5 pixels."""
        low, high = self.radii
        return [*np.arange(low, min(7.0, high), 1.0), *np.arange(max(low, 7.0), high + 0.75, 1.5)]


@dataclass(frozen=True)
class LabelRingPair:
    """A reading and a ring that may belong together."""

    label: ReadLabel
    ring: Ring
    score: float

    @property
    def offset(self) -> XY:
        """The vector from the centre of the plate to the centre of the ring."""
        x, y = self.label.center
        return self.ring.x - x, self.ring.y - y


def find_markers(
    scene: MarkerScene, words: Sequence[str], style: Ring | None = None
) -> list[Marker]:
    """Find at most one marker for each word, all in one style. Markers whose label cannot be read
    are left out.

    If several words are expected and only one marker is found, it needs a higher score than each of
    several markers in one style, unless it has the `style` of a ring in another picture.
    """
    readings: dict[str, list[ReadLabel]] = {word: [] for word in words}
    for label in read_labels(scene.gray, words):
        readings[label.text].append(label)
    pairs: list[LabelRingPair] = []
    for labels in readings.values():
        del labels[MAX_READINGS:]
        for label in labels:
            pairs += _propose_pairs(scene, label)
    picked = _pick_one_style(pairs, len(words), style)
    blank = blank_out(scene, [pair.label.area for pair in picked])
    chosen = [
        replace(pair, ring=refine_ring(blank.closeness[pair.ring.color], pair.ring, scene.radii))
        for pair in picked
    ]
    clear = list(chosen)
    for labels in readings.values() if clear else ():
        faint = [_search_by_arrangement(blank, label, clear) for label in labels]
        best = max(faint, key=lambda pair: pair.score * _is_separate(pair, chosen), default=None)
        if best and best.score >= MIN_PREDICTED_SCORE and _is_separate(best, chosen):
            chosen.append(best)
    sharp = sharpen_rings(scene.gray, [pair.ring for pair in chosen])
    return [
        Marker(pair.label.text, ring, pair.label.plate, pair.label.area)
        for pair, ring in zip(chosen, sharp, strict=True)
    ]


def blank_out(scene: MarkerScene, glyphs: Sequence[PixelRect]) -> MarkerScene:
    """Return the scene with zero closeness to all colours in these glyphs, so that no letter is
    taken for a ring."""
    closeness = {name: values.copy() for name, values in scene.closeness.items()}
    for values in closeness.values():
        for area in glyphs:
            get_window(values, area, 2)[:] = 0
    return replace(scene, closeness=closeness)


def _propose_pairs(scene: MarkerScene, label: ReadLabel) -> Iterator[LabelRingPair]:
    """Yield a pair for each ring that is near the label."""
    reach = int(2 * scene.radii[1] + PLATE_GAP_RANGE[1] + 4)
    left, top = max(0, label.plate[0] - reach), max(0, label.plate[1] - reach)
    for color, closeness in scene.closeness.items():
        window = get_window(closeness, label.plate, reach).copy()
        get_window(window, shift_area(label.area, -left, -top), 1)[:] = 0
        for ring in find_rings(
            window, color, scene.coarse_radii, COARSE_STROKE, 3, MIN_SIMILAR_SCORE - 0.1
        ):
            ring = replace(ring, x=ring.x + left, y=ring.y + top)
            penalty = _compute_placement_penalty(scene, label, ring)
            if penalty is not None:
                yield LabelRingPair(
                    label, ring, ring.score - penalty + 0.3 * (label.likeness - 0.8)
                )


def _compute_placement_penalty(scene: MarkerScene, label: ReadLabel, ring: Ring) -> float | None:
    """Return a penalty for an unusual position of the label: 0 directly above, below or beside the
    ring; None if they cannot belong together."""
    left, top, right, bottom = label.plate
    across = max(left - ring.x, 0, ring.x - right + 1)
    down = max(top - ring.y, 0, ring.y - bottom + 1)
    if not PLATE_GAP_RANGE[0] <= np.hypot(across, down) - ring.outer <= PLATE_GAP_RANGE[1]:
        return None
    (x, y), (height, width) = label.center, scene.gray.shape
    if min(abs(ring.x - x), abs(ring.y - y)) <= 2.5:
        return 0.0
    return 0.05 if min(left, top, width - right, height - bottom) <= 1 else 0.12


def _pick_one_style(
    pairs: Sequence[LabelRingPair], expected: int, style: Ring | None
) -> list[LabelRingPair]:
    """Return the best pair for each word such that all rings share a style."""
    best, most = list[LabelRingPair](), 0.0
    ranked = sorted(pairs, key=lambda pair: -pair.score)
    for first in ranked[:12]:
        if first.score < MIN_RING_SCORE or (style and not have_same_style(first.ring, style)):
            continue
        picked, total = (
            [first],
            first.score + ARRANGEMENT_BONUS,
        )  # each word and each ring is used once
        for pair in ranked:
            # ring and label are arranged alike
            alike = np.hypot(*np.subtract(pair.offset, first.offset)) <= 3
            enough = pair.score >= (MIN_SIMILAR_SCORE if alike else MIN_RING_SCORE)
            if enough and have_same_style(pair.ring, first.ring) and _is_separate(pair, picked):
                picked.append(pair)
                total += pair.score + ARRANGEMENT_BONUS * bool(alike)
        if total > most:
            best, most = picked, total
    lone = len(best) == 1 < expected and style is None
    return [] if lone and best[0].score < MIN_LONE_SCORE else best


def _is_separate(pair: LabelRingPair, picked: Sequence[LabelRingPair]) -> bool:
    """Return whether a pair is distinct from those already picked: another word, another ring, and
    no ring that is a letter of the other pair's label."""
    return not any(
        pair.label.text == taken.label.text
        or overlaps(pair.label.area, taken.label.area)
        or _shares_shape(pair, taken)
        or _shares_shape(taken, pair)
        for taken in picked
    )


def _shares_shape(first: LabelRingPair, second: LabelRingPair) -> bool:
    """Return whether the ring of the first pair is the ring or a letter of the second."""
    (left, top, right, bottom), ring = second.label.area, first.ring
    letter = left - 1 <= ring.x <= right and top - 1 <= ring.y <= bottom
    return letter or measure_ring_distance(ring, second.ring) <= ring.radius / 2


def have_same_style(first: Ring, second: Ring) -> bool:
    """Return whether two rings, found with coarse steps of radius, may share a style."""
    return first.color == second.color and abs(first.radius - second.radius) <= 1.6


def measure_ring_distance(first: Ring, second: Ring) -> float:
    """Return the distance between the centres of two rings, in pixels."""
    return float(np.hypot(first.x - second.x, first.y - second.y))


def _search_by_arrangement(
    scene: MarkerScene, label: ReadLabel, pairs: Sequence[LabelRingPair]
) -> LabelRingPair:
    """Return the best ring, however faint, whose offset from the label is about that of a known
    marker."""
    (x, y), options = label.center, list[Ring]()
    for pair in pairs:
        dx, dy = pair.offset
        for a, b in itertools.product((-1.0, 0.0, 1.0), repeat=2):
            ring = replace(pair.ring, x=x + dx + a, y=y + dy + b)
            options.append(replace(ring, score=score_ring(scene.closeness[ring.color], ring)))
    best = max(options, key=lambda ring: ring.score)
    return LabelRingPair(label, best, best.score)


MIN_UNLABELLED_SCORE = 0.72  # minimum correlation of a ring without a readable label
MIN_ODD_STYLE_SCORE = 0.85  # the same, if no other marker shows the style
EXPECTED_RADIUS = 5.0  # radius, +-1, without another marker: that of BLINK's released pictures
MAX_RIM_RINGS = 40  # maximum number of rings to examine
MIN_VISIBLE_LIKENESS = 0.6  # minimum correlation of a letter's visible part
MIN_LETTER_LEAD = 0.05  # minimum lead in correlation over any other letter
LETTER_PITCH = 10  # pixels from one letter of a word to the next
LABEL_HEIGHT = 29  # pixels from the point up to the top of its glyphs, in BLINK's released pictures


@dataclass(frozen=True)
class LabelLayout:
    """The position of glyphs and plate relative to a point. The default is that of BLINK's released
    pictures, for pictures without a readable marker."""

    glyphs: PixelRect = (-4, -LABEL_HEIGHT, 5, -LABEL_HEIGHT + 11)
    plate: PixelRect = (-7, -LABEL_HEIGHT - 2, 7, -LABEL_HEIGHT + 13)

    @classmethod
    def from_markers(cls, markers: Sequence[Marker]) -> LabelLayout:
        """Return the layout of the first marker whose label was read."""
        for marker in markers:
            if marker.glyphs and marker.plate:
                x, y = -round(marker.ring.x), -round(marker.ring.y)
                return cls(shift_area(marker.glyphs, x, y), shift_area(marker.plate, x, y))
        return cls()


def find_clipped_markers(
    scene: MarkerScene,
    words: Sequence[str],
    markers: Sequence[Marker],
    color: str,
    examples: Sequence[Marker],
) -> list[Marker]:
    """Find markers whose label lies partly or wholly outside the picture, for words that were not
    read anywhere.

    The search uses the style of the known `markers` of the picture, or of the markers from other
    pictures, `examples`. Without either it uses `color` and the label layout of BLINK's released
    pictures. A letter is identified by its visible part, or, if none is visible, as the only one
    left.
    """
    pattern = next((marker.ring for marker in (*markers, *examples)), None)
    style = pattern or Ring(0, 0, EXPECTED_RADIUS, COARSE_STROKE, color, 0)
    radii = (
        [style.radius] if pattern else [EXPECTED_RADIUS - 1, EXPECTED_RADIUS, EXPECTED_RADIUS + 1]
    )
    closeness = blank_out(scene, [m.glyphs for m in markers if m.glyphs]).closeness[style.color]
    layout, rings = (
        LabelLayout.from_markers([*markers, *examples]),
        [marker.ring for marker in markers],
    )
    height, width = scene.gray.shape
    for ring in find_rings(
        closeness, style.color, radii, style.stroke, MAX_RIM_RINGS, MIN_RING_SCORE
    ):
        left, top, right, bottom = shift_area(layout.glyphs, round(ring.x), round(ring.y))
        if min(left, top, width - right, height - bottom) >= 0:
            continue  # its label could have been read
        ring = refine_ring(closeness, ring, scene.radii)
        plain = ring.score >= (MIN_UNLABELLED_SCORE if pattern else MIN_ODD_STYLE_SCORE)
        apart = all(measure_ring_distance(ring, taken) > ring.radius for taken in rings)
        if plain and apart and abs(ring.radius - style.radius) <= 1:
            rings.append(ring)
    rings = sorted(rings[len(markers) :], key=lambda ring: -ring.score)
    if pattern:
        rings = [replace(ring, radius=pattern.radius, stroke=pattern.stroke) for ring in rings]
    else:
        rings = sharpen_rings(scene.gray, rings)
    return _assign_words(scene.gray, words, rings, layout, pattern is not None)


def _assign_words(
    gray: Gray, words: Sequence[str], rings: Sequence[Ring], layout: LabelLayout, last: bool
) -> list[Marker]:
    """Assign the words to the rings so that the visible letters match best overall. With `last`, a
    single remaining word is assigned to a single remaining ring without visible letters."""
    # imported here, since it takes half a second
    from scipy.optimize import linear_sum_assignment

    likeness = np.zeros((len(rings), len(words)))
    plates = {}
    for row, column in np.ndindex(likeness.shape):
        x, y, word = round(rings[row].x), round(rings[row].y), words[column]
        more = (
            LETTER_PITCH * (len(word) - 1) // 2
        )  # pixels to either side, more than for one letter
        areas = [(a - more, b, c + more, d) for a, b, c, d in (layout.glyphs, layout.plate)]
        glyphs, plates[row, column] = (shift_area(area, x, y) for area in areas)
        likeness[row, column] = measure_partial_likeness(gray, glyphs, word)
    named, (height, width) = [], gray.shape
    for row, column in np.transpose(linear_sum_assignment(-likeness)).tolist():
        best, others = likeness[row, column], np.delete(likeness[row], column)
        sure = best >= MIN_VISIBLE_LIKENESS and best > others.max(initial=0) + MIN_LETTER_LEAD
        if sure or (last and likeness.size == 1):
            plate = intersect_boxes(plates[row, column], (0, 0, width, height))
            named.append(Marker(words[column], rings[row], plate))
    return named

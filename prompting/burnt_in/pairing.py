"""Markers in a picture: rings paired with their labels by both and by a common style, also where a
label is cut off."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from looktwice.pipelines.geometry import PixelRect, common_rect, overlaps
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.burnt_in.label_ocr import (
    Gray,
    ReadLabel,
    partial_likeness,
    read_labels,
    shift,
)
from looktwice.prompting.burnt_in.rings import (
    Map,
    Ring,
    color_closeness,
    find_rings,
    refine_ring,
    ring_score,
    sharpen_rings,
)

COARSE = 3.0  # stroke that rings are first looked for with, in pixels
SURE = 0.5  # correlation from which a ring beside a label is one
LIKE = 0.35  # the same where another marker of the picture has the same style and arrangement
LONE = 0.8  # the same where it is the only one of several that must be there
BONUS = 0.1  # what it is worth, in correlation, that two markers are arranged alike
FAINT = 0.25  # the same at the very place where the style of another marker puts the ring
GAPS = (-3.0, 18.0)  # pixels between a ring's outer edge and its plate
MOST = 4  # readings per word that are followed up


@dataclass(frozen=True)
class Marker:
    """A ring and its label; `plate` is the black rectangle behind the label in pixels, `glyphs` the
    letters on it.

    Both are None where they lie outside the picture.
    """

    label: str
    ring: Ring
    plate: PixelRect | None = None
    glyphs: PixelRect | None = None


@dataclass(frozen=True, eq=False)
class MarkerScene:
    """A picture as the search sees it: luma, and how close each pixel is to each colour by name."""

    gray: Gray
    near: Mapping[str, Map]
    radii: tuple[float, float]

    @classmethod
    def of(
        cls, pixels: Pixels, colors: Mapping[str, tuple[int, int, int]], radii: tuple[float, float]
    ) -> MarkerScene:
        """From RGB pixels HxWx3."""
        gray = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.uint8)
        return cls(
            gray, {name: color_closeness(pixels, color) for name, color in colors.items()}, radii
        )

    @property
    def steps(self) -> list[float]:
        """The radii that are tried first: a pixel apart, then a pixel and a half."""
        low, high = self.radii
        return [*np.arange(low, min(7.0, high), 1.0), *np.arange(max(low, 7.0), high + 0.75, 1.5)]


@dataclass(frozen=True)
class Pair:
    """A reading and a ring that may belong together."""

    label: ReadLabel
    ring: Ring
    value: float

    @property
    def offset(self) -> tuple[float, float]:
        """From the middle of the plate to that of the ring."""
        x, y = self.label.center
        return self.ring.x - x, self.ring.y - y


def find_markers(
    scene: MarkerScene, words: Sequence[str], style: Ring | None = None
) -> list[Marker]:
    """At most one marker for each word, all in one style; those whose label cannot be read are left
    out.

    One marker alone, where several words may be there, must be plainer than several in one style,
    unless it has the `style` of a ring in another picture.
    """
    readings = read_labels(scene.gray, words)
    followed = [
        label
        for word in words
        for label in [label for label in readings if label.text == word][:MOST]
    ]
    pairs = [pair for label in followed for pair in _pairs(scene, label)]
    picked = _pick_one_style(pairs, len(words), style)
    if not picked:
        return []
    blank = blank_out(scene, [pair.label.area for pair in picked])
    chosen = [
        replace(pair, ring=refine_ring(blank.near[pair.ring.color], pair.ring, scene.radii))
        for pair in picked
    ]
    for word in {*words} - {pair.label.text for pair in chosen}:
        faint = [
            _search_by_arrangement(blank, label, chosen[: len(picked)])
            for label in followed
            if label.text == word
        ]
        faint = [pair for pair in faint if pair.ring.score >= FAINT and _fits_in(pair, chosen)]
        if faint:
            chosen.append(max(faint, key=lambda pair: pair.ring.score))
    sharp = sharpen_rings(scene.gray, [pair.ring for pair in chosen])
    return [
        Marker(p.label.text, ring, p.label.plate, p.label.area)
        for p, ring in zip(chosen, sharp, strict=True)
    ]


def blank_out(scene: MarkerScene, glyphs: Sequence[PixelRect]) -> MarkerScene:
    """The scene with nothing of any colour on these glyphs, so that no letter is taken for a
    ring."""
    near = {name: values.copy() for name, values in scene.near.items()}
    for left, top, right, bottom in glyphs:
        for values in near.values():
            values[max(0, top - 2) : bottom + 2, max(0, left - 2) : right + 2] = 0
    return replace(scene, near=near)


def _pairs(scene: MarkerScene, label: ReadLabel) -> Iterator[Pair]:
    """The rings around a label that it may belong to."""
    reach = int(2 * scene.radii[1] + GAPS[1] + 4)
    left, top = max(0, label.plate[0] - reach), max(0, label.plate[1] - reach)
    for color, near in scene.near.items():
        window = near[top : label.plate[3] + reach, left : label.plate[2] + reach].copy()
        own = shift(label.area, -left, -top)
        window[max(0, own[1] - 1) : own[3] + 1, max(0, own[0] - 1) : own[2] + 1] = 0
        for ring in find_rings(window, color, scene.steps, COARSE, 3, LIKE - 0.1):
            ring = replace(ring, x=ring.x + left, y=ring.y + top)
            penalty = _placement_penalty(scene, label, ring)
            if penalty is not None:
                yield Pair(label, ring, ring.score - penalty + 0.3 * (label.likeness - 0.8))


def _placement_penalty(scene: MarkerScene, label: ReadLabel, ring: Ring) -> float | None:
    """How little a label's place suits a ring, 0 above or below or beside it; None where it cannot
    belong to it."""
    left, top, right, bottom = label.plate
    across = max(left - ring.x, 0, ring.x - right + 1)
    down = max(top - ring.y, 0, ring.y - bottom + 1)
    gap = float(np.hypot(across, down)) - ring.outer
    if not GAPS[0] <= gap <= GAPS[1]:
        return None
    x, y = label.center
    height, width = scene.gray.shape
    rim = left <= 1 or top <= 1 or right >= width - 1 or bottom >= height - 1
    off = min(abs(ring.x - x), abs(ring.y - y))
    return 0.0 if off <= 2.5 else 0.05 if rim else 0.12


def _pick_one_style(pairs: Sequence[Pair], expected: int, style: Ring | None) -> list[Pair]:
    """The best pair for each word such that all rings are alike."""
    best, most = list[Pair](), 0.0
    for first in sorted(pairs, key=lambda pair: -pair.value)[:12]:
        if first.value < SURE:
            break
        if style is None or same_style(first.ring, style):
            picked = [first]  # for each word its best pair, each ring given once
            alike = [pair for pair in pairs if same_style(pair.ring, first.ring)]
            for pair in sorted(alike, key=lambda pair: -pair.value):
                enough = pair.value >= (LIKE if _same_arrangement(pair, first) else SURE)
                if enough and _fits_in(pair, picked):
                    picked.append(pair)
            # those that are arranged like the first are better
            worth = sum(p.value + BONUS * _same_arrangement(p, first) for p in picked)
            if worth > most:
                best, most = picked, worth
    lone = len(best) == 1 < expected and style is None
    return [] if lone and best[0].value < LONE else best


def _same_arrangement(first: Pair, second: Pair) -> bool:
    """Whether ring and label lie alike in two pairs."""
    return bool(np.hypot(*np.subtract(first.offset, second.offset)) <= 3)


def _fits_in(pair: Pair, picked: Sequence[Pair]) -> bool:
    """Whether a pair is another marker than those that were picked already."""
    return all(
        _apart(pair, taken)
        and _apart(taken, pair)
        and not overlaps(pair.label.area, taken.label.area)
        for taken in picked
    )


def _apart(first: Pair, second: Pair) -> bool:
    """Whether two pairs are two markers: other words, other rings, and no letter of one is the ring
    of the other."""
    left, top, right, bottom = second.label.area
    ring = first.ring
    letter = left - 1 <= ring.x <= right and top - 1 <= ring.y <= bottom
    return (
        first.label.text != second.label.text
        and ring_distance(ring, second.ring) > ring.radius / 2
        and not letter
    )


def same_style(first: Ring, second: Ring) -> bool:
    """Whether two rings, found with coarse steps of radius, may be of one style."""
    return first.color == second.color and abs(first.radius - second.radius) <= 1.6


def ring_distance(first: Ring, second: Ring) -> float:
    return float(np.hypot(first.x - second.x, first.y - second.y))


def _search_by_arrangement(scene: MarkerScene, label: ReadLabel, pairs: Sequence[Pair]) -> Pair:
    """The best ring where those of the known markers lie relative to their labels, however
    faint."""
    x, y = label.center
    options = []
    for pair in pairs:
        dx, dy = pair.offset
        for a, b in itertools.product((-1.0, 0.0, 1.0), repeat=2):
            ring = replace(pair.ring, x=x + dx + a, y=y + dy + b)
            options.append(replace(ring, score=ring_score(scene.near[ring.color], ring)))
    best = max(options, key=lambda ring: ring.score)
    return Pair(label, best, best.score)


ALONE = 0.72  # correlation from which a ring is one, where no label can be read beside it
UNLIKE = 0.85  # the same where no other marker shows the style
RADII = (4.0, 5.0, 6.0)  # of rings without another marker: those of BLINK's released pictures
SEEN = 0.6  # correlation of a letter's visible part, at least
LEAD = 0.05  # by how much it must be likelier than any other letter
LETTER = 10  # pixels from one letter of a word to the next
HIGH = 29  # pixels from the point up to the top of its glyphs, in BLINK's released pictures


@dataclass(frozen=True)
class LabelLayout:
    """Where glyphs and plate lie relative to a point; without a readable marker, as in BLINK's
    released pictures."""

    glyphs: PixelRect = (-4, -HIGH, 5, -HIGH + 11)
    plate: PixelRect = (-7, -HIGH - 2, 7, -HIGH + 13)

    @classmethod
    def of(cls, markers: Sequence[Marker]) -> LabelLayout:
        """That of the first marker whose label was read."""
        for marker in markers:
            if marker.glyphs and marker.plate:
                x, y = -round(marker.ring.x), -round(marker.ring.y)
                return cls(shift(marker.glyphs, x, y), shift(marker.plate, x, y))
        return cls()


def find_clipped_markers(
    scene: MarkerScene,
    words: Sequence[str],
    markers: Sequence[Marker],
    color: str,
    like: Sequence[Marker] = (),
) -> list[Marker]:
    """Markers whose label lies partly or wholly outside the picture, for words that were read
    nowhere.

    They are looked for in the style of the `known` markers of the picture, or of those of other
    pictures that it is `like`, or without any in `color` and with the labels placed as BLINK
    released them. A letter is told from what can be seen of it; where nothing can be seen, by being
    the only one left.
    """
    style = next((marker.ring for marker in (*markers, *like)), None)
    if style:
        color = style.color
    near = blank_out(scene, [marker.glyphs for marker in markers if marker.glyphs]).near[color]
    layout = LabelLayout.of([*markers, *like])
    rings, (height, width) = [], scene.gray.shape
    for ring in _rings_near_edge(near, scene, markers, layout, color, style):
        left, top, right, bottom = shift(layout.glyphs, round(ring.x), round(ring.y))
        if left < 0 or top < 0 or right > width or bottom > height:  # else it could have been read
            rings.append(ring)
    return _assign_words(scene.gray, words, rings, layout, style is not None)


def _rings_near_edge(
    near: Map,
    scene: MarkerScene,
    markers: Sequence[Marker],
    layout: LabelLayout,
    color: str,
    style: Ring | None,
) -> list[Ring]:
    """The plain rings near the rim that are none of the known markers', the plainest first."""
    radii = [style.radius] if style else list(RADII)
    least = ALONE if style else UNLIKE
    stroke = style.stroke if style else COARSE
    rings: list[Ring] = []
    # the strips along the rim in which a point must lie so that its glyphs are cut off
    (height, width), reach = scene.gray.shape, round(max(radii) + stroke)
    x0, y0, x1, y1 = (max(0, out) + reach for out in np.multiply(layout.glyphs, (-1, -1, 1, 1)))
    strips = [(0, 0, width, min(y0, height)), (0, max(0, height - y1), width, height)]
    strips += [(0, 0, min(x0, width), height), (max(0, width - x1), 0, width, height)]
    for left, top, right, bottom in strips:
        for ring in find_rings(
            near[top:bottom, left:right], color, radii, stroke, len(markers) + 3, SURE
        ):
            ring = refine_ring(near, replace(ring, x=ring.x + left, y=ring.y + top), scene.radii)
            similar = (
                abs(ring.radius - style.radius) <= 1
                if style
                else RADII[0] <= ring.radius <= RADII[-1]
            )
            taken = [*rings, *(marker.ring for marker in markers)]
            if (
                ring.score >= least
                and similar
                and all(ring_distance(ring, near_by) > ring.radius for near_by in taken)
            ):
                rings.append(
                    replace(ring, radius=style.radius, stroke=style.stroke) if style else ring
                )
    rings.sort(key=lambda ring: -ring.score)
    return rings if style else sharpen_rings(scene.gray, rings)


def _assign_words(
    gray: Gray, words: Sequence[str], rings: Sequence[Ring], layout: LabelLayout, last: bool
) -> list[Marker]:
    """The rings with the letters that suit them best together; `last` where the only one left needs
    no proof."""
    # half a second, for which nobody else should wait
    from scipy.optimize import linear_sum_assignment

    if not rings:
        return []
    likeness = np.zeros((len(rings), len(words)))
    for row, column in np.ndindex(likeness.shape):
        x, y = round(rings[row].x), round(rings[row].y)
        area = shift(_widen(layout.glyphs, words[column]), x, y)
        likeness[row, column] = partial_likeness(gray, area, words[column])
    named, (height, width) = [], gray.shape
    for row, column in np.transpose(linear_sum_assignment(-likeness)).tolist():
        best, others = likeness[row, column], np.delete(likeness[row], column)
        sure = best >= SEEN and best > others.max(initial=0) + LEAD
        if sure or (last and len(words) == len(rings) == 1):
            ring, word = rings[row], words[column]
            plate = shift(_widen(layout.plate, word), round(ring.x), round(ring.y))
            named.append(Marker(word, ring, common_rect(plate, (0, 0, width, height))))
    return named


def _widen(area: PixelRect, word: str) -> PixelRect:
    """The area of one letter made as wide as the word."""
    more = LETTER * (len(word) - 1) // 2
    return area[0] - more, area[1], area[2] + more, area[3]

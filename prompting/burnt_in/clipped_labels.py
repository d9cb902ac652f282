"""Finds markers whose label is cut off by the picture's edge: the ring first, then what can be seen of the letter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from looktwice.pipelines.geometry import PixelRect, common_rect
from looktwice.prompting.burnt_in.label_ocr import Gray, partial_likeness, shift
from looktwice.prompting.burnt_in.pairing import COARSE, SURE, Marker, MarkerScene, blank_out, ring_distance
from looktwice.prompting.burnt_in.rings import Map, Ring, find_rings, refine_ring, sharpen_rings

ALONE = 0.72  # correlation from which a ring is one, where no label can be read beside it
UNLIKE = 0.85  # the same where no other marker shows the style
RADII = (4.0, 5.0, 6.0)  # of rings without another marker: those of BLINK's released pictures
SEEN = 0.6  # correlation of a letter's visible part, at least
LEAD = 0.05  # by how much it must be likelier than any other letter
LETTER = 10  # pixels from one letter of a word to the next
HIGH = 29  # pixels from the point up to the top of its glyphs, in BLINK's released pictures


@dataclass(frozen=True)
class LabelLayout:
    """Where glyphs and plate lie relative to a point; without a readable marker, as in BLINK's released pictures."""

    glyphs: PixelRect = (-4, -HIGH, 5, -HIGH + 11)
    plate: PixelRect = (-7, -HIGH - 2, 7, -HIGH + 13)

    @classmethod
    def of(cls, known: Sequence[Marker]) -> LabelLayout:
        """That of the first marker whose label was read."""
        for marker in known:
            if marker.glyphs and marker.plate:
                x, y = -round(marker.ring.x), -round(marker.ring.y)
                return cls(shift(marker.glyphs, x, y), shift(marker.plate, x, y))
        return cls()


def find_clipped_markers(
    scene: MarkerScene, words: Sequence[str], known: Sequence[Marker], color: str, like: Sequence[Marker] = ()
) -> list[Marker]:
    """Markers whose label lies partly or wholly outside the picture, for words that were read nowhere.

    They are looked for in the style of the `known` markers of the picture, or of those of other pictures that it is
    `like`, or without any in `color` and with the labels placed as BLINK released them. A letter is told from what
    can be seen of it; where nothing can be seen, by being the only one left.
    """
    style = next((marker.ring for marker in (*known, *like)), None)
    if style:
        color = style.color
    near = blank_out(scene, [marker.glyphs for marker in known if marker.glyphs]).near[color]
    layout = LabelLayout.of([*known, *like])
    found = [
        ring
        for ring in _rings_near_edge(near, scene, known, layout, color, style)
        if not _label_is_inside(scene.gray, layout, ring)
    ]
    return _assign_words(scene.gray, words, found, layout, style is not None)


def _rings_near_edge(
    near: Map, scene: MarkerScene, known: Sequence[Marker], layout: LabelLayout, color: str, style: Ring | None
) -> list[Ring]:
    """The plain rings near the rim that are none of the known markers', the plainest first."""
    radii = [style.radius] if style else list(RADII)
    least = ALONE if style else UNLIKE
    stroke = style.stroke if style else COARSE
    found: list[Ring] = []
    for left, top, right, bottom in _edge_strips(scene.gray, layout.glyphs, round(max(radii) + stroke)):
        for ring in find_rings(near[top:bottom, left:right], color, radii, stroke, len(known) + 3, SURE):
            ring = refine_ring(near, replace(ring, x=ring.x + left, y=ring.y + top), scene.radii)
            similar = abs(ring.radius - style.radius) <= 1 if style else RADII[0] <= ring.radius <= RADII[-1]
            taken = [*found, *(marker.ring for marker in known)]
            if ring.score >= least and similar and all(ring_distance(ring, other) > ring.radius for other in taken):
                found.append(replace(ring, radius=style.radius, stroke=style.stroke) if style else ring)
    found.sort(key=lambda ring: -ring.score)
    return found if style else sharpen_rings(scene.gray, found)


def _edge_strips(gray: Gray, glyphs: PixelRect, reach: int) -> Iterator[PixelRect]:
    """The strips along the picture's rim in which a point must lie so that its glyphs are cut off."""
    height, width = gray.shape
    left, top, right, bottom = (max(0, out) + reach for out in (-glyphs[0], -glyphs[1], glyphs[2], glyphs[3]))
    yield 0, 0, width, min(top, height)
    yield 0, max(0, height - bottom), width, height
    yield 0, 0, min(left, width), height
    yield max(0, width - right), 0, width, height


def _label_is_inside(gray: Gray, layout: LabelLayout, ring: Ring) -> bool:
    """Whether the glyphs of this ring would lie inside the picture, where they could have been read."""
    left, top, right, bottom = shift(layout.glyphs, round(ring.x), round(ring.y))
    return left >= 0 and top >= 0 and right <= gray.shape[1] and bottom <= gray.shape[0]


def _assign_words(
    gray: Gray, words: Sequence[str], found: Sequence[Ring], layout: LabelLayout, last: bool
) -> list[Marker]:
    """The rings with the letters that suit them best together; `last` where the only one left needs no proof."""
    from scipy.optimize import linear_sum_assignment  # half a second, for which nobody else should wait

    if not found:
        return []
    areas = [[shift(_widen(layout.glyphs, word), round(ring.x), round(ring.y)) for word in words] for ring in found]
    likeness = np.array(
        [[partial_likeness(gray, area, word) for area, word in zip(row, words, strict=True)] for row in areas]
    )
    named = []
    for row, column in np.transpose(linear_sum_assignment(-likeness)).tolist():
        best, others = likeness[row, column], np.delete(likeness[row], column)
        sure = best >= SEEN and best > others.max(initial=0) + LEAD
        if sure or (last and len(words) == len(found) == 1):
            plate = shift(_widen(layout.plate, words[column]), round(found[row].x), round(found[row].y))
            named.append(Marker(words[column], found[row], common_rect(plate, (0, 0, gray.shape[1], gray.shape[0]))))
    return named


def _widen(area: PixelRect, word: str) -> PixelRect:
    """The area of one letter made as wide as the word."""
    more = LETTER * (len(word) - 1) // 2
    return area[0] - more, area[1], area[2] + more, area[3]

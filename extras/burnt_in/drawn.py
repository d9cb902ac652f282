"""Finds rings, boxes, dots and arrows that were drawn in one plain colour, at any size and without
a label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import cv2
import numpy as np

from looktwice.extras.burnt_in.rings import LUMA_WEIGHTS, Map, measure_closeness
from looktwice.extras.burnt_in.shapes import ArrowFit, BoxFit, DotFit, Fit, Patch, RingFit
from looktwice.pipelines.geometry import PixelRect, intersect_boxes
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import parse_rgb

Kind = Literal["rings", "boxes", "dots", "arrows"]
CLOSENESS_LEVELS = (0.3, 0.5, 0.75)  # minimum closeness to the colour of a drawn pixel
COVERAGE_RANGE = 0.1  # range below a level in which closeness still measures coverage
SIZE_SHARE_RANGE = (0.008, 0.7)  # size of a shape, as shares of the picture's diagonal
MIN_SHAPE_SIZE = 5.0  # minimum size of a shape in pixels
PATCH_MARGIN = 8  # pixels of surroundings in a patch
MAX_REGIONS = 300  # maximum number of regions per colour and level, the purest first
MIN_REFINED_SCORE = 0.7  # correlation below which a first guess is not refined
MIN_PATTERN_SHAPES = 8  # this many shapes of one kind and colour are a pattern of the scene
GREY_TINT_LENGTH = 60.0  # length of a tint below which a colour counts as grey
GREY_REQUIREMENTS = (0.94, 4.0, 0.88)  # stricter requirements for greys: score, luma, purity


class ShapeCriterion(NamedTuple):
    """The shape model of a kind, and the lowest correlation at which a region counts as that
    kind."""

    model: type[Fit]
    min_score: float


SHAPE_CRITERIA: dict[Kind, ShapeCriterion] = {
    "rings": ShapeCriterion(RingFit, 0.88),
    "boxes": ShapeCriterion(BoxFit, 0.93),
    "dots": ShapeCriterion(DotFit, 0.95),
    "arrows": ShapeCriterion(ArrowFit, 0.87),
}
# a drawn shape has its colour throughout its core, a photographed one has light and shade. Luma is
# the reliable sign, since JPEG stores colour at half the resolution
MAX_LUMA_DIFFERENCE = (
    7.0  # maximum difference between the median luma of a core and that of the colour
)
MAX_LUMA_RANGE = 18.0  # maximum luma range from the 15th to the 85th percentile of a core
MIN_CLOSENESS = 0.55  # minimum median closeness of a core to the colour
MIN_LARGE_CORE, MIN_LARGE_CORE_CLOSENESS = (
    60,
    0.7,
)  # cores of at least this many pixels need a higher closeness


@dataclass(frozen=True)
class FoundShape:
    """A drawn shape that was found in a picture; `fit` is in pixels from (`left`, `top`), and
    `area` encloses the shape in the picture."""

    kind: Kind
    color: str
    fit: Fit
    left: int
    top: int
    area: PixelRect
    score: float

    def to_mark(self, label: str, image: int) -> Mark:
        """Return the shape as a mark: a box as a box, any other shape as a point at its centre or,
        for an arrow, at its tip."""
        fit = self.fit
        if isinstance(fit, BoxFit):
            half = fit.stroke / 2
            x0, y0 = self.left + fit.x0 + half, self.top + fit.y0 + half
            return Box(label, x0, y0, self.left + fit.x1 - half, self.top + fit.y1 - half, image)
        place: Any = fit
        left, top, right, bottom = self.area
        x = min(max(float(left), self.left + place.x), right - 1.0)
        return Point(label, x, min(max(float(top), self.top + place.y), bottom - 1.0), image)

    @property
    def appearance(self) -> dict[str, Any]:
        """The appearance of the shape, for the record and for `EraseMarks`."""
        fit, score = self.fit, round(self.score, 3)
        look: dict[str, Any] = {"kind": KIND_NAMES[self.kind], "color": self.color, "score": score}
        look["stroke"] = getattr(fit, "stroke", 0.0)
        if isinstance(fit, ArrowFit):
            look["outline"] = [[self.left + x, self.top + y] for x, y in fit.outline]
        elif not isinstance(fit, BoxFit):
            look["radius"] = getattr(fit, "radius", 0.0)
        return look


KIND_NAMES: dict[Kind, str] = {"rings": "ring", "boxes": "box", "dots": "dot", "arrows": "arrow"}


def find_drawn_shapes(
    pixels: Pixels, colors: Sequence[str], kinds: Sequence[Kind]
) -> list[FoundShape]:
    """Find the drawn shapes of the given kinds and colours in RGB pixels HxWx3, sorted from top to
    bottom.

    Each connected region of a colour is compared with the ideal shape that fits it best, and must
    have exactly that colour everywhere. White, black and grey are searched for rings and boxes
    only, since photographs are full of white spots.
    """
    luma = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.float32)
    found: list[FoundShape] = []
    for color in colors:
        closeness, patches = (
            measure_closeness(pixels, parse_rgb(color)),
            list[tuple[PixelRect, Patch]](),
        )
        for level in CLOSENESS_LEVELS if closeness.max() >= MIN_CLOSENESS else ():
            patches += _find_regions(closeness, luma, level)
        for kind in kinds:
            matching = [
                drawn for area, patch in patches for drawn in _match_shape(patch, area, kind, color)
            ]
            matching = [
                drawn for drawn in _remove_duplicates(matching) if not _is_letter(drawn, patches)
            ]
            found += matching if len(matching) < MIN_PATTERN_SHAPES else []
    found = _remove_duplicates(found)
    return sorted(found, key=lambda drawn: (drawn.area[1], drawn.area[0]))


def _find_regions(closeness: Map, luma: Map, level: float) -> Iterator[tuple[PixelRect, Patch]]:
    """Yield the connected regions with at least this closeness to the colour and a plausible size
    for a mark."""
    mask = (closeness >= level).astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    if count < 2:
        return
    height, width = closeness.shape
    diagonal = float(np.hypot(height, width))
    x, y, w, h, area = stats[1:].T
    longest = np.maximum(w, h)
    fits = (longest >= max(MIN_SHAPE_SIZE, SIZE_SHARE_RANGE[0] * diagonal)) & (
        longest <= SIZE_SHARE_RANGE[1] * diagonal
    )
    fits &= (area >= 10) & (np.minimum(w, h) >= 3)
    purity = np.bincount(labels.ravel(), closeness.ravel(), count)[1:] / area
    fits &= purity >= min(0.9, level + 0.12)
    chosen = np.flatnonzero(fits)
    for number in chosen[np.argsort(-purity[chosen])][:MAX_REGIONS].tolist():
        left, top, right, bottom = (
            int(side)
            for side in (x[number], y[number], x[number] + w[number], y[number] + h[number])
        )
        rows = slice(max(0, top - PATCH_MARGIN), min(height, bottom + PATCH_MARGIN))
        columns = slice(max(0, left - PATCH_MARGIN), min(width, right + PATCH_MARGIN))
        part = rows, columns
        region = labels[part] == number + 1
        # pixels below the level count as background, even if their colour is similar
        clear = np.maximum(closeness[part], np.float32(level - COVERAGE_RANGE))
        patch = Patch(columns.start, rows.start, region, clear, luma[part], closeness.shape)
        yield (left, top, right, bottom), patch


def _match_shape(patch: Patch, area: PixelRect, kind: Kind, color: str) -> Iterator[FoundShape]:
    """Yield the best shape of this kind for a region, if one matches."""
    wanted = np.asarray(parse_rgb(color), np.float64)
    is_grey = float(np.linalg.norm(wanted - wanted.mean())) < GREY_TINT_LENGTH
    if is_grey and kind in ("dots", "arrows"):
        return
    criterion, best = SHAPE_CRITERIA[kind], None
    least, off, pure = (criterion.min_score, MAX_LUMA_DIFFERENCE, 0.0)
    if is_grey:
        least, off, pure = GREY_REQUIREMENTS
    for guess in criterion.model.propose(patch):
        if guess.score(patch) < MIN_REFINED_SCORE:
            continue
        fit, score = guess.refine(patch)
        if score >= least and _is_plain(patch, fit, float(wanted @ LUMA_WEIGHTS), off, pure):
            least, best = score, fit
    if best:
        yield FoundShape(kind, color, best, patch.left, patch.top, area, least)


def _is_plain(patch: Patch, fit: Fit, luma: float, off: float, pure: float) -> bool:
    """Return whether the core of a shape has the colour throughout."""
    covered = fit.compute_coverage(patch.closeness.shape)
    core = covered >= min(0.95, 0.9 * float(covered.max()))
    if core.sum() < 4:
        core = covered >= 0.7 * float(covered.max())
    bright, closeness = patch.luma[core], float(np.median(patch.closeness[core]))
    dark, light = np.percentile(bright, (15, 85))
    enough = max(pure, MIN_CLOSENESS if core.sum() < MIN_LARGE_CORE else MIN_LARGE_CORE_CLOSENESS)
    return bool(
        abs(np.median(bright) - luma) <= off
        and light - dark <= MAX_LUMA_RANGE
        and closeness >= enough
    )


def _is_letter(drawn: FoundShape, patches: Sequence[tuple[PixelRect, Patch]]) -> bool:
    """Return whether a shape is probably a letter or a full stop: it is in a line with others of
    its colour."""
    left, top, right, bottom = drawn.area
    high, line = bottom - top, set[int]()
    highest, reach = (12 * high, 1.0) if drawn.kind == "dots" else (1.6 * high, 2.5)
    for x0, y0, x1, y1 in {area for area, _ in patches}:
        letter, apart = y1 - y0, max(x0 - right, left - x1)
        off = abs(y0 + y1 - top - bottom) / 2
        inside = x0 <= left and y0 <= top and x1 >= right and y1 >= bottom
        is_near = apart <= reach * max(high, letter) and off <= 0.75 * max(high, letter)
        if (
            is_near
            and 0.6 * high <= letter <= highest
            and not inside
            and (apart >= 0 or off > high)
        ):
            line.add((x0 + x1) // max(4, letter))  # one region has an area for each level
    return len(line) > 1


def _remove_duplicates(found: Sequence[FoundShape]) -> list[FoundShape]:
    """Return the shapes without duplicates: the best of those that overlap. A ring around a dot is
    not a duplicate."""
    kept: list[FoundShape] = []
    for drawn in sorted(found, key=lambda drawn: -drawn.score):
        if not any(_measure_overlap(drawn.area, other.area) > 0.5 for other in kept):
            kept.append(drawn)
    return kept


def _measure_overlap(first: PixelRect, second: PixelRect) -> float:
    """Return the common area as a share of the larger area."""
    common = intersect_boxes(first, second)
    sizes = [(right - left) * (bottom - top) for left, top, right, bottom in (first, second)]
    if common is None:
        return 0.0
    return (common[2] - common[0]) * (common[3] - common[1]) / max(sizes)

"""Shows results of specialists to the model: numeric maps in colour, segments as tints, matches as
lines.

Every specialist receives the sample's whole source pictures, and its results are mapped into each
view. A crop is therefore coloured like the whole picture, and a view that was resized, rotated or
joined to another needs no second call.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

import cv2
import numpy as np

from looktwice.pipelines.counted import format_count
from looktwice.pipelines.marks import Mask, Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.transforms import join_side_by_side
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import (
    choose_golden_ratio_color,
    convert_hue_to_rgb,
    parse_rgb,
)
from looktwice.prompting.drawing.lines import paint_line
from looktwice.prompting.drawing.regions import rasterize
from looktwice.prompting.drawing.shapes import paint_shape
from looktwice.prompting.evidence import (
    MissingAction,
    handle_missing,
    project_maps,
    replace_views,
    show_evidence,
)
from looktwice.prompting.markers.points import Disc
from looktwice.specialists.protocols import DepthEstimator, Matcher, ScalarMap, Segmenter
from looktwice.specialists.results import Floats, Masks, Matches, argsort_descending
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once

Layout = Literal["blend", "beside", "extra", "only"]
Colormap = Literal[
    "gray", "inferno", "magma", "plasma", "viridis", "cividis", "turbo", "jet", "hot", "bone"
]


@dataclass(frozen=True, kw_only=True)
class _MapOverlay(WithoutModel):
    """A numeric map shown as colours.

    Values between the percentiles `low` and `high` of the whole picture are spread over the
    `colormap`, reversed with `invert`. `layout`: "blend" mixes the map into the view with the
    opacity `alpha`; "beside" puts the map to the right of the view in one picture, `margin` pixels
    apart; "extra" adds it as a separate view after the view; "only" replaces the view. Unknown
    pixels keep the view's pixels in a blend, and otherwise have the colour `unknown`. `images` are
    the numbers of the source pictures to map, from 0; null means all that are shown. `missing`
    decides what happens to a picture without a map. `words` is a sentence for the prompt.
    """

    layout: Layout = "beside"
    colormap: Colormap = "inferno"
    alpha: float = 0.5
    low: float = 2
    high: float = 98
    invert: bool = False
    unknown: str = "gray"
    margin: int = 0
    images: tuple[int, ...] | None = None
    missing: MissingAction = "fail"
    words: str = ""

    def __post_init__(self) -> None:
        parse_rgb(self.unknown)
        check_ranges(self, "alpha, low, margin >= 0", "alpha <= 1", "high <= 100", "low < high")

    def compute_values(self, sample: Sample, number: int) -> Floats:
        """Return the map of one source picture, at its size; larger is brighter. Raises
        NoEvidence."""
        raise NotImplementedError

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with maps; a view that shows no mapped picture stays unchanged, with its
        own bytes.

        Raises ValueError that names the sample if there is no map and `missing` is "fail".
        """
        return show_evidence(
            state,
            self.images,
            self.missing,
            lambda number: self.normalize_values(state.sample, number),
            self.show_map,
            self.words,
        )

    def normalize_values(self, sample: Sample, number: int) -> Floats:
        """Return the map of one picture between its percentiles `low` and `high`, as shares 0..1.
        Raises NoEvidence."""
        values = np.array(self.compute_values(sample, number), np.float64)
        width, height = sample.images[number].size
        if values.shape != (height, width):
            raise ValueError(
                f"sample {sample.id}: the map of image {number} has the shape {values.shape}, "
                f"its image ({height}, {width}); a specialist must return it at"
                " the size of its image"
            )
        values[~np.isfinite(values)] = np.nan
        if np.isnan(values).all():
            raise NoEvidence(f"the map of image {number} has no known value")
        low, high = np.nanpercentile(values, [self.low, self.high])
        shares = np.clip((values - low) / (high - low), 0, 1) if high > low else values * 0 + 0.5
        return 1 - shares if self.invert else shares

    def show_map(self, view: View, maps: Mapping[int, Floats]) -> tuple[View, ...]:
        """Return one view with its map, in the chosen layout: one view, or two if the map is a
        separate view."""
        if not any(part.source in maps for part in view.parts):
            return (view,)
        field = project_maps(view, maps)
        valid = ~np.isnan(field)
        levels = np.rint(np.where(valid, field, 0) * 255).astype(np.uint8)
        colored = _get_color_table(self.colormap)[levels]
        if self.layout == "blend":
            mixed = np.rint(view.pixels * (1 - self.alpha) + colored * self.alpha).astype(np.uint8)
            return (view.with_pixels(np.where(valid[..., None], mixed, view.pixels)),)
        shown = view.with_pixels(
            np.where(valid[..., None], colored, np.asarray(parse_rgb(self.unknown), np.uint8))
        )
        if self.layout == "beside":
            return (join_side_by_side([view, shown], self.margin),)
        return (shown,) if self.layout == "only" else (view, shown)


@dataclass(frozen=True)
class DepthOverlay(_MapOverlay):
    """Depth as colours: nearer is brighter, or darker with `invert`.

    `depth` receives a source picture and, for stereo methods, the pictures after it. Stereo methods
    have no depth for the last picture: use `images: [0]`. The other settings are those of every
    map.
    """

    depth: DepthEstimator

    def compute_values(self, sample: Sample, number: int) -> Floats:
        """Return the nearness of one source picture. Raises NoEvidence."""
        pictures = (image.pixels for image in sample.images[number:])
        return look_once(self.depth, *pictures).nearness


@dataclass(frozen=True)
class ScalarOverlay(_MapOverlay):
    """Any numeric map as colours, larger is brighter: saliency, edge strength, uncertainty.

    `scalar` receives one source picture. The other settings are those of every map.
    """

    scalar: ScalarMap

    def compute_values(self, sample: Sample, number: int) -> Floats:
        """Return the values of one source picture. Raises NoEvidence."""
        return look_once(self.scalar, sample.images[number].pixels)


@dataclass(frozen=True)
class SegmentTint(WithoutModel):
    """Every segment of a picture in its own colour, without numbers; for numbers, use SetOfMark.

    `alpha` is the opacity of the colour, `contour` the width of the outline in pixels of the view,
    0 for none. `color` is "each" for one colour per segment, or a CSS name or "#rrggbb" for all. If
    segments overlap, the later one is on top. `images`, `missing` and `words` are those of
    DepthOverlay; a picture without any segment counts as missing.
    """

    segmenter: Segmenter
    alpha: float = 0.35
    contour: float = 2
    color: str = "each"
    images: tuple[int, ...] | None = None
    missing: MissingAction = "fail"
    words: str = ""

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.color != "each":
            parse_rgb(self.color)
        check_ranges(self, "alpha, contour >= 0", "alpha <= 1")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with segments; a view that shows none stays unchanged, with its own
        bytes."""
        return show_evidence(
            state,
            self.images,
            self.missing,
            lambda number: self._find_segments(state.sample, number),
            lambda view, segments: [self.tint_segments(view, segments)],
            self.words,
        )

    def tint_segments(self, view: View, segments: Mapping[int, Masks]) -> View:
        """Return one view with the segments of the source pictures that it shows."""
        pixels, drawn = np.array(view.pixels), False
        for number, masks in segments.items():
            if all(part.source != number for part in view.parts):
                continue
            for index, segment in enumerate(masks.masks):
                color = (
                    choose_golden_ratio_color(index)
                    if self.color == "each"
                    else parse_rgb(self.color)
                )
                for place in view.to_view(Mask(str(index), segment, number)):
                    region = rasterize(place, view.size) if isinstance(place, Mask) else None
                    if region is not None:
                        region.paint_tint(pixels, color, self.alpha)
                        region.paint_contour(pixels, color, self.contour)
                        drawn = True
        return view.with_pixels(pixels) if drawn else view

    def _find_segments(self, sample: Sample, number: int) -> Masks:
        masks = look_once(self.segmenter, sample.images[number].pixels)
        masks = masks[np.flatnonzero(masks.masks.any((1, 2)))] if len(masks) else masks
        if not len(masks):
            raise NoEvidence(f"no segment was found in image {number}")
        return masks


@cache
def _get_color_table(name: str) -> Pixels:
    """Return the 256 RGB colours of a colormap."""
    ramp = np.arange(256, dtype=np.uint8).reshape(256, 1)
    if name == "gray":
        return np.repeat(ramp, 3, axis=1)
    colored = cv2.applyColorMap(ramp, getattr(cv2, f"COLORMAP_{name.upper()}"))
    return np.ascontiguousarray(colored[:, 0, ::-1])


@dataclass(frozen=True)
class MatchOverlay(WithoutModel):
    """Matching points of two pictures, joined by coloured lines in one view.

    `images` are the numbers of the two source pictures. The lines are drawn on a view that shows
    both. If there is none, the first views of both pictures are joined side by side, `margin`
    pixels apart, at the position of the earlier one. If there are more than `most` matches, a
    subset that spreads over the first picture is chosen, with the most certain match among
    neighbours; matches below `min_confidence` are dropped. Lines run between the dots, both in
    `color`: "position" gives each height in the first picture a hue, "confidence" runs from red (0)
    to green (1), anything else is a CSS name or "#rrggbb". `thickness` and `radius` are in pixels
    of the view. A pair with fewer than `min_matches` counts as missing, and `missing` decides what
    happens. `words` is a sentence for the prompt.
    """

    matcher: Matcher
    images: tuple[int, int] = (0, 1)
    most: int = 40
    min_matches: int = 1
    min_confidence: float = 0
    color: str = "position"
    thickness: int = 1
    radius: float = 3
    margin: int = 10
    missing: MissingAction = "fail"
    words: str = ""

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.color not in ("position", "confidence"):
            parse_rgb(self.color)
        if self.images[0] == self.images[1]:
            raise ValueError(f"images must name two different pictures, got {self.images}")
        check_ranges(self, "most, min_matches, thickness >= 1", "radius > 0", "margin >= 0")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the lines; other views stay unchanged. Raises ValueError that names
        the sample."""
        sample, count = state.sample, len(state.sample.images)
        if not all(0 <= number < count for number in self.images):
            raise ValueError(
                f"sample {sample.id}: images names {self.images} (counted from 0), but the sample"
                f" has {format_count(count, 'image')}"
            )
        views = join_views(state.views, self.images, self.margin)
        try:
            if views is None:
                raise NoEvidence(f"the views do not show both images {self.images}")
            matches = self.find_matches(sample)
        except NoEvidence as exc:
            return handle_missing(state, self.missing, [str(exc)])
        return replace_views(
            state, [self.draw_matches(view, matches, sample) for view in views], self.words
        )

    def find_matches(self, sample: Sample) -> Matches:
        """Return the matches to show, the most certain last so that they are drawn on top. Raises
        NoEvidence."""
        first, second = (sample.images[number] for number in self.images)
        matches = look_once(self.matcher, first.pixels, second.pixels)
        matches = matches[matches.confidence >= self.min_confidence]
        if len(matches) < self.min_matches:
            raise NoEvidence(f"{len(matches)} matches, at least {self.min_matches} are needed")
        kept = spread_matches(matches, first.size, self.most)
        return kept[np.argsort(kept.confidence, kind="stable")]

    def draw_matches(self, view: View, matches: Matches, sample: Sample) -> View:
        """Return one view with the matches whose two ends it shows."""
        pixels, drawn = np.array(view.pixels), False
        height = sample.images[self.images[0]].size[1]
        for pair, confidence in zip(
            np.stack([matches.xy0, matches.xy1], 1), matches.confidence, strict=True
        ):
            hues = {"position": 0.83 * (pair[0, 1] + 0.5) / height, "confidence": confidence / 3}
            color = (
                convert_hue_to_rgb(float(hues[self.color]))
                if self.color in hues
                else parse_rgb(self.color)
            )
            here, there = (
                [place.center for place in view.to_view(Point("", float(x), float(y), image))]
                for (x, y), image in zip(pair, self.images, strict=True)
            )
            for line in itertools.product(here, there):
                paint_line(pixels, *line, color, self.thickness)
                for end in line:
                    paint_shape(pixels, (0, 0, *view.size), Disc(self.radius), *end, color)
                drawn = True
        return view.with_pixels(pixels) if drawn else view


def join_views(views: Sequence[View], images: tuple[int, int], margin: int) -> list[View] | None:
    """Return the views such that one of them shows both source pictures, joined side by side if
    necessary; None if a picture is not shown at all."""
    sources = [{part.source for part in view.parts} for view in views]
    if any(shown.issuperset(images) for shown in sources):
        return list(views)
    both: list[int] = []
    for image in images:
        both += [number for number, shown in enumerate(sources) if image in shown][:1]
    if len(both) < 2:
        return None
    joined = list(views)
    joined[min(both)] = join_side_by_side([views[number] for number in both], margin)
    del joined[max(both)]
    return joined


def spread_matches(matches: Matches, size: tuple[int, int], most: int) -> Matches:
    """Return at most `most` of the matches: the most certain of each cell of the first picture,
    then the next of each cell, and so on.

    There are about `most` square cells; `size` is the first picture's (width, height).
    """
    side = max(1.0, (size[0] * size[1] / most) ** 0.5)
    cells = np.floor((matches.xy0 + 0.5) / side).astype(int)
    order = argsort_descending(matches.confidence)
    taken: dict[tuple[int, int], int] = {}
    turn = np.empty(len(matches), int)
    for row in order:
        cell = int(cells[row, 0]), int(cells[row, 1])
        turn[row] = taken[cell] = taken.get(cell, -1) + 1
    return matches[np.lexsort((-matches.confidence, turn))[:most]]

"""Results of specialists shown to the model: maps of numbers in colour, segments as tints (matches: `matches.py`).

Every specialist is given the sample's whole source pictures, and its results are mapped into each view. A crop is
therefore coloured as the whole picture is, and a view that was resized, rotated or joined to another needs no second
call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import Mask
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.transforms import beside
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import golden_hue, rgb
from looktwice.prompting.drawing.masks import raster
from looktwice.prompting.evidence import Missing, collect, handle_missing, project, with_views
from looktwice.specialists.protocols import DepthEstimator, NoEvidence, ScalarMap, Segmenter
from looktwice.specialists.results import Masks
from looktwice.specialists.sharing import look_once

Floats = NDArray[np.float64]
Layout = Literal["blend", "beside", "extra", "only"]
Colormap = Literal["gray", "inferno", "magma", "plasma", "viridis", "cividis", "turbo", "jet", "hot", "bone"]


@dataclass(frozen=True, kw_only=True)
class _Map(WithoutModel):
    """A map of numbers as colours.

    Numbers are spread over the `colormap` between the percentiles `low` and `high` of the whole picture, with `invert`
    the other way round. `layout`: "blend" mixes the map into the view by the share `alpha`; "beside" lays the map right
    of the view in one picture, `margin` pixels apart; "extra" gives it as a view of its own behind the view; "only"
    shows nothing else. What is unknown keeps the view's pixels in a blend and has the colour `unknown` elsewhere.
    `images` are the numbers of the source pictures that are mapped, from 0, null all that are shown. `missing` says
    what is done for a picture without a map. `words` is a sentence for the prompt.
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
    missing: Missing = "fail"
    words: str = ""

    def __post_init__(self) -> None:
        rgb(self.unknown)
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is the map's share in 0..1, found {self.alpha}")
        if not 0 <= self.low < self.high <= 100:
            raise ValueError(f"low and high are percentiles, 0 <= low < high <= 100, found {self.low} and {self.high}")
        if self.margin < 0:
            raise ValueError(f"margin is 0 or more pixels, found {self.margin}")

    def values(self, sample: Sample, number: int) -> Floats:
        """The map of one source picture, at its size, larger is brighter. Raises NoEvidence."""
        raise NotImplementedError

    def __call__(self, state: State, model: Model) -> State:
        """The views with their maps; a view that shows no mapped picture is returned unchanged, with its own bytes.

        Raises ValueError that names the sample where there is no map and `missing` is "fail".
        """
        maps, lacking = collect(state, self.images, lambda number: self.shares(state.sample, number))
        if lacking and self.missing != "keep":
            return handle_missing(state, self.missing, lacking)
        views = tuple(new for view in state.views for new in self.show_map(view, maps))
        return with_views(state, views, self.words, lacking)

    def shares(self, sample: Sample, number: int) -> Floats:
        """The map of one picture between its percentiles `low` and `high`, as shares 0..1. Raises NoEvidence."""
        values = np.array(self.values(sample, number), np.float64)
        width, height = sample.images[number].size
        if values.shape != (height, width):
            raise ValueError(
                f"sample {sample.id}: the map of image {number} has the shape {values.shape}, "
                f"its image ({height}, {width}); a map is given at the size of its image"
            )
        values[~np.isfinite(values)] = np.nan
        if np.isnan(values).all():
            raise NoEvidence(f"nothing is known anywhere in image {number}")
        low, high = np.nanpercentile(values, [self.low, self.high])
        shares = np.clip((values - low) / (high - low), 0, 1) if high > low else values * 0 + 0.5
        return 1 - shares if self.invert else shares

    def show_map(self, view: View, maps: Mapping[int, Floats]) -> tuple[View, ...]:
        """One view with its map, in the layout asked for: one view, or two where the map is a view of its own."""
        if not any(part.source in maps for part in view.parts):
            return (view,)
        field = project(view, maps)
        known = ~np.isnan(field)
        colored = _color_table(self.colormap)[np.rint(np.where(known, field, 0) * 255).astype(np.uint8)]
        if self.layout == "blend":
            mixed = np.rint(view.pixels * (1 - self.alpha) + colored * self.alpha).astype(np.uint8)
            return (view.with_pixels(np.where(known[..., None], mixed, view.pixels)),)
        shown = view.with_pixels(np.where(known[..., None], colored, np.asarray(rgb(self.unknown), np.uint8)))
        if self.layout == "beside":
            return (beside([view, shown], self.margin),)
        return (shown,) if self.layout == "only" else (view, shown)


@dataclass(frozen=True)
class DepthOverlay(_Map):
    """Depth as colours, the nearer the brighter; with `invert` the farther.

    `depth` is given a source picture and, for stereo methods, the ones after it. These have no depth for the last
    picture: give `images: [0]`. The other settings are those of every map.
    """

    depth: DepthEstimator

    def values(self, sample: Sample, number: int) -> Floats:
        """Nearness of one source picture. Raises NoEvidence."""
        found: Floats = look_once(self.depth, *(image.pixels for image in sample.images[number:])).nearness
        return found


@dataclass(frozen=True)
class ScalarOverlay(_Map):
    """Any map of numbers as colours, the larger the brighter: a saliency, an edge strength, an uncertainty.

    `scalar` is given one source picture. The other settings are those of every map.
    """

    scalar: ScalarMap

    def values(self, sample: Sample, number: int) -> Floats:
        """The numbers of one source picture. Raises NoEvidence."""
        return look_once(self.scalar, sample.images[number].pixels)


@dataclass(frozen=True)
class SegmentTint(WithoutModel):
    """Every segment of a picture in a colour of its own, without numbers; with numbers it is SetOfMark.

    `alpha` is the colour's share, `contour` the width of the rim in pixels of the view, 0 for none. `color` is
    "each" for one colour per segment, or a CSS name or "#rrggbb" for all. Where segments overlap the later one is
    on top. `images`, `missing` and `words` are those of DepthOverlay; a picture without any segment is missing.
    """

    segmenter: Segmenter
    alpha: float = 0.35
    contour: float = 2
    color: str = "each"
    images: tuple[int, ...] | None = None
    missing: Missing = "fail"
    words: str = ""

    def __post_init__(self) -> None:
        if self.color != "each":
            rgb(self.color)
        if not 0 <= self.alpha <= 1 or not self.contour >= 0:
            raise ValueError(
                f"alpha lies in 0..1 and contour is 0 or more pixels, found {self.alpha} and {self.contour}"
            )

    def __call__(self, state: State, model: Model) -> State:
        """The views with their segments; a view that shows none is returned unchanged, with its own bytes."""
        found, lacking = collect(state, self.images, lambda number: self._segments(state.sample, number))
        if lacking and self.missing != "keep":
            return handle_missing(state, self.missing, lacking)
        return with_views(state, [self.tint_segments(view, found) for view in state.views], self.words, lacking)

    def tint_segments(self, view: View, found: Mapping[int, Masks]) -> View:
        """One view with the segments of the source pictures that it shows."""
        pixels, drawn = np.array(view.pixels), False
        for number, masks in found.items():
            if all(part.source != number for part in view.parts):
                continue
            for index, segment in enumerate(masks.masks):
                color = golden_hue(index) if self.color == "each" else rgb(self.color)
                for place in view.to_view(Mask(str(index), segment, number)):
                    region = raster(place, view.size) if isinstance(place, Mask) else None
                    if region is not None:
                        region.tint(pixels, color, self.alpha)
                        region.contour(pixels, color, self.contour)
                        drawn = True
        return view.with_pixels(pixels) if drawn else view

    def _segments(self, sample: Sample, number: int) -> Masks:
        masks = look_once(self.segmenter, sample.images[number].pixels)
        masks = masks[np.flatnonzero(masks.masks.any((1, 2)))] if len(masks) else masks
        if not len(masks):
            raise NoEvidence(f"no segment was found in image {number}")
        return masks


@cache
def _color_table(name: str) -> Pixels:
    """The 256 RGB colours of a map."""
    ramp = np.arange(256, dtype=np.uint8).reshape(256, 1)
    if name == "gray":
        return np.repeat(ramp, 3, axis=1)
    colored = cv2.applyColorMap(ramp, getattr(cv2, f"COLORMAP_{name.upper()}"))
    return np.ascontiguousarray(colored[:, 0, ::-1])

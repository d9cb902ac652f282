"""The style of a zoom: the cropped area around a region, its size, and its presentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from looktwice.pipelines import transforms
from looktwice.pipelines.geometry import (
    PixelRect,
    Rect,
    Size,
    bounds,
    contains,
    overlaps,
    rectangle,
)
from looktwice.pipelines.marks import Mark, bounding_box
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.sample import prefix_errors
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import Filter
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import RGB, check_color, choose_region_color
from looktwice.prompting.drawing.free_areas import place_inset

MAX_MEGAPIXELS = 100
EPSILON = 1e-6


@dataclass(frozen=True)
class Crop:
    """The style of a zoom. It is a setting of every stage that zooms, not a stage itself.

    Area: a region grows on each side by `padding`, measured in `unit`: a share of its own longer
    side ("box"), of the view's longer side ("image"), or pixels of the view ("px"). Its width and
    height are then at least `min_px` pixels and at least `min_share` times the view's shorter side,
    and it grows to `aspect` (width / height) if given. It stays within the part of the view that
    shows the region: it is shifted into that part, and cut only if it is larger, so a crop may miss
    its aspect but never a part of its region.

    Number: `merge` "each" crops one area per region, "union" one around all regions in the same
    part of a view. In each view only the first `most` regions are used; equal areas are cropped
    once.

    Size: `upscale` enlarges a crop to this longer side in pixels; None keeps its size, or with
    show: beside fits it to the size of the view. `filter` is the resampling.

    Show: `show` "crop" replaces the view with the crops. "both" shows the view with the areas
    outlined, then each crop as a separate picture. "beside" shows the same as one picture, left to
    right, separated by `margin` black pixels. "inset" puts the crops into corners of the view,
    where they hide no mark, each at most the share `inset` of its width and height, at any scale,
    with a border in the colour of the outline. `outline` is a CSS name, "#rrggbb", "contrast" (the
    colour that stands out most there) or "distinct" (another colour for each area, which
    distinguishes several insets); `thickness` is its stroke in pixels, outside the area; 0 draws
    none.
    """

    padding: float = 0.25
    unit: Literal["box", "image", "px"] = "box"
    min_px: float = 64
    min_share: float = 0.0
    aspect: float | None = None
    merge: Literal["each", "union"] = "each"
    most: int = 6
    upscale: int | None = None
    filter: Filter = "cubic"
    show: Literal["crop", "both", "beside", "inset"] = "crop"
    inset: float = 0.4
    outline: str = "red"
    thickness: int = 3
    margin: int = 10

    def __post_init__(self) -> None:
        check_color(self.outline, "contrast", "distinct", name="outline")
        check_ranges(
            self,
            "padding, min_px, thickness, margin, min_share >= 0",
            "min_share <= 1",
            "most, upscale >= 1",
            "aspect, inset > 0",
            "aspect < inf",
            "inset < 1",
        )

    def __call__(
        self, view: View, places: Sequence[Mark], marks: Sequence[Mark] = ()
    ) -> tuple[list[View], list[str]]:
        """Return the views that replace `view`, and notes; `places` are one or more regions in the
        coordinates of `view`.

        An inset must not hide the `marks`, which are in the view's coordinates too.
        """
        areas, notes = self.find_areas(view, places)
        whole_view = (0, 0, *view.size)
        pieces = [view if area == whole_view else transforms.crop(view, *area) for area in areas]
        if self.show == "crop":
            return [self._enlarge(piece) for piece in pieces], notes
        colors = [
            choose_region_color(self.outline, view.pixels, area, number, self.thickness)
            for number, area in enumerate(areas)
        ]
        whole = self._outline_areas(view, areas, colors)
        if self.show == "both":
            return [whole, *map(self._enlarge, pieces)], notes
        if self.show == "beside":
            shown = [self._enlarge(p) if self.upscale else self._fit(p, view.size) for p in pieces]
            return [transforms.join_side_by_side([whole, *shown], self.margin)], notes
        boxes = [bounding_box(mark) for mark in marks]
        placed, taken = [], list[PixelRect]()
        width, height = view.size
        rim, room = (
            min(self.thickness, 1 + min(view.size) // 16),
            (self.inset * width, self.inset * height),
        )
        for number, piece in enumerate(pieces):
            bordered = (piece.size[0] + 2 * rim, piece.size[1] + 2 * rim)
            area = place_inset(view.size, bordered, room, areas, boxes, taken)
            if area is None or min(room) - 2 * rim < 1:
                raise ValueError(
                    f"inset {number + 1} of {len(pieces)} has no room in the view of {width} x"
                    f" {height} pixels; set a smaller `most` or `inset`, or show: beside"
                )
            left, top, right, bottom = area
            inside = max(1, right - left - 2 * rim), max(1, bottom - top - 2 * rim)
            small = self._fit(piece, inside)
            for mark, box in zip(marks, boxes, strict=True):
                if overlaps(area, box):
                    notes.append(f"an inset lies over the mark {mark.label!r}")
            scale = small.size[0] / piece.size[0]
            notes += [f"an inset shows its crop at {scale:.2f} of its size"] if scale <= 1 else []
            taken.append(area)
            framed = transforms.pad(small, rim, rim, rim, rim, colors[number])
            placed.append((framed, left, top))
        return [transforms.paste(whole, placed)], notes

    def find_areas(self, view: View, places: Sequence[Mark]) -> tuple[list[PixelRect], list[str]]:
        """Return the areas to crop, in whole pixels, and a note if there are more than `most`
        places."""
        count, kept = len(places), places[: self.most]
        notes = [f"uses {self.most} of {count} regions, in order"] if count > self.most else []
        located = [(_find_part_rect(view, place), bounding_box(place)) for place in kept]
        if self.merge == "union":
            union: dict[PixelRect, Rect] = {}
            for part, (x0, y0, x1, y1) in located:
                left, top, right, bottom = union.get(part, (x0, y0, x1, y1))
                union[part] = min(left, x0), min(top, y0), max(right, x1), max(bottom, y1)
            located = list(union.items())
        areas = (self._compute_area(box, part, view.size) for part, box in located)
        return list(dict.fromkeys(areas)), notes

    def _compute_area(self, box: Rect, part_rect: PixelRect, size: Size) -> PixelRect:
        x0, y0, x1, y1 = box
        pad = self.padding * {"box": max(x1 - x0, y1 - y0), "image": max(size), "px": 1}[self.unit]
        shortest = max(1.0, self.min_px, self.min_share * min(size))
        width, height = max(x1 - x0 + 2 * pad, shortest), max(y1 - y0 + 2 * pad, shortest)
        if self.aspect is not None:
            width, height = max(width, height * self.aspect), max(height, width / self.aspect)
        left, right = _fit_interval(x0, x1, width, part_rect[0], part_rect[2])
        top, bottom = _fit_interval(y0, y1, height, part_rect[1], part_rect[3])
        return left, top, right, bottom

    def _outline_areas(self, view: View, areas: Sequence[PixelRect], colors: Sequence[RGB]) -> View:
        """Return the view with an outline around each area, outside it; at the edge of the view it
        moves inwards."""
        if not self.thickness:
            return view
        pixels, stroke = np.array(view.pixels), min(self.thickness, (min(view.size) + 1) // 2)
        for (left, top, right, bottom), color in zip(areas, colors, strict=True):
            rows = slice(max(0, top - stroke), bottom + stroke)
            patch = pixels[rows, max(0, left - stroke) : right + stroke]
            inside = patch[stroke:-stroke, stroke:-stroke].copy()
            patch[:] = color
            patch[stroke:-stroke, stroke:-stroke] = inside
        return view.with_pixels(pixels)

    def _fit(self, view: View, room: Size) -> View:
        """Return the view resized to the largest size that fits into (width, height) pixels."""
        return self._resize(view, min(room[0] / view.size[0], room[1] / view.size[1]))

    def _enlarge(self, view: View) -> View:
        return self._resize(view, max(1.0, (self.upscale or 0) / max(view.size)))

    def _resize(self, view: View, scale: float) -> View:
        width, height = (max(1, round(side * scale)) for side in view.size)
        if width * height > MAX_MEGAPIXELS * 1e6:
            raise ValueError(
                f"a crop would become {width} x {height} pixels; set a smaller upscale or"
                " another aspect"
            )
        if (width, height) == view.size:
            return view
        return transforms.resize(view, width, height, self.filter)

    def crop_view(
        self, state: State, view: View, places: Sequence[Mark]
    ) -> tuple[list[View], list[str]]:
        """Return the views that replace one view of a state, and notes. Raises a ValueError that
        names the sample."""
        marks = [place for mark in state.sample.marks for place in view.to_view(mark)]
        with prefix_errors(state.sample):
            return self(view, places, marks)


def _find_part_rect(view: View, place: Mark) -> PixelRect:
    """Return the bounding box of the topmost part of a view that shows a region; a crop must not
    leave it."""
    x0, y0, x1, y1 = bounding_box(place)
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    clips = [part.clip for part in view.parts if part.source == place.image and part.clip]
    around = [c for c in clips if contains(rectangle(*bounds(c)), x, y)]
    shown = [c for c in clips if contains(c, x, y)] or around
    left, top, right, bottom = bounds(shown[-1]) if shown else (0, 0, *view.size)
    x0, y0 = (max(0, math.floor(edge + EPSILON)) for edge in (left, top))
    x1, y1 = math.ceil(right - EPSILON), math.ceil(bottom - EPSILON)
    return x0, y0, min(view.size[0], x1), min(view.size[1], y1)


def _fit_interval(first: float, last: float, length: float, low: int, high: int) -> tuple[int, int]:
    """Return an interval of `length` whole pixels around first..last, shifted into low..high, and
    cut if that range is shorter."""
    # Rounding errors in sums of halves and shares must not cost a pixel.
    start, stop = max(low, math.floor(first + EPSILON)), min(high, math.ceil(last - EPSILON))
    count = min(high - low, max(1, stop - start, math.ceil(length - EPSILON)))
    begin = math.floor((first + last - count) / 2 + 0.5)
    begin = max(low, min(max(stop - count, min(begin, start)), high - count))
    return begin, begin + count

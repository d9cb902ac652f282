"""Marks drawn on the views, where the model can see them."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

from looktwice.pipelines.geometry import bounds, contains
from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View

__all__ = ["Circles"]

GAP = 3  # free pixels between a ring and its label
PADDING = 2  # black pixels around the glyphs of a label
Area = tuple[int, int, int, int]  # left, top, right, bottom; half-open


@dataclass(frozen=True)
class Circles:
    """A ring around every point mark, on every view and every part of a view that shows it.

    `radius` runs to the middle of the stroke. All lengths are in pixels of the view; with `reference_height` they
    are meant for a view of that height and scale with the real one (BLINK, section 4: 10 px at a height of 1024).
    The pixel under the point keeps its colour. The label stands in white on a black plate above the ring; where it
    would leave the image or lie on another mark it goes below or aside. Boxes and masks are left alone.

    `color` is a CSS name or "#rrggbb". Calling raises ValueError for a point outside its own image, and where the
    view is too small for a label that hides no point.
    """

    radius: float = 10
    thickness: float = 3
    color: str = "red"
    label: bool = True
    font_size: float = 15
    reference_height: int | None = None

    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        rgb(self.color)
        for name in ("radius", "thickness", "font_size"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is in pixels and more than 0, found {getattr(self, name)}")
        if self.reference_height is not None and self.reference_height < 1:
            raise ValueError(f"reference_height is 1 or more pixels, or null, found {self.reference_height}")
        if self.radius - self.thickness / 2 < 1:
            raise ValueError(
                f"a ring of radius {self.radius} and thickness {self.thickness} hides the point in its middle; "
                "give a radius of at least half the thickness plus 1"
            )

    def __call__(self, state: State, model: Model) -> State:
        """Draw on every view; a view that shows no point is kept as it is, with its own bytes."""
        points = points_of(state.sample)
        return state.replace(views=tuple(self.draw(view, points) for view in state.views))

    def draw(self, view: View, points: Sequence[Point]) -> View:
        """One view with its rings and labels; `points` are in the pixels of the sample's images."""
        places = [place for point in points for place in view.to_view(point) if isinstance(place, Point)]
        if not places:
            return view
        scale = view.size[1] / self.reference_height if self.reference_height else 1.0
        thickness = max(1.0, self.thickness * scale)
        radius = max(self.radius * scale, thickness / 2 + 1)
        pixels = np.array(view.pixels)
        for place in places:
            _ring(pixels, place.center, radius, thickness, rgb(self.color))
        if self.label:
            _labels(pixels, view, places, radius + thickness / 2, max(6.0, self.font_size * scale))
        return view.drawn(pixels)


def rgb(color: str) -> tuple[int, int, int]:
    """The colour behind a CSS name or "#rrggbb". Raises ValueError with the nearest names."""
    name = color.lower()
    if name not in ImageColor.colormap and not re.fullmatch(r"#[0-9a-f]{6}", name):
        near = difflib.get_close_matches(name, ImageColor.colormap, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else 'give a CSS name such as red, or "#rrggbb"'
        raise ValueError(f"{color!r} is no colour; {hint}")
    red, green, blue = ImageColor.getrgb(name)[:3]
    return red, green, blue


def points_of(sample: Sample) -> list[Point]:
    """The sample's point marks. Raises ValueError that names a point outside its own image."""
    points = [mark for mark in sample.marks if isinstance(mark, Point)]
    for point in points:
        if not 0 <= point.image < len(sample.images):
            raise ValueError(
                f"sample {sample.id}: point {point.label!r} is on image {point.image}, "
                f"but there are {len(sample.images)} images, counted from 0"
            )
        width, height = sample.images[point.image].size
        if not (-0.5 <= point.x <= width - 0.5 and -0.5 <= point.y <= height - 0.5):
            raise ValueError(
                f"sample {sample.id}: point {point.label!r} at ({point.x:g}, {point.y:g}) lies outside its image "
                f"{point.image} of {width} x {height} pixels; marks are in pixels of the source image"
            )
    return points


def _ring(pixels: Pixels, center: tuple[float, float], radius: float, thickness: float, color: Sequence[int]) -> None:
    """Paint a ring by how much of each pixel it covers: cv2.circle draws its smooth strokes about 2 px too wide."""
    (x, y), reach = center, radius + thickness / 2 + 1
    left, top = max(0, math.floor(x - reach)), max(0, math.floor(y - reach))
    patch = pixels[top : math.ceil(y + reach) + 1, left : math.ceil(x + reach) + 1]
    ys, xs = np.ogrid[top : top + patch.shape[0], left : left + patch.shape[1]]
    covered = np.clip(thickness / 2 + 0.5 - np.abs(np.hypot(xs - x, ys - y) - radius), 0, 1)[..., None]
    patch[:] = np.rint(covered * np.asarray(color) + (1 - covered) * patch)


@lru_cache(maxsize=512)
def _plate(text: str, size: float) -> Pixels:
    """White text on black, in Pillow's own scalable font."""
    font = ImageFont.load_default(size)
    left, top, right, bottom = (round(edge) for edge in font.getbbox(text))
    image = Image.new("RGB", (right - left + 2 * PADDING, bottom - top + 2 * PADDING), "black")
    ImageDraw.Draw(image).text((PADDING - left, PADDING - top), text, fill="white", font=font)
    return np.asarray(image, np.uint8)


def _labels(pixels: Pixels, view: View, places: Sequence[Point], reach: float, size: float) -> None:
    """Paste the plates one after the other, each where it hides least; `reach` is the rings' outer radius."""
    taken: list[Area] = []
    for place in (place for place in places if place.label):
        plate = _plate(place.label, size)
        options = _around(place, reach, plate.shape[1], plate.shape[0], _frame(view, place))
        best = min(options, key=lambda area: _hidden(area, places, reach, taken))
        left, top, right, bottom = best
        if pixels[top:bottom, left:right].shape != plate.shape or _hidden(best, places, reach, taken)[0]:
            raise ValueError(
                f"label {place.label!r} of {plate.shape[1]} x {plate.shape[0]} pixels has no room in the view of "
                f"{view.size[0]} x {view.size[1]} pixels without hiding a point; set label: false or less font_size"
            )
        pixels[top:bottom, left:right] = plate
        taken.append(best)


def _frame(view: View, place: Point) -> Area:
    """The part of the view that shows the point: a label must not stray into the image beside it."""
    shown = [part.clip for part in view.parts if contains(part.clip, place.x + 0.5, place.y + 0.5)]
    left, top, right, bottom = bounds(shown[-1])
    return max(0, round(left)), max(0, round(top)), min(view.size[0], round(right)), min(view.size[1], round(bottom))


def _around(place: Point, reach: float, width: int, height: int, frame: Area) -> list[Area]:
    """Where a label may stand: above, below, right, left, then the corners; each pushed into the frame."""
    x, y = place.center
    middle, center = round(x - (width - 1) / 2), round(y - (height - 1) / 2)
    above, below = math.floor(y - reach - GAP) - height + 1, math.ceil(y + reach + GAP)
    left, right = math.floor(x - reach - GAP) - width + 1, math.ceil(x + reach + GAP)
    corners = [(left, above), (right, above), (left, below), (right, below)]
    spots = [(middle, above), (middle, below), (right, center), (left, center), *corners]
    pushed = [(_push(a, width, frame[0], frame[2]), _push(b, height, frame[1], frame[3])) for a, b in spots]
    return [(a, b, min(a + width, frame[2]), min(b + height, frame[3])) for a, b in pushed]


def _push(start: int, length: int, low: int, high: int) -> int:
    return max(low, min(start, high - length))


def _hidden(area: Area, places: Sequence[Point], reach: float, taken: Sequence[Area]) -> tuple[int, int]:
    """How many points a label would hide, and on how many rings and labels it would lie."""
    left, top, right, bottom = area
    points = rings = 0
    for x, y in (place.center for place in places):
        across, down = max(left - x, 0, x - right + 1), max(top - y, 0, y - bottom + 1)
        away = math.hypot(across, down)
        points, rings = points + (away < 1), rings + (away < reach)
    plates = sum(left < c and a < right and top < d and b < bottom for a, b, c, d in taken)
    return points, rings + plates

"""Axes with ticks along the views, so that places can be named by numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from looktwice.pipelines.geometry import bounds, contains
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.transforms import pad
from looktwice.pipelines.view import Part, View
from looktwice.prompting.drawing.colors import check_color, rgb
from looktwice.prompting.drawing.text import draw_text, render_text
from looktwice.prompting.grids.grids import GridStage, Layout, font_for
from looktwice.prompting.ranges import check_ranges

GAP = 2  # free pixels between a tick and its number
Tick = tuple[str, float]  # what is written, and where: a pixel centre of the view


@dataclass(frozen=True)
class Axes(GridStage):
    """Ticks with numbers along the upper and left side of every image in every view.

    `frame` "pixels" counts pixels of the source image, also where the view is a crop, was resized
    or mirrored; "0-1000" counts thousandths of the width and height of what is shown of the image,
    as several MLLMs are trained to read. `place` "margin" lays the axes on a rim of the colour
    `ground` that the view grows by, and takes views of one image each; "inside" draws them on the
    image. `step` is the distance of ticks in units of the frame; null takes the smallest 1, 2 or 5
    times a power of ten at which numbers have room. `tick` is the length of a tick and `lines` the
    share, 0..1, of lines that go on from the ticks through the image. `color` is "contrast", a CSS
    name or "#rrggbb"; `font_size` and `halo` are those of prompting.grids.RuledGrid, and so is
    `layout`.

    Raises ValueError that names the sample for an image that lies turned in its view (give
    `frame: 0-1000`), and for one too small for its numbers. A view that shows no image of the
    sample is passed on as it is.
    """

    frame: Literal["pixels", "0-1000"] = "pixels"
    place: Literal["margin", "inside"] = "margin"
    step: float | None = None
    tick: int = 5
    lines: float = 0
    color: str = "contrast"
    ground: str = "white"
    font_size: float | None = None
    halo: int = 1
    layout: Layout = "overlay"

    where: ClassVar[str] = "its coordinates"

    def __post_init__(self) -> None:
        check_color(self.color, "contrast", name="color")
        rgb(self.ground)
        check_ranges(self, "step, font_size > 0", "tick, halo, lines >= 0", "lines <= 1")

    def draw(self, view: View, number: int | None = None) -> View:
        """One view with its axes. Raises ValueError."""
        if not view.parts:
            return view
        size = max(font_for(view.size, self.font_size), 9 if self.font_size is None else 0)
        if self.place == "inside":
            pixels = np.array(view.pixels)
            for part in view.parts:
                self._draw_axes(pixels, part, size)
            return view.with_pixels(pixels)
        if len(view.parts) != 1:
            raise ValueError(
                f"axes in the margin are for views of one image, this one shows {len(view.parts)};"
                " set place: inside, or put this stage before the images are joined"
            )
        left, top = self._margins(view, size)
        grown = pad(view, left=left, top=top, color=rgb(self.ground))
        pixels = np.array(grown.pixels)
        self._draw_axes(pixels, grown.parts[0], size)
        return grown.with_pixels(pixels)

    def gridded_views(self, views: Sequence[View]) -> tuple[View, ...]:
        """Those of the views that this stage gave that have axes, in their order."""
        return tuple(view for view in super().gridded_views(views) if view.parts)

    def at(self, view: View, x: float, y: float, part: int = 0) -> tuple[float, float]:
        """Where in a view that this stage gave the numbers x and y of an axis meet, in pixel
        centres of the view."""
        chosen = view.parts[part]
        across, down = self._scale(chosen)
        return across[0] * x + across[1], down[0] * y + down[1]

    def source(
        self, view: View, x: float, y: float, part: int = 0
    ) -> tuple[int, float, float] | None:
        """The source image and the point in it of the numbers x and y; None where they are not on
        what is shown."""
        place = self.at(view, x, y, part)
        return (
            view.to_source(*place)
            if contains(view.parts[part].clip, place[0] + 0.5, place[1] + 0.5)
            else None
        )

    def describe(self, count: int) -> str:
        """What the numbers mean, in words, where `count` images have axes."""
        over = "The image has" if count == 1 else f"Each of the {count} images has"
        unit = (
            "pixels of the image"
            if self.frame == "pixels"
            else "thousandths of the image's width and height"
        )
        return (
            f"{over} axes along its upper and its left side. Places are given as (x, y) in {unit}:"
            " x is read off the upper axis and grows to the right, y off the left axis and grows"
            " downwards."
        )

    def _scale(self, part: Part) -> tuple[tuple[float, float], tuple[float, float]]:
        """(factor, offset) from a number on each axis to a pixel centre of the view. Raises
        ValueError."""
        if self.frame == "0-1000":
            x0, y0, x1, y1 = bounds(part.clip)
            return ((x1 - x0) / 1000, x0 - 0.5), ((y1 - y0) / 1000, y0 - 0.5)
        affine = part.affine
        if max(abs(affine.b), abs(affine.d)) > 1e-9:
            raise ValueError(
                f"image {part.source} lies turned in its view, so no axis runs along its pixels;"
                " set frame: 0-1000"
            )
        return (affine.a, affine.c), (affine.e, affine.f)

    def _ticks(self, part: Part, size: float) -> tuple[list[Tick], list[Tick]]:
        """The ticks of both axes, at one step, in pixel centres of the view."""
        x0, y0, x1, y1 = bounds(part.clip)
        across, down = self._scale(part)
        largest = max(abs(_unit(edge, across)) for edge in (x0, x1))
        height, width = render_text(str(math.ceil(max(largest, 10))), size).shape
        room = max(
            (width + 3 * GAP + 2 * self.halo) / abs(across[0]), (height + 3 * GAP) / abs(down[0])
        )
        step = self.step
        if step is None:  # the smallest of 1, 2, 5, 10, 20, 50 ... that is not below `room`
            power = 10.0 ** max(0, math.floor(math.log10(max(room, 1))))
            step = next(f * power for f in (1, 2, 5, 10) if f * power >= room or f == 10)
        return list(_ticks_between(across, x0, x1, step)), list(_ticks_between(down, y0, y1, step))

    def _margins(self, view: View, size: float) -> tuple[int, int]:
        """How many pixels the axes need left of and above the view."""
        columns, rows = self._ticks(view.parts[0], size)
        widest = max((render_text(text, size).shape[1] for text, _ in rows), default=0)
        highest = max((render_text(text, size).shape[0] for text, _ in columns), default=0)
        first = math.ceil(
            max((render_text(text, size).shape[1] / 2 - at for text, at in columns), default=0)
        )
        return max(widest + self.tick + 2 * GAP, first), highest + self.tick + 2 * GAP

    def _draw_axes(self, pixels: Pixels, part: Part, size: float) -> None:
        """Draw both axes of one part."""
        x0, y0, x1, y1 = (round(edge) for edge in bounds(part.clip))
        columns, rows = self._ticks(part, size)
        if self.place == "inside" and min(x1 - x0, y1 - y0) < 4 * size:
            raise ValueError(
                f"an image of {x1 - x0} x {y1 - y0} pixels in its view has no room for axes inside;"
                " set place: margin"
            )
        free = 0 if self.place == "margin" else self.halo
        end = -math.inf
        for text, at in sorted(columns, key=lambda tick: tick[1]):
            self._stroke(pixels, slice(y0, y1), _pixel(at, x0, x1), self.lines)
            self._stroke(pixels, self._tick_pixels(y0), _pixel(at, x0, x1))
            height, width = render_text(text, size).shape
            x = _clamp(at - (width - 1) / 2, free and x0 + free, x1 - width - free)
            if x > end:  # at the far rim a number may have been pushed back towards the one before
                self._write(pixels, text, x, self._number_start(y0, height), size)
                end = x + width + GAP
        # the corner is the upper axis's
        end = -math.inf if self.place == "margin" else y0 + self.tick + GAP + size
        for text, at in sorted(rows, key=lambda tick: tick[1]):
            self._stroke(pixels, _pixel(at, y0, y1), slice(x0, x1), self.lines)
            self._stroke(pixels, _pixel(at, y0, y1), self._tick_pixels(x0))
            height, width = render_text(text, size).shape
            y = _clamp(at - (height - 1) / 2, free and y0 + free, y1 - height - free)
            if y > end:
                self._write(pixels, text, self._number_start(x0, width), y, size)
                end = y + height + GAP

    def _tick_pixels(self, rim: int) -> slice:
        """The pixels of a tick that begins at the image's rim."""
        return (
            slice(rim - self.tick, rim) if self.place == "margin" else slice(rim, rim + self.tick)
        )

    def _number_start(self, rim: int, length: int) -> int:
        """Where a number of this length begins beside its tick."""
        return rim - self.tick - GAP - length if self.place == "margin" else rim + self.tick + GAP

    def _stroke(self, pixels: Pixels, rows: slice, columns: slice, share: float = 1.0) -> None:
        piece = pixels[rows, columns]
        if piece.size and share > 0:
            piece[:] = np.rint(piece * (1 - share) + np.asarray(self.ink(piece)) * share)

    def _write(self, pixels: Pixels, text: str, left: int, top: int, size: float) -> None:
        height, width = render_text(text, size).shape
        color = self.ink(pixels[max(0, top) : top + height, max(0, left) : left + width])
        draw_text(pixels, text, left, top, size, color, 0 if self.place == "margin" else self.halo)


def _unit(edge: float, scale: tuple[float, float]) -> float:
    return (edge - 0.5 - scale[1]) / scale[0]


def _ticks_between(
    scale: tuple[float, float], low: float, high: float, step: float
) -> Iterator[Tick]:
    """The multiples of a step that lie between two edges of the view, with their pixel centres
    there."""
    first, last = sorted((_unit(low, scale), _unit(high, scale)))
    for number in range(math.ceil(first / step), math.floor(last / step) + 1):
        yield f"{number * step:g}", scale[0] * number * step + scale[1]


def _pixel(at: float, low: int, high: int) -> slice:
    """The pixel row or column of a tick, kept on the image: the number 1000 stands on its far
    edge."""
    number = _clamp(at, low, high - 1)
    return slice(number, number + 1)


def _clamp(start: float, low: int, high: int) -> int:
    return max(low, min(round(start), high))

"""Axes with ticks along the views, so that places can be given as numbers; and a stage that
explains in the prompt what a grid is and how to use it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np

from looktwice.pipelines.geometry import bounds
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import pad
from looktwice.pipelines.view import Part, View
from looktwice.prompting.drawing.colors import parse_rgb
from looktwice.prompting.drawing.text import render_text
from looktwice.prompting.grids.grids import GridStage, Layout
from looktwice.prompting.wording.instructions import Text, Wording, add_lines, fill_in

NUMBER_GAP = 2  # free pixels between a tick and its number
Tick = tuple[str, float]  # text and position, a pixel centre of the view


@dataclass(frozen=True)
class Axes(GridStage):
    """Ticks with numbers along the upper and left side of every image in every view.

    `frame` "pixels" counts pixels of the source image, even if the view is cropped, resized or
    mirrored; "0-1000" counts thousandths of the width and height of the visible part of the image,
    as several MLLMs are trained to read. `place` "margin" adds a margin of the colour `ground` for
    the axes, and accepts only views of a single image; "inside" draws them on the image. `step` is
    the distance between ticks in the unit of `frame`; null uses the smallest 1, 2 or 5 times a
    power of ten at which the numbers fit. `tick` is the length of a tick, and `lines` the opacity,
    0..1, of lines that continue the ticks across the image. `color` is "contrast", a CSS name or
    "#rrggbb"; `font_size`, `halo` and `layout` are those of prompting.grids.RuledGrid.

    Raises a ValueError that names the sample for an image that is rotated in its view (use `frame:
    0-1000`), and for an image that is too small for its numbers. A view that shows no image of the
    sample is passed on unchanged.
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

    place_phrase: ClassVar[str] = "its coordinates"

    ranges = ("step > 0", "tick, halo, lines >= 0", "lines <= 1")

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_rgb(self.ground)

    def draw(self, view: View, number: int | None = None) -> View:
        """Return one view with its axes. Raises ValueError."""
        if not view.parts:
            return view
        size = max(self.choose_font_size(view), 9) if self.font_size is None else self.font_size
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
        # the space that the axes need left of and above the view
        columns, rows = self._place_ticks(view.parts[0], size)
        left, top, gap = 0, 0, self.tick + 2 * NUMBER_GAP
        for text, at in columns:
            height, width = render_text(text, size).shape
            left, top = max(left, math.ceil(width / 2 - at)), max(top, height)
        widest = max((render_text(text, size).shape[1] for text, _ in rows), default=0)
        left, top = max(left, widest + gap), top + gap
        grown = pad(view, left=left, top=top, color=parse_rgb(self.ground))
        pixels = np.array(grown.pixels)
        self._draw_axes(pixels, grown.parts[0], size)
        return grown.with_pixels(pixels)

    def select_gridded_views(self, views: Sequence[View]) -> tuple[View, ...]:
        """Return, in order, those of `views` that have axes; `views` are all views as this stage
        returned them."""
        return tuple(view for view in super().select_gridded_views(views) if view.parts)

    def describe(self, count: int) -> str:
        """Return the explanation of the numbers for the model, for `count` images with axes."""
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

    def _compute_scales(self, part: Part) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return (factor, offset) of each axis: its numbers lie at number * factor + offset in the
        view, in pixel centres. Raises ValueError."""
        if self.frame == "0-1000":
            x0, y0, x1, y1 = bounds(part.clip)
            return ((x1 - x0) / 1000, x0 - 0.5), ((y1 - y0) / 1000, y0 - 0.5)
        affine = part.affine
        if max(abs(affine.b), abs(affine.d)) > 1e-9:
            raise ValueError(
                f"image {part.source} is rotated in its view, so no axis can run along its pixels;"
                " set frame: 0-1000"
            )
        return (affine.a, affine.c), (affine.e, affine.f)

    def _place_ticks(self, part: Part, size: float) -> tuple[list[Tick], list[Tick]]:
        """Return the ticks of the upper axis and of the left one; both axes have the same step."""
        x0, y0, x1, y1 = bounds(part.clip)
        across, down = self._compute_scales(part)
        largest = max(abs((edge - 0.5 - across[1]) / across[0]) for edge in (x0, x1))
        height, width = render_text(str(math.ceil(max(largest, 10))), size).shape
        wide, high = width + 3 * NUMBER_GAP + 2 * self.halo, height + 3 * NUMBER_GAP
        room = max(wide / abs(across[0]), high / abs(down[0]))
        step = self.step
        if step is None:  # the smallest of 1, 2, 5, 10, 20, 50 ... that is not below `room`
            power = 10.0 ** max(0, math.floor(math.log10(max(room, 1))))
            step = next(f * power for f in (1, 2, 5, 10) if f * power >= room or f == 10)
        return _list_ticks(across, x0, x1, step), _list_ticks(down, y0, y1, step)

    def _draw_axes(self, pixels: Pixels, part: Part, size: float) -> None:
        """Draw both axes of one part."""
        x0, y0, x1, y1 = (round(edge) for edge in bounds(part.clip))
        inside = self.place == "inside"
        if inside and min(x1 - x0, y1 - y0) < 4 * size:
            raise ValueError(
                f"an image of {x1 - x0} x {y1 - y0} pixels in its view has no room for axes inside;"
                " set place: margin"
            )
        halo, ticks = self.halo if inside else 0, self._place_ticks(part, size)
        # the corner belongs to the upper axis
        ends = [-math.inf, y0 + self.tick + NUMBER_GAP + size if inside else -math.inf]
        for axis, (low, high, rim, far) in enumerate(((x0, x1, y0, y1), (y0, y1, x0, x1))):
            end = ends[axis]
            for text, at in sorted(ticks[axis], key=lambda tick: tick[1]):
                # clamped to the image: the number 1000 is at its far edge
                number = _clamp(at, low, high - 1)
                across = slice(number, number + 1)
                start = rim if inside else rim - self.tick
                for along, share in (
                    (slice(rim, far), self.lines),
                    (slice(start, start + self.tick), 1.0),
                ):
                    rows, columns = (across, along) if axis else (along, across)
                    self.paint_stroke(pixels, pixels, rows, columns, share)
                shape = render_text(text, size).shape
                length, depth = shape[1 - axis], shape[axis]
                free = low + halo if halo else 0
                at = _clamp(at - (length - 1) / 2, free, high - length - halo)
                # at the far edge a number may have been shifted onto the previous one
                if at > end:
                    beside = (
                        rim + self.tick + NUMBER_GAP
                        if inside
                        else rim - self.tick - NUMBER_GAP - depth
                    )
                    left, top = (beside, at) if axis else (at, beside)
                    self.write_text(pixels, pixels, text, left, top, size, halo)
                    end = at + length + NUMBER_GAP


def _list_ticks(scale: tuple[float, float], low: float, high: float, step: float) -> list[Tick]:
    """Return a tick for each multiple of `step` between two edges of the view."""
    first, last = sorted((edge - 0.5 - scale[1]) / scale[0] for edge in (low, high))
    numbers = range(math.ceil(first / step), math.floor(last / step) + 1)
    return [(f"{n * step:g}", scale[0] * n * step + scale[1]) for n in numbers]


def _clamp(start: float, low: int, high: int) -> int:
    return max(low, min(round(start), high))


GUIDE_TEXTS = {
    "none": (),
    "steps": (
        "Work in four steps and write down each of them.",
        "1. Understand: say what the question wants to know and what form its answer has.",
        (
            "2. Perceive: for every thing that the question or its choices speak of, give {where},"
            " in every image."
        ),
        "3. Connect: {connect}",
        "4. Conclude: decide by what you found in the steps before.",
    ),
    "guidelines": (
        "Keep to these rules.",
        "1. Before you speak of a thing, give {where}.",
        "2. Tell from these how things lie to one another.",
        "3. Search the image region by region along the grid, so that nothing small is missed.",
        "4. Draw your conclusion only from what you found in this way.",
    ),
}
FINAL_INSTRUCTIONS = {
    "none": "",
    "steps": (
        'End with a line of its own that begins with "MY_ANSWER:" and then gives nothing but the'
        " answer."
    ),
    "guidelines": "End with your answer in double square brackets, as in [[ANSWER]].",
}
CONNECT_INSTRUCTIONS = {
    False: "relate these places to one another, and say what follows for the question.",
    True: (
        "compare what lies at the same places in the images: what is the same, what changed, moved"
        " or is gone."
    ),
}
SHOWN_TWICE_NOTE = (
    "Every image is shown twice, first as it is and then with the grid; both count as one."
)


class Grid(Protocol):
    """A stage that draws a grid and can explain it to the model. `place_phrase` tells the model how
    to give an object's position."""

    place_phrase: ClassVar[str]

    def select_gridded_views(self, views: tuple[View, ...], /) -> Sequence[View]: ...

    def describe(self, count: int, /) -> str: ...


@dataclass(frozen=True)
class GridWords(Wording):
    """Adds lines below the question that explain the grid on the views and how to use it. Put it
    after the grid's stage.

    `grid` is that stage, ideally by reference, so that both always agree: `grid: ${stages.grid}`;
    if it is null, as in a sweep without the grid, nothing is added. `guide` "steps" adds the four
    steps of VLM2-Bench's VP-grid (understand, perceive, connect, conclude), and "guidelines" the
    four rules of Scaffold (Lei et al. 2024), in our words. `header` is a line above them. `final`
    is the last line, which tells the model how to give its answer; null uses the guide's own (a
    line "MY_ANSWER: ..." or "[[...]]"), and "" adds none. `text` replaces all these lines with your
    own text, or with the text of a file (`{file: NAME}`); `{rows}`, `{columns}` and `{images}` in
    it become the grid's numbers and the number of images.
    """

    grid: Grid | None = None
    guide: Literal["none", "steps", "guidelines"] = "none"
    header: str = ""
    final: str | None = None
    text: Text = ""

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with these lines below its prompt; unchanged if no view has the grid."""
        grid = self.grid
        count = len(grid.select_gridded_views(state.views)) if grid is not None else 0
        if grid is None or not count:
            return state
        if self.text:
            own = {name: str(getattr(grid, name, f"{{{name}}}")) for name in ("rows", "columns")}
            return add_lines(state, fill_in(self.text, images=str(count), **own))
        filled = {"where": grid.place_phrase, "connect": CONNECT_INSTRUCTIONS[count > 1]}
        guide = [line.format(**filled) for line in GUIDE_TEXTS[self.guide]]
        final = FINAL_INSTRUCTIONS[self.guide] if self.final is None else self.final
        twice = SHOWN_TWICE_NOTE if getattr(grid, "layout", "") == "original_plus_overlay" else ""
        return add_lines(state, self.header, grid.describe(count), twice, *guide, final)

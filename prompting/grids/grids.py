"""Grids of dots or ruled cells over the views, with names that both the model and the reader
understand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import ClassVar, Literal

import numpy as np

from looktwice.pipelines.marks import Box, Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import (
    HALF_BRIGHTNESS,
    RGB,
    check_color,
    choose_black_or_white,
    parse_rgb,
)
from looktwice.prompting.drawing.text import MIN_EM, draw_text, render_text

Layout = Literal["overlay", "original_plus_overlay"]
Size = tuple[int, int]
"""(width, height)."""

_COORDINATES_PATTERN = re.compile(r"[(\[]\s*(\d{1,4}(?:\s*,\s*\d{1,4}){1,2})\s*[)\]]")


def read_coordinates(reply: str) -> tuple[tuple[int, ...], ...]:
    """Return every "(2,3)" or "(1, 2, 3)" in a text, in round or square brackets, in order and
    without repetitions."""
    named = (tuple(map(int, numbers.split(","))) for numbers in _COORDINATES_PATTERN.findall(reply))
    return tuple(dict.fromkeys(named))


def format_coordinates(named: Sequence[int]) -> str:
    """Format coordinates as they are drawn: "(1,2,3)"."""
    return f"({','.join(str(value) for value in named)})"


def make_column_letters(number: int) -> str:
    """Return A, B ... Z, AA, AB ... for 0, 1 ..., as spreadsheets name their columns."""
    text, number = "", number + 1
    while number:
        number, last = divmod(number - 1, 26)
        text = ascii_uppercase[last] + text
    return text


def find_source_box(view: View, box: Box) -> Box | None:
    """Return the part of a source image that a box of a view shows, as a box in that image; None if
    it shows no image.

    If it shows several images, the one that fills most of the box is used (the topmost on a tie),
    and the box is cut at its edge. The label is kept.
    """
    best, most = None, 0.0
    for part in view.parts:
        back = part.affine.inverse
        if seen := box.transform(back, back.map_polygon(part.clip)):
            area = (seen.x1 - seen.x0) * (seen.y1 - seen.y0) * part.affine.scale**2
            if area >= most:
                best, most = Box(box.label, *seen.xyxy, part.source), area
    return best


class GridStage(Ranged, WithoutModel):
    """A stage that draws a grid; a subclass implements `draw`.

    `layout` "original_plus_overlay" shows each view twice, unchanged and then with the grid.
    `color` is "contrast" (black or white, depending on the pixels below), a CSS name or "#rrggbb".
    """

    color: str
    layout: Layout
    font_size: float | None
    halo: int
    place_phrase: ClassVar[str]
    """The phrase that tells the model how to give an object's location."""
    ranges: ClassVar[tuple[str, ...]] = ("font_size > 0",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_color(self.color, "contrast", name="color")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with a grid on every view. Raises a ValueError that names the sample if
        it does not fit."""
        views: list[View] = []
        for number, view in enumerate(state.views, 1):
            try:
                drawn = self.draw(view, number if self.is_numbered(len(state.views)) else None)
            except ValueError as exc:
                raise ValueError(f"sample {state.sample.id}, view {number}: {exc}") from exc
            views += [drawn] if self.layout == "overlay" else [view, drawn]
        return state.replace(views=tuple(views))

    def is_numbered(self, count: int) -> bool:
        """Return whether names start with the number of the image if `count` images have the
        grid."""
        return False

    def draw(self, view: View, number: int | None = None) -> View:
        """Return one view with its grid; `number` is the view's number in the names. Raises
        ValueError."""
        raise NotImplementedError

    def select_gridded_views(self, views: Sequence[View]) -> tuple[View, ...]:
        """Return, in order, those of `views` that have the grid; `views` are all views as this
        stage returned them."""
        return tuple(views if self.layout == "overlay" else views[1::2])

    def describe(self, count: int) -> str:
        """Return the explanation of the grid for the model, for `count` images with a grid."""
        raise NotImplementedError

    def choose_font_size(self, view: View) -> float:
        """Return the font size in a view: `font_size`, or else a fortieth of the width."""
        return max(MIN_EM, view.size[0] // 40) if self.font_size is None else self.font_size

    def choose_ink(self, ground: Pixels) -> RGB:
        """Return the colour for drawing over these pixels."""
        return choose_black_or_white(ground) if self.color == "contrast" else parse_rgb(self.color)

    def paint_stroke(
        self, pixels: Pixels, ground: Pixels, rows: slice, columns: slice, share: float
    ) -> None:
        """Paint a segment of a line into the picture with the opacity `share`; its colour depends
        on the background `ground`."""
        piece = ground[rows, columns]
        if piece.size and share > 0:
            mixed = piece * (1 - share) + np.asarray(self.choose_ink(piece)) * share
            pixels[rows, columns] = np.rint(mixed)

    def write_text(
        self, pixels: Pixels, ground: Pixels, text: str, left: int, top: int, size: float, halo: int
    ) -> None:
        """Write text with its upper left corner at (`left`, `top`); its colour depends on the
        background `ground`."""
        height, width = render_text(text, size).shape
        color = self.choose_ink(ground[max(0, top) : top + height, max(0, left) : left + width])
        draw_text(pixels, text, left, top, size, color, halo)


LABEL_OFFSET = 3  # pixels from a dot to its label
PLAIN_NUMBER_PATTERN = r"(?<![\w.])\d{1,6}(?!\w|\.\d)"


@dataclass(frozen=True)
class DotGrid(GridStage):
    """A matrix of dots, each labelled with its coordinates: Scaffold (Lei et al. 2024), VP-grid of
    VLM2-Bench.

    The defaults are those of Scaffold's released code: 6 `rows` and 6 `columns` of dots at whole
    pixels, spaced by the width over columns plus one and the height over rows plus one; dots with a
    radius of width // 240 pixels and a font size of width // 40 (here at least 6); labels 3 pixels
    to the right of the dot, level with it; black if R + G + B of the pixel under the dot is
    `threshold` or more, otherwise white. `radius` and `font_size` set them in pixels of the view.
    `color` is "contrast", a CSS name or "#rrggbb". `halo` is the width of a black or white rim
    around the letters, in pixels.

    `coordinates`: "row-column" writes (row,column); "image-row-column" adds the number of the image
    among those with dots; "auto" adds it only if there are several. All numbers count from 1, rows
    down and columns to the right. `layout` "original_plus_overlay" shows each view twice, unchanged
    and then with the dots. Labels that would touch the next dot or leave the view raise ValueError,
    unless `crowded` is "draw"; with `labels` False there are none.
    """

    rows: int = 6
    columns: int = 6
    radius: float | None = None
    font_size: float | None = None
    color: str = "contrast"
    threshold: float = HALF_BRIGHTNESS
    halo: int = 0
    labels: bool = True
    coordinates: Literal["auto", "row-column", "image-row-column"] = "auto"
    layout: Layout = "overlay"
    crowded: Literal["fail", "draw"] = "fail"

    place_phrase: ClassVar[str] = "the coordinates of the dot nearest to it"

    ranges = ("rows, columns >= 1", "radius, threshold >= 0", "threshold <= 766")

    def is_numbered(self, count: int) -> bool:
        """Return whether coordinates start with the number of the image."""
        return count > 1 if self.coordinates == "auto" else self.coordinates == "image-row-column"

    def draw(self, view: View, number: int | None = None) -> View:
        """Return one view with its dots; `number` is written before row and column. Raises
        ValueError."""
        radius = view.size[0] // 240 if self.radius is None else self.radius
        (width, height), size = view.size, self.choose_font_size(view)
        prefix = [number] if number else []
        across, down = width / (self.columns + 1), height / (self.rows + 1)
        if min(across, down) < 2 * radius + 2:
            raise ValueError(
                f"{self.rows} rows and {self.columns} columns of dots are too fine for a view of"
                f" {width} x {height} pixels: they would be {min(across, down):.1f} pixels"
                " apart; give fewer or a smaller radius"
            )
        if self.labels and self.crowded == "fail":
            text = format_coordinates((*prefix, self.rows, self.columns))
            high, wide = render_text(text, size).shape
            if LABEL_OFFSET + wide > across - radius or high > down:
                raise ValueError(
                    f"labels of {wide} x {high} pixels have no room between dots {across:.1f} x"
                    f" {down:.1f} pixels apart in a view of {width} x {height}; use fewer dots,"
                    " a smaller font_size, or crowded: draw"
                )
        pixels, reach = np.array(view.pixels), int(radius) + 1
        for row, column in np.ndindex(self.rows, self.columns):
            x, y = self.locate_dot(view.size, row + 1, column + 1)
            color = parse_rgb(self.color) if self.color != "contrast" else None
            color = color or choose_black_or_white(view.pixels[y, x], self.threshold)
            left, top = max(0, x - reach), max(0, y - reach)
            patch = pixels[top : y + reach + 1, left : x + reach + 1]
            ys, xs = np.ogrid[top : top + patch.shape[0], left : left + patch.shape[1]]
            covered = np.clip(radius + 1 - np.hypot(xs - x, ys - y), 0, 1)[..., None]
            patch[:] = np.rint(covered * np.asarray(color) + (1 - covered) * patch)
            if self.labels:
                text = format_coordinates((*prefix, row + 1, column + 1))
                draw_text(pixels, text, x + LABEL_OFFSET, y, size, color, self.halo)
        return view.with_pixels(pixels)

    def locate_dot(self, size: Size, row: int, column: int) -> tuple[int, int]:
        """Return the pixel (x, y) of a dot in a view of this size (width, height)."""
        return int(size[0] * column / (self.columns + 1)), int(size[1] * row / (self.rows + 1))

    def make_box_around(self, size: Size, row: int, column: int, cells: float = 2) -> Box:
        """Return the box that extends `cells` spacings to each side of a dot, cut at the view's
        edge, as in Scaffold's active perception."""
        x, y = self.locate_dot(size, row, column)
        across, down = cells * size[0] / (self.columns + 1), cells * size[1] / (self.rows + 1)
        left, top = max(0.0, x + 0.5 - across), max(0.0, y + 0.5 - down)
        right, bottom = min(size[0], x + 0.5 + across), min(size[1], y + 0.5 + down)
        return Box(f"({row},{column})", left, top, right, bottom)

    def has_dot(self, named: Sequence[int]) -> bool:
        """Return whether an image has a dot with these coordinates."""
        return min(named) >= 1 and named[-2] <= self.rows and named[-1] <= self.columns

    def find_named_dots(
        self, views: Sequence[View], reply: str
    ) -> Iterator[tuple[View, tuple[int, ...]]]:
        """Yield the coordinates that a reply names, each with its view. Coordinates without an
        image number mean the first image; those beyond the grid are left out."""
        shown = self.select_gridded_views(views)
        for named in read_coordinates(reply):
            number = named[0] if len(named) == 3 else 1
            if self.has_dot(named) and number <= len(shown):
                yield shown[number - 1], named

    def places(self, views: Sequence[View], reply: str) -> tuple[Point, ...]:
        """Return the coordinates that a reply names as points of the source images, labelled as
        written.

        `views` are all views as this stage returned them; they may have been resized since.
        Coordinates without an image number mean the first image. Those beyond the grid or on no
        source image are left out.
        """
        points: list[Point] = []
        for view, named in self.find_named_dots(views, reply):
            if source := view.to_source(*self.locate_dot(view.size, *named[-2:])):
                points.append(Point(format_coordinates(named), source[1], source[2], source[0]))
        return tuple(points)

    def describe(self, count: int) -> str:
        """Return the explanation of the dots for the model, for `count` images with dots."""
        several = self.is_numbered(count)
        over = "the image" if count == 1 else f"each of the {count} images"
        first = "the image's number in the order shown, " if several else ""
        named = "(image, row, column)" if several else "(row, column)"
        return (
            f"Dots in {self.rows} rows and {self.columns} columns lie over {over}. Beside each dot"
            f" stand its coordinates {named}: {first}the row counted from the top down, and the"
            " column counted from left to right, all from 1."
        )


@dataclass(frozen=True)
class RuledGrid(GridStage):
    """Lines that divide the view into `rows` x `columns` equal cells, each with its name.

    `names`: "A1" uses letters for columns and numbers for rows, "number" counts along the rows,
    "row-column" writes (row,column), all from the top left and from 1; "none" leaves the cells
    unnamed. `at` places names in the corner or the centre of the cell. `thickness` and `font_size`
    are in pixels of the view; `font_size` null is width // 40, at least 6. `color` is "contrast"
    (black or white for each piece of line and each name, depending on the pixels below), a CSS name
    or "#rrggbb". `alpha` is the opacity of the lines, and `halo` the width of a black or white rim
    around the letters, in pixels. `layout` and `crowded` are those of DotGrid.
    """

    rows: int = 4
    columns: int = 4
    names: Literal["A1", "number", "row-column", "none"] = "A1"
    at: Literal["corner", "center"] = "corner"
    color: str = "contrast"
    thickness: int = 1
    alpha: float = 0.7
    font_size: float | None = None
    halo: int = 1
    layout: Layout = "overlay"
    crowded: Literal["fail", "draw"] = "fail"

    place_phrase: ClassVar[str] = "the name of the cell that it lies in"

    ranges = ("rows, columns, thickness >= 1", "alpha >= 0", "alpha <= 1")

    def draw(self, view: View, number: int | None = None) -> View:
        """Return one view with its lines and names."""
        (width, height), size, ground = view.size, self.choose_font_size(view), view.pixels
        across, down = width / self.columns, height / self.rows
        if min(across, down) < self.thickness + 2:
            raise ValueError(
                f"{self.rows} rows and {self.columns} columns are too fine for a view of {width}"
                f" x {height} pixels: cells would be {across:.1f} x {down:.1f} pixels; give fewer"
            )
        cells = [self.make_cell(view.size, *place) for place in np.ndindex(self.rows, self.columns)]
        if self.names != "none" and self.crowded == "fail":
            high, wide = np.max([render_text(box.label, size).shape for box in cells], axis=0)
            inset = 2 * (self.thickness + self.halo + 1)
            if wide + inset > across or high + inset > down:
                raise ValueError(
                    f"names of {wide} x {high} pixels have no room in cells of {across:.1f} x"
                    f" {down:.1f} pixels; use fewer cells, a smaller font_size,"
                    " names: none, or crowded: draw"
                )
        pixels, half = np.array(ground), self.thickness // 2
        for box in cells:
            x0, y0, x1, y1 = (int(edge) for edge in box.xyxy)
            beside, above = (slice(at - half, at - half + self.thickness) for at in (x0, y0))
            if x0:  # no line on the view's edge
                self.paint_stroke(pixels, ground, slice(y0, y1), beside, self.alpha)
            if y0:
                self.paint_stroke(pixels, ground, above, slice(x0, x1), self.alpha)
            if self.names != "none":
                high, wide = render_text(box.label, size).shape
                left, top = (edge + self.thickness + self.halo + 2 for edge in (x0, y0))
                if self.at == "center":
                    left, top = round((x0 + x1 - wide) / 2), round((y0 + y1 - high) / 2)
                self.write_text(pixels, ground, box.label, left, top, size, self.halo)
        return view.with_pixels(pixels)

    def make_cell_name(self, row: int, column: int) -> str:
        """Return the name of a cell; row and column count from 0."""
        if self.names == "number":
            return str(row * self.columns + column + 1)
        if self.names == "row-column":
            return format_coordinates((row + 1, column + 1))
        return f"{make_column_letters(column)}{row + 1}"

    def make_cell(self, size: Size, row: int, column: int) -> Box:
        """Return a cell of a view of this size (width, height), labelled with its name; row and
        column count from 0."""
        x0, x1 = (_compute_edge(size[0], edge, self.columns) for edge in (column, column + 1))
        y0, y1 = (_compute_edge(size[1], edge, self.rows) for edge in (row, row + 1))
        return Box(self.make_cell_name(row, column), x0, y0, x1, y1)

    def places(self, views: Sequence[View], reply: str, number: int = 1) -> tuple[Box, ...]:
        """Return the cells that a reply names as boxes of the source image, labelled with their
        names, in order.

        `views` are all views as this stage returned them; `number`, from 1, selects one of the
        views with lines. A name counts only as a whole word ("B2", not "B23"). Cells that show no
        source image are left out.
        """
        shown = self.select_gridded_views(views)
        if self.names == "none" or not 1 <= number <= len(shown):
            return ()
        view, boxes = shown[number - 1], list[Box]()
        if self.names == "row-column":
            names = [format_coordinates(numbers) for numbers in read_coordinates(reply)]
        else:
            pattern = r"\b[A-Z]{1,3}[1-9]\d{0,3}\b"
            names = re.findall(PLAIN_NUMBER_PATTERN if self.names == "number" else pattern, reply)
        places = {
            self.make_cell_name(*place): place for place in np.ndindex(self.rows, self.columns)
        }
        for name in dict.fromkeys(names):
            if name in places and (
                box := find_source_box(view, self.make_cell(view.size, *places[name]))
            ):
                boxes.append(box)
        return tuple(boxes)

    def describe(self, count: int) -> str:
        """Return the explanation of the cells' names for the model, for `count` images with
        cells."""
        over = "the image" if count == 1 else f"each of the {count} images"
        naming = {
            "A1": (
                "Each cell has a name: a letter for its column from left to right, and a number for"
                " its row from the top down."
            ),
            "number": "The cells are numbered from 1, row by row from the top left.",
            "row-column": (
                "Each cell is named (row, column), rows from the top down and columns from left to"
                " right, both from 1."
            ),
            "none": "",
        }
        lines = (
            f"Lines divide {over} into cells, {self.rows} rows and {self.columns} columns of the"
            " same size."
        )
        return f"{lines} {naming[self.names]}".strip()


def _compute_edge(length: int, edge: int, pieces: int) -> int:
    """Return the position, in whole pixels, of edge number `edge` if a length is divided into
    `pieces` equal parts."""
    return (2 * length * edge + pieces) // (2 * pieces)

"""What grids share: checks, names of cells, coordinates in replies, and the map from a cell back to the source."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from string import ascii_uppercase
from typing import Literal

import numpy as np

from looktwice.pipelines.marks import Box
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import RGB, black_or_white, check_color, rgb

Layout = Literal["overlay", "original_plus_overlay"]
Size = tuple[int, int]
"""Width, height."""

LEAST_FONT = 6.0  # pixels; below, no letter can be told from another
_COORDINATES = re.compile(r"[(\[]\s*(\d{1,4}(?:\s*,\s*\d{1,4}){1,2})\s*[)\]]")


def read_coordinates(reply: str) -> tuple[tuple[int, ...], ...]:
    """Every "(2,3)" or "(1, 2, 3)" of a text, in brackets of either kind, in order, each once."""
    found = (tuple(int(number) for number in named.split(",")) for named in _COORDINATES.findall(reply))
    return tuple(dict.fromkeys(found))


def format_coordinates(named: Sequence[int]) -> str:
    """Coordinates as they are drawn: "(1,2,3)"."""
    return f"({','.join(str(value) for value in named)})"


def column_letters(number: int) -> str:
    """A, B ... Z, AA, AB ... for 0, 1 ..., as spreadsheets name their columns."""
    text, number = "", number + 1
    while number:
        number, last = divmod(number - 1, 26)
        text = ascii_uppercase[last] + text
    return text


def source_box(view: View, box: Box) -> Box | None:
    """What a box of a view shows of a source image, as a box there; None where it shows none.

    Of several images it is the one that has the most of the box (of equals the topmost), and what reaches over its
    rim is cut. The label is kept.
    """
    best, most = None, 0.0
    for part in view.parts:
        back = part.affine.inverse
        seen = box.transform(back, back.polygon(part.clip))
        area = (seen.x1 - seen.x0) * (seen.y1 - seen.y0) * part.affine.scale**2 if seen is not None else 0.0
        if seen is not None and area >= most:
            best, most = Box(box.label, *seen.xyxy, part.source), area
    return best


def check_grid(rows: int, columns: int, color: str, font_size: float | None) -> None:
    """Raise ValueError for settings that no grid can have."""
    check_color(color, "contrast", name="color")
    if rows < 1 or columns < 1:
        raise ValueError(f"a grid has 1 or more rows and columns, found {rows} and {columns}")
    if font_size is not None and not font_size > 0:
        raise ValueError(f"font_size is in pixels and more than 0, or null for width // 40, found {font_size}")


def font_for(size: Size, font_size: float | None) -> float:
    """The size of letters in a view: the one that is set, else a fortieth of the width."""
    return max(LEAST_FONT, size[0] // 40) if font_size is None else font_size


class GridStage(WithoutModel):
    """A stage that draws a grid; a subclass gives `draw`, and has these settings."""

    color: str
    layout: Layout

    def __call__(self, state: State, model: Model) -> State:
        """Every view with its grid. Raises ValueError that names the sample where the grid does not fit."""
        return draw_grid(state, self.layout, lambda view, number: self.draw(view))

    def draw(self, view: View) -> View:
        """One view with its grid. Raises ValueError."""
        raise NotImplementedError

    def gridded_views(self, views: Sequence[View]) -> tuple[View, ...]:
        """Those of the views that this stage gave that have the grid, in the order of their numbers."""
        return tuple(views if self.layout == "overlay" else views[1::2])

    def ink(self, ground: Pixels) -> RGB:
        """The colour of what is drawn over these pixels."""
        return black_or_white(ground) if self.color == "contrast" else rgb(self.color)


def draw_grid(state: State, layout: Layout, draw: Callable[[View, int], View]) -> State:
    """The state with a grid on every view; `draw` is given the view and its number from 1.

    Raises ValueError that names the sample.
    """
    views: list[View] = []
    for number, view in enumerate(state.views, 1):
        try:
            drawn = draw(view, number)
        except ValueError as exc:
            raise ValueError(f"sample {state.sample.id}, view {number}: {exc}") from exc
        views += [drawn] if layout == "overlay" else [view, drawn]
    return state.replace(views=tuple(views))


def grid_edge(length: int, edge: int, pieces: int) -> int:
    """Edge number `edge` of so many equal pieces of a length, in whole pixels."""
    return (2 * length * edge + pieces) // (2 * pieces)


def fill_disc(pixels: Pixels, x: int, y: int, radius: float, color: RGB) -> None:
    """A dot of 2 * radius + 1 pixels across, smooth at its rim, in place."""
    reach = int(radius) + 1
    left, top = max(0, x - reach), max(0, y - reach)
    patch = pixels[top : y + reach + 1, left : x + reach + 1]
    ys, xs = np.ogrid[top : top + patch.shape[0], left : left + patch.shape[1]]
    covered = np.clip(radius + 1 - np.hypot(xs - x, ys - y), 0, 1)[..., None]
    patch[:] = np.rint(covered * np.asarray(color) + (1 - covered) * patch)

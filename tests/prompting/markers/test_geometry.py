"""Positions of labels next to a shape, and the smallest size of scaled shapes, to the pixel."""

import numpy as np
import pytest

from looktwice.pipelines.marks import Box, Point
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.regions import rasterize
from looktwice.prompting.markers import (
    Arrows,
    Circles,
    Contours,
    Crosshairs,
    Dots,
    Label,
    Spotlight,
    Tint,
)
from tests.prompting.scenes import GREY, NONE, draw_view, find_box, is_color
from tests.tables import table


def plate(pixels: Pixels) -> tuple[int, int, int, int]:
    """Return the pixels of the blue plate."""
    return find_box(is_color(pixels, (0, 0, 255)))


@pytest.mark.parametrize("half", [0, 0.5])
def test_labels_start_after_the_gap(half: float) -> None:
    """A ring of radius 10, stroke 2 and a gap of 3 keep 14 pixels free."""
    x, y, edges = 60 + half, 50 + half, {}
    for side in ("left", "right", "above", "below"):
        label = Label(placement=side, plate="blue", font_size=9)
        edges[side] = plate(
            draw_view(Circles(radius=10, thickness=2, label=label), Point("A", x, y))
        )
    assert edges["left"][2] == np.floor(x + 0.5 - 14)
    assert edges["right"][0] == np.ceil(x + 0.5 + 14)
    assert edges["above"][3] == np.floor(y + 0.5 - 14)
    assert edges["below"][1] == np.ceil(y + 0.5 + 14)
    for side in ("above", "below"):
        left, _, right, _ = edges[side]
        assert left == np.floor(x + 1 - (right - left) / 2)


def test_labels_start_after_a_region() -> None:
    label = Label(placement="right", plate="blue", font_size=9, gap=2)
    assert plate(draw_view(Tint(label=label), Box("A", 30, 20, 50, 60)))[0] == 52
    assert plate(draw_view(Contours(thickness=4, label=label), Box("A", 30, 20, 50, 60)))[0] == 54
    assert plate(draw_view(Spotlight(padding=5, label=label), Box("A", 30, 20, 50, 60)))[0] == 57


@pytest.mark.parametrize("right_edge", [50, 51])
@pytest.mark.parametrize("stage", [Tint, Spotlight])
def test_a_label_above_a_region_is_centred_on_it(
    stage: type[Tint | Spotlight], right_edge: int
) -> None:
    label = Label(placement="above", plate="blue", font_size=9)
    left, _, right, _ = plate(draw_view(stage(label=label), Box("A", 30, 60, right_edge, 80)))
    assert left == np.floor((30 + right_edge) / 2 + 0.5 - (right - left) / 2)


def test_shapes_scaled_to_almost_nothing_stay_visible() -> None:
    dot = draw_view(Dots(radius=5, label=NONE, reference_height=10_000), Point("A", 60, 50)) != GREY
    assert np.argwhere(dot.any(-1)).tolist() == [[50, 60]]
    ring = draw_view(Circles(radius=5, label=NONE, reference_height=10_000), Point("A", 60, 50))
    assert tuple(ring[50, 60]) == GREY
    assert ring[50, 61, 0] > 90
    cross = draw_view(Crosshairs(radius=5, label=NONE, reference_height=10_000), Point("A", 60, 50))
    assert tuple(cross[50, 60]) == GREY
    assert cross[50, 62, 0] > 90


def test_a_spotlight_starts_to_fade_at_the_edge() -> None:
    """The outermost pixel keeps its value, and the next ones darken over `feather` pixels."""
    row = draw_view(Spotlight(dim=1, feather=4), Box("A", 40, 40, 60, 60))[50, :, 0]
    assert row[40] == row[59] == 90
    assert row[60:65].tolist() == [68, 45, 22, 0, 0]
    assert row[39:34:-1].tolist() == [68, 45, 22, 0, 0]


def test_a_spotlight_on_a_point_is_centred_on_its_pixel() -> None:
    lit = draw_view(Spotlight(dim=1, radius=10, feather=0), Point("A", 60, 50))[..., 0] == 90
    assert lit[50].sum() == lit[:, 60].sum()
    assert np.flatnonzero(lit[50]).tolist()[0] + np.flatnonzero(lit[50]).tolist()[-1] == 120
    assert np.flatnonzero(lit[:, 60]).tolist()[0] + np.flatnonzero(lit[:, 60]).tolist()[-1] == 100


@pytest.mark.parametrize(
    ("x", "y", "right", "down"),
    [(60, 50, True, False), (110, 50, False, False), (60, 10, True, True), (110, 10, False, True)],
)
def test_an_arrow_without_room_rotates_by_the_fewest_quarter_turns(
    x: int, y: int, right: bool, down: bool
) -> None:
    """From the upper right if possible, else upper left, lower right, lower left."""
    rows, columns = np.nonzero((draw_view(Arrows(label=NONE), Point("A", x, y)) != GREY).any(-1))
    assert (columns.mean() > x, rows.mean() > y) == (right, down)


@table
def test_an_arrow_rotates_only_if_its_tail_would_leave_the_view(
    angle: float, x: float, y: float, outwards: tuple[int, int]
) -> None:
    """Tip and tail are 4 and 40 pixels off the point."""
    across, down = outwards
    for further, stays in ((0.0, True), (0.25, False)):
        point = Point("A", x + further * across, y + further * down)
        rows, columns = np.nonzero(
            (draw_view(Arrows(angle=angle, label=NONE), point) != GREY).any(-1)
        )
        off = (columns.mean() - point.x) * across + (rows.mean() - point.y) * down
        assert bool(off > 10) is stays


@pytest.mark.parametrize(("x0", "left"), [(10.4, 10), (10.5, 10), (10.6, 11)])
def test_a_region_covers_the_pixels_whose_centre_is_in_its_box(x0: float, left: int) -> None:
    region = rasterize(Box("A", x0, 5, x0 + 10, 9), (50, 50))
    assert region is not None
    assert region.box == (left, 5, left + 10, 9)

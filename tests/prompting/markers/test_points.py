"""Drawings of point markers: the decisive pixels, at their computed positions."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from looktwice.pipelines.geometry import Affine
from looktwice.pipelines.marks import Box, Mask, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.transforms import crop, flip, join_side_by_side, resize, rotate
from looktwice.pipelines.view import View
from looktwice.prompting.markers import Arrows, Circles, Crosshairs, Dots, Halo, Label
from looktwice.prompting.markers.points import PointMarking
from tests.prompting.scenes import (
    BLACK,
    GREY,
    NONE,
    RED,
    WHITE,
    draw_view,
    find_box,
    is_color,
    plain,
    start,
)
from tests.tables import table


def redness(pixels: Pixels) -> np.ndarray:
    """Return how much of each pixel the ring covers, 0..1, on the grey ground."""
    return np.asarray((pixels[..., 0].astype(float) - GREY[0]) / (255 - GREY[0])).clip(0, 1)


def centroid(pixels: Pixels) -> tuple[float, float]:
    weight = redness(pixels)
    ys, xs = np.mgrid[: weight.shape[0], : weight.shape[1]]
    return float((xs * weight).sum() / weight.sum()), float((ys * weight).sum() / weight.sum())


def plate(pixels: Pixels) -> tuple[int, int, int, int]:
    """Return the black pixels."""
    return find_box(is_color(pixels, BLACK))


def test_a_ring_is_red_and_leaves_its_centre_unchanged() -> None:
    pixels = draw_view(Circles(radius=10, thickness=3, label=NONE), Point("A", 60, 50))
    for x, y in [(70, 50), (50, 50), (60, 60), (60, 40), (69, 50), (71, 50)]:
        assert tuple(pixels[y, x]) == RED
    ys, xs = np.mgrid[:100, :120]
    away = np.hypot(xs - 60, ys - 50)
    assert (pixels[away < 8] == GREY).all()
    assert (pixels[away > 12.1] == GREY).all()


@pytest.mark.parametrize("thickness", [1, 2, 3, 4.5])
@pytest.mark.parametrize(("x", "y"), [(60, 50), (60.25, 49.5), (41.7, 33.4)])
def test_a_ring_has_the_configured_place_radius_and_stroke(
    x: float, y: float, thickness: float
) -> None:
    pixels = draw_view(Circles(radius=9.5, thickness=thickness, label=NONE), Point("A", x, y))
    assert np.hypot(*np.subtract(centroid(pixels), (x, y))) < 0.15
    weight = redness(pixels)
    ys, xs = np.nonzero(weight)
    radius = np.average(np.hypot(xs - x, ys - y), weights=weight[ys, xs])
    assert radius == pytest.approx(9.5, abs=0.25)
    assert weight.sum() / (2 * np.pi * 9.5) == pytest.approx(thickness, rel=0.03)


def test_every_part_of_every_view_is_marked() -> None:
    state = start(Point("A", 40.5, 30.25))
    view = state.views[0]
    chains = [flip(view), rotate(view, 90), resize(view, 240, 150), crop(view, 10, 5, 90, 80)]
    pair = join_side_by_side([view, chains[0]], margin=10)
    marked = Circles(label=NONE)(state.replace(views=(*chains, pair)), NoModel()).views
    for before, after in zip(chains, marked, strict=False):
        expected = before.to_view(state.sample.marks[0])[0].center
        assert np.hypot(*np.subtract(centroid(after.pixels), expected)) < 0.1
        assert after.parts == before.parts
    left, right = marked[-1].pixels[:, :120], marked[-1].pixels[:, 130:]
    assert centroid(left) == pytest.approx((40.5, 30.25), abs=0.1)
    assert centroid(right) == pytest.approx((119 - 40.5, 30.25), abs=0.1)


@table
def test_a_label_is_above_its_point_and_flips_at_the_edge(x: float, y: float, side: str) -> None:
    pixels = draw_view(Circles(), Point("A", x, y))
    left, top, right, bottom = plate(pixels)
    assert 10 <= right - left <= 20
    assert 12 <= bottom - top <= 20
    assert (pixels[top:bottom, left:right] > 240).all(-1).any()  # the glyph
    gap = y - (bottom - 1) if side == "above" else top - y
    assert 12 < gap <= 17  # outside the ring, and near it
    middle = (left + right - 1) / 2
    assert abs(middle - x) <= 0.5 or left == 0 or right == 120


def test_a_label_avoids_the_edge_and_other_marks_and_labels() -> None:
    left, top, _, bottom = plate(draw_view(Circles(), Point("A", 30, 15), image=plain(100, 30)))
    assert left > 30 + 11 and (top, bottom) != (0, 30)  # in a low image it is at the side
    assert plate(draw_view(Circles(), Point("A", 80, 15), image=plain(100, 30)))[2] < 80 - 11
    pixels = draw_view(Circles(), Point("A", 60, 60), Point("B", 60, 36))
    assert tuple(pixels[36, 60]) == GREY
    assert plate(draw_view(Circles(), Point("A", 60, 60)))[3] <= 49
    black = (pixels == BLACK).all(-1)
    assert not black[24:49, 48:73].any()  # nothing covers the upper ring
    assert black[73:].any()


def test_lengths_scale_with_the_view_if_a_reference_height_is_set() -> None:
    stage = Circles(radius=20, thickness=4, label=NONE, reference_height=200)
    pixels = draw_view(stage, Point("A", 60, 50))  # a view half as high
    assert tuple(pixels[50, 70]) == RED
    assert redness(pixels).sum() / (2 * np.pi * 10) == pytest.approx(2, rel=0.05)
    tiny = draw_view(Circles(reference_height=100_000, label=NONE), Point("A", 60, 50))
    assert tuple(tiny[50, 60]) == GREY
    assert redness(tiny).sum() > 2


def test_the_source_and_views_without_a_point_are_never_drawn_on() -> None:
    state = start(Box("A", 1, 1, 20, 20), Point("B", 100, 50))
    left_half = crop(state.views[0], 0, 0, 50, 100)
    assert Circles()(state.replace(views=(left_half,)), NoModel()).views[0] is left_half
    marked = Circles()(state, NoModel())
    assert (state.views[0].pixels == GREY).all()
    assert not marked.views[0].pixels.flags.writeable
    assert marked.views[0].parts[0].affine == Affine()


@pytest.mark.parametrize(
    ("place", "fact"),
    [
        ((120, 50), r"\(120, 50\) .*120 x 100"),
        ((5, -0.6), r"\(5, -0\.6\)"),
        ((float("nan"), 5), r"\(nan, 5\)"),
        ((5, 5, 1), r"image 1 .*1 image$"),
        ((5, 5, -1), "image -1"),
    ],
)
def test_a_point_outside_its_own_image_is_reported(place: Any, fact: str) -> None:
    with pytest.raises(ValueError, match=f"'B' .*{fact}"):
        draw_view(Circles(), Point("B", *place))


def test_a_view_without_room_for_a_label_is_reported() -> None:
    with pytest.raises(ValueError, match=r"s1: label .A. .*16"):
        draw_view(Circles(), Point("A", 8, 8), image=plain(16, 16))
    with pytest.raises(ValueError, match="no room"):
        draw_view(Circles(), Point("a very long label", 30, 50), image=plain(60, 100))
    small = draw_view(Circles(radius=5, label=NONE), Point("A", 8, 8), image=plain(16, 16))
    assert tuple(small[8, 13]) == RED
    for color, seen in {"#00fF80": (0, 255, 128), "Gray": (128, 128, 128), "white": WHITE}.items():
        assert (
            tuple(draw_view(Circles(color=color, label=NONE), Point("A", 60, 50))[50, 70]) == seen
        )


SHAPES: list[PointMarking] = [
    Circles(label=NONE),
    Circles(label=NONE, gap=6),
    Dots(label=NONE),
    Crosshairs(label=NONE),
    Crosshairs(label=NONE, thickness=2, gap=6, radius=20),
]


@pytest.mark.parametrize("stage", SHAPES)
@pytest.mark.parametrize(("x", "y"), [(60, 50), (60.5, 49.5), (41.7, 33.4)])
def test_a_shape_is_centred_on_its_point(stage: PointMarking, x: float, y: float) -> None:
    pixels = draw_view(stage, Point("A", x, y))
    assert np.hypot(*np.subtract(centroid(pixels), (x, y))) < 0.15
    assert redness(pixels).max() == 1
    middle = tuple(pixels[round(y), round(x)])
    assert middle == (RED if isinstance(stage, Dots) else GREY)


def test_a_crosshair_has_four_bars_that_stop_before_the_point() -> None:
    pixels = draw_view(Crosshairs(radius=14, thickness=3, gap=4, label=NONE), Point("A", 60, 50))
    for dx, dy in [(1, 0), (-1, 0), (0, 1), (0, -1)]:
        line = [tuple(pixels[50 + dy * step, 60 + dx * step]) for step in range(16)]
        assert line[:4] == [GREY] * 4
        assert line[5:14] == [RED] * 9
        assert line[15] == GREY
    assert (pixels[40:48, 62:70] == GREY).all()


def test_a_gap_opens_the_ring_on_four_sides() -> None:
    pixels = draw_view(Circles(radius=10, gap=6, label=NONE), Point("A", 60, 50))
    for x, y in [(70, 50), (50, 50), (60, 40), (60, 60)]:
        assert tuple(pixels[y, x]) == GREY
    assert tuple(pixels[43, 67]) == tuple(pixels[57, 53]) == RED
    # on either edge of the gap half of a pixel
    row = draw_view(Circles(radius=20, gap=6, label=NONE), Point("A", 60, 50))[30, :, 0]
    assert row[58:63].tolist() == [90] * 5
    assert 90 < row[57] == row[63] < 255
    assert row[56] == row[64] == 255


@pytest.mark.parametrize("angle", [0, 45, 90, 180, 225])
def test_an_arrow_points_at_its_point_and_does_not_touch_it(angle: float) -> None:
    stage = Arrows(length=30, thickness=4, head=12, gap=4, angle=angle, label=NONE)
    weight = redness(draw_view(stage, Point("A", 60, 50)))
    ys, xs = np.nonzero(weight > 0.5)
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    along, aside = (xs - 60) * cos - (ys - 50) * sin, np.abs((xs - 60) * sin + (ys - 50) * cos)
    assert 4 <= along.min() <= 6
    assert 33 <= along.max() <= 35
    assert aside[along > 18].max() <= 2.1  # the shaft
    assert 4 <= aside.max() < 6.1  # the head's wings
    assert aside[along < 7].max() <= 2  # the tip
    assert tuple(draw_view(stage, Point("A", 60, 50))[50, 60]) == GREY


def test_an_arrow_rotates_at_the_edge_and_has_its_label_at_its_tail() -> None:
    whole = redness(draw_view(Arrows(label=NONE), Point("A", 60, 50))).sum()
    for x, y in [(2, 2), (118, 2), (2, 97), (118, 97)]:
        turned = redness(draw_view(Arrows(label=NONE), Point("A", x, y))).sum()
        assert turned == pytest.approx(whole, rel=0.01)
    left, top, _, bottom = plate(draw_view(Arrows(angle=0, length=36, gap=4), Point("A", 30, 50)))
    assert 72 < left <= 78  # the tail ends at 70
    assert abs((top + bottom - 1) / 2 - 50) <= 0.5


def test_alpha_halo_and_fill() -> None:
    half = draw_view(Circles(alpha=0.5, label=NONE), Point("A", 60, 50))
    assert np.abs(half[50, 70] - np.array((172.5, 45, 45))).max() <= 0.5
    ringed = draw_view(Circles(halo=Halo(width=2, color="lime"), label=NONE), Point("A", 60, 50))
    lime, line = (0, 255, 0), [tuple(ringed[50, 60 + r]) for r in (6, 7, 8, 10, 12, 13, 14)]
    assert line == [GREY, lime, lime, RED, lime, lime, GREY]
    filled = draw_view(Circles(fill="mark", fill_alpha=0.2, label=NONE), Point("A", 60, 50))
    assert tuple(filled[50, 60]) == tuple(filled[45, 60]) == (123, 72, 72)
    assert tuple(filled[50, 70]) == RED


def test_a_label_can_be_inside_a_dot() -> None:
    stage = Dots(radius=14, label=Label(placement="inside", plate="none"))
    pixels = draw_view(stage, Point("A", 60, 50))
    ys, xs = np.nonzero((pixels > 200).all(-1))
    assert np.hypot(xs - 60, ys - 50).max() < 12
    assert abs(xs.mean() - 60) < 1
    small = draw_view(Dots(radius=4, label=Label(placement="inside")), Point("A", 60, 50))
    assert plate(small)[3] < 46  # no room inside


def test_a_colour_can_be_chosen_from_the_pixels() -> None:
    middle = Point("A", 30, 30)
    for level, seen in [(250, BLACK), (5, WHITE)]:
        ground = Picture(np.full((60, 60, 3), level, np.uint8))
        pixels = draw_view(Dots(color="black-or-white", label=NONE), middle, image=ground)
        assert tuple(pixels[30, 30]) == seen
    red = Picture(np.full((60, 60, 3), (250, 10, 10), np.uint8))
    ring = draw_view(Circles(color="contrast", label=NONE), middle, image=red)
    assert tuple(ring[30, 40]) != RED
    two = draw_view(Dots(color="distinct", label=NONE), Point("A", 20, 30), Point("B", 80, 30))
    assert tuple(two[30, 20]) != tuple(two[30, 80])


def test_lengths_can_be_thousandths_of_a_side() -> None:
    sides = {"width": 120, "height": 100, "shorter": 100, "longer": 120}
    sides["diagonal"] = math.hypot(120, 100)  # type: ignore[assignment]
    for side, length in sides.items():
        stage = Circles(radius=100, thickness=20, label=NONE, relative_to=side)  # type: ignore[arg-type]
        weight = redness(draw_view(stage, Point("A", 60, 50)))
        ys, xs = np.nonzero(weight)
        away = np.average(np.hypot(xs - 60, ys - 50), weights=weight[ys, xs])
        assert away == pytest.approx(length / 10, abs=0.3)


def test_a_subset_of_marks_is_drawn_and_the_others_are_not_covered() -> None:
    marks = Point("REF", 60, 50), Point("A", 60, 26)
    stage = Circles(only=("REF",), label=Label(font_size=20))
    pixels = draw_view(stage, *marks)
    assert redness(pixels)[20:32].max() == 0
    assert tuple(pixels[26, 60]) == GREY
    with pytest.raises(ValueError, match="sample s1: `only` names REF, but the marks are A"):
        draw_view(stage, marks[1])


def test_a_marker_can_be_placed_at_the_centres_of_regions() -> None:
    region = np.zeros((100, 120), bool)
    region[20:41, 80:101] = True
    marks = Point("P", 20, 80), Box("B", 30, 30, 51, 51), Mask("M", region)
    pixels = draw_view(Dots(radius=3, label=NONE, marks="all"), *marks)
    for x, y in [(20, 80), (40, 40), (90, 30)]:
        assert tuple(pixels[y, x]) == RED
    assert redness(draw_view(Dots(radius=3, label=NONE), *marks))[:60].max() == 0


def test_drawing_and_label_stay_in_their_part_of_the_view() -> None:
    state = start(Point("long", 117, 50))
    state = state.replace(views=(join_side_by_side([state.views[0], View(plain())]),))
    pixels = Circles()(state, NoModel()).views[0].pixels
    assert (pixels[:, 120:] == GREY).all()
    assert redness(pixels).max() == 1 and plate(pixels)[2] == 120


@pytest.mark.parametrize("stage", [*SHAPES, Arrows(label=NONE, gap=1)])
def test_a_picture_of_one_pixel_can_be_marked(stage: PointMarking) -> None:
    pixels = draw_view(stage, Point("A", 0, 0), image=plain(1, 1))
    assert tuple(pixels[0, 0]) == (RED if isinstance(stage, Dots) else GREY)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 159), st.floats(0, 119)), min_size=1, max_size=6),
    st.sampled_from(["auto", "above", "below", "left", "right", "beside"]),
)
def test_no_label_covers_a_point_or_another_label(
    places: list[tuple[float, float]], placement: str
) -> None:
    marks = [Point("ABCDEF"[number], x, y) for number, (x, y) in enumerate(places)]
    blue = Label(plate="#0000ff", color="#0000ff", placement=placement)  # type: ignore[arg-type]
    sizes = []
    for letter in marks:
        alone = draw_view(Dots(radius=0.5, label=blue), letter, image=plain(160, 120))
        sizes.append(int((alone == (0, 0, 255)).all(-1).sum()))
    pixels = draw_view(Dots(radius=0.5, label=blue), *marks, image=plain(160, 120))
    assert (pixels == (0, 0, 255)).all(-1).sum() == sum(sizes)  # none covers another
    for mark in marks:
        assert tuple(pixels[math.floor(mark.y + 0.5), math.floor(mark.x + 0.5)]) != (0, 0, 255)

"""Drawing on boxes and masks: every pixel of the region and no other, in all parts of a view."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.transforms import crop, flip, join_side_by_side, resize, rotate
from looktwice.pipelines.view import View
from looktwice.prompting.markers import Contours, Cover, Halo, Label, Rectangles, Spotlight, Tint
from looktwice.prompting.markers.base import Marking
from tests.optional import extension
from tests.prompting.scenes import (
    BLACK,
    GREY,
    NONE,
    RED,
    draw_view,
    find_box,
    is_color,
    plain,
    start,
)

styles = extension("toolkits.styles")


def disc(x: float, y: float, radius: float, width: int = 120, height: int = 100) -> np.ndarray:
    ys, xs = np.mgrid[:height, :width]
    return np.asarray(np.hypot(xs - x, ys - y) < radius)


@pytest.mark.parametrize("size", [40, 6, 1])
def test_a_rectangle_follows_the_edges(size: int) -> None:
    pixels = draw_view(Rectangles(thickness=2, label=NONE), Box("A", 30, 20, 30 + size, 20 + size))
    red = is_color(pixels, RED)
    # a pixel outside and one inside, corners square
    assert find_box(red) == (29, 19, 31 + size, 21 + size)
    inside = red[21 : 19 + size, 31 : 29 + size]
    assert not inside.any()
    assert red.sum() == (size + 2) ** 2 - max(0, size - 2) ** 2
    assert (is_color(pixels, GREY) | red).all()


def test_rectangles_of_the_whole_image_between_pixels_and_around_a_mask() -> None:
    red = is_color(draw_view(Rectangles(thickness=4, label=NONE), Box("A", 0, 0, 120, 100)), RED)
    assert red[:2].all() and red[:, -2:].all() and not red[2:-2, 2:-2].any()
    pixels = draw_view(Rectangles(thickness=1, label=NONE), Box("A", 30, 20, 70, 60))
    assert tuple(pixels[40, 29]) == tuple(pixels[40, 30]) == (172, 45, 45)
    red = is_color(
        draw_view(Rectangles(thickness=2, label=NONE), Mask("A", disc(60, 50, 20.5))), RED
    )
    assert find_box(red) == (39, 29, 82, 72) and not red[31:70, 41:80].any()


@pytest.mark.parametrize("thickness", [1, 3, 6])
def test_a_contour_follows_the_outline_of_a_mask(thickness: float) -> None:
    region = disc(60, 50, 25)
    pixels = draw_view(Contours(thickness=thickness, label=NONE), Mask("A", region))
    weight = (pixels[..., 0].astype(float) - 90) / 165
    ys, xs = np.nonzero(weight)
    away = np.hypot(xs - 60, ys - 50)
    assert np.average(away, weights=weight[ys, xs]) == pytest.approx(25, abs=0.5)
    assert away.min() > 25 - thickness / 2 - 2
    assert away.max() < 25 + thickness / 2 + 2
    assert weight.sum() == pytest.approx(2 * np.pi * 25 * thickness, rel=0.12)
    assert tuple(pixels[50, 60]) == GREY


def test_halo_and_fill_of_a_region() -> None:
    stage = Contours(thickness=2, halo=Halo(2, "lime"), fill="mark", fill_alpha=0.2, label=NONE)
    pixels = draw_view(stage, Box("A", 30, 20, 70, 60))
    lime = (0, 255, 0)
    line = [tuple(pixels[40, x]) for x in range(26, 35)]
    assert line == [GREY, lime, lime, RED, RED, lime, lime, (123, 72, 72), (123, 72, 72)]


@pytest.mark.parametrize("mark", [Box("A", 30, 20, 70, 60), Mask("A", disc(60, 50, 20))])
def test_a_cover_hides_exactly_the_pixels_of_its_region(mark: Mark) -> None:
    black = is_color(draw_view(Cover(), mark), BLACK)
    region = mark.pixels if isinstance(mark, Mask) else np.zeros_like(black)
    if isinstance(mark, Box):
        region = region.copy()
        region[20:60, 30:70] = True
    assert (black == region).all()


def test_a_tint_is_translucent() -> None:
    image = Picture(np.random.default_rng(0).integers(0, 256, (100, 120, 3), np.uint8))
    region = disc(60, 50, 20)
    pixels = draw_view(Tint(color="yellow", alpha=0.4, label=NONE), Mask("A", region), image=image)
    expected = np.rint(image.pixels + 0.4 * (np.array((255, 255, 0)) - image.pixels.astype(float)))
    assert np.abs(pixels[region] - expected[region]).max() <= 1
    assert (pixels[~region] == image.pixels[~region]).all()
    rimmed = draw_view(
        Tint(color="yellow", thickness=3, label=NONE), Mask("A", region), image=image
    )
    assert tuple(rimmed[50, 80]) == (255, 255, 0)


ALL: list[Marking] = [
    Rectangles(label=NONE),
    Contours(label=NONE),
    Cover(),
    Tint(label=NONE),
    Spotlight(),
]
SPOTLIGHTS = [
    Spotlight(),
    Spotlight(dim=0, blur=4),
    Spotlight(dim=0, grey=True),
    Spotlight(feather=0, dim=1),
]


@pytest.mark.parametrize("stage", SPOTLIGHTS)
@pytest.mark.parametrize(
    "mark", [Box("A", 30, 20, 70, 60), Mask("A", disc(60, 50, 20)), Point("A", 60, 50)]
)
def test_a_spotlight_changes_all_pixels_outside_its_region(stage: Spotlight, mark: Mark) -> None:
    image = Picture(np.random.default_rng(0).integers(40, 256, (200, 240, 3), np.uint8))
    if isinstance(mark, Mask):
        mark = Mask("A", disc(60, 50, 20, 240, 200))
    pixels = draw_view(stage, mark, image=image)
    ys, xs = np.mgrid[:200, :240]
    if isinstance(mark, Box):
        inside = (xs >= 30) & (xs < 70) & (ys >= 20) & (ys < 60)
    else:
        inside = mark.pixels if isinstance(mark, Mask) else np.hypot(xs - 60, ys - 50) <= 39.5
    assert (pixels[inside] == image.pixels[inside]).all()
    far = np.hypot(xs - 60, ys - 50) > 50
    assert (pixels[far] != image.pixels[far]).any(-1).mean() > 0.99
    if stage.dim == 1:
        assert (pixels[far] == 0).all()
    if stage.grey:
        assert (np.ptp(pixels[far], axis=-1) == 0).all()


def test_several_marks_are_lit_and_other_images_stay_unchanged() -> None:
    state = start(Box("A", 10, 10, 30, 30), Box("B", 60, 60, 80, 80))
    pair = join_side_by_side([state.views[0], View(plain())])
    pixels = Spotlight(dim=1, feather=0)(state.replace(views=(pair,)), NoModel()).views[0].pixels
    grey = is_color(pixels, GREY)
    assert grey[:, 120:].all() and grey[10:30, 10:30].all()
    assert grey[:, :120].sum() == 800
    region = np.zeros((100, 120), bool)
    region[:, :40] = True
    assert is_color(draw_view(Spotlight(feather=6), Mask("A", region)), GREY)[:, :40].all()


def test_labels_of_regions() -> None:
    ring = disc(60, 50, 40) & ~disc(60, 50, 20)
    black = is_color(draw_view(Tint(label=Label(placement="inside")), Mask("A", ring)), BLACK)
    left, top, right, bottom = find_box(black)
    assert ring[top:bottom, left:right].all()  # not at the centroid, which lies in the hole
    small = is_color(
        draw_view(Tint(label=Label(placement="inside")), Box("A", 50, 50, 56, 56)), BLACK
    )
    assert not small[50:56, 50:56].any()
    above = find_box(is_color(draw_view(Rectangles(), Box("A", 40, 50, 80, 90)), BLACK))
    assert above[3] <= 49
    assert (above[0] + above[2]) / 2 == pytest.approx(60, abs=1)
    assert find_box(is_color(draw_view(Rectangles(), Box("A", 40, 5, 80, 60)), BLACK))[1] >= 61


def test_som_numbers_and_colours_its_regions() -> None:
    marks = Mask("x", disc(30, 50, 20)), Mask("y", disc(90, 50, 20)), Box("z", 50, 0, 70, 20)
    pixels = draw_view(styles.SomStyle(), *marks)
    tints = {tuple(pixels[50, 15]), tuple(pixels[50, 105]), tuple(pixels[3, 53])}
    assert len(tints) == 3
    assert tuple(pixels[80, 60]) == GREY
    plates = [
        find_box(is_color(pixels[y - 12 : y + 12, x - 12 : x + 12], BLACK))
        for x, y in [(30, 50), (90, 50)]
    ]
    for left, top, right, bottom in plates:
        assert (left + right - 1) / 2 == pytest.approx(12, abs=1)
        assert (top + bottom - 1) / 2 == pytest.approx(12, abs=1)


@pytest.mark.parametrize("stage", ALL)
def test_views_without_a_region_are_unchanged_and_single_pixels_are_drawn(stage: Marking) -> None:
    state = start(Box("A", 80, 10, 100, 30))
    part = crop(state.views[0], 0, 0, 60, 100)
    assert stage(state.replace(views=(part,)), NoModel()).views[0] is part
    for mark in (Box("A", 0, 0, 1, 1), Mask("A", np.ones((1, 1), bool))):
        pixels = draw_view(stage, mark, image=plain(1, 1))
        assert pixels.shape == (1, 1, 3)
        assert (tuple(pixels[0, 0]) == GREY) == isinstance(stage, Spotlight)


@pytest.mark.parametrize(
    ("mark", "fact"),
    [
        (lambda: Box("B", 100, 10, 140, 30), r"s1: box 'B' \(100, 10, 140, 30\)"),
        (lambda: Mask("B", np.ones((50, 60), bool)), "s1: mask 'B' of 60 x 50"),
        (lambda: Box("B", 10, 10, 20, 20, image=2), "box 'B' is on image 2"),
        (lambda: Box("A", 10, 10, 10, 20), "box 'A' has no area"),
        (lambda: Mask("A", np.zeros((10, 10), bool)), "mask 'A' is empty"),
    ],
)
def test_a_region_without_area_or_outside_its_image_is_reported(
    mark: Callable[[], Mark], fact: str
) -> None:
    with pytest.raises(ValueError, match=fact):
        draw_view(Tint(), mark())


@settings(max_examples=60, deadline=None)
@given(
    x=st.floats(5, 70),
    y=st.floats(5, 60),
    w=st.floats(3, 40),
    h=st.floats(3, 30),
    turns=st.integers(0, 3),
    mirrored=st.booleans(),
    width=st.integers(60, 300),
    height=st.integers(60, 300),
)
def test_a_box_is_drawn_at_its_mapped_place(
    x: float, y: float, w: float, h: float, turns: int, mirrored: bool, width: int, height: int
) -> None:
    state = start(Box("A", x, y, x + w, y + h))
    view = rotate(resize(state.views[0], width, height), 90 * turns)
    view = flip(view) if mirrored else view
    place = view.to_view(state.sample.marks[0])[0]
    assert isinstance(place, Box)
    after = Cover(color="lime")(state.replace(views=(view,)), NoModel()).views[0].pixels
    assert np.abs(np.subtract(find_box((after != view.pixels).any(-1)), place.xyxy)).max() <= 1

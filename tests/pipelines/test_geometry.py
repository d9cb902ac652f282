"""Geometry: marks stay on their objects through random chains of operations; intersections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import cv2
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from looktwice.pipelines import Picture, View, marks, transforms
from looktwice.pipelines.geometry import (
    TOLERANCE,
    Affine,
    PixelRect,
    Polygon,
    contains,
    grow,
    intersect,
    intersect_boxes,
    iou,
    measure_overlap,
    overlaps,
    rectangle,
    warp,
)
from looktwice.pipelines.marks import Box, Mask, Point, bounding_box, mark_from_dict
from tests.tables import table

Change = Callable[[View], View]
WIDTH, HEIGHT, BLOB = 240, 180, 7.0

fractions = st.floats(0.0, 1.0)


def blank(width: int, height: int, source: int = 0) -> View:
    """A black view."""
    return View.of(Picture(np.zeros((height, width, 3), np.uint8)), source)


def resize_view(sx: float, sy: float) -> Change:
    return lambda v: transforms.resize(
        v, max(60, round(v.size[0] * sx)), max(60, round(v.size[1] * sy))
    )


def crop_view(left: float, top: float, share: float) -> Change:
    def change(view: View) -> View:
        width, height = view.size
        x0, y0 = left * (1 - share) * width, top * (1 - share) * height
        return transforms.crop(view, x0, y0, x0 + share * width, y0 + share * height)

    return change


def pad_view(left: int, top: int, right: int, bottom: int) -> Change:
    return lambda view: transforms.pad(view, left, top, right, bottom, (10, 60, 10))


def join_with_itself(margin: int, first: bool) -> Change:
    def change(view: View) -> View:
        pair = [view, transforms.flip(view)]
        return transforms.join_side_by_side(pair if first else pair[::-1], margin, (10, 60, 10))

    return change


changes = st.one_of(
    st.builds(resize_view, st.floats(0.7, 1.6), st.floats(0.7, 1.6)),
    st.builds(crop_view, fractions, fractions, st.floats(0.6, 1.0)),
    st.builds(pad_view, *[st.integers(0, 40)] * 4),
    st.builds(
        lambda degrees: lambda view: transforms.rotate(view, degrees),
        st.sampled_from([90, 180, 270, -33, 12.5]),
    ),
    st.just(transforms.flip),
    st.builds(join_with_itself, st.integers(0, 20), st.booleans()),
)


def blob_at(x: float, y: float) -> Picture:
    """Return a soft bright blob on black with its centre at (x, y), with subpixel precision."""
    xs, ys = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    bright = 255 * np.exp(-((xs - x) ** 2 + (ys - y) ** 2) / (2 * (BLOB / 2) ** 2))
    return Picture(np.repeat(bright[:, :, None], 3, axis=2).astype(np.uint8))


def chain_changes(view: View, chain: list[Change]) -> View:
    for change in chain:
        if max(view.size) < 900:
            view = change(view)
    return view


def centroid_near(view: View, x: float, y: float, reach: float) -> tuple[float, float] | None:
    """Return the centroid of red light in a window, or None if it is clipped."""
    x0, y0, x1, y1 = round(x - reach), round(y - reach), round(x + reach) + 1, round(y + reach) + 1
    if x0 < 0 or y0 < 0 or x1 > view.size[0] or y1 > view.size[1]:
        return None
    light = np.clip(view.pixels[y0:y1, x0:x1, 0].astype(float) - 12, 0, None)
    ys, xs = np.mgrid[y0:y1, x0:x1]
    return float((xs * light).sum() / light.sum()), float((ys * light).sum() / light.sum())


@settings(max_examples=120, deadline=None)
@given(
    chain=st.lists(changes, min_size=1, max_size=5), u=st.floats(0.2, 0.8), v=st.floats(0.2, 0.8)
)
def test_a_blob_is_found_where_the_map_says(chain: list[Change], u: float, v: float) -> None:
    x, y = u * (WIDTH - 1), v * (HEIGHT - 1)
    view = chain_changes(View.of(blob_at(x, y)), chain)
    for part in view.parts:
        px, py = part.affine((x, y))
        reach = 2.2 * BLOB * max(1.0, float(np.linalg.norm(part.affine.matrix[:, :2], 2)))
        window = rectangle(px - reach + 0.5, py - reach + 0.5, px + reach + 0.5, py + reach + 0.5)
        if not all(contains(part.clip, cx, cy) for cx, cy in window):
            continue  # the edge of this part clips the blob, so its centroid is not comparable
        found = centroid_near(view, px, py, reach)
        assert found == pytest.approx((px, py), abs=0.5)


@settings(max_examples=150, deadline=None)
@given(chain=st.lists(changes, min_size=1, max_size=6), u=fractions, v=fractions)
def test_a_map_and_its_inverse_agree(chain: list[Change], u: float, v: float) -> None:
    x, y = u * (WIDTH - 1), v * (HEIGHT - 1)
    view = chain_changes(blank(WIDTH, HEIGHT), chain)
    for place in view.to_view(Point("A", x, y)):
        back = view.to_source(*place.center)
        assert back is not None and back[0] == 0
        assert back[1:] == pytest.approx((x, y), abs=1e-6)


@pytest.mark.parametrize(
    ("change", "there"),
    [
        (lambda v: transforms.resize(v, 480, 360), (20.5, 40.5)),
        (transforms.flip, (WIDTH - 1 - 10, 20)),
        (lambda v: transforms.crop(v, 4.7, 5.2, 100, 100), (6, 15)),
        (lambda v: transforms.pad(v, left=3, top=4), (13, 24)),
        (lambda v: transforms.rotate(v, 90), (20, WIDTH - 1 - 10)),
        (lambda v: transforms.rotate(v, 180), (WIDTH - 1 - 10, HEIGHT - 1 - 20)),
        (lambda v: transforms.rotate(v, -90), (HEIGHT - 1 - 20, 10)),
    ],
)
def test_the_pixel_convention_of_each_operation(change: Change, there: tuple[float, float]) -> None:
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[20, 10] = 255
    view = change(View.of(Picture(pixels)))
    (place,) = view.to_view(Point("A", 10, 20))
    assert place.center == pytest.approx(there)
    assert view.pixels[round(place.center[1]), round(place.center[0])].max() > 60


def test_marks_of_every_kind_are_mapped_in_the_same_way() -> None:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[30:60, 40:100] = True
    view = transforms.resize(transforms.crop(blank(WIDTH, HEIGHT), 20, 10, 220, 170), 400, 320)
    (box,), (region,) = (
        view.to_view(mark) for mark in (Box("b", 40, 30, 100, 60), Mask("m", mask))
    )
    assert bounding_box(box) == pytest.approx((40, 40, 160, 100))
    assert bounding_box(region) == pytest.approx((40, 40, 160, 100), abs=1)
    assert region.center == pytest.approx(box.center, abs=0.6)


def test_the_visible_part_of_a_box_after_a_crop() -> None:
    view = transforms.crop(blank(100, 100), 50, 50, 100, 100)
    (box,) = view.to_view(Box("b", 40, 60, 70, 80))
    assert bounding_box(box) == (0, 10, 20, 30)
    for mark in (Box("gone", 0, 0, 50, 50), Point("gone", 49, 49), Point("other", 60, 60, image=1)):
        assert view.to_view(mark) == ()


def test_a_later_part_covers_earlier_ones() -> None:
    view = transforms.paste(blank(100, 100), [(blank(40, 40, 1), 50, 50)])
    assert view.to_source(60, 60) == (1, 10, 10)
    assert view.to_source(49, 49) == (0, 49, 49)
    assert view.to_view(Point("hidden", 60, 60, image=0)) == ()
    assert [p.center for p in view.to_view(Point("seen", 10, 10, image=1))] == [(60, 60)]
    assert view.to_source(60, 200) is None


SQUARE = rectangle(0, 0, 10, 10)
SMALL = rectangle(2, 3, 2.5, 3.5)  # a quarter of a pixel
TRIANGLE = ((10.0, 0.0), (20.0, 0.0), (10.0, 10.0), (0.0, 10.0))


@pytest.mark.parametrize("turn", [1, -1])
def test_the_corners_of_an_intersection(turn: int) -> None:
    cases: dict[str, tuple[Polygon, Polygon]] = {
        "itself": (SQUARE, SQUARE),  # every corner once
        "small": (SMALL, SMALL),
        "half": (rectangle(4, -5, 20, 5), ((4, 0), (10, 0), (10, 5), (4, 5))),
        "trapezium": (TRIANGLE, ((10, 0), (10, 10), (0, 10))),
        "a repeated corner": (((2.0, 3.0), (2.0, 3.0), *SMALL[1:]), SMALL),
        "flat": (((4.0, 4.0), (4.0, 4.0)), ()),
        "side by side": (rectangle(10, 0, 20, 10), ()),
    }
    for name, (other, common) in cases.items():
        found = sorted(intersect(SQUARE, other[::turn]))
        assert found == pytest.approx(np.array(sorted(common))), name


def test_a_sliver_within_the_tolerance_is_not_an_intersection() -> None:
    seen = [bool(intersect(SQUARE, rectangle(0, 0, n * TOLERANCE, 1))) for n in (0.8, 1.0, 1.2)]
    assert seen == [False, False, True]


def test_affine_algebra() -> None:
    first, second = Affine(2, 0.5, 3, -0.25, 1.5, -4), Affine.rotation(30)
    points = np.array([[1.0, 2.0], [-3.0, 4.5]])
    np.testing.assert_allclose((first @ second)(points), first(second(points)))
    np.testing.assert_allclose(first.inverse(first(points)), points)
    np.testing.assert_allclose(Affine.resize(2, 3).edge_map(points), points * [2, 3])
    assert Affine.resize(2, 8).scale == pytest.approx(4)
    assert (second @ Affine.resize(3, 3)).scale == pytest.approx(3)
    assert Affine(a=-1.0).scale == 1


MASK = np.zeros((6, 8), bool)
MASK[1:3, 2:7] = True


def mask(*pixels: tuple[int, int], shape: tuple[int, int] = (5, 7)) -> Mask:
    array = np.zeros(shape, bool)
    array[tuple(np.transpose(pixels))] = True
    return Mask("A", array)


@pytest.mark.parametrize(
    ("mark", "box", "center"),
    [
        (Point("A", 3.0, 5.0, 1), (3, 5, 4, 6), (3, 5)),  # pixel 3 covers the edges 3 to 4
        # the centre lies half a pixel before the middle of the edges
        (Box("b", 0, 1, 4, 3), (0, 1, 4, 3), (1.5, 1.5)),
        (Mask("m", MASK, 2), (2, 1, 7, 3), (4, 1.5)),
        (Mask("n", ~np.eye(3, dtype=bool)), (0, 0, 3, 3), (1, 1)),
        (Point("A", -0.5, 2.25), (-0.5, 2.25, 0.5, 3.25), (-0.5, 2.25)),
        (Box("A", 1.5, 2, 3, 4.25), (1.5, 2, 3, 4.25), (1.75, 2.625)),
        (mask((0, 0)), (0, 0, 1, 1), (0, 0)),
        (mask((4, 6)), (6, 4, 7, 5), (6, 4)),
        (mask((1, 5), (3, 2)), (2, 1, 6, 4), (3.5, 2)),
        (Mask("A", np.ones((5, 7), bool)), (0, 0, 7, 5), (3, 2)),
    ],
)
def test_bounds_centre_and_json_of_a_mark(
    mark: Point | Box | Mask, box: tuple[float, ...], center: tuple[float, float]
) -> None:
    assert bounding_box(mark) == box
    assert mark.center == center
    back = mark_from_dict(mark.to_dict())
    assert back.to_dict() == mark.to_dict() and type(back) is type(mark)
    if isinstance(mark, Mask):
        np.testing.assert_array_equal(back.pixels, mark.pixels)  # type: ignore[union-attr]
        assert all(type(edge) is int for edge in marks.mask_bounds(mark.pixels))
    for shape in ((5, 7), (0, 0)):
        assert marks.mask_bounds(np.zeros(shape, bool)) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        *((lambda top=top: Box("b", 0, top, 4, 5), "no area") for top in (5, 6)),
        (lambda: Box("b", 4, 0, 4, 5), "no area"),
        (lambda: Affine(1, 0, 0, 0, 0.9e-12, 0).inverse, "singular"),
        (lambda: Affine(1, 1, 0, 1, 1, 0).inverse, "singular"),
        (lambda: Mask("m", np.zeros((3, 3), bool)), "empty"),
        (lambda: mark_from_dict({"x": 3}), "not a mark"),
        (lambda: transforms.crop(blank(9, 9), 20, 0, 30, 9), "lies outside"),
        (lambda: transforms.resize(blank(9, 9), 0, 5), "1 or more"),
        (lambda: transforms.pad(blank(9, 9), right=-1), "0 or more"),
        (lambda: blank(9, 9).with_pixels(np.zeros((8, 9, 3), np.uint8)), "keep the size"),
        (lambda: transforms.join_side_by_side([]), "no view"),
        *(
            (lambda x=x, y=y: transforms.paste(blank(12, 10), [(blank(5, 5), x, y)]), "canvas")
            for x, y in ((8, 5), (7, 6), (-1, 0), (0, -1))
        ),
    ],
)
def test_invalid_values_are_refused_with_a_reason(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
    assert transforms.paste(blank(12, 10), [(blank(5, 5), 7, 5)]).size == (12, 10)


def test_joined_views_are_centred_as_in_the_concatenation_of_blink() -> None:
    views = [
        View.of(Picture(np.full((height, 3, 3), 9, np.uint8)), n)
        for n, height in enumerate((8, 5, 4))
    ]
    view = transforms.join_side_by_side(views, margin=2)
    assert view.size == (13, 8)
    assert [part.affine((0, 0)).tolist() for part in view.parts] == [[0, 0], [5, 1], [10, 2]]
    assert (view.pixels[1:6, 5:8] == 9).all() and view.pixels.sum() == 9 * 9 * (8 + 5 + 4)


@pytest.mark.parametrize("x", [-0.51, -0.5, 0.0, 8.999, 9.5, 9.51])
@pytest.mark.parametrize("y", [-0.5, 3.0, 5.5, 5.51, float("nan")])
def test_a_point_is_visible_up_to_the_edge_of_its_part(x: float, y: float) -> None:
    frame = rectangle(0, 0, 10, 6)
    inside = -0.5 <= x <= 9.5 and -0.5 <= y <= 5.5
    for area in (frame, frame[::-1]):
        assert (Point("A", x, y).transform(Affine(), area) is not None) is inside
        assert bool(contains(area, x + 0.5, y + 0.5)) is inside


FLAT = ((0.0, 0.0), (12.0, 0.0), (0.0, 9.0))
FAR = rectangle(1000, 400, 1030, 440)
PLACES = [
    *((FLAT, x, y, inside) for x, y, inside in ((5, 5, True), (8, 3, True), (8, 3.01, False))),
    *((FLAT, 7, 5, False), (FLAT, -1, 1, False), ((FLAT[0], *FLAT), 8, 3.01, False)),
    *((area, 0, 0, False) for area in ((), ((0.0, 0.0), (4.0, 4.0)))),  # less than a triangle
    (rectangle(0, 0, 1, 1), 0.5, -TOLERANCE, True),
    # the margin is as wide as the tolerance wherever the area is
    *(
        (FAR, x + dx * share * TOLERANCE, y + dy * share * TOLERANCE, share < 1)
        for x, y, dx, dy in ((1015, 400, 0, -1), (1030, 420, 1, 0), (1015, 440, 0, 1))
        for share in (0.9, 1.1)
    ),
]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(("area", "x", "y", "inside"), PLACES)
def test_points_inside_an_area(area: Polygon, x: float, y: float, inside: bool, turn: int) -> None:
    assert bool(contains(area[::turn], x, y)) is inside


@pytest.mark.parametrize(
    ("mask", "shift", "clip", "size", "box"),
    [
        # pixels whose centres lie in the part
        (np.ones((8, 8)), (0, 0), (2, 1, 6, 4), (4, 6), (2, 1, 6, 4)),
        (np.ones((8, 8)), (0, 0), (2.4, 0.6, 5.6, 3.4), (3, 6), (2, 1, 6, 3)),
        (np.ones((8, 8)), (0, 0), (0, 0, 1, 5), (5, 1), (0, 0, 1, 5)),
        (np.ones((8, 8)), (0, 0), (0, 0, 0.4, 0.4), None, None),
        (MASK, (3, 2), (0, 0, 9, 5), (5, 9), (5, 3, 9, 5)),
        (MASK, (3, 2), (0, 0, 5, 5), None, None),
    ],
)
def test_masks_are_mapped_in_whole_pixels(
    mask: Any, shift: Any, clip: Any, size: Any, box: Any
) -> None:
    seen = Mask("m", mask.astype(bool)).transform(Affine.shift(*shift), rectangle(*clip))
    assert (seen is None) is (size is None)
    if seen is not None:
        assert (seen.pixels.shape, bounding_box(seen)) == (size, box)
        assert seen.pixels.sum() == (box[2] - box[0]) * (box[3] - box[1])


def test_a_mask_does_not_share_its_pixels_with_the_caller() -> None:
    pixels = np.ones((2, 3), bool)
    mask = Mask("m", pixels)
    pixels[:] = False
    assert mask.pixels.all() and not mask.pixels.flags.writeable


def test_pixels_covered_by_a_later_part_are_not_visible() -> None:
    view = transforms.paste(blank(100, 100), [(blank(40, 40, 1), 50, 50)])
    block = np.ones((20, 20), bool)
    for mark, is_seen in (
        (Box("just covered", 50, 50, 90, 90), False),
        (Box("b", 49, 50, 90, 90), True),
        (Box("b", 50, 50, 90, 91), True),
        (Point("p", 49.4, 60), True),
        (Point("p", 49.6, 60), False),
        (Mask("centre covered", np.pad(block, ((50, 30), (45, 35)))), False),
        (Mask("m", np.pad(block, ((50, 30), (35, 45)))), True),
    ):
        assert bool(view.to_view(mark)) is is_seen, mark


@pytest.mark.parametrize("degrees", [0, 90, 180, -90, 30, -100.5, 45])
def test_the_size_of_a_rotated_picture_is_predicted(degrees: float) -> None:
    turned = transforms.rotate(blank(50, 20), degrees)
    assert transforms.compute_rotated_size((50, 20), degrees) == turned.size
    corners = turned.parts[0].affine([(-0.5, -0.5), (49.5, -0.5), (49.5, 19.5), (-0.5, 19.5)]) + 0.5
    assert (corners >= -1e-9).all() and (corners <= np.array(turned.size) + 1e-9).all()
    assert corners.mean(0) == pytest.approx(np.array(turned.size) / 2)


NOISE = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)


def test_a_resize_averages_when_shrinking() -> None:
    for size, filter in (((20, 10), cv2.INTER_AREA), ((60, 40), cv2.INTER_CUBIC)):
        resized = transforms.resize(View.of(Picture(NOISE)), *size)
        np.testing.assert_array_equal(resized.pixels, cv2.resize(NOISE, size, interpolation=filter))
        assert transforms.resize(resized, 1, 1).size == (1, 1)


@table
def test_a_crop_is_rounded_outwards_and_clipped_at_the_edge(
    box: Any, kept: tuple[int, ...]
) -> None:
    view = transforms.crop(View.of(Picture(NOISE)), *box)
    left, top, right, bottom = kept
    np.testing.assert_array_equal(view.pixels, NOISE[top:bottom, left:right])
    assert view.to_source(0, 0) == (0, left, top)


@table
def test_run_lengths_that_do_not_fit_the_mask_are_refused(
    size: list[int], counts: list[int]
) -> None:
    with pytest.raises(ValueError, match="268435456"):
        mark_from_dict({"size": size, "counts": counts})


def test_a_mark_needs_neither_label_nor_image() -> None:
    assert mark_from_dict({"x": 3, "y": 4}) == Point("", 3.0, 4.0, 0)
    assert mark_from_dict({"x0": 1, "y0": 2, "x1": 3, "y1": 5}) == Box("", 1.0, 2.0, 3.0, 5.0, 0)
    region = mark_from_dict({"size": [1, 1], "counts": [0, 1]})  # one pixel is enough
    assert isinstance(region, Mask)
    assert (region.label, region.image, region.pixels.tolist()) == ("", 0, [[True]])


def test_a_mask_may_be_as_large_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "MAX_MASK_PIXELS", 6)
    assert isinstance(mark_from_dict({"size": [2, 3], "counts": [1, 5]}), Mask)
    with pytest.raises(ValueError, match=r"6.*size \[1, 7\]"):
        mark_from_dict({"size": [1, 7], "counts": [1, 6]})


@pytest.mark.parametrize(("width", "height"), [(448, 448), (448, 150), (512, 300)])
def test_fine_stripes_become_grey_when_shrunk(width: int, height: int) -> None:
    columns = np.zeros((300, 1024, 3), np.uint8)
    columns[:, ::2] = 255
    seen = transforms.resize(View.of(Picture(columns)), width, height).picture.pixels
    assert seen.shape == (height, width, 3)
    assert abs(seen.astype(float) - 127.5).mean() < 20


@table
def test_intersection_area(
    other: list[int], common: list[int] | None, area: float, share: float
) -> None:
    box, rect = (0, 0, 10, 20), cast(PixelRect, tuple(other))
    for first, second in ((box, rect), (rect, box)):
        assert intersect_boxes(first, second) == (common and tuple(common))
        assert measure_overlap(first, second) == area
        assert iou(first, second) == pytest.approx(share)
        assert iou(np.array(first, float), np.array(second, float)) == pytest.approx(share)
        if first[2] > first[0] and second[2] > second[0]:
            assert overlaps(first, second) is (common is not None)


def test_parts_of_pixels() -> None:
    assert intersect_boxes((0.0, 0.25, 1.5, 1.0), (1.25, 0.5, 3.0, 3.0)) == (1.25, 0.5, 1.5, 1.0)
    assert overlaps((0, 0, 1.001, 1), (1, 0, 2, 1))
    assert iou((5, 5, 5, 5), (5, 5, 5, 5)) == 0  # neither has an area
    assert iou((0, 0, 0.5, 0.5), (0.25, 0, 0.75, 0.5)) == pytest.approx(1 / 3)
    assert grow((1, 2, 3, 4), 0.5) == (0.5, 1.5, 3.5, 4.5)


@pytest.mark.parametrize(("height", "width"), [(100, 1), (1, 100), (3, 3), (1, 1)])
@pytest.mark.parametrize("side", [20, 37, 50, 99])
def test_a_mask_never_vanishes_in_a_smaller_view(height: int, width: int, side: int) -> None:
    small, scale = transforms.resize(blank(200, 200), side, side), side / 200
    for at in range(40):
        pixels = np.zeros((200, 200), bool)
        pixels[50 + at : 50 + at + height, 50 + at : 50 + at + width] = True
        (seen,) = small.to_view(Mask("m", pixels))
        assert isinstance(seen, Mask)
        ys, xs = np.nonzero(seen.pixels)
        assert abs((ys.mean() + 0.5) / scale - (50 + at + height / 2)) <= 1 / scale
        assert abs((xs.mean() + 0.5) / scale - (50 + at + width / 2)) <= 1 / scale
        assert np.ptp(xs) <= width * scale + 1 and np.ptp(ys) <= height * scale + 1


def fine_mask(name: str) -> Mask:
    """A mask of 300 x 400 pixels with thin parts."""
    pixels, steps = np.zeros((300, 400), bool), np.arange(180)
    match name:
        case "diagonal":
            pixels[60 + steps, 100 + steps] = True
        case "corner":
            pixels[60:200, 131] = pixels[199, 131:300] = True
        case "block and line":
            pixels[100:160, 100:160] = pixels[133, 160:330] = True
        case "block and spot":
            pixels[100:160, 100:160] = pixels[100:102, 300:302] = True
    return Mask("m", pixels)


CHAINS: dict[str, Change] = {
    "tenth": lambda view: transforms.resize(view, 40, 30),
    "narrower and taller": lambda view: transforms.resize(view, 57, 600),
    "turned, a third": lambda view: transforms.resize(transforms.rotate(view, 45), 166, 166),
    "turned twice": lambda view: transforms.rotate(transforms.rotate(view, 30), 30),
    "cut, turned, beside, a third": lambda view: transforms.resize(
        transforms.join_side_by_side(
            [transforms.rotate(transforms.crop(view, 40, 30, 360, 270), 45), view]
        ),
        *(267, 133),
    ),
    "eighth in three": lambda view: transforms.resize(
        transforms.resize(transforms.resize(view, 200, 150), 100, 75), *(50, 37)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("name", ["diagonal", "corner", "block and line", "block and spot"])
def test_thin_parts_of_a_region_are_kept(name: str, chain: str) -> None:
    mask = fine_mask(name)
    view = CHAINS[chain](blank(400, 300))
    for part, seen in zip(view.parts, view.to_view(mask), strict=True):
        assert isinstance(seen, Mask)
        ys, xs = np.nonzero(mask.pixels)
        fallen, shown = part.affine(np.stack([xs, ys], 1)), np.argwhere(seen.pixels)[:, ::-1]
        apart = np.hypot(*(fallen[:, None] - shown[None]).transpose(2, 0, 1))
        assert apart.min(1).max() < 4.5  # the end of a part may be 3 pixels shorter each way
        assert apart.min(0).max() < 2


def test_thin_parts_of_a_large_region_are_kept_in_a_tiny_view() -> None:
    pixels = np.zeros((3000, 4000), bool)
    pixels[500:1500, 500:1500] = pixels[1003:1005, 1500:3700] = pixels[2700:2703, 1203:1205] = True
    (seen,) = transforms.resize(blank(4000, 3000), 80, 60).to_view(Mask("m", pixels))
    assert isinstance(seen, Mask)
    block, line = seen.pixels[10:30, 10:30], seen.pixels[20, 33:74]
    assert block.all() and line.all() and seen.pixels[54, 24]
    assert seen.pixels.sum() <= block.sum() + 45 + 1


@pytest.mark.parametrize(("degrees", "side"), [(0, 50), (30, 90), (45, 70), (0, 131)])
def test_a_large_region_gains_no_other_pixels(degrees: float, side: int) -> None:
    view = transforms.resize(transforms.rotate(blank(200, 200), degrees), side, side)
    disc = np.hypot(*(np.mgrid[:200, :200] - 100)) < 60
    (seen,) = view.to_view(Mask("m", disc))
    assert isinstance(seen, Mask)
    plain = warp(disc.astype(np.uint8), view.parts[0].affine, view.size, nearest=True)
    assert np.array_equal(seen.pixels, plain)
    assert (degrees, side) != (0, 50) or np.array_equal(seen.pixels, disc[2::4, 2::4])


@pytest.mark.parametrize("nearest", [True, False])
def test_wide_pictures_are_mapped_in_the_same_way(
    nearest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).random((40, 60))
    for affine in (Affine.resize(0.5, 0.25), Affine.shift(3, -2), Affine.resize(1.7, 2.3)):
        short = warp(values, affine, (50, 45), nearest)
        monkeypatch.setattr("looktwice.pipelines.geometry.MAX_WARPED_SIDE", 0)
        long = warp(values, affine, (50, 45), nearest)
        monkeypatch.undo()
        inner = slice(3, 8), slice(5, 25)
        near = np.isclose(short[inner], long[inner], atol=0.05)
        assert near.mean() > 0.9
    wide = warp(np.ones((4, 40_000, 3), np.uint8), Affine.shift(1, 0), (40_000, 4), nearest)
    assert wide.shape == (4, 40_000, 3) and wide[1, 5:].all() and not wide[:, 0].any()

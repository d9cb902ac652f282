"""The geometry law: random chains of changes of frame keep every mark on what it marks."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from looktwice.pipelines import marks, transforms
from looktwice.pipelines.geometry import (
    TOLERANCE,
    Affine,
    Polygon,
    bounds,
    contains,
    contains_point,
    intersect,
    rectangle,
)
from looktwice.pipelines.marks import Box, Mask, Point, bounding_box, mark_from_dict
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.view import View

Change = Callable[[View], View]
WIDTH, HEIGHT, BLOB = 240, 180, 7.0

fractions = st.floats(0.0, 1.0)


def resized(sx: float, sy: float) -> Change:
    return lambda v: transforms.resize(
        v, max(60, round(v.size[0] * sx)), max(60, round(v.size[1] * sy))
    )


def cropped(left: float, top: float, share: float) -> Change:
    def change(view: View) -> View:
        width, height = view.size
        x0, y0 = left * (1 - share) * width, top * (1 - share) * height
        return transforms.crop(view, x0, y0, x0 + share * width, y0 + share * height)

    return change


def padded(left: int, top: int, right: int, bottom: int) -> Change:
    return lambda view: transforms.pad(view, left, top, right, bottom, (10, 60, 10))


def beside_itself(margin: int, first: bool) -> Change:
    def change(view: View) -> View:
        other = transforms.flip(view)
        return transforms.beside([view, other] if first else [other, view], margin, (10, 60, 10))

    return change


changes = st.one_of(
    st.builds(resized, st.floats(0.7, 1.6), st.floats(0.7, 1.6)),
    st.builds(cropped, fractions, fractions, st.floats(0.6, 1.0)),
    st.builds(padded, *[st.integers(0, 40)] * 4),
    st.builds(
        lambda degrees: lambda view: transforms.rotate(view, degrees),
        st.sampled_from([90, 180, 270, -33, 12.5]),
    ),
    st.just(transforms.flip),
    st.builds(beside_itself, st.integers(0, 20), st.booleans()),
)


def blob_at(x: float, y: float) -> Picture:
    """A bright soft blob on a dark ground, its centre at (x, y) to a fraction of a pixel."""
    xs, ys = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    bright = 255 * np.exp(-((xs - x) ** 2 + (ys - y) ** 2) / (2 * (BLOB / 2) ** 2))
    return Picture(np.repeat(bright[:, :, None], 3, axis=2).astype(np.uint8))


def chained(view: View, chain: list[Change]) -> View:
    for change in chain:
        if max(view.size) < 900:
            view = change(view)
    return view


def centroid_near(view: View, x: float, y: float, reach: float) -> tuple[float, float] | None:
    """The centroid of red light (the padding has none to speak of) in a window, or None where it is
    cut off."""
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
def test_a_blob_is_found_where_the_map_says_in_every_part(
    chain: list[Change], u: float, v: float
) -> None:
    x, y = u * (WIDTH - 1), v * (HEIGHT - 1)
    view = chained(View.of(blob_at(x, y)), chain)
    for part in view.parts:
        px, py = part.affine((x, y))
        reach = 2.2 * BLOB * max(1.0, float(np.linalg.norm(part.affine.matrix[:, :2], 2)))
        window = rectangle(px - reach + 0.5, py - reach + 0.5, px + reach + 0.5, py + reach + 0.5)
        if not all(contains(part.clip, cx, cy) for cx, cy in window):
            continue  # the blob itself is cut by this part's rim, so its centroid says nothing
        found = centroid_near(view, px, py, reach)
        assert found is not None
        assert found == pytest.approx((px, py), abs=0.5)


def test_the_blob_test_looks_at_blobs() -> None:
    view = chained(
        View.of(blob_at(100, 80)), [beside_itself(5, True), resized(1.3, 0.9), padded(9, 3, 1, 2)]
    )
    places = view.to_view(Point("A", 100, 80))
    assert len(places) == 2
    for place in places:
        x, y = place.center
        assert centroid_near(view, x, y, 20) == pytest.approx((x, y), abs=0.5)
        wrong = centroid_near(view, x + 3, y, 20)
        assert wrong is not None
        assert abs(wrong[0] - (x + 3)) > 0.5


@settings(max_examples=150, deadline=None)
@given(chain=st.lists(changes, min_size=1, max_size=6), u=fractions, v=fractions)
def test_there_and_back_agrees(chain: list[Change], u: float, v: float) -> None:
    x, y = u * (WIDTH - 1), v * (HEIGHT - 1)
    view = chained(View.of(Picture(np.zeros((HEIGHT, WIDTH, 3), np.uint8))), chain)
    for place in view.to_view(Point("A", x, y)):
        back = view.to_source(*place.center)
        assert back is not None
        assert back[0] == 0
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
def test_the_convention_of_each_change(change: Change, there: tuple[float, float]) -> None:
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[20, 10] = 255
    view = change(View.of(Picture(pixels)))
    (place,) = view.to_view(Point("A", 10, 20))
    assert place.center == pytest.approx(there)
    assert view.pixels[round(place.center[1]), round(place.center[0])].max() > 60


def test_marks_of_every_kind_move_alike() -> None:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[30:60, 40:100] = True
    view = transforms.resize(
        transforms.crop(View.of(Picture(np.zeros((HEIGHT, WIDTH, 3), np.uint8))), 20, 10, 220, 170),
        400,
        320,
    )
    (box,) = view.to_view(Box("b", 40, 30, 100, 60))
    (region,) = view.to_view(Mask("m", mask))
    assert isinstance(box, Box)
    assert box.xyxy == pytest.approx((40, 40, 160, 100))
    assert isinstance(region, Mask)
    ys, xs = np.nonzero(region.pixels)
    assert (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) == pytest.approx(
        (40, 40, 160, 100), abs=1
    )
    assert region.center == pytest.approx(box.center, abs=0.6)


def test_what_a_crop_leaves_of_a_box_and_what_it_hides() -> None:
    view = transforms.crop(View.of(Picture(np.zeros((100, 100, 3), np.uint8))), 50, 50, 100, 100)
    (box,) = view.to_view(Box("b", 40, 60, 70, 80))
    assert isinstance(box, Box)
    assert box.xyxy == (0, 10, 20, 30)
    assert view.to_view(Box("gone", 0, 0, 50, 50)) == ()
    assert view.to_view(Point("gone", 49, 49)) == ()
    assert view.to_view(Point("other image", 60, 60, image=1)) == ()


def test_a_later_part_lies_on_top() -> None:
    below = View.of(Picture(np.zeros((100, 100, 3), np.uint8)), source=0)
    above = View.of(Picture(np.full((40, 40, 3), 255, np.uint8)), source=1)
    view = transforms.paste(below, [(above, 50, 50)])
    assert view.to_source(60, 60) == (1, 10, 10)
    assert view.to_source(49, 49) == (0, 49, 49)
    assert view.to_view(Point("hidden", 60, 60, image=0)) == ()
    assert [p.center for p in view.to_view(Point("seen", 10, 10, image=1))] == [(60, 60)]
    assert view.to_source(60, 200) is None


@pytest.mark.parametrize(
    ("area", "other", "box"),
    [
        (rectangle(0, 0, 10, 10), rectangle(5, 5, 20, 20), (5, 5, 10, 10)),
        (rectangle(0, 0, 10, 10), tuple(reversed(rectangle(5, 5, 20, 20))), (5, 5, 10, 10)),
        (rectangle(0, 0, 10, 10), rectangle(10, 0, 20, 10), None),
        (rectangle(2, 2, 4, 4), rectangle(0, 0, 10, 10), (2, 2, 4, 4)),
        ((), rectangle(0, 0, 10, 10), None),
    ],
)
def test_common_area(area: Polygon, other: Polygon, box: tuple[float, ...] | None) -> None:
    common = intersect(area, other)
    assert (bounds(common) if common else None) == box


SQUARE = rectangle(0, 0, 10, 10)
SMALL = rectangle(2, 3, 2.5, 3.5)  # a quarter of a pixel


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    ("area", "other", "common"),
    [
        (SQUARE, SQUARE, SQUARE),  # every corner once
        (SQUARE, SMALL, SMALL),
        (SQUARE, rectangle(4, -5, 20, 5), ((4, 0), (10, 0), (10, 5), (4, 5))),
        (
            SQUARE,
            ((10.0, 0.0), (20.0, 0.0), (10.0, 10.0), (0.0, 10.0)),
            ((10, 0), (10, 10), (0, 10)),
        ),
        (SQUARE, ((2.0, 3.0), (2.0, 3.0), *SMALL[1:]), SMALL),  # a repeated corner
        (SQUARE, ((4.0, 4.0), (4.0, 4.0)), ()),
    ],
)
def test_the_corners_of_a_common_area(
    area: Polygon, other: Polygon, common: Polygon, turn: int
) -> None:
    """Each corner of the common part stands in it once, whichever way the clip is wound."""
    assert sorted(intersect(area, other[::turn])) == pytest.approx(np.array(sorted(common)))


@pytest.mark.parametrize(("size", "seen"), [(0.8, False), (1.0, False), (1.2, True)])
def test_a_sliver_of_at_most_the_tolerance_is_no_common_area(size: float, seen: bool) -> None:
    assert bool(intersect(SQUARE, rectangle(0, 0, size * TOLERANCE, 1))) is seen


def test_affine_algebra() -> None:
    one, two = Affine(2, 0.5, 3, -0.25, 1.5, -4), Affine.rotation(30)
    points = np.array([[1.0, 2.0], [-3.0, 4.5]])
    np.testing.assert_allclose((one @ two)(points), one(two(points)))
    np.testing.assert_allclose(one.inverse(one(points)), points)
    np.testing.assert_allclose(Affine.resize(2, 3).on_edges(points), points * [2, 3])
    assert Affine.resize(2, 2).scale == pytest.approx(2)
    with pytest.raises(ValueError, match="flattens"):
        Affine(1, 1, 0, 1, 1, 0).inverse  # noqa: B018


@pytest.mark.parametrize(
    "mark",
    [
        Point("A", 1.5, 2.0, 1),
        Box("b", 0, 1, 4, 5.5),
        Mask("m", np.eye(4, dtype=bool), 2),
        Mask("n", ~np.eye(3, dtype=bool)),
    ],
)
def test_marks_go_through_json_and_back(mark: Point | Box | Mask) -> None:
    back = mark_from_dict(mark.to_dict())
    if isinstance(mark, Mask):
        assert isinstance(back, Mask)
        np.testing.assert_array_equal(back.pixels, mark.pixels)
        assert (back.label, back.image) == (mark.label, mark.image)
    else:
        assert back == mark


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Box("b", 4, 0, 4, 5), "no area"),
        (lambda: Box("b", 0, 5, 4, 5), "no area"),
        (lambda: Box("b", 0, 6, 4, 5), "no area"),
        (lambda: Affine(1, 0, 0, 0, 0.9e-12, 0).inverse, "flattens"),
        (lambda: Mask("m", np.zeros((3, 3), bool)), "empty"),
        (lambda: mark_from_dict({"x": 3}), "no mark"),
        (
            lambda: transforms.crop(View.of(Picture(np.zeros((9, 9, 3), np.uint8))), 20, 0, 30, 9),
            "misses",
        ),
        (
            lambda: transforms.resize(View.of(Picture(np.zeros((9, 9, 3), np.uint8))), 0, 5),
            "1 or more",
        ),
        (
            lambda: View.of(Picture(np.zeros((9, 9, 3), np.uint8))).with_pixels(
                np.zeros((8, 9, 3), np.uint8)
            ),
            "keep the size",
        ),
        (lambda: transforms.beside([]), "no view"),
    ],
)
def test_nonsense_is_refused_with_a_reason(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_beside_is_blinks_concatenation() -> None:
    tall, flat = np.full((30, 10, 3), 9, np.uint8), np.full((10, 20, 3), 200, np.uint8)
    view = transforms.beside([View.of(Picture(tall), 0), View.of(Picture(flat), 1)], margin=10)
    assert view.size == (40, 30)
    assert (view.pixels[:, 10:20] == 0).all()
    assert (view.pixels[10:20, 20:] == 200).all()
    assert (view.pixels[:10, 20:] == 0).all()


def test_rotation_turns_as_opencv_does() -> None:
    view = transforms.rotate(View.of(blob_at(60, 40)), 25)
    (place,) = view.to_view(Point("A", 60, 40))
    _, _, _, brightest = cv2.minMaxLoc(cv2.GaussianBlur(view.pixels[:, :, 0], (5, 5), 0))
    assert brightest == pytest.approx(place.center, abs=1)


MASK = np.zeros((6, 8), bool)
MASK[1:3, 2:7] = True


@pytest.mark.parametrize(
    ("mark", "box", "center"),
    [
        (Point("A", 3.0, 5.0), (3, 5, 4, 6), (3, 5)),  # pixel 3 covers the edges 3 to 4
        # the centre lies half a pixel before the middle of the edges
        (Box("b", 0, 1, 4, 3), (0, 1, 4, 3), (1.5, 1.5)),
        (Mask("m", MASK), (2, 1, 7, 3), (4, 1.5)),
    ],
)
def test_bounds_and_centre_of_a_mark(
    mark: Point | Box | Mask, box: tuple[float, ...], center: tuple[float, float]
) -> None:
    assert bounding_box(mark) == box
    assert mark.center == center


@pytest.mark.parametrize("x", [-0.51, -0.5, 0.0, 8.999, 9.5, 9.51])
@pytest.mark.parametrize("y", [-0.5, 3.0, 5.5, 5.51, float("nan")])
def test_a_point_is_seen_up_to_the_rim_of_its_part(x: float, y: float) -> None:
    """The frame of 10 x 6 pixels reaches from -0.5 to 9.5 and to 5.5 in pixel centres."""
    frame = rectangle(0, 0, 10, 6)
    inside = -0.5 <= x <= 9.5 and -0.5 <= y <= 5.5
    for area in (frame, frame[::-1]):
        assert (Point("A", x, y).transform(Affine(), area) is not None) is inside
        assert contains_point(area, x + 0.5, y + 0.5) is inside
        assert bool(contains(area, x + 0.5, y + 0.5)) is inside


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    ("x", "y", "dx", "dy"),
    [(1015, 400, 0, -1), (1030, 420, 1, 0), (1015, 440, 0, 1), (1000, 420, -1, 0)],
)
def test_the_rim_is_as_wide_as_the_tolerance_wherever_the_area_lies(
    x: int, y: int, dx: int, dy: int, turn: int
) -> None:
    """Distances from a side are in pixels, however long it is and however far from (0, 0)."""
    area = rectangle(1000, 400, 1030, 440)[::turn]
    for distance, inside in ((0.9 * TOLERANCE, True), (1.1 * TOLERANCE, False)):
        place = (x + dx * distance, y + dy * distance)
        assert contains_point(area, *place) is inside
        assert bool(contains(area, *place)) is inside


@pytest.mark.parametrize("turn", [1, -1])
def test_the_tolerance_itself_is_still_the_rim(turn: int) -> None:
    area = rectangle(0, 0, 1, 1)[::turn]
    assert contains_point(area, 0.5, -TOLERANCE)
    assert contains(area, 0.5, -TOLERANCE)


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    "area",
    [((0.0, 0.0), (12.0, 0.0), (0.0, 9.0)), ((0.0, 0.0), (0.0, 0.0), (12.0, 0.0), (0.0, 9.0))],
)
def test_a_triangle_holds_what_its_slanted_side_leaves(area: Polygon, turn: int) -> None:
    """Also with a repeated corner, whose side has no length."""
    for x, y, inside in (
        (5, 5, True),
        (8, 3, True),
        (8, 3.01, False),
        (7, 5, False),
        (-1, 1, False),
    ):
        assert contains_point(area[::turn], x, y) is inside
        assert bool(contains(area[::turn], x, y)) is inside


@pytest.mark.parametrize("area", [(), ((0.0, 0.0), (4.0, 4.0))])
def test_less_than_a_triangle_holds_nothing(area: Polygon) -> None:
    assert not contains_point(area, 0, 0)
    assert not contains(area, 0, 0)
    assert intersect(rectangle(0, 0, 5, 5), area) == ()


def test_a_mask_moves_by_whole_pixels_and_ends_at_its_part() -> None:
    moved = Mask("m", MASK).transform(Affine.shift(3, 2), rectangle(0, 0, 9, 5))
    assert moved is not None
    assert moved.pixels.shape == (5, 9)
    assert bounding_box(moved) == (5, 3, 9, 5)
    assert moved.pixels.sum() == 8
    assert Mask("m", MASK).transform(Affine.shift(3, 2), rectangle(0, 0, 5, 5)) is None


@pytest.mark.parametrize(
    ("clip", "size", "box"),
    [
        (rectangle(2, 1, 6, 4), (4, 6), (2, 1, 6, 4)),  # pixels whose centres lie in the part
        (rectangle(2.4, 0.6, 5.6, 3.4), (3, 6), (2, 1, 6, 3)),
        (rectangle(0, 0, 1, 5), (5, 1), (0, 0, 1, 5)),
    ],
)
def test_a_mask_ends_where_its_part_does(
    clip: Polygon, size: tuple[int, int], box: tuple[int, ...]
) -> None:
    seen = Mask("m", np.ones((8, 8), bool)).transform(Affine(), clip)
    assert seen is not None
    assert (seen.pixels.shape, bounding_box(seen), seen.pixels.sum()) == (
        size,
        box,
        (box[2] - box[0]) * (box[3] - box[1]),
    )


def test_a_part_of_less_than_half_a_pixel_shows_nothing_of_a_mask() -> None:
    assert Mask("m", np.ones((8, 8), bool)).transform(Affine(), rectangle(0, 0, 0.4, 0.4)) is None


def test_a_mask_keeps_its_own_pixels() -> None:
    pixels = np.ones((2, 3), bool)
    mask = Mask("m", pixels)
    pixels[:] = False
    assert mask.pixels.all()
    with pytest.raises(ValueError, match="read-only"):
        mask.pixels[0, 0] = False


@pytest.mark.parametrize(
    ("mark", "seen"),
    [
        (Box("b", 50, 50, 90, 90), 0),  # just covered
        (Box("b", 49, 50, 90, 90), 1),
        (Box("b", 50, 50, 90, 91), 1),
        (Point("p", 49.4, 60), 1),
        (Point("p", 49.6, 60), 0),
        # its centre is covered
        (Mask("m", np.pad(np.ones((20, 20), bool), ((50, 30), (45, 35)))), 0),
        (Mask("m", np.pad(np.ones((20, 20), bool), ((50, 30), (35, 45)))), 1),
    ],
)
def test_what_a_later_part_covers_is_not_seen(mark: Point | Box | Mask, seen: int) -> None:
    below, above = (Picture(np.zeros((side, side, 3), np.uint8)) for side in (100, 40))
    view = transforms.paste(View.of(below), [(View.of(above, source=1), 50, 50)])
    assert len(view.to_view(mark)) == seen


def test_scale_is_the_root_of_the_growth_in_area() -> None:
    assert Affine.resize(2, 8).scale == pytest.approx(4)
    assert (Affine.rotation(30) @ Affine.resize(3, 3)).scale == pytest.approx(3)
    assert Affine(a=-1.0).scale == 1


@pytest.mark.parametrize("degrees", [0, 90, 180, -90, 30, -100.5, 45])
def test_the_size_of_a_turned_picture_is_foretold(degrees: float) -> None:
    turned = transforms.rotate(View.of(Picture(np.zeros((20, 50, 3), np.uint8))), degrees)
    assert transforms.turned_size((50, 20), degrees) == turned.size
    corners = turned.parts[0].affine([(-0.5, -0.5), (49.5, -0.5), (49.5, 19.5), (-0.5, 19.5)]) + 0.5
    assert (corners >= -1e-9).all()
    assert (corners <= np.array(turned.size) + 1e-9).all()
    assert corners.mean(0) == pytest.approx(np.array(turned.size) / 2)


@pytest.mark.parametrize(
    ("size", "filter"), [((20, 10), cv2.INTER_AREA), ((60, 40), cv2.INTER_CUBIC)]
)
def test_a_resize_averages_where_there_are_fewer_pixels(size: tuple[int, int], filter: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)
    resized = transforms.resize(View.of(Picture(pixels)), *size)
    np.testing.assert_array_equal(resized.pixels, cv2.resize(pixels, size, interpolation=filter))
    assert transforms.resize(resized, 1, 1).size == (1, 1)


@pytest.mark.parametrize(
    ("box", "kept"),
    [
        ((4.0, 5.0, 9.0, 8.0), (4, 5, 9, 8)),
        ((4.9, 5.1, 9.1, 8.9), (4, 5, 10, 9)),
        ((-3.0, -3.0, 99.0, 99.0), (0, 0, 40, 30)),
        ((39.5, 29.5, 50.0, 50.0), (39, 29, 40, 30)),
    ],
)
def test_a_crop_is_rounded_outwards_and_ends_at_the_rim(
    box: tuple[float, ...], kept: tuple[int, ...]
) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)
    view = transforms.crop(View.of(Picture(pixels)), *box)
    left, top, right, bottom = kept
    np.testing.assert_array_equal(view.pixels, pixels[top:bottom, left:right])
    assert view.to_source(0, 0) == (0, left, top)


@pytest.mark.parametrize(("left", "top"), [(0, 0), (7, 5), (8, 5), (7, 6), (-1, 0), (0, -1)])
def test_what_is_pasted_stays_on_the_canvas(left: int, top: int) -> None:
    canvas, view = (View.of(Picture(np.zeros((h, w, 3), np.uint8))) for h, w in ((10, 12), (5, 5)))
    if 0 <= left <= 7 and 0 <= top <= 5:
        assert transforms.paste(canvas, [(view, left, top)]).size == (12, 10)
    else:
        with pytest.raises(ValueError, match="leaves the canvas"):
            transforms.paste(canvas, [(view, left, top)])


def test_views_beside_one_another_are_centred_towards_the_top() -> None:
    views = [
        View.of(Picture(np.full((height, 3, 3), 9, np.uint8)), n)
        for n, height in enumerate((8, 5, 4))
    ]
    view = transforms.beside(views, margin=2)
    assert view.size == (13, 8)
    assert [part.affine((0, 0)).tolist() for part in view.parts] == [[0, 0], [5, 1], [10, 2]]


@pytest.mark.parametrize(
    ("size", "counts"),
    [
        ([2, 3], [1, 2, 2]),
        ([2, 3], [1, -1, 6]),
        ([2, 3, 1], [6]),
        ([0, 3], []),
        ([0, 3], [0]),
        ([2**14, 2**14 + 1], [0, 2**28 + 2**14]),
    ],
)
def test_runs_that_make_no_mask_are_refused(size: list[int], counts: list[int]) -> None:
    with pytest.raises(ValueError, match=r"a mask has its size as .* \(at most 268435456\)"):
        mark_from_dict({"size": size, "counts": counts})


def test_a_mark_needs_neither_label_nor_image() -> None:
    assert mark_from_dict({"x": 3, "y": 4}) == Point("", 3.0, 4.0, 0)
    assert mark_from_dict({"x0": 1, "y0": 2, "x1": 3, "y1": 5}) == Box("", 1.0, 2.0, 3.0, 5.0, 0)
    region = mark_from_dict({"size": [1, 1], "counts": [0, 1]})  # one pixel is enough
    assert isinstance(region, Mask)
    assert (region.label, region.image, region.pixels.tolist()) == ("", 0, [[True]])


def test_a_mask_may_be_as_large_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "LARGEST", 6)
    assert isinstance(mark_from_dict({"size": [2, 3], "counts": [1, 5]}), Mask)
    with pytest.raises(
        ValueError, match=r"at most 6\), found size \[1, 7\] and 2 counts of 7 pixels"
    ):
        mark_from_dict({"size": [1, 7], "counts": [1, 6]})


def test_padding_is_none_or_more() -> None:
    view = View.of(Picture(np.zeros((4, 5, 3), np.uint8)))
    assert transforms.pad(view, 1, 2, 3, 4, (7, 8, 9)).size == (9, 10)
    assert transforms.pad(view).size == view.size
    with pytest.raises(ValueError, match="0 or more"):
        transforms.pad(view, right=-1)


@pytest.mark.parametrize(("width", "height"), [(448, 448), (448, 150), (512, 300)])
def test_fine_stripes_become_grey_on_a_side_that_shrinks(width: int, height: int) -> None:
    """Also where the other side grows; there single columns were picked instead of averaged."""
    columns = np.zeros((300, 1024, 3), np.uint8)
    columns[:, ::2] = 255
    seen = transforms.resize(View.of(Picture(columns)), width, height).picture.pixels
    assert seen.shape == (height, width, 3)
    assert abs(seen.astype(float) - 127.5).mean() < 20


@pytest.mark.parametrize(("width", "height"), [(448, 448), (2048, 150), (1500, 200)])
def test_a_spot_stays_where_the_map_says_whichever_side_grows(width: int, height: int) -> None:
    picture = np.zeros((300, 1024, 3), np.uint8)
    picture[140:160, 500:520] = 255
    view = transforms.resize(View.of(Picture(picture)), width, height)
    rows, columns = np.nonzero(view.picture.pixels[:, :, 0] > 127)
    (place,) = view.to_view(Point("P", 509.5, 149.5))
    assert (columns.mean(), rows.mean()) == pytest.approx((place.x, place.y), abs=0.6)  # type: ignore[union-attr]

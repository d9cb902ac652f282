"""What a marker draws: the pixels that matter, in the place that the law of geometry names."""

import numpy as np
import pytest

from looktwice.pipelines.geometry import Affine
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import beside, crop, flip, resize, rotate
from looktwice.pipelines.view import View
from looktwice.prompting.markers import Circles

GREY, RED, BLACK, WHITE = (90, 90, 90), (255, 0, 0), (0, 0, 0), (255, 255, 255)


def plain(width: int = 120, height: int = 100) -> Picture:
    return Picture(np.full((height, width, 3), GREY, np.uint8))


def start(*marks: Mark, images: tuple[Picture, ...] = ()) -> State:
    return State.start(Sample("s1", "Which?", images or (plain(),), marks=marks))


def drawn(stage: Circles, *marks: Mark, images: tuple[Picture, ...] = ()) -> Pixels:
    return stage(start(*marks, images=images), NoModel()).views[0].pixels


def redness(pixels: Pixels) -> np.ndarray:
    """How much of each pixel the ring covers, 0..1, on the grey ground."""
    return np.asarray((pixels[..., 0].astype(float) - GREY[0]) / (255 - GREY[0])).clip(0, 1)


def centroid(pixels: Pixels) -> tuple[float, float]:
    weight = redness(pixels)
    ys, xs = np.mgrid[: weight.shape[0], : weight.shape[1]]
    return float((xs * weight).sum() / weight.sum()), float((ys * weight).sum() / weight.sum())


def plate(pixels: Pixels) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what is black, half-open."""
    ys, xs = np.nonzero((pixels == BLACK).all(-1))
    return int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1


def test_a_ring_is_red_and_leaves_its_middle_alone() -> None:
    pixels = drawn(Circles(radius=10, thickness=3, label=False), Point("A", 60, 50))
    for x, y in [(70, 50), (50, 50), (60, 60), (60, 40), (69, 50), (71, 50)]:
        assert tuple(pixels[y, x]) == RED
    ys, xs = np.mgrid[:100, :120]
    away = np.hypot(xs - 60, ys - 50)
    assert (pixels[away < 8] == GREY).all()
    assert (pixels[away > 12.1] == GREY).all()


@pytest.mark.parametrize("thickness", [1, 2, 3, 4.5])
@pytest.mark.parametrize(("x", "y"), [(60, 50), (60.25, 49.5), (41.7, 33.4)])
def test_a_ring_has_the_place_radius_and_stroke_that_were_asked_for(x: float, y: float, thickness: float) -> None:
    pixels = drawn(Circles(radius=9.5, thickness=thickness, label=False), Point("A", x, y))
    assert np.hypot(*np.subtract(centroid(pixels), (x, y))) < 0.15
    weight = redness(pixels)
    ys, xs = np.nonzero(weight)
    assert np.average(np.hypot(xs - x, ys - y), weights=weight[ys, xs]) == pytest.approx(9.5, abs=0.25)
    assert weight.sum() / (2 * np.pi * 9.5) == pytest.approx(thickness, rel=0.03)


def test_every_part_of_every_view_is_marked() -> None:
    state = start(Point("A", 40.5, 30.25), images=(plain(),))
    view = state.views[0]
    chains = [flip(view), rotate(view, 90), resize(view, 240, 150), crop(view, 10, 5, 90, 80)]
    pair = beside([view, chains[0]], margin=10)
    marked = Circles(label=False)(state.replace(views=(*chains, pair)), NoModel()).views
    for before, after in zip(chains, marked, strict=False):
        expected = before.to_view(state.sample.marks[0])[0].center
        assert np.hypot(*np.subtract(centroid(after.pixels), expected)) < 0.1
        assert after.parts == before.parts
    left, right = marked[-1].pixels[:, :120], marked[-1].pixels[:, 130:]
    assert centroid(left) == pytest.approx((40.5, 30.25), abs=0.1)
    assert centroid(right) == pytest.approx((119 - 40.5, 30.25), abs=0.1)


@pytest.mark.parametrize(
    ("x", "y", "side"),
    [
        (60, 50, "above"),
        (60, 12, "below"),
        (60, 0, "below"),
        (60, 99, "above"),
        (2, 50, "above"),
        (118, 12, "below"),
        (0, 0, "below"),
        (119, 99, "above"),
    ],
)
def test_a_label_stands_above_and_flips_at_the_border(x: float, y: float, side: str) -> None:
    pixels = drawn(Circles(), Point("A", x, y))
    left, top, right, bottom = plate(pixels)
    assert 10 <= right - left <= 20
    assert 12 <= bottom - top <= 20
    assert (pixels[top:bottom, left:right] > 240).all(-1).any()  # the glyph
    gap = y - (bottom - 1) if side == "above" else top - y
    assert 12 < gap <= 17  # outside the ring, and near it
    middle = (left + right - 1) / 2
    assert abs(middle - x) <= 0.5 or left == 0 or right == 120


def test_a_low_image_has_its_labels_aside() -> None:
    pixels = drawn(Circles(), Point("A", 30, 15), images=(plain(100, 30),))
    left, top, _, bottom = plate(pixels)
    assert left > 30 + 11
    assert (top, bottom) != (0, 30)
    pixels = drawn(Circles(), Point("A", 80, 15), images=(plain(100, 30),))
    assert plate(pixels)[2] < 80 - 11


def test_a_label_makes_way_for_other_marks_and_labels() -> None:
    pair = Point("A", 60, 60), Point("B", 60, 36)
    pixels = drawn(Circles(), *pair)
    assert tuple(pixels[36, 60]) == GREY
    assert plate(drawn(Circles(), Point("A", 60, 60)))[3] <= 49
    black = (pixels == BLACK).all(-1)
    assert not black[24:49, 48:73].any()  # nothing lies on the upper ring
    assert black[73:].any()


def test_a_label_does_not_stray_into_the_image_beside_it() -> None:
    state = start(Point("long", 118, 50))
    pair = beside([state.views[0], View(plain())])
    pixels = Circles()(state.replace(views=(pair,)), NoModel()).views[0].pixels
    assert plate(pixels)[2] == 120


def test_lengths_scale_with_the_view_where_a_reference_height_is_given() -> None:
    stage = Circles(radius=20, thickness=4, label=False, reference_height=200)
    pixels = drawn(stage, Point("A", 60, 50))  # a view half as high
    assert tuple(pixels[50, 70]) == RED
    assert redness(pixels).sum() / (2 * np.pi * 10) == pytest.approx(2, rel=0.05)
    tiny = drawn(Circles(reference_height=100_000, label=False), Point("A", 60, 50))
    assert tuple(tiny[50, 60]) == GREY
    assert redness(tiny).sum() > 2


def test_what_shows_no_point_is_kept_with_its_own_bytes() -> None:
    state = start(Box("A", 1, 1, 20, 20), Point("B", 100, 50))
    left_half = crop(state.views[0], 0, 0, 50, 100)
    before = state.replace(views=(left_half,))
    assert Circles()(before, NoModel()).views[0] is left_half


def test_the_source_is_never_drawn_on() -> None:
    state = start(Point("A", 60, 50))
    marked = Circles()(state, NoModel())
    assert (state.views[0].pixels == GREY).all()
    assert not marked.views[0].pixels.flags.writeable
    assert marked.views[0].parts[0].affine == Affine()


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (Point("B", 120, 50), r"'B' at \(120, 50\) lies outside its image 0 of 120 x 100"),
        (Point("B", 5, -0.6), r"'B' at \(5, -0\.6\) lies outside"),
        (Point("B", float("nan"), 5), r"'B' at \(nan, 5\) lies outside"),
        (Point("B", 5, 5, image=1), "'B' is on image 1, but there are 1 images"),
        (Point("B", 5, 5, image=-1), "'B' is on image -1"),
    ],
)
def test_a_point_outside_its_own_image_is_named(mark: Point, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(Circles(), mark)


def test_a_view_without_room_for_a_label_says_so() -> None:
    with pytest.raises(ValueError, match=r"'A' of .* has no room in the view of 16 x 16 pixels"):
        drawn(Circles(), Point("A", 8, 8), images=(plain(16, 16),))
    with pytest.raises(ValueError, match="no room"):
        drawn(Circles(), Point("a very long label", 30, 50), images=(plain(60, 100),))
    assert tuple(drawn(Circles(radius=5, label=False), Point("A", 8, 8), images=(plain(16, 16),))[8, 13]) == RED


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"color": "redd"}, "'redd' is no colour; did you mean red"),
        ({"color": "#ff00"}, "'#ff00' is no colour"),
        ({"color": "rgb(1,2,3)"}, "is no colour"),
        ({"radius": 0}, "radius is in pixels and more than 0"),
        ({"thickness": -1}, "thickness is in pixels"),
        ({"radius": 3, "thickness": 5}, "hides the point in its middle"),
        ({"reference_height": 0}, "reference_height is 1 or more"),
        ({"font_size": float("nan")}, "font_size is in pixels"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Circles(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("color", "seen"), [("#00fF80", (0, 255, 128)), ("Gray", (128, 128, 128)), ("white", WHITE)])
def test_colours_by_name_and_by_number(color: str, seen: tuple[int, int, int]) -> None:
    assert tuple(drawn(Circles(color=color, label=False), Point("A", 60, 50))[50, 70]) == seen

"""Zooms: the cropped area, its presentation and record, and the mapping of marks."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from looktwice.eval.records import Record
from looktwice.pipelines import transforms
from looktwice.pipelines.config import build
from looktwice.pipelines.config.spec import identity, spec
from looktwice.pipelines.geometry import Affine, bounds, contains, overlaps, rectangle
from looktwice.pipelines.marks import Box, Mark, Mask, Point, mark_from_dict
from looktwice.pipelines.model import Message
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.grids import DotGrid, RuledGrid
from looktwice.prompting.views import Crop, ZoomOnCells, ZoomOnDetections, ZoomOnMarks
from looktwice.specialists.protocols import Detector
from looktwice.specialists.results import Boxes
from looktwice.specialists.rules import NoEvidence
from tests.optional import needs_extras
from tests.prompting.scenes import build_stage, record_state, table

CASES = table("views/zoom.yaml")

WIDTH, HEIGHT = 240, 180
RED = (255, 0, 0)
TIGHT = Crop(padding=0, min_px=0)
MASKED = np.zeros((HEIGHT, WIDTH), bool)
MASKED[30:50, 20:60] = True


def numbered(width: int = WIDTH, height: int = HEIGHT, blue: int = 0) -> Picture:
    """Return an image whose pixels encode their place: red is the column, green the row."""
    ys, xs = np.mgrid[:height, :width]
    return Picture(np.stack((xs, ys, np.full_like(xs, blue)), -1).astype(np.uint8))


def start(*marks: Mark, images: Sequence[Picture] = (), **more: Any) -> State:
    return State.start(
        Sample("s1", "Where is the cat?", tuple(images) or (numbered(),), marks=marks, **more)
    )


def zoom_view(state: State, crop: Crop = TIGHT, **settings: Any) -> State:
    return ZoomOnMarks(crop=crop, **settings)(state, NoModel())


def area(view: View) -> tuple[int, ...]:
    """Return left, top, right and bottom of the area that an unscaled crop of `numbered` shows."""
    (left, top), (right, bottom) = view.pixels[0, 0, :2].tolist(), view.pixels[-1, -1, :2].tolist()
    assert view.size == (right - left + 1, bottom - top + 1)
    return left, top, right + 1, bottom + 1


def make_detector(*boxes: tuple[float, float, float, float, float, str]) -> Detector:
    """Return a detector with fixed boxes, each with its score and word."""

    def find(pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        if words == ("nonsense",):
            raise NoEvidence("nonsense is no word of mine")
        rows = [box for box in boxes if words is None or box[5] in words]
        numbers = np.array([row[:5] for row in rows], float).reshape(-1, 5)
        return Boxes(numbers[:, :4], numbers[:, 4], np.array([row[5] for row in rows], str))

    return find


CAT, DOG = (20, 30, 60, 50, 0.9, "cat"), (100, 100, 180, 160, 0.6, "dog")
FINDS = make_detector(DOG, CAT)


@pytest.mark.parametrize(("crop", "mark", "expected"), CASES["areas"])
def test_the_area_follows_the_settings(
    crop: dict[str, Any], mark: dict[str, Any], expected: list[int]
) -> None:
    (view,) = zoom_view(start(mark_from_dict(mark)), build_stage(crop)).views
    assert list(area(view)) == expected


def test_several_regions_give_several_crops_or_one_union() -> None:
    assert [area(v) for v in zoom_view(start(Mask("m", MASKED))).views] == [(20, 30, 60, 50)]
    places = (10, 10, 30, 30), (100, 90, 120, 100), (10, 10, 30, 30)
    state = start(*(Box(name, *place) for name, place in zip("abc", places, strict=True)))

    def areas(crop: Crop = TIGHT, **settings: Any) -> list[tuple[int, ...]]:
        return [area(view) for view in zoom_view(state, crop, **settings).views]

    assert areas() == [*places[:2]]
    assert areas(replace(TIGHT, merge="union")) == [(10, 10, 120, 100)]
    assert areas(replace(TIGHT, most=1)) == [(10, 10, 30, 30)]
    (note,) = zoom_view(state, replace(TIGHT, most=1)).notes
    assert "view 1" in note and "3 regions" in note
    assert areas(labels=("b",)) == [(100, 90, 120, 100)]


def test_a_crop_does_not_extend_into_the_neighbouring_image() -> None:
    marks = Point("p", 238, 89.5), Point("q", 3, 89.5, image=1)
    state = start(*marks, images=(numbered(), numbered(blue=200)))
    joined = state.replace(views=(transforms.join_side_by_side(state.views, margin=10),))
    for merge in ("each", "union"):
        views = zoom_view(joined, Crop(padding=0, min_px=60, merge=merge)).views
        assert [area(view) for view in views] == [(180, 60, 240, 120), (0, 60, 60, 120)]
        assert (views[1].pixels[..., 2] == 200).all()


def part_of(clip: Any) -> View:
    (whole,) = start().views
    return replace(whole, parts=(replace(whole.parts[0], clip=clip),))


ROUNDED = part_of(rectangle(20 + 1e-9, 30 - 1e-9, 60 - 1e-9, 50 + 1e-9))
CORNER = part_of(((0.0, 0.0), (60.0, 0.0), (0.0, 60.0)))
CORNERED = transforms.crop(View.of(numbered()), 0, 0, 50, 40)


@pytest.mark.parametrize(
    ("view", "place", "least", "expected"),
    [
        (View(numbered()), (0, 0, 10, 12), 0, (0, 0, 10, 12)),  # no part: the whole view
        (CORNERED, (45, 35, 60, 60), 0, (35, 15, 50, 40)),  # pushed in
        (ROUNDED, (30, 35, 50, 45), 1000, (20, 30, 60, 50)),  # a rounding error costs no pixel
        (CORNER, (40, 40, 50, 50), 100, (0, 0, 60, 60)),  # in the box of a rotated part only
    ],
)
def test_an_area_never_leaves_the_part_that_shows_its_region(
    view: View, place: Any, least: float, expected: tuple[int, ...]
) -> None:
    assert Crop(padding=0, min_px=least).find_areas(view, [Box("b", *place)])[0] == [expected]


def test_views_without_a_mark_or_without_margin_are_unchanged() -> None:
    state = start(Box("all", 0, 0, WIDTH, HEIGHT))
    state = state.replace(views=(*state.views, View(numbered(20, 20))))
    assert all(a is b for a, b in zip(zoom_view(state).views, state.views, strict=True))
    state = start(Box("b", 20, 30, 60, 50, image=1), images=(numbered(), numbered()))
    after = zoom_view(state)
    assert after.views[0] is state.views[0] and after.notes == ()
    assert area(after.views[1]) == (20, 30, 60, 50)
    elsewhere = transforms.crop(state.views[1], 100, 100, 200, 150)
    for hidden, more, view in (
        (state.replace(views=(state.views[0], elsewhere)), {}, 2),
        (state, {"images": (0, 1)}, 1),
        (start(), {"labels": ("A", "B")}, 1),
    ):
        with pytest.raises(ValueError, match=f"sample s1: view {view}: no mark"):
            zoom_view(hidden, **more)
    assert zoom_view(State.start(Sample("s1", "Hm?"))).views == ()
    with pytest.raises(ValueError, match="images names 2"):
        zoom_view(start(Point("p", 1, 1)), images=(2,))


@pytest.mark.parametrize("filter", ["nearest", "linear", "cubic", "lanczos", "area"])
def test_a_crop_is_enlarged_but_never_reduced(filter: Any) -> None:
    state = start(Box("b", 40, 60, 100, 80))
    (view,) = zoom_view(state, replace(TIGHT, upscale=600, filter=filter)).views
    assert view.size == (600, 200)
    xs, ys = np.meshgrid(np.arange(600), np.arange(200))
    inside = view.pixels[20:-20, 20:-20].astype(float)
    ramp = np.stack(((xs + 0.5) / 10 - 0.5 + 40, (ys + 0.5) / 10 - 0.5 + 60), -1)
    expected = ramp[20:-20, 20:-20]
    assert np.abs(inside[..., :2] - expected).max() < 1.1  # the ramp is where the map says
    assert (len(np.unique(view.pixels[..., 0])) == 60) or filter != "nearest"
    assert zoom_view(state, replace(TIGHT, upscale=50)).views[0].size == (60, 20)


def test_both_shows_the_whole_with_the_area_outlined() -> None:
    state = start(Box("b", 40, 60, 100, 80))
    whole, piece = zoom_view(state, replace(TIGHT, show="both", thickness=2)).views
    assert area(piece) == (40, 60, 100, 80)
    expected = np.zeros((HEIGHT, WIDTH), bool)
    expected[58:82, 38:102] = True
    expected[60:80, 40:100] = False
    np.testing.assert_array_equal((whole.pixels == RED).all(-1), expected)
    np.testing.assert_array_equal(whole.pixels[~expected], state.views[0].pixels[~expected])
    assert zoom_view(state, replace(TIGHT, show="both", thickness=0)).views[0] is state.views[0]
    for width, height in [(1, 1), (2, 5), (6, 6), (240, 180)]:  # all of it: it moves inwards
        state = start(Box("b", 0, 0, width, height), images=(numbered(width, height),))
        whole, _ = zoom_view(state, replace(TIGHT, show="both")).views
        assert (whole.pixels[0] == RED).all() and (whole.pixels[:, -1] == RED).all()
        assert whole.size == (width, height)


def test_beside_fills_the_same_space_as_the_whole() -> None:
    state = start(Box("b", 40, 60, 100, 80))
    (view,) = zoom_view(state, replace(TIGHT, show="beside", margin=10)).views
    assert view.size == (240 + 10 + 240, 180)
    assert (view.pixels[:, 240:250] == 0).all()
    (view,) = zoom_view(state, replace(TIGHT, show="beside", upscale=120)).views
    assert view.size == (240 + 10 + 120, 180)
    assert len(view.to_view(Point("p", 50, 70))) == 2


@pytest.mark.parametrize(("x", "y", "corner"), [(40, 40, "right bottom"), (200, 140, "right top")])
def test_an_inset_lies_in_a_corner_away_from_the_mark(x: float, y: float, corner: str) -> None:
    state = start(Point("p", x, y))
    crop = Crop(padding=0, min_px=40, show="inset", inset=0.4)
    after = zoom_view(state, crop)
    (view,) = after.views
    assert (view.size, after.notes) == ((WIDTH, HEIGHT), ())
    places = view.to_view(state.sample.marks[0])
    assert len(places) == 2  # at its own place, and in the inset
    assert places[0].center == (x, y)
    left, top, right, bottom = bounds(view.parts[-1].clip)
    assert (right > WIDTH / 2, bottom > HEIGHT / 2) == ("right" in corner, "bottom" in corner)
    assert right - left <= 0.4 * WIDTH
    assert bottom - top == pytest.approx(0.4 * HEIGHT - 6, abs=1)
    assert (view.pixels[round(top) - 1, round(left) : round(right)] == RED).all()


# The room is 0.4 of 240 x 180 pixels, 96 x 72, with a rim on each side, in the corner at the right
# and bottom. 60 x 20 fill its width: 90 x 30 in a frame of 96 x 38; 30 x 30 fill its height:
# 66 x 66 in a frame of 72 x 72. The rim takes 1 + 180 // 16 pixels at most.
@pytest.mark.parametrize(("place", "thickness", "shown"), CASES["insets"])
def test_an_inset_with_its_rim_fills_its_share_of_the_view(
    place: Any, thickness: int, shown: Sequence[int]
) -> None:
    crop = replace(TIGHT, show="inset", inset=0.4, thickness=thickness)
    (view,) = zoom_view(start(Box("b", *place)), crop).views
    assert bounds(view.parts[-1].clip) == tuple(shown)


@pytest.mark.parametrize(
    ("area", "place", "reach"),
    [((100, 70, 140, 90), (119.5, 79.5), 23.0), ((100, 70, 111, 100), (105.0, 84.5), 18.0)],
)
def test_an_outline_contrasts_with_its_surroundings(
    monkeypatch: pytest.MonkeyPatch, area: Any, place: tuple[float, float], reach: float
) -> None:
    """Computed from pixel centres and half the longer side, with the stroke of 3 pixels."""
    looked: list[Any] = []

    def resolve(color: str, pixels: Pixels, *where: float) -> tuple[int, int, int]:
        looked.append((color, *where))
        return RED

    monkeypatch.setattr("looktwice.prompting.drawing.colors.resolve_color", resolve)
    zoom_view(start(Box("b", *area)), replace(TIGHT, show="both", outline="contrast"))
    assert looked == [("contrast", *place, reach, 0)]


def test_insets_cover_no_other_mark_if_there_is_room_and_say_so_otherwise() -> None:
    places = [("a", 20, 20), ("b", 220, 20), ("c", 20, 160), ("d", 220, 160)]
    corners = [Point(name, x, y) for name, x, y in places]
    crop = Crop(padding=0, min_px=30, show="inset")
    after = zoom_view(start(*corners), crop, labels=("a",))
    assert after.notes == ()
    assert [len(after.views[0].to_view(mark)) for mark in corners] == [2, 1, 1, 1]
    crowd = [Point(f"{x},{y}", x, y) for x in range(10, 240, 20) for y in range(10, 180, 20)]
    after = zoom_view(start(*crowd), crop, labels=("10,10",))
    hidden = [mark for mark in crowd if mark.label != "10,10" and not after.views[0].to_view(mark)]
    assert hidden
    assert all(any(repr(mark.label) in note for note in after.notes) for mark in hidden)
    marks = [Point(str(n), 100 + 12 * n, 90) for n in range(4)]
    (view,) = zoom_view(start(*marks), Crop(padding=0, min_px=8, show="inset")).views
    clips = [bounds(part.clip) for part in view.parts[1:]]
    assert len(clips) == 4
    assert not any(overlaps(*pair) for pair in combinations(clips, 2))


def test_an_inset_without_magnification_is_noted() -> None:
    inset = replace(TIGHT, show="inset")
    over, less = zoom_view(start(Box("b", 10, 10, 200, 150)), inset).notes
    assert "'b'" in over and "0.47" in less
    # 90 x 66, as large as the inset
    (same,) = zoom_view(start(Box("b", 10, 10, 100, 76)), inset).notes
    assert "1.00" in same


def test_outlines_of_different_colours_distinguish_insets() -> None:
    state = start(Point("a", 30, 60), Point("b", 200, 60))
    crop = Crop(padding=0, min_px=30, show="inset", outline="distinct", inset=0.3)
    view = zoom_view(state, crop).views[0]
    left, top, _, _ = bounds(view.parts[2].clip)
    framed, outlined = view.pixels[round(top) - 1, round(left)], view.pixels[45 - 1, 190]
    assert tuple(framed) == tuple(outlined) == (60, 180, 75)
    contrast = zoom_view(state, replace(crop, outline="contrast", show="both")).views[0]
    assert tuple(contrast.pixels[45 - 1, 190]) in {(0, 255, 255), (0, 0, 255)}  # on red and green


crops = st.builds(
    Crop,
    padding=st.floats(0, 1),
    unit=st.sampled_from(["box", "image"]),
    min_px=st.floats(8, 120),
    aspect=st.none() | st.floats(0.4, 2.5),
    merge=st.sampled_from(["each", "union"]),
    upscale=st.none() | st.integers(50, 500),
    filter=st.sampled_from(["nearest", "linear", "cubic", "lanczos", "area"]),
    show=st.sampled_from(["crop", "both", "beside", "inset"]),
    inset=st.floats(0.3, 0.48),
)
within = st.tuples(st.floats(15, WIDTH - 16), st.floats(15, HEIGHT - 16))


def before(view: View, change: str) -> View:
    if change == "beside":
        return transforms.join_side_by_side([view, transforms.flip(view)], 7)
    if change == "rotate":
        return transforms.rotate(view, 90)
    return transforms.resize(view, 300, 200) if change == "resize" else view


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    crop=crops,
    points=st.lists(within, min_size=1, max_size=3),
    change=st.sampled_from(["", "beside", "rotate", "resize"]),
)
def test_a_mark_is_visible_where_the_map_says_in_every_part(
    crop: Crop, points: list[tuple[float, float]], change: str
) -> None:
    marks = [Point(str(n), x, y) for n, (x, y) in enumerate(points)]
    state = start(*marks)
    state = state.replace(views=tuple(before(view, change) for view in state.views))
    for view in zoom_view(state, replace(crop, thickness=0)).views:
        for mark in marks:
            measure_error(view, mark)


def measure_error(view: View, mark: Point) -> list[float]:
    """Return how far a mark is off, in pixels of the source, or of the view if those are larger."""
    found = []
    for place in view.to_view(mark):
        assert np.allclose(view.to_source(*place.center) or (), (0, mark.x, mark.y))
        x, y = (round(c) for c in place.center)
        at = np.add(place.center, 0.5)
        part = next(part for part in reversed(view.parts) if contains(part.clip, *at))
        # else it is resampled with the rim
        if contains(part.clip, [x - 3, x + 4], [y - 3, y + 4]).all():
            # The pixel value encodes which place of the source it shows.
            aim = part.affine.inverse((x, y))
            off = float(np.abs(view.pixels[y, x, :2] - aim).max() * min(1.0, part.affine.scale))
            assert off <= 1.2  # a pixel holds a rounded number, and Lanczos may overshoot
            found.append(off)
    return found


def test_this_test_would_detect_a_shifted_map() -> None:
    mark, crop = Point("p", 70, 60), Crop(upscale=300, thickness=0)
    (view,) = zoom_view(start(mark), crop).views
    assert len(measure_error(view, mark)) == 1
    moved = view.transform(view.picture, Affine.shift(3 * view.parts[-1].affine.scale, 0))
    with pytest.raises(AssertionError):
        measure_error(moved, mark)


@settings(max_examples=80, deadline=None)
@given(crop=crops, point=within)
def test_a_zoomed_region_is_in_every_zoom(crop: Crop, point: tuple[float, float]) -> None:
    mark = Point("p", *point)
    views = zoom_view(start(mark), crop).views
    places = [len(view.to_view(mark)) for view in views]
    assert places == {"crop": [1], "both": [1, 1], "beside": [2], "inset": [2]}[crop.show]


def detect(state: State, **settings: Any) -> State:
    return ZoomOnDetections(**{"detector": FINDS, "crop": TIGHT, **settings})(state, NoModel())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [CAT, DOG]),
        ({"order": "size"}, [DOG, CAT]),
        ({"min_score": 0.7}, [CAT]),
        ({"words": ("dog",)}, [DOG]),
        ({"words_field": "thing"}, [DOG]),
        ({"words_field": "things"}, [CAT, DOG]),
        ({"words_pattern": r"the (\w+)"}, [CAT]),
        ({"words_pattern": r"\w+(?=\?)"}, [CAT]),
        # a blank group, and one that takes no part
        ({"words_pattern": r"the( )?(dog)?(cat)"}, [CAT]),
    ],
)
def test_labels_and_thresholds_of_a_detector(settings: Any, expected: list[Any]) -> None:
    state = start(meta={"thing": "dog", "things": ["dog", "cat"]})
    assert [area(view) for view in detect(state, **settings).views] == [box[:4] for box in expected]


def test_a_detector_sees_the_source_and_its_boxes_are_mapped() -> None:
    state, seen = start(), list[Pixels]()
    drawn = state.views[0].with_pixels(np.full((HEIGHT, WIDTH, 3), 7, np.uint8))
    turned = transforms.rotate(transforms.resize(drawn, 480, 360), 90)

    def looks(pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        seen.append(pixels)
        return FINDS(pixels, ("cat",))

    (view,) = detect(state.replace(views=(turned,)), detector=looks).views
    assert len(seen) == 1 and seen[0] is state.sample.images[0].pixels
    assert view.size == (40, 80)  # the cat's 40 x 20, twice as large, on its side
    assert (view.pixels == 7).all()


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"words": ("bird",)}, "bird in image 0"),
        ({"min_score": 2.0}, "no box in image 0"),
        ({"words": ("nonsense",)}, "nonsense"),
        ({"words_pattern": "the (dogs)"}, "no words"),
        ({"words_field": "empty"}, "no words"),
        ({"detector": make_detector((5, 5, 5, 9, 1, "flat"))}, "no box in image 0"),
        ({"detector": make_detector((500, 5, 600, 9, 1, "out"))}, "no box is seen"),
    ],
)
def test_missing_detections_are_handled_as_configured(settings: dict[str, Any], fact: str) -> None:
    state = start(meta={"empty": []})
    with pytest.raises(ValueError, match=f"sample s1: view 1: .*{fact}") as failed:
        detect(state, missing="fail", **settings)
    reason = str(failed.value).removeprefix("sample s1: ").partition(";")[0]
    kept = detect(state, missing="keep", **settings)
    assert kept.views[0] is state.views[0]
    assert (kept.notes, kept.reason) == ((f"{reason}; kept as it is",), "")
    silent = detect(state, missing="abstain", **settings)
    assert (silent.reason, silent.views) == (f"abstained: {reason}", state.views)
    with pytest.raises(ValueError, match=r"'thing' is None.*\(fields: kind\)"):
        detect(start(meta={"kind": 1}), words_field="thing")


def test_a_view_without_a_detection_is_kept_and_recorded(tmp_path: Path) -> None:
    def second(pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        return (FINDS if pixels[0, 0, 2] else make_detector())(pixels, ("cat",))

    state = start(images=(numbered(), numbered(blue=9)))
    after = detect(state, detector=second)
    assert after.views[0] is state.views[0] and area(after.views[1]) == CAT[:4]
    (note,) = after.notes
    assert note.startswith("view 1: ")
    only = detect(state, detector=second, images=(1,), missing="fail")
    assert (only.views[0], area(only.views[1])) == (state.views[0], CAT[:4])
    record = record_state(after, tmp_path)
    assert record.notes == Record.from_line(record.to_line()).notes == (note,)
    old = {name: value for name, value in json.loads(record.to_line()).items() if name != "notes"}
    assert Record.from_line(json.dumps(old)).notes == ()


def test_hundreds_of_detections_are_reduced_and_noted() -> None:
    places = ((n % 200, n % 150, n % 200 + 9, n % 150 + 9, n / 500, "bug") for n in range(400))
    many = make_detector(*places)
    after = detect(start(), detector=many, crop=replace(TIGHT, most=3))
    assert len(after.views) == 3
    assert area(after.views[0])[:2] == (399 % 200, 399 % 150)
    assert len(after.notes) == 1 and "400 regions" in after.notes[0]
    union = detect(start(), detector=many, crop=replace(TIGHT, merge="union", most=400))
    assert len(union.views) == 1
    with pytest.raises(ValueError, match=r"sample s1: inset \d+ of 398"):
        detect(start(), detector=many, crop=Crop(show="inset", most=400, min_px=0))


DOTS = DotGrid(rows=5, columns=5, labels=False, radius=0)
RULED = RuledGrid(rows=3, columns=4, crowded="draw")


def cells(grid: Any, reply: str = "", draw: bool = False, **settings: Any) -> State:
    state = start(images=(numbered(), numbered(blue=9)))
    if draw:
        state = grid(state, NoModel())
    if reply:
        state = state.replace(messages=(Message("user", ("?",)), Message("assistant", (reply,))))
    return ZoomOnCells(grid, **settings)(state, NoModel())


def test_a_named_cell_of_a_ruled_grid_is_cropped() -> None:
    one, two = cells(RULED, cells=("B1", "D3")).views[:2]
    assert (area(one), area(two)) == ((60, 0, 120, 60), (180, 120, 240, 180))
    first, second = cells(RULED, "It is in C2, I think.", images=(1,)).views
    assert (first.size, area(second)) == ((WIDTH, HEIGHT), (120, 60, 180, 120))
    grid = replace(RULED, layout="original_plus_overlay")
    views = cells(grid, "Look at A1", draw=True).views
    assert [view.size for view in views] == [(60, 60)] * 4
    assert area(views[0]) == area(views[2]) == (0, 0, 60, 60)
    with pytest.raises(ValueError, match="view 1: no cell"):
        cells(grid, "nowhere", draw=True, missing="fail")


def test_only_existing_dots_can_be_named() -> None:
    rows, columns = DOTS.rows, DOTS.columns
    for name in ("(1,1)", f"({rows},{columns})", f"({rows},1)", f"(1,{columns})"):
        assert ZoomOnCells(DOTS, (name,)).cells == (name,)
    for name in ("(0,1)", "(1,0)", f"({rows + 1},1)", f"(1,{columns + 1})"):
        with pytest.raises(ValueError, match="has no cell"):
            ZoomOnCells(DOTS, (name,))


def test_a_dot_is_cropped_with_its_surroundings() -> None:
    # the dot at (80, 90), spacings of 40 and 30 pixels
    one = cells(DOTS, cells=("(3,2)",), around=1).views[0]
    assert area(one) == (40, 60, 121, 121)
    after = cells(DOTS, "The cat is near (2, 1,1), not at (9, 9).")
    assert [area(view) for view in after.views] == [(0, 0, 240, 180), (0, 0, 121, 91)]
    assert len(after.notes) == 1 and after.notes[0].startswith("view 1: no cell")


@pytest.mark.parametrize(
    ("mark", "fact"),
    [
        (Point("A", 240, 5), r"'A' at \(240, 5\) .*240 x 180"),
        (Box("b", -9, -9, -1, 5), r"'b' \(-9, -9, -1, 5\)"),
        (Point("A", 5, 5, image=1), "image 1"),
        (Mask("m", np.ones((3, 3), bool)), "'m' of 3 x 3"),
        (Point("A", float("nan"), 5), "outside"),
    ],
)
def test_a_mark_outside_its_image_fails_with_the_name_of_the_sample(mark: Mark, fact: str) -> None:
    with pytest.raises(ValueError, match=f"sample s1: .*{fact}"):
        zoom_view(start(mark))


def test_one_pixel_can_be_zoomed_on() -> None:
    state = start(Point("p", 0, 0), images=(numbered(1, 1),))
    sizes = {"crop": (32, 32), "both": (32, 32), "beside": (43, 32)}
    for show, size in sizes.items():
        views = zoom_view(state, Crop(show=show, upscale=32)).views  # type: ignore[arg-type]
        assert all(view.to_view(state.sample.marks[0]) for view in views)
        assert views[-1].size == size
    with pytest.raises(ValueError, match=r"inset 1 of 1 .* 1 x 1"):
        zoom_view(state, Crop(show="inset"))


def test_a_crop_is_limited_to_100_megapixels(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, int]] = []

    def resize(view: View, width: int, height: int, filter: str) -> View:
        sizes.append((width, height))
        return view

    monkeypatch.setattr(transforms, "resize", resize)
    zoom_view(start(Point("p", 5, 5)), replace(TIGHT, upscale=10_000))
    assert sizes == [(10_000, 10_000)]
    with pytest.raises(ValueError, match=r"sample s1: .* 4804 x 20816"):  # 64 pixels more
        zoom_view(start(Box("b", 10, 10, 13, 23)), replace(TIGHT, upscale=20_816))


@needs_extras
def test_a_zoom_survives_a_configuration_round_trip() -> None:
    settings = {
        "detector": {"use": "specialists.detection.FaceCascade"},
        "missing": "abstain",
        "crop": {"show": "inset", "aspect": 1},
    }
    stage = build({"use": "prompting.views.ZoomOnDetections", **settings})
    assert build(spec(stage)) == stage
    assert identity(stage)["crop"] == {"use": "prompting.views.Crop", "show": "inset", "aspect": 1}
    assert "no box in image 0" in stage(start(), NoModel()).reason

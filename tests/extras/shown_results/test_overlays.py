"""Overlays: results of a specialist on the source are drawn at their mapped positions in each
part."""

from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from looktwice.extras.shown_results import DepthOverlay, MatchOverlay, ScalarOverlay, SegmentTint
from looktwice.extras.shown_results.overlays import spread_matches
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.transforms import crop, flip, join_side_by_side, resize, rotate
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.colors import choose_golden_ratio_color
from looktwice.prompting.evidence import project_maps
from looktwice.specialists.matching import SIFT
from looktwice.specialists.results import DepthMap, Masks, Matches
from looktwice.specialists.rules import NoEvidence

GREY = 90


@dataclass(frozen=True)
class Ramp:
    """Depth that falls from 1 at the left to 0; unknown from the column `unknown` on."""

    unknown: int = 10_000
    nearer: bool = True
    seen: list[int] = field(default_factory=list, compare=False)

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        self.seen.append(len(others))
        height, width = image.shape[:2]
        values = np.tile(np.linspace(1, 0, width), (height, 1))
        values[:, self.unknown :] = np.nan
        return DepthMap(values, self.nearer)


@dataclass(frozen=True)
class Brightness:
    """The red of each pixel; of another shape where `shape` is given."""

    shape: tuple[int, int] | None = None

    def __call__(self, pixels: Pixels, /) -> np.ndarray:
        return np.asarray(np.zeros(self.shape) if self.shape else pixels[..., 0].astype(float))


@dataclass(frozen=True)
class Nothing:
    """Finds nothing in any image."""

    def __call__(self, *images: Pixels) -> Any:
        raise NoEvidence("it is too dark")


@dataclass(frozen=True)
class Fixed:
    """A matcher with fixed matches."""

    xy0: tuple[tuple[float, float], ...]
    xy1: tuple[tuple[float, float], ...]
    confidence: tuple[float, ...]

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        return Matches(np.array(self.xy0), np.array(self.xy1), np.array(self.confidence))


@dataclass(frozen=True)
class Halves:
    """The left and the right half of a picture, and an empty mask."""

    empty: bool = False

    def __call__(self, pixels: Pixels, /) -> Masks:
        masks = np.zeros((3, *pixels.shape[:2]), bool)
        if not self.empty:
            middle = pixels.shape[1] // 2
            masks[0, :, :middle], masks[1, :, middle:] = True, True
        return Masks(masks, np.ones(3), np.full(3, ""))


def plain(width: int = 120, height: int = 80, grey: int = GREY) -> Picture:
    return Picture(np.full((height, width, 3), grey, np.uint8))


def start(*images: Picture) -> State:
    return State.start(Sample("s1", "Which?", images or (plain(),)))


def draw_overlay(stage: Stage, state: State | None = None) -> tuple[View, ...]:
    return stage(state or start(), NoModel()).views


def test_near_depth_is_bright() -> None:
    (view,) = draw_overlay(
        DepthOverlay(depth=Ramp(), layout="only", colormap="gray", low=0, high=100)
    )
    assert [int(view.pixels[40, x, 0]) for x in (0, 119)] == [255, 0]
    assert (np.diff(view.pixels[40, :, 0].astype(int)) <= 0).all()
    far = draw_overlay(DepthOverlay(depth=Ramp(nearer=False), layout="only", colormap="gray"))[0]
    inverted = draw_overlay(
        DepthOverlay(depth=Ramp(), layout="only", colormap="gray", invert=True)
    )[0]
    assert (far.pixels == inverted.pixels).all()
    assert far.pixels[40, 0, 0] == 0


@pytest.mark.parametrize("name", ["inferno", "turbo", "viridis", "jet"])
def test_colours_are_those_of_the_colormap_in_rgb(name: Any) -> None:
    (view,) = draw_overlay(
        DepthOverlay(depth=Ramp(), layout="only", colormap=name, low=0, high=100)
    )
    colormap = getattr(cv2, f"COLORMAP_{name.upper()}")
    (ends,) = cv2.applyColorMap(np.array([[0, 255]], np.uint8), colormap)[..., ::-1]
    assert (view.pixels[40, [119, 0]] == ends).all()


def test_layouts() -> None:
    settings: dict[str, Any] = {"depth": Ramp(), "colormap": "gray", "low": 0, "high": 100}
    (blend,) = draw_overlay(DepthOverlay(layout="blend", alpha=0.25, **settings))
    assert tuple(blend.pixels[40, 0]) == (round(0.75 * GREY + 0.25 * 255),) * 3
    assert tuple(blend.pixels[40, 119]) == (round(0.75 * GREY),) * 3
    state = start()
    first, second = draw_overlay(DepthOverlay(layout="extra", **settings), state)
    assert first is state.views[0]
    assert second.pixels[40, 0, 0] == 255
    (pair,) = draw_overlay(DepthOverlay(layout="beside", margin=4, **settings))
    assert pair.size == (244, 80)
    assert (pair.pixels[:, :120] == GREY).all()
    assert (pair.pixels[:, 124:] == second.pixels).all()
    assert [p.center[0] for p in pair.to_view(Point("", 7, 5)) if isinstance(p, Point)] == [7, 131]


def test_unknown_depth_keeps_the_view_or_has_its_own_colour() -> None:
    (blend,) = draw_overlay(DepthOverlay(depth=Ramp(unknown=60), layout="blend"))
    assert (blend.pixels[:, 60:] == GREY).all()
    assert (blend.pixels[:, :60] != GREY).any(-1).all()
    (only,) = draw_overlay(DepthOverlay(depth=Ramp(unknown=60), layout="only", unknown="#010203"))
    assert (only.pixels[:, 60:] == (1, 2, 3)).all()
    flat = ScalarOverlay(scalar=Brightness(), layout="only", colormap="gray")
    (view,) = draw_overlay(flat, start(plain(1, 1)))
    assert tuple(view.pixels[0, 0]) == (128, 128, 128)


def test_a_crop_is_coloured_like_the_whole_picture() -> None:
    state = start()
    stage = DepthOverlay(depth=Ramp(), layout="only", colormap="gray")
    whole = draw_overlay(stage, state)[0]
    part = draw_overlay(stage, state.replace(views=(crop(state.views[0], 30, 10, 90, 60),)))[0]
    assert (part.pixels == whole.pixels[10:60, 30:90]).all()
    mirrored = draw_overlay(stage, state.replace(views=(flip(state.views[0]),)))[0]
    assert (mirrored.pixels == whole.pixels[:, ::-1]).all()


def test_only_named_and_shown_pictures_are_analysed() -> None:
    depth = Ramp()
    state = start(plain(), plain(), plain())
    after = draw_overlay(DepthOverlay(depth=depth, images=(1,), layout="only"), state)
    assert [a is b for a, b in zip(after, state.views, strict=True)] == [True, False, True]
    assert depth.seen == [1]  # and it is given the following pictures, for stereo
    joined = state.replace(views=(join_side_by_side(state.views[:2]),))
    (view,) = draw_overlay(DepthOverlay(depth=Ramp(), images=(1,), layout="blend"), joined)
    assert (view.pixels[:, :120] == GREY).all()
    assert (view.pixels[:, 120:] != GREY).any()
    choice = state.replace(views=(View(plain()),))
    assert draw_overlay(DepthOverlay(depth=Nothing()), choice) == choice.views


def test_later_layers_cover_the_map() -> None:
    view = start().views[0]
    cover = View.of(plain(), source=1)
    both = View(view.picture, (*view.parts, *crop(cover, 0, 0, 50, 80).parts))
    field = project_maps(both, {0: np.ones((80, 120))})
    assert np.isnan(field[:, :50]).all()
    assert (field[:, 50:] == 1).all()


def test_the_text_is_added_only_if_something_is_shown() -> None:
    stage = DepthOverlay(depth=Ramp(), words="Bright is near.")
    assert stage(start(), NoModel()).prompt == "Which?\nBright is near."
    assert replace(stage, depth=Nothing(), missing="keep")(start(), NoModel()).prompt == "Which?"


@pytest.mark.parametrize(
    ("stage", "why"),
    [
        (DepthOverlay(depth=Nothing()), "it is too dark"),
        (DepthOverlay(depth=Ramp(unknown=0)), "the map of image 0 has no known value"),
        (SegmentTint(segmenter=Halves(empty=True)), "no segment was found in image 0"),
        (MatchOverlay(matcher=Fixed((), (), ())), "0 matches, at least 1 are needed"),
        (MatchOverlay(matcher=Nothing()), "it is too dark"),
    ],
)
def test_without_a_result_the_setting_decides(stage: Any, why: str) -> None:
    state = start(plain(), plain()) if isinstance(stage, MatchOverlay) else start()
    with pytest.raises(ValueError, match=f"sample s1: {why}; set missing"):
        stage(state, NoModel())
    kept = replace(stage, missing="keep")(state, NoModel())
    assert (kept.views, kept.notes) == (state.views, (f"{why}; kept as it is",))
    assert replace(stage, missing="abstain")(state, NoModel()).reason == f"abstained: {why}"


@pytest.mark.parametrize(
    ("stage", "fact"),
    [
        (ScalarOverlay(scalar=Brightness((4, 5))), r"image 0 .*\(4, 5\), .*\(80, 120\)"),
        (DepthOverlay(depth=Ramp(), images=(2,)), "images names 2"),
        (MatchOverlay(matcher=SIFT()), r"images names \(0, 1\)"),
    ],
)
def test_mismatched_results_are_named(stage: Stage, fact: str) -> None:
    with pytest.raises(ValueError, match=fact):
        draw_overlay(stage)


def test_segments_are_tinted_in_distinct_colours() -> None:
    (view,) = draw_overlay(SegmentTint(segmenter=Halves(), alpha=0.5, contour=1))
    for x, color in [(20, choose_golden_ratio_color(0)), (90, choose_golden_ratio_color(1))]:
        assert tuple(view.pixels[40, x]) == tuple(np.rint(np.add(color, GREY) / 2).astype(int))
    assert tuple(view.pixels[40, 59]) == choose_golden_ratio_color(0)
    assert tuple(view.pixels[40, 60]) == choose_golden_ratio_color(1)
    assert tuple(view.pixels[40, 58]) != choose_golden_ratio_color(0)


PAIRS = Fixed(((20, 30), (100, 60)), ((40, 30), (80, 10)), (0.2, 0.9))


def test_links_join_the_dots_of_two_pictures_in_one_view() -> None:
    state = start(plain(), plain(100, 60), plain(grey=10))
    pair, rest = draw_overlay(
        MatchOverlay(matcher=PAIRS, color="red", thickness=1, radius=2, margin=10), state
    )
    assert pair.size == (230, 80)
    assert rest is state.views[2]
    red = (pair.pixels == (255, 0, 0)).all(-1)
    # the second picture is centred: 10 px down
    for x, y in [(20, 30), (100, 60), (170, 40), (210, 20)]:
        assert red[y, x]
        assert not red[y - 4, x]
    assert pair.pixels[34:37, 95, 0].max() > 200  # the middle of the first link
    drawn = (pair.pixels[:, :120] != GREY).any(-1) | red[:, :120]
    assert 100 + 20 < drawn.sum() < 3 * (100 + 20) + 2 * 36


def test_a_view_that_already_shows_both_pictures_is_reused() -> None:
    state = start(plain(), plain())
    pair = join_side_by_side([flip(state.views[0]), resize(state.views[1], 240, 160)])
    (view,) = draw_overlay(MatchOverlay(matcher=PAIRS, color="red"), state.replace(views=(pair,)))
    assert view.size == pair.size
    red = (view.pixels == (255, 0, 0)).all(-1)
    assert red[30 + 40, 119 - 20]
    assert red[60, 120 + 81]
    alone = state.replace(views=state.views[:1])
    with pytest.raises(ValueError, match=r"the views do not show both images \(0, 1\)"):
        draw_overlay(MatchOverlay(matcher=PAIRS), alone)


def test_links_are_coloured_and_selected_by_confidence() -> None:
    state = start(plain(), plain())
    (view,) = draw_overlay(
        MatchOverlay(matcher=PAIRS, color="confidence", margin=0, min_confidence=0.5), state
    )
    assert (view.pixels[30, 20] == GREY).all()
    red, green, blue = (int(value) for value in view.pixels[60, 100])
    assert (green, blue) == (255, 0)
    assert red < 60
    both = draw_overlay(MatchOverlay(matcher=PAIRS, color="confidence"), state)[0].pixels[30, 20]
    assert (int(both[0]), int(both[2])) == (255, 0)


def test_matches_are_selected_over_the_whole_picture() -> None:
    crowd = np.column_stack([np.arange(30) % 6, np.arange(30) // 6])
    xy = np.concatenate([crowd, [[90, 10], [10, 70], [100, 70]]]).astype(float)
    matches = spread_matches(Matches(xy, xy, np.linspace(1, 0.1, 33)), (120, 80), 4)
    assert {(0, 0), (90, 10), (10, 70), (100, 70)} == {tuple(row) for row in matches.xy0.tolist()}
    assert len(spread_matches(Matches.make_empty(), (120, 80), 4)) == 0


@settings(max_examples=40, deadline=None)
@given(
    spot=st.tuples(st.integers(20, 100), st.integers(20, 60)),
    degrees=st.sampled_from([0, 90, 180, 270, -25]),
    stretch=st.tuples(st.floats(0.7, 2), st.floats(0.7, 2)),
    mirrored=st.booleans(),
)
def test_a_bright_spot_of_a_map_keeps_its_place(
    spot: tuple[int, int], degrees: float, stretch: tuple[float, float], mirrored: bool
) -> None:
    """Within half a pixel of the mapped point, in every part."""
    ys, xs = np.mgrid[:80, :120]
    values = np.exp(-((xs - spot[0]) ** 2 + (ys - spot[1]) ** 2) / 18)
    view = start().views[0]
    view = resize(view, round(120 * stretch[0]), round(80 * stretch[1]))
    view = rotate(flip(view) if mirrored else view, degrees)
    pair = join_side_by_side([view, flip(view)], 5)
    field = np.nan_to_num(project_maps(pair, {0: values}))
    rows, columns = np.mgrid[: field.shape[0], : field.shape[1]]
    for place in pair.to_view(Point("", *spot)):
        x, y = place.center
        near = field * (np.hypot(columns - x, rows - y) < 9)
        assert (columns * near).sum() / near.sum() == pytest.approx(x, abs=0.5)
        assert (rows * near).sum() / near.sum() == pytest.approx(y, abs=0.5)


@pytest.mark.parametrize("thickness", range(1, 10))
def test_lines_of_matches_have_the_configured_width(thickness: int) -> None:
    """Level and slanted lines, in pixels of the view; 3 and 4 differ."""
    images = tuple(Picture(np.zeros((80, 120, 3), np.uint8)) for _ in range(2))
    state = State.start(Sample("s", "?", images))
    lines = [((10, 20), (110, 20)), ((20.5, 10.25), (90, 70))]
    for (x0, y0), (x1, y1) in lines:
        matcher = Fixed(((x0, y0),), ((x1, y1),), (1.0,))
        stage = MatchOverlay(matcher, color="white", thickness=thickness, radius=0.5, margin=0)
        (view,) = stage(state, NoModel()).views
        ink = view.pixels[..., 0].sum() / 255
        length = float(np.hypot(x1 + 120 - x0, y1 - y0))
        assert abs(ink - np.pi * (thickness / 2) ** 2 - thickness * length) < 0.06 * length


@pytest.mark.parametrize("shape", [(12, 33_000), (33_000, 12), (12, 32_767)])
def test_maps_and_masks_cover_pictures_with_long_sides(shape: tuple[int, int]) -> None:
    state = State.start(Sample("s", "?", (Picture(np.zeros((*shape, 3), np.uint8)),)))
    ramp = np.linspace(0, 1, shape[0] * shape[1]).reshape(shape)
    depth = DepthOverlay(lambda pixels, *others: DepthMap(ramp, True), layout="only")
    (view,) = depth(state, NoModel()).views
    assert view.pixels[-1, -1].sum() > 500 and view.pixels[0, 0].sum() < 60
    mask = np.zeros((1, *shape), bool)
    mask[0, shape[0] // 2 :, shape[1] // 2 :] = True
    found = Masks(mask, np.ones(1), np.array(["x"]))
    (view,) = SegmentTint(lambda pixels: found)(state, NoModel()).views
    assert view.pixels[-1, -1].any() and not view.pixels[0, 0].any()

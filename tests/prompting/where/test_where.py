"""Sources of regions: one interface for all, with their placebos, for crops and drawings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.config import ConfigError, build
from looktwice.pipelines.geometry import measure_overlap
from looktwice.pipelines.marks import Box, Mark, Point, bounding_box
from looktwice.pipelines.model import Message
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.controls import OracleCrop
from looktwice.prompting.grids import RuledGrid
from looktwice.prompting.markers import Dots, Rectangles, Spotlight
from looktwice.prompting.turns import Verify, ZoomOnClaim
from looktwice.prompting.views import Crop, Look, Show, ZoomOnCells, ZoomOnDetections, ZoomOnMarks
from looktwice.prompting.where import (
    Claimed,
    Detected,
    Elsewhere,
    Given,
    InCells,
    OnMarks,
    Segmented,
    Sized,
    Where,
    Windows,
)
from looktwice.specialists.results import Boxes, DepthMap, Masks
from tests.prompting.scenes import ScriptedReplies

SIZE = (200, 100)
BRIGHT = (150, 20, 170, 40)
"""Left, top, right and bottom of the only bright patch of the picture."""


def picture() -> Picture:
    pixels = np.full((SIZE[1], SIZE[0], 3), 60, np.uint8)
    left, top, right, bottom = BRIGHT
    pixels[top:bottom, left:right] = 250
    return Picture(pixels)


@dataclass(frozen=True)
class Bright:
    """Finds bright regions, as boxes, masks, or a map."""

    kind: str = "map"

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Any:
        values = pixels[..., 0].astype(float)
        if self.kind == "map":
            return values
        if self.kind == "depth":
            return DepthMap(-values, larger_is_nearer=False)
        mask = values > 200
        if self.kind == "masks":
            return Masks(mask[None], np.ones(1), np.array(["bright"]))
        return Boxes(np.array([BRIGHT], float), np.ones(1), np.array(["bright"]))


def start(*marks: Mark, said: str = "") -> State:
    meta = {"region": "R"} if any(mark.label == "R" for mark in marks) else {}
    state = State.start(Sample("s", "Where?", (picture(),), marks=marks, meta=meta))
    turn = Message("assistant", (said,))
    return state.replace(messages=(turn,)) if said else state


NO_BOXES = Boxes(np.empty((0, 4)), np.empty(0), np.empty(0, str))
REGION = Box("R", *BRIGHT)
GRID = RuledGrid(5, 10)
SOURCES: list[tuple[Where, State]] = [
    (OnMarks(), start(REGION)),
    (Given(), start(REGION)),
    (Detected(Bright("boxes")), start()),
    (Segmented(Bright("masks")), start()),
    (Windows(Bright(), share=0.2), start()),
    (Windows(Bright("depth"), share=0.2), start()),
    (InCells(GRID), start(said="I look at cell H2, (I2 too)")),
    (Claimed("pixels"), start(said="LOOK: image 1, [150, 20, 170, 40]")),
    (Claimed("0-1"), start(said="It is at [0.75, 0.2, 0.85, 0.4].")),
]


@pytest.mark.parametrize(("where", "state"), SOURCES, ids=lambda thing: type(thing).__name__)
def test_every_source_finds_its_target_and_is_cropped_to_one_size(
    where: Where, state: State
) -> None:
    assert not where.asks
    (first, *_), *others = where.places(state, NoModel()).regions.values()
    assert not others
    assert measure_overlap(bounding_box(first), BRIGHT) >= 200  # at least half of it
    crop = Crop(padding=0, min_px=0, upscale=80, most=1)
    view, *more = Look(Sized(where, 0.2), crop)(state, NoModel()).views
    assert not more
    assert view.size == (80, 40)
    assert (view.pixels > 200).any()


@pytest.mark.parametrize(("where", "state"), SOURCES, ids=lambda thing: type(thing).__name__)
def test_every_source_has_a_placebo_of_the_same_sizes(where: Where, state: State) -> None:
    true = where.places(state, NoModel()).regions[0]
    placebo = Elsewhere(where, tries=64)
    moved = placebo.places(state, NoModel()).regions[0]
    assert moved == placebo.places(state, NoModel()).regions[0]
    assert moved != replace(placebo, seed=1).places(state, NoModel()).regions[0]
    for old, new in zip(true, moved, strict=True):
        (a, b, c, d), (x0, y0, x1, y1) = bounding_box(old), bounding_box(new)
        assert (x1 - x0, y1 - y0) == pytest.approx((c - a, d - b))
        assert 0 <= x0 <= x1 <= SIZE[0] and 0 <= y0 <= y1 <= SIZE[1]
        assert sum(measure_overlap((x0, y0, x1, y1), bounding_box(mark)) for mark in true) == 0


def test_a_uniform_placebo_reaches_every_place() -> None:
    state, wide = start(Box("A", 0, 0, 150, 50)), Elsewhere(OnMarks(), tries=1)
    lefts = [
        bounding_box(replace(wide, seed=seed).places(state, NoModel()).regions[0][0])[0]
        for seed in range(400)
    ]
    assert set(lefts) == set(range(51))


def test_windows_are_picked_greedily_from_a_map() -> None:
    @dataclass(frozen=True)
    class Two:
        def __call__(self, pixels: Pixels, /) -> Any:
            values = np.full(pixels.shape[:2], np.nan)
            values[10:90, 10:190] = 0
            values[20:30, 20:40], values[70:80, 140:160] = 1, 2
            return values

    marks = Windows(Two(), share=0.2, most=5).places(start(), NoModel()).regions[0]
    boxes = [bounding_box(mark) for mark in marks]
    assert len(boxes) == 2  # nothing is left for a third
    assert (
        measure_overlap(boxes[0], (140, 70, 160, 80))
        == measure_overlap(boxes[1], (20, 20, 40, 30))
        == 200
    )


def test_a_source_without_a_result_keeps_the_views_with_a_note() -> None:
    @dataclass(frozen=True)
    class Blind:
        def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Any:
            return np.full(pixels.shape[:2], np.nan) if words is None else NO_BOXES

    for stage in (Look(Windows(Blind())), Show(Windows(Blind()), Rectangles())):
        state = stage(start(), NoModel())
        assert state.views[0].size == SIZE
        assert "the map of image 0 has no known value; kept as it is" in state.notes[0]
        with pytest.raises(ValueError, match="set missing: keep"):
            replace(stage, missing="fail")(start(), NoModel())
    gone = Show(Detected(Blind(), ("cat",)), Rectangles(), missing="abstain")(start(), NoModel())
    assert gone.reason == "abstained: no box for cat in image 0"


def test_only_the_regions_are_drawn_on() -> None:
    state = start(Point("A", 20, 80))
    shown = Show(Segmented(Bright("masks")), Spotlight(dim=1, feather=0))(state, NoModel())
    pixels = shown.views[0].pixels
    left, top, right, bottom = BRIGHT
    assert (pixels[top:bottom, left:right] == 250).all()
    assert pixels[80, 20].tolist() == [0, 0, 0]
    assert shown.sample is state.sample
    marker = Rectangles(label=None, color="red")
    three = start(*(Box(name, 10 * x, 50, 10 * x + 8, 58) for x, name in enumerate("ABC")))
    few = Show(OnMarks(), marker, most=2)(three, NoModel())
    several = Show(OnMarks(), marker)(three, NoModel())
    red = [int((s.views[0].pixels == (255, 0, 0)).all(-1).sum()) for s in (few, several)]
    assert 0 < red[0] < red[1]


@pytest.mark.parametrize(
    ("stage", "where", "state"),
    [
        (ZoomOnMarks(), OnMarks(), start(REGION, Point("A", 30, 60))),
        (ZoomOnDetections(Bright("boxes")), Detected(Bright("boxes")), start()),
        (ZoomOnCells(GRID, ("B3", "C3")), InCells(GRID, ("B3", "C3")), start()),
        (ZoomOnClaim("pixels"), Claimed("pixels"), start(said="[10, 10, 60, 50] [1, 1, 9, 9]")),
        (OracleCrop(), Given(), start(REGION)),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_a_named_zoom_equals_a_look_with_the_same_source(
    stage: Any, where: Where, state: State
) -> None:
    first, second = stage(state, NoModel()), Look(where, stage.crop)(state, NoModel())
    assert len(first.views) == len(second.views)
    for mine, theirs in zip(first.views, second.views, strict=True):
        assert np.array_equal(mine.pixels, theirs.pixels)


def test_a_configuration_names_sources_within_sources() -> None:
    node = {
        "use": "prompting.views.Look",
        "where": {
            "use": "prompting.where.Elsewhere",
            "where": {"use": "prompting.where.Sized", "where": {"use": "prompting.where.Given"}},
        },
    }
    assert build(node) == Look(Elsewhere(Sized(Given())))
    with pytest.raises(ConfigError, match="expected Where, found Circles"):
        build({"use": "prompting.views.Look", "where": {"use": "prompting.markers.Circles"}})


def test_points_are_requested_drawn_and_counted() -> None:
    zoom = Show(Claimed("0-1", points=True), Dots(label=None, color="red"), most=50)
    heard = ScriptedReplies("I see [0.5, 0.5], (0.1, 0.9), (0.5, 0.5) and [7, 7].", "There are 2.")
    where = "{prompt} Point at each, in {unit}."
    after = Verify(where=where, check="{prompt}", zoom=zoom)(start(), heard)
    assert after.measures["regions_shown"] == 2
    assert any("[7, 7]" in note for note in after.notes)
    (first, *_), (second, *_) = heard.calls
    assert "shares of the image's width" in first[-1].text
    marked = (second[-1].views[0].pixels == (255, 0, 0)).all(-1)
    assert marked[50, 100] and marked[90, 20] and not marked[90, 100]

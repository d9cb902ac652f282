"""Dots, lines and ticks are at their computed places, and names map back to the source."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines import transforms
from looktwice.pipelines.config import build
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.transforms import crop, flip, join_side_by_side, resize, rotate
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.text import render_text
from looktwice.prompting.grids import Axes, DotGrid, GridWords, RuledGrid
from looktwice.prompting.grids.grids import find_source_box, make_column_letters, read_coordinates
from tests.prompting import scenes
from tests.prompting.scenes import BLACK, RED, WHITE, build_stage, table

CASES = table("grids/grids.yaml")


def plain(width: int = 480, height: int = 360, grey: int = 90) -> Picture:
    return scenes.plain(width, height, grey)


def start(*images: Picture) -> State:
    return State.start(Sample("s1", "Which?", images or (plain(),)))


def draw_grid(stage: Stage, *images: Picture) -> Pixels:
    return stage(start(*images), NoModel()).views[0].pixels


def changed(pixels: Pixels, grey: int = 90) -> np.ndarray:
    return np.asarray((pixels != grey).any(-1))


def test_the_dots_are_placed_as_by_the_code_of_scaffold() -> None:
    """Spacing width / 7 and height / 7 in whole pixels, radius width // 240, white on dark."""
    pixels = draw_grid(DotGrid(labels=False), plain(481, 360))
    seen = changed(pixels)
    for row in range(1, 7):
        for column in range(1, 7):
            x, y = int(481 / 7 * column), int(360 / 7 * row)
            assert tuple(pixels[y, x]) == WHITE
            assert [tuple(pixels[y, x + d]) for d in (-2, 2)] == [WHITE, WHITE]
            assert not seen[y - 4 : y - 3, x - 4 : x + 5].any()
            seen[y - 3 : y + 4, x - 3 : x + 4] = False
    assert not seen.any()


@pytest.mark.parametrize(("grey", "color"), [(127, WHITE), (128, BLACK), (255, BLACK), (0, WHITE)])
def test_a_dot_is_black_above_half_brightness(grey: int, color: tuple[int, int, int]) -> None:
    pixels = draw_grid(DotGrid(), plain(grey=grey))
    x, y = DotGrid().locate_dot((480, 360), 3, 4)
    assert tuple(pixels[y, x]) == color


def test_a_label_starts_three_pixels_right_of_its_dot_in_its_colour() -> None:
    half = np.full((360, 480, 3), 20, np.uint8)
    half[:, 240:] = 230
    pixels = draw_grid(DotGrid(radius=0), Picture(half))
    for column, text, ground, color in [(1, "(2,1)", 20, 255), (6, "(2,6)", 230, 0)]:
        x, y = DotGrid().locate_dot((480, 360), 2, column)
        ink = render_text(text, 12) / 255
        seen = pixels[y : y + ink.shape[0], x + 3 : x + 3 + ink.shape[1]]
        assert seen == pytest.approx(
            np.repeat((ground + ink * (color - ground))[..., None], 3, axis=2), abs=0.51
        )
        assert (pixels[y : y + 20, x + 3 + ink.shape[1] : x + 50] == ground).all()


def test_labels_name_the_image_only_if_there_are_several() -> None:
    first, second = draw_grid(DotGrid()), DotGrid()(start(plain(), plain()), NoModel()).views
    assert changed(second[0].pixels).sum() > 1.15 * changed(first).sum()
    assert (second[0].pixels != second[1].pixels).any()
    short = DotGrid(coordinates="row-column")(start(plain(), plain()), NoModel()).views
    assert (short[0].pixels == short[1].pixels).all()
    assert (short[0].pixels == first).all()
    assert (draw_grid(DotGrid(coordinates="image-row-column")) == second[0].pixels).all()


@pytest.mark.parametrize(
    "stage", [DotGrid(layout="original_plus_overlay"), RuledGrid(layout="original_plus_overlay")]
)
def test_the_original_is_shown_untouched_before_the_overlay(stage: DotGrid | RuledGrid) -> None:
    state = start(plain(), plain(grey=30))
    after = stage(state, NoModel()).views
    assert [after[0], after[2]] == list(state.views)
    assert stage.select_gridded_views(after) == (after[1], after[3])
    assert changed(after[1].pixels).any()
    assert after[1].parts == state.views[0].parts


def test_dots_named_in_a_reply_are_points_of_the_source() -> None:
    view = start(plain(400, 300)).views[0]
    left = resize(crop(view, 100, 50, 300, 250), 600, 600)
    grid = DotGrid(rows=5, columns=4)
    views = (grid.draw(left, 1), grid.draw(flip(view), 2))
    found = grid.places(
        views, "The cup is at (1, 2, 3), near (2,2,3); (3,1,1), (1,6,1) and (9) are nothing."
    )
    assert [point.label for point in found] == ["(1,2,3)", "(2,2,3)"]
    assert found[0].center == pytest.approx((100 + 360 / 3 - 1 / 3, 50 + 200 / 3 - 1 / 3), abs=0.51)
    assert found[1].center == (399 - 240, 100)
    assert grid.places(views, "[2, 3]")[0].label == "(2,3)"


def test_active_perception_shows_two_cells_around_a_dot() -> None:
    box = DotGrid().make_box_around((700, 350), 3, 3)
    assert box.xyxy == (100.5, 50.5, 500.5, 250.5)
    assert DotGrid().make_box_around((700, 350), 1, 6).xyxy == (400.5, 0, 700, 150.5)


@pytest.mark.parametrize(("stage", "size", "message"), CASES["too_fine"])
def test_a_grid_finer_than_the_image_is_reported(
    stage: dict[str, Any], size: tuple[int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        draw_grid(build_stage(stage), plain(*size))


TEXT = render_text("(1,1)", 8).shape
NAME = render_text("A1", 8).shape


@pytest.mark.parametrize(
    ("stage", "size"),
    [
        (RuledGrid(rows=1, columns=10, names="none"), (30, 40)),  # cells of thickness + 2
        (RuledGrid(rows=10, columns=1, names="none", thickness=2), (90, 40)),
        # thickness, halo and a pixel on both sides
        (RuledGrid(rows=1, columns=1, font_size=8), (NAME[1] + 6, 99)),
        (RuledGrid(rows=1, columns=1, font_size=8, thickness=2, halo=0), (99, NAME[0] + 6)),
        (DotGrid(rows=1, columns=9, radius=1, labels=False), (40, 90)),  # dots 2 * radius + 2 apart
        (DotGrid(rows=9, columns=1, radius=1, labels=False), (90, 40)),
        (DotGrid(rows=1, columns=1, radius=2, font_size=8), (2 * (3 + TEXT[1] + 2), 99)),
        (DotGrid(rows=1, columns=1, radius=0, font_size=8), (199, 2 * TEXT[0])),
    ],
)
def test_the_finest_grid_that_fits(stage: Stage, size: tuple[int, int]) -> None:
    """A pixel less in its narrow direction is refused."""
    draw_grid(stage, plain(*size))
    narrow = min(range(2), key=lambda side: size[side])
    with pytest.raises(ValueError, match=r"too fine|no room"):
        draw_grid(stage, plain(*(length - (side == narrow) for side, length in enumerate(size))))


@pytest.mark.parametrize(("thickness", "halo"), [(1, 0), (1, 1), (3, 0)])
def test_cell_names_avoid_the_lines(thickness: int, halo: int) -> None:
    grid = RuledGrid(rows=1, columns=1, font_size=8, color="red", thickness=thickness, halo=halo)
    rows, columns = np.nonzero(changed(draw_grid(grid, plain(99, 80))))
    assert (columns.min(), rows.min()) == (thickness + 2, thickness + 2)
    assert rows.max() == thickness + 1 + 2 * halo + NAME[0]
    rows, columns = np.nonzero(
        changed(draw_grid(replace(grid, at="center", halo=0), plain(99, 81)))
    )
    assert columns.min() == round((99 - NAME[1]) / 2)
    assert rows.min() == round((81 - NAME[0]) / 2)


@pytest.mark.parametrize(("radius", "across"), [(0, 1), (1, 3), (2.5, 7), (4, 9)])
def test_dots_have_the_configured_width(radius: float, across: int) -> None:
    grid = DotGrid(rows=1, columns=1, radius=radius, labels=False, color="red")
    seen = changed(draw_grid(grid, plain(40, 40)))
    assert seen[20].sum() == seen[:, 20].sum() == across
    assert seen[20, 20 - across // 2] == seen[20, 20 + across // 2] == 1
    assert (seen == seen.T).all()


def test_lines_divide_the_view_and_do_not_touch_its_edge() -> None:
    grid = RuledGrid(rows=3, columns=4, names="none", color="red", alpha=1, thickness=2)
    seen = (draw_grid(grid, plain(402, 300)) == RED).all(-1)
    columns, rows = np.flatnonzero(seen.all(0)), np.flatnonzero(seen.all(1))
    assert list(columns) == [100, 101, 200, 201, 301, 302]
    assert list(rows) == [99, 100, 199, 200]
    assert seen.sum() == 6 * 300 + 4 * 402 - 6 * 4


def test_translucent_lines_contrast_with_what_is_below() -> None:
    half = np.full((300, 400, 3), 0, np.uint8)
    half[:150] = 200
    pixels = draw_grid(RuledGrid(rows=2, columns=2, names="none", alpha=0.5), Picture(half))
    assert tuple(pixels[50, 200]) == (100, 100, 100)
    assert tuple(pixels[250, 200]) == (128, 128, 128)


@pytest.mark.parametrize(("names", "reply", "found"), CASES["cells"])
def test_cells_named_in_a_reply_are_boxes_of_the_source(
    names: Any, reply: str, found: list[str]
) -> None:
    grid = RuledGrid(rows=3, columns=4, names=names)
    views = grid(start(plain(400, 300)), NoModel()).views
    boxes = grid.places(views, reply)
    assert [box.label for box in boxes] == found
    if found:
        spots = {"B2": (100, 100), "6": (100, 100), "(2,2)": (100, 100)}
        assert boxes[0].xyxy == (*spots[found[0]], 200, 200)


def test_a_cell_across_the_edge_of_its_part_is_clipped() -> None:
    view = transforms.pad(start(plain(200, 100)).views[0], left=100)
    cell = RuledGrid(rows=1, columns=2).make_cell(view.size, 0, 0)
    box = find_source_box(view, cell)
    assert box is not None
    assert box.xyxy == pytest.approx((0, 0, 50, 100))
    assert find_source_box(View(plain(100, 100)), cell) is None


def test_spreadsheet_letters_and_coordinates_in_text() -> None:
    letters = [make_column_letters(number) for number in (0, 25, 26, 51, 52, 701, 702)]
    assert letters == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]
    named = read_coordinates("(1,2) [3 , 4,5] (1, 2) (1.5,2) (a,b) (12345,1) (7)")
    assert named == ((1, 2), (3, 4, 5))


@pytest.mark.parametrize("place", ["margin", "inside"])
def test_ticks_mark_source_pixels_in_a_mirrored_crop(place: Any) -> None:
    view = flip(resize(crop(start(plain(400, 300)).views[0], 100, 50, 300, 250), 600, 600))
    axes = Axes(place=place, step=50, color="red", lines=1)
    after = axes.draw(view)
    left, top = after.size[0] - 600, after.size[1] - 600
    assert (left > 10, top > 8) == (place == "margin",) * 2
    red = (after.pixels == RED).all(-1)
    columns = np.flatnonzero(red[top + 100 :, left + 60 :].all(0)) + left + 60
    expected = [after.to_view(Point("", x, 100.0))[0].center[0] for x in (250, 200, 150, 100)]
    assert list(columns) == [round(x) for x in expected]


def test_axes_in_thousandths_of_joined_and_rotated_images() -> None:
    view = crop(start(plain(400, 300)).views[0], 100, 50, 300, 250)
    after = Axes(frame="0-1000", place="inside", step=500, color="red", lines=1).draw(view)
    red = (after.pixels == RED).all(-1)
    assert list(np.flatnonzero(red[100:].all(0))) == [0, 100, 199]
    first, second = start(plain(400, 300), plain(300, 200)).views
    pair = join_side_by_side([first, second], 10)
    axes = Axes(place="inside", step=100, color="red", tick=8)
    red = (axes.draw(pair).pixels == RED).all(-1)
    assert list(np.flatnonzero(red[:8].all(0))) == [0, 100, 200, 300]
    assert list(np.flatnonzero(red[50:58].all(0))) == [410, 510, 610]
    with pytest.raises(ValueError, match="shows 2; set place: inside"):
        Axes().draw(pair)
    turned, other = rotate(start().views[0], 30), View(plain())
    with pytest.raises(ValueError, match=r"image 0 is rotated .*frame: 0-1000"):
        Axes().draw(turned)
    assert Axes(frame="0-1000").draw(turned).size > turned.size
    assert Axes().draw(other) is other and draw_grid(Axes(), plain(1, 1)).shape[0] > 1
    assert changed(draw_grid(DotGrid(columns=16, crowded="draw"))).any()
    assert changed(draw_grid(RuledGrid(columns=40, crowded="draw"))).any()


def test_the_text_depends_on_the_grid_and_the_number_of_images() -> None:
    grid = DotGrid(rows=4, columns=5, layout="original_plus_overlay")
    state = grid(start(plain(), plain()), NoModel())
    prompt = GridWords(grid, guide="steps")(state, NoModel()).prompt
    lines = prompt.split("\n")
    assert lines[0] == "Which?"
    assert "4 rows and 5 columns" in lines[1]
    assert "(image, row, column)" in lines[1]
    assert "twice" in lines[2]
    assert [line[:2] for line in lines if line[0].isdigit()] == ["1.", "2.", "3.", "4."]
    assert "images" in lines[-3]
    assert "MY_ANSWER:" in lines[-1]
    alone = GridWords(DotGrid(), guide="guidelines")(
        DotGrid()(start(), NoModel()), NoModel()
    ).prompt
    assert "(row, column)" in alone
    assert "[[ANSWER]]" in alone
    assert "{" not in alone + prompt


@pytest.mark.parametrize("grid", [DotGrid(), RuledGrid(), Axes()])
def test_the_text_without_a_guide_is_only_the_description(grid: DotGrid | RuledGrid | Axes) -> None:
    state = grid(start(), NoModel())
    assert GridWords(grid)(state, NoModel()).prompt == f"Which?\n{grid.describe(1)}"
    assert GridWords(grid, header="See:", final="Now.")(state, NoModel()).prompt.endswith("\nNow.")
    assert GridWords(None)(state, NoModel()) is state
    for own in (None, grid):
        node = {"use": "prompting.grids.GridWords", "grid": own and spec(own)}
        assert build(node).grid == own

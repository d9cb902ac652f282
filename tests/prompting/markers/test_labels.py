"""Labels: their text, legibility, placement and colours."""

import io
import math
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageFont
from skimage import data

from looktwice.pipelines.geometry import PixelRect
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import (
    BLACK_AND_WHITE,
    choose_contrasting_color,
    choose_distinct_color,
    choose_readable_color,
    parse_rgb,
)
from looktwice.prompting.drawing.placement import Anchor, place_labels
from looktwice.prompting.drawing.text import draw_text, render_plate, render_text
from looktwice.prompting.markers import Label
from looktwice.prompting.markers.base import draw_labels
from tests.counted_work import count_calls
from tests.prompting.scenes import NONE, RED
from tests.tables import table

ASTRONAUT, COFFEE = data.astronaut(), data.coffee()  # type: ignore[no-untyped-call]
PHOTOS = {"light": (ASTRONAUT, 400, 60), "dark": (ASTRONAUT, 330, 440), "busy": (COFFEE, 300, 150)}


def anchor(
    text: str, x: float, y: float, reach: float = 11.5, size: tuple[int, int] = (200, 150)
) -> Anchor:
    box = x + 0.5 - reach, y + 0.5 - reach, x + 0.5 + reach, y + 0.5 + reach
    return Anchor(text, x, y, box, (0, 0, *size), RED)


def match_letter(pixels: np.ndarray, letter: str, size: float) -> tuple[float, int, int]:
    """Return the correlation and the place (left, top) of the best match of a rendered letter."""
    template = cv2.copyMakeBorder(
        np.asarray(render_text(letter, size)), 2, 2, 2, 2, cv2.BORDER_CONSTANT, value=0
    )
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    match = cv2.matchTemplate(grey, template, cv2.TM_CCOEFF_NORMED)
    _, best, _, (left, top) = cv2.minMaxLoc(match)
    return best, left, top


def draw_label(photo: str, text: str, label: Label) -> tuple[Pixels, Pixels, PixelRect]:
    """Return a photograph, the same with a label, and the pixels of the label."""
    image, x, y = PHOTOS[photo]
    pixels = image.copy()
    height, width = pixels.shape[:2]
    (area,) = draw_labels(pixels, [anchor(text, x, y, size=(width, height))], label)
    return image, pixels, area


@pytest.mark.parametrize("photo", PHOTOS)
@pytest.mark.parametrize("letter", ["A", "B", "REF", "12"])
def test_a_label_is_recognised_by_its_letter_even_after_jpeg(photo: str, letter: str) -> None:
    _, pixels, (left, top, right, bottom) = draw_label(photo, letter, Label())
    packed = io.BytesIO()
    Image.fromarray(pixels).save(packed, "JPEG", quality=75)
    for seen in (pixels, np.array(Image.open(packed))):
        score, at_left, at_top = match_letter(seen, letter, 15)
        assert score > 0.9
        assert (left, top) == (at_left, at_top)
    if letter in "AB":
        area = pixels[top:bottom, left:right].copy()
        assert max(match_letter(area, other, 15)[0] for other in "ABCD" if other != letter) < 0.9


@pytest.mark.parametrize("photo", PHOTOS)
def test_letters_without_a_plate_are_legible(photo: str) -> None:
    label = Label(plate="none", color="contrast", font_size=20, halo=2)
    image, pixels, (left, top, right, bottom) = draw_label(photo, "B", label)
    patch = pixels[top:bottom, left:right].reshape(-1, 3)
    assert (patch == 0).all(-1).any()
    assert (patch == 255).all(-1).any()
    assert (pixels[: top - 3] == image[: top - 3]).all()


@table
def test_each_side_of_a_label_and_its_opposite(placement: str, side: tuple[int, int]) -> None:
    for (x, y), sign in [((100, 75), 1), ((100 + 97 * side[0], 75 + 72 * side[1]), -1)]:
        (area,) = place_labels([anchor("A", x, y)], [(15, 17)], placement)  # type: ignore[arg-type]
        assert area
        left, top, right, bottom = area
        middle = (left + right - 1) / 2 - x, (top + bottom - 1) / 2 - y
        assert np.sign(np.rint(middle)).tolist() == [sign * side[0], sign * side[1]]
        assert max(abs(middle[0]) - 15 / 2, abs(middle[1]) - 17 / 2) == pytest.approx(
            11.5 + 3, abs=1
        )


def test_crowded_labels_cover_neither_points_nor_each_other() -> None:
    rng = np.random.default_rng(3)
    places = rng.uniform((60, 50), (140, 100), (20, 2))
    anchors = [anchor(str(n), float(x), float(y), 6.5) for n, (x, y) in enumerate(places)]
    areas = place_labels(anchors, [(15, 17)] * 20)
    for number, area in enumerate(areas):
        assert area
        left, top, right, bottom = area
        assert left >= 0 and right <= 200 and top >= 0 and bottom <= 150
        for other in anchors:
            assert not (left - 0.5 <= other.x < right - 0.5 and top - 0.5 <= other.y < bottom - 0.5)
        for a, b, c, d in (other for other in areas[:number] if other):
            assert left >= c or a >= right or top >= d or b >= bottom


def test_a_label_without_room_is_refused_with_its_size() -> None:
    pixels, long = np.zeros((30, 40, 3), np.uint8), anchor("much too long", 20, 15, size=(40, 30))
    with pytest.raises(ValueError, match=r"'much too long' of \d+ x \d+ .*40 x 30"):
        draw_labels(pixels, [long], Label())
    assert draw_labels(pixels, [long], NONE) == []
    assert draw_labels(pixels, [replace(long, text="")], Label()) == []
    assert not pixels.any()


def test_plates_have_the_configured_colour() -> None:
    ground = np.full((150, 200, 3), 200, np.uint8)
    for label, seen in [
        (Label(plate="mark", color="contrast"), RED),
        (Label(plate="#102030"), (16, 32, 48)),
        (Label(plate="contrast", color="contrast"), (0, 0, 0)),
        (Label(plate="black", alpha=0.5), (100, 100, 100)),
    ]:
        pixels = ground.copy()
        ((left, top, _, _),) = draw_labels(pixels, [anchor("A", 100, 75)], label)
        assert tuple(pixels[top, left]) == seen
        assert (pixels[: top - 1] == 200).all()


def test_lengths_scale_and_letters_stay_legible() -> None:
    pixels = np.full((400, 400, 3), 90, np.uint8)
    heights = []
    for scale in (0.01, 1, 2):
        (area,) = draw_labels(pixels, [anchor("A", 200, 200, size=(400, 400))], Label(), scale)
        heights.append(area[3] - area[1])
    assert heights[0] >= 4
    assert heights[2] == pytest.approx(2 * heights[1], abs=2)


def test_label_texts() -> None:
    assert Label().format_label("REF", 3) == "REF"
    assert Label(text="Point {label} ({number})").format_label("A", 0) == "Point A (1)"
    assert [Label(text="{letter}").format_label("x", n) for n in (0, 25, 26)] == ["A", "Z", "AA"]
    assert (
        Label().format_label("{number}", 0) == "{number}"
    )  # the label of a mark is not a template


def test_a_letter_missing_from_the_font_is_named_and_fonts_can_be_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'\u7532' in the label 'A\u7532'"):
        render_text("A\u7532", 15)
    with pytest.raises(ValueError, match="'Q'; there are A B C D E F R"):
        render_text("Q", 15, "blink")
    (tmp_path / "font.ttf").write_bytes(b"no font")
    with pytest.raises(ValueError, match=r"font\.ttf: not"):
        render_text("A", 15, tmp_path / "font.ttf")
    own = ImageFont.load_default(15)
    assert isinstance(own, ImageFont.FreeTypeFont) and isinstance(own.path, io.BytesIO)
    (tmp_path / "own.ttf").write_bytes(own.path.getvalue())
    assert (render_text("A", 15, tmp_path / "own.ttf") == render_text("A", 15)).all()


def test_text_is_clipped_at_the_edge_and_plates_are_kept_inside() -> None:
    pixels = np.zeros((20, 20, 3), np.uint8)
    draw_text(pixels, "W", -5, 15, 15, (255, 255, 255))
    assert pixels[15:, :8].any()
    assert not pixels[:15].any()
    assert render_plate("A", 15) is render_plate("A", 15)
    assert not render_plate("A", 15).flags.writeable
    assert not render_text("A", 15).flags.writeable


def test_contrast_depends_on_the_surrounding_pixels() -> None:
    for value, seen in ((250, (0, 0, 0)), (5, (255, 255, 255))):
        pixels = np.full((50, 50, 3), value, np.uint8)
        assert choose_contrasting_color(pixels, 25, 25, 8, BLACK_AND_WHITE) == seen
        pixels[:, :20] = 255 - value
        assert choose_contrasting_color(pixels, 40, 25, 8, BLACK_AND_WHITE) == seen
        assert choose_contrasting_color(pixels, -100, 25, 8, BLACK_AND_WHITE) == BLACK_AND_WHITE[0]
    for color in ("red", "lime", "blue", "yellow", "magenta", "cyan"):
        pixels = np.full((40, 40, 3), parse_rgb(color), np.uint8)
        assert choose_contrasting_color(pixels, 20, 20, 10) != parse_rgb(color)


def test_ink_and_distinct_colours() -> None:
    assert choose_readable_color((255, 255, 0)) == (0, 0, 0)
    assert choose_readable_color((0, 0, 160)) == (255, 255, 255)
    assert len({choose_distinct_color(n) for n in range(12)}) == 12
    assert choose_distinct_color(12) == choose_distinct_color(0)
    assert all(
        math.dist(choose_distinct_color(a), choose_distinct_color(b)) > 60
        for a in range(12)
        for b in range(a)
    )


@pytest.mark.slow
def test_drawing_thousands_of_labels_takes_linear_time() -> None:
    """Regression test: the nearest free place of each label was searched once per mark."""
    rng = np.random.default_rng(0)
    places = rng.uniform((0, 0), (1399, 999), (1000, 2))

    def label_all(times: float, most: int = 1000) -> int:
        width, height = round(1400 * times), round(1000 * times)
        spots = enumerate((places[:most] * times).tolist())
        anchors = [anchor(str(n), x, y, 6.5, (width, height)) for n, (x, y) in spots]
        return len(draw_labels(np.zeros((height, width, 3), np.uint8), anchors, Label()))

    assert label_all(1) == 1000
    assert count_calls(lambda: label_all(1)) < 40 * count_calls(lambda: label_all(1, 100))
    with pytest.raises(
        ValueError, match=r"1,000 labels together are larger than the view of 350 x 250 pixels; set"
    ):
        label_all(0.25)

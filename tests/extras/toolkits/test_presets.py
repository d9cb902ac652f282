"""The published marker styles, measured in pixels and built from a configuration."""

import io
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from looktwice.extras.toolkits.styles import (
    BlinkPaperStyle,
    BlinkReleasedStyle,
    SomStyle,
    Vlm2Style,
)
from looktwice.pipelines.config import build
from looktwice.pipelines.config.spec import identity, spec
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.view import View
from looktwice.prompting.drawing.text import render_text
from looktwice.prompting.markers import Circles, Dots
from tests.prompting.scenes import BLACK, GREY, RED, WHITE, is_color


def plain(width: int, height: int) -> View:
    return View.of(Picture(np.full((height, width, 3), GREY, np.uint8)))


def box_of(here: np.ndarray) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom, both inclusive."""
    ys, xs = np.nonzero(here)
    return int(xs.min()), int(ys.min()), int(xs.max()), int(ys.max())


@pytest.mark.parametrize("letter", ["A", "B"])
@pytest.mark.parametrize("size", [(500, 375), (500, 1024)])
def test_blink_released_matches_the_sizes_of_the_released_images(
    letter: str, size: tuple[int, int]
) -> None:
    x, y = 250, 180
    pixels = BlinkReleasedStyle().draw(plain(*size), [Point(letter, x, y)]).pixels
    ring = ~is_color(pixels, GREY)
    ring[: y - 10] = False
    assert box_of(ring) == (x - 6, y - 6, x + 6, y + 6)  # 13 x 13
    row = [tuple(pixels[y, x + step]) for step in range(-7, 8)]
    assert row == [GREY] + [RED] * 3 + [GREY] * 7 + [RED] * 3 + [GREY]
    above = pixels[: y - 10]
    assert box_of(is_color(above, BLACK)) == (x - 6, y - 31, x + 7, y - 17)  # 14 x 15
    left, top, right, bottom = box_of(is_color(above, WHITE))
    assert (top, bottom) == (y - 28, y - 18)
    assert x - 5 <= left <= x - 3
    assert right - left + 1 in (8, 9)
    assert (is_color(above, BLACK) | is_color(above, WHITE) | is_color(above, GREY)).all()


@pytest.mark.slow
def test_blink_released_has_the_letters_of_the_real_images(shared_data: Path) -> None:
    """On every second image, label and ring are where the preset puts them, except flips
    at edges."""
    import pyarrow.parquet as pq

    path = shared_data / "blink/Relative_Depth/val-00000-of-00001.parquet"
    images = pq.read_table(path, columns=["image_1"])["image_1"].to_pylist()[1::2]
    real = [np.array(Image.open(io.BytesIO(image["bytes"])).convert("RGB")) for image in images]
    found = [_has(pixels, letter) for pixels in real for letter in "AB"]
    assert np.mean(found) >= 0.85  # of all markers, 87 in 100 have their label above the ring


def _has(pixels: Pixels, letter: str) -> bool:
    """Return whether the picture has the plate of the preset with an open red ring below it."""
    drawn = BlinkReleasedStyle().draw(plain(60, 60), [Point(letter, 30, 40)]).pixels
    grey, template = pixels.max(-1), np.ascontiguousarray(drawn[9:24, 24:38, 1])
    match = cv2.matchTemplate(grey, template, cv2.TM_CCOEFF_NORMED)
    _, best, _, (left, top) = cv2.minMaxLoc(match)
    redness = pixels[..., 0].astype(int) - pixels[..., 1:].max(-1)
    x, y = left + 6, top + 31
    padded = np.pad(redness.astype(float), 5, constant_values=np.nan)
    ring = [padded[y + 5 + dy, x + 5 + dx] for dx, dy in [(5, 0), (-5, 0), (0, 5), (0, -5)]]
    return bool(best > 0.97 and np.nanmedian(ring) > 60)


@pytest.mark.parametrize(("height", "radius"), [(1024, 10), (2048, 20), (512, 5)])
def test_blink_paper_is_ten_pixels_at_a_height_of_1024(height: int, radius: float) -> None:
    pixels = BlinkPaperStyle().draw(plain(300, height), [Point("A", 150, 200)]).pixels
    weight = ((pixels[..., 0].astype(float) - 90) / 165).clip(0) * (pixels[..., 1] < 90)
    weight[: 200 - 2 * radius] = 0
    ys, xs = np.nonzero(weight)
    assert np.average(np.hypot(xs - 150, ys - 200), weights=weight[ys, xs]) == pytest.approx(
        radius, abs=0.3
    )
    assert tuple(pixels[200, 150]) == GREY
    assert tuple(pixels[200, 150 + int(radius)]) == RED


@pytest.mark.parametrize(("value", "seen"), [(240, BLACK), (20, WHITE)])
def test_vlm2_uses_the_dots_of_scaffold(value: int, seen: tuple[int, int, int]) -> None:
    view = View.of(Picture(np.full((600, 960, 3), value, np.uint8)))
    pixels = Vlm2Style().draw(view, [Point("(1,2,3)", 400, 300)]).pixels
    left, top, right, bottom = box_of((pixels[:, :406] != value).any(-1))
    # radius 960 / 240 around the middle of a pixel
    assert (right - left + 1, bottom - top + 1) == (9, 9)
    assert tuple(pixels[300, 400]) == seen
    text = box_of((pixels[:, 406:] != value).any(-1))
    assert text[0] <= 4
    assert text[3] - text[1] + 1 == render_text("(1,2,3)", 24).shape[0]  # an em of 960 / 40


def test_a_preset_is_one_line_and_its_settings_can_be_overridden() -> None:
    settings = {"radius": 5, "color": "gray", "label": {"placement": "below"}}
    made = build({"use": "prompting.markers.BlinkPaperStyle", **settings})
    assert made == BlinkPaperStyle(radius=5, color="gray", label=made.label)
    assert made.label.placement == "below"
    assert identity(BlinkPaperStyle()) == {"use": "prompting.markers.BlinkPaperStyle"}
    assert build(spec(BlinkReleasedStyle())) == BlinkReleasedStyle()
    assert build(spec(SomStyle())) == SomStyle()
    assert isinstance(build({"use": "prompting.markers.Vlm2Style"}), Dots)
    assert isinstance(made, Circles)

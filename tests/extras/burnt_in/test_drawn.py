"""Drawn shapes without labels become marks at any size; photographs and text have none."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageColor, ImageDraw, ImageFont

from looktwice.eval.tasks.photographs import PHOTOGRAPHS, load_photograph
from looktwice.extras.burnt_in import EraseMarks, RecoverMarks
from looktwice.pipelines.marks import Box, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.tables import read_yaml

CASES = read_yaml(Path(__file__).with_name("drawn.yaml"))


def draw(name: str, shapes: list[list[Any]], codec: str = "png") -> Pixels:
    """Return a photograph with shapes on it, encoded and decoded."""
    image = Image.fromarray(load_photograph(name)).convert("RGB")
    for kind, color, *numbers in shapes:
        pen = ImageDraw.Draw(image)
        if kind in ("ring", "dot"):
            x, y, radius, *width = numbers
            edges = x - radius, y - radius, x + radius, y + radius
            if kind == "ring":
                pen.ellipse(edges, outline=color, width=width[0])
            else:
                pen.ellipse(edges, fill=color)
        elif kind == "box":
            pen.rectangle(numbers[:4], outline=color, width=numbers[4])
        elif kind == "arrow":
            draw_arrow(pen, color, np.array(numbers[:2]), np.array(numbers[2:4]), numbers[4])
        elif kind == "text":
            x, y, size, words = numbers
            pen.text((x, y), words, fill=color, font=ImageFont.load_default(size))
        elif kind == "dots":
            x, y, radius = numbers
            for place in range(24):
                left, top = x + 50 * (place % 6), y + 50 * (place // 6)
                pen.ellipse((left, top, left + 2 * radius, top + 2 * radius), fill=color)
        else:
            image = shade(image, color, *numbers)
    if codec == "jpeg":
        data = io.BytesIO()
        image.save(data, "JPEG", quality=85)
        image = Image.open(data)
    return np.asarray(image.convert("RGB"))


def draw_arrow(pen: ImageDraw.ImageDraw, color: str, tail: Any, tip: Any, width: int) -> None:
    """Draw a shaft and a filled head, four widths wide and long."""
    along = (tip - tail) / np.hypot(*(tip - tail))
    base, across = tip - along * 4 * width, np.array([-along[1], along[0]]) * 2 * width
    pen.line([*tail, *base], fill=color, width=width)
    pen.polygon(
        [tuple(map(float, corner)) for corner in (tip, base + across, base - across)], color
    )


def shade(image: Image.Image, color: str, x: int, y: int, radius: int) -> Image.Image:
    """Return the image with a shaded ball, which differs from a drawn dot."""
    pixels = np.array(image, float)
    ys, xs = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    away = np.hypot(xs - x, ys - y) / radius
    light = np.clip(1.1 - np.hypot(xs - x + radius / 3, ys - y + radius / 3) / radius / 2, 0, 1)
    ball = light[..., None] * ImageColor.getrgb(color)
    return Image.fromarray(np.where(away[..., None] <= 1, ball, pixels).astype(np.uint8))


def read(pixels: Pixels, choices: tuple[str, ...] = (), **settings: Any) -> State:
    sample = Sample("s1", "What is marked?", (Picture(pixels),), choices)
    return RecoverMarks(**settings)(State.start(sample), NoModel())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shapes", "codec", "wanted"), CASES["found"])
def test_drawn_shapes_become_marks(
    name: str, shapes: list[list[Any]], codec: str, wanted: list[list[Any]]
) -> None:
    state = read(draw(name, shapes, codec))
    looks = state.sample.meta["burnt_in"]
    found = sorted((look["kind"], look["label"]) for look in looks)
    assert found == sorted((kind, label) for kind, label, *_ in wanted)
    places = {mark.label: mark for mark in state.sample.marks}
    for kind, label, *place in wanted:
        mark = places[label]
        assert isinstance(mark, Box if kind == "box" else Point)
        at = mark.xyxy if isinstance(mark, Box) else mark.center
        assert np.abs(np.subtract(at, place)).max() <= 2, mark
    (note,) = state.notes
    assert note.startswith("shapes without a label: ")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shapes", "codec"), CASES["none"])
def test_other_drawings_do_not_become_marks(name: str, shapes: list[list[Any]], codec: str) -> None:
    assert read(draw(name, shapes, codec)).sample.marks == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_unmodified_photographs_have_no_marks(name: str) -> None:
    for codec in ("png", "jpeg"):
        state = read(draw(name, [], codec))
        assert state.sample.marks == ()
        assert state.notes == ("no marker was found, and the choices name no labels to look for",)


@pytest.mark.slow
@pytest.mark.parametrize(("share", "kind"), [(s, k) for s in (0.01, 0.05, 0.2) for k in "rbd"])
def test_size_limits_scale_with_the_picture(share: float, kind: str) -> None:
    """Shares of the diagonal of pictures with sides of 320 and 1,280 pixels."""
    for side in (320, 1280):
        ground = Image.fromarray(load_photograph("coffee")).resize((side, side))
        pen, half = ImageDraw.Draw(ground), max(4, round(share * side * 2**0.5 / 2))
        edges, middle = (
            [side / 3 - half, side / 3 - half, side / 3 + half, side / 3 + half],
            side / 3,
        )
        edges = [round(edge) for edge in edges]
        width = max(2, half // 8)
        if kind == "r":
            pen.ellipse(edges, outline="red", width=width)
        elif kind == "b":
            pen.rectangle(edges, outline="red", width=width)
        else:
            pen.ellipse(edges, fill="red")
        (mark,) = read(np.asarray(ground)).sample.marks
        assert mark.center == pytest.approx((middle, middle), abs=1.5)


RING = [["ring", "red", 150, 130, 28, 4]]
PAIR = [*RING, ["ring", "blue", 400, 250, 28, 4]]


@pytest.mark.parametrize(
    ("shapes", "choices", "settings", "labels"),
    [
        (RING, (), {}, ["red"]),
        (RING, (), {"letters": ("A",)}, ["A"]),  # the only shape, and the only label
        (RING, ("A is closer", "B is closer"), {}, ["red"]),  # it may be either
        (PAIR, (), {"letters": ("A",)}, ["blue", "red"]),
        (RING, (), {"unlabelled": ()}, []),
        (RING, (), {"unlabelled": ("boxes", "dots", "arrows")}, []),
        (RING, (), {"plain_colors": ("blue",)}, []),
    ],
)
def test_labels_can_be_required_or_assigned(
    shapes: list[list[Any]], choices: tuple[str, ...], settings: dict[str, Any], labels: list[str]
) -> None:
    state = read(draw("coffee", shapes), choices, **settings)
    assert sorted(mark.label for mark in state.sample.marks) == labels


def test_a_large_ring_takes_the_label_read_next_to_it() -> None:
    pixels = draw("coffee", PAIR).copy()
    for left, letter in ((143, "A"), (393, "B")):
        plate = Image.new("RGB", (18, 20))
        ImageDraw.Draw(plate).text((4, 0), letter, "white", ImageFont.load_default(15))
        top = 78 if letter == "A" else 198
        pixels[top : top + 20, left : left + 18] = np.asarray(plate)
    marks = read(pixels, ("A is closer", "B is closer")).sample.marks
    assert {
        mark.label: (round(mark.x), round(mark.y)) for mark in marks if isinstance(mark, Point)
    } == {"A": (150, 130), "B": (400, 250)}


@pytest.mark.parametrize(
    "shape",
    [
        RING[0],
        ["dot", "red", 200, 220, 12],
        ["box", "red", 100, 80, 260, 210, 4],
        ["arrow", "red", 120, 300, 240, 180, 4],
    ],
)
def test_shapes_without_labels_are_erased(shape: list[Any]) -> None:
    pixels = draw("coffee", [shape])
    clean = EraseMarks()(read(pixels), NoModel())
    after = clean.views[0].pixels
    assert not read(after).sample.marks
    red = (after[..., 0] > 200) & (after[..., 1:].max(-1) < 60)
    drawn = (pixels != load_photograph("coffee")).any(-1)
    assert red[drawn].mean() < 0.02
    far = np.ones(drawn.shape, bool)
    ys, xs = np.nonzero(drawn)
    far[ys.min() - 12 : ys.max() + 12, xs.min() - 12 : xs.max() + 12] = False
    assert (after[far] == pixels[far]).all()

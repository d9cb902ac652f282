"""Joining, ordering and numbering of images; marks stay at their objects."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import Message
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.turns import Ask
from looktwice.prompting.views import (
    Concatenate,
    FixedHeight,
    IndexTags,
    LongestSide,
    Megapixels,
    OpenAITiles,
    QwenPatches,
    Reorder,
)
from tests.prompting.scenes import table

CASES = table("views/layout.yaml")

COLORS = [(200, 30, 30), (30, 200, 30), (30, 30, 200), (200, 200, 30), (30, 200, 200)]


def plain(width: int, height: int, number: int = 0) -> Picture:
    return Picture(np.full((height, width, 3), COLORS[number % 5], np.uint8))


def start(*sizes: tuple[int, int], question: str = "Which?", **more: object) -> State:
    images = tuple(plain(*size, number) for number, size in enumerate(sizes))
    return State.start(Sample("s1", question, images, **more))  # type: ignore[arg-type]


def join(stage: Concatenate, *sizes: tuple[int, int]) -> View:
    (view,) = stage(start(*sizes), NoModel()).views
    return view


def send(ask: Ask, state: State) -> list[str | int]:
    """Return the parts that the model was sent: texts, and views by their index in the state."""
    model = Scripted(["A"])
    ask(state, model)
    message: Message = model.asked[0][-1]
    return [part if isinstance(part, str) else state.views.index(part) for part in message.parts]


def join_with_pillow(images: list[Pixels]) -> Pixels:
    """Return BLINK's concatenation by its rule: black, 10 pixels between, centred vertically."""
    height = max(image.shape[0] for image in images)
    width = sum(image.shape[1] for image in images) + 10 * (len(images) - 1)
    canvas, left = Image.new("RGB", (width, height), (0, 0, 0)), 0
    for image in images:
        canvas.paste(Image.fromarray(image), (left, (height - image.shape[0]) // 2))
        left += image.shape[1] + 10
    return np.asarray(canvas)


@pytest.mark.parametrize(
    "sizes", [[(40, 30), (20, 55)], [(31, 30), (20, 17), (50, 44)], [(9, 8)] * 4]
)
def test_the_default_is_the_concatenation_of_blink(sizes: list[tuple[int, int]]) -> None:
    view = join(Concatenate(), *sizes)
    expected = join_with_pillow([plain(*size, n).pixels for n, size in enumerate(sizes)])
    assert (view.pixels == expected).all()
    assert [part.source for part in view.parts] == list(range(len(sizes)))


def test_vertical_grid_and_alignment() -> None:
    white = Concatenate("vertical", margin=4, color="white", align="start")
    view = join(white, (40, 30), (20, 10))
    assert view.size == (40, 44)
    assert tuple(view.pixels[32, 5]) == (255, 255, 255)
    assert tuple(view.pixels[40, 19]) == COLORS[1]
    assert tuple(view.pixels[40, 20]) == (255, 255, 255)
    right = join(Concatenate("vertical", margin=4, align="end"), (40, 30), (20, 10))
    assert tuple(right.pixels[40, 20]) == COLORS[1]
    grid = join(Concatenate("grid", margin=2), (10, 10), (20, 6), (8, 8), (4, 12), (10, 10))
    assert grid.size == (10 + 20 + 8 + 2 * 2, 10 + 12 + 2)  # three columns and two rows
    assert join(Concatenate("grid", columns=2), *[(10, 10)] * 4).size == (30, 30)
    assert join(Concatenate("grid", columns=9), *[(10, 10)] * 2).size == (30, 10)


def test_equal_heights_and_widths_enlarge_the_smaller_and_keep_a_single_view() -> None:
    assert join(Concatenate(equal="heights"), (40, 30), (20, 60)).size == (80 + 10 + 20, 60)
    wide = join(Concatenate("vertical", equal="widths"), (40, 30), (20, 60))
    assert wide.size == (40, 30 + 10 + 120)
    for state in (start((5, 5)), start()):
        for stage in (Concatenate(), Reorder()):
            assert stage(state, NoModel()) is state


def test_orders() -> None:
    state = start(*[(8, 8)] * 4)
    a, b, c, d = state.views
    assert Reorder("reversed")(state, NoModel()).views == (d, c, b, a)
    assert Reorder("rotated")(state, NoModel()).views == (b, c, d, a)
    fixed = Reorder((2, 1, 4, 3))(state, NoModel())
    assert fixed.views == (b, a, d, c)
    assert fixed.notes == ("order of images: 2, 1, 4, 3",)
    shuffles = [Reorder(seed=seed)(state, NoModel()).views for seed in range(12)]
    assert shuffles == [Reorder(seed=seed)(state, NoModel()).views for seed in range(12)]
    assert len({tuple(map(state.views.index, views)) for views in shuffles}) > 5
    assert all(set(views) == {a, b, c, d} for views in shuffles)
    with pytest.raises(ValueError, match="sample s1: order lists 2 images, but there are 4"):
        Reorder((2, 1))(state, NoModel())


@pytest.mark.parametrize(("question", "choices", "named"), CASES["named"])
def test_text_that_names_images_by_place_prevents_reordering(
    question: str, choices: tuple[str, ...], named: str
) -> None:
    state = start((8, 8), (8, 8), question=question, choices=choices)
    with pytest.raises(ValueError, match=f"s1: the text names an image by its position .'{named}'"):
        Reorder("reversed")(state, NoModel())
    kept = Reorder("reversed", words="keep")(state, NoModel())
    assert send(Ask(tags="Image {source}:"), kept)[:4] == ["Image 2:", 0, "Image 1:", 1]


def test_tags_precede_their_images() -> None:
    state = start((8, 8), (9, 9))
    assert send(Ask(tags="Image {n}:"), state) == ["Image 1:", 0, "Image 2:", 1, "Which?"]
    after = send(Ask(tags="Image {n}:", images="after"), state)
    assert after == ["Which?", "Image 1:", 0, "Image 2:", 1]
    pair = Concatenate()(state, NoModel())
    assert send(Ask(tags="Images {source}:"), pair) == ["Images 1 and 2:", 0, "Which?"]
    choice = state.replace(views=(*state.views, View(plain(7, 7))))
    with pytest.raises(ValueError, match="s1: view 3"):
        send(Ask(tags="{source}"), choice)
    asked = Ask()(start((8, 8)), Scripted(["go on"]))
    asked = asked.replace(views=(*asked.views, View.of(plain(9, 9, 1))), prompt="And?")
    assert send(Ask(attach="new", tags="Image {n}:"), asked) == ["Image 2:", 1, "And?"]


@pytest.mark.parametrize(("prompt", "expected"), CASES["inline"])
def test_images_inline(prompt: str, expected: list[str | int]) -> None:
    state = start((8, 8), (9, 9)).replace(prompt=prompt)
    assert send(Ask(images="inline"), state) == expected
    with pytest.raises(ValueError, match=r"s1: .*<image 3>"):
        send(Ask(images="inline"), state.replace(prompt="<image 3>"))


def test_drawn_tags_cover_no_pixel_and_differ() -> None:
    state = start((120, 40), (120, 40), marks=(Point("A", 30, 20),))
    first, second = IndexTags(font_size=16)(state, NoModel()).views
    strip = first.size[1] - 40
    assert 16 < strip < 40
    assert (first.pixels[strip:] == COLORS[0]).all()
    assert first.to_view(state.sample.marks[0])[0].center == (30, 20 + strip)
    assert (first.pixels[:strip, :] < 60).all(-1).sum() > 40  # dark glyphs on the strip
    assert (first.pixels[:strip] != second.pixels[:strip]).any()
    after = IndexTags(font_size=16)(Reorder("reversed")(state, NoModel()), NoModel()).views
    assert (after[0].pixels[:strip] == second.pixels[:strip]).all()  # the sample's own number
    with pytest.raises(ValueError, match=r"s1: the tag 'Image 1' is \d+ pixels wide, the view 8"):
        IndexTags()(start((8, 8)), NoModel())


STAGES = st.one_of(
    st.builds(
        Concatenate,
        st.sampled_from(["horizontal", "vertical", "grid"]),
        st.integers(0, 15),
        equal=st.sampled_from(["none", "heights", "widths"]),
        align=st.sampled_from(["start", "center", "end"]),
    ),
    st.builds(Reorder, st.sampled_from(["shuffled", "reversed", "rotated"]), st.integers(0, 9)),
    st.builds(IndexTags, font_size=st.integers(5, 9), text=st.just("{n}")),
    st.builds(FixedHeight, st.integers(90, 200)),
    st.builds(LongestSide, st.integers(150, 400), st.booleans()),
    st.builds(Megapixels, st.floats(0.03, 0.1), st.floats(0, 0.03)),
    st.builds(QwenPatches, st.just(28), st.just(20), st.just(200)),
    st.builds(OpenAITiles, fit=st.just(150), short=st.just(90)),
)
places = st.floats(0.15, 0.85)


@given(
    st.lists(STAGES, min_size=1, max_size=5),
    st.lists(st.tuples(places, places), min_size=3, max_size=3),
)
@settings(max_examples=80, deadline=None)
def test_a_blob_lies_within_a_pixel_of_its_mark_after_any_chain(
    chain: list[Stage], spots: list[tuple[float, float]]
) -> None:
    """The centroid of a bright blob in each source is at its mapped position."""
    images, marks = [], []
    for number, (u, v) in enumerate(spots):
        size = [(140, 100), (100, 140), (120, 120)][number]
        x, y = u * (size[0] - 1), v * (size[1] - 1)
        ys, xs = np.mgrid[: size[1], : size[0]]
        glow = np.exp(-((xs - x) ** 2 + (ys - y) ** 2) / (2 * 4.0**2))
        pixels = np.zeros((size[1], size[0], 3), np.uint8)
        pixels[..., number] = np.rint(255 * glow)
        images.append(Picture(pixels))
        marks.append(Point("ABC"[number], x, y, number))
    state = State.start(Sample("s1", "Which?", tuple(images), marks=tuple(marks)))
    for stage in chain:
        state = stage(state, NoModel())
    for channel, mark in enumerate(marks):
        found = [(view, place.center) for view in state.views for place in view.to_view(mark)]
        assert len(found) == 1
        view, (x, y) = found[0]
        # white strips have all channels, a blob one
        others = np.delete(view.pixels, channel, 2).max(-1)
        weight = np.where(others < 40, view.pixels[..., channel], 0).astype(np.float64)
        weight[weight < 40] = 0
        ys, xs = np.mgrid[: view.size[1], : view.size[0]]
        middle = (xs * weight).sum() / weight.sum(), (ys * weight).sum() / weight.sum()
        assert math.dist(middle, (x, y)) < 1
        back = view.to_source(x, y)
        assert back is not None and back[0] == mark.image
        assert np.hypot(back[1] - mark.x, back[2] - mark.y) < 1e-6

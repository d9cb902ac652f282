"""SVG from a model: found, refused where it could reach out or run, drawn apart within bounds,
compared, recorded."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.turns import RedrawThenAnswer, blind
from looktwice.prompting.turns.blind import SvgError, find_svg, render_svg, sanitize_svg, similarity
from tests.prompting.scenes import table

CASES = table("turns/svg.yaml")

OPEN = '<svg xmlns="http://www.w3.org/2000/svg" width="80" height="60">'
RED = f'{OPEN}<rect width="40" height="60" fill="red"/></svg>'
HALF = np.full((60, 80, 3), 255, np.uint8)
HALF[:, :40] = (255, 0, 0)


@pytest.mark.parametrize(("reply", "found"), CASES["found"])
def test_the_drawing_in_a_reply(reply: str, found: str | None) -> None:
    assert find_svg(reply) == found


def test_of_endless_openings_the_one_that_is_closed_is_found() -> None:
    assert find_svg("<svg></svg>" + "<svg " * 40_000) == "<svg></svg>"


@pytest.mark.parametrize("code", CASES["drawn"])
def test_what_is_drawn(code: str) -> None:
    assert sanitize_svg(code).startswith("<svg xmlns=")


NESTED = "<g>" * 200 + "</g>" * 200


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        *CASES["refused"],
        (f"{OPEN}{NESTED}</svg>", "inside one another"),
        (f"{OPEN}{'<g/>' * 30_000}</svg>", "more than 20000 elements"),
        (f"{OPEN}{' ' * 600_000}</svg>", "characters, more than 500000"),
    ],
)
def test_what_is_refused_before_anything_draws_it(code: str, reason: str) -> None:
    with pytest.raises(SvgError) as refused:
        sanitize_svg(code)
    assert reason in str(refused.value)


def test_a_style_sheet_outside_is_left_out() -> None:
    assert "stylesheet" not in sanitize_svg(
        f'<?xml version="1.0"?><?xml-stylesheet href="http://127.0.0.1/"?>{RED}'
    )


def test_without_the_renderer_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    state = asked(RED)
    assert state.reply == "(A)"
    assert state.notes == (
        "image 1: the SVG was not drawn: resvg-py is missing: type `pip install 'looktwice[svg]'`",
    )


@pytest.mark.parametrize("code", CASES["sizes"])
def test_it_is_drawn_in_the_size_that_is_asked_for(code: str) -> None:
    pixels = render_svg(code, 80, 60)
    assert pixels.shape == (60, 80, 3)
    np.testing.assert_array_equal(pixels[:, :38], HALF[:, :38])
    np.testing.assert_array_equal(pixels[:, 42:], HALF[:, 42:])
    assert similarity(pixels, HALF) > 0.97


def test_a_bomb_ends_within_its_bounds_and_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A billion rectangles by reference: the process that draws is stopped, ours goes on."""
    monkeypatch.setattr(blind, "SECONDS", 2.0)
    uses = [f'<use href="#a{n}"/>' * 10 for n in range(9)]
    groups = "".join(f'<g id="a{n}">{inner}</g>' for n, inner in enumerate(uses, 1))
    code = (
        f'{OPEN}<defs><g id="a0"><rect width="1" height="1"/></g>{groups}</defs><use'
        ' href="#a9"/></svg>'
    )
    with pytest.raises(SvgError, match=r"not drawn within 2 seconds|resvg does not draw it"):
        render_svg(code, 80, 60)


@pytest.mark.parametrize(
    "code", ['<svg width="0" height="0"/>', '<svg width="-1" height="x"><g/></svg>']
)
def test_drawings_without_a_size_are_not_drawn(code: str) -> None:
    with pytest.raises(SvgError, match="resvg does not draw it"):
        render_svg(code, 80, 60)


def test_similarity_is_one_for_the_same_and_unknown_for_specks() -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (90, 120, 3)).astype(np.uint8)
    assert similarity(noise, noise) == pytest.approx(1.0)
    assert similarity(noise, rng.integers(0, 256, noise.shape).astype(np.uint8)) < 0.1
    assert np.isnan(similarity(noise[:6, :6], noise[:6, :6]))
    large = np.repeat(np.repeat(noise, 20, 0), 20, 1)
    assert similarity(large, large) == pytest.approx(1.0)


def asked(reply: str, *more: str, images: int = 1) -> State:
    sample = Sample("s1", "How many?", tuple(Picture(HALF) for _ in range(images)))
    return Pipeline({"redraw": RedrawThenAnswer()})(
        State.start(sample), Scripted([reply, *more, "(A)"])
    )


def test_the_record_says_how_alike_it_is_and_the_trace_has_the_drawing() -> None:
    state = asked(f"```\n{RED}\n```", OPEN + "</svg>", images=2)
    first, second = state.notes
    assert first == "image 1: the SVG has SSIM 1.000 with the image, where a blank page has 0.640"
    assert second.endswith("SSIM 0.640 with the image, where a blank page has 0.640")
    redrawn, redraw = state.trace
    assert (redrawn.slot, redraw.slot) == ("redrawn", "redraw")
    assert [view.size for view in redrawn.views] == [(80, 60), (80, 60)]
    assert len(redraw.calls) == 3 and len(state.views) == 2
    assert state.messages[0].text.count("Image 1:\n<svg") == 1


@pytest.mark.parametrize(
    "code", [f"{OPEN}<script>fetch('http://127.0.0.1')</script></svg>", f"{OPEN}<rect></svg>"]
)
def test_what_is_not_drawn_is_recorded_and_asked_about_as_words(code: str, tmp_path: Path) -> None:
    state = asked(code)
    assert state.notes[0].startswith("image 1: the SVG was not drawn: ")
    assert code in state.messages[0].text and state.reply == "(A)"


def test_no_finished_drawing_is_no_answer() -> None:
    state = asked("<svg><rect/>")
    assert state.reason == "abstained: the redrawing of image 1 holds no finished SVG"

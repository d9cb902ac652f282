"""SVG from a model: found, sanitized, rendered within limits, compared, recorded."""

import importlib.util

import numpy as np
import pytest

from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.turns import RedrawThenAnswer, blind
from looktwice.prompting.turns.blind import (
    SvgError,
    find_svg,
    measure_similarity,
    render_svg,
    sanitize_svg,
)
from tests.prompting.scenes import table

CASES = table("turns/svg.yaml")

OPEN = '<svg xmlns="http://www.w3.org/2000/svg" width="80" height="60">'
RED = f'{OPEN}<rect width="40" height="60" fill="red"/></svg>'
HALF = np.full((60, 80, 3), 255, np.uint8)
HALF[:, :40] = (255, 0, 0)


@pytest.mark.parametrize(
    ("reply", "found"), [*CASES["found"], ("<svg></svg>" + "<svg " * 40_000, "<svg></svg>")]
)
def test_the_drawing_in_a_reply(reply: str, found: str | None) -> None:
    assert find_svg(reply) == found


def test_supported_drawings() -> None:
    assert all(sanitize_svg(code).startswith("<svg xmlns=") for code in CASES["drawn"])
    sheet = '<?xml version="1.0"?><?xml-stylesheet href="http://127.0.0.1/"?>'
    assert "stylesheet" not in sanitize_svg(f"{sheet}{RED}")


NESTED = "<g>" * 200 + "</g>" * 200


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        *CASES["refused"],
        (f"{OPEN}{NESTED}</svg>", "nested"),
        (f"{OPEN}{'<g/>' * 30_000}</svg>", "more than 20000 elements"),
        (f"{OPEN}{' ' * 600_000}</svg>", "characters, more than 500000"),
    ],
)
def test_unsafe_drawings_are_refused_before_rendering(code: str, reason: str) -> None:
    with pytest.raises(SvgError) as refused:
        sanitize_svg(code)
    assert reason in str(refused.value)


def test_a_missing_renderer_is_reported_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    state = ask(RED)
    (note,) = state.notes
    assert state.reply == "(A)" and "image 1" in note and "pip install -e '.[svg]'" in note


@pytest.mark.parametrize("code", CASES["sizes"])
def test_a_drawing_has_the_requested_size(code: str) -> None:
    pixels = render_svg(code, 80, 60)
    assert pixels.shape == (60, 80, 3)
    np.testing.assert_array_equal(pixels[:, :38], HALF[:, :38])
    np.testing.assert_array_equal(pixels[:, 42:], HALF[:, 42:])
    assert measure_similarity(pixels, HALF) > 0.97
    for empty in ('<svg width="0" height="0"/>', '<svg width="-1" height="x"><g/></svg>'):
        with pytest.raises(SvgError, match="resvg"):
            render_svg(empty, 80, 60)


def test_resource_limits_stop_a_drawing_bomb_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A billion rectangles by reference: the rendering process is stopped and ours continues."""
    monkeypatch.setattr(blind, "MAX_SECONDS", 2.0)
    uses = [f'<use href="#a{n}"/>' * 10 for n in range(9)]
    groups = "".join(f'<g id="a{n}">{inner}</g>' for n, inner in enumerate(uses, 1))
    code = (
        f'{OPEN}<defs><g id="a0"><rect width="1" height="1"/></g>{groups}</defs><use'
        ' href="#a9"/></svg>'
    )
    with pytest.raises(SvgError, match=r"not drawn within 2 seconds|resvg cannot draw it"):
        render_svg(code, 80, 60)


def test_similarity_is_one_for_equal_images_and_unknown_for_specks() -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (90, 120, 3)).astype(np.uint8)
    assert measure_similarity(noise, noise) == pytest.approx(1.0)
    assert measure_similarity(noise, rng.integers(0, 256, noise.shape).astype(np.uint8)) < 0.1
    assert np.isnan(measure_similarity(noise[:6, :6], noise[:6, :6]))
    large = np.repeat(np.repeat(noise, 20, 0), 20, 1)
    assert measure_similarity(large, large) == pytest.approx(1.0)


def ask(reply: str, *more: str, images: int = 1) -> State:
    sample = Sample("s1", "How many?", tuple(Picture(HALF) for _ in range(images)))
    return Pipeline({"redraw": RedrawThenAnswer()})(
        State.start(sample), Scripted([reply, *more, "(A)"])
    )


def test_the_record_holds_the_similarity_and_the_trace_holds_the_drawing() -> None:
    state = ask(f"```\n{RED}\n```", OPEN + "</svg>", images=2)
    first, second = state.notes
    assert "image 1" in first and "1.000" in first and "0.640" in first
    assert second.count("0.640") == 2
    redrawn, redraw = state.trace
    assert (redrawn.slot, redraw.slot) == ("redrawn", "redraw")
    assert [view.size for view in redrawn.views] == [(80, 60), (80, 60)]
    assert len(redraw.calls) == 3 and len(state.views) == 2
    assert state.messages[0].text.count("Image 1:\n<svg") == 1


def test_a_failed_drawing_is_recorded_and_the_text_is_used() -> None:
    for inner in ("<script>fetch('http://127.0.0.1')</script>", "<rect>"):
        code = f"{OPEN}{inner}</svg>"
        state = ask(code)
        assert state.notes[0].startswith("image 1: ")
        assert code in state.messages[0].text and state.reply == "(A)"
    unfinished = ask("<svg><rect/>")
    assert unfinished.reason.startswith("abstained: ") and "image 1" in unfinished.reason

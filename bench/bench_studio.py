"""Latency of the studio from a slider's move to the updated picture, in Chromium, for a photograph
of 1024 x 768 pixels: with marks, grid and zoom, and with set-of-mark by Felzenszwalb.

`STUDIO_MOVES=60 make bench ARGS="bench/bench_studio.py"`; the time ends when every picture is
decoded.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from looktwice.eval.tasks.photographs import load_photograph
from tests.browser import CHROMIUM, Browser, open_browser
from tests.extras.studio.opened import OpenStudio, opened_studio

MOVES = int(os.environ.get("STUDIO_MOVES", "40"))
MAX_SECONDS = {
    "marks, grid, zoom": 0.4,
    "set-of-mark": 4.0,
    "marks behind set-of-mark": 4.0,
}  # seconds, median, on a busy machine
MARKED: list[dict[str, Any]] = [
    {"slot": "mark", "node": {"use": "prompting.markers.Circles", "radius": 20}},
    {"slot": "grid", "node": {"use": "prompting.grids.RuledGrid"}},
    {
        "slot": "zoom",
        "node": {"use": "prompting.views.ZoomOnMarks", "crop": {"show": "both", "upscale": 512}},
    },
]
SEGMENTED: list[dict[str, Any]] = [
    {
        "slot": "mark",
        "node": {
            "use": "prompting.markers.SetOfMark",
            "segmenter": {"use": "specialists.segmentation.Felzenszwalb"},
        },
    }
]
ASK = {"slot": "ask", "node": {"use": "prompting.turns.Ask"}}
CASES = {
    "marks, grid, zoom": (MARKED, "stages.mark.radius", range(8, 8 + MOVES)),
    "set-of-mark": (SEGMENTED, "stages.mark.segmenter.scale", range(200, 200 + 10 * MOVES, 10)),
    "marks behind set-of-mark": (
        [*SEGMENTED, {**MARKED[0], "slot": "ring"}],
        "stages.ring.radius",
        range(8, 8 + MOVES),
    ),
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("name", CASES)
def test_latency_of_a_slider_move(browser: Browser, tmp_path: Path, name: str) -> None:
    """Print median and p95, for the whole latency and for the stages alone."""
    stages, place, values = CASES[name]
    image = Image.fromarray(load_photograph("astronaut")).resize((1024, 768))
    image.save(file := tmp_path / "photo.jpg", quality=92)
    with opened_studio(browser, tmp_path / "backend", [file]) as studio:
        studio.settle()
        marks = [{"label": "A", "x": 500, "y": 300, "image": 0}]
        slots = [{**slot, "on": True} for slot in (*stages, ASK)]
        browser.run(
            f"Object.assign(page.draft, {{ stages: {slots!r}, marks: {marks!r} }});"
            "page.redrawAll(); page.changed(); null".replace("True", "true")
        )
        studio.settle()
        seen = [move(studio, place, value) for value in values]
    whole = sorted(seen)
    median, p95 = statistics.median(whole), whole[int(0.95 * (len(whole) - 1))]
    print(f"\n{name}: median {median:.0f} ms, p95 {p95:.0f} ms of {len(whole)} moves")
    assert median < 1e3 * MAX_SECONDS[name]


def move(studio: OpenStudio, place: str, value: int) -> float:
    """Return the milliseconds from a slider's move to the updated picture."""
    studio.set(place, value)
    return float(studio.browser.run("Number(document.getElementById('studio').dataset.seen)"))

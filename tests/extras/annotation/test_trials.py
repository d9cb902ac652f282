"""Trials in headless Chromium: a timed picture and a mask, keys as answers, and saved results.
Skipped without Chromium."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from looktwice.eval import MarkedScenes, TaskError, evaluate, score_table
from looktwice.eval.analysis.analyses import get_analysis
from looktwice.extras.annotation.sheet import parse_exposure
from looktwice.extras.scenes import GeneratedDoYouSeeMe
from looktwice.pipelines import Pipeline, Scripted
from looktwice.prompting import Ask, Circles, MultipleChoice
from tests.browser import CHROMIUM, Browser, open_browser
from tests.first_day.studies import looktwice

SEEN = """[...document.querySelectorAll('.stage > *')]
  .filter((part) => getComputedStyle(part).visibility === 'visible')
  .map((part) => part.className).join()"""
PIXELS = """[...document.querySelectorAll('.stage > canvas')].map((canvas) => {
  const { width, height } = canvas;
  const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data.buffer;
  return [...new Uint32Array(pixels)];
})"""
INSIDE = """(({ top, bottom }) => top > document.querySelector('header').offsetHeight
  && bottom < innerHeight)(document.querySelector('.stage').getBoundingClientRect())"""
WIDER = """(async ([picture], stage) => {
  await draw([picture, picture], stage);
  return [...stage.children].map((canvas) => canvas.width / document.querySelector('.mask').width);
})(sheet.items[0].pictures, document.createElement('div'))"""
SAVED = """new Promise((resolve) => {
  URL.createObjectURL = (blob) => { blob.text().then(resolve); return '#'; };
  document.getElementById('save').click();
})"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "study"
    marked = Pipeline({"mark": Circles(), "choose": MultipleChoice(), "ask": Ask()})
    evaluate(MarkedScenes("color", n=5), {"marked": marked}, Scripted(lambda _: "(A)"), out=path)
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def wait_for(browser: Browser, words: str) -> None:
    browser.wait(f"document.getElementById('items').innerText.includes({json.dumps(words)})")


def look(browser: Browser) -> list[str]:
    """Start a trial, and return the visible parts in order until the next question."""
    wait_for(browser, "Look at the centre")
    browser.run(
        f"seen = ['']; times = []; watch = (time) => {{ const now = {SEEN};"
        " if (seen.at(-1) !== now) { seen.push(now); times.push(time); }"
        " requestAnimationFrame(watch); }; requestAnimationFrame(watch); 0"
    )
    browser.press(" ")
    wait_for(browser, "Your answer")
    assert browser.run(INSIDE), "the picture is inside the window"
    browser.wait("seen.at(-1) === ''")
    return list(browser.run("seen"))


@pytest.mark.slow
def test_a_trial_is_timed_and_answered_by_key(run: Path, tmp_path: Path, browser: Browser) -> None:
    out = run / "people"
    drawn = looktwice(
        "annotate", run, "--exposure", "200ms", "--practice", 1, "-n", 3, "--out", out
    )
    assert drawn.exit_code == 0, drawn.output
    items = json.loads((out / "key.json").read_text())["items"]
    assert [item["practice"] for item in items] == [True, False, False, False]
    browser.open(out / "sheet.html", "!!document.querySelector('.stage > .mask')")
    watched = []
    for number, item in enumerate(items):
        assert look(browser) == ["", "cross", "picture", "mask", ""]
        watched.append(browser.run("times[2] - times[1]"))
        picture, mask = map(np.array, browser.run(PIXELS))
        assert set(mask) <= set(picture) and len(set(mask)) > 9 and (mask != picture).any()
        right = item["key"].strip("()").lower()
        browser.press(next(key for key in "ab" if key != right) if number == 3 else right)
        wait_for(browser, "How difficult")
        browser.press("2")
        if number == 0:
            wait_for(browser, "Right.")
            assert browser.run(SEEN) == "picture"
            browser.press(" ")
    wait_for(browser, "the last one")
    saved = browser.run(SAVED)
    assert not browser.complaints and all(url[:5] in ("file:", "data:") for url in browser.requests)
    (out / "anna.csv").write_text(saved, newline="")
    rows = list(csv.DictReader(io.StringIO(saved)))
    shown = [float(row["exposure_ms"]) for row in rows]
    assert min(shown) > 189.9, "never shorter by more than half a frame"
    off = [abs(time - 200) for time in shown]
    apart = [abs(time - seen) for time, seen in zip(shown, watched, strict=True)]
    assert min(off) < 25 and min(apart) < 25, "one of four at least, as a busy machine drops frames"
    assert all(float(row["response_ms"]) > 200 for row in rows)
    read = looktwice("annotate", out / "anna.csv")
    assert read.exit_code == 0 and "66.7" in read.output, read.output
    (table,) = (part.table for part in get_analysis("people").tables(score_table(run)))
    ((*about, model, people),) = table.rows
    assert about == ["people", "color", "marked", "3"]
    assert (model[:3], people[:4]) == ("0.0", "66.7")


@pytest.mark.slow
def test_pictures_stay_until_an_answer_is_typed(tmp_path: Path, browser: Browser) -> None:
    letters = GeneratedDoYouSeeMe("letter_disambiguation", n=2)
    run, out = tmp_path / "run", tmp_path / "people"
    evaluate(letters, {"plain": Pipeline({"ask": Ask()})}, Scripted(lambda _: "X"), out=run)
    looktwice("annotate", run, "--exposure", "0ms", "--out", out)
    browser.open(out / "sheet.html", "!!document.querySelector('.stage > .mask')")
    assert browser.run(WIDER) == [2, 2], "a picture and its mask, of two side by side"
    browser.press(" ")
    wait_for(browser, "Your answer")
    assert browser.run(SEEN) == "picture"
    for key in ("t", "w", "o"):
        browser.press(key)
    browser.press("\r")
    wait_for(browser, "How difficult")
    assert browser.run(SEEN) == ""
    browser.press("3")
    wait_for(browser, "2. ")
    # a page opened by another browser process may lack what this one saved
    browser.run("window.isOld = true; location.reload()")
    browser.wait("!window.isOld && !!document.querySelector('.stage > .mask')")
    wait_for(browser, "2. ")
    first, second = csv.DictReader(io.StringIO(browser.run(SAVED)))
    assert (first["human_answer"], first["difficulty"], second["human_answer"]) == ("two", "3", "")
    assert first["exposure_ms"] == first["response_ms"]


@pytest.mark.parametrize("text", ["200", "2s", "-1ms", "fast"])
def test_an_exposure_must_be_a_duration(text: str) -> None:
    assert [parse_exposure(time) for time in ("200ms", "16.7ms", "0ms")] == [200, 16.7, 0]
    with pytest.raises(TaskError, match=f"--exposure {text}: expected a time"):
        parse_exposure(text)

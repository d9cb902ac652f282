"""The first screen of a page in headless Chromium: flips, their pictures, and a phone's width."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml

from looktwice.eval.page import run_page
from looktwice.eval.report import write_report
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.picture import Picture
from tests.browser import CHROMIUM, Browser, axe_run, axe_script, open_browser
from tests.made_run import MadeRun
from tests.served_page import serve_run

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
SPECIALIST = "specialist_for_correspondences_of_repeated_patterns"
SHAPES = ((90, 30), (30, 90), (60, 60))  # height and width: portrait, landscape, square
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OUTSIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FIGURES = """[...document.querySelectorAll('#large figure')].map((figure) =>
  [figure.querySelector('figcaption').innerText.split(':')[0],
   figure.querySelectorAll('img').length, figure.querySelectorAll('.point').length,
   figure.innerText.includes('No picture was sent')])"""
LOADED = """(all => all.length > %d && all.every((image) => image.naturalWidth > 0))(
  [...document.querySelectorAll('%s img')])"""
TILES = """[...document.querySelectorAll('%s .contact')].map((tile) => {
  const image = tile.querySelector('img'), { width, height } = image.getBoundingClientRect();
  return [Math.round(100 * width / height) / 100, image.naturalWidth / image.naturalHeight,
    Math.round(tile.clientWidth - width)];
})"""
BROKEN = r"""[...document.querySelectorAll('h1, h2, h3, h4, th, td, summary, p, figcaption')]
.filter((part) => part.checkVisibility()).flatMap((part) => {
  const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    for (const { 0: word, index } of walker.currentNode.data.matchAll(/[\p{L}\p{N}]+/gu)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, index);
      range.setEnd(walker.currentNode, index + word.length);
      const boxes = [...range.getClientRects()].filter(({ width }) => width);
      if (new Set(boxes.map(({ top }) => Math.round(top))).size > 1) found.push(word);
    }
  }
  return found;
})"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 24 samples with a mark, in three shapes: a model that is sent a picture and is wrong
    on 22, a variant of it that is wrong on 21, and a specialist that is sent none and is right."""
    made = MadeRun(tmp_path_factory.mktemp("made") / "a_study_of_correspondences")
    made.task("shape", "A" * 24, marks=[{"label": "A", "x": 9.0, "y": 12.0, "image": 0}])
    for number, row in enumerate(made.samples):
        pixels = np.full((*SHAPES[number % 3], 3), 60 + number, np.uint8)
        row.sample["images"].append(made.blobs.put(Picture(pixels).payload.data))
    for who, (name, wrong) in enumerate({"model": 22, "with_a_grid_of_lines": 21}.items()):
        point = made.point(name, "shape", baseline=not who)
        for number in range(24):
            pixels = np.full((*SHAPES[number % 3], 3), 100 + 50 * who + number, np.uint8)
            sent = made.blobs.put(Picture(pixels).payload.data)
            turn = {"role": "user", "parts": ["Which one?", {"picture": sent}]}
            message = made.blobs.put(write_canonical(turn).encode())
            reply = {"text": f"Answer: {'B' if number < wrong else 'A'}"}
            calls = ({"messages": [message], "draw": 0, "reply": reply},)
            made.record(point, f"s{number}", calls=calls, pictures=(sent,))
    made.answers(made.point(SPECIALIST, "shape"), "A" * 24)
    folder = made.write().path
    config = {f"setting {number}": number for number in range(60)}
    (folder / "run.yaml").write_text(yaml.safe_dump({"config": config}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=("file", "served"))
def page(run: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of the run's page."""
    if request.param == "served":
        with serve_run(run) as address:
            yield address
    else:
        yield write_report([run], run).resolve().as_uri()


@contextmanager
def resized(browser: Browser, width: int, height: int) -> Iterator[None]:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.send("Emulation.setDeviceMetricsOverride", **size)
    try:
        yield
    finally:
        browser.send("Emulation.clearDeviceMetricsOverride")


def test_one_click_on_a_flip_shows_both_sides(browser: Browser, page: str) -> None:
    browser.open(page)
    for side in (1, 2):  # the tile of the baseline, and that of the specialist
        browser.click(f".pair .contact:nth-child({side})")
        browser.wait("document.getElementById('large').open")
        assert browser.run(FIGURES) == [["model", 1, 0, False], [SPECIALIST, 1, 1, True]]
        browser.wait(LOADED % (1, "#large"))
        assert "Correct answer: choice 0" in browser.text("#large-about")
        browser.run("document.getElementById('large').close()")
    browser.click(".pair .contact")
    browser.click("#large-about a")
    browser.wait("location.hash.includes('sample=shape')")
    assert not browser.run("document.getElementById('large').open")
    assert browser.complaints == []


def test_all_flips_are_one_click_from_their_sides(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.click("#evidence figcaption a")
    browser.wait("document.querySelectorAll('#contacts tbody tr').length === 22")
    browser.click("#contacts tbody td:nth-child(3) button")
    browser.wait("document.getElementById('large').open")
    assert browser.run(FIGURES) == [["model", 1, 0, False], [SPECIALIST, 1, 1, True]]
    browser.run("document.getElementById('large').close()")
    browser.click("#matrix [aria-label*=with_a_grid]")
    browser.wait("document.querySelector('#who').value === 'with_a_grid_of_lines'")
    columns = "[...document.querySelectorAll('#contacts thead th')].map((it) => it.innerText)"
    browser.wait(f"{columns}.includes('with_a_grid_of_lines')")


def test_a_tile_has_the_shape_of_its_picture(browser: Browser, page: str) -> None:
    browser.open(f"{page}#sheet=1")
    for part, count in (("#evidence", 8), ("#contacts", 72)):
        browser.run(f"document.querySelectorAll('{part} img').forEach((i) => i.loading = 'eager')")
        browser.wait(LOADED % (count - 1, part))
        tiles = browser.run(TILES % part)
        assert len(tiles) == count
        assert {round(natural, 2) for _, natural, _ in tiles} >= {0.33, 3.0}
        for shown, natural, beside in tiles:
            assert shown == pytest.approx(natural, rel=0.03) and beside == 0
    assert browser.run("document.querySelectorAll('#contacts .contact .point').length") == 24


def test_no_word_breaks_on_a_phone(browser: Browser, page: str) -> None:
    with resized(browser, 390, 844):
        for link in ("", "#sheet=1"):
            browser.open(f"{page}{link}")
            assert browser.run(OUTSIDE) == 0
            browser.run("document.querySelectorAll('details').forEach((it) => it.open = true)")
            assert browser.run(BROKEN) == []
            assert browser.run(OUTSIDE) == 0


def test_the_finding_fits_on_the_screen_of_a_phone(browser: Browser, made: MadeRun) -> None:
    """A sentence and a table of twelve rows, above the note on failed answers."""
    right = {f"oracle, steps {number}": "A" * 24 for number in range(4)}
    wrong = {f"zoomed elsewhere {number}": "B" * 22 + "AA" for number in range(7)}
    made.arms("shape", "A" * 24, "glance", glance="B" * 22 + "AA", **right, **wrong)
    for number in range(5):
        made.record(made.points[1].id, f"s{number}", error="OSError: the server is gone", draw=1)
    page = write_report([made.write().path], made.path)
    with resized(browser, 390, 844):
        browser.open(page)
        assert browser.run("document.querySelectorAll('#found tbody tr').length") == 12
        bottom = "document.querySelector('#found').getBoundingClientRect().bottom"
        assert browser.run("window.scrollY") == 0 and browser.run(bottom) < 844
        width = "document.querySelector('#found .bar').clientWidth"
        assert browser.run(width) > 55, "intervals are wide enough to be compared"


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing(browser: Browser, page: str, width: int, theme: str) -> None:
    axe = axe_script()
    with resized(browser, width, 844):
        browser.open(f"{page}#theme={theme}&sheet=1")
        browser.run("document.querySelectorAll('section details').forEach((it) => it.open = true)")
        browser.run(f"{axe}; null")
        assert browser.run(axe_run("document", AXE_RULES))["faults"] == []
        browser.click(".pair .contact")
        browser.wait("document.getElementById('large').open")
        assert browser.run(axe_run("'#large'", AXE_RULES))["faults"] == []


def test_a_file_holds_the_whole_finding_and_names_omitted_samples_once(
    browser: Browser, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for most in ("MAX_ANSWERS", "MAX_CHARACTERS", "MAX_PICTURE_CHARACTERS"):
        monkeypatch.setattr(run_page, most, 0)
    browser.open(write_report([run], tmp_path / "report"))
    browser.wait(LOADED % (7, "#evidence"))
    assert browser.run("document.querySelectorAll('#evidence .dot').length") == 0
    browser.click(".pair .contact:nth-child(2)")
    browser.wait(LOADED % (1, "#large"))
    browser.run("document.getElementById('large').close()")
    told = "leaves out the texts of 20 and pictures of 20 of 24 samples"
    assert told in browser.text("#lacking")
    for link in ("who=model&flip=", "sheet=1"):
        browser.run(f"location.hash = {link!r}; null")
        browser.wait(f"document.querySelector('#sheet').checked === {str('sheet' in link).lower()}")
        words = browser.run("document.querySelector('main').innerText")
        assert words.count("looktwice view") == 1 and words.count("this file") == 0, link

"""The answers to a sample, the findings and the charts of a page in headless Chromium."""

from base64 import b64encode
from collections.abc import Iterator

import numpy as np
import pytest

from looktwice.eval.page import render_page
from looktwice.eval.page.data import (
    PageAnswer,
    PageChange,
    PageContestant,
    PageData,
    PageFinding,
    PagePicture,
    PageSample,
    PageTask,
    PageTurn,
)
from looktwice.eval.statistics.intervals import Estimate
from looktwice.pipelines.picture import Picture
from tests.browser import CHROMIUM, Browser, axe_run, axe_script, open_browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SENTENCES = ["Plain is right.", "The agent is not.", "It abstained.", "Unreadable: 3 answers."]
NOTES = """[...document.querySelectorAll('#sample .card:nth-child(2) > .note')]
  .map((note) => note.innerText)"""
COLUMNS = "[...document.querySelectorAll('#{} thead th')].length"
TICKS = """[...document.querySelectorAll('#costs svg text')].map((text) => text.textContent)
  .filter((text) => text > 0 && text <= 1)"""
ESTIMATE = Estimate(0.5, 0.2, 0.8, 3, 3)


def answer(sample: int, is_agent: bool) -> PageAnswer:
    """An answer at once, or after two looks."""
    sent = PagePicture(f"picture {sample}")
    said = PageTurn("reply", ("The thing is much too small for me to tell its shape. " * 4,))
    look = PageTurn("look", ('zoom {"box":[1.0,2.0,3.0,4.0]}', sent))
    asked = PageTurn("user", ("Which?", sent, sent))
    if not is_agent:
        return PageAnswer(
            "right", 1.0, "A", turns=(asked, said), seconds=0.012, served_by="model x"
        )
    turns = asked, said, look, said, look, said
    reason = "unread: unread: it names no letter"
    return PageAnswer(
        "unreadable", 0.0, "", reason, turns=turns, seconds=1.23456, served_by="model x"
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser with a page of three samples, without the pictures of the first."""
    folder = tmp_path_factory.mktemp("page")
    png = b64encode(Picture(np.full((300, 300, 3), 90, np.uint8)).payload.data).decode()
    pair = Estimate(-0.5, -0.9, 0.1, 3, 3, 0.5, 0, 2)
    changes = PageChange("plain", 0, ESTIMATE), PageChange("agent", 1, ESTIMATE, pair)
    data = PageData(
        "made by hand",
        [PageContestant("plain", baseline=True), PageContestant("agent")],
        [PageTask("depth"), PageTask("color")],
        [PageSample(int(n > 1), f"s{n}", key="A") for n in range(3)],
        {(who, n): [answer(n, who == 1)] for n in range(3) for who in range(2)},
        {f"picture {n}": f"data:image/png;base64,{png}" for n in (1, 2)},
        finding=[
            PageFinding("depth", 0, 0, changes),
            PageFinding("color", 1, None, [PageChange("agent", 1, ESTIMATE)]),
        ],
        sentences=SENTENCES,
    )
    page = folder / "report.html"
    page.write_text(render_page(data), encoding="utf-8")
    with open_browser(folder / "profile") as opened:
        opened.open(page)
        opened.run(f"{axe_script()}; null")
        yield opened


def test_the_frames_of_a_film_strip_are_equally_narrow(browser: Browser) -> None:
    widths = "[...document.querySelectorAll('.film li')].map((frame) => frame.clientWidth)"
    assert browser.run(widths) == [176, 176, 176]
    assert browser.run(axe_run("document", AXE_RULES))["faults"] == []


def test_a_page_opens_with_a_sample_that_has_its_pictures(browser: Browser) -> None:
    assert browser.text("#sample h3") == "depth / s1"
    assert browser.run("document.querySelectorAll('#sample .absent').length") == 0
    browser.run("location.hash = 'sample=depth/s0'; null")
    browser.wait("document.querySelectorAll('#sample .absent').length > 2")
    sides = "document.querySelector('#sample .absent').getBoundingClientRect()"
    assert browser.run(f"{sides}.width") == browser.run(f"{sides}.height") > 100
    browser.run("location.hash = ''; null")
    browser.wait("document.querySelector('#sample h3').innerText.endsWith('s1')")


def test_a_card_repeats_no_text(browser: Browser) -> None:
    assert browser.run(NOTES) == ["unread: it names no letter", "1.23 s"]
    assert "model x" not in browser.text("#sample .cards")
    assert "(baseline)" in browser.text("#sample .card")
    browser.run("document.querySelectorAll('#sample details').forEach((it) => it.open = true)")
    assert browser.text("#sample .cards").count("model x") == 2


def test_two_pictures_are_side_by_side_in_a_card(browser: Browser) -> None:
    tops = (
        "[...document.querySelectorAll('#sample .card:first-child > .pics img')].map((it) => it.y)"
    )
    browser.wait(f"{tops}.length === 2")
    assert len({*browser.run(tops)}) == 1


def test_a_finding_without_a_comparison_has_no_columns_for_it(browser: Browser) -> None:
    assert browser.run(COLUMNS.format("found")) == 5
    assert browser.run(COLUMNS.format("found-more")) == 3


def test_every_further_sentence_is_an_item(browser: Browser) -> None:
    shown = "[...document.querySelectorAll('#summary .more li')].map((item) => item.innerText)"
    assert browser.run(shown) == SENTENCES[2:]


def test_powers_of_ten_are_labelled_on_a_logarithmic_axis(browser: Browser) -> None:
    assert browser.run(TICKS) == ["0.1", "1"]

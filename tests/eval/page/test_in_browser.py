"""The page in headless Chromium: filters, keys, links, pictures, and no request or complaint.
Skipped where none is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from looktwice.eval.report import write_report
from looktwice.pipelines.model import canonical
from looktwice.pipelines.picture import Picture
from tests.browser import CHROMIUM, Browser, open_browser
from tests.made_run import MadeRun

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
HOSTILE = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'> Answer: B"

SHADE = """() => {
  const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
  const paint = canvas.getContext('2d');
  paint.drawImage(document.querySelector('#sample .card img'), 0, 0, 1, 1);
  return paint.getImageData(0, 0, 1, 1).data[0];
}"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks, three contestants; `other` loses s1 and gains s2 on `pick`; each is sent pictures
    of its own greys."""
    folder = tmp_path_factory.mktemp("made") / "study"
    made = MadeRun(folder)
    made.task("pick", ["A", "A", "A", "A"])
    made.task("count", ["A", "B"])
    for name, said in {"plain": "AABA", "other": "ABAA", "third": "BBBB"}.items():
        point = made.point(name, "pick", baseline=name == "plain")
        for number, letter in enumerate(said):
            color = {"plain": 60, "other": 120, "third": 180}[name] + number
            sent = made.blobs.put(Picture(np.full((8, 16, 3), color, np.uint8)).payload.data)
            message = {"role": "user", "parts": [f"Which of {number}?", {"picture": sent}]}
            sha = made.blobs.put(canonical(message).encode())
            reply = HOSTILE if (name, number) == ("other", 1) else f"Answer: {letter}"
            calls = ({"messages": [sha], "draw": 0, "reply": {"text": reply}},)
            timings = {"total": 0.5 + number}
            made.record(point, f"s{number}", calls=calls, pictures=(sent,), timings=timings)
        made.answers(made.point(name, "count", baseline=name == "plain"), ["A", "A"])
    return write_report([made.write().path], folder)


def shown(browser: Browser) -> str:
    return browser.text("#count").partition(" ")[0]


def go(browser: Browser, link: str) -> None:
    browser.run(f"location.hash = {link!r}; null")


def test_it_opens_alone_and_in_peace(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert [url for url in browser.requests if not url.startswith("data:image/")] == [
        page.resolve().as_uri()
    ]
    assert browser.complaints == []
    assert "3 contestants answered 6 samples of 2 tasks" in browser.text("#summary")
    assert browser.run("document.querySelectorAll('svg').length") > 0
    assert shown(browser) == "6"


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1024, 768), (390, 844)])
def test_it_opens_at_its_top_and_a_link_to_flips_at_the_samples(
    browser: Browser, tmp_path: Path, width: int, height: int
) -> None:
    made = MadeRun(tmp_path)
    made.task("pick", ["A"] * 80)
    for name, said in {"plain": "A" * 80, "other": "AB" * 40}.items():
        made.answers(made.point(name, "pick", baseline=name == "plain"), list(said))
    page = write_report([made.write().path], tmp_path).resolve().as_uri()
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.send("Emulation.setDeviceMetricsOverride", **size)
    try:
        browser.open(f"{page}#who=other&flip=lost")
        samples = "document.getElementById('samples').getBoundingClientRect()"
        assert abs(browser.run(f"{samples}.top")) < 10
        browser.open(page)
        assert browser.run("document.body.scrollHeight > window.innerHeight")
        assert browser.run("window.scrollY") == 0
        go(browser, "base=other")
        browser.wait("document.querySelector('#base').value === 'other'")
        assert browser.run("window.scrollY") == 0, "another rival moves nothing"
    finally:
        browser.send("Emulation.clearDeviceMetricsOverride")


def test_what_flipped_takes_three_clicks(browser: Browser, page: Path) -> None:
    """A count in the matrix, a sample of the list, every word of it."""
    browser.open(page)
    browser.click("[aria-label='1 samples lost by other on pick']")
    browser.wait("document.querySelector('#count').innerText.startsWith('1 ')")
    browser.click("#list a")
    browser.wait("location.hash.includes('sample=pick%2Fs1')")
    browser.click("#sample summary")
    card = browser.text("#sample .card")
    assert "other" in card and "lost" in card and "wrong" in card and "Which of 1?" in card
    assert HOSTILE in card
    assert browser.run("window.evil") is None
    assert abs(browser.run(f"({SHADE})()") - 121) <= 3  # the picture of this contestant and sample
    assert browser.complaints == []


@pytest.mark.parametrize(
    ("link", "count"),
    {
        "": 6,
        "task=count": 2,
        "who=third&verdict=right": 1,
        "who=third&verdict=wrong": 5,
        "verdict=right": 5,
        "who=other&flip=gained": 1,
        "who=other&flip=any": 2,
        "who=third&base=other&flip=lost": 3,
        "disagree=1": 4,
        "q=which+of+2": 1,
        "q=EVIL": 1,
        "who=nobody&task=nothing": 6,
    }.items(),
)
def test_a_link_sets_the_filters(browser: Browser, page: Path, link: str, count: int) -> None:
    browser.open(f"{page.resolve().as_uri()}#{link}")
    assert shown(browser) == str(count)
    assert browser.complaints == []


def test_keys_walk_through_samples_and_set_filters(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("document.getElementById('samples').scrollIntoView(); null")
    for key, sample in (("j", "s1"), ("ArrowDown", "s2"), ("k", "s1")):
        browser.press(key)
        browser.wait(f"document.querySelector('#sample h3').innerText === 'pick / {sample}'")
    browser.press("d")
    browser.wait("document.querySelector('#count').innerText.startsWith('4 ')")
    browser.press("/")
    browser.press("2")  # goes into the search, and is no key
    browser.wait("document.querySelector('#count').innerText.startsWith('1 ')")
    browser.press("Escape")
    browser.press("x")
    browser.wait("document.querySelector('#count').innerText.startsWith('6 ')")
    browser.run("history.back(); null")
    browser.wait("!document.querySelector('#count').innerText.startsWith('6 ')")
    assert browser.complaints == []


def test_another_rival_and_the_dark(browser: Browser, page: Path) -> None:
    browser.open(f"{page.resolve().as_uri()}#base=third&theme=dark")
    assert "+75.0" in browser.text(".matrix tbody tr:nth-child(1)")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    assert "Difference to third" in browser.text("#forest")

"""The first look at the studio's page: its example, its fold, dropped files, and accessibility."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from looktwice.extras.studio.backend import StudioBackend
from looktwice.extras.studio.draft import make_example
from looktwice.extras.studio.forms import PLAIN_KINDS, SHOWN_SETTING_COUNT, Catalog
from tests.browser import CHROMIUM, Browser, axe_run, axe_script, open_browser
from tests.extras.studio.opened import OpenStudio, opened_studio

SIZES = [(1440, 900), (390, 844)]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OUTSIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FOLD = """(({ left, right, top, bottom, width }) => [
  scrollY, width > 100 && left >= 0 && right <= innerWidth && top > 0 && bottom <= innerHeight
])(document.querySelector('#views img').getBoundingClientRect())"""
OUTLINE = """(({ outlineStyle, outlineWidth }) => outlineStyle + outlineWidth)
(getComputedStyle(document.getElementById('studio')))"""
SHOWN = """[...document.querySelectorAll('[data-slot=mark] .setting')]
  .filter((row) => row.checkVisibility()).map((row) => row.dataset.place.split('.').pop())"""
SLIDERS = """[...document.querySelectorAll('[data-slot=mark] [type=range]')]
  .filter((slider) => slider.checkVisibility()).map((slider) => slider.clientWidth)"""
BROKEN = """(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), broken = [];
  const range = document.createRange();
  while (walker.nextNode()) {
    for (const word of walker.currentNode.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      const lines = [...range.getClientRects()].filter(({ width }) => width).map(({ top }) => top);
      if (new Set(lines).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})()"""
PRESS = {
    "Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
    "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
}
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def studio(browser: Browser, tmp_path: Path) -> Iterator[OpenStudio]:
    with opened_studio(browser, tmp_path / "backend") as opened:
        yield opened


@contextmanager
def shown_as(studio: OpenStudio, width: int, height: int, theme: str = "light") -> Iterator[None]:
    send, size = studio.browser.send, {"width": width, "height": height, "deviceScaleFactor": 1}
    scheme = {"name": "prefers-color-scheme", "value": theme}
    send("Emulation.setDeviceMetricsOverride", **size, mobile=width < 400)
    send("Emulation.setEmulatedMedia", features=[scheme])
    yield
    send("Emulation.setEmulatedMedia", features=[])
    send("Emulation.clearDeviceMetricsOverride")


def save_picture(file: Path, width: int, height: int) -> Path:
    Image.new("RGB", (width, height), "gray").save(file)
    return file


def test_pocket_answers_the_example(tmp_path: Path) -> None:
    backend = StudioBackend(tmp_path)
    draft = make_example(backend.save_picture)
    assert draft.marks and draft.question and draft.choices and backend.render(draft)["notes"] == []
    (row,) = backend.ask(draft)
    assert row["verdict"] == "right"


@needs_browser
def test_one_click_shows_the_example_as_it_is_sent(studio: OpenStudio) -> None:
    assert "Drop a picture, or try this one" in studio.browser.text("#empty")
    assert not studio.browser.run("page.$('sent').checkVisibility()")
    (sha,) = studio.click("#example")
    assert len(sha) == 64 and studio.draft["marks"] and "(D)" in studio.browser.text("#words")
    assert not studio.browser.run("page.$('empty').checkVisibility()")
    assert studio.browser.run("document.activeElement.getAttribute('role')") == "application"
    studio.take_back()
    assert studio.draft["images"] == [] and studio.slots == ["mark", "ask"]
    assert studio.browser.run("page.$('empty').checkVisibility()")
    assert studio.browser.complaints == []


def test_settings_without_a_default_and_the_first_plain_ones_are_open() -> None:
    forms = Catalog().to_dict()["forms"]
    circles = forms["prompting.markers.Circles"]["open"]
    assert circles == ["radius", "thickness", "gap", "fill", "fill_alpha"]
    for form in forms.values():
        settings: dict[str, dict[str, Any]] = {each["name"]: each for each in form["settings"]}
        needed = {name for name, setting in settings.items() if "default" not in setting}
        plain = {name for name, setting in settings.items() if setting["kind"] in PLAIN_KINDS}
        assert needed <= {*form["open"]} <= needed | plain
        assert len(form["open"]) == min(SHOWN_SETTING_COUNT, len(needed | plain))


@needs_browser
def test_more_settings_open_by_keyboard_and_stay_open(studio: OpenStudio) -> None:
    run, first = studio.browser.run, ["radius", "thickness", "gap", "fill", "fill_alpha"]
    assert run(SHOWN) == first
    run("document.querySelector(\"[aria-label='ask along fill_alpha']\").focus()")
    for key in ("Tab", "Enter", "Tab"):
        for kind in ("keyDown", "keyUp"):
            studio.browser.send("Input.dispatchKeyEvent", type=kind, **PRESS[key])
    assert run("document.activeElement.id") == "stages.mark.label"
    assert {*run(SHOWN)} > {*first, "color", "label"}
    studio.add("prompting.views.LongestSide")
    assert "color" in run(SHOWN)
    run("document.getElementById('more-stages.mark').click()")
    studio.add("prompting.views.LongestSide")
    assert run(SHOWN) == first
    studio.set("stages.mark.color", "lime")
    studio.add("prompting.views.LongestSide")
    assert "color" in run(SHOWN), "a changed setting is never hidden"


@needs_browser
@pytest.mark.parametrize("size", SIZES)
def test_sliders_are_wide_enough_to_set(studio: OpenStudio, size: tuple[int, int]) -> None:
    with shown_as(studio, *size):
        widths = studio.browser.run(SLIDERS)
        assert len(widths) == 4 and min(widths) >= 75


@needs_browser
@pytest.mark.parametrize("shape", [(1024, 768), (600, 1200), (2400, 400)])
@pytest.mark.parametrize("size", SIZES)
def test_what_is_sent_is_above_the_fold(
    studio: OpenStudio, tmp_path: Path, size: tuple[int, int], shape: tuple[int, int]
) -> None:
    with shown_as(studio, *size):
        studio.drop(save_picture(tmp_path / "picture.png", *shape))
        studio.browser.run("page.canvases[0].add({ x: 30, y: 40 })")
        studio.settle()
        assert studio.browser.run(FOLD) == [0, True]
        assert studio.browser.run(OUTSIDE) == 0
        studio.browser.click("#beside")
        studio.drop(save_picture(tmp_path / "second.png", *shape))
        assert studio.browser.run(OUTSIDE) == 0
        if shape[1] < 1000:
            studio.browser.run("scrollTo(0, 0)")
            assert studio.browser.run(FOLD) == [0, True]


@needs_browser
@pytest.mark.parametrize("place", ["h1", "#question", "[data-slot=ask] header", "#middle", "#yaml"])
def test_a_picture_dropped_anywhere_is_taken(
    studio: OpenStudio, tmp_path: Path, place: str
) -> None:
    file = save_picture(tmp_path / "picture.png", 70, 50)
    box = f"document.querySelector('{place}').getBoundingClientRect()"
    studio.browser.run(f"document.querySelector('{place}').scrollIntoView({{ block: 'center' }})")
    x, y = studio.browser.run(f"(({{ x, y }}) => [x + 9, y + 9])({box})")
    before = studio.browser.run(OUTLINE)

    def drag(kind: str) -> None:
        data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
        studio.browser.send("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    drag("dragEnter")
    drag("dragOver")
    assert studio.browser.run(OUTLINE) == "dashed6px"
    studio.browser.run("page.root.dispatchEvent(new DragEvent('dragleave')); null")
    assert studio.browser.run(OUTLINE) == before
    for kind in ("dragOver", "drop"):
        drag(kind)
    studio.browser.wait("page.draft.images.length === 1")
    assert len(studio.settle()) == 1
    assert studio.browser.run("page.canvases[0].image.width") == 70
    assert studio.browser.run(OUTLINE) == before


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize(
    ("size", "theme"),
    [(SIZES[0], "light"), (SIZES[0], "dark"), (SIZES[1], "light"), (SIZES[1], "dark")],
)
def test_axe_finds_no_fault_and_no_word_is_broken(
    studio: OpenStudio, size: tuple[int, int], theme: str
) -> None:
    run = studio.browser.run
    run(f"{axe_script()}; null")
    acts: list[Callable[[], Any]] = [
        lambda: studio.click("#example"),
        lambda: studio.click("#ask"),
        lambda: studio.click("[aria-label='ask along radius']"),
        lambda: studio.add("prompting.turns.RedrawThenAnswer"),
        lambda: studio.set("stages.mark.radius", 0, "stages.mark.radius"),
    ]
    with shown_as(studio, *size, theme):
        for act in [lambda: None, *acts]:
            act()
            assert run(axe_run("document", RULES))["faults"] == []
            run("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
            checked = run(axe_run("document", RULES))
            assert checked["faults"] == []
            assert {"color-contrast", "target-size"} <= set(checked["passed"])
            assert run(BROKEN) == []
            assert run(OUTSIDE) == 0

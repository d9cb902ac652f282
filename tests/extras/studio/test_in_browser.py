"""The studio in headless Chromium, from a dropped photograph to a study for the command line.
Skipped without Chromium."""

from __future__ import annotations

import base64
import io
import json
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from looktwice.eval import MarkedScenes, RunFolder
from looktwice.pipelines import Reply
from looktwice.pipelines.models import Pocket
from tests.browser import CHROMIUM, Browser, open_browser
from tests.extras.studio.opened import TYPE, OpenStudio, opened_studio
from tests.first_day.studies import looktwice

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
HOSTILE = "<img src=x onerror='window.evil = 1'>"
OUTSIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
PACK = """page.talk.post('pack', { draft: page.draft }).then((blob) => blob.arrayBuffer())
  .then((data) => btoa(String.fromCharCode(...new Uint8Array(data))))"""


DROP = """new Promise((resolve) => Object.assign(document.createElement('canvas'), {width: 7})
  .toBlob((blob) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([blob], 'small.png', { type: 'image/png' }));
    const event = new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer });
    document.querySelector('[data-slot=ask]').dispatchEvent(event);
    resolve(event.defaultPrevented);
  }))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def studio(browser: Browser, tmp_path: Path) -> Iterator[OpenStudio]:
    with opened_studio(browser, tmp_path / "backend") as opened:
        yield opened


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """Write a picture of a scene that Pocket knows, with a hostile file name."""
    picture = next(iter(MarkedScenes(kind="shape"))).sample.images[0]
    Image.fromarray(picture.pixels).save(file := tmp_path / f"{HOSTILE}.png")
    return file


def run_study(studio: OpenStudio, folder: Path) -> RunFolder:
    """The run of what is downloaded, by the command line; its text is what is copied."""
    packed = io.BytesIO(base64.b64decode(studio.browser.run(PACK)))
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder)
    study = folder / "studio" / "study.yaml"
    assert study.read_text("utf-8") == studio.yaml
    ran = looktwice("run", study, "--out", folder / "runs")
    assert ran.exit_code == 0, ran.output
    return RunFolder(folder / "runs" / "study")


@pytest.mark.slow
def test_a_photograph_becomes_a_study(studio: OpenStudio, scene: Path, tmp_path: Path) -> None:
    (unmarked,) = studio.drop(scene)
    (marked,) = studio.drag((142, 105))
    (mark,) = studio.draft["marks"]
    assert abs(mark["x"] - 142) <= 1 and abs(mark["y"] - 105) <= 1 and mark["label"] == "A"
    assert marked != unmarked
    (small,) = studio.set("stages.mark.radius", 18)
    assert small != marked
    assert studio.set("stages.mark.radius", 10) == [marked]
    assert studio.set("stages.mark.color", "lime") != [marked]
    studio.add("prompting.grids.DotGrid")
    for side in ("rows", "columns"):
        studio.set(f"stages.dot_grid.{side}", 2)
    assert len(studio.add("prompting.views.ZoomOnMarks")) == 1
    assert len(studio.set("stages.zoom_on_marks.crop.show", '"both"')) == 2
    studio.set("choices", "triangle\ncircle\ndiamond\nheart")
    assert "(D) heart" in studio.browser.text("#words")
    before = studio.settle()
    studio.browser.click("[data-slot=zoom_on_marks] [aria-label$='move up']")
    shas = studio.settle()
    assert studio.slots == ["mark", "zoom_on_marks", "dot_grid", "multiple_choice", "ask"]
    assert shas != before
    run = run_study(studio, tmp_path)
    (record,) = run.records().values()
    assert list(record.pictures) == shas
    assert all(run.blobs.get_path(sha).is_file() for sha in shas)
    assert not studio.browser.run("window.evil") and studio.browser.complaints == []
    own = studio.address.removesuffix("known/")
    assert all(url.startswith((own, "data:")) for url in studio.browser.requests)


@pytest.mark.slow
def test_marks_are_moved_labelled_undone_and_drawn(studio: OpenStudio, scene: Path) -> None:
    studio.drop(scene)
    first = studio.drag((100, 80))
    studio.drag((100, 80), (120, 90), (140, 100))
    assert [(m["x"], m["y"]) for m in studio.draft["marks"]] == [(140, 100)]
    studio.drag((140, 100))  # chosen, not moved
    studio.browser.click("#undo")
    assert studio.settle() == first
    studio.drag((20, 30), (60, 40), (90, 95))
    studio.browser.run("document.querySelector('[value=lasso]').click()")
    studio.drag((200, 200), (260, 200), (260, 260), (200, 260))
    point, box, region = studio.draft["marks"]
    assert (point["x"], point["y"]) == (100, 80)
    assert [box[name] for name in ("x0", "y0", "x1", "y1")] == [20, 30, 91, 96]
    assert len(region["lasso"]) == 4
    unfilled = studio.settle()
    assert studio.add("prompting.markers.Contours") != unfilled
    studio.browser.run("document.querySelector('#marks input').id = 'label'")
    studio.set("label", "<b>Z")
    assert studio.draft["marks"][0]["label"] == "<b>Z"
    assert not studio.browser.run("document.querySelector('#marks b, .canvas b')")
    studio.browser.run("document.querySelector('#marks input').id = 'label'")
    studio.set("label", "A")
    studio.browser.click("[aria-label='contours on']")
    assert studio.settle() == unfilled
    assert "contours" not in studio.browser.run("document.getElementById('yaml').value")


@pytest.mark.slow
def test_undo_reverts_each_step(studio: OpenStudio, scene: Path) -> None:
    plain = studio.drop(scene)
    marked = studio.drag((100, 80))
    larger = studio.set("stages.mark.radius", 20)
    studio.set("stages.mark.radius", 40)  # typed into the same field
    states = [plain, marked]
    for press in ("[aria-label='mark on']", "[aria-label='mark: remove']"):
        states.append(studio.settle())
        studio.click(press)
    assert studio.slots == ["ask"] and larger not in states
    for shas in reversed(states):
        assert studio.take_back() == shas
    assert studio.draft["marks"] == [] and studio.slots == ["mark", "ask"]
    for shas in (*states[1:], plain):
        assert studio.take_back(shift=True) == shas
    assert studio.slots == ["ask"]
    assert studio.click("[aria-label='remove mark 1']") == plain
    assert studio.take_back() == plain and len(studio.draft["marks"]) == 1
    assert studio.click("#undo") == plain and studio.slots == ["mark", "ask"]
    studio.click("[aria-label='mark: move down']")
    assert studio.slots == ["ask", "mark"]
    assert studio.browser.run("document.activeElement.ariaLabel") == "mark: move down"


@pytest.mark.slow
def test_a_fault_is_shown_at_its_place_and_the_picture_stays(
    studio: OpenStudio, scene: Path
) -> None:
    studio.drop(scene)
    marked = studio.drag((100, 80))
    fault = "stages.mark.radius: radius must be greater than 0"
    assert studio.set("stages.mark.radius", 0, fault) == marked
    assert studio.browser.text("[data-slot=mark] .fault").startswith(fault)
    studio.browser.run("document.getElementById('stages.mark.radius').focus()")
    studio.browser.press("e")
    assert studio.settle("stages.mark.radius: ") == marked
    assert studio.set("stages.mark.radius", 10) == marked
    for place, value, sentence in (
        ("question", "", "`question` must be a non-empty string"),
        ("draws", "-3", "draws is -3"),
    ):
        before = studio.browser.run(f"page.$('{place}').value")
        assert studio.set(place, value, sentence) == marked
        assert studio.browser.text(f"[data-fault={place}]")
        assert studio.browser.run("page.root.dataset.stale") == "1"
        studio.set(place, before)
    fault = "stages.mark: 'ret' is not a colour; did you mean"
    studio.set("stages.mark.color", "ret", fault)
    studio.browser.run("scrollTo(0, document.body.scrollHeight)")
    assert studio.browser.text("#wrong").startswith(fault)
    top = "document.getElementById('wrong').getBoundingClientRect().top"
    assert 0 <= studio.browser.run(top) < 100
    assert studio.browser.complaints == []
    studio.set("yaml", "stages: {", "pasted.yaml")
    assert studio.browser.text("[data-fault=yaml]").startswith("pasted.yaml")


@pytest.mark.slow
def test_it_asks_once_and_rows_become_a_study(
    studio: OpenStudio, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer = list[int](), Pocket.__call__

    def count(*given: Any, **more: Any) -> Reply:
        asked.append(1)
        return answer(*given, **more)

    monkeypatch.setattr(Pocket, "__call__", count)
    studio.drop(scene)
    studio.drag((244, 66))
    studio.set("choices", "triangle\ncircle\ndiamond\nheart")
    studio.set("key", "A")
    assert "1 request, 1 picture" in studio.browser.text("#amount")
    for radius, calls in ((28, 1), (28, 1), (9, 2)):
        studio.set("stages.mark.radius", radius)
        studio.click("#ask")
        assert len(asked) == calls
    rows = studio.texts("#rows li")
    assert [row.split(" reply")[0] for row in rows] == ["A right", "D wrong"]
    assert [row.split()[-2:] for row in rows] == [["mark.radius", "28"], ["mark.radius", "9"]]
    studio.click("#each")
    assert studio.draft["each"] == [{"stages.mark.radius": 9}]
    assert studio.browser.text("#arms") == "arm 1: the current cards; arm 2: mark.radius 9"
    assert "2 arms" in studio.browser.text("#sent-title")
    assert len(run_study(studio, tmp_path).records()) == 2
    studio.browser.click("#plain")
    studio.click("[aria-label='ask along radius']")
    assert len(studio.texts(".cells div")) == 9
    studio.click("#sweep")
    values = studio.draft["sweep"]["stages.mark.radius"]
    assert values[0] == 28 and len(values) == 9 and values[1:] == sorted(values[1:])
    assert "sweep:" in studio.yaml and "9 requests" in studio.browser.text("#amount")
    assert studio.browser.text(".legend").replace("wrong", " wrong") == "right wrong"
    past = "[...document.querySelectorAll('#rows li')].map((row) => row.className)"
    assert studio.browser.run(past) == ["", ""]
    studio.set("question", "What shape is at the mark?")
    assert studio.browser.run(past) == ["past", "past"]
    assert studio.browser.run("page.$('each').hidden")
    assert "differ in question" in studio.browser.text("#dimmed")
    past = "document.getElementById('strip').className"
    assert studio.browser.run(past) == "past"
    studio.take_back()
    assert studio.browser.run(past) == "" == studio.browser.text("#dimmed")
    fault, copied = "stages.mark.colour: Circles has no setting 'colour'", studio.yaml
    studio.set("yaml", copied.replace("radius: 28", "colour: yellow"), fault)
    assert studio.browser.text("#wrong").startswith(fault)
    studio.set("yaml", copied)
    assert studio.browser.run(past) == "" == studio.browser.text("#dimmed")
    assert not studio.browser.run("page.$('each').hidden")


@pytest.mark.slow
def test_rows_show_their_stages_and_can_be_extended(studio: OpenStudio, scene: Path) -> None:
    studio.drop(scene)
    studio.drag((100, 80))
    for use, color in (("Circles", "red"), ("Crosshairs", "yellow")):
        studio.browser.run("document.querySelector('[aria-label=\"mark: class\"]').id = 'class'")
        studio.browser.run(f"{TYPE}('class', 'prompting.markers.{use}')")
        studio.set("stages.mark.color", color)
        studio.click("#ask")
    circles, crosshairs = studio.texts("#rows .soft")
    assert circles.startswith("mark: Circles")
    assert crosshairs == "mark: Crosshairs, color yellow"
    height = "document.querySelector('#rows img').height"
    assert studio.browser.run(height) == 72
    studio.browser.click("#rows img")
    assert studio.browser.run(height) > 150
    studio.browser.click("#rows b")
    assert studio.browser.run(height) == 72


def test_stages_can_be_searched_and_collapsed(studio: OpenStudio, scene: Path) -> None:
    studio.drop(scene)
    studio.browser.run(f"{TYPE}('find', 'crops')")
    offered = studio.browser.run("[...page.$('new').options].map((o) => o.value)")
    assert "prompting.views.Look" in offered and "prompting.markers.Circles" not in offered
    studio.browser.run(f"{TYPE}('find', 'zoom')")
    assert studio.browser.run("page.$('new').value") == "prompting.views.ZoomOnMarks"
    assert studio.browser.text("[data-slot=ask] summary").startswith("Sends the views")
    assert studio.browser.run("document.querySelectorAll('[data-slot=ask] code').length")
    assert "`" not in studio.browser.run("document.querySelector('[data-slot=ask]').textContent")
    label = "document.getElementById('stages.mark.radius').checkVisibility()"
    for is_shown in (False, True):
        studio.browser.click("#fold")
        studio.add("prompting.views.LongestSide")
        assert studio.browser.run(label) == is_shown
    studio.set("stages.mark.color", "contrast")
    swatch = "document.getElementById('stages.mark.color').nextSibling.className"
    assert studio.browser.run(swatch) == "unset"
    studio.set("stages.mark.color", "white")
    assert studio.browser.run(swatch) == ""


@pytest.mark.slow
def test_a_pasted_study_fills_the_forms(studio: OpenStudio, scene: Path) -> None:
    studio.drop(scene)
    studio.drag((100, 80))
    studio.set("stages.mark.radius", 21)
    studio.set("stages.mark.label.font_size", 20)
    shas = studio.add("prompting.grids.RuledGrid")
    copied = studio.browser.run("document.getElementById('yaml').value")
    stages = studio.draft["stages"]
    studio.browser.click("[aria-label='mark: remove']")
    studio.set("stages.ruled_grid.alpha", 0.2)
    assert studio.settle() != shas
    assert studio.set("yaml", copied) == shas
    assert studio.draft["stages"] == stages
    assert studio.browser.run("document.getElementById('stages.mark.radius').value") == "21"
    evil = "model: {use: pipelines.models.ChatAPI, model: m, url: http://evil/v1}\n" + copied
    faults = studio.browser.run(
        f"page.talk.post('read', {{draft: page.draft, text: {json.dumps(evil)}}})"
        ".catch((error) => error.faults)"
    )
    assert "model" in faults[0]


def test_the_study_can_be_copied_or_selected(studio: OpenStudio, scene: Path) -> None:
    studio.drop(scene)
    studio.browser.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    studio.click("#copy")
    assert studio.browser.run("window.copied") == studio.yaml and studio.yaml.startswith("task:")
    studio.browser.run("navigator.clipboard.writeText = () => Promise.reject()")
    studio.click("#copy", "the browser does not allow copying here")
    assert studio.browser.run("getSelection().toString()") == studio.yaml


def test_a_picture_dropped_on_a_card_becomes_the_next_one(studio: OpenStudio, scene: Path) -> None:
    studio.drop(scene)
    studio.drag((100, 80))
    marked, slots = studio.drag((200, 150)), studio.slots
    studio.browser.run(DROP)
    studio.browser.wait("page.canvases[0].image.width === 7")
    studio.settle()
    assert studio.slots == slots and studio.texts("#marks li") == []
    assert studio.click("#undo") == marked
    assert len(studio.texts("#marks li")) == 2


@pytest.mark.slow
def test_pictures_are_shown_side_by_side(studio: OpenStudio, scene: Path, tmp_path: Path) -> None:
    Image.new("RGB", (30, 20)).save(small := tmp_path / "small.png")
    assert len(studio.drop(small, scene)) == 2
    studio.drop(scene)
    studio.drag((100, 80))
    studio.browser.click("#beside")
    assert len(studio.drop(small)) == 2
    draft = studio.draft
    studio.browser.run("page.begin(); page.canvases[1].add({x: 3, y: 4})")
    studio.settle()
    places = [" point (100, 80) on picture 1 ×", " point (3, 4) on picture 2 ×"]
    assert studio.texts("#marks li") == places
    studio.browser.click("[aria-label='remove picture 1']")
    studio.settle()
    assert studio.draft["images"] == draft["images"][1:]
    assert [(mark["label"], mark["image"]) for mark in studio.draft["marks"]] == [("B", 0)]
    assert studio.texts("#marks li") == [" point (3, 4) ×"]
    for _ in range(2):
        studio.take_back()
    assert studio.draft == draft


def test_the_slider_shows_the_view_after_each_stage(studio: OpenStudio, scene: Path) -> None:
    (plain,) = studio.drop(scene)
    studio.drag((100, 80))
    (whole,) = studio.add("prompting.views.LongestSide")
    assert studio.set("after", 0) == [plain]
    assert studio.browser.text("#sent-title") == "Prepared so far"
    (marked,) = studio.set("after", 1)
    assert marked != plain
    assert studio.set("after", 3) == [whole]


def test_a_mark_is_placed_and_moved_with_the_keyboard(studio: OpenStudio, scene: Path) -> None:
    studio.drop(scene)
    studio.browser.run("document.getElementById('file').focus()")
    for _ in range(12):
        if studio.browser.run("document.activeElement.getAttribute('role')") == "application":
            break
        studio.browser.press("Tab")
    for key in ("ArrowLeft", "ArrowLeft", "ArrowUp", "Enter", "ArrowDown", "ArrowRight"):
        studio.browser.press(key)
    studio.settle()
    (mark,) = studio.draft["marks"]
    image = "page.canvases[0].image"
    width, height = studio.browser.run(f"[{image}.width, {image}.height]")
    assert (mark["x"], mark["y"]) == (width // 2 - 1, height // 2)
    studio.browser.press("Delete")
    studio.settle()
    assert studio.draft["marks"] == []


@pytest.mark.slow
def test_the_last_of_sixty_quick_moves_is_shown(studio: OpenStudio, scene: Path) -> None:
    studio.drop(scene)
    studio.drag((142, 105))
    last = studio.set("stages.mark.radius", 60)
    started = time.monotonic()
    for radius in range(1, 61):
        studio.browser.run(f"{TYPE}('stages.mark.radius', {radius})")
        time.sleep(max(0.0, started + radius * 0.05 - time.monotonic()))
    assert studio.settle() == last
    assert studio.draft["stages"][0]["node"]["radius"] == 60


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_the_page_never_scrolls_sideways(studio: OpenStudio, scene: Path, width: int) -> None:
    studio.drop(scene)
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 400}
    studio.browser.send("Emulation.setDeviceMetricsOverride", **size)
    assert studio.browser.run(OUTSIDE) == 0
    studio.browser.send("Emulation.clearDeviceMetricsOverride")


def test_only_clients_with_the_token_are_admitted(studio: OpenStudio) -> None:
    cases: list[tuple[str, dict[str, str], int]] = [
        ("start", {}, 200),
        ("start", {"Host": "evil.example"}, 404),
        ("start", {"Origin": "http://evil.example"}, 404),
        ("", {"Token": "other"}, 404),
        ("render", {"X-Looktwice": "studio"}, 200),
        ("render", {}, 403),
        ("render", {"X-Looktwice": "studio", "Origin": "null"}, 404),
    ]
    for path, headers, status in cases:
        address = studio.address.replace("known", headers.get("Token", "known")) + path
        request = urllib.request.Request(address, b"{}" if path == "render" else None, headers)
        try:
            with urllib.request.urlopen(request) as response:
                code = response.status
        except urllib.error.HTTPError as exc:
            code = exc.code
            exc.close()
        assert code == status, (path, headers)

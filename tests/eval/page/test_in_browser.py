"""The page in headless Chromium, from a file and served: filters, keys, links, pictures."""

import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from looktwice.eval.page import pairs
from looktwice.eval.report import write_report
from looktwice.eval.statistics.paired import compare_paired
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.picture import Picture
from looktwice.prompting.agent.looks import Look
from tests.browser import CHROMIUM, Browser, axe_run, axe_script, open_browser
from tests.made_run import MadeRun
from tests.served_page import serve_run
from tests.tables import table

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
HOSTILE = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'> Answer: B"

SHADE = """() => {
  const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
  const paint = canvas.getContext('2d');
  paint.drawImage(document.querySelector('#sample .card img'), 0, 0, 1, 1);
  return paint.getImageData(0, 0, 1, 1).data[0];
}"""


OUTSIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
OVERLAPS = """[...document.querySelectorAll('#charts svg')].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll('text')].map((text) => text.getBoundingClientRect());
  return boxes.filter((a, i) => boxes.slice(0, i).some((b) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1))
    .map((box) => box.x);
})"""
SMALLEST = """Math.min(...[...document.querySelectorAll('#charts svg text')].map((text) => {
  const svg = text.closest("svg"), { width } = svg.viewBox.baseVal;
  const scale = width ? svg.getBoundingClientRect().width / width : 1;
  return scale * parseFloat(getComputedStyle(text).fontSize);
}))"""
BROKEN = """[...document.querySelectorAll('#tables td')].filter((cell) =>
  cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.innerText)"""
SMALL = """[...document.querySelectorAll('a.flip, button')]
  .map((element) => element.getBoundingClientRect())
  .filter((box) => box.width && (box.width < 23.9 || box.height < 23.9)).length"""
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
WAYS = ("file", "served")
SIZES = [(1440, 900), (1024, 768), (390, 844)]
LARGE = """[...document.querySelectorAll('#large img')]
  .filter((image) => image.checkVisibility()).map((image) => image.src)"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@contextmanager
def address_of(run: Path, way: str) -> Iterator[str]:
    """The address of a run's page, from a file or served."""
    if way == "served":
        with serve_run(run) as address:
            yield address
    else:
        yield write_report([run], run).resolve().as_uri()


@pytest.fixture(scope="module", params=WAYS)
def page(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a page. Two tasks, three contestants."""
    folder = tmp_path_factory.mktemp("made") / "study"
    made = MadeRun(folder)
    made.task("pick", ["A", "A", "A", "A"])
    made.task("count", ["A", "B"])
    for name, answers in {"plain": "AABA", "other": "ABAA", "third": "BBBB"}.items():
        point = made.point(name, "pick", baseline=name == "plain")
        for number, letter in enumerate(answers):
            color = {"plain": 60, "other": 120, "third": 180}[name] + number
            sent = made.blobs.put(Picture(np.full((8, 16, 3), color, np.uint8)).payload.data)
            message = {"role": "user", "parts": [f"Which of {number}?", {"picture": sent}]}
            sha = made.blobs.put(write_canonical(message).encode())
            reply = HOSTILE if (name, number) == ("other", 1) else f"Answer: {letter}"
            calls = ({"messages": [sha], "draw": 0, "reply": {"text": reply}},)
            timings = {"total": 0.5 + number}
            made.record(point, f"s{number}", calls=calls, pictures=(sent,), timings=timings)
        made.answers(made.point(name, "count", baseline=name == "plain"), ["A", "A"])
    with address_of(made.write().path, request.param) as address:
        yield address


def count_shown(browser: Browser) -> str:
    return browser.text("#count").partition(" ")[0]


def open_hash(browser: Browser, link: str) -> None:
    browser.run(f"location.hash = {link!r}; null")


@pytest.mark.slow
def test_it_opens_without_requests_or_console_errors(browser: Browser, page: str) -> None:
    browser.open(page)
    fetched = [url for url in browser.requests if not url.startswith("data:image/")]
    assert fetched[0] == page
    assert all(url.startswith(page) for url in fetched) and (len(fetched) > 1) == ("http" in page)
    assert browser.complaints == []
    assert "None of 2 contestants differs significantly" in browser.text("#summary .lead")
    assert browser.run("document.querySelectorAll('#found tbody tr').length") == 3
    assert count_shown(browser) == "6"


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_it_opens_at_the_top_or_at_the_samples(browser: Browser, made: MadeRun, way: str) -> None:
    said = {"plain": "A" * 80, "other": "AB" * 40, "long" * 50: "BA" * 40}
    with address_of(made.arms("pick", "A" * 80, "plain", **said), way) as page:
        for size in SIZES:
            with resize(browser, *size):
                browser.open(f"{page}#who=other&flip=lost")
                samples = "document.getElementById('samples').getBoundingClientRect()"
                assert abs(browser.run(f"{samples}.top")) < 10
                assert browser.run(OUTSIDE) == 0, "nothing makes the page scroll sideways"
                browser.open(page)
                assert browser.run("document.body.scrollHeight > window.innerHeight")
                assert browser.run("window.scrollY") == 0
                open_hash(browser, "base=other")
                browser.wait("document.querySelector('#base').value === 'other'")
                assert browser.run("window.scrollY") == 0, "another rival moves nothing"


def test_flipped_samples_are_found_in_three_clicks(browser: Browser, page: str) -> None:
    """A count in the matrix, a sample in the list, then its full text."""
    browser.open(page)
    browser.click("[aria-label='1 samples lost by other on pick']")
    browser.wait("document.querySelector('#count').innerText.startsWith('1 ')")
    browser.click("#list a")
    browser.wait("location.hash.includes('sample=pick%2Fs1')")
    browser.wait(f"Math.abs(({SHADE})() - 121) <= 3")  # this contestant's picture of this sample
    browser.click("#sample summary")
    card = browser.text("#sample .card")
    assert "other" in card and "lost" in card and "wrong" in card and "Which of 1?" in card
    assert HOSTILE in card
    assert browser.run("window.evil") is None
    assert browser.complaints == []


@pytest.mark.slow
@table
def test_a_link_sets_the_filters(browser: Browser, page: str, link: str, count: int) -> None:
    browser.open(f"{page}#{link}")
    assert count_shown(browser) == str(count)
    assert browser.complaints == []


def test_the_prompts_of_a_file_can_be_searched(browser: Browser, page: str) -> None:
    """A server searches questions, answers and replies only, as it keeps no prompts in memory."""
    browser.open(f"{page}#q=which+of+2")
    assert count_shown(browser) == ("0" if page.startswith("http") else "1")


FIRST = """document.addEventListener("DOMContentLoaded", () => {
  window.first = [document.querySelector("#found tr") !== null,
    document.querySelectorAll("#evidence img").length,
    document.querySelectorAll("#lines svg, #list a").length];
})"""


@pytest.mark.slow
def test_the_first_screen_is_drawn_before_all_pictures_are_loaded(
    browser: Browser, study: str
) -> None:
    script = browser.send("Page.addScriptToEvaluateOnNewDocument", source=FIRST)
    try:
        browser.open(study)
    finally:
        browser.send("Page.removeScriptToEvaluateOnNewDocument", **script)
    if study.startswith("file"):
        assert browser.run("window.first") == [True, 8, 0]
        names = "Object.keys(JSON.parse(document.getElementById(%r).textContent)%s).length"
        early, pictures = (names % of for of in (("data", ".thumbnails"), ("pictures", "")))
        assert browser.run(early) == 8 and browser.run(pictures) > 100
    assert browser.run("document.querySelectorAll('#lines svg').length") > 0


def test_keys_step_through_samples_and_set_filters(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.run("document.getElementById('samples').scrollIntoView(); null")
    for key, sample in (("j", "s1"), ("ArrowDown", "s2"), ("k", "s1")):
        browser.press(key)
        browser.wait(f"document.querySelector('#sample h3').innerText === 'pick / {sample}'")
    browser.press("d")
    browser.wait("document.querySelector('#count').innerText.startsWith('4 ')")
    browser.press("/")
    browser.press("2")  # typed into the search, so it is no shortcut
    browser.wait("document.querySelector('#count').innerText.startsWith('1 ')")
    browser.press("Escape")
    browser.press("x")
    browser.wait("document.querySelector('#count').innerText.startsWith('6 ')")
    browser.run("history.back(); null")
    browser.wait("!document.querySelector('#count').innerText.startsWith('6 ')")
    assert browser.complaints == []


def test_a_digit_key_selects_a_contestant_and_samples_sort_by_disagreement(
    browser: Browser, page: str
) -> None:
    browser.open(page)
    # all are right on the first sample, and one is wrong on the fifth
    for place, verdict in (("answers[2][0]", "r"), ("answers[0][4]", "w")):
        browser.run(f"{place}[0] = {{ ...{place}[0], verdict: '{verdict}' }}; null")
    browser.run("document.getElementById('order').value = 'disagreement'; null")
    browser.run("document.getElementById('order').dispatchEvent(new Event('change')); null")
    browser.wait("location.hash.includes('order=disagreement')")
    ids = "[...document.querySelectorAll('#list a > span:first-child')].map((e) => e.innerText)"
    assert browser.run(ids) == ["s1", "s2", "s3", "s0", "s0", "s1"]
    browser.press("2")
    browser.wait("document.querySelector('#who').value === 'other'")
    browser.press("2")
    browser.wait("document.querySelector('#who').value === ''")
    browser.press("9")  # there is no ninth
    legend = browser.run("document.querySelector('#legend').textContent")
    assert legend.startswith("✓ right, ✗ wrong, ? unreadable") and legend.endswith(
        "plainotherthird"
    )
    assert browser.complaints == []


def test_the_rival_and_the_dark_theme_can_be_chosen(browser: Browser, page: str) -> None:
    browser.open(f"{page}#base=third&theme=dark")
    assert "+75.0" in browser.text(".matrix tbody tr:nth-child(1)")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    assert "significantly different from third" in browser.text("#rivals")


SEEN = """[...document.querySelectorAll('#evidence img')].filter((image) => image.naturalWidth > 0
  && image.getBoundingClientRect().bottom < innerHeight).length"""


@pytest.fixture(scope="module", params=WAYS)
def study(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[str]:
    """The address of a page with a sweep of three radii; `radius 9` loses 24 of 40 samples."""
    folder = tmp_path_factory.mktemp("swept") / "study"
    made = MadeRun(folder)
    made.task("shape", ["A"] * 40)
    for number, row in enumerate(made.samples):
        source = Picture(np.full((32, 64, 3), 90 + number, np.uint8))
        row.sample["images"].append(made.blobs.put(source.payload.data))
    for radius, lost in {28: 2, 18: 4, 9: 26}.items():
        changes = {"stages.mark.radius": radius}
        point = made.point("marked", "shape", baseline=True, changes=changes)
        _send(made, point, np.full((40, 40, 3), 4 * radius, np.uint8), lost)
    regions = (0, 8.0, 4, 24.0, 20), (0, 16.0, 4, 32.0, 20)
    looks = [Look(n, 0, "crop", "shown", {}, (n + 1,), (regions[n - 1],)) for n in (1, 2)]
    notes = tuple(look.note for look in looks)
    _send(made, made.point("agent", "shape"), np.full((40, 40, 3), 7, np.uint8), 0, notes)
    with address_of(made.write().path, request.param) as address:
        yield address


def _send(
    made: MadeRun, point: str, pixels: NDArray[np.uint8], lost: int, notes: tuple[str, ...] = ()
) -> None:
    """Add an answer for each of the 40 samples after a picture; the first `lost` are wrong."""
    for number in range(40):
        sent = made.blobs.put(Picture(pixels + np.uint8(number)).payload.data)
        words = "Which one, seen twice?" if notes else "Which one?"
        turn = {"role": "user", "parts": [words, {"picture": sent}]}
        message = made.blobs.put(write_canonical(turn).encode())
        reply = {"text": f"Answer: {'B' if number < lost else 'A'}"}
        calls = ({"messages": [message], "draw": 0, "reply": reply},)
        made.record(point, f"s{number}", calls=calls, pictures=(sent,), notes=notes)


@contextmanager
def resize(browser: Browser, width: int, height: int) -> Iterator[None]:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.send("Emulation.setDeviceMetricsOverride", **size)
    try:
        yield
    finally:
        browser.send("Emulation.clearDeviceMetricsOverride")


def write_page(made: MadeRun) -> str:
    """Write the page of a run to a file and return its address."""
    return write_report([made.write().path], made.path).resolve().as_uri()


@pytest.mark.slow
def test_the_first_screen_shows_the_findings(browser: Browser, study: str) -> None:
    with resize(browser, 1440, 900):
        browser.open(study)
        lead = browser.text("#summary .lead")
        assert "95 %" in lead and "radius 9 \u221260" in lead
        labels = "[...document.querySelectorAll('#found tbody th')].map((it) => it.innerText)"
        assert browser.run(labels) == ["agent", "marked", "radius 18", "radius 9"]
        browser.wait(f"{SEEN} === 8")  # four flips, each next to its baseline
        assert "samples of shape that radius 9 loses" in browser.text("#evidence")
        assert browser.run(SMALL) == 0, "what is clicked is 24 pixels wide and high"
        browser.click("#evidence a")
        browser.wait("document.querySelector('#count').innerText.startsWith('24 ')")
        assert "(no picture" not in browser.run("document.body.innerText")
        assert browser.complaints == []


def test_the_number_of_failures_is_shown_next_to_an_accuracy(
    browser: Browser, made: MadeRun
) -> None:
    made.arms("shape", "AAAA", "plain", plain="AABA", torn="AAA")
    made.record(made.points[1].id, "s3", error="OSError: no picture")
    browser.open(write_page(made))
    for part in ("found", "matrix"):
        rows = f"[...document.querySelectorAll('#{part} tbody tr')].map((row) => row.innerText)"
        assert ["1 failed" in row for row in sorted(browser.run(rows))] == [False, True], part


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_violation(browser: Browser, study: str, theme: str) -> None:
    """Every theme at every width, from a file and served."""
    axe, wide = axe_script(), (theme == "light") == study.startswith("file")
    with resize(browser, *((1440, 900) if wide else (390, 844))):
        browser.open(f"{study}#theme={theme}&sample=shape/s0")
        browser.run("document.querySelectorAll('section details').forEach((it) => it.open = true)")
        browser.run(f"{axe}; null")
        checked = browser.run(axe_run("document", AXE_RULES))
        assert checked["faults"] == []
        assert {"color-contrast", "target-size"} <= set(checked["passed"])
        open_hash(browser, f"theme={theme}&sheet=1&q=s1")
        browser.wait("document.querySelectorAll('#contacts tbody tr').length === 11")
        browser.click("#contacts button[title=agent]")
        browser.wait("document.querySelector('.diff') !== null")
        assert browser.run(axe_run("'#large'", AXE_RULES))["faults"] == []
        browser.run("document.getElementById('large').close()")
        assert browser.run(axe_run("'#contacts'", AXE_RULES))["faults"] == []


def test_charts_and_tables_are_readable_on_a_phone(browser: Browser, study: str) -> None:
    with resize(browser, 390, 844):
        browser.open(study)
        assert browser.run("document.querySelectorAll('#lines svg').length") > 0
        assert browser.run(SMALLEST) >= 10, "of text, in pixels as they are shown"
        assert browser.run(OVERLAPS) == []
        assert browser.run("document.querySelectorAll('#lines [class*=swatch] svg').length") == 1
        assert browser.run(OUTSIDE) == 0
        browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
        assert browser.run(BROKEN) == []


KEY = "[class*=swatch] svg"  # of a legend
FRAMED = """[...document.querySelectorAll("#grids rect")].sort((a, b) =>
  (b.closest("[stroke-width]") !== null) - (a.closest("[stroke-width]") !== null))
  .map((rect) => rect.getBoundingClientRect())
  .map(({ x, y }) => [Math.round(x / 20), Math.round(y / 20)])"""


@pytest.mark.slow
def test_every_row_is_drawn_and_the_baseline_is_framed(browser: Browser, made: MadeRun) -> None:
    """Regression: the last two of ten rows were dropped, and a map had its own order of levels."""
    made.task("shape", "AAAA")
    for radius in (28, 9):
        changes: dict[str, object] = {"stages.mark.radius": radius}
        for color in ("red", "magenta"):
            both = changes | {"stages.mark.color": color}
            made.answers(made.point("marked", "shape", baseline=True, changes=both), "AAAA")
        for number in range(8):
            made.answers(made.point(f"arm {number}", "shape", changes=changes), "AAAA")
    browser.open(write_page(made))
    charts = "[...document.querySelectorAll('#lines > figure')]"
    titles = browser.run(f"{charts}.map((chart) => chart.querySelector('figcaption').innerText)")
    assert [re.findall(r"\((\d) of 2\)", title) for title in titles] == [["1"], ["2"]]
    legends = browser.run(f"{charts}.map((chart) => chart.querySelectorAll('{KEY}').length)")
    assert legends == [8, 2]
    assert browser.text("#grids figcaption").endswith("framed: the baseline")
    words = "[...document.querySelectorAll('#grids svg text')].map((text) => text.textContent)"
    assert browser.run(words)[:4] == ["28", "9", "red", "magenta"]
    frame, *cells = browser.run(FRAMED)
    assert frame == cells[0], "the first cell, that of the first levels"


def test_contestants_are_shown_next_to_human_accuracy(browser: Browser, made: MadeRun) -> None:
    """Two tasks with human results and one without."""
    for task in ("cups", "balls", "hats"):
        made.arms(task, "AAAA", "plain", plain="AAAB", marked="AAAB")
    people = {"people": True, "source": "s", "accuracy": {"cups": 90, "balls": 70}}
    config = {"config": {"published": {"people": people}}}
    (made.path / "run.yaml").write_text(yaml.safe_dump(config))
    browser.open(write_page(made))
    chart = "document.querySelector('#people svg')"
    told = browser.run(f"{chart}.getAttribute('aria-label')")
    assert "people on cups: 90.0 %; people on balls: 70.0 %; plain on cups: 75.0 %" in told
    assert "hats" not in told and browser.run(f"{chart}.querySelectorAll('circle').length") == 4
    assert browser.complaints == []


def test_a_click_on_a_title_sorts_a_table(browser: Browser, study: str) -> None:
    browser.open(study)
    browser.run("document.querySelector('#tables details').open = true")
    rows = "[...document.querySelector('#tables tbody').rows]"
    for order, is_reverse in {"descending": True, "ascending": False}.items():
        browser.click("#tables th:nth-child(2) .sort")
        values = browser.run(f"{rows}.map((row) => parseFloat(row.cells[1].innerText))")
        assert len(set(values)) > 2 and values == sorted(values, reverse=is_reverse)
        assert browser.run("document.querySelector('#tables th:nth-child(2)').ariaSort") == order


def test_pictures_are_shown_side_by_side_or_blinking(browser: Browser, study: str) -> None:
    browser.open(f"{study}#sheet=1&flip=lost&who=radius 9")
    browser.wait("document.querySelectorAll('#contacts img').length >= 18")
    assert browser.run("document.querySelectorAll('#contacts tbody tr').length") == 24
    browser.click("#contacts td:nth-child(3) button")
    browser.wait("document.querySelector('#large').open")
    both = browser.run(LARGE)
    assert len(set(both)) == 2
    for picture in (*both, *both):
        browser.press("b")
        assert browser.run(LARGE) == [picture]
    browser.wait("document.querySelector('#large img').naturalWidth === 40")


@pytest.mark.slow
def test_text_that_only_one_contestant_was_sent_is_marked(browser: Browser, study: str) -> None:
    browser.open(f"{study}#who=agent&sample=shape/s0")
    browser.press("b")
    browser.wait("document.querySelector('#large').open")
    runs = "[...document.querySelectorAll('.diff > *')].map((run) => [run.tagName, run.innerText])"
    assert browser.run(runs) == [["SPAN", "Which "], ["DEL", "one?"], ["INS", "one, seen twice?"]]
    browser.open(f"{study}#who=radius 9&sample=shape/s0")
    browser.press("b")
    browser.wait("document.querySelector('#large').open")
    assert browser.text("#large-words") == "Both got the same text."


@pytest.mark.slow
def test_keys_step_from_flip_to_flip_and_open_one(browser: Browser, study: str) -> None:
    browser.open(f"{study}#who=radius 9&sample=shape/s0")
    for key, sample in (("]", "s2"), ("]", "s3"), ("[", "s2"), ("[", "s2")):
        browser.press(key)
        browser.wait(f"document.querySelector('#sample h3').innerText === 'shape / {sample}'")
    browser.press("c")
    browser.wait("document.querySelector('#contacts tr[aria-current]') !== null")
    assert browser.text("#contacts tr[aria-current] th") == "s2"
    browser.press("Enter")
    browser.wait("document.activeElement === document.querySelector('#sample h3')")
    assert "sheet" not in browser.run("location.hash")
    assert not browser.run("document.getElementById('contacts').checkVisibility()")
    assert browser.complaints == []


def test_an_agents_looks_are_a_film_strip(browser: Browser, study: str) -> None:
    browser.open(f"{study}#who=agent&sample=shape/s0")
    browser.wait("document.querySelector('.film') !== null")
    boxes = "[...document.querySelectorAll('#sample .card:first-child .film .box')]"
    assert browser.run(f"{boxes}.map((box) => box.style.left)") == ["12.5%", "25%"]
    assert "look 1: crop" in browser.text(".film")


def test_it_prints_on_a_few_pages(browser: Browser, study: str) -> None:
    browser.open(study)
    printed = b64decode(browser.send("Page.printToPDF")["data"])
    assert 1 <= len(re.findall(rb"/Type /Page\b", printed)) <= 4
    browser.send("Emulation.setEmulatedMedia", media="print")
    try:
        parts = "['#samples', '#found', '#matrix', '#lines', '#method']"
        heights = f"{parts}.map((part) => document.querySelector(part).clientHeight > 0)"
        assert browser.run(heights) == [False, True, True, True, True]
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")


def test_a_sample_excluded_by_the_filters_is_not_shown(browser: Browser, study: str) -> None:
    browser.open(f"{study}#q=nowhere&sample=shape/s0")
    assert count_shown(browser) == "0"
    assert browser.text("#sample") == "No sample matches these filters."


def test_a_rival_without_an_interval_in_the_file_is_counted(
    browser: Browser, made: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "MAX_INTERVALS", 0)
    one, two = "AAABBBBBBBBB", "B" * 11 + "A"
    made.arms("pick", "A" * 12, "plain", plain="A" * 12, one=one, two=two)
    browser.open(f"{write_page(made)}#base=two")
    paired = compare_paired(*([letter == "A" for letter in said] for said in (one, two)))
    told = browser.run("document.querySelector('.matrix tbody tr:nth-child(2) td').title")
    assert f"+{100 * paired.value:.1f} points" in told and "n = 12" in told
    assert f"3 gained, 1 lost, exact McNemar p = {paired.p:.4f}" in told


STARS = """[...document.querySelectorAll('.matrix tbody tr, #rivals tbody tr')]
  .filter((row) => row.innerText.includes('*')).map((row) => row.querySelector('th').innerText)"""
CELL = "document.querySelector('#found tr.%s .%s')"


@pytest.mark.slow
@pytest.mark.parametrize(("most", "how"), [(0, "Bonferroni"), (400, "Holm")])
def test_every_star_is_corrected_for_multiple_tests(
    browser: Browser, made: MadeRun, monkeypatch: pytest.MonkeyPatch, most: int, how: str
) -> None:
    """`worse` differs from `better` with p = 0.03: a star among two arms, none among six."""
    monkeypatch.setattr(pairs, "MAX_INTERVALS", most)
    base, better, worse = ("A" * n + "B" * (40 - n) for n in (20, 23, 17))
    said = {"plain": base, "better": better, "worse": worse, "third": base, "all": "A" * 40}
    made.arms("pick", "A" * 40, "plain", **said)
    page = write_page(made)
    others = ["plain", "better", "worse", "third"]
    for link, starred in (("", ["all"]), ("#base=better", ["all"]), ("#base=all", others)):
        browser.open(f"{page}{link}")
        assert set(browser.run(STARS)) == {*starred}
    assert how in browser.run("document.querySelector('.matrix tbody tr:nth-child(3) td').title")


def test_better_is_blue_and_worse_is_orange(browser: Browser, made: MadeRun) -> None:
    said = {"plain": "A" * 20 + "B" * 20, "better": "A" * 40, "worse": "B" * 40}
    made.arms("pick", "A" * 40, "plain", **said)
    browser.open(f"{write_page(made)}#theme=light")
    colors = {"better": ("0, 114, 178", "124, 199, 232"), "worse": ("213, 94, 0", "242, 166, 108")}
    for kind, (bar, cell) in colors.items():
        for part, wanted in (("value').color", bar), ("points').backgroundColor", cell)):
            element, _, name = part.partition("').")
            style = f"getComputedStyle({CELL % (kind, element)}).{name}"
            assert browser.run(style) == f"rgb({wanted})"
    assert browser.complaints == []


def test_abstentions_are_shown_next_to_the_accuracy_of_a_specialist(
    browser: Browser, made: MadeRun
) -> None:
    for task in ("pick", "count"):
        made.arms(task, "A" * 8, "plain", plain="AAAABBBB")
    point = made.point("lines", "count")
    for number in range(8):
        given = {"answer": "A" if number else "B"} if number < 6 else {"reason": "abstained: few"}
        made.record(point, f"s{number}", **given)
    browser.open(write_page(made))
    rows = "[...document.querySelectorAll('#summary .changes tbody tr')].map((r) => r.innerText)"
    (told,) = [row for row in browser.run(rows) if row.startswith("lines")]
    assert "62.5" in told and "75 % answered: 83 %" in told
    captions = "[...document.querySelectorAll('#summary figcaption b')].map((b) => b.innerText)"
    assert sorted(browser.run(captions)) == ["count", "pick"]

"""A study of points runs from the command line: units are read again without asking, and the page
draws answers over the correct places."""

import csv
from pathlib import Path

import pytest

from looktwice.eval.display.table import score_table
from looktwice.eval.page.conversations import make_image_loader, rebuild_tasks
from looktwice.eval.page.run_page import RunPage
from looktwice.eval.records import RunFolder
from tests.browser import CHROMIUM, Browser, open_browser
from tests.first_day.studies import looktwice

pytestmark = pytest.mark.slow
N = 12


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grounding")
    result = looktwice("run", "grounding", f"task.n={N}", "--out", folder)
    assert result.exit_code == 0, result.output
    return folder / "grounding"


def test_units_of_coordinates_are_read_from_the_same_replies(run: Path) -> None:
    assert sum(1 for _ in RunFolder(run).last_records()) == N
    with (run / "report.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "accuracy" and row["point"]]
    right = {row["contestant"]: float(row["value"]) for row in rows}
    assert right["plain"] >= 0.6
    assert right["plain [read.frame=0-1000]"] == right["plain [read.frame=pixels]"] == 0
    assert right["plain [read.order=yx]"] < right["plain"]


def test_answers_hold_the_correct_places_and_their_own(run: Path) -> None:
    scores = score_table(run).scores
    tasks, _ = rebuild_tasks([scored.folder for scored in scores], ())
    page = RunPage(scores, make_image_loader(tasks))
    kinds = set[tuple[str, ...]]()
    for _, sample, _, answer in page.iterate_answers(range(N)):
        (picture,) = answer.places
        assert picture.name == page.rows[sample].sample["images"][0]
        kinds.add(tuple(mark[0] for mark in picture.marks))
        left, top, width, height = picture.marks[0][1:5]
        box = page.rows[sample].truth["places"][0]["box"]
        shares = (left, top, left + width, top + height)
        assert [round(320 * share) for share in shares] == box
    assert kinds == {("box true", "point found")}


COLOR = "getComputedStyle(document.querySelector('#sample .card .pic .%s')).borderTopColor"


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_page_draws_both_in_two_colours_with_a_legend(run: Path, tmp_path: Path) -> None:
    with open_browser(tmp_path) as browser:
        browser.open(run / "report.html")
        browser.wait("document.querySelectorAll('#evidence .pic .true').length === 8")
        browser.run("go({ sample: names[0] }, true)")
        browser.wait("document.querySelector('#sample .card .pic .found') !== null")
        assert browser.run(COLOR % "true") != browser.run(COLOR % "found")
        legend = browser.text("#sample .places")
        assert "correct" in legend and "answered" in legend
        compare(browser)
        assert browser.complaints == []


def compare(browser: Browser) -> None:
    """Compare two contestants at natural size, with the places of both."""
    browser.press("b")
    browser.wait("document.querySelectorAll('#large .pic .true').length === 2")
    assert browser.run("document.querySelectorAll('#large .pic .found').length") == 2
    assert browser.run("document.querySelectorAll('#large .places').length") == 2
    loaded = "[...document.querySelectorAll('#large img')].every((i) => i.naturalWidth > 0)"
    browser.wait(loaded)

"""Pictures in docs/ show the current page: regenerated, they have the same text."""

import importlib
import re
from functools import partial
from pathlib import Path

import pytest

from looktwice.pipelines.config.classes import load_plugin
from tests.browser import CHROMIUM, open_browser
from tests.optional import LazyModule, needs_extras
from tests.paths import DOCS
from tests.tables import check_all

report_pages = importlib.import_module(load_plugin(str(DOCS / "report_pages.py")))
openings = LazyModule("docs.openings")
OPENED = ["annotate", "trust", "agents", "compare", "dysm", "fragility", "mattered", "papers"]
OPENED += ["probes", "scale", "statistics", "thresholds"]


def test_the_page_of_the_docs_names_each_picture() -> None:
    named = re.findall(r"\(report/([\w-]+\.webp)\)", (DOCS / "report.md").read_text("utf-8"))
    kept = {picture.name for picture in (DOCS / "report").iterdir()}
    assert set(named) == kept
    assert kept == {f"{n}-{t}.webp" for n in report_pages.VIEWS for t in ("light", "dark")}


def test_every_page_opens_with_a_sentence_and_a_picture() -> None:
    pages = [*(DOCS / f"{name}.md" for name in OPENED), *sorted((DOCS / "howto").iterdir())]
    check_all((page.name, partial(check_opening, page)) for page in pages)


def check_opening(page: Path) -> None:
    title, sentence, picture = page.read_text(encoding="utf-8").split("\n\n")[:3]
    assert title.startswith("# ") and len(sentence) < 400 and sentence.endswith(".")
    ((told, shown),) = re.findall(r"\A!\[(.{20,})\]\((.+)\)\Z", picture)
    assert (page.parent / shown).exists() and not told.endswith(".")


def test_every_opening_picture_is_shown() -> None:
    pages = [*DOCS.glob("*.md"), *(DOCS / "howto").glob("*.md")]
    shown = re.findall(r"openings/([\w-]+)\.webp", "".join(page.read_text() for page in pages))
    assert {*shown} == {picture.stem for picture in (DOCS / "openings").iterdir()}


@needs_extras
@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_regenerated_opening_pictures_equal_those_of_the_docs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open_browser(tmp_path / "profile") as browser:
        openings.take_openings(browser, tmp_path, out)
    assert {file.name for file in out.iterdir()} == {f.name for f in (DOCS / "openings").iterdir()}
    for picture in sorted((DOCS / "openings").iterdir()):
        _, words = report_pages.described(
            out / picture.name
        )  # sizes are those of a machine's fonts
        assert len(words) > 50
        assert report_pages.described(picture)[1] == words, "python -m docs.openings"


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_regenerated_pictures_equal_those_of_the_docs(tmp_path: Path) -> None:
    page = report_pages.make_report(tmp_path / "runs")
    with open_browser(tmp_path / "profile") as browser:
        report_pages.take_pictures(browser, page, tmp_path)
    for picture in sorted((DOCS / "report").iterdir()):
        size, words = report_pages.described(tmp_path / picture.name)
        assert size == (1440, 900) and len(words) > 50
        sentence = f"{picture.name} is older than the page: python -m docs.report_pages"
        assert report_pages.described(picture) == (size, words), sentence

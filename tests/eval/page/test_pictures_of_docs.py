"""The pictures of docs/report.md are of the page as it is: made anew, they have the same sizes and
words. Skipped where Chromium is missing."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from looktwice.pipelines.config.classes import load_plugin
from tests.browser import CHROMIUM, open_browser
from tests.paths import DOCS

report_pages = importlib.import_module(load_plugin(str(DOCS / "report_pages.py")))


def test_the_page_of_the_docs_names_each_picture() -> None:
    named = re.findall(r"\(report/([\w-]+\.webp)\)", (DOCS / "report.md").read_text("utf-8"))
    kept = {picture.name for picture in (DOCS / "report").iterdir()}
    assert set(named) == kept
    assert kept == {f"{n}-{t}.webp" for n in report_pages.VIEWS for t in ("light", "dark")}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_pictures_made_anew_are_those_of_the_docs(tmp_path: Path) -> None:
    page = report_pages.make_report(tmp_path / "runs")
    with open_browser(tmp_path / "profile") as browser:
        report_pages.take_pictures(browser, page, tmp_path)
    for picture in sorted((DOCS / "report").iterdir()):
        size, words = report_pages.described(tmp_path / picture.name)
        assert size == (1440, 900) and len(words) > 50
        told = f"{picture.name} is older than the page: python -m docs.report_pages"
        assert report_pages.described(picture) == (size, words), told

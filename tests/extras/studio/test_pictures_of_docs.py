"""Pictures of docs/studio.md show the current page: regenerated, they have the same text."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, open_browser
from tests.paths import DOCS

studio_page = import_module("docs.studio_page")
report_pages = import_module("docs.report_pages")


def test_the_page_of_the_docs_names_each_picture() -> None:
    named = re.findall(r"\(studio/([\w-]+\.webp)\)", (DOCS / "studio.md").read_text("utf-8"))
    assert {*named} == {f"{name}.webp" for name in studio_page.SAYS}
    assert {*named} == {picture.name for picture in (DOCS / "studio").iterdir()}


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_regenerated_pictures_equal_those_of_the_docs(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with open_browser(tmp_path / "profile") as browser:
        studio_page.take_pictures(browser, tmp_path, tmp_path / "out")
    for picture in (DOCS / "studio").iterdir():
        _, words = report_pages.described(tmp_path / "out" / picture.name)
        assert len(words) > 50
        assert report_pages.described(picture)[1] == words, "python -m docs.studio_page"

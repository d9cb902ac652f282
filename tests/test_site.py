"""The site: every page of docs/ is in its navigation and opens with a sentence."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from looktwice.pipelines.config.classes import load_plugin
from tests.browser import CHROMIUM, Browser, axe_run, axe_script, open_browser
from tests.paths import DOCS, ROOT

SCRIPT = DOCS / "site" / "build_site.py"
PARTS = ("sphinx", "myst_parser", "furo", "sphinx_design", "sphinx_copybutton")
site = import_module(load_plugin(str(SCRIPT)))
builds = pytest.mark.skipif(
    CHROMIUM is None or not all(map(find_spec, PARTS)), reason="needs the extra docs and Chromium"
)
TALLEST = 12_000  # pixels of a page


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    site.write_sources(folder)
    return folder


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [path for paths in site.NAVIGATION.values() for path in paths]
    written = {str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md")}
    written |= {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "findings/README.md"}
    assert len(listed) == len(set(listed)) and set(listed) == written


def test_a_page_has_a_title_and_opens_with_a_sentence() -> None:
    opened = [page for page in site.pages() if not page.name.startswith("reference/")]
    titled = [page for page in opened if page.text.startswith("# ")]
    begun = {page.name for page in titled if re.search(r"[.:](?= |$)", page.opening)}
    assert begun == {page.name for page in opened} and len(opened) > 50


def test_every_link_leads_to_a_page_or_a_file(sources: Path) -> None:
    links = [
        (page, link)
        for page in sources.rglob("*.md")
        for link in re.findall(r"(?<!`)\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8"))
    ]
    assert len(links) > 500
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_a_broken_link_is_noticed() -> None:
    page = site.Page("here.md", "docs/here.md", "# Here\n\nSee [there](guide.md#nowhere).\n")
    with pytest.raises(LookupError, match=re.escape("docs/here.md: no page for guide.md#nowhere")):
        site.linked(page, site.places(site.pages()), set())


def test_links_follow_a_split_page(sources: Path) -> None:
    folder = sources / "reference/prompting"
    room = (folder / "promptingmarkers.md").read_text("utf-8")
    assert "](promptingmarkerscircles.md)" in room
    circles = (folder / "promptingmarkerscircles.md").read_text("utf-8")
    assert "# prompting.markers.Circles" in circles and "\n## " not in circles
    assert "](pointmarking.md)" in circles and "](promptingmarkers.md)" in circles


def test_the_gallery_has_a_card_for_each_picture_line(sources: Path) -> None:
    names = ("gallery", "controls")
    text = "".join((DOCS / f"{name}.md").read_text("utf-8") for name in names)
    entries = len(re.findall(r"^\*\*", text, re.MULTILINE))
    texts = "".join(p.read_text("utf-8") for name in names for p in sources.glob(f"{name}/*.md"))
    assert texts.count("{grid-item-card}") == entries > 60


def test_the_list_for_language_models_names_every_page(sources: Path) -> None:
    lines = (sources / "_extra/llms.txt").read_text().splitlines()
    named = [line for line in lines if line.startswith("- [")]
    assert len(named) == sum(map(len, site.NAVIGATION.values()))
    assert all(line.endswith((".", ":")) for line in named)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in a separate network namespace where the system allows it."""
    out = tmp_path_factory.mktemp("site") / "html"
    report = out.with_name("report.html")
    report.write_text("<!doctype html><title>a report</title>")
    apart = [shutil.which("unshare") or "unshare", "-rn"]
    fenced = shutil.which("unshare") and not subprocess.run([*apart, "true"]).returncode
    command = [sys.executable, str(SCRIPT), str(out), str(report)]
    done = subprocess.run(
        [*(apart if fenced else ()), *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return out


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@builds
@pytest.mark.nightly
def test_every_page_opens_from_disk(built: Path, browser: Browser) -> None:
    assert (built / "example.html").read_text() and (built / "llms.txt").read_text()
    faults, pages = [], sorted(set(built.rglob("*.html")) - {built / "example.html"})
    assert len(pages) > 200
    for page in pages:
        browser.open(page, "document.readyState === 'complete'")
        height, pictures, text = browser.run(
            "[document.documentElement.scrollHeight,"
            " [...document.images].every(picture => picture.naturalWidth > 0),"
            " (document.querySelector('article') ?? document.body).innerText]"
        )
        fetched = [url for url in browser.requests if not url.startswith(("file:", "data:"))]
        if height > TALLEST or not pictures or "```" in text or fetched or browser.complaints:
            faults.append((page.name, height, pictures, fetched, browser.complaints[:1]))
    assert faults == []


@builds
@pytest.mark.nightly
def test_the_search_works_from_disk(built: Path, browser: Browser) -> None:
    address = f"{(built / 'search.html').as_uri()}?q=staircase"
    browser.open(address, "document.querySelectorAll('#search-results li').length > 0")
    assert "Thresholds" in browser.text("#search-results")
    assert browser.complaints == []


@builds
@pytest.mark.nightly
def test_the_gallery_can_be_filtered_by_words_and_class(built: Path, browser: Browser) -> None:
    browser.open(built / "gallery.html", "document.getElementById('filtered').innerText !== ''")
    cards = "[...document.querySelectorAll('.sd-row > .sd-col')]"
    everything = browser.run(f"{cards}.length")
    assert everything > 60 and browser.text("#filtered") == f"{everything} of {everything}"
    for words, title in {"ring leaves": "Circles", "crosshairs": "Crosshairs"}.items():
        browser.run(
            f"((input) => {{ input.value = {words!r}; input.dispatchEvent(new Event('input')); }})"
            "(document.getElementById('filter'))"
        )
        seen = browser.run(
            f"{cards}.filter((card) => card.checkVisibility()).map((c) => c.innerText)"
        )
        assert 0 < len(seen) < everything / 2 and seen[0].startswith(title)
    links = browser.run(f"{cards}.map((card) => card.querySelector('a').getAttribute('href'))")
    assert all((built / link.partition("#")[0]).exists() for link in links)


@builds
@pytest.mark.nightly
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_wcag_violation(built: Path, browser: Browser, theme: str) -> None:
    script, rules = axe_script(), ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    scheme = {"name": "prefers-color-scheme", "value": theme}
    browser.send("Emulation.setEmulatedMedia", features=[scheme])
    names = (
        "index",
        "gallery",
        "gallery/marks-on-points",
        "guide",
        "mattered",
        "reference/commands",
    )
    for name in names:
        browser.open(built / f"{name}.html", "document.readyState === 'complete'")
        browser.run(f"{script}; null")
        checked = browser.run(axe_run("document", rules))
        assert checked["faults"] == [], name
        assert "color-contrast" in checked["passed"]
    light, dark = "rgb(255, 255, 255)", "rgb(19, 20, 22)"
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == (dark if theme == "dark" else light)


@builds
@pytest.mark.nightly
def test_every_link_of_the_site_works(built: Path) -> None:
    links = [
        (page, link)
        for page in built.rglob("*.html")
        for link in re.findall(r'href="([^"#:?]+)[#"?]', page.read_text("utf-8"))
    ]
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []

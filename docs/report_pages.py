"""Makes the pictures of docs/report.md, the page of `configs/quickstart.yaml` in Chromium:
`python -m docs.report_pages [FOLDER]`.

Each picture holds, as its description, the words that it was taken for. Fonts differ between
machines, so a slow test compares size and words, and not pixels.
"""

from __future__ import annotations

import io
import sys
import tempfile
from base64 import b64decode
from pathlib import Path

from PIL import ExifTags, Image

from looktwice.eval.report import write_report
from looktwice.eval.runs import Study
from looktwice.pipelines.config import load_plan
from tests.browser import Browser, open_browser
from tests.paths import DOCS, ROOT

SIZE = {"width": 1440, "height": 900}
QUALITY = 80  # of the WebP files
VIEWS = {  # by name: the address, and what holds the words that the picture is for
    "finding": ("", "#summary > :is(p, ul), #found"),
    "samples": (  # one of the four flips, of which every file has the pictures
        "who=unmarked&flip=lost&sample=shape/shape_00004",
        "#sample :is(h3, .question, .choices, .card:nth-child(-n+2) h4)",
    ),
    "sheet": ("who=unmarked&flip=lost&sheet=1", "#contacts :is(thead, tbody tr:first-child)"),
}
LOADED = """[...document.images].every((image) => image.complete
  || (image.loading === 'lazy' && image.getBoundingClientRect().top > innerHeight))"""
BOX = """(selector) => {
  const { x, y, width, height } = document.querySelector(selector).getBoundingClientRect();
  return { x: x + scrollX, y: y + scrollY, width, height };
}"""
WORDS = """(selector) => [...document.querySelectorAll(selector)].filter((part) => {
  const { top, bottom } = part.getBoundingClientRect();
  return part.checkVisibility() && top > -1 && bottom < innerHeight + 1;
}).map((part) => part.innerText.replace(/\\s+/g, " ").trim()).join("\\n")"""


def make_report(folder: Path) -> Path:
    """Run the study into `folder`; gives the page of its report."""
    plan = load_plan(ROOT / "configs" / "quickstart.yaml")
    run = Study(plan, folder)()
    return write_report([run.folder], run.folder)


def take_pictures(browser: Browser, page: Path, folder: Path) -> None:
    """Write each view of a page in the light and in the dark into `folder`."""
    browser.send("Emulation.setDeviceMetricsOverride", **SIZE, deviceScaleFactor=1, mobile=False)
    for name, (link, selector) in VIEWS.items():
        for theme in ("light", "dark"):
            browser.open(f"{page.resolve().as_uri()}#{link}&theme={theme}")
            photograph(browser, folder / f"{name}-{theme}.webp", selector)
    browser.send("Emulation.clearDeviceMetricsOverride")


def photograph(browser: Browser, file: Path, words: str, part: str = "") -> None:
    """Write what is shown, or the part of the page that a selector finds, with the words of others
    as its description."""
    clip = {}
    if part:
        browser.run(f"document.querySelector({part!r}).scrollIntoView(); null")
        clip = {"clip": {**browser.run(f"({BOX})({part!r})"), "scale": 1}}
    browser.wait(LOADED)
    shot = b64decode(browser.send("Page.captureScreenshot", format="png", **clip)["data"])
    description = Image.Exif()
    description[ExifTags.Base.ImageDescription] = browser.run(f"({WORDS})({words!r})").encode()
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    image.save(file, "WEBP", quality=QUALITY, method=6, exif=description)


def described(picture: Path) -> tuple[tuple[int, int], str]:
    """The size of a picture in pixels (width, height), and the words that it was taken for."""
    with Image.open(picture) as image:
        words = str(image.getexif()[ExifTags.Base.ImageDescription])
        return image.size, words.encode("latin-1").decode()  # Pillow reads bytes as Latin-1


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("python -m docs.report_pages [FOLDER]")
    target = Path(sys.argv[1]) if len(sys.argv) == 2 else DOCS / "report"
    with tempfile.TemporaryDirectory() as made:
        page = make_report(Path(made, "runs"))
        with open_browser(Path(made, "profile")) as browser:
            take_pictures(browser, page, target)

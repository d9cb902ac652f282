"""Makes the pictures of docs/studio.md, the studio's page in Chromium: `python -m docs.studio_page
[FOLDER]`. Each has the words that it was taken for as its description."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image

from docs.report_pages import SIZE, photograph
from looktwice.eval.tasks import MarkedScenes
from tests.browser import Browser, open_browser
from tests.extras.studio.opened import opened_studio
from tests.paths import DOCS

SAYS = {"studio": "h1, h2, #words, #rows", "along": "#strip"}
"""By name: what holds the words that a picture is for."""


def take_pictures(browser: Browser, made: Path, folder: Path) -> None:
    """Write into `folder` a question that is asked, and the answer along a slider."""
    sample = next(iter(MarkedScenes(kind="shape"))).sample
    Image.fromarray(sample.images[0].pixels).save(file := made / "scene.png")
    browser.send("Emulation.setDeviceMetricsOverride", **SIZE, deviceScaleFactor=1, mobile=False)
    with opened_studio(browser, made / "backend", [file]) as studio:
        studio.settle()
        x, y = sample.marks[0].center
        studio.drag((round(x), round(y)))
        studio.set("question", "What shape is at A?")
        studio.set("choices", "triangle\ncircle\ndiamond\nheart")
        studio.set("key", "A")
        studio.set("stages.mark.radius", 28)
        browser.click("#ask")
        studio.settle()
        browser.run("scrollTo(0, 0)")
        photograph(browser, folder / "studio.webp", SAYS["studio"])
        browser.click("[aria-label='ask along radius']")
        studio.settle()
        photograph(browser, folder / "along.webp", SAYS["along"], "#strip")
    browser.send("Emulation.clearDeviceMetricsOverride")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("python -m docs.studio_page [FOLDER]")
    target = Path(sys.argv[1]) if len(sys.argv) == 2 else DOCS / "studio"
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made,
        open_browser(Path(made, "profile")) as browser,
    ):
        take_pictures(browser, Path(made), target)

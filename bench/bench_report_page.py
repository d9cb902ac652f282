"""The report page of a run: its size, the time Chromium takes to open it, its requests and console
errors, and screenshots.

    python -m bench.bench_report_page RUN... [--axe axe.min.js] [--pictures docs/report]

RUN are run folders whose report.html is written again. `--axe` is the file of the npm package
axe-core, which checks accessibility; `--pictures` writes screenshots of the first run's page, light
and dark.
"""

from __future__ import annotations

import argparse
import base64
import io
import tempfile
import time
from pathlib import Path

from PIL import Image
from typer.testing import CliRunner

from looktwice.eval.cli import app
from tests.browser import Browser, open_browser

VIOLATIONS = (
    "axe.run(document, {resultTypes: ['violations']}).then((found) => "
    "found.violations.map((each) => `${each.impact} ${each.id}: ${each.nodes.length}`))"
)
FIRST_SCREEN = """new MutationObserver(() => {
  if (document.documentElement.dataset.found) window.firstScreen ??= performance.now();
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-found"] });"""
SHOTS = {"light": "theme=light", "dark": "theme=dark"}


def measure(browser: Browser, run: Path, axe: str) -> None:
    """Print the figures of one page."""
    started = time.perf_counter()
    written = CliRunner().invoke(app, ["score", str(run), "--report"])
    assert written.exit_code == 0, written.output
    page = run / "report.html"
    print(
        f"{run.name}: written in {time.perf_counter() - started:.1f} s,"
        f" {page.stat().st_size / 1e6:.2f} MB"
    )
    browser.send("Page.addScriptToEvaluateOnNewDocument", source=FIRST_SCREEN)
    seconds, first = list[float](), list[float]()
    for _ in range(5):
        seconds.append(browser.open(page))
        first.append(browser.run("window.firstScreen") / 1000)
    fetched = [url for url in browser.requests if not url.startswith("data:image/")]
    for name, times in {"first screen": first, "whole page": seconds}.items():
        cold, middle = times[0], sorted(times)[2]
        print(f"  {name} after {middle:.2f} s (median of 5; the first time {cold:.2f})")
    print(f"  fetched {fetched}")
    print(f"  complaints: {browser.complaints}; {browser.text('#count')}")
    for name in ("#q=the+second", "#disagree=1", "#flip=lost"):
        begun = time.perf_counter()
        browser.run(
            f"location.hash = {name!r}; new Promise((done) => setTimeout(done, 0)).then(() =>"
            " filterSamples())"
        )
        browser.wait("document.querySelector('#count').innerText !== ''")
        print(f"  {name}: {browser.text('#count')} in {time.perf_counter() - begun:.2f} s")
    for theme in SHOTS.values() if axe else ():
        browser.open(f"{page.resolve().as_uri()}#{theme}")
        browser.run(f"{axe};1")
        print(f"  axe, {theme}: {browser.run(VIOLATIONS)}")


def draw(browser: Browser, page: Path, out: Path) -> None:
    """Write screenshots of the top of the page and of its samples, in both themes, as WebP."""
    out.mkdir(parents=True, exist_ok=True)
    browser.send(
        "Emulation.setDeviceMetricsOverride",
        width=1280,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    for theme, link in SHOTS.items():
        browser.open(f"{page.resolve().as_uri()}#{link}&flip=lost")
        browser.run("document.querySelector('#matrix-title').scrollIntoView(); null")
        _shot(browser, out / f"matrix-{theme}.webp")
        browser.click("#matrix .flip:last-child")
        browser.run("document.querySelector('#samples').scrollIntoView(); null")
        time.sleep(1)
        _shot(browser, out / f"samples-{theme}.webp")


def _shot(browser: Browser, path: Path) -> None:
    time.sleep(0.5)
    shot = base64.b64decode(browser.send("Page.captureScreenshot", format="png")["data"])
    Image.open(io.BytesIO(shot)).save(path, "WEBP", quality=80, method=6)
    print(f"  {path}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--axe", type=Path)
    parser.add_argument("--pictures", type=Path)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        open_browser(Path(profile)) as browser,
    ):
        for run in given.runs:
            measure(browser, run, given.axe.read_text(encoding="utf-8") if given.axe else "")
        if given.pictures:
            draw(browser, given.runs[0] / "report.html", given.pictures)


if __name__ == "__main__":
    main()

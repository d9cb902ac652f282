"""The studio in headless Chromium, from a dropped photograph to the study that the command line
runs. Skipped where none is."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.records import RunFolder
from looktwice.eval.tasks import MarkedScenes
from tests.browser import CHROMIUM, Browser, open_browser
from tests.eval.studio.opened import OpenStudio, opened_studio

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
HOSTILE = "<img src=x onerror='window.evil = 1'>"
OUTSIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
PACK = """page.talk.post('pack', { draft: page.draft }).then((blob) => blob.arrayBuffer())
  .then((data) => btoa(String.fromCharCode(...new Uint8Array(data))))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def studio(browser: Browser, tmp_path: Path) -> Iterator[OpenStudio]:
    with opened_studio(browser, tmp_path / "desk") as opened:
        yield opened


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A picture of a scene that Pocket knows, under a hostile name."""
    picture = next(iter(MarkedScenes(kind="shape"))).sample.images[0]
    Image.fromarray(picture.pixels).save(file := tmp_path / f"{HOSTILE}.png")
    return file


def run_study(studio: OpenStudio, folder: Path) -> RunFolder:
    """The run of what is downloaded, by the command line; its text is what is copied."""
    packed = io.BytesIO(base64.b64decode(studio.browser.run(PACK)))
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder)
    study = folder / "studio" / "study.yaml"
    assert study.read_text("utf-8") == studio.browser.run("document.getElementById('yaml').value")
    ran = CliRunner().invoke(app, ["run", str(study), "--out", str(folder / "runs")])
    assert ran.exit_code == 0, ran.output
    return RunFolder(folder / "runs" / "study")


def test_from_a_photograph_to_a_study_that_runs(
    studio: OpenStudio, scene: Path, tmp_path: Path
) -> None:
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
    studio.browser.click("[data-slot=zoom_on_marks] [aria-label$=earlier]")
    shas = studio.settle()
    assert studio.slots == ["mark", "zoom_on_marks", "dot_grid", "multiple_choice", "ask"]
    assert shas != before
    run = run_study(studio, tmp_path)
    (record,) = run.records().values()
    assert list(record.pictures) == shas
    assert all(run.blobs.path(sha).is_file() for sha in shas)
    assert not studio.browser.run("window.evil") and studio.browser.complaints == []
    own = studio.address.removesuffix("known/")
    assert all(url.startswith((own, "data:")) for url in studio.browser.requests)

"""A studio that starts with a sample of a run, or with a study, sends what the run sent."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.runs import Study
from looktwice.extras.studio.backend import StudioBackend
from looktwice.extras.studio.server import open_draft
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.config.classes import ConfigError
from tests.browser import CHROMIUM, open_browser
from tests.extras.studio.opened import IDLE, SHAS
from tests.first_day.studies import looktwice
from tests.served_page import serve_run

STUDY = """
task: {use: eval.tasks.MarkedScenes, kind: shape, n: 2}
models: {small: {use: pipelines.models.Pocket, max_tokens: 4}}
model: small
stages:
  mark: {use: prompting.markers.Circles, radius: 28, label: {font_size: 20}}
  zoom: {use: prompting.views.ZoomOnMarks, crop: {show: both}}
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
contestants: {zoomed: {}, plain: {stages: {zoom: null}}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.yaml").write_text(STUDY)
    plan = load_plan(folder / "study.yaml")
    summary = Study(plan, folder / "runs", console=Console(file=io.StringIO()))()
    return RunFolder(summary.folder)


@pytest.mark.parametrize("contestant, views", [((), 2), (("zoomed",), 2), (("plain",), 1)])
def test_a_sample_of_a_run_gives_the_same_request(
    run: RunFolder, tmp_path: Path, contestant: tuple[str, ...], views: int
) -> None:
    backend, sample = StudioBackend(tmp_path), sorted(row.id for row in run.samples.values())[1]
    draft = open_draft(backend, [run.path, Path(sample), *map(Path, contestant)])
    shown = backend.render(draft)
    shas = [view["sha"] for view in shown["views"]]
    sent = [list(record.pictures) for record in run.records(sample).values()]
    assert len(shas) == views and shas in sent
    assert draft.id == sample and draft.answer
    (row,) = backend.ask(draft)
    assert row["shas"] == shas and row["verdict"] in ("right", "wrong", "unreadable")
    assert "max_tokens: 4" in shown["yaml"]


def test_a_study_begins_with_its_first_question(run: RunFolder, tmp_path: Path) -> None:
    backend = StudioBackend(tmp_path)
    draft = open_draft(backend, [run.path.parents[1] / "study.yaml"])
    shas = [view["sha"] for view in backend.render(draft)["views"]]
    records = run.records(draft.id).values()
    assert shas in [list(record.pictures) for record in records]
    assert [slot.slot for slot in draft.stages] == ["mark", "zoom", "choose", "ask"]
    assert draft.stages[0].node["radius"] == 28 and draft.model in backend.models


def test_two_pictures_belong_to_one_question(tmp_path: Path) -> None:
    files, backend = [tmp_path / "left.png", tmp_path / "right.png"], StudioBackend(tmp_path)
    for size, file in enumerate(files, 8):
        Image.new("RGB", (size, size)).save(file)
    shown = backend.render(open_draft(backend, files))
    assert [view["width"] for view in shown["views"]] == [8, 9]
    with pytest.raises(RunError, match=r"none\.png"):
        open_draft(backend, [files[0], tmp_path / "none.png"])


def test_missing_files_are_reported(run: RunFolder, tmp_path: Path) -> None:
    backend, sample = StudioBackend(tmp_path), Path(next(iter(run.samples.values())).id)
    for what, words in (
        ([run.path, Path("nobody")], "'nobody'; it has 2, such as shape"),
        ([run.path, sample, Path("zoomd")], "'zoomd'; did you mean 'zoomed'"),
        ([run.path], "one of its 2 samples"),
        ([Path("x.jpg")], "no such picture"),
    ):
        with pytest.raises(RunError, match=words):
            open_draft(backend, what)
    with pytest.raises(ConfigError, match="--model small"):
        open_draft(backend, [], ["small"])


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_card_of_the_report_opens_in_the_studio(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "backend").mkdir()
    with (
        serve_run(run.path, tmp_path / "backend") as address,
        open_browser(tmp_path / "profile") as browser,
    ):
        browser.open(address)
        links = browser.run("[...document.querySelectorAll('.card .studio')].map((a) => a.href)")
        assert len(links) == 2
        shown = []
        for link in links:
            browser.open(link)
            browser.wait(IDLE)
            shown.append(browser.run(SHAS))
        sample = browser.run("page.draft.id")
        sent = [list(record.pictures) for record in run.records(sample).values()]
        assert sorted(shown) == sorted(sent) and len({len(shas) for shas in shown}) == 2
        browser.click("#ask")
        browser.wait(IDLE)
        assert browser.text("#rows li") and browser.complaints == []
        browser.open(f"{address}studio/?n=99&who=0")
        assert browser.text("#faults").startswith("the studio cannot open this")


def test_show_names_the_studio(run: RunFolder) -> None:
    sample = next(iter(run.samples.values())).id
    shown = looktwice("view", run.path, "--sample", sample)
    command = f"looktwice studio {run.path} {sample}"
    assert command in shown.output
    (page,) = (run.path / "show").glob("*.html")
    assert command in page.read_text("utf-8")

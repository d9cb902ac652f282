"""A disk that fills up while something is written: the file is named, nothing half-written stays,
and a run goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.records.records import RunFolder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no limit to set")
STUDY = """
task: {use: eval.tasks.Folder, path: own}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
stages: {ask: {use: prompting.turns.Ask}}
"""
SAMPLES = 60


@contextmanager
def room(size: int) -> Iterator[None]:
    """Inside, no file grows beyond so many bytes, which fails as a full disk does."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study of 60 questions on one picture of 30 kB."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    write_questions("Which?")
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


def write_questions(question: str, side: int = 100) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (side, side, 3), dtype=np.uint8)
    Image.fromarray(noise).save("own/x.png")
    row = {"question": question, "images": ["x.png"], "choices": ["a", "b"], "answer": "A"}
    lines = (json.dumps(row | {"id": f"q{number}"}) + "\n" for number in range(SAMPLES))
    Path("own/samples.jsonl").write_text("".join(lines))


def looktwice(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("size", "file"),
    {300: "points.yaml", 5_000: "samples.jsonl", 20_000: "blobs/", 34_000: "records.jsonl"}.items(),
)
def test_a_run_names_the_file_and_goes_on_when_there_is_room(
    folder: Path, size: int, file: str
) -> None:
    """It said `No space left on device` of a file that one had to guess, and left `.part` files
    behind."""
    # the one that grows fastest where questions are long and pictures small
    if file == "samples.jsonl":
        write_questions("Which? " * 300, side=9)
    with room(size):
        code, said = looktwice("run", "study.yaml")
    assert code == 2 and f"runs/study/{file}" in said, said
    assert "cannot be written (File too large); make room and type the same command again" in said
    assert not list(folder.rglob("*.part"))
    kept = len(RunFolder(folder / "runs" / "study").records())
    assert kept or file != "records.jsonl"
    code, said = looktwice("run", "study.yaml")
    assert code == 0 and f"({SAMPLES - kept} new, {kept} were there, 0 failed)" in said


@pytest.mark.parametrize(
    ("words", "file"),
    {
        ("report", "runs/study"): "runs/study/report.csv",
        ("show", "runs/study", "q1"): "runs/study/show/q1.html",
        ("trajectories", "runs/study", "--out", "t.parquet"): "t.parquet",
        ("trajectories", "runs/study", "--out", "t.jsonl"): "t_images/",
        ("replies", "runs/study", "--export", "a.json"): "a.json",
        ("replies", "runs/study", "--export", "a.tsv"): "a.tsv",
        ("check", "study.yaml", "--out", "pages"): "pages/q0.html",
    }.items(),
)
def test_what_is_written_from_a_run_is_whole_or_not_there(
    folder: Path, words: tuple[str, ...], file: str
) -> None:
    """Half a report or half a file of conversations was left, and nothing said which."""
    looktwice("run", "study.yaml")
    for report in (folder / "runs" / "study").glob("report.*"):
        report.unlink()
    before = {path for path in folder.rglob("*") if path.is_file()}
    with room(400):
        code, said = looktwice(*words)
    assert code == 2 and file in said and "cannot be written (File too large)" in said, said
    assert {path for path in folder.rglob("*") if path.is_file()} == before

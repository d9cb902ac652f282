"""A full disk: the file is named, nothing partial stays, and a run can resume."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from looktwice.eval.records.records import RunFolder
from tests.optional import needs_extras
from tests.under_fire.scenes import RUN, STUDY, run_command, write_questions

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no limit to set")
SAMPLES = 60
FULL = "cannot be written (File too large)"


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Limit the size of files inside the block, which fails like a full disk."""
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
    write_questions(*[{"images": ["x.png"]}] * SAMPLES, side=100)
    Path("study.yaml").write_text(STUDY)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "file"),
    {300: "points.yaml", 5_000: "samples.jsonl", 20_000: "blobs/", 34_000: "records.jsonl"}.items(),
)
def test_a_run_names_the_file_and_resumes_when_there_is_space(
    folder: Path, size: int, file: str
) -> None:
    # the file that grows fastest with long questions and small pictures
    if file == "samples.jsonl":
        write_questions(*[{"images": ["x.png"], "question": "Which? " * 300}] * SAMPLES)
    with limit_file_size(size):
        said = run_command(2, "run", "study.yaml")
    assert f"runs/study/{file}" in said
    assert f"{FULL}; free some space and run the same command again" in said
    assert not list(folder.rglob("*.part"))
    kept = len(RunFolder(RUN).records())
    assert kept or file != "records.jsonl"
    said = run_command(0, "run", "study.yaml")
    assert f"({SAMPLES - kept} new, {kept} existing, 0 failed)" in said


WRITTEN = {
    "score runs/study --report": "runs/study/report.csv",
    "view runs/study --sample q1": "runs/study/show/q1.html",
    "export runs/study --to trajectories --out t.parquet": "t.parquet",
    "export runs/study --to trajectories --out t.jsonl": "t_images/",
    "score runs/study --export a.json": "a.json",
    "score runs/study --export a.tsv": "a.tsv",
    "check study.yaml --out pages": "pages/q0.html",
}


@needs_extras
def test_exports_of_a_run_are_complete_or_missing(folder: Path) -> None:
    run_command(0, "run", "study.yaml")
    for report in RUN.glob("report.*"):
        report.unlink()
    before = {path for path in folder.rglob("*") if path.is_file()}
    for words, file in WRITTEN.items():
        with limit_file_size(400):
            said = run_command(2, *words.split())
        assert file in said and FULL in said
        assert {path for path in folder.rglob("*") if path.is_file()} == before

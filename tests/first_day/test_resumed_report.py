"""A finished run, typed again: it is scored anew, and its page is drawn again only where something
changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from looktwice.eval.cli import app

STUDY = """
task: {use: eval.tasks.LettersAndShapes, n: 3}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
stages: {ask: {use: prompting.turns.Ask}}
"""
RUN = Path("runs/study")


def again(*words: str) -> str:
    result = CliRunner().invoke(app, ["run", "study.yaml", "--table", "full", *words])
    assert result.exit_code == 0, result.output
    return result.output


def change(name: str) -> None:
    """Change a file of the run without changing what is in it."""
    if name == "report.html":
        (RUN / name).unlink()
    elif name == "report.md":
        (RUN / name).write_text("of another plan")
    else:
        (RUN / name).touch()


def test_a_resume_with_nothing_to_do_draws_no_page_and_prints_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(STUDY)
    first = again()
    page = RUN / "report.html"
    os.utime(RUN / "records.jsonl", (1e9, 1e9))
    os.utime(page, (2e9, 2e9))  # seconds; far apart, however coarse the clock of the disk
    second = again()
    assert page.stat().st_mtime == 2e9
    tables = [
        said[said.index("task and contestant") : said.index("records: ")]
        for said in (first, second)
    ]
    assert tables[0] == tables[1]
    for name in ("report.html", "report.md", "judged.jsonl"):
        os.utime(page, (2e9, 2e9))
        change(name)
        if name == "judged.jsonl":
            os.utime(RUN / name, (3e9, 3e9))
        again()
        assert page.stat().st_mtime != 2e9, name
    os.utime(page, (2e9, 2e9))
    result = CliRunner().invoke(app, ["report", str(RUN)])
    assert result.exit_code == 0 and page.stat().st_mtime != 2e9

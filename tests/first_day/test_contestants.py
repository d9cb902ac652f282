"""A user's contestants: stages laid over the file's, pipelines without an answer, settings of nested parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from looktwice.eval.cli import app

STUDY = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}
model: {use: pipelines.models.Scripted}
stages:
  say: {use: prompting.wording.MultipleChoice}
  mark: {use: prompting.markers.Circles}
  ask: {use: prompting.turns.Ask}
"""
LOOKS = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    def __call__(self, state, model):
        return state.with_notes("looked, and said nothing")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's working folder with a study and a stage of their own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "silent_looks.py").write_text(LOOKS)
    return tmp_path


def looktwice(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_check_finds_a_pipeline_that_no_answer_can_come_of(folder: Path) -> None:
    """`check` said "no faults", and the run gave a table of unreadable answers."""
    result = looktwice("check", "study.yaml", "stages.ask.use=silent_looks.Look", "--plugin", "silent_looks.py")
    assert result.exit_code == 2
    assert "contestants.plain.stages: no answer can come of it: none of say, mark, ask asks" in result.output
    assert "`ask: {use: prompting.turns.Ask}`" in result.output

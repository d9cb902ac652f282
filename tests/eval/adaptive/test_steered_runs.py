"""Staircases and races as runs: what is asked, resumed and told on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from looktwice.eval.adaptive.runs import Races, Staircases
from looktwice.eval.cli import app
from looktwice.eval.psychometrics.thresholds import Along
from looktwice.eval.records.records import RunError, RunFolder
from looktwice.eval.runs import Study
from looktwice.pipelines.config import load_plan

STUDY = """
tasks: {color: {use: eval.tasks.MarkedScenes, kind: color, n: 90, controls: {size: [12, 20, 32], things: 4}}}
stages: {answer: {use: specialists.answers.Chance}}
contestants:
  chance: {}
  sees: {stages: {answer: {use: specialists.answers.ColorAtMark}}}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(STUDY)
    return path


def test_a_race_asks_the_loser_less_and_confirms_the_winner(study: Path) -> None:
    races = Races(held_out=0.5)
    summary = Study(load_plan(study), study.parent, steering=races)()
    (result,) = races.results
    assert result.race.winner == "sees" and result.confirmation is not None
    assert result.confirmation.n == 45 and result.confirmation.holds(0.05)
    assert result.calls == summary.written < 2 * 90
    held_out = {record.sample for record in RunFolder(summary.folder).records().values()}
    assert len(held_out) == 45 + len(result.race.values)
    again = Races(held_out=0.5)
    assert Study(load_plan(study), study.parent, steering=again)().written == 0
    assert again.results[0].calls == result.calls and again.results[0].race.dropped == result.race.dropped


def test_a_staircase_asks_each_question_once_and_stops_when_it_knows(study: Path) -> None:
    steering = Staircases(Along("size"), questions=12)
    summary = Study(load_plan(study), study.parent, steering=steering)()
    assert summary.written == 24 == len(RunFolder(summary.folder).records())
    wide = Staircases(Along("size"), questions=40, width=1000.0)
    assert Study(load_plan(study), study.parent / "wide", steering=wide)().written == 20


@pytest.mark.parametrize(
    ("change", "along", "said"),
    [("", "colour", "0 levels of 'colour'.*things"), ("draws: 2", "size", "draws: 1")],
)
def test_what_cannot_be_climbed_is_said(study: Path, change: str, along: str, said: str) -> None:
    study.write_text(f"{STUDY}\n{change}\n")
    with pytest.raises(RunError, match=said):
        Study(load_plan(study), study.parent, steering=Staircases(Along(along)))()


def test_a_race_needs_two_arms(study: Path) -> None:
    plan = load_plan(study, ["contestants.sees=null"])
    with pytest.raises(RunError, match="two arms or more, found chance"):
        Study(plan, study.parent, steering=Races())()


def test_the_commands(study: Path) -> None:
    out = ["--out", str(study.parent / "runs")]
    raced = CliRunner().invoke(app, ["race", str(study), *out])
    assert raced.exit_code == 0, raced.output
    assert "color: sees wins, confirmed on 27 held-out samples" in raced.output
    (saved,) = json.loads((study.parent / "runs" / "s" / "race.json").read_text())
    assert (saved["winner"], saved["held_out"]["rival"]) == ("sees", "chance")
    page = CliRunner().invoke(app, ["report", str(study.parent / "runs" / "s")])
    written = (study.parent / "runs" / "s" / "report.md").read_text()
    assert page.exit_code == 0 and "## The race" in written and "color: sees wins, confirmed on 27" in written
    (study.parent / "runs" / "s" / "race.json").write_text('[{"task": 1}]')
    damaged = CliRunner().invoke(app, ["report", str(study.parent / "runs" / "s")])
    assert damaged.exit_code == 2 and "looktwice race" in damaged.output
    (study.parent / "runs" / "s" / "race.json").unlink()
    climbed = CliRunner().invoke(app, ["staircase", str(study), *out, "--along", "size", "--questions", "10", "name=c"])
    assert climbed.exit_code == 0 and "thresholds" in climbed.output and "(20 new, 0 failed)" in climbed.output
    told = CliRunner().invoke(app, ["thresholds", str(study.parent / "runs" / "c"), "--along", "size"])
    assert told.exit_code == 0 and "chance, color" in told.output
    for words, said in (
        (["thresholds", str(study.parent / "runs" / "s")], "--along size"),
        (["thresholds", str(study.parent / "runs" / "s"), "--along", "x"], "no sample has numbers in 'x'"),
        (["staircase", str(study), *out], "none was named"),
    ):
        failed = CliRunner().invoke(app, words)
        assert failed.exit_code == 2 and said in failed.output

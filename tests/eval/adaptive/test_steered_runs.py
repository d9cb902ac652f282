"""Staircases and races as runs: what is asked, resumed and told on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from typer.testing import CliRunner

from looktwice.eval.adaptive.runs import Races, Staircases
from looktwice.eval.cli import app
from looktwice.eval.psychometrics.thresholds import Along
from looktwice.eval.records.records import RunError, RunFolder, SampleRow
from looktwice.eval.runs import Study
from looktwice.eval.runs.steering import Pool
from looktwice.pipelines.config import load_plan

STUDY = """
tasks: {color: {use: eval.tasks.MarkedScenes, kind: color, n: 90, controls: {size: [12, 20, 32], \
things: 4}}}
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
    assert (
        again.results[0].calls == result.calls
        and again.results[0].race.dropped == result.race.dropped
    )


def race_of_groups(seed: int, copies: int, told: bool = True, better: int = 2) -> Races:
    """A race of two arms on forty groups of questions that an arm gets right or wrong together.

    Both are right on half of the groups; with `better` 1, the first one on all.
    """
    rng, races = np.random.default_rng(seed), Races(held_out=0.28, seed=seed)
    meta = [{"group": number // copies} if told else {} for number in range(40 * copies)]
    sample = {"id": "", "question": "?", "images": [], "choices": [], "marks": []}
    rows = {
        f"s{n}": SampleRow("", f"sha {n}", "A", sample | {"meta": each})
        for n, each in enumerate(meta)
    }
    arms = [SimpleNamespace(id=name, contestant=name, changes={}, task_name="t") for name in "ab"]
    right = {
        name: np.repeat(rng.integers(0, odds, 40) == 0, copies)
        for name, odds in (("a", better), ("b", 2))
    }
    for asked in races.rounds(cast(Any, arms), Pool(None, rows, {})):
        for sample_id, those in asked:
            races.answers |= {
                (arm.id, sample_id): float(right[arm.id][int(sample_id[1:])]) for arm in those
            }
    return races


def test_ten_questions_of_one_picture_are_no_ten_tries() -> None:
    """Taken one by one, many races of equal arms have a winner."""
    apart = sum(
        bool(race_of_groups(seed, 10, told=False).results[0].race.winner) for seed in range(40)
    )
    assert apart > 10
    assert sum(bool(race_of_groups(seed, 10).results[0].race.winner) for seed in range(60)) <= 3


def test_what_shares_a_group_is_not_held_out_from_it() -> None:
    """Of 280 questions 202 may be raced: 28 groups of seven; the other twelve groups are held out
    as a whole."""
    races = race_of_groups(1, 7, better=1)
    (result,) = races.results
    assert (
        result.race.winner == "a"
        and result.confirmation is not None
        and result.confirmation.n == 84
    )
    asked = [int(sample[1:]) // 7 for arm, sample in races.answers if arm == "a"]
    assert len(result.race.values) <= 28 and len(asked) == 7 * len(set(asked))
    assert result.confirmation.p > 2 / 2**12  # twelve groups, of which some do not differ


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
    raced = CliRunner().invoke(app, ["run", str(study), "choose.by=race", *out])
    assert raced.exit_code == 0, raced.output
    assert "color: sees wins, confirmed on 27 held-out samples" in raced.output
    (saved,) = json.loads((study.parent / "runs" / "s" / "race.json").read_text())
    assert (saved["winner"], saved["held_out"]["rival"]) == ("sees", "chance")
    page = CliRunner().invoke(app, ["report", str(study.parent / "runs" / "s")])
    written = (study.parent / "runs" / "s" / "report.md").read_text()
    assert (
        page.exit_code == 0
        and "## The race" in written
        and "color: sees wins, confirmed on 27" in written
    )
    (study.parent / "runs" / "s" / "race.json").write_text('[{"task": 1}]')
    damaged = CliRunner().invoke(app, ["report", str(study.parent / "runs" / "s")])
    assert damaged.exit_code == 2 and "choose.by=race" in damaged.output
    (study.parent / "runs" / "s" / "race.json").unlink()
    climbed = CliRunner().invoke(
        app,
        [
            *("run", str(study), *out, "name=c", "choose.by=staircase", "thresholds.along=size"),
            "choose.questions=10",
        ],
    )
    assert (
        climbed.exit_code == 0
        and "thresholds" in climbed.output
        and "(20 new, 0 were there, 0 failed)" in climbed.output
    )
    runs = study.parent / "runs"
    told = CliRunner().invoke(app, ["analyse", str(runs / "c"), "thresholds", "along=size"])
    assert told.exit_code == 0 and "chance, color" in told.output
    for words, said in (
        (["analyse", str(runs / "s"), "thresholds"], "along=size"),
        (["analyse", str(runs / "s"), "thresholds", "along=x"], "no sample has numbers in 'x'"),
        (["run", str(study), *out, "choose.by=staircase"], "none was named"),
    ):
        failed = CliRunner().invoke(app, words)
        assert failed.exit_code == 2 and said in failed.output


def test_a_folder_of_a_staircase_takes_no_race(study: Path) -> None:
    Study(load_plan(study), study.parent, steering=Staircases(Along("size"), questions=2))()
    with pytest.raises(RunError, match="what a staircase asked, and a race chooses otherwise"):
        Study(load_plan(study), study.parent, steering=Races())()

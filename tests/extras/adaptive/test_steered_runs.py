"""Staircases and races as runs: asked, resumed and reported on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from looktwice.eval import find, score_table
from looktwice.eval.records.records import RunError, RunFolder, SampleRow
from looktwice.eval.runs import Study
from looktwice.eval.runs.options import RunSummary
from looktwice.extras.adaptive.runs import Races, Staircases
from looktwice.extras.adaptive.steering import Pool
from looktwice.extras.adaptive.thresholds import ThresholdSettings
from looktwice.pipelines.config import load_plan
from tests.first_day.studies import get_output

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


def run_steered(study: Path, steering: Any, *overrides: str, out: str = "") -> RunSummary:
    return Study(load_plan(study, overrides), study.parent / out, companions=[steering])()


def test_a_race_asks_the_loser_less_and_confirms_the_winner(study: Path) -> None:
    races = Races(held_out=0.5)
    summary = run_steered(study, races)
    (result,) = races.results
    assert result.race.winner == "sees" and result.confirmation is not None
    assert result.confirmation.n == 45 and result.is_confirmed
    assert result.answer_count == summary.written_count < 2 * 90
    asked = {record.sample for record in RunFolder(summary.folder).records().values()}
    assert len(asked) == 45 + len(result.race.values)
    again = Races(held_out=0.5)
    assert run_steered(study, again).written_count == 0
    assert again.results[0].answer_count == result.answer_count
    assert again.results[0].race.dropped == result.race.dropped


def run_race_of_groups(seed: int, copies: int, grouped: bool = True, better: int = 2) -> Races:
    """Run a race of two arms on forty groups of questions that are right or wrong together.

    Both arms are right on half of the groups; with `better` 1, the first one is right on all.
    """
    rng, races = np.random.default_rng(seed), Races(held_out=0.28, seed=seed)
    meta = [{"group": number // copies} if grouped else {} for number in range(40 * copies)]
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
    for asked in races.choose_rounds(cast(Any, arms), Pool(None, rows, {})):
        for sample_id, those in asked:
            races.answers |= {
                (arm.id, sample_id): float(right[arm.id][int(sample_id[1:])]) for arm in those
            }
    return races


def test_questions_of_one_picture_are_not_independent() -> None:
    def won(grouped: bool, seeds: int) -> int:
        results = [run_race_of_groups(seed, 10, grouped).results[0] for seed in range(seeds)]
        return sum(bool(result.race.winner) for result in results)

    assert won(False, 40) > 10 and won(True, 60) <= 3


def test_samples_of_one_group_are_on_the_same_side_of_the_split() -> None:
    races = run_race_of_groups(1, 7, better=1)
    (result,) = races.results
    gap = result.confirmation
    assert result.race.winner == "a" and gap is not None and gap.n == 84
    asked = [int(sample[1:]) // 7 for arm, sample in races.answers if arm == "a"]
    assert len(result.race.values) <= 28 and len(asked) == 7 * len(set(asked))
    assert gap.p > 2 / 2**12  # twelve groups, of which some do not differ


def test_a_staircase_asks_each_question_once_and_stops_at_its_precision(study: Path) -> None:
    summary = run_steered(study, Staircases(ThresholdSettings("size"), questions=12))
    assert summary.written_count == 24 == len(RunFolder(summary.folder).records())
    assert not find(score_table([summary.folder])).tasks  # its arms share no samples
    wide = Staircases(ThresholdSettings("size"), questions=40, width=1000.0)
    assert run_steered(study, wide, out="wide").written_count == 20
    with pytest.raises(RunError, match="a staircase chose, and a race chooses differently"):
        run_steered(study, Races())


@pytest.mark.parametrize(
    ("steering", "change", "says"),
    [
        (Staircases(ThresholdSettings("colour")), "seed=0", "'colour'.*things"),
        (Staircases(ThresholdSettings("size")), "draws=2", "draws: 1"),
        (Races(), "contestants.sees=null", "found chance"),
    ],
)
def test_unusable_steering_settings_are_reported(
    study: Path, steering: Any, change: str, says: str
) -> None:
    with pytest.raises(RunError, match=says):
        run_steered(study, steering, change)


@pytest.mark.slow
def test_an_unknown_field_is_reported_before_and_after_a_run(study: Path) -> None:
    run, lacking = ("run", study, "--out", study.parent / "runs"), "numbers in 'angle'"
    for words in (("check", study), run):
        text = get_output(*words, "thresholds.along=angle")
        assert "no thresholds" in text and lacking in text
    assert "no thresholds" not in get_output("check", study, "thresholds.along=size")
    ran = get_output(*run, "name=b", "thresholds.along=size")
    assert "no thresholds" not in ran and "95 % interval" in ran


@pytest.mark.slow
def test_the_commands(study: Path) -> None:
    runs = study.parent / "runs"
    folder, out, won = runs / "s", ("--out", runs), "color: sees wins, confirmed on 27"
    assert f"{won} held-out samples" in get_output("run", study, "choose.by=race", *out)
    (saved,) = json.loads((folder / "race.json").read_text())
    assert (saved["winner"], saved["held_out"]["rival"]) == ("sees", "chance")
    get_output("score", folder, "--report")
    written = (folder / "report.md").read_text()
    assert "## The race" in written and won in written
    (folder / "race.json").write_text('[{"task": 1}]')
    assert "choose.by=race" in get_output("score", folder, "--report", code=2)
    (folder / "race.json").unlink()
    along = ("thresholds.along=size", "choose.questions=10")
    climbed = get_output("run", study, *out, "name=c", "choose.by=staircase", *along)
    assert "thresholds" in climbed and "(20 new, 0 existing, 0 failed)" in climbed
    assert "chance, color" in get_output("analyse", runs / "c", "thresholds", "along=size")
    assert "along=size" in get_output("analyse", folder, "thresholds", code=2)
    assert "numbers in 'x'" in get_output("analyse", folder, "thresholds", "along=x", code=2)
    assert "a staircase needs a field" in get_output(
        "run", study, *out, "choose.by=staircase", code=2
    )

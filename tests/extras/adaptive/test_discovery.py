"""The search for the best arm: its accuracy, its claims, its limits, and the command."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import yaml

from bench.bench_discover import BLANK, search, search_planted
from looktwice.eval.records.records import RunError, RunFolder, SampleRow
from looktwice.eval.runs import RunOptions, Study
from looktwice.extras.adaptive.discovery import Discovery, size_first_round
from looktwice.extras.adaptive.keys import make_steering
from looktwice.extras.adaptive.steering import Pool
from looktwice.pipelines.config import load_plan
from tests.chat_server import chat_server
from tests.first_day.studies import get_output

STUDY = """
task: {use: eval.tasks.MarkedScenes, kind: shape, n: 40, ground: plain, controls: {size: 24, \
things: 3}}
model: {use: pipelines.models.Pocket}
stages:
  mark: {use: prompting.markers.Circles, radius: 28, thickness: 3, color: red, label: {font_size: \
24}}
  look: {use: prompting.views.Look, where: {use: prompting.where.OnMarks}, crop: {show: both, \
thickness: 0, upscale: 256}}
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
sweep: {stages.mark: [{}, {radius: 7}], stages.look: [null, {}]}
contestants: {plain: {}}
"""

NO_MODEL = """
tasks:
  color: {use: eval.tasks.MarkedScenes, kind: color, n: 80, controls: {size: 32, things: 4}}
  few: {use: eval.tasks.MarkedScenes, kind: color, n: 40, seed: 1, controls: {size: 32, things: 4}}
stages: {answer: {use: specialists.answers.Chance}}
contestants:
  chance: {}
  again: {stages: {answer: {slot: again}}}
  third: {stages: {answer: {slot: third}}}
  sees: {stages: {answer: {use: specialists.answers.ColorAtMark}}}
"""


def test_rounds_cost_the_same_and_the_remainder_goes_to_the_first() -> None:
    assert size_first_round(8, 1000, 8 * 3 * 10) == 10
    assert size_first_round(8, 1000, 8 * 3 * 10 - 1) == 9
    assert size_first_round(8, 30, 8 * 29 + 4) == 29  # one sample is left for the next round
    assert size_first_round(8, 30, 10_000) == 30 and size_first_round(8, 30, 7) == 0
    firsts = [size_first_round(48, 700, answers) for answers in range(2000, 20_000, 500)]
    assert all(early <= late for early, late in pairwise(firsts))


def test_it_ends_near_the_best_variant_for_a_third_of_the_grid() -> None:
    ended = search_planted((3, 2, 2), 400, 20)
    regrets = [end.regret for end in ended]
    assert np.mean(regrets) < 0.01 and sum(regret <= 0.02 for regret in regrets) >= 15
    assert max(end.share for end in ended) <= 0.3
    assert sum(end.claimed for end in ended) >= 10
    covered = [end.covered for end in ended if end.covered is not None]
    assert sum(covered) >= len(covered) - 4


def test_it_claims_nothing_if_all_variants_are_equal() -> None:
    ended = [search(np.full(6, 0.4), 200, seed) for seed in range(60)]
    assert sum(end.claimed for end in ended) <= 6
    assert max(end.share for end in ended) <= 0.3


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "s.yaml"
    path.write_text(STUDY)
    return path


@pytest.mark.slow
def test_the_command_confirms_tries_styles_and_writes_the_winner(study: Path) -> None:
    output = get_output("discover", study, "--budget", 150, "choose.styles=[default, radius 3]")
    (race,) = json.loads(Path("runs/s/race.json").read_text())
    assert race["winner"].startswith("plain") and "no look" not in race["winner"]
    assert race["held_out"]["rival"] == "plain [no look]" and race["said"] in output
    assert "confirmed on " in output and "under 2 marker styles" in output
    opening = Path("runs/s/report.md").read_text().partition("\n## ")[0]
    assert "held-out samples" in opening  # arms that share no samples are not compared there
    assert " is right on " not in opening and " variants " not in opening
    searched, styled = (RunFolder(Path("runs", name)) for name in ("s", "s-winner-styles"))
    number = len(searched.records()) + len(styled.records())
    assert 60 < number <= 150
    held_out = {record.sample for record in styled.records().values()}
    arms = {record.point for record in searched.records().values() if record.sample in held_out}
    assert len(arms) == 2  # only winner and baseline were asked the held-out samples
    (arm,) = load_plan(Path("s-winner.yaml")).points
    assert arm.id in arms and yaml.safe_load(Path("s-winner.yaml").read_text())["name"]
    again = get_output("discover", study, "--budget", 150, "choose.styles=[default, radius 3]")
    assert "(0 new, " in again and race["said"] in again
    get_output("score", "runs/s", "--report")
    assert race["said"] in Path("runs/s/report.md").read_text()
    assert "too few to compare" in get_output("discover", study, "--budget", 40, "name=b", code=2)


@pytest.mark.slow
def test_the_cost_limit_covers_the_search_and_the_styles(study: Path) -> None:
    priced = "{use: pipelines.models.ChatAPI, model: tiny, url: %s, prices: {in: 2.5, out: 10}}"
    words = ["discover", study, "--budget", 100, "choose.styles=[default, radius 3]"]

    def asked(url: str, name: str, *more: object) -> tuple[str, int]:
        place = (f"model={priced % url}", f"name={name}", "--out", name, "--workers", 1)
        output = get_output(*words, *place, *more)
        return output, len(RunFolder(Path(name, name)).records())

    with chat_server() as server:
        searched = asked(server.url, "free")[1]
        whole = server.stats["requests"]
    with chat_server() as server:
        most = searched + (whole - searched) // 2
        output, again = asked(
            server.url, "bounded", "--cost", (most + 0.5) * (100 * 2.5 + 70) / 1e6
        )
        assert again == searched and server.stats["requests"] == most < whole
    assert "not all styles were tried" in output


@pytest.mark.slow
def test_an_interrupted_search_resumes_to_the_same_result(study: Path) -> None:
    def end(out: str, *stops: int) -> tuple[str, int, int]:
        written = 0
        for most in (*stops, None):
            steering, options = Discovery(budget=100, styles=()), RunOptions(max_requests=most)
            plan = load_plan(study)
            written += Study(plan, Path(out), options, companions=[steering])().written_count
        (winner,) = steering.winners
        return winner.arm.id, winner.result.answer_count, written

    whole = end("whole")
    assert end("stopped", 17, 31) == whole and whole[1] == whole[2]


def test_the_budget_is_shared_by_the_tasks_and_a_small_one_is_refused(study: Path) -> None:
    study.write_text(NO_MODEL)
    plan, steering = load_plan(study), Discovery(budget=240)
    summary = Study(plan, companions=[steering])()
    assert not any(winner.samples for winner in steering.winners)  # for styles: no arm draws marks
    ended = {winner.result.task: winner for winner in steering.winners}
    assert summary.written_count <= 240
    assert (
        60 < ended["color"].result.answer_count <= 160
        and 30 < ended["few"].result.answer_count <= 80
    )
    assert {winner.arm.contestant for winner in ended.values()} == {"sees"}
    with pytest.raises(RunError, match=r"20 answers .* 4 arms on 80 .* --budget 96"):
        Study(plan, Path("b"), companions=[Discovery(budget=30)])()
    with pytest.raises(RunError, match=r"on 3 samples; use 24 .* --budget 96"):
        Study(plan, Path("c"), RunOptions(limit=3), companions=[Discovery(budget=24)])()


def test_a_search_reuses_the_answers_of_a_complete_run(study: Path) -> None:
    study.write_text(NO_MODEL)
    plan = load_plan(study, ["tasks.few=null"])
    grid, steering = Study(plan)().written_count, Discovery(styles=())
    summary = Study(plan, companions=[steering])()
    (winner,) = steering.winners
    assert (
        summary.written_count == 0 < summary.kept_count == winner.result.answer_count < grid == 320
    )


@pytest.mark.parametrize("styles", [["default", "nonsense"], ["default"]])
def test_invalid_styles_are_refused_before_anything_is_asked(styles: Any) -> None:
    with pytest.raises(RunError, match=r"choose\.styles must be .* default, "):
        make_steering({"choose": {"by": "discovery", "styles": styles}})


def make_search(*names: str) -> Discovery:
    """Return a search among arms of which these always fail; c is the best of the others."""
    steering = Discovery(styles=(), budget_share=0.5)
    arms = [
        SimpleNamespace(id=n, contestant=n, changes={}, task_name="t", baseline=n == "a")
        for n in "abc"
    ]
    rows = {str(n): SampleRow("", str(n), "A", BLANK) for n in range(90)}
    for asked in steering.choose_rounds(cast(Any, arms), Pool(None, rows, {})):
        for sample, those in asked:
            for arm in those:
                right = float(arm.id == "c" or int(sample) % 3 == 0)
                steering.answers[arm.id, sample] = None if arm.id in names else right
    return steering


def test_an_arm_that_always_fails_does_not_stop_the_search() -> None:
    (winner,) = make_search("b").winners
    assert winner.arm.id == "c" and winner.result.is_confirmed
    assert winner.result.race.dropped["b"][1] == "a failure"
    with pytest.raises(RunError, match="all 3 arms failed on all of"):
        make_search("a", "b", "c")

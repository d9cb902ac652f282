"""Specialists beside MLLMs on the same samples, and published rows beside a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.eval.analysis.contestants import specialist_pairs
from looktwice.eval.display.table import make_table
from looktwice.eval.records import RunFolder
from looktwice.eval.report import write_report
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.tasks.blink import NAMES
from looktwice.pipelines.config import ConfigError, load_plan
from tests.made_run import MadeRun, analysed
from tests.optional import extension, needs_extras
from tests.paths import CONFIGS

gap = extension("studies.gap")

SIFT: dict[str, Any] = {
    "model": None,
    "stages": {"answer": {"use": "specialists.answers.MatchedPoint"}},
}
GUESS = {
    "model": None,
    "stages": {"answer": {"use": "specialists.answers.Guess", "rule": SIFT["stages"]["answer"]}},
}
CHANCE = {"model": None, "stages": {"answer": {"use": "specialists.answers.Chance"}}}
MLLM = {
    "model": {"use": "pipelines.models.Replay"},
    "stages": {"ask": {"use": "prompting.turns.Ask"}},
}


def made(folder: Path, **answers: tuple[Mapping[str, Any], str]) -> RunScores:
    """A run of one task with the keys AABBA and everybody's answers; "-" abstains, "!" fails, " "
    is none."""
    run = MadeRun(folder)
    run.task("t", ["A", "A", "B", "B", "A"])
    for name, (spec, said) in answers.items():
        point = run.point(name, "t", spec=spec)
        for number, answer in enumerate(said):
            fields: Mapping[str, Any] = {
                "-": {"reason": "abstained: no evidence"},
                "!": {"error": "Traceback"},
            }.get(answer, {"answer": answer})
            if answer != " ":
                call = {"messages": [], "draw": 0, "reply": {"text": answer}}
                calls = (call,) if spec.get("model") else ()
                run.record(point, f"s{number}", **{"calls": calls, **fields})
    return score_run(run.write())


def test_the_four_counts_and_the_oracle(tmp_path: Path) -> None:
    run = made(tmp_path, sift=(SIFT, "AABAB"), mllm=(MLLM, "ABBBB"))
    (pair,) = specialist_pairs(run)
    assert pair.both.shares == [0.6, 0.6, 0.8]
    (line,) = analysed("specialists", run).rows
    shares = ("60.0", "60.0", "80.0\n37.6–96.4", "+20.0", "84.0", "")
    assert line == ("t", "sift", "mllm", *"52111", *shares)


def test_abstaining_is_not_right_and_failing_falls_out(tmp_path: Path) -> None:
    run = made(tmp_path, sift=(SIFT, "-A!B "), mllm=(MLLM, "AABBA"))
    (pair,) = specialist_pairs(run)
    assert (pair.both.n, pair.excluded, pair.both.count(False, True)) == (3, 2, 1)
    assert analysed("specialists", run).rows[0][-1] == "2"


def test_only_specialists_are_paired_and_only_with_models(tmp_path: Path) -> None:
    luck, models = {"lot": (CHANCE, "AAAAA"), "guess": (GUESS, "AAAAA")}, ("ABABA", "A    ")
    x, y = ((MLLM, said) for said in models)
    run = made(tmp_path, one=(SIFT, "AAAAA"), **luck, two=(SIFT, "BBBBB"), x=x, y=y)
    pairs = [
        (pair.specialist.contestant, pair.mllm.contestant, pair.both.n)
        for pair in specialist_pairs(run)
    ]
    assert pairs == [("one", "x", 5), ("one", "y", 1), ("two", "x", 5), ("two", "y", 1)]


def test_without_a_pair_there_is_no_table(tmp_path: Path) -> None:
    run = made(tmp_path, one=(SIFT, "AAAAA"), lot=(CHANCE, "AAAAA"))
    assert not analysed("specialists", run).rows


def test_the_part_of_the_report(tmp_path: Path) -> None:
    run = made(tmp_path, **{"<sift>": (SIFT, "AABAB")}, mllm=(MLLM, "ABBBB"))
    page = write_report([run.folder.path], tmp_path / "out").read_text()
    assert "&lt;sift&gt;" in page
    assert "<sift>" not in page
    assert "80.0 <small>37.6–96.4</small>" in page


CONFIG = """
tasks: {jigsaw: {use: eval.tasks.Photos, kind: jigsaw, n: 4}}
contestants: {chance: {stages: {answer: {use: specialists.answers.Chance}}}}
published:
  human: {source: "Table 1", accuracy: {jigsaw: 99.0, other: 50, macro: 95.67}}
"""


def test_published_rows_stand_beside_the_run(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(CONFIG)
    plan = load_plan(tmp_path / "study.yaml")
    folder = tmp_path / "run"
    made(folder, lot=(CHANCE, "AAAAA"))
    (folder / "run.yaml").write_text(yaml.safe_dump({"config": plan.config}, sort_keys=False))
    run = score_run(RunFolder(folder))
    grid = gap.published_table(make_table([run]))
    assert grid.header == ("who", "source", "jigsaw", "other", "macro")
    assert grid.rows[:1] == [("human", "Table 1", "99.00", "50.00", "95.67")]
    flagged = replace(
        run.points[0],
        point=replace(run.points[0].point, task="jigsaw", facts={"errata": ["mixed"]}),
    )
    header = gap.published_table(make_table([replace(run, points=(flagged,))])).header
    assert header[2:] == ("jigsaw\nsee its errata", "other", "macro")
    assert not analysed("published", made(tmp_path / "bare", lot=(CHANCE, "AAAAA"))).rows


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("human: {accuracy: {jigsaw: 1}}", "source"),
        ("human: {source: x, accuracy: {jigsaw: much}}", "published.human.accuracy.jigsaw"),
        ("human: {source: x, accuracy: {}, more: 1}", "published.human.more"),
    ],
)
def test_a_published_row_says_where_it_stands(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(CONFIG.partition("published:")[0] + f"published:\n  {row}\n")
    with pytest.raises(ConfigError, match=message):
        load_plan(path)


def test_guesses_are_counted(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.task("t", ["A", "A", "B"])
    for name in ("guesser", "sift"):
        run.point(name, "t", spec=GUESS if name == "guesser" else SIFT)
    run.record("p0", "s0", answer="A", notes=("guessed: no evidence",))
    run.record("p0", "s1", answer="B", notes=("guessed: a tie", "something else"))
    run.record("p0", "s2", answer="B", notes=("something else",))
    run.record("p1", "s0", answer="A")
    grid = analysed("guesses", score_run(run.write()))
    assert grid.rows == [("guesser", "t", "3", "2", "1", "100.0", "50.0")]


@pytest.mark.dear
@pytest.mark.parametrize(
    ("limit", "lower", "contrast"),
    [
        (16, [6, 2, 8], [11, 5, 0]),
        pytest.param(None, [30, 4, 28], [40, 22, 0], marks=pytest.mark.slow),
    ],
)
def test_the_configuration_of_cues_on_the_real_items(
    shared_data: Path, tmp_path: Path, limit: int | None, lower: list[int], contrast: list[int]
) -> None:
    """The counts that its comment's reader will find; the ties are points on one row."""
    others = ("haze", "saturation", "brightness", "sharpness", "texture")
    overrides = [
        f"task.path={shared_data / 'blink'}",
        *(f"contestants.{name}=null" for name in others),
    ]
    plan = load_plan(CONFIGS / "blink_depth_cues.yaml", overrides)
    Study(plan, tmp_path, RunOptions(workers=2, limit=limit))()
    run = score_run(RunFolder(tmp_path / plan.name))
    counts = {}
    for scores in run.points:
        verdicts = [entry.verdict.value for entry in scores.all]
        counts[scores.contestant] = [*map(verdicts.count, ("right", "wrong", "unreadable"))]
    assert (counts["lower"], counts["contrast"]) == (lower, contrast)
    assert {pair.mllm.contestant for pair in specialist_pairs(run)} >= {"GPT4V", "MiniGPT-4"}


@needs_extras
@pytest.mark.dear
def test_every_specialist_of_the_table_is_built(shared_data: Path) -> None:
    path = CONFIGS / "blink_specialists.yaml"
    tasks = [name for name in yaml.safe_load(path.read_text())["tasks"] if name != "Relative_Depth"]
    made = [
        f"tasks.{name}={{use: eval.tasks.Photos, kind: jigsaw, n: 2, seed: {i}}}"
        for i, name in enumerate(tasks)
    ]
    plan = load_plan(path, [f"tasks.Relative_Depth.path={shared_data / 'blink'}", *made])
    alone = {name for name in NAMES if sum(point.task_name == name for point in plan.points) == 9}
    assert not alone  # with chance and eight recorded MLLMs
    place = f"tasks.Relative_Depth.path={shared_data / 'blink'}"
    few = load_plan(path, [place, *(f"tasks.{name}=null" for name in tasks)])
    assert {point.task_name for point in few.points} == {"Relative_Depth"}

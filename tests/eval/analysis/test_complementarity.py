"""Specialists compared with MLLMs on the same samples, and published rows next to a run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.eval.analysis.contestants import find_specialist_pairs
from looktwice.eval.display.table import make_table
from looktwice.eval.records import RunFolder
from looktwice.eval.report import write_report
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.tasks.blink import TASK_NAMES
from looktwice.pipelines.config import ConfigError, load_plan
from tests.made_run import MadeRun, analyse
from tests.optional import extension, needs_extras
from tests.paths import CONFIGS

gap = extension("studies.gap")

SIFT: dict[str, Any]
SIFT, GUESS, CHANCE = (
    {"model": None, "stages": {"answer": {"use": f"specialists.answers.{name}", **more}}}
    for name, more in (
        ("MatchedPoint", {}),
        ("Guess", {"rule": {"use": "specialists.answers.MatchedPoint"}}),
        ("Chance", {}),
    )
)
MLLM = {"model": {"use": "Replay"}, "stages": {"ask": {"use": "prompting.turns.Ask"}}}


def score_answers(folder: Path, **answers: tuple[Mapping[str, Any], str]) -> RunScores:
    """A run with the keys AABBA: "-" abstains, "!" fails, " " is not asked."""
    run = MadeRun(folder)
    run.task("t", "AABBA")
    odd = {"-": {"reason": "abstained: no evidence"}, "!": {"error": "Traceback"}}
    for name, (spec, said) in answers.items():
        point = run.point(name, "t", spec=spec)
        for number, answer in enumerate(said):
            call = {"messages": [], "draw": 0, "reply": {"text": answer}}
            fields: Mapping[str, Any] = odd.get(answer, {"answer": answer})
            if answer != " ":
                calls = (call,) if spec.get("model") else ()
                run.record(point, f"s{number}", **{"calls": calls, **fields})
    return score_run(run.write())


def test_the_four_counts_and_the_oracle(tmp_path: Path) -> None:
    run = score_answers(tmp_path, sift=(SIFT, "AABAB"), mllm=(MLLM, "ABBBB"))
    (pair,) = find_specialist_pairs(run)
    assert pair.shared_samples.shares == [0.6, 0.6, 0.8]
    (line,) = analyse("specialists", run).rows
    shares = ("60.0", "60.0", "80.0\n37.6–96.4", "+20.0", "84.0", "")
    assert line == ("t", "sift", "mllm", *"52111", *shares)


def test_abstentions_count_as_wrong_and_failures_are_excluded(tmp_path: Path) -> None:
    run = score_answers(tmp_path, sift=(SIFT, "-A!B "), mllm=(MLLM, "AABBA"))
    (pair,) = find_specialist_pairs(run)
    assert (pair.shared_samples.n, pair.excluded_count, pair.shared_samples.count(False, True)) == (
        3,
        2,
        1,
    )
    assert analyse("specialists", run).rows[0][-1] == "2"
    alone = score_answers(tmp_path / "alone", one=(SIFT, "AAAAA"), lot=(CHANCE, "AAAAA"))
    assert not analyse("specialists", alone).rows


def test_only_specialists_are_paired_and_only_with_models(tmp_path: Path) -> None:
    luck, models = {"lot": (CHANCE, "AAAAA"), "guess": (GUESS, "AAAAA")}, ("ABABA", "A    ")
    x, y = ((MLLM, said) for said in models)
    run = score_answers(tmp_path, one=(SIFT, "AAAAA"), **luck, two=(SIFT, "BBBBB"), x=x, y=y)
    pairs = find_specialist_pairs(run)
    names = [(p.specialist.contestant, p.mllm.contestant, p.shared_samples.n) for p in pairs]
    assert names == [("one", "x", 5), ("one", "y", 1), ("two", "x", 5), ("two", "y", 1)]


def test_complementarity_has_a_section_in_the_report(tmp_path: Path) -> None:
    run = score_answers(tmp_path, **{"<sift>": (SIFT, "AABAB")}, mllm=(MLLM, "ABBBB"))
    page = write_report([run.folder.path], tmp_path / "out").read_text()
    assert "&lt;sift&gt;" in page and "<sift>" not in page
    assert "80.0 <small>37.6–96.4</small>" in page


CONFIG = """
tasks: {jigsaw: {use: eval.tasks.Photos, kind: jigsaw, n: 4}}
contestants: {chance: {stages: {answer: {use: specialists.answers.Chance}}}}
published:
  human: {source: "Table 1", accuracy: {jigsaw: 99.0, other: 50, macro: 95.67}}
"""


def test_published_rows_are_shown_next_to_the_run(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(CONFIG)
    plan, folder = load_plan(tmp_path / "study.yaml"), tmp_path / "run"
    score_answers(folder, lot=(CHANCE, "AAAAA"))
    (folder / "run.yaml").write_text(yaml.safe_dump({"config": plan.config}, sort_keys=False))
    run = score_run(RunFolder(folder))
    grid = gap.make_published_table(make_table([run]))
    assert grid.header == ("who", "source", "jigsaw", "other", "macro")
    assert grid.rows[:1] == [("human", "Table 1", "99.00", "50.00", "95.67")]
    (scores,) = run.points
    point = replace(scores.point, task="jigsaw", facts={"errata": ["mixed"]})
    flagged = replace(run, points=(replace(scores, point=point),))
    header = gap.make_published_table(make_table([flagged])).header
    assert header[2:] == ("jigsaw\nsee its errata", "other", "macro")
    assert not analyse("published", score_answers(tmp_path / "bare", lot=(CHANCE, "AAAAA"))).rows


def test_a_published_row_names_its_source(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    faults = {
        "{accuracy: {jigsaw: 1}}": "source",
        "{source: x, accuracy: {jigsaw: much}}": "published.human.accuracy.jigsaw",
        "{source: x, accuracy: {}, more: 1}": "published.human.more",
    }
    for row, place in faults.items():
        path.write_text(CONFIG.partition("published:")[0] + f"published:\n  human: {row}\n")
        with pytest.raises(ConfigError, match=place):
            load_plan(path)


def test_guesses_are_counted(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.task("t", "AAB")
    guesser, sift = run.point("guesser", "t", spec=GUESS), run.point("sift", "t", spec=SIFT)
    run.record(guesser, "s0", answer="A", notes=("guessed: no evidence",))
    run.record(guesser, "s1", answer="B", notes=("guessed: a tie", "something else"))
    run.record(guesser, "s2", answer="B", notes=("something else",))
    run.record(sift, "s0", answer="A")
    grid = analyse("guesses", score_run(run.write()))
    assert grid.rows == [("guesser", "t", "3", "2", "1", "100.0", "50.0")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "counts"),
    [(16, "6 2 8 11 5 0"), pytest.param(None, "30 4 28 40 22 0", marks=pytest.mark.nightly)],
)
def test_the_configuration_of_cues_on_the_real_items(
    shared_data: Path, tmp_path: Path, limit: int | None, counts: str
) -> None:
    """The counts quoted in its comment; ties are points on one row."""
    words = [f"task.path={shared_data / 'blink'}"]
    for name in ("haze", "saturation", "brightness", "sharpness", "texture"):
        words.append(f"contestants.{name}=null")
    plan = load_plan(CONFIGS / "blink_depth_cues.yaml", words)
    Study(plan, tmp_path, RunOptions(workers=2, limit=limit))()
    run, found = score_run(RunFolder(tmp_path / plan.name)), dict[str, list[int]]()
    for scores in run.points:
        verdicts = [entry.verdict.value for entry in scores.all_records]
        found[scores.contestant] = [*map(verdicts.count, ("right", "wrong", "unreadable"))]
    assert " ".join(map(str, found["lower"] + found["contrast"])) == counts
    assert {pair.mllm.contestant for pair in find_specialist_pairs(run)} >= {"GPT4V", "MiniGPT-4"}


@needs_extras
@pytest.mark.slow
def test_every_specialist_of_the_table_is_built(shared_data: Path) -> None:
    path, place = CONFIGS / "blink_specialists.yaml", shared_data / "blink"
    tasks = [name for name in yaml.safe_load(path.read_text())["tasks"] if name != "Relative_Depth"]
    words, made = [f"tasks.Relative_Depth.path={place}"], list[str]()
    for seed, name in enumerate(tasks):
        made.append(f"tasks.{name}={{use: eval.tasks.Photos, kind: jigsaw, n: 2, seed: {seed}}}")
    plan = load_plan(path, words + made)
    # with chance and eight recorded MLLMs
    assert not [n for n in TASK_NAMES if sum(point.task_name == n for point in plan.points) == 9]
    few = load_plan(path, [*words, *(f"tasks.{name}=null" for name in tasks)])
    assert {point.task_name for point in few.points} == {"Relative_Depth"}

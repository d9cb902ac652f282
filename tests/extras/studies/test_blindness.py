"""The audit: planted items that need no image are found, mirage scores and letters match those by
hand, and the cleaned set runs."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import yaml
from typer.testing import Result

from looktwice.eval import RunFolder, Subset, TaskError, evaluate, write_report
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.records.records import RunError
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import RunScores
from looktwice.extras.scenes import LettersAndShapes
from looktwice.extras.studies.blindness import (
    count_expected_by_chance,
    find_audits,
    find_imageless_items,
    make_audit_page,
    make_letter_table,
)
from looktwice.pipelines import Model, Picture, Sample, Scripted, Stage, State
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.model import CallOptions, Messages, Reply
from looktwice.pipelines.pipeline import NoModel, Pipeline
from looktwice.prompting import Ask, MultipleChoice
from looktwice.prompting.controls import NoImage, PermuteChoices, ShufflePatches
from tests.first_day.studies import looktwice
from tests.made_run import MadeRun
from tests.paths import CONFIGS
from tests.questions_in_memory import Questions

N = 200
KEYS = tuple("ABCD"[(7 * number) % 4] for number in range(N))
# planted: the model knows these from their text
LEAKY = {f"q{number:04}" for number in range(N) if number % 4 == 1}


@dataclass(frozen=True)
class TextReader:
    """Knows the leaked questions by heart, sees what has an image, and otherwise guesses anew for
    every wording."""

    identity: ClassVar[str] = "text reader"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        words = messages[0].text
        number = int(re.findall(r"No. (\d+)\?", words)[0])
        key = f"thing {number}.{'ABCD'.index(KEYS[number])}"
        view = next(iter(messages[0].views), None)
        sees = view is not None and bool(np.ptp(view.pixels))
        if sees or f"q{number:04}" in LEAKY:
            letters = re.findall(rf"\(([A-D])\) {re.escape(key)}$", words, re.M)
            return Reply(f"({letters[0]})")
        guess = hashlib.sha256(f"{draw}\n{words}".encode()).digest()[0] % 4
        return Reply(f"({'ABCD'[guess]})")


def ask_all(path: Path, draws: int, model: Model, n: int = N) -> Table:
    plain: dict[str, Stage] = {"order": PermuteChoices(), "choose": MultipleChoice()}
    arms = {
        "seen": Pipeline({**plain, "ask": Ask()}),
        "no-image": Pipeline({**plain, "image": NoImage(), "ask": Ask()}),
    }
    return evaluate(Questions(KEYS[:n], 4), arms, model, out=path / "run", draws=draws)


def write_equal_arms(
    folder: Path, keys: list[str], said: list[str], draws: int, **more: int
) -> RunScores:
    """Write a run in which the arms with and without the image say the same in every draw."""
    run = MadeRun(folder / "run")
    run.task("depth", keys, **more)
    for arm in (run.point(name, "depth", draws=draws) for name in ("seen", "no-image")):
        for draw in range(draws):
            run.answers(arm, said, draw=draw)
    return score_run(run.write())


def report(folder: Path) -> Result:
    return looktwice("analyse", folder, "audit")


@pytest.mark.slow
def test_planted_leaks_are_found_with_precision_and_recall(tmp_path: Path) -> None:
    (run,) = ask_all(tmp_path, 6, TextReader()).scores
    audited, clean = find_audits(run), run.folder.path / "clean.yaml"
    listed = {item.sample for item in find_imageless_items(audited)}
    precision, recall = len(listed & LEAKY) / len(listed), len(listed & LEAKY) / len(LEAKY)
    assert precision >= 0.99 and recall >= 0.99
    lucky = {item.sample for item in find_imageless_items(audited, "any")}
    assert lucky > LEAKY and len(lucky) == pytest.approx(
        count_expected_by_chance(audited, "any"), abs=30
    )
    (audit,) = audited
    assert audit.compute_mirage("no-image") == pytest.approx(0.25 + 0.75 * 0.25, abs=0.04)
    assert audit.compute_excess("no-image") == pytest.approx(0.25, abs=0.05)
    page = make_audit_page(run, audited)
    assert "items need no image" in page and "## Letters" in page
    result = report(run.folder.path)
    assert result.exit_code == 0 and f"{len(listed)} of {N} items need no image" in result.output
    kept = yaml.safe_load(clean.read_text())["tasks"]["task"]["subset"]["ids"]
    assert set(kept) == {row.id for row in run.folder.samples.values()} - listed
    rows = score_table(run.folder.path, only=clean)
    row = next(r for r in rows if r.contestant == "no-image" and r.metric == "accuracy")
    assert (row.task, row.n) == ("task (clean)", N - len(listed))
    assert row.value == pytest.approx(0.25, abs=0.04)


def test_the_numbers_by_hand(tmp_path: Path) -> None:
    """Right on 3 of 4 with the image and 2 of 4 without: mirage 2/3; chance is 1/2, so nothing is
    above it. It says A to both questions with key B, so it may say A to the others by preference.
    """
    run = MadeRun(tmp_path / "run")
    run.task("depth", ["A", "B", "A", "B"])
    for name, given in (("seen", "ABAA"), ("no-image", "AAAA"), ("else", "AAAA")):
        run.answers(run.point(name, "depth"), given)
    run.write()
    scored = score_run(RunFolder(tmp_path / "run"))
    (audit,) = find_audits(scored)
    assert list(audit.arms) == ["seen", "no-image"]
    assert (
        audit.compute_mirage("no-image") == pytest.approx(2 / 3)
        and audit.compute_excess("no-image") == 0.0
    )
    assert [(item.right_count, item.asked_count) for item in audit.items] == [(1, 1), (0, 1)] * 2
    bias = audit.items[0].p
    assert 0.9 < bias < 1 and [item.p for item in audit.items] == [bias, 1.0] * 2
    assert find_imageless_items([audit]) == [] and len(find_imageless_items([audit], "any")) == 2
    never = float(audit.bias.compute_tails(1)[1, 1])  # no B was said where it is wrong
    assert count_expected_by_chance([audit], "any") == pytest.approx(2 * bias + 2 * never)
    seen, blind = make_letter_table(scored, [audit]).rows
    assert seen[3:5] == ("A 75 B 25", "A 100 B 50") and blind[3:5] == ("A 100 B 0", "A 100 B 0")


def test_chance_levels_refer_to_the_compared_samples(tmp_path: Path) -> None:
    """All open questions failed without their image, so chance is one half, and each of three
    models adds false finds. It knows thirty of forty questions and guesses on the others."""
    run = MadeRun(tmp_path / "run")
    run.task("depth", ["A", "B"] * 20)
    run.task("depth", ["1"] * 10, choices=0)
    open_ones = [
        replace(row, sample={**row.sample, "id": f"open {row.id}"}) for row in run.samples[40:]
    ]
    run.samples[40:] = open_ones
    run.answers(run.point("seen", "depth"), ["A", "B"] * 20 + ["1"] * 10)
    blind = run.point("no-image", "depth", draws=12)
    for draw in range(12):
        lots = np.random.default_rng(draw).permutation(["A", "B"] * 5)
        run.answers(blind, ["A", "B"] * 15 + [*lots], draw=draw)
    for row in open_ones:
        run.record(blind, row.id, error="the server was gone")
    run.write()
    (audit,) = find_audits(score_run(RunFolder(tmp_path / "run")))
    assert audit.compute_excess("no-image") == pytest.approx(0.75, abs=0.1)
    assert len(find_imageless_items([audit] * 3)) == 30 and count_expected_by_chance(
        [audit] * 3, "chance"
    ) == pytest.approx(0.9)


def test_samples_that_cannot_be_listed_are_reported(tmp_path: Path) -> None:
    """A model that always picks the first choice knows nothing, though 45 of 90 questions are right
    in every draw."""
    scored = write_equal_arms(tmp_path, ["A", "B"] * 45, ["A"] * 90, 6)
    audited = find_audits(scored)
    assert find_imageless_items(audited) == [] and make_audit_page(scored, audited).endswith(
        "none\n"
    )
    words = " ".join(report(tmp_path / "run").output.split())
    assert "6 draws per question cannot show that" in words and "in 100%" in words


def test_open_answers_are_compared_with_the_keys_of_other_questions(tmp_path: Path) -> None:
    """It says 3 to every count, which is right for twelve and no find; the six specific keys that
    it says are finds."""
    keys = ["3", "4", "5"] * 12 + [f"1{number}" for number in range(6)]
    scored = write_equal_arms(tmp_path, keys, ["3"] * 36 + keys[36:], 8, choices=0)
    found = {item.sample for item in find_imageless_items(find_audits(scored))}
    assert found == {f"s{number}" for number in range(36, 42)}


def test_letters_are_counted_as_shown(tmp_path: Path) -> None:
    """A model that always says A is right on a quarter, and on all if the key comes first."""
    scored = ask_all(tmp_path, 2, Scripted("(A)"), 40).scores[0]
    rows = make_letter_table(scored, find_audits(scored)).rows
    assert [row[3] for row in rows] == ["A 100 B 0 C 0 D 0"] * 2 and rows[0][4] == rows[0][3]


def test_patches_are_shuffled_and_none_is_lost() -> None:
    pixels = np.arange(10 * 13 * 3, dtype=np.uint8).reshape(10, 13, 3)
    state = State.start(Sample("s", "q", (Picture(pixels),)))
    (view,) = ShufflePatches(2, 3)(state, NoModel()).views
    assert view.size == (13, 10) and not np.array_equal(view.pixels, pixels)
    assert sorted(view.pixels.reshape(-1, 3).tolist()) == sorted(pixels.reshape(-1, 3).tolist())
    assert np.array_equal(view.pixels[:, 12], pixels[:, 12])
    before, after = (
        {whole[y : y + 5, x : x + 4].tobytes() for y in (0, 5) for x in (0, 4, 8)}
        for whole in (pixels, view.pixels)
    )
    assert before == after
    with pytest.raises(ValueError, match="cannot be cut into"):
        ShufflePatches(11, 2)(state, NoModel())
    with pytest.raises(ValueError, match="two patches"):
        ShufflePatches(1, 1)


def test_a_subset_by_ids() -> None:
    rows: list[tuple[str, dict[str, str]]] = [(name, {}) for name in "abcd"]
    assert Subset(ids=("d", "a", "d")).choose(rows) == [0, 3]
    assert Subset(n=1, ids=("d", "a")).choose(rows) in ([0], [3])
    with pytest.raises(TaskError, match="no item 'x'; ids look like 'a'"):
        Subset(ids=("x",)).choose(rows)
    task = LettersAndShapes(n=6, subset=Subset(ids=("count_0003",)))
    assert [item.sample.id for item in task] == ["count_0003"]


def make_run(folder: Path, answers: str) -> Path:
    """Write a run of one arm with images, whose keys are A and B."""
    run = MadeRun(folder / "run")
    run.task("depth", [*"AB"[: len(answers)]])
    run.answers(run.point("seen", "depth"), answers)
    return run.write().path


def test_an_invalid_subset_file_is_refused(tmp_path: Path) -> None:
    run, other = make_run(tmp_path, "A"), "tasks: {other: {subset: {ids: [s0]}}}"
    for text, said in (
        ("", "names no task"),
        ("tasks: 5", "not a subset file"),
        ("a: [", "not a subset file"),
        (other, "names no sample"),
    ):
        (tmp_path / "clean.yaml").write_text(text)
        with pytest.raises(RunError, match=said):
            score_table(run, only=tmp_path / "clean.yaml")
    assert report(run).exit_code == 2 and "run blindness" in report(run).output


def test_the_cleaned_subset_is_applied_to_the_study(tmp_path: Path) -> None:
    (tmp_path / "clean.yaml").write_text("task: {subset: {ids: [color_00003, color_00001]}}\n")
    (tmp_path / "study.yaml").write_text((CONFIGS / "blindness.yaml").read_text())
    (tmp_path / "both.yaml").write_text("include: [study.yaml, clean.yaml]\n")
    task = load_plan(tmp_path / "both.yaml").points[0].task
    assert [item.sample.id for item in task] == ["color_00001", "color_00003"]


def test_the_report_shows_a_subset_next_to_the_whole(tmp_path: Path) -> None:
    run, clean = make_run(tmp_path, "AA"), tmp_path / "clean.yaml"
    clean.write_text("tasks: {depth: {subset: {ids: [s1]}}}\n")
    result = looktwice("score", run, "--report", "--only", clean)
    assert result.exit_code == 0 and (run / "clean" / "report.csv").exists()
    assert "depth (clean)" not in write_report([run], tmp_path / "whole").read_text()

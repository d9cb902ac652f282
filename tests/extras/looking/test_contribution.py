"""Certification of the tool of an agent."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.display.text_tables import format_with_interval
from looktwice.eval.recorded.replay import replay
from looktwice.eval.records import RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import RunScores
from looktwice.extras.looking.contribution import (
    Certificate,
    find_certificates,
    format_certificates,
)
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.view import View
from looktwice.prompting.agent import BlackImages, NoResult, ToolResult
from tests.made_run import MadeRun
from tests.optional import extension, require_extras
from tests.paths import CONFIGS

blindness = extension("studies.blindness")

SMALL = (
    "task.width=640",
    "task.height=480",
    "task.largest=40",
    "task.smallest=10",
    "stages.agent.fit.pixels=320",
    "contestants.without.stages.fit.pixels=320",
)
CHEATER = "models.eyes={use: eval.tasks.NeverLooks, careless: true}"


def run_arms(out: Path, *overrides: str) -> RunScores:
    require_extras()  # the questions and models of the configuration are extensions
    plan = load_plan(CONFIGS / "tool_contribution.yaml", [*SMALL, *overrides])
    outcome = Study(plan, out, RunOptions(workers=2), console=Console(quiet=True))()
    return score_run(RunFolder(outcome.folder))


@pytest.mark.slow
def test_a_model_that_ignores_pixels_gains_nothing_from_them(tmp_path: Path) -> None:
    run = run_arms(tmp_path, "task.n=48", "task.leak=0.4", CHEATER)
    (certificate,) = find_certificates(run)
    assert certificate.gain.value > 0.2 and certificate.gain.low > 0.05
    for role in ("black", "random", "words", "format"):
        part = certificate.compute_difference("full", role)
        assert part.value == 0.0 and part.low == -part.high
        assert part.high == pytest.approx(0.0741, abs=1e-4)
    assert certificate.verdict[1].startswith(
        f"Of {100 * certificate.gain.value:.1f} points gained, 0.0 [\u2212"
    )
    assert "need the pixels (not significant)" in certificate.verdict[1]
    assert certificate.solved_shares["blind"] == 1.0 and certificate.setting_differences == []
    split = certificate.gains_by_call
    gains, harms = (
        split["call gain"] + split["schema gain"],
        split["call harm"] + split["schema harm"],
    )
    assert gains - harms == pytest.approx(certificate.gain.value) and split["schema gain"] == 0


@pytest.mark.slow
def test_the_near_sighted_model_gets_its_true_gain(tmp_path: Path) -> None:
    """By construction, letters below 20 pixels as sent cannot be read without a look."""
    run = run_arms(tmp_path, "task.n=12")
    (certificate,) = find_certificates(run)
    small = {
        name
        for name, row in certificate.arms["full"].samples.items()
        if row.meta["px"] * 320 / 640 < 20
    }
    assert certificate.gain.value == pytest.approx(len(small) / 12, abs=1.5 / 12)
    assert certificate.compute_difference("full", "black").value == certificate.gain.value > 0.4
    assert certificate.compute_difference("full", "black").low > 0
    assert certificate.compute_difference("black", "without").value == 0.0
    assert certificate.compute_difference("full", "result").value == 0.0
    page = format_certificates(run, [certificate])
    words = ("need the pixels", "IoU", "Seed, model, sizes and budgets are the same")
    assert all(said in page for said in words)
    assert replay(run.folder.path).all_reproduced
    result = CliRunner().invoke(app, ["analyse", str(run.folder.path), "certify"])
    assert result.exit_code == 0 and (run.folder.path / "certificate.md").read_text() == page


def write_arms(
    path: Path, arms: Sequence[str], answers: Sequence[str], *, other: str = ""
) -> Certificate:
    """Arms with their answers to five questions with the key A."""
    run = MadeRun(path)
    run.task("depth", ["A"] * 5)
    for name, given in zip(arms, answers, strict=True):
        run.answers(run.point(name, "depth", seed=int(name == other)), given)
    run.write()
    (certificate,) = find_certificates(score_run(RunFolder(path)))
    return certificate


def test_the_numbers_match_an_example_computed_by_hand(tmp_path: Path) -> None:
    """Full is right on 4 of 5, without on 1, black on 3, three of them also solved by full."""
    certificate = write_arms(
        tmp_path / "run", ("without", "full", "black"), ("ABBBB", "AAAAB", "AAABB"), other="black"
    )
    assert (
        certificate.gain.value,
        certificate.compute_difference("full", "black").value,
    ) == pytest.approx((0.6, 0.2))
    assert certificate.solved_shares == pytest.approx(
        {"without": 0.25, "black": 0.75, "blind": 0.75}
    )
    assert certificate.verdict[1].startswith("Separately") or "20.0 [" in certificate.verdict[1]
    assert certificate.gains_by_call == pytest.approx(
        {"call gain": 0, "schema gain": 0.6, "call harm": 0, "schema harm": 0}
    )
    assert certificate.setting_differences == ["black differs from full in seed"]


def test_samples_of_one_picture_are_one_cluster_of_every_difference(tmp_path: Path) -> None:
    """Forty samples of eight pictures are as certain as eight samples."""
    widths = list[float]()
    for name, meta in (
        ("own", [{}] * 40),
        ("shared", [{"group": number // 5} for number in range(40)]),
    ):
        run = MadeRun(tmp_path / name)
        run.task("depth", ["A"] * 40, meta=meta)
        for arm, given in (
            ("without", "B" * 40),
            ("full", "A" * 20 + "B" * 20),
            ("black", "B" * 40),
        ):
            run.answers(run.point(arm, "depth"), given)
        for arm, given in (("seen", "A" * 20 + "B" * 20), ("no-image", "B" * 40)):
            run.answers(run.point(arm, "depth"), given)
        run.write()
        scored = score_run(RunFolder(run.path))
        (certificate,), (audit,) = find_certificates(scored), blindness.find_audits(scored)
        widths.append(certificate.gain.high - certificate.gain.low)
        back = certificate.compute_difference("without", "full")
        told = format_with_interval(back.value, back.low, back.high, sign=True)
        assert [row[5] for row in blindness.make_arm_table([audit], []).rows] == ["", told]
    assert certificate.gain.clusters == 8 and certificate.gain.p == 2 / 2**4
    assert widths[1] > 1.8 * widths[0]


def test_roles_can_have_other_names_and_missing_ones_are_reported(tmp_path: Path) -> None:
    run = MadeRun(tmp_path / "run")
    run.task("depth", ["A"] * 4)
    for name, given in (("glance", "ABBB"), ("full", "AAAB"), ("dark", "ABBB")):
        run.answers(run.point(name, "depth"), given)
    run.write()
    command, certify = CliRunner(), ["analyse", str(tmp_path / "run"), "certify"]
    lacking = command.invoke(app, certify)
    assert lacking.exit_code == 2 and "has glance, full, dark" in lacking.output
    roles = ["role.without=glance", "role.black=dark"]
    result = command.invoke(app, [*certify, *roles])
    assert result.exit_code == 0 and "need the pixels" in result.output
    assert command.invoke(app, [*certify, "role.grey=dark"]).exit_code == 2
    records = str(tmp_path / "run" / "records.jsonl")
    taken = command.invoke(app, [*certify, *roles, "--out", records])
    assert taken.exit_code == 2 and "name another file" in taken.output


def test_controls_of_results() -> None:
    import numpy as np

    from looktwice.pipelines.sample import Sample
    from looktwice.pipelines.state import State

    state, view = State(Sample("s", "q")), View(Picture(np.full((8, 6, 3), 99, np.uint8)))
    dark = BlackImages()(ToolResult("words", (view,)), state)
    assert dark.text == "words" and dark.views[0].size == (6, 8) and not dark.views[0].pixels.any()
    assert NoResult()(ToolResult("words", (view,)), state).text == "done"
    assert NoResult()(ToolResult("words", (view,)), state).views == ()
    assert (
        NoResult()(ToolResult(answer="A"), state).answer == "A"
        and NoResult()(ToolResult(undo=True), state).undo
    )

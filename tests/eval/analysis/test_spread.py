"""The spread over a contestant's variants."""

from __future__ import annotations

from pathlib import Path

from looktwice.eval.analysis.steadiness import spread_table
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.runs import Study
from looktwice.pipelines.config import load_plan

STUDY = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 8}
model: {use: pipelines.models.Scripted, answer: (A)}
stages:
  mark: {use: prompting.markers.Circles}
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
sweep: {stages.mark.color: [red, blue, gray]}
contestants:
  styles: {}
  chance: {replace: true, stages: {answer: {use: specialists.answers.Chance}}}
"""


def scored(tmp_path: Path) -> Table:
    (tmp_path / "styles.yaml").write_text(STUDY)
    return score_table([Study(load_plan(tmp_path / "styles.yaml"), tmp_path)().folder])


def test_mean_worst_and_spread_over_the_variants(tmp_path: Path) -> None:
    found = spread_table(scored(tmp_path))
    assert len(found.rows) == 1
    line = dict(zip(found.header, found.rows[0], strict=True))
    assert (line["contestant"], line["task"], line["variants"]) == ("styles", "jigsaw", "3")
    assert (line["mean %"], line["worst %"], line["best %"], line["spread"]) == (
        "50.0",
        "50.0",
        "50.0",
        "0.0",
    )
    assert line["worst variant"].startswith("mark.color=")


def test_micro_over_variants_counts_a_question_once(tmp_path: Path) -> None:
    text = STUDY.replace(
        "sweep: {stages.mark.color: [red, blue, gray]}", "sweep: {task.quality: [90, 30]}"
    )
    (tmp_path / "quality.yaml").write_text(text)
    rows = score_table([Study(load_plan(tmp_path / "quality.yaml"), tmp_path)().folder]).rows
    micro = [
        row
        for row in rows
        if row.task == "micro" and row.metric == "accuracy" and row.contestant == "chance"
    ]
    assert [(row.n, row.clusters, row.compared, row.n_clusters) for row in micro] == [
        (16, 8, 16, 8)
    ]

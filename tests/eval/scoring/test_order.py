"""The order of records changes no number."""

import json
import random
from pathlib import Path

import pytest

from looktwice.eval.analysis.factors import effects_csv
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.runs import Study
from looktwice.eval.runs.options import RunOptions
from looktwice.pipelines.config import load_plan
from tests.optional import extension

merge = extension("executors.merge")

STUDY = """
name: study
tasks:
  near: {use: eval.tasks.Folder, path: near}
  far: {use: eval.tasks.Folder, path: far}
stages:
  answer: {use: specialists.answers.Chance, slot: one}
draws: 3
each: [{stages.answer.slot: two}, {stages.answer.slot: three}]
baseline: plain
contestants:
  plain: {}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two tasks of 60 questions each in 25 groups, three draws of guesses."""
    same = {"question": "Which?", "choices": ["a", "b", "c"]}
    for task in ("near", "far"):
        (tmp_path / task).mkdir()
        with (tmp_path / task / "samples.jsonl").open("w") as file:
            for n in range(60):
                own = {"answer": "ABC"[n % 3], "meta": {"group": f"g{n % 25}", "size": n % 4}}
                file.write(json.dumps({"id": f"{task}{n}", **same, **own}) + "\n")
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path / "study.yaml"


def run(study: Path, out: str, **options: object) -> Path:
    plan = load_plan(study)
    return Study(plan, study.parent / out, RunOptions(**{"workers": 1, **options}))().folder  # type: ignore[arg-type]


def files(folder: Path) -> tuple[str, str]:
    """report.csv, with slices, and effects.csv."""
    table: Table = score_table(folder, by=["size"])
    return table.csv, effects_csv(table)


@pytest.mark.slow
def test_shards_workers_and_record_order_do_not_change_the_files(study: Path) -> None:
    """Regression: signs depended on the order, so 8 of 244 rows differed after merging."""
    whole = run(study, "whole")
    wanted = files(whole)
    shards = [run(study, f"shard{number}", shard=(number, 2)) for number in (1, 2)]
    merge.merge([*reversed(shards)], study.parent / "merged" / "study")
    assert files(study.parent / "merged" / "study") == wanted
    assert files(run(study, "threads", workers=3)) == wanted
    for seed in range(3):
        for name in ("records.jsonl", "samples.jsonl"):
            lines = (whole / name).read_text().splitlines(keepends=True)
            random.Random(seed).shuffle(lines)
            (whole / name).write_text("".join(lines))
        assert files(whole) == wanted

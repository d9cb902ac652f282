"""How far every table is from what people reach, where a published row of the configuration says
it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from looktwice.eval import Results, RunFolder, score_table
from looktwice.eval.cli import app
from looktwice.eval.tasks import PairScorer
from looktwice.extras.studies.gap import published_table
from looktwice.pipelines.config.spec import spec
from tests.made_run import MadeRun
from tests.paths import ROOT

PEOPLE = {
    "people, val": {
        "people": True,
        "accuracy": {"cups": 90.0, "gc.pair_accuracy": 95.5, "overall": 97.0},
    },
    "people, test": {"people": True, "accuracy": {"cups": 80.0, "balls": 70.0}},
    "Model": {"source": "Table 1", "accuracy": {"cups": 50.0}},
}


def run(root: Path, right: int, published: dict[str, Any] = PEOPLE, split: str = "") -> RunFolder:
    """`right` of ten cups, of which people reach 90 %, and five of ten balls, of which people reach
    70 %."""
    made = MadeRun(root / f"run{right}")
    for name, count in (("cups", right), ("balls", 5)):
        made.task(name, ["A"] * 10)
        made.answers(
            made.point("plain", name, facts={"split": split}), ["A"] * count + ["B"] * (10 - count)
        )
    (made.write().path / "run.yaml").write_text(
        yaml.safe_dump({"config": {"published": published}}, sort_keys=False)
    )
    return RunFolder(made.path)


def looktwice(*words: object) -> str:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.output


def test_the_first_row_of_people_that_names_a_task_counts(tmp_path: Path) -> None:
    rows = {
        (row.contestant, row.task): row
        for row in score_table(run(tmp_path, 6).path).where(metric="accuracy")
    }
    assert {key: row.people for key, row in rows.items() if key[0] == "plain"} == {
        ("plain", "cups"): 0.9,
        ("plain", "balls"): 0.7,
        ("plain", "macro"): None,
        ("plain", "micro"): None,
    }


SPLITS = {
    "people": {"people": True, "split": "val", "accuracy": {"cups": 90.0}},
    "people on test": {
        "people": True,
        "split": "test",
        "accuracy": {"cups": 80.0, "balls": 70.0, "macro": 99.0},
    },
    "Model": {"split": "test", "accuracy": {"cups": 50.0}},
}


@pytest.mark.parametrize(
    ("split", "cups", "others", "names"),
    [
        ("val", 0.9, None, {"people", "people on test", "Model on test"}),
        ("test", 0.8, 0.7, {"people on val", "people on test", "Model"}),
        ("", 0.9, 0.7, {"people", "people on test", "Model"}),
    ],
)
def test_people_on_another_split_are_named_so_and_compared_with_nothing(
    tmp_path: Path, split: str, cups: float, others: float | None, names: set[str]
) -> None:
    folder = run(tmp_path, 6, SPLITS, split)
    table = score_table(folder.path)
    rows = {row.task: row.people for row in table.where(metric="accuracy", contestant="plain")}
    assert rows == {"cups": cups, "balls": others, "macro": others and 0.99, "micro": None}
    assert {line[0] for line in published_table(table).rows if line[1] == ""} == names
    if split == "val":
        output = looktwice("score", folder.path, "--table", "full")
        assert "-20.0" not in output  # 50 less 70, on test


@pytest.mark.parametrize(
    "config", ["blink_bench", "blink_specialists", "dysm_bench", "dysm_redraw", "vlm2_bench"]
)
def test_shipped_people_of_a_benchmark_with_several_splits_say_which(config: str) -> None:
    rows = yaml.safe_load((ROOT / f"configs/{config}.yaml").read_text(encoding="utf-8"))[
        "published"
    ]
    people = {name: row for name, row in rows.items() if name.startswith("people")}
    assert people
    if config.startswith("blink"):
        assert all(row["split"] in ("val", "test") for row in people.values())
        assert len(people["people"]["accuracy"]) >= 6 and people["people"]["split"] == "val"


def test_terminal_report_and_page_say_the_gap(tmp_path: Path) -> None:
    folder = run(tmp_path, 6)
    output = looktwice("score", folder.path, "--table", "full")
    (line,) = (
        line for line in output.splitlines() if line.strip().startswith("plain") and "60.0" in line
    )
    assert line.rstrip().endswith("-30.0")
    looktwice("score", folder.path, "--report", "--out", tmp_path / "out")
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    overview = report.split("## Accuracy")[1].split("## ")[0]
    assert "less people -30.0" in overview and "less people -20.0" in overview
    section = report.split("## cups")[1].split("## ")[0]
    assert "less<br>people |" in section and "-30.0 |" in section
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "less people -30.0" in page and "less people -20.0" in page


def test_the_published_table_has_the_gap_below_each_contestant(tmp_path: Path) -> None:
    table = score_table(run(tmp_path, 6).path)
    shown = published_table(table)
    lines = {line[0]: dict(zip(shown.header, line, strict=True)) for line in shown.rows}
    assert (lines["plain, less people"]["cups"], lines["plain, less people"]["balls"]) == (
        "-30.00",
        "-20.00",
    )
    assert lines["plain"]["cups"] == "60.00" and lines["Model"]["cups"] == "50.00"


def test_metrics_and_totals_of_a_benchmark_have_it_too(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run")
    meta = [{"pair": str(n // 2), "positive": not n % 2, "subtask": "GC-Mat"} for n in range(4)]
    made.task("gc", ["T", "F"] * 2, choices=0, meta=meta)
    made.answers(
        made.point("plain", "gc", facts={"scorer": spec(PairScorer("GC-Mat"))}),
        ["T", "F", "T", "T"],
    )
    (made.write().path / "run.yaml").write_text(
        yaml.safe_dump({"config": {"published": PEOPLE}}, sort_keys=False)
    )
    (row,) = score_table(made.path).where(metric="pair_accuracy", contestant="plain")
    assert (row.value, row.people) == (0.5, 0.955)


def test_the_papers_table_has_people_and_the_points_less_that(tmp_path: Path) -> None:
    latex = Results.open(run(tmp_path, 6).path).to_latex()
    assert "people, as published & 90.0 & 70.0 & -- \\\\" in latex
    assert "plain, less people & $-30.0$ & $-20.0$ & -- \\\\" in latex
    assert "People: as published" in latex


def test_a_comparison_has_the_gap_of_its_samples(tmp_path: Path) -> None:
    runs = run(tmp_path, 6).path, run(tmp_path, 8, {}).path
    output = looktwice("compare", *runs, "--out", tmp_path / "compare")
    assert "less" in output and "-10.0" in output
    with (tmp_path / "compare" / "compare.csv").open(encoding="utf-8") as file:
        rows = {row["task"]: row for row in csv.DictReader(file)}
    assert {task: float(row["people"]) for task, row in rows.items()} == pytest.approx(
        {"all tasks": 0.8, "cups": 0.9, "balls": 0.7}
    )
    page = (tmp_path / "compare" / "compare.html").read_text(encoding="utf-8")
    text = (tmp_path / "compare" / "compare.md").read_text(encoding="utf-8")
    assert "-15.0 |" in text and "-10.0 |" in text and "-15.0" in page  # 65 less 80, and 80 less 90


def test_without_a_row_of_people_nothing_is_said(tmp_path: Path) -> None:
    folder = run(tmp_path, 6, {"Model": PEOPLE["Model"]})
    looktwice("score", folder.path, "--report", "--out", tmp_path)
    assert (
        "people" not in (tmp_path / "report.md").read_text(encoding="utf-8").split("## Method")[0]
    )
    assert "eople" not in Results.open(folder.path).to_latex()
    assert "people" not in looktwice("score", folder.path, "--table", "full")

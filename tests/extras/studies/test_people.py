"""The gap of every table to human accuracy, if a published row of the configuration gives it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.eval import Results, RunFolder, score_table
from looktwice.extras.studies.gap import make_published_table
from looktwice.extras.vlm2 import PairScorer
from looktwice.pipelines.config.spec import spec
from tests.first_day.studies import get_output, looktwice
from tests.made_run import MadeRun
from tests.paths import ROOT
from tests.tables import read_yaml, table

DATA = read_yaml(Path(__file__).with_suffix(".yaml"))
PEOPLE, SPLITS = DATA["people"], DATA["people of splits"]


def write_run(made: MadeRun, published: dict[str, Any]) -> RunFolder:
    """The run with these published rows in its configuration."""
    text = yaml.safe_dump({"config": {"published": published}}, sort_keys=False)
    (made.write().path / "run.yaml").write_text(text)
    return RunFolder(made.path)


def run(root: Path, right: int, published: dict[str, Any] = PEOPLE, split: str = "") -> RunFolder:
    """`right` of ten cups, with human accuracy 90 %, and five of ten balls, with human accuracy 70
    %."""
    made = MadeRun(root / f"run{right}")
    for name, count in (("cups", right), ("balls", 5)):
        made.task(name, ["A"] * 10)
        point = made.point("plain", name, facts={"split": split})
        made.answers(point, ["A"] * count + ["B"] * (10 - count))
    return write_run(made, published)


def test_the_first_human_row_that_names_a_task_is_used(tmp_path: Path) -> None:
    rows = score_table(run(tmp_path, 6).path).where(metric="accuracy", contestant="plain")
    people = {row.task: row.people for row in rows}
    assert people == {"cups": 0.9, "balls": 0.7, "macro": None, "micro": None}


@table
def test_human_results_on_another_split_are_labelled_and_not_compared(
    tmp_path: Path, split: str, cups: float, others: float | None, names: list[str]
) -> None:
    folder = run(tmp_path, 6, SPLITS, split)
    shown = score_table(folder.path)
    rows = {row.task: row.people for row in shown.where(metric="accuracy", contestant="plain")}
    assert rows == {"cups": cups, "balls": others, "macro": others and 0.99, "micro": None}
    assert {line[0] for line in make_published_table(shown).rows if line[1] == ""} == {*names}
    if split == "val":
        output = get_output("score", folder.path, "--table", "full")
        assert "\u221220.0" not in output  # 50 less 70, on test


@pytest.mark.parametrize(
    "config", ["blink_bench", "blink_specialists", "dysm_bench", "dysm_redraw", "vlm2_bench"]
)
def test_shipped_human_results_name_their_split(config: str) -> None:
    rows = read_yaml(ROOT / f"configs/{config}.yaml")["published"]
    people = {name: row for name, row in rows.items() if name.startswith("people")}
    assert people
    if config.startswith("blink"):
        assert all(row["split"] in ("val", "test") for row in people.values())
        assert len(people["people"]["accuracy"]) >= 6 and people["people"]["split"] == "val"


def test_terminal_report_and_page_show_the_gap_to_people(tmp_path: Path) -> None:
    folder, out = run(tmp_path, 6), tmp_path / "out"
    output = looktwice("score", folder.path, "--table", "full").output
    (line,) = (line for line in output.splitlines() if "plain" in line and "60.0" in line)
    assert line.rstrip().endswith("\u221230.0")
    get_output("score", folder.path, "--report", "--out", out)
    report, page = ((out / f"report.{end}").read_text("utf-8") for end in ("md", "html"))
    overview = report.split("## Accuracy")[1].split("## ")[0]
    for shown in (overview, page):
        assert "vs people \u221230.0" in shown and "vs people \u221220.0" in shown
    section = report.split("## cups")[1].split("## ")[0]
    assert "vs<br>people |" in section and "\u221230.0 |" in section


def test_published_table_and_latex_have_the_gap_below_each_contestant(tmp_path: Path) -> None:
    folder = run(tmp_path, 6)
    shown = make_published_table(score_table(folder.path))
    lines = {line[0]: dict(zip(shown.header, line, strict=True)) for line in shown.rows}
    less = lines["plain, vs people"]
    assert (less["cups"], less["balls"]) == ("\u221230.00", "\u221220.00")
    assert lines["plain"]["cups"] == "60.00" and lines["Model"]["cups"] == "50.00"
    latex = Results.open(folder.path).to_latex()
    assert "people, as published & 90.0 & 70.0 & -- \\\\" in latex
    assert "plain, vs people & $-30.0$ & $-20.0$ & -- \\\\" in latex


def test_metrics_and_totals_of_a_benchmark_have_the_gap_too(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run")
    meta = [{"pair": str(n // 2), "positive": not n % 2, "subtask": "GC-Mat"} for n in range(4)]
    made.task("gc", ["T", "F"] * 2, choices=0, meta=meta)
    point = made.point("plain", "gc", facts={"scorer": spec(PairScorer("GC-Mat"))})
    made.answers(point, ["T", "F", "T", "T"])
    shown = score_table(write_run(made, PEOPLE).path)
    (row,) = shown.where(metric="pair_accuracy", contestant="plain")
    assert (row.value, row.people) == (0.5, 0.955)


def test_a_comparison_has_the_gap_on_its_samples(tmp_path: Path) -> None:
    runs, out = (run(tmp_path, 6).path, run(tmp_path, 8, {}).path), tmp_path / "compare"
    output = get_output("compare", *runs, "--out", out)
    assert "vs" in output and "\u221210.0" in output
    with (out / "compare.csv").open(encoding="utf-8") as file:
        people = {row["task"]: float(row["people"]) for row in csv.DictReader(file)}
    assert people == pytest.approx({"all tasks": 0.8, "cups": 0.9, "balls": 0.7})
    page, text = ((out / f"compare.{end}").read_text("utf-8") for end in ("html", "md"))
    assert (
        "\u221215.0 |" in text and "\u221210.0 |" in text and "\u221215.0" in page
    )  # 65 less 80, and 80 less 90


def test_without_human_results_no_gap_is_shown(tmp_path: Path) -> None:
    folder = run(tmp_path, 6, {"Model": PEOPLE["Model"]})
    get_output("score", folder.path, "--report", "--out", tmp_path)
    assert "people" not in (tmp_path / "report.md").read_text("utf-8").split("## Method")[0]
    assert "eople" not in Results.open(folder.path).to_latex()
    assert "people" not in get_output("score", folder.path, "--table", "full")

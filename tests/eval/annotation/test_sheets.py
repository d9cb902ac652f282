"""Sheets for people: what is drawn, what is hidden, and the numbers that come back, computed by
hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas
import pytest
from typer.testing import CliRunner

from looktwice.eval import MarkedScenes, evaluate
from looktwice.eval.annotation.ratings import (
    Ratings,
    agreement_lines,
    answer_table,
    read_ratings,
    share_table,
)
from looktwice.eval.annotation.sheet import SheetItem, SheetKey, draw_sheet, write_sheet
from looktwice.eval.cli import app
from looktwice.eval.logs import Log, compare_logs, read_logs
from looktwice.eval.logs.log import make_rows
from looktwice.eval.tasks import TaskError
from looktwice.pipelines import Pipeline
from looktwice.pipelines.models import Scripted
from looktwice.prompting import Ask, Circles, MultipleChoice


def make_log(wrong: int, task: str) -> Log:
    values = enumerate([0.0] * wrong + [1.0] * 5)
    rows = [{"sample": f"{task}{i}", "task": task, "value": value} for i, value in values]
    return Log("m", make_rows(rows))


def item(number: int, stratum: str, weight: float, key: str = "A", task: str = "x") -> SheetItem:
    return SheetItem(
        str(number), "m", task, f"s{number}", "Q?", ("near", "far"), key, "", "", stratum, weight
    )


def test_strata_are_drawn_alike_and_stand_for_what_they_are() -> None:
    both = Log(
        "m", pandas.concat([make_log(90, "many").rows, make_log(10, "few").rows], ignore_index=True)
    )
    items = draw_sheet([both], n=12)
    strata = [(one.stratum, one.weight) for one in items]
    assert {name: strata.count(name) for name in strata} == {
        ("m, many", 0.9): 6,
        ("m, few", 0.1): 6,
    }
    assert items == draw_sheet([both], n=12)
    assert items != draw_sheet([both], n=12, seed=1)
    assert len({one.sample for one in items}) == 12
    assert len(draw_sheet([both], n=500)) == 100, "the right ones are no errors"
    assert len(draw_sheet([both], n=500, verdict="any")) == 110


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ask": "guess"}, "--ask guess"),
        ({"verdict": "bad"}, "--verdict bad"),
        ({"by": ["day"]}, "--by day"),
    ],
)
def test_a_sheet_that_cannot_be_drawn(settings: dict[str, object], said: str) -> None:
    with pytest.raises(TaskError, match=said):
        draw_sheet([make_log(3, "x")], **settings)  # type: ignore[arg-type]
    with pytest.raises(TaskError, match="no row is failed"):
        draw_sheet([make_log(3, "x")], verdict="failed")


def test_shares_are_weighted_by_strata_and_kappas_are_right() -> None:
    """Of the stratum of 80 % two of four are `a`, of the other one of two: 0.8 / 2 + 0.2 / 2 = 50
    %.

    The two raters agree on 4 of 6; both say a three times: kappa = (4/6 - 1/2) / (1 - 1/2).
    """
    items = tuple(
        item(n, "big" if n <= 4 else "small", 0.8 if n <= 4 else 0.2) for n in range(1, 7)
    )
    said = {"anna": "aabbab", "ben": "abbaab"}
    filled = {
        who: {str(n): {"category": text} for n, text in enumerate(texts, 1)}
        for who, texts in said.items()
    }
    ratings = Ratings(SheetKey("errors", ("a", "b", "c"), items), filled)
    rows = {row[0]: row[1:] for row in share_table(ratings).rows}
    assert rows["a"][0].startswith("50.0 [")
    assert rows["c"][0].startswith("0.0 [")
    assert rows["items"] == ("6", "6")
    (line,) = agreement_lines(ratings)
    assert line.startswith("anna and ben: 66.7 % alike on 6 items, Cohen's kappa 0.33 [")


def test_shares_of_unequal_strata() -> None:
    """3 of 4 in a stratum of 90 % and 0 of 2 in one of 10 %."""
    items = tuple(
        item(n, "big" if n <= 4 else "small", 0.9 if n <= 4 else 0.1) for n in range(1, 7)
    )
    filled = {"anna": {str(n): {"category": text} for n, text in enumerate("aaabbb", 1)}}
    rows = {
        row[0]: row[1] for row in share_table(Ratings(SheetKey("errors", (), items), filled)).rows
    }
    assert rows["a"].startswith("67.5 [")


def test_three_raters_have_a_majority_and_fleiss_kappa() -> None:
    items = tuple(item(n, "s", 1.0) for n in range(1, 5))
    said = {"anna": "aabb", "ben": "aabb", "cleo": "abab"}
    filled = {
        who: {str(n): {"category": text} for n, text in enumerate(texts, 1)}
        for who, texts in said.items()
    }
    ratings = Ratings(SheetKey("errors", ("a", "b"), items), filled)
    assert ratings.column("majority", "category") == {"1": "a", "2": "a", "3": "b", "4": "b"}
    split = {who: {"1": {"category": who}} for who in said}
    assert Ratings(ratings.key, split).column("majority", "category") == {}
    assert list(agreement_lines(ratings))[-1].startswith("all 3 raters: Fleiss' kappa 0.33 [")


def test_people_answer_and_become_contestants(tmp_path: Path) -> None:
    items = (item(1, "s", 1.0, "A"), item(2, "s", 1.0, "B"), item(3, "s", 1.0, "B", "y"))
    filled = {
        "anna": {"1": {"human_answer": "(A) near", "difficulty": "2"}, "2": {"human_answer": "Far"}}
    }
    ratings = Ratings(SheetKey("answers", (), items), filled)
    lines = [(*row[:2], row[2][:5], *row[3:]) for row in answer_table(ratings).rows]
    assert lines == [
        ("anna", "all tasks", "100.0", "2", "2.00"),
        ("anna", "x", "100.0", "2", "2.00"),
        ("anna", "y", "", "0", ""),
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "study"
    marked = Pipeline({"mark": Circles(), "choose": MultipleChoice(), "ask": Ask()})
    evaluate(
        MarkedScenes("color", n=3),
        {"marked": marked},
        Scripted(lambda _: "</script><b>none"),
        out=path,
    )
    return path


def fill(folder: Path, rater: str, cells: dict[str, list[str]]) -> Path:
    """The sheet with these columns filled in, as a rater saves it."""
    with (folder / "sheet.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for name, column in cells.items():
        for row, cell in zip(rows, column, strict=True):
            row[name] = cell
    with (folder / f"{rater}.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(rows)
    return folder / f"{rater}.csv"


def test_a_sheet_of_errors_goes_out_and_comes_back(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "sheet"
    args = [
        "annotate",
        str(run),
        "--out",
        str(out),
        "--verdict",
        "unreadable",
        "--taxonomy",
        "saw it wrong,cannot say",
    ]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    page = (out / "sheet.html").read_text()
    assert "</script><b>" not in page
    assert page.count("data:image/jpeg") == 3
    assert len(list((out / "pictures").iterdir())) == 3
    again = CliRunner().invoke(app, args)
    assert (again.exit_code, "holds a sheet already" in again.output) == (2, True)
    files = [
        fill(out, name, {"category": ["cannot say"] * 2 + [last]})
        for name, last in (("anna", ""), ("ben", "else"))
    ]
    read = CliRunner().invoke(app, ["annotate", *map(str, files)])
    assert read.exit_code == 0, read.output
    assert "anna: 1 item of 3 not filled in" in read.output
    assert "ben: not in the taxonomy: else" in read.output
    assert "100.0 % alike on 2 items" in read.output


def test_a_sheet_of_answers_shows_neither_key_nor_reply(run: Path, tmp_path: Path) -> None:
    (log,) = read_logs(run)
    items = draw_sheet([log], "answers", n=3)
    list(write_sheet(items, [log], tmp_path, "answers"))
    shown = (tmp_path / "sheet.html").read_text() + (tmp_path / "sheet.csv").read_text()
    assert "none" not in shown.replace("'none'", "")
    keys = [one.key for one in items]
    path = fill(
        tmp_path, "anna", {"human_answer": [keys[0], keys[1], "Z"], "difficulty": ["1", "3", "5"]}
    )
    read = CliRunner().invoke(app, ["annotate", str(path)])
    assert read.exit_code == 0, read.output
    people = read_logs(tmp_path / "humans" / "humans.csv")
    found = compare_logs([log, *people])
    assert [(c.contestant, c.paired.better, c.paired.n) for c in found.contrasts] == [
        ("anna", 2, 3)
    ]


def test_what_is_no_filled_in_sheet_is_refused(run: Path, tmp_path: Path) -> None:
    (log,) = read_logs(run)
    list(write_sheet(draw_sheet([log], verdict="any", n=2), [log], tmp_path))
    with pytest.raises(TaskError, match="nobody filled in"):
        read_ratings([tmp_path / "sheet.csv"])
    with pytest.raises(TaskError, match=r"none\.csv cannot be read \(No such file"):
        read_ratings([tmp_path / "none.csv"])
    (tmp_path / "odd.csv").write_text("item,category\n77,a\n")
    with pytest.raises(TaskError, match="no item '77'"):
        read_ratings([tmp_path / "odd.csv"])
    (tmp_path / "bad.csv").write_text("name\nx\n")
    with pytest.raises(TaskError, match="no filled-in sheet"):
        read_ratings([tmp_path / "bad.csv"])
    held = json.loads((tmp_path / "key.json").read_text())
    (tmp_path / "key.json").write_text(json.dumps({"ask": held["ask"]}))
    with pytest.raises(TaskError, match=r"key\.json cannot be read"):
        read_ratings([tmp_path / "odd.csv"])

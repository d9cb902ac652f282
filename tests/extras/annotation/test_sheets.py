"""Annotation sheets: the sampled rows, the hidden columns, and results computed by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval import MarkedScenes, TaskError, evaluate
from looktwice.extras.annotation.ratings import (
    Ratings,
    describe_agreement,
    read_ratings,
    tabulate_answers,
    tabulate_difficulties,
    tabulate_shares,
    tabulate_times,
)
from looktwice.extras.annotation.sheet import SheetItem, SheetKey, draw_sheet, write_sheet
from looktwice.extras.logs import compare_logs, read_logs
from looktwice.extras.logs.log import Log, make_rows
from looktwice.pipelines import Pipeline, Scripted
from looktwice.prompting import Ask, Circles, MultipleChoice
from tests.first_day.studies import looktwice
from tests.tables import table


def make_log(**wrong: int) -> Log:
    """Return a log of tasks with this many wrong answers, and five right ones each."""
    rows = [
        {"sample": f"{task}{i}", "task": task, "value": float(i >= count)}
        for task, count in wrong.items()
        for i in range(count + 5)
    ]
    return Log("m", make_rows(rows))


def make_ratings(ask: str, weights: str, column: str = "category", **said: str) -> Ratings:
    """Return the letters that raters give to items in strata with these weights in tenths."""
    items = tuple(
        SheetItem(str(n), "m", "x", f"s{n}", "Q?", (), "A", "", "", tenths, int(tenths) / 10)
        for n, tenths in enumerate(weights, 1)
    )
    filled = {
        who: {str(n): {column: letter} for n, letter in enumerate(letters, 1)}
        for who, letters in said.items()
    }
    return Ratings(SheetKey(ask, ("a", "b", "c"), items), filled)


def test_strata_are_sampled_equally_and_weighted_by_their_size() -> None:
    log = make_log(many=90, few=10)
    items = draw_sheet([log], n=12)
    strata = Counter((drawn.stratum, drawn.weight) for drawn in items)
    assert strata == {("m, many", 0.9): 6, ("m, few", 0.1): 6}
    assert items == draw_sheet([log], n=12) != draw_sheet([log], n=12, seed=1)
    assert len({drawn.sample for drawn in items}) == 12
    assert len(draw_sheet([log], n=500)) == 100, "the right ones are no errors"
    assert len(draw_sheet([log], n=500, verdict="any")) == 110


@table
def test_sheets_that_cannot_be_drawn_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(TaskError, match=said):
        draw_sheet([make_log(x=3)], **settings)


def test_shares_are_weighted_by_strata_and_kappas_are_correct() -> None:
    """Computed by hand.

    In the stratum of 80 % two of four are `a`, in the other one of two: 0.8 / 2 + 0.2 / 2 = 50 %.
    With 3 of 4 in a stratum of 90 % and 0 of 2 in the other it is 67.5. The two raters agree on 4
    of 6, and each says a three times: kappa = (4/6 - 1/2) / (1 - 1/2).
    """
    ratings = make_ratings("errors", "888822", anna="aabbab", ben="abbaab")
    rows = {name: cells for name, *cells in tabulate_shares(ratings).rows}
    assert rows["a"][0].startswith("50.0 [") and rows["c"][0].startswith("0.0 [")
    assert rows["items"] == ["6", "6"]
    (line,) = describe_agreement(ratings)
    assert line.startswith("anna and ben: 66.7 % agreement on 6 items, Cohen's kappa 0.33 [")
    ((_, share), *_) = tabulate_shares(make_ratings("errors", "999911", anna="aaabbb")).rows
    assert share.startswith("67.5 [")


def test_three_raters_have_a_majority_and_fleiss_kappa() -> None:
    ratings = make_ratings("errors", "1111", anna="aabb", ben="aabb", cleo="abab")
    assert ratings.get_column("majority", "category") == dict(zip("1234", "aabb", strict=True))
    tie = make_ratings("errors", "1", anna="a", ben="b", cleo="a", dora="b")
    assert not tie.get_column("majority", "category")
    *_, line = describe_agreement(ratings)
    assert line.startswith("all 3 raters: Fleiss' kappa 0.33 [")


def test_human_answers_have_scores_by_task() -> None:
    ratings = make_ratings("answers", "111")
    first, second, third = ratings.key.items
    choices = ("near", "far")
    items = replace(first, choices=choices), replace(second, choices=choices, key="B")
    filled = {"1": {"human_answer": "(A) near", "difficulty": "2"}, "2": {"human_answer": "Far"}}
    key = replace(ratings.key, items=(*items, replace(third, key="B", task="y")))
    shown = tabulate_answers(Ratings(key, {"anna": filled})).rows
    assert [(*row[:2], row[2][:5], *row[3:]) for row in shown] == [
        ("anna", "all tasks", "100.0", "2", "2.00"),
        ("anna", "x", "100.0", "2", "2.00"),
        ("anna", "y", "", "0", ""),
    ]


def test_human_difficulty_slices_the_accuracy_of_models() -> None:
    ratings = make_ratings("answers", "1111", "human_answer", anna="AABA", ben="ABBA")
    said = {"anna": "easy easy hard hard", "ben": "easy hard hard hard", "cleo": "easy easy - hard"}
    filled: dict[str, dict[str, dict[str, str]]] = {}
    for who, words in said.items():
        levels, own = dict(zip("1234", words.split(), strict=True)), ratings.entries.get(who, {})
        filled[who] = {n: {**own.get(n, {}), "difficulty": level} for n, level in levels.items()}
    answers = (replace(item, answer="AABB"[n]) for n, item in enumerate(ratings.key.items))
    shown = tabulate_difficulties(Ratings(replace(ratings.key, items=tuple(answers)), filled))
    assert shown.header == ("difficulty", "n", "anna", "ben", "cleo", "m")
    assert [[cell.partition(" ")[0] for cell in row] for row in shown.rows] == [
        ["easy", "2", "100.0", "50.0", "", "100.0"],
        ["hard", "2", "50.0", "50.0", "", "0.0"],
    ]
    assert not tabulate_difficulties(make_ratings("answers", "11", "human_answer", anna="AB")).rows


def test_times_are_reported_for_correct_and_wrong_answers() -> None:
    """The key is A; the median of 300 and 500 ms is 400; one picture was shown 30 ms too long."""
    ratings = make_ratings("answers", "1111", "human_answer", anna="AAB", ben="A")
    times = {"1": ("300", "210"), "2": ("500", "230"), "3": ("900", "199.9")}
    timed = {
        item: {**cells, "response_ms": times[item][0], "exposure_ms": times[item][1]}
        for item, cells in ratings.entries["anna"].items()
    }
    key = replace(ratings.key, exposure=200.0)
    shown = tabulate_times(Ratings(key, {**ratings.entries, "anna": timed}))
    assert shown.rows == [("anna", "3", "1", "210", "500", "400", "900")]
    until = tabulate_times(Ratings(replace(key, exposure=0.0), {"anna": timed}))
    assert until.rows == [("anna", "3", "0", "210", "500", "400", "900")]
    assert not tabulate_times(ratings).rows


def test_practice_items_come_first_and_never_count(tmp_path: Path) -> None:
    log = make_log(many=9, few=3)
    items = draw_sheet([log], "answers", n=12, practice=2)
    assert [drawn.practice for drawn in items] == [True] * 4 + [False] * 12
    assert {drawn.task for drawn in items[:2]} == {"many"} and items[3].task == "few"
    assert len({drawn.sample for drawn in items}) == 16
    assert len(draw_sheet([log], "answers", n=90, practice=2)) == 22
    keyed = [replace(drawn, key="A") for drawn in items]
    list(write_sheet(keyed, [log], tmp_path, "answers", exposure=100.0))
    filled = fill(tmp_path, "anna", {"human_answer": ["A"] * 4 + ["B"] * 12})
    ((_, _, share, n, _), *_) = tabulate_answers(read_ratings([filled])).rows
    assert share.startswith("0.0 [") and n == "12"


def test_practice_items_cover_all_difficulties() -> None:
    """Fewer of four logs are right from item 0, the easiest, to item 8, the hardest; item 9 failed
    in all of them."""
    logs = []
    for number in range(4):
        rows: list[dict[str, Any]] = []
        for item in range(10):
            value = float("nan") if item == 9 else float(item // 2 <= number)
            rows.append({"sample": f"s{item}", "task": "it", "value": value})
        logs.append(Log(f"m{number}", make_rows(rows)))
    items = draw_sheet(logs, "answers", n=4, practice=3)
    easy, middle, hard = (drawn.sample for drawn in items if drawn.practice)
    assert easy in ("s0", "s1") and middle in ("s4", "s5") and hard in ("s8", "s9")
    counted = {drawn.sample for drawn in items if not drawn.practice}
    assert len(counted) == 4 and counted.isdisjoint({easy, middle, hard})
    everything = draw_sheet(logs, "answers", n=4, practice=20)
    assert len(everything) == 10 and all(drawn.practice for drawn in everything)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "study"
    marked = Pipeline({"mark": Circles(), "choose": MultipleChoice(), "ask": Ask()})
    model = Scripted(lambda _: "</script><b>none")
    evaluate(MarkedScenes("color", n=3), {"marked": marked}, model, out=path)
    return path


def fill(folder: Path, rater: str, cells: dict[str, list[str]]) -> Path:
    """Fill in these columns of the sheet, as a rater would."""
    import pandas

    frame = pandas.read_csv(folder / "sheet.csv", dtype=str).assign(**cells)
    frame.to_csv(folder / f"{rater}.csv", index=False)
    return folder / f"{rater}.csv"


def test_an_error_sheet_is_written_and_read_back(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "sheet"
    args = run, "--out", out, "--verdict", "unreadable", "--taxonomy", "saw it wrong,cannot say"
    done = looktwice("annotate", *args)
    assert done.exit_code == 0, done.output
    page = (out / "sheet.html").read_text()
    assert "</script><b>" not in page and page.count("data:image/jpeg") == 3
    assert len(list((out / "pictures").iterdir())) == 3
    again = looktwice("annotate", *args)
    assert again.exit_code == 2 and "already holds a sheet" in again.output
    lasts = {"anna": "", "ben": "else"}
    read = looktwice(
        "annotate",
        *(fill(out, who, {"category": ["cannot say"] * 2 + [last]}) for who, last in lasts.items()),
    )
    assert read.exit_code == 0, read.output
    for words in (
        "anna: 1 item of 3 not",
        "ben: not in the taxonomy: else",
        "agreement on 2 items",
    ):
        assert words in read.output


def test_an_answer_sheet_shows_neither_the_correct_answer_nor_a_reply(
    run: Path, tmp_path: Path
) -> None:
    (log,) = read_logs(run)
    items = draw_sheet([log], "answers", n=3)
    list(write_sheet(items, [log], tmp_path, "answers"))
    shown = (tmp_path / "sheet.html").read_text() + (tmp_path / "sheet.csv").read_text()
    assert "none" not in shown.replace("'none'", "")
    keys = [drawn.key for drawn in items]
    cells = {"human_answer": [*keys[:2], "eye"], "difficulty": ["1", "3", "5"]}
    read = looktwice("annotate", fill(tmp_path, "anna", cells))
    assert (
        "anna: counted as wrong, neither a letter nor the text of a choice: 'eye' (item 3)"
        in read.output
    )
    assert read.exit_code == 0 and "right by difficulty" in read.output, read.output
    people = read_logs(tmp_path / "humans" / "humans.csv")
    (contrast,) = compare_logs([log, *people]).contrasts
    assert (contrast.contestant, contrast.paired.better, contrast.paired.n) == ("anna", 2, 3)


def test_an_invalid_sheet_is_refused(run: Path, tmp_path: Path) -> None:
    (log,) = read_logs(run)
    list(write_sheet(draw_sheet([log], verdict="any", n=2), [log], tmp_path))
    (tmp_path / "odd.csv").write_text("item,category\n77,a\n")
    (tmp_path / "bad.csv").write_text("name\nx\n")
    names = {"sheet": "is empty in all sheets", "none": r"none\.csv cannot be read", "odd": "'77'"}
    for name, words in (names | {"bad": "not a filled-in sheet"}).items():
        with pytest.raises(TaskError, match=words):
            read_ratings([tmp_path / f"{name}.csv"])
    (tmp_path / "key.json").write_text('{"ask": "errors"}')
    with pytest.raises(TaskError, match=r"key\.json cannot be read"):
        read_ratings([tmp_path / "odd.csv"])

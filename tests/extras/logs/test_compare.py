"""How samples are matched, and numbers that were computed by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest

from looktwice.eval.tasks import TaskError
from looktwice.extras.logs import compare_logs
from looktwice.extras.logs.compare import ALL_TASKS
from looktwice.extras.logs.format import read_logs
from looktwice.extras.logs.log import Log, make_rows
from looktwice.extras.logs.report import summarize_comparison
from looktwice.extras.logs.standings import read_standings
from tests.first_day.studies import looktwice
from tests.tables import table

NAN = float("nan")


def make_log(name: str, values: Sequence[float], **columns: Sequence[Any]) -> Log:
    ids = [f"q{number}" for number in range(len(values))]
    whole = {"sample": ids, "value": values, **columns}
    rows = zip(*whole.values(), strict=False)
    return Log(name, make_rows([dict(zip(whole, cells, strict=True)) for cells in rows]))


def test_the_numbers_match_those_computed_by_hand() -> None:
    """Of 10 shared samples 6 flip, 5 up and 1 down: p = 2 (1 + 6) / 2^6; another failed."""
    first = make_log("one", [1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0])
    second = make_log("two", [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, NAN])
    compared = compare_logs([first, second])
    (contrast,) = compared.contrasts
    assert (contrast.task, contrast.value, contrast.baseline_value) == (ALL_TASKS, 0.9, 0.5)
    paired = contrast.paired
    assert (paired.n, paired.better, paired.worse, contrast.fell_out) == (10, 5, 1, 1)
    assert (paired.value, paired.p) == pytest.approx((0.4, 14 / 64))
    assert any(
        "excluded: 1 sample" in line and "(q10)" in line for line in summarize_comparison(compared)
    )
    assert compared.flipped("two")["sample"].tolist() == [f"q{number}" for number in range(6)]
    (left,) = compared.unmatched.to_dict("records")
    assert {**left, "why": ""} == dict(log="one", against="two", task="", sample="q11", why="")
    assert "id" in left["why"] and "question" in left["why"]


def test_only_named_logs_are_compared_and_each_unmatched_sample_has_a_reason() -> None:
    asked = {"question": ["a", "b", "c"]}
    first, second = make_log("one", [1, 1, 1], **asked), make_log("two", [1, 0], **asked)
    compared = compare_logs([first, second, make_log("three", [0, 0, 0])], only=["two"])
    assert [(c.contestant, c.baseline) for c in compared.contrasts] == [("two", "one")]
    assert compared.unmatched["why"].tolist() == ["neither its id nor its question is there"]
    twice = make_log("one", [1, 1, 1], **asked, sample=["q0", "q1", "q1"])
    with pytest.raises(TaskError, match="no log is named 'to'; did you mean 'two'"):
        compare_logs([twice, second], only=["to"])
    with pytest.raises(TaskError, match="--only one: this is the baseline itself; name one of two"):
        compare_logs([first, second], only=["one"])
    assert not any("corrected" in line for line in summarize_comparison(compared))


def test_tasks_have_their_own_lines() -> None:
    tasks = {"task": ["x"] * 6 + ["y"] * 6}
    first, second = make_log("one", [1] * 12, **tasks), make_log("two", [1] * 6 + [0] * 6, **tasks)
    whole = compare_logs([first, second, make_log("three", [0] * 12)], pairs=True)
    (line,) = [line for line in summarize_comparison(whole) if "corrected" in line]
    assert "3 comparisons over all samples" in line
    assert "4 comparisons on single tasks" in line
    compared = whole.contrasts
    assert [(c.contestant, c.baseline, c.task, c.paired.value, c.paired.n) for c in compared] == [
        ("two", "one", ALL_TASKS, -0.5, 12),
        ("two", "one", "x", 0, 6),
        ("two", "one", "y", -1, 6),
        ("three", "one", ALL_TASKS, -1, 12),
        ("three", "one", "x", -1, 6),
        ("three", "one", "y", -1, 6),
        ("three", "two", ALL_TASKS, -0.5, 12),
    ]
    p = 2 / 2**6
    for task, corrected in ("y", [4 * p, 4 * p]), (ALL_TASKS, [2 * p, 3 * 2 / 2**12, 2 * p]):
        assert [c.p_holm for c in compared if c.task == task] == pytest.approx(corrected)


def test_groups_and_pictures_are_clusters_and_ids_those_of_a_task() -> None:
    groups, pictures = [*"aabb", "", "", "", ""], ["", "", "", "", "p", "p", "r", ""]
    one = make_log("one", [0] * 8, group=groups, pictures=pictures)
    assert compare_logs([one, make_log("two", [1] * 8)]).contrasts[0].paired.clusters == 5
    ids, tasks = ["0", "1", "0", "1"], ["x", "x", "y", "y"]
    logs = [make_log(name, [1, 0, 0, 1], task=tasks, sample=ids) for name in "ab"]
    assert compare_logs(logs).contrasts[0].paired.n == 4


def make_keyed_log(name: str, *rows: str) -> Log:
    """Return a log of rows "id question / pictures / key"."""
    parts = [[part.strip() for part in row.split("/")] for row in rows]
    about, pictures, keys = ([*column] for column in zip(*parts, strict=True))
    ids, questions = zip(*(text.split(" ", 1) for text in about), strict=True)
    columns = {"question": questions, "pictures": pictures, "key": keys}
    return make_log(name, [1.0] * len(rows), sample=ids, **columns)


@table
def test_matching(mine: list[str], theirs: list[str], expected: list[list[str]], by: str) -> None:
    logs = make_keyed_log("a", *mine), make_keyed_log("b", *theirs)
    (compared,) = compare_logs(logs).matchings
    first, second = (log.units["sample"].tolist() for log in logs)
    assert [[first[place], second[other]] for place, other in compared.places.items()] == expected
    assert compared.match_counts == {by: len(expected)}
    assert len(compared.unmatched_in_base) == len(first) - len(expected)


def test_duplicated_sample_content_is_reported() -> None:
    for picture, words in (("p1", "pictures and question"), ("", "question")):
        twice, rest = f"Same? / {picture} / A", f"Else? / {picture and 'p2'} / A"
        mine = make_keyed_log("a", f"k5 {twice}", f"k8 {twice}", f"x {rest}")
        theirs = make_keyed_log("b", f"6 {twice}", f"9 {twice}", f"7 {rest}")
        (why,) = set(compare_logs([mine, theirs]).unmatched["why"])
        assert words in why and "twice" in why
        assert len(compare_logs([mine, theirs]).unmatched) == 4


def test_a_log_without_shared_samples_is_reported_and_the_others_are_compared() -> None:
    first, second = make_log("one", [1.0, 0.0]), make_log("two", [0.0, 0.0])
    compared = compare_logs([first, make_log("far", [1.0], sample=["other"]), second])
    assert [c.contestant for c in compared.contrasts] == ["two"]
    assert any(
        line.startswith("far: ") and "no sample" in line for line in summarize_comparison(compared)
    )


def test_logs_that_cannot_be_compared_are_refused() -> None:
    first, second = make_log("one", [1.0]), make_log("two", [1.0], sample=["other"])
    namesakes = [first, make_log("x", [1.0]), make_log("x", [1.0])]
    keys = [make_log(name, [1.0], key=[key]) for name, key in (("a", "1"), ("b", "(B)"))]
    tasks = [make_log(name, [1.0], task=[name], sample=[name]) for name in "ab"]
    for logs, base, words in (
        ([first], "", "two logs"),
        ([first, second], "", "share no sample; .* column of ids"),
        (keys, "", r"no sample with the same key: 1 .*'1' .*'\(B\)'.*key="),
        (tasks, "", "share no sample: .* a in the first and b in"),
        ([first, second], "on", "'on'; did you mean 'one'"),
        (namesakes, "x", r"'x'; did you mean 'x \(2\)'"),
    ):
        with pytest.raises(TaskError, match=words):
            compare_logs(logs, base)


def test_a_single_arm_keeps_its_contestant_name_and_one_shared_picture_is_reported() -> None:
    arms = ("plain [mark.radius=10]", "elsewhere [mark.radius=10]", "elsewhere [mark.radius=5]")
    logs = [make_log(arm, [1.0, 0.0, 1.0], pictures=["sha"] * 3) for arm in arms]
    compared = compare_logs(logs, "plain", [arms[1]])
    assert [log.name for log in compared.logs] == [*arms[:2]]
    assert "on 3 samples of one picture or group, too few" in next(summarize_comparison(compared))
    with pytest.raises(TaskError, match="no log is named 'elsewhere'; did you mean 'elsewhere "):
        compare_logs(logs, "elsewhere")


def test_the_command_writes_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,correct\n=q1,1\nq2,0\nq3,0\n")
    (tmp_path / "b.csv").write_text("id,correct\n=q1,1\nq2,1\nq4,0\n")
    out = tmp_path / "out"
    args = ["compare", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--out", str(out)]
    done = looktwice(*args)
    assert done.exit_code == 0, done.output
    assert "b is 50.0 points better than a" in done.output
    assert "only in a, not in b: 1 (q3)" in done.output
    items = pandas.read_csv(out / "items.csv", keep_default_na=False)
    assert items["sample"].tolist() == ["'=q1", "q2", "q3"], "no spreadsheet computes an id"
    assert items["flipped"].tolist() == ["", "b", ""]
    assert pandas.read_csv(out / "unmatched.csv")["sample"].tolist() == ["q3", "q4"]
    assert pandas.read_csv(out / "compare.csv")["difference"].tolist() == [0.5]
    assert "| b | a | all tasks |" in (out / "compare.md").read_text()
    page = (out / "compare.html").read_text()
    assert "b is 50.0 points better than a" in page and "Content-Security-Policy" in page
    turned = looktwice(*args, "--baseline", "b")
    assert "a is 50.0 points worse than b" in turned.output


def test_logs_with_nothing_correct_or_readable_get_a_warning(tmp_path: Path) -> None:
    def write(name: str, reply: str, key: str) -> Path:
        rows = "".join(f"{number}\t{reply}\t{key}\n" for number in range(12))
        (tmp_path / name).write_text(f"id\treply\tkey\n{rows}")
        return tmp_path / name

    files = write("a.tsv", "It stands in the sea", "B"), write("b.tsv", "a dog", "the cat")
    logs = [log for file in files for log in read_logs(file)]
    a, doubt_a, wrong_a, b, wrong_b, *_ = summarize_comparison(compare_logs(logs))
    assert a == "a: scored by Robust" and b.startswith("b: ")
    assert doubt_a.startswith("warning: 12 of 12 replies of a are unreadable")
    assert all("warning: none of 12 answers" in line for line in (wrong_a, wrong_b))


STYLES = {"task": "dataset", "variant": "marker_style", "contestant": "model"}


def test_spreads_and_ranks_of_vpbench(shared_data: Path) -> None:
    folder = shared_data / "methods"
    expected = json.loads((folder / "vpbench_targets.json").read_text())
    for file, accuracy, spreads in (
        ("vpbench_marker_acc.csv", "accuracy", "spread_6_styles_csv"),
        ("vpbench_marker_delta_all.csv", "accuracy_1dp", "spread_17_styles_1dp"),
    ):
        standings = read_standings(folder / file, {**STYLES, "accuracy": accuracy}, "default")
        assert len(standings.spreads) == 36
        for spread in standings.spreads:
            target = expected[spreads][spread.task]["per_model"][spread.contestant]
            assert spread.value == pytest.approx(target, abs=0.006)
    named = {**STYLES, "accuracy": "accuracy"}
    names = ("pairs_flipped", "pairs_tied", "models_moved", "max_move", "tau_b")
    for change in read_standings(folder / "vpbench_marker_acc.csv", named, "default").changes:
        target = expected["flips_vs_default"][change.task].pop(change.variant)
        told = change.flipped, change.tied, change.moved, change.furthest, round(change.tau, 3)
        assert told == tuple(target[name] for name in names)
    assert not any(expected["flips_vs_default"].values())


def test_ranks_of_vpbench_where_only_ranks_are_published(shared_data: Path) -> None:
    folder = shared_data / "methods"
    named = {"task": "benchmark", "variant": "jpeg_quality", "contestant": "model", "rank": "rank"}
    standings = read_standings(folder / "vpbench_jpeg_rank.csv", named, "default")
    expected = json.loads((folder / "vpbench_targets.json").read_text())["jpeg"]
    assert not standings.spreads and len(standings.changes) == 6
    for change in standings.changes:
        target, told = expected[change.task][change.variant], (change.flipped, change.moved)
        assert told == (target["pairs_flipped"], target["models_moved"])
        assert change.furthest == target["max_move"]


def test_a_published_table_by_hand(tmp_path: Path) -> None:
    """x is first and y second; under `b` they swap: one pair of one flips, and both move by one
    rank."""
    path = tmp_path / "table.csv"
    path.write_text("model,variant,accuracy\nx,a,90\ny,a,80\nx,b,70\ny,b,75\n")
    out = tmp_path / "out"
    args = ["compare", str(path), "--column", "accuracy=accuracy", "--out", str(out)]
    done = looktwice(*args)
    assert done.exit_code == 0, done.output
    # at 80 columns, too
    assert ["b", "2"] in [line.split()[:2] for line in done.output.splitlines()]
    assert pandas.read_csv(out / "spreads.csv")["value"].tolist() == [20, 5]
    (change,) = pandas.read_csv(out / "ranks.csv").to_dict("records")
    told = {"variant": "b", "flipped": 1, "tied": 0, "moved": 2, "furthest": 1, "tau": -1}
    assert change == change | told | {"mean_change": 12.5}
    with pytest.raises(TaskError, match="no variant is named 'c'"):
        read_standings(path, {"accuracy": "accuracy"}, "c")

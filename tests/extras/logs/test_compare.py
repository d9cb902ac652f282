"""What matches what, and numbers that were computed by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.tasks import TaskError
from looktwice.extras.logs import compare_logs
from looktwice.extras.logs.compare import ALL
from looktwice.extras.logs.format import read_logs
from looktwice.extras.logs.log import Log, make_rows
from looktwice.extras.logs.standings import read_standings
from looktwice.extras.logs.tell import summary_lines

NAN = float("nan")


def make_log(name: str, values: Sequence[float], **columns: Sequence[Any]) -> Log:
    ids = [f"q{number}" for number in range(len(values))]
    whole = {"sample": ids, "value": values, **columns}
    rows = zip(*whole.values(), strict=False)
    return Log(name, make_rows([dict(zip(whole, cells, strict=True)) for cells in rows]))


def test_the_numbers_are_those_computed_by_hand() -> None:
    """Of 10 shared samples 6 flip, 5 up and 1 down: p = 2 (1 + 6) / 2^6; one more failed."""
    first = make_log("one", [1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0])
    second = make_log("two", [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, NAN])
    compared = compare_logs([first, second])
    (contrast,) = compared.contrasts
    assert (contrast.task, contrast.value, contrast.other) == (ALL, 0.9, 0.5)
    paired = contrast.paired
    assert (paired.n, paired.better, paired.worse, contrast.fell_out) == (10, 5, 1, 1)
    assert contrast.paired.value == pytest.approx(0.4)
    assert contrast.paired.p == pytest.approx(14 / 64)
    failed = "  fell out: 1 sample that failed or that nobody scored, 1 in two (q10)"
    assert failed in list(summary_lines(compared))
    assert compared.flipped("two")["sample"].tolist() == ["q0", "q1", "q2", "q3", "q4", "q5"]
    assert compared.unmatched.to_dict("records") == [
        {
            "log": "one",
            "against": "two",
            "task": "",
            "sample": "q11",
            "why": "its id is not there, and its question is not known",
        }
    ]


def test_only_those_that_are_named_are_compared_and_every_other_sample_says_why() -> None:
    asked = {"question": ["a", "b", "c"]}
    first, second = make_log("one", [1, 1, 1], **asked), make_log("two", [1, 0], **asked)
    compared = compare_logs([first, second, make_log("three", [0, 0, 0])], only=["two"])
    assert [(c.contestant, c.baseline) for c in compared.contrasts] == [("two", "one")]
    assert compared.unmatched["why"].tolist() == ["neither its id nor its question is there"]
    twice = make_log("one", [1, 1, 1], **asked, sample=["q0", "q1", "q1"])
    with pytest.raises(TaskError, match="no log is named 'to'; did you mean 'two'"):
        compare_logs([twice, second], only=["to"])


def test_tasks_have_lines_of_their_own_and_the_others_are_compared_too() -> None:
    tasks = {"task": ["x"] * 6 + ["y"] * 6}
    first, second = make_log("one", [1] * 12, **tasks), make_log("two", [1] * 6 + [0] * 6, **tasks)
    compared = compare_logs([first, second, make_log("three", [0] * 12)]).contrasts
    assert [(c.contestant, c.baseline, c.task, c.paired.value, c.paired.n) for c in compared] == [
        ("two", "one", ALL, -0.5, 12),
        ("two", "one", "x", 0, 6),
        ("two", "one", "y", -1, 6),
        ("three", "one", ALL, -1, 12),
        ("three", "one", "x", -1, 6),
        ("three", "one", "y", -1, 6),
        ("three", "two", ALL, -0.5, 12),
    ]
    p = 2 / 2**6
    for task, corrected in ("y", [4 * p, 4 * p]), (ALL, [2 * p, 3 * 2 / 2**12, 2 * p]):
        assert [c.p_holm for c in compared if c.task == task] == pytest.approx(corrected)


def test_samples_of_a_group_or_a_picture_are_one_cluster() -> None:
    groups, pictures = [*"aabb", "", "", "", ""], ["", "", "", "", "p", "p", "r", ""]
    one = make_log("one", [0] * 8, group=groups, pictures=pictures)
    assert compare_logs([one, make_log("two", [1] * 8)]).contrasts[0].paired.clusters == 5


def keyed(name: str, *rows: str) -> Log:
    """A log of rows "id question / pictures / key"."""
    parts = [[part.strip() for part in row.split("/")] for row in rows]
    about, pictures, keys = ([*column] for column in zip(*parts, strict=True))
    ids, questions = zip(*(text.split(" ", 1) for text in about), strict=True)
    columns = {"question": questions, "pictures": pictures, "key": keys}
    return make_log(name, [1.0] * len(rows), sample=ids, **columns)


@pytest.mark.parametrize(
    ("mine", "theirs", "expected", "by"),
    [
        pytest.param(
            ["v_1 Q? / p1 / A", "v_2 Q? / p2 / B"],
            ["10 q? / p2 / (B)", "11  Q? / p1 / (A)"],
            [("v_1", "11"), ("v_2", "10")],
            "pictures and question",
            id="by the pictures, whatever the ids",
        ),
        pytest.param(
            ["v_1 One? / p1 /", "v_2 Two? / p2 /"],
            ["0 Two? / /", "1 One? / /"],
            [("v_1", "1"), ("v_2", "0")],
            "question",
            id="by the words where one log holds no pictures",
        ),
        pytest.param(
            ["0 One? / /", "1 Two? / /"],
            ["0 Two? / /", "1 One? / /"],
            [("0", "1"), ("1", "0")],
            "question",
            id="a bare number says nothing where the words differ",
        ),
        pytest.param(
            ["a Same? / /", "b Same? / /", "c One? / /"],
            ["0 Same? / /", "1 Same? / /", "2 One? / /"],
            [("c", "2")],
            "question",
            id="what comes twice is left out",
        ),
        pytest.param(
            ["1 Answer me: one? A, B / p1 / A", "2 Two? / p2 / A", "3 Three? / p3 / A"],
            ["1 One? / x1 / A", "2 Two? / x2 / B", "3 It is three? / x3 / A"],
            [("1", "1"), ("3", "3")],
            "id",
            id="another key is another question",
        ),
    ],
)
def test_matching(
    mine: list[str], theirs: list[str], expected: list[tuple[str, str]], by: str
) -> None:
    logs = keyed("a", *mine), keyed("b", *theirs)
    (compared,) = compare_logs(logs).matchings
    first, second = (log.units["sample"].tolist() for log in logs)
    assert [(first[place], second[other]) for place, other in compared.places.items()] == expected
    assert compared.counts == {by: len(expected)}
    assert len(compared.left) == len(first) - len(expected)


@pytest.mark.parametrize(
    ("picture", "why"),
    [("p1", "its pictures and question come twice"), ("", "its question comes twice")],
)
def test_a_sample_whose_content_comes_twice_says_so(picture: str, why: str) -> None:
    twice, rest = f"Same? / {picture} / A", f"Else? / {picture and 'p2'} / A"
    mine = keyed("a", f"k5 {twice}", f"k8 {twice}", f"x {rest}")
    theirs = keyed("b", f"6 {twice}", f"9 {twice}", f"7 {rest}")
    assert compare_logs([mine, theirs]).unmatched["why"].tolist() == [why] * 4


def test_ids_that_come_twice_are_ids_within_a_task() -> None:
    ids = {"sample": ["0", "1", "0", "1"]}
    logs = [make_log(name, [1, 0, 0, 1], task=["x", "x", "y", "y"], **ids) for name in "ab"]
    assert compare_logs(logs).contrasts[0].paired.n == 4


def test_a_log_that_shares_no_sample_is_told_and_the_others_are_compared() -> None:
    """One arm on another task stopped the comparison of all."""
    first, second = make_log("one", [1.0, 0.0]), make_log("two", [0.0, 0.0])
    compared = compare_logs([first, make_log("far", [1.0], sample=["other"]), second])
    assert [c.contestant for c in compared.contrasts] == ["two"]
    assert "far: it shares no sample with one, and is not compared with it" in list(
        summary_lines(compared)
    )


def test_what_cannot_be_compared_is_refused() -> None:
    first, second = make_log("one", [1.0]), make_log("two", [1.0], sample=["other"])
    namesakes = [first, make_log("x", [1.0]), make_log("x", [1.0])]
    for logs, base, sentence in (
        ([first], "", "two logs, found one"),
        ([first, second], "", "share no sample; .* Name the column of ids"),
        (
            [make_log("a", [1.0], key=["1"]), make_log("b", [1.0], key=["(B)"])],
            "",
            "share no sample with one key: 1 are .* has '1' there and '\\(B\\)' here.*column key=",
        ),
        (
            [make_log(name, [1.0], task=[name], sample=[name]) for name in "ab"],
            "",
            "share no sample: the tasks are a there and b here; compare contestants that",
        ),
        ([first, second], "on", "no log is named 'on'; did you mean 'one'"),
        (namesakes, "x", r"is named 'x'; did you mean 'x \(2\)'\?; there are"),
    ):
        with pytest.raises(TaskError, match=sentence):
            compare_logs(logs, base)


def test_a_contestant_of_one_arm_goes_by_its_own_name_and_one_shared_picture_is_told() -> None:
    arms = ("plain [mark.radius=10]", "elsewhere [mark.radius=10]", "elsewhere [mark.radius=5]")
    logs = [make_log(arm, [1.0, 0.0, 1.0], pictures=["sha"] * 3) for arm in arms]
    compared = compare_logs(logs, "plain", [arms[1]])
    assert [log.name for log in compared.logs] == [*arms[:2]]
    assert "on 3 samples of one picture or group, from which" in next(summary_lines(compared))
    with pytest.raises(TaskError, match="no log is named 'elsewhere'; did you mean 'elsewhere "):
        compare_logs(logs, "elsewhere")


def test_the_command_writes_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,correct\n=q1,1\nq2,0\nq3,0\n")
    (tmp_path / "b.csv").write_text("id,correct\n=q1,1\nq2,1\nq4,0\n")
    out = tmp_path / "out"
    args = ["compare", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--out", str(out)]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    assert "b is 50.0 points better than a" in done.output
    assert "in a alone, not in b: 1 (q3)" in done.output
    items = pandas.read_csv(out / "items.csv", keep_default_na=False)
    assert items["sample"].tolist() == ["'=q1", "q2", "q3"], "no spreadsheet computes an id"
    assert items["flipped"].tolist() == ["", "b", ""]
    assert pandas.read_csv(out / "unmatched.csv")["sample"].tolist() == ["q3", "q4"]
    assert pandas.read_csv(out / "compare.csv")["difference"].tolist() == [0.5]
    assert "| b | a | all tasks |" in (out / "compare.md").read_text()
    page = (out / "compare.html").read_text()
    assert "b is 50.0 points better than a" in page and "Content-Security-Policy" in page
    turned = CliRunner().invoke(app, [*args, "--baseline", "b"])
    assert "a is 50.0 points worse than b" in turned.output


def test_logs_of_which_nothing_is_right_or_readable_are_doubted(tmp_path: Path) -> None:
    def write(name: str, reply: str, key: str) -> Path:
        rows = "".join(f"{number}\t{reply}\t{key}\n" for number in range(12))
        (tmp_path / name).write_text(f"id\treply\tkey\n{rows}")
        return tmp_path / name

    files = write("a.tsv", "It stands in the sea", "B"), write("b.tsv", "a dog", "the cat")
    logs = [log for file in files for log in read_logs(file)]
    a, doubt_a, wrong_a, b, wrong_b, *_ = summary_lines(compare_logs(logs))
    assert a == "a: right and wrong by Robust" and b.startswith("b: ")
    assert doubt_a.startswith("warning: 12 of 12 replies of a are unreadable")
    assert all("warning: not one of 12 answers" in line for line in (wrong_a, wrong_b))


STYLES = {"task": "dataset", "variant": "marker_style", "contestant": "model"}


def test_spreads_and_ranks_of_vpbench(shared_data: Path) -> None:
    """The published table, its spreads by style and how the ranks of nine models change."""
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
    """x is first and y second; under `b` they change places: one pair of one flips, both move by
    one."""
    path = tmp_path / "table.csv"
    path.write_text("model,variant,accuracy\nx,a,90\ny,a,80\nx,b,70\ny,b,75\n")
    out = tmp_path / "out"
    args = ["compare", str(path), "--column", "accuracy=accuracy", "--out", str(out)]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    # at 80 columns, too
    assert ["b", "2"] in [line.split()[:2] for line in done.output.splitlines()]
    assert pandas.read_csv(out / "spreads.csv")["value"].tolist() == [20, 5]
    (change,) = pandas.read_csv(out / "ranks.csv").to_dict("records")
    told = {"variant": "b", "flipped": 1, "tied": 0, "moved": 2, "furthest": 1, "tau": -1}
    assert change == change | told | {"mean_change": 12.5}
    with pytest.raises(TaskError, match="no variant is named 'c'"):
        read_standings(path, {"accuracy": "accuracy"}, "c")

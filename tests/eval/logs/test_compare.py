"""What matches what, and numbers that were computed by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.logs import Log, compare_logs
from looktwice.eval.logs.compare import ALL
from looktwice.eval.logs.log import make_rows
from looktwice.eval.logs.standings import read_standings
from looktwice.eval.tasks import TaskError

NAN = float("nan")


def make_log(name: str, values: Sequence[float], **columns: Sequence[Any]) -> Log:
    ids = [f"q{number}" for number in range(len(values))]
    return Log(name, make_rows(rows_of({"sample": ids, "value": list(values), **columns})))


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, cells, strict=False)) for cells in zip(*columns.values(), strict=False)
    ]


def test_the_numbers_are_those_computed_by_hand() -> None:
    """Of 10 shared samples 6 flip, 5 up and 1 down: p = 2 (1 + 6) / 2^6; one more failed."""
    one = make_log("one", [1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0])
    two = make_log("two", [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, NAN])
    found = compare_logs([one, two])
    (contrast,) = found.contrasts
    assert (contrast.task, contrast.value, contrast.other) == (ALL, 0.9, 0.5)
    assert (
        contrast.paired.n,
        contrast.paired.better,
        contrast.paired.worse,
        contrast.fell_out,
    ) == (10, 5, 1, 1)
    assert contrast.paired.value == pytest.approx(0.4)
    assert contrast.paired.p == pytest.approx(14 / 64)
    assert found.flipped("two")["sample"].tolist() == ["q0", "q1", "q2", "q3", "q4", "q5"]
    assert found.unmatched.to_dict("records") == [
        {"log": "one", "against": "two", "task": "", "sample": "q11", "why": ""}
    ]


def test_tasks_have_lines_of_their_own_and_the_others_are_compared_too() -> None:
    tasks = {"task": ["x"] * 6 + ["y"] * 6}
    logs = [
        make_log("one", [1] * 12, **tasks),
        make_log("two", [1] * 6 + [0] * 6, **tasks),
        make_log("three", [0] * 12),
    ]
    found = compare_logs(logs)
    lines = [
        (c.contestant, c.baseline, c.task, c.paired.value, c.paired.n) for c in found.contrasts
    ]
    assert lines == [
        ("two", "one", ALL, -0.5, 12),
        ("two", "one", "x", 0, 6),
        ("two", "one", "y", -1, 6),
        ("three", "one", ALL, -1, 12),
        ("three", "one", "x", -1, 6),
        ("three", "one", "y", -1, 6),
        ("three", "two", ALL, -0.5, 12),
    ]
    p = 2 / 2**6
    assert [c.p_holm for c in found.contrasts if c.task == "y"] == pytest.approx([4 * p, 4 * p])
    assert [c.p_holm for c in found.contrasts if c.task == ALL] == pytest.approx(
        [2 * p, 3 * 2 / 2**12, 2 * p]
    )


def test_samples_of_a_group_or_a_picture_are_one_cluster() -> None:
    groups, pictures = ["a", "a", "b", "b", "", "", "", ""], ["", "", "", "", "p", "p", "r", ""]
    found = compare_logs(
        [make_log("one", [0] * 8, group=groups, pictures=pictures), make_log("two", [1] * 8)]
    )
    assert found.contrasts[0].paired.clusters == 5


def keyed(
    questions: Sequence[str], pictures: Sequence[str], keys: Sequence[str], ids: Sequence[str]
) -> Mapping[str, Any]:
    return {
        "sample": ids,
        "question": questions,
        "pictures": pictures,
        "key": keys,
        "value": [1.0] * len(ids),
    }


@pytest.mark.parametrize(
    ("mine", "theirs", "expected", "by"),
    [
        pytest.param(
            keyed(["Q?", "Q?"], ["p1", "p2"], ["A", "B"], ["v_1", "v_2"]),
            keyed(["q?", " Q? "], ["p2", "p1"], ["(B)", "(A)"], ["10", "11"]),
            [("v_1", "11"), ("v_2", "10")],
            "pictures and question",
            id="by the pictures, whatever the ids",
        ),
        pytest.param(
            keyed(["One?", "Two?"], ["p1", "p2"], ["", ""], ["v_1", "v_2"]),
            keyed(["Two?", "One?"], ["", ""], ["", ""], ["0", "1"]),
            [("v_1", "1"), ("v_2", "0")],
            "question",
            id="by the words where one log holds no pictures",
        ),
        pytest.param(
            keyed(["One?", "Two?"], ["", ""], ["", ""], ["0", "1"]),
            keyed(["Two?", "One?"], ["", ""], ["", ""], ["0", "1"]),
            [("0", "1"), ("1", "0")],
            "question",
            id="a bare number says nothing where the words differ",
        ),
        pytest.param(
            keyed(["Same?", "Same?", "One?"], ["", "", ""], ["", "", ""], ["a", "b", "c"]),
            keyed(["Same?", "Same?", "One?"], ["", "", ""], ["", "", ""], ["0", "1", "2"]),
            [("c", "2")],
            "question",
            id="what comes twice is left out",
        ),
        pytest.param(
            keyed(["One?", "Two?"], ["p1", "p2"], ["A", "A"], ["a", "b"]),
            keyed(["Answer me: one? A, B", "Two?"], ["x1", "x2"], ["A", "B"], ["a", "b"]),
            [("a", "a")],
            "id",
            id="another key is another question",
        ),
    ],
)
def test_matching(
    mine: Mapping[str, Any], theirs: Mapping[str, Any], expected: list[tuple[str, str]], by: str
) -> None:
    logs = [Log(name, make_rows(rows_of(held))) for name, held in (("a", mine), ("b", theirs))]
    (found,) = compare_logs(logs).matchings
    ids = [log.units["sample"].tolist() for log in logs]
    assert [(ids[0][one], ids[1][other]) for one, other in found.places.items()] == expected
    assert found.counts == {by: len(expected)}
    assert len(found.left) == len(ids[0]) - len(expected)


def test_ids_that_come_twice_are_ids_within_a_task() -> None:
    ids = {"sample": ["0", "1", "0", "1"]}
    logs = [make_log(name, [1, 0, 0, 1], task=["x", "x", "y", "y"], **ids) for name in "ab"]
    assert compare_logs(logs).contrasts[0].paired.n == 4


def test_what_cannot_be_compared_is_refused() -> None:
    one, two = make_log("one", [1.0]), make_log("two", [1.0], sample=["other"])
    with pytest.raises(TaskError, match="two logs, found one"):
        compare_logs([one])
    with pytest.raises(TaskError, match="share no sample"):
        compare_logs([one, two])
    with pytest.raises(TaskError, match="no log is named 'on'; did you mean 'one'"):
        compare_logs([one, two], "on")
    namesakes = [one, make_log("x", [1.0]), make_log("x", [1.0])]
    with pytest.raises(TaskError, match=r"is named 'x'; did you mean 'x \(2\)'\?; there are"):
        compare_logs(namesakes, "x")


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
    assert "b is 50.0 points better than a" in page
    assert "Content-Security-Policy" in page
    turned = CliRunner().invoke(app, [*args, "--baseline", "b"])
    assert "a is 50.0 points worse than b" in turned.output


STYLES = {"task": "dataset", "variant": "marker_style", "contestant": "model"}


def test_spreads_and_ranks_of_vpbench(shared_data: Path) -> None:
    """The published table, its spreads by style and how the ranks of nine models change."""
    folder = shared_data / "methods"
    expected = json.loads((folder / "vpbench_targets.json").read_text())
    for file, accuracy, spreads in (
        ("vpbench_marker_acc.csv", "accuracy", "spread_6_styles_csv"),
        ("vpbench_marker_delta_all.csv", "accuracy_1dp", "spread_17_styles_1dp"),
    ):
        found = read_standings(folder / file, {**STYLES, "accuracy": accuracy}, "default")
        assert len(found.spreads) == 36
        for spread in found.spreads:
            target = expected[spreads][spread.task]["per_model"][spread.contestant]
            assert spread.value == pytest.approx(target, abs=0.006)
    found = read_standings(
        folder / "vpbench_marker_acc.csv", {**STYLES, "accuracy": "accuracy"}, "default"
    )
    told = {
        (one.task, one.variant): [one.flipped, one.tied, one.moved, one.furthest, round(one.tau, 3)]
        for one in found.changes
    }
    names = ("pairs_flipped", "pairs_tied", "models_moved", "max_move", "tau_b")
    assert told == {
        (task, style): [target[name] for name in names]
        for task, styles in expected["flips_vs_default"].items()
        for style, target in styles.items()
    }


def test_ranks_of_vpbench_where_only_ranks_are_published(shared_data: Path) -> None:
    folder = shared_data / "methods"
    named = {"task": "benchmark", "variant": "jpeg_quality", "contestant": "model", "rank": "rank"}
    found = read_standings(folder / "vpbench_jpeg_rank.csv", named, "default")
    expected = json.loads((folder / "vpbench_targets.json").read_text())["jpeg"]
    assert not found.spreads
    assert len(found.changes) == 6
    for one in found.changes:
        target = expected[one.task][one.variant]
        assert [one.flipped, one.moved, one.furthest] == [
            target[k] for k in ("pairs_flipped", "models_moved", "max_move")
        ]


def test_a_published_table_by_hand(tmp_path: Path) -> None:
    """x is first and y second; under `b` they change places: one pair of one flips, both move by
    one."""
    path = tmp_path / "table.csv"
    path.write_text("model,variant,accuracy\nx,a,90\ny,a,80\nx,b,70\ny,b,75\n")
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["compare", str(path), "--column", "accuracy=accuracy", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    # at 80 columns, too
    assert ["b", "2"] in [line.split()[:2] for line in done.output.splitlines()]
    assert pandas.read_csv(out / "spreads.csv")["value"].tolist() == [20, 5]
    change = pandas.read_csv(out / "ranks.csv").iloc[0]
    assert change[["variant", "flipped", "tied", "moved", "furthest", "tau"]].tolist() == [
        "b",
        1,
        0,
        2,
        1,
        -1,
    ]
    assert change["mean_change"] == 12.5
    with pytest.raises(TaskError, match="no variant is named 'c'"):
        read_standings(path, {"accuracy": "accuracy"}, "c")

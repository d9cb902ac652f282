"""The long table: metrics with their denominators, means over tasks, slices, labels, and the paired
comparison."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy.stats import binomtest

from looktwice.eval.display.score_tables import benchmark_metric_table, task_table
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.records import RunError
from looktwice.eval.records.records import PointRow
from looktwice.eval.scoring import Row
from looktwice.eval.scoring.labels import baseline_of, contestant_label, labels, task_label
from looktwice.eval.scoring.row import COLUMNS, METRICS
from looktwice.eval.scoring.verdict import PointScores
from looktwice.eval.statistics.intervals import wilson
from looktwice.eval.tasks.blink import NAMES
from tests.made_run import MadeRun


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    return MadeRun(tmp_path / "run")


def row(found: Table, **fields: Any) -> Row:
    (only,) = found.where(**{"slice": "", **fields}).rows
    return only


def test_a_hidden_key_claims_no_accuracy(made: MadeRun) -> None:
    made.task("t", [None, None, None])
    made.answers(made.point("plain", "t"), ["A", "B", None])
    made.record("p0", "s2", reason="abstained: too dark")
    found = score_table(made.write().path)
    accuracy, coverage = (row(found, metric=name, task="t") for name in ("accuracy", "coverage"))
    assert (accuracy.value, accuracy.low, accuracy.n, accuracy.hidden, accuracy.unreadable) == (
        None,
        None,
        0,
        2,
        1,
    )
    assert coverage.value == pytest.approx(2 / 3)
    assert not [line for line in found if line.contestant == "majority (key)"]
    assert row(found, metric="accuracy", task="macro").value is None


def test_what_was_never_asked_is_in_no_mean(made: MadeRun) -> None:
    made.task("t", ["A", "A", "A", "B"])
    made.answers(made.point("plain", "t"), ["A", "B", None, None])
    found = score_table(made.write().path)
    accuracy = row(found, metric="accuracy", task="t", contestant="plain")
    assert (accuracy.value, accuracy.n, accuracy.right, accuracy.wrong, accuracy.missing) == (
        0.5,
        2,
        1,
        1,
        2,
    )
    missing = row(found, metric="missing", task="t", contestant="plain")
    assert (missing.value, missing.n) == (0.5, 4)
    for name, value in (("accuracy_answered", 0.5), ("coverage", 1.0)):
        assert row(found, metric=name, task="t", contestant="plain").value == value


def test_the_four_counts_and_the_three_metrics(made: MadeRun) -> None:
    made.task("t", ["A"] * 6 + ["B"] * 2, meta=[{"group": f"g{i // 2}"} for i in range(8)])
    point = made.point("plain", "t")
    made.answers(point, ["A", "A", "A", "B", "B"])
    made.record(point, "s5", reason="abstained: no idea")
    made.record(point, "s6", error="boom")
    made.answers(point, [None] * 7 + ["B"])
    found = score_table(made.write().path)
    accuracy = row(found, metric="accuracy", task="t", contestant="plain")
    assert (accuracy.right, accuracy.wrong, accuracy.unreadable, accuracy.failed) == (4, 2, 1, 1)
    assert (accuracy.n, accuracy.n_groups, accuracy.value) == (8, 4, 0.5)
    assert row(
        found, metric="accuracy_answered", task="t", contestant="plain"
    ).value == pytest.approx(4 / 6)
    assert row(found, metric="coverage", task="t", contestant="plain").value == 0.75
    assert row(found, contestant="majority (key)", task="t").value == 0.75
    assert row(found, contestant="chance (level)", task="t").value == 0.5


def test_draws_are_averaged_within_a_sample(made: MadeRun) -> None:
    made.task("t", ["A", "A"])
    point = made.point("plain", "t", draws=2)
    made.answers(point, ["A", "A"], draw=0)
    made.answers(point, ["A", "B"], draw=1)
    accuracy = row(score_table(made.write().path), metric="accuracy", task="t", contestant="plain")
    assert (accuracy.value, accuracy.n, accuracy.right, accuracy.wrong) == (0.75, 2, 3, 1)
    assert (accuracy.low, accuracy.high) == wilson(1.5, 2)


def test_macro_is_over_tasks_and_micro_over_samples(made: MadeRun) -> None:
    made.task("big", ["A"] * 8)
    made.task("small", ["A"] * 2)
    made.answers(made.point("plain", "big"), ["A"] * 8)
    made.answers(made.point("plain", "small"), ["B"] * 2)
    found = score_table(made.write().path)
    macro, micro = (
        row(found, metric="accuracy", task=task, contestant="plain") for task in ("macro", "micro")
    )
    assert (macro.value, macro.n, macro.n_tasks) == (0.5, 10, 2)
    assert (micro.value, micro.n, micro.right) == (0.8, 10, 8)
    assert (micro.low, micro.high) == wilson(8, 10)


def test_a_swept_task_counts_once_in_macro(made: MadeRun) -> None:
    made.task("a-0", ["A", "A"])
    made.task("a-1", ["A", "A"])
    made.task("b", ["A", "A"])
    for strength in (0, 1):
        changes = {"tasks.a.strength": strength}
        made.answers(
            made.point("plain", "a", task_id=f"id-a-{strength}", changes=changes), ["A", "B"]
        )
    made.answers(made.point("plain", "b"), ["A", "A"])
    found = score_table(made.write().path)
    assert [r.task for r in found.where(metric="accuracy", contestant="plain")] == [
        "a [strength=0]",
        "a [strength=1]",
        "b",
        "macro",
        "micro",
    ]
    assert row(found, metric="accuracy", task="macro", contestant="plain").value == pytest.approx(
        (0.5 + 1.0) / 2
    )


def test_the_paired_test_leaves_out_what_failed_on_either_side(made: MadeRun) -> None:
    made.task("t", ["A"] * 12)
    base = made.point("base", "t", baseline=True)
    other = made.point("other", "t")
    made.answers(base, ["B"] * 8 + ["A"] * 3)
    made.record(base, "s11", error="boom")
    made.answers(other, ["A"] * 8 + ["B"] + ["A"] * 1)
    made.answers(other, [None] * 11 + ["A"])
    made.record(other, "s10", error="boom")
    found = row(score_table(made.write().path), metric="accuracy", task="t", contestant="other")
    assert (found.excluded, found.discordant, found.baseline) == (2, 9, "base")
    assert found.delta == pytest.approx((8 - 1) / 10)
    assert found.p == pytest.approx(binomtest(8, 9, 0.5).pvalue)
    assert found.p_holm == found.p
    assert row(score_table(made.path), metric="accuracy", task="t", contestant="base").p is None


def test_slices_are_by_any_meta_field(made: MadeRun) -> None:
    made.task("t", ["A", "B", "A"], meta=[{"kind": "x"}, {"kind": "y"}, {"kind": "x"}])
    made.answers(made.point("plain", "t"), ["A", "A", "B"])
    found = score_table(made.write().path, by=["kind"])
    shares = {
        r.slice: r.value for r in found.where(metric="accuracy", contestant="plain", task="t")
    }
    assert shares == {"": pytest.approx(1 / 3), "kind=x": 0.5, "kind=y": 0.0}
    assert found.where(contestant="majority (key)", slice="kind=x").rows[0].value == 1.0
    with pytest.raises(RunError, match="--by colour: no sample has this field; there are kind"):
        score_table(made.path, by=["colour"])


def test_the_file_has_exactly_the_agreed_columns(made: MadeRun) -> None:
    made.task("t", ["A", "B"])
    facts = {"split": "val", "label_version": "2025-09"}
    made.answers(made.point("plain, with comma", "t", facts=facts), ["A", "A"])
    found = score_table(made.write().path)
    lines = list(csv.reader(io.StringIO(found.csv)))
    assert (
        ",".join(lines[0])
        == "run,point,contestant,task,slice,metric,value,low,high,n,n_groups,right,wrong,"
        "unreadable,failed,delta,p,tokens_in,tokens_out,cost,split,label_version,reader,"
        "p_holm,baseline,discordant,excluded,missing,hidden,unit,task_name,n_tasks,of_tasks,"
        "delta_low,delta_high,better,compared,n_clusters,detectable,p_bh,test,people,failure,"
        "clusters"
    )
    first = dict(zip(COLUMNS, lines[1], strict=True))
    assert (first["run"], first["contestant"], first["metric"], first["value"]) == (
        "run",
        "plain, with comma",
        "accuracy",
        "0.5",
    )
    assert (first["delta"], first["split"], first["label_version"]) == ("", "val", "2025-09")
    assert "plain, with comma" in repr(found)
    assert "<table>" in found._repr_html_()
    assert found._repr_markdown_().startswith("| task | contestant |")


def point(contestant: str, changes: dict[str, Any] | None = None, **more: Any) -> PointRow:
    number = more.pop("id", f"{contestant}{changes}")
    return PointRow(
        number, contestant, more.pop("task", "t"), more.pop("task_id", "t"), changes or {}, **more
    )


@pytest.mark.parametrize(
    ("changes", "contestant", "task"),
    [
        ({}, "plain", "t"),
        ({"stages.mark.radius": 15}, "plain [mark.radius=15]", "t"),
        ({"stages.think": None, "model": "other"}, "plain [no think, model=other]", "t"),
        ({"stages.mark": "Boxes(width=3)"}, "plain [mark=Boxes(width=3)]", "t"),
        ({"tasks.t.strength": 0.5}, "plain", "t [strength=0.5]"),
        ({"task.strength": 0.5, "tasks.other.strength": 1}, "plain", "t [strength=0.5]"),
    ],
)
def test_labels(changes: dict[str, Any], contestant: str, task: str) -> None:
    assert (contestant_label(point("plain", changes)), task_label(point("plain", changes))) == (
        contestant,
        task,
    )


def test_points_of_an_edited_configuration_are_told_apart() -> None:
    old, new = ({"task": {}, "stages": {"mark": {"radius": radius}}} for radius in (5, 10))
    points = [
        point("plain", id="1", spec=old),
        point("plain", id="2", spec=old, task="u", task_id="u"),
        point("plain", id="3", spec=new),
        point("chance", id="4"),
        point("chance", id="5", task_id="t-larger"),
    ]
    assert list(labels(points).values()) == [
        ("plain", "t"),
        ("plain", "u"),
        ("plain {mark.radius=10}", "t"),
        ("chance", "t"),
        ("chance", "t #2"),
    ]


def test_the_baseline_of_a_point() -> None:
    five, ten = {"stages.mark.radius": 5}, {"stages.mark.radius": 10}
    base = [point("base", changes, baseline=True) for changes in ({}, five)]
    elsewhere = point("base", baseline=True, task_id="other", id="elsewhere")
    points = [elsewhere, *base]
    assert baseline_of(point("mine", five), points) == base[1]
    assert baseline_of(point("mine", ten), points) == base[0]
    assert baseline_of(base[1], points) == base[0]
    assert baseline_of(base[0], points) is None
    assert baseline_of(point("mine", task_id="unasked"), points) is None


def test_one_registration_is_enough_for_a_metric(
    made: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the answered samples, how many were answered with A: rows, means and printed columns come
    by themselves."""

    def said_a(scores: PointScores) -> dict[str, float]:
        return {entry.sample: float(entry.answer == "A") for entry in scores.all if entry.answer}

    monkeypatch.setitem(METRICS, "said_a", said_a)
    made.task("t", ["A"] * 4)
    made.task("u", ["A"] * 2)
    made.answers(made.point("plain", "t"), ["A", "B", "B", "B"])
    made.answers(made.point("plain", "u"), ["A", "A"])
    found = score_table(made.write().path)
    values = {row.task: row.value for row in found.where(metric="said_a")}
    assert values == {"t": 0.25, "u": 1.0, "macro": 0.625, "micro": 0.5}
    assert ",said_a,0.25," in found.csv
    printed = task_table(found.rows, full=True)
    column = printed.header.index("said\na %")
    assert [line[column] for line in printed.rows if line[0] == "plain"] == [
        "25.0",
        "100.0",
        "62.5",
        "50.0",
    ]
    assert not benchmark_metric_table(found.rows).rows


def test_a_key_that_is_no_answer_has_no_majority(made: MadeRun) -> None:
    """PC-VID's key is the highest score that a judge can give, and not what a contestant could have
    answered."""
    made.task("video", ["1", "2"], choices=0, meta=[{"type": "AB"}, {"type": "ABA"}])
    made.task("t", ["A", "A", "B"])
    made.answers(
        made.point("plain", "video", facts={"scorer": {"use": "eval.tasks.VideoScorer"}}),
        ["1", "1"],
    )
    made.answers(made.point("plain", "t"), ["A", "A", "A"])
    found = score_table(made.write().path)
    values = {
        row.task: row.value for row in found.where(contestant="majority (key)", metric="accuracy")
    }
    assert values == {task: pytest.approx(2 / 3) for task in ("t", "macro", "micro")}
    assert {row.task for row in found.where(contestant="chance (level)")} == {"t", "macro", "micro"}


def test_blink_totals_with_and_without_the_task_of_disputed_labels(made: MadeRun) -> None:
    for name in NAMES:
        count = 3 if name == "Relative_Reflectance" else 1
        made.task(name, ["A"] * count)
        facts = {"scorer": {"use": "eval.tasks.BlinkScorer", "name": name}}
        made.answers(made.point("plain", name, facts=facts), ["B" if count == 3 else "A"] * count)
    found = score_table(made.write().path)
    totals = {
        r.metric: (r.value, r.n, r.n_tasks) for r in found.where(task="BLINK", contestant="plain")
    }
    assert totals == {
        "blink_macro": (pytest.approx(13 / 14), 16, 14),
        "blink_micro": (pytest.approx(13 / 16), 16, 14),
        "blink_macro_without_reflectance": (pytest.approx(1), 13, 13),
        "blink_micro_without_reflectance": (1, 13, 13),
    }
    pooled = row(found, task="BLINK", contestant="plain", metric="blink_micro")
    assert (pooled.low, pooled.high, pooled.n_groups, pooled.unit) == (*wilson(13, 16), None, "")
    who = [each.contestant for each in found.where(task="BLINK", metric="blink_micro")]
    assert who == ["plain", "majority (key)", "chance (level)"]
    levels = found.where(task="BLINK", contestant="chance (level)", metric="blink_micro").rows
    assert [(level.value, level.low, level.high) for level in levels] == [(0.5, None, None)]
    (majority,) = found.where(task="BLINK", contestant="majority (key)", metric="blink_micro").rows
    assert (majority.value, majority.low, majority.high) == (1.0, *wilson(16, 16))


def micro(found: Table, contestant: str) -> Row:
    return row(found, metric="accuracy", task="micro", contestant=contestant)


def test_micro_is_compared_with_the_baseline_over_all_tasks(made: MadeRun) -> None:
    for task in ("t", "u"):
        made.task(task, ["A"] * 4)
        made.answers(made.point("base", task, baseline=True), ["A", "B", "B", "B"])
        made.answers(made.point("other", task), ["A"] * 4)
    made.answers(made.point("part", "t"), ["A"] * 4)
    made.task("v", ["A"])
    made.answers(made.point("part", "v"), ["A"])  # a task that the baseline was not asked
    found = score_table(made.write().path)
    other, part = micro(found, "other"), micro(found, "part")
    assert (other.delta, other.discordant, other.excluded, other.baseline) == (0.75, 6, 0, "base")
    assert other.p == pytest.approx(binomtest(6, 6).pvalue)
    assert (part.delta, part.p, part.baseline) == (None, None, "")


def test_micro_over_variants_of_a_task_tests_each_question_once(made: MadeRun) -> None:
    made.task("t", ["A"] * 4)
    made.answers(made.point("base", "t", baseline=True), ["B"] * 4)
    for strength in (0, 1):
        changes = {"tasks.t.strength": strength}
        made.answers(made.point("other", "t", changes=changes), ["A"] * 4)
    found = micro(score_table(made.write().path), "other")
    assert (found.delta, found.p, found.compared, found.n_clusters) == (1.0, 0.125, 8, 4)


def test_a_chance_level_has_no_interval_and_needs_choices_everywhere(made: MadeRun) -> None:
    made.task("t", ["A", "B", "A"])
    made.task("u", ["A", "A"])
    made.samples[-1].sample["choices"].clear()
    for task in ("t", "u"):
        made.answers(made.point("plain", task), ["A", "A", "A"])
    found = score_table(made.write().path)
    chance, majority = (micro(found, name) for name in ("chance (level)", "majority (key)"))
    assert (chance.value, chance.low, chance.n) == (0.5, None, 3)
    assert (majority.value, majority.n, majority.low is None) == (0.8, 5, False)


@pytest.mark.parametrize("rotations", [(0, 1), (2, 3)])
def test_circular_evaluation_counts_samples_of_which_every_rotation_was_asked(
    made: MadeRun, rotations: tuple[int, int]
) -> None:
    made.task("t", ["A", "A", "B"])
    for by, answers in zip(rotations, ["AAB", "ABB"], strict=True):
        stages = {
            "turn": {"use": "prompting.controls.PermuteChoices", "order": "rotated", "by": by}
        }
        made.answers(made.point("plain", "t", spec={"stages": stages}), list(answers))
    found = row(score_table(made.write().path), metric="circular_accuracy")
    assert (found.contestant, found.n, found.n_groups) == ("plain [2 rotations]", 3, 2)
    assert found.value == pytest.approx(2 / 3)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_circular_evaluation_is_shown_with_the_facts_of_the_first_rotation(
    made: MadeRun, order: tuple[int, int]
) -> None:
    """The unrotated point's replies were read, the rotated one's were given by a stage that needs
    no reader."""
    made.task("t", ["A"])
    for by in order:
        stages = {"turn": {"use": "prompting.controls.PermuteLabels", "order": "rotated", "by": by}}
        point = made.point("plain", "t", spec={"stages": stages})
        if by == 0:
            made.reply(point, "s0", "(A)")
        else:
            made.record(point, "s0", answer="A")
    found = row(score_table(made.write().path), metric="circular_accuracy")
    assert (found.value, found.point, found.reader) == (1.0, "", "robust")


@pytest.mark.parametrize(("meta", "groups"), [({"circle": "x"}, 1), ({}, 0)])
def test_samples_without_the_field_of_a_group_belong_to_none(
    made: MadeRun, meta: dict[str, str], groups: int
) -> None:
    made.task("t", ["A"] * 3, meta=[meta, meta, {}])
    facts = {"scorer": {"use": "eval.scoring.AllRight"}}
    made.answers(made.point("plain", "t", facts=facts), ["A"] * 3)
    made.record(made.point("silent", "t", facts=facts), "s0", reason="abstained: no idea")
    table = score_table(made.write().path).where(metric="circular_accuracy")
    # of the silent one's group two samples were not asked, so that there is no group to count
    assert [(each.value, each.n) for each in table.where(contestant="silent")] == [
        (None, 0)
    ] * groups
    found = table.where(contestant="plain")
    assert [(each.value, each.n, each.unit) for each in found] == [(1.0, 1, "circle")] * groups


def test_a_wide_table_loses_no_figure_in_a_narrow_terminal() -> None:
    """Of ten columns, such as those of `fragility`, a terminal of 80 showed "1.98 [1.01 to" and
    "best minus"."""
    header = (
        "who",
        "n",
        "default %",
        "differ from\nthe default",
        "R",
        "best minus\nworst",
        "worst",
        "best",
    )
    row = (
        "plain",
        "12",
        "16.7",
        "0 of 5",
        "1.98\n1.01 to 3.58",
        "41.7\n25.0 to 83.3",
        "default",
        "blue, jpeg80",
    )
    out = io.StringIO()
    Console(width=80, file=out).print(TextTable(header, (row,)).console("how fragile"))
    assert {"16.7", "1.98", "3.58]", "41.7", "83.3]", "jpeg80"} <= set(out.getvalue().split())


def test_a_heading_that_widens_a_column_of_figures_cuts_none_off() -> None:
    """Under `shape, unmarked` the table of a race ended in "p 0.0"."""
    header = ("task", "arm", "asked", "mean %", "to the leader", "ended", "held out")
    row = (
        "shape",
        "unmarked",
        "72",
        "41.7",
        "-19.4 [-39.6 to +1.2]",
        "after 72",
        "+13.3 [+0.0 to +26.1, p 0.058]",
    )
    out = io.StringIO()
    Console(width=80, file=out).print(
        TextTable(header, (row, row), 2).console("the race", blocks=2)
    )
    assert {"unmarked", "+1.2]", "0.058]"} <= set(out.getvalue().split()) and out.getvalue().count(
        "unmarked"
    ) == 1

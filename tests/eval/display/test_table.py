"""The long table: metrics with their denominators, means over tasks, slices, labels."""

import csv
import io
from collections.abc import Mapping, Sequence
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
from looktwice.eval.scoring.labels import find_baseline, format_contestant_label, format_task_label
from looktwice.eval.scoring.metrics import METRICS
from looktwice.eval.scoring.verdict import PointScores
from looktwice.eval.statistics.intervals import wilson
from looktwice.eval.tasks.blink import TASK_NAMES
from tests import tables
from tests.made_run import MadeRun
from tests.optional import needs_extras


def score_arms(made: MadeRun, task: str, keys: Sequence[str | None], **arms: str) -> Table:
    """Add a task with the answers of `arms` (letters, " " is not asked) and score the run."""
    made.task(task, keys)
    for name, letters in arms.items():
        made.answers(made.point(name, task), [None if c == " " else c for c in letters])
    return score_table(made.write().path)


def row(found: Table, **fields: Any) -> Row:
    (only,) = found.where(**{"slice": "", "metric": "accuracy", **fields}).rows
    return only


def get_values(found: Table, names: str, **fields: Any) -> list[Any]:
    """Return these columns of the only row with these fields."""
    return [getattr(row(found, contestant="plain", **fields), name) for name in names.split()]


def test_a_hidden_answer_key_has_no_accuracy(made: MadeRun) -> None:
    made.task("t", [None, None, None])
    made.answers(made.point("plain", "t"), ["A", "B", None])
    made.record("p0", "s2", reason="abstained: too dark")
    table = score_table(made.write().path)
    assert get_values(table, "value low n hidden unreadable", task="t") == [None, None, 0, 2, 1]
    assert get_values(table, "value", metric="coverage", task="t") == [pytest.approx(2 / 3)]
    assert not [line for line in table if line.contestant == "majority (key)"]
    assert get_values(table, "value", task="macro") == [None]


def test_the_four_counts_and_the_three_metrics(made: MadeRun) -> None:
    made.task("t", "AAAAAABB", meta=[{"group": f"g{i // 2}"} for i in range(8)])
    point = made.point("plain", "t")
    made.answers(point, "AAABB")
    made.record(point, "s5", reason="abstained: no idea")
    made.record(point, "s6", error="boom")
    made.answers(point, [None] * 7 + ["B"])
    table = score_table(made.write().path)
    names = "right wrong unreadable failed n n_groups value"
    assert get_values(table, names, task="t") == [4, 2, 1, 1, 8, 4, 0.5]
    values = {"accuracy_answered": pytest.approx(4 / 6), "coverage": 0.75}
    for name, value in values.items():
        assert get_values(table, "value", metric=name, task="t") == [value]
    assert row(table, contestant="majority (key)", task="t").value == 0.75
    assert row(table, contestant="chance (level)", task="t").value == 0.5


def test_draws_are_averaged_within_a_sample(made: MadeRun) -> None:
    made.task("t", "AA")
    point = made.point("plain", "t", draws=2)
    made.answers(point, "AA", draw=0)
    made.answers(point, "AB", draw=1)
    table = score_table(made.write().path)
    assert get_values(table, "value n right wrong low high", task="t") == [
        0.75,
        2,
        3,
        1,
        *wilson(1.5, 2),
    ]


def test_macro_is_over_tasks_and_micro_over_samples(made: MadeRun) -> None:
    score_arms(made, "big", "A" * 8, plain="A" * 8)
    table = score_arms(made, "small", "AA", plain="BB")
    assert get_values(table, "value n n_tasks", task="macro") == [0.5, 10, 2]
    assert get_values(table, "value n right low high", task="micro") == [0.8, 10, 8, *wilson(8, 10)]


def test_a_swept_task_counts_once_in_macro(made: MadeRun) -> None:
    for strength in (0, 1):
        made.task(f"a-{strength}", "AA")
        changes = {"tasks.a.strength": strength}
        point = made.point("plain", "a", task_id=f"id-a-{strength}", changes=changes)
        made.answers(point, "AB")
    table = score_arms(made, "b", "AA", plain="AA")
    shown = table.where(metric="accuracy", contestant="plain")
    tasks = ["a [strength=0]", "a [strength=1]", "b", "macro", "micro"]
    assert [line.task for line in shown] == tasks
    assert get_values(table, "value", task="macro") == [pytest.approx((0.5 + 1.0) / 2)]


def test_the_paired_test_excludes_samples_that_failed_on_either_side(made: MadeRun) -> None:
    made.task("t", "A" * 12)
    base, other = made.point("base", "t", baseline=True), made.point("other", "t")
    made.answers(base, "B" * 8 + "AAA")
    made.record(base, "s11", error="boom")
    made.answers(other, [*"AAAAAAAABA", None, "A"])
    made.record(other, "s10", error="boom")
    table = score_table(made.write().path)
    line = row(table, task="t", contestant="other")
    assert (line.excluded, line.discordant, line.baseline) == (2, 9, "base")
    assert line.delta == pytest.approx((8 - 1) / 10)
    assert line.p == line.p_holm == pytest.approx(binomtest(8, 9, 0.5).pvalue)
    assert row(table, task="t", contestant="base").p is None


def test_any_meta_field_can_be_a_slice(made: MadeRun) -> None:
    made.task("t", "ABA", meta=[{"kind": kind} for kind in "xyx"])
    made.answers(made.point("plain", "t"), "AAB")
    table = score_table(made.write().path, by=["kind"])
    shown = table.where(metric="accuracy", contestant="plain", task="t")
    shares = {"": pytest.approx(1 / 3), "kind=x": 0.5, "kind=y": 0.0}
    assert {line.slice: line.value for line in shown} == shares
    assert table.where(contestant="majority (key)", slice="kind=x").rows[0].value == 1.0
    with pytest.raises(
        RunError, match="--by colour: no sample has this field; the fields are: kind"
    ):
        score_table(made.path, by=["colour"])


HEADER = """run point contestant task slice metric value low high n n_groups right wrong unreadable
failed delta p tokens_in tokens_out cost split label_version reader p_holm baseline discordant
excluded missing hidden unit task_name n_tasks of_tasks delta_low delta_high better compared
n_clusters detectable p_bh test people failure clusters"""


def test_report_csv_has_exactly_the_documented_columns(made: MadeRun) -> None:
    made.task("t", "ABB")
    name, facts = "plain, with comma", {"split": "val", "label_version": "2025-09"}
    made.answers(made.point(name, "t", facts=facts), "AAA")
    table = score_table(made.write().path)
    header, line, *_ = csv.reader(io.StringIO(table.csv))
    assert header == HEADER.split()
    first = dict(zip(header, line, strict=True))
    said = {"run": "run", "contestant": name, "metric": "accuracy", "delta": ""}
    assert first == first | said | facts | {"value": "0.333333"}
    assert name in repr(table) and "<table>" in table._repr_html_()
    assert table._repr_markdown_().startswith("| task | contestant |")


def point(contestant: str, changes: dict[str, Any] | None = None, **more: Any) -> PointRow:
    number, task_id = f"{contestant}{changes}{more}", more.pop("task_id", "t")
    return PointRow(number, contestant, "t", task_id, changes or {}, **more)


@tables.table
def test_labels(changes: dict[str, Any], contestant: str, task: str) -> None:
    changed = point("plain", changes)
    assert (format_contestant_label(changed), format_task_label(changed)) == (contestant, task)


def test_a_point_has_one_baseline() -> None:
    five, ten = {"stages.mark.radius": 5}, {"stages.mark.radius": 10}
    base = [point("base", changes, baseline=True) for changes in ({}, five)]
    points = [point("base", baseline=True, task_id="other"), *base]
    assert find_baseline(point("mine", five), points) == base[1]
    assert find_baseline(point("mine", ten), points) == base[0]
    assert find_baseline(base[1], points) == base[0]
    assert find_baseline(base[0], points) is None
    assert find_baseline(point("mine", task_id="unasked"), points) is None


def test_registering_a_function_adds_a_metric(
    made: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metric is the share of answered samples with the answer A."""

    def answered_a(scores: PointScores) -> dict[str, float]:
        return {
            entry.sample: float(entry.answer == "A") for entry in scores.all_records if entry.answer
        }

    monkeypatch.setitem(METRICS, "answered_a", answered_a)
    score_arms(made, "t", "AAAA", plain="ABBB")
    table = score_arms(made, "u", "AA", plain="AA")
    values = {row.task: row.value for row in table.where(metric="answered_a")}
    assert values == {"t": 0.25, "u": 1.0, "macro": 0.625, "micro": 0.5}
    assert ",answered_a,0.25," in table.csv
    printed = task_table(table.rows, full=True)
    column = printed.header.index("answered\na %")
    shown = [line[column] for line in printed.rows if line[0] == "plain"]
    assert shown == ["25.0", "100.0", "62.5", "50.0"]
    assert not benchmark_metric_table(table.rows).rows


@needs_extras
def test_an_answer_key_of_judge_scores_has_no_majority(made: MadeRun) -> None:
    """The key of PC-VID is the highest score that a judge can give."""
    made.task("video", ["1", "2"], choices=0, meta=[{"type": "AB"}, {"type": "ABA"}])
    facts = {"scorer": {"use": "eval.tasks.VideoScorer"}}
    made.answers(made.point("plain", "video", facts=facts), "11")
    table = score_arms(made, "t", "AAB", plain="AAA")
    shown = table.where(contestant="majority (key)", metric="accuracy")
    means = dict.fromkeys(("t", "macro", "micro"), pytest.approx(2 / 3))
    assert {row.task: row.value for row in shown} == means
    assert {row.task for row in table.where(contestant="chance (level)")} == means.keys()


def test_blink_totals_with_and_without_the_task_of_disputed_labels(made: MadeRun) -> None:
    for name in TASK_NAMES:
        count = 3 if name == "Relative_Reflectance" else 1
        made.task(name, "A" * count)
        facts = {"scorer": {"use": "eval.tasks.BlinkScorer", "name": name}}
        made.answers(made.point("plain", name, facts=facts), "BBB" if count == 3 else "A")
    table = score_table(made.write().path)
    shown = table.where(task="BLINK", contestant="plain")
    assert {row.metric: (row.value, row.n, row.n_tasks) for row in shown} == {
        "blink_macro": (pytest.approx(13 / 14), 16, 14),
        "blink_micro": (pytest.approx(13 / 16), 16, 14),
        "blink_macro_without_reflectance": (pytest.approx(1), 13, 13),
        "blink_micro_without_reflectance": (1, 13, 13),
    }
    plain, majority, chance = table.where(task="BLINK", metric="blink_micro").rows
    assert (plain.low, plain.high, plain.n_groups, plain.unit) == (*wilson(13, 16), None, "")
    assert (chance.contestant, chance.value, chance.low) == ("chance (level)", 0.5, None)
    assert (majority.contestant, majority.value) == ("majority (key)", 1.0)
    assert (majority.low, majority.high) == wilson(16, 16)


def micro(found: Table, contestant: str, names: str) -> list[Any]:
    total = row(found, task="micro", contestant=contestant)
    return [getattr(total, name) for name in names.split()]


def test_micro_is_compared_with_the_baseline_over_all_tasks(made: MadeRun) -> None:
    for task in "tu":
        made.task(task, "AAAA")
        made.answers(made.point("base", task, baseline=True), "ABBB")
        made.answers(made.point("other", task), "AAAA")
    made.answers(made.point("part", "t"), "AAAA")
    table = score_arms(made, "v", "A", part="A")  # a task that the baseline was not asked
    compared = micro(table, "other", "delta discordant excluded baseline p")
    assert compared == [0.75, 6, 0, "base", pytest.approx(binomtest(6, 6).pvalue)]
    assert micro(table, "part", "delta p baseline") == [None, None, ""]


def test_micro_over_variants_of_a_task_tests_each_question_once(made: MadeRun) -> None:
    made.task("t", "AAAA")
    made.answers(made.point("base", "t", baseline=True), "BBBB")
    for strength in (0, 1):
        changes = {"tasks.t.strength": strength}
        made.answers(made.point("other", "t", changes=changes), "AAAA")
    table = score_table(made.write().path)
    assert micro(table, "other", "delta p compared n_clusters") == [1.0, 0.125, 8, 4]


def test_a_chance_level_has_no_interval_and_needs_choices_for_every_sample(made: MadeRun) -> None:
    score_arms(made, "t", "ABA", plain="AAA")
    score_arms(made, "u", "AA", plain="AA")
    made.samples[-1].sample["choices"].clear()
    table = score_table(made.write().path)
    assert micro(table, "chance (level)", "value low n") == [0.5, None, 3]
    assert micro(table, "majority (key)", "value n") == [0.8, 5]


@pytest.mark.parametrize("order", ["01", "10"])
def test_circular_evaluation_reports_the_meta_data_of_the_first_rotation(
    made: MadeRun, order: str
) -> None:
    """Only the replies of the unrotated point are read again by a reader."""
    made.task("t", "A")
    for by in map(int, order):
        turn = {"use": "prompting.controls.PermuteLabels", "order": "rotated", "by": by}
        point = made.point("plain", "t", spec={"stages": {"turn": turn}})
        if by:
            made.record(point, "s0", answer="A")
        else:
            made.reply(point, "s0", "(A)")
    line = row(score_table(made.write().path), metric="circular_accuracy")
    assert (line.value, line.point, line.reader) == (1.0, "", "robust")


@pytest.mark.parametrize(("meta", "groups"), [({"circle": "x"}, 1), ({}, 0)])
def test_samples_without_the_group_field(made: MadeRun, meta: dict[str, str], groups: int) -> None:
    made.task("t", "AAA", meta=[meta, meta, {}])
    facts = {"scorer": {"use": "eval.scoring.AllRight"}}
    made.answers(made.point("plain", "t", facts=facts), "AAA")
    made.record(made.point("silent", "t", facts=facts), "s0", reason="abstained: no idea")
    table = score_table(made.write().path).where(metric="circular_accuracy")
    # two samples of the silent contestant's group were not asked, so no group counts
    silent, plain = (table.where(contestant=name) for name in ("silent", "plain"))
    assert [(each.value, each.n) for each in silent] == [(None, 0)] * groups
    assert [(each.value, each.n, each.unit) for each in plain] == [(1.0, 1, "circle")] * groups


def print_rows(columns: Mapping[str, str], texts: int, blocks: int, rows: int) -> str:
    """Print a table of equal rows on a terminal of 80 columns; a slash is a line break."""
    header, row = ([c.replace("/", "\n") for c in part] for part in (columns, columns.values()))
    out, grid = io.StringIO(), TextTable(header, [row] * rows, texts)
    Console(width=80, file=out).print(grid.console("a title", heading_count=blocks))
    return out.getvalue()


def test_a_wide_table_keeps_all_digits_in_a_narrow_terminal() -> None:
    """Regression: with ten columns a terminal of 80 truncated the numbers."""
    columns = {"who": "plain", "n": "12", "default %": "16.7", "differ from/the default": "0 of 5"}
    columns |= {"R": "1.98/1.01 to 3.58", "best minus/worst": "41.7/25.0 to 83.3"}
    columns |= {"worst": "default", "best": "blue, jpeg80"}
    words = {"16.7", "1.98", "3.58]", "41.7", "83.3]", "jpeg80"}
    assert words <= set(print_rows(columns, 1, 0, 1).split())


def test_a_long_heading_does_not_truncate_numbers() -> None:
    """Regression: under `shape, unmarked` the table of a race ended in "p 0.0"."""
    columns = {"task": "shape", "arm": "unmarked", "asked": "72", "mean %": "41.7"}
    columns |= {"to the leader": "\u221219.4 [\u221239.6 to +1.2]", "ended": "after 72"}
    shown = print_rows(columns | {"held out": "+13.3 [+0.0 to +26.1, p 0.058]"}, 2, 2, 2)
    assert {"+1.2]", "0.058]"} <= set(shown.split()), "no figure is cut"
    assert shown.count("shape, unmarked") == 2, "the heading stands once in each block of columns"
    assert max(map(len, shown.splitlines())) <= 80


def test_a_long_name_is_not_truncated_in_a_wide_terminal() -> None:
    """Regression: names were broken at hyphens after 22 letters: "qwen3-vl-8b-" """
    name = "qwen3-vl-8b-instruct-thinking"
    columns = {"task": "shape", "MLLM": name, "n": "60", "both/right": "57/48.0 to 59.1"}
    columns |= {"only/specialist": "2", "only/MLLM": "1", "specialist %": "98.3/94.0–100.0"}
    for blocks in (0, 1):
        shown = print_rows(columns, 2, blocks, 2)
        assert name in shown.split() and max(map(len, shown.splitlines())) <= 80
        assert {"57", "[48.0", "98.3", "[94.0–100.0]"} <= set(shown.split())


def test_a_notebook_shows_a_table_as_html_rather_than_its_repr(
    made: MadeRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """IPython requests the text as well as the HTML, and Rich displayed the text."""
    shown = score_arms(made, "t", ["A", "B"], plain="AB")
    plain = [repr(shown), str(task_table(shown.rows))]
    displayed = list[object]()
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *args: displayed.append(args))
    assert [repr(shown), str(task_table(shown.rows))] == plain and "100.0" in plain[0]
    assert not displayed and capsys.readouterr().out == ""
    assert "<table>" in shown._repr_html_()


def test_a_table_with_one_text_column_keeps_numbers_under_their_titles() -> None:
    shown = TextTable(("who", "in", "out", "cost"), [("a", "1", "2", "3")], 1)
    lines = [line.split() for line in str(shown.console("", 2)).splitlines() if line.strip()]
    assert (lines[0], lines[-1]) == (["in", "out", "cost"], ["1", "2", "3"])

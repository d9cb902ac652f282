"""Rows of metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from scipy.stats import binomtest

from looktwice.eval.display.table import score_table
from looktwice.eval.records.judgements import Judgement, append_judgements, hash_judged_text
from looktwice.eval.scoring import AllRight, Row, Scorer, Verdict
from looktwice.eval.scoring.groups import compute_group_metric
from looktwice.eval.scoring.metrics import list_right_by_draw
from looktwice.eval.scoring.row import (
    compare,
    correct_p_values,
    make_empty_row,
    make_macro_row,
    make_micro_row,
)
from looktwice.eval.scoring.run_rows import (
    list_circular_rows,
    list_metric_rows,
    make_reference_rows,
)
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import (
    Metric,
    PointScores,
    ReadResult,
    RunScores,
    Score,
    ScoredRecord,
)
from tests.made_run import MadeRun, join_attributes
from tests.tables import table


def score(made: MadeRun) -> RunScores:
    return score_run(made.write())


def task_row(name: str, value: float | None, n: int, **more: Any) -> Row:
    return Row("run", "p", "c", name, "", "accuracy", value, n=n, task_name=name, **more)


# ---- means over tasks


@pytest.mark.parametrize("idle", [("u", None, 4), ("u", 1.0, 0), ("u", None, 0)])
def test_a_task_without_a_value_or_units_enters_no_mean(
    idle: tuple[str, float | None, int],
) -> None:
    rows = [task_row("t", 0.25, 8, low=0.1, high=0.6), task_row(*idle)]
    macro, micro = make_macro_row(rows), make_micro_row(rows)
    assert (macro.value, macro.n_tasks) == (0.25, 1)
    assert (micro.value, micro.n, micro.n_tasks) == (0.25, 8, 1)
    assert (macro.low, macro.high) == (micro.low, micro.high) == (0.1, 0.6)


def test_fields_that_are_summed_or_joined_in_a_mean() -> None:
    rows = [
        task_row("t", 1.0, 3, right=3, wrong=0, missing=1, cost=0.5, split="val", reader="robust"),
        task_row("u", 0.0, 1, right=0, wrong=1, hidden=2, split="val", reader="judge solomon"),
    ]
    for row in (make_macro_row(rows), make_micro_row(rows)):
        assert join_attributes(row, "n right wrong missing hidden cost") == (4, 3, 1, 1, 2, 0.5)
        joined = None, "val", "robust; judge solomon", ""
        assert join_attributes(row, "unreadable split reader point") == joined


@pytest.mark.parametrize("more", [{}, {"scorer": {"use": "eval.scoring.AllRight"}}])
def test_a_row_that_no_metric_filled_counts_nothing(made: MadeRun, more: Any) -> None:
    made.task("t", "AB")
    made.answers(made.point("plain", "t", facts=more), "AA")
    run = score(made)
    plain = make_empty_row(run, run.points[0])
    assert join_attributes(plain, "n missing hidden n_tasks") == (0, 0, 0, 1)
    majority, chance = make_reference_rows(run.points[0], plain)[:2]
    assert join_attributes(majority, "contestant n right wrong") == ("majority (key)", 2, 1, 1)
    assert join_attributes(majority, "missing hidden unreadable failed point reader") == (
        0,
        0,
        0,
        0,
        "",
        "",
    )
    assert join_attributes(chance, "n value right missing hidden") == (2, 0.5, None, 0, 0)


# ---- metrics of a benchmark


@dataclass(frozen=True)
class Own(Scorer):
    """Gives the share of right samples, that of the slice size=1, and a trend with a test."""

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        draws = {name: list_right_by_draw([scores.draws(name)]) for name in scores.keyed_samples}
        units = {name: float(all(right for (right,) in each)) for name, each in draws.items()}
        first = {"s0": units["s0"]} if "s0" in units else {}
        return [
            Metric("sharp", units),
            Metric("sharp", first, slice="size=1"),
            Metric("trend", units, value=0.3, groups=3, p=0.04),
        ]

    def chance(self, samples: Mapping[str, Any]) -> Mapping[str, float]:
        return {"sharp": 0.125}


@pytest.fixture
def own(made: MadeRun, monkeypatch: pytest.MonkeyPatch) -> MadeRun:
    """The baseline is right once in three, the other contestant three times."""
    monkeypatch.setattr("looktwice.eval.scoring.score.build_scorer", lambda facts, plugins: Own())
    made.task("t", ["A", "A", "A"])
    made.answers(made.point("base", "t", baseline=True), ["A", "B", "B"])
    made.answers(made.point("other", "t"), ["A", "A", "A"])
    return made


def test_custom_metrics_are_compared_unless_they_are_slices_or_tests(own: MadeRun) -> None:
    run = score(own)
    base, other = run.points
    sharp, part, trend = list_metric_rows(other, make_empty_row(run, other), base)
    assert join_attributes(sharp, "value baseline discordant n") == (1.0, "base", 2, 3)
    assert [sharp.delta, sharp.p] == pytest.approx([2 / 3, binomtest(2, 2).pvalue])
    assert join_attributes(part, "slice n baseline delta") == ("size=1", 1, "", None)
    assert join_attributes(trend, "value low p n_groups baseline") == (0.3, None, 0.04, 3, "")
    assert [row.baseline for row in list_metric_rows(base, make_empty_row(run, base))] == [
        "",
        "",
        "",
    ]


def test_a_slice_is_not_sliced_again(own: MadeRun) -> None:
    run = score(own)
    part = run.points[1].only({"s0", "s1"})
    rows = list_metric_rows(part, make_empty_row(run, part, "kind=x"))
    shown = [join_attributes(row, "metric slice n") for row in rows]
    assert shown == [("sharp", "kind=x", 2), ("trend", "kind=x", 2)]


def test_chance_levels_of_custom_metrics_follow_accuracy_and_belong_to_no_slice(
    own: MadeRun,
) -> None:
    run = score(own)
    scores = run.points[0]
    whole = make_reference_rows(scores, make_empty_row(run, scores))
    levels = [(row.metric, row.value) for row in whole if row.contestant == "chance (level)"]
    assert levels == [("accuracy", 0.5), ("sharp", 0.125)]
    part = make_reference_rows(scores, make_empty_row(run, scores, "kind=x"))
    assert [row.metric for row in part] == ["accuracy"] * 2


# ---- groups


def test_a_group_with_a_failed_sample_counts_and_one_with_a_missing_sample_does_not(
    made: MadeRun,
) -> None:
    made.task("t", ["A"] * 6)
    point = made.point("plain", "t")
    made.answers(point, ["A", "A", "A", None, "A"])
    made.record(point, "s3", error="boom")  # and s5 is missing
    (scores,) = score(made).points
    metric_row = compute_group_metric(
        "m", "pair", scores, {"x": ["s0", "s1"], "y": ["s2", "s3"], "z": ["s4", "s5"], "none": []}
    )
    assert metric_row.units == {"x": 1.0, "y": 0.0, "none": 0.0}
    assert metric_row.failed == {"y", "z"}
    either = compute_group_metric("m", "pair", scores, {"y": ["s2", "s3"]}, any)
    assert either.units == {"y": 1.0}
    assert either.failed == {"y"}


def test_a_group_is_scored_over_the_draws_that_all_its_samples_have(made: MadeRun) -> None:
    made.task("t", ["A", "A"])
    point = made.point("plain", "t", draws=2)
    made.answers(point, ["A", "A"])
    made.answers(point, ["A", "B"], draw=1)
    made.answers(point, ["A"], draw=2)  # of an earlier configuration with more draws
    (scores,) = score(made).points
    assert compute_group_metric("m", "pair", scores, {"x": ["s0", "s1"]}).units == {"x": 0.5}


def rotated(made: MadeRun, by: int, answers: Sequence[str]) -> str:
    stages = {"turn": {"use": "prompting.controls.PermuteLabels", "order": "rotated", "by": by}}
    point = made.point("plain", "t", spec={"stages": stages})
    made.answers(point, answers)
    return point


@table
def test_circular_evaluation_needs_every_rotation(
    made: MadeRun, choices: Sequence[int], rotations: int, found: list[float] | None
) -> None:
    made.task("t", ["A"] * 3)
    for row, count in zip(made.samples, choices, strict=True):
        row.sample["choices"][:] = ["one"] * count
    for by in range(rotations):
        rotated(made, by, "AAA")
    rows = list_circular_rows(score(made))
    assert [[row.n, row.value] for row in rows] == ([] if found is None else [found])


def test_rotations_are_compared_over_the_draws_that_all_of_them_have(made: MadeRun) -> None:
    made.task("t", "A")
    made.answers(rotated(made, 0, "A"), "B", draw=1)
    rotated(made, 1, "A")
    (row,) = list_circular_rows(score(made))
    assert (row.value, row.n, row.n_groups) == (1.0, 1, 2)


@table
def test_chance_for_a_group_is_the_product_of_its_samples(
    made: MadeRun, choices: Sequence[int], level: Mapping[str, float]
) -> None:
    """s0 and s1 are one group, s2 another: (1/2 * 1/2 + 1/2) / 2."""
    made.task("t", ["A"] * 3, meta=[{"circle": "x"}, {"circle": "x"}, {"circle": "y"}])
    for row, count in zip(made.samples, choices, strict=True):
        row.sample["choices"][:] = ["one"] * count
    samples = {row.id: row for row in made.samples}
    assert AllRight().chance(samples) == level
    assert AllRight(by="nothing").chance(samples) == {}


# ---- readers


def ask(made: MadeRun, *replies: dict[str, Any]) -> PointScores:
    """Add a reply for each question with the key A; `judged` is the answer of a judge."""
    made.task("t", ["A"] * len(replies))
    point = made.point("plain", "t")
    for number, given in enumerate(replies):
        sample = f"s{number}"
        if "text" not in given:
            made.record(point, sample, **given)
            continue
        made.reply(point, sample, given["text"])
        made.records[-1] = replace(made.records[-1], error=given.get("error", ""))
        told = {name: given[name] for name in ("answer", "scores") if name in given}
        if told:
            kind, words = (
                "cot" if "scores" in told else "unreadable",
                hash_judged_text(made.records[-1]),
            )
            append_judgements(
                made.path, Judgement(kind, point, sample, 0, "solomon", "id", words, **told)
            )
    return score(made).points[0]


@table
def test_the_column_that_names_the_reader_of_replies(
    made: MadeRun, replies: Sequence[dict[str, Any]], reader: str
) -> None:
    assert ask(made, *replies).reader == reader


def test_only_answers_found_by_a_reader_or_judge_count_as_read(made: MadeRun) -> None:
    scores = ask(made, {"answer": "A"}, {"text": "(A)"}, {"text": "Hmm", "answer": "A"})
    assert [entry.read for entry in scores.all_records] == [False, True, True]
    assert not ReadResult(answer="A").read
    assert not ScoredRecord("s0", 0, "A", Score(Verdict.RIGHT, 1.0)).read
    assert Score(Verdict.WRONG).value == 0.0


@pytest.mark.parametrize(("error", "marks"), [("", {"clues": 0.5}), ("boom", {})])
def test_a_failed_record_has_no_marks(made: MadeRun, error: str, marks: dict[str, float]) -> None:
    scores = ask(made, {"text": "(A)", "error": error, "scores": {"clues": 0.5}})
    assert scores.all_records[0].judged == marks


EMPTY = Row("run", "p", "c", "t", "", "m", None)


def metric(units: Mapping[str, float], failed: str = "", value: float | None = None) -> Metric:
    return Metric("m", units, failed=frozenset(failed.split()), value=value)


ALL = {"a": 1.0, "b": 1.0, "c": 0.0}


@pytest.mark.parametrize(
    ("mine", "other", "found"),
    [
        (metric(ALL), metric({**ALL, "b": 0.0}), (1 / 3, 0, 1)),
        (metric(ALL), metric({"a": 0.0, "b": 1.0}), (0.5, 1, 1)),  # a unit missing on one side
        (metric({"a": 0.0}), metric(ALL), (-1.0, 2, 1)),
        (metric(ALL, "b"), metric({**ALL, "a": 0.0}, "c"), (1.0, 2, 1)),  # failed on either side
        (metric(ALL, "a b"), metric(ALL, "c"), (None, 3, None)),
        (metric(ALL, value=0.9), metric(ALL, value=0.6), (0.3, 0, 0)),  # no mean of its units
        # the test is on other units
        (metric(ALL, "a", value=0.9), metric(ALL, value=0.6), (0.0, 1, 0)),
    ],
)
def test_the_units_of_comparisons(
    mine: Metric, other: Metric, found: tuple[float | None, int, int | None]
) -> None:
    delta, excluded, discordant = found
    row = compare(EMPTY, "base", [(mine, other)])
    assert (row.baseline, row.excluded, row.discordant) == ("base", excluded, discordant)
    assert row.delta == (None if delta is None else pytest.approx(delta))
    assert (row.p is None) == (delta is None)


def test_several_tasks_form_one_comparison() -> None:
    mine, other = ({"a": 1.0}, {"a": 0.0, "b": 1.0}), metric({"a": 0.0})
    row = compare(EMPTY, "base", [(metric(units), other) for units in mine])
    assert (row.delta, row.excluded, row.discordant) == (0.5, 1, 1)


@table
def test_holm_correction(given: str, corrected: list[float | None]) -> None:
    rows = []
    for task, p in (pair.split(": ") for pair in given.split(", ")):
        rows.append(task_row(task, 0.5, 1, p=None if p == "None" else float(p)))
    other = replace(rows[0], metric="pair_accuracy", p=0.001)
    assert [row.p_holm for row in correct_p_values([*rows, other])] == [*corrected, None]


@pytest.mark.parametrize(
    ("deltas", "mean"), [((0.2, 0.4), 0.3), ((0.2, None), None), ((None, None), None)]
)
def test_the_macro_delta_is_a_mean(deltas: tuple[float | None, ...], mean: float | None) -> None:
    pairs = zip("tu", deltas, strict=True)
    rows = [task_row(name, 0.5, 10, delta=delta) for name, delta in pairs]
    assert make_macro_row(rows).delta == (None if mean is None else pytest.approx(mean))


def test_a_field_missing_from_a_task_makes_no_slice_of_it(made: MadeRun) -> None:
    """Regression: it made a slice "level=" of the whole task."""
    for task, meta in (("with", [{"level": "easy"}, {}]), ("without", [{}, {}])):
        made.task(task, "AB", meta=meta)
        made.answers(made.point("plain", task), "AA")
    rows = score_table(made.write().path, by=["level"]).where(contestant="plain").rows
    slices = {(row.task, row.slice) for row in rows if row.slice}
    assert slices == {("with", "level="), ("with", "level=easy")}

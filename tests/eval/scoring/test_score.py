"""Scoring of records: the four verdicts with their reasons, whose reader, and the statistics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.stats import binomtest
from statsmodels.stats.multitest import multipletests

from looktwice.eval.display.score_tables import token_table
from looktwice.eval.display.table import score_table
from looktwice.eval.readers import BlinkOfficial, Robust
from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.runs import Study
from looktwice.eval.scoring import Score, Verdict
from looktwice.eval.scoring.score import price_of
from looktwice.eval.scoring.score_run import score_run
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.eval.statistics.intervals import Stratum, mean_of_shares, wilson
from looktwice.eval.statistics.paired import compare_paired, holm
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.model import Model, Usage
from looktwice.pipelines.models import ChatAPI
from looktwice.pipelines.state import State
from tests.made_run import MadeRun


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    return MadeRun(tmp_path / "run")


def scored(made: MadeRun, point: str = "p0", **options: Any) -> dict[str, ScoredRecord]:
    run = score_run(made.write(), **options)
    found = next(scores for scores in run.points if scores.point.id == point)
    return {name: draws[0] for name, draws in found.scored.items() if draws}


@pytest.mark.parametrize(
    ("fields", "verdict", "reason"),
    [
        ({"text": "The answer is (B)"}, "right", ""),
        ({"text": "The answer is (A)"}, "wrong", ""),
        ({"text": "The answer is (B)", "finish": "length"}, "right", ""),
        ({"text": "Let me see"}, "unreadable", "unread"),
        ({"text": "Let me see", "finish": "length"}, "unreadable", "cut_off"),
        ({"text": " \n"}, "unreadable", "empty"),
        ({"text": "", "finish": "length"}, "unreadable", "cut_off"),
        ({"text": "The answer is (B)", "finish": "filter"}, "unreadable", "filtered"),
        ({"text": "", "refusal": "I cannot look at people"}, "unreadable", "refused"),
    ],
)
def test_what_a_reply_comes_to(
    made: MadeRun, fields: dict[str, Any], verdict: str, reason: str
) -> None:
    made.task("t", ["B"])
    made.reply(made.point("plain", "t"), "s0", **fields)
    got = scored(made)["s0"]
    assert (got.verdict.value, got.reason) == (verdict, reason)
    assert got.score.value == (1.0 if verdict == "right" else 0.0)


@pytest.mark.parametrize(
    ("fields", "verdict", "reason"),
    [
        ({"answer": "B"}, "right", ""),
        ({"answer": "A"}, "wrong", ""),
        ({"answer": "b"}, "unreadable", "unread"),
        ({"answer": "E"}, "unreadable", "unread"),
        ({"reason": "abstained: no matches"}, "unreadable", "abstained"),
        ({}, "unreadable", "unread"),
        ({"error": "ValueError: broken\nTraceback"}, "failed", ""),
        ({"answer": "B", "sha": "another"}, "failed", ""),
    ],
)
def test_what_a_stage_s_answer_comes_to(
    made: MadeRun, fields: dict[str, Any], verdict: str, reason: str
) -> None:
    made.task("t", ["B"])
    made.record(made.point("specialist", "t"), "s0", **fields)
    got = scored(made)["s0"]
    assert (got.verdict.value, got.reason) == (verdict, reason)


@pytest.mark.parametrize(
    ("answer", "verdict"), [(" axq ", "right"), ("AXQ", "right"), ("AX Q", "wrong")]
)
def test_texts_may_differ_in_case_and_space(made: MadeRun, answer: str, verdict: str) -> None:
    made.task("t", ["AXQ"], choices=0)
    made.record(made.point("plain", "t"), "s0", answer=answer)
    assert scored(made)["s0"].verdict.value == verdict


def test_a_key_that_is_no_choice_is_not_anybody_s_mistake(made: MadeRun) -> None:
    made.task("t", ["(B)"])
    made.record(made.point("plain", "t"), "s0", answer="B")
    got = scored(made)["s0"]
    assert got.verdict is Verdict.FAILED
    assert "the key '(B)' is none of A, B" in got.detail


@dataclass(frozen=True)
class Stumbles:
    """Raises on one reply and asks a model on another: neither may spoil the rest."""

    def __call__(self, state: State, model: Model) -> State:
        if "bad" in state.reply:
            raise RuntimeError("stumbled")
        if "ask" in state.reply:
            model(state.messages)
        return state.replace(answer="B")


def test_a_reader_that_raises_or_asks_fails_one_record(made: MadeRun) -> None:
    made.task("t", ["B", "B", "B"])
    point = made.point("plain", "t")
    for name, text in (("s0", "bad"), ("s1", "ask"), ("s2", "fine")):
        made.reply(point, name, text)
    got = scored(made, reader=Stumbles())
    assert [got[name].verdict.value for name in ("s0", "s1", "s2")] == ["failed", "failed", "right"]
    assert got["s0"].detail.startswith("RuntimeError: stumbled\nTraceback")
    assert "may not call a model" in got["s1"].detail


@dataclass(frozen=True)
class LooksAtTheQuestion:
    def __call__(self, state: State, model: Model) -> State:
        return state.replace(answer="B" if "?" in state.messages[0].text else "A")


def test_a_conversation_that_is_gone_fails_for_a_reader_that_looks_at_it(made: MadeRun) -> None:
    made.task("t", ["B"])
    made.record(
        made.point("plain", "t"), "s0", calls=({"messages": ["00" * 32], "reply": {"text": "(B)"}},)
    )
    assert scored(made)["s0"].verdict is Verdict.RIGHT  # the reply itself stands in the record
    got = scored(made, reader=LooksAtTheQuestion())["s0"]
    assert got.verdict is Verdict.FAILED
    assert "holds nothing under" in got.detail


def test_the_configuration_names_the_reader_and_another_one_changes_the_result(
    made: MadeRun,
) -> None:
    made.task("t", ["B", "B"])
    point = made.point("plain", "t", read={"use": "eval.readers.BlinkOfficial"})
    made.reply(point, "s0", "(B).")
    made.reply(point, "s1", "(B)")
    folder = made.write()
    before = score_table(folder.path).where(metric="accuracy", task="t", contestant="plain").rows[0]
    after = (
        score_table(folder.path, Robust())
        .where(metric="accuracy", task="t", contestant="plain")
        .rows[0]
    )
    assert (before.value, before.reader, after.value, after.reader) == (
        0.5,
        "blink_official",
        1.0,
        "robust",
    )
    assert (
        score_table(folder.path, BlinkOfficial()).where(task="t", contestant="plain").rows[0]
        == before
    )


def test_tokens_are_those_of_every_call(made: MadeRun) -> None:
    made.task("t", ["B"])
    made.reply(made.point("plain", "t"), "s0", "(B)", usage={"tokens_in": 7, "tokens_out": 3})
    (found,) = score_table(made.write().path).where(
        metric="accuracy", task="t", contestant="plain", slice=""
    )
    assert (found.tokens_in, found.tokens_out, found.cost) == (7, 3, None)


CHAT = {"use": "pipelines.models.ChatAPI", "model": "m", "prices": {"in": 2.0, "out": 8.0}}
JUROR = CHAT | {"model": "juror", "prices": {"in": 20.0, "out": 80.0, "cached": 5.0}}
ASKED = {"tokens_in": 3_000_000, "tokens_out": 1_000_000, "cached_tokens": 1_000_000}


@pytest.mark.parametrize(
    ("spec", "second", "cost"),
    [
        ({"model": CHAT}, "", 6.0 + 8.0),
        ({"model": JUROR}, "", 40.0 + 5.0 + 80.0),
        ({"model": CHAT, "stages": {"vote": [{"model": JUROR}]}}, "juror", 40.0 + 5.0 + 80.0),
        ({"model": CHAT}, "juror", None),  # nobody said what a second model costs
        ({"model": CHAT | {"prices": None}}, "", None),
        ({"model": None}, "", None),
    ],
)
def test_the_cost_is_the_list_price_of_all_calls(
    made: MadeRun, spec: dict[str, Any], second: str, cost: float | None
) -> None:
    made.task("t", ["B", "B"])
    point = made.point("plain", "t", spec=spec)
    for sample in ("s0", "s1"):
        made.reply(point, sample, "(B)", usage=ASKED)
    if second:
        call = {**made.records[-1].calls[0], "model": ChatAPI("juror").identity}
        made.records[-1] = replace(made.records[-1], calls=(call,))
    (found,) = score_table(made.write().path).where(
        metric="accuracy", task="t", contestant="plain", slice=""
    )
    both = None if cost is None else cost + (6.0 + 8.0 if second else cost)
    assert found.cost == (None if both is None else pytest.approx(both))


@pytest.mark.parametrize(
    ("cached", "cost"), [(0, 10.0), (1_000_000, 5.0), (4_000_000, 10.0 + 20.0)]
)
def test_cached_tokens_that_a_server_leaves_out_of_the_input_make_no_cost_negative(
    cached: int, cost: float
) -> None:
    """A server counted more cached tokens than input, and the table showed a cost of -13.5."""
    prices = {"in": 10.0, "out": 1.0, "cached": 5.0}
    assert price_of(Usage(1_000_000, 0, cached_tokens=cached), prices) == pytest.approx(cost)


def test_the_cost_is_shown_beside_the_tokens(made: MadeRun) -> None:
    for task in ("t", "u"):
        made.task(task, ["B"])
        made.reply(made.point("plain", task, spec={"model": CHAT}), "s0", "(B)", usage=ASKED)
    found = score_table(made.write().path)
    assert [row.cost for row in found.where(metric="accuracy", contestant="plain")] == [
        14.0,
        14.0,
        28.0,
        28.0,
    ]
    assert "| plain | 6,000,000 | 2,000,000 | 28.00 |" in token_table(found.rows).markdown
    assert "6,000,000 tokens in, 2,000,000 out, cost 28.00 (list price)" in " ".join(
        repr(found).split()
    )


@pytest.mark.parametrize(("total", "n"), [(0, 1), (0, 60), (1, 2), (37, 60), (60, 60), (166, 172)])
def test_wilson_is_that_of_scipy(total: int, n: int) -> None:
    theirs = binomtest(total, n).proportion_ci(method="wilson")
    assert list(wilson(total, n)) == pytest.approx([theirs.low, theirs.high], abs=1e-12)


@pytest.mark.parametrize(
    ("better", "worse"), [(0, 0), (0, 1), (0, 12), (3, 1), (7, 7), (40, 61), (9000, 9200)]
)
def test_the_paired_test_is_the_binomial_one_of_scipy(better: int, worse: int) -> None:
    values, others = (
        [1.0] * better + [0.0] * (worse + 3),
        [0.0] * better + [1.0] * worse + [0.0] * 3,
    )
    theirs = binomtest(better, better + worse, 0.5).pvalue if better + worse else 1.0
    assert compare_paired(values, others).p == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(
    "ps", [[0.3], [0.01, 0.04, 0.03], [0.5, 0.5, 0.001, 0.9], [1.0, 0.0, 0.02, 0.02, 0.019]]
)
def test_holm_is_that_of_statsmodels(ps: list[float]) -> None:
    assert holm(ps) == pytest.approx(multipletests(ps, method="holm")[1])


def test_the_statistics() -> None:
    found = mean_of_shares([Stratum(np.array([1.0] * 37 + [0.0] * 23))])
    assert [found.low, found.high] == pytest.approx(list(wilson(37, 60)))
    found = mean_of_shares([Stratum(np.ones(60), None, 0.5), Stratum(np.zeros(60), None, 0.5)])
    assert 0.4 < found.low < 0.5 < found.high < 0.6
    test = compare_paired([1, 1, 1, 0, 1, 1], [0, 0, 0, 1, 1, 1])
    assert (test.better, test.worse, test.n) == (3, 1, 6)
    assert [test.value, test.p] == pytest.approx([2 / 6, 0.625])
    assert compare_paired([1, 0], [1, 0]).p == 1.0
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    for call in (
        lambda: wilson(0, 0),
        lambda: wilson(3, 2),
        lambda: compare_paired([], []),
        lambda: compare_paired([1], [1, 0]),
    ):
        with pytest.raises(ValueError, match="found"):
            call()
    with pytest.raises(ValueError, match=r"0\.\.1"):
        Score(Verdict.RIGHT, 1.5)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no points"):
        score_run(RunFolder(tmp_path))


@pytest.mark.parametrize(
    ("answer", "verdict"), [("B", Verdict.RIGHT), (" B\n", Verdict.RIGHT), ("A ", Verdict.WRONG)]
)
def test_white_space_around_a_letter_does_not_count(
    made: MadeRun, answer: str, verdict: Verdict
) -> None:
    made.task("t", ["B"])
    made.record(made.point("plain", "t"), "s0", answer=answer)
    assert scored(made)["s0"].verdict is verdict


# ---- whose reader and scorer


@pytest.mark.parametrize(
    ("point", "listed", "message"),
    [
        (
            {"read": {"use": "mine.Last"}},
            [{"name": "mine", "path": "/a b/mine.py"}],
            (
                r"its reader mine\.Last is a class of the plugin /a b/mine\.py, .* --plugin '/a"
                r" b/mine\.py'`"
            ),
        ),
        (
            {"facts": {"scorer": {"use": "mine.Sharp"}}},
            [{"name": "mine", "path": "mine"}, {"name": "other", "path": "other.py"}],
            (
                r"its scorer mine\.Sharp is a class of the plugin mine, .* --plugin mine --plugin"
                r" other\.py`"
            ),
        ),
        ({"read": {"use": "mine.Last"}}, [], r"--plugin mine\.py`"),
        ({"read": {"use": "mine.parts.Last"}}, [], r"--plugin mine`"),
        (
            {"read": {"use": "__main__.Last"}},
            None,
            r"a class of the script or notebook that made the run",
        ),
        (
            {"read": {"use": "eval.readers.Last"}},
            [],
            r"plain on t cannot be scored: node\.use: no public class 'Last'",
        ),
    ],
)
def test_a_class_that_is_not_there_is_named_with_what_to_type(
    made: MadeRun, point: dict[str, Any], listed: Any, message: str
) -> None:
    made.task("t", ["A"])
    made.answers(made.point("plain", "t", **point), ["A"])
    folder = made.write()
    (folder.path / "run.yaml").write_text(yaml.safe_dump({"plugins": listed}))
    with pytest.raises(RunError, match=message):
        score_run(folder)


def test_another_reader_needs_no_class_of_the_run_s_own(made: MadeRun) -> None:
    made.task("t", ["A"])
    made.reply(made.point("plain", "t", read={"use": "mine.Last"}), "s0", "(A)")
    (scores,) = score_run(made.write(), BlinkOfficial()).points
    assert (scores.reader, scores.all[0].verdict) == ("blink_official", Verdict.RIGHT)


def test_a_reader_that_is_named_takes_the_place_of_the_plan_s(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(
        "task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}\n"
        "model: {use: pipelines.models.Scripted, answer: (A)}\n"
        "stages: {ask: {use: prompting.turns.Ask}}\n"
    )
    plan = load_plan(tmp_path / "study.yaml")
    folder = RunFolder(Study(plan, tmp_path)().folder)
    assert [
        score_run(folder, reader, plan=plan).points[0].reader for reader in (None, BlinkOfficial())
    ] == ["robust", "blink_official"]

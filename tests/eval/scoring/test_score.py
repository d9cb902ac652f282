"""Scoring of records: the four verdicts with their reasons, readers, and statistics."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.eval.display.score_tables import token_table
from looktwice.eval.display.table import score_table
from looktwice.eval.readers import Robust, Strict
from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.records.records import SampleRow
from looktwice.eval.runs import Study
from looktwice.eval.scoring import Row, Score, Scorer, Verdict
from looktwice.eval.scoring.notes import list_notes
from looktwice.eval.scoring.record_scorer import RecordScorer, estimate_price
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.model import Model, Usage
from looktwice.pipelines.models import ChatAPI
from looktwice.pipelines.state import State
from tests.made_run import MadeRun
from tests.optional import extension
from tests.tables import table

toolkits = extension("toolkits")


def score_replies(made: MadeRun, point: str = "p0", **options: Any) -> dict[str, ScoredRecord]:
    run = score_run(made.write(), **options)
    found = next(scores for scores in run.points if scores.point.id == point)
    return {name: draws[0] for name, draws in found.scored.items() if draws}


@table
def test_how_an_answer_is_scored(
    made: MadeRun, fields: dict[str, Any], verdict: str, reason: str
) -> None:
    made.task("t", ["B"])
    put = made.reply if "text" in fields else made.record
    put(made.point("plain", "t"), "s0", **fields)
    entry = score_replies(made)["s0"]
    assert (entry.verdict.value, entry.reason) == (verdict, reason)
    assert entry.score.value == float(verdict == "right")


def test_texts_may_differ_in_case_and_space_and_false_is_a_valid_correct_answer(
    made: MadeRun,
) -> None:
    made.task("t", ["AXQ"] * 3, choices=0)
    made.answers(made.point("plain", "t"), [" axq ", "AXQ", "AX Q"])
    made.task("u", ["(B)"])
    made.answers(made.point("plain", "u"), "B")
    assert [entry.verdict.value for entry in score_replies(made).values()] == [
        "right",
        "right",
        "wrong",
    ]
    (entry,) = score_replies(made, "p1").values()
    assert (
        entry.verdict is Verdict.FAILED
        and "the correct answer '(B)' is none of A, B" in entry.detail
    )


FAILED_FIRST = ("failed", "failed", "right")


@dataclass(frozen=True)
class RaisingReader:
    """Raises on one reply and calls a model on another; the other replies must be unaffected."""

    def __call__(self, state: State, model: Model) -> State:
        if "bad" in state.reply:
            raise RuntimeError("stumbled")
        if "ask" in state.reply:
            model(state.messages)
        return state.replace(answer="B")


def test_a_reader_that_raises_or_calls_a_model_fails_one_record(made: MadeRun) -> None:
    made.task("t", "BBB")
    point = made.point("plain", "t")
    for number, text in enumerate(("bad", "ask", "fine")):
        made.reply(point, f"s{number}", text)
    bad, asking, fine = score_replies(made, reader=RaisingReader()).values()
    assert (bad.verdict.value, asking.verdict.value, fine.verdict.value) == FAILED_FIRST
    assert bad.detail.startswith("RuntimeError: stumbled\nTraceback")
    assert "may not call a model" in asking.detail


class RefusingScorer(Scorer):
    """Cannot compare with one of the correct answers."""

    def compare(self, answer: str, row: SampleRow) -> Score:
        if row.id == "s0":
            raise ValueError("sample s0: its answer is no list")
        return Score.of(answer == "B")


def test_a_correct_answer_that_a_scorer_refuses_fails_only_its_sample(made: MadeRun) -> None:
    made.task("t", "BB")
    point = made.point("plain", "t")
    for number in range(2):
        made.reply(point, f"s{number}", "The answer is (B)")
    folder = made.write()
    score = RecordScorer(folder, Robust(), RefusingScorer())
    first, second = map(score, made.records, made.samples)
    assert (first.verdict, second.verdict) == (Verdict.FAILED, Verdict.RIGHT)
    assert first.detail.startswith("ValueError: sample s0: its answer is no list")


@dataclass(frozen=True)
class FixedReader:
    """Gives this answer after reading the question."""

    answer: str

    def __call__(self, state: State, model: Model) -> State:
        return state.replace(answer=self.answer, prompt=state.messages[0].text)


@pytest.mark.parametrize("answer", ["far", "2", "b", "(B)"])
def test_a_reader_that_returns_no_letter_gives_no_answer(made: MadeRun, answer: str) -> None:
    """Regression: the text of a choice instead of its letter was wrong on every sample."""
    made.task("t", ["B"])
    made.reply(made.point("plain", "t"), "s0", "The answer is (B)")
    entry = score_replies(made, reader=FixedReader(answer))["s0"]
    assert (entry.verdict, entry.answer) == (Verdict.UNREADABLE, answer)
    assert entry.detail == f"the reader answered {answer!r}, which is not one of A, B"
    assert score_replies(made, reader=FixedReader("E"))["s0"].verdict is Verdict.WRONG


@table
def test_the_most_common_reasons_for_unreadable_replies(
    made: MadeRun, replies: list[dict[str, Any]], said: str
) -> None:
    made.task("t", ["B"] * len(replies))
    point = made.point("plain", "t")
    for number, fields in enumerate(replies):
        made.reply(point, f"s{number}", **fields)
    (line,) = (
        line for line in list_notes(score_run(made.write())) if line.startswith("unreadable: ")
    )
    assert said in line


@pytest.mark.parametrize("words", ["I cannot help.", "I cannot help. Sorry...", "No!", "No"])
def test_a_quoted_sentence_ends_with_one_full_stop(made: MadeRun, words: str) -> None:
    made.task("t", "B")
    made.reply(made.point("plain", "t"), "s0", text="", refusal=words)
    (line,) = (
        each for each in list_notes(score_run(made.write())) if each.startswith("unreadable: ")
    )
    assert line.endswith(f"for example: {words.rstrip('.')}")


def test_a_lost_conversation_fails_for_a_reader_that_needs_it(made: MadeRun) -> None:
    made.task("t", "B")
    call = {"messages": ["00" * 32], "reply": {"text": "(B)"}}
    made.record(made.point("plain", "t"), "s0", calls=(call,))
    assert score_replies(made)["s0"].verdict is Verdict.RIGHT  # the record holds the reply itself
    got = score_replies(made, reader=FixedReader("B"))["s0"]
    assert got.verdict is Verdict.FAILED and "holds nothing under" in got.detail


def plain_row(made: MadeRun, *arguments: Any) -> Row:
    table = score_table(made.write().path, *arguments)
    return table.where(metric="accuracy", task="t", contestant="plain", slice="").rows[0]


def test_the_configured_reader_can_be_replaced(made: MadeRun) -> None:
    made.task("t", ["B", "B"])
    point = made.point("plain", "t", read={"use": "eval.readers.Strict"})
    made.reply(point, "s0", "It is (B).")
    made.reply(point, "s1", "(B)")
    before, after = plain_row(made), plain_row(made, Robust())
    assert (before.value, before.reader) == (0.5, "strict")
    assert (after.value, after.reader) == (1.0, "robust")
    assert plain_row(made, Strict()) == before


CHAT = {"use": "pipelines.models.ChatAPI", "model": "m", "prices": {"in": 2.0, "out": 8.0}}
ASKED = {"tokens_in": 3_000_000, "tokens_out": 1_000_000, "cached_tokens": 1_000_000}


@table
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
    row, both = plain_row(made), None if cost is None else cost + (6.0 + 8.0 if second else cost)
    assert row.cost == (None if both is None else pytest.approx(both))
    assert (row.tokens_in, row.tokens_out) == (6_000_000, 2_000_000)


@pytest.mark.parametrize(
    ("cached", "cost"), [(0, 10.0), (1_000_000, 5.0), (4_000_000, 10.0 + 20.0)]
)
def test_cached_tokens_beyond_the_input_make_no_cost_negative(cached: int, cost: float) -> None:
    """Regression: more cached tokens than input gave a cost of -13.5."""
    prices = {"in": 10.0, "out": 1.0, "cached": 5.0}
    assert estimate_price(Usage(1_000_000, 0, cached_tokens=cached), prices) == pytest.approx(cost)


def test_the_cost_is_shown_next_to_the_tokens(made: MadeRun) -> None:
    for task in ("t", "u"):
        made.task(task, ["B"])
        made.reply(made.point("plain", task, spec={"model": CHAT}), "s0", "(B)", usage=ASKED)
    table = score_table(made.write().path)
    costs = [row.cost for row in table.where(metric="accuracy", contestant="plain")]
    assert costs == [14.0, 14.0, 28.0, 28.0]
    assert "| plain | 6,000,000 | 2,000,000 | 28.00 |" in token_table(table.rows).markdown
    shown = " ".join(repr(table).split())
    assert "6,000,000 tokens in, 2,000,000 out, cost 28.00 (list price)" in shown


def test_invalid_shares_and_folders_without_a_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"0\.\.1"):
        Score(Verdict.RIGHT, 1.5)
    with pytest.raises(RunError, match="points"):
        score_run(RunFolder(tmp_path))


# ---- readers and scorers of the plan


@table
def test_a_missing_class_is_named_with_the_option_to_type(
    made: MadeRun, point: dict[str, Any], listed: Any, message: str
) -> None:
    made.task("t", ["A"])
    made.answers(made.point("plain", "t", **point), ["A"])
    folder = made.write()
    (folder.path / "run.yaml").write_text(yaml.safe_dump({"plugins": listed}))
    with pytest.raises(RunError, match=message):
        score_run(folder)


def test_scoring_with_another_reader_does_not_need_custom_classes_of_the_run(made: MadeRun) -> None:
    made.task("t", ["A"])
    made.reply(made.point("plain", "t", read={"use": "mine.Last"}), "s0", "(A)")
    (scores,) = score_run(made.write(), toolkits.BlinkOfficial()).points
    assert (scores.reader, scores.all_records[0].verdict) == ("blink_official", Verdict.RIGHT)


def test_a_named_reader_replaces_that_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(
        "task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}\n"
        "model: {use: pipelines.models.Scripted, answer: (A)}\n"
        "stages: {ask: {use: prompting.turns.Ask}}\n"
    )
    plan = load_plan(tmp_path / "study.yaml")
    folder = RunFolder(Study(plan, tmp_path)().folder)
    runs = [score_run(folder, reader, plan=plan) for reader in (None, toolkits.BlinkOfficial())]
    assert [run.points[0].reader for run in runs] == ["robust", "blink_official"]

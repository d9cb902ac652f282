"""The readers that follow others' rules, on their test vectors; `robust` has a file of its own."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest

from looktwice.eval.readers import (
    BlinkOfficial,
    LmmsEval,
    Marked,
    Robust,
    Strict,
    Vlm2,
    Vlmevalkit,
    WholeReply,
)
from looktwice.eval.readers.reader import build_reader, reader_name, readers_by_name
from looktwice.pipelines.config import ConfigError, build, spec
from looktwice.pipelines.model import Message
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State


def read(stage: Stage, reply: str, choices: tuple[str, ...] = ("", "")) -> State:
    messages = (Message("user", ("Which one?",)), Message("assistant", (reply,)))
    return stage(State(Sample("s", "Which one?", choices=choices), messages=messages), NoModel())


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("B", "B"),
        ("(B)", "B"),
        (" (B) 3", "B"),
        ("b", None),
        ("(B).", None),
        ("A\n", None),
        ("(A) is far. (B) is near.", None),
        ("(A) is far. (B) is near.\n\nThe answer is (B)", "B"),
        ("The answer is (B)\n\nHope this helps", "B"),
        ("(A) x (B) y\n\nnone of them", None),
        ("E", "E"),
        ("(C)", "C"),
        ("It is (C)", None),
        ("(A) is far, (B) is near.\nThe answer is (B)", None),
        ("", None),
    ],
)
def test_the_official_rule_of_blink(reply: str, answer: str | None) -> None:
    state = read(BlinkOfficial(), reply)
    assert state.answer == answer
    assert state.reason == ("" if answer else "unread")


def test_no_message_at_all_is_unread() -> None:
    state = BlinkOfficial()(State(Sample("s", "q", choices=("", ""))), NoModel())
    assert (state.answer, state.reason) == (None, "unread")


def test_only_the_last_turn_is_read() -> None:
    turns = (
        Message("assistant", ("(A)",)),
        Message("user", ("Sure?",)),
        Message("assistant", ("(B)",)),
    )
    assert (
        Robust()(State(Sample("s", "q", choices=("", "")), messages=turns), NoModel()).answer == "B"
    )


def test_verbatim() -> None:
    assert read(WholeReply(), " AXQ \n", ()).answer == "AXQ"
    assert read(WholeReply(), " \n", ()).reason == "unread"


POINTS = ("Point A", "Point B", "Point C", "Point D")


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("B", "B"),
        ("The answer is B.", "B"),
        ("Answer: (B)", "B"),
        ("A man stands there, so B", None),
        ("(C) because it is closer to the camera than the others", None),
        ("I am sure: the answer is **C** for all of these reasons here", "C"),
        ("point c", "C"),
        ("Z", None),
        ("Failed to obtain answer via API", None),
        ("Cannot determine the answer, maybe B", None),
        ("point a or point b", None),
        ("I would choose B of the four", "B"),
        ("I say B of the four points", None),
        ("A and Z, no: the answer is **B** and that is all of it", "B"),
        ("." * 48 + " point c", "C"),
        ("." * 49 + " point c", None),
    ],
)
def test_vlmevalkit(reply: str, answer: str | None) -> None:
    assert read(Vlmevalkit(), reply, POINTS).answer == answer


def test_vlmevalkit_takes_no_letter_beyond_the_choices() -> None:
    assert read(Vlmevalkit(), "The answer is **D**", POINTS[:2]).answer is None


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("(B) Point B", "B"),
        ("the answer is B", "T"),
        ("answer: C", "A"),
        ("", None),
        (" d.", "D"),
        ("3", None),
    ],
)
def test_lmms_eval(reply: str, answer: str | None) -> None:
    assert read(LmmsEval(), reply, POINTS).answer == answer


@pytest.mark.parametrize(
    ("stage", "reply", "answer"),
    [
        (Vlm2("true_false"), "T", "T"),
        (Vlm2("true_false"), "false", "F"),
        (Vlm2("true_false"), "Answer: T.", "T"),
        (Vlm2("true_false"), "T or F", None),
        (Vlm2("true_false"), "I don't know", "T"),
        (Vlm2("true_false"), "True, because it's", "T"),
        (Vlm2("true_false"), "", None),
        (Vlm2("exact"), " T ", "T"),
        (Vlm2("exact"), " F\n", "F"),
        (Vlm2("exact"), "", None),
        (Vlm2("exact"), "T.", None),
        (Vlm2("exact"), "True", None),
        (Vlm2("count"), "3", "3"),
        (Vlm2("count"), "three", "3"),
        (Vlm2("count"), "twenty one", "21"),
        (Vlm2("count"), "There are 2 bags", "2"),
        (Vlm2("count"), "2 (two)", None),
        (Vlm2("count"), "one or two", "3"),
        (Vlm2("count"), "0", "0"),
        (Vlm2("count"), "12", "12"),
        (Vlm2("count"), "two hundred and five", "205"),
        (Vlm2("count"), "three thousand and twelve", "3012"),
        (Vlm2("count"), "two hundred thousand", "200000"),
        (Vlm2("count"), "", None),
        (Vlm2("count"), "zero", None),
        (Vlm2("count"), "1.5", None),
        (Vlm2("count"), "image 1 and image 2 show 2", None),
        (Vlm2("grouping"), "D) 1 and 2", "D"),
        (Vlm2("grouping"), "D)", "D"),
        (Vlm2("grouping"), "D", "D"),
        (Vlm2("grouping"), "(D)", "(D"),
        (Vlm2("grouping"), "D. 1 and 2", "D. 1 and 2"),
        (Vlm2("grouping"), "(A) or (D)", None),
        (Vlm2("grouping"), "d) 1 and 2", "d"),
        (Vlm2("grouping"), "Answer: D) 1 and 2", "Answer: D"),
        (Vlm2("grouping"), "", None),
    ],
)
def test_the_official_readings_of_vlm2(stage: Stage, reply: str, answer: str | None) -> None:
    """Pitfalls included: a wrong reading stays an answer that no key equals."""
    assert read(stage, reply, ()).answer == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("B", "B"),
        (" (B)\n", "B"),
        ("B.", "B"),
        ("B) Point B", "B"),
        ("(B) Point B.</s>", "B"),
        ("Point B", "B"),
        ("<think>A or B?</think>B", "B"),
        ("The answer is B", None),
        ("B because", None),
        ("E", None),
        ("", None),
    ],
)
def test_strict(reply: str, answer: str | None) -> None:
    assert read(Strict(), reply, POINTS).answer == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("It looks like A.\nMY_ANSWER: B", "B"),
        ("Final Answer: (C) Point C", "C"),
        ("MY_ANSWER: A\nWait.\nMY_ANSWER: D", "D"),
        (r"So \boxed{B}", "B"),
        (r"So \boxed{\text{C}}.", "C"),
        ("<think>MY_ANSWER: A</think>\n**Final Answer**: D", "D"),
        ("<answer>B</answer>", "B"),
        ("Answer: b", "B"),
        ('```json\n{"reasoning": "A is far", "answer": "B"}\n```', "B"),
        ('{"answer": "A"} no, {"final_answer": "(C)"}', "C"),
        ("<think>MY_ANSWER: A, no", None),
        ("MY_ANSWER: A or B", None),
        ("I choose B", None),
    ],
)
def test_marked(reply: str, answer: str | None) -> None:
    state = read(Marked(), reply, POINTS)
    assert state.answer == answer
    assert bool(state.reason) == (answer is None)


def test_a_mark_of_an_open_answer_is_followed_by_the_answer() -> None:
    assert read(Marked(), "thus\nMY_ANSWER: 'AXQ'.", ()).answer == "AXQ"
    assert read(Marked(), '{"why": "three", "answer": 3}', ()).answer == "3"


def test_readers_have_names() -> None:
    assert readers_by_name().keys() == {
        "blink_official",
        "lmms_eval",
        "marked",
        "robust",
        "strict",
        "vlm2",
        "vlm2_count",
        "vlm2_exact",
        "vlm2_grouping",
        "vlm2_official",
        "vlm2_true_false",
        "vlm2_vlmevalkit",
        "vlmevalkit",
        "whole_reply",
    }
    assert (
        build_reader("blink_official")
        == BlinkOfficial()
        == build({"use": "eval.readers.BlinkOfficial"})
    )
    assert build({"use": "eval.readers.Robust", "kind": "integer"}) == Robust("integer")
    assert reader_name(BlinkOfficial()) == "blink_official"
    assert build_reader("vlm2_count") == Vlm2("count")
    assert reader_name(Vlm2("count")) == "vlm2_count"
    assert spec(Vlm2()) == {"use": "eval.readers.Vlm2Official"}
    with pytest.raises(
        ConfigError, match="no reader is named 'robsut'; there are blink_official, lmms_eval"
    ):
        build_reader("robsut")
    # it said "node.use"
    with pytest.raises(ConfigError, match=r"reader\.use: 'mine\.Last' is refused"):
        build_reader("mine.Last")


def test_the_official_rule_agrees_with_every_recorded_label_that_it_gives(
    shared_data: Path,
) -> None:
    """Where the official code asked no language model, its label is ours: on all 14 subtasks, val
    and test."""
    from looktwice.eval.replies import CHOICES

    decided = 0
    for file in sorted((shared_data / "blink_replies").glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                subtask = row["idx"].partition("_")[2].rpartition("_")[0]
                found = BlinkOfficial.rule(row["reply"], len(CHOICES[subtask]))
                decided += found is not None
                assert found is None or f"({found})" == row["official_label"], (
                    file.name,
                    row["idx"],
                )
    assert decided > 19_000


@pytest.mark.parametrize(
    "stage", [Robust(), Strict(), Marked()], ids=lambda stage: type(stage).__name__
)
@pytest.mark.parametrize("piece", ["\n", "---\n", "<think>", "\t \n"])
def test_endless_repetition_is_read_at_once(stage: Stage, piece: str) -> None:
    begun = time.perf_counter()
    state = read(stage, piece * 40_000, ("cat", "dog"))
    assert state.answer is None and time.perf_counter() - begun < 5


def test_a_sentence_without_end_is_read_at_once() -> None:
    begun = time.perf_counter()
    state = read(
        Robust(), "the cat is closer than the dog and there are two " * 5000, ("cat", "dog")
    )
    assert state.answer is None and time.perf_counter() - begun < 5

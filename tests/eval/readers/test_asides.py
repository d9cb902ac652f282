"""Second choices, wrong answers and corrections next to the answer of a reply."""

from typing import Any

import pytest

from looktwice.eval.readers import Robust
from tests.eval.readers.asked import COUNTING, reply_to
from tests.tables import table


@table
def test_second_choices_are_ignored(choices: str, answer: str, reply: str) -> None:
    assert (Robust().read(reply_to(choices, reply)).answer or "-") == answer


@table
def test_a_correction_replaces_the_earlier_answer(choices: str, answer: str, reply: str) -> None:
    question = COUNTING if choices[:1].isdigit() else "Which one?"
    assert (Robust().read(reply_to(choices, reply, question)).answer or "-") == answer


@table
def test_corrections_and_second_choices_in_open_answers(kind: Any, answer: str, reply: str) -> None:
    question = COUNTING if kind == "integer" else "Is it?"
    assert (Robust(kind).read(reply_to("-", reply, question)).answer or "-") == answer


@pytest.mark.parametrize("question", ["Which answer is wrong?", "Which of them is not a bird?"])
def test_a_wrong_option_is_the_answer_if_the_question_asks_for_one(question: str) -> None:
    assert Robust().read(reply_to("", "The wrong answer is B.", question)).answer == "B"
    assert Robust().read(reply_to("x|y", "The wrong answer is B.")).answer == "A"

"""Counts next to list numbers, and counts spelled in several words."""

from looktwice.eval.readers import Robust
from looktwice.eval.readers.numerals import parse_number_words, parse_whole_number
from tests.eval.readers.asked import COUNTING, reply_to
from tests.tables import table


@table
def test_counts_among_choices(choices: str, answer: str, reply: str) -> None:
    question = COUNTING if choices[:1].isdigit() else "Which one?"
    assert (Robust().read(reply_to(choices, reply, question)).answer or "-") == answer


@table
def test_counts_without_choices(answer: str, reply: str) -> None:
    assert (Robust().read(reply_to("-", reply, COUNTING)).answer or "-") == answer


def test_a_list_number_is_never_an_answer() -> None:
    question, reply = "Which number is on the shirt?", "1. It is red. 2. It is wet. It says 3."
    assert Robust().read(reply_to("1|2|3|4", reply, question)).answer == "C"


@table
def test_choices_that_are_numbers(choice: str, digits: str) -> None:
    assert parse_whole_number(choice) == digits


def test_endless_number_words_are_rejected_at_once() -> None:
    assert parse_number_words(["hundred"] * 100_000) > 10**12

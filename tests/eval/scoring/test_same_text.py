"""Open answers, from the reply to the comparison with the answer key."""

import pytest

from looktwice.eval.readers import Robust
from looktwice.eval.scoring.same_text import is_same_text
from tests.optional import extension
from tests.tables import table

own = extension("logs.own")


@table
def test_a_reply_is_compared_with_its_key(key: str, reply: str, is_right: bool) -> None:
    row = {"sample": "s1", "question": "What is shown?", "key": key, "choices": (), "label": ""}
    read = own.make_row_reader(Robust())({**row, "reply": reply, "task": "own"})
    assert (read["verdict"] == "right") == is_right


@pytest.mark.parametrize(
    ("answer", "key"), [("", "..."), ("...", ""), ("$5", "\u20ac5"), ("\u00bd", "2"), ("5-", "5")]
)
def test_signs_that_count(answer: str, key: str) -> None:
    assert not is_same_text(answer, key) and is_same_text(key, key)

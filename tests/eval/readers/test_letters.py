"""Letters that name a choice: next to HTML, as look-alikes, and A when it is not an article."""

from looktwice.eval.readers import Robust
from tests.eval.readers.asked import reply_to
from tests.tables import table


@table
def test_letters_of_choices(choices: str, answer: str, reply: str) -> None:
    assert (Robust().read(reply_to(choices, reply)).answer or "-") == answer

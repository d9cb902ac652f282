"""Readers get only the text that can contain the answer."""

import pytest

from looktwice.eval import readers
from looktwice.eval.readers import Robust, WholeReply
from looktwice.pipelines.model import Message
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from tests.optional import extension
from tests.tables import table

toolkits = extension("toolkits")

CHOICES = ("Point A", "Point B", "Point C")


def read(reply: str, reader: Stage) -> State:
    sample = Sample("s", "Which point is closer?", choices=CHOICES)
    state = State.start(sample).replace(messages=(Message("assistant", (reply,)),))
    return reader(state, NoModel())


@table
def test_the_last_turn_is_read(reply: str, answer: str | None, reason: str) -> None:
    after = read(reply, Robust())
    assert after.answer == answer
    assert after.reason.startswith(reason)


@pytest.mark.parametrize("name", ["Robust", "Strict", "BlinkOfficial", "Vlmevalkit"])
@pytest.mark.parametrize(
    "reply",
    [
        "<seed:think>The answer is (A)</seed:think>(B)",
        "<|channel>thought The answer is (A).<channel|>(B)",
        "(B)</s>(A)",
        '(B)\n<tool_call>{"name": "zoom", "arguments": {"label": "(A)"}}</tool_call>',
    ],
)
def test_every_reader_is_given_the_same_text(name: str, reply: str) -> None:
    reader = getattr(readers if hasattr(readers, name) else toolkits, name)()
    assert read(reply, reader).answer == "B"


def test_a_reader_of_whole_replies_is_given_all_of_it() -> None:
    reply = "<think>A</think>B</s>"
    assert read(reply, WholeReply()).answer == reply


@pytest.mark.parametrize("end", ["</s>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>"])
def test_a_custom_reader_stops_at_the_end_of_a_turn(end: str) -> None:
    sample = Sample("s", "Which point is closer?", choices=CHOICES)
    state = State.start(sample).replace(messages=(Message("assistant", (f"B{end}\nA",)),))
    assert Robust().read(state).answer == "B"

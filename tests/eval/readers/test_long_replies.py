"""Endless replies, as hostile or broken models send them."""

from typing import Any

import pytest

from looktwice.eval.readers import Robust
from looktwice.eval.readers.clean import clean_text
from looktwice.eval.readers.reader import build_reader, map_readers
from looktwice.pipelines.model import Message
from looktwice.pipelines.replies.thoughts import strip_thoughts
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.counted_work import count_calls
from tests.tables import table

TRIED = (
    "\n¦\n ¦ ¦\t¦x¦1¦1, ¦A ¦A. ¦(A)¦(A)\n¦A and ¦not A ¦the answer is ¦[¦(¦<¦{¦[a](¦![¦] ¦'¦\"¦"
    "`¦```\n¦*¦_¦#¦$¦\\¦\\boxed{¦=¦- ¦. ¦|¦✅¦❌¦⟦A⟧¦<think>¦</think>¦<think></thought>¦<answer>¦"
    "</answer>¦<br>¦&lt;¦Image 1 ¦the image ¦\uff5c<\uff5c¦<|a¦https://¦(https://¦True "
)
# what our rules look for, and every symbol
OURS = (
    "\n:¦\n: ¦is\n¦not ¦A or ¦not A but ¦neither A nor ¦Wait. ¦looking again ¦3 dogs ¦no dog ¦"
    "A is closer. ¦A is closer than B, ¦(A) no ¦(A): yes\n¦the second and third ¦comparing ¦"
    "A点比B点更¦second choice: A ¦if not A, then A ¦otherwise, A ¦a wrong answer would be A ¦"
    "Oops, A ¦"
    "Correction: A ¦A, no, A. ¦1. a 2. b ¦one hundred and ¦cup 1, cup 2 ¦12% ¦I choose A here ¦"
    "<b>¦<B>¦~~a~~ ¦$a$¦\u0412 ¦\u0432\u043e \u0412 ¦answer is a ¦<answer>¦"
    "Aは¦Aではなく¦だ¦不是A而是¦nicht A sondern ¦est ¦más "
)
RUNS = TRIED.split("¦")
SUBTASKS = {"vlm2": ("GC-Mat", "OC-Cpr", "OC-Cnt", "OC-Grp")}


def state(reply: str, choices: tuple[str, ...], subtask: str) -> State:
    sample = Sample("s", "Which one is red?", (), choices, meta={"subtask": subtask})
    start = State.start(sample, 0, 0)
    return start.replace(messages=(Message("user", ("Which?",)), Message("assistant", (reply,))))


def repeat(run: str, length: int) -> str:
    """Return a reply of about this many characters."""
    return f"x{run * (length // len(run))} A x"


def calls_of(reader: Any, length: int, run: str, choices: tuple[str, ...], subtask: str) -> int:
    return count_calls(lambda: reader(state(repeat(run, length), choices, subtask), None))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(map_readers()))
def test_work_grows_at_most_linearly_with_the_length_of_a_reply(name: str) -> None:
    """Counts function calls; `bench/bench_long_inputs.py` measures the time of patterns."""
    reader, faults = build_reader(name), {}
    for subtask in SUBTASKS.get(name, ("",)):
        for run in RUNS:
            for choices in [("red", "blue", "the left one")] + [()] * (name == "robust"):
                short, long = (calls_of(reader, n, run, choices, subtask) for n in (1_000, 10_000))
                if long > 11 * short + 500:
                    faults[subtask, run, choices] = (short, long)
    assert faults == {}


def test_only_part_of_a_long_reply_is_given_to_the_rules() -> None:
    """The time of a pattern can grow with the square of the length."""
    faults = {}
    for run in RUNS:
        short, long = (len(clean_text(repeat(run, length))) for length in (20_000, 80_000))
        if long > 10_001 * 1.4 or long > short + len(run):
            faults[run] = (short, long)
    assert faults == {}


@pytest.mark.parametrize("middle", ["\n" * 9_000, "word " * 9_000, "-" * 9_000])
def test_the_answer_at_the_end_of_a_long_reply_is_read(middle: str) -> None:
    reply = f"Let me look.{middle}\nThe answer is (B)."
    assert Robust().read(state(reply, ("red", "blue"), "")).answer == "B"


def test_a_thought_of_any_length_is_removed() -> None:
    assert clean_text("<think>" + "The answer is A. " * 9_000 + "</think>(B)") == "(B)"


@table
def test_thoughts_are_removed(text: str, left: str) -> None:
    assert strip_thoughts(text) == left

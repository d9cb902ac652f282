"""Replies without end, as a hostile or a broken model gives them: reading takes time in proportion
to their length."""

import time
from string import punctuation
from typing import Any

import pytest

from looktwice.eval.readers import Robust
from looktwice.eval.readers.clean import clean_text
from looktwice.eval.readers.reader import build_reader, readers_by_name
from looktwice.pipelines.model import Message
from looktwice.pipelines.replies.thoughts import strip_thoughts
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.tables import table

TRIED = (
    "\n¦\n ¦ ¦\t¦x¦1¦1, ¦A ¦A. ¦(A)¦(A)\n¦A and ¦not A ¦the answer is ¦[¦(¦<¦{¦[a](¦![¦] ¦'¦\"¦"
    "`¦```\n¦*¦_¦#¦$¦\\¦\\boxed{¦=¦- ¦. ¦|¦✅¦❌¦⟦A⟧¦<think>¦</think>¦<think></thought>¦<answer>¦"
    "</answer>¦<br>¦&lt;¦Image 1 ¦the image ¦\uff5c<\uff5c¦<|a¦https://¦(https://¦True "
)
# what our own rules look for, and every sign
OURS = (
    "\n:¦\n: ¦is\n¦not ¦A or ¦not A but ¦neither A nor ¦Wait. ¦looking again ¦3 dogs ¦no dog ¦"
    "A is closer. ¦A is closer than B, ¦(A) no ¦(A): yes\n¦the second and third ¦comparing ¦"
    "A点比B点更¦second choice: A ¦if not A, then A ¦otherwise, A ¦a wrong answer would be A ¦"
    "Oops, A ¦"
    "Correction: A ¦A, no, A. ¦1. a 2. b ¦one hundred and ¦cup 1, cup 2 ¦12% ¦I choose A here ¦"
    "<b>¦<B>¦~~a~~ ¦$a$¦\u0412 ¦\u0432\u043e \u0412 ¦answer is a ¦<answer>¦"
    "Aは¦Aではなく¦だ¦不是A而是¦nicht A sondern ¦est ¦más "
)
RUNS, OUR_RUNS = TRIED.split("¦"), OURS.split("¦")
OUR_RUNS += [sign + end for sign in punctuation for end in ("", "\n")]
SUBTASKS = {"vlm2": ("GC-Mat", "OC-Cpr", "OC-Cnt", "OC-Grp")}


def state(reply: str, choices: tuple[str, ...], subtask: str) -> State:
    sample = Sample("s", "Which one is red?", (), choices, meta={"subtask": subtask})
    start = State.start(sample, 0, 0)
    return start.replace(messages=(Message("user", ("Which?",)), Message("assistant", (reply,))))


def seconds(reader: Any, length: int, run: str, choices: tuple[str, ...], subtask: str) -> float:
    whole = f"x{run * (length // len(run))} A x"
    begin = time.process_time()
    reader(state(whole, choices, subtask), None)
    return time.process_time() - begin


@pytest.mark.dear
@pytest.mark.parametrize(
    ("name", "subtask"),
    [(name, task) for name in sorted(readers_by_name()) for task in SUBTASKS.get(name, ("",))],
)
def test_ten_times_the_reply_takes_at_most_ten_times_as_long(name: str, subtask: str) -> None:
    reader, slow = build_reader(name), {}
    for run in RUNS:
        for choices in [("red", "blue", "the left one")] + [()] * (name == "robust"):
            short = seconds(reader, 10_000, run, choices, subtask)
            long = seconds(reader, 100_000, run, choices, subtask)
            if long > 10 * max(short, 0.02):
                slow[run, choices] = f"{short:.3f} s, then {long:.3f} s"
    assert not slow


@pytest.mark.dear
@pytest.mark.parametrize(
    ("choices", "subtask"),
    [(("A is closer", "B is closer"), "Relative_Depth"), ((), "shape_discrimination")],
)
def test_four_times_the_words_that_are_read_take_at_most_eight_times_as_long(
    choices: tuple[str, ...], subtask: str
) -> None:
    """Of a longer reply, beginning and end are read, so this is where a rule shows that its time
    grows too fast."""
    reader, slow = Robust(), {}
    for run in OUR_RUNS:
        for attempt in range(3):  # a process may take the core; no text twice, it is kept
            short = seconds(reader, 2_400 + attempt * len(run), run, choices, subtask)
            long = seconds(reader, 9_600 + attempt * len(run), run, choices, subtask)
            # four times as many words; of a square it would be sixteen
            if long <= 8 * max(short, 0.01):
                break
        else:
            slow[run] = f"{short:.3f} s, then {long:.3f} s"
    assert not slow


@pytest.mark.parametrize("middle", ["\n" * 9_000, "word " * 9_000, "-" * 9_000])
def test_the_answer_at_the_end_of_a_long_reply_is_read(middle: str) -> None:
    reply = f"Let me look.{middle}\nThe answer is (B)."
    assert Robust().read(state(reply, ("red", "blue"), "")).answer == "B"


def test_a_thought_of_any_length_is_left_out() -> None:
    assert clean_text("<think>" + "The answer is A. " * 9_000 + "</think>(B)") == "(B)"


@table
def test_thoughts_are_left_out(text: str, left: str) -> None:
    assert strip_thoughts(text) == left

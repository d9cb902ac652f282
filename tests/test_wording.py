"""What the model is told beside the images, and the turn in which it is sent."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.model import Message, Reply, ToolCall, Want
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.scripted import Scripted
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import beside, crop, resize
from looktwice.prompting.turns import Ask
from looktwice.prompting.wording import ChainOfThought, MarksAsText, MultipleChoice, Verbatim


def picture(level: int = 0, width: int = 100, height: int = 50) -> Picture:
    return Picture(np.full((height, width, 3), level, np.uint8))


def start(choices: tuple[str | Picture, ...] = ("yes", "no"), marks: tuple[Mark, ...] = (), **meta: Any) -> State:
    return State.start(Sample("s1", "Is it?", (picture(),), choices, marks, meta))


@pytest.mark.parametrize(
    ("stage", "choices", "prompt"),
    [
        (
            MultipleChoice(),
            ("yes", "no"),
            "Is it?\n(A) yes\n(B) no\nAnswer with the letter of one choice: (A) or (B).",
        ),
        (
            MultipleChoice(label_style="A."),
            ("x", "A B", "z"),
            "Is it?\nA. x\nB. A B\nC. z\nAnswer with the letter of one choice: A., B. or C..",
        ),
        (MultipleChoice(label_style="[A]", instruction="Say {letters} only."), ("x",), "Is it?\n[A] x\nSay [A] only."),
        (MultipleChoice(instruction=""), ("{letters}", "b"), "Is it?\n(A) {letters}\n(B) b"),
    ],
)
def test_choices_are_lettered_lines(stage: MultipleChoice, choices: tuple[str, ...], prompt: str) -> None:
    assert stage(start(choices), NoModel()).prompt == prompt


def test_choices_that_are_pictures_are_shown_and_named() -> None:
    first, second = picture(1), picture(2)
    state = MultipleChoice(instruction="")(start((first, "neither", second)), NoModel())
    assert state.prompt == "Is it?\n(A) image 2\n(B) neither\n(C) image 3"
    assert [view.picture for view in state.views[1:]] == [first, second]
    assert state.views[1].to_view(Point("A", 1, 1)) == ()  # no source image of the sample: marks do not show there


def test_wording_keeps_what_was_said_before() -> None:
    state = MultipleChoice()(ChainOfThought("Think.")(start(), NoModel()), NoModel())
    assert state.prompt.startswith("Is it?\nThink.\n(A) yes")


def test_an_open_question_has_no_choices_to_word() -> None:
    with pytest.raises(ValueError, match="sample s1 has no choices; drop this stage"):
        MultipleChoice()(start(()), NoModel())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_style": "1)"}, "label_style writes the letter A"),
        ({"label_style": "(a)"}, "label_style"),
        ({"label_style": "A or A"}, "label_style"),
        ({"instruction": "Say {leters}."}, r"instruction holds {leters}"),
    ],
)
def test_a_misspelt_style_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultipleChoice(**settings)


BLOCK = np.zeros((50, 100), bool)
BLOCK[10:20, 30:50] = True


@pytest.mark.parametrize(
    ("frame", "mark", "line"),
    [
        ("pixels", Point("A", 25.2, 9.6), "A: x=25, y=10 in image 1"),
        ("0-1000", Point("A", 49.5, 24.5), "A: x=500, y=500 in image 1"),
        ("0-1000", Point("A", 0, 49), "A: x=5, y=990 in image 1"),
        ("pixels", Box("B", 10, 20, 30, 50), "B: x from 10 to 30, y from 20 to 50 in image 1"),
        ("0-1000", Box("B", 10, 20, 30, 50), "B: x from 100 to 300, y from 400 to 1000 in image 1"),
        ("pixels", Mask("M", BLOCK), "M: x from 30 to 50, y from 10 to 20 in image 1"),
    ],
)
def test_marks_are_said_in_the_frame_that_was_asked_for(frame: Any, mark: Mark, line: str) -> None:
    state = MarksAsText(frame)(start(marks=(mark,)), NoModel())
    first, second, third = state.prompt.split("\n")
    assert (first, third) == ("Is it?", line)
    assert ("pixels" if frame == "pixels" else "thousandths") in second


def test_marks_are_said_where_they_are_shown() -> None:
    state = start(marks=(Point("A", 25, 10), Point("B", 75, 40)))
    view = state.views[0]
    views = (resize(view, 200, 100), crop(view, 0, 0, 50, 50), beside([view, view], margin=10))
    lines = MarksAsText()(state.replace(views=views), NoModel()).prompt.split("\n")[2:]
    assert lines == [
        "A: x=50, y=20 in image 1",
        "A: x=25, y=10 in image 2",
        "A: x=25, y=10 in image 3",
        "A: x=135, y=10 in image 3",
        "B: x=150, y=80 in image 1",
        "B: x=75, y=40 in image 3",
        "B: x=185, y=40 in image 3",
    ]


def test_no_mark_no_word() -> None:
    assert MarksAsText()(start(), NoModel()).prompt == "Is it?"


def test_the_benchmarks_own_words() -> None:
    text = "Look at it.\n\n(A) yes\n(B) no\n"
    assert Verbatim()(start(prompt=text), NoModel()).prompt == text


@pytest.mark.parametrize("meta", [{}, {"prompt": ""}, {"prompt": 3, "level": 1}])
def test_a_sample_without_a_prompt_of_its_own_says_what_it_has(meta: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"sample s1 has no prompt of its own \(fields: (none|prompt|level, prompt)\)"):
        Verbatim()(start(**meta), NoModel())


def test_chain_of_thought_comes_below() -> None:
    assert ChainOfThought("Reason first.")(start(), NoModel()).prompt == "Is it?\nReason first."
    assert "step by step" in ChainOfThought()(start(), NoModel()).prompt


@pytest.mark.parametrize(
    ("ask", "kinds"),
    [
        (Ask(), ["View", "str"]),
        (Ask(images="after"), ["str", "View"]),
        (Ask(images="none"), ["str"]),
        (Ask(attach="none"), ["str"]),
    ],
)
def test_where_the_images_stand(ask: Ask, kinds: list[str]) -> None:
    model = Scripted("(B)")
    state = ask(start(), model)
    assert [type(part).__name__ for part in model.asked[0][0].parts] == kinds
    assert (state.reply, state.answer, [m.role for m in state.messages]) == ("(B)", None, ["user", "assistant"])


def test_later_turns_carry_the_conversation_and_only_what_is_new() -> None:
    model = Scripted(["first", "second", "third"])
    state = Ask(system="Be brief.")(start(), model)
    state = state.replace(views=(*state.views, crop(state.views[0], 0, 0, 10, 10)), prompt="And now?")
    state = Ask(system="Be brief.", attach="new")(state, model)
    assert [m.role for m in model.asked[1]] == ["system", "user", "assistant", "user"]
    assert model.asked[1][-1].views == state.views[1:]
    assert model.asked[1][2].text == "first"
    state = Ask()(state, model)
    assert len(model.asked[2][-1].views) == 2
    assert state.reply == "third"


def test_a_system_text_opens_a_conversation_that_has_none() -> None:
    model = Scripted("ok")
    earlier = (Message("user", ("hi",)), Message("assistant", ("hello",)))
    Ask(system="Be brief.")(start().replace(messages=earlier), model)
    assert [m.role for m in model.asked[0]] == ["system", "user", "assistant", "user"]


class Heard:
    """Keeps how it was called."""

    identity = "heard"

    def __init__(self, reply: Reply) -> None:
        self.reply, self.calls = reply, list[tuple[int, Want]]()

    def __call__(self, messages: Any, draw: int = 0, want: Want = Want()) -> Reply:
        self.calls.append((draw, want))
        return self.reply


def test_one_call_with_the_states_draw_and_the_stages_wishes() -> None:
    call = ToolCall("1", "crop", "{}")
    model, want = Heard(Reply("", tool_calls=(call,))), Want(temperature=0.7, max_tokens=5)
    state = Ask(want=want)(replace(start(), draw=3), model)
    assert model.calls == [(3, want)]
    assert state.messages[-1].tool_calls == (call,)


def test_there_must_be_something_to_ask() -> None:
    with pytest.raises(ValueError, match="sample s1: there is nothing to ask"):
        Ask(images="none")(start().replace(prompt=""), Scripted("ok"))

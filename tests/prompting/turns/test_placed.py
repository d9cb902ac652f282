"""Pictures within a text are sent at their position, even if stages changed them."""

from typing import Any

import numpy as np

from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import Message
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.agent import Agent, tools
from looktwice.prompting.turns import Ask, Verify
from looktwice.prompting.views import Concatenate, Crop, ZoomOnMarks
from looktwice.prompting.wording import MultipleChoice
from tests.prompting.scenes import ScriptedReplies
from tests.tables import table

ZOOM = Crop(padding=0, min_px=20, show="both")
STAGES: dict[str, Any] = {
    "zoom": ZoomOnMarks(crop=ZOOM),
    "zoom in": ZoomOnMarks(crop=Crop(padding=0, min_px=20)),
    "beside": Concatenate(),
    "choose": MultipleChoice(instruction=""),
}


def start(words: str, *choices: str | Picture) -> State:
    images = tuple(Picture(np.full((60, 80 + n, 3), 50 * n, np.uint8)) for n in range(1, 3))
    marks = (Point("A", 20, 20, 0), Point("B", 40, 30, 1))
    return State.start(Sample("s1", words, images, choices, marks, {"placed": True}))


def parts_of(message: Message) -> list[str | int]:
    """Return the texts, and for each view the number of its image, negative for a part of it."""
    shown = list[str | int]()
    for part in message.parts:
        if isinstance(part, View):
            source = min(piece.source for piece in part.parts) + 1
            shown.append(source if part.size[0] >= 80 else -source)
        else:
            shown.append(part)
    return shown


@table
def test_images_keep_their_place_in_the_text(
    words: str, stages: list[str], images: str, sent: list[str | int]
) -> None:
    state, model = start(words, "x", "<image 2>"), ScriptedReplies()
    for name in stages:
        state = STAGES[name](state, NoModel())
    Ask(images=images)(state, model)  # type: ignore[arg-type]
    assert parts_of(model.calls[0][0][-1]) == sent


def test_new_views_of_a_later_turn_are_placed_with_their_source() -> None:
    model = ScriptedReplies("(A)\nLOOK: image 2, [0, 0, 250, 500]", "(A)")
    Verify(ask=Ask(images="placed"), where="W {prompt}", check="C {prompt}")(
        start("a <image 1> b <image 2> c"), model
    )
    first, second = (parts_of(messages[-1]) for messages, *_ in model.calls)
    assert first == ["W a ", 1, " b ", 2, " c"]
    assert [part for part in second if part != 2 and part != -2] == ["C a ", " b ", " c"]
    assert second.index(" b ") + 2 == second.index(" c")


def test_text_of_agents_and_of_questions_without_placeholders() -> None:
    model = ScriptedReplies("(A)")
    Agent(tools={"zoom": tools.Zoom()})(start("a <image 1> b"), model)
    text = model.calls[0][0][-1].text
    assert "a \n b" in text and "<image" not in text
    model, state = ScriptedReplies(), start("Look at <image 1>.")
    sample = Sample("s1", state.sample.question, state.sample.images)
    Ask()(State.start(sample), model)
    assert parts_of(model.calls[0][0][-1]) == [1, 2, "Look at <image 1>."]

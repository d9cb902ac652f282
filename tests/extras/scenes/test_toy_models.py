"""Letters and shapes, and two toy models: one reads only large letters, one never looks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from looktwice.eval.tasks import Subset, TaskError
from looktwice.eval.tasks.base import GeneratedTask, find_item
from looktwice.extras.scenes import GeneratedDoYouSeeMe, LettersAndShapes, NearSighted, NeverLooks
from looktwice.pipelines.model import CallOptions, Message, Reply, Tool
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.agent import Agent, NativeCalls, PlainCalls, TaggedCalls, Zoom
from looktwice.prompting.agent.looks import read_looks
from looktwice.prompting.views import Crop, LongestSide


def test_letters_and_shapes_are_reproducible() -> None:
    task = LettersAndShapes(n=8)
    first, second = list(task), list(task)
    assert [item.sample.sha for item in first] == [item.sample.sha for item in second] and len(
        first
    ) == len(task)
    assert {item.sample.meta["kind"] for item in first} == {"letter", "count"}
    for item in first:
        box = item.sample.marks[0]
        assert item.answer and item.sample.meta["region"] == box.label == "target"
    assert len(list(LettersAndShapes(n=8, subset=Subset(2)))) == 2
    assert first[0].sample.sha != next(iter(LettersAndShapes(n=8, seed=1))).sample.sha


@pytest.mark.parametrize("settings", [{"n": 0}, {"smallest": 3}, {"width": 300, "height": 300}])
def test_letters_and_shapes_refuse_impossible_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(TaskError):
        LettersAndShapes(**settings)


@pytest.mark.parametrize(
    "task",
    [LettersAndShapes(n=5), GeneratedDoYouSeeMe("form_constancy", n=5)],
    ids=lambda task: type(task).__name__,
)
def test_one_question_is_generated_without_the_others(task: GeneratedTask) -> None:
    for item in task:
        assert (found := find_item(task, item.sample.id)) and found.sample.sha == item.sample.sha
    assert find_item(task, "another") is None


def test_hints_are_planted_and_read() -> None:
    task, plain = LettersAndShapes(n=40, leak=0.5), LettersAndShapes(n=40)
    leaky = [item for item in task if item.truth["leaky"]]
    assert 10 <= len(leaky) <= 30
    model = NeverLooks()
    for item in leaky:
        assert model((Message("user", (item.sample.question,)),)).text == f"ANSWER: {item.answer}"
    for item, other in zip(task, plain, strict=True):
        assert item.sample.images[0].sha == other.sample.images[0].sha
        assert (item.sample.question == other.sample.question) is not item.truth["leaky"]
    with pytest.raises(TaskError, match="`leak` must be a share"):
        LettersAndShapes(leak=2)


def test_what_the_two_models_say_about_an_image() -> None:
    letters = (i for i in LettersAndShapes(n=12) if i.sample.meta["kind"] == "letter")
    item = next(item for item in letters if item.sample.meta["px"] > 24)
    view = View(item.sample.images[0])
    told = NearSighted()((Message("user", (view, "Describe this image")),)).text
    color = item.sample.question.split()[-1].strip("?")
    assert f"{color}: the letter {item.answer}" in told
    blind = (Message("user", (f"{item.sample.question}",)), Message("tool", (told,)))
    asked = Message("user", (view, item.sample.question))
    assert (
        NearSighted(min_height=90)((asked, blind[1])).text
        == f"I was told so.\nANSWER: {item.answer}"
    )
    calling = NeverLooks()(blind[:1], options=CallOptions(tools=(Tool("zoom", "", {}),)))
    assert calling.tool_calls[0].name == "zoom"


def letter(high: int, size: tuple[int, int] = (200, 150)) -> Pixels:
    """Return a red K of this height on white."""
    from PIL import Image, ImageDraw, ImageFont

    image, font = Image.new("RGB", size, "white"), ImageFont.load_default(high / 0.7)
    ImageDraw.Draw(image).text((60, 40), "K", fill=(222, 20, 20), font=font)
    return np.asarray(image)


def ask(picture: Pixels, question: str = "Which letter is red?", **settings: Any) -> Reply:
    seen = Message("user", ("Image 1:", View(Picture(picture)), question))
    return NearSighted(**settings)([seen])


def test_the_near_sighted_model_reads_only_large_enough_letters() -> None:
    assert ask(letter(30)).text.endswith("ANSWER: K")
    assert "too small for me" in ask(letter(12)).text
    assert ask(letter(12), min_height=10).text.endswith("ANSWER: K")
    assert ask(letter(30), "Which letter is blue?").text == "I see nothing blue."
    assert ask(letter(30), "Who are you?").text == "I do not understand the question."


def test_the_near_sighted_model_counts_tokens_of_the_images_sent_to_it() -> None:
    small, large = ask(letter(12)).usage, ask(letter(12, (400, 300))).usage
    assert large.tokens_in - small.tokens_in == math.ceil(400 / 28) * math.ceil(300 / 28) - 8 * 6
    assert small.tokens_out > 0


@pytest.mark.parametrize("frame", ["pixels", "0-1", "0-1000"])
@pytest.mark.parametrize(
    "form", [NativeCalls(), TaggedCalls(), PlainCalls()], ids=lambda form: type(form).__name__
)
def test_the_near_sighted_model_supports_every_protocol_and_frame(form: Any, frame: Any) -> None:
    of = Sample("s", "Which letter is red?", (Picture(letter(22, (400, 300))),))
    zoom = Zoom(crop=Crop(padding=0, min_px=1))
    agent = Agent({"zoom": zoom}, protocol=form, coordinates=frame, fit=LongestSide(200, grow=True))
    state = agent(State.start(of), NearSighted(coordinates=frame))
    outcomes = [look.outcome for look in read_looks(state.notes)]
    assert state.reply.endswith("ANSWER: K") and outcomes == ["shown"]

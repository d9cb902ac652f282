"""Replies of trained agents are understood, and their code is parsed and never run."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval.tasks.base import check_items
from looktwice.extras.trained_agents import CodeCalls, Edit, ZoomIn
from looktwice.pipelines import transforms
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.model import CallOptions, Message, Messages, Reply, Tool
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel, Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.agent import Agent
from looktwice.prompting.agent.looks import read_looks
from looktwice.prompting.views import LongestSide
from tests import tables
from tests.optional import extension
from tests.paths import CONFIGS
from tests.tables import read_yaml

scenes = extension("scenes")

CASES = read_yaml(Path(__file__).with_name("trained.yaml"))
ys, xs = np.mgrid[:420, :560]
PICTURE = Picture(np.dstack([xs // 3, ys // 2, np.full_like(xs, 200)]).astype(np.uint8))
START = State.start(Sample("s", "Which letter is it?", (PICTURE,)))


@pytest.mark.parametrize("case", CASES["conversations"], ids=lambda case: case["preset"])
def test_golden_conversations(case: dict[str, Any]) -> None:
    made = "task={use: eval.tasks.MarkedScenes, kind: shape}"  # not asked: START is
    (arm,) = load_plan(CONFIGS / f"{case['preset']}.yaml", [made]).points
    after = Pipeline(arm.stages)(START, Scripted(case["replies"]))
    turns = [
        [turn.role, *(part if isinstance(part, str) else list(part.size) for part in turn.parts)]
        for turn in after.messages[1:]
    ]
    assert turns == [
        [role, case["replies"][parts[0]]] if role == "assistant" else [role, *parts]
        for role, *parts in case["turns"]
    ]
    looks = read_looks(after.notes)
    assert looks[0].regions == ((0, 280, 210, 420, 315),)
    assert [look.regions for look in looks[1:]] in ([], [()], [((0, 280, 210, 350, 315),)])
    assert "K" in str(arm.read(after, NoModel()).answer)


@pytest.mark.parametrize(
    ("code", "read"),
    [
        *CASES["code"],
        (f"x = {'-' * 100_000}1", "it is read, not run"),
        (f"image.rotate({'9' * 400})", "it is read, not run"),
    ],
)
def test_code_is_parsed_and_never_executed(code: str, read: dict[str, Any] | str) -> None:
    agent = Agent({"edit": Edit()}, protocol=CodeCalls())
    reply = Reply(f"<code>\n```python\n{code}\n```\n</code>")
    ((call,), count) = agent.protocol.read_calls(reply, 3)
    assert count == 1
    if isinstance(read, dict):
        assert json.loads(call.arguments) == read
        return
    after = Pipeline({"agent": agent})(START, Scripted([reply, "K"]))
    (look,) = read_looks(after.notes)
    assert look.outcome == "failed" and read in look.reason


@pytest.mark.parametrize(
    ("steps", "same"),
    [
        (["mirror"], transforms.flip),
        (["flip"], lambda view: transforms.rotate(transforms.flip(view), 180)),
        (["rotate 90", "rotate 270"], lambda view: view),
        (["contrast 1", "brightness 1.0", "sharpness 1", "color 1"], lambda view: view),
        (["brightness 0"], lambda view: view.with_pixels(view.pixels * 0)),
    ],
)
def test_operations_have_their_documented_effect(steps: list[str], same: Any) -> None:
    edit = Edit()
    given = edit.arguments.model_validate({"image": 1, "steps": steps})
    (view,) = edit(START, given).views
    assert (view.pixels == same(View.of(PICTURE)).pixels).all()
    assert np.allclose(view.parts[0].affine.matrix, same(View.of(PICTURE)).parts[0].affine.matrix)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (["blur 3"], "'blur 3' cannot be done; rotate, mirror"),
        (["contrast 50"], "a factor is 0 to 20"),
        (["rotate 90; rm"], "cannot be done"),
        (["rotate 45"] * 8, "too large"),
        ([], "nothing is asked for"),
    ],
)
def test_unknown_operations_are_refused(steps: list[str], why: str) -> None:
    wide = State.start(Sample("s", "?", (Picture(np.zeros((2500, 2500, 3), np.uint8)),)))
    with pytest.raises(ValueError, match=why):
        Edit()(wide, Edit().arguments.model_validate({"image": 1, "steps": steps}))


@tables.table
def test_images_have_the_names_that_agents_use(given: dict[str, Any], image: int | str) -> None:
    whole = {"bbox_2d": [0, 0, 9, 9], "label": "a", **given}
    if isinstance(image, int):
        assert ZoomIn.arguments.model_validate(whole).image == image
    else:
        with pytest.raises(ValueError, match=image):
            ZoomIn.arguments.model_validate(whole)


@dataclass(frozen=True)
class Trained:
    """Reads like the model `eyes`, and requests its zoom in the format of a trained agent."""

    eyes: Any
    form: str

    @property
    def identity(self) -> str:
        return self.form

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        shown = [view for message in messages for view in message.views]
        words = "".join(message.text for message in messages if message.role == "user")
        tools = () if "cannot look any further" in words else (Tool("zoom", "", {}),)
        asked = (Message("user", (*shown, words)),)
        seen = self.eyes(asked, options=CallOptions(tools=tools))
        if not seen.tool_calls:
            return Reply(seen.text.replace("ANSWER: ", "<answer>") + "</answer>")
        given = json.loads(seen.tool_calls[0].arguments)
        number = given["image"] - 1
        source = f"observation_{number}" if number else "original_image"
        call = self.form.format(box=given["box"], index=number, source=source)
        return Reply(f"<think>{seen.text}</think>{call}")


CALLED = (
    '<tool_call>{{"name": "image_zoom_in_tool", "arguments": {{"bbox_2d": {box}, "label": "it",'
    ' "img_idx": {index}}}}}</tool_call>'
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "coordinates", "form"),
    [
        ("deepeyes", "pixels", CALLED),
        ("qwen3_vl", "0-1000", CALLED),
        ("mini_o3", "0-1", '<grounding>{{"bbox_2d": {box}, "source": "{source}"}}</grounding>'),
        ("thyme", "pixels", "<code>box = {box}\nprint(image.crop(tuple(box)).size)</code>"),
    ],
)
def test_a_reader_of_known_acuity_succeeds_with_zooms(
    preset: str, coordinates: Any, form: str
) -> None:
    """At 480 pixels it reads hardly any letter; with the zooms of any agent, it reads nearly
    all."""
    (arm,) = load_plan(CONFIGS / f"agent_{preset}.yaml").points
    agent, model = arm.stages["agent"], Trained(scenes.NearSighted(coordinates=coordinates), form)
    assert isinstance(agent, Agent)
    items = [
        item for item in check_items(scenes.LettersAndShapes(n=16)) if item.sample.id[0] == "l"
    ]
    right = []
    fit = LongestSide(480, grow=True)
    for steps in (0, 3):
        bounds = replace(agent.bounds, steps=steps)
        stage = Pipeline({"agent": replace(agent, fit=fit, bounds=bounds)})
        answers = [arm.read(stage(State.start(i.sample), model), NoModel()).answer for i in items]
        pairs = zip(answers, items, strict=True)
        right.append(sum(str(answer)[-1:] == item.answer for answer, item in pairs))
    assert right[0] <= 2 and right[1] == len(items) == 8

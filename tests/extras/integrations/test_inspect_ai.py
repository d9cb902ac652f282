"""Studies inside inspect_ai: its own model is asked, its logs and limits count the calls, our tools
show pictures to its agents, and an unreadable reply is not wrong."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval.tasks import MarkedScenes
from looktwice.extras.logs import read_logs
from looktwice.pipelines import Message, Pipeline, State, View
from looktwice.prompting import Circles

pytest.importorskip("inspect_ai")

from inspect_ai import Task, eval as inspect_eval
from inspect_ai.agent import as_solver, react
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
    ContentVideo,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, chain, solver
from inspect_ai.tool import ToolCall

from looktwice.extras.integrations.inspect_ai import (
    _convert_message,
    _parse_message,
    answer_reader,
    look_tools,
    looktwice,
    questions,
)

# inspect_ai and its dependencies warn, and leave streams and event loops open
pytestmark = pytest.mark.filterwarnings("ignore")

STUDY = """
task: {use: eval.tasks.Folder, path: questions}
model: {use: pipelines.models.Pocket}
stages:
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask, options: {temperature: 0.25, top_k: 3, schema: {}}}
contestants:
  plain: {}
  zoomed:
    stages:
      recover: {use: prompting.burnt_in.RecoverMarks, letters: [A], before: choose}
      zoom: {use: prompting.views.ZoomOnMarks, after: recover, crop: {show: both}}
"""
AGENT = """
task: {use: eval.tasks.Folder, path: questions}
model: {use: pipelines.models.Pocket}
stages: {agent: {use: prompting.agent.Agent, tools: {zoom: {use: prompting.agent.Zoom}}}}
"""


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collect objects that inspect_ai leaves open within its test, where the warning is ignored."""
    yield
    gc.collect()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study, and three questions with rings in their pixels."""
    (tmp_path / "study.yaml").write_text(STUDY)
    place = tmp_path / "questions"
    place.mkdir()
    rows = []
    for item in MarkedScenes("color", n=3):
        drawn = Pipeline({"mark": Circles(radius=14, color="red")})(State.start(item.sample))
        (place / f"{item.sample.id}.png").write_bytes(drawn.views[0].picture.payload.data)
        choices = list(item.sample.choices)
        row = {"id": item.sample.id, "question": item.sample.question, "choices": choices}
        rows.append(row | {"image": f"{item.sample.id}.png", "answer": f"({item.answer})"})
    (place / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def output(content: Any, *calls: ToolCall) -> ModelOutput:
    turn = ChatMessageAssistant(content=content, tool_calls=list(calls) or None)
    made = ModelOutput(model="mock", choices=[ChatCompletionChoice(message=turn)])
    made.usage = ModelUsage(input_tokens=50, output_tokens=5, total_tokens=55)
    return made


def task_of(folder: Path, contestant: str = "", study: str = "study.yaml") -> Task:
    """Return the questions of the folder, answered by a contestant of a study."""
    more = {"study": str(folder / study), "contestant": contestant} if contestant else {}
    return questions("Folder", path=str(folder / "questions"), **more)


def ask(task: Task, outputs: Sequence[ModelOutput], logs: Path, **settings: Any) -> Any:
    model = get_model("mockllm/model", custom_outputs=list(outputs))
    how = {"log_dir": str(logs), "display": "none", "max_samples": 1, **settings}
    (log,) = inspect_eval(task, model=model, **how)
    return log


def pictures(turn: Any) -> list[str]:
    parts = [] if isinstance(turn.content, str) else turn.content
    return [part.image for part in parts if isinstance(part, ContentImage)]


def test_a_contestant_answers_through_the_model_of_inspect(folder: Path) -> None:
    task = task_of(folder, "zoomed")
    keys = [sample.target for sample in task.dataset]
    log = ask(task, [output(f"({keys[0]})"), output("(Z)"), output("")], folder / "logs")
    assert log.status == "success"
    right, *others = log.samples
    (scores,) = zip(*(sample.scores.values() for sample in log.samples), strict=True)
    assert scores[0].value == 1 and scores[0].answer == keys[0]
    unreadable = [score for score in scores if "unreadable" in (score.explanation or "")]
    assert [math.isnan(score.value) for score in unreadable] == [True, True]
    asked, replied = right.messages
    assert len(pictures(asked)) == 2 and "(A)" in asked.text and replied.text == f"({keys[0]})"
    (call,) = [event for event in right.events if event.event == "model"]
    assert call.config.temperature == 0.25 and call.config.top_k == 3
    assert call.config.response_schema.json_schema.type == "object"
    assert right.model_usage["mockllm/model"].total_tokens == 55
    assert right.metadata["looktwice"]["views"] == 2 and len(others) == 2
    (ours,) = read_logs(Path(log.location))
    assert len(ours.rows) == 3 and len(ours.get_messages(ours.whole.rows.iloc[0])[0].views) == 2


def test_a_limit_of_inspect_ends_the_sample_without_a_failure(folder: Path) -> None:
    task = task_of(folder, "plain")
    log = ask(task, [output("(A)")], folder / "logs", limit=1, token_limit=10)
    (sample,) = log.samples
    assert sample.limit.type == "token" and sample.error is None


def test_failures_become_errors_of_the_sample(folder: Path) -> None:
    asks = "  again: {use: prompting.turns.Ask, options: {choices: [A, B]}}\ncontestants:"
    (folder / "study.yaml").write_text(STUDY.replace("contestants:", asks))
    task = task_of(folder, "plain")
    log = ask(task, [output("(A)")], folder / "logs", limit=1, fail_on_error=False)
    assert "`choices`" in log.samples[0].error.message


def test_an_agent_of_inspect_sees_the_images_of_our_tools(folder: Path) -> None:
    boxes = {1: [0, 0, 80, 80], 2: [0, 0, 256, 256], 9: [0, 0, 9, 9]}
    calls = [
        ToolCall(id=str(number), function="zoom", arguments={"image": number, "box": box})
        for number, box in boxes.items()
    ]
    task = task_of(folder)
    task.solver = as_solver(react(tools=look_tools(), submit=False))
    replies = [*(output("", call) for call in calls), output("(A)")]
    log = ask(task, replies, folder / "logs", limit=1)
    (sample,) = log.samples
    assert sample.error is None, sample.error
    first, second, wrong = [turn for turn in sample.messages if turn.role == "tool"]
    assert "Image 2 (512 x 512 pixels)" in first.text and len(pictures(first)) == 1
    assert "from x 0 to 40 and y 0 to 40 of its 320 x 320" in second.text
    assert wrong.error is not None and "no image 9" in wrong.error.message


def test_videos_go_out_as_videos_and_do_not_come_in(folder: Path) -> None:
    from looktwice.extras.video.native import Clip, make_payload

    frames = [np.zeros((4, 4, 3), np.uint8)] * 2
    clips = [
        View.of(Clip.from_frames(frames, make_payload(b"film", kind, "")))
        for kind in ("video/mp4", "video/quicktime", "video/webm")
    ]
    turn = _convert_message(Message("user", (*clips[:2], "Which?")))
    found = [(part.type, getattr(part, "format", "")) for part in turn.content]
    assert found == [("video", "mp4"), ("video", "mov"), ("text", "")]
    assert turn.content[0].video == "data:video/mp4;base64,ZmlsbQ=="
    with pytest.raises(ValueError, match="does not accept video/webm"):
        _convert_message(Message("user", (clips[2],)))
    with pytest.raises(
        ValueError, match="videos are not accepted here; send the frames of a video as images"
    ):
        _parse_message(ChatMessageUser(content=[ContentVideo(video="x.mp4", format="mp4")]))


def test_a_solver_lists_the_available_contestants(folder: Path) -> None:
    with pytest.raises(ValueError, match="'nobody'; the contestants are plain, zoomed"):
        looktwice(str(folder / "study.yaml"), "nobody")
    with pytest.raises(ValueError, match="'none'"):
        answer_reader("none")


def test_tool_calls_stay_with_their_turns(folder: Path) -> None:
    call = ToolCall(id="1", function="zoom", arguments={"image": 1, "box": [0, 0, 80, 80]})

    @solver
    def looked_before() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            asked = state.messages[-1]
            called = ChatMessageAssistant(content="", tool_calls=[call])
            result = ChatMessageTool(content="nothing", tool_call_id="1", function="zoom")
            state.messages = [asked, called, result, asked]
            return state

        return solve

    task = task_of(folder)
    task.solver = chain(looked_before(), looktwice(str(folder / "study.yaml"), "plain"))
    log = ask(task, [output("(A)")], folder / "logs", limit=1)
    (sample,) = log.samples
    assert sample.error is None, sample.error
    (event,) = [event for event in sample.events if event.event == "model"]
    _, made, result, _ = event.input
    assert [(c.function, c.arguments) for c in made.tool_calls] == [("zoom", call.arguments)]
    assert (result.tool_call_id, result.text) == ("1", "nothing")


def test_signed_reasoning_is_returned_to_the_model_of_inspect(folder: Path) -> None:
    (folder / "agent.yaml").write_text(AGENT)
    signed = ContentReasoning(reasoning="", signature="s1", redacted=True)
    call = ToolCall(id="c1", function="zoom", arguments={"box": [1, 1, 9, 9]})
    replies = [output([signed, ContentText(text="Closer.")], call), output("(A)")]
    log = ask(task_of(folder, "plain", "agent.yaml"), replies, folder / "logs", limit=1)
    assert log.status == "success", log.error
    [_, second] = [event for event in log.samples[0].events if event.event == "model"]
    [turn] = [message for message in second.input if message.role == "assistant"]
    assert [part.type for part in turn.content] == ["reasoning", "text"]
    assert (turn.content[0].signature, turn.content[0].redacted) == ("s1", True)
    assert [called.function for called in turn.tool_calls] == ["zoom"]

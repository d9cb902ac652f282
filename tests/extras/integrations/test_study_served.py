"""A study behind the chat-completions protocol, used with OpenAI's client: its answers, refusals
and records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval import MarkedScenes, RunFolder
from looktwice.eval.recorded.replay import replay
from looktwice.extras.burnt_in import RecoverMarks
from looktwice.extras.integrations import command
from looktwice.extras.integrations.command import make_pocket_plan
from looktwice.extras.integrations.recorded import Recorder
from looktwice.extras.integrations.responder import name_contestants
from looktwice.pipelines import ChatAPI, Picture, Pipeline, View
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.model import (
    CallOptions,
    Message,
    Messages,
    Model,
    Reply,
    Tool,
    ToolCall,
    Usage,
)
from looktwice.pipelines.models import Pocket
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.state import Stage, State, WithoutModel
from looktwice.prompting import Ask, Crop, PermuteChoices, ReadChoices, ZoomOnMarks
from looktwice.prompting.agent import Agent, Zoom
from tests.chat_server import chat_server
from tests.extras.integrations.served import plan_of, post, questions, serving, turn
from tests.optional import optional
from tests.tables import table

openai = optional("openai")
QUESTIONS = questions(3)


@dataclass(frozen=True)
class AddLeftHalf(WithoutModel):
    """Adds the left half of the first view after it."""

    def __call__(self, state: State, model: Model) -> State:
        pixels = state.views[0].pixels
        half = View.of(Picture(np.ascontiguousarray(pixels[:, : pixels.shape[1] // 2])))
        return state.replace(views=(*state.views, half))


@dataclass(frozen=True)
class IdleStage(WithoutModel):
    """Changes nothing, and gives a reason."""

    def __call__(self, state: State, model: Model) -> State:
        return state.with_notes("there was nothing to see")


@dataclass(frozen=True)
class FailingStage(WithoutModel):
    """Fails, or abstains."""

    how: str

    def __call__(self, state: State, model: Model) -> State:
        if self.how == "abstain":
            return state.abstain("it is too dark")
        raise LookupError("no such lamp")


@dataclass(frozen=True)
class FixedSpecialist(WithoutModel):
    """A specialist that answers without a model."""

    def __call__(self, state: State, model: Model) -> State:
        return state.replace(answer=str(len(state.views)))


@dataclass(frozen=True)
class DescribeThenAsk:
    """Describes first, then asks."""

    def __call__(self, state: State, model: Model) -> State:
        reply = model([Message("user", (*state.views, "Describe it."))])
        return state.replace(prompt=f"{reply.text}; {state.prompt}")


@dataclass
class WatchedModel:
    """A model that records its questions, and replies with its draw."""

    identity = "watched"

    def __init__(self) -> None:
        self.asked: list[tuple[Messages, int, CallOptions]] = []

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        self.asked.append((messages, draw, options))
        if options.tools and messages[-1].role == "user":
            return Reply("", finish="tool", tool_calls=(CALL,))
        return Reply(f"draw {draw} of {len(messages)}", usage=Usage(11, 2))


CALL = ToolCall("c1", "zoom", '{"x": 1}')
ZOOM = {"type": "function", "function": {"name": "zoom", "parameters": {"type": "object"}}}
URL, WORDS = QUESTIONS[0]


@pytest.mark.slow
def test_the_answers_are_those_of_the_stages_and_replay_exactly(tmp_path: Path) -> None:
    zoom: dict[str, Stage] = {
        "choices": ReadChoices(),
        "marks": RecoverMarks(letters=("A",)),
        "zoom": ZoomOnMarks(missing="keep", crop=Crop(min_px=72, upscale=256, show="both")),
    }
    plan = plan_of({"plain": {"ask": Ask()}, "zoomed": {**zoom, "ask": Ask()}}, Pocket())
    with serving(plan, tmp_path) as served:
        client = served.client
        assert [model.id for model in client.models.list()] == ["plain", "zoomed"]
        for url, words in QUESTIONS:
            for name in ("plain", "zoomed"):
                asked: Any = {"model": name, "messages": [turn(url, words)], "n": 2}
                whole = client.chat.completions.with_raw_response.create(**asked)
                said = [choice.message.content for choice in whole.parse().choices]
                here = plan.points[name == "zoomed"].stages
                sample = served.samples[whole.headers["x-looktwice-record"].split("/")[1]]
                state = Pipeline(here)(State.start(sample), Pocket())
                assert said == [state.reply] * 2
                counts = [whole.headers[f"x-looktwice-{name}"] for name in ("marks", "views")]
                assert counts == [str(len(state.sample.marks)), str(len(state.views))]
                pieces = ["", ""]
                for chunk in client.chat.completions.create(**asked, stream=True):
                    choice = chunk.choices[0]  # also for the last one, where no usage was requested
                    pieces[choice.index] += choice.delta.content or ""
                assert pieces == said
                counted = {"stream": True, "stream_options": {"include_usage": True}}
                *_, last = client.chat.completions.create(**asked, **counted)
                assert last.choices == [] and last.usage == whole.parse().usage
        assert len(state.views) == 2, "it was zoomed"
    assert len(served.records) == 3 * 2 * 6
    result = replay(served.run, cache=tmp_path / ".cache")
    assert (result.same_count, result.differences) == (36, [])


def test_request_settings_apply_only_to_the_last_call(tmp_path: Path) -> None:
    model = WatchedModel()
    plan = plan_of({"twice": {"describe": DescribeThenAsk(), "ask": Ask()}}, model)
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    settings: Any = {"temperature": 0.5, "seed": 3, "max_tokens": 9, "stop": "x"}
    settings |= {"response_format": form, "logprobs": True, "top_logprobs": 2}
    asked = {"model": "twice", "messages": [turn("Well?")], "extra_body": {"top_k": 4}}
    with serving(plan, tmp_path, looks=True) as served:
        completion = served.client.chat.completions.create(**asked, **settings)
    first, last = (options for _, _, options in model.asked)
    assert first == CallOptions()
    schema = {"type": "object"}
    assert last == CallOptions(0.5, None, 9, ("x",), 3, schema=schema, logprobs=2, top_k=4)
    assert completion.choices[0].message.reasoning_content == "draw 0 of 1"


def test_earlier_turns_are_sent_before_the_question(tmp_path: Path) -> None:
    model = WatchedModel()
    plan = plan_of({"halved": {"halve": AddLeftHalf(), "ask": Ask(images="placed")}}, model)
    turns = [turn("Be brief.", role="system"), turn("Hi"), turn("Hello", role="assistant")]
    with serving(plan, tmp_path) as served:
        asked = [*turns, turn("First:", URL, "then", QUESTIONS[1][0], "what?")]
        served.client.chat.completions.create(model="halved", messages=asked)
    [(sent, _, _)] = model.asked
    assert [message.role for message in sent] == ["system", "user", "assistant", "user"]
    words = [part if isinstance(part, str) else "<>" for part in sent[-1].parts]
    assert words == ["First:", "<>", "<>", "then", "<>", "what?"]


def test_tools_of_a_client_stay_in_its_own_loop(tmp_path: Path) -> None:
    model, agent = WatchedModel(), Agent({"zoom": Zoom()})
    plan = plan_of(
        {"halved": {"halve": AddLeftHalf(), "ask": Ask()}, "agent": {"look": agent}}, model
    )
    with serving(plan, tmp_path) as served:
        create: Any = served.client.chat.completions.create
        asked = [turn(URL, "What?")]
        said = create(model="halved", messages=asked, tools=[ZOOM]).choices[0]
        assert (said.finish_reason, said.message.tool_calls[0].id) == ("tool_calls", "c1")
        result = {"role": "tool", "tool_call_id": "c1", "content": "I"}
        asked += [said.message.model_dump(), result]
        more: Any = {"tools": [ZOOM], "tool_choice": "required"}
        assert create(model="halved", messages=asked, **more).choices[0].message.content
        with pytest.raises(openai.BadRequestError, match="its own tools"):
            create(model="agent", messages=asked, tools=[ZOOM])
    (first, _, options), (second, _, again) = model.asked
    assert len(first[0].views) == 2 and options.tools == (Tool("zoom", "", {"type": "object"}),)
    assert (options.tool_choice, again.tool_choice) == (None, "required")
    assert [message.role for message in second] == ["user", "assistant", "tool"]
    assert second[1].tool_calls == (CALL,)


def test_a_repeated_request_gets_another_draw_if_sampling(tmp_path: Path) -> None:
    model = WatchedModel()
    with serving(plan_of({"plain": {"ask": Ask()}}, model), tmp_path) as served:
        create = served.client.chat.completions.create
        for settings in ({"temperature": 0}, {"temperature": 0}, {"temperature": 1, "n": 2}):
            create(model="plain", messages=[turn("Well?")], **settings)
    assert [draw for _, draw, _ in model.asked] == [0, 0, 2, 3]
    assert sorted(record.draw for record in served.records) == [0, 1, 2, 3]
    assert len({record.sample for record in served.records}) == 1


def test_a_paid_reply_is_not_paid_for_again(tmp_path: Path) -> None:
    with chat_server() as upstream:
        plan = plan_of({"plain": {"ask": Ask()}}, ChatAPI("tiny", upstream.url, temperature=0))
        for _ in range(2):
            with serving(plan, tmp_path) as served:
                for words in ("A?", "B?", "A?"):
                    served.client.chat.completions.create(model="plain", messages=[turn(words)])
        stats = upstream.stats
        assert stats["requests"] == 2
        assert stats["authorizations"] == [None], "the client's key is its own"
    assert len(served.records) == 6
    assert replay(served.run, cache=tmp_path / ".cache").same_count == 6


@table
def test_failures_are_reported_with_their_place(
    name: str, words: str, status: int, said: str, tmp_path: Path
) -> None:
    asks = {"ask": Ask()}
    stages: Mapping[str, Mapping[str, Stage]] = {
        "plain": asks,
        "breaks": {"lamp": FailingStage("fail"), **asks},
        "dark": {"lamp": FailingStage("abstain"), **asks},
        "counts": {"count": FixedSpecialist()},
        "permuted": {"permute": PermuteChoices(), **asks},
    }
    with chat_server(None, "--retry-after", "7") as upstream:
        plan = plan_of(stages, ChatAPI("tiny", upstream.url))
        with serving(plan, tmp_path) as served:
            body = {"model": name, "messages": [turn(words)]}
            body |= {"tools": [ZOOM]} if words == "tools" else {}
            answer = post(served.url, body)
    assert (answer.status, said in answer.error["message"]) == (status, True), answer
    if status in (429, 503):
        assert answer.headers["Retry-After"] == "7"
    if name in ("breaks", "dark"):
        assert '"slot": "lamp"' in answer.text
    failed = [record.error for record in served.records]
    assert len(failed) == (0 if status in (400, 404) else 1)


def test_an_abstention_can_be_a_text_and_a_specialist_answers_without_a_model(
    tmp_path: Path,
) -> None:
    dark: Mapping[str, Stage] = {"lamp": FailingStage("abstain"), "ask": Ask()}
    stages, texts = {"dark": dark, "counts": {"count": FixedSpecialist()}}, list[str]()
    with serving(plan_of(stages, Pocket()), tmp_path, abstain="text") as served:
        for name in stages:
            asked: Any = {"model": name, "messages": [turn(URL, URL, "How many?")]}
            answer = served.client.chat.completions.create(**asked)
            texts.append(answer.choices[0].message.content)
    assert texts == ["no answer", "2"]


@pytest.mark.slow
def test_a_stage_without_effect_is_reported_once(tmp_path: Path) -> None:
    plan = plan_of(
        {"idle": {"lamp": IdleStage(), "halve": AddLeftHalf(), "ask": Ask()}}, WatchedModel()
    )
    with serving(plan, tmp_path) as served:
        for _ in range(41):
            served.client.chat.completions.create(model="idle", messages=[turn(URL, "What?")])
    [sentence] = served.messages
    assert sentence.startswith("idle: 'lamp' changed nothing in the first 10 requests")
    assert "there was nothing to see" in sentence


@pytest.mark.slow
def test_heartbeats_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "HEARTBEAT_SECONDS", 0.05)
    with chat_server(None, "--delay", "0.3") as upstream:
        plan = plan_of({"plain": {"ask": Ask()}}, ChatAPI("tiny", upstream.url))
        with serving(plan, tmp_path) as served:
            for words, last in (("Well?", "data: [DONE]"), ("fail:503", '"slot": "ask"}}')):
                body = {"model": "plain", "messages": [turn(words)], "stream": True}
                text = post(served.url, body).text
                assert text.count(": looking") > 2 and text.strip().endswith(last)
                chunks = served.client.chat.completions.create(**body)
                if words == "Well?":
                    assert len(list(chunks)) == 2
                else:
                    with pytest.raises(openai.APIError, match="busy"):
                        list(chunks)


def test_an_id_reused_for_another_question_is_renamed(tmp_path: Path) -> None:
    with serving(plan_of({"plain": {"ask": Ask()}}, WatchedModel()), tmp_path) as served:
        for words in ("A?", "B?", "B?"):
            served.client.chat.completions.create(
                model="plain", messages=[turn(words)], extra_body={"looktwice": {"id": "q1"}}
            )
    names = sorted((record.sample, record.draw) for record in served.records)
    assert names[0] == ("q1", 0) and [name[:3] for name, _ in names[1:]] == ["q1-"] * 2


def test_contestants_are_named_by_task_and_changes_where_needed() -> None:
    plan = plan_of({"plain": {"ask": Ask()}}, Pocket())
    [arm] = plan.points
    other = replace(arm, task_name="other", stages={"ask": Ask(images="after")})
    swept = [replace(arm, changes={"stages.ask.images": how}) for how in ("after", "none")]
    assert [*name_contestants(Plan("study", (arm, replace(arm, task_name="other"))))] == ["plain"]
    assert [*name_contestants(Plan("study", (arm, other)))] == ["plain@scenes", "plain@other"]
    names = [*name_contestants(Plan("study", tuple(swept)))]
    assert names == ["plain [ask.images=after]", "plain [ask.images=none]"]


def test_pocket_alone_is_a_study_without_stages(tmp_path: Path) -> None:
    turns = [turn("Look:", URL, WORDS), turn("A", role="assistant"), turn("Sure?")]
    asked: Any = {"model": "pocket", "messages": turns, "logprobs": True}
    with serving(make_pocket_plan(), tmp_path) as served:
        completion = served.client.chat.completions.create(**asked)
        assert completion.choices[0].logprobs is not None
    assert replay(served.run).same_count == 1


def test_a_write_to_a_full_disk_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(blobs: Blobs, data: bytes, sha: str = "") -> str:
        raise OSError("no space left")

    [item] = MarkedScenes("symbol", n=1)
    picture = Picture.encoded(item.sample.images[0].payload.data)
    sample = replace(item.sample, images=(picture,))
    with Recorder(tmp_path / "run") as recorder:
        with monkeypatch.context() as patch:
            patch.setattr(Blobs, "put", full)
            with pytest.raises(OSError, match="no space"):
                recorder.record_question(sample, "requests")
        recorder.record_question(sample, "requests")
    assert [row.id for row in RunFolder(tmp_path / "run").samples.values()] == [sample.id]

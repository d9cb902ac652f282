"""A study behind three protocols over plain HTTP: the same conversation is the same for the model,
and each protocol gets its own response, stream and errors."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from looktwice.eval.recorded.replay import replay
from looktwice.extras.integrations import command
from looktwice.extras.integrations.protocols.chat_responses import join_chunks
from looktwice.pipelines import ChatAPI, Pipeline, State
from looktwice.pipelines.model import (
    CallOptions,
    Message,
    Messages,
    Model,
    ModelError,
    Reply,
    ToolCall,
)
from looktwice.pipelines.state import Stage, WithoutModel
from looktwice.prompting import Ask, Circles
from tests.chat_server import chat_server
from tests.extras.integrations.conversations import (
    IMAGE,
    PATHS,
    Conversation,
    ScriptedModel,
    describe_turn,
    fill,
    join_message,
    list_conversations,
    list_pictures,
    make_reply,
    read_events,
    strip,
)
from tests.extras.integrations.served import OPENER, Served, plan_of, post, serving, tapping
from tests.tables import table

Json = dict[str, Any]
CASES = list_conversations()
ASK: Mapping[str, Stage] = {"ask": Ask(images="placed")}


def check_contains(whole: Json, part: Json) -> None:
    """Fail if a response lacks fields of the YAML file, or has others in a part of its output."""
    assert {name: whole.get(name) for name in part} == part


@pytest.mark.parametrize("protocol", PATHS)
@pytest.mark.parametrize("name", CASES)
def test_conversations_are_one_inside(name: str, protocol: str, tmp_path: Path) -> None:
    case = CASES[name]
    model = ScriptedModel(make_reply(case.reply))
    body = case.request(protocol) | {"model": "plain"}
    with serving(plan_of({"plain": ASK}, model), tmp_path) as served:
        answer = post(served.url, body, PATHS[protocol])
        stream = post(served.url, body | {"stream": True}, PATHS[protocol])
    assert answer.status == 200, answer
    for messages, options in model.asked:
        assert [describe_turn(turn) for turn in messages] == case.turns
        assert set(list_pictures(messages)) <= {IMAGE}
        assert json.loads(json.dumps(options.to_dict())) == case.options
    whole, expected = json.loads(answer.text), getattr(case, protocol)
    check_response(protocol, whole, expected["said"])
    check_stream(protocol, strip(whole), stream.text, expected.get("events"))


def check_response(protocol: str, whole: Json, said: Json) -> None:
    """Check the content of a response and its token counts."""
    shown = strip(whole)
    check_contains(shown["choices"][0] if protocol == "chat" else shown, said)
    counts = {
        "chat": ("prompt_tokens", 11, "completion_tokens", 7),
        "responses": ("input_tokens", 11, "output_tokens", 7),
        "messages": ("input_tokens", 7, "cache_read_input_tokens", 4),
    }
    name, count, other, more = counts[protocol]
    assert (whole["usage"][name], whole["usage"][other]) == (count, more)


def check_stream(protocol: str, whole: Json, text: str, names: str | None) -> None:
    """Check that the events of a stream add up to the whole response."""
    if protocol == "chat":
        joined = join_chunks(text.encode())
        [choice], [same] = strip(joined)["choices"], whole["choices"]
        assert choice["finish_reason"] == same["finish_reason"]
        calls = [call["function"] for call in choice["message"].get("tool_calls") or ()]
        assert calls == [call["function"] for call in same["message"].get("tool_calls") or ()]
        assert (choice["message"]["content"] or "") == (same["message"]["content"] or "")
        return
    events = read_events(text)
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert names is None or kinds == names.split()
    if protocol == "messages":
        joined = join_message(events)
        assert joined["usage"]["input_tokens"] == 7
    else:
        joined = events[-1]["response"]
        assert [event["sequence_number"] for event in events] == [*range(len(events))]
        items = [event["item"] for event in events if event["type"].endswith("item.done")]
        assert items == joined["output"]
    assert strip(joined) == whole


def ask(url: str, protocol: str, turns: list[Any], **more: Any) -> Json:
    """Send a conversation; return the response."""
    held = "input" if protocol == "responses" else "messages"
    body = {"model": "plain", held: turns, **more}
    answer = post(
        url, body | ({"max_tokens": 9} if protocol == "messages" else {}), PATHS[protocol]
    )
    assert answer.status == 200, answer
    return dict(json.loads(answer.text))


CALLS = (
    ToolCall("c1", "zoom", '{"x": 1}', {"extra_content": {"signature": "S1"}}),
    ToolCall("c2", "zoom", '{"x": '),
)
SIGNED = Reply(
    "Let me see.", "tool", "Hm.", CALLS, attached={"reasoning_details": [{"text": "Hm.", "s": "S"}]}
)


def hand_back(protocol: str, whole: Json) -> list[Json]:
    """Return a response and the results of its calls as the next turns of the conversation."""
    image = {"type": "image", "source": {"type": "url", "url": IMAGE}}
    if protocol == "responses":
        parts = [
            {"type": "input_text", "text": "seen"},
            {"type": "input_image", "image_url": IMAGE},
        ]
        outputs = [
            {"type": "function_call_output", "call_id": call, "output": output}
            for call, output in (("c1", parts), ("c2", "no JSON"))
        ]
        return [*whole["output"], *outputs]
    if protocol == "messages":
        results = [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "seen"}, image],
            },
            {"type": "tool_result", "tool_use_id": "c2", "content": "no JSON", "is_error": True},
        ]
        said = {"role": "assistant", "content": whole["content"]}
        return [said, {"role": "user", "content": results}]
    shown = [{"type": "text", "text": "seen"}, {"type": "image_url", "image_url": {"url": IMAGE}}]
    return [
        whole["choices"][0]["message"],
        {"role": "tool", "tool_call_id": "c1", "content": shown},
        {"role": "tool", "tool_call_id": "c2", "content": "no JSON"},
    ]


@pytest.mark.parametrize("thinking", ["disabled", "adaptive"])
@pytest.mark.parametrize("protocol", PATHS)
def test_a_turn_handed_back_is_the_one_the_model_gave(
    protocol: str, thinking: str, tmp_path: Path
) -> None:
    """The turn keeps the fields that its server attached, such as signatures, and the exact
    arguments."""
    model = ScriptedModel(SIGNED, Reply("Red."))
    more: Json = {"thinking": {"type": thinking}} if protocol == "messages" else {}
    turns: list[Any] = [{"role": "user", "content": "Which?"}]
    with serving(plan_of({"plain": ASK}, model), tmp_path) as served:
        first = ask(served.url, protocol, turns, **more)
        ask(served.url, protocol, turns + hand_back(protocol, first), **more)
    (_, said, *results), _ = model.asked[1]
    assert (said.tool_calls, said.attached) == (SIGNED.tool_calls, SIGNED.attached)
    assert said.text == "Let me see."
    assert [describe_turn(turn) for turn in results] == [
        ["tool", "seen", "IMAGE"],
        ["tool", "no JSON"],
    ]
    assert [turn.call_id for turn in results] == ["c1", "c2"]
    if protocol == "messages":
        kind = "redacted_thinking" if thinking == "disabled" else "thinking"
        assert first["content"][0]["type"] == kind
        sent = dict(served.records[-1].measured or {})
        assert sent["sent.is_error"] == '["c2"]' and thinking in str(sent["sent.thinking"])


def test_plain_thoughts_of_a_client_reach_the_model(tmp_path: Path) -> None:
    model = ScriptedModel(Reply("Red."))
    thought: dict[str, Json] = {
        "responses": {
            "type": "reasoning",
            "content": [{"type": "reasoning_text", "text": "Hm."}],
            "encrypted_content": "",
        },
        "messages": {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "Hm.", "signature": ""}],
        },
    }
    with serving(plan_of({"plain": ASK}, model), tmp_path) as served:
        for protocol, item in thought.items():
            ask(served.url, protocol, [item, {"role": "user", "content": "Which?"}])
    for (said, _), _ in model.asked:
        assert said.attached == {"reasoning_content": "Hm."}


def test_fields_without_effect_are_accepted(tmp_path: Path) -> None:
    block = {"type": "text", "text": "Which?", "content": [{"type": "image"}], "citations": None}
    neutral: dict[str, Json] = {
        "messages": {"context_management": {"edits": []}, "mcp_servers": [], "container": None},
        "responses": {"context_management": [], "background": False, "truncation": "auto"},
    }
    contents: dict[str, Any] = {"messages": [block], "responses": "Which?"}
    model = ScriptedModel(Reply("Red."))
    with serving(plan_of({"plain": ASK}, model), tmp_path) as served:
        for protocol, more in neutral.items():
            turn = {"role": "user", "content": contents[protocol]}
            ask(served.url, protocol, [turn], **more)
    assert [describe_turn(turns[0]) for turns, _ in model.asked] == [["user", "Which?"]] * 2


@dataclass(frozen=True)
class Describe:
    """Asks for a description first."""

    def __call__(self, state: State, model: Model) -> State:
        model([Message("user", (*state.views, "Describe it."))])
        return state


def test_looks_of_a_study_are_thoughts(tmp_path: Path) -> None:
    stages: Mapping[str, Stage] = {"describe": Describe(), **ASK}
    thoughts = list[str]()
    plan = plan_of({"plain": stages}, ScriptedModel(Reply("Red.", reasoning="Hm.")))
    with serving(plan, tmp_path, looks=True) as served:
        turns = [{"role": "user", "content": "Which?"}]
        whole = {name: ask(served.url, name, turns) for name in PATHS}
    thoughts.append(whole["chat"]["choices"][0]["message"]["reasoning_content"])
    thoughts.append(whole["responses"]["output"][0]["summary"][0]["text"])
    thoughts.append(whole["messages"]["content"][0]["thinking"])
    assert thoughts == ["Red.\n\nHm."] * 3


def test_items_of_one_reply_are_one_turn(tmp_path: Path) -> None:
    model = ScriptedModel(Reply("Red."))
    call = {"type": "function_call", "name": "zoom", "arguments": "{}"}
    items: list[Any] = [
        {"role": "assistant", "content": "One."},
        {"role": "assistant", "content": "Two."},
        call | {"call_id": "c1"},
        {"type": "reasoning", "summary": []},
        call | {"call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": ""},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Which?"},
    ]
    with serving(plan_of({"plain": ASK}, model), tmp_path) as served:
        ask(served.url, "responses", items)
    turns = [describe_turn(turn) for turn in model.asked[0][0]]
    assert turns[:2] == [["assistant", "One."], ["assistant", "Two.", "zoom {}", "zoom {}"]]
    assert [turn[0] for turn in turns[2:]] == ["tool", "tool", "system", "user"]


KNOWN: Json = {"id": "q7", "marks": [{"label": "A", "x": 12, "y": 10}], "answer": "A"}


def test_marks_are_drawn_in_what_the_model_gets_and_records_replay(tmp_path: Path) -> None:
    circled: Mapping[str, Stage] = {"mark": Circles(radius=6), **ASK}
    case = CASES["tools"]
    with chat_server(tmp_path / "log") as upstream:
        model = ChatAPI("tiny", upstream.url, temperature=0)
        with serving(plan_of({"circled": circled}, model), tmp_path) as served:
            for protocol, path in PATHS.items():
                more = {"model": "circled", "looktwice": KNOWN, "temperature": 0}
                answer = post(served.url, case.request(protocol) | more, path)
                assert answer.status == 200, answer
                assert answer.headers["x-looktwice-marks"] == "1"
        [body] = upstream.bodies  # the same request in every protocol, so two came from the cache
    [sample] = served.samples.values()
    drawn = Pipeline({"mark": Circles(radius=6)})(State.start(sample)).views[0].picture.payload
    [image, words] = body["messages"][0]["content"]
    assert image["image_url"]["url"] == drawn.data_url != IMAGE
    assert words["text"] == "Which?"
    assert [(record.sample, record.error) for record in served.records] == [("q7", "")] * 3
    assert replay(served.run, cache=tmp_path / ".cache").same_count == 3


@dataclass(frozen=True)
class FailingStage(WithoutModel):
    """Abstains or fails."""

    how: str

    def __call__(self, state: State, model: Model) -> State:
        if self.how == "dark":
            return state.abstain("it is too dark")
        raise LookupError("no such lamp")


@dataclass(frozen=True)
class BusyModel:
    """A model whose server is busy."""

    identity: ClassVar[str] = "busy"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        if "busy" in messages[-1].text:
            raise ModelError("the server is busy", status=429, retryable=True, retry_after=7)
        return Reply("Red.")


@dataclass(frozen=True)
class AskForBusy:
    """Asks the model in a word for which it is busy."""

    def __call__(self, state: State, model: Model) -> State:
        return Ask()(state.replace(prompt="busy"), model)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    stages: Mapping[str, Mapping[str, Stage]] = {
        "plain": ASK,
        "dark": {"lamp": FailingStage("dark"), **ASK},
        "broken": {"lamp": FailingStage("broken"), **ASK},
        "busy": {"ask": AskForBusy()},
    }
    with serving(plan_of(stages, BusyModel()), tmp_path_factory.mktemp("faulty")) as served:
        yield served


@table
def test_errors_have_the_form_of_their_protocol(
    protocol: str, body: Json, status: int, kind: str, words: str, faulty: Served
) -> None:
    answer = post(faulty.url, {"model": "plain"} | fill(body), PATHS[protocol])
    assert (answer.status, words in answer.error["message"]) == (status, True), answer
    assert answer.error["type"] == kind
    assert json.loads(answer.text).get("type") == ("error" if protocol == "messages" else None)
    if status == 429:
        assert answer.headers["Retry-After"] == "7"
    if status == 422:
        assert answer.error["slot"] == "lamp"


@table
def test_endpoints_without_an_answer_say_so(
    method: str, path: str, headers: dict[str, str], status: int, words: str, faulty: Served
) -> None:
    request = urllib.request.Request(f"{faulty.url}{path}", method=method, headers=headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        OPENER.open(request, timeout=30)
    with refused.value as answer:
        body = json.loads(answer.read())
    assert (answer.code, words in body["error"]["message"]) == (status, True), body
    assert body.get("type") == ("error" if "messages" in path else None)


def test_models_have_the_fields_of_both_clients(faulty: Served) -> None:
    with OPENER.open(f"{faulty.url}/models", timeout=30) as answer:
        listed = json.loads(answer.read())
    assert [model["id"] for model in listed["data"]] == ["plain", "dark", "broken", "busy"]
    assert (listed["first_id"], listed["last_id"]) == ("plain", "busy")
    with OPENER.open(f"{faulty.url}/models/dark", timeout=30) as answer:
        assert json.loads(answer.read()) == listed["data"][1]


def test_the_token_is_the_key_of_either_client(tmp_path: Path) -> None:
    case: Conversation = CASES["one text"]
    body = case.request("messages")
    plan = plan_of({"plain": ASK}, ScriptedModel(Reply("Red.")))
    with serving(plan, tmp_path, token="a-token") as served:
        for headers, status in (
            ({"x-api-key": "a-token"}, 200),
            ({"Authorization": "Bearer a-token"}, 200),
            ({"x-api-key": "a-token", "Authorization": "Bearer another"}, 200),
            ({"x-api-key": "another"}, 401),
            ({}, 401),
        ):
            answer = post(served.url, body, "messages", **headers)
            assert answer.status == status
        assert answer.error["type"] == "authentication_error"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["responses", "messages"])
def test_a_stream_that_fails_after_a_wait_ends_with_an_error(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "HEARTBEAT_SECONDS", 0.05)
    held = "input" if protocol == "responses" else "messages"
    turns = [{"role": "user", "content": "fail:503"}]
    body = {"model": "plain", held: turns, "max_tokens": 5, "stream": True}
    if protocol == "responses":
        del body["max_tokens"]
    with chat_server(None, "--delay", "0.3") as upstream:
        plan = plan_of({"plain": ASK}, ChatAPI("tiny", upstream.url))
        with serving(plan, tmp_path) as served:
            text = post(served.url, body, PATHS[protocol]).text
    assert text.count(": looking") > 2
    [event] = read_events(text)
    assert event["type"] == "error" and event["error"]["slot"] == "ask"
    kind = {"responses": "upstream_error", "messages": "api_error"}[protocol]
    assert event["error"]["type"] == kind


def test_a_tap_answers_chat_completions_only(tmp_path: Path) -> None:
    with tapping("http://127.0.0.1:9/v1", tmp_path) as served:
        answer = post(served.url, CASES["one text"].request("responses"), "responses")
    assert answer.status == 404 and "POST /v1/chat/completions" in answer.error["message"]

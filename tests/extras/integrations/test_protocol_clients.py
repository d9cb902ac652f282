"""OpenAI's and Anthropic's own clients take the responses, streams and errors of `serve`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from looktwice.extras.integrations import command
from looktwice.pipelines import ChatAPI
from looktwice.pipelines.model import Reply, ToolCall, Usage
from looktwice.prompting import Ask
from tests.chat_server import chat_server
from tests.extras.integrations.conversations import (
    IMAGE,
    ScriptedModel,
    describe_turn,
    list_conversations,
    make_reply,
    strip,
)
from tests.extras.integrations.served import plan_of, serving
from tests.optional import LazyModule

Json = dict[str, Any]
CASES = list_conversations()
CLIENTS = [
    pytest.param(
        name, marks=pytest.mark.skipif(find_spec(package) is None, reason=f"needs {package}")
    )
    for name, package in (("chat", "openai"), ("responses", "openai"), ("messages", "anthropic"))
]
of_each_protocol = pytest.mark.parametrize("protocol", CLIENTS)
openai, anthropic = LazyModule("openai"), LazyModule("anthropic")
PACKAGES: dict[str, Any] = {"chat": openai, "responses": openai, "messages": anthropic}
CALL = ToolCall("c1", "zoom", '{"x": 1}', {"extra_content": {"signature": "S1"}})
CALLED = Reply("Let me see.", "tool", "Hm.", (CALL,), attached={"reasoning_content": "Hm."})


class OwnClient:
    """The client of a protocol's vendor, without retries."""

    def __init__(self, protocol: str, url: str) -> None:
        self.protocol, self.package = protocol, PACKAGES[protocol]
        kind = anthropic.Anthropic if protocol == "messages" else openai.OpenAI
        base = url.removesuffix("/v1") if protocol == "messages" else url
        self.client = kind(base_url=base, api_key="k", max_retries=0)
        node: Any = self.client
        for name in {"chat": ("chat", "completions")}.get(protocol, (protocol,)):
            node = getattr(node, name)
        self.create, self.stream = node.create, node.stream

    def ask(self, turns: Sequence[Any], **more: Any) -> Any:
        """Ask `plain` with these turns."""
        return self.create(**self.request(turns, more))

    def request(self, turns: Sequence[Any], more: Json) -> Json:
        """Return the arguments of a request with these turns."""
        held = "input" if self.protocol == "responses" else "messages"
        limit = {"max_tokens": 2000} if self.protocol == "messages" else {}
        return {"model": "plain", held: turns, **limit, **more}


@contextmanager
def asking(protocol: str, model: Any, folder: Path) -> Iterator[OwnClient]:
    """Serve a model and yield the client of a protocol."""
    with ExitStack() as stack:
        plan = plan_of({"plain": {"ask": Ask(images="placed")}}, model)
        served = stack.enter_context(serving(plan, folder))
        own = OwnClient(protocol, served.url)
        stack.callback(own.client.close)
        yield own


def without_sdk_fields(response: Any) -> Json:
    """Return a response without the fields that differ between two responses, and those that the
    clients' streams add."""
    plain = strip(json.loads(response.to_json()))

    def drop(value: Any) -> Any:
        if isinstance(value, list):
            return [drop(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        added = {"parsed_output", "parsed", "parsed_arguments"}
        return {k: drop(v) for k, v in value.items() if k not in added and v is not None}

    return dict(drop(plain))


EXTRA = {
    "chat": {"top_k"},
    "responses": {"top_k", "seed", "stop"},
    "messages": {"seed", "temperature", "top_p", "top_k"},  # anthropic 2 has none of these
}
"""Fields that the clients send in `extra_body` only."""


@of_each_protocol
@pytest.mark.parametrize("name", CASES)
def test_clients_take_whole_responses_and_streams(name: str, protocol: str, tmp_path: Path) -> None:
    case = CASES[name]
    request = case.request(protocol) | {"model": "plain"}
    beside = EXTRA[protocol] & request.keys()
    request["extra_body"] = {name: request.pop(name) for name in beside}
    with asking(protocol, ScriptedModel(make_reply(case.reply)), tmp_path) as own:
        whole = own.create(**request)
        check_types(protocol, whole)
        events = list(own.create(**request, stream=True))
        check_event_types(protocol, events)
        if protocol == "chat":
            return
        if protocol == "responses" and (whole.status == "incomplete" or "tools" in request):
            # the client's `stream` fails for these, and for arguments that are no JSON
            final = events[-1].response
        else:
            del request["extra_body"]
            with own.stream(**request) as stream:
                final = stream.get_final_response() if protocol == "responses" else None
                final = final or stream.get_final_message()
    assert without_sdk_fields(final) == without_sdk_fields(whole)
    if protocol == "messages":
        assert final.usage == whole.usage


def check_types(protocol: str, whole: Any) -> None:
    """Check a response against the client's types, because the client does not check them."""
    plain = json.loads(whole.to_json())
    if protocol == "messages":
        anthropic.types.Message.model_validate(plain)
        assert whole.model_extra == {} and all(not b.model_extra for b in whole.content)
    elif protocol == "responses":
        openai.types.responses.Response.model_validate(plain)
        assert all(not item.model_extra for item in whole.output)
    else:
        openai.types.chat.ChatCompletion.model_validate(plain)


def check_event_types(protocol: str, events: Sequence[Any]) -> None:
    """Check the events of a stream against the client's types."""
    kinds = {
        "chat": lambda: openai.types.chat.ChatCompletionChunk,
        "responses": lambda: openai.types.responses.ResponseStreamEvent,
        "messages": lambda: anthropic.types.RawMessageStreamEvent,
    }
    adapter: TypeAdapter[Any] = TypeAdapter(kinds[protocol]())
    for event in events:
        adapter.validate_python(json.loads(event.to_json()))


RESULTS: dict[str, Any] = {
    "chat": {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    "responses": {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [
            {"type": "input_text", "text": "seen"},
            {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
        ],
    },
    "messages": {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [
                    {"type": "text", "text": "seen"},
                    {"type": "image", "source": {"type": "url", "url": IMAGE}},
                ],
            }
        ],
    },
}
SCHEMA: Json = {"type": "object", "properties": {"x": {"type": "integer"}}}
TOOLS: dict[str, Json] = {
    "chat": {"type": "function", "function": {"name": "zoom", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "zoom", "parameters": SCHEMA, "strict": False},
    "messages": {"name": "zoom", "input_schema": SCHEMA},
}


def collect_turns(own: OwnClient, first: Any) -> list[Any]:
    """Return a response as the client's next turns."""
    if own.protocol == "responses":
        return [*first.output]
    if own.protocol == "messages":
        return [{"role": "assistant", "content": first.content}]
    return [first.choices[0].message.model_dump()]


@of_each_protocol
@pytest.mark.parametrize("streamed", [False, True])
def test_a_loop_of_tools_returns_the_models_own_turn(
    protocol: str, streamed: bool, tmp_path: Path
) -> None:
    model = ScriptedModel(CALLED, Reply("Red."))
    turns: list[Any] = [{"role": "user", "content": "Which?"}]
    with asking(protocol, model, tmp_path) as own:
        more = {"tools": [TOOLS[protocol]]}
        if streamed:
            with own.stream(**own.request(turns, more)) as stream:
                names = {"responses": "get_final_response", "messages": "get_final_message"}
                first = getattr(stream, names.get(protocol, "get_final_completion"))()
        else:
            first = own.ask(turns, **more)
        turns += [*collect_turns(own, first), RESULTS[protocol]]
        own.ask(turns, **more)
    (_, said, result), _ = model.asked[1]
    assert (said.text, said.tool_calls) == ("Let me see.", (CALL,))
    assert said.attached == CALLED.attached
    assert describe_turn(result) == ["tool", "seen", *(["IMAGE"] if protocol != "chat" else [])]


def test_token_counts_and_likelihoods_of_responses(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    reply = Reply("one", usage=Usage(11, 7, 3, 4), logprobs=({"one": -0.1, "two": -2.5},))
    model = ScriptedModel(reply)
    asked: Json = {"top_logprobs": 2, "include": ["message.output_text.logprobs"]}
    with asking("responses", model, tmp_path) as own:
        whole = own.ask([{"role": "user", "content": "Which?"}], **asked)
    assert model.asked[0][1].logprobs == 2 and whole.output_text == "one"
    [token] = whole.output[0].content[0].logprobs
    assert (token.token, [top.token for top in token.top_logprobs]) == ("one", ["one", "two"])
    assert (whole.usage.total_tokens, whole.usage.input_tokens_details.cached_tokens) == (18, 4)
    assert whole.usage.output_tokens_details.reasoning_tokens == 3


@of_each_protocol
def test_clients_raise_the_error_of_the_status(protocol: str, tmp_path: Path) -> None:
    question = [{"role": "user", "content": "Which?"}]
    with asking(protocol, ScriptedModel(Reply("Red.")), tmp_path) as own:
        for more, kind in (
            ({"model": "nobody"}, "NotFoundError"),
            ({"extra_body": {"temperature": -1}}, "BadRequestError"),
            ({"extra_body": {"unknown": 1}}, "BadRequestError"),
        ):
            with pytest.raises(getattr(own.package, kind)) as refused:
                own.ask(question, **more)
            body: Any = refused.value.body
            error = body["error"] if protocol == "messages" else body
            assert error["message"] and error["type"]
        assert [model.id for model in own.client.models.list()] == ["plain"]
        assert own.client.models.retrieve("plain").id == "plain"


def test_counting_tokens_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("anthropic")
    with asking("messages", ScriptedModel(Reply("Red.")), tmp_path) as own:
        for counts in (own.client.messages, own.client.beta.messages):
            with pytest.raises(anthropic.NotFoundError, match="usage"):
                counts.count_tokens(model="plain", messages=[{"role": "user", "content": "x"}])
        said = own.client.beta.messages.create(
            model="plain", max_tokens=5, messages=[{"role": "user", "content": "Which?"}]
        )
        assert said.content[0].text == "Red."


@pytest.mark.slow
@of_each_protocol
def test_clients_raise_errors_that_end_a_stream(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "HEARTBEAT_SECONDS", 0.05)
    with ExitStack() as stack:
        upstream = stack.enter_context(chat_server(None, "--delay", "0.3"))
        own = stack.enter_context(asking(protocol, ChatAPI("tiny", upstream.url), tmp_path))
        chunks = own.ask([{"role": "user", "content": "fail:503"}], stream=True)
        with pytest.raises(own.package.APIError, match="busy"):
            list(chunks)
        chunks = own.ask([{"role": "user", "content": "Which?"}], stream=True)
        assert list(chunks)

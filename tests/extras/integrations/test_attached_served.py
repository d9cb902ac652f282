"""Fields that a provider attaches to a turn pass through `serve` and the tap in both directions,
whole and in chunks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.recorded.replay import replay
from looktwice.extras.integrations.protocols.chat_requests import (
    read_foreign_question,
    read_question,
)
from looktwice.extras.integrations.protocols.chat_responses import ChatResponse, join_chunks
from looktwice.extras.integrations.protocols.exchange import AnswerContent
from looktwice.extras.integrations.tap import split_choices
from looktwice.pipelines.model import Message, ModelError, make_message_json
from looktwice.pipelines.models import ChatAPI
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.pipelines.models.wire import parse_reply
from looktwice.prompting import Ask
from tests.extras.integrations.served import plan_of, post, serving, tapping, turn
from tests.strict_server import strict_server
from tests.tables import read_yaml, table

Json = dict[str, Any]
ZOOM = {"type": "function", "function": {"name": "zoom", "parameters": {"type": "object"}}}
SAID: dict[str, Json] = read_yaml(Path(__file__).with_suffix(".yaml"))["said"]
FINAL = {"content": "(A)", "reasoning": "it is A"}


def make_loop(create: Any, stream: bool) -> list[Json]:
    """Return the turns of a client that calls a tool once and then gets the answer."""
    turns: list[Json] = [turn("What?")]
    for _ in range(2):
        if stream:
            chunks = create(messages=turns, tools=[ZOOM], stream=True)
            events = (f"data: {chunk.model_dump_json()}\n" for chunk in chunks)
            message = join_chunks("".join(events).encode())["choices"][0]["message"]
        else:
            answer = create(messages=turns, tools=[ZOOM])
            message = json.loads(answer.choices[0].message.model_dump_json())
        turns.append({"role": "assistant", **message})
        for called in message.get("tool_calls") or ():
            turns.append({"role": "tool", "tool_call_id": called["id"], "content": "a crop"})
    return turns


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", SAID)
def test_serve_returns_attached_fields(name: str, stream: bool, tmp_path: Path) -> None:
    with strict_server(SAID[name], FINAL) as upstream:
        plan = plan_of({"plain": {"ask": Ask()}}, ChatAPI("m", upstream.url, temperature=0))
        for _ in range(2):
            with serving(plan, tmp_path) as served:
                create = served.client.chat.completions.create
                turns = make_loop(
                    lambda create=create, **more: create(model="plain", **more), stream
                )
                assert turns[-1]["content"] == "(A)"
        assert upstream.refused == [] and len(upstream.bodies) == 2, "asked once, then cached"
    assert [record.error for record in served.records] == [""] * 4
    assert replay(served.run, cache=tmp_path / ".cache").same_count == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_a_tap_records_returned_fields(name: str, tmp_path: Path) -> None:
    with strict_server(SAID[name], FINAL) as upstream, tapping(upstream.url, tmp_path) as served:
        ask: Json = {"model": "m", "messages": [turn("What?")], "tools": [ZOOM]}
        post(served.url, ask)
        ids = [called["id"] for called in SAID[name]["tool_calls"]]
        results = [{"role": "tool", "tool_call_id": i, "content": "a crop"} for i in ids]
        said = upstream.expected(SAID[name])
        answer = post(served.url, ask | {"messages": [turn("What?"), said, *results]})
        assert answer.status == 200 and upstream.refused == []
    replies = [record.replies[0] for record in served.records]
    assert replies[0].attached == parse_reply({"choices": [{"message": SAID[name]}]}, 0.0).attached
    assert replies[1].attached == {"reasoning": "it is A"}
    assert replay(served.run).same_count == 2
    request = read_foreign_question(json.dumps(ask | {"messages": [turn("What?"), said]}).encode())
    assert make_message_json(request.turns[1]) == make_message_json(replies[0].as_message())


@pytest.mark.parametrize("looks", ["", "I zoomed."])
@pytest.mark.parametrize("name", [*SAID, "none"])
def test_replies_of_serve_are_read_like_those_of_the_model(name: str, looks: str) -> None:
    reply = parse_reply({"choices": [{"message": SAID.get(name, {"content": "(A)"})}]}, 0.0)
    answered = ChatResponse(AnswerContent("m", [reply], [looks], [[reply]], "n", {}))
    message = answered.make_completion()["choices"][0]["message"]
    assert isinstance(message["content"], str | None)
    assert looks in message.get("reasoning_content", "")
    assert ("hm" in str(message)) == (name not in ("none", "Gemini"))
    raw = json.dumps({"messages": [message, turn("And?")]}).encode()
    said = Message("assistant", (reply.text,), reply.tool_calls, attached=reply.attached)
    for read in (read_question, read_foreign_question):
        assert make_message_json(read(raw).turns[0]) == make_message_json(said)


@table
def test_the_chunks_of_a_stream_are_joined(deltas: list[Json], message: Json) -> None:
    events = (
        f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n" for delta in deltas
    )
    [choice] = join_chunks("".join(events).encode())["choices"]
    assert choice["message"] == {"role": "assistant", "tool_calls": []} | message


@table
def test_a_stream_reports_tokens_and_errors(pieces: list[Json], said: list[Any]) -> None:
    events = "".join(f"data: {json.dumps(piece)}\n" for piece in pieces)
    found = list[Any]()
    for answer in split_choices(HttpResponse(200, {}, events.encode())):
        try:
            reply = read_response(answer, "http://127.0.0.1:9/v1", 0.0)
        except ModelError as exc:
            found.append([exc.status, exc.usage and exc.usage.tokens_out])
        else:
            said_as = "filter" if reply.finish == "filter" else reply.text
            found.append([said_as, reply.usage.tokens_out, *map(dict, reply.logprobs)])
    assert found == said


@table
def test_invented_attachments_of_a_client(turn_of: Json, attached: Json | None) -> None:
    raw = json.dumps({"messages": [{"role": "assistant", **turn_of}, turn("And?")]}).encode()
    if attached is None:
        with pytest.raises(ValueError):
            read_question(raw)
        read_foreign_question(raw)
    else:
        for read in (read_question, read_foreign_question):
            assert make_message_json(read(raw).turns[0]).get("attached", {}) == attached

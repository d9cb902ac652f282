"""Fields that a provider attaches to a turn are returned unchanged and are part of the record and
of the cache key. A turn without them has the same key as before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looktwice.pipelines import ChatAPI
from looktwice.pipelines.json_input import read_as
from looktwice.pipelines.model import (
    CallOptions,
    Message,
    ModelError,
    Reply,
    ReplyNode,
    ToolCall,
    make_message_json,
    make_request_key,
)
from looktwice.pipelines.models.cache import Cached, Store
from looktwice.pipelines.models.wire import make_wire_messages, parse_reply
from looktwice.prompting.turns import History
from tests.optional import extension
from tests.strict_server import strict_server
from tests.tables import table

chat_template = extension("engines.chat_template")

Json = dict[str, Any]
HELLO = Message("user", ("Which?",))
PLAIN = ToolCall("c1", "zoom", "{}")
SIGNED = ToolCall("c1", "zoom", "{}", {"extra_content": {"google": {"thought_signature": "S"}}})


def read(message: Json) -> Reply:
    """Return the reply in a body with this message."""
    return parse_reply({"choices": [{"message": message}]}, 0.0)


@table
def test_attached_fields_are_sent_back(message: Json, returned: Json, calls: list[Json]) -> None:
    reply = read(message)
    again = Reply.from_dict(read_as(ReplyNode, json.dumps(reply.to_dict())))
    assert again == reply
    [turn] = make_wire_messages([again.as_message()])
    written = list[Json]()
    for call, own in zip(reply.tool_calls, calls, strict=True):
        function = {**own.get("function", {}), "name": call.name, "arguments": call.arguments}
        written.append({"id": call.id, "type": "function", **own, "function": function})
    said = {"content": None, "tool_calls": written} if written else {"content": reply.text}
    assert turn == {"role": "assistant"} | said | returned
    assert ("attached" in make_message_json(again.as_message())) is bool(returned)


@table
def test_a_truncated_turn_keeps_its_attached_fields(content: Any, text: str, sent: Any) -> None:
    turn = read({"content": content, "reasoning_content": "hm"}).as_message()
    [cut], _ = History()([turn])
    assert cut.text == text
    assert make_wire_messages([cut]) == [
        {"role": "assistant", "content": sent, "reasoning_content": "hm"}
    ]


def test_a_history_can_drop_attached_fields() -> None:
    turn = Message("assistant", ("(A)",), (SIGNED,), attached={"reasoning_content": "hm"})
    [kept], _ = History()([turn])
    [bare], _ = History(attached="drop")([turn])
    assert (kept.attached, kept.tool_calls) == ({"reasoning_content": "hm"}, (SIGNED,))
    assert (bare.attached, bare.tool_calls) == ({}, (PLAIN,))


def test_a_cache_key_includes_attached_fields_and_is_unchanged_without_them() -> None:
    said, signed = (Message("assistant", ("hm",), (call,)) for call in (PLAIN, SIGNED))
    turns = [said, signed]
    turns += [replace(said, attached={"reasoning_content": text}) for text in "xy"]
    asked = [(HELLO, turn, Message("tool", ("ok",), call_id="c1")) for turn in turns]
    keys = [make_request_key("m", messages, 0, CallOptions()) for messages in asked]
    assert len(set(keys)) == 4
    assert keys[0].startswith("487d6ddd66392e2f"), "before turns had anything attached"
    call = {"id": "c1", "name": "zoom", "arguments": "{}"}
    assert make_message_json(said) == {"role": "assistant", "parts": ["hm"], "tool_calls": [call]}


def test_attached_fields_survive_the_cache(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "zoom", "arguments": "{}"}}
    call |= {"extra_content": {"google": {"thought_signature": "S"}}}
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    message = {"content": None, "reasoning_details": details, "tool_calls": [call]}
    with strict_server(message, {"content": "(A)"}) as server:
        for _ in range(2):
            store = Store(tmp_path)
            model = Cached(ChatAPI("m", server.url), store)
            first = model([HELLO])
            turns = [HELLO, first.as_message(), Message("tool", ("ok",), call_id="c1")]
            assert model(turns).text == "(A)"
            store.close()
        with pytest.raises(ModelError, match="turn 0"):
            ChatAPI("m", server.url)([HELLO, Message("assistant", ("",), (PLAIN,)), turns[2]])
        assert len(server.bodies) == 3


def test_the_chat_template_of_a_local_model_receives_its_reasoning() -> None:
    turn = Message("assistant", ("I look.",), (PLAIN,), attached={"reasoning_content": "hm"})
    first, second = chat_template.build_chat(
        [turn, Message("assistant", ("I look.",), (PLAIN,))]
    ).turns
    assert first == second | {"reasoning_content": "hm"}

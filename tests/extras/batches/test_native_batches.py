"""Conversion between chat completions and the protocols of Anthropic and Gemini."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looktwice.extras.wires import gemini, messages
from looktwice.pipelines.model import Message, ModelError, Usage
from looktwice.pipelines.models.wire import make_wire_messages, parse_reply
from tests.tables import table

Json = dict[str, Any]


BODY = {"model": "m", "messages": [{"role": "user", "content": "Which?"}]}


@table
def test_conversations_become_requests(protocol: str, body: Json, request_of: Json) -> None:
    make = gemini.make_content_request if protocol == "gemini" else messages.make_message_request
    assert make(body) == request_of


def test_unknown_fields_are_refused() -> None:
    for request_of, more, said in (
        (messages.make_message_request, {}, "max_tokens"),
        (messages.make_message_request, {"max_tokens": 9, "response_format": {}}, "response_for"),
        (messages.make_message_request, {"max_tokens": 9, "logprobs": True}, "logprobs"),
    ):
        with pytest.raises(ModelError, match=said):
            request_of(BODY | more)


def test_a_message_becomes_a_reply() -> None:
    usage = {"input_tokens": 10, "output_tokens": 3}
    usage |= {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "(A)"}]
    said = {"model": "m-1", "content": content, "usage": usage}
    reasons = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}
    reasons |= {"model_context_window_exceeded": "length", "refusal": "filter"}
    for reason, finish in reasons.items():
        reply = parse_reply(messages.make_message_completion(said | {"stop_reason": reason}), 0.0)
        assert (reply.text, reply.reasoning, reply.finish) == ("(A)", "hm", finish)
        assert reply.served_by["model"] == "m-1" and reply.usage == Usage(16, 3, 0, 4)


def test_a_message_with_a_tool_use_becomes_a_reply_with_its_call() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "zoom", "input": {"box": [0, 1]}}
    message = messages.make_message_completion({"content": [block], "stop_reason": "tool_use"})
    reply = parse_reply(message, 0.0)
    assert reply.finish == "tool" and json.loads(reply.tool_calls[0].arguments) == {"box": [0, 1]}


def test_generated_content_becomes_a_reply() -> None:
    content = {"parts": [{"text": "hm", "thought": True}, {"text": "(A)"}]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 5}
    reasons = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "filter", "IMAGE_SAFETY": "filter"}
    for reason, finish in reasons.items():
        said = {"candidates": [{"content": content, "finishReason": reason}]}
        reply = parse_reply(gemini.make_content_completion(said | {"usageMetadata": usage}), 0.0)
        assert (reply.text, reply.reasoning, reply.finish) == ("(A)", "hm", finish)
        assert reply.usage == Usage(9, 8, 5)


def test_a_blocked_prompt_is_filtered_and_a_malformed_call_is_not_a_reply() -> None:
    blocked = gemini.make_content_completion({"promptFeedback": {"blockReason": "SAFETY"}})
    assert parse_reply(blocked, 0.0).finish == "filter"
    broken = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}
    with pytest.raises(ModelError):
        parse_reply(gemini.make_content_completion(broken), 0.0)


def test_signed_thoughts_keep_their_place_in_batches_of_anthropic() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "", "signature": "s1"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "zoom", "input": {"x": 1}},
    ]
    said = messages.make_message_completion({"content": blocks, "stop_reason": "tool_use"})
    turns = make_wire_messages([Message("user", ("Which?",)), parse_reply(said, 0.0).as_message()])
    again = messages.make_message_request({"max_tokens": 9, "messages": turns})
    assert again["messages"][1] == {"role": "assistant", "content": blocks}


def test_a_signature_stays_with_its_text_in_batches_of_gemini() -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "(A)", "thoughtSignature": "s"}]
    candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
    reply = parse_reply(gemini.make_content_completion({"candidates": [candidate]}), 0.0)
    assert (reply.text, reply.reasoning) == ("(A)", "hm")
    turns = make_wire_messages([Message("user", ("Which?",)), reply.as_message()])
    request = gemini.make_content_request({"model": "m", "messages": turns})
    assert request["contents"][1] == {"role": "model", "parts": parts[1:]}

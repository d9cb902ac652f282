"""Requests and replies of Anthropic's and Gemini's own protocols, from and to those of chat
completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looktwice.pipelines.model import ModelError, Usage
from looktwice.pipelines.models.batched import bodies
from looktwice.pipelines.models.wire import reply_of

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
TOOL = {
    "type": "function",
    "function": {"name": "zoom", "description": "crops", "parameters": {"type": "object"}},
}
CALL = {"id": "c1", "type": "function", "function": {"name": "zoom", "arguments": '{"box":[0]}'}}
TURNS: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [IMAGE, {"type": "text", "text": "Which?"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "the crop"},
    {"role": "user", "content": [IMAGE]},
]


BODY = {"model": "m", "messages": TURNS[:2]}


@pytest.mark.parametrize(
    ("asked", "choice"),
    [
        *(("none", {"type": "none"}), ("required", {"type": "any"})),
        ({"type": "function", "function": {"name": "zoom"}}, {"type": "tool", "name": "zoom"}),
    ],
)
def test_a_conversation_with_tools_becomes_messages(asked: Any, choice: Any) -> None:
    body = {"model": "m", "max_completion_tokens": 9, "stop": ["X"], "seed": 3, "tools": [TOOL]}
    body["tool_choice"] = asked
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    image = {"type": "image", "source": source}
    use = {"type": "tool_use", "id": "c1", "name": "zoom", "input": {"box": [0]}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "the crop"}
    assert bodies.message_request({**body, "messages": TURNS}) == {
        "model": "m",
        "max_tokens": 9,
        "stop_sequences": ["X"],
        "system": "Be brief.",
        "tools": [{"name": "zoom", "description": "crops", "input_schema": {"type": "object"}}],
        "tool_choice": choice,
        "messages": [
            {"role": "user", "content": [image, {"type": "text", "text": "Which?"}]},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result, image]},
        ],
    }


def test_a_conversation_becomes_contents() -> None:
    schema = {"json_schema": {"schema": {"type": "object"}}}
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    form = {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}
    body = BODY | {"max_tokens": 9, "top_p": 0.5, "top_k": 4, "response_format": schema}
    assert bodies.content_request(body) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [picture, {"text": "Which?"}]}],
        "generationConfig": {"topP": 0.5, "topK": 4, "maxOutputTokens": 9, **form},
    }
    wanted = bodies.content_request(BODY | {"response_format": {"type": "json_object"}})
    assert wanted["generationConfig"] == {"responseMimeType": "application/json"}


@pytest.mark.parametrize(
    ("request_of", "more", "said"),
    [
        (bodies.message_request, {}, "needs `max_tokens`"),
        (bodies.message_request, {"max_tokens": 9, "response_format": {}}, "not take response_for"),
        (bodies.content_request, {"tools": [TOOL]}, "Gemini does not take tools"),
    ],
)
def test_unknown_fields_are_refused(request_of: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        request_of(BODY | more)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        *(("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length")),
        *(("model_context_window_exceeded", "length"), ("refusal", "filter")),
    ],
)
def test_a_message_is_a_reply(reason: str, finish: str) -> None:
    usage = {"input_tokens": 10, "output_tokens": 3}
    usage |= {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "(A)"}]
    said = {"model": "m-1", "content": content, "stop_reason": reason, "usage": usage}
    reply = reply_of(bodies.message_completion(said), 0.0)
    assert (reply.text, reply.reasoning, reply.finish) == ("(A)", "hm", finish)
    assert reply.served_by["model"] == "m-1" and reply.usage == Usage(16, 3, 0, 4)


def test_a_message_that_uses_a_tool_is_a_reply_with_its_call() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "zoom", "input": {"box": [0, 1]}}
    message = bodies.message_completion({"content": [block], "stop_reason": "tool_use"})
    reply = reply_of(message, 0.0)
    assert reply.finish == "tool" and json.loads(reply.tool_calls[0].arguments) == {"box": [0, 1]}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("STOP", "stop"), ("MAX_TOKENS", "length"), ("SAFETY", "filter"), ("IMAGE_SAFETY", "filter")],
)
def test_generated_content_is_a_reply(reason: str, finish: str) -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "(A)"}]
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 5}
    candidates = [{"content": {"parts": parts}, "finishReason": reason}]
    said = bodies.content_completion({"candidates": candidates, "usageMetadata": usage})
    reply = reply_of(said, 0.0)
    assert (reply.text, reply.reasoning, reply.finish) == ("(A)", "hm", finish)
    assert reply.usage == Usage(9, 8, 5)


def test_a_prompt_that_is_blocked_is_filtered_and_a_malformed_call_is_no_reply() -> None:
    blocked = bodies.content_completion({"promptFeedback": {"blockReason": "SAFETY"}})
    assert reply_of(blocked, 0.0).finish == "filter"
    broken = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}
    with pytest.raises(ModelError, match="gave up in the middle"):
        reply_of(bodies.content_completion(broken), 0.0)

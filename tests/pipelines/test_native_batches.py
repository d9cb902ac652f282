"""Requests and replies of Anthropic's and Gemini's own protocols, from and to those of chat
completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.batched import anthropic_batches, gemini_batches
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


def test_a_conversation_with_tools_becomes_messages_whose_results_come_first() -> None:
    body = {
        "model": "m",
        "max_completion_tokens": 9,
        "stop": ["X"],
        "seed": 3,
        "tools": [TOOL],
        "messages": TURNS,
    }
    block = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
    }
    assert anthropic_batches.message_request(body) == {
        "model": "m",
        "max_tokens": 9,
        "stop_sequences": ["X"],
        "tools": [{"name": "zoom", "description": "crops", "input_schema": {"type": "object"}}],
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [block, {"type": "text", "text": "Which?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "zoom", "input": {"box": [0]}}
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "the crop"},
                    block,
                ],
            },
        ],
    }


def test_a_conversation_becomes_contents() -> None:
    schema = {"json_schema": {"schema": {"type": "object"}}}
    body = {
        "model": "m",
        "max_tokens": 9,
        "top_p": 0.5,
        "response_format": schema,
        "messages": TURNS[:2],
    }
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    assert gemini_batches.content_request(body) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [picture, {"text": "Which?"}]}],
        "generationConfig": {
            "topP": 0.5,
            "maxOutputTokens": 9,
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
        },
    }


@pytest.mark.parametrize(
    ("request_of", "more", "said"),
    [
        (anthropic_batches.message_request, {}, "needs `max_tokens`"),
        (
            anthropic_batches.message_request,
            {"max_tokens": 9, "response_format": {}},
            "does not take response_format",
        ),
        (gemini_batches.content_request, {"tools": [TOOL]}, "Gemini does not take tools"),
    ],
)
def test_what_a_protocol_does_not_know_is_refused(
    request_of: Any, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        request_of({"model": "m", "messages": TURNS[:2], **more})


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "filter"),
    ],
)
def test_a_message_is_a_reply(reason: str, finish: str) -> None:
    counts = {
        "input_tokens": 10,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 2,
        "output_tokens": 3,
    }
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "(A)"}]
    said = {"model": "m-1", "content": content, "stop_reason": reason, "usage": counts}
    reply = reply_of(anthropic_batches.completion_of(said), 0.0)
    assert (reply.text, reply.reasoning, reply.finish, reply.served_by["model"]) == (
        "(A)",
        "hm",
        finish,
        "m-1",
    )
    assert (reply.usage.tokens_in, reply.usage.cached_tokens, reply.usage.tokens_out) == (16, 4, 3)


def test_a_message_that_uses_a_tool_is_a_reply_with_its_call() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "zoom", "input": {"box": [0, 1]}}
    reply = reply_of(
        anthropic_batches.completion_of({"content": [block], "stop_reason": "tool_use"}), 0.0
    )
    assert reply.finish == "tool" and json.loads(reply.tool_calls[0].arguments) == {"box": [0, 1]}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("STOP", "stop"), ("MAX_TOKENS", "length"), ("SAFETY", "filter"), ("IMAGE_SAFETY", "filter")],
)
def test_generated_content_is_a_reply(reason: str, finish: str) -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "(A)"}]
    counts = {
        "promptTokenCount": 9,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 17,
    }
    said = {
        "candidates": [{"content": {"parts": parts}, "finishReason": reason}],
        "usageMetadata": counts,
    }
    reply = reply_of(gemini_batches.completion_of(said), 0.0)
    assert (reply.text, reply.reasoning, reply.finish) == ("(A)", "hm", finish)
    assert (reply.usage.tokens_in, reply.usage.tokens_out, reply.usage.reasoning_tokens) == (
        9,
        8,
        5,
    )


def test_a_prompt_that_is_blocked_is_filtered_and_a_malformed_call_is_no_reply() -> None:
    blocked = gemini_batches.completion_of({"promptFeedback": {"blockReason": "SAFETY"}})
    assert reply_of(blocked, 0.0).finish == "filter"
    broken = gemini_batches.completion_of(
        {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}
    )
    with pytest.raises(ModelError, match="gave up in the middle"):
        reply_of(broken, 0.0)

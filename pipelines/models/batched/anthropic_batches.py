"""Anthropic's message batches: requests of the Messages API go up in one piece, and a file of
results comes down."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.batched.dialect import (
    Batch,
    Dialect,
    Json,
    answer,
    line_of,
    refuse_fields,
    split_data_url,
    understood,
)
from looktwice.pipelines.models.http_client import HttpResponse

PATH = "messages/batches"
NOT_TAKEN = ("response_format", "reasoning_effort", "logprobs", "top_logprobs")
RENAMED = {"stop": "stop_sequences", "max_completion_tokens": "max_tokens"}
LEFT_OUT = {"messages", "tools", "tool_choice", "seed", *RENAMED}
STATUS = {
    "invalid_request_error": 400,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
}


@dataclass(frozen=True)
class AnthropicBatches(Dialect):
    """The dialect of Anthropic. It has no labels: a batch whose name was lost is known by its time
    and its size.

    Source: the Messages and Message Batches API, version 2023-06-01.
    """

    most_bytes = 100_000_000  # the provider takes 256 MB

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """The request in the form of the Messages API. Raises ModelError for what it does not
        know."""
        return line_of(key, {"params": message_request(body)})

    def create(self, lines: Sequence[bytes], label: str) -> Batch:
        """Hand in the lines. Raises ModelError."""
        body = b'{"requests":[' + b",".join(line.rstrip() for line in lines) + b"]}"
        with understood(self.url):
            return _batch(self.post(PATH, body))

    def look_at(self, identifier: str) -> Batch:
        """How far a batch is. Raises ModelError."""
        with understood(self.url):
            return _batch(self.get(f"{PATH}/{identifier}"))

    def find(self, label: str, size: int, since: float) -> Batch | None:
        """The earliest batch of this size since then, to within a second. Raises ModelError."""
        with understood(self.url):
            for data in reversed(self.get(f"{PATH}?limit=100")["data"]):
                batch, made = _batch(data), datetime.fromisoformat(data["created_at"])
                if batch.total == size and made.timestamp() + 1 >= since:
                    return batch
        return None

    def answers(self, batch: Batch, keys: Sequence[str]) -> Iterator[tuple[str, HttpResponse]]:
        """The answers in any order; what was cancelled or expired is missing. Raises ModelError."""
        for key, response in self.rows(f"{PATH}/{batch.id}/results", _answer):
            if response is not None:
                yield key, response


def message_request(body: Mapping[str, Any]) -> Json:
    """A body of the chat-completions protocol as one of the Messages API. Raises ModelError."""
    refuse_fields(body, NOT_TAKEN, "Anthropic")
    renamed = {new: body[old] for old, new in RENAMED.items() if old in body}
    request = {name: value for name, value in body.items() if name not in LEFT_OUT} | renamed
    if "max_tokens" not in request:
        raise ModelError("Anthropic needs `max_tokens`; set it on `chat`")
    tools = [described["function"] for described in body.get("tools", ())]
    if tools:
        request["tools"] = [
            {
                "name": tool["name"],
                "description": tool["description"],
                "input_schema": tool["parameters"],
            }
            for tool in tools
        ]
    turns: list[Json] = []
    for message in body["messages"]:
        if message["role"] == "system":
            system = request.get("system")
            request["system"] = (
                f"{system}\n\n{message['content']}" if system else message["content"]
            )
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        # results of tools and what follows them are one turn
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += _blocks(message)
        else:
            turns.append({"role": role, "content": _blocks(message)})
    return request | {"messages": turns}


def _blocks(message: Mapping[str, Any]) -> list[Json]:
    content = message["content"]
    if message["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}]
    parts: Sequence[Json] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
    )
    blocks: list[Json] = []
    for part in parts:
        if part["type"] != "text":
            kind, data = split_data_url(part["image_url"]["url"])
            source = {"type": "base64", "media_type": kind, "data": data}
            blocks.append({"type": "image", "source": source})
        elif part["text"]:
            blocks.append({"type": "text", "text": part["text"]})
    for call in message.get("tool_calls", ()):
        function = call["function"]
        try:
            given = json.loads(function["arguments"] or "{}")
        except ValueError:
            given = None
        # a model may have written anything; the protocol takes objects alone
        if not isinstance(given, dict):
            given = {"arguments": function["arguments"]}
        blocks.append(
            {"type": "tool_use", "id": call["id"], "name": function["name"], "input": given}
        )
    return blocks


def _answer(row: Mapping[str, Any]) -> tuple[str, HttpResponse | None]:
    key, result = str(row["custom_id"]), row["result"]
    if result["type"] == "succeeded":
        return key, answer(200, completion_of(result["message"]))
    if result["type"] != "errored":
        return key, None
    error = result["error"].get("error") or result["error"]
    return key, answer(STATUS.get(str(error.get("type")), 500), {"error": error})


def completion_of(message: Mapping[str, Any]) -> Json:
    """A reply of the Messages API as a chat completion."""
    blocks, usage = message["content"], message.get("usage") or {}
    texts = {
        kind: "".join(str(block.get(kind) or "") for block in blocks if block["type"] == kind)
        for kind in ("text", "thinking")
    }
    calls = [
        {
            "id": block["id"],
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]
    cached = int(usage.get("cache_read_input_tokens") or 0)
    asked = (
        int(usage.get("input_tokens") or 0)
        + cached
        + int(usage.get("cache_creation_input_tokens") or 0)
    )
    reply = {
        "role": "assistant",
        "content": texts["text"],
        "reasoning_content": texts["thinking"],
        "tool_calls": calls,
    }
    return {
        "model": message.get("model"),
        "choices": [{"message": reply, "finish_reason": message.get("stop_reason")}],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": usage.get("output_tokens") or 0,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def _batch(data: Mapping[str, Any]) -> Batch:
    counts = {name: int(count or 0) for name, count in (data.get("request_counts") or {}).items()}
    total = sum(counts.values())
    over = data.get("processing_status") == "ended"
    return Batch(str(data["id"]), over, total - counts.get("processing", 0), total)

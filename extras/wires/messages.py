"""Conversion between the chat-completions protocol and Anthropic's Messages protocol, version
2023-06-01.

An assistant's turn that Anthropic wrote is sent back unchanged, because the provider checks its
signed thoughts, the tools that it ran itself, and their order. Tool results, with their pictures,
open the user's next turn.
"""

from __future__ import annotations

from typing import Any

from looktwice.extras.wires.turns import (
    Image,
    Json,
    attach_turn,
    iterate_parts,
    make_call_json,
    make_completion_json,
    make_usage_json,
    parse_count,
    read_arguments,
    refuse_fields,
    restore_items,
)
from looktwice.pipelines.model import ModelError

PROTOCOL = "messages"
UNSENT_FIELDS = ("messages", "tools", "tool_choice", "seed", "response_format", "reasoning_effort")


def make_message_request(body: Json) -> Json:
    """Convert a chat-completions request body to a Messages API body. Raises ModelError."""
    refuse_fields(body, "Anthropic", "logprobs", "top_logprobs")
    request = {name: value for name, value in body.items() if name not in UNSENT_FIELDS}
    for ours, name in (("stop", "stop_sequences"), ("max_completion_tokens", "max_tokens")):
        if ours in request:
            request[name] = request.pop(ours)
    if "max_tokens" not in request:
        raise ModelError("Anthropic needs `max_tokens`; set it on the model")
    if output := _make_output_config(body):
        request["output_config"] = output
    request |= _make_tools(body)
    system = [turn["content"] for turn in body["messages"] if turn["role"] == "system"]
    if system:
        request["system"] = "\n\n".join(system)
    return request | {"messages": _make_turns(body)}


def _make_turns(body: Json) -> list[Json]:
    turns: list[Json] = []
    for message in body["messages"]:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = _make_blocks(message) if message["role"] != "system" else []
        # tool results and the text after them form one turn; a turn without content is refused
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _make_tools(body: Json) -> Json:
    tools: list[Json] = []
    for tool in body.get("tools", ()):
        function = dict(tool["function"])
        function["input_schema"] = function.pop("parameters")
        tools.append(function)
    fields: Json = {"tools": tools} if tools else {}
    choice = body.get("tool_choice", "auto")
    if not tools and (called := _list_called_tools(body)):
        # a conversation with calls must define the called tools, though none may be called now
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in called]
        return {"tools": tools, "tool_choice": {"type": "none"}}
    if isinstance(choice, dict):
        fields["tool_choice"] = {"type": "tool", "name": choice["function"]["name"]}
    elif choice != "auto":
        fields["tool_choice"] = {"type": "any" if choice == "required" else choice}
    return fields


def _list_called_tools(body: Json) -> list[str]:
    calls = (call for turn in body["messages"] for call in turn.get("tool_calls") or ())
    return sorted({call["function"]["name"] for call in calls})


def _make_output_config(body: Json) -> Json:
    output: Json = {}
    if effort := body.get("reasoning_effort"):
        output["effort"] = effort
    if "response_format" in body:
        schema = body["response_format"].get("json_schema")
        if schema is None:
            raise ModelError(
                "Anthropic has no response_format without a schema; give the stage a schema"
            )
        output["format"] = {"type": "json_schema", "schema": schema["schema"]}
    return output


def _make_blocks(message: Json) -> list[Json]:
    content = message["content"]
    if message["role"] == "tool":
        blocks = content if isinstance(content, str) else _make_plain_blocks(content)
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": blocks}]
    if message["role"] != "assistant":
        return _make_plain_blocks(content)
    items = restore_items(message, PROTOCOL, _find_call, _find_text, _replace_id)
    if items is not None:
        return [_make_text_block(item["text"]) if "type" not in item else item for item in items]
    # keep the order, since thoughts must precede their text
    signed = content if isinstance(content, list) else None
    blocks = _make_plain_blocks(content) if signed is None else signed
    return [block for block in blocks if block.get("text") != ""] + _make_tool_uses(message)


def _make_plain_blocks(content: Any) -> list[Json]:
    return [
        _make_image_block(part) if isinstance(part, Image) else _make_text_block(part)
        for part in iterate_parts(content)
    ]


def _make_text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def _make_image_block(image: Image) -> Json:
    image.refuse_video("Anthropic")
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _make_tool_uses(message: Json) -> list[Json]:
    return [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": read_arguments(call),
        }
        for call in message.get("tool_calls") or ()
    ]


def _find_call(block: Json) -> str | None:
    return str(block["id"]) if block.get("type") == "tool_use" else None


def _find_text(block: Json) -> str | None:
    return str(block.get("text") or "") if block.get("type") == "text" else None


def _replace_id(block: Json, identifier: str) -> Json:
    return block | {"id": identifier}


def make_message_completion(message: Json) -> Json:
    """Convert a Messages API reply to a chat completion whose content includes the thoughts as
    parts."""
    parts = [
        block
        for block in message["content"]
        if block["type"] in ("text", "thinking", "redacted_thinking")
    ]
    return _make_completion(message, {"content": parts})


def make_signed_completion(message: Json) -> Json:
    """Convert a Messages API reply to a chat completion that stores the original turn, so that
    `make_message_request` sends it back unchanged. Raises ModelError for a turn that the provider
    paused."""
    if message.get("stop_reason") == "pause_turn":
        raise ModelError(
            "the provider paused a turn to run its own tools, which cannot be continued;"
            " limit them, such as by `max_uses` in `server_tools`",
            status=200,
        )
    texts = [block["text"] for block in message["content"] if block["type"] == "text"]
    thoughts = [
        block.get("thinking") or "" for block in message["content"] if block["type"] == "thinking"
    ]
    kept = attach_turn(PROTOCOL, message["content"])
    turn = {"content": "".join(texts), "thought_summary": "\n".join(filter(None, thoughts))}
    details = message.get("stop_details") or {}
    refusal = details.get("explanation") or details.get("category") or ""
    return _make_completion(message, turn | kept | {"refusal": refusal})


def _make_completion(message: Json, turn: Json) -> Json:
    usage = message.get("usage") or {}
    calls = [
        make_call_json(block["id"], block["name"], block["input"])
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    cached = parse_count(usage, "cache_read_input_tokens")
    asked = parse_count(usage, "input_tokens") + parse_count(usage, "cache_creation_input_tokens")
    details = usage.get("output_tokens_details") or {}
    return make_completion_json(
        message.get("model"),
        message.get("stop_reason"),
        turn | {"tool_calls": calls},
        make_usage_json(
            asked + cached,
            parse_count(usage, "output_tokens"),
            cached,
            parse_count(details, "thinking_tokens"),
        ),
    )

"""Conversion between the chat-completions protocol and OpenAI's Responses protocol; nothing is
stored at the server.

A reply is a list of items: thoughts, messages, calls of the client's tools, and calls of tools that
the provider ran itself. All items are sent back unchanged, including the encrypted thoughts.
Results of the client's tools carry their pictures.
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
    read_text,
    refuse_fields,
    restore_items,
)

PROTOCOL = "responses"
CONVERTED_FIELDS = {
    "messages",
    "tools",
    "tool_choice",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "response_format",
    "logprobs",
    "top_logprobs",
}
THOUGHTS_FIELD, LOGPROBS_FIELD = "reasoning.encrypted_content", "message.output_text.logprobs"


def make_response_request(body: Json) -> Json:
    """Convert a chat-completions request body to a Responses body that asks for encrypted thoughts
    and stores nothing at the server. Raises ModelError."""
    refuse_fields(body, "OpenAI's Responses protocol", "seed", "stop", "top_k")
    request = {name: value for name, value in body.items() if name not in CONVERTED_FIELDS}
    request |= {"store": False, "include": [THOUGHTS_FIELD]}
    if limit := body.get("max_completion_tokens", body.get("max_tokens")):
        request["max_output_tokens"] = limit
    if effort := body.get("reasoning_effort"):
        request["reasoning"] = {"effort": effort}
    if "response_format" in body:
        request["text"] = {"format": _make_format(body["response_format"])}
    if body.get("top_logprobs") is not None:
        request["include"] = [THOUGHTS_FIELD, LOGPROBS_FIELD]
        request["top_logprobs"] = body["top_logprobs"]
    # strict is this protocol's default, and refuses schemas with optional arguments
    tools = [{"type": "function", "strict": False, **t["function"]} for t in body.get("tools", ())]
    if tools:
        request["tools"] = tools
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        request["tool_choice"] = {"type": "function", "name": choice["function"]["name"]}
    elif choice != "auto":
        request["tool_choice"] = choice
    system = [turn["content"] for turn in body["messages"] if turn["role"] == "system"]
    if system:
        request["instructions"] = "\n\n".join(system)
    request["input"] = [item for turn in body["messages"] for item in _make_items(turn)]
    return request


def _make_format(form: Json) -> Json:
    schema = form.get("json_schema")
    return {"type": "json_schema", **schema} if schema else {"type": form["type"]}


def _make_items(message: Json) -> list[Json]:
    role, content = message["role"], message["content"]
    if role == "system":
        return []
    if role == "tool":
        output = content if isinstance(content, str) else _make_parts(content)
        identifier = message["tool_call_id"]
        return [{"type": "function_call_output", "call_id": identifier, "output": output}]
    if role != "assistant":
        return [
            {"role": role, "content": content if isinstance(content, str) else _make_parts(content)}
        ]
    items = restore_items(message, PROTOCOL, _find_call, _find_text, _replace_id)
    if items is None:
        text = read_text(content)
        items = [{"text": text}] if text else []
        items += map(_make_call_item, message.get("tool_calls") or ())
    return [item if "type" in item else _make_assistant_item(item) for item in items]


def _make_assistant_item(item: Json) -> Json:
    return {"role": "assistant", "content": item["text"]} if "text" in item else item


def _make_call_item(call: Json) -> Json:
    function = call["function"]
    fields = {"name": function["name"], "arguments": function["arguments"]}
    return {"type": "function_call", "call_id": call["id"], **fields}


def _make_parts(content: Any) -> list[Json]:
    parts: list[Json] = []
    for part in iterate_parts(content):
        if isinstance(part, Image):
            part.refuse_video("OpenAI's Responses")
            detail = part.detail or "auto"
            parts.append({"type": "input_image", "image_url": part.url, "detail": detail})
        else:
            parts.append({"type": "input_text", "text": part})
    return parts


def _find_call(item: Json) -> str | None:
    return str(item["call_id"]) if item.get("type") == "function_call" else None


def _find_text(item: Json) -> str | None:
    if item.get("type") != "message":
        return None
    return "".join(part["text"] for part in item["content"] if part["type"] == "output_text")


def _replace_id(item: Json, identifier: str) -> Json:
    return item | {"call_id": identifier}


def make_response_completion(data: Json) -> Json:
    """Convert a reply of the Responses protocol to a chat completion that stores the original turn,
    so that `make_response_request` sends it back unchanged."""
    texts, thoughts, refusals = list[str](), list[str](), list[str]()
    calls, tokens = list[Json](), list[Any]()
    for item in data["output"]:
        kind = item["type"]
        if kind == "function_call":
            calls.append(make_call_json(item["call_id"], item["name"], item["arguments"]))
        elif kind == "reasoning":
            thoughts += [part["text"] for part in item.get("summary") or ()]
            thoughts += [part["text"] for part in item.get("content") or ()]
        elif kind == "message":
            texts.append(_find_text(item) or "")
            refusals += [part["refusal"] for part in item["content"] if part["type"] == "refusal"]
            tokens += [token for part in item["content"] for token in part.get("logprobs") or ()]
    turn = {
        "content": "\n".join(filter(None, texts)),
        "thought_summary": "\n".join(thoughts),
        "refusal": "".join(refusals),
        "tool_calls": calls,
        **attach_turn(PROTOCOL, data["output"]),
    }
    usage = data.get("usage") or {}
    asked, out = (usage.get(f"{side}_tokens_details") or {} for side in ("input", "output"))
    counts = make_usage_json(
        parse_count(usage, "input_tokens"),
        parse_count(usage, "output_tokens"),
        parse_count(asked, "cached_tokens"),
        parse_count(out, "reasoning_tokens"),
    )
    completion = make_completion_json(
        data.get("model"), _find_end_reason(data), turn, counts, logprobs={"content": tokens}
    )
    return completion | ({"error": data["error"]} if data.get("error") else {})


def _find_end_reason(data: Json) -> str:
    status = data.get("status") or "completed"
    if status == "incomplete":
        return str((data.get("incomplete_details") or {}).get("reason") or "length")
    return "completed" if status == "completed" else "failed"

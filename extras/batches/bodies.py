"""Conversion between the chat-completions protocol and Anthropic's Messages and Gemini's
generateContent protocols."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.refusals.filters import is_prompt_blocked

Json = dict[str, Any]


def parse_count(counts: Mapping[str, Any], name: str) -> int:
    """Return a count that may be missing, null or written as a text."""
    return int(counts.get(name) or 0)


def make_message_request(body: Json) -> Json:
    """Convert a chat-completions request body to a Messages API body. Raises ModelError."""
    _refuse_fields(
        body, "Anthropic", "response_format", "reasoning_effort", "logprobs", "top_logprobs"
    )
    request = {
        name: value
        for name, value in body.items()
        if name not in ("messages", "tools", "tool_choice", "seed")
    }
    for ours, name in (("stop", "stop_sequences"), ("max_completion_tokens", "max_tokens")):
        if ours in request:
            request[name] = request.pop(ours)
    if "max_tokens" not in request:
        raise ModelError("Anthropic needs `max_tokens`; set it on `chat`")
    for tool in body.get("tools", ()):
        function = dict(tool["function"])
        function["input_schema"] = function.pop("parameters")
        request.setdefault("tools", []).append(function)
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        request["tool_choice"] = {"type": "tool", "name": choice["function"]["name"]}
    elif choice != "auto":
        request["tool_choice"] = {"type": "any" if choice == "required" else choice}
    turns: list[Json] = []
    for message in body["messages"]:
        role = "assistant" if message["role"] == "assistant" else "user"
        if message["role"] == "system":
            before = f"{request['system']}\n\n" if "system" in request else ""
            request["system"] = before + message["content"]
        # tool results and the text after them form one turn
        elif turns and turns[-1]["role"] == role:
            turns[-1]["content"] += _blocks(message)
        else:
            turns.append({"role": role, "content": _blocks(message)})
    return request | {"messages": turns}


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    if message["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}]
    signed = content if message["role"] == "assistant" and isinstance(content, list) else []
    if signed:  # thoughts must come before the text that follows from them: keep the order
        return [part for part in signed if part.get("text") != ""] + _tool_uses(message)
    blocks: list[Json] = []
    for kind, data in _parts(content):
        if kind:
            source = {"type": "base64", "media_type": kind, "data": data}
            blocks.append({"type": "image", "source": source})
        elif data:
            blocks.append({"type": "text", "text": data})
    return blocks + _tool_uses(message)


def _tool_uses(message: Json) -> list[Json]:
    blocks: list[Json] = []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        try:
            given = json.loads(function["arguments"] or "{}")
        except ValueError:
            given = None
        # a model may have written anything; the protocol accepts only objects
        if not isinstance(given, dict):
            given = {"arguments": function["arguments"]}
        blocks.append(
            {"type": "tool_use", "id": call["id"], "name": function["name"], "input": given}
        )
    return blocks


def make_message_completion(message: Json) -> Json:
    """Convert a Messages API reply to a chat completion."""
    usage = message.get("usage") or {}
    parts: list[Json] = []
    calls: list[Json] = []
    for block in message["content"]:
        kind = block["type"]
        if kind in ("text", "thinking", "redacted_thinking"):
            parts.append(block)
        elif kind == "tool_use":
            function = {"name": block["name"], "arguments": json.dumps(block["input"])}
            calls.append({"id": block["id"], "function": function})
    cached = parse_count(usage, "cache_read_input_tokens")
    asked = parse_count(usage, "input_tokens") + parse_count(usage, "cache_creation_input_tokens")
    return _completion(
        message.get("model"),
        message.get("stop_reason"),
        {"content": parts, "tool_calls": calls},
        {"prompt_tokens": asked + cached, "completion_tokens": parse_count(usage, "output_tokens")},
        prompt_tokens_details={"cached_tokens": cached},
    )


def make_content_request(body: Json) -> Json:
    """Convert a chat-completions request body to a generateContent body. Raises ModelError."""
    # tool calls have a signature that must be sent back
    _refuse_fields(body, "Gemini", "tools", "reasoning_effort", "logprobs", "top_logprobs")
    request = {name: value for name, value in body.items() if name not in ("model", "messages")}
    settings: Json = {}
    for ours, name in (
        ("temperature", "temperature"),
        ("top_p", "topP"),
        ("top_k", "topK"),
        ("max_tokens", "maxOutputTokens"),
        ("max_completion_tokens", "maxOutputTokens"),
        ("stop", "stopSequences"),
        ("seed", "seed"),
    ):
        if ours in request:
            settings[name] = request.pop(ours)
    if form := request.pop("response_format", None):
        settings["responseMimeType"] = "application/json"
        if "json_schema" in form:
            settings["responseJsonSchema"] = form["json_schema"]["schema"]
    settings |= request.pop("generationConfig", {})
    request["contents"] = []
    for message in body["messages"]:
        if message["role"] == "system":
            system = request.setdefault("systemInstruction", {"parts": []})
            system["parts"].append({"text": message["content"]})
            continue
        parts: list[Json] = []
        for kind, data in _parts(message["content"]):
            picture = {"inlineData": {"mimeType": kind, "data": data}}
            parts.append(picture if kind else {"text": data})
        google = (message.get("extra_content") or {}).get("google") or {}
        if parts and "thought_signature" in google:
            parts[-1]["thoughtSignature"] = google["thought_signature"]
        role = "model" if message["role"] == "assistant" else "user"
        request["contents"].append({"role": role, "parts": parts})
    return request | ({"generationConfig": settings} if settings else {})


def make_content_completion(response: Json) -> Json:
    """Convert a generateContent reply to a chat completion; a blocked prompt becomes a filtered
    reply."""
    usage = response.get("usageMetadata") or {}
    parts: Sequence[Json] = ()
    reason = "content_filter" if is_prompt_blocked(response) else "error"
    for candidate in (response.get("candidates") or ())[:1]:
        parts = (candidate.get("content") or {}).get("parts") or ()
        reason = str(candidate.get("finishReason") or "error")
    texts: tuple[list[str], list[str]] = ([], [])
    attached: Json = {}
    for part in parts:
        texts[bool(part.get("thought"))].append(str(part.get("text") or ""))
        if signature := part.get(
            "thoughtSignature"
        ):  # in the format of the chat-completions endpoint
            attached = {"extra_content": {"google": {"thought_signature": signature}}}
    thoughts = parse_count(usage, "thoughtsTokenCount")
    out = parse_count(usage, "candidatesTokenCount") + thoughts
    return _completion(
        response.get("modelVersion"),
        reason,
        {"content": "".join(texts[0]), "thought_summary": "".join(texts[1]), **attached},
        {"prompt_tokens": parse_count(usage, "promptTokenCount"), "completion_tokens": out},
        completion_tokens_details={"reasoning_tokens": thoughts},
        prompt_tokens_details={"cached_tokens": parse_count(usage, "cachedContentTokenCount")},
    )


def _refuse_fields(body: Json, provider: str, *names: str) -> None:
    """Raise ModelError if the request uses fields that the provider's own protocol lacks."""
    if refused := [name for name in names if name in body]:
        raise ModelError(f"{provider} has no {', '.join(refused)} in batches; leave it out")


def _parts(content: Any) -> Iterator[tuple[str, str]]:
    """Yield ("", text) or (media type, base64 of a picture) for each part of a turn's content."""
    if isinstance(content, str):
        yield "", content
        return
    for part in content or ():
        if part["type"] == "text":
            yield "", part["text"]
        elif part["type"] == "image_url":
            kind, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
            yield kind, data


def _completion(model: Any, reason: Any, message: Json, usage: Json, **details: Json) -> Json:
    return {
        "model": model,
        "choices": [{"message": {"role": "assistant", **message}, "finish_reason": reason}],
        "usage": {**usage, **details},
    }

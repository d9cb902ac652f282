"""Conversion between the chat-completions protocol and Gemini's generateContent protocol, v1beta.

A model's turn that Gemini wrote is sent back unchanged, part by part, because thought signatures
belong to their parts. The results of all calls in a turn form one turn, in the order of the calls;
pictures are parts of their result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    read_text,
    refuse_fields,
    restore_items,
)
from looktwice.pipelines.models.refusals.filters import is_prompt_blocked

PROTOCOL = "gemini"
SETTING_FIELDS = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "seed": "seed",
    "top_logprobs": "logprobs",
}
"""The name of a chat-completions field -> the name of the same setting in `generationConfig`."""
CONVERTED_FIELDS = {
    *SETTING_FIELDS,
    "model",
    "messages",
    "tools",
    "tool_choice",
    "response_format",
    "reasoning_effort",
    "logprobs",
    "generationConfig",
}
CALLING_MODES = {"none": "NONE", "required": "ANY"}
RESOLUTIONS = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


def make_content_request(body: Json) -> Json:
    """Convert a chat-completions request body to a generateContent body, which does not name the
    model. Raises ModelError."""
    request = {name: value for name, value in body.items() if name not in CONVERTED_FIELDS}
    if tools := body.get("tools"):
        request["tools"] = [{"functionDeclarations": list(map(_declare_function, tools))}]
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        named = {"mode": "ANY", "allowedFunctionNames": [choice["function"]["name"]]}
        request["toolConfig"] = {"functionCallingConfig": named}
    elif choice != "auto":
        request["toolConfig"] = {"functionCallingConfig": {"mode": CALLING_MODES[choice]}}
    system = [turn["content"] for turn in body["messages"] if turn["role"] == "system"]
    if system:
        request["systemInstruction"] = {"parts": [{"text": text} for text in system]}
    request["contents"] = _make_contents(body["messages"])
    settings = _make_settings(body)
    return request | ({"generationConfig": settings} if settings else {})


def _make_settings(body: Json) -> Json:
    settings: Json = {SETTING_FIELDS[name]: body[name] for name in SETTING_FIELDS if name in body}
    if body.get("logprobs"):
        settings["responseLogprobs"] = True
    if form := body.get("response_format"):
        settings["responseMimeType"] = "application/json"
        if "json_schema" in form:
            settings["responseJsonSchema"] = form["json_schema"]["schema"]
    if effort := body.get("reasoning_effort"):
        settings["thinkingConfig"] = {"thinkingLevel": effort.upper()}
    details = {image.detail for image in _list_images(body) if image.detail}
    if resolution := next((RESOLUTIONS[d] for d in sorted(details) if d in RESOLUTIONS), ""):
        settings["mediaResolution"] = resolution
    if "original" in details:
        refuse_fields({"detail: original": ""}, "Gemini", "detail: original")
    return {**settings, **body.get("generationConfig", {})}


def _list_images(body: Json) -> list[Image]:
    contents = [turn["content"] for turn in body["messages"] if turn["role"] in ("user", "tool")]
    parts = (part for content in contents for part in iterate_parts(content))
    return [part for part in parts if isinstance(part, Image)]


def _declare_function(tool: Json) -> Json:
    function = dict(tool["function"])
    function["parametersJsonSchema"] = function.pop("parameters")
    return function


def _make_contents(messages: Sequence[Json]) -> list[Json]:
    contents: list[Json] = []
    calls: dict[str, Json] = {}
    previous_role = ""
    for message in messages:
        role, parts = message["role"], list[Json]()
        if role == "system":
            continue
        if role == "tool":
            parts = [_make_result_part(message, calls.get(message["tool_call_id"]) or {})]
        elif role == "assistant":
            parts = _make_model_parts(message)
            native = [part["functionCall"] for part in parts if "functionCall" in part]
            asked = message.get("tool_calls") or ()
            calls = {call["id"]: own for call, own in zip(asked, native, strict=False)}
        else:
            parts = _make_parts(message["content"])
        if role == previous_role == "tool":  # the results of all calls belong in one turn
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": "model" if role == "assistant" else "user", "parts": parts})
        previous_role = role
    return contents


def _make_model_parts(message: Json) -> list[Json]:
    items = restore_items(message, PROTOCOL, _find_call, _find_text, lambda part, _: part)
    if items is not None:
        return items
    text = read_text(message["content"])
    parts: list[Json] = [{"text": text}] if text else []
    google = (message.get("extra_content") or {}).get("google") or {}
    if parts and "thought_signature" in google:
        parts[-1]["thoughtSignature"] = google["thought_signature"]
    for call in message.get("tool_calls") or ():
        name, given = call["function"]["name"], read_arguments(call)
        part: Json = {"functionCall": {"id": call["id"], "name": name, "args": given}}
        # in the format of the chat-completions endpoint
        google = (call.get("extra_content") or {}).get("google") or {}
        if signature := google.get("thought_signature"):
            part["thoughtSignature"] = signature
        parts.append(part)
    return parts


def _make_parts(content: Any) -> list[Json]:
    parts = iterate_parts(content)
    return [_make_image_part(part) if isinstance(part, Image) else {"text": part} for part in parts]


def _make_image_part(image: Image) -> Json:
    return {"inlineData": {"mimeType": image.media_type, "data": image.data}}


def _make_result_part(message: Json, call: Json) -> Json:
    """Return the part for a tool's result, with the id of its call if the provider gave one."""
    parts = list(iterate_parts(message["content"]))
    text = "\n".join(part for part in parts if isinstance(part, str))
    response: Json = {"name": call.get("name", ""), "response": {"output": text}}
    if call.get("id"):
        response["id"] = call["id"]
    if images := [_make_image_part(part) for part in parts if isinstance(part, Image)]:
        response["parts"] = images
    return {"functionResponse": response}


def _find_call(part: Json) -> str | None:
    return "" if "functionCall" in part else None  # the id may be missing, and is never replaced


def _find_text(part: Json) -> str | None:
    return None if part.get("thought") or "text" not in part else str(part["text"])


def make_content_completion(response: Json) -> Json:
    """Convert a generateContent reply to a chat completion, with signatures in the fields that
    Gemini's chat-completions endpoint uses; a blocked prompt becomes a filtered reply."""
    turn, parts = _read_turn(response)
    for part in parts:
        if "functionCall" not in part and (signature := part.get("thoughtSignature")):
            turn["extra_content"] = _format_signature(signature)
    own = [part for part in parts if "functionCall" in part]
    for call, part in zip(turn["tool_calls"], own, strict=True):
        if signature := part.get("thoughtSignature"):
            call["extra_content"] = _format_signature(signature)
    return _make_completion(response, turn)


def _format_signature(signature: str) -> Json:
    return {"google": {"thought_signature": signature}}


def make_signed_completion(response: Json) -> Json:
    """Convert a generateContent reply to a chat completion that stores the original turn, so that
    `make_content_request` sends it back unchanged; a blocked prompt becomes a filtered reply."""
    turn, parts = _read_turn(response)
    return _make_completion(response, turn | attach_turn(PROTOCOL, parts))


def _get_candidate(response: Json) -> Json:
    return next(iter(response.get("candidates") or ()), {})


def _read_turn(response: Json) -> tuple[Json, Sequence[Json]]:
    """Return the message of a reply, and the reply's parts in the provider's form."""
    parts = (_get_candidate(response).get("content") or {}).get("parts") or ()
    texts, thoughts, calls = list[str](), list[str](), list[Json]()
    for part in parts:
        if call := part.get("functionCall"):
            number = f"call_{len(calls)}"
            calls.append(
                make_call_json(call.get("id") or number, call["name"], call.get("args") or {})
            )
        else:
            (thoughts if part.get("thought") else texts).append(str(part.get("text") or ""))
    thought = "".join(thoughts)
    return {"content": "".join(texts), "thought_summary": thought, "tool_calls": calls}, parts


def _make_completion(response: Json, turn: Json) -> Json:
    usage, candidate = response.get("usageMetadata") or {}, _get_candidate(response)
    reason = "content_filter" if is_prompt_blocked(response) else "error"
    reason = str(candidate.get("finishReason") or reason)
    thoughts = parse_count(usage, "thoughtsTokenCount")
    asked = parse_count(usage, "promptTokenCount") + parse_count(usage, "toolUsePromptTokenCount")
    out = parse_count(usage, "candidatesTokenCount") + thoughts
    cached = parse_count(usage, "cachedContentTokenCount")
    counts = make_usage_json(asked, out, cached, thoughts)
    tokens = _convert_tokens(candidate.get("logprobsResult") or {})
    model = response.get("modelVersion")
    return make_completion_json(model, reason, turn, counts, logprobs={"content": tokens})


def _convert_tokens(result: Mapping[str, Any]) -> list[Json]:
    """Convert the chosen tokens and their alternatives to the form of chat completions."""
    others = result.get("topCandidates") or ()
    tokens: list[Json] = []
    for number, chosen in enumerate(result.get("chosenCandidates") or ()):
        likely = others[number].get("candidates") or () if number < len(others) else ()
        tokens.append(_convert_token(chosen) | {"top_logprobs": list(map(_convert_token, likely))})
    return tokens


def _convert_token(candidate: Json) -> Json:
    return {"token": candidate.get("token"), "logprob": candidate.get("logProbability")}

"""Converts between our messages and OpenAI chat JSON, in both directions."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from itertools import chain, zip_longest
from typing import Any, Literal

from looktwice.pipelines.model import (
    CallOptions,
    FinishReason,
    Message,
    Messages,
    ModelError,
    Reply,
    ToolCall,
    Usage,
)
from looktwice.pipelines.models.attached import (
    has_content,
    read_call_fields,
    read_parts,
    read_turn_fields,
)
from looktwice.pipelines.picture import Payload, join_pieces
from looktwice.pipelines.view import View

ImageDetail = Literal["auto", "low", "high", "original"]
ChoicesField = Literal["structured_outputs", "guided_choice", "regex"]
PicturePlacement = Literal["user", "tool", "both"]
Json = dict[str, Any]

FINISH_REASONS: Mapping[FinishReason | Literal["failed"], str] = {
    "stop": "stop end_turn stop_sequence eos eos_token complete completed",
    "length": (
        "length max_tokens max_length max_output_tokens model_length model_context_window_exceeded"
    ),
    "filter": (
        "content_filter content_filtered safety recitation blocklist prohibited_content spii"
        " model_armor language sensitive refusal guardrail_intervened image_safety"
        " image_prohibited_content image_recitation image_other error_toxic toxic"
        " blocked content_blocked prompt_blocked safety_blocked moderation unsafe"
        " input_guardrail_triggered output_guardrail_triggered"
    ),
    "tool": "tool_calls function_call tool_use",
    "failed": (
        "error abort aborted cancel cancelled canceled failed timeout network_error server_error"
        " insufficient_system_resource malformed_function_call malformed_tool_call"
        " unexpected_tool_call malformed_response no_image other pause_turn"
        " missing_thought_signature too_many_tool_calls"
    ),
}
"""Finish reasons that servers give: complete, truncated, filtered, a tool call, or failed."""

FINISH_BY_REASON = {
    reason: finish for finish, reasons in FINISH_REASONS.items() for reason in reasons.split()
}
# per reply; a larger number is not a count, and sums of it would overflow
MAX_LOGGED_TOKENS = 10**12
# per reply; agents run eight of them by default, and more are only repetitions
MAX_TOOL_CALLS = 128

REASONING_FIELDS = ("reasoning_content", "reasoning", "thought_summary", "thinking")
REASONING_PARTS = ("reasoning_details", "thinking_blocks")
"""Fields of a message that hold reasoning, as text or as parts. The first non-empty one counts:
first the REASONING_FIELDS, then reasoning among the parts of the content, then the
REASONING_PARTS."""
TEXT_FIELDS = ("text", "thinking", "reasoning", "reasoning_content", "summary", "content")
"""Fields of a part that hold its text."""

CHOICE_FIELD_MAKERS: Mapping[str, Callable[[list[str]], Json]] = {
    "structured_outputs": lambda texts: {"structured_outputs": {"choice": texts}},
    "guided_choice": lambda texts: {"guided_choice": texts},
    "regex": lambda texts: {"regex": "(" + "|".join(map(re.escape, texts)) + ")"},
}


def make_wire_messages(
    messages: Messages,
    system: str = "",
    detail: ImageDetail | None = None,
    pictures: PicturePlacement = "user",
) -> list[Json]:
    """Return the `messages` of a request, with payloads for pictures, which `write_request` writes
    as data URLs of exactly these bytes.

    Most endpoints accept pictures only in a user's turn, so those of tool turns follow in a user's
    turn after the last tool turn, unless `pictures` leaves them in place ("tool") or sends them
    twice ("both"). Raises PictureError, and ModelError for pictures in any other turn.
    """
    sent: list[Json] = [{"role": "system", "content": system}] if system else []
    shown: list[Json] = []
    for message in messages:
        if message.role == "tool":
            turn: Json = {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
            if message.views and pictures != "user":
                turn["content"] = [_make_part(part, detail) for part in message.parts]
            sent.append(turn)
            if pictures != "tool":
                shown += [_make_part(view, detail) for view in message.views]
            continue
        if shown:
            sent.append({"role": "user", "content": shown})
            shown = []
        sent.append(_make_turn(message, detail))
    return [*sent, {"role": "user", "content": shown}] if shown else sent


def _make_turn(message: Message, detail: ImageDetail | None) -> Json:
    if message.role == "user" and (message.views or len(message.parts) != 1):
        return {"role": "user", "content": [_make_part(part, detail) for part in message.parts]}
    if message.views:
        raise ModelError(
            f"chat endpoints accept no pictures in a turn of the {message.role}; put them in a"
            " user's turn"
        )
    turn: Json = {"role": message.role, "content": message.text}
    if message.tool_calls:
        turn["content"] = message.text or None
        turn["tool_calls"] = list(map(make_tool_call_json, message.tool_calls))
    own = dict(message.attached)
    if parts := own.pop("content", None):
        turn["content"] = replace_text(parts, message.text)
    return own | turn


def make_tool_call_json(call: ToolCall) -> Json:
    """Return a tool call in the protocol's form, with the fields that its provider attached."""
    own = dict(call.attached)
    function = {**own.pop("function", {}), "name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", **own, "function": function}


def replace_text(parts: list[Json], text: str) -> list[Json]:
    """Return the parts of a message's content; if its text was truncated or cleaned since, the new
    text follows the other parts."""
    if _split_content(parts)[0] == text:
        return parts
    others = [part for part in parts if part.get("type", "text") != "text"]
    return [*others, {"type": "text", "text": text}] if text else others


def _make_part(part: str | View, detail: ImageDetail | None) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    payload = part.picture.payload
    kind = f"{payload.media_type.partition('/')[0]}_url"  # image_url or video_url
    return {"type": kind, kind: {"url": payload} | ({"detail": detail} if detail else {})}


def make_request_pieces(body: Json) -> list[bytes | Payload]:
    """Write a request as JSON in pieces: bytes, and between them the pictures, whose base64 is
    inserted later. Base64 needs no escaping, and searching it for characters to escape would take
    longer than drawing on the pictures."""
    pictures, marker = list[Payload](), os.urandom(16).hex()

    def add_marker(payload: Payload) -> str:
        pictures.append(payload)
        return f"{payload.prefix}{marker}"

    text = json.dumps(body, separators=(",", ":"), default=add_marker)
    pieces = text.encode().split(marker.encode())
    return [*chain.from_iterable(zip_longest(pieces, pictures, fillvalue=b""))]


def write_request(body: Json) -> bytes:
    """Write a request as JSON."""
    return join_pieces(make_request_pieces(body))


SAMPLING_FIELDS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "stop": "stop",
    "seed": "seed",
    "effort": "reasoning_effort",
    "logprobs": "top_logprobs",
}
"""Our name of a setting -> the name of the field in which it is sent."""

RESERVED_FIELDS = {
    *SAMPLING_FIELDS.values(),
    "max_completion_tokens",
    "logprobs",
    "model",
    "messages",
}
RESERVED_FIELDS |= {"response_format", "tools", "tool_choice", "stream", "n"}


def make_wire_options(
    options: CallOptions, token_field: str, choices_as: ChoicesField | None
) -> Json:
    """Return the request fields for the options that are set.

    Raises ModelError for `choices` if `choices_as` is not set.
    """
    body: Json = {}
    for name, wired in (SAMPLING_FIELDS | {"max_tokens": token_field, "top_k": "top_k"}).items():
        value = getattr(options, name)
        if value is not None:
            body[wired] = list(value) if isinstance(value, tuple) else value
    if options.logprobs is not None:
        body["logprobs"] = True
    if options.tools:
        body["tools"] = [{"type": "function", "function": asdict(tool)} for tool in options.tools]
        choice = options.tool_choice or "auto"
        named = {"type": "function", "function": {"name": choice}}
        body["tool_choice"] = choice if choice in ("auto", "none", "required") else named
    if options.schema == {}:
        body["response_format"] = {"type": "json_object"}
    elif options.schema is not None:
        schema = {"name": "reply", "schema": dict(options.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if options.choices is None:
        return body
    if choices_as is None:
        raise ModelError(
            "the reply must be one of given choices, but chat endpoints have no common field for"
            " that; set `choices_as` to structured_outputs (vLLM), guided_choice (vLLM before 0.12)"
            " or regex (SGLang)"
        )
    return body | CHOICE_FIELD_MAKERS[choices_as](list(options.choices))


def parse_reply(data: Any, seconds: float, engine: str = "") -> Reply:
    """Parse the reply in a response body; `served_by` keeps a reason not in `FINISH_REASONS`.

    Raises ModelError (retryable) if there is none, or if it broke off.
    """
    usage = None
    try:
        usage = parse_usage(data)
        choice = data["choices"][0]
        message, reason = choice["message"], str(choice.get("finish_reason") or "stop").lower()
        finish = FINISH_BY_REASON.get(reason, "stop")
        if finish == "failed":
            fault = f"the server failed in the middle of its reply (finish_reason {reason!r:.40})"
            raise ModelError(fault, status=200, retryable=True, usage=usage)
        asked, calls = message.get("tool_calls") or (), list[ToolCall]()
        if not asked and message.get("function_call"):  # the older form of `tool_calls`
            asked = [{"function": message["function_call"]}]
        for number, call in enumerate(asked[:MAX_TOOL_CALLS]):
            written = call["function"].get("arguments") or "{}"
            if not isinstance(written, str):
                written = json.dumps(written, ensure_ascii=False)
            identifier = str(call.get("id") or f"call_{number}")
            name = str(call["function"]["name"])
            calls.append(ToolCall(identifier, name, written, read_call_fields(call)))
        text, thought, refusal = _split_content(message.get("content"))
        facts = {
            "model": data.get("model"),
            "fingerprint": data.get("system_fingerprint"),
            "engine": data.get("provider") or engine,
            "finish_reason": "" if reason in FINISH_BY_REASON else reason[:40],
        }
        return Reply(
            text=text,
            finish="tool" if calls and finish == "stop" else finish,
            reasoning=_find_reasoning(message, thought),
            tool_calls=tuple(calls),
            calls_left_out=len(asked) - len(calls),
            refusal=str(message.get("refusal") or refusal),
            usage=usage,
            seconds=seconds,
            logprobs=tuple(_list_candidates(_list_logged_tokens(choice.get("logprobs")))),
            served_by={name: str(fact) for name, fact in facts.items() if fact},
            attached=read_turn_fields(message),
        )
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as exc:
        beginning = json.dumps(data, ensure_ascii=False)[:200]
        text = f"the answer is not a chat completion ({exc!r}): {beginning}"
        raise ModelError(text, status=200, retryable=True, usage=usage) from exc


def _split_content(content: Any) -> tuple[str, str, str]:
    """Return (text, reasoning, refusal) of a message's content, which may be a string, a part, a
    list of both, or None."""
    pieces: dict[str, list[str]] = {"text": [], "reasoning": [], "refusal": []}
    for part in read_parts(content):
        kind = part.get("type", "text").removeprefix("output_")
        kind = "reasoning" if kind in ("thinking", "reasoning_content") else kind
        if kind == "refusal":
            pieces[kind].append(part.get(kind) or "")
        elif kind in pieces:
            pieces[kind].append(_read_text(part))
    text, thought, refusal = map("".join, pieces.values())
    return text, thought, refusal


def _read_text(value: Any) -> str:
    """Return the text in a value: a string, an object with one of `TEXT_FIELDS`, or a list of
    these."""
    if isinstance(value, list):
        return "".join(map(_read_text, value))
    if isinstance(value, dict):
        return next(filter(None, (_read_text(value.get(name)) for name in TEXT_FIELDS)), "")
    return value if isinstance(value, str) else ""


def _find_reasoning(message: Json, thought: str) -> str:
    """Return the reasoning of a message; `thought` is the reasoning found in its content."""
    texts = (_read_text(message.get(name)) for name in REASONING_FIELDS)
    parts = (_read_text(message.get(name)) for name in REASONING_PARTS)
    return next(filter(None, chain(texts, (thought,), parts)), "")


def parse_usage(data: Mapping[str, Any]) -> Usage:
    """Parse the token counts of a body, wherever its server writes them.

    Some servers leave reasoning out of completion_tokens but not out of the total; the billed
    number counts. Anthropic's input_tokens exclude its cache. Raises ValueError for numbers that
    cannot be token counts, TypeError and AttributeError for anything that is not a usage object.
    """
    choice: Json = next(iter(data.get("choices") or ()), {})  # Kimi's streams count there
    nodes = (data, choice, data.get("x_groq"), choice.get("message"))
    found = ((node or {}).get(name) for node in nodes for name in USAGE_FIELDS)
    usage: Json = convert_to_snake_keys(next(filter(None, found), {}))

    def count(*names: str) -> int:
        """Return the first of these fields that is present and not 0."""
        for name in names:
            node: Any = usage
            for step in name.split("."):
                node = node.get(step) if isinstance(node, dict) else None
            if number := int(node or 0):
                if not 0 < number <= MAX_LOGGED_TOKENS:
                    raise ValueError(f"token counts must be in 0..{MAX_LOGGED_TOKENS:,}")
                return number
        return 0

    cached = count(
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "cached_tokens",
        "prompt_cache_hit_tokens",
        "num_cached_tokens",
        "cache_read_input_tokens",
        "cached_content_token_count",
    )
    reasoning = count(
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "completion_tokens_details.thinking_tokens",
        "reasoning_tokens",
        "thoughts_token_count",
    )
    asked = count("prompt_tokens", "prompt_token_count") or count("input_tokens") + sum(
        map(count, ("cache_read_input_tokens", "cache_creation_input_tokens"))
    )
    completion = count("completion_tokens", "output_tokens", "candidates_token_count")
    total = count("total_tokens", "total_token_count")
    return Usage(asked, max(completion, total - asked), reasoning, cached)


USAGE_FIELDS = ("usage", "usageMetadata", "usage_metadata")
"""Fields in which servers report token counts."""


def convert_to_snake_keys(value: Any) -> Any:
    """Convert keys such as `promptTokens` to `prompt_tokens`, at any depth."""
    if not isinstance(value, dict):
        return value
    return {
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): convert_to_snake_keys(inner)
        for name, inner in value.items()
    }


def find_billed_usage(data: Any) -> Usage | None:
    """Return the usage billed for a body without a complete reply, or None if it reports none."""
    try:
        usage = parse_usage(data)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
        return None
    return usage if any(vars(usage).values()) else None


def _list_logged_tokens(logprobs: Any) -> list[Any]:
    """Return log-probability and alternatives per token, from a list of objects (current form) or
    from the lists `tokens`, `token_logprobs` and `top_logprobs` (older form); empty for anything
    else."""
    if isinstance(logprobs, list):
        return logprobs
    if not isinstance(logprobs, dict):
        return []
    content = logprobs.get("content") or []
    if content or not logprobs.get("tokens"):
        return content if isinstance(content, list) else []
    lists = (logprobs.get(name) or () for name in ("tokens", "token_logprobs", "top_logprobs"))
    return [
        {"token": token, "logprob": value, "top_logprobs": others}
        for token, value, others in zip_longest(*lists)
    ]


def _list_candidates(tokens: list[Any]) -> Iterator[dict[str, float]]:
    """Yield the candidates of each token, the chosen one first; of byte tokens with equal text, the
    most likely counts.

    Candidates without a number, which some servers send as null, are left out.
    """
    for token in tokens:
        likely: dict[str, float] = {}
        others = token.get("top_logprobs") if isinstance(token, dict) else None
        if isinstance(others, dict):
            others = [{"token": text, "logprob": value} for text, value in others.items()]
        for candidate in (token, *(others or ())):
            node = candidate if isinstance(candidate, dict) else {}
            text, value = node.get("token"), node.get("logprob")
            if text is not None and value is not None and math.isfinite(float(value)):
                likely[str(text)] = max(float(value), likely.get(str(text), -math.inf))
        yield likely


def find_error(data: Any) -> Json | None:
    """Return the error object in a body, with its `message`, in any server's form, or None."""
    if isinstance(data, list):
        data = data[0] if data else None
    if not isinstance(data, dict):
        return None
    own = data.get("error") if has_content(data.get("error")) else None
    error = own or (data if data.get("object") == "error" else data.get("detail"))
    if data.get("choices") and not own:
        error = _find_cut_off_error(data["choices"])
    if not error:
        return None
    if isinstance(error, dict):
        return error
    return {"message": error if isinstance(error, str) else json.dumps(error)}


def _find_cut_off_error(choices: Any) -> Any:
    """Return the error next to a partial reply; OpenRouter puts it into the choice or the
    message."""
    choice = choices[0] if isinstance(choices, list) else None
    nodes = (choice, choice.get("message")) if isinstance(choice, dict) else ()
    errors = (node.get("error") for node in nodes if isinstance(node, dict))
    return next(filter(has_content, errors), None)

"""Converts between our messages and the OpenAI chat JSON, both ways."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from looktwice.pipelines.model import (
    CallOptions,
    Finish,
    Message,
    Messages,
    ModelError,
    Reply,
    ToolCall,
    Usage,
)
from looktwice.pipelines.view import View

Detail = Literal["auto", "low", "high", "original"]
ChoicesAs = Literal["structured_outputs", "guided_choice", "regex"]
Json = dict[str, Any]

REASONS: Mapping[Finish | Literal["failed"], str] = {
    "stop": "stop end_turn stop_sequence eos eos_token complete completed",
    "length": (
        "length max_tokens max_length max_output_tokens model_length model_context_window_exceeded"
    ),
    "filter": (
        "content_filter safety recitation blocklist prohibited_content spii model_armor language"
        " sensitive refusal guardrail_intervened image_safety image_prohibited_content"
        " image_recitation image_other"
    ),
    "tool": "tool_calls function_call tool_use",
    "failed": (
        "error abort aborted cancel cancelled canceled failed timeout network_error server_error"
        " insufficient_system_resource malformed_function_call malformed_tool_call"
        " unexpected_tool_call malformed_response no_image other pause_turn"
    ),
}
"""What servers give as the reason why a reply ended: it is whole, cut off, filtered, asks for a
tool, or broke off."""

FINISH = {reason: finish for finish, reasons in REASONS.items() for reason in reasons.split()}
# of one reply: what is more is no count, and its sums are no numbers of a machine
MOST_TOKENS = 10**12
# of one reply; agents run eight of them unless told otherwise, and none that repeats itself needs
# more
MOST_CALLS = 128
FILTERS = {
    "content_filter",
    "content_policy_violation",
    "contentpolicyviolation",
    "responsibleaipolicyviolation",
    "data_inspection_failed",
    "datainspectionfailed",
    "moderation_blocked",
    "prompt_blocked",
}

CHOICES: Mapping[str, Callable[[list[str]], Json]] = {
    "structured_outputs": lambda texts: {"structured_outputs": {"choice": texts}},
    "guided_choice": lambda texts: {"guided_choice": texts},
    "regex": lambda texts: {"regex": "(" + "|".join(map(re.escape, texts)) + ")"},
}


def wire_messages(messages: Messages, system: str = "", detail: Detail | None = None) -> list[Json]:
    """The `messages` of a request. Pictures travel as data URLs of exactly the kept bytes.

    Endpoints take pictures in a user's turn only: those of a tool's turn follow in a user's turn
    after the last of the tools' turns. Raises ModelError for pictures in a system's or an
    assistant's turn, PictureError.
    """
    sent: list[Json] = [{"role": "system", "content": system}] if system else []
    shown: list[View] = []
    for message in messages:
        if message.role != "tool" and shown:
            sent.append(_pictures(shown, detail))
            shown = []
        sent.append(_turn(message, detail))
        shown += message.views if message.role == "tool" else ()
    return [*sent, _pictures(shown, detail)] if shown else sent


def _turn(message: Message, detail: Detail | None) -> Json:
    if message.role == "user":
        single = len(message.parts) == 1 and isinstance(message.parts[0], str)
        return {
            "role": "user",
            "content": message.text if single else [_part(p, detail) for p in message.parts],
        }
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    if message.views:
        raise ModelError(
            f"chat endpoints take no pictures in a turn of the {message.role}; put them in a user's"
            " turn"
        )
    turn: Json = {"role": message.role, "content": message.text}
    if message.tool_calls:
        turn["content"] = message.text or None
        turn["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    return turn


def _pictures(views: list[View], detail: Detail | None) -> Json:
    return {"role": "user", "content": [_part(view, detail) for view in views]}


def _part(part: str | View, detail: Detail | None) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    image = {"url": _DataUrl(part.picture.payload.data_url)}
    return {
        "type": "image_url",
        "image_url": image if detail is None else {**image, "detail": detail},
    }


def write_body(body: Json) -> bytes:
    """A request as it is sent. Pictures are put in at the end: nothing in them needs the escapes of
    JSON."""
    urls: list[str] = []

    def set_aside(value: Any) -> Any:
        if isinstance(value, list):
            return [set_aside(inner) for inner in value]
        if isinstance(value, dict):
            return {name: set_aside(inner) for name, inner in value.items()}
        if isinstance(value, _DataUrl):
            urls.append(value)
            return _PICTURE
        return value

    text = json.dumps(set_aside(body), separators=(",", ":"))
    return "".join(
        piece for pair in zip(text.split(_PICTURE), [*urls, ""], strict=True) for piece in pair
    ).encode()


_PICTURE = f"picture-{uuid.uuid4().hex}"  # nobody's words hold it


class _DataUrl(str):
    """A picture as a request holds it."""


def wire_options(options: CallOptions, token_field: str, choices_as: ChoicesAs | None) -> Json:
    """The fields of a request for what is asked for; what is None is not sent.

    Raises ModelError for `choices` where it was not said how this server takes them.
    """
    plain = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        token_field: options.max_tokens,
        "stop": None if options.stop is None else list(options.stop),
        "seed": options.seed,
        "reasoning_effort": options.effort,
        "top_logprobs": options.logprobs,
        "logprobs": None if options.logprobs is None else True,
    }
    body: Json = {name: value for name, value in plain.items() if value is not None}
    if options.tools:
        functions: list[Json] = [
            {"name": tool.name, "description": tool.description, "parameters": {**tool.parameters}}
            for tool in options.tools
        ]
        body["tools"] = [{"type": "function", "function": function} for function in functions]
        body["tool_choice"] = "auto"
    if options.schema is not None:
        schema = {"name": "reply", "schema": dict(options.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if options.choices is None:
        return body
    if choices_as is None:
        raise ModelError(
            "the reply was to be one of given choices, and chat endpoints have no common field for"
            " that; set `choices_as` to structured_outputs (vLLM), guided_choice (vLLM before 0.12)"
            " or regex (SGLang)"
        )
    return body | CHOICES[choices_as](list(options.choices))


def reply_of(data: Any, seconds: float, engine: str = "") -> Reply:
    """The reply in a response body; a reason to end that is not in `REASONS` stands in `served_by`.

    Raises ModelError (retryable) where it holds none, or broke off.
    """
    usage = None
    try:
        usage = _usage(data.get("usage") or {})
        choice = data["choices"][0]
        message, reason = choice["message"], str(choice.get("finish_reason") or "stop").lower()
        asked = message.get("tool_calls") or ()
        calls = tuple(_call(number, call) for number, call in enumerate(asked[:MOST_CALLS]))
        text, thought, refusal = _content(message.get("content"))
        finish = FINISH.get(reason, "stop")
        if finish == "failed":
            fault = f"the server gave up in the middle of its reply (finish_reason {reason!r:.40})"
            raise ModelError(fault, status=200, retryable=True, usage=usage)
        return Reply(
            text=text,
            finish="tool" if calls and finish == "stop" else finish,
            reasoning=str(message.get("reasoning_content") or message.get("reasoning") or thought),
            tool_calls=calls,
            calls_left_out=len(asked) - len(calls),
            refusal=str(message.get("refusal") or refusal),
            usage=usage,
            seconds=seconds,
            logprobs=tuple(_candidates((choice.get("logprobs") or {}).get("content") or ())),
            served_by=_served_by(data, engine, "" if reason in FINISH else reason[:40]),
        )
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as exc:
        beginning = json.dumps(data, ensure_ascii=False)[:200]
        text = f"the answer is no chat completion ({exc!r}): {beginning}"
        raise ModelError(text, status=200, retryable=True, usage=usage) from exc


def _content(content: Any) -> tuple[str, str, str]:
    """(text, reasoning, refusal) of a content that is a text, a list of parts, or nothing."""
    if content is None or isinstance(content, str):
        return content or "", "", ""
    pieces_of: dict[str, list[str]] = {"text": [], "thinking": [], "refusal": []}
    for part in content:
        kind = part.get("type", "text")
        inner = part.get(kind, "")
        if kind in pieces_of:
            pieces_of[kind].append(inner if isinstance(inner, str) else _content(inner)[0])
    text, thought, refusal = ("".join(pieces) for pieces in pieces_of.values())
    return text, thought, refusal


def _call(number: int, call: Mapping[str, Any]) -> ToolCall:
    function = call["function"]
    arguments = function.get("arguments") or "{}"
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(str(call.get("id") or f"call_{number}"), str(function["name"]), written)


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Some servers leave reasoning out of completion_tokens, but not out of the total: what is
    billed counts.

    Raises ValueError for numbers that cannot be counts of tokens.
    """
    asked, completion, total = (
        int(usage.get(f"{name}_tokens") or 0) for name in ("prompt", "completion", "total")
    )
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    counted = Usage(asked, max(completion, total - asked), int(reasoning), int(cached))
    if not all(
        0 <= number <= MOST_TOKENS
        for number in (asked, completion, total, int(reasoning), int(cached))
    ):
        raise ValueError(f"counts of tokens lie in 0..{MOST_TOKENS:,}")
    return counted


def _candidates(tokens: Any) -> Iterator[dict[str, float]]:
    """Per token its candidates, the chosen one first; of bytes that read alike the likeliest
    counts.

    What has no number, as some servers give null, is left out.
    """
    for token in tokens:
        likely: dict[str, float] = {}
        for candidate in (token, *((token or {}).get("top_logprobs") or ())):
            if (
                candidate is None
                or candidate.get("logprob") is None
                or candidate.get("token") is None
            ):
                continue
            text, value = str(candidate["token"]), float(candidate["logprob"])
            if math.isfinite(value):
                likely[text] = max(value, likely.get(text, value))
        yield likely


def _served_by(data: Mapping[str, Any], engine: str, reason: str) -> dict[str, str]:
    facts = {
        "model": data.get("model"),
        "fingerprint": data.get("system_fingerprint"),
        "engine": data.get("provider") or engine,
        "finish_reason": reason,
    }
    return {name: str(text) for name, text in facts.items() if text}


def error_of(data: Any) -> Json | None:
    """The error object in a body, with its `message`, in any of the shapes that servers use; None
    without one."""
    if isinstance(data, list):
        data = data[0] if data else None
    if not isinstance(data, dict):
        return None
    error = data.get("error") or (data if data.get("object") == "error" else data.get("detail"))
    if not error or (data.get("choices") and not data.get("error")):
        return None
    return (
        error
        if isinstance(error, dict)
        else {"message": error if isinstance(error, str) else json.dumps(error)}
    )


def is_filter(error: Mapping[str, Any]) -> bool:
    """Whether an error says that a content filter took the request."""
    inner = error.get("innererror")
    named = [
        error.get("code"),
        error.get("type"),
        inner.get("code") if isinstance(inner, dict) else None,
    ]
    return any(str(name).lower() in FILTERS for name in named)

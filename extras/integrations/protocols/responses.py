"""The Responses protocol of OpenAI: responses made from replies, whole or as events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from looktwice.extras.integrations.protocols.exchange import (
    AnswerContent,
    Exchange,
    Refusal,
    WireProtocol,
    format_event,
    list_logprobs,
)
from looktwice.extras.integrations.protocols.questions import Json, Question, read_request
from looktwice.extras.integrations.protocols.responses_requests import (
    STATELESS_ERROR,
    ResponsesRequest,
)
from looktwice.extras.integrations.protocols.thoughts import has_attached, pack_attached
from looktwice.pipelines.model import Reply, Usage

INCOMPLETE_REASONS = {"length": "max_output_tokens", "filter": "content_filter"}
ECHOED_FIELDS: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""The fields of a response that repeat the request, with the values that they have if the request
omits them."""

UNSUPPORTED_ENDPOINTS = {
    "/input_tokens": "only a model's own server counts tokens; each response has its `usage`",
    "": STATELESS_ERROR,
}


@dataclass(frozen=True)
class ResponsesExchange(Exchange):
    """A Responses request, and its response, which repeats the settings of the request
    (`echoed_settings`)."""

    question: Question
    echoed_settings: Json

    def make_body(self, answered: AnswerContent) -> Json:
        """Return the response."""
        reply, now = answered.replies[0], int(time.time())
        reason = INCOMPLETE_REASONS.get(reply.finish)
        return {
            **self.echoed_settings,
            "id": f"resp_{answered.name}",
            "object": "response",
            "created_at": now,
            "completed_at": None if reason else now,
            "status": "incomplete" if reason else "completed",
            "background": False,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": answered.model,
            "output": list(list_output(answered)),
            "previous_response_id": None,
            "store": False,
            "usage": describe_usage(answered.usage),
        }

    def make_events(self, answered: AnswerContent) -> Iterator[bytes]:
        """Yield the events of a stream: the start, each item of the output in pieces, the end."""
        whole, numbers = self.make_body(answered), count()
        begun = whole | {"status": "in_progress", "output": [], "usage": None}
        begun |= {"completed_at": None, "incomplete_details": None}
        events = [Event("created", {"response": begun}), Event("in_progress", {"response": begun})]
        for index, item in enumerate(whole["output"]):
            events += list_item_events(item, index)
        events.append(Event(whole["status"], {"response": whole}))
        for event in events:
            name = f"response.{event.name}"
            plain = {"type": name, "sequence_number": next(numbers), **event.fields}
            yield format_event(plain, name)


def echo_settings(request: ResponsesRequest) -> Json:
    """Return the settings of the request that a response repeats, as they were sent."""
    given = request.model_dump(by_alias=True, include={*ECHOED_FIELDS}, exclude_unset=True)
    given = {name: value for name, value in given.items() if value is not None}
    if (choice := request.tool_choice) and choice.type != "function":
        given["tool_choice"] = choice.type
    return ECHOED_FIELDS | given


def describe_usage(usage: Usage) -> Json:
    """Return the token counts in the form of a response."""
    return {
        "input_tokens": usage.tokens_in,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.tokens_out,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.tokens_in + usage.tokens_out,
    }


def list_output(answered: AnswerContent) -> Iterator[Json]:
    """Yield the items of a response's output: the thought, the message, the calls."""
    reply, thought = answered.replies[0], answered.get_thought()
    status = "incomplete" if reply.finish in INCOMPLETE_REASONS else "completed"
    if thought or has_attached(reply):
        yield {
            "type": "reasoning",
            "id": f"rs_{answered.name}",
            "summary": [{"type": "summary_text", "text": thought}] if thought else [],
            "encrypted_content": pack_attached(reply),
        }
    content = list_content(reply)
    if content or not (reply.tool_calls or reply.finish in INCOMPLETE_REASONS):
        yield {
            "type": "message",
            "id": f"msg_{answered.name}",
            "role": "assistant",
            "status": status,
            "content": content or [describe_text(reply)],
        }
    for number, call in enumerate(reply.tool_calls):
        yield {
            "type": "function_call",
            "id": f"fc_{answered.name}_{number}",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "status": status,
        }


def describe_text(reply: Reply) -> Json:
    """Return the text of a reply as a part of a message."""
    return {
        "type": "output_text",
        "text": reply.text,
        "annotations": [],
        "logprobs": list_logprobs(reply),
    }


def list_content(reply: Reply) -> list[Json]:
    """Return the parts of a reply's message; empty if it has no text."""
    refused = [{"type": "refusal", "refusal": reply.refusal}] if reply.refusal else []
    return [*([describe_text(reply)] if reply.text else []), *refused]


class Event(NamedTuple):
    """An event of a stream: its name without `response.`, and its fields."""

    name: str
    fields: Json


def list_item_events(item: Json, index: int) -> Iterator[Event]:
    """Yield the events of the output item with this index."""
    place = {"item_id": item["id"], "output_index": index}
    emptied: dict[str, Json] = {
        "reasoning": {"summary": []},
        "message": {"content": [], "status": "in_progress"},
        "function_call": {"arguments": "", "status": "in_progress"},
    }
    begun = item | emptied[item["type"]]
    yield Event("output_item.added", {"output_index": index, "item": begun})
    for number, part in enumerate(item.get("summary", ())):
        yield from _list_summary_events(part, place | {"summary_index": number})
    for number, part in enumerate(item.get("content", ())):
        yield from _list_part_events(part, place | {"content_index": number})
    if item["type"] == "function_call":
        text = item["arguments"]
        yield Event("function_call_arguments.delta", place | {"delta": text})
        done = {"arguments": text, "name": item["name"]}
        yield Event("function_call_arguments.done", place | done)
    yield Event("output_item.done", {"output_index": index, "item": item})


def _list_summary_events(part: Json, place: Json) -> Iterator[Event]:
    yield Event("reasoning_summary_part.added", place | {"part": part | {"text": ""}})
    yield Event("reasoning_summary_text.delta", place | {"delta": part["text"]})
    yield Event("reasoning_summary_text.done", place | {"text": part["text"]})
    yield Event("reasoning_summary_part.done", place | {"part": part})


def _list_part_events(part: Json, place: Json) -> Iterator[Event]:
    name = "refusal" if part["type"] == "refusal" else "text"
    kind = "refusal" if name == "refusal" else "output_text"
    emptied = part | {name: ""} | ({"logprobs": []} if name == "text" else {})
    more = {"logprobs": part["logprobs"]} if name == "text" else {}
    yield Event("content_part.added", place | {"part": emptied})
    if part[name]:
        yield Event(f"{kind}.delta", place | {"delta": part[name], **more})
    yield Event(f"{kind}.done", place | {name: part[name], **more})
    yield Event("content_part.done", place | {"part": part})


class ResponsesProtocol(WireProtocol):
    """The Responses protocol of OpenAI."""

    path = "/responses"
    unsupported_endpoints = UNSUPPORTED_ENDPOINTS

    def read(self, raw: bytes) -> ResponsesExchange:
        """Parse a request. Raises ValueError."""
        request = read_request(ResponsesRequest, raw)
        return ResponsesExchange(request.read(), echo_settings(request))

    def make_error_event(self, refusal: Refusal) -> bytes:
        """Return the event that reports an error and ends a stream. It has the documented fields
        and also `error`, which OpenAI's own server sends, and without which OpenAI's client raises
        nothing."""
        error = refusal.body["error"]
        plain = {"type": "error", "code": refusal.kind, "message": str(refusal), "param": None}
        return format_event({**plain, "sequence_number": 0, "error": error}, "error")

"""The Messages protocol of Anthropic: messages made from replies, whole or as events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from looktwice.extras.integrations.protocols.exchange import (
    AnswerContent,
    Exchange,
    Refusal,
    WireProtocol,
    format_event,
)
from looktwice.extras.integrations.protocols.messages_requests import (
    INVALID_JSON_FIELD,
    MessagesRequest,
    ThoughtDisplay,
)
from looktwice.extras.integrations.protocols.questions import Json, Question, read_request
from looktwice.extras.integrations.protocols.thoughts import has_attached, pack_attached
from looktwice.pipelines.json_input import read_json, write_json
from looktwice.pipelines.model import ToolCall, Usage

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "filter": "refusal", "tool": "tool_use"}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Types of errors by HTTP status; any other status is an `api_error` from 500 on, and an
`invalid_request_error` below."""

UNSUPPORTED_ENDPOINTS = {
    "/count_tokens": "only a model's own server counts tokens; each response has its `usage`",
    "/batches": "send each request to /v1/messages",
}


@dataclass(frozen=True)
class MessagesExchange(Exchange):
    """A Messages request, and its response, which shows thoughts as the field `thinking` of the
    request says."""

    question: Question
    thinking: ThoughtDisplay | None

    def make_body(self, answered: AnswerContent) -> Json:
        """Return the message."""
        reply = answered.replies[0]
        refused = bool(reply.refusal) or reply.finish == "filter"
        details = {"type": "refusal", "category": None, "explanation": reply.refusal or None}
        return {
            "id": f"msg_{answered.name}",
            "type": "message",
            "role": "assistant",
            "model": answered.model,
            "content": list(self.list_blocks(answered)),
            "stop_reason": "refusal" if refused else STOP_REASONS[reply.finish],
            "stop_sequence": None,
            "stop_details": details if refused else None,
            "usage": describe_usage(answered.usage),
        }

    def list_blocks(self, answered: AnswerContent) -> Iterator[Json]:
        """Yield the blocks of the content: the thought, the text, the calls.

        A client that asked for no thoughts gets only those that precede calls and that the model's
        server expects back with their results.
        """
        reply, thinking = answered.replies[0], self.thinking
        shown = bool(answered.looks[0] or (thinking and thinking.type != "disabled"))
        thought = answered.get_thought() if shown else ""
        if thought:
            omitted = thinking is not None and thinking.display == "omitted"
            said = "" if omitted else thought
            yield {"type": "thinking", "thinking": said, "signature": pack_attached(reply)}
        elif has_attached(reply) and (shown or reply.tool_calls):
            yield {"type": "redacted_thinking", "data": pack_attached(reply)}
        if text := reply.text or reply.refusal:
            yield {"type": "text", "text": text, "citations": None}
        for call in reply.tool_calls:
            described = {"id": call.id, "name": call.name, "input": read_arguments(call)}
            yield {"type": "tool_use", **described}

    def make_events(self, answered: AnswerContent) -> Iterator[bytes]:
        """Yield the events of a stream: the start, each block in pieces, the end."""
        whole = self.make_body(answered)
        begun = whole | {"content": [], "stop_reason": None, "stop_details": None}
        begun["usage"] = whole["usage"] | {"output_tokens": 0}
        end = {name: whole[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
        events: list[Json] = [{"type": "message_start", "message": begun}]
        for index, block in enumerate(whole["content"]):
            events += list_block_events(block, index)
        events.append({"type": "message_delta", "delta": end, "usage": whole["usage"]})
        events.append({"type": "message_stop"})
        for event in events:
            yield format_event(event, event["type"])


def describe_usage(usage: Usage) -> Json:
    """Return the token counts in the form of a message, in which the input tokens exclude cached
    ones."""
    return {
        "input_tokens": max(0, usage.tokens_in - usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.tokens_out,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def read_arguments(call: ToolCall) -> Json:
    """Return the arguments of a call as an object; text that is not a JSON object becomes the value
    of the field `INVALID_JSON_FIELD`."""
    try:
        value = read_json(call.arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {INVALID_JSON_FIELD: call.arguments}


def list_block_events(block: Json, index: int) -> Iterator[Json]:
    """Yield the events of a block of content: its start without text, its pieces, its end."""
    emptied, deltas = block, list[Json]()
    if block["type"] == "text":
        emptied = block | {"text": ""}
        deltas = [{"type": "text_delta", "text": block["text"]}]
    elif block["type"] == "thinking":
        emptied = block | {"thinking": "", "signature": ""}
        said, signature = block["thinking"], block["signature"]
        deltas = [{"type": "thinking_delta", "thinking": said}] if said else []
        deltas.append({"type": "signature_delta", "signature": signature})
    elif block["type"] == "tool_use":
        emptied = block | {"input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": write_json(block["input"])}]
    yield {"type": "content_block_start", "index": index, "content_block": emptied}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


class MessagesProtocol(WireProtocol):
    """The Messages protocol of Anthropic."""

    path = "/messages"
    unsupported_endpoints = UNSUPPORTED_ENDPOINTS

    def read(self, raw: bytes) -> MessagesExchange:
        """Parse a request. Raises ValueError."""
        request = read_request(MessagesRequest, raw)
        return MessagesExchange(request.read(), request.thinking)

    def describe(self, refusal: Refusal) -> Json:
        """Return the body of an error in the format of Anthropic's clients."""
        usual = "api_error" if refusal.status >= 500 else "invalid_request_error"
        kind = ERROR_TYPES.get(refusal.status, usual)
        more = {"code": refusal.kind} if refusal.kind != "invalid_request_error" else {}
        return {
            "type": "error",
            "error": {"type": kind, "message": str(refusal)} | more | refusal.more,
        }

    def make_error_event(self, refusal: Refusal) -> bytes:
        """Return the event that reports an error and ends a stream."""
        return format_event(self.describe(refusal), "error")

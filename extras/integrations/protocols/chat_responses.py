"""Chat-completions responses made from replies, whole or as the chunks of a stream, and chunks
joined into a whole response."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from looktwice.extras.integrations.protocols.chat_requests import read_question
from looktwice.extras.integrations.protocols.exchange import (
    AnswerContent,
    Exchange,
    WireProtocol,
    format_event,
    list_logprobs,
)
from looktwice.extras.integrations.protocols.questions import EXTENSION_FIELD, Json, Question
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.models.wire import MAX_TOOL_CALLS, make_tool_call_json


def join_chunks(body: bytes) -> Json:
    """Join the events of a stream into one completion. Raises ValueError, LookupError, TypeError or
    AttributeError for an invalid stream."""
    whole: Json = {"choices": []}
    choices = dict[int, Json]()
    for line in body.decode(errors="replace").splitlines():
        if not line.startswith("data:") or line[5:].strip() == "[DONE]":
            continue
        chunk = read_json(line[5:])
        whole |= {k: v for k, v in chunk.items() if k != "choices" and v is not None}
        for piece in chunk.get("choices") or ():
            empty = {
                "message": {"role": "assistant", "tool_calls": []},
                "logprobs": {"content": []},
            }
            choice = choices.setdefault(piece["index"], {"index": piece["index"], **empty})
            choice["finish_reason"] = piece.get("finish_reason") or choice.get("finish_reason")
            beside = piece.keys() - {"index", "delta", "finish_reason", "logprobs"}
            choice |= {name: piece[name] for name in beside if piece[name]}
            for name, tokens in (piece.get("logprobs") or {}).items():
                choice["logprobs"].setdefault(name, []).extend(tokens or ())
            _add_delta(choice["message"], piece.get("delta") or {})
    return whole | {"choices": [choices[index] for index in sorted(choices)]}


def _add_delta(message: Json, delta: Json) -> None:
    for name, value in delta.items():
        if name not in ("role", "tool_calls"):
            message[name] = _join_pieces(message.get(name), value)
    for piece in delta.get("tool_calls") or ():
        call, function = _find_call(message["tool_calls"], piece), piece.get("function") or {}
        for name in piece.keys() - {"function"}:
            call[name] = piece[name] or call.get(name, piece[name])
        for name, value in function.items():
            call["function"][name] = _join_pieces(call["function"].get(name), value)


def _find_call(calls: list[Json], piece: Json) -> Json:
    """Return the tool call that a piece belongs to: the call with the same `index`, or a new one if
    the ids differ, since all of Gemini's parallel calls have index 0. Raises LookupError if there
    are more calls than any agent runs."""
    index, identifier = piece.get("index") or 0, piece.get("id")
    same = next((call for call in reversed(calls) if (call.get("index") or 0) == index), None)
    if same is not None and not (identifier and same["id"] and identifier != same["id"]):
        return same
    if max(index, len(calls)) > MAX_TOOL_CALLS:
        raise LookupError(f"more than {MAX_TOOL_CALLS} tool calls")
    calls.append({"id": "", "index": index, "function": {"name": "", "arguments": ""}})
    calls.sort(key=lambda call: call["index"] or 0)
    return next(call for call in reversed(calls) if (call["index"] or 0) == index)


def _join_pieces(before: Any, piece: Any) -> Any:
    """Append a piece to the value of a streamed field: texts and lists are extended, and an object
    gets the fields of the piece."""
    if not before or not piece:
        return piece or before
    if isinstance(before, dict) and isinstance(piece, dict):
        joined = {
            k: _join_pieces(before.get(k), v) if k in STREAMED_FIELDS else v
            for k, v in piece.items()
        }
        return before | {name: value for name, value in joined.items() if value is not None}
    if isinstance(before, list) or isinstance(piece, list):
        parts, *more = (
            [{"type": "text", "text": value}] if isinstance(value, str) else [*value]
            for value in (before, piece)
        )
        for part in more[0]:
            place = _find_part(parts, part)
            if place is None:
                parts.append(part)
            else:
                parts[place] = _join_pieces(parts[place], part)
        return parts
    return before + piece if isinstance(before, str) and isinstance(piece, str) else piece


def _find_part(parts: Sequence[Any], piece: Any) -> int | None:
    """Return the index of the part that a piece continues: the part of the same type and `index`,
    or the last part of the same type, unless that part has its signature and so is complete; None
    if there is no such part."""
    if not isinstance(piece, dict) or not piece.keys() & {*STREAMED_FIELDS, "signature"}:
        return None
    for place, part in enumerate(parts):
        if not isinstance(part, dict):
            continue
        is_last = place == len(parts) - 1 and not part.get("signature")
        is_same = part.get("index") == piece["index"] if "index" in piece else is_last
        if is_same and part.get("type") == piece.get("type"):
            return place
    return None


STREAMED_FIELDS = ("text", "summary", "thinking")
"""The fields of a part of content or reasoning that arrive in pieces; other fields, such as the
type, arrive whole."""


@dataclass(frozen=True)
class ChatResponse:
    """A chat-completions response made from an answer."""

    answered: AnswerContent

    @property
    def usage(self) -> Json:
        """The token counts of all calls."""
        usage = self.answered.usage
        counts = {"prompt_tokens": usage.tokens_in, "completion_tokens": usage.tokens_out}
        counts["total_tokens"] = usage.tokens_in + usage.tokens_out
        return counts | {"completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens}}

    def _list_messages(self) -> Iterator[tuple[Json, Json]]:
        """Yield the message of each choice, and the choice's other fields."""
        for number, reply in enumerate(self.answered.replies):
            message: Json = {"role": "assistant", "content": reply.text, "refusal": None}
            if reply.refusal:
                message["refusal"] = reply.refusal
            own = dict(reply.attached)
            message |= {name: value for name, value in own.items() if name != "content"}
            if thought := self.answered.get_thought(number):
                message["reasoning_content"] = thought
            separate = {name: own.get(name) for name in ("content", "reasoning_content")}
            for name, value in separate.items():
                if value != message.get(name) and (value or name != "content"):
                    message.setdefault(EXTENSION_FIELD, {})[name] = value
            if reply.tool_calls:
                message["content"] = reply.text or None
                message["tool_calls"] = list(map(make_tool_call_json, reply.tool_calls))
            tokens = list_logprobs(reply)
            finish = {"tool": "tool_calls", "filter": "content_filter"}
            beside = {
                "index": number,
                "finish_reason": finish.get(reply.finish, reply.finish),
                "logprobs": {"content": tokens, "refusal": None} if tokens else None,
            }
            yield message, beside

    def _make_whole(self, kind: str) -> Json:
        served = self.answered.replies[0].served_by
        return {
            "id": f"chatcmpl-{self.answered.name}",
            "object": kind,
            "created": int(time.time()),
            "model": self.answered.model,
            "system_fingerprint": served.get("fingerprint") or served.get("version", ""),
        }

    def make_completion(self) -> Json:
        """Return the whole response as one chat completion."""
        choices = [{**beside, "message": message} for message, beside in self._list_messages()]
        return self._make_whole("chat.completion") | {"choices": choices, "usage": self.usage}

    def list_chunks(self, usage: bool = False) -> Iterator[bytes]:
        """Yield the response as events of a stream: the content, the end, and [DONE]. The `usage`
        is sent only if the client asks for it, because other clients expect a choice in every
        event."""
        whole = self._make_whole("chat.completion.chunk")
        for message, beside in self._list_messages():
            calls = message.pop("tool_calls", ())
            if calls:
                message["tool_calls"] = [{"index": n, **call} for n, call in enumerate(calls)]
            content = {**beside, "delta": message, "finish_reason": None}
            yield format_event(whole | {"choices": [content]})
            end = {"index": beside["index"], "delta": {}, "finish_reason": beside["finish_reason"]}
            yield format_event(whole | {"choices": [end]})
        if usage:
            yield format_event(whole | {"choices": [], "usage": self.usage})
        yield b"data: [DONE]\n\n"


@dataclass(frozen=True)
class ChatExchange(Exchange):
    """A chat-completions request, and its response."""

    question: Question

    def make_body(self, answered: AnswerContent) -> Json:
        """Return the whole response."""
        return ChatResponse(answered).make_completion()

    def make_events(self, answered: AnswerContent) -> Iterator[bytes]:
        """Yield the chunks of the response."""
        return ChatResponse(answered).list_chunks(self.question.wants_usage)


class ChatProtocol(WireProtocol):
    """The chat-completions protocol of OpenAI."""

    path = "/chat/completions"

    def read(self, raw: bytes) -> ChatExchange:
        """Parse a request. Raises ValueError."""
        return ChatExchange(read_question(raw))

"""Replies as responses of the chat-completions protocol, whole and as the chunks of a stream, and
chunks put together again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from looktwice.eval.homes.chat_requests import Json
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import Reply
from looktwice.pipelines.models.wire import MOST_CALLS, tool_call_json


def join_chunks(body: bytes) -> Json:
    """The events of a stream as one completion. Raises ValueError, LookupError, TypeError,
    AttributeError for what is none."""
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
            choice["logprobs"]["content"] += (piece.get("logprobs") or {}).get("content") or ()
            _add_delta(choice["message"], piece.get("delta") or {})
    return whole | {"choices": [choices[index] for index in sorted(choices)]}


def _add_delta(message: Json, delta: Json) -> None:
    for name in ("content", "reasoning_content", "reasoning", "refusal"):
        if delta.get(name):
            message[name] = (message.get(name) or "") + delta[name]
    for piece in delta.get("tool_calls") or ():
        calls, place = message["tool_calls"], piece.get("index", 0)
        while len(calls) <= min(place, MOST_CALLS):
            calls.append({"id": "", "function": {"name": "", "arguments": ""}})
        call, function = calls[place], piece.get("function") or {}
        call["id"] = piece.get("id") or call["id"]
        for name in ("name", "arguments"):
            call["function"][name] += function.get(name) or ""


@dataclass(frozen=True)
class Answered:
    """What is sent back: a reply for each draw, the text that is its content, and the looks before
    it; `calls` are all replies that each of them needed, and `headers` tell of them."""

    model: str
    replies: Sequence[Reply]
    looks: Sequence[str]
    calls: Sequence[Sequence[Reply]]
    name: str
    headers: Mapping[str, str]

    @property
    def usage(self) -> Json:
        """The tokens of all calls; what was asked counts once, as in the protocol."""
        asked, given, thought = sum(reply.usage.tokens_in for reply in self.calls[0]), 0, 0
        for reply in chain(*self.calls):
            given += reply.usage.tokens_out
            thought += reply.usage.reasoning_tokens
        counts = {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given}
        return counts | {"completion_tokens_details": {"reasoning_tokens": thought}}

    def _messages(self) -> Iterator[tuple[Json, Json]]:
        """The message of each choice, and what stands beside it."""
        for number, (reply, looks) in enumerate(zip(self.replies, self.looks, strict=True)):
            message: Json = {"role": "assistant", "content": reply.text, "refusal": None}
            if reply.refusal:
                message["refusal"] = reply.refusal
            if thought := "\n\n".join(filter(None, (looks, reply.reasoning))):
                message["reasoning_content"] = thought
            if reply.tool_calls:
                message["content"] = reply.text or None
                message["tool_calls"] = list(map(tool_call_json, reply.tool_calls))
            tokens = list[Json]()
            for candidates in filter(None, reply.logprobs):
                ranked = [
                    {"token": text, "logprob": value, "bytes": list(text.encode())}
                    for text, value in candidates.items()
                ]
                tokens.append({**ranked[0], "top_logprobs": ranked})
            finish = {"tool": "tool_calls", "filter": "content_filter"}
            beside = {
                "index": number,
                "finish_reason": finish.get(reply.finish, reply.finish),
                "logprobs": {"content": tokens, "refusal": None} if tokens else None,
            }
            yield message, beside

    def _whole(self, kind: str) -> Json:
        served = self.replies[0].served_by
        return {
            "id": f"chatcmpl-{self.name}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
            "system_fingerprint": served.get("fingerprint") or served.get("version", ""),
        }

    def completion(self) -> Json:
        """The response as a whole."""
        choices = [{**beside, "message": message} for message, beside in self._messages()]
        return self._whole("chat.completion") | {"choices": choices, "usage": self.usage}

    def chunks(self, usage: bool = False) -> Iterator[bytes]:
        """The response as events of a stream: the content, the end, its `usage` where a client asks
        for it, as others read a choice out of every event, and that was it."""
        whole = self._whole("chat.completion.chunk")
        for message, beside in self._messages():
            calls = message.pop("tool_calls", ())
            if calls:
                message["tool_calls"] = [{"index": n, **call} for n, call in enumerate(calls)]
            content = {**beside, "delta": message, "finish_reason": None}
            yield event(whole | {"choices": [content]})
            end = {"index": beside["index"], "delta": {}, "finish_reason": beside["finish_reason"]}
            yield event(whole | {"choices": [end]})
        if usage:
            yield event(whole | {"choices": [], "usage": self.usage})
        yield b"data: [DONE]\n\n"


def event(value: Json) -> bytes:
    """A server-sent event that holds this value."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"

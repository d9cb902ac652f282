"""Gemini's batches: requests to generate content go up in one piece, and the batch itself brings
the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from looktwice.pipelines.models.batched.dialect import (
    Batch,
    Dialect,
    Json,
    answer,
    line_of,
    refuse_fields,
    split_data_url,
    understood,
)
from looktwice.pipelines.models.http_client import HttpResponse

# a call of a tool bears a signature to give back
NOT_TAKEN = ("tools", "reasoning_effort", "logprobs", "top_logprobs")
SETTINGS = {
    "temperature": "temperature",
    "top_p": "topP",
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "seed": "seed",
}
LEFT_OUT = {"model", "messages", "response_format", "generationConfig", *SETTINGS}
FINAL = {"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED"}
STATUS = {"INVALID_ARGUMENT": 400, "PERMISSION_DENIED": 403, "NOT_FOUND": 404}


@dataclass(frozen=True)
class GeminiBatches(Dialect):
    """The dialect of Gemini; its answers come in the order of the requests.

    Source: models.batchGenerateContent and batches of the Gemini API, v1beta.
    """

    most_bytes = 18_000_000  # the provider takes 20 MB

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """The request in the form of generateContent. Raises ModelError for what it does not
        know."""
        return line_of(key, {"model": body["model"], "request": content_request(body)})

    def create(self, lines: Sequence[bytes], label: str) -> Batch:
        """Hand in the lines. Raises ModelError."""
        rows = [json.loads(line) for line in lines]
        requests = [
            {"request": row["request"], "metadata": {"key": row["custom_id"]}} for row in rows
        ]
        body = {
            "batch": {"displayName": label, "inputConfig": {"requests": {"requests": requests}}}
        }
        path = f"models/{rows[0]['model'].removeprefix('models/')}:batchGenerateContent"
        with understood(self.url):
            return _batch(self.post(path, json.dumps(body).encode()))

    def look_at(self, identifier: str) -> Batch:
        """How far a batch is. Raises ModelError."""
        with understood(self.url):
            return _batch(self.get(identifier))

    def find(self, label: str, size: int, since: float) -> Batch | None:
        """The batch of this label, among the last hundred. Raises ModelError."""
        with understood(self.url):
            batches = self.get("batches?pageSize=100").get("operations") or ()
            named = (batch for batch in batches if batch["metadata"].get("displayName") == label)
            return next(map(_batch, named), None)

    def answers(self, batch: Batch, keys: Sequence[str]) -> Iterator[tuple[str, HttpResponse]]:
        """The answers in the order of the keys. Raises ModelError."""
        with understood(self.url):
            operation = self.get(batch.id)
            output = operation.get("response") or operation["metadata"].get("output") or {}
            rows = (output.get("inlinedResponses") or {}).get("inlinedResponses") or ()
            answers = [_answer(row) for row in rows]
            # not every version gives it back
            named = [(row.get("metadata") or {}).get("key") for row in rows]
        yield from zip(
            (str(name or key) for name, key in zip(named, keys, strict=False)),
            answers,
            strict=False,
        )


def content_request(body: Mapping[str, Any]) -> Json:
    """A body of the chat-completions protocol as one of generateContent. Raises ModelError."""
    refuse_fields(body, NOT_TAKEN, "Gemini")
    settings = {new: body[old] for old, new in SETTINGS.items() if old in body}
    if "response_format" in body:
        schema = body["response_format"]["json_schema"]["schema"]
        settings |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    system = [
        {"text": message["content"]} for message in body["messages"] if message["role"] == "system"
    ]
    turns = [
        {
            "role": "model" if message["role"] == "assistant" else "user",
            "parts": _parts(message["content"]),
        }
        for message in body["messages"]
        if message["role"] != "system"
    ]
    request = {name: value for name, value in body.items() if name not in LEFT_OUT} | {
        "contents": turns
    }
    if system:
        request["systemInstruction"] = {"parts": system}
    settings |= body.get("generationConfig", {})
    return request | ({"generationConfig": settings} if settings else {})


def _parts(content: Any) -> list[Json]:
    parts: Sequence[Json] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
    )
    converted: list[Json] = []
    for part in parts:
        if part["type"] == "text":
            converted.append({"text": part["text"]})
        else:
            kind, data = split_data_url(part["image_url"]["url"])
            converted.append({"inlineData": {"mimeType": kind, "data": data}})
    return converted


def _answer(row: Mapping[str, Any]) -> HttpResponse:
    if response := row.get("response"):
        return answer(200, completion_of(response))
    error = row.get("error") or {}
    status = STATUS.get(str(error.get("status")), 400 if error.get("code") in (3, 400) else 500)
    return answer(status, {"error": error})


def completion_of(response: Mapping[str, Any]) -> Json:
    """An answer of generateContent as a chat completion; a prompt that was blocked is a filtered
    reply."""
    candidates, usage = response.get("candidates") or (), response.get("usageMetadata") or {}
    parts: Sequence[Mapping[str, Any]] = ()
    reason = "content_filter"
    if candidates:
        parts = (candidates[0].get("content") or {}).get("parts") or ()
        reason = str(candidates[0].get("finishReason") or "error")
    texts = {
        thought: "".join(
            str(part.get("text") or "") for part in parts if bool(part.get("thought")) is thought
        )
        for thought in (False, True)
    }
    thoughts = int(usage.get("thoughtsTokenCount") or 0)
    reply = {"role": "assistant", "content": texts[False], "reasoning_content": texts[True]}
    return {
        "model": response.get("modelVersion"),
        "choices": [{"message": reply, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": usage.get("promptTokenCount") or 0,
            "completion_tokens": int(usage.get("candidatesTokenCount") or 0) + thoughts,
            "completion_tokens_details": {"reasoning_tokens": thoughts},
            "prompt_tokens_details": {"cached_tokens": usage.get("cachedContentTokenCount") or 0},
        },
    }


def _batch(data: Mapping[str, Any]) -> Batch:
    about = data.get("metadata") or {}
    stats = about.get("batchStats") or {}
    total, pending = (int(stats.get(f"{name}Count") or 0) for name in ("request", "pendingRequest"))
    state = str(about.get("state")).rpartition("STATE_")[2]
    error = data.get("error") or {}
    reason = (
        str(error.get("message") or "it does not say why") if state == "FAILED" or error else ""
    )
    return Batch(
        str(data["name"]),
        bool(data.get("done")) or state in FINAL,
        total - pending,
        total,
        (),
        reason,
    )

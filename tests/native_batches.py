"""The batch endpoints of Anthropic and Gemini for tests, each in its own protocol."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

Json = dict[str, Any]


class NativeEndpoints:
    """Batches under their own paths; `answer` gives the chat completion to a body of the
    chat-completions protocol.

    A batch takes `seconds`. With `expire` the first one leaves out every third request.
    """

    def __init__(
        self, answer: Callable[[Json], web.Response], seconds: float, expire: bool
    ) -> None:
        self.answer, self.seconds, self.expire = answer, seconds, expire
        self.batches: dict[str, Json] = {}
        self.requests = 0
        self.keys: set[str | None] = set()

    def routes(self) -> list[web.RouteDef]:
        """What the application serves."""
        return [
            web.post("/v1/messages/batches", self.create_messages),
            web.get("/v1/messages/batches", self.list_messages),
            web.get("/v1/messages/batches/{id}", self.show_messages),
            web.get("/v1/messages/batches/{id}/results", self.results),
            web.post("/v1beta/models/{call}", self.generate),
            web.get("/v1beta/batches", self.list_operations),
            web.get("/v1beta/batches/{id}", self.show_operation),
        ]

    def _begin(self, name: str, rows: list[Json], **more: Any) -> Json:
        self.requests += len(rows)
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self.batches[name] = {
            "id": name,
            "rows": rows,
            "until": time.monotonic() + self.seconds,
            "at": now,
            **more,
        }
        return self.batches[name]

    def _rows(self, batch: Json) -> list[Json]:
        """The requests of a batch that were answered."""
        first = self.expire and batch is next(iter(self.batches.values()))
        return [row for number, row in enumerate(batch["rows"]) if not (first and number % 3 == 0)]

    async def create_messages(self, request: web.Request) -> web.Response:
        """Begin a batch of messages."""
        assert (
            request.headers["anthropic-version"] == "2023-06-01"
            and "Authorization" not in request.headers
        )
        self.keys.add(request.headers.get("x-api-key"))
        rows = (await request.json())["requests"]
        assert len({row["custom_id"] for row in rows}) == len(rows)
        return web.json_response(
            self._message_batch(self._begin(f"msgbatch_{len(self.batches)}", rows))
        )

    async def list_messages(self, request: web.Request) -> web.Response:
        """The last ones first."""
        return web.json_response(
            {"data": [self._message_batch(each) for each in reversed(self.batches.values())]}
        )

    async def show_messages(self, request: web.Request) -> web.Response:
        """A batch of messages."""
        return web.json_response(self._message_batch(self.batches[request.match_info["id"]]))

    def _message_batch(self, batch: Json) -> Json:
        over, total, done = (
            time.monotonic() >= batch["until"],
            len(batch["rows"]),
            len(self._rows(batch)),
        )
        counts = {
            "processing": 0 if over else total,
            "succeeded": done if over else 0,
            "canceled": 0,
            "errored": 0,
        }
        counts["expired"] = total - done if over else 0
        status = "ended" if over else "in_progress"
        return {
            "id": batch["id"],
            "type": "message_batch",
            "processing_status": status,
            "request_counts": counts,
            "created_at": batch["at"],
        }

    async def results(self, request: web.Request) -> web.Response:
        """One line for every request, the last one first."""
        batch = self.batches[request.match_info["id"]]
        answered = {
            row["custom_id"]: self._message_result(row["params"]) for row in self._rows(batch)
        }
        lines = [
            {
                "custom_id": row["custom_id"],
                "result": answered.get(row["custom_id"], {"type": "expired"}),
            }
            for row in reversed(batch["rows"])
        ]
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        return web.Response(body=body, content_type="application/x-jsonl")

    def _message_result(self, params: Json) -> Json:
        assert params["max_tokens"] > 0 and params["messages"][0]["role"] == "user"
        turns = [
            {"role": t["role"], "content": [_as_chat(b) for b in t["content"]]}
            for t in params["messages"]
        ]
        status, said = self._said(params["model"], turns)
        if status != 200:
            error = {"type": "invalid_request_error", "message": said["error"]["message"]}
            return {"type": "errored", "error": {"type": "error", "error": error}}
        usage = {
            "input_tokens": said["usage"]["prompt_tokens"],
            "output_tokens": said["usage"]["completion_tokens"],
        }
        content = [{"type": "text", "text": said["choices"][0]["message"]["content"]}]
        message = {
            "type": "message",
            "role": "assistant",
            "model": params["model"],
            "content": content,
        }
        return {
            "type": "succeeded",
            "message": message | {"stop_reason": "end_turn", "usage": usage},
        }

    def _said(self, model: str, turns: list[Json]) -> tuple[int, Json]:
        answer = self.answer({"model": model, "messages": turns})
        return answer.status, json.loads(str(answer.text))

    async def generate(self, request: web.Request) -> web.Response:
        """Begin a batch of requests to generate content."""
        model, _, verb = request.match_info["call"].partition(":")
        assert verb == "batchGenerateContent" and "Authorization" not in request.headers
        self.keys.add(request.headers.get("x-goog-api-key"))
        wanted = (await request.json())["batch"]
        rows = wanted["inputConfig"]["requests"]["requests"]
        name = f"batches/{len(self.batches)}"
        return web.json_response(
            self._operation(self._begin(name, rows, label=wanted["displayName"], model=model))
        )

    async def list_operations(self, request: web.Request) -> web.Response:
        """The last ones first."""
        return web.json_response(
            {"operations": [self._operation(each) for each in reversed(self.batches.values())]}
        )

    async def show_operation(self, request: web.Request) -> web.Response:
        """A batch with its answers, which do not say whose they are, once it is over."""
        return web.json_response(
            self._operation(self.batches[f"batches/{request.match_info['id']}"])
        )

    def _operation(self, batch: Json) -> Json:
        over, total = time.monotonic() >= batch["until"], str(len(batch["rows"]))
        stats = {"requestCount": total, **({} if over else {"pendingRequestCount": total})}
        state = "BATCH_STATE_SUCCEEDED" if over else "BATCH_STATE_RUNNING"
        about = {"state": state, "displayName": batch["label"], "batchStats": stats}
        found: Json = {"name": batch["id"], "metadata": about}
        if over:
            rows = [self._content_answer(batch["model"], row["request"]) for row in batch["rows"]]
            found |= {"done": True, "response": {"inlinedResponses": {"inlinedResponses": rows}}}
        return found

    def _content_answer(self, model: str, request: Json) -> Json:
        turns = [
            {
                "role": "user" if turn["role"] == "user" else "assistant",
                "content": list(map(_as_chat, turn["parts"])),
            }
            for turn in request["contents"]
        ]
        status, said = self._said(model, turns)
        if status != 200:
            return {
                "error": {
                    "code": 3,
                    "status": "INVALID_ARGUMENT",
                    "message": said["error"]["message"],
                }
            }
        usage = said["usage"]
        counts = {
            "promptTokenCount": usage["prompt_tokens"],
            "candidatesTokenCount": usage["completion_tokens"],
        }
        content = {"role": "model", "parts": [{"text": said["choices"][0]["message"]["content"]}]}
        candidate = {"content": content, "finishReason": "STOP"}
        return {
            "response": {"candidates": [candidate], "usageMetadata": counts, "modelVersion": model}
        }


def _as_chat(part: Json) -> Json:
    """A block of a message or a part of a content as the chat-completions protocol has it."""
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "inlineData" in part:
        kind, data = part["inlineData"]["mimeType"], part["inlineData"]["data"]
    else:
        kind, data = part["source"]["media_type"], part["source"]["data"]
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}

"""Batch endpoints of the test server, one set for the protocol of each provider."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

Json = dict[str, Any]


def to_lines(rows: list[Json]) -> bytes:
    """Return the rows as JSON lines, in reverse order."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in reversed(rows))


class BatchEndpoints:
    """Files and batches; `answer` gives the response to a body of the chat-completions protocol.

    A batch takes `seconds`. With `expire`, the first batch of each protocol skips every third
    request. With `refuse`, OpenAI's first batch fails with this message.
    """

    def __init__(
        self, answer: Callable[[Json], web.Response], seconds: float, expire: bool, refuse: str
    ) -> None:
        self.answer, self.seconds, self.expire, self.refuse = answer, seconds, expire, refuse
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Json] = {}
        self.requests = 0
        self.keys: set[str | None] = set()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the application."""
        routes = [
            web.post("/v1/files", self.upload),
            web.get("/v1/files/{id}/content", self.content),
            web.get("/v1/messages/batches/{id}/results", self.results),
        ]
        for path, create, shown, listed in (
            ("/v1/batches", self.create_openai, self.openai_batch, "data"),
            ("/v1/messages/batches", self.create_messages, self.message_batch, "data"),
            ("/v1beta/batches", self.create_contents, self.operation, "operations"),
        ):
            kind = path.split("/")[-2]
            post = "/v1beta/models/{call}" if kind == "v1beta" else path
            routes += [
                web.post(post, self.serve_create(kind, create, shown)),
                web.get(path, self.serve_list(kind, shown, listed)),
                web.get(path + "/{id}", self.serve_batch(kind, shown)),
            ]
        return routes

    def serve_create(self, kind: str, create: Any, shown: Callable[[Json], Json]) -> Any:
        """Return a handler that creates a batch from the rows and facts that `create` reads."""

        async def begin(request: web.Request) -> web.Response:
            rows, facts = create(request, await request.json())
            self.requests += len(rows)
            name = f"{kind}/{len(self.batches)}" if kind == "v1beta" else f"b{len(self.batches)}"
            is_first = not any(batch["kind"] == kind for batch in self.batches.values())
            left = [row for number, row in enumerate(rows) if number % 3 or not self.expire]
            self.batches[name.replace("v1beta", "batches")] = batch = {
                "id": name.replace("v1beta", "batches"),
                "kind": kind,
                "first": is_first,
                "rows": rows,
                "answered": left if is_first else rows,
                "at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
                "until": time.monotonic() + self.seconds,
                **facts,
            }
            return web.json_response(shown(batch))

        return begin

    def serve_list(self, kind: str, shown: Callable[[Json], Json], listed: str) -> Any:
        """Return a handler that lists the batches, the newest first."""

        async def show(request: web.Request) -> web.Response:
            batches = [batch for batch in self.batches.values() if batch["kind"] == kind]
            return web.json_response({listed: [shown(batch) for batch in reversed(batches)]})

        return show

    def serve_batch(self, kind: str, shown: Callable[[Json], Json]) -> Any:
        """Return a handler that shows one batch."""

        async def show(request: web.Request) -> web.Response:
            name = request.match_info["id"]
            name = f"batches/{name}" if kind == "v1beta" else name
            return web.json_response(shown(self.batches[name]))

        return show

    def get_answer(self, body: Json) -> tuple[int, Json]:
        """Return the status and the JSON value of the answer to a body."""
        answer = self.answer(body)
        return answer.status, json.loads(str(answer.text))

    # OpenAI

    async def upload(self, request: web.Request) -> web.Response:
        """Store the file of a form."""
        form = await request.post()
        file = form["file"]
        assert form["purpose"] == "batch" and isinstance(file, web.FileField)
        return web.json_response({"id": self.keep(file.file.read()), "object": "file"})

    def keep(self, data: bytes) -> str:
        """Store a file and return its name."""
        name = f"file-{len(self.files)}"
        self.files[name] = data
        return name

    async def content(self, request: web.Request) -> web.Response:
        """Serve the content of a file."""
        data = self.files[request.match_info["id"]]
        return web.Response(body=data, content_type="application/jsonl")

    def create_openai(self, request: web.Request, wanted: Json) -> tuple[list[Json], Json]:
        """Read the requests of an uploaded file."""
        assert wanted["endpoint"] == "/v1/chat/completions" and wanted["completion_window"] == "24h"
        lines = [json.loads(line) for line in self.files[wanted["input_file_id"]].splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        counts = {"total": len(lines), "completed": 0, "failed": 0}
        shown = {"metadata": wanted.get("metadata"), "request_counts": counts}
        return lines, {"shown": shown | {"status": "in_progress"}}

    def openai_batch(self, batch: Json) -> Json:
        """Return the batch, finished once its time is over."""
        shown = batch["shown"]
        if shown["status"] == "in_progress" and time.monotonic() >= batch["until"]:
            if self.refuse and batch["first"]:
                shown["status"], shown["errors"] = "failed", {"data": [{"message": self.refuse}]}
            else:
                self.finish_openai(batch, shown)
        return {"id": batch["id"], **shown}

    def finish_openai(self, batch: Json, shown: Json) -> None:
        """Answer the requests that do not expire."""
        rows: dict[str, list[Json]] = {"output_file_id": [], "error_file_id": []}
        for line in batch["answered"]:
            status, body = self.get_answer(line["body"])
            response = {"status_code": status, "request_id": "r", "body": body}
            row = {"custom_id": line["custom_id"], "response": response, "error": None}
            rows["output_file_id" if status == 200 else "error_file_id"].append(row)
        shown |= {name: self.keep(to_lines(answers)) for name, answers in rows.items() if answers}
        shown["request_counts"]["completed"] = len(rows["output_file_id"])
        shown["request_counts"]["failed"] = len(rows["error_file_id"])
        is_whole = len(batch["answered"]) == len(batch["rows"])
        shown["status"] = "completed" if is_whole else "expired"

    # Anthropic

    def create_messages(self, request: web.Request, wanted: Json) -> tuple[list[Json], Json]:
        """Read the requests of a batch of messages."""
        assert request.headers["anthropic-version"] == "2023-06-01"
        assert "Authorization" not in request.headers
        self.keys.add(request.headers.get("x-api-key"))
        rows = wanted["requests"]
        assert len({row["custom_id"] for row in rows}) == len(rows)
        return rows, {}

    def message_batch(self, batch: Json) -> Json:
        """Return the batch in the format of Anthropic's protocol."""
        total, done = len(batch["rows"]), len(batch["answered"])
        counts = dict.fromkeys(("processing", "succeeded", "canceled", "errored", "expired"), 0)
        is_over = time.monotonic() >= batch["until"]
        ended = {"succeeded": done, "expired": total - done}
        counts |= ended if is_over else {"processing": total}
        status = "ended" if is_over else "in_progress"
        facts = {"id": batch["id"], "processing_status": status, "created_at": batch["at"]}
        return facts | {"type": "message_batch", "request_counts": counts}

    async def results(self, request: web.Request) -> web.Response:
        """Serve one line for every request, in reverse order."""
        batch = self.batches[request.match_info["id"]]
        lines = []
        for row in batch["rows"]:
            is_answered = row in batch["answered"]
            result = self.message_result(row["params"]) if is_answered else {"type": "expired"}
            lines.append({"custom_id": row["custom_id"], "result": result})
        return web.Response(body=to_lines(lines), content_type="application/x-jsonl")

    def message_result(self, params: Json) -> Json:
        """Return the result of one request."""
        assert params["max_tokens"] > 0 and params["messages"][0]["role"] == "user"
        turns = [turn | {"content": as_chat(turn["content"])} for turn in params["messages"]]
        status, answer = self.get_answer({"model": params["model"], "messages": turns})
        if status != 200:
            error = {"type": "invalid_request_error", "message": answer["error"]["message"]}
            return {"type": "errored", "error": {"type": "error", "error": error}}
        usage, text = answer["usage"], answer["choices"][0]["message"]["content"]
        message = {
            "type": "message",
            "role": "assistant",
            "model": params["model"],
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {
                "input_tokens": usage["prompt_tokens"],
                "output_tokens": usage["completion_tokens"],
            },
        }
        return {"type": "succeeded", "message": message}

    # Gemini

    def create_contents(self, request: web.Request, wanted: Json) -> tuple[list[Json], Json]:
        """Read the requests of a batch that generates content."""
        model, _, verb = request.match_info["call"].partition(":")
        assert verb == "batchGenerateContent" and "Authorization" not in request.headers
        self.keys.add(request.headers.get("x-goog-api-key"))
        batch = wanted["batch"]
        facts = {"label": batch["displayName"], "model": model}
        return batch["inputConfig"]["requests"]["requests"], facts

    def operation(self, batch: Json) -> Json:
        """Return a batch, with its answers once it is over; answers do not contain their keys."""
        is_over, total = time.monotonic() >= batch["until"], str(len(batch["rows"]))
        stats = {"requestCount": total, **({} if is_over else {"pendingRequestCount": total})}
        state = "BATCH_STATE_SUCCEEDED" if is_over else "BATCH_STATE_RUNNING"
        about = {"state": state, "displayName": batch["label"], "batchStats": stats}
        operation: Json = {"name": batch["id"], "metadata": about}
        if not is_over:
            return operation
        rows = [self.content_answer(batch["model"], row["request"]) for row in batch["rows"]]
        answers = {"inlinedResponses": {"inlinedResponses": rows}}
        return operation | {"done": True, "response": answers}

    def content_answer(self, model: str, request: Json) -> Json:
        """Return the result of one request."""
        roles = {"model": "assistant", "user": "user"}
        turns = [
            {"role": roles[turn["role"]], "content": as_chat(turn["parts"])}
            for turn in request["contents"]
        ]
        status, said = self.get_answer({"model": model, "messages": turns})
        if status != 200:
            error = {"code": 3, "status": "INVALID_ARGUMENT", "message": said["error"]["message"]}
            return {"error": error}
        usage, text = said["usage"], said["choices"][0]["message"]["content"]
        content = {"role": "model", "parts": [{"text": text}]}
        counts = {
            "promptTokenCount": usage["prompt_tokens"],
            "candidatesTokenCount": usage["completion_tokens"],
        }
        candidates = [{"content": content, "finishReason": "STOP"}]
        answer = {"candidates": candidates, "usageMetadata": counts, "modelVersion": model}
        return {"response": answer}


def as_chat(parts: list[Json]) -> list[Json]:
    """Convert blocks of a message or parts of a content to the chat-completions protocol."""
    converted: list[Json] = []
    for part in parts:
        if "text" in part:
            converted.append({"type": "text", "text": part["text"]})
            continue
        source = part.get("inlineData") or part["source"]
        kind = source.get("mimeType") or source["media_type"]
        url = f"data:{kind};base64,{source['data']}"
        converted.append({"type": "image_url", "image_url": {"url": url}})
    return converted

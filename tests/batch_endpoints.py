"""The batch endpoints of the server for tests: files go up, batches are over after a while, files
come down."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

Json = dict[str, Any]


class BatchEndpoints:
    """Files and batches; `answer` gives the response to a request's body.

    A batch takes `seconds`. The first one leaves out every third request where it is to `expire`,
    and is not taken where there is something to `refuse` it for.
    """

    def __init__(
        self, answer: Callable[[Json], web.Response], seconds: float, expire: bool, refuse: str
    ) -> None:
        self.answer, self.seconds, self.expire, self.refuse = answer, seconds, expire, refuse
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Json] = {}
        self.requests = 0

    def routes(self) -> list[web.RouteDef]:
        """What the application serves."""
        return [
            web.post("/v1/files", self.upload),
            web.get("/v1/files/{id}/content", self.content),
            web.post("/v1/batches", self.create),
            web.get("/v1/batches", self.list),
            web.get("/v1/batches/{id}", self.show),
        ]

    async def upload(self, request: web.Request) -> web.Response:
        """Keep the file of a form."""
        form = await request.post()
        assert form["purpose"] == "batch"
        file = form["file"]
        assert isinstance(file, web.FileField)
        return web.json_response(
            {"id": self._keep(file.file.read()), "object": "file", "purpose": "batch"}
        )

    async def content(self, request: web.Request) -> web.Response:
        """A file."""
        return web.Response(
            body=self.files[request.match_info["id"]], content_type="application/jsonl"
        )

    async def create(self, request: web.Request) -> web.Response:
        """Begin a batch."""
        wanted = await request.json()
        assert wanted["endpoint"] == "/v1/chat/completions" and wanted["completion_window"] == "24h"
        lines = [json.loads(line) for line in self.files[wanted["input_file_id"]].splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        self.requests += len(lines)
        name = f"batch_{len(self.batches)}"
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "status": "in_progress",
            "metadata": wanted.get("metadata"),
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
            "lines": lines,
            "until": time.monotonic() + self.seconds,
        }
        return web.json_response(self._shown(name))

    async def list(self, request: web.Request) -> web.Response:
        """The last ones first."""
        return web.json_response(
            {"object": "list", "data": [self._shown(name) for name in reversed(self.batches)]}
        )

    async def show(self, request: web.Request) -> web.Response:
        """A batch, done where its time is over."""
        name = request.match_info["id"]
        batch = self.batches[name]
        if batch["status"] == "in_progress" and time.monotonic() >= batch["until"]:
            self._finish(name)
        return web.json_response(self._shown(name))

    def _finish(self, name: str) -> None:
        batch = self.batches[name]
        if self.refuse and name == "batch_0":
            batch |= {
                "status": "failed",
                "errors": {"data": [{"code": "limit", "message": self.refuse}]},
            }
            return
        expired = self.expire and name == "batch_0"
        found: dict[str, list[Json]] = {"output_file_id": [], "error_file_id": []}
        for number, line in enumerate(batch["lines"]):
            if expired and number % 3 == 0:
                continue
            answer = self.answer(line["body"])
            response = {
                "status_code": answer.status,
                "request_id": "r",
                "body": json.loads(str(answer.text)),
            }
            row = {
                "id": f"r{number}",
                "custom_id": line["custom_id"],
                "response": response,
                "error": None,
            }
            found["output_file_id" if answer.status == 200 else "error_file_id"].append(row)
        for file, rows in found.items():
            if rows:
                batch[file] = self._keep(
                    b"".join(json.dumps(row).encode() + b"\n" for row in reversed(rows))
                )
        counts = {"completed": len(found["output_file_id"]), "failed": len(found["error_file_id"])}
        batch["request_counts"] |= counts
        batch["status"] = "expired" if expired else "completed"

    def _keep(self, data: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = data
        return name

    def _shown(self, name: str) -> Json:
        return {
            key: value for key, value in self.batches[name].items() if key not in ("lines", "until")
        }

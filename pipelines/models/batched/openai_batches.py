"""The batch endpoints of the OpenAI API: a file of requests goes up, and within a day a file of
answers comes down."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from looktwice.pipelines.models.batched.dialect import Batch, Dialect, answer, line_of, understood
from looktwice.pipelines.models.http_client import HttpResponse

PATH = "/v1/chat/completions"
FINAL = {"completed", "failed", "expired", "cancelled"}


@dataclass(frozen=True)
class OpenAIBatches(Dialect):
    """The dialect of OpenAI, and of the servers that copy it."""

    most_bytes = 100_000_000  # the provider takes 200 MB

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """The request as a line of the file that goes up."""
        return line_of(key, {"method": "POST", "url": PATH, "body": body})

    def create(self, lines: Sequence[bytes], label: str) -> Batch:
        """Hand in the lines. Raises ModelError."""
        border = uuid.uuid4().hex
        parts = [
            f'--{border}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n',
            (
                f'--{border}\r\nContent-Disposition: form-data; name="file";'
                ' filename="requests.jsonl"\r\nContent-Type: application/jsonl\r\n\r\n'
            ),
        ]
        whole = "".join(parts).encode() + b"".join(lines) + f"\r\n--{border}--\r\n".encode()
        kind = f"multipart/form-data; boundary={border}"
        file = self.post("files", whole, kind)
        wanted = {
            "input_file_id": str(file.get("id")),
            "endpoint": PATH,
            "completion_window": "24h",
            "metadata": {"looktwice": label},
        }
        with understood(self.url):
            return _batch(self.post("batches", json.dumps(wanted).encode()))

    def look_at(self, identifier: str) -> Batch:
        """How far a batch is. Raises ModelError."""
        with understood(self.url):
            return _batch(self.get(f"batches/{identifier}"))

    def find(self, label: str, size: int, since: float) -> Batch | None:
        """The batch of this label, among the last hundred. Raises ModelError."""
        with understood(self.url):
            batches = self.get("batches?limit=100").get("data") or ()
            named = (
                batch
                for batch in batches
                if (batch.get("metadata") or {}).get("looktwice") == label
            )
            return next(map(_batch, named), None)

    def answers(self, batch: Batch, keys: Sequence[str]) -> Iterator[tuple[str, HttpResponse]]:
        """The answers in any order. Raises ModelError."""
        for file in batch.files:
            yield from self.rows(f"files/{file}/content", _answer)


def _answer(row: Mapping[str, Any]) -> tuple[str, HttpResponse]:
    response = row.get("response") or {"status_code": 500, "body": {"error": row.get("error")}}
    return str(row["custom_id"]), answer(int(response["status_code"]), response.get("body"))


def _batch(data: Mapping[str, Any]) -> Batch:
    counts = data.get("request_counts") or {}
    errors = (data.get("errors") or {}).get("data") or ()
    state = str(data.get("status"))
    reasons = "; ".join(str(each.get("message")) for each in errors)
    return Batch(
        id=str(data["id"]),
        is_over=state in FINAL,
        done=int(counts.get("completed") or 0) + int(counts.get("failed") or 0),
        total=int(counts.get("total") or 0),
        files=tuple(
            str(data[name]) for name in ("output_file_id", "error_file_id") if data.get(name)
        ),
        error=(reasons or "it does not say why") if state == "failed" else "",
    )

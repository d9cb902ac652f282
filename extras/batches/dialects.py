"""Each provider's batch protocol, as one server class per provider.

Sources: the batch API of OpenAI and of the servers that copy it; Anthropic's Messages and Message
Batches API, version 2023-06-01; models.batchGenerateContent and batches of the Gemini API, v1beta.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from looktwice.extras.wires.gemini import make_content_completion, make_content_request
from looktwice.extras.wires.messages import make_message_completion, make_message_request
from looktwice.extras.wires.native import make_contents_headers, make_messages_headers
from looktwice.extras.wires.turns import Json, parse_count
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.answers import make_refusal, read_value
from looktwice.pipelines.models.chat_api import ChatAPI, make_bearer_header
from looktwice.pipelines.models.http_client import HttpResponse

Answer = tuple[str, int, Any]
"""The key of a request, with the status and body of the response that a direct request would
get."""
MAX_FILE_BYTES = 1 << 30  # maximum bytes of a batch's answers
FINAL_STATES = {"completed", "failed", "expired", "cancelled", "succeeded", "partially_succeeded"}
STATUS_CODES = {
    "invalid_request_error": 400,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "INVALID_ARGUMENT": 400,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
}


class Batch(NamedTuple):
    """A batch as the server describes it; `error` is the reason for a refusal, or empty."""

    id: str
    is_over: bool
    answered_count: int = 0
    request_count: int = 0
    files: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class BatchServer:
    """The batch endpoints below `url` of `chat`'s server, in the protocol of OpenAI and of servers
    that copy it. Classes for other providers override `convert_body`, `submit`, `parse_batch` and
    other methods that differ.

    `max_bytes` limits the requests of a batch. Paths are relative to the URL: a batch is at
    `batch_path`, and the last hundred batches are in the field `list_field` of the response to
    `list_path`. Bodies of requests are the ones that `chat` sends directly: those of chat
    completions are converted, those of the provider's own protocol are not. Every method raises
    ModelError.
    """

    chat: ChatAPI
    url: str
    max_bytes: ClassVar[int] = 100_000_000  # OpenAI accepts 200 MB, Anthropic 256
    batch_path: ClassVar[str] = "batches/"
    list_path: ClassVar[str] = "batches?limit=100"
    list_field: ClassVar[str] = "data"

    @property
    def is_native(self) -> bool:
        """True if direct requests are in the provider's own protocol."""
        return bool(getattr(self.chat, "dialect", ""))

    def make_auth_headers(self, key: str | None) -> dict[str, str]:
        """Return the headers that carry the API key; empty if there is none."""
        return make_bearer_header(key)

    def convert_body(self, body: Json) -> Json:
        """Convert the body of a direct request to the fields of a line in a batch."""
        return {"method": "POST", "url": f"/v1/{self.chat.path}", "body": body}

    def submit(self, lines: Sequence[bytes], label: str) -> Json:
        """Submit lines under a label; return the server's description of the batch."""
        border = uuid.uuid4().hex
        head = (
            f'--{border}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="requests.jsonl"'
            "\r\nContent-Type: application/jsonl\r\n\r\n"
        )
        form = b"".join((head.encode(), *lines, f"\r\n--{border}--\r\n".encode()))
        file = self.post("files", form, f"multipart/form-data; boundary={border}")
        wanted = {
            "input_file_id": str(file.get("id")),
            "endpoint": f"/v1/{self.chat.path}",
            "completion_window": "24h",
            "metadata": {"looktwice": label},
        }
        return self.post("batches", json.dumps(wanted).encode())

    def parse_batch(self, data: Json) -> Batch:
        """Parse a server's description of a batch."""
        counts, state = data.get("request_counts") or {}, str(data.get("status"))
        errors = (data.get("errors") or {}).get("data") or ()
        reasons = "; ".join(str(error.get("message")) for error in errors)
        files = (data.get("output_file_id"), data.get("error_file_id"))
        return Batch(
            str(data["id"]),
            state in FINAL_STATES,
            parse_count(counts, "completed") + parse_count(counts, "failed"),
            parse_count(counts, "total"),
            tuple(str(file) for file in files if file),
            (reasons or "no reason given") if state == "failed" else "",
        )

    def is_match(self, data: Json, label: str, size: int, since: float) -> bool:
        """Return whether a description belongs to the batch with this label, number of requests and
        time of submission in seconds."""
        return bool((data.get("metadata") or {}).get("looktwice") == label)

    def read_results(self, batch: Batch, keys: Sequence[str]) -> Iterator[Answer]:
        """Yield the answers of a batch; `keys` are in the order of its lines."""
        for file in batch.files:
            for row in self.read_lines(f"files/{file}/content"):
                failed: Json = {"status_code": 500, "body": {"error": row.get("error")}}
                response = row.get("response") or failed
                yield str(row["custom_id"]), int(response["status_code"]), response.get("body")

    def format_line(self, key: str, body: Json) -> bytes:
        """Format the line of a request in a batch from the body of a direct request; its first
        field is the key."""
        row = {"custom_id": key, **self.convert_body(body)}
        return json.dumps(row, separators=(",", ":")).encode() + b"\n"

    def create(self, lines: Sequence[bytes], label: str) -> Batch:
        """Submit the lines as a batch, and return its state."""
        with self._convert_format_errors():
            return self.parse_batch(self.submit(lines, label))

    def get_status(self, identifier: str) -> Batch:
        """Return the state of a batch."""
        with self._convert_format_errors():
            return self.parse_batch(self.get(self.batch_path + identifier))

    def find(self, label: str, size: int, since: float) -> Batch | None:
        """Find the batch of `size` requests that was submitted under a label at time `since`, in
        seconds, or later."""
        with self._convert_format_errors():
            for data in reversed(self.get(self.list_path).get(self.list_field) or ()):
                if self.is_match(data, label, size, since):
                    return self.parse_batch(data)
        return None

    def yield_responses(
        self, batch: Batch, keys: Sequence[str]
    ) -> Iterator[tuple[str, HttpResponse]]:
        """Yield each key with its response in the protocol of direct requests, leaving out requests
        that got no answer."""
        with self._convert_format_errors():
            for key, status, body in self.read_results(batch, keys):
                yield key, HttpResponse(status, {}, json.dumps(body).encode())

    def get(self, path: str) -> Json:
        """Return the JSON object at a path."""
        return self._parse_object(self._send("GET", path))

    def post(self, path: str, body: bytes, kind: str = "application/json") -> Json:
        """Send a body of this media type; return the JSON object in the response."""
        return self._parse_object(self._send("POST", path, body, kind))

    def read_lines(self, path: str) -> Iterator[Any]:
        """Yield the JSON value of each line of a file."""
        response = self._send("GET", path)
        if response.status != 200:
            raise make_refusal(response, self.url, {})
        yield from map(read_json, response.body.splitlines())

    def _send(
        self, method: str, path: str, body: bytes | None = None, kind: str = ""
    ) -> HttpResponse:
        seconds = self.chat.timeout
        return self.chat.send(
            method, self.url, path, body, seconds, kind, MAX_FILE_BYTES, self.make_auth_headers
        )

    def _parse_object(self, response: HttpResponse) -> Json:
        value = read_value(response, self.url)
        if not isinstance(value, dict):
            raise ModelError(
                f"{self.url} answered {value!r:.80} instead of a JSON object", retryable=True
            )
        return value

    @contextmanager
    def _convert_format_errors(self) -> Iterator[None]:
        """Convert errors raised by an unexpected response format to ModelError."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            raise ModelError(
                f"{self.url} describes a batch in an unknown form ({exc!r})", retryable=True
            ) from exc


def parse_key(line: bytes) -> str:
    """Return the key of a line that `BatchServer.format_line` wrote."""
    return line[len(b'{"custom_id":"') :].partition(b'"')[0].decode()


class AnthropicBatches(BatchServer):
    """Anthropic's batches. They have no labels: a batch whose id was lost is identified by its time
    and its size."""

    batch_path = "messages/batches/"
    list_path = "messages/batches?limit=100"

    def make_auth_headers(self, key: str | None) -> dict[str, str]:
        return make_messages_headers(key)

    def convert_body(self, body: Json) -> Json:
        return {"params": body if self.is_native else make_message_request(body)}

    def submit(self, lines: Sequence[bytes], label: str) -> Json:
        rows = b",".join(line.rstrip() for line in lines)
        return self.post("messages/batches", b'{"requests":[' + rows + b"]}")

    def parse_batch(self, data: Json) -> Batch:
        counts = data.get("request_counts") or {}
        total = sum(parse_count(counts, name) for name in counts)
        done = total - parse_count(counts, "processing")
        return Batch(str(data["id"]), data.get("processing_status") == "ended", done, total)

    def is_match(self, data: Json, label: str, size: int, since: float) -> bool:
        """Return whether a batch has `size` requests and was created no earlier than one second
        before `since`."""
        made = datetime.fromisoformat(data["created_at"]).timestamp()
        return self.parse_batch(data).request_count == size and made + 1 >= since

    def read_results(self, batch: Batch, keys: Sequence[str]) -> Iterator[Answer]:
        """Yield the results, without those of cancelled and expired requests."""
        for row in self.read_lines(f"messages/batches/{batch.id}/results"):
            key, result = str(row["custom_id"]), row["result"]
            if result["type"] == "succeeded":
                said = result["message"]
                yield key, 200, said if self.is_native else make_message_completion(said)
            elif result["type"] == "errored":
                error = result["error"].get("error") or result["error"]
                yield key, STATUS_CODES.get(str(error.get("type")), 500), {"error": error}


class GeminiBatches(BatchServer):
    """Gemini's batches: a long-running operation that contains its requests and answers."""

    max_bytes = 18_000_000  # the provider accepts 20 MB
    batch_path = ""
    list_path = "batches?pageSize=100"
    list_field = "operations"

    def make_auth_headers(self, key: str | None) -> dict[str, str]:
        return make_contents_headers(key)

    def convert_body(self, body: Json) -> Json:
        request = body if self.is_native else make_content_request(body)
        return {"model": self.chat.model, "request": request}

    def submit(self, lines: Sequence[bytes], label: str) -> Json:
        rows = [json.loads(line) for line in lines]
        requests = [
            {"request": row["request"], "metadata": {"key": row["custom_id"]}} for row in rows
        ]
        batch = {"displayName": label, "inputConfig": {"requests": {"requests": requests}}}
        path = f"models/{rows[0]['model'].removeprefix('models/')}:batchGenerateContent"
        return self.post(path, json.dumps({"batch": batch}).encode())

    def parse_batch(self, data: Json) -> Batch:
        about, error = data.get("metadata") or {}, data.get("error") or {}
        stats = about.get("batchStats") or {}
        state = str(about.get("state")).rpartition("STATE_")[2]
        total = parse_count(stats, "requestCount")
        is_over = bool(data.get("done")) or state.lower() in FINAL_STATES
        failed = state == "FAILED" or error
        reason = str(error.get("message") or "no reason given") if failed else ""
        done = total - parse_count(stats, "pendingRequestCount")
        return Batch(str(data["name"]), is_over, done, total, error=reason)

    def is_match(self, data: Json, label: str, size: int, since: float) -> bool:
        return bool(data["metadata"].get("displayName") == label)

    def read_results(self, batch: Batch, keys: Sequence[str]) -> Iterator[Answer]:
        """Yield the results in the order of the keys, because not every version returns keys."""
        operation = self.get(batch.id)
        output = operation.get("response") or operation["metadata"].get("output") or {}
        rows = (output.get("inlinedResponses") or {}).get("inlinedResponses") or ()
        for row, key in zip(rows, keys, strict=False):
            name = str((row.get("metadata") or {}).get("key") or key)
            if response := row.get("response"):
                yield name, 200, response if self.is_native else make_content_completion(response)
                continue
            error = row.get("error") or {}
            status = 400 if error.get("code") in (3, 400) else 500
            yield name, STATUS_CODES.get(str(error.get("status")), status), {"error": error}


DIALECTS: Mapping[str, type[BatchServer]] = {
    "openai": BatchServer,
    "anthropic": AnthropicBatches,
    "gemini": GeminiBatches,
}

"""How each provider is handed batches: a table of functions.

Sources: the batch API of OpenAI and of the servers that copy it; Anthropic's Messages and Message
Batches API, version 2023-06-01; models.batchGenerateContent and batches of the Gemini API, v1beta.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.answers import read_value, refusal
from looktwice.pipelines.models.batched.bodies import (
    Json,
    content_completion,
    content_request,
    message_completion,
    message_request,
    whole,
)
from looktwice.pipelines.models.chat_api import ChatAPI, Sign, bearer
from looktwice.pipelines.models.http_client import HttpResponse

Answer = tuple[str, int, Any]
"""The key of a request, and the status and body that the chat-completions protocol would bring."""
MOST_FILE = 1 << 30  # bytes of the answers of a batch
OVER = {"completed", "failed", "expired", "cancelled", "succeeded", "partially_succeeded"}
STATUS = {
    "invalid_request_error": 400,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "INVALID_ARGUMENT": 400,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
}


class Batch(NamedTuple):
    """A batch as the server describes it; `error` says why it was refused, where it was."""

    id: str
    is_over: bool
    done: int = 0
    total: int = 0
    files: tuple[str, ...] = ()
    error: str = ""


class Dialect(NamedTuple):
    """What differs between providers; paths are below the URL.

    `most_bytes` bounds the requests of a batch and `sign` gives the headers that bear the key.
    `request` makes the fields of a line from a body of the chat-completions protocol, `create`
    hands in lines under a label and gives the batch's description, which `describe` reads. A batch
    lies at `place`, the last hundred in the field `listed` of what `latest` gives; `is_named` tells
    whether a description is that of a label, a number of requests and a time in seconds.
    `answers` gives those of a batch; `keys` are in the order of its lines.
    """

    most_bytes: int
    sign: Sign
    request: Callable[[Json], Json]
    create: Callable[[BatchServer, Sequence[bytes], str], Json]
    describe: Callable[[Json], Batch]
    place: str
    latest: str
    listed: str
    is_named: Callable[[Json, str, int, float], bool]
    answers: Callable[[BatchServer, Batch, Sequence[str]], Iterator[Answer]]


@dataclass(frozen=True)
class BatchServer:
    """The server of `chat`, whose batch endpoints lie below `url`. Every method raises
    ModelError."""

    chat: ChatAPI
    url: str
    dialect: Dialect

    def line(self, key: str, body: Json) -> bytes:
        """The line of a request, given as a body of the chat-completions protocol; its first field
        is the key."""
        row = {"custom_id": key, **self.dialect.request(body)}
        return json.dumps(row, separators=(",", ":")).encode() + b"\n"

    def create(self, lines: Sequence[bytes], label: str) -> Batch:
        """Hand in the lines."""
        with self._understood():
            return self.dialect.describe(self.dialect.create(self, lines, label))

    def look_at(self, identifier: str) -> Batch:
        """How far a batch is."""
        with self._understood():
            return self.dialect.describe(self.get(self.dialect.place + identifier))

    def find(self, label: str, size: int, since: float) -> Batch | None:
        """The batch of so many requests that was handed in under a label, at or after a time in
        seconds."""
        with self._understood():
            for data in reversed(self.get(self.dialect.latest).get(self.dialect.listed) or ()):
                if self.dialect.is_named(data, label, size, since):
                    return self.dialect.describe(data)
        return None

    def answers(self, batch: Batch, keys: Sequence[str]) -> Iterator[tuple[str, HttpResponse]]:
        """Each key with its answer as of the chat-completions protocol; one that was not answered
        is missing."""
        with self._understood():
            for key, status, body in self.dialect.answers(self, batch, keys):
                yield key, HttpResponse(status, {}, json.dumps(body).encode())

    def get(self, path: str) -> Json:
        """The JSON object at a path."""
        return self._object(self._send("GET", path, None, ""))

    def post(self, path: str, body: bytes, kind: str = "application/json") -> Json:
        """The JSON object that answers a body of a media type."""
        return self._object(self._send("POST", path, body, kind))

    def rows(self, path: str) -> Iterator[Any]:
        """The JSON value in each line of a file."""
        response = self._send("GET", path, None, "")
        if response.status != 200:
            raise refusal(response, self.url, {})
        yield from map(read_json, response.body.splitlines())

    def _send(self, method: str, path: str, body: bytes | None, kind: str) -> HttpResponse:
        sign, seconds = self.dialect.sign, self.chat.timeout
        return self.chat.send(method, self.url, path, body, seconds, kind, MOST_FILE, sign)

    def _object(self, response: HttpResponse) -> Json:
        value = read_value(response, self.url)
        if not isinstance(value, dict):
            raise ModelError(
                f"{self.url} answered {value!r:.80} where a JSON object belongs", retryable=True
            )
        return value

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Inside, what is not of the shape that the API promises is a ModelError."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            raise ModelError(
                f"{self.url} describes a batch in another form ({exc!r})", retryable=True
            ) from exc


def key_of(line: bytes) -> str:
    """The key of a line that `BatchServer.line` wrote."""
    return line[len(b'{"custom_id":"') :].partition(b'"')[0].decode()


# OpenAI


def _create_openai(server: BatchServer, lines: Sequence[bytes], label: str) -> Json:
    border = uuid.uuid4().hex
    head = (
        f'--{border}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="requests.jsonl"'
        "\r\nContent-Type: application/jsonl\r\n\r\n"
    )
    form = b"".join((head.encode(), *lines, f"\r\n--{border}--\r\n".encode()))
    file = server.post("files", form, f"multipart/form-data; boundary={border}")
    wanted = {
        "input_file_id": str(file.get("id")),
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "metadata": {"looktwice": label},
    }
    return server.post("batches", json.dumps(wanted).encode())


def _describe_openai(data: Json) -> Batch:
    counts, state = data.get("request_counts") or {}, str(data.get("status"))
    errors = (data.get("errors") or {}).get("data") or ()
    reasons = "; ".join(str(error.get("message")) for error in errors)
    files = (data.get("output_file_id"), data.get("error_file_id"))
    return Batch(
        str(data["id"]),
        state in OVER,
        whole(counts, "completed") + whole(counts, "failed"),
        whole(counts, "total"),
        tuple(str(file) for file in files if file),
        (reasons or "it does not say why") if state == "failed" else "",
    )


def _answers_openai(server: BatchServer, batch: Batch, keys: Sequence[str]) -> Iterator[Answer]:
    for file in batch.files:
        for row in server.rows(f"files/{file}/content"):
            failed: Json = {"status_code": 500, "body": {"error": row.get("error")}}
            response = row.get("response") or failed
            yield str(row["custom_id"]), int(response["status_code"]), response.get("body")


# Anthropic. It has no labels: a batch whose name was lost is known by its time and its size.


def _create_anthropic(server: BatchServer, lines: Sequence[bytes], label: str) -> Json:
    rows = b",".join(line.rstrip() for line in lines)
    return server.post("messages/batches", b'{"requests":[' + rows + b"]}")


def _describe_anthropic(data: Json) -> Batch:
    counts = data.get("request_counts") or {}
    total = sum(whole(counts, name) for name in counts)
    done = total - whole(counts, "processing")
    return Batch(str(data["id"]), data.get("processing_status") == "ended", done, total)


def _is_anthropic(data: Json, label: str, size: int, since: float) -> bool:
    """The earliest of this size since then, to within a second."""
    made = datetime.fromisoformat(data["created_at"]).timestamp()
    return _describe_anthropic(data).total == size and made + 1 >= since


def _answers_anthropic(server: BatchServer, batch: Batch, keys: Sequence[str]) -> Iterator[Answer]:
    """What was cancelled or expired is missing."""
    for row in server.rows(f"messages/batches/{batch.id}/results"):
        key, result = str(row["custom_id"]), row["result"]
        if result["type"] == "succeeded":
            yield key, 200, message_completion(result["message"])
        elif result["type"] == "errored":
            error = result["error"].get("error") or result["error"]
            yield key, STATUS.get(str(error.get("type")), 500), {"error": error}


# Gemini


def _create_gemini(server: BatchServer, lines: Sequence[bytes], label: str) -> Json:
    rows = [json.loads(line) for line in lines]
    requests = [{"request": row["request"], "metadata": {"key": row["custom_id"]}} for row in rows]
    batch = {"displayName": label, "inputConfig": {"requests": {"requests": requests}}}
    path = f"models/{rows[0]['model'].removeprefix('models/')}:batchGenerateContent"
    return server.post(path, json.dumps({"batch": batch}).encode())


def _describe_gemini(data: Json) -> Batch:
    about, error = data.get("metadata") or {}, data.get("error") or {}
    stats, state = about.get("batchStats") or {}, str(about.get("state")).rpartition("STATE_")[2]
    total = whole(stats, "requestCount")
    is_over = bool(data.get("done")) or state.lower() in OVER
    failed = state == "FAILED" or error
    reason = str(error.get("message") or "it does not say why") if failed else ""
    done = total - whole(stats, "pendingRequestCount")
    return Batch(str(data["name"]), is_over, done, total, error=reason)


def _answers_gemini(server: BatchServer, batch: Batch, keys: Sequence[str]) -> Iterator[Answer]:
    """In the order of the keys, which not every version gives back."""
    operation = server.get(batch.id)
    output = operation.get("response") or operation["metadata"].get("output") or {}
    rows = (output.get("inlinedResponses") or {}).get("inlinedResponses") or ()
    for row, key in zip(rows, keys, strict=False):
        name = str((row.get("metadata") or {}).get("key") or key)
        if response := row.get("response"):
            yield name, 200, content_completion(response)
            continue
        error = row.get("error") or {}
        status = 400 if error.get("code") in (3, 400) else 500
        yield name, STATUS.get(str(error.get("status")), status), {"error": error}


DIALECTS: Mapping[str, Dialect] = {
    "openai": Dialect(
        most_bytes=100_000_000,  # the provider takes 200 MB
        sign=bearer,
        request=lambda body: {"method": "POST", "url": "/v1/chat/completions", "body": body},
        create=_create_openai,
        describe=_describe_openai,
        place="batches/",
        latest="batches?limit=100",
        listed="data",
        is_named=lambda data, label, size, since: (
            (data.get("metadata") or {}).get("looktwice") == label
        ),
        answers=_answers_openai,
    ),
    "anthropic": Dialect(
        most_bytes=100_000_000,  # the provider takes 256 MB
        sign=lambda key: {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {}),
        request=lambda body: {"params": message_request(body)},
        create=_create_anthropic,
        describe=_describe_anthropic,
        place="messages/batches/",
        latest="messages/batches?limit=100",
        listed="data",
        is_named=_is_anthropic,
        answers=_answers_anthropic,
    ),
    "gemini": Dialect(
        most_bytes=18_000_000,  # the provider takes 20 MB
        sign=lambda key: {"x-goog-api-key": key} if key else {},
        request=lambda body: {"model": body["model"], "request": content_request(body)},
        create=_create_gemini,
        describe=_describe_gemini,
        place="",
        latest="batches?pageSize=100",
        listed="operations",
        is_named=lambda data, label, size, since: data["metadata"].get("displayName") == label,
        answers=_answers_gemini,
    ),
}

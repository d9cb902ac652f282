"""The batch endpoints of the OpenAI API: a file of requests goes up, and within a day a file of answers comes down."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.chat_api import read_value, refusal
from looktwice.pipelines.models.http_client import HttpResponse

PATH = "/v1/chat/completions"
FINAL = {"completed", "failed", "expired", "cancelled"}
Send = Callable[[str, str, bytes | None, str], HttpResponse]
"""Method, path below the URL, body and its media type; the answer, whatever its status."""


@dataclass(frozen=True)
class Batch:
    """A batch as the server describes it."""

    id: str
    state: str
    done: int = 0
    total: int = 0
    files: tuple[str, ...] = ()
    error: str = ""
    label: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.state in FINAL


def request_line(key: str, body: Mapping[str, Any]) -> bytes:
    """The line of a request, whose answer will bear the same key."""
    line = {"custom_id": key, "method": "POST", "url": PATH, "body": body}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def key_of(line: bytes) -> str:
    """The key of a line that `request_line` wrote."""
    return line[len(b'{"custom_id":"') :].partition(b'"')[0].decode()


def create_batch(send: Send, url: str, lines: bytes, label: str) -> Batch:
    """Hand in the lines. Raises ModelError."""
    border = uuid.uuid4().hex
    parts = [
        f'--{border}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n',
        f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="requests.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n",
    ]
    whole = "".join(parts).encode() + lines + f"\r\n--{border}--\r\n".encode()
    file = _value(send("POST", "files", whole, f"multipart/form-data; boundary={border}"), url)
    wanted = {
        "input_file_id": str(file.get("id")), "endpoint": PATH, "completion_window": "24h",
        "metadata": {"looktwice": label},
    }  # fmt: skip
    made = _value(send("POST", "batches", json.dumps(wanted).encode(), "application/json"), url)
    with _understood(url):
        return _batch(made)


def look_at_batch(send: Send, url: str, identifier: str) -> Batch:
    """How far a batch is. Raises ModelError."""
    found = _value(send("GET", f"batches/{identifier}", None, ""), url)
    with _understood(url):
        return _batch(found)


def find_batch(send: Send, url: str, label: str) -> Batch | None:
    """The batch that was handed in under a label, among the last hundred. Raises ModelError."""
    found = _value(send("GET", "batches?limit=100", None, ""), url)
    with _understood(url):
        return next((batch for batch in map(_batch, found.get("data") or ()) if batch.label == label), None)


def read_answers(send: Send, url: str, batch: Batch) -> Iterator[tuple[str, HttpResponse]]:
    """Each key with its answer, in any order; a request that was not answered is missing. Raises ModelError."""
    for file in batch.files:
        response = send("GET", f"files/{file}/content", None, "")
        if response.status != 200:
            raise refusal(response, url, {})
        for line in response.body.splitlines():
            with _understood(url):
                row = read_json(line, mend=True)
                answer = row.get("response") or {"status_code": 500, "body": {"error": row.get("error")}}
                body = json.dumps(answer.get("body")).encode()
                found = str(row["custom_id"]), HttpResponse(int(answer["status_code"]), {}, body)
            yield found


@contextmanager
def _understood(url: str) -> Iterator[None]:
    """Inside, what is not of the shape that the API promises is a ModelError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        raise ModelError(f"{url} describes a batch in another form ({exc!r})", retryable=True) from exc


def _batch(data: Mapping[str, Any]) -> Batch:
    counts = data.get("request_counts") or {}
    errors = (data.get("errors") or {}).get("data") or ()
    return Batch(
        id=str(data["id"]),
        state=str(data.get("status")),
        done=int(counts.get("completed") or 0) + int(counts.get("failed") or 0),
        total=int(counts.get("total") or 0),
        files=tuple(str(data[name]) for name in ("output_file_id", "error_file_id") if data.get(name)),
        error="; ".join(str(each.get("message")) for each in errors),
        label=str((data.get("metadata") or {}).get("looktwice", "")),
    )


def _value(response: HttpResponse, url: str) -> Mapping[str, Any]:
    value = read_value(response, url)
    if not isinstance(value, Mapping):
        raise ModelError(f"{url} answered {value!r:.80} where a JSON object belongs", retryable=True)
    return value

"""What the batch endpoints of every provider have in common: a batch, the lines of its requests, what an answer is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.chat_api import read_value
from looktwice.pipelines.models.http_client import HttpResponse

Json = dict[str, Any]
Send = Callable[[str, str, bytes | None, str], HttpResponse]
"""Method, path below the URL, body and its media type; the answer, whatever its status."""


@dataclass(frozen=True)
class Batch:
    """A batch as the server describes it; `error` says why it was refused, where it was."""

    id: str
    is_over: bool
    done: int = 0
    total: int = 0
    files: tuple[str, ...] = ()
    error: str = ""


class Dialect(Protocol):
    """How one provider is handed batches, below one URL. Every method raises ModelError."""

    @property
    def most_bytes(self) -> int:
        """Of the requests of a batch."""

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """The line of a request, given as a body of the chat-completions protocol; its answer will bear the key."""

    def create(self, lines: Sequence[bytes], label: str) -> Batch:
        """Hand in the lines."""

    def look_at(self, identifier: str) -> Batch:
        """How far a batch is."""

    def find(self, label: str, size: int, since: float) -> Batch | None:
        """The batch of so many requests that was handed in under a label, at or after a time in seconds."""

    def answers(self, batch: Batch, keys: Sequence[str]) -> Iterator[tuple[str, HttpResponse]]:
        """Each key with its answer as of the chat-completions protocol; one that was not answered is missing.

        `keys` are those of the batch in the order of its lines.
        """


def line_of(key: str, fields: Mapping[str, Any]) -> bytes:
    """A line whose first field is the key."""
    return json.dumps({"custom_id": key, **fields}, separators=(",", ":")).encode() + b"\n"


def key_of(line: bytes) -> str:
    """The key of a line that `line_of` wrote."""
    return line[len(b'{"custom_id":"') :].partition(b'"')[0].decode()


@contextmanager
def understood(url: str) -> Iterator[None]:
    """Inside, what is not of the shape that the API promises is a ModelError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        raise ModelError(f"{url} describes a batch in another form ({exc!r})", retryable=True) from exc


def value_of(response: HttpResponse, url: str) -> Mapping[str, Any]:
    """The JSON object of an answer. Raises ModelError."""
    value = read_value(response, url)
    if not isinstance(value, Mapping):
        raise ModelError(f"{url} answered {value!r:.80} where a JSON object belongs", retryable=True)
    return value


def answer(status: int, body: object) -> HttpResponse:
    """An answer as the chat-completions protocol would have brought it."""
    return HttpResponse(status, {}, json.dumps(body).encode())


def split_data_url(url: str) -> tuple[str, str]:
    """Media type and base64 of a picture's data URL."""
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return kind, data


def refuse_fields(body: Mapping[str, Any], names: Sequence[str], provider: str) -> None:
    """Raises ModelError for what a request asks and the provider's own protocol does not know."""
    if found := [name for name in names if name in body]:
        raise ModelError(f"{provider} does not take {', '.join(found)} in a batch; leave it out")

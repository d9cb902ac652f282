"""What the batch endpoints of every provider have in common: a batch, the lines of its requests,
what an answer is."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models.answers import read_value, refusal
from looktwice.pipelines.models.http_client import HttpResponse

Json = dict[str, Any]
Row = TypeVar("Row")
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


@dataclass(frozen=True)
class Dialect(ABC):
    """How one provider is handed batches, below one URL. Every method raises ModelError."""

    send: Send
    url: str
    most_bytes: ClassVar[int]
    """Of the requests of a batch."""

    @abstractmethod
    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """The line of a request, given as a body of the chat-completions protocol; its answer will
        bear the key."""

    @abstractmethod
    def create(self, lines: Sequence[bytes], label: str) -> Batch:
        """Hand in the lines."""

    @abstractmethod
    def look_at(self, identifier: str) -> Batch:
        """How far a batch is."""

    @abstractmethod
    def find(self, label: str, size: int, since: float) -> Batch | None:
        """The batch of so many requests that was handed in under a label, at or after a time in
        seconds."""

    @abstractmethod
    def answers(self, batch: Batch, keys: Sequence[str]) -> Iterator[tuple[str, HttpResponse]]:
        """Each key with its answer as of the chat-completions protocol; one that was not answered
        is missing.

        `keys` are those of the batch in the order of its lines.
        """

    def get(self, path: str) -> Json:
        """The JSON object at a path."""
        return self._read(self.send("GET", path, None, ""))

    def post(self, path: str, body: bytes, kind: str = "application/json") -> Json:
        """The JSON object that answers a body of a media type."""
        return self._read(self.send("POST", path, body, kind))

    def rows(self, path: str, read: Callable[[Any], Row]) -> Iterator[Row]:
        """What `read` makes of the JSON value in each line of a file."""
        response = self.send("GET", path, None, "")
        if response.status != 200:
            raise refusal(response, self.url, {})
        with understood(self.url):
            yield from (read(read_json(line)) for line in response.body.splitlines())

    def _read(self, response: HttpResponse) -> Json:
        value = read_value(response, self.url)
        if not isinstance(value, dict):
            raise ModelError(
                f"{self.url} answered {value!r:.80} where a JSON object belongs", retryable=True
            )
        return value


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
        raise ModelError(
            f"{url} describes a batch in another form ({exc!r})", retryable=True
        ) from exc


def answer(status: int, body: object) -> HttpResponse:
    """An answer as the chat-completions protocol would have brought it."""
    return HttpResponse(status, {}, json.dumps(body).encode())


def split_data_url(url: str) -> tuple[str, str]:
    """Media type and base64 of a picture's data URL."""
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return kind, data


def refuse_fields(body: Mapping[str, Any], names: Sequence[str], provider: str) -> None:
    """Raises ModelError for what a request asks and the provider's own protocol does not know."""
    if refused := [name for name in names if name in body]:
        raise ModelError(f"{provider} does not take {', '.join(refused)} in a batch; leave it out")

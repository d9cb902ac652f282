"""The common internal form of responses, and the interface of the classes that convert it to each
protocol."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from looktwice.extras.integrations.protocols.questions import Json, Question
from looktwice.pipelines.model import Reply, Usage


class Refusal(Exception):
    """The reason why a request is not answered: an HTTP status, a sentence, and further fields of
    the error."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        retry_after: float | None = None,
        **more: str,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.more = status, kind, more
        self.headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}

    @property
    def body(self) -> dict[str, Any]:
        """The error in the format of OpenAI's clients."""
        error = {"message": str(self), "type": self.kind, "param": None, "code": None}
        return {"error": error | self.more}


@dataclass(frozen=True)
class AnswerContent:
    """The content of a response: for each draw the final reply, the `looks` before it, and in
    `calls` all the models' replies that led to it. `headers` are the headers of the HTTP
    response."""

    model: str
    replies: Sequence[Reply]
    looks: Sequence[str]
    calls: Sequence[Sequence[Reply]]
    name: str
    headers: Mapping[str, str]

    @property
    def usage(self) -> Usage:
        """The tokens of all calls; input tokens are counted for the first draw only, as in the
        protocols."""
        first = [reply.usage for reply in self.calls[0]]
        every = [reply.usage for reply in chain(*self.calls)]
        return Usage(
            sum(usage.tokens_in for usage in first),
            sum(usage.tokens_out for usage in every),
            sum(usage.reasoning_tokens for usage in every),
            sum(usage.cached_tokens for usage in first),
        )

    def get_thought(self, draw: int = 0) -> str:
        """Return the reasoning to show for a reply: the looks before it, and its own reasoning."""
        return "\n\n".join(filter(None, (self.looks[draw], self.replies[draw].reasoning)))


class Exchange(ABC):
    """A request in a protocol, and the conversion of its response."""

    question: Question

    @abstractmethod
    def make_body(self, answered: AnswerContent) -> Json:
        """Return the response as a whole."""

    @abstractmethod
    def make_events(self, answered: AnswerContent) -> Iterator[bytes]:
        """Yield the response as events of a stream."""


class WireProtocol(ABC):
    """A protocol in which clients send requests. Its `path` follows the base URL;
    `unsupported_endpoints` maps each endpoint below this path that is not answered to advice on
    what to do instead."""

    path: ClassVar[str]
    unsupported_endpoints: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def read(self, raw: bytes) -> Exchange:
        """Parse a request. Raises ValueError for an invalid request, and for fields that are not
        supported."""

    def describe(self, refusal: Refusal) -> Json:
        """Return the body of an error, by default in the format of OpenAI's clients."""
        return refusal.body

    def make_error_event(self, refusal: Refusal) -> bytes:
        """Return the event that reports an error and ends a stream."""
        return format_event(self.describe(refusal))


def format_event(value: Json, name: str = "") -> bytes:
    """Format a value as a server-sent event, which may have a name."""
    named = f"event: {name}\n".encode() if name else b""
    return named + b"data: " + json.dumps(value).encode() + b"\n\n"


def list_logprobs(reply: Reply) -> list[Json]:
    """Return the log-probabilities of a reply's tokens in the format of OpenAI's clients."""
    tokens = list[Json]()
    for candidates in filter(None, reply.logprobs):
        ranked = [
            {"token": text, "logprob": value, "bytes": list(text.encode())}
            for text, value in candidates.items()
        ]
        tokens.append({**ranked[0], "top_logprobs": ranked})
    return tokens

"""An endpoint that returns canned responses, without a server."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.models import ChatAPI
from looktwice.pipelines.models.http_client import HttpResponse

URL = "http://127.0.0.1:9/v1"


def response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a response with a text as its body, or with any other value as JSON."""
    data = body if isinstance(body, str) else json.dumps(body)
    return HttpResponse(status, dict(headers or {}), data.encode())


@dataclass(frozen=True)
class Canned(ChatAPI):
    """Returns the responses in turn, repeats the last one, and records the path of each request."""

    model: str = "m"
    url: str | tuple[str, ...] | None = URL
    responses: tuple[HttpResponse, ...] = field(default=(), metadata=NOT_IDENTITY)
    asked: list[str] = field(default_factory=list, metadata=NOT_IDENTITY)

    def send(self, method: str, url: str, path: str, *more: Any, **settings: Any) -> HttpResponse:
        """Return the next response."""
        self.asked.append(path)
        return self.responses[min(len(self.asked), len(self.responses)) - 1]

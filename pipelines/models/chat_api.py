"""Any OpenAI-compatible chat endpoint as a model: OpenAI, vLLM, SGLang, Ollama, llama.cpp,
OpenRouter and others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from looktwice.pipelines.clock import track_time
from looktwice.pipelines.config.spec import NOT_IDENTITY, settings
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import (
    SAMPLING_RANGES,
    CallOptions,
    Messages,
    ModelError,
    Reply,
    find_price_fault,
    strip_scheme,
)
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.http_client import Body, HttpResponse, get_http_loop
from looktwice.pipelines.models.keys import (
    MissingKeyError,
    find_key,
    list_known_keys,
    mask_keys,
    reject_keys,
)
from looktwice.pipelines.models.limits import DEFAULT_IN_FLIGHT, LIMIT_RANGES, SERVERS
from looktwice.pipelines.models.wire import (
    RESERVED_FIELDS,
    ChoicesField,
    ImageDetail,
    PicturePlacement,
    make_request_pieces,
    make_wire_messages,
    make_wire_options,
)
from looktwice.pipelines.ranges import Ranged

OPENAI_URL = "https://api.openai.com/v1"
PROBE_TIMEOUT_SECONDS = 10.0


MakeAuthHeaders = Callable[[str | None], dict[str, str]]
"""Returns the headers that carry an API key, if there is one."""


def make_bearer_header(key: str | None) -> dict[str, str]:
    """Return the Authorization header with a key, as most endpoints expect it; {} without one."""
    return {"Authorization": f"Bearer {key}"} if key else {}


@dataclass(frozen=True)
class ChatAPI(Ranged):
    """The model `model` behind `url`/chat/completions; None leaves a setting to the server;
    `CallOptions` overrides it.

    `temperature`, `top_p`, `max_tokens` (sent as `token_field`), `stop` (strings that end the
    reply), `logprobs` (the number of alternatives per token) and `effort` ("low", "medium", "high")
    are those of the OpenAI API. `url` defaults to OPENAI_BASE_URL, else OpenAI's. It may list
    several servers with the same weights: each request goes to the one with the fewest requests in
    flight, and a server that cannot be reached or fails (5xx) is skipped for half a minute. One
    model behind two URLs counts as two models with separate replies, unless both have the same
    `name`; give a group of servers a name, so that servers may join and leave it. Draw number d
    sends `seed` + d, so that draws differ. `system` is the system message of every conversation,
    `detail` is sent with every picture, `extra` is merged into the request body. `choices_as` says
    how this server takes `CallOptions.choices`, `timeout` is in seconds. `in_flight` limits
    concurrent requests, `per_minute` those started per minute. `prices` (per million tokens: in,
    out and, if different, cached, for input that the server had in its own cache; currency, date
    and source are reported with them) give the report's cost. API keys come from the environment
    and go only to the host that they belong to.

    `pictures` is where the pictures of tool results are sent: in a user's turn after the results
    ("user", accepted everywhere), in the tool's own turn ("tool", for servers that accept pictures
    there, such as those of Qwen's models), or in both.
    """

    model: str
    url: str | tuple[str, ...] | None = field(default=None, metadata=NOT_IDENTITY)
    name: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    logprobs: int | None = None
    effort: str | None = None
    detail: ImageDetail | None = None
    pictures: PicturePlacement = "user"
    system: str = ""
    token_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    choices_as: ChoicesField | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = field(default=600.0, metadata=NOT_IDENTITY)
    in_flight: int = field(default=DEFAULT_IN_FLIGHT, metadata=NOT_IDENTITY)
    per_minute: float | None = field(default=None, metadata=NOT_IDENTITY)
    prices: Mapping[str, Any] | None = field(default=None, metadata=NOT_IDENTITY)
    remote: ClassVar[bool] = True
    multiprocess: ClassVar[bool] = True  # several processes of a run may ask it, with a copy each
    ranges = (*SAMPLING_RANGES, *LIMIT_RANGES, "timeout > 0")
    reserved: ClassVar[Set[str]] = RESERVED_FIELDS

    def __post_init__(self) -> None:
        super().__post_init__()
        taken = sorted(self.reserved & self.extra.keys())
        if taken:
            raise ValueError(
                f"extra must not hold {', '.join(taken)}; use the settings of"
                f" {type(self).__name__} or leave it out"
            )
        reject_keys(model=self.model, system=self.system, extra=self.extra)
        if self.prices is not None and (fault := find_price_fault(self.prices)):
            raise ValueError(fault)
        if len(set(self.urls)) < len(self.urls):
            raise ValueError(f"url names a server twice: {', '.join(self.urls)}")
        # resolved once: a recorded run must not mean another server in another environment
        object.__setattr__(self, "url", self.url or self.default_url)

    @cached_property
    def identity(self) -> str:
        """The model, every setting that may change its replies, and `name` or else `place`."""
        return write_canonical(settings(self) | ({} if self.name else {"endpoint": self.place}))

    @property
    def default_url(self) -> str:
        """The URL that is used if none is set."""
        return os.environ.get("OPENAI_BASE_URL") or OPENAI_URL

    @property
    def path(self) -> str:
        """The path of requests, below the URL."""
        return "chat/completions"

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs in use, without a trailing slash."""
        given = (self.url,) if isinstance(self.url, str) else self.url or ()
        return tuple(url.rstrip("/").removesuffix(f"/{self.path}") for url in given)

    @property
    def endpoint(self) -> str:
        """All URLs in use."""
        return ", ".join(self.urls)

    @property
    def place(self) -> str:
        """Host, port and path of each URL."""
        return ", ".join(map(strip_scheme, self.urls))

    def missing(self) -> str:
        """Describe what must be set before this model can be asked: the key of its host; "" if
        nothing is missing."""
        try:
            self.check()
        except ModelError as exc:  # `check` reports the faults of a URL
            return str(exc) if isinstance(exc, MissingKeyError) else ""
        return ""

    def check(self) -> None:
        """Raise ModelError if a URL is unusable or its host's key is missing; sends nothing."""
        for url in self.urls:
            find_key(url)

    def probe(self) -> None:
        """Request the model list of each server once. Raises ModelError if no server answers or a
        key is rejected.

        Any other answer is fine, and so is a timeout: servers need not support this request.
        """
        for url in self.urls:
            try:
                response = self.send("GET", url, "models", None, PROBE_TIMEOUT_SECONDS)
            except ModelError as exc:
                if exc.unreached:
                    SERVERS.pause(url)
                    if url == self.urls[-1] and all(map(SERVERS.paused_until.get, self.urls)):
                        raise
                continue
            SERVERS.paused_until.pop(url, None)
            if response.status == 401:
                read_response(response, url, 0.0)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Send one request, without retrying. Raises ModelError, PictureError, or Stopped if the
        run cancelled the call."""
        body = make_request_pieces(self.make_body(messages, draw, options))

        def ask(url: str) -> Reply:
            start = time.perf_counter()
            with track_time("wait for the server"):
                response = self.send("POST", url, self.path, body, self.timeout)
            reply = self.read(response, url, time.perf_counter() - start)
            return replace(reply, served_by={**reply.served_by, "endpoint": strip_scheme(url)})

        return SERVERS.ask(self.urls, ask)

    def send(
        self,
        method: str,
        url: str,
        path: str,
        body: Body | None,
        timeout: float,
        kind: str = "application/json",
        max_bytes: int | None = None,
        make_auth_headers: MakeAuthHeaders | None = None,
    ) -> HttpResponse:
        """Send a request to a path of one server and return the response, which may have up to
        `max_bytes` bytes (default: 16 MiB).

        `kind` is the media type of the body; `make_auth_headers` makes the headers that carry the
        key. Raises ModelError.
        """
        make_headers = make_auth_headers or self.make_auth_headers
        headers = ({"Content-Type": kind} if kind else {}) | make_headers(find_key(url))
        try:
            response = get_http_loop().request(
                method, f"{url}/{path}", body, headers, timeout, max_bytes
            )
        except ModelError as exc:  # it may quote what the server sent
            raise exc.with_message(mask_keys(str(exc))) from exc.__cause__
        keys = list_known_keys()
        named = {name: mask_keys(text, keys) for name, text in response.headers.items()}
        return HttpResponse(response.status, named, response.body)

    def make_auth_headers(self, key: str | None) -> dict[str, str]:
        """Return the headers that carry the key, if there is one."""
        return make_bearer_header(key)

    def read(self, response: HttpResponse, url: str, seconds: float) -> Reply:
        """Read the reply in a response. Raises ModelError."""
        return read_response(response, url, seconds)

    def make_body(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> dict[str, Any]:
        """Return the request as plain JSON values, with payloads for pictures. Raises ModelError
        for options that this endpoint does not support."""
        full = options.fill_from(self)
        if full.seed is not None:
            full = replace(full, seed=full.seed + draw)
        asked = make_wire_options(full, self.token_field, self.choices_as)
        sent = make_wire_messages(messages, self.system, self.detail, self.pictures)
        return {"model": self.model, "messages": sent, **asked, **self.extra} | asked

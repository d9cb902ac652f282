"""The HTTP entry of a server: it decides which clients may send requests, and how much is accepted
at a time."""

from __future__ import annotations

import asyncio
import secrets
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar

from aiohttp import web

from looktwice.eval.page.hosting import get_host, make_runner
from looktwice.extras.integrations.protocols.chat_responses import ChatProtocol
from looktwice.extras.integrations.protocols.exchange import Refusal, WireProtocol
from looktwice.extras.integrations.protocols.messages import MessagesProtocol
from looktwice.extras.integrations.protocols.questions import LOOPBACK_HOSTS, MAX_BYTES
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.models.http_client import get_http_loop

THREAD_SWITCH_SECONDS = 0.0005  # short, so that busy threads do not keep the event loop waiting
MAX_HELD_BYTES = 512 << 20  # bytes of all requests being read or answered
READ_TIMEOUT_SECONDS = 120.0  # maximum time to receive the body of a request
Say = Callable[[str], None]
"""A function that receives a line to show, or the server's address."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CHAT_PROTOCOL, MESSAGES_PROTOCOL = ChatProtocol(), MessagesProtocol()


def free_tracebacks(exc: BaseException) -> None:
    """Free the frames in the tracebacks of an error and its causes: their reference cycles would
    keep the body of a request in memory for a long time."""
    waiting: list[BaseException | None] = [exc]
    while waiting:
        if (error := waiting.pop()) is not None:
            traceback.clear_frames(error.__traceback__)
            waiting += [error.__cause__, error.__context__]
            error.__traceback__ = error.__cause__ = error.__context__ = None


@dataclass(eq=False)
class HttpGate(ABC):
    """Accepts requests; subclasses answer them.

    Without a `token`, only programs on this machine may send requests, and only to a loopback name,
    so that no web page can. With a token, any client that sends it may send requests. Requests in
    any of the `protocols` are answered.
    """

    protocols: ClassVar[tuple[WireProtocol, ...]] = (CHAT_PROTOCOL,)
    workers: int = 64
    token: str = ""
    held_bytes: int = 0
    pool: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.pool = ThreadPoolExecutor(self.workers, thread_name_prefix="looktwice-serve")

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject requests that are not permitted, and send errors as JSON."""
        try:
            if self.token:
                if not self.has_token(request):
                    raise Refusal(401, "wrong token; send the token of this server")
            elif get_host(request) not in LOOPBACK_HOSTS:
                raise Refusal(403, "send requests to 127.0.0.1")
            return await handler(request)
        except (Refusal, web.HTTPException) as exc:
            free_tracebacks(exc)
            protocol = self.find_protocol(request)
            if isinstance(exc, web.HTTPException):
                exc = self.make_route_refusal(request, protocol, exc)
            body = protocol.describe(exc)
            return web.json_response(body, status=exc.status, headers=exc.headers)

    def has_token(self, request: web.Request) -> bool:
        """Return whether a request has the token where OpenAI's or Anthropic's clients put their
        key."""
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        keys = (bearer, request.headers.get("x-api-key", ""))
        own = self.token.encode()
        raw = [key.encode(errors="surrogateescape") for key in keys]
        return any([secrets.compare_digest(key, own) for key in raw])

    def find_protocol(self, request: web.Request) -> WireProtocol:
        """Return the protocol that the path of a request implies, or else the one that its client
        uses."""
        path = request.path.removeprefix("/v1")
        for protocol in self.protocols:
            if path == protocol.path or path.startswith(f"{protocol.path}/"):
                return protocol
        return MESSAGES_PROTOCOL if "anthropic-version" in request.headers else CHAT_PROTOCOL

    def make_route_refusal(
        self, request: web.Request, protocol: WireProtocol, exc: web.HTTPException
    ) -> Refusal:
        """Return the Refusal for a request that no route answers."""
        if exc.status not in (404, 405):
            return Refusal(exc.status, exc.reason)
        rest = request.path.removeprefix("/v1").removeprefix(protocol.path)
        endpoints = protocol.unsupported_endpoints
        advice = next((words for end, words in endpoints.items() if end in rest), "")
        if request.path.startswith("/v1/v1/"):
            advice = "leave /v1 out of the client's base URL"
        paths = ", ".join(f"POST /v1{each.path}" for each in self.protocols)
        answered = advice or f"this server answers {paths} and GET /v1/models"
        return Refusal(exc.status, f"{request.method} {request.path} is not supported; {answered}")

    @abstractmethod
    async def list_models(self, request: web.Request) -> web.StreamResponse:
        """List the names that requests can use as the model."""

    @abstractmethod
    async def respond(self, request: web.Request, raw: bytes) -> web.StreamResponse:
        """Respond to a request with this body. Raises Refusal."""

    @abstractmethod
    async def close(self) -> None:
        """Stop accepting work."""

    async def answer_post(self, request: web.Request) -> web.StreamResponse:
        """Answer a POST request. Raises Refusal."""
        if request.content_type != "application/json":  # a page in a browser
            raise Refusal(403, "send application/json to 127.0.0.1")
        raw = await self.read_body(request)
        try:
            return await self.respond(request, raw)
        finally:
            self.held_bytes -= len(raw)

    async def read_body(self, request: web.Request) -> bytes:
        """Read the body of a request, and add its size to `held_bytes`. Raises Refusal if it is too
        large, arrives too slowly, or too many bytes are held."""
        if (length := request.content_length or 0) > MAX_BYTES:
            raise Refusal(413, f"the request has {length:,} bytes; the maximum is {MAX_BYTES:,}")
        body = bytearray()
        try:
            async with asyncio.timeout(READ_TIMEOUT_SECONDS):
                async for piece in request.content.iter_any():
                    body += piece
                    self.held_bytes += len(piece)
                    if len(body) > MAX_BYTES:
                        raise Refusal(413, f"a request has at most {MAX_BYTES:,} bytes")
                    if self.held_bytes > MAX_HELD_BYTES:
                        busy = f"{self.held_bytes >> 20} MiB of requests are being answered"
                        raise Refusal(503, f"{busy}; try again", "server_error", 1.0)
            return bytes(body)
        except BaseException as exc:
            self.held_bytes -= len(body)
            if isinstance(exc, TimeoutError):
                late = f"the request did not arrive within {READ_TIMEOUT_SECONDS:g} s"
                raise Refusal(408, late) from None
            if isinstance(exc, ConnectionError | web.RequestPayloadError):
                raise Refusal(400, "the request was cut off") from None
            raise

    def make_application(self) -> web.Application:
        """Make the web application, whose routes exist with and without /v1."""
        app = web.Application(middlewares=[self.guard])
        for base in ("/v1", ""):
            for protocol in self.protocols:
                app.router.add_post(f"{base}{protocol.path}", self.answer_post)
            app.router.add_get(f"{base}/models", self.list_models)
            app.router.add_get(f"{base}/models/{{name:.+}}", self.list_models)
        return app


def serve(gate: HttpGate, host: str, port: int, started: Say) -> None:
    """Serve until interrupted; `started` receives the URL. Port 0 picks a free port. Raises
    ConfigError if the port is taken."""

    async def run() -> None:
        runner = make_runner(gate.make_application(), shutdown_timeout=5.0)
        await runner.setup()
        await web.TCPSite(runner, host, port).start()
        shown = f"[{host}]" if ":" in host else host
        started(f"http://{shown}:{runner.addresses[0][1]}/v1")
        try:
            await asyncio.Event().wait()
        finally:
            await gate.close()
            get_http_loop().cancel()
            await runner.cleanup()
            gate.pool.shutdown(wait=False, cancel_futures=True)

    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    try:
        asyncio.run(run())
    except OSError as exc:
        raise ConfigError(
            [f"serve: {host} port {port} cannot be used ({exc.strerror}); give another --port"]
        ) from exc

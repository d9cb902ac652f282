"""The server that clients ask: who may come in, what it takes, and how it answers, at once or as a
stream."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from looktwice.eval.homes.chat_requests import LOOPBACK, MOST_BYTES, Question, event, read_question
from looktwice.eval.homes.lens import Refusal, Response
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.model import Stopped
from looktwice.pipelines.models.http_client import http_loop

MOST_HELD = 512 << 20  # of all requests that are being read or answered
READ_SECONDS = 120.0  # for the body of a request
HEARTBEAT = 10.0  # seconds of a stream without a word
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Answers(Protocol):
    """Who answers: the contestants of a study."""

    @property
    def names(self) -> Sequence[str]: ...

    def answer(self, question: Question) -> Response: ...

    def close(self) -> None: ...


@dataclass(eq=False)
class Door:
    """Lets requests in, and takes them to who `answers`.

    Without a `token` only this machine may ask, under its own name, so that no page in a browser
    can. With one, whoever brings it.
    """

    answers: Answers
    workers: int = 64
    token: str = ""
    held: int = 0
    pool: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.pool = ThreadPoolExecutor(self.workers, thread_name_prefix="looktwice-serve")

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse who may not come in, and say in JSON what went wrong."""
        given = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        try:
            if self.token:
                if not secrets.compare_digest(given, self.token.encode()):
                    raise Refusal(401, "the token is another; send the one that the server has")
            elif request.url.host not in LOOPBACK:
                raise Refusal(403, "ask 127.0.0.1")
            return await handler(request)
        except Refusal as exc:
            return refused(exc)
        except web.HTTPException as exc:
            return refused(Refusal(exc.status, exc.reason))

    async def list_models(self, request: web.Request) -> web.Response:
        """The names under which one may ask."""
        models = [
            {"id": name, "object": "model", "created": 0, "owned_by": "looktwice"}
            for name in self.answers.names
        ]
        return web.json_response({"object": "list", "data": models})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a request. Raises Refusal."""
        if request.content_type != "application/json":  # a page in a browser
            raise Refusal(403, "send application/json to 127.0.0.1")
        async with self.body(request) as raw:
            loop = asyncio.get_running_loop()
            question = await loop.run_in_executor(self.pool, take_question, raw)
            work = loop.run_in_executor(self.pool, self.answers.answer, question)
            if not question.stream:
                answered, headers = await answer_of(work)
                return web.json_response(answered.completion(), headers=headers)
            return await stream(request, work)

    @asynccontextmanager
    async def body(self, request: web.Request) -> AsyncIterator[bytes]:
        """The body of a request, which counts among what is held. Raises Refusal for one that is
        too large, too slow, or one too many."""
        length, raw = request.content_length or 0, bytearray()
        if length > MOST_BYTES:
            raise Refusal(413, f"the request has {length:,} bytes; {MOST_BYTES:,} are the most")
        before = 0
        try:
            async with asyncio.timeout(READ_SECONDS):
                async for piece in request.content.iter_any():
                    raw += piece
                    self.held += len(piece)
                    before += len(piece)
                    if before > MOST_BYTES:
                        raise Refusal(413, f"a request has at most {MOST_BYTES:,} bytes")
                    if self.held > MOST_HELD:
                        held = f"{self.held >> 20} MiB of requests are being answered"
                        raise Refusal(503, f"{held}; ask again", "server_error", 1.0)
            yield bytes(raw)
        except TimeoutError:
            raise Refusal(408, f"the request did not come within {READ_SECONDS:g} s") from None
        finally:
            self.held -= before

    def application(self) -> web.Application:
        """What is served, under /v1 and without it."""
        app = web.Application(middlewares=[self.guard])
        for base in ("/v1", ""):
            app.router.add_post(f"{base}/chat/completions", self.chat)
            app.router.add_get(f"{base}/models", self.list_models)
        return app


def take_question(raw: bytes) -> Question:
    """The question in a body. Raises Refusal."""
    try:
        return read_question(raw)
    except ValueError as exc:
        raise Refusal(400, str(exc)) from exc


async def answer_of(work: asyncio.Future[Response]) -> Response:
    """What came of it. Raises Refusal, whatever was raised."""
    try:
        return await work
    except (Refusal, asyncio.CancelledError):
        raise
    except Stopped as exc:
        raise Refusal(503, "the server is being stopped", "server_error") from exc
    except ValueError as exc:
        raise Refusal(400, str(exc)) from exc
    except Exception as exc:  # whatever somebody sends must not end the server
        raise Refusal(500, f"{type(exc).__name__}: {exc}", "server_error") from exc


async def stream(request: web.Request, work: asyncio.Future[Response]) -> web.StreamResponse:
    """Send the answer as events. Comments tell that there is somebody as long as there is none; a
    fault that comes after them is an event too. Raises Refusal for one that comes before."""
    await asyncio.wait([work], timeout=HEARTBEAT)
    headers: Mapping[str, str] = {}
    if work.done():
        headers = (await answer_of(work)).headers
    plain = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
    response = web.StreamResponse(headers={**plain, **headers})
    await response.prepare(request)
    while not work.done():
        await response.write(b": looking\n\n")
        await asyncio.wait([work], timeout=HEARTBEAT)
    try:
        for chunk in (await answer_of(work)).answered.chunks():
            await response.write(chunk)
    except Refusal as exc:
        await response.write(event(exc.body))
    await response.write_eof()
    return response


def refused(exc: Refusal) -> web.Response:
    """A refusal as a response."""
    text = json.dumps(exc.body)
    return web.Response(
        text=text, status=exc.status, content_type="application/json", headers=exc.headers
    )


def serve(door: Door, host: str, port: int, started: Callable[[str], None]) -> None:
    """Serve until interrupted; `started` is told the URL. Port 0 takes a free one. Raises
    ConfigError for a port that is taken."""

    async def run() -> None:
        runner = web.AppRunner(door.application(), access_log=None, shutdown_timeout=5.0)
        await runner.setup()
        await web.TCPSite(runner, host, port).start()
        shown = f"[{host}]" if ":" in host else host
        started(f"http://{shown}:{runner.addresses[0][1]}/v1")
        try:
            await asyncio.Event().wait()
        finally:
            door.answers.close()
            http_loop().cancel()
            await runner.cleanup()
            door.pool.shutdown(wait=False, cancel_futures=True)

    try:
        asyncio.run(run())
    except OSError as exc:
        raise ConfigError(
            [f"serve: {host} port {port} cannot be used ({exc.strerror}); give another --port"]
        ) from exc

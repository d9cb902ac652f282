"""A study as a server: each request is answered by a contestant, at once or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from looktwice.eval.homes.chat_requests import Question, read_question
from looktwice.eval.homes.chat_responses import event
from looktwice.eval.homes.door import Door, Refusal
from looktwice.eval.homes.lens import Lens, Response
from looktwice.pipelines.model import Stopped

HEARTBEAT = 10.0  # seconds of a stream without a word


@dataclass(eq=False)
class StudyDoor(Door):
    """Takes requests to the contestants of a study."""

    lens: Lens = field(kw_only=True)

    async def list_models(self, request: web.Request) -> web.StreamResponse:
        """The contestants."""
        models = [
            {"id": name, "object": "model", "created": 0, "owned_by": "looktwice"}
            for name in self.lens.arms
        ]
        return web.json_response({"object": "list", "data": models})

    async def respond(self, request: web.Request, raw: bytes) -> web.StreamResponse:
        """The answer of a contestant."""
        loop = asyncio.get_running_loop()
        question = await loop.run_in_executor(self.pool, take_question, raw)
        work = loop.run_in_executor(self.pool, self.lens.answer, question)
        if question.stream:
            return await stream(request, work, question.usage)
        answered, headers = await answer_of(work)
        return web.json_response(answered.completion(), headers=headers)

    async def close(self) -> None:
        """Let no call start any more."""
        self.lens.stop.set()


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


async def stream(
    request: web.Request, work: asyncio.Future[Response], usage: bool
) -> web.StreamResponse:
    """Send the answer as events, its `usage` too where that was asked for. Comments tell that there
    is somebody as long as there is no answer; a fault that comes after them is an event too. Raises
    Refusal for one that comes before."""
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
        for chunk in (await answer_of(work)).answered.chunks(usage):
            await response.write(chunk)
    except Refusal as exc:
        await response.write(event(exc.body))
    await response.write_eof()
    return response

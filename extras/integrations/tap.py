"""A proxy between a client and another server that changes nothing and records everything."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple
from urllib.parse import quote

import aiohttp
from aiohttp import web

from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.records import RunError
from looktwice.eval.runs.requests import Forward, Request
from looktwice.extras.integrations.http_gate import HttpGate, Say
from looktwice.extras.integrations.protocols.chat_requests import read_foreign_question
from looktwice.extras.integrations.protocols.chat_responses import join_chunks
from looktwice.extras.integrations.protocols.exchange import Refusal
from looktwice.extras.integrations.recorded import Recorder, Requests
from looktwice.pipelines.config.plan import add_id
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.json_input import read_json, write_json
from looktwice.pipelines.model import CallOptions, Messages, ModelError, Reply
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.chat_api import ChatAPI, make_bearer_header
from looktwice.pipelines.models.http_client import HttpResponse, find_proxy, make_connection_error
from looktwice.pipelines.models.keys import find_key
from looktwice.pipelines.pipeline import RecordingModel, StageFailed
from looktwice.pipelines.sample import Sample

HOP_HEADERS = {
    "connection",
    "content-encoding",
    "content-length",
    "keep-alive",
    "transfer-encoding",
}
"""Headers that concern only a single connection."""
MAX_RECORDED_BYTES = 64 << 20  # the maximum number of bytes recorded of an answer
MAX_MODELS = 1000
TIMEOUT_SECONDS = 3600.0


class RecordedRequest(NamedTuple):
    """A recorded request: its arm, and the sample with its digest."""

    arm: Arm
    request: Request
    sample: Sample
    sha: str


@dataclass(eq=False)
class RecordingProxy(HttpGate):
    """Forwards every request unchanged to the server at `url`, with the key for that server instead
    of the client's key, and returns the answer; the requested model is recorded as the
    contestant."""

    recorder: Recorder = field(kw_only=True)
    url: str = field(kw_only=True)
    say: Say = field(kw_only=True)
    has_warned: bool = False
    session: aiohttp.ClientSession | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.arms, self.lock = dict[str, Arm](), threading.Lock()
        self.url = self.url.rstrip("/").removesuffix("/chat/completions")
        try:
            find_key(self.url)
        except ModelError as exc:
            raise RunError(str(exc)) from exc

    async def list_models(self, request: web.Request) -> web.StreamResponse:
        """Return the other server's list of models, or the model that the path names."""
        name = request.match_info.get("name")
        path = "models" if name is None else f"models/{quote(name)}"
        return (await self._forward(request, "GET", path, None))[0]

    async def respond(self, request: web.Request, raw: bytes) -> web.StreamResponse:
        """Stream the other server's answer to the client; the record is on disk before the response
        ends."""
        start, loop = time.perf_counter(), asyncio.get_running_loop()
        reading = loop.run_in_executor(self.pool, self.read, raw)  # while the other server works
        answer, response = await self._forward(request, "POST", "chat/completions", raw)
        seconds = time.perf_counter() - start
        if (asked := await reading) is not None:
            await loop.run_in_executor(self.pool, self.record, asked, response, seconds)
        if answer.prepared:
            with suppress(OSError):
                await answer.write_eof()
        return answer

    async def close(self) -> None:
        """Close the connections to the other server."""
        if self.session is not None:
            await self.session.close()

    async def _forward(
        self, request: web.Request, method: str, path: str, raw: bytes | None
    ) -> tuple[web.StreamResponse, HttpResponse]:
        """Forward a request; return the response for the client, which may already have been
        streamed, and the other server's answer. Raises Refusal if there is no answer."""
        if self.session is None:
            connector, cookies = aiohttp.TCPConnector(limit=0), aiohttp.DummyCookieJar()
            self.session = aiohttp.ClientSession(connector=connector, cookie_jar=cookies)
        url, kind = f"{self.url}/{path}", {"Content-Type": "application/json"} if raw else {}
        try:
            async with self.session.request(
                method,
                url,
                data=raw,
                headers={**kind, **make_bearer_header(find_key(self.url))},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS, sock_connect=10.0),
                allow_redirects=False,
                proxy=find_proxy(url),
            ) as response:
                headers = {
                    k: v for k, v in response.headers.items() if k.lower() not in HOP_HEADERS
                }
                if response.content_type == "text/event-stream":
                    return await self._stream(request, response, headers)
                body = await response.read()
                named = {name.lower(): value for name, value in headers.items()}
                answer = web.Response(body=body, status=response.status, headers=headers)
                return answer, HttpResponse(response.status, named, body)
        except (aiohttp.ClientError, OSError) as exc:
            fault = make_connection_error(url, TIMEOUT_SECONDS, exc)
            raise Refusal(502, str(fault), "upstream_error") from exc

    async def _stream(
        self, request: web.Request, response: aiohttp.ClientResponse, headers: Mapping[str, str]
    ) -> tuple[web.StreamResponse, HttpResponse]:
        answer, kept = web.StreamResponse(status=response.status, headers=headers), bytearray()
        await answer.prepare(request)
        is_there = True
        try:
            async for piece in response.content.iter_any():
                if len(kept) < MAX_RECORDED_BYTES:
                    kept += piece
                if is_there:
                    try:
                        await answer.write(piece)
                    except OSError:  # the client has left; its answer is still recorded
                        is_there = False
        except (aiohttp.ClientError, OSError) as exc:
            if request.transport is not None:
                request.transport.close()  # so that the client's connection is cut off, too
            return answer, HttpResponse(502, {}, f"the stream broke off ({exc})".encode())
        return answer, HttpResponse(response.status, {}, bytes(kept))

    def read(self, raw: bytes) -> RecordedRequest | None:
        """Parse a request and record its question; None if it cannot be recorded, which is reported
        once."""
        try:
            question = read_foreign_question(raw)
            arm = self._find_arm(question.model or "unnamed")
            sample, row = self.recorder.record_question(question.sample, arm.task_id)
            request = Request(question.turns, question.options, 0, question.extra_fields)
            return RecordedRequest(arm, request.store(self.recorder.writer.blobs), sample, row.sha)
        except ValueError as exc:
            if not self.has_warned:
                self.say(f"forwarded a request that cannot be recorded: {exc}")
            self.has_warned = True
            return None

    def record(self, asked: RecordedRequest, response: HttpResponse, seconds: float) -> None:
        """Record the answers to a request."""
        arm, request, sample, sha = asked
        answers = split_choices(response)
        draws = self.recorder.reserve_draws(arm, sample.id, len(answers))
        for number, (draw, answer) in enumerate(zip(draws, answers, strict=True)):
            if number:
                request = replace(request, draw=number).store(self.recorder.writer.blobs)
            model = RecordingModel(FixedReply(answer, self.url, seconds), sample.id)
            with suppress(StageFailed):  # the record holds the error
                self.recorder.record_answer(arm, request, sample, sha, draw, model)

    def _find_arm(self, name: str) -> Arm:
        """Return the contestant for a model's name. Raises ValueError if there are too many."""
        with self.lock:
            if name not in self.arms:
                if len(self.arms) >= MAX_MODELS:
                    raise ValueError(f"at most {MAX_MODELS} models can be recorded")
                model, stages = ChatAPI(name, self.url), {"ask": Forward()}
                arm = Arm(name, {}, "requests", Requests(), model, stages, Robust(), 1, 0)
                arm = add_id(replace(arm, baseline=not self.arms))
                self.recorder.add([arm])
                self.arms[name] = arm
            return self.arms[name]


@dataclass(frozen=True)
class FixedReply:
    """A model that returns a recorded response."""

    response: HttpResponse
    url: str
    seconds: float
    identity: ClassVar[str] = "as it came"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the reply. Raises ModelError."""
        return read_response(self.response, self.url, self.seconds)


def split_choices(response: HttpResponse) -> list[HttpResponse]:
    """Split a response into one for each of its choices, after joining the chunks if it is a
    stream. The first of these responses has the token counts of all."""
    is_whole = response.body.lstrip().startswith(b"{")
    try:
        whole = read_json(response.body) if is_whole else join_chunks(response.body)
        choices = [*whole["choices"]]
    except (AttributeError, ValueError, LookupError, TypeError):
        return [response]
    answers = []
    for number, choice in enumerate(choices):
        alone = {**whole, "choices": [choice]}
        if number:
            alone |= {"choices": [{**choice, "usage": None}], "usage": None, "x_groq": None}
        answers.append(response._replace(body=write_json(alone).encode()))
    if not answers and any(value for name, value in whole.items() if name != "choices"):
        answers.append(
            response._replace(body=write_json(whole).encode())
        )  # only a filter's verdict
    return answers or [response]

"""Serves a model of this process over the chat-completions protocol, on loopback."""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BaseModel, BeforeValidator, Field

from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.json_input import CLOSED, OPEN, read_as
from looktwice.pipelines.model import CallOptions, Message, Model, Reply, Role
from looktwice.pipelines.models.pocket.model import Pocket
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.view import View

Json = dict[str, Any]
Text = Annotated[str, Field(min_length=1)]
Tokens = Annotated[int, Field(ge=1, le=10**9)]
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_BYTES = 64 << 20  # of a request
MOST_REPLIES = 128  # that one request may ask for, as `n`
UNKNOWN = (
    "stream",
    "tools",
    "functions",
    "guided_json",
    "guided_regex",
    "guided_grammar",
    "reasoning_effort",
)


def read_data_url(url: str) -> Picture:
    """The picture in a data URL. Raises ValueError; nothing is fetched."""
    head, _, data = url.partition(",")
    if not (head.startswith("data:image/") and head.endswith(";base64")):
        raise ValueError("an image is a data URL, data:image/...;base64,...; nothing is fetched")
    try:
        picture = Picture.encoded(base64.b64decode(data, validate=True), "the image")
        picture.size  # noqa: B018  # raises PictureError here for what is no image
        return picture
    except (binascii.Error, PictureError) as exc:
        raise ValueError(f"an image cannot be read: {exc}") from exc


class Address(BaseModel, **OPEN):
    """Where a picture is: here in the request itself, as a data URL."""

    url: str


class Part(BaseModel, **OPEN):
    """A part of a turn."""

    type: Literal["text", "image_url"]
    text: str = ""
    image_url: Annotated[
        Address, BeforeValidator(lambda url: {"url": url} if isinstance(url, str) else url)
    ] = Address(url="")

    def read(self) -> str | View:
        """The text or the picture. Raises ValueError; nothing is fetched."""
        if self.type == "text":
            return self.text
        return View.of(read_data_url(self.image_url.url))


class Turn(BaseModel, **OPEN):
    """A turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        list[Part],
        BeforeValidator(
            lambda text: text if isinstance(text, list) else [{"type": "text", "text": text or ""}]
        ),
    ] = [Part(type="text")]

    def read(self) -> Message:
        """The same as a message. Raises ValueError."""
        role: Role = "system" if self.role == "developer" else self.role
        return Message(role, tuple(part.read() for part in self.content))


class Outputs(BaseModel, **CLOSED):
    """What vLLM calls structured outputs."""

    choice: list[Text] | None = None


class Format(BaseModel, **OPEN):
    """The form of the reply."""

    type: Literal["text"]


class ChatRequest(BaseModel, **OPEN):
    """A request of the chat-completions protocol, as far as it is known here."""

    messages: list[Turn] = Field(min_length=1)
    n: int | None = Field(None, ge=0, le=MOST_REPLIES)
    temperature: float | None = Field(None, ge=0, le=1e3)
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    stop: Text | list[Text] | None = None
    seed: int | None = Field(None, ge=-(2**63), le=2**64)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=1000)
    guided_choice: list[Text] | None = None
    structured_outputs: Outputs | None = None
    response_format: Format | None = None

    def options(self) -> CallOptions:
        """What is asked for of each reply."""
        seed, stop, choices = self.seed, self.stop, self.guided_choice
        if self.temperature and seed is None:
            seed = secrets.randbits(31)  # who names no seed wants another reply each time
        if self.structured_outputs:
            choices = choices or self.structured_outputs.choice
        return CallOptions(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_completion_tokens or self.max_tokens,
            stop=tuple([stop] if isinstance(stop, str) else stop or ()) or None,
            seed=seed,
            choices=tuple(choices or ()) or None,
            logprobs=(self.top_logprobs or 1) if self.logprobs else None,
        )


def read_request(raw: bytes) -> tuple[list[Message], CallOptions, int]:
    """The messages, options and number of replies that a request asks for. Raises ValueError.

    Pictures are taken as data URLs; nothing is fetched.
    """
    request: ChatRequest = read_as(ChatRequest, raw)
    if unknown := [name for name in UNKNOWN if (request.model_extra or {}).get(name)]:
        raise ValueError(f"{' and '.join(unknown)}: not known here; leave it out")
    return [turn.read() for turn in request.messages], request.options(), request.n or 1


def write_response(name: str, replies: Sequence[Reply], logprobs: bool) -> Json:
    """The chat completion of one or several replies, with `logprobs` where they were asked for."""
    choices: list[Json] = []
    for number, reply in enumerate(replies):
        tokens: list[Json] = []
        for candidates in reply.logprobs if logprobs else ():
            ranked = [
                {"token": text, "logprob": value, "bytes": list(text.encode())}
                for text, value in candidates.items()
            ]
            tokens.append({**ranked[0], "top_logprobs": ranked})
        choice: Json = {
            "index": number,
            "message": {"role": "assistant", "content": reply.text, "refusal": None},
            "finish_reason": "length" if reply.finish == "length" else "stop",
            "logprobs": {"content": tokens, "refusal": None} if tokens else None,
        }
        choices.append(choice)
    asked = replies[0].usage.tokens_in
    tokens_out = sum(reply.usage.tokens_out for reply in replies)
    return {
        "id": "chatcmpl-looktwice",
        "object": "chat.completion",
        "created": 0,
        "model": name,
        "system_fingerprint": replies[0].served_by.get("version", ""),
        "choices": choices,
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": tokens_out,
            "total_tokens": asked + tokens_out,
        },
    }


def answer(model: Model, name: str, raw: bytes) -> tuple[int, Json]:
    """The status and body of the response to a request."""
    try:
        messages, options, count = read_request(raw)
        replies = [model(messages, draw, options) for draw in range(count)]
    except Exception as exc:  # whatever somebody sends must not end the server
        error = {"message": str(exc) or repr(exc), "type": "invalid_request_error"}
        return 400, {"error": error | {"param": None, "code": None}}
    return 200, write_response(name, replies, options.logprobs is not None)


@web.middleware
async def _refuse_other_hosts(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """A page in a browser may have led another name to this machine."""
    if request.url.host not in LOOPBACK:
        raise web.HTTPForbidden(text="ask 127.0.0.1")
    return await handler(request)


async def _serve(model: Model, name: str, port: int, started: Callable[[str], None]) -> None:
    async def chat(request: web.Request) -> web.Response:
        if request.content_type != "application/json":  # a page in a browser
            raise web.HTTPForbidden(text="send application/json to 127.0.0.1")
        status, body = await asyncio.to_thread(answer, model, name, await request.read())
        return web.json_response(body, status=status)

    async def models(request: web.Request) -> web.Response:
        model = {"id": name, "object": "model", "owned_by": "looktwice"}
        return web.json_response({"object": "list", "data": [model]})

    app = web.Application(client_max_size=MOST_BYTES, middlewares=[_refuse_other_hosts])
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    started(f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def serve_by_name(name: str, port: int, started: Callable[[str], None]) -> None:
    """Serve the model of this name on 127.0.0.1 until interrupted; `started` is told the URL. Port
    0 takes a free one. Raises ConfigError, also for a port that is taken."""
    if name != "pocket":
        raise ConfigError([f"serve {name}: no such model is here; there is pocket"])
    try:
        asyncio.run(_serve(Pocket(), name, port, started))
    except OSError as exc:
        raise ConfigError(
            [f"serve {name}: port {port} cannot be used ({exc.strerror}); give another --port"]
        ) from exc

"""Serves a model of this process over the chat-completions protocol, on loopback."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.model import CallOptions, Message, Model, Reply, Role
from looktwice.pipelines.models.pocket.model import Pocket
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.view import View

Json = dict[str, Any]
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_BYTES = 64 << 20  # of a request
ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
UNKNOWN = (
    "tools",
    "functions",
    "guided_json",
    "guided_regex",
    "guided_grammar",
    "reasoning_effort",
)
MOST_REPLIES = 128  # that one request may ask for, as `n`


class BadRequest(ValueError):
    """A request that cannot be answered; the message is for whoever sent it."""


def read_request(body: Any) -> tuple[list[Message], CallOptions, int]:
    """The messages, options and number of replies that a request asks for. Raises BadRequest.

    Pictures are taken as data URLs; nothing is fetched.
    """
    if (
        not isinstance(body, dict)
        or not isinstance(body.get("messages"), list)
        or not body["messages"]
    ):
        raise BadRequest("a request is a JSON object with a list of `messages`")
    if body.get("stream"):
        raise BadRequest("`stream` is not known here; leave it out")
    count = body.get("n") or 1
    if not isinstance(count, int) or not 1 <= count <= MOST_REPLIES:
        raise BadRequest(f"`n` is a whole number from 1 to {MOST_REPLIES}, found {count!r}")
    return [_message(message) for message in body["messages"]], _options(body), count


def _message(message: Any) -> Message:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise BadRequest("a message has the role system, user or assistant")
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [_part(part) for part in content]
    return Message(ROLES[message["role"]], tuple(parts))


def _part(part: Any) -> str | View:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    image = part.get("image_url") if kind == "image_url" else None
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str):
        raise BadRequest("a part of a message is a text or an image_url")
    head, comma, data = url.partition(",")
    if not (comma and head.startswith("data:image/") and head.endswith(";base64")):
        raise BadRequest("an image is a data URL, data:image/...;base64,...; nothing is fetched")
    try:
        return View.of(Picture.encoded(base64.b64decode(data, validate=True), "the image"))
    except (binascii.Error, PictureError) as exc:
        raise BadRequest(f"an image cannot be read: {exc}") from exc


def _options(body: Mapping[str, Any]) -> CallOptions:
    """The options of a request. Raises BadRequest for those out of their range and those that mean
    nothing here."""
    if unknown := [name for name in UNKNOWN if body.get(name)]:
        raise BadRequest(f"{' and '.join(unknown)}: not known here; leave it out")
    form, outputs = (
        body.get("response_format") or {"type": "text"},
        body.get("structured_outputs") or {},
    )
    if not isinstance(form, dict) or form.get("type") != "text":
        raise BadRequest("`response_format` is text here; leave it out")
    if not isinstance(outputs, dict) or set(outputs) - {"choice"}:
        raise BadRequest("of `structured_outputs` only `choice` is known here")
    temperature, seed = (
        _number(body, "temperature", 0, 1e3),
        _number(body, "seed", -(2**63), 2**64, whole=True),
    )
    if temperature and seed is None:
        seed = secrets.randbits(31)  # who names no seed wants another reply each time
    longest = _number(body, "max_completion_tokens", 1, 1e9, whole=True)
    stop = body.get("stop")
    return CallOptions(
        temperature=temperature,
        top_p=_number(body, "top_p", 1e-9, 1),
        max_tokens=longest or _number(body, "max_tokens", 1, 1e9, whole=True),
        stop=_texts([stop] if isinstance(stop, str) else stop, "stop"),
        seed=seed,
        choices=_texts(body.get("guided_choice") or outputs.get("choice"), "choices"),
        logprobs=(
            (_number(body, "top_logprobs", 0, 1000, whole=True) or 1)
            if body.get("logprobs")
            else None
        ),
    )


def _number(
    body: Mapping[str, Any], name: str, least: float, most: float, whole: bool = False
) -> Any:
    """A number of the body, None where it is not given."""
    value, kind = body.get(name), int if whole else int | float
    if value is None or (
        isinstance(value, kind) and not isinstance(value, bool) and least <= value <= most
    ):
        return value
    raise BadRequest(
        f"`{name}` is a {'whole ' if whole else ''}number from {least:g} to {most:g}, found"
        f" {value!r}"
    )


def _texts(value: Any, name: str) -> tuple[str, ...] | None:
    if not value:
        return None
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise BadRequest(f"`{name}` is a list of texts that are not empty")
    return tuple(value)


def write_response(name: str, replies: Sequence[Reply], logprobs: bool) -> Json:
    """The chat completion of one or several replies, with `logprobs` where they were asked for."""
    asked = replies[0].usage.tokens_in
    tokens_out = sum(reply.usage.tokens_out for reply in replies)
    return {
        "id": "chatcmpl-looktwice",
        "object": "chat.completion",
        "created": 0,
        "model": name,
        "system_fingerprint": replies[0].served_by.get("version", ""),
        "choices": [_choice(number, reply, logprobs) for number, reply in enumerate(replies)],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": tokens_out,
            "total_tokens": asked + tokens_out,
        },
    }


def _choice(number: int, reply: Reply, asked: bool) -> Json:
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    finish = "length" if reply.finish == "length" else "stop"
    tokens: list[Json] = []
    for candidates in reply.logprobs if asked else ():
        ranked = [
            {"token": text, "logprob": value, "bytes": list(text.encode())}
            for text, value in candidates.items()
        ]
        tokens.append({**ranked[0], "top_logprobs": ranked})
    likely = {"content": tokens, "refusal": None} if tokens else None
    return {"index": number, "message": message, "finish_reason": finish, "logprobs": likely}


def answer(model: Model, name: str, raw: bytes) -> tuple[int, Json]:
    """The status and body of the response to a request."""
    try:
        messages, options, count = read_request(json.loads(raw))
        replies = [model(messages, draw, options) for draw in range(count)]
    except Exception as exc:  # whatever somebody sends must not end the server
        error = {
            "message": str(exc) or repr(exc),
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        }
        return 400, {"error": error}
    return 200, write_response(name, replies, options.logprobs is not None)


async def _serve(model: Model, name: str, port: int, started: Callable[[str], None]) -> None:
    async def chat(request: web.Request) -> web.Response:
        # a page in a browser
        if request.content_type != "application/json" or request.url.host not in LOOPBACK:
            raise web.HTTPForbidden(text="send application/json to 127.0.0.1")
        status, body = await asyncio.to_thread(answer, model, name, await request.read())
        return web.json_response(body, status=status)

    async def models(request: web.Request) -> web.Response:
        return web.json_response(
            {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "looktwice"}]}
        )

    app = web.Application(client_max_size=MOST_BYTES)
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
    """Serve the model of this name until interrupted. Raises ConfigError, also for a port that is
    taken."""
    if name != "pocket":
        raise ConfigError([f"serve {name}: no such model is here; there is pocket"])
    try:
        serve(Pocket(), name, port, started)
    except OSError as exc:
        raise ConfigError(
            [f"serve {name}: port {port} cannot be used ({exc.strerror}); give another --port"]
        ) from exc


def serve(model: Model, name: str, port: int, started: Callable[[str], None]) -> None:
    """Answer on 127.0.0.1 until interrupted; `started` is told the URL. Port 0 takes a free one.
    Raises OSError."""
    asyncio.run(_serve(model, name, port, started))

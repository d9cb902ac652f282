"""The implementation of `looktwice serve`: a server for a study or the bundled small model, which
records its requests."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from aiohttp import web
from filelock import FileLock, Timeout

from looktwice.eval.readers.robust import Robust
from looktwice.eval.runs.requests import Forward
from looktwice.extras.integrations.http_gate import (
    CHAT_PROTOCOL,
    MESSAGES_PROTOCOL,
    HttpGate,
    Say,
    serve,
)
from looktwice.extras.integrations.protocols.exchange import (
    AnswerContent,
    Exchange,
    Refusal,
    WireProtocol,
)
from looktwice.extras.integrations.protocols.questions import LOOPBACK_HOSTS
from looktwice.extras.integrations.protocols.responses import ResponsesProtocol
from looktwice.extras.integrations.recorded import Recorder, Requests
from looktwice.extras.integrations.responder import StudyResponder, name_contestants
from looktwice.extras.integrations.tap import RecordingProxy
from looktwice.extras.networks.opening import close_networks
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.model import Stopped
from looktwice.pipelines.models.pocket.model import Pocket
from looktwice.pipelines.runtime.stores import use_result_store

TAP_THREAD_COUNT = 2  # the threads of a tap never wait
HEARTBEAT_SECONDS = 10.0  # seconds between two comments of a waiting stream
Result = TypeVar("Result")


@dataclass(frozen=True)
class ServeOptions:
    """Options of `looktwice serve`: the address, the access control and the responses. `out` is the
    folder of all runs, `name` the name of the recorded run."""

    port: int
    host: str
    token_env: str
    out: Path = Path("runs")
    name: str = ""
    cache: Path | None = None
    show_looks: bool = False
    abstain: Literal["error", "text"] = "error"
    workers: int = 64

    @property
    def token(self) -> str:
        """The token that clients must send; empty if anybody on this machine may send requests.
        Raises ConfigError if other machines could send requests without a token."""
        token = os.environ.get(self.token_env, "").strip() if self.token_env else ""
        if self.token_env and not token:
            raise ConfigError([f"--token-env {self.token_env}: this environment variable is empty"])
        if self.host and self.host not in LOOPBACK_HOSTS and not token:
            raise ConfigError(
                [
                    f"--host {self.host} lets other machines send requests; store a token in an"
                    " environment variable, and name the variable with --token-env"
                ]
            )
        return token


def make_pocket_plan() -> Plan:
    """Make a study that only forwards requests to the bundled small model, unchanged."""
    stages = {"ask": Forward()}
    arm = Arm("pocket", {}, "requests", Requests(), Pocket(), stages, Robust(), 1, 0, True)
    return Plan("pocket", (arm,))


def serve_study(plan: Plan, options: ServeOptions, say: Say) -> None:
    """Serve the contestants of a plan until interrupted. Raises ConfigError, RunError."""
    token, cache = options.token, options.cache or options.out / ".cache"
    arms, name = name_contestants(plan), options.name or plan.name
    folder = find_free_folder(options.out / "serve" / name)
    recorder = Recorder(folder, tuple(arms.values()), name, plan.plugins)
    names = f"contestants, which clients name as the model: {', '.join(arms)}"
    with use_result_store(cache / "findings"), recorder:
        responder = StudyResponder(arms, recorder, cache, say, options.show_looks, options.abstain)
        try:
            _serve(
                StudyGate(options.workers, token, responder=responder),
                recorder,
                names,
                options,
                say,
            )
        finally:
            responder.close()
            close_networks()


def serve_tap(url: str, options: ServeOptions, say: Say) -> None:
    """Forward requests to the server at `url`, and record them, until interrupted. Raises
    ConfigError, RunError."""
    name, token = options.name or "tap", options.token
    with Recorder(find_free_folder(options.out / "serve" / name), (), name) as recorder:
        tap = RecordingProxy(TAP_THREAD_COUNT, token, recorder=recorder, url=url, say=say)
        _serve(tap, recorder, f"all requests are forwarded unchanged to {tap.url}", options, say)


def _serve(gate: HttpGate, recorder: Recorder, about: str, options: ServeOptions, say: Say) -> None:
    def announce(url: str) -> None:
        say(f"{recorder.name} answers at {url}; press Ctrl-C to stop")
        say(about)
        say(f"requests are recorded: looktwice view {recorder.path}")

    serve(gate, options.host or LOOPBACK_HOSTS[0], options.port, announce)


def find_free_folder(folder: Path) -> Path:
    """Return the folder, or the first numbered alternative, such as `pocket-2`, that no other
    server is writing to."""
    free = folder
    for number in count(2):
        free.mkdir(parents=True, exist_ok=True)
        with suppress(Timeout), FileLock(free / ".lock", timeout=0):
            break
        free = folder.with_name(f"{folder.name}-{number}")
    return free


@dataclass(eq=False)
class StudyGate(HttpGate):
    """A server that passes requests to the contestants of a study."""

    responder: StudyResponder = field(kw_only=True)
    protocols: ClassVar[tuple[WireProtocol, ...]] = (
        CHAT_PROTOCOL,
        ResponsesProtocol(),
        MESSAGES_PROTOCOL,
    )

    async def list_models(self, request: web.Request) -> web.StreamResponse:
        """List the contestants, or describe the one that the path names, with the fields of every
        protocol. Raises Refusal for an unknown one."""
        models = {name: describe_model(name) for name in self.responder.arms}
        if (name := request.match_info.get("name")) is not None:
            if name not in models:
                names = ", ".join(models)
                raise Refusal(404, f"there is no contestant {name!r}; the contestants are {names}")
            return web.json_response(models[name])
        ends = {"first_id": next(iter(models)), "last_id": [*models][-1], "has_more": False}
        return web.json_response({"object": "list", "data": [*models.values()], **ends})

    async def respond(self, request: web.Request, raw: bytes) -> web.StreamResponse:
        """Respond with a contestant's answer."""
        loop, protocol = asyncio.get_running_loop(), self.find_protocol(request)
        exchange = await unwrap_answer(loop.run_in_executor(self.pool, protocol.read, raw))
        work = loop.run_in_executor(self.pool, self.responder.answer, exchange.question)
        if exchange.question.stream:
            return await stream_answer(request, work, exchange, protocol)
        answered = await unwrap_answer(work)
        return web.json_response(exchange.make_body(answered), headers=answered.headers)

    async def close(self) -> None:
        """Prevent new model calls."""
        self.responder.stop.set()


def describe_model(name: str) -> dict[str, str | int]:
    """Describe a contestant as a model, with the fields of OpenAI and of Anthropic."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "looktwice",
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
    }


async def unwrap_answer(work: asyncio.Future[Result]) -> Result:
    """Wait for the result of `work`. Raises any error as a Refusal."""
    try:
        return await work
    except (Refusal, asyncio.CancelledError):
        raise
    except Stopped as exc:
        raise Refusal(503, "the server is shutting down", "server_error") from exc
    except ValueError as exc:
        raise Refusal(400, str(exc)) from exc
    except Exception as exc:  # no request may end the server
        raise Refusal(500, f"{type(exc).__name__}: {exc}", "server_error") from exc


async def stream_answer(
    request: web.Request,
    work: asyncio.Future[AnswerContent],
    exchange: Exchange,
    protocol: WireProtocol,
) -> web.StreamResponse:
    """Send the answer as events. Comments keep the connection alive until the answer is ready; an
    error after the first comment is sent as an event. Raises Refusal for an earlier error."""
    await asyncio.wait([work], timeout=HEARTBEAT_SECONDS)
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
    if work.done():
        headers |= (await unwrap_answer(work)).headers
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    while not work.done():
        await response.write(b": looking\n\n")
        await asyncio.wait([work], timeout=HEARTBEAT_SECONDS)
    try:
        for event in exchange.make_events(await unwrap_answer(work)):
            await response.write(event)
    except Refusal as exc:
        await response.write(protocol.make_error_event(exc))
    await response.write_eof()
    return response

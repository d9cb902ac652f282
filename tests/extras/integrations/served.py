"""A study or a tap, served to clients in this process."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from aiohttp import web

from looktwice.eval import MarkedScenes, Robust
from looktwice.eval.page.hosting import make_runner
from looktwice.eval.records import Record, RunFolder
from looktwice.extras.integrations.command import StudyGate
from looktwice.extras.integrations.http_gate import HttpGate
from looktwice.extras.integrations.recorded import Recorder, Requests
from looktwice.extras.integrations.responder import StudyResponder, name_contestants
from looktwice.extras.integrations.tap import RecordingProxy
from looktwice.pipelines import Pipeline, Sample, Stage, State
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import Arm
from looktwice.prompting import Circles, MultipleChoice

Json = dict[str, Any]


@dataclass
class Served:
    """The address of a server, the run that it records, its HTTP gate, and its messages to the
    user."""

    url: str
    run: Path
    gate: HttpGate
    messages: list[str] = field(default_factory=list)
    clients: list[Any] = field(default_factory=list)

    @property
    def client(self) -> Any:
        """OpenAI's own client without retries; `close` closes it."""
        import openai

        client = openai.OpenAI(base_url=self.url, api_key="a client's own", max_retries=0)
        self.clients.append(client)
        return client

    def close(self) -> None:
        """Close every client."""
        for client in self.clients:
            client.close()

    @property
    def samples(self) -> dict[str, Sample]:
        """The questions that were asked, by id."""
        return {item.sample.id: item.sample for item in Requests(self.run)}

    @property
    def records(self) -> list[Record]:
        """The records, by contestant, sample and draw."""
        return list(RunFolder(self.run).last_records())


@contextmanager
def listening(gate: HttpGate) -> Iterator[str]:
    """Listen with an HTTP gate and yield its address."""
    loop, ready, urls = asyncio.new_event_loop(), threading.Event(), list[str]()

    async def start() -> web.AppRunner:
        runner = make_runner(gate.make_application(), shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
        ready.set()
        return runner

    async def stop(runner: web.AppRunner) -> None:
        await gate.close()
        await runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def run() -> None:
        runner = loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(stop(runner))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(20)
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        gate.pool.shutdown()


def plan_of(contestants: Mapping[str, Mapping[str, Stage]], model: Any) -> Plan:
    """Return a plan with these contestants."""
    scenes = MarkedScenes("symbol", n=2)
    arms = [
        Arm(name, {}, "scenes", scenes, model, stages, Robust(), 1, 0, number == 0)
        for number, (name, stages) in enumerate(contestants.items())
    ]
    return Plan("study", tuple(arms))


@contextmanager
def serving(
    plan: Plan,
    folder: Path,
    *,
    token: str = "",
    workers: int = 8,
    looks: bool = False,
    abstain: Literal["error", "text"] = "error",
) -> Iterator[Served]:
    """Serve a study, recorded in `folder/run`."""
    arms, lines = name_contestants(plan), list[str]()
    with Recorder(folder / "run", tuple(arms.values()), plan.name) as recorder:
        responder = StudyResponder(arms, recorder, folder / ".cache", lines.append, looks, abstain)
        try:
            gate = StudyGate(workers, token, responder=responder)
            with (
                listening(gate) as url,
                closing(Served(url, folder / "run", gate, lines)) as served,
            ):
                yield served
        finally:
            responder.close()


@contextmanager
def tapping(upstream: str, folder: Path, name: str = "tap") -> Iterator[Served]:
    """Run a tap in front of another server."""
    lines = list[str]()
    with Recorder(folder / name, (), name) as recorder:
        tap = RecordingProxy(8, recorder=recorder, url=upstream, say=lines.append)
        with listening(tap) as url, closing(Served(url, folder / name, tap, lines)) as served:
            yield served


class Answer(NamedTuple):
    """A response of the server."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def error(self) -> Json:
        """The error in the response."""
        return dict(json.loads(self.text)["error"])


OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(url: str, body: Json | bytes, path: str = "chat/completions", **headers: str) -> Answer:
    """Send a request to a path below `url`."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    whole = {"Content-Type": "application/json", **named}
    request = urllib.request.Request(f"{url}/{path}", data, whole)
    try:
        with OPENER.open(request, timeout=30) as answer:
            return Answer(answer.status, dict(answer.headers), answer.read().decode())
    except urllib.error.HTTPError as exc:
        with exc:
            return Answer(exc.code, dict(exc.headers), exc.read().decode())


def refusal(url: str, **headers: str) -> int:
    """Return the status with which a page is refused."""
    request = urllib.request.Request(url, headers=headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        OPENER.open(request, timeout=30)
    refused.value.close()
    return int(refused.value.code)


def turn(*parts: Any, role: str = "user") -> Json:
    """Return a turn of texts and data URLs."""
    kinds = [
        {"type": "image_url", "image_url": {"url": part}}
        if part.startswith("data:")
        else {"type": "text", "text": part}
        for part in parts
    ]
    return {"role": role, "content": kinds}


def questions(n: int, size: Sequence[int] = (36, 20)) -> list[tuple[str, str]]:
    """Return marked pictures as data URLs, each with its question."""
    shown = Pipeline({"mark": Circles(radius=14), "choose": MultipleChoice()})
    scenes = MarkedScenes("symbol", n=n, controls={"size": tuple(size)})
    states = [shown(State.start(item.sample)) for item in scenes]
    return [(state.views[0].picture.payload.data_url, state.prompt) for state in states]

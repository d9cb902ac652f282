"""A real OpenAI-compatible HTTP server in its own process. It counts and logs requests, answers
deterministically, and fails on demand.

`python chat_server.py` starts a server for each line of flags that it reads, and prints `port N`
and its process id. Every answer is derived from a hash of the request. Words in the last user
message select a behaviour (see BEHAVIOURS). `--fail 429=0.2` makes that share of first attempts
fail, and `--first 429,500` the first requests. GET /stats gives the counts and the Authorization
headers received. `--rate 20` answers 20 requests a second and refuses the rest.
"""

import argparse
import asyncio
import atexit
import contextlib
import functools
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.batch_endpoints import BatchEndpoints

Json = dict[str, Any]
FAILURES = ("429", "500", "503", "408", "reset", "drop", "garbage")


def get_text(body: Json) -> str:
    """Return the text of the last user message."""
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            return "\n".join(part["text"] for part in parts if part["type"] == "text")
    return ""


def hash_request(body: Json, salt: str = "") -> int:
    """Return a number that depends only on the request."""
    return int(
        hashlib.sha256((salt + json.dumps(body, sort_keys=True)).encode()).hexdigest()[:12], 16
    )


def make_completion(body: Json) -> Json:
    """Return a chat completion whose letter depends only on the request."""
    text = f"({'ABCD'[hash_request(body) % 4]})"
    message: Json = {"role": "assistant", "content": text, "refusal": None}
    choice: Json = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    if body.get("logprobs"):
        top = [{"token": t, "logprob": -1.0 - i, "bytes": None} for i, t in enumerate(("(B", "(C"))]
        token = {
            "token": "(A",
            "logprob": -0.5,
            "bytes": None,
            "top_logprobs": top[: body.get("top_logprobs", 0)],
        }
        choice["logprobs"] = {"content": [token], "refusal": None}
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    return {
        "id": f"chatcmpl-{hash_request(body):x}",
        "object": "chat.completion",
        "created": 1,
        "model": f"{body['model']}-2026",
        "system_fingerprint": "fp_test",
        "choices": [choice],
        "usage": usage,
    }


def edit_completion(
    body: Json, finish: str = "stop", usage: Json | None = None, **message: Any
) -> web.Response:
    """Respond with the completion after changing fields of its message."""
    whole = make_completion(body)
    whole["choices"][0]["message"].update(message)
    whole["choices"][0]["finish_reason"] = finish
    whole["usage"].update(usage or {})
    return web.json_response(whole)


def add_logprobs(body: Json, *tokens: Json | None) -> web.Response:
    """Respond with the completion and these log-probabilities."""
    whole = make_completion(body)
    whole["choices"][0]["logprobs"] = {"content": list(tokens)}
    return web.json_response(whole)


def respond(status: int, value: Any) -> web.Response:
    """Respond with a JSON value."""
    return web.json_response(value, status=status)


def respond_error(
    status: int, message: str, code: str | None = None, **headers: str
) -> web.Response:
    """Respond with an error in OpenAI's format."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return web.json_response({"error": error}, status=status, headers=headers)


CALL = {"id": "call_7", "type": "function", "function": {"name": "zoom", "arguments": '{"x": 1}'}}
PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
    {"type": "text", "text": "(D)"},
]
NULLS = {"token": "(A", "logprob": None, "top_logprobs": [None]}
THOUGHT = {
    "completion_tokens_details": {"reasoning_tokens": 5},
    "prompt_tokens_details": {"cached_tokens": 64},
}
BEHAVIOURS: dict[str, Callable[[Json], web.Response]] = {
    "#filter": lambda b: edit_completion(b, "content_filter", content=None),
    "#400filter": lambda b: respond_error(400, "The response was filtered", "content_filter"),
    "#length": lambda b: edit_completion(b, "length", content="It is mostly"),
    "#empty": lambda b: edit_completion(b, content=""),
    "#refusal": lambda b: edit_completion(b, content=None, refusal="I cannot help with that."),
    "#reasoning": lambda b: edit_completion(b, reasoning_content="Let me look.", usage=THOUGHT),
    "#openrouter": lambda b: edit_completion(b, reasoning="Let me see."),
    "#think": lambda b: edit_completion(b, content="<think>hm</think>(A)"),
    "#parts": lambda b: edit_completion(b, content=PARTS),
    "#tool": lambda b: edit_completion(b, "tool_calls", content=None, tool_calls=[CALL]),
    "#stoptool": lambda b: edit_completion(
        b, content=None, tool_calls=[{"function": CALL["function"]}]
    ),
    "#hidden": lambda b: edit_completion(b, usage={"completion_tokens": 7, "total_tokens": 150}),
    "#half": lambda b: edit_completion(b, content="half \ud83d"),
    "#null": lambda b: add_logprobs(b, NULLS, None),
    "#torn": lambda b: add_logprobs(b, {"token": "(A", "logprob": "likely"}),
    "#network": lambda b: edit_completion(b, "network_error", content="It is either (A) or"),
    "#novel": lambda b: edit_completion(b, "ran_dry"),
    "#large": lambda b: edit_completion(b, content="(A)" + "x" * (17 << 20)),
    "#other": lambda b: respond_error(
        400,
        "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'"
        " instead.",
    ),
    "#aborted": lambda b: edit_completion(b, "abort", content="It is"),
    "#400": lambda b: respond_error(400, "Unknown parameter: 'top_k' " + "x" * 1000),
    "#tools": lambda b: respond_error(400, "tools: not known here; leave it out"),
    "#401": lambda b: respond_error(401, "Incorrect API key provided: sk-secret-of-openai"),
    "#404": lambda b: respond(404, {"detail": "Not Found"}),
    "#ollama": lambda b: respond(404, {"error": "model 'm' not found, try pulling it first"}),
    "#gemini": lambda b: respond(400, [{"error": {"code": 400, "message": "API key not valid"}}]),
    "#quota": lambda b: respond_error(429, "You exceeded your current quota", "insufficient_quota"),
    "#late": lambda b: respond_error(429, "Come back tomorrow", **{"Retry-After": "86400"}),
    "#inside": lambda b: respond(
        200, {"error": {"code": 502, "message": "Provider returned error"}}
    ),
    "#redirect": lambda b: web.Response(status=307, headers={"Location": "http://127.0.0.1:9/v1"}),
}


class Server:
    """The request handlers, and the requests they have received."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.log = os.open(args.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if args.log else None
        self.first: list[str] = [each for each in args.first.split(",") if each]
        self.shares: list[tuple[str, float]] = [
            (kind, float(share)) for kind, _, share in (each.partition("=") for each in args.fail)
        ]
        self.attempts: Counter[int] = Counter()
        self.authorizations: set[str | None] = set()
        batches = (args.batch_seconds, args.batch_expires, args.batch_refused)
        self.batches = BatchEndpoints(self.reply, *batches)
        self.requests = self.replies = self.in_flight = self.most = self.probes = 0
        self.tokens, self.filled = args.rate, time.monotonic()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Handle one request: log it, wait, then fail or answer."""
        raw = await request.read()
        self.requests += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        self.authorizations.add(request.headers.get("Authorization"))
        if self.log is not None:
            os.write(self.log, raw + b"\n")
        try:
            body = json.loads(raw)
            failure = self.choose_failure(body)
            if failure != "429":  # refusals are immediate
                await asyncio.sleep(self.args.delay)
            return await self.fail(request, failure) if failure else self.reply(body)
        finally:
            self.in_flight -= 1

    def reply(self, body: Json) -> web.Response:
        """Respond with the behaviour that the text names, or with a completion."""
        text = get_text(body)
        self.replies += 1
        for word, behaviour in BEHAVIOURS.items():
            if word in text.split():
                return behaviour(body)
        whole = make_completion(body)
        if self.args.no_usage:
            del whole["usage"]
        return web.json_response(whole)

    def choose_failure(self, body: Json) -> str | None:
        """Return the failure of this attempt, chosen by script, by text (`fail:429`) or by share;
        None if it succeeds."""
        if self.first:
            return self.first.pop(0) or None
        if self.args.rate and not self.take_token():
            return "429"
        word = next(
            (w.removeprefix("fail:") for w in get_text(body).split() if w.startswith("fail:")), None
        )
        if word in FAILURES:
            return word
        number = hash_request(body)
        self.attempts[number] += 1
        if self.attempts[number] == 1:
            for kind, share in self.shares:
                if hash_request(body, kind) % 1000 < share * 1000:
                    return kind
        return None

    def take_token(self) -> bool:
        """Take a token from a bucket that fills at `rate` tokens a second. Return whether one was
        left."""
        now = time.monotonic()
        self.tokens = min(self.args.rate, self.tokens + self.args.rate * (now - self.filled))
        self.filled = now
        there_is = bool(self.tokens >= 1)
        self.tokens -= there_is
        return there_is

    async def fail(self, request: web.Request, kind: str) -> web.StreamResponse:
        """Disconnect, send half a body, send invalid JSON, or refuse with a status."""
        if kind == "ok":
            return web.json_response(make_completion(await request.json()))
        if kind == "garbage":
            return web.Response(text="<html>Welcome</html>", content_type="text/html")
        if kind in ("reset", "drop"):
            if kind == "drop":
                half = web.StreamResponse(
                    headers={"Content-Length": "500", "Content-Type": "application/json"}
                )
                await half.prepare(request)
                await half.write(b'{"choices": [')
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        wait = self.args.retry_after if kind in ("429", "503") else ""
        return respond_error(int(kind), "busy", **({"Retry-After": wait} if wait else {}))

    async def refuse_unknown(self, request: web.Request) -> web.Response:
        """Refuse any other path, as if the key were wrong."""
        return respond_error(401, "Incorrect API key provided")

    async def models(self, request: web.Request) -> web.Response:
        """Respond with the list of models, or with the requested status."""
        self.probes += 1
        await asyncio.sleep(self.args.models_delay)
        status = int(self.args.models)
        named = {"object": "list", "data": [{"id": "tiny"}]}
        return (
            web.json_response(named) if status == 200 else respond_error(status, "no list for you")
        )

    async def stats(self, request: web.Request) -> web.Response:
        """Respond with the counts so far."""
        seen = sorted(self.authorizations, key=str)
        counts = {
            "requests": self.requests,
            "replies": self.replies,
            "most_in_flight": self.most,
            "probes": self.probes,
            "batches": len(self.batches.batches),
            "batched": self.batches.requests,
            "native_keys": sorted(self.batches.keys, key=str),
        }
        return web.json_response(counts | {"authorizations": seen})

    async def serve(self) -> None:
        """Listen on a free local port until killed."""
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/stats", self.stats)
        if not self.args.no_batches:
            app.router.add_routes(self.batches.routes())
        app.router.add_route("*", "/v1/{rest:.*}", self.refuse_unknown)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", int(self.args.port))
        await site.start()
        sys.stdout.write(f"port {runner.addresses[0][1]} {os.getpid()}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


class ChatServer:
    """A test's handle on the running server."""

    def __init__(self, port: int, log: Path | None, kill: Callable[[], None]) -> None:
        self.kill = kill
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"
        self.log = log

    @property
    def stats(self) -> Json:
        """Counts of requests, replies and batches, and the keys that were received."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.root}/stats", timeout=10) as answer:
            return dict(json.loads(answer.read()))

    @property
    def bodies(self) -> list[Json]:
        """Every request body in order of arrival."""
        return [json.loads(line) for line in self.log.read_bytes().splitlines()] if self.log else []


@contextlib.contextmanager
def chat_server(log: Path | None = None, *flags: str) -> Iterator[ChatServer]:
    """Start the server process and kill it at the end."""
    named = ["--log", str(log)] if log else []
    with STARTING:
        starter = _starter()
        assert starter.stdin is not None and starter.stdout is not None
        starter.stdin.write(json.dumps([*named, *flags]) + "\n")
        starter.stdin.flush()
        word, port, process = starter.stdout.readline().split()
    assert word == "port", "the server did not start"
    kill = functools.partial(_kill, int(process))
    try:
        yield ChatServer(int(port), log, kill)
    finally:
        kill()


STARTING = threading.Lock()


@functools.cache
def _starter() -> subprocess.Popen[str]:
    """Start the process from which all servers are forked, so that imports happen once."""
    command = [sys.executable, str(Path(__file__).resolve())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.__exit__, None, None, None)
    return process


def _kill(process: int) -> None:
    """Kill the process and wait until its port is free."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        while True:
            os.kill(process, 0)
            time.sleep(0.001)


def serve_many() -> None:
    """Start a server for each line of flags on standard input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their exit status is not collected
    for line in sys.stdin:
        if not os.fork():
            serve(json.loads(line))
            os._exit(0)


FLAGS: tuple[tuple[str, str | float, str], ...] = (
    ("port", "0", "0 takes a free one"),
    ("log", "", "file to which every request body is appended"),
    ("delay", 0.0, "seconds before an answer"),
    ("first", "", "kinds of the first requests, `ok` among them"),
    ("models", "200", "the status of GET /v1/models"),
    ("models-delay", 0.0, "seconds before that answer"),
    ("batch-seconds", 0.1, "how long a batch takes"),
    ("batch-refused", "", "why no batch is taken"),
    ("rate", 0.0, "answers a second, beyond which it refuses (429)"),
    ("retry-after", "", "value sent with 429 and 503"),
)
SWITCHES = (
    ("batch-expires", "the first batch leaves out every third request"),
    ("no-batches", "refuse the key of whoever asks for a batch"),
    ("no-usage", "count no tokens"),
)


def serve(flags: list[str]) -> None:
    """Read the flags and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default, words in FLAGS:
        kind = float if isinstance(default, float) else str
        parser.add_argument(f"--{name}", type=kind, default=default, help=words)
    for name, words in SWITCHES:
        parser.add_argument(f"--{name}", action="store_true", help=words)
    parser.add_argument("--fail", action="append", default=[], help="KIND=SHARE")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Server(parser.parse_args(flags)).serve())


if __name__ == "__main__":
    serve_many()

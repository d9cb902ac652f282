"""A server on loopback that sends exactly the bytes that a script specifies, and records every
request."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """The bytes of a response, sent after `delay` seconds; with `cut`, the connection is then
    cut."""

    raw: bytes
    kind: str = "good"
    delay: float = 0.0
    cut: bool = False


@dataclass(eq=False)
class Exchange:
    """One request for a completion: its question, the time of arrival, the kind of answer, and the
    time it was sent."""

    body: str
    began: float
    kind: str = ""
    ended: float | None = None


Script = Callable[[Json, int], Answer]
"""Returns the answer to a request, given the number of earlier identical requests."""


def http(status: int, body: bytes, *headers: str | bytes, length: int | None = None) -> bytes:
    """Return a whole HTTP response."""
    lines = [f"HTTP/1.1 {status} Said".encode(), b"Content-Type: application/json"]
    lines += [f"Content-Length: {len(body) if length is None else length}".encode()]
    lines += [line if isinstance(line, bytes) else line.encode("latin-1") for line in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def completion(content: Any = "(A)", **changed: Any) -> Json:
    """Return a chat completion; `changed` replaces whole keys."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "tiny",
        "choices": [choice],
        "usage": usage,
    } | changed


def good(delay: float = 0.0) -> Answer:
    """Return a valid answer."""
    return Answer(http(200, json.dumps(completion()).encode()), delay=delay)


def question_of(body: Json) -> str:
    """Return the text of the last message."""
    content = body["messages"][-1]["content"]
    return (
        content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
    )


@dataclass(eq=False)
class HostileServer:
    """A server that follows the script, in its own thread."""

    script: Script
    exchanges: list[Exchange] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    url: str = ""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side closes it."""
        try:  # requests to a proxy have no body to parse as JSON
            with suppress(
                OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError
            ):
                while await self.answer(reader, writer):
                    pass
        finally:
            writer.transport.abort()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and answer it; return False if the connection was cut."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = next(
            (int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), 0
        )
        text = (await reader.readexactly(size)).decode()
        if head.startswith("get "):
            writer.write(http(200, b'{"object": "list", "data": []}'))
            await writer.drain()
            return True
        exchange = Exchange(text, time.monotonic())
        self.exchanges.append(exchange)
        message = self.script(json.loads(text), self.seen[text])
        self.seen[text] += 1
        exchange.kind = message.kind
        await asyncio.sleep(message.delay)
        writer.write(message.raw)
        await writer.drain()
        exchange.ended = time.monotonic()
        return not message.cut

    def count(self, kind: str = "good") -> int:
        """Count the answers of one kind."""
        return sum(each.kind == kind and each.ended is not None for each in list(self.exchanges))


@contextmanager
def hostile_server(script: Script) -> Iterator[HostileServer]:
    """Serve on a free port of this machine."""
    server, loop = HostileServer(script), asyncio.new_event_loop()
    listening = loop.run_until_complete(asyncio.start_server(server.talk, "127.0.0.1", 0))
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        listening.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

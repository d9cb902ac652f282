"""An endpoint on loopback that gives the same answer to every request: `python -m bench.wire.server
[--latency S]`.

It prints its port, and answers GET /stats with the number of requests, and the seconds from the
first to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from aiohttp import web

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "wire",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "(B)"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 400, "completion_tokens": 3, "total_tokens": 403},
}


class Endpoint:
    """An endpoint that counts requests, and answers after `latency` seconds."""

    def __init__(self, latency: float) -> None:
        self.latency, self.body = latency, json.dumps(ANSWER).encode()
        self.count, self.first, self.last = 0, 0.0, 0.0

    async def answer(self, request: web.Request) -> web.Response:
        """Return a chat completion."""
        now = time.perf_counter()
        self.first, self.count = self.first or now, self.count + 1
        await request.read()
        if self.latency:
            await asyncio.sleep(self.latency)
        self.last = time.perf_counter()
        return web.Response(body=self.body, content_type="application/json")

    async def models(self, request: web.Request) -> web.Response:
        """List the only model."""
        return web.json_response({"object": "list", "data": [{"id": "wire", "object": "model"}]})

    async def stats(self, request: web.Request) -> web.Response:
        """Return the number of requests since the last call, and how long they took."""
        found = {"count": self.count, "seconds": self.last - self.first}
        self.count, self.first, self.last = 0, 0.0, 0.0
        return web.json_response(found)


async def serve(latency: float) -> None:
    """Answer requests until killed."""
    endpoint, app = Endpoint(latency), web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", endpoint.answer)
    app.router.add_get("/v1/models", endpoint.models)
    app.router.add_get("/stats", endpoint.stats)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    asyncio.run(serve(parser.parse_args().latency))

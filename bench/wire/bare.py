"""The least that could be done, to measure against: bodies that lie ready, or that threads draw, posted by aiohttp.

`python -m bench.wire.bare STUDY IN_FLIGHT` posts to its server what `looktwice run STUDY` does; with `--draw` four
circles with their letters are drawn by cv2 in a pool of threads and written as PNG on the way.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import cv2
import numpy as np

from looktwice.pipelines.config import load_plan
from looktwice.pipelines.model import CallOptions, Messages, Reply
from looktwice.pipelines.picture import FAST_PNG
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.state import State

Work = Callable[[], bytes]


@dataclass
class Listener:
    """A model that keeps the bodies that `chat` would send."""

    chat: Any
    identity: str = "listener"
    found: list[bytes] = field(default_factory=list)

    def __call__(self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()) -> Reply:
        """Keep the body."""
        body = self.chat.body(messages, draw, options)
        self.found.append(json.dumps(body, separators=(",", ":")).encode())
        return Reply("(A)")


def ready_bodies(study: Path) -> Iterator[Work]:
    """The requests of a study, as looktwice sends them."""
    arm = load_plan(study).points[0]
    listener = Listener(arm.model)
    for item in arm.task:
        Pipeline(arm.stages)(State.start(item.sample), listener)
    return iter([lambda body=body: body for body in listener.found])


def drawn_bodies(study: Path) -> Iterator[Work]:
    """Functions that read a photograph, draw on it, encode it and make the request."""
    plain = load_plan(study).points[0]
    for item in plain.task:
        file, marks, question = Path(item.sample.images[0].name), item.sample.marks, item.sample.question
        yield lambda file=file, marks=marks, question=question: _draw(file, marks, question)  # type: ignore[misc]


def _draw(file: Path, marks: Any, question: str) -> bytes:
    pixels = cv2.imdecode(np.fromfile(file, np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    for mark in marks:
        middle = round(mark.x), round(mark.y)
        cv2.circle(pixels, middle, 20, (0, 0, 255), 3, cv2.LINE_AA)
        cv2.putText(pixels, mark.label, (middle[0] + 24, middle[1]), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (0, 0, 255), 2)
    image = base64.b64encode(bytes(cv2.imencode(".png", pixels, FAST_PNG)[1])).decode()
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
    parts = [shown, {"type": "text", "text": question}]
    return json.dumps({"model": "wire", "messages": [{"role": "user", "content": parts}]}).encode()


async def post_all(url: str, works: Iterator[Work], in_flight: int, threads: int) -> None:
    """Post every body, so many at a time, and read the answers; what there is to do before, threads do."""
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(threads) if threads else None

    async def post(session: aiohttp.ClientSession) -> None:
        for work in works:
            body = await loop.run_in_executor(pool, work) if pool else work()
            async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
                json.loads(await response.read())

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(post(session) for _ in range(in_flight)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("in_flight", type=int)
    parser.add_argument("--draw", action="store_true")
    args = parser.parse_args()
    url = f"{load_plan(args.study).points[0].model.url}/chat/completions"
    if args.draw:
        cv2.setNumThreads(1)
        asyncio.run(post_all(url, drawn_bodies(args.study), args.in_flight, os.cpu_count() or 1))
    else:
        asyncio.run(post_all(url, ready_bodies(args.study), args.in_flight, 0))

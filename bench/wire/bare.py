"""The minimal request loop, as a reference: bodies that are ready, or drawn by threads, posted by
aiohttp.

`python -m bench.wire.bare STUDY IN_FLIGHT` posts the requests of `looktwice run STUDY` to the
study's server. With `--draw`, cv2 draws four circles with their letters in a thread pool and
encodes them as PNG. With `--keep FOLDER` the loop makes each request itself, from a photograph that
it reads, and stores what a run has to store: photograph and message by their sha256, the reply in a
SQLite file, and a line for each question.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import os
import sqlite3
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
from looktwice.pipelines.models.wire import write_request
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State

Work = Callable[[], bytes]
PNG = [
    cv2.IMWRITE_PNG_COMPRESSION,
    1,
    cv2.IMWRITE_PNG_FILTER,
    cv2.IMWRITE_PNG_FILTER_AVG,
    cv2.IMWRITE_PNG_STRATEGY,
    cv2.IMWRITE_PNG_STRATEGY_RLE,
]
"""OpenCV's fastest good settings for photographs."""


@dataclass
class Listener:
    """A model that stores the bodies that `chat` would send."""

    chat: Any
    identity: str = "listener"
    found: list[bytes] = field(default_factory=list)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Store the body."""
        body = self.chat.make_body(messages, draw, options)
        self.found.append(write_request(body))
        return Reply("(A)")


def ready_bodies(study: Path) -> Iterator[Work]:
    """Yield the requests of a study, as looktwice sends them."""
    arm = load_plan(study).points[0]
    listener = Listener(arm.model)
    for item in arm.task:
        Pipeline(arm.stages)(State.start(item.sample), listener)
    return iter([lambda body=body: body for body in listener.found])


def drawn_bodies(study: Path) -> Iterator[Work]:
    """Yield functions that read a photograph, draw on it, encode it and make the request."""
    plain = load_plan(study).points[0]
    for item in plain.task:
        file, marks, question = (
            Path(item.sample.images[0].name),
            item.sample.marks,
            item.sample.question,
        )
        yield lambda file=file, marks=marks, question=question: _draw(file, marks, question)  # type: ignore[misc]


def _draw(file: Path, marks: Any, question: str) -> bytes:
    pixels = cv2.imdecode(np.fromfile(file, np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    for mark in marks:
        middle = round(mark.x), round(mark.y)
        cv2.circle(pixels, middle, 20, (0, 0, 255), 3, cv2.LINE_AA)
        cv2.putText(
            pixels,
            mark.label,
            (middle[0] + 24, middle[1]),
            cv2.FONT_HERSHEY_SIMPLEX,
            0.8,
            (0, 0, 255),
            2,
        )
    image = base64.b64encode(bytes(cv2.imencode(".png", pixels, PNG)[1])).decode()
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
    parts = [shown, {"type": "text", "text": question}]
    return json.dumps({"model": "wire", "messages": [{"role": "user", "content": parts}]}).encode()


@dataclass
class ResultStore:
    """Stores the minimum that a run has to store for each question; replies and lines are written
    in batches of a hundred."""

    folder: Path
    waiting: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.file = sqlite3.connect(self.folder / "replies.sqlite", isolation_level=None)
        self.file.execute("PRAGMA journal_mode = WAL")
        self.file.execute("CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT) WITHOUT ROWID")

    def body(self, sample: Sample) -> tuple[str, bytes]:
        """Return the key of a request, and the request."""
        data = Path(sample.images[0].name).read_bytes()
        picture = self._blob(data)
        text = f"{sample.question}\n" + "\n".join(map(str, sample.choices))
        message = json.dumps({"role": "user", "parts": [{"picture": picture}, text]}).encode()
        shown = {
            "type": "image_url",
            "image_url": {"url": f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"},
        }
        parts = [shown, {"type": "text", "text": text}]
        body = json.dumps(
            {"model": "wire", "messages": [{"role": "user", "content": parts}]}
        ).encode()
        return self._blob(message), body

    def reply(self, key: str, reply: bytes) -> None:
        """Store a reply, and the line of its question."""
        self.waiting.append((key, json.dumps({"sample": key, "reply": json.loads(reply)})))
        if len(self.waiting) >= 100:
            self.flush()

    def flush(self) -> None:
        """Write waiting data."""
        self.file.execute("BEGIN")
        self.file.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?)", self.waiting)
        self.file.execute("COMMIT")
        with (self.folder / "records.jsonl").open("a") as file:
            file.writelines(f"{line}\n" for _, line in self.waiting)
        self.waiting.clear()

    def _blob(self, data: bytes) -> str:
        sha = hashlib.sha256(data).hexdigest()
        path = self.folder / sha[:2] / sha
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".part").write_bytes(data)
        path.with_suffix(".part").rename(path)
        return sha


async def keep_all(url: str, study: Path, in_flight: int, folder: Path) -> None:
    """Ask every question, `in_flight` at a time, and store the results."""
    keeper, samples = ResultStore(folder), (item.sample for item in load_plan(study).points[0].task)

    async def post(session: aiohttp.ClientSession) -> None:
        for sample in samples:
            key, body = keeper.body(sample)
            async with session.post(
                url, data=body, headers={"Content-Type": "application/json"}
            ) as response:
                keeper.reply(key, await response.read())

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(post(session) for _ in range(in_flight)))
    keeper.flush()


async def post_all(url: str, works: Iterator[Work], in_flight: int, threads: int) -> None:
    """Post every body, `in_flight` at a time, and read the answers; threads prepare the bodies."""
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(threads) if threads else None

    async def post(session: aiohttp.ClientSession) -> None:
        for work in works:
            body = await loop.run_in_executor(pool, work) if pool else work()
            async with session.post(
                url, data=body, headers={"Content-Type": "application/json"}
            ) as response:
                json.loads(await response.read())

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(post(session) for _ in range(in_flight)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("in_flight", type=int)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    url = f"{load_plan(args.study).points[0].model.url}/chat/completions"
    if args.keep:
        asyncio.run(keep_all(url, args.study, args.in_flight, args.keep))
    elif args.draw:
        cv2.setNumThreads(1)
        asyncio.run(post_all(url, drawn_bodies(args.study), args.in_flight, os.cpu_count() or 1))
    else:
        asyncio.run(post_all(url, ready_bodies(args.study), args.in_flight, 0))

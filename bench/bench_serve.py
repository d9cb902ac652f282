"""Overhead of `looktwice serve` per request, compared with the server behind it: through a study
whose stages draw nothing, and through a tap, with 1 and 64 requests in flight.

`SERVE_REQUESTS=512 make bench ARGS="bench/bench_serve.py"`; each request has a different picture.
"""

from __future__ import annotations

import asyncio
import base64
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import numpy as np
import pytest

from looktwice.pipelines.encodings.image_files import to_png
from tests.paths import ROOT

REQUESTS = int(os.environ.get("SERVE_REQUESTS", "256"))
MAX_COST = 0.010  # maximum overhead of a request in seconds
LATENCY = 1.0  # seconds until the server answers
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{ROOT / 'typings'}:{ROOT}",
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}
SERVE = [sys.executable, "-c", "from looktwice.eval.cli import main; main()", "serve"]
STUDY = """
tasks: {{q: {{use: eval.tasks.MarkedScenes, kind: symbol, n: 2}}}}
model: {{use: pipelines.models.ChatAPI, model: tiny, in_flight: 256, url: "{url}"}}
stages: {{ask: {{use: prompting.turns.Ask}}}}
contestants: {{plain: {{}}}}
"""


class Cost(NamedTuple):
    """The median of seconds per request, and the CPU seconds per request."""

    median: float
    cpu: float


@contextmanager
def run_server(words: list[str], folder: Path | None = None) -> Iterator[tuple[str, int]]:
    """Start a server; yield the URL in its first line, and its process id."""
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=folder or ROOT
    ) as process:
        try:
            assert process.stdout is not None
            last = process.stdout.readline().split(" at ")[-1].split(";")[0].strip()
            yield last if last.startswith("http") else f"http://127.0.0.1:{last}/v1", process.pid
        finally:
            process.kill()


def make_bodies(count: int, seed: int) -> list[dict[str, Any]]:
    """Make requests with a picture of 336 x 336 noisy pixels each."""
    random = np.random.default_rng(seed)
    bodies = []
    for number in range(count):
        small = random.integers(0, 255, (42, 42, 3), dtype=np.uint8)
        pixels = np.ascontiguousarray(small.repeat(8, axis=0).repeat(8, axis=1))
        url = f"data:image/png;base64,{base64.b64encode(to_png(pixels)).decode()}"
        parts = [
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "text", "text": f"{number}: which colour is in the middle?"},
        ]
        bodies.append({"messages": [{"role": "user", "content": parts}], "temperature": 0})
    return bodies


def processor_seconds(process: int) -> float:
    """Return the CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def ask_all(url: str, model: str, bodies: list[dict[str, Any]], together: int) -> list[float]:
    """Return the seconds of each request, sent by several clients that start one after the
    other."""
    seconds, left = list[float](), iter(bodies)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(delay: float) -> None:
            await asyncio.sleep(delay)
            for body in left:
                start = time.perf_counter()
                whole = body | {"model": model}
                async with session.post(f"{url}/chat/completions", json=whole) as answer:
                    assert answer.status == 200, await answer.text()
                    await answer.read()
                seconds.append(time.perf_counter() - start)

        await asyncio.gather(*(ask(LATENCY * n / together) for n in range(together)))
    return seconds


def measure(address: tuple[str, int], model: str, together: int, count: int, seed: int) -> Cost:
    """Measure requests with different pictures, once the server is warm."""
    url, process = address
    asyncio.run(ask_all(url, model, make_bodies(together, 1000 + seed), together))
    bodies, before = make_bodies(count, seed), processor_seconds(process)
    seconds = asyncio.run(ask_all(url, model, bodies, together))
    return Cost(statistics.median(seconds), (processor_seconds(process) - before) / count)


def test_cost_of_a_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, costs = list[str](), list[float]()
    for together, count, latency in ((1, REQUESTS // 4, 0.0), (64, REQUESTS, LATENCY)):
        upstream = [sys.executable, "-m", "bench.wire.server", "--latency", str(latency)]
        folder = tmp_path / str(together)
        folder.mkdir()
        with ExitStack() as stack:
            bare = stack.enter_context(run_server(upstream))
            (folder / "study.yaml").write_text(STUDY.format(url=bare[0]))
            study = stack.enter_context(run_server([*SERVE, "study.yaml", "--port", "0"], folder))
            tap = stack.enter_context(run_server([*SERVE, "--tap", bare[0], "--port", "0"], folder))
            alone = measure(bare, "tiny", together, count, 0)
            for name, address, model in (("tap", tap, "tiny"), ("study", study, "plain")):
                through = measure(address, model, together, count, len(lines) + 1)
                costs += [through.median - alone.median, through.cpu]
                lines.append(
                    f"{name}, {together} in flight: {1000 * costs[-2]:.1f} ms a request (medians"
                    f" {1000 * through.median:.1f} and bare {1000 * alone.median:.1f}), of which"
                    f" the processor {1000 * through.cpu:.1f} ms"
                )
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *lines, ""]))
    assert max(costs) < MAX_COST, lines

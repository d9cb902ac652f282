"""Chaos test: with a faulty server and a runner that is killed again and again, no answer is lost
and none is paid for twice."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from bench.soak.hostile_server import (
    Answer,
    HostileServer,
    Json,
    completion,
    good,
    hostile_server,
    http,
)
from bench.soak.scene import (
    MAIN,
    CommandResult,
    Finding,
    environment,
    faults,
    find_keys,
    finding,
    looktwice,
    write_study,
)
from looktwice.eval.records import RunFolder

WORKERS, TIMEOUT, WIRE = (
    16,
    3.0,
    0.5,
)  # seconds: timeout of a request, and until the server notices a disconnect
ARMS = """
draws: 2
contestants: {plain: {}, thought: {stages: {think: {use: prompting.wording.ChainOfThought, before: \
ask}}}}
"""
FAULTS: dict[str, Answer] = {
    "429": Answer(http(429, b'{"error": {"message": "busy"}}', "Retry-After: 1"), "429"),
    "500": Answer(http(500, b'{"error": {"message": "oops"}}'), "500"),
    "cut": Answer(b"", "cut", cut=True),
    "truncated": Answer(
        http(200, json.dumps(completion()).encode()[:60], length=200), "truncated", cut=True
    ),
    "stall": Answer(b"", "stall", delay=TIMEOUT + 2, cut=True),
    "no json": Answer(http(200, b"<html>Welcome"), "no json"),
    "half json": Answer(http(200, b'{"choices": [{"message": '), "half json"),
    "no choices": Answer(http(200, b'{"choices": []}'), "no choices"),
    "wrong types": Answer(http(200, b'{"choices": [{"message": {"content": 5}}]}'), "wrong types"),
    "null": Answer(http(200, b"null"), "null"),
}


def misbehave(body: Json, before: int) -> Answer:
    """Fail four in ten first requests, and one in ten of their retries."""
    number = int(sha256(f"{before} {json.dumps(body)}".encode()).hexdigest()[:8], 16)
    share = {0: 40, 1: 10}.get(before, 0)
    return (
        list(FAULTS.values())[number // 100 % len(FAULTS)] if number % 100 < share else good(0.05)
    )


def run_and_kill(
    words: list[object], server: HostileServer, answers: int, seconds: float
) -> float | None:
    """Start the command, and kill it once the server has given this many answers; return the time,
    or None if the command ended first."""
    command = [*MAIN, *(str(word) for word in words)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, env=environment(server.url), stdout=quiet, stderr=quiet
    ) as process:
        until = time.monotonic() + seconds
        while server.count() < answers and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        ended = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        return None if ended else time.monotonic()


def count_in_flight_at_kills(server: HostileServer, kills: list[float]) -> Counter[str]:
    """Count, for each request, the good answers that were in flight when the runner was killed.

    A request may have been on the wire when the runner was killed, and reach the server only later;
    an answer is not stored at the moment it is sent. The next runner takes longer than that to
    start.
    """
    return Counter(
        each.body
        for each in server.exchanges
        if each.kind == "good"
        and any(each.began - WIRE <= kill <= (each.ended or kill) + WIRE for kill in kills)
    )


def stored(out: Path) -> int:
    """Count the replies in the cache."""
    with closing(sqlite3.connect(out / ".cache" / "replies.sqlite")) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM replies").fetchone()[0])


def list_missing_and_duplicate(out: Path, planned: int) -> list[str]:
    """List samples, arms and draws that do not have exactly one answer in the records."""
    answered: Counter[tuple[str, str, int]] = Counter()
    for line in (out / "study/records.jsonl").read_text().splitlines():
        row = json.loads(line)
        answered[row["point"], row["sample"], row["draw"]] += not row["error"]
    found = [f"{planned - len(+answered)} records missing"] if len(+answered) != planned else []
    return found + [f"{key} recorded {n} times" for key, n in answered.items() if n > 1]


def chaos(folder: Path, samples: int = 1_250, kills: int = 10) -> Iterator[Finding]:
    """Ask samples x 2 arms x 2 draws of a server that fails in ten ways, with a runner that is
    killed this many times."""
    with hostile_server(misbehave) as server:
        config = write_study(
            folder, server.url, (f"Is {n} even?" for n in range(samples)), TIMEOUT, ARMS
        )
        words: list[object] = ["run", config, "--out", folder / "runs", "--workers", WORKERS]
        planned = samples * 4
        times = [
            run_and_kill(words, server, planned * (k + 1) // (kills + 2), 120) for k in range(kills)
        ]
        done = [time for time in times if time is not None]
        ended: CommandResult | None = None
        for _ in range(4):  # repeating the command asks failed samples again
            ended = looktwice(*words, url=server.url, seconds=400)
            if ended.code != 1:
                break
        yield from _accounts(folder, server, planned, done, ended)
        again = len(server.exchanges)
        ended = looktwice(*words, url=server.url)
        more = len(server.exchanges) - again
        wrong = faults(ended, {0}) + ([f"{more} requests"] if more else [])
        yield finding("chaos", "the same command once more", f"{more} requests", wrong, ended)
        ended = looktwice("score", folder / "runs/study", "--report", url=server.url)
        yield finding(
            "chaos", "no key in any file", "0 files", faults(ended, {0}) + find_keys(folder), ended
        )


def _accounts(
    folder: Path,
    server: HostileServer,
    planned: int,
    kills: list[float],
    ended: CommandResult | None,
) -> Iterator[Finding]:
    wrong = ["no run"] if ended is None else faults(ended, {0})
    out, asked = folder / "runs", len(server.exchanges)
    yield finding(
        "chaos",
        f"killed {len(kills)} times, then to the end",
        f"{planned} planned, exit 0",
        wrong,
        ended,
    )
    records = len(RunFolder(out / "study").records())
    wrong = list_missing_and_duplicate(out, planned)
    yield finding(
        "chaos", "one record for each sample, arm and draw", f"{records} of {planned}", wrong
    )
    errors = sum(each.kind != "good" for each in server.exchanges)
    flying, paid = (
        count_in_flight_at_kills(server, kills),
        Counter(e.body for e in server.exchanges if e.kind == "good"),
    )
    lost = asked - stored(out) - errors
    kept = stored(out)
    figure = (
        f"{asked} requests = {kept} stored + {errors} error answers + {lost} in flight at"
        f" {len(kills)} kills"
    )
    wrong = [] if 0 <= lost <= len(kills) * WORKERS and kept == planned else [figure]
    yield finding("chaos", "the server's count", figure, wrong)
    twice = sum(n - 1 - flying[body] for body, n in paid.items() if n - 1 > flying[body])
    wrong = [f"{twice} answers"] if twice else []
    yield finding(
        "chaos", "paid twice, except answers in flight at a kill", f"{twice} answers", wrong
    )

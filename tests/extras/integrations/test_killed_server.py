"""A served study that is killed under 64 clients keeps its answers and pays for none twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from looktwice.eval.recorded.replay import replay
from looktwice.eval.records import RunFolder
from tests.chat_server import chat_server
from tests.extras.integrations.served import post, turn
from tests.first_day.test_stopping import count_stored
from tests.paths import ROOT

CLIENTS, QUESTIONS = 64, 256
STUDY = """
tasks: {{q: {{use: eval.tasks.MarkedScenes, kind: symbol, n: 2}}}}
model: {{use: pipelines.models.ChatAPI, model: tiny, temperature: 0, url: "{url}"}}
stages: {{ask: {{use: prompting.turns.Ask}}}}
contestants: {{plain: {{}}}}
"""


@contextmanager
def start_server(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `looktwice serve` on the study and yield its address."""
    words = ["-c", "from looktwice.eval.cli import main; main()", "serve", "study.yaml"]
    env = os.environ | {"PYTHONPATH": str(ROOT / "typings"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, *words, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        cwd=folder,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("study answers at "), line
            yield process, line.split()[3].rstrip(";")
        finally:
            process.kill()


@pytest.mark.slow
def test_a_killed_server_loses_no_answer_and_pays_for_none_twice(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.02") as upstream:
        (tmp_path / "study.yaml").write_text(STUDY.format(url=upstream.url))
        answered, lock = dict[int, str](), threading.Lock()

        def ask(url: str, number: int) -> None:
            body = {"model": "plain", "messages": [turn(f"Is {number} even?")]}
            try:
                answer = post(url, body)
            except OSError:  # the server is gone
                return
            if answer.status == 200:
                with lock:
                    answered[number] = answer.headers["x-looktwice-record"]

        for kill in (True, False):
            with start_server(tmp_path) as (process, url), ThreadPoolExecutor(CLIENTS) as pool:
                missing = [n for n in range(QUESTIONS) if n not in answered]
                for number in missing:
                    pool.submit(ask, url, number)
                if kill:
                    until = time.monotonic() + 300
                    while len(answered) < QUESTIONS // 3 and time.monotonic() < until:
                        time.sleep(0.01)
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    time.sleep(0.3)  # until the other side has noticed
                    lost = upstream.stats["requests"] - count_stored(tmp_path / "runs")
                    before = set(answered.values())
                    assert before <= names(tmp_path), "a client has an answer without a record"
                    assert 0 < len(before) < QUESTIONS and 0 < lost <= CLIENTS
        asked = upstream.stats["requests"]
    assert len(answered) == QUESTIONS
    assert asked == QUESTIONS + lost, "what was not stored is asked again, and nothing else"
    run = tmp_path / "runs" / "serve" / "study"
    assert not [record for record in RunFolder(run).last_records() if record.error]
    assert replay(run, cache=tmp_path / "runs" / ".cache").differences == []
    assert set(answered.values()) <= names(tmp_path)


def names(folder: Path) -> set[str]:
    """Return the records, named as in the header of an answer."""
    run = RunFolder(folder / "runs" / "serve" / "study")
    return {f"{r.point}/{r.sample}/{r.draw}" for r in run.last_records()}

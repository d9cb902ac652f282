"""The command line against a real server: killed and started again, nothing is lost and nothing is
paid twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.records import RunFolder
from tests.chat_server import ChatServer, chat_server
from tests.paths import ROOT
from tests.pipelines.test_chat_api import walked

N, WORKERS = 32, 8
PARAMS = TypeAdapter(CompletionCreateParamsNonStreaming)

STUDY = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: %d, quality: 90}
model: {use: pipelines.models.ChatAPI, model: tiny, name: tiny, temperature: 0, max_tokens: 50, \
detail: low, url: "%s"}
stages:
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
"""


def words(config: Path, out: Path) -> list[str]:
    return ["run", str(config), "--out", str(out), "--workers", str(WORKERS)]


def run(config: Path, out: Path, *more: str) -> None:
    done = CliRunner().invoke(app, [*words(config, out), *more])
    assert done.exit_code == 0, done.output


def run_and_kill(config: Path, out: Path, server: ChatServer, after: int) -> None:
    """Start the command and send SIGKILL once the server has answered `after` requests."""
    program = "from looktwice.eval.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *words(config, out)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "typings")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 100
        while server.stats["replies"] < after:
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline, "the run did not get going"
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)


def stored(out: Path) -> int:
    with closing(sqlite3.connect(out / ".cache" / "replies.sqlite")) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM replies").fetchone()[0])


def plain_records(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(record.to_line()) for record in RunFolder(folder).records().values()]
    for row in rows:
        row.pop("timings")
        for call in row["calls"]:
            del call["reply"]["served_by"]["endpoint"]  # two servers on two ports
    return sorted(rows, key=lambda row: (row["point"], row["sample"]))


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)


def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    with chat_server(tmp_path / "killed.log", "--delay", "0.03") as server:
        config = tmp_path / "study.yaml"
        config.write_text(STUDY % (N, server.url))
        run_and_kill(config, tmp_path / "killed", server, after=N // 3)
        time.sleep(0.3)  # what was in flight reaches the server's counter
        kept, asked = stored(tmp_path / "killed"), server.stats["requests"]
        assert 0 < kept < N
        assert asked - kept <= WORKERS
        run(config, tmp_path / "killed")
        assert server.stats["requests"] - asked == N - kept
        assert stored(tmp_path / "killed") == N
        bodies = server.bodies

    assert len(bodies) == asked + N - kept
    for body in bodies:
        assert walked(PARAMS.validate_python(body)) == body

    with chat_server(None) as server:
        config.write_text(STUDY % (N, server.url))
        run(config, tmp_path / "calm")
        assert server.stats["requests"] == N
    killed, calm = (plain_records(tmp_path / name / "study") for name in ("killed", "calm"))
    assert len(calm) == N and killed == calm

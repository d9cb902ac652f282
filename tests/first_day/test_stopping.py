"""A run that is stopped or killed pays once for requests in flight, and resumes later."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval import Photos, evaluate
from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.runs.options import RunOptions
from looktwice.eval.runs.run import Run
from looktwice.pipelines import ChatAPI, Model, Pipeline, Scripted, Stage, State
from looktwice.pipelines.config.plan import Plan, add_id
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.model import Message, Stopped
from looktwice.pipelines.models.limits import Limited
from looktwice.prompting import Ask
from looktwice.specialists import Chance
from tests.chat_server import ChatServer, chat_server
from tests.first_day.studies import do_when, get_output, records, run_study, send, write_study
from tests.paths import ROOT
from tests.pipelines.test_chat_api import openai_request, to_plain

VARIANTS = """
each: [{stages.choose: null}, {model.temperature: 1}]
contestants:
  plain: {}
  more: {stages: {think: {use: prompting.wording.ChainOfThought, before: ask}}}
"""
QUESTIONS = 4 * 2 * 3


@pytest.fixture(autouse=True)
def hang_up() -> Iterator[None]:
    """A process started by `nohup` ignores this signal, and so would the run."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_after_the_first_signal_no_request_starts_and_nothing_is_asked_twice(
    tmp_path: Path, number: int
) -> None:
    with chat_server(None, "--delay", "0.4") as server:
        run = ["run", write_study(tmp_path, server.url, more=VARIANTS), "--out", tmp_path]
        with do_when(lambda: server.stats["requests"] >= 4, send(number)):
            output = get_output(*run, "--workers", 4, code=128 + number)
        assert server.stats["requests"] == len(records(tmp_path)) == 4
        assert "stopping: no new requests; waiting for those in flight" in output
        if number == signal.SIGINT:
            get_output(*run, "--workers", 16)
            assert server.stats["requests"] == len(records(tmp_path)) == QUESTIONS


@pytest.mark.slow
def test_a_sample_interrupted_between_two_calls_pays_for_each_once(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.4") as server:
        words = ("stages.ask={use: prompting.turns.CaptionThenAnswer}", "--workers", 4)
        with do_when(lambda: server.stats["requests"] >= 4, send(signal.SIGINT)):
            output = run_study(tmp_path, server.url, *words, code=130)
        assert server.stats["requests"] == 4
        assert "accuracy" not in output, "nothing was answered, so there is no table"
        run_study(tmp_path, server.url, *words)
        assert server.stats["requests"] == sum(len(one.calls) for one in records(tmp_path)) == 16


@pytest.mark.slow
@pytest.mark.parametrize(("delay", "pause"), [("20", 0.8), ("0.4", 0.01)])
def test_a_second_interrupt_aborts_requests_and_simultaneous_ones_count_once(
    tmp_path: Path, delay: str, pause: float
) -> None:
    def twice() -> None:
        send(signal.SIGTERM)()
        time.sleep(pause)
        send(signal.SIGTERM)()

    with (
        chat_server(None, "--delay", delay) as server,
        do_when(lambda: server.stats["requests"] >= 2, twice),
    ):
        output = run_study(tmp_path, server.url, "--workers", 2, code=128 + signal.SIGTERM)
    assert ("stopping now" in output) is (pause > 0.1)
    assert len(records(tmp_path)) == (0 if pause > 0.1 else 2)


def test_a_request_in_preparation_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()

    def make_body(*given: object) -> dict[str, object]:
        stop.set()
        return {}

    monkeypatch.setattr(ChatAPI, "make_body", make_body)
    with chat_server() as server:
        model = Limited(ChatAPI("m", server.url), stop=stop)
        with pytest.raises(Stopped):
            model((Message("user", ("a",)),))
        assert server.stats["requests"] == 0


@dataclass(frozen=True)
class Noted:
    """A stage after the reply, without which there would be no record of it."""

    def __call__(self, state: State, model: Model) -> State:
        return state.with_notes("seen")


@dataclass(frozen=True)
class Twice:
    """Asks two questions."""

    def __call__(self, state: State, model: Model) -> State:
        return Ask()(Ask()(state, model), model)


@pytest.mark.parametrize(("stage", "kept"), [(Ask(), 2), (Twice(), 0)])
def test_a_local_model_starts_no_request_either(
    tmp_path: Path, stage: Ask | Twice, kept: int
) -> None:

    def answer(messages: object) -> str:
        run.progress.drain.set()
        return "(A)"

    model, task = Scripted(answer), Photos("jigsaw", 3)
    stages: list[dict[str, Stage]] = [{"ask": stage, "then": Noted()}]
    stages.append({**stages[0], "too": Noted()})
    arms = [Arm(str(len(one)), {}, "t", task, model, one, Ask(), 1, 0) for one in stages]
    run = Run(Plan("study", tuple(map(add_id, arms))), tmp_path / "run", RunOptions(workers=1))
    assert run().is_stopped
    assert (len(model.asked), len(RunFolder(tmp_path / "run").records())) == (1, kept)


def test_the_first_record_that_shows_no_answer_is_possible_stops_the_run(tmp_path: Path) -> None:
    arms: dict[str, Stage] = {"chance": Chance(), "mute": Pipeline({"look": Noted()})}
    fault = r"mute\.stages: sample jigsaw_000\d: these stages cannot answer.*abstain"
    with pytest.raises(RunError, match=fault):
        evaluate(Photos("jigsaw", n=30), arms, out=tmp_path / "run", workers=1)
    assert len(RunFolder(tmp_path / "run").records()) < 30


N, WORKERS = 16, 4
MODEL = ("model.name=tiny", "model.max_tokens=50", "model.detail=low", "--workers", str(WORKERS))


def run_and_kill(folder: Path, server: ChatServer, after: int) -> None:
    """Start the command as a process, and kill it after the server has answered `n` requests."""
    words = ["run", str(write_study(folder, server.url, N)), "--out", str(folder), *MODEL]
    with subprocess.Popen(
        [sys.executable, "-c", "from looktwice.eval.cli import main; main()", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT / "typings")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        until = time.monotonic() + 600  # a hang, however busy the machine is
        while server.stats["replies"] < after:
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < until, "the run did not get going"
            time.sleep(0.02)
        process.kill()


def count_stored(folder: Path) -> int:
    with closing(sqlite3.connect(folder / ".cache" / "replies.sqlite")) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM replies").fetchone()[0])


def plain_records(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(record.to_line()) for record in records(folder)]
    for row in rows:
        row.pop("timings")
        for call in row["calls"]:
            del call["reply"]["served_by"]["endpoint"]  # two servers on two ports
    return sorted(rows, key=lambda row: (row["point"], row["sample"]))


@pytest.mark.slow
def test_a_killed_run_resumes_seamlessly(tmp_path: Path) -> None:
    killed, calm = tmp_path / "killed", tmp_path / "calm"
    with chat_server(tmp_path / "killed.log", "--delay", "0.1") as server:
        run_and_kill(killed, server, after=N // 3)
        time.sleep(0.3)  # requests in flight reach the counter of the server
        kept, asked = count_stored(killed), server.stats["requests"]
        assert 0 < kept < N
        assert asked - kept <= WORKERS
        run_study(killed, server.url, *MODEL, n=N)
        assert server.stats["requests"] - asked == N - kept
        assert count_stored(killed) == N
        bodies = server.bodies
    assert len(bodies) == asked + N - kept
    for body in bodies:
        assert to_plain(openai_request().validate_python(body)) == body
    with chat_server() as server:
        run_study(calm, server.url, *MODEL, n=N)
        assert server.stats["requests"] == N
    assert len(plain_records(calm)) == N and plain_records(killed) == plain_records(calm)

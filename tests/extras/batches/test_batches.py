"""A study asked in batches: rounds, kills, expired and failed requests."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from looktwice.eval.listing import find_classes
from looktwice.eval.runs import Study
from looktwice.extras.batches.model import Batched, BatchQueue
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.config.classes import find_class
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.model import Deferred, Message, Reply
from looktwice.pipelines.models import ChatAPI
from looktwice.pipelines.models.cache import Store
from tests.chat_server import ChatServer, chat_server
from tests.first_day.studies import do_when, records, run_study, send, write_study
from tests.paths import ROOT

NATIVE = {"anthropic": ("/v1", "max_tokens: 50"), "gemini": ("/v1beta/openai", "max_tokens: 50")}
BATCHED = (
    "{{use: pipelines.models.Batched, look: 0.05, chat: {{use: pipelines.models.ChatAPI, model:"
    " tiny, url: '{url}'}}}}"
)


def model(url: str, dialect: str = "openai") -> str:
    """Return the override that asks in batches of this dialect."""
    if dialect == "openai":
        return f"model={BATCHED.format(url=url)}"
    path, more = NATIVE[dialect]
    chat = f"model: tiny, name: t, url: '{url.removesuffix('/v1')}{path}', {more}"
    return (
        f"model={{use: pipelines.models.Batched, look: 0.05, dialect: {dialect}, chat: "
        f"{{use: pipelines.models.ChatAPI, {chat}}}}}"
    )


def ask(
    folder: Path, url: str, *words: str, code: int = 0, n: int = 6, dialect: str = "openai"
) -> str:
    return run_study(folder, url, model(url, dialect), *words, code=code, n=n)


def batches(server: ChatServer) -> tuple[int, int]:
    """Return the number of submitted batches and of requests in all of them."""
    return server.stats["batches"], server.stats["batched"]


def replies(folder: Path) -> dict[str, Reply]:
    return {record.sample: record.replies[-1] for record in records(folder)}


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
def test_a_batch_gives_the_answers_of_direct_requests(
    tmp_path: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat_server() as server:
        monkeypatch.setenv("LOOKTWICE_KEYS", f"{server.url.split('/')[2]}=MINE")
        monkeypatch.setenv("MINE", "a-key-of-this-test")
        output = ask(tmp_path / "batched", server.url, dialect=dialect)
        assert "6 new, 0 existing, 0 failed" in output
        assert "1 batch under way, 0 of 6 requests answered" in output
        assert batches(server) == (1, 6) and server.stats["requests"] == 0
        if dialect != "openai":
            assert server.stats["native_keys"] == ["a-key-of-this-test"]
        run_study(tmp_path / "direct", server.url, "model.temperature=null", n=6)
        assert server.stats["requests"] == 6
    batched, direct = replies(tmp_path / "batched"), replies(tmp_path / "direct")
    assert {name: reply.text for name, reply in batched.items()} == {
        name: reply.text for name, reply in direct.items()
    }
    assert all(reply.usage.tokens_in and reply.usage.tokens_out for reply in batched.values())


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
def test_each_dialect_reports_failures_and_unsupported_requests(
    tmp_path: Path, dialect: str
) -> None:
    fails = "stages.choose={use: prompting.wording.Template, text: '{{ question }} #400'}"
    tells = {fails: "answered 400: Unknown parameter: 'top_k'"}
    if dialect == "anthropic":
        tells["model.chat.logprobs=5"] = "has no logprobs, top_logprobs; leave it out"
    with chat_server() as server:
        for number, (word, tell) in enumerate(tells.items()):
            folder = tmp_path / str(number)
            assert "2 failed" in ask(folder, server.url, word, n=2, dialect=dialect, code=1)
            assert server.stats["batched"] == 2
            assert all(tell in record.error for record in records(folder))


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_only_expired_requests_are_repeated(tmp_path: Path, dialect: str) -> None:
    with chat_server(None, "--batch-expires") as server:
        output = ask(tmp_path, server.url, dialect=dialect)
        assert "6 new, 0 existing, 0 failed" in output and batches(server) == (2, 8)
        assert dialect != "openai" or server.stats["replies"] == 6


@pytest.mark.slow
def test_each_turn_needs_a_round_and_many_requests_are_split(tmp_path: Path) -> None:
    turns = "stages.ask={use: prompting.turns.CaptionThenAnswer}"
    with chat_server() as server:
        assert "6 new, 0 existing, 0 failed" in ask(tmp_path / "turns", server.url, turns)
        assert batches(server) == (4, 24), "three images are described, each by itself"
        assert "0 new, 6 existing" in ask(tmp_path / "turns", server.url, turns)
        assert batches(server) == (4, 24)
        assert "10 new" in ask(tmp_path / "many", server.url, "model.requests=4", n=10)
        assert batches(server) == (4 + 3, 24 + 10)
    assert not list((tmp_path / "many/.cache/batches").rglob("*.json*"))


def test_a_refused_batch_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    with chat_server(None, "--batch-refused", "Enqueued token limit reached") as server:
        output = ask(tmp_path, server.url, code=1)
        assert "refused the batch: Enqueued token limit reached" in output and "0 new" in output
        assert "Traceback" not in output
        assert "6 new, 0 existing, 0 failed" in ask(tmp_path, server.url)
        assert batches(server) == (2, 12), "the same requests, handed in anew"


def test_two_concurrent_runs_pay_for_a_batch_once(tmp_path: Path) -> None:
    with chat_server(None, "--batch-seconds", "0.5") as server:
        study, cache = write_study(tmp_path, server.url, n=6), tmp_path / "cache"

        def run(name: str) -> int:
            plan = load_plan(study, [model(server.url)])
            return Study(plan, tmp_path / name, cache=cache)().written_count

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(run, ("one", "two"))) == [6, 6]
        assert server.stats["batched"] == 6


@pytest.mark.slow
def test_an_interrupted_run_resumes_with_its_pending_batch(tmp_path: Path) -> None:
    with chat_server(None, "--batch-seconds", "0.8") as server:
        with do_when(lambda: bool(server.stats["batches"]), send(signal.SIGINT)):
            output = ask(tmp_path, server.url, n=4, code=130)
        assert "the batches continue at the server; repeat the command to collect" in output
        assert "4 new, 0 existing, 0 failed" in ask(tmp_path, server.url, n=4)
        assert batches(server) == (1, 4)


@pytest.mark.slow
def test_a_killed_run_resumes_with_its_pending_batch(tmp_path: Path) -> None:
    command = ("run", write_study(tmp_path, "http://h/v1"), "--out", tmp_path)
    main = (sys.executable, "-c", "from looktwice.eval.cli import main; main()")
    with chat_server(None, "--batch-seconds", "1") as server:
        line = [*main, *map(str, command), model(server.url)]
        with subprocess.Popen(line, env={**os.environ, "PYTHONPATH": f"{ROOT / 'typings'}"}) as run:
            wait_for(lambda: server.stats["batches"])
            time.sleep(0.2)
            run.kill()
        assert "4 new, 0 existing, 0 failed" in ask(tmp_path, server.url, n=4)
        assert batches(server) == (1, 4)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
def test_a_batch_with_a_lost_id_is_found_again(tmp_path: Path, dialect: str) -> None:
    with chat_server(None, "--batch-seconds", "0.8") as server:
        words = {"n": 3, "dialect": dialect}
        running = threading.Thread(target=ask, args=(tmp_path, server.url), kwargs=words)
        running.start()
        wait_for(lambda: server.stats["batches"])
        time.sleep(0.1)
        note = next((tmp_path / ".cache" / "batches").rglob("*.json"))
        write_file(note, json.dumps(json.loads(note.read_bytes()) | {"batch": ""}))
        running.join()
        assert batches(server) == (1, 3)
    assert len(replies(tmp_path)) == 3


def test_a_dead_server_is_reported_at_once_and_collected_requests_are_submitted_later(
    tmp_path: Path,
) -> None:
    with chat_server() as server:
        server.kill()
        output = ask(tmp_path, server.url, "model.look=60", code=1)
    assert "cannot be reached" in output and "looking again" not in output
    with chat_server(None, "--port", port_of(server)) as server:
        assert "6 new" in ask(tmp_path, server.url) and batches(server) == (1, 6)


def port_of(server: ChatServer) -> str:
    return server.url.split(":")[2].partition("/")[0]


def test_a_key_refused_while_collecting_ends_the_run(tmp_path: Path) -> None:
    with (
        chat_server(None, "--batch-seconds", "60") as server,
        do_when(lambda: bool(server.stats["batches"]), send(signal.SIGINT)),
    ):
        ask(tmp_path, server.url, n=20, code=130)
    with chat_server(None, "--port", port_of(server), "--no-batches"):
        output = ask(tmp_path, server.url, "--workers", "16", n=20, code=1)
    assert "stopped: http" in output and "Traceback" not in output
    assert output.count("answered 401: Incorrect API key") == 1


def test_collected_requests_of_a_dead_run_are_dropped_and_those_of_a_live_one_stay(
    tmp_path: Path,
) -> None:
    store, chat = Store(tmp_path), ChatAPI("m", "http://127.0.0.1:9/v1")
    words = (Message("user", ("What?",)),)
    living, other = (BatchQueue(Batched(chat), store, threading.Event()) for _ in range(2))
    with pytest.raises(Deferred):
        living(words)
    (gathered,) = living.folder.glob("gathering-*")
    # as when it ended: its lock file exists, and nobody holds the lock
    dead = living.folder / "gathering-dead"
    for path in (dead, living.folder / "dead.here"):
        path.write_bytes(b"")
    with pytest.raises(Deferred):
        other(words)
    assert gathered.exists() and not dead.exists() and not (living.folder / "dead.here").exists()
    living.close()
    assert not gathered.exists() and len(list(living.folder.glob("*.here"))) == 1


def test_unsupported_features_of_batches_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one server"):
        Batched(ChatAPI("m", ("http://h:1/v1", "http://h:2/v1")))
    with pytest.raises(ValueError, match="look must be greater than 0"):
        Batched(ChatAPI("m", "http://h:1/v1"), look=0)
    for words in (("--budget", "1"), ("--max-requests", "5")):
        assert "use --limit" in ask(tmp_path, "http://127.0.0.1:9/v1", *words, code=2)


def test_it_is_listed_with_the_models_of_the_core() -> None:
    assert find_class("pipelines.models.Batched") is Batched
    assert find_classes("models", ())["pipelines.models.Batched"] is Batched
    for misspelled in ("pipelines.models.Batchd", "pipelines.Batched"):
        with pytest.raises(ValueError, match=r"did you mean '[\w.]*Batched'"):
            find_class(misspelled)

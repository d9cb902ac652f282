"""A study that is asked in batches: rounds, kills, requests that expire or fail, and what is never
asked twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from looktwice.eval.records import RunFolder
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.model import Deferred, Message
from looktwice.pipelines.models import Batched, ChatAPI
from looktwice.pipelines.models.batched.batch_queue import BatchQueue
from looktwice.pipelines.models.cache import Store
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study
from tests.paths import ROOT

NATIVE = {"anthropic": ("/v1", "max_tokens: 50"), "gemini": ("/v1beta/openai", "max_tokens: 50")}
BATCHED = (
    "{{use: pipelines.models.Batched, look: 0.05, chat: {{use: pipelines.models.ChatAPI, model:"
    " tiny, url: '{url}'}}}}"
)


def ask(
    folder: Path, url: str, *words: str, n: int = 6, stage: str = "prompting.turns.Ask"
) -> tuple[int, str]:
    folder.mkdir(exist_ok=True)
    config = write_study(folder, url, n=n)
    result = looktwice(
        "run",
        config,
        "--out",
        folder,
        f"model={BATCHED.format(url=url)}",
        f"stages.ask={{use: {stage}}}",
        *words,
    )
    return result.exit_code, result.output


def replies(folder: Path) -> dict[str, str]:
    return {
        key[1]: record.replies[-1].text
        for key, record in RunFolder(folder / "study").records().items()
    }


def test_a_study_is_asked_in_one_batch_with_the_answers_of_direct_requests(tmp_path: Path) -> None:
    with chat_server() as server:
        code, said = ask(tmp_path / "batched", server.url)
        assert code == 0 and "6 new, 0 were there, 0 failed" in said, said
        assert "1 batch under way, 0 of 6 requests answered" in said
        assert (server.stats["batches"], server.stats["batched"], server.stats["requests"]) == (
            1,
            6,
            0,
        )
        config = write_study(tmp_path, server.url, n=6)
        direct = looktwice("run", config, "--out", tmp_path / "direct", "model.temperature=null")
        assert direct.exit_code == 0 and server.stats["requests"] == 6
    assert replies(tmp_path / "batched") == replies(tmp_path / "direct")


def ask_native(folder: Path, url: str, dialect: str, *words: str, n: int = 6) -> tuple[int, str]:
    path, more = NATIVE[dialect]
    place = url.removesuffix("/v1") + path
    model = (
        f"{{use: pipelines.models.Batched, look: 0.05, dialect: {dialect}, chat: "
        f"{{use: pipelines.models.ChatAPI, model: tiny, name: t, url: '{place}', {more}}}}}"
    )
    folder.mkdir(exist_ok=True)
    result = looktwice(
        "run", write_study(folder, url, n=n), "--out", folder, f"model={model}", *words
    )
    return result.exit_code, result.output


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_each_dialect_brings_the_answers_of_direct_requests(
    tmp_path: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat_server() as server:
        host = server.url.split("/")[2]
        monkeypatch.setenv("LOOKTWICE_KEYS", f"{host}=MINE")
        monkeypatch.setenv("MINE", "a-key-of-this-test")
        code, said = ask_native(tmp_path / "batched", server.url, dialect)
        assert code == 0 and "6 new, 0 were there, 0 failed" in said, said
        assert (server.stats["batches"], server.stats["batched"], server.stats["requests"]) == (
            1,
            6,
            0,
        )
        assert server.stats["native_keys"] == ["a-key-of-this-test"]
        config = write_study(tmp_path, server.url, n=6)
        assert (
            looktwice(
                "run", config, "--out", tmp_path / "direct", "model.temperature=null"
            ).exit_code
            == 0
        )
    assert replies(tmp_path / "batched") == replies(tmp_path / "direct")
    used = {
        record.replies[-1].usage
        for record in RunFolder(tmp_path / "batched" / "study").records().values()
    }
    assert all(each.tokens_in and each.tokens_out for each in used)


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_each_dialect_says_what_failed_and_what_it_cannot_ask(tmp_path: Path, dialect: str) -> None:
    with chat_server() as server:
        words = "stages.choose={use: prompting.wording.Template, text: '{{ question }} #400'}"
        code, said = ask_native(tmp_path / "one", server.url, dialect, words, n=2)
        assert code == 1 and "2 failed" in said and server.stats["batched"] == 2, said
        code, said = ask_native(tmp_path / "two", server.url, dialect, "model.chat.logprobs=5", n=2)
        assert code == 1 and "2 failed" in said and server.stats["batched"] == 2, said
    one, two = (RunFolder(tmp_path / name / "study").records().values() for name in ("one", "two"))
    assert all("answered 400: Unknown parameter: 'top_k'" in record.error for record in one)
    assert all("does not take logprobs, top_logprobs in a batch" in record.error for record in two)


def test_what_expired_at_anthropic_is_asked_again_and_nothing_else(tmp_path: Path) -> None:
    with chat_server(None, "--batch-expires") as server:
        code, said = ask_native(tmp_path, server.url, "anthropic")
        assert code == 0 and "6 new, 0 were there, 0 failed" in said, said
        assert (server.stats["batches"], server.stats["batched"]) == (2, 8)


def test_each_turn_takes_a_round(tmp_path: Path) -> None:
    with chat_server() as server:
        code, said = ask(tmp_path, server.url, stage="prompting.turns.CaptionThenAnswer")
        assert code == 0 and "6 new, 0 were there, 0 failed" in said, said
        assert (server.stats["batches"], server.stats["batched"]) == (4, 24), (
            "three images are described, each by itself"
        )
        code, said = ask(tmp_path, server.url, stage="prompting.turns.CaptionThenAnswer")
        assert code == 0 and "0 new, 6 were there" in said and server.stats["batched"] == 24


def test_what_expired_is_asked_again_and_nothing_else(tmp_path: Path) -> None:
    with chat_server(None, "--batch-expires") as server:
        code, said = ask(tmp_path, server.url)
        assert code == 0 and "6 new, 0 were there, 0 failed" in said, said
        assert (server.stats["batches"], server.stats["batched"], server.stats["replies"]) == (
            2,
            8,
            6,
        )


def test_many_requests_are_several_batches(tmp_path: Path) -> None:
    with chat_server() as server:
        code, said = ask(tmp_path, server.url, "model.requests=4", n=10)
        assert (
            code == 0
            and "10 new" in said
            and (server.stats["batches"], server.stats["batched"]) == (3, 10)
        ), said
    assert not list((tmp_path / ".cache" / "batches").rglob("*.json*"))


def test_a_request_that_fails_in_its_batch_fails_its_sample(tmp_path: Path) -> None:
    with chat_server() as server:
        words = "stages.choose={use: prompting.wording.Template, text: '{{ question }} #400'}"
        code, said = ask(tmp_path, server.url, words, n=2)
        assert code == 1 and "2 failed" in said and server.stats["batched"] == 2, said
    errors = [record.error for record in RunFolder(tmp_path / "study").records().values()]
    assert all("answered 400: Unknown parameter: 'top_k'" in error for error in errors)


def test_a_batch_that_is_refused_ends_the_run_in_a_sentence(tmp_path: Path) -> None:
    with chat_server(None, "--batch-refused", "Enqueued token limit reached") as server:
        code, said = ask(tmp_path, server.url)
        assert (
            code == 1
            and "refused the batch: Enqueued token limit reached" in said
            and "0 new" in said
        ), said
        assert "Traceback" not in said
        code, said = ask(tmp_path, server.url)
        assert code == 0 and "6 new, 0 were there, 0 failed" in said, said
        assert (server.stats["batches"], server.stats["batched"]) == (2, 12), (
            "the same requests, handed in anew"
        )


def test_two_runs_at_once_pay_for_a_batch_once(tmp_path: Path) -> None:
    """Each in a process of its own, with one cache."""
    with chat_server(None, "--batch-seconds", "1") as server:
        main = "from looktwice.eval.cli import main; main()"
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'typings'}"}
        runs = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            config = write_study(tmp_path / name, server.url, n=6)
            words = [
                "run",
                str(config),
                "--out",
                str(tmp_path / name),
                "--cache",
                str(tmp_path / "cache"),
            ]
            command = [
                sys.executable,
                "-c",
                main,
                *words,
                f"model={BATCHED.format(url=server.url)}",
            ]
            runs.append(
                subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
                )
            )
        assert [run.wait(60) for run in runs] == [0, 0]
        assert len(replies(tmp_path / "one")) == len(replies(tmp_path / "two")) == 6
        assert server.stats["batched"] == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_ends_while_it_waits_goes_on_where_the_batch_is(
    tmp_path: Path, number: int
) -> None:
    with chat_server(None, "--batch-seconds", "2") as server:
        config = write_study(tmp_path, server.url, n=4)
        words = [
            "run",
            str(config),
            "--out",
            str(tmp_path),
            f"model={BATCHED.format(url=server.url)}",
        ]
        main = "from looktwice.eval.cli import main; main()"
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'typings'}"}
        with subprocess.Popen(
            [sys.executable, "-c", main, *words], stderr=subprocess.PIPE, text=True, env=env
        ) as run:
            until = time.monotonic() + 30
            while not server.stats["batches"]:
                assert time.monotonic() < until and run.poll() is None
                time.sleep(0.02)
            time.sleep(0.2)
            run.send_signal(number)
            said = run.communicate(timeout=20)[1]
        if number == signal.SIGINT:
            assert run.returncode == 130 and "Traceback" not in said, said
            assert "the batches go on at the server, and the same command collects them" in said
        code, said = ask(tmp_path, server.url, n=4)
        assert code == 0 and "4 new, 0 were there, 0 failed" in said, said
        assert (server.stats["batches"], server.stats["batched"]) == (1, 4)


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
def test_a_batch_whose_number_was_lost_is_found_again(tmp_path: Path, dialect: str) -> None:
    """The run was killed between the request that handed it in and the note of its answer."""
    with chat_server(None, "--batch-seconds", "1.5") as server:
        call, words = (
            (ask, (tmp_path, server.url))
            if dialect == "openai"
            else (ask_native, (tmp_path, server.url, dialect))
        )
        running = threading.Thread(target=call, args=words, kwargs={"n": 3})
        running.start()
        while not server.stats["batches"]:
            time.sleep(0.02)
        time.sleep(0.1)
        note = next((tmp_path / ".cache" / "batches").rglob("*.json"))
        write_file(note, json.dumps(json.loads(note.read_bytes()) | {"batch": ""}))
        running.join()
        assert (server.stats["batches"], server.stats["batched"]) == (1, 3)
    assert len(replies(tmp_path)) == 3


def test_a_dead_server_is_told_at_once_and_what_was_gathered_is_handed_in_later(
    tmp_path: Path,
) -> None:
    with chat_server() as server:
        server.kill()
        code, said = ask(tmp_path, server.url, "model.look=60")
    assert code == 1 and "cannot be reached" in said and "looking again" not in said, said
    with chat_server(None, "--port", server.url.split(":")[2].partition("/")[0]) as server:
        code, said = ask(tmp_path, server.url)
        assert (
            code == 0
            and "6 new" in said
            and (server.stats["batches"], server.stats["batched"]) == (1, 6)
        ), said


@pytest.mark.parametrize("workers", [1, 16])
def test_a_key_that_is_refused_when_a_batch_is_collected_ends_the_run(
    tmp_path: Path, workers: int
) -> None:
    """With one worker it ended in a sentence; of 16 the others waited for ever for what the first
    had in hand."""
    with chat_server(None, "--batch-seconds", "60") as server:
        begun = [sys.executable, "-c", "from looktwice.eval.cli import main; main()", "run"]
        config = write_study(tmp_path, server.url, n=20)
        words = ["--out", tmp_path, f"model={BATCHED.format(url=server.url)}"]
        with subprocess.Popen(
            [str(word) for word in (*begun, config, *words)], cwd=ROOT, stderr=-3, stdout=-3
        ) as run:
            while not list((tmp_path / ".cache").rglob("*.json")):
                time.sleep(0.02)
            time.sleep(0.3)
            run.kill()
        port = server.url.split(":")[2].partition("/")[0]
    with chat_server(None, "--port", port, "--no-batches") as server:
        command = [*begun, config, *words, "--workers", workers]
        ended = subprocess.run(
            [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, timeout=40
        )
    said = ended.stdout + ended.stderr
    assert (
        ended.returncode == 1
        and "stopped: http" in said
        and "answered 401: Incorrect API key" in said
    ), said
    assert said.count("answered 401") == 1 and "Traceback" not in said, said


def test_what_a_dead_run_gathered_is_dropped_and_what_a_living_one_gathers_stays(
    tmp_path: Path,
) -> None:
    store, chat = Store(tmp_path), ChatAPI("m", "http://127.0.0.1:9/v1")
    words = (Message("user", ("What?",)),)
    living, other = (BatchQueue(Batched(chat), store, threading.Event()) for _ in range(2))
    with pytest.raises(Deferred):
        living(words)
    (gathered,) = living.folder.glob("gathering-*")
    # as it was when it ended: its lock is there, and nobody holds it
    dead = living.folder / "gathering-dead"
    for path in (dead, living.folder / "dead.here"):
        path.write_bytes(b"")
    with pytest.raises(Deferred):
        other(words)
    assert gathered.exists() and not dead.exists() and not (living.folder / "dead.here").exists()
    living.close()
    assert not gathered.exists() and len(list(living.folder.glob("*.here"))) == 1


def test_what_a_batch_cannot_do_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one server"):
        Batched(ChatAPI("m", ("http://h:1/v1", "http://h:2/v1")))
    with pytest.raises(ValueError, match="look is above 0"):
        Batched(ChatAPI("m", "http://h:1/v1"), look=0)
    for words in (("--budget", "1"), ("--max-requests", "5")):
        code, said = ask(tmp_path, "http://127.0.0.1:9/v1", *words)
        assert code == 2 and "bound it with --limit" in said, said

"""The reply cache: concurrent processes, a killed one, a full disk, damaged rows."""

import errno
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from looktwice.eval.records import RunFolder
from looktwice.pipelines.model import (
    CallOptions,
    Message,
    Messages,
    ModelError,
    Reply,
    Stopped,
    make_request_key,
)
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.models.cache import Cached, Store
from looktwice.pipelines.models.stops import CacheError
from looktwice.pipelines.models.wrappers import EndpointWatch, wrap_model
from tests.chat_server import chat_server
from tests.first_day.studies import write_study
from tests.under_fire.scenes import records, run_command

HELLO = (Message("user", ("hello",)),)
LOOKTWICE = "from looktwice.eval.cli import main; main()"
OWNER = """
import sys, threading, time
from pathlib import Path
from looktwice.pipelines.models.cache import Store
store = Store(Path(sys.argv[1]))
with store.claim("k", threading.Event()):
    print("asking", flush=True)
    time.sleep(60)
"""


def start_process(code: str, *words: object) -> subprocess.Popen[str]:
    """Start another process that runs this code."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command, pipe = [sys.executable, "-c", code, *map(str, words)], subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment
    )


@pytest.mark.slow
def test_two_runs_that_share_a_cache_ask_every_question_once(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.05") as server:
        study = write_study(tmp_path, server.url, n=24)
        words = ["run", study, "--cache", tmp_path / "cache", "--workers", 4, "--out"]
        running = [start_process(LOOKTWICE, *words, tmp_path / name) for name in ("one", "other")]
        for process in running:
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0, output
        assert server.stats["requests"] == 24
    for name in ("one", "other"):
        answered = records(tmp_path / name / "study").values()
        assert len(answered) == 24 and not any(record.error for record in answered)


def test_a_killed_process_is_replaced_and_a_living_one_is_waited_for(tmp_path: Path) -> None:
    store, gone = Store(tmp_path), threading.Event()
    assert store.get("k") is None

    def take_turn() -> None:
        with store.claim("k", threading.Event()):
            gone.set()

    with start_process(OWNER, tmp_path) as process:
        assert process.stdout is not None and process.stdout.readline() == "asking\n"
        waiting = threading.Thread(target=take_turn)
        waiting.start()
        assert not gone.wait(0.5), "it lives"
        process.send_signal(signal.SIGKILL)
        assert gone.wait(3)
        waiting.join()
    store.close()
    assert not list((tmp_path / "asking").iterdir()), "nothing is left of it"


@dataclass
class CountingModel:
    """A model that counts its calls and can fail."""

    fails: bool = False
    identity: str = "asked"
    times: int = 0

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        self.times += 1
        time.sleep(0.2)
        if self.fails:
            raise ModelError("no")
        return Reply("yes")


@pytest.mark.parametrize(("fails", "asked"), [(False, 1), (True, 2)])
def test_waiting_processes_get_the_reply_of_another_or_ask_if_it_fails(
    tmp_path: Path, fails: bool, asked: int
) -> None:
    models = [Cached(CountingModel(fails), Store(tmp_path)) for _ in range(2)]

    def ask(model: Cached) -> str:
        try:
            return model(HELLO).text
        except ModelError as exc:
            return str(exc)

    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(ask, models)) == {"no" if fails else "yes"}
    assert sum(cast("CountingModel", model.model).times for model in models) == asked


def test_a_stopped_run_waits_for_no_other_process(tmp_path: Path) -> None:
    stop, other = threading.Event(), Store(tmp_path)
    model = Cached(CountingModel(), Store(tmp_path), stop=stop)
    key = make_request_key(model.identity, HELLO, 0, CallOptions())
    with other.claim(key, threading.Event()), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(model, HELLO)
        time.sleep(0.2)
        stop.set()
        with pytest.raises(Stopped):
            waiting.result(5)
    stop.clear()
    assert model(HELLO).text == "yes", "what was given up is free at once"


class Full(Store):
    """A store whose disk is full after this many replies."""

    room = 3
    counting = threading.Lock()  # two must not both get the space for the last reply

    def put(self, key: str, model: str, reply: Reply) -> Reply:
        with self.counting, self._convert_errors():
            if len(self) >= self.room:
                raise sqlite3.OperationalError("database or disk is full")
            return super().put(key, model, reply)


def fill_run_folder(path: Path, lines: bytes) -> None:
    if path.name == "records.jsonl":
        raise OSError(errno.ENOSPC, "No space left on device", "records.jsonl")


# with the run folder full, the first answers, and requests sent before they were written
@pytest.mark.parametrize(
    ("place", "full", "most", "words", "kept"),
    [
        ("runs.run_models.Store", Full, Full.room + 4, "free disk space", Full.room),
        ("records.writer.append_file", fill_run_folder, 8, "No space left", 0),
    ],
)
def test_a_full_disk_stops_paid_requests(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    full: object,
    most: int,
    words: str,
    kept: int,
) -> None:
    monkeypatch.setattr(f"looktwice.eval.{place}", full)
    with chat_server(None, "--delay", "0.1") as server:
        study = write_study(tmp_path, server.url, n=40)
        assert words in run_command(2, "run", study, "--out", tmp_path, "--workers", 4)
        assert server.stats["requests"] <= most
    assert len(RunFolder(tmp_path / "study").records()) == kept


def test_a_failing_store_ends_the_run_whatever_stages_catch(tmp_path: Path) -> None:
    stop, lines, inner = threading.Event(), list[str](), CountingModel()

    def give_up(why: str) -> None:
        lines.append(why)
        stop.set()

    store = Full(tmp_path)
    store.room = 0
    model = wrap_model(inner, store, stop, watch=EndpointWatch(give_up))
    for draw, error in enumerate((CacheError, Stopped)):
        with pytest.raises(error):
            model(HELLO, draw)
    assert inner.times == 1 and "free disk space" in lines[0]


DAMAGED: Sequence[object] = (
    *("", "5", "null", "[]", '"text"', "{", '{"text": 5}', '{"text": null}', b"\0" * 40, 5),
    *('{"text": "a", "usage": {"tokens_in": "many"}}', '{"text": "a", "tool_calls": [5]}'),
    *(b"\xff\xfe", '{"text": "a", "nonsense": 1}', "[" * 100_000),
)


def test_a_damaged_row_is_requested_again_and_replaced(tmp_path: Path) -> None:
    inner = Scripted("yes")
    model = Cached(inner, Store(tmp_path))
    model(HELLO)
    for number, damaged in enumerate(DAMAGED, 2):
        with closing(sqlite3.connect(tmp_path / "replies.sqlite", isolation_level=None)) as file:
            file.execute("UPDATE replies SET reply = CAST(? AS TEXT)", (damaged,))
        assert (model(HELLO).cached, model(HELLO).cached) == (False, True), damaged
        assert len(inner.asked) == number


VIEW = """CREATE VIEW replies AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
SELECT i AS key, 1 AS model, 1 AS reply, NULL AS blob, 0 AS stored FROM n"""
TRIGGER = """CREATE TABLE {0} (key TEXT PRIMARY KEY, model, reply, blob, stored);
CREATE TRIGGER obeyed AFTER INSERT ON {0} BEGIN DELETE FROM {0}; END"""
FOREIGN = [
    ("a view", VIEW),
    *(("a trigger", TRIGGER.format(name)) for name in ("replies", "asking")),
    ("a table", "CREATE VIRTUAL TABLE replies USING fts5(key, model, reply, blob, stored)"),
    ("'bookmarks' is a table", "CREATE TABLE bookmarks (address TEXT)"),
]


@pytest.mark.parametrize(("what", "script"), FOREIGN)
def test_a_file_with_another_schema_is_not_a_cache(tmp_path: Path, what: str, script: str) -> None:
    with closing(sqlite3.connect(tmp_path / "replies.sqlite", isolation_level=None)) as file:
        file.executescript(script)
    with pytest.raises(CacheError, match=f"is not a reply cache.*{what}"):
        len(Store(tmp_path))

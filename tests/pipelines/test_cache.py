"""The reply store: hits, shared requests, kills, several processes, and refused folders."""

import gc
import hashlib
import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from looktwice.pipelines import Scripted
from looktwice.pipelines.model import (
    CallOptions,
    Message,
    Messages,
    ModelError,
    Reply,
    Tool,
    ToolCall,
    Usage,
    make_request_key,
)
from looktwice.pipelines.models.cache import MAX_INLINE_BYTES, Cached, Store, reject_network_folder
from looktwice.pipelines.models.stops import CacheError

HELLO = (Message("user", ("hello",)),)


def test_the_key_of_a_request_covers_only_what_is_sent() -> None:
    """Options that a later version adds change no key of an earlier version."""
    options = '{"stop":["x"],"temperature":0.5,"tools":[{"description":"","name":"zoom"'
    options += ',"parameters":{}}]}'
    written = '{"draw":2,"messages":[{"parts":["hello"],"role":"user"}],"model":"m","options":'
    asked = CallOptions(0.5, stop=("x",), tools=(Tool("zoom", ""),))
    key = hashlib.sha256(f"{written}{options}}}".encode()).hexdigest()
    assert make_request_key("m", HELLO, 2, asked) == key
    assert make_request_key("m", HELLO, 2, replace(asked, top_k=5)) != key


def slow(failing: int = 0) -> Scripted:
    """Return a model that answers after a short delay; its first `failing` calls raise an error."""
    numbers = itertools.count(1)

    def answer(messages: Messages) -> str:
        number = next(numbers)
        time.sleep(0.05)
        if number <= failing:
            raise ModelError(f"failure {number}")
        return f"reply {number}"

    return Scripted(answer)


def run_together(call: Callable[[], Reply], callers: int) -> list[Reply | ModelError]:
    start = threading.Barrier(callers)

    def one(_: int) -> Reply | ModelError:
        start.wait(10)
        try:
            return call()
        except ModelError as exc:
            return exc

    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(one, range(callers)))


def test_a_repeated_request_is_cached_and_every_part_of_it_counts(tmp_path: Path) -> None:
    inner = Scripted(lambda messages: Reply(f"{messages[0].text}!", usage=Usage(1, 2), seconds=0.5))
    model = Cached(inner, Store(tmp_path))
    first, second = model(HELLO), model(HELLO)
    assert (first.cached, second.cached) == (False, True)
    assert (second.text, second.usage, second.seconds) == ("hello!", Usage(1, 2), 0.5)
    others = [
        (HELLO, 1, CallOptions()),
        (HELLO, 0, CallOptions(seed=1)),
        ((Message("system", ("hello",)),), 0, CallOptions()),
    ]
    assert not any(model(*each).cached for each in others) and len(inner.asked) == 4
    assert len(model.store) == 4 and model.identity == inner.identity


def test_replies_are_read_back_complete_from_another_store(tmp_path: Path) -> None:
    logprobs = ({"b": -1, "a": -0.1},)
    call, usage = ToolCall("1", "t", "{}"), Usage(1, 2, 3, 4)
    replies = [
        Reply("a\U0001f600", "tool", "why", (call,), "no", usage, 1.5, logprobs),
        Reply("", usage=Usage(7, 1)),  # a blank reply, without a token, is not stored
        Reply("x" * MAX_INLINE_BYTES),
        Reply("é" * MAX_INLINE_BYTES, served_by={"model": "m"}),
    ]
    for number, reply in enumerate(replies):
        store = Store(tmp_path)
        store.put(str(number), "m", reply)
        store.close()
        found = Store(tmp_path).get(str(number))
        assert found == reply and [*map(list, found.logprobs)] == [*map(list, reply.logprobs)]
        assert (tmp_path / "blobs").exists() == (number >= 2)


def test_a_reply_above_16_kib_is_stored_in_a_blob(tmp_path: Path) -> None:
    store, empty = Store(tmp_path), len(json.dumps(Reply("").to_dict(), separators=(",", ":")))
    for size, blobs in ((16 * 1024, 0), (16 * 1024 + 1, 1)):
        store.put(str(size), "m", Reply("x" * (size - empty)))
        assert len(list(tmp_path.glob("blobs/*/*"))) == blobs


def test_a_file_of_version_1_is_read(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "replies.sqlite", isolation_level=None)) as connection:
        connection.execute(
            "CREATE TABLE replies (key TEXT PRIMARY KEY, model TEXT, reply TEXT, blob TEXT, stored"
            " REAL)"
        )
        connection.execute(
            "INSERT INTO replies VALUES ('k', 'm', ?, NULL, 0.0)",
            (json.dumps(Reply("(A)").to_dict()),),
        )
        connection.execute("PRAGMA user_version = 1")
    assert Store(tmp_path).get("k") == Reply("(A)")
    Store(tmp_path / "new").put("k", "m", Reply("a"))
    with closing(sqlite3.connect(tmp_path / "new" / "replies.sqlite")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_another_thread_takes_over_from_a_failed_one_and_failures_are_not_stored(
    tmp_path: Path,
) -> None:
    inner = slow(failing=2)
    model = Cached(inner, Store(tmp_path))
    replies = run_together(lambda: model(HELLO), 5)
    assert len(inner.asked) == 3
    assert sum(isinstance(reply, ModelError) for reply in replies) == 2
    assert {reply.text for reply in replies if isinstance(reply, Reply)} == {"reply 3"}
    always = Cached(slow(failing=99), model.store)
    for number in (1, 2):
        with pytest.raises(ModelError, match=f"failure {number}"):
            always((Message("user", ("other",)),))
    assert len(model.store) == 1 and not model.store._run("SELECT * FROM asking")


def test_only_cached_replies(tmp_path: Path) -> None:
    store, inner = Store(tmp_path), Scripted("(A)")
    Cached(inner, store)(HELLO)
    only = Cached(inner, store, only_cached=True)
    assert only(HELLO).cached
    with pytest.raises(ModelError, match="--only-cached"):
        only(HELLO, draw=1)
    assert len(inner.asked) == 1


def test_the_first_of_two_writers_wins_and_a_lost_blob_is_requested_again(tmp_path: Path) -> None:
    first, second = Store(tmp_path), Store(tmp_path)
    kept = [store.put("k", "m", Reply(text)).text for store, text in ((first, "1"), (second, "2"))]
    assert kept == ["1", "1"]
    big = Reply("y" * MAX_INLINE_BYTES)
    first.put("big", "m", big)
    for torn in (None, b"{"):
        path = next((tmp_path / "blobs").glob("*/*"))
        path.unlink()
        if torn is not None:
            path.write_bytes(torn)
        assert second.get("big") is None
        assert second.put("big", "m", big) == big == second.get("big")


def test_a_forked_child_has_its_own_connection(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("parent", "m", Reply("a"))
    code = """
import os, sys
from pathlib import Path
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.model import Reply
store = Store(Path(sys.argv[1]))
assert store.get("parent") == Reply("a")
opened = store._connection
child = os.fork()
store.put("child" if child == 0 else "other", "m", Reply("b"))
assert (store._connection is opened) == (child != 0)
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment)
    assert len(store) == 3


MOUNTS = (
    "/dev/sda1 / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\nsrv /scratch\\040big lustre rw 0"
    " 0\n/dev/sdb /home/local xfs rw 0 0\nu@h: /mnt/ssh fuse.sshfs rw 0 0\n"
)


def test_an_unclosed_store_closes_its_connection(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("key", "m", Reply("yes"))
    connection = store._connection
    assert connection is not None
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    assert not list((tmp_path / "asking").iterdir()), "its claims have ended"


def test_sql_placeholders_are_literal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 warns of named placeholders if values are a sequence."""
    ran = list[str]()

    class Watched(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            ran.append(statement)
            return super().execute(statement, *values)

    connect = partial(sqlite3.connect, factory=Watched)
    monkeypatch.setattr("looktwice.pipelines.models.cache.sqlite3.connect", connect)
    model = Cached(Scripted(lambda messages: "yes"), Store(tmp_path))
    assert [model(HELLO).cached for _ in range(2)] == [False, True]
    model.store.remove(list(model.store.iterate_rows()))
    model.close()
    assert any("INSERT" in statement and "?" in statement for statement in ran)
    assert [statement for statement in ran if re.search(r"\?\d|[:@$][A-Za-z]", statement)] == []


def test_network_folders_are_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    for folder in ("/tmp/cache", "/home/local/cache", "/homely/cache"):
        reject_network_folder(Path(folder), "cache_dir", mounts)
    kinds = {"/home/me/cache": "nfs4 at /home", "/scratch big/c": "lustre", "/mnt/ssh/x": "sshfs"}
    for folder, kind in kinds.items():
        with pytest.raises(CacheError, match=f"{kind}.*cache_dir"):
            reject_network_folder(Path(folder), "cache_dir", mounts)


def test_a_damaged_or_newer_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "replies.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(CacheError, match=r"replies\.sqlite .*move the file away"):
        Store(tmp_path).get("k")
    Store(tmp_path / "newer").put("k", "m", Reply("a"))
    with closing(sqlite3.connect(tmp_path / "newer" / "replies.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(CacheError, match="version 9"):
        Store(tmp_path / "newer").get("k")

"""One thread for a SQLite file: what comes together is committed together, and nobody suffers for
another."""

from __future__ import annotations

import gc
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from looktwice.pipelines.runtime import group_commit
from looktwice.pipelines.runtime.group_commit import GroupCommit


def opened(path: Path, said: list[str]) -> Callable[[], sqlite3.Connection]:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("CREATE TABLE IF NOT EXISTS numbers (n INTEGER PRIMARY KEY)")
        connection.set_trace_callback(said.append)
        return connection

    return connect


def insert(number: int) -> Callable[[sqlite3.Connection], int]:
    return lambda connection: (
        connection.execute("INSERT INTO numbers VALUES (?)", (number,)).rowcount
    )


def find(number: int) -> Callable[[sqlite3.Connection], object]:
    return lambda connection: connection.execute(
        "SELECT n FROM numbers WHERE n = ?", (number,)
    ).fetchone()


def test_what_many_threads_bring_is_kept_in_few_transactions(tmp_path: Path) -> None:
    said: list[str] = []
    file = GroupCommit(opened(tmp_path / "a", said))
    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(lambda n: file.run(find(n), insert(n)), range(500))) == [1] * 500
        assert list(pool.map(lambda n: file.run(find(n), insert(n)), range(500))) == [
            (n,) for n in range(500)
        ]
    commits = said.count("COMMIT")
    assert commits < 400 and said.count("BEGIN IMMEDIATE") == commits, "many of them together"
    with sqlite3.connect(tmp_path / "a") as other:
        assert other.execute("SELECT count(*) FROM numbers").fetchone() == (500,)


def test_one_that_cannot_be_done_fails_alone(tmp_path: Path) -> None:
    file, hold = GroupCommit(opened(tmp_path / "a", [])), threading.Event()
    file.run(change=insert(3))

    def wait(connection: sqlite3.Connection) -> bool:
        return hold.wait(10)

    with ThreadPoolExecutor(12) as pool:
        first = pool.submit(file.run, wait)
        time.sleep(0.1)
        others = [pool.submit(file.run, None, insert(n)) for n in range(10)]  # they wait together
        time.sleep(0.1)
        hold.set()
        assert first.result() is True
        failed = [n for n, other in enumerate(others) if other.exception() is not None]
    assert failed == [3] and isinstance(others[3].exception(), sqlite3.IntegrityError)
    assert file.run(
        lambda connection: connection.execute("SELECT count(*) FROM numbers").fetchone()
    ) == (10,)


def test_a_full_disk_is_everybodys(tmp_path: Path) -> None:
    file = GroupCommit(opened(tmp_path / "a", []))

    def full(connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        file.run(change=full)
    assert file.run(change=insert(1)) == 1, "and it is usable again"


def test_the_thread_ends_and_the_file_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "IDLE", 0.1)
    file = GroupCommit(opened(tmp_path / "a", []))
    file.run(change=insert(1))
    seen = weakref.ref(file)
    time.sleep(0.5)
    assert not file._working
    assert file.run(find(1)) == (1,), "another thread is started"
    file.close()
    assert file.run(find(1)) == (1,), "and the file is opened again"
    file.close()
    time.sleep(0.5)
    del file
    gc.collect()
    assert seen() is None


def test_a_forked_child_has_a_connection_of_its_own(tmp_path: Path) -> None:
    said: list[str] = []
    file = GroupCommit(opened(tmp_path / "a", said))
    file.run(change=insert(1))
    if (child := os.fork()) == 0:
        ended = 1
        try:
            ended = int((file.run(find(1)), file.run(change=insert(2))) != ((1,), 1))
        finally:
            os._exit(ended)
    assert os.waitpid(child, 0)[1] == 0
    assert file.run(find(2)) == (2,)

"""One thread that uses a SQLite file for all others of the process, and commits together what comes
together."""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

MOST = 256  # changes of a transaction
IDLE = 1.0  # seconds after which the thread ends; the next use starts another
GATHER = 0.005  # seconds to wait for more, where several came together the last time

Work = Callable[[sqlite3.Connection], Any]


class GroupCommit:
    """A connection to a file, which `connect` opens when it is first needed, and the thread that
    uses it.

    A thread that waits for its turn at a lock gets it only when it also has the interpreter, so a
    hundred threads at one connection wait for each other most of the time. Here each leaves what is
    to be done and sleeps until it is.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._begin()

    def _begin(self) -> None:
        self._process, self._lock, self._working = os.getpid(), threading.Lock(), False
        self._waiting: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._connection: sqlite3.Connection | None = None

    def run(self, look: Work | None = None, change: Work | None = None) -> Any:
        """What `look` finds, outside of any transaction; where that is None, what `change` gives,
        once it is committed.

        Returns when it is on the disk as far as SQLite says. Raises what the work or SQLite raises,
        and then nothing of this `change` is kept. A change may be tried twice.
        """
        if (
            self._process != os.getpid()
        ):  # a forked child has no thread, and must not use its parent's connection
            self._begin()
        task = _Task(look, change)
        with self._lock:
            if (
                not self._working
            ):  # noted once it has begun: else all would wait for a thread that could not
                threading.Thread(target=self._work, name="looktwice-cache", daemon=True).start()
                self._working = True
            self._waiting.put(task)
        task.done.acquire()
        if task.error is not None:
            raise task.error
        return task.result

    def close(self) -> None:
        """Close the file; a later use opens it again."""
        if self._connection is not None:
            self.run(look=self._close)

    def _close(self, connection: sqlite3.Connection) -> bool:
        connection.close()
        self._connection = None
        return True

    def _work(self) -> None:
        tasks: list[_Task] = []
        while True:
            several = len(tasks) > 1
            try:
                tasks = [self._waiting.get(timeout=IDLE)]
            except queue.Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._working = False
                        return
                continue
            if several:
                time.sleep(GATHER)
            while len(tasks) < MOST and not self._waiting.empty():
                tasks.append(self._waiting.get())
            self._change([task for task in tasks if not self._look(task)])

    def _look(self, task: _Task) -> bool:
        """Whether the task needs no change."""
        try:
            found = None if task.look is None else task.look(self._open())
        except BaseException as exc:
            return task.end(error=exc)
        return False if found is None and task.change is not None else task.end(found)

    def _change(self, tasks: Sequence[_Task]) -> None:
        """In one transaction; where one of them cannot be done, each in one of its own."""
        if not tasks:
            return
        try:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                found = [task.change(connection) for task in tasks if task.change is not None]
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk has rolled it back already
                    connection.execute("ROLLBACK")
                raise
        except BaseException as exc:
            whole = len(tasks) == 1 or isinstance(
                exc, sqlite3.OperationalError
            )  # such as a full disk
            for task in tasks:
                if whole:
                    task.end(error=exc)
                else:
                    self._change([task])
            return
        for task, result in zip(tasks, found, strict=True):
            task.end(result)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection


class _Task:
    """What a thread wants done, and what came of it."""

    __slots__ = ("change", "done", "error", "look", "result")

    def __init__(self, look: Work | None, change: Work | None) -> None:
        self.look, self.change, self.done = look, change, threading.Lock()
        self.result: Any = None
        self.error: BaseException | None = None
        self.done.acquire()

    def end(self, result: Any = None, error: BaseException | None = None) -> bool:
        """Wake the thread that waits."""
        self.result, self.error = result, error
        self.done.release()
        return True

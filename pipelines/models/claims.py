"""Claims on requests in the cache's file: of several processes that want one reply, one asks and
the others wait."""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from looktwice.pipelines.runtime.group_commit import Work

LEASE, BEAT, LOOK = 6.0, 1.5, 0.05
"""Seconds for which a claim holds unless it is renewed, between renewals, and between looks of
those who wait."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL) \
WITHOUT ROWID
"""
TAKE = """
INSERT INTO claims SELECT ?1, ?2, seconds() + ?3 WHERE NOT EXISTS (SELECT 1 FROM replies WHERE key \
= ?1)
ON CONFLICT (key) DO UPDATE SET owner = ?2, until = excluded.until
WHERE until NOT BETWEEN excluded.until - ?3 AND excluded.until
"""
RENEW = "UPDATE claims SET until = seconds() + ? WHERE owner = ?"


def prepare(connection: sqlite3.Connection) -> None:
    """Make the table of claims where there is none, and a clock that is read once the file is
    locked.

    It counts from the start of the machine: nobody sets it, nor does it go on while the machine
    sleeps. A claim from before that start holds for longer than any claim does, and counts as none.
    """
    connection.execute(SCHEMA)
    connection.create_function("seconds", 0, time.monotonic)


@dataclass(eq=False)
class Claims:
    """The claims of one owner, who renews them while it lives: those of a killed or sleeping one
    end within seconds.

    `use` does something with the file, of which it gives the connection.
    """

    use: Callable[[Work], Any]
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    held: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    renewing: bool = False

    def take(self, connection: sqlite3.Connection, key: str) -> bool:
        """Whether this owner is to ask now: nobody has the reply, and nobody else is asking."""
        return connection.execute(TAKE, (key, self.owner, LEASE)).rowcount > 0

    def note(self, key: str, taken: bool) -> bool:
        """Renew a claim from now on, if it was taken."""
        if taken:
            with self.lock:
                self.held.add(key)
                begin, self.renewing = not self.renewing, True
            if begin:
                threading.Thread(target=self._renew, name="looktwice-claims", daemon=True).start()
        return taken

    def drop(self, connection: sqlite3.Connection, key: str) -> None:
        """Give a claim up, so that the next may ask or find the reply."""
        with self.lock:
            held = key in self.held
            self.held.discard(key)
        if held:
            connection.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, self.owner))

    def _renew(self) -> None:
        """Until nothing is held; where the file cannot be written the claims end, and the next
        write says why."""
        while True:
            time.sleep(BEAT)
            with self.lock:
                self.renewing = bool(self.held)
            if not self.renewing:
                return
            with suppress(ValueError):
                self.use(lambda connection: connection.execute(RENEW, (LEASE, self.owner)) and None)

"""The cache of replies on disk: a request that was answered once is not sent again."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from looktwice.pipelines.clock import spend
from looktwice.pipelines.model import (
    CallOptions,
    Messages,
    Model,
    ModelError,
    Reply,
    ReplyNode,
    Stopped,
    request_key,
)
from looktwice.pipelines.models import claims
from looktwice.pipelines.models.claims import Claims
from looktwice.pipelines.runtime.group_commit import GroupCommit, Work
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.schema import read_as

VERSION = 1
INLINE = 16 * 1024
"""Replies of more bytes than this lie in a blob."""

BUSY_SECONDS = 60.0
NETWORK = {
    "nfs",
    "nfs3",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "glusterfs",
    "afs",
}
NETWORK |= {
    "panfs",
    "wekafs",
    "orangefs",
    "ocfs2",
    "gfs2",
    "davfs",
    "sshfs",
    "gcsfuse",
    "s3fs",
    "rclone",
}

SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, reply TEXT, blob TEXT, stored REAL NOT NULL
) WITHOUT ROWID
"""
FIND = "SELECT reply, blob, stored FROM replies WHERE key = ?"
FORGET = "DELETE FROM replies WHERE key = ? AND stored IS ?"
COLUMNS = {
    "replies": ["key", "model", "reply", "blob", "stored"],
    "claims": ["key", "owner", "until"],
}


class CacheError(ValueError):
    """A cache folder that cannot be used; the message says what was found and what to set
    instead."""


@dataclass(frozen=True)
class StoredReply:
    """A row of the cache: its key, the identity of the model, bytes, and when it was stored, in
    Unix time."""

    key: str
    model: str
    blob: str
    size: int
    stored: float


@dataclass(eq=False)
class Store:
    """Replies by request key in `folder`: `replies.sqlite` and, for large ones, `blobs/`.

    Safe between threads and between processes of one machine; a killed process loses nothing that
    `put` gave back. `setting` is what messages tell the user to change. Raises CacheError for a
    network folder and damaged files.
    """

    folder: Path
    setting: str = "the cache folder"

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        self.blobs = Blobs(self.folder / "blobs")
        self._turns_lock = threading.Lock()
        self._turns: dict[str, _Turn] = {}
        self._file = GroupCommit(self._open)
        self._claims = Claims(self._use)
        refuse_network(self.folder, self.setting)

    def get(self, key: str) -> Reply | None:
        """The reply under a key, or None; a damaged row, or one whose blob is gone or torn, is none
        and is removed."""
        found = self._use(partial(_find_row, key))
        return None if found is None else self._read(key, *found)

    def find_or_claim(self, key: str) -> Reply | bool:
        """The reply under a key; else whether the caller is to ask, as for `claim`."""
        found = self._use(
            partial(_find_row, key), lambda connection: self._claims.take(connection, key)
        )
        if not isinstance(found, tuple):
            return self._claims.note(key, found)
        return self._read(key, *found) or self.claim(key)

    def put(self, key: str, model: str, reply: Reply) -> Reply:
        """Keep a reply and give back the one that is kept: the first, where another process was
        faster.

        It ends the claim on the key.
        """
        text = json.dumps(replace(reply, cached=False).to_dict(), separators=(",", ":"))
        data = text.encode()
        with self._named():
            sha = None if len(data) <= INLINE else self.blobs.put(data)
        row = (key, model, text if sha is None else None, sha, time.time())

        def insert(connection: sqlite3.Connection) -> bool:
            self._claims.drop(connection, key)
            return (
                connection.execute(
                    "INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?)", row
                ).rowcount
                > 0
            )

        return reply if self._use(change=insert) else self.get(key) or reply

    def claim(self, key: str) -> bool:
        """Whether the caller is to ask; else another process is asking, or has just stored the
        reply."""
        return self._claims.note(
            key, self._use(change=lambda connection: self._claims.take(connection, key))
        )

    def release(self, key: str) -> None:
        """End a claim without a reply."""
        self._use(change=lambda connection: self._claims.drop(connection, key))

    def __len__(self) -> int:
        return int(
            self._use(
                lambda connection: connection.execute("SELECT count(*) FROM replies").fetchone()[0]
            )
        )

    def rows(self) -> Iterator[StoredReply]:
        """Every reply, without its text."""
        every = "SELECT key, model, blob, length(reply), stored FROM replies"
        for key, model, blob, size, stored in self._use(
            lambda connection: connection.execute(every).fetchall()
        ):
            sha = blob.decode() if isinstance(blob, bytes) else ""
            with suppress(OSError, ValueError):
                size = self.blobs.path(sha).stat().st_size if sha else size
            texts = (each.decode(errors="replace") for each in (key, model))
            when = stored if isinstance(stored, int | float) and 0 <= stored < 1e11 else 0.0
            yield StoredReply(next(texts), next(texts), sha, int(size or 0), float(when))

    def remove(self, rows: Sequence[StoredReply]) -> None:
        """Forget replies, their blobs too, and give their room back to the disk where nobody else
        is writing."""
        if not rows:
            return

        def delete(connection: sqlite3.Connection) -> set[bytes]:
            connection.executemany(
                "DELETE FROM replies WHERE key = ?", [(row.key,) for row in rows]
            )
            return {
                blob
                for (blob,) in connection.execute("SELECT blob FROM replies WHERE blob IS NOT NULL")
            }

        left = self._use(change=delete)
        with self._named():
            for sha in {row.blob for row in rows if row.blob and row.blob.encode() not in left}:
                self.blobs.path(sha).unlink(missing_ok=True)
                self.blobs.known.discard(sha)
        self._use(_vacuum)

    @contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """One caller of a key at a time in this process; the others wait."""
        with self._turns_lock:
            turn = self._turns.setdefault(key, _Turn())
            turn.wanted += 1
        try:
            with spend("wait for the same request"):
                turn.lock.acquire()
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            with self._turns_lock:
                turn.wanted -= 1
                if not turn.wanted:
                    del self._turns[key]

    def close(self) -> None:
        """Close the file; a later use opens it again."""
        self._file.close()

    def _use(self, look: Work | None = None, change: Work | None = None) -> Any:
        """Look something up or change it, as `GroupCommit.run` says. Raises CacheError where it
        cannot be done."""
        with spend("cache"), self._named():
            return self._file.run(look, change)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Inside, what goes wrong with file or disk is a CacheError."""
        try:
            yield
        except (sqlite3.Error, OSError) as exc:
            raise CacheError(
                f"the reply cache {self.folder / 'replies.sqlite'} cannot be used ({exc}); "
                f"free its disk or move the file away, or set {self.setting} to another folder"
            ) from exc

    def _open(self) -> sqlite3.Connection:
        """Every statement commits by itself; WAL without a sync per commit outlives a killed
        process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "replies.sqlite"
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, VERSION):
                raise CacheError(
                    f"{path} is of version {found}, this looktwice knows {VERSION}; set another"
                    " folder"
                )
            if wrong := _foreign(connection):
                raise CacheError(
                    f"{path} is no reply cache ({wrong}); move it away, or set {self.setting} to"
                    " another"
                )
            _journal(connection)
            connection.text_factory = (
                bytes  # a text that is no UTF-8 is a damaged row, not a damaged file
            )
            connection.execute(SCHEMA)
            claims.prepare(connection)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _read(self, key: str, text: object, blob: object, stored: object) -> Reply | None:
        """The reply of a row; a damaged one is removed."""
        reply = self._parse(text, blob)
        if reply is None:  # not the row that another process has just put in its place
            self._use(change=lambda file: file.execute(FORGET, (key, stored)))
        return reply

    def _parse(self, text: object, blob: object) -> Reply | None:
        """The reply of a row; None where the row or its blob is damaged."""
        try:
            with self._named():
                data = (
                    self._blob(blob.decode()) if text is None and isinstance(blob, bytes) else text
                )
            return Reply.from_dict(read_as(ReplyNode, data)) if isinstance(data, bytes) else None
        except CacheError:
            raise
        except ValueError:
            return None

    def _blob(self, sha: str) -> bytes | None:
        try:
            data = self.blobs.get(sha)
        except FileNotFoundError:
            data = b""
        if hashlib.sha256(data).hexdigest() == sha:
            return data
        self.blobs.path(sha).unlink(missing_ok=True)
        self.blobs.known.discard(sha)
        return None


def _find_row(key: str, connection: sqlite3.Connection) -> Any:
    return connection.execute(FIND, (key,)).fetchone()


def _vacuum(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.OperationalError):
        connection.execute("VACUUM")


class _Turn:
    """The lock of one key and how many want it."""

    def __init__(self) -> None:
        self.lock, self.wanted = threading.Lock(), 0


def _foreign(connection: sqlite3.Connection) -> str:
    """What makes a file another one than `SCHEMA` makes: a view or a trigger would run whatever its
    author wrote."""
    connection.execute("PRAGMA trusted_schema = OFF")
    rows = connection.execute(
        "SELECT type, name, lower(tbl_name), sql FROM sqlite_master"
    ).fetchall()
    for kind, name, table, sql in rows:
        if table not in COLUMNS or (kind == "index" and sql is None):  # that of a primary key
            continue
        if kind != "table" or not sql.upper().startswith("CREATE TABLE"):
            return f"{name!r} is a {kind if kind != 'table' else 'virtual table'}"
        found = [row[1] for row in connection.execute(f"PRAGMA table_xinfo({table})")]
        if found != COLUMNS[table]:
            return f"the table {name!r} has the columns {', '.join(found)}"
    if rows and "replies" not in (table for _, _, table, _ in rows):
        return f"it holds {rows[0][1]!r} and no replies"
    return ""


def _journal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; SQLite does not wait by itself where another process is switching at the same
    moment."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as exc:
            if "locked" not in str(exc) or time.monotonic() > until:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous = NORMAL")


@dataclass(frozen=True)
class Around:
    """What is wrapped around a model, and has its identity."""

    model: Model

    @property
    def identity(self) -> str:
        """The identity of the wrapped model."""
        return self.model.identity

    def close(self) -> None:
        """Close the wrapped model."""
        close_model(self.model)


@dataclass(frozen=True)
class Cached(Around):
    """Answers from the store where it can; else asks, stores and only then gives the reply back.

    Of several callers of one request, in this process or in others with this store, one asks and
    the others wait for its reply (`cached` is true for them); where it fails, the next asks.
    Failures are not stored. With `only`, what is not stored raises ModelError. Setting `stop` ends
    the wait for another process; `on_fault` is told of a store that fails, whatever the caller
    makes of the CacheError.
    """

    store: Store
    only: bool = False
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    on_fault: Callable[[str], None] = field(default=lambda said: None, repr=False)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """The stored or the new reply. Raises ModelError, CacheError, Stopped."""
        key = request_key(self.identity, messages, draw, options)
        try:
            with self.store.turn(key):
                found = self._find(key)
                if found is not None:
                    return replace(found, cached=True)
                if self.only:
                    raise ModelError(
                        f"only cached replies were allowed and the store in {self.store.folder}"
                        f" holds none to this request (draw {draw}, model {self.identity}); leave"
                        " out --only-cached to ask the model"
                    )
                return self._ask(key, messages, draw, options)
        except CacheError as exc:
            self.on_fault(str(exc))
            raise

    def _find(self, key: str) -> Reply | None:
        """The stored reply, if need be after waiting for another process; None where this caller is
        to ask."""
        if self.only:
            return self.store.get(key)
        while (found := self.store.find_or_claim(key)) is False:
            with spend("wait for the same request"):
                stopped = self.stop.wait(claims.LOOK)
            if stopped:
                raise Stopped("stopped while another process was asking")
        return None if found is True else found

    def _ask(self, key: str, messages: Messages, draw: int, options: CallOptions) -> Reply:
        try:
            return self.store.put(key, self.identity, self.model(messages, draw, options))
        except BaseException:
            with suppress(CacheError):  # what was raised first says more
                self.store.release(key)
            raise

    def close(self) -> None:
        """Close the store and the wrapped model; both open again when used."""
        self.store.close()
        close_model(self.model)


def close_model(model: Model) -> None:
    """Close a model that can be closed."""
    close = getattr(model, "close", None)
    if close is not None:
        close()


def refuse_network(folder: Path, setting: str, mounts: Path = Path("/proc/mounts")) -> None:
    """Raises CacheError where a folder lies on a network filesystem: SQLite's locks do not hold
    there."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    place = Path(os.path.abspath(folder)).resolve()
    rows = [line.split(" ") for line in lines]
    over = [(row[1].replace("\\040", " "), row[2]) for row in rows if len(row) > 2]
    holding = [(point, kind) for point, kind in over if place.is_relative_to(point)]
    point, kind = max(reversed(holding), key=lambda each: len(each[0]), default=("", ""))
    if kind.removeprefix("fuse.") in NETWORK:
        raise CacheError(
            f"the reply cache {place} would lie on a network filesystem ({kind} at {point}), where"
            f" SQLite's locks do not hold; set {setting} to a folder on a disk of this machine"
        )

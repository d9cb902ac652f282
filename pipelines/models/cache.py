"""The reply cache on disk: a request that was answered once is not sent again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from looktwice.pipelines.clock import track_time
from looktwice.pipelines.json_input import read_as
from looktwice.pipelines.model import (
    CallOptions,
    Messages,
    ModelError,
    ModelWrapper,
    Reply,
    ReplyNode,
    Stopped,
    make_request_key,
)
from looktwice.pipelines.models.stops import CacheError
from looktwice.pipelines.runtime.stores import Blobs

VERSION = 1
MAX_INLINE_BYTES = 16 * 1024
"""Replies with more bytes than this are stored as blobs."""

BUSY_TIMEOUT_SECONDS = 60.0
CLAIM_POLL_SECONDS = 0.02  # between checks whether another caller has received the reply
NETWORK_PATTERN = re.compile(
    r"nfs[34]?|cifs|smb3|smbfs|lustre|gpfs|beegfs|ceph|glusterfs|afs|panfs|wekafs|orangefs"
    r"|ocfs2|gfs2|davfs|sshfs|gcsfuse|s3fs|rclone"
)
SCHEMA_STATEMENTS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, reply TEXT, blob TEXT, stored REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS asking (key TEXT PRIMARY KEY, owner BLOB NOT NULL) WITHOUT ROWID;
CREATE TEMP TRIGGER answered AFTER INSERT ON main.replies
BEGIN DELETE FROM asking WHERE key = NEW.key; END;
"""
"""WAL without a sync per commit survives a killed process. The trigger deletes the claim in the
commit that stores the reply; it exists in the connection only, not in the file."""
CLAIM_STATEMENT = """
INSERT OR IGNORE INTO asking SELECT ?, ?
WHERE NOT EXISTS (SELECT 1 FROM replies WHERE key = ?)
"""
TABLE_NAMES = ("replies", "asking")


class StoredReply(NamedTuple):
    """A row of the cache: its key, the model's identity, the sha256 of its blob, its size in bytes,
    and the Unix time when it was stored."""

    key: str
    model: str
    blob: str
    size: int
    stored_at: float


@dataclass(eq=False)
class Store:
    """Replies by request key in `folder`: `replies.sqlite`, and `blobs/` for large ones.

    Safe between threads and between processes of one machine; a killed process loses nothing that
    `put` returned. `setting` names the setting that error messages tell the user to change. Raises
    CacheError for a network folder and for damaged files.
    """

    folder: Path
    setting: str = "the cache folder"

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        self.blobs = Blobs(self.folder / "blobs")
        self._reset()
        reject_network_folder(self.folder, self.setting)

    def _reset(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._owner = os.urandom(8)
        self._claimed: set[str] = (
            set()
        )  # requests that this process has claimed and not answered yet
        self._owner_life = self._open_owner_lock(self._owner)

    def get(self, key: str) -> Reply | None:
        """Return the reply under a key, or None. Removes and ignores a damaged row, a row whose
        blob is missing or damaged, and a blank reply."""
        statement = "SELECT reply, blob, stored FROM replies WHERE key = ?"
        for text, sha, stored in self._run(statement, key):
            try:
                data = self._read_blob(sha or "") if text is None else text
                reply = Reply.from_dict(read_as(ReplyNode, data))
            except CacheError:
                raise
            except ValueError:
                reply = None
            if reply is not None and not reply.is_blank:
                return reply
            # `stored` spares a row that another process has just written
            self._run("DELETE FROM replies WHERE key = ? AND stored IS ?", key, stored)
        return None

    def put(self, key: str, model: str, reply: Reply) -> Reply:
        """Store a reply and return the stored one, which is the first if another process was
        faster. A blank reply is not stored."""
        if reply.is_blank:
            return reply
        text = json.dumps(replace(reply, cached=False).to_dict(), separators=(",", ":"))
        row: tuple[str | None, str | None] = (text, None)
        if len(data := text.encode()) > MAX_INLINE_BYTES:
            with self._convert_errors():
                row = (None, self.blobs.put(data))
        insert = "INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?)"
        if self._execute(insert, key, model, *row, time.time())[1]:
            self._claimed.discard(key)  # the trigger has ended the claim
            return reply
        return self.get(key) or reply

    @contextmanager
    def claim(self, key: str, stop: threading.Event) -> Iterator[Reply | None]:
        """Yield the stored reply; to one caller among all processes, yield None. That caller must
        send the request now, and the others wait for its reply.

        If it stores nothing, fails or is killed, the next caller sends the request. Raises Stopped
        if `stop` is set meanwhile, and CacheError.
        """
        with track_time("wait for the same request"):
            while (reply := self.get(key)) is None and not self._claim(key):
                if stop.wait(CLAIM_POLL_SECONDS):
                    raise Stopped("stopped while the same request was in flight")
        try:
            yield reply
        finally:
            if reply is None and key in self._claimed:
                self._claimed.discard(key)
                with suppress(CacheError):  # the first exception is more informative
                    self._run("DELETE FROM asking WHERE key = ?", key)

    def _claim(self, key: str) -> bool:
        """Claim a request and return whether this caller may send it; drop the claims of dead
        processes."""
        if self._execute(CLAIM_STATEMENT, key, self._owner, key)[1]:
            self._claimed.add(key)
            return True
        others = "SELECT owner FROM asking WHERE key = ? AND owner != ?"
        for (owner,) in self._run(others, key, self._owner):
            lock = self._open_owner_lock(owner)
            with self._convert_errors(), suppress(Timeout):
                lock.acquire(blocking=False)
                self._run("DELETE FROM asking WHERE owner = ?", owner)
                _release_lock(lock)
        return False

    def _open_owner_lock(self, owner: bytes) -> FileLock:
        """Return the lock that an owner of claims holds while it lives; the system releases it at
        once if the process is killed."""
        return FileLock(self.folder / "asking" / owner.hex(), thread_local=False)

    def __len__(self) -> int:
        return int(self._run("SELECT count(*) FROM replies")[0][0])

    def iterate_rows(self) -> Iterator[StoredReply]:
        """Yield all rows, without their replies."""
        columns = "key, model, coalesce(blob, ''), coalesce(length(reply), 0), stored"
        for row in map(StoredReply._make, self._run(f"SELECT {columns} FROM replies")):
            size = row.size
            with suppress(OSError, ValueError):
                size = self.blobs.get_path(row.blob).stat().st_size
            yield row._replace(size=size)

    def remove(self, rows: Sequence[StoredReply]) -> None:
        """Delete replies and their blobs, and free disk space unless another process is writing."""
        for row in rows:
            self._run("DELETE FROM replies WHERE key = ?", row.key)
        left = {sha for (sha,) in self._run("SELECT blob FROM replies")}
        with self._convert_errors():
            for row in rows:
                if row.blob and row.blob not in left:
                    self._delete_blob(row.blob)
        with suppress(CacheError):
            self._run("VACUUM")

    def close(self) -> None:
        """Close the database; it reopens on the next use."""
        with self._lock:
            if self._connection is not None:
                self._closing()
            self._connection = None

    def _run(self, statement: str, *values: object) -> list[Any]:
        """Run a statement and return its rows. Raises CacheError."""
        return self._execute(statement, *values)[0]

    def _execute(self, statement: str, *values: object) -> tuple[list[Any], int]:
        """Run a statement and return its rows and the number of rows changed, once SQLite has
        committed it. RETURNING would also give that number, but needs one more switch between
        threads. Raises CacheError."""
        if self._process != os.getpid():  # a forked child must not use its parent's connection
            self._reset()
        with track_time("cache"), self._lock, self._convert_errors():
            if self._connection is None:
                self._connection = self._open()
            cursor = self._connection.execute(statement, values)
            return cursor.fetchall(), cursor.rowcount

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert errors of the database or the disk inside the context to CacheError."""
        try:
            yield
        except (sqlite3.Error, OSError) as exc:
            raise CacheError(
                f"the reply cache {self.folder / 'replies.sqlite'} cannot be used ({exc}); "
                f"free disk space, move the file away, or set {self.setting} to another folder"
            ) from exc

    def _open(self) -> sqlite3.Connection:
        """Open the database in autocommit mode. Only one process opens it at a time, since SQLite
        does not wait while another one switches to WAL."""
        (self.folder / "asking").mkdir(parents=True, exist_ok=True)
        path = self.folder / "replies.sqlite"
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._owner_life.acquire()
        try:
            with FileLock(self.folder / ".opening", timeout=BUSY_TIMEOUT_SECONDS):
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if version not in (0, VERSION):
                    raise CacheError(
                        f"{path} has version {version}, but this looktwice supports {VERSION}; set"
                        " another folder"
                    )
                # a view or a trigger would run whatever its author wrote
                connection.execute("PRAGMA trusted_schema = OFF")
                for kind, name in connection.execute("SELECT type, name FROM sqlite_master"):
                    if not (
                        (kind == "table" and name in TABLE_NAMES) or name.startswith("sqlite_")
                    ):
                        raise CacheError(
                            f"{path} is not a reply cache ({name!r} is a {kind}); move it away, or"
                            f" set {self.setting} to another folder"
                        )
                connection.executescript(f"{SCHEMA_STATEMENTS} PRAGMA user_version = {VERSION}")
        except BaseException:
            connection.close()
            _release_lock(self._owner_life)
            raise
        # an unclosed store closes its connection when it is garbage-collected
        self._closing = weakref.finalize(self, _close, connection, self._owner_life, self._process)
        # a text that is not UTF-8 is a damaged row, not a damaged file
        connection.text_factory = lambda raw: raw.decode(errors="replace")
        return connection

    def _read_blob(self, sha: str) -> bytes:
        """Return the content of a blob, empty if it is missing or damaged."""
        with self._convert_errors():
            with suppress(FileNotFoundError):
                data = self.blobs.get(sha)
                if hashlib.sha256(data).hexdigest() == sha:
                    return data
            self._delete_blob(sha)
        return b""

    def _delete_blob(self, sha: str) -> None:
        self.blobs.get_path(sha).unlink(missing_ok=True)
        self.blobs.known_names.discard(sha)


def _close(connection: sqlite3.Connection, lock: FileLock, process: int) -> None:
    """Close a connection and end its claims. In a forked child the parent's connection is kept,
    because SQLite forbids closing it there."""
    if process != os.getpid():
        _INHERITED_CONNECTIONS.append(connection)
        return
    connection.close()
    _release_lock(lock)


_INHERITED_CONNECTIONS: list[sqlite3.Connection] = []


def _release_lock(lock: FileLock) -> None:
    lock.release()
    with suppress(OSError):
        Path(lock.lock_file).unlink()


@dataclass(frozen=True)
class Cached(ModelWrapper):
    """Answers from the store if possible; else asks the model and stores the reply before returning
    it.

    If several callers make the same request, in this process or in others with this store, one
    sends it and the others wait for its reply (marked `cached`); if it fails, the next caller sends
    it. Failures are not stored. With `only_cached`, a request that is not stored raises ModelError.
    Setting `stop` ends the wait for another process. `on_fault` is called when the store fails,
    even if the caller ignores the CacheError, and `on_hit` on each cache hit.
    """

    store: Store
    only_cached: bool = False
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    on_fault: Callable[[str], None] = field(default=lambda reason: None, repr=False)
    on_hit: Callable[[], None] = field(default=lambda: None, repr=False)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the stored or a new reply. Raises ModelError, CacheError, Stopped."""
        key, store = make_request_key(self.identity, messages, draw, options), self.store
        try:
            with (
                nullcontext(store.get(key))
                if self.only_cached
                else store.claim(key, self.stop) as reply
            ):
                if reply is None and not self.only_cached:
                    answer = self.model(messages, draw, options)
                    return store.put(key, self.identity, answer)
        except CacheError as exc:
            self.on_fault(str(exc))
            raise
        if reply is None:
            raise ModelError(
                f"only cached replies are allowed, but the cache in {store.folder} has none for"
                f" this request (draw {draw}, model {self.identity}); leave out --only-cached to"
                " ask the model"
            )
        self.on_hit()
        return replace(reply, cached=True)

    def close(self) -> None:
        """Close the store and the wrapped model; both reopen when used."""
        self.store.close()
        super().close()


def reject_network_folder(folder: Path, setting: str, mounts: Path = Path("/proc/mounts")) -> None:
    """Raise CacheError if a folder is on a network filesystem, where SQLite's locks do not work."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    place, longest, kind = folder.resolve(), "", ""
    for line in lines:
        _, point, filesystem, *_ = (part.replace("\\040", " ") for part in line.split(" "))
        if place.is_relative_to(point) and len(point) >= len(longest):
            longest, kind = point, filesystem
    if NETWORK_PATTERN.fullmatch(kind.removeprefix("fuse.")):
        raise CacheError(
            f"the reply cache {place} would be on a network filesystem ({kind} at {longest}),"
            f" where SQLite's locks do not work; set {setting} to a folder on a disk of this"
            " machine"
        )

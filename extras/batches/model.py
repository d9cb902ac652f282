"""A model that is asked through batch endpoints at half the price: a run's requests are collected
in files and submitted, and the run waits for the replies."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from filelock import FileLock, Timeout
from yarl import URL

from looktwice.extras.batches.dialects import DIALECTS, Batch, BatchServer, parse_key
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import append_file, read_file, write_file
from looktwice.pipelines.model import (
    CallOptions,
    Deferred,
    Messages,
    ModelError,
    Reply,
    Stopped,
    find_price_fault,
    make_request_key,
)
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.models.chat_api import ChatAPI
from looktwice.pipelines.models.wire import write_request
from looktwice.pipelines.ranges import Ranged

HOST_DIALECTS = {"api.anthropic.com": "anthropic", "generativelanguage.googleapis.com": "gemini"}

MAX_FAILED_CHECKS = 10  # consecutive checks of a batch that may fail
CHECK_INTERVAL = 0.5  # seconds between checks whether another run is done
MAX_BATCHES_PER_REQUEST = 3  # batches that a request is part of before it counts as failed


@dataclass(frozen=True)
class Batched(Ranged):
    """The model `chat`, asked through its server's batch endpoints, which cost half the price and
    take up to a day.

    `run` goes through all samples, submits their requests, at most `requests` in a batch, checks
    the batches every `look` seconds, and stores the replies in the cache. Then it goes again
    through the samples that were waiting. So each turn of a conversation takes one round of
    batches, and so does each draw of `Vote`. A run that is stopped or killed leaves its batches
    with the server, and the same command collects them. Replies to direct requests are cache hits,
    too. `dialect` is the provider's batch protocol; by default it is that of `chat`, if it is a
    `MessagesAPI`, `ResponsesAPI` or `GeminiAPI`, and otherwise it depends on the host: Anthropic's
    and Gemini's use their own protocols, all others OpenAI's. Anthropic supports no seeds and needs
    `max_tokens`. The URL of `chat` is the one for direct requests, such as
    https://generativelanguage.googleapis.com/v1beta/openai. `prices` are those of a batch.
    `--budget` and `--max-requests` cannot limit it; `--limit` does.
    """

    chat: ChatAPI
    look: float = field(default=60.0, metadata=NOT_IDENTITY)
    requests: int = field(default=50_000, metadata=NOT_IDENTITY)
    dialect: Literal["openai", "anthropic", "gemini"] | None = field(
        default=None, metadata=NOT_IDENTITY
    )
    prices: Mapping[str, Any] | None = field(default=None, metadata=NOT_IDENTITY)
    remote: ClassVar[bool] = True
    ranges = ("look > 0", "requests >= 1")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prices is not None and (fault := find_price_fault(self.prices)):
            raise ValueError(fault)
        if len(self.chat.urls) > 1:
            raise ValueError("a batch goes to one server; give `chat` a single `url`")

    @property
    def identity(self) -> str:
        """The identity of `chat`: direct and batched requests get the same replies."""
        return self.chat.identity

    @property
    def active_dialect(self) -> str:
        """The dialect in use."""
        host = URL(self.chat.urls[0]).host or ""
        return (
            self.dialect or getattr(self.chat, "dialect", "") or HOST_DIALECTS.get(host, "openai")
        )

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of `chat`."""
        if name.startswith("_") or name == "chat":
            raise AttributeError(name)
        return getattr(self.chat, name)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Raise ModelError: only `run` can collect requests into a batch."""
        raise ModelError(
            "only `looktwice run` can send batches; for this command, use the model under `chat`"
            " without Batched"
        )

    def open_queue(
        self,
        store: Store,
        stop: threading.Event,
        say: Callable[[str], None],
        give_up: Callable[[str], None],
    ) -> BatchQueue:
        """Open the queue that replaces this model in a run; samples wait there for their
        replies."""
        return BatchQueue(self, store, stop, say, give_up)


@dataclass(frozen=True)
class _BatchFile:
    """The file at `path` that describes a batch, next to its requests.

    `batch` is its id at the server once it has one, `process` the queue that collected it, `tried`
    the time of submission, and `keys` are the keys of its requests in order.
    """

    path: Path
    process: str
    batch: str = ""
    tried: float = 0.0
    keys: Sequence[str] = ()

    @classmethod
    def read(cls, path: Path) -> _BatchFile:
        return cls(path, **json.loads(read_file(path)))

    @property
    def requests_file(self) -> Path:
        """The file that holds the requests until the server has them."""
        return self.path.with_suffix(".jsonl")

    def write(self) -> None:
        facts = {name: value for name, value in vars(self).items() if name != "path"}
        write_file(self.path, json.dumps(facts))

    def delete(self) -> None:
        self.requests_file.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


@dataclass(eq=False)
class BatchQueue:
    """The requests of a run to a `Batched` model, in files below the folder of `store`, and the
    submitted batches.

    `say` receives their progress, and `give_up` the reason why further waiting is useless; setting
    `stop` ends the wait.
    """

    model: Batched
    store: Store
    stop: threading.Event
    say: Callable[[str], None] = lambda said: None
    give_up: Callable[[str], None] = lambda said: None
    waiting_keys: set[str] = field(default_factory=set)
    errors_by_key: dict[str, ModelError] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    lock: threading.RLock = field(default_factory=threading.RLock)
    finished_batches: set[str] = field(default_factory=set)
    open_file_size: int = 0
    has_resumed: bool = False
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def identity(self) -> str:
        """The identity of the model."""
        return self.model.identity

    @cached_property
    def server(self) -> BatchServer:
        """The server that takes batches, at the URL of the provider's own protocol."""
        chat, dialect = self.model.chat, self.model.active_dialect
        url = chat.urls[0].removesuffix("/openai") if dialect == "gemini" else chat.urls[0]
        return DIALECTS[dialect](chat, url)

    @property
    def folder(self) -> Path:
        """The folder with the files of this model's requests and batches."""
        name = hashlib.sha256(self.identity.encode()).hexdigest()[:16]
        return self.store.folder / "batches" / name

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the reply from an earlier batch if there is one; otherwise queue the request.

        Raises Deferred, and the ModelError of a request that failed in its batch.
        """
        key = make_request_key(self.identity, messages, draw, options)
        with self.lock:
            # if the run is stopped while one thread waits for earlier batches, no thread waits on
            if self.stop.is_set():
                raise Stopped("stopped before the request was put into a batch")
            if not self.has_resumed:
                self._resume()
        if key in self.errors_by_key:
            raise self.errors_by_key[key]
        if (reply := self.store.get(key)) is not None:
            return reply
        if self.attempts[key] >= MAX_BATCHES_PER_REQUEST:
            raise ModelError(
                f"{self.model.chat.endpoint} gave no answer to this request in"
                f" {MAX_BATCHES_PER_REQUEST} batches"
            )
        body = write_request(self.model.chat.make_body(messages, draw, options))
        line = self.server.format_line(key, json.loads(body))
        with self.lock:
            if key not in self.waiting_keys:
                is_full = len(self.waiting_keys) >= self.model.requests
                if is_full or self.open_file_size + len(line) > self.server.max_bytes:
                    self._close_file()
                append_file(self._open_file, line)
                self.waiting_keys.add(key)
                self.open_file_size += len(line)
        raise Deferred("waiting for its batch")

    def collect_replies(self) -> None:
        """Submit the waiting requests, wait for them, and store the replies. Raises Stopped."""
        with self.lock, self._lock_batches():
            self._close_file()
            self._wait()

    def close(self) -> None:
        """Discard requests that were not submitted."""
        self._open_file.unlink(missing_ok=True)
        self._presence_lock.release()
        Path(self._presence_lock.lock_file).unlink(missing_ok=True)

    @property
    def _open_file(self) -> Path:
        return self.folder / f"gathering-{self.name}"

    @cached_property
    def _presence_lock(self) -> FileLock:
        """A lock held while this queue collects requests, so that other runs leave them alone; it
        is released however the process ends."""
        return FileLock(self.folder / f"{self.name}.here", thread_local=False)

    @property
    def _batch_files(self) -> list[_BatchFile]:
        return [_BatchFile.read(path) for path in sorted(self.folder.glob("*.json"))]

    @contextmanager
    def _lock_batches(self) -> Iterator[None]:
        """Lock these batches against other processes; a ModelError inside ends the run. Raises
        Stopped."""
        lock, waits = FileLock(self.folder / ".lock"), False
        while not lock.is_locked:
            try:
                lock.acquire(timeout=CHECK_INTERVAL)
            except Timeout:
                if not waits:
                    self.say("another run is using batches of this model; waiting for it to end")
                waits = True
                if self.stop.is_set():
                    raise Stopped("stopped while another run used the batches") from None
        try:
            yield
        except ModelError as exc:
            self.give_up(str(exc))
            raise Stopped(str(exc)) from exc
        finally:
            lock.release()

    def _resume(self) -> None:
        """Wait for batches that an earlier run submitted; discard requests that it only collected,
        since they are collected again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock_batches():
            self._presence_lock.acquire()
            here = {path.stem for path in self.folder.glob("*.here") if _is_held(path)}
            for path in self.folder.glob("gathering-*"):
                if path.name.partition("-")[2] not in here:
                    path.unlink(missing_ok=True)
            for note in self._batch_files:
                is_orphan = not note.batch and note.process not in here
                if is_orphan and self._find(note) is None:
                    note.delete()
            self._wait()
        self.has_resumed = True

    def _find(self, note: _BatchFile) -> Batch | None:
        """Find a batch that was submitted just before its run was killed, or whose id was lost,
        unless it is already known."""
        if not note.tried:
            return None
        batch = self.server.find(note.path.stem, len(note.keys), note.tried)
        if batch is None or batch.id in self.finished_batches | {
            noted.batch for noted in self._batch_files
        }:
            return None
        replace(note, batch=batch.id).write()
        return batch

    def _close_file(self) -> None:
        """Turn the collected requests into a batch, which `_wait` submits."""
        if self.waiting_keys:
            note = _BatchFile(self.folder / f"{uuid.uuid4().hex}.json", self.name)
            self._open_file.rename(note.requests_file)
            note.write()
            self.attempts.update(self.waiting_keys)
        self.waiting_keys, self.open_file_size = set(), 0

    def _wait(self) -> None:
        """Wait until every batch has ended."""
        shown, failures = "", 0
        while notes := self._batch_files:
            under_way: list[Batch] = []
            trouble: ModelError | None = None
            for note in notes:
                if self.stop.is_set():
                    self.say(
                        "the batches continue at the server; repeat the command to collect them"
                    )
                    raise Stopped("stopped while a batch was in progress")
                try:
                    under_way += self._check_batch(note)
                except ModelError as exc:
                    if not exc.retryable or (exc.unreached and not note.batch):
                        raise
                    trouble = exc
            failures = failures + 1 if trouble else 0
            if trouble and failures >= MAX_FAILED_CHECKS:
                raise trouble
            if trouble:
                self.say(f"{trouble}; checking again in {self.model.look:g} s")
            done = sum(batch.answered_count for batch in under_way)
            total = sum(batch.request_count for batch in under_way)
            progress = (
                f"{format_count(len(under_way), 'batch', 'batches')} under way, {done:,} of"
                f" {total:,} requests answered"
            )
            if under_way and progress != shown:
                self.say(progress)
                shown = progress
            if under_way or trouble:
                self.stop.wait(self.model.look)

    def _check_batch(self, note: _BatchFile) -> list[Batch]:
        """Check the batch of a file, and submit it first if necessary. Return it while it is in
        progress; store its replies once it has ended."""
        batch = self.server.get_status(note.batch) if note.batch else self._submit(note)
        if batch is None or not batch.is_over:
            return [batch] if batch else []
        for key, response in self.server.yield_responses(batch, _BatchFile.read(note.path).keys):
            try:
                reply = self.model.chat.read(response, self.model.chat.endpoint, 0.0)
                self.store.put(key, self.identity, reply)
            except ModelError as exc:
                # a request with neither a reply nor a final error is asked again
                if not exc.retryable or self.attempts[key] >= MAX_BATCHES_PER_REQUEST:
                    self.errors_by_key[key] = exc
        self.finished_batches.add(batch.id)
        note.delete()
        if batch.error:
            raise ModelError(f"{self.model.chat.endpoint} refused the batch: {batch.error}")
        return []

    def _submit(self, note: _BatchFile) -> Batch | None:
        """Submit the collected requests as a batch; None if other runs have answered all of them in
        the meantime."""
        batch = self._find(note)  # the server's response to an earlier try may be lost
        if batch is None:
            lines = read_file(note.requests_file).splitlines(keepends=True)
            # another run may have stored the reply
            wanted = [line for line in lines if self.store.get(parse_key(line)) is None]
            if not wanted:
                note.delete()
                return None
            note = replace(note, keys=[parse_key(line) for line in wanted], tried=time.time())
            note.write()
            batch = self.server.create(wanted, note.path.stem)
            replace(note, batch=batch.id).write()
        note.requests_file.unlink(missing_ok=True)
        return batch


def _is_held(lock: Path) -> bool:
    """Return whether a running process holds this lock; delete the lock file if none does."""
    try:
        with FileLock(lock, timeout=0):
            pass
    except Timeout:
        return True
    lock.unlink(missing_ok=True)
    return False

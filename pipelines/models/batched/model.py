"""A model that is asked in batches, for half the price: what a run wants to ask is handed in, and waited for."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from filelock import FileLock

from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.counted import counted
from looktwice.pipelines.disk import append_file, read_file, write_file
from looktwice.pipelines.model import (
    CallOptions,
    Deferred,
    Messages,
    ModelError,
    Reply,
    Stopped,
    price_fault,
    request_key,
)
from looktwice.pipelines.models.batched.openai_batches import (
    Batch,
    create_batch,
    find_batch,
    look_at_batch,
    read_answers,
    request_line,
)
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.models.chat_api import ChatAPI, read_response
from looktwice.pipelines.models.http_client import HttpResponse

MOST_BYTES = 100_000_000  # of the requests of a batch; providers take 200 MB
PATIENCE = 10  # looks in a row at which nothing could be seen
ATTEMPTS = 3  # batches in which a request may come before it has failed


@dataclass(frozen=True)
class Batched:
    """The model `chat`, asked through the batch endpoints of its server, which take half the price and up to a day.

    `run` goes through all samples, hands in what they ask, at most `requests` in a batch, looks every `look` seconds
    how far it is, keeps the replies in the cache, and goes through the samples again that waited. So each turn of a
    conversation takes a round of batches, and so does each draw of `Vote`. A run that is stopped or killed leaves its
    batches with the server, and the same command collects them. What was answered directly is the same to the cache.
    `prices` are those of a batch. `--budget` and `--max-requests` cannot bound it; `--limit` does.
    """

    chat: ChatAPI
    look: float = field(default=60.0, metadata=NOT_IDENTITY)
    requests: int = field(default=50_000, metadata=NOT_IDENTITY)
    prices: Mapping[str, float] | None = field(default=None, metadata=NOT_IDENTITY)
    remote: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.look <= 0 or self.requests < 1:
            raise ValueError(f"look is above 0 and requests 1 or more, found {self.look} and {self.requests}")
        if self.prices is not None and (fault := price_fault(self.prices)):
            raise ValueError(fault)
        if len(self.chat.urls) > 1:
            raise ValueError("a batch lies with one server; give `chat` one `url`")

    @property
    def identity(self) -> str:
        """That of `chat`: a reply is the same whichever way it was asked for."""
        return self.chat.identity

    def __getattr__(self, name: str) -> Any:
        """What else is asked of a model is that of `chat`."""
        if name.startswith("_") or name == "chat":
            raise AttributeError(name)
        return getattr(self.chat, name)

    def __call__(self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()) -> Reply:
        """Raises ModelError: only `run` knows what else there is to ask."""
        raise ModelError("only `looktwice run` asks in batches; use `chat` itself here")


@dataclass(eq=False)
class BatchQueue:
    """What a run wants to ask of a `Batched` model, in files of `store`'s folder, and the batches that are under way.

    `say` is told how far they are, and `give_up` why there is no use in waiting on; setting `stop` ends the wait.
    """

    model: Batched
    store: Store
    stop: threading.Event
    say: Callable[[str], None] = lambda said: None
    give_up: Callable[[str], None] = lambda said: None
    waiting: set[str] = field(default_factory=set)
    failed: dict[str, ModelError] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    lock: threading.RLock = field(default_factory=threading.RLock)
    size: int = 0
    unseen: int = 0
    resumed: bool = False

    @property
    def identity(self) -> str:
        """The identity of the model."""
        return self.model.identity

    @property
    def folder(self) -> Path:
        """Where the files of this model's requests and batches lie."""
        return self.store.folder / "batches" / hashlib.sha256(self.identity.encode()).hexdigest()[:16]

    def __call__(self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()) -> Reply:
        """The reply, where a batch that an earlier run left has brought it; else it is put among what is to be asked.

        Raises Deferred, and the ModelError of a request that failed in its batch.
        """
        key = request_key(self.identity, messages, draw, options)
        with self.lock:
            if not self.resumed:
                self._resume()
        if key in self.failed:
            raise self.failed[key]
        if (reply := self.store.get(key)) is not None:
            return reply
        if self.attempts[key] >= ATTEMPTS:
            raise ModelError(f"{self.model.chat.endpoint} gave no answer to this request in {ATTEMPTS} batches")
        line = request_line(key, self.model.chat.body(messages, draw, options))
        with self.lock:
            if key not in self.waiting:
                self._add(key, line)
        raise Deferred("it waits for its batch")

    def collect(self) -> None:
        """Hand in what waits, wait for it, and keep the replies. Raises Stopped."""
        with self.lock, self._alone():
            self._close_file()
            self._wait()

    def close(self) -> None:
        """Let go of the connection."""
        self.model.chat.close()

    def _resume(self) -> None:
        """Wait for what an earlier run handed in; what it had only gathered is gathered again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            self._open_file.unlink(missing_ok=True)
            if any(self.folder.glob("*.json")):
                self._wait()
        self.resumed = True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Inside, no other process has these batches; what no wait can mend ends the run."""
        try:
            with FileLock(self.folder / ".lock"):
                yield
        except ModelError as exc:
            self.give_up(str(exc))
            raise Stopped(str(exc)) from exc

    @property
    def _open_file(self) -> Path:
        return self.folder / "gathering"

    def _add(self, key: str, line: bytes) -> None:
        if self.waiting and (len(self.waiting) >= self.model.requests or self.size + len(line) > MOST_BYTES):
            self._close_file()
        append_file(self._open_file, line)
        self.waiting.add(key)
        self.size += len(line)

    def _close_file(self) -> None:
        """Make a batch of what was gathered, which is handed in by `_wait`."""
        if self.waiting:
            label = hashlib.sha256("\n".join(sorted(self.waiting)).encode()).hexdigest()[:32]
            self._open_file.rename(self.folder / f"{label}.jsonl")
            self._note(label, "")
            self.attempts.update(self.waiting)
        self.waiting, self.size = set(), 0

    def _note(self, label: str, identifier: str) -> None:
        write_file(self.folder / f"{label}.json", json.dumps({"batch": identifier}))

    def _wait(self) -> None:
        """Until every batch is over."""
        shown = ""
        while notes := sorted(self.folder.glob("*.json")):
            if self.stop.is_set():
                self.say("the batches go on at the server, and the same command collects them")
                raise Stopped("stopped while a batch was under way")
            open_ones = []
            for note in notes:
                batch = self._look(note)
                if batch is not None and batch.is_over:
                    self._keep(note, batch)
                elif batch is not None:
                    open_ones.append(batch)
            done, total = (sum(getattr(batch, name) for batch in open_ones) for name in ("done", "total"))
            said = f"{counted(len(open_ones), 'batch', 'batches')} under way, {done:,} of {total:,} requests answered"
            if open_ones and said != shown:
                self.say(said)
                shown = said
            if any(note.exists() for note in notes):
                self.stop.wait(self.model.look)

    def _look(self, note: Path) -> Batch | None:
        """The batch of a note, handed in if it has not been; None where that cannot be told just now."""
        url, label = self.model.chat.urls[0], note.stem
        identifier = json.loads(read_file(note))["batch"]
        try:
            if identifier:
                return self._seen(look_at_batch(self._send, url, identifier))
            lines = note.with_suffix(".jsonl")
            # one may have been handed in a moment before a run was killed, or an answer was lost
            batch = find_batch(self._send, url, label) or create_batch(self._send, url, read_file(lines), label)
        except ModelError as exc:
            self.unseen += 1
            nobody_there = exc.unreached and not identifier
            if not exc.retryable or nobody_there or self.unseen >= PATIENCE:
                raise
            self.say(f"{exc}; looking again in {self.model.look:g} s")
            return None
        self._note(label, batch.id)
        lines.unlink(missing_ok=True)
        return self._seen(batch)

    def _seen(self, batch: Batch) -> Batch:
        self.unseen = 0
        return batch

    def _keep(self, note: Path, batch: Batch) -> None:
        """Store the replies of a batch that is over, and note the failures; what came of neither is asked again."""
        if batch.state == "failed":
            note.unlink()
            raise ModelError(f"{self.model.chat.endpoint} refused the batch: {batch.error or 'it does not say why'}")
        for key, response in read_answers(self._send, self.model.chat.urls[0], batch):
            try:
                self.store.put(key, self.identity, read_response(response, self.model.chat.endpoint, 0.0))
            except ModelError as exc:
                if not exc.retryable or self.attempts[key] >= ATTEMPTS:
                    self.failed[key] = exc
        note.unlink()

    def _send(self, method: str, path: str, body: bytes | None, kind: str) -> HttpResponse:
        chat = self.model.chat
        return chat.send(method, chat.urls[0], path, body, chat.timeout, kind)

"""What a run wants to ask of a model in batches: gathered in files, handed in, and waited for."""

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

from filelock import FileLock, Timeout

from looktwice.pipelines.counted import counted
from looktwice.pipelines.disk import append_file, read_file, write_file
from looktwice.pipelines.model import (
    CallOptions,
    Deferred,
    Messages,
    ModelError,
    Reply,
    Stopped,
    request_key,
)
from looktwice.pipelines.models.answers import read_response
from looktwice.pipelines.models.batched.anthropic_batches import AnthropicBatches
from looktwice.pipelines.models.batched.dialect import Batch, Dialect, key_of
from looktwice.pipelines.models.batched.gemini_batches import GeminiBatches
from looktwice.pipelines.models.batched.model import Batched
from looktwice.pipelines.models.batched.openai_batches import OpenAIBatches
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.models.chat_api import Sign, bearer
from looktwice.pipelines.models.http_client import HttpResponse

PATIENCE = 10  # looks in a row at which nothing could be seen


MOST_FILE = 1 << 30  # bytes of the answers of a batch


LOOK = 0.5  # seconds between looks whether another run is done


ATTEMPTS = 3  # batches in which a request may come before it has failed


DIALECTS: Mapping[str, Callable[..., Dialect]] = {
    "openai": OpenAIBatches,
    "anthropic": AnthropicBatches,
    "gemini": GeminiBatches,
}


SIGNS: Mapping[str, Sign] = {
    "openai": bearer,
    "anthropic": lambda key: {
        "anthropic-version": "2023-06-01",
        **({"x-api-key": key} if key else {}),
    },
    "gemini": lambda key: {"x-goog-api-key": key} if key else {},
}


@dataclass(eq=False)
class BatchQueue:
    """What a run wants to ask of a `Batched` model, in files of `store`'s folder, and the batches
    that are under way.

    `say` is told how far they are, and `give_up` why there is no use in waiting on; setting `stop`
    ends the wait.
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
    over: set[str] = field(default_factory=set)
    size: int = 0
    resumed: bool = False
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def identity(self) -> str:
        """The identity of the model."""
        return self.model.identity

    @property
    def url(self) -> str:
        """The URL of the provider's own protocol."""
        url = self.model.chat.urls[0]
        return url.removesuffix("/openai") if self.model.speaks == "gemini" else url

    @cached_property
    def dialect(self) -> Dialect:
        """How batches are handed to this server."""
        return DIALECTS[self.model.speaks](self._send, self.url)

    @property
    def folder(self) -> Path:
        """Where the files of this model's requests and batches lie."""
        return (
            self.store.folder / "batches" / hashlib.sha256(self.identity.encode()).hexdigest()[:16]
        )

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """The reply, where a batch that an earlier run left has brought it; else it is put among
        what is to be asked.

        Raises Deferred, and the ModelError of a request that failed in its batch.
        """
        key = request_key(self.identity, messages, draw, options)
        with self.lock:
            # what ended one thread's wait for the earlier batches ends that of all
            if self.stop.is_set():
                raise Stopped("stopped before it was put into a batch")
            if not self.resumed:
                self._resume()
        if key in self.failed:
            raise self.failed[key]
        if (reply := self.store.get(key)) is not None:
            return reply
        if self.attempts[key] >= ATTEMPTS:
            raise ModelError(
                f"{self.model.chat.endpoint} gave no answer to this request in {ATTEMPTS} batches"
            )
        line = self.dialect.line(key, self.model.chat.body(messages, draw, options))
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
        """Let go of what was gathered and not handed in."""
        self._open_file.unlink(missing_ok=True)
        self._presence.release()
        Path(self._presence.lock_file).unlink(missing_ok=True)

    def _resume(self) -> None:
        """Wait for what an earlier run handed in; what it had only gathered is gathered again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            self._presence.acquire()
            here = {path.stem for path in self.folder.glob("*.here") if _is_held(path)}
            for path in self.folder.glob("gathering-*"):
                if path.name.partition("-")[2] not in here:
                    path.unlink(missing_ok=True)
            for note in self.folder.glob("*.json"):
                noted = _Note.read(note)
                if not noted.batch and noted.process not in here and not self._is_found(note):
                    _forget(note)
            self._wait()
        self.resumed = True

    def _is_found(self, note: Path) -> bool:
        """Whether a batch was handed in a moment before its run was killed."""
        noted = _Note.read(note)
        if not noted.tried or (batch := self._found_again(note, noted)) is None:
            return False
        replace(noted, batch=batch.id).write(note)
        return True

    def _found_again(self, note: Path, noted: _Note) -> Batch | None:
        """The batch that was handed in and whose name was lost, unless it is one that is known
        otherwise."""
        batch = self.dialect.find(note.stem, len(noted.keys), noted.tried)
        known = {_Note.read(path).batch for path in self.folder.glob("*.json")} | self.over
        return None if batch is None or batch.id in known else batch

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Inside, no other process has these batches; what no wait can mend ends the run. Raises
        Stopped."""
        lock, waits = FileLock(self.folder / ".lock"), False
        while True:
            try:
                lock.acquire(timeout=LOOK)
                break
            except Timeout:
                if not waits:
                    self.say("another run waits for batches of this model; this one waits for it")
                waits = True
                if self.stop.is_set():
                    raise Stopped("stopped while another run had the batches") from None
        try:
            yield
        except ModelError as exc:
            self.give_up(str(exc))
            raise Stopped(str(exc)) from exc
        finally:
            lock.release()

    @property
    def _open_file(self) -> Path:
        return self.folder / f"gathering-{self.name}"

    @cached_property
    def _presence(self) -> FileLock:
        """Held as long as this queue gathers, so that others let it; whatever ends the process lets
        go of it."""
        return FileLock(self.folder / f"{self.name}.here", thread_local=False)

    def _add(self, key: str, line: bytes) -> None:
        if self.waiting and (
            len(self.waiting) >= self.model.requests
            or self.size + len(line) > self.dialect.most_bytes
        ):
            self._close_file()
        append_file(self._open_file, line)
        self.waiting.add(key)
        self.size += len(line)

    def _close_file(self) -> None:
        """Make a batch of what was gathered, which is handed in by `_wait`."""
        if self.waiting:
            note = self.folder / f"{uuid.uuid4().hex}.json"
            self._open_file.rename(note.with_suffix(".jsonl"))
            _Note("", self.name).write(note)
            self.attempts.update(self.waiting)
        self.waiting, self.size = set(), 0

    def _wait(self) -> None:
        """Until every batch is over."""
        shown, unseen = "", 0
        while notes := sorted(self.folder.glob("*.json")):
            open_ones: list[Batch] = []
            trouble: ModelError | None = None
            for note in notes:
                if self.stop.is_set():
                    self.say("the batches go on at the server, and the same command collects them")
                    raise Stopped("stopped while a batch was under way")
                try:
                    open_ones += self._look(note)
                except ModelError as exc:
                    if not exc.retryable or (exc.unreached and not _Note.read(note).batch):
                        raise
                    trouble = exc
            unseen = unseen + 1 if trouble else 0
            if trouble and unseen >= PATIENCE:
                raise trouble
            if trouble:
                self.say(f"{trouble}; looking again in {self.model.look:g} s")
            done, total = (
                sum(getattr(batch, name) for batch in open_ones) for name in ("done", "total")
            )
            said = (
                f"{counted(len(open_ones), 'batch', 'batches')} under way, {done:,} of {total:,}"
                " requests answered"
            )
            if open_ones and said != shown:
                self.say(said)
                shown = said
            if open_ones or trouble:
                self.stop.wait(self.model.look)

    def _look(self, note: Path) -> list[Batch]:
        """The batch of a note, handed in if it has not been, unless it is over: then its replies
        are kept."""
        noted = _Note.read(note)
        batch = self.dialect.look_at(noted.batch) if noted.batch else self._hand_in(note, noted)
        if batch is None:
            return []
        if not batch.is_over:
            return [batch]
        self._keep(batch, _Note.read(note).keys)
        self.over.add(batch.id)
        _forget(note)
        if batch.error:
            raise ModelError(f"{self.model.chat.endpoint} refused the batch: {batch.error}")
        return []

    def _hand_in(self, note: Path, noted: _Note) -> Batch | None:
        """The batch of what was gathered; None where other runs have brought all of it by now."""
        # an answer may have been lost
        batch = self._found_again(note, noted) if noted.tried else None
        if batch is None:
            lines = read_file(note.with_suffix(".jsonl")).splitlines(keepends=True)
            # another run may have it
            wanted = [line for line in lines if self.store.get(key_of(line)) is None]
            if not wanted:
                _forget(note)
                return None
            noted = replace(noted, keys=[key_of(line) for line in wanted], tried=time.time())
            noted.write(note)
            batch = self.dialect.create(wanted, note.stem)
        replace(noted, batch=batch.id).write(note)
        note.with_suffix(".jsonl").unlink(missing_ok=True)
        return batch

    def _keep(self, batch: Batch, keys: Sequence[str]) -> None:
        """Store the replies of a batch that is over, and note the failures; what came of neither is
        asked again."""
        for key, response in self.dialect.answers(batch, keys):
            try:
                self.store.put(
                    key, self.identity, read_response(response, self.model.chat.endpoint, 0.0)
                )
            except ModelError as exc:
                if not exc.retryable or self.attempts[key] >= ATTEMPTS:
                    self.failed[key] = exc

    def _send(self, method: str, path: str, body: bytes | None, kind: str) -> HttpResponse:
        chat = self.model.chat
        return chat.send(
            method,
            self.url,
            path,
            body,
            chat.timeout,
            kind,
            most=MOST_FILE,
            sign=SIGNS[self.model.speaks],
        )


@dataclass(frozen=True)
class _Note:
    """What lies beside the requests of a batch.

    Its name at the server, once it has one, who gathered it, when it was handed in, and the keys of
    its requests in their order.
    """

    batch: str
    process: str
    tried: float = 0.0
    keys: Sequence[str] = ()

    def write(self, path: Path) -> None:
        write_file(path, json.dumps(vars(self)))

    @classmethod
    def read(cls, path: Path) -> _Note:
        return cls(**json.loads(read_file(path)))


def _forget(note: Path) -> None:
    note.with_suffix(".jsonl").unlink(missing_ok=True)
    note.unlink(missing_ok=True)


def _is_held(lock: Path) -> bool:
    """Whether a process that runs holds this lock; the file of one that does not is removed."""
    try:
        with FileLock(lock, timeout=0):
            pass
    except Timeout:
        return True
    lock.unlink(missing_ok=True)
    return False

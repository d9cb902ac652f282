"""What is known of endpoints: whether anybody is there, which failures in a row are their own, and which is free."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.model import CallOptions, Messages, Model, ModelError, Reply, Stopped
from looktwice.pipelines.models.cache import close_model

Answer = TypeVar("Answer")
UNREACHED, SECONDS = 3, 5.0
"""So many attempts in a row, over at least so many seconds, that found nobody there: one worker makes them in 10 s."""

ALIKE = 5
"""So many calls in a row, of any sample, that ended in the same way for a reason of the endpoint."""

REFUSALS = {401, 402, 403, 404, 408, 429}


@dataclass(eq=False)
class FailureRow:
    """Calls that failed alike, one after the other, for a reason of the endpoint.

    `first` says that the model had answered nothing before, `over` that something else came of a later call: then they
    are failures like others. Until then nobody knows whether their samples can be blamed.
    """

    reason: str
    said: str
    first: bool
    count: int = 0
    over: bool = False


class EndpointError(ModelError):
    """A call that failed for a reason of the endpoint; `row` says what became of the calls before and after it."""

    def __init__(self, exc: ModelError, row: FailureRow) -> None:
        super().__init__(str(exc), status=exc.status, retryable=exc.retryable, retry_after=exc.retry_after)
        self.row = row


@dataclass(eq=False)
class EndpointWatch:
    """Watches one endpoint during a run, for all models behind it.

    `give_up` is told once, in a sentence, that asking on is of no use; from then on every call raises Stopped.
    """

    give_up: Callable[[str], None]
    dead: str = ""
    probed: bool = False
    unreached: int = 0
    since: float = 0.0
    rows: dict[str, FailureRow] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    probing: threading.Lock = field(default_factory=threading.Lock)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def probe(self, model: Model) -> None:
        """Before the first request, ask a model that has a method `probe` for it. Raises Stopped where it is dead."""
        with self.probing:
            if not self.probed:
                try:
                    getattr(model, "probe", lambda: None)()
                except ModelError as exc:
                    self._die(str(exc))
                self.probed = True
        if self.dead:
            raise Stopped(self.dead)

    def note_attempt(self, exc: ModelError) -> None:
        """Count an attempt that failed: those that found nobody there, until somebody answers again."""
        with self.lock:
            if exc.status is not None:
                self.unreached = 0
            if not exc.unreached:
                return
            now = time.monotonic()
            self.since = now if self.unreached == 0 else self.since
            self.unreached += 1
            hopeless = self.unreached >= UNREACHED and now - self.since >= SECONDS
        if hopeless:
            self._die(str(exc))

    def note_reply(self, identity: str) -> None:
        """A reply ends every row of this model."""
        with self.lock:
            self.unreached = 0
            self.answered.add(identity)
            self._end_row(identity)

    def note_failure(self, identity: str, exc: ModelError) -> ModelError:
        """What a call that was given up raises. Raises Stopped where it makes the row full."""
        if not is_of_endpoint(exc):
            with self.lock:
                self.unreached = 0 if exc.status is not None else self.unreached
                self._end_row(identity)
            return exc
        reason = re.sub(r"\S*\d\S*", "#", str(exc))  # numbers of requests and seconds differ
        with self.lock:
            row = self.rows.get(identity)
            if row is None or row.reason != reason:
                self._end_row(identity)
                row = self.rows[identity] = FailureRow(reason, str(exc), identity not in self.answered)
            row.count += 1
        if row.count >= ALIKE:
            self._die(str(exc))
        if self.dead:
            raise Stopped(self.dead) from exc
        return EndpointError(exc, row)

    def _end_row(self, identity: str) -> None:
        row = self.rows.pop(identity, None)
        if row is not None:
            row.over = True

    def _die(self, said: str) -> None:
        with self.lock:
            first, self.dead = not self.dead, self.dead or said
        if first:
            self.give_up(said)


def is_of_endpoint(exc: ModelError) -> bool:
    """Whether a failure is the endpoint's: nobody there, no answer, a refusal whoever asks. Others are the sample's."""
    if exc.status is None:
        return exc.unreached or exc.retryable
    return exc.status in REFUSALS or exc.status >= 500 or 300 <= exc.status < 400


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
class Watched(Around):
    """Asks whether anybody is there before the first call, unless `stop` is set, and tells `watch` how each call ended.

    `asked` is the model inside, without wrappers.
    """

    asked: Model
    watch: EndpointWatch = field(metadata=NOT_IDENTITY)
    stop: threading.Event = field(default_factory=threading.Event, repr=False, metadata=NOT_IDENTITY)

    def __call__(self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()) -> Reply:
        """Ask the wrapped model. Raises Stopped where the endpoint is dead, else what the model raises."""
        if self.stop.is_set():
            raise Stopped("stopped before a request left")
        self.watch.probe(self.asked)
        try:
            reply = self.model(messages, draw, options)
        except ModelError as exc:
            raise self.watch.note_failure(self.identity, exc) from exc
        self.watch.note_reply(self.identity)
        return reply


ASIDE = 30.0  # seconds for which a server that cannot be reached is not asked, unless no other can be


@dataclass(eq=False)
class Servers:
    """How many requests of this process each server has, and until when one is put aside, by URL."""

    busy: Counter[str] = field(default_factory=Counter)
    aside: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, urls: Sequence[str], send: Callable[[str], Answer]) -> Answer:
        """What `send` gives for one of the URLs: the next one where nobody is there.

        Raises what `send` raises: for a server that cannot be reached only where none can be.
        """
        tried: list[str] = []
        while True:
            url = self._take([url for url in urls if url not in tried])
            try:
                return send(url)
            except ModelError as exc:
                if not exc.unreached:
                    raise
                self.put_aside(url)
                tried.append(url)
                if len(tried) == len(urls):
                    raise
            finally:
                with self.lock:
                    self.busy[url] -= 1

    def put_aside(self, url: str) -> None:
        """Ask others for a while."""
        with self.lock:
            self.aside[url] = time.monotonic() + ASIDE

    def _take(self, urls: Sequence[str]) -> str:
        with self.lock:
            now = time.monotonic()
            url = min(urls, key=lambda url: (self.aside.get(url, 0.0) > now, self.busy[url]))
            self.busy[url] += 1
            return url


SERVERS = Servers()
"""Those of this process."""

"""What is known of endpoints: whether anybody is there, which failures in a row are their own, and
which is free."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from looktwice.pipelines.clock import spend
from looktwice.pipelines.counted import counted
from looktwice.pipelines.model import CallOptions, Messages, Model, ModelError, Reply, Stopped
from looktwice.pipelines.models.cache import Around
from looktwice.pipelines.models.http_client import STOPPING

Answer = TypeVar("Answer")
UNREACHED, SECONDS = 3, 5.0
"""So many attempts in a row, over at least so many seconds, that found nobody there: one worker
makes them in 10 s."""

ALIKE = 5
"""So many calls in a row, of any sample, that ended in the same way for a reason of the
endpoint."""

REFUSALS = {401, 402, 403, 404, 408, 429}
UNFIT = {400, 422}
"""Statuses of a request that does not suit the server: the fault of all requests, if nothing else
was ever answered."""


@dataclass(eq=False)
class FailureRow:
    """Calls that failed alike, one after the other, for a reason of the endpoint.

    `first` says that the model had answered nothing before, `over` that something else came of a
    later call: then they are failures like others. Until then nobody knows whether their samples
    can be blamed.
    """

    reason: str
    said: str
    first: bool
    count: int = 0
    over: bool = False


class EndpointError(ModelError):
    """A call that failed for a reason of the endpoint; `row` says what became of the calls before
    and after it."""

    def __init__(self, exc: ModelError, row: FailureRow) -> None:
        super().__init__(
            str(exc), status=exc.status, retryable=exc.retryable, retry_after=exc.retry_after
        )
        self.row = row


@dataclass(eq=False)
class EndpointWatch:
    """Watches one endpoint during a run, for all models behind it.

    `give_up` is told once, in a sentence, that asking on is of no use; from then on every call
    raises Stopped. `refused` counts the attempts that may be made again, by their status, and
    `given_up` the calls that were not.
    """

    give_up: Callable[[str], None]
    dead: str = ""
    probed: bool = False
    unreached: int = 0
    since: float = 0.0
    rows: dict[str, FailureRow] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    refused: Counter[int] = field(default_factory=Counter)
    given_up: int = 0
    probing: threading.Lock = field(default_factory=threading.Lock)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def probe(self, model: Model, stop: threading.Event) -> None:
        """Before the first request, ask a model that has a method `probe` for it.

        Raises Stopped where it is dead, or `stop` was set while another thread asked.
        """
        with self.probing:
            if stop.is_set():
                raise Stopped("stopped before a request left")
            if not self.probed:
                try:
                    getattr(model, "probe", lambda: None)()
                except ModelError as exc:
                    self._die(str(exc))
                self.probed = True
        if self.dead:
            raise Stopped(self.dead)

    def note_attempt(self, exc: ModelError) -> None:
        """Count an attempt that failed: those that found nobody there, until somebody answers
        again."""
        with self.lock:
            if exc.status is not None:
                self.unreached = 0
                self.refused[exc.status] += 1
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

    def note_cached(self, identity: str) -> None:
        """A reply of this model lay in the cache: it can be asked, whatever one request lacks."""
        with self.lock:
            self.answered.add(identity)

    def note_failure(self, identity: str, exc: ModelError) -> ModelError:
        """What a call that was given up raises. Raises Stopped where it makes the row full."""
        reason = re.sub(r"\S*\d\S*", "#", str(exc))  # numbers of requests and seconds differ
        with self.lock:
            self.given_up += exc.retryable
            new, unfit = identity not in self.answered, exc.status in UNFIT
            if not (is_of_endpoint(exc) or (new and unfit)):
                self.unreached = 0 if exc.status is not None else self.unreached
                self._end_row(identity)
                return exc
            row = self.rows.get(identity)
            if row is None or row.reason != reason:
                self._end_row(identity)
                row = self.rows[identity] = FailureRow(reason, str(exc), new and not unfit)
            row.count += 1
        if row.count >= ALIKE:
            self._die(str(exc))
        if self.dead:
            raise Stopped(self.dead) from exc
        return EndpointError(exc, row)

    def say_refusals(self, place: str, stopped: bool) -> str:
        """How often this server asked to wait, or failed, in a sentence; empty where it did not."""
        waits = [(429, self.refused[429])] if self.refused[429] else []
        waits += sorted((status, count) for status, count in self.refused.items() if status >= 500)
        refusals = [
            f"{'asked to wait' if status == 429 else 'failed'} {counted(count, 'time')} ({status})"
            for status, count in waits
        ]
        if not refusals:
            return ""
        end = "" if stopped else "; all were asked again"
        if self.given_up:
            end = f"; {counted(self.given_up, 'request was', 'requests were')} given up"
        return f"the server at {place} {', and '.join(refusals)}{end}"

    def _end_row(self, identity: str) -> None:
        row = self.rows.pop(identity, None)
        if row is not None:
            row.over = True

    def _die(self, sentence: str) -> None:
        with self.lock:
            first, self.dead = not self.dead, self.dead or sentence
        if first:
            self.give_up(sentence)


def is_of_endpoint(exc: ModelError) -> bool:
    """Whether a failure is the endpoint's: nobody there, no answer, a refusal whoever asks. Others
    are the sample's."""
    if exc.status is None:
        return exc.unreached or exc.retryable
    return exc.status in REFUSALS or exc.status >= 500 or 300 <= exc.status < 400


@dataclass(frozen=True)
class Watched(Around):
    """Asks whether anybody is there before the first call, unless `stop` is set, and tells `watch`
    how each call ended.

    `asked` is the model inside, without wrappers.
    """

    asked: Model
    watch: EndpointWatch
    stop: threading.Event = field(default_factory=threading.Event, repr=False)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask the wrapped model. Raises Stopped where the endpoint is dead, else what the model
        raises."""
        self.watch.probe(self.asked, self.stop)
        try:
            reply = self.model(messages, draw, options)
        except ModelError as exc:
            raise self.watch.note_failure(self.identity, exc) from exc
        self.watch.note_reply(self.identity)
        return reply


ASIDE = (
    30.0  # seconds for which a server that cannot be reached is not asked, unless no other can be
)
CROWDED = (429, 503)  # statuses of a server that had too many requests
WINDOW = 1.0  # seconds, at least, in which refusals are counted
FEWEST = 20  # answers and refusals of a window, at least
# seconds after which a window ends with fewer, which say only whether the server takes them
SLOW_WINDOW = 10.0
TOO_MANY = 0.1  # of them refused: fewer are chance, and each holds its own request alone
LONG_AGO = 60.0  # seconds after which nothing is known of a server any more
FASTER = 1.1  # times as many a second after a window without too many refusals


@dataclass(eq=False)
class Pace:
    """How many requests a second a server is sent: any number, until it refuses too many of them.

    From then on it is sent as many as it answered in that window, and more and more again as it
    takes them.
    """

    rate: float = math.inf
    due: float = 0.0
    begun: float = 0.0
    last: float = 0.0
    answered: int = 0
    refused: int = 0

    def seconds_left(self, now: float) -> float:
        """Seconds until the next request may leave; 0 where this one may, which then counts as
        gone."""
        if self.due > now:
            return self.due - now
        self.due = now + 1 / self.rate
        return 0.0

    def note(self, refused: bool, now: float) -> None:
        """An answer, or a refusal as there were too many requests. A pause begins the window
        anew."""
        idle = now - self.last
        self.rate = math.inf if idle > LONG_AGO else self.rate
        if idle > max(WINDOW, 3 / self.rate):
            self._begin(now)
        self.last = now
        self.refused += refused
        self.answered += not refused
        seconds, total = now - self.begun, self.answered + self.refused
        if seconds < WINDOW or (total < FEWEST and seconds < SLOW_WINDOW):
            return
        if total < FEWEST:
            self.rate *= 1 if self.refused else 2
        elif self.refused <= TOO_MANY * total:
            self.rate *= FASTER
        elif self.answered:
            self.rate = max(self.answered, total / 4) / seconds
        self._begin(now)

    def _begin(self, now: float) -> None:
        self.begun, self.answered, self.refused = now, 0, 0


@dataclass(eq=False)
class Servers:
    """How many requests of this process each server has, its pace, and until when one is put aside,
    by URL."""

    busy: Counter[str] = field(default_factory=Counter)
    paces: defaultdict[str, Pace] = field(default_factory=lambda: defaultdict(Pace))
    aside: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, urls: Sequence[str], send: Callable[[str], Answer]) -> Answer:
        """What `send` gives for one of the URLs: the next one where nobody is there.

        Raises what `send` raises, for a server that cannot be reached only where none can be;
        Stopped.
        """
        tried: list[str] = []
        while True:
            left = [url for url in urls if url not in tried]
            while (turn := self._take(left))[1] > 0:
                with spend("wait for a place"):
                    stopped = (STOPPING.get() or threading.Event()).wait(turn[1])
                if stopped:
                    raise Stopped("stopped while waiting for the endpoint")
            url = turn[0]
            try:
                answer = send(url)
                self._note(url, refused=False)
                return answer
            except ModelError as exc:
                if exc.status in CROWDED:
                    self._note(url, refused=True)
                if exc.unreached or ((exc.status or 0) >= 500 and len(urls) > 1):
                    self.put_aside(url)  # one that fails at once always has the fewest requests
                tried.append(url)
                if not exc.unreached or len(tried) == len(urls):
                    raise
            finally:
                with self.lock:
                    self.busy[url] -= 1

    def put_aside(self, url: str) -> None:
        """Ask others for a while."""
        with self.lock:
            self.aside[url] = time.monotonic() + ASIDE

    def _take(self, urls: Sequence[str]) -> tuple[str, float]:
        """The server to ask, and seconds to wait until one is to be looked for again; 0 takes it.

        Who waits has no place yet: a pace that recovers is everybody's.
        """
        with self.lock:
            now = time.monotonic()

            def rank(url: str) -> tuple[bool, float, int]:
                return self.aside.get(url, 0.0) > now, max(now, self.paces[url].due), self.busy[url]

            url = min(urls, key=rank)
            seconds = self.paces[url].seconds_left(now)
            self.busy[url] += seconds == 0
            return url, seconds

    def _note(self, url: str, refused: bool) -> None:
        with self.lock:
            self.paces[url].note(refused, time.monotonic())


SERVERS = Servers()
"""Those of this process."""

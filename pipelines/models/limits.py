"""How many calls an endpoint gets: at a time, in a minute, and in all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakValueDictionary

from looktwice.pipelines.clock import spend
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.counted import counted
from looktwice.pipelines.model import CallOptions, Messages, Model, ModelError, Reply, Stopped
from looktwice.pipelines.models.cache import close_model
from looktwice.pipelines.models.http_client import STOPPING

POLL_SECONDS = 0.2
CROWDED = (429, 503)  # statuses of a server that had too many requests
CROWD_SECONDS = 1.0  # in which further such answers speak of the same crowd


class LimitKey(NamedTuple):
    """An endpoint, how many requests may be under way there, and how many begin in a minute."""

    endpoint: str
    in_flight: int
    per_minute: float | None


class Load(NamedTuple):
    """How many requests are under way, and how many wait for a place."""

    under_way: int
    waiting: int

    @property
    def wanted(self) -> int:
        """As many places would be used."""
        return self.under_way + self.waiting


class RateLimiter:
    """Limits concurrency and requests per minute, evenly spaced; lets no request start while it is paused.

    Of the `in_flight` slots half are taken away at each crowd that the server speaks of, and one is given back for as
    many answers as there are slots (additive increase, multiplicative decrease, as TCP does).
    """

    def __init__(self, in_flight: int, per_minute: float | None) -> None:
        if in_flight < 1 or (per_minute is not None and per_minute <= 0):
            raise ValueError(f"in_flight must be 1 or more and per_minute above 0, found {in_flight} and {per_minute}")
        self._in_flight = self._most = in_flight
        self._slots, self._under_way, self._waiting, self._shrunk = float(in_flight), 0, 0, 0.0
        self._freed = threading.Condition()
        self._spacing = self._shared_spacing = 60.0 / per_minute if per_minute else 0.0
        self._lock = threading.Lock()
        self._paused_until = 0.0
        self._next = 0.0

    def pause(self, seconds: float) -> None:
        """Let no request start for so many seconds; a longer pause that is running stays."""
        with self._lock:
            self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    def shrink(self) -> None:
        """Halve the slots, as the server had too many requests; those under way then speak of the same crowd."""
        with self._freed:
            if time.monotonic() - self._shrunk >= CROWD_SECONDS:
                self._shrunk, self._slots = time.monotonic(), max(1.0, min(self._slots, self._most) / 2)

    def grow(self) -> None:
        """Give a part of a slot back, as the server answered."""
        with self._freed:
            self._slots = min(self._in_flight, self._slots + 1 / self._slots)

    @property
    def load(self) -> Load:
        """What is under way here, and what waits."""
        with self._freed:
            return Load(self._under_way, self._waiting)

    def allot(self, slots: int) -> None:
        """Use no more than these of the slots, and as large a part of the requests a minute: others have the rest."""
        with self._freed:
            self._most = slots
            self._shared_spacing = self._spacing * self._in_flight / max(slots, 1)
            self._freed.notify_all()

    @contextmanager
    def enter(self, stop: threading.Event) -> Iterator[None]:
        """A context that takes one of the slots. Raises Stopped if `stop` is set while it waits."""
        with spend("wait for a place"), self._freed:
            self._waiting += 1
            try:
                while self._under_way >= int(min(self._slots, self._most)):
                    self._freed.wait(POLL_SECONDS)
                    stop_if(stop.is_set())
                self._under_way += 1
            finally:
                self._waiting -= 1
        try:
            with spend("wait for a place"):
                while (wait := self._seconds_left()) > 0:
                    stop_if(stop.wait(wait))
            stop_if(stop.is_set())
            yield
        finally:
            with self._freed:
                self._under_way -= 1
                self._freed.notify()

    def _seconds_left(self) -> float:
        """Seconds until a request may start; 0 or less if this caller may start now, which then counts as started."""
        with self._lock:
            now = time.monotonic()
            left = max(self._paused_until, self._next) - now
            if left <= 0:
                self._next = now + self._shared_spacing
            return left


def stop_if(stopped: bool) -> None:
    """Raises Stopped."""
    if stopped:
        raise Stopped("stopped while waiting for the endpoint")


_limiters: WeakValueDictionary[LimitKey, RateLimiter] = WeakValueDictionary()
_limiters_lock = threading.Lock()


def _limiter_of(model: Model, in_flight: int, per_minute: float | None) -> RateLimiter:
    """The limiter of an endpoint: models of one URL with equal limits share it; pauses hold for the whole URL."""
    endpoint = getattr(model, "endpoint", None)
    if not isinstance(endpoint, str):
        return RateLimiter(in_flight, per_minute)
    with _limiters_lock:
        key = LimitKey(endpoint, in_flight, per_minute)
        return _limiters.setdefault(key, RateLimiter(in_flight, per_minute))


def limiters() -> dict[LimitKey, RateLimiter]:
    """Those that models of this process use."""
    with _limiters_lock:
        return dict(_limiters)


def _limiters_of_endpoint(endpoint: object) -> list[RateLimiter]:
    with _limiters_lock:
        return [limiter for key, limiter in _limiters.items() if key.endpoint == endpoint]


@dataclass(eq=False)
class Ration:
    """What a run may still ask: `requests` of all models together, and none more once `spent` has reached `money`.

    `uncounted` is a sentence where nobody knows what was spent. Every attempt is a request. When it is used up
    `give_up` is told so in a sentence, and what asks on gets Stopped; requests on their way end, so the money may be
    exceeded by what they cost.
    """

    requests: int | None = None
    money: float | None = None
    spent: Callable[[], float] = lambda: 0.0
    uncounted: Callable[[], str] = lambda: ""
    give_up: Callable[[str], None] = lambda said: None
    sent: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self) -> None:
        """Count a request that is about to be sent. Raises Stopped where it may not be."""
        if said := self._used_up():
            self.give_up(said)
            raise Stopped(said)

    def _used_up(self) -> str:
        with self.lock:
            if self.requests is not None and self.sent >= self.requests:
                return f"{counted(self.sent, 'request')} sent, as many as --max-requests allows"
            if self.money is not None and (said := self.uncounted()):
                return f"{said}, and --budget needs it; use --max-requests"
            if self.money is not None and (spent := self.spent()) >= self.money:
                return f"{spent:,.4g} spent of a --budget of {self.money:,.4g}; give a larger one to go on"
            self.sent += 1
        return ""


@dataclass(frozen=True)
class Limited:
    """Allows `in_flight` calls at a time, fewer while the server is crowded, and `per_minute` a minute; others wait.

    `ration` bounds the calls of a whole run.
    """

    model: Model
    in_flight: int = field(default=64, metadata=NOT_IDENTITY)
    per_minute: float | None = field(default=None, metadata=NOT_IDENTITY)
    stop: threading.Event = field(default_factory=threading.Event, repr=False, compare=False, metadata=NOT_IDENTITY)
    ration: Ration = field(default_factory=Ration, repr=False, compare=False, metadata=NOT_IDENTITY)
    limiter: RateLimiter = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limiter", _limiter_of(self.model, self.in_flight, self.per_minute))

    @property
    def identity(self) -> str:
        """The identity of the wrapped model."""
        return self.model.identity

    def __call__(self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()) -> Reply:
        """Wait for a free slot, then ask. Raises what the model raises; Stopped."""
        with self.limiter.enter(self.stop):
            self.ration.take()
            before = STOPPING.set(self.stop)  # pictures take a while to be encoded, and the run may be stopped in it
            try:
                reply = self.model(messages, draw, options)
            except ModelError as exc:
                if exc.status in CROWDED:
                    for limiter in self._limiters:
                        limiter.shrink()
                raise
            finally:
                STOPPING.reset(before)
            self.limiter.grow()
            return reply

    @property
    def _limiters(self) -> set[RateLimiter]:
        """Those of all models of this endpoint."""
        return {self.limiter, *_limiters_of_endpoint(getattr(self.model, "endpoint", None))}

    def pause(self, seconds: float) -> None:
        """Start no call to this endpoint, from any model, for so many seconds; calls in flight go on."""
        for limiter in self._limiters:
            limiter.pause(seconds)

    def close(self) -> None:
        """Close the wrapped model."""
        close_model(self.model)

"""How many calls an endpoint gets: at a time, in a minute, and in all."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from looktwice.pipelines.clock import spend
from looktwice.pipelines.counted import counted
from looktwice.pipelines.model import (
    CallOptions,
    Messages,
    Model,
    ModelError,
    Reply,
    Stopped,
    Usage,
)
from looktwice.pipelines.models.cache import Around
from looktwice.pipelines.models.endpoint import SERVERS
from looktwice.pipelines.models.http_client import STOPPING

POLL_SECONDS = 0.2

TURN: ContextVar[threading.Semaphore | None] = ContextVar("TURN", default=None)
"""What this thread holds while it works, of as many as may work at a time."""


@contextmanager
def others_work() -> Iterator[None]:
    """Inside, another thread may work in place of this one, which sleeps."""
    turn = TURN.get()
    if turn is not None:
        turn.release()
    try:
        yield
    finally:
        if turn is not None:
            turn.acquire()


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
    """Lets `in_flight` requests be under way at a time, and `per_minute` begin in a minute, evenly
    spaced."""

    def __init__(self, in_flight: int, per_minute: float | None) -> None:
        if in_flight < 1 or (per_minute is not None and per_minute <= 0):
            raise ValueError(
                f"in_flight must be 1 or more and per_minute above 0, found {in_flight} and"
                f" {per_minute}"
            )
        self._in_flight = self._most = in_flight
        self._under_way, self._waiting = 0, 0
        self._freed = threading.Condition()
        self._spacing = self._shared_spacing = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0

    @property
    def load(self) -> Load:
        """What is under way here, and what waits."""
        with self._freed:
            return Load(self._under_way, self._waiting)

    def allot(self, slots: int) -> None:
        """Use no more than these of the slots, and as large a part of the requests a minute: others
        have the rest."""
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
                while self._under_way >= self._most:
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
        """Seconds until a request may start; 0 or less if this caller may start now, which then
        counts as started."""
        with self._freed:
            now = time.monotonic()
            left = self._next - now
            if left <= 0:
                self._next = now + self._shared_spacing
            return left


def stop_if(stopped: bool) -> None:
    """Raises Stopped."""
    if stopped:
        raise Stopped("stopped while waiting for the endpoint")


_limiters: WeakValueDictionary[LimitKey, RateLimiter] = WeakValueDictionary()
_limiters_lock = threading.Lock()


def limiters() -> dict[LimitKey, RateLimiter]:
    """Those that models of this process use."""
    with _limiters_lock:
        return dict(_limiters)


@dataclass(eq=False)
class Ration:
    """What a run may ask and pay: `requests` of all models together, and no more than `money` in
    all.

    Every attempt is a request. `price` gives the money for a model's tokens, `spent` is what was
    paid up to now, with what earlier commands paid. Before a request is sent, as much as the
    `dearest` one of its model so far is set aside for it; as long as none is known, one request of
    that model is under way at a time. A request for which there is not enough waits until what is
    under way has ended. When all is used up `give_up` is told so in a sentence, and what asks on
    gets Stopped. `uncounted` is a sentence where nobody knows what was spent. `dearest` and
    `under_way` go by the identity of the model. `lost` holds what was billed for answers that were
    no replies, with the model that was asked.
    """

    requests: int | None = None
    money: float | None = None
    price: Callable[[Any, Usage], float] = lambda model, usage: 0.0
    uncounted: Callable[[], str] = lambda: ""
    give_up: Callable[[str], None] = lambda said: None
    spent: float = 0.0
    dearest: dict[str, float] = field(default_factory=dict)
    lost: list[tuple[Any, Usage]] = field(default_factory=list)
    sent: int = 0
    under_way: Counter[str] = field(default_factory=Counter)
    settled: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def take(self, model: Model, stop: threading.Event) -> None:
        """Count a request that is about to be sent, and set money aside for it. Raises Stopped
        where it may not be."""
        with self.settled:
            # what is under way may need less, and is to be sent
            while (why := self._used_up(model.identity)) and any(self.under_way.values()):
                self.settled.wait(POLL_SECONDS)
                stop_if(stop.is_set())
            if not why:
                self.sent += 1
                self.under_way[model.identity] += 1
                return
        self.give_up(why)
        raise Stopped(why)

    def settle(self, model: Model, usage: Usage | None) -> None:
        """Pay for a request that has ended, where the server said what it used."""
        with self.settled:
            self.under_way[model.identity] -= 1
            if usage is not None:
                price = self.price(model, usage)
                self.spent += price
                self.dearest[model.identity] = max(price, self.dearest.get(model.identity, 0.0))
            self.settled.notify_all()

    def _used_up(self, identity: str) -> str:
        """Why no more may be sent now, in a sentence; empty where another request may be."""
        if self.requests is not None and self.sent >= self.requests:
            return f"{counted(self.sent, 'request')} sent, as many as --max-requests allows"
        if self.money is None:
            return ""
        if why := self.uncounted():
            return f"{why}, and --budget needs it; use --max-requests"
        price = self.dearest.get(identity)
        if price == 0.0:  # a model that costs nothing
            return ""
        aside = sum(count * self.dearest.get(name, 0.0) for name, count in self.under_way.items())
        enough = self.spent + aside + (price or 0.0) <= self.money * (1 + 1e-9)
        is_priced = price is not None or not self.under_way[identity]
        if is_priced and enough and self.spent < self.money:
            return ""
        more = f", and a request may cost {price or 0.0:,.4g}" if self.spent < self.money else ""
        return (
            f"{self.spent:,.4g} spent of a --budget of {self.money:,.4g}{more}; give a larger one"
            " to go on"
        )


@dataclass(frozen=True)
class Limited(Around):
    """Allows `in_flight` calls at a time and `per_minute` a minute; others wait. `ration` bounds
    those of a whole run.

    A server that refuses many for there being too many gets no more a second than it answers.
    """

    in_flight: int = 64
    per_minute: float | None = None
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    ration: Ration = field(default_factory=Ration, repr=False)
    limiter: RateLimiter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        limiter = RateLimiter(self.in_flight, self.per_minute)
        endpoint = getattr(self.model, "endpoint", None)
        if isinstance(endpoint, str):  # models of one URL with equal limits share it
            key = LimitKey(endpoint, self.in_flight, self.per_minute)
            with _limiters_lock:
                limiter = _limiters.setdefault(key, limiter)
        object.__setattr__(self, "limiter", limiter)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Wait for a free slot, then ask. Raises what the model raises; Stopped."""
        with self.limiter.enter(self.stop):
            self.ration.take(self.model, self.stop)
            usage = None
            # pictures take a while to be encoded, and the run may be stopped in it
            before = STOPPING.set(self.stop)
            try:
                reply = self._ask(messages, draw, options)
                usage = reply.usage
            except ModelError as exc:
                if exc.usage is not None:
                    usage = exc.usage
                    self.ration.lost.append((self.model, usage))
                raise
            finally:
                STOPPING.reset(before)
                self.ration.settle(self.model, usage)
            return reply

    def _ask(self, messages: Messages, draw: int, options: CallOptions) -> Reply:
        if hasattr(self.model, "urls"):  # it chooses among its servers by itself
            return self.model(messages, draw, options)
        return SERVERS.ask((self.identity,), lambda url: self.model(messages, draw, options))

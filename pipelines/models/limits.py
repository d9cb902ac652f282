"""How many calls an endpoint gets: at a time, in a minute, in a second, and in all, and which of
several servers gets the next."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from looktwice.pipelines.clock import spend
from looktwice.pipelines.counted import counted
from looktwice.pipelines.model import STOPPING, Around, Model, ModelError, Reply, Stopped, Usage
from looktwice.pipelines.models.stops import stop_if
from looktwice.pipelines.ranges import Ranged

Answer = TypeVar("Answer")
POLL_SECONDS = 0.2
LIMITS = ("in_flight >= 1", "per_minute > 0")
"""The ranges of what limits a model's calls."""
IN_FLIGHT = 64  # calls at a time where nobody sets it
# seconds for which a server that cannot be reached is not asked, unless no other can be
ASIDE = 30.0
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
            url, seconds = self._take([url for url in urls if url not in tried])
            if seconds > 0:
                with spend("wait for a place"):
                    stop_if((STOPPING.get() or threading.Event()).wait(seconds))
                continue
            refused: bool | None = None
            try:
                answer = send(url)
                refused = False
                return answer
            except ModelError as exc:
                refused = True if exc.status in CROWDED else None
                if exc.unreached or ((exc.status or 0) >= 500 and len(urls) > 1):
                    self.put_aside(url)  # one that fails at once always has the fewest requests
                tried.append(url)
                if not exc.unreached or len(tried) == len(urls):
                    raise
            finally:
                with self.lock:
                    self.busy[url] -= 1
                    if refused is not None:
                        self.paces[url].note(refused, time.monotonic())

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


SERVERS = Servers()
"""Those of this process."""


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
        self._in_flight = self._most = in_flight
        self._per_second = per_minute / 60 if per_minute else math.inf
        self.pace = Pace(self._per_second)
        self._under_way, self._waiting = 0, 0
        self._freed = threading.Condition()

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
            self.pace.rate = self._per_second * max(slots, 1) / self._in_flight
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
                while (seconds := self._seconds_left()) > 0:
                    stop_if(stop.wait(seconds))
            stop_if(stop.is_set())
            yield
        finally:
            with self._freed:
                self._under_way -= 1
                self._freed.notify()

    def _seconds_left(self) -> float:
        with self._freed:
            return self.pace.seconds_left(time.monotonic())


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
    paid up to now, with what earlier commands paid. Before a request is sent, the largest cost of a
    request of its model so far (`max_cost`) is set aside for it; until one is known, one request of
    that model is under way at a time. A request for which there is not enough waits until what is
    under way has ended. When all is used up `give_up` is told so in a sentence, and what asks on
    gets Stopped. `uncounted` is a sentence where nobody knows what was spent. `max_cost` and
    `under_way` go by the identity of the model. `lost` holds what was billed for answers that were
    no replies, with the model that was asked.
    """

    requests: int | None = None
    money: float | None = None
    price: Callable[[Any, Usage], float] = lambda model, usage: 0.0
    uncounted: Callable[[], str] = lambda: ""
    give_up: Callable[[str], None] = lambda said: None
    spent: float = 0.0
    max_cost: dict[str, float] = field(default_factory=dict)
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
                self.max_cost[model.identity] = max(price, self.max_cost.get(model.identity, 0.0))
            self.settled.notify_all()

    def _used_up(self, identity: str) -> str:
        """Why no more may be sent now, in a sentence; empty where another request may be."""
        if self.requests is not None and self.sent >= self.requests:
            return f"{counted(self.sent, 'request')} sent, as many as --max-requests allows"
        if self.money is None:
            return ""
        if why := self.uncounted():
            return f"{why}, and --budget needs it; use --max-requests"
        price = self.max_cost.get(identity)
        if price == 0.0:  # a model that costs nothing
            return ""
        aside = sum(count * self.max_cost.get(name, 0.0) for name, count in self.under_way.items())
        is_priced = price is not None or not self.under_way[identity]
        is_left = self.spent < self.money
        if is_priced and is_left and self.spent + aside + (price or 0.0) <= self.money * (1 + 1e-9):
            return ""
        more = f", and a request may cost {price or 0.0:,.4g}" if is_left else ""
        return (
            f"{self.spent:,.4g} spent of a --budget of {self.money:,.4g}{more}; a larger one goes"
            " on"
        )


@dataclass(frozen=True)
class Limited(Ranged, Around):
    """Allows `in_flight` calls at a time and `per_minute` a minute; others wait. `ration` bounds
    those of a whole run.

    A server that refuses many for there being too many gets no more a second than it answers.
    """

    in_flight: int = IN_FLIGHT
    per_minute: float | None = None
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    ration: Ration = field(default_factory=Ration, repr=False)
    limiter: RateLimiter = field(init=False, repr=False)
    ranges = LIMITS

    def __post_init__(self) -> None:
        super().__post_init__()
        limiter = RateLimiter(self.in_flight, self.per_minute)
        endpoint = getattr(self.model, "endpoint", None)
        if isinstance(endpoint, str):  # models of one URL with equal limits share it
            key = LimitKey(endpoint, self.in_flight, self.per_minute)
            with _limiters_lock:
                limiter = _limiters.setdefault(key, limiter)
        object.__setattr__(self, "limiter", limiter)

    def around(self, ask: Callable[[], Reply]) -> Reply:
        """Wait for a free slot, then ask. Raises what the model raises; Stopped."""
        with self.limiter.enter(self.stop):
            self.ration.take(self.model, self.stop)
            usage = None
            # pictures take a while to be encoded, and the run may be stopped in it
            before = STOPPING.set(self.stop)
            try:
                # a model with `urls` chooses among its servers by itself
                has_servers = hasattr(self.model, "urls")
                reply = ask() if has_servers else SERVERS.ask((self.identity,), lambda url: ask())
                usage = reply.usage
                return reply
            except ModelError as exc:
                if exc.usage is not None:
                    usage = exc.usage
                    self.ration.lost.append((self.model, usage))
                raise
            finally:
                STOPPING.reset(before)
                self.ration.settle(self.model, usage)

"""Limits on requests (concurrent, per minute, per second, per run) and the choice among servers."""

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

from looktwice.pipelines.clock import track_time
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.model import (
    STOP_EVENT,
    Model,
    ModelError,
    ModelWrapper,
    Reply,
    Stopped,
    Usage,
    raise_if_stopped,
)
from looktwice.pipelines.ranges import Ranged

Answer = TypeVar("Answer")
POLL_SECONDS = 0.2
LIMIT_RANGES = ("in_flight >= 1", "per_minute > 0")
"""Ranges of the settings that limit a model's calls."""
DEFAULT_IN_FLIGHT = 64  # concurrent calls by default
# seconds for which an unreachable server is skipped, unless all are unreachable
SKIP_SECONDS = 30.0
RATE_LIMIT_STATUSES = (429, 503)  # statuses that mean too many requests
MIN_WINDOW_SECONDS = 1.0  # minimum length of a window in which rejections are counted
MIN_ANSWERS = 20  # minimum number of answers and rejections in a window
# seconds after which a window with fewer ends, too; those show only whether the server accepts any
SLOW_WINDOW_SECONDS = 10.0
MAX_REJECTED_SHARE = 0.1  # a smaller share may be chance, and delays only the rejected requests
RATE_EXPIRY_SECONDS = 60.0  # seconds after which the known rate of a server expires
RATE_GROWTH = 1.1  # growth of the rate after a window without too many rejections


@dataclass(eq=False)
class Pace:
    """The request rate of one server, unlimited until it rejects too many requests.

    The rate then drops to that of the server's answers in the current window, and grows again as it
    accepts more.
    """

    rate: float = math.inf
    next_due: float = 0.0
    window_start: float = 0.0
    last_answer: float = 0.0
    answer_count: int = 0
    rejection_count: int = 0

    def seconds_left(self, now: float) -> float:
        """Return the seconds until this request may be sent; at 0, it counts as sent."""
        if self.next_due > now:
            return self.next_due - now
        self.next_due = now + 1 / self.rate
        return 0.0

    def record(self, is_rejected: bool, now: float) -> None:
        """Record an answer, or a rejection for too many requests. A pause starts a new window."""
        idle = now - self.last_answer
        self.rate = math.inf if idle > RATE_EXPIRY_SECONDS else self.rate
        if idle > max(MIN_WINDOW_SECONDS, 3 / self.rate):
            self._start_window(now)
        self.last_answer = now
        self.rejection_count += is_rejected
        self.answer_count += not is_rejected
        seconds, total = now - self.window_start, self.answer_count + self.rejection_count
        if seconds < MIN_WINDOW_SECONDS or (total < MIN_ANSWERS and seconds < SLOW_WINDOW_SECONDS):
            return
        if total < MIN_ANSWERS:
            self.rate *= 1 if self.rejection_count else 2
        elif self.rejection_count <= MAX_REJECTED_SHARE * total:
            self.rate *= RATE_GROWTH
        elif self.answer_count:
            self.rate = max(self.answer_count, total / 4) / seconds
        self._start_window(now)

    def _start_window(self, now: float) -> None:
        self.window_start, self.answer_count, self.rejection_count = now, 0, 0


@dataclass(eq=False)
class Servers:
    """The load of each server, by URL: its requests from this process, its pace, and the time until
    which it is paused."""

    in_flight: Counter[str] = field(default_factory=Counter)
    paces: defaultdict[str, Pace] = field(default_factory=lambda: defaultdict(Pace))
    paused_until: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, urls: Sequence[str], send: Callable[[str], Answer]) -> Answer:
        """Send a request to one of the URLs, or to the next one if that server cannot be reached.

        Raises Stopped, and what `send` raises; its error for an unreachable server is raised only
        if all are unreachable.
        """
        tried: list[str] = []
        while True:
            url, seconds = self._choose_server([url for url in urls if url not in tried])
            if seconds > 0:
                with track_time("wait for a slot"):
                    raise_if_stopped((STOP_EVENT.get() or threading.Event()).wait(seconds))
                continue
            refused: bool | None = None
            try:
                answer = send(url)
                refused = False
                return answer
            except ModelError as exc:
                refused = True if exc.status in RATE_LIMIT_STATUSES else None
                if exc.unreached or ((exc.status or 0) >= 500 and len(urls) > 1):
                    self.pause(url)  # a server that fails at once always has the fewest requests
                tried.append(url)
                if not exc.unreached or len(tried) == len(urls):
                    raise
            finally:
                with self.lock:
                    self.in_flight[url] -= 1
                    if refused is not None:
                        self.paces[url].record(refused, time.monotonic())

    def pause(self, url: str) -> None:
        """Skip a server for `SKIP_SECONDS`."""
        with self.lock:
            self.paused_until[url] = time.monotonic() + SKIP_SECONDS

    def _choose_server(self, urls: Sequence[str]) -> tuple[str, float]:
        """Choose a server, and return its URL with the seconds to wait before choosing again; at 0,
        the server is to be used now.

        A waiting request holds no slot, so that it can use any server whose pace recovers.
        """
        with self.lock:
            now = time.monotonic()

            def rank(url: str) -> tuple[bool, float, int]:
                due = max(now, self.paces[url].next_due)
                return self.paused_until.get(url, 0) > now, due, self.in_flight[url]

            url = min(urls, key=rank)
            seconds = self.paces[url].seconds_left(now)
            self.in_flight[url] += seconds == 0
            return url, seconds


SERVERS = Servers()
"""The servers that this process uses."""


class LimitKey(NamedTuple):
    """An endpoint with its limits on concurrent requests and on requests per minute."""

    endpoint: str
    in_flight: int
    per_minute: float | None


class Load(NamedTuple):
    """The number of requests in flight and of those waiting for a slot."""

    in_flight: int
    waiting: int

    @property
    def wanted_slots(self) -> int:
        """The number of slots that could be used now: requests in flight and waiting."""
        return self.in_flight + self.waiting


class RateLimiter:
    """Limits requests to `in_flight` at a time, and to `per_minute` in a minute, evenly spaced."""

    def __init__(self, in_flight: int, per_minute: float | None) -> None:
        self._in_flight = self._most = in_flight
        self._per_second = per_minute / 60 if per_minute else math.inf
        self.pace = Pace(self._per_second)
        self._active, self._waiting = 0, 0
        self._freed = threading.Condition()

    @property
    def load(self) -> Load:
        """The requests in flight and those waiting."""
        with self._freed:
            return Load(self._active, self._waiting)

    def allot(self, slots: int) -> None:
        """Limit the process to `slots` slots and a proportional share of the requests per minute;
        other processes use the rest."""
        with self._freed:
            self._most = slots
            self.pace.rate = self._per_second * max(slots, 1) / self._in_flight
            self._freed.notify_all()

    @contextmanager
    def enter(self, stop: threading.Event) -> Iterator[None]:
        """Occupy a slot inside the context. Raises Stopped if `stop` is set while it waits."""
        with track_time("wait for a slot"), self._freed:
            self._waiting += 1
            try:
                while self._active >= self._most:
                    self._freed.wait(POLL_SECONDS)
                    raise_if_stopped(stop.is_set())
                self._active += 1
            finally:
                self._waiting -= 1
        try:
            with track_time("wait for a slot"):
                while (seconds := self._seconds_left()) > 0:
                    raise_if_stopped(stop.wait(seconds))
            raise_if_stopped(stop.is_set())
            yield
        finally:
            with self._freed:
                self._active -= 1
                self._freed.notify()

    def _seconds_left(self) -> float:
        with self._freed:
            return self.pace.seconds_left(time.monotonic())


_limiters: WeakValueDictionary[LimitKey, RateLimiter] = WeakValueDictionary()
_limiters_lock = threading.Lock()


def list_limiters() -> dict[LimitKey, RateLimiter]:
    """Return the rate limiters that models of this process use."""
    with _limiters_lock:
        return dict(_limiters)


@dataclass(eq=False)
class Budget:
    """The budget of a run: at most `max_requests` of all models together, and at most `max_money`
    in total.

    Every attempt counts as a request. `compute_cost` returns the cost of a model's tokens;
    `spent_money` is the cost so far, including earlier commands. Before a request is sent, the
    highest cost of a request of its model so far (`max_cost`) is reserved for it; until one is
    known, that model has one request in flight at a time. A request that cannot be afforded waits
    until those in flight have ended. When the budget is used up, `give_up` is called with the
    reason, and later requests raise Stopped. `explain_unknown_cost` returns the reason if the cost
    is unknown. `max_cost` and `in_flight` are keyed by the identity of the model. `lost_usage`
    holds the usage billed for responses that were not replies, with the model.
    """

    max_requests: int | None = None
    max_money: float | None = None
    compute_cost: Callable[[Any, Usage], float] = lambda model, usage: 0.0
    explain_unknown_cost: Callable[[], str] = lambda: ""
    give_up: Callable[[str], None] = lambda reason: None
    spent_money: float = 0.0
    max_cost: dict[str, float] = field(default_factory=dict)
    lost_usage: list[tuple[Any, Usage]] = field(default_factory=list)
    sent_count: int = 0
    in_flight: Counter[str] = field(default_factory=Counter)
    settled_condition: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def reserve(self, model: Model, stop: threading.Event) -> None:
        """Count a request that is about to be sent and reserve money for it. Raises Stopped if the
        budget is used up."""
        with self.settled_condition:
            # requests in flight may cost less than was reserved
            while (why := self._explain_exhaustion(model.identity)) and any(
                self.in_flight.values()
            ):
                self.settled_condition.wait(POLL_SECONDS)
                raise_if_stopped(stop.is_set())
            if not why:
                self.sent_count += 1
                self.in_flight[model.identity] += 1
                return
        self.give_up(why)
        raise Stopped(why)

    def settle(self, model: Model, usage: Usage | None) -> None:
        """Book the cost of a finished request, if the server reported its usage."""
        with self.settled_condition:
            self.in_flight[model.identity] -= 1
            if usage is not None:
                price = self.compute_cost(model, usage)
                self.spent_money += price
                self.max_cost[model.identity] = max(price, self.max_cost.get(model.identity, 0.0))
            self.settled_condition.notify_all()

    def _explain_exhaustion(self, identity: str) -> str:
        """Explain why no further request may be sent now; "" if one may."""
        if self.max_requests is not None and self.sent_count >= self.max_requests:
            return f"{format_count(self.sent_count, 'request')} sent, the limit of --max-requests"
        if self.max_money is None:
            return ""
        if why := self.explain_unknown_cost():
            return f"{why}, and --budget needs it; use --max-requests"
        price = self.max_cost.get(identity)
        if price == 0.0:  # a model that costs nothing
            return ""
        booked = sum(count * self.max_cost.get(name, 0) for name, count in self.in_flight.items())
        is_priced = price is not None or not self.in_flight[identity]
        is_left = self.spent_money < self.max_money
        if (
            is_priced
            and is_left
            and self.spent_money + booked + (price or 0) <= self.max_money * (1 + 1e-9)
        ):
            return ""
        more = f", and a request may cost {price or 0.0:,.4g}" if is_left else ""
        return (
            f"{self.spent_money:,.4g} spent of a --budget of {self.max_money:,.4g}{more};"
            " raise it to continue"
        )


@dataclass(frozen=True)
class Limited(Ranged, ModelWrapper):
    """Allows `in_flight` calls at a time, and `per_minute` in a minute; others wait. `budget`
    limits the whole run.

    A server that often reports too many requests is sent only as many per second as it answers.
    """

    in_flight: int = DEFAULT_IN_FLIGHT
    per_minute: float | None = None
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    budget: Budget = field(default_factory=Budget, repr=False)
    limiter: RateLimiter = field(init=False, repr=False)
    ranges = LIMIT_RANGES

    def __post_init__(self) -> None:
        super().__post_init__()
        limiter = RateLimiter(self.in_flight, self.per_minute)
        endpoint = getattr(self.model, "endpoint", None)
        if isinstance(endpoint, str):  # models of one URL with equal limits share it
            key = LimitKey(endpoint, self.in_flight, self.per_minute)
            with _limiters_lock:
                limiter = _limiters.setdefault(key, limiter)
        object.__setattr__(self, "limiter", limiter)

    def wrap_call(self, ask: Callable[[], Reply]) -> Reply:
        """Wait for a free slot, then ask. Raises what the model raises, and Stopped."""
        with self.limiter.enter(self.stop):
            self.budget.reserve(self.model, self.stop)
            usage = None
            # encoding pictures takes a while, and the run may be stopped meanwhile
            before = STOP_EVENT.set(self.stop)
            try:
                # a model with `urls` chooses among its servers by itself
                has_servers = hasattr(self.model, "urls")
                reply = ask() if has_servers else SERVERS.ask((self.identity,), lambda url: ask())
                usage = reply.usage
                return reply
            except ModelError as exc:
                if exc.usage is not None:
                    usage = exc.usage
                    self.budget.lost_usage.append((self.model, usage))
                raise
            finally:
                STOP_EVENT.reset(before)
                self.budget.settle(self.model, usage)

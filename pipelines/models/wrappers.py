"""The wrappers around a model and the order in which they are nested: retries, watching the
endpoint, and counting calls."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from looktwice.pipelines.clock import track_time
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.model import Model, ModelError, ModelWrapper, Reply, Stopped
from looktwice.pipelines.models.cache import Cached, Store
from looktwice.pipelines.models.limits import DEFAULT_IN_FLIGHT, Budget, Limited
from looktwice.pipelines.models.stops import EndpointError, FailureStreak, yield_permit

MAX_UNREACHED_CALLS, MIN_UNREACHED_SECONDS = 3, 5.0
"""After this many consecutive failed attempts to connect, over at least this many seconds, an
endpoint counts as dead; a single worker makes that many attempts in 10 s."""

MAX_EQUAL_FAILURES = 5
"""An endpoint counts as dead if this many consecutive calls, for any samples, fail for the same
reason, and that reason lies with the endpoint."""

REFUSAL_STATUSES = {401, 402, 403, 404, 408, 429}
MALFORMED_STATUSES = {400, 422}
"""Statuses of a malformed request; if the model has never answered, they count as failures of
the endpoint, too."""


@dataclass(frozen=True)
class Retried(ModelWrapper):
    """Retries a call that failed with a retryable ModelError, up to `attempts` calls in all.

    Exponential backoff: waits `initial_delay` seconds, or as long as the server asks for, then
    twice as long each time up to `max_delay`, plus up to a quarter of jitter. From the second wait
    on, it waits at least `initial_delay` seconds, doubled each time, even if the server asks for
    less. Other calls go on meanwhile. If a server asks for more than `max_retry_after` seconds,
    gives up at once. Setting `stop` ends the wait with Stopped. `on_failure` is called with every
    retryable failure.
    """

    attempts: int = 6
    initial_delay: float = 1.0
    max_delay: float = 60.0
    max_retry_after: float = 300.0
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    on_failure: Callable[[ModelError], None] = field(default=lambda exc: None, repr=False)

    def wrap_call(self, ask: Callable[[], Reply]) -> Reply:
        """Return the first reply. Raises Stopped, and the last ModelError with the number of
        attempts."""
        tried = 0
        while True:
            tried += 1
            try:
                return ask()
            except ModelError as exc:
                if not exc.retryable:
                    raise
                first = exc.retry_after or self.initial_delay
                is_too_long = (exc.retry_after or 0.0) > self.max_retry_after
                if not is_too_long:
                    self.on_failure(exc)
                if is_too_long or tried >= self.attempts:
                    wait = f"; the server asks to wait {first:.0f} s" if exc.retry_after else ""
                    given_up = f" (given up after {format_count(tried, 'attempt')})"
                    if self.attempts == 1:  # the caller retries by itself
                        given_up = ""
                    raise exc.with_message(f"{exc}{wait}{given_up}") from exc.__cause__
            # at least what the server asks for, and more if that is a millisecond: the slot that
            # it frees is not free for all who wait
            least = first if tried == 1 else max(first, self.initial_delay / 2)
            backoff = min(max(first, self.max_delay), least * 2.0 ** (tried - 1))
            with track_time("wait to retry"), yield_permit():
                stopped = self.stop.wait(backoff * random.uniform(1.0, 1.25))
            if stopped:
                raise Stopped("stopped while waiting to retry")


@dataclass(eq=False)
class EndpointWatch:
    """Watches one endpoint during a run, for all models behind it.

    `give_up` is called once, with the reason, when further requests are pointless; from then on
    every call raises Stopped. `refusal_counts` counts failed attempts that may be retried, by
    status; `given_up_count` counts calls that ran out of retries.
    """

    give_up: Callable[[str], None]
    death_reason: str = ""
    probed: bool = False
    unreached_count: int = 0
    unreached_since: float = 0.0
    streaks: dict[str, FailureStreak] = field(default_factory=dict)
    answered_models: set[str] = field(default_factory=set)
    refusal_counts: Counter[int] = field(default_factory=Counter)
    given_up_count: int = 0
    probe_lock: threading.Lock = field(default_factory=threading.Lock)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def probe(self, model: Model, stop: threading.Event) -> None:
        """Probe a model that has a method `probe`, before the first request.

        Raises Stopped if the endpoint is dead, or if `stop` was set while another thread probed.
        """
        with self.probe_lock:
            if stop.is_set():
                raise Stopped("stopped before a request was sent")
            if not self.probed:
                try:
                    getattr(model, "probe", lambda: None)()
                except ModelError as exc:
                    self._declare_dead(str(exc))
                self.probed = True
        if self.death_reason:
            raise Stopped(self.death_reason)

    def note_attempt(self, exc: ModelError) -> None:
        """Count a failed attempt, and the consecutive ones that could not connect."""
        with self.lock:
            if exc.status is not None:
                self.unreached_count = 0
                self.refusal_counts[exc.status] += 1
            if not exc.unreached:
                return
            now = time.monotonic()
            self.unreached_since = now if self.unreached_count == 0 else self.unreached_since
            self.unreached_count += 1
            is_hopeless = (
                self.unreached_count >= MAX_UNREACHED_CALLS
                and now - self.unreached_since >= MIN_UNREACHED_SECONDS
            )
        if is_hopeless:
            self._declare_dead(str(exc))

    def note_reply(self, identity: str) -> None:
        """Record a reply, which ends the failure streak of this model."""
        with self.lock:
            self.unreached_count = 0
            self.answered_models.add(identity)
            self._end_streak(identity)

    def note_cached(self, identity: str) -> None:
        """Record a cache hit: the model has answered before, even if some request fails."""
        with self.lock:
            self.answered_models.add(identity)

    def note_failure(self, identity: str, exc: ModelError) -> ModelError:
        """Return the error of a failed call. Raises Stopped if it completes a failure streak."""
        reason = re.sub(r"\S*\d\S*", "#", str(exc))  # ids of requests and seconds differ
        with self.lock:
            self.given_up_count += exc.retryable
            is_new, is_unfit = (
                identity not in self.answered_models,
                exc.status in MALFORMED_STATUSES,
            )
            if not (is_endpoint_fault(exc) or (is_new and is_unfit)):
                self.unreached_count = 0 if exc.status is not None else self.unreached_count
                self._end_streak(identity)
                return exc
            streak = self.streaks.get(identity)
            if streak is None or streak.reason != reason:
                self._end_streak(identity)
                streak = self.streaks[identity] = FailureStreak(
                    reason, str(exc), is_new and not is_unfit
                )
            streak.count += 1
        if streak.count >= MAX_EQUAL_FAILURES:
            self._declare_dead(str(exc))
        if self.death_reason:
            raise Stopped(self.death_reason) from exc
        return EndpointError(exc, streak)

    def describe_refusals(self, place: str, stopped: bool) -> str:
        """Describe how often this server asked to wait or failed; "" if it did not."""
        refusals = [
            f"{'asked to wait' if status == 429 else 'failed'} {format_count(count, 'time')}"
            f" ({status})"
            for status, count in sorted(self.refusal_counts.items())
            if status == 429 or status >= 500
        ]
        if not refusals:
            return ""
        end = "" if stopped else "; all were retried"
        if self.given_up_count:
            end = f"; {format_count(self.given_up_count, 'request was', 'requests were')} given up"
        return f"the server at {place} {', and '.join(refusals)}{end}"

    def _end_streak(self, identity: str) -> None:
        if streak := self.streaks.pop(identity, None):
            streak.ended = True

    def _declare_dead(self, sentence: str) -> None:
        with self.lock:
            is_first, self.death_reason = not self.death_reason, self.death_reason or sentence
        if is_first:
            self.give_up(sentence)


def is_endpoint_fault(exc: ModelError) -> bool:
    """Return whether the endpoint caused a failure: it is unreachable, does not answer, or rejects
    any request. Other failures belong to the sample."""
    if exc.status is None:
        return exc.unreached or exc.retryable
    return exc.status in REFUSAL_STATUSES or exc.status >= 500 or 300 <= exc.status < 400


@dataclass(frozen=True)
class Watched(ModelWrapper):
    """Probes the endpoint before the first call, unless `stop` is set, and reports to `watch` how
    each call ended.

    `inner_model` is the model inside, without wrappers.
    """

    inner_model: Model
    watch: EndpointWatch
    stop: threading.Event = field(default_factory=threading.Event, repr=False)

    def wrap_call(self, ask: Callable[[], Reply]) -> Reply:
        """Ask the model. Raises Stopped if the endpoint is dead, else what the model raises."""
        self.watch.probe(self.inner_model, self.stop)
        try:
            reply = ask()
        except ModelError as exc:
            raise self.watch.note_failure(self.identity, exc) from exc
        self.watch.note_reply(self.identity)
        return reply


@dataclass(frozen=True)
class UsageCount:
    """Successful calls, their tokens, and the seconds that the server took."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0

    @classmethod
    def from_reply(cls, reply: Reply) -> UsageCount:
        """Return the count of one reply."""
        return cls(calls=1, seconds=reply.seconds, **vars(reply.usage))

    def plus(self, more: UsageCount) -> UsageCount:
        """Return the sum of two counts."""
        return UsageCount(*map(sum, zip(vars(self).values(), vars(more).values(), strict=True)))


@dataclass
class UsageSummary:
    """Usage of paid calls and of cached replies, and the number of failed calls.

    `other_endpoints` counts cached replies that another endpoint of the same `name` gave, by that
    endpoint; `unknown_reasons` holds endpoints with their unknown finish reasons.
    """

    paid_usage: UsageCount = UsageCount()
    cached_usage: UsageCount = UsageCount()
    failed_calls: int = 0
    other_endpoints: Counter[str] = field(default_factory=Counter)
    unknown_reasons: set[tuple[str, str]] = field(default_factory=set)

    def plus(self, more: UsageSummary) -> UsageSummary:
        """Return the sum of two summaries."""
        return UsageSummary(
            self.paid_usage.plus(more.paid_usage),
            self.cached_usage.plus(more.cached_usage),
            self.failed_calls + more.failed_calls,
            self.other_endpoints + more.other_endpoints,
            self.unknown_reasons | more.unknown_reasons,
        )


@dataclass(frozen=True)
class Metered(ModelWrapper):
    """Counts calls, tokens and seconds, separately for paid calls and for replies from the cache.

    `place` is the endpoint of the model, if it has one.
    """

    place: str = ""
    summary: UsageSummary = field(
        default_factory=UsageSummary, init=False, repr=False, compare=False
    )
    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def wrap_call(self, ask: Callable[[], Reply]) -> Reply:
        """Ask the model and count the call. Raises what the model raises."""
        try:
            reply = ask()
        except ModelError:
            with self.lock:
                self.summary.failed_calls += 1
            raise
        place = reply.served_by.get("endpoint", self.place)
        with self.lock:
            if reason := reply.served_by.get("finish_reason"):
                self.summary.unknown_reasons.add((place, reason))
            if not reply.cached:
                self.summary.paid_usage = self.summary.paid_usage.plus(UsageCount.from_reply(reply))
                return reply
            self.summary.cached_usage = self.summary.cached_usage.plus(UsageCount.from_reply(reply))
            if place not in self.place.split(", "):
                self.summary.other_endpoints[place] += 1
        return reply

    def snapshot(self) -> UsageSummary:
        """Return a consistent copy of the counts so far."""
        with self.lock:
            return deepcopy(self.summary)


def wrap_model(
    model: Model,
    store: Store | None = None,
    stop: threading.Event | None = None,
    *,
    attempts: int = Retried.attempts,
    only_cached: bool = False,
    watch: EndpointWatch | None = None,
    budget: Budget | None = None,
) -> Metered:
    """Wrap a model as `Metered(Cached(Watched(Retried(Limited(model)))))`; without `store`, `watch`
    or `budget`, that part is left out.

    Once `stop` is set, no request starts. `in_flight` and `per_minute` are read from the model if
    it has them. Raises ValueError.
    """
    if only_cached and store is None:
        raise ValueError("only_cached needs a store; pass one")
    stop, budget = stop or threading.Event(), budget or Budget()
    limits = getattr(model, "in_flight", DEFAULT_IN_FLIGHT), getattr(model, "per_minute", None)
    retried = Retried(Limited(model, *limits, stop, budget), attempts, stop=stop)
    inner: Model = retried
    if watch is not None:
        inner = Watched(replace(retried, on_failure=watch.note_attempt), model, watch, stop)
    if store is not None:
        inner = Cached(inner, store, only_cached, stop)
        if watch is not None:
            on_hit = partial(watch.note_cached, model.identity)
            inner = replace(inner, on_fault=watch.give_up, on_hit=on_hit)
    return Metered(inner, getattr(model, "place", ""))

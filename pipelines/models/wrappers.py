"""Wrappers around a model: retries, rate limits and usage counts, and the order in which they are
nested."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from looktwice.pipelines.clock import spend
from looktwice.pipelines.model import CallOptions, Messages, Model, ModelError, Reply, Stopped
from looktwice.pipelines.models.cache import Around, Cached, Store
from looktwice.pipelines.models.endpoint import EndpointWatch, Watched
from looktwice.pipelines.models.limits import Limited, Ration, others_work, stop_if


@dataclass(frozen=True)
class Retried(Around):
    """Repeats a call that failed with a retryable ModelError, up to `attempts` calls in all.

    Exponential backoff: it waits `initial_delay` seconds, or as long as the server's Retry-After
    says, then twice as long each time up to `max_delay`, plus up to a quarter of jitter. Other
    calls go on meanwhile. Where a server asks for more than `max_retry_after` seconds it gives up
    at once. Setting `stop` ends the wait with Stopped. `on_failure` is told of every retryable
    failure.
    """

    attempts: int = 6
    initial_delay: float = 1.0
    max_delay: float = 60.0
    max_retry_after: float = 300.0
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    on_failure: Callable[[ModelError], None] = field(default=lambda exc: None, repr=False)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """The first reply that comes. Raises the last ModelError, with the number of attempts;
        Stopped."""
        tried = 0
        while True:
            tried += 1
            try:
                return self.model(messages, draw, options)
            except ModelError as exc:
                if not exc.retryable:
                    raise
                if (exc.retry_after or 0.0) > self.max_retry_after:
                    raise self._given_up(exc, tried) from exc.__cause__
                self.on_failure(exc)
                delay = self._delay(exc, tried)
                if tried >= self.attempts:
                    raise self._given_up(exc, tried) from exc.__cause__
            with spend("wait to ask again"), others_work():
                stopped = self.stop.wait(delay)
            if stopped:
                raise Stopped("stopped while waiting to ask again")

    def _delay(self, exc: ModelError, tried: int) -> float:
        """Seconds until the next attempt: never fewer than the server asks for."""
        first = exc.retry_after or self.initial_delay
        backoff = min(max(first, self.max_delay), first * 2.0 ** (tried - 1))
        return backoff * random.uniform(1.0, 1.25)

    def _given_up(self, exc: ModelError, tried: int) -> ModelError:
        asked = f"; the server asks to wait {exc.retry_after:.0f} s" if exc.retry_after else ""
        text = f"{exc}{asked} (given up after {tried} attempt{'s' if tried > 1 else ''})"
        return exc.in_words(text)


@dataclass(frozen=True)
class Stoppable(Around):
    """A model of this process, of which no call starts once `stop` is set."""

    stop: threading.Event = field(repr=False)

    def of(self, sample: str) -> Stoppable:
        """The same around the model of one sample, where the wrapped model has one for each."""
        return replace(self, model=self.model.of(sample)) if hasattr(self.model, "of") else self

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask. Raises what the model raises; Stopped."""
        stop_if(self.stop.is_set())
        with spend("model"):
            return self.model(messages, draw, options)


@dataclass(frozen=True)
class UsageCount:
    """Successful calls, their tokens, and the seconds that the server took."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0

    def plus(self, reply: Reply) -> UsageCount:
        """The counts with one more reply."""
        used = reply.usage
        more = (
            1,
            used.tokens_in,
            used.tokens_out,
            used.reasoning_tokens,
            used.cached_tokens,
            reply.seconds,
        )
        return UsageCount(
            *(getattr(self, f.name) + extra for f, extra in zip(fields(self), more, strict=True))
        )


@dataclass(frozen=True)
class UsageSummary:
    """What was paid for, what came from the cache, and how many calls failed.

    `elsewhere` counts the cached replies that another endpoint gave, of the same `name`, by that
    endpoint; `unknown` holds the endpoints with the reasons for a reply's end that are not known.
    """

    paid: UsageCount = UsageCount()
    cached: UsageCount = UsageCount()
    failed: int = 0
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    unknown: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Metered(Around):
    """Counts calls, tokens and seconds, separately for paid calls and for replies from the cache.

    `place` is the endpoint of the model, where it has one.
    """

    place: str = ""
    summaries: list[UsageSummary] = field(
        default_factory=lambda: [UsageSummary()], init=False, repr=False, compare=False
    )
    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask and count. Raises what the model raises."""
        try:
            reply = self.model(messages, draw, options)
        except ModelError:
            self._add(None)
            raise
        self._add(reply)
        return reply

    def snapshot(self) -> UsageSummary:
        """The counts up to now, as one consistent value."""
        with self.lock:
            return self.summaries[0]

    def _add(self, reply: Reply | None) -> None:
        with self.lock:
            old = self.summaries[0]
            if reply is None:
                self.summaries[0] = replace(old, failed=old.failed + 1)
                return
            came = reply.served_by.get("endpoint", self.place)
            if reason := reply.served_by.get("finish_reason"):
                old = replace(old, unknown=old.unknown | {(came, reason)})
            if reply.cached:
                elsewhere = (
                    {} if came in self.place.split(", ") else {came: old.elsewhere.get(came, 0) + 1}
                )
                self.summaries[0] = replace(
                    old, cached=old.cached.plus(reply), elsewhere={**old.elsewhere, **elsewhere}
                )
            else:
                self.summaries[0] = replace(old, paid=old.paid.plus(reply))


def wrap(
    model: Model,
    store: Store | None = None,
    stop: threading.Event | None = None,
    *,
    attempts: int = 6,
    only_cached: bool = False,
    watch: EndpointWatch | None = None,
    ration: Ration | None = None,
) -> Metered:
    """`Metered(Cached(Watched(Retried(Limited(model)))))`; without `store`, `watch` or `ration`
    that part is left out.

    Setting `stop` lets no request start any more. `in_flight` and `per_minute` are read from the
    model where it has them. Raises ValueError.
    """
    if only_cached and store is None:
        raise ValueError("only_cached needs a store to look into; pass one")
    stop = stop or threading.Event()
    limited = Limited(
        model,
        getattr(model, "in_flight", 64),
        getattr(model, "per_minute", None),
        stop,
        ration or Ration(),
    )
    inner: Model = Retried(limited, attempts, stop=stop)
    if watch is not None:
        inner = Watched(
            Retried(limited, attempts, stop=stop, on_failure=watch.note_attempt), model, watch, stop
        )
    if store is not None:
        inner = Cached(inner, store, only_cached, stop)
        if watch is not None:
            on_hit = partial(watch.note_cached, model.identity)
            inner = replace(inner, on_fault=watch.give_up, on_hit=on_hit)
    return Metered(inner, getattr(model, "place", ""))

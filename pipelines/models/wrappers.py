"""What counts the calls of a model, and the order in which the wrappers around it are nested."""

from __future__ import annotations

import threading
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from looktwice.pipelines.clock import spend
from looktwice.pipelines.model import CallOptions, Messages, Model, ModelError, Reply
from looktwice.pipelines.models.cache import Around, Cached, Store
from looktwice.pipelines.models.endpoint import EndpointWatch, Retried, Watched
from looktwice.pipelines.models.limits import Limited, Ration, stop_if


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
        more = {"calls": 1, "seconds": reply.seconds, **vars(reply.usage)}
        return UsageCount(**{name: count + more[name] for name, count in vars(self).items()})


@dataclass
class UsageSummary:
    """What was paid for, what came from the cache, and how many calls failed.

    `elsewhere` counts the cached replies that another endpoint gave, of the same `name`, by that
    endpoint; `unknown` holds the endpoints with the reasons for a reply's end that are not known.
    """

    paid: UsageCount = UsageCount()
    cached: UsageCount = UsageCount()
    failed: int = 0
    elsewhere: Counter[str] = field(default_factory=Counter)
    unknown: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True)
class Metered(Around):
    """Counts calls, tokens and seconds, separately for paid calls and for replies from the cache.

    `place` is the endpoint of the model, where it has one.
    """

    place: str = ""
    summary: UsageSummary = field(
        default_factory=UsageSummary, init=False, repr=False, compare=False
    )
    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Ask and count. Raises what the model raises."""
        try:
            reply = self.model(messages, draw, options)
        except ModelError:
            with self.lock:
                self.summary.failed += 1
            raise
        place = reply.served_by.get("endpoint", self.place)
        with self.lock:
            if reason := reply.served_by.get("finish_reason"):
                self.summary.unknown.add((place, reason))
            if not reply.cached:
                self.summary.paid = self.summary.paid.plus(reply)
                return reply
            self.summary.cached = self.summary.cached.plus(reply)
            if place not in self.place.split(", "):
                self.summary.elsewhere[place] += 1
        return reply

    def snapshot(self) -> UsageSummary:
        """The counts up to now, as one consistent value."""
        with self.lock:
            return deepcopy(self.summary)


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
    stop, ration = stop or threading.Event(), ration or Ration()
    limits = getattr(model, "in_flight", 64), getattr(model, "per_minute", None)
    retried = Retried(Limited(model, *limits, stop, ration), attempts, stop=stop)
    inner: Model = retried
    if watch is not None:
        inner = Watched(replace(retried, on_failure=watch.note_attempt), model, watch, stop)
    if store is not None:
        inner = Cached(inner, store, only_cached, stop)
        if watch is not None:
            on_hit = partial(watch.note_cached, model.identity)
            inner = replace(inner, on_fault=watch.give_up, on_hit=on_hit)
    return Metered(inner, getattr(model, "place", ""))

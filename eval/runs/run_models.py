"""The models of a run, wrapped with cache, retries and limits, monitored, metered and closed; and
the run's total cost."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

from looktwice.eval.records.records import Record, RunError, SampleRow
from looktwice.eval.runs.companions import Companion, Models
from looktwice.eval.runs.options import RunOptions, Spending
from looktwice.eval.scoring.record_scorer import estimate_price
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.pipelines.clock import Clock
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.model import (
    ModelError,
    RequestQueue,
    Usage,
    get_model_name,
    is_deferring,
    strip_scheme,
)
from looktwice.pipelines.models.cache import Cached, Store
from looktwice.pipelines.models.limits import SERVERS, Budget
from looktwice.pipelines.models.wrappers import (
    EndpointWatch,
    Metered,
    UsageCount,
    UsageSummary,
    wrap_model,
)


def compute_price(model: Any, usage: Usage | UsageCount) -> float:
    """Return the list price of a model's usage, 0 for a model without prices."""
    return estimate_price(usage, model.prices) if getattr(model, "prices", None) else 0.0


class Tally(NamedTuple):
    """The usage so far of one process of a run that may have several.

    `usage_summaries` has an entry for each model that is called over a network, and `lost_usage`
    refers to a model by its index among these. `refusal_counts` holds the counts of an
    `EndpointWatch`, by endpoint; `max_cost` comes from `Budget`, `paused_servers` from `SERVERS`,
    `seconds` and `busy_seconds` from `Clock`.
    """

    usage_summaries: list[UsageSummary]
    refusal_counts: dict[str, tuple[Counter[int], int]]
    lost_usage: list[tuple[int, Usage]]
    max_cost: dict[str, float]
    paused_servers: dict[str, float]
    seconds: dict[str, float]
    busy_seconds: dict[str, float]


@dataclass(eq=False)
class RunModels(Models):
    """Wraps every model of a run that is called over a network.

    `say` prints the progress of batched requests; `parts` are the tallies of other processes, which
    wrapped the models in the same order.
    """

    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.queues, self.held = list[RequestQueue](), 0
        self.meters = list[tuple[Any, Metered]]()
        watch = partial(EndpointWatch, self.progress.give_up)
        self.watches = defaultdict[str, EndpointWatch](watch)

    def wrap(self, model: Any) -> Any:
        """Return the model that the stages call. Raises RunError for a bad URL or a missing API
        key, and CacheError."""
        if not getattr(model, "remote", False):
            return super().wrap(model)
        try:
            model.check()
        except ModelError as exc:
            raise RunError(str(exc)) from exc
        store, drain = Store(self.cache, "--cache"), self.progress.drain
        self.held = len(store)  # fails here, with one sentence, if the store cannot be read
        if is_deferring(model):
            queue = model.open_queue(store, drain, self.say, self.progress.give_up)
            self.queues.append(queue)
            wrapped = Metered(Cached(queue, store, self.only_cached, drain), model.place)
        else:
            watch = self.watches[getattr(model, "endpoint", model.identity)]
            wrapped = wrap_model(
                model, store, drain, only_cached=self.only_cached, watch=watch, budget=self.budget
            )
        self.models.append(wrapped)
        self.meters.append((model, wrapped))
        return wrapped

    def wait_for_batches(self) -> None:
        """Wait for the batched replies that samples need. Raises Stopped."""
        for queue in self.queues:
            queue.collect_replies()

    @property
    def cached_reply_count(self) -> int:
        """The number of replies in the cache before the run."""
        return self.held

    @property
    def may_defer_samples(self) -> bool:
        """True if samples may have to wait for a batched reply."""
        return bool(self.queues)

    def tally(self, clock: Clock) -> Tally:
        """Return the usage of this process so far."""
        models = [model for model, _ in self.meters]
        lost = [(models.index(model), usage) for model, usage in self.budget.lost_usage]
        refused = {
            endpoint: (watch.refusal_counts.copy(), watch.given_up_count)
            for endpoint, watch in self.watches.items()
        }
        used = [meter.snapshot() for _, meter in self.meters]
        max_cost, paused = dict(self.budget.max_cost), dict(SERVERS.paused_until)
        return Tally(used, refused, lost, max_cost, paused, *clock.snapshot())

    def list_usage(self) -> Iterator[tuple[Any, str, UsageSummary]]:
        """Yield each model, its address, and its usage, including that of other processes."""
        for number, (model, meter) in enumerate(self.meters):
            # a process that failed to start has not wrapped all models
            parts = [
                part.usage_summaries[number]
                for part in [*self.parts.values()]
                if part.usage_summaries[number:]
            ]
            yield model, meter.place, reduce(UsageSummary.plus, parts, meter.snapshot())

    @property
    def lost_usage(self) -> list[tuple[Any, Usage]]:
        """The model and the usage of each answer that was billed but could not be used."""
        parts = [pair for part in [*self.parts.values()] for pair in part.lost_usage]
        return [
            *self.budget.lost_usage,
            *((self.meters[number][0], usage) for number, usage in parts),
        ]

    def max_cost(self) -> dict[str, float]:
        """Return the largest cost of a single request of each model, by identity."""
        max_cost = dict(self.budget.max_cost)
        for part in [*self.parts.values()]:
            for name, cost in part.max_cost.items():
                max_cost[name] = max(cost, max_cost.get(name, 0.0))
        return max_cost

    def get_spending(self) -> Spending:
        """Return this run's tokens and cost so far; the cost is None if no model has prices."""
        tokens_in, tokens_out, cost = 0, 0, 0.0
        used: list[tuple[Any, Usage | UsageCount]] = [*self.lost_usage]
        used += [(model, summary.paid_usage) for model, _, summary in self.list_usage()]
        for model, usage in used:
            tokens_in, tokens_out = tokens_in + usage.tokens_in, tokens_out + usage.tokens_out
            cost += compute_price(model, usage)
        return Spending(tokens_in, tokens_out, cost or None)

    def list_remarks(self) -> Iterator[str]:
        """Yield remarks for the end of a run: unreachable servers, refusals, unknown finish
        reasons, unusable answers, cached replies of another server, and prices without token
        counts."""
        paused = {*SERVERS.paused_until}.union(
            *(part.paused_servers for part in self.parts.values())
        )
        for urls in {getattr(model, "urls", ()) for model, _ in self.meters}:
            others = "the other server was" if len(urls) == 2 else "the other servers were"
            for url in (url for url in urls if len(urls) > 1 and url in paused):
                yield f"{url} could not always be reached, so {others} used instead"
        yield from self.find_uncounted_servers()
        self._add_refusals()
        for endpoint, watch in self.watches.items():
            if refused := watch.describe_refusals(
                strip_scheme(endpoint), self.progress.drain.is_set()
            ):
                yield refused
        unknown, elsewhere = set[tuple[str, str]](), Counter[tuple[str, str]]()
        for _, here, count in self.list_usage():
            unknown |= set(count.unknown_reasons)
            for there, number in count.other_endpoints.items():
                elsewhere[here, there] += number
        for place, reason in sorted(unknown):
            yield (
                f"the server at {place} ended replies with the unknown reason {reason!r}; these"
                " replies count as complete"
            )
        if lost := self.lost_usage:
            tokens = sum(usage.tokens_in + usage.tokens_out for _, usage in lost)
            yield (
                f"{format_count(len(lost), 'answer')} could not be used, but cost {tokens:,} tokens"
            )
        for (here, there), number in elsewhere.items():
            replies = format_count(number, "reply", "replies")
            yield (
                f"{replies} of the server at {there} were reused from the cache, because the model"
                f" at {here} has the same `name`"
            )

    def _add_refusals(self) -> None:
        """Add the refusals that other processes met to those of this process."""
        for part in self.parts.values():
            for endpoint, (counts, given_up) in part.refusal_counts.items():
                self.watches[endpoint].refusal_counts.update(counts)
                self.watches[endpoint].given_up_count += given_up

    def find_uncounted_servers(self) -> Iterator[str]:
        """Yield a sentence for each server that reports no tokens although its model has prices."""
        for model, place, summary in self.list_usage():
            paid = summary.paid_usage
            if getattr(model, "prices", None) and paid.calls and not paid.tokens_in:
                yield (
                    f"the server at {place} reports no token counts, so the cost of its replies is"
                    " unknown"
                )


@dataclass(eq=False)
class Ledger(Companion):
    """The total cost of a run, in a file of its folder, so that later commands can keep to a
    budget.

    It is written every second while records arrive, and at the end, so a kill loses at most one
    second. Below the total, the file holds each model's largest cost of a single request. `models`
    provide the cost of this command.
    """

    path: Path
    models: RunModels

    def __post_init__(self) -> None:
        self.before, self.max_cost = read_cost(self.path), dict[str, float]()
        self.written, self.lock = time.monotonic(), threading.Lock()
        with suppress(OSError, ValueError):
            _, _, max_cost = self.path.read_text(encoding="utf-8").partition("\n")
            self.max_cost = json.loads(max_cost or "{}")

    def record(self, arm: Arm, row: SampleRow, record: Record, scored: ScoredRecord) -> None:
        """Write the file, at most once a second."""
        with self.lock:
            if time.monotonic() - self.written >= 1:
                self.write()

    def write(self) -> None:
        """Write the run's cost so far, if there is any."""
        self.written = time.monotonic()
        if (cost := self.models.get_spending().cost) and self.path.parent.is_dir():
            with suppress(OSError):
                max_cost = json.dumps(self.models.max_cost())
                write_file(self.path, f"{self.before + cost:.9f}\n{max_cost}\n")

    def close(self) -> None:
        """Write the file at the end of the run, even after an error."""
        self.write()


def limit_requests(
    models: RunModels, ledger: Ledger, asked: Sequence[Any], options: RunOptions
) -> None:
    """Limit a run to the requests and the cost that its options allow. Raises RunError for a budget
    if a model has no prices."""
    budget, most = (None if models.only_cached else options.budget), options.max_requests
    if not models.only_cached and (budget, most) != (None, None) and any(map(is_deferring, asked)):
        raise RunError("--budget and --max-requests do not work with batched requests; use --limit")
    for model in asked if budget is not None else ():
        if getattr(model, "remote", False) and not getattr(model, "prices", None):
            raise RunError(
                f"--budget: {get_model_name(model)} has no prices; add `prices: {{in: 0.15, out:"
                " 0.6}` to it, per million tokens"
            )
    models.budget = Budget(
        most,
        budget,
        compute_price,
        explain_unknown_cost=lambda: next(models.find_uncounted_servers(), ""),
        give_up=models.progress.give_up,
        spent_money=ledger.before,
        max_cost=ledger.max_cost,
    )


def read_cost(path: Path) -> float:
    """Return the total cost of a run from its ledger file."""
    with suppress(OSError, ValueError, IndexError):
        return float(path.read_text(encoding="utf-8").split()[0])
    return 0.0

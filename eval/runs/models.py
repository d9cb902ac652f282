"""The models of a run: wrapped with cache, retries and limits, watched, counted and closed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from looktwice.eval.display.progress import Spent
from looktwice.eval.records.records import RunError
from looktwice.eval.runs.predict import Run
from looktwice.eval.scoring.score import price_of
from looktwice.pipelines.counted import counted
from looktwice.pipelines.model import ModelError, Usage
from looktwice.pipelines.models.batched.batch_queue import BatchQueue
from looktwice.pipelines.models.batched.model import Batched
from looktwice.pipelines.models.cache import Cached, Store, close_model
from looktwice.pipelines.models.chat_api import place_of
from looktwice.pipelines.models.endpoint import SERVERS, EndpointWatch
from looktwice.pipelines.models.limits import Ration
from looktwice.pipelines.models.wrappers import Metered, UsageCount, wrap


@dataclass(eq=False)
class RunModels:
    """Wraps every model of `run` that is asked over a network; `cache` is the folder of the reply
    store.

    `cached` is how many replies the store held before the run; `say` is told how far batches are.
    """

    run: Run
    cache: Path
    only_cached: bool = False
    ration: Ration = field(default_factory=Ration)
    say: Callable[[str], None] = lambda said: None
    queues: list[BatchQueue] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)
    meters: list[tuple[Any, Metered]] = field(default_factory=list)
    cached: int = 0

    def __post_init__(self) -> None:
        self.watches: defaultdict[str, EndpointWatch] = defaultdict(
            lambda: EndpointWatch(self.run.progress.give_up)
        )

    def wrap(self, model: Any) -> Any:
        """The model that the stages ask. Raises RunError for a bad URL or a missing key,
        CacheError."""
        if not getattr(model, "remote", False):
            self.models.append(model)
            return model
        try:
            model.check()
        except ModelError as exc:
            raise RunError(str(exc)) from exc
        store, drain = Store(self.cache, "--cache"), self.run.progress.drain
        self.cached = len(store)  # fails here, with one sentence, if the store cannot be read
        if isinstance(model, Batched):
            queue = BatchQueue(model, store, drain, self.say, self.run.progress.give_up)
            self.queues.append(queue)
            self.run.collect = self.collect
            cached = Cached(queue, store, self.only_cached, drain)
            return self._metered(model, Metered(cached, model.place))
        watch = self.watches[getattr(model, "endpoint", model.identity)]
        wrapped = wrap(
            model, store, drain, only_cached=self.only_cached, watch=watch, ration=self.ration
        )
        return self._metered(model, wrapped)

    def _metered(self, model: Any, wrapped: Metered) -> Metered:
        self.models.append(wrapped)
        self.meters.append((model, wrapped))
        return wrapped

    def collect(self) -> None:
        """Wait for the batches that samples wait for. Raises Stopped."""
        for queue in self.queues:
            queue.collect()

    def spent(self) -> Spent:
        """What was asked for so far in this run; its cost is that of the models with prices, if
        there are any."""
        used: list[tuple[Any, Usage | UsageCount]] = [
            (model, meter.snapshot().paid) for model, meter in self.meters
        ]
        used += self.ration.lost
        costs = [
            price_of(usage, model.prices) for model, usage in used if getattr(model, "prices", None)
        ]
        tokens = (
            sum(usage.tokens_in for _, usage in used),
            sum(usage.tokens_out for _, usage in used),
        )
        return Spent(*tokens, sum(costs) if any(costs) else None)

    def remarks(self) -> Iterator[str]:
        """What has to be said at the end: dead servers, replies that another one gave, and prices
        without tokens."""
        for urls in {getattr(model, "urls", ()) for model, _ in self.meters}:
            others = "the other server was" if len(urls) == 2 else "the others were"
            for url in (url for url in urls if len(urls) > 1 and url in SERVERS.aside):
                yield f"{url} could not always be asked, so {others}"
        yield from self.uncounted()
        for endpoint, watch in self.watches.items():
            if said := watch.say_refusals(place_of(endpoint), self.run.progress.drain.is_set()):
                yield said
        for place, reason in sorted(
            {pair for _, meter in self.meters for pair in meter.snapshot().unknown}
        ):
            yield (
                f"the server at {place} ended replies with the reason {reason!r}, not known here;"
                " they count as whole"
            )
        if lost := self.ration.lost:
            tokens = sum(usage.tokens_in + usage.tokens_out for _, usage in lost)
            yield (
                f"{counted(len(lost), 'answer')} could not be used, and billed all the same:"
                f" {tokens:,} tokens"
            )
        found: Counter[tuple[str, str]] = Counter()
        for _, meter in self.meters:
            found.update(
                {(meter.place, place): n for place, n in meter.snapshot().elsewhere.items()}
            )
        for (here, there), number in found.items():
            came = counted(number, "reply", "replies")
            yield (
                f"{came} came from the cache as {there} gave them; the model at {here} has the same"
                " `name`"
            )

    def uncounted(self) -> Iterator[str]:
        """A sentence for each server that counts no tokens, although its model has prices."""
        for model, meter in self.meters:
            paid = meter.snapshot().paid
            if getattr(model, "prices", None) and paid.calls and not paid.tokens_in:
                yield (
                    f"the server at {meter.place} counts no tokens, so there is no cost of what it"
                    " answered"
                )

    def close(self) -> None:
        """Close every model and its cache."""
        for model in self.models:
            close_model(model)

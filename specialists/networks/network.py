"""What every network has in common: its weights, its device, batches over threads, and stored
results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from looktwice.pipelines.clock import spend
from looktwice.pipelines.config.spec import NOT_IDENTITY, settings
from looktwice.pipelines.model import canonical
from looktwice.pipelines.runtime.batches import Batcher
from looktwice.pipelines.runtime.networks import (
    Device,
    Dtype,
    Place,
    elsewhere,
    import_torch,
    open_shared,
    weights_hash,
)
from looktwice.pipelines.runtime.stores import current_store, result_key
from looktwice.specialists.networks.image_size import require_pixels

Item = TypeVar("Item", bound=tuple[Any, ...])
Result = TypeVar("Result")


@dataclass(frozen=True)
class Network(ABC, Generic[Item, Result]):
    """A network that stages call: `predict` is safe from any thread and gives what a batch of one
    gives.

    `model` is a hub id or a local folder (nothing is fetched before the first item), `revision`
    pins a commit or tag. `device` "auto" takes CUDA, else MPS, else the CPU; `dtype` "auto" is
    float16 on CUDA where `half_is_safe`, and float32 elsewhere; of a `mixed` class only sums inside
    the network are in a lower precision, because coordinates would be off by pixels in it. Items
    from several threads are gathered into batches of up to `batch` that have the same `batch_key`.
    Equal wrappers share one network in memory; the runner frees it. Where a run has a cache folder,
    results are stored there by pixels, settings and weights.

    A subclass opens its network (`open_network`), runs it on a batch (`forward`), and names its
    `result` class. What a call is given passes `prepare`, `settle` and `finish`, so that `many`
    follows the rules of a call.
    """

    model: str = ""
    revision: str | None = None
    dtype: Dtype = "auto"
    device: Device = field(default="auto", metadata=NOT_IDENTITY)
    batch: int = field(default=8, metadata=NOT_IDENTITY)

    result: ClassVar[type[Any]]
    half_is_safe: ClassVar[bool] = True
    mixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch is 1 or more, found {self.batch}")

    @abstractmethod
    def open_network(self, place: Place) -> Any:
        """The network on its device, in evaluation mode. Raises WeightsError."""

    @abstractmethod
    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[Result]:
        """The result of each of several items that have the same `batch_key`; called in inference
        mode."""

    def many(self, inputs: Sequence[Any]) -> list[Any]:
        """What a call gives for each of several inputs, in order, computed in batches.

        An input is an image, or a tuple of all that a call takes. Raises what a call raises for one
        of them.
        """
        given = [item if isinstance(item, tuple) else (item,) for item in inputs]
        return [
            self.finish(item_given, result)
            for item_given, result in zip(given, self.predict_many(given), strict=True)
        ]

    def prepare(self, given: tuple[Any, ...]) -> Item:
        """What a call was given as an item for the network, its images checked. Raises ValueError,
        NoEvidence."""
        item: Any = tuple(map(require_pixels, given))
        checked: Item = item
        return checked

    def settle(self, item: Item) -> Result | None:
        """The result of an item that needs no network; None of one that does."""
        return None

    def finish(self, given: tuple[Any, ...], result: Result) -> Any:
        """What a call gives, of what it was given and the network's result."""
        return result

    def predict(self, given: tuple[Any, ...]) -> Result:
        """The network's result of what one call was given. Raises WeightsError, NoEvidence,
        ValueError."""
        return self.predict_many([given])[0]

    def predict_many(self, given: Sequence[tuple[Any, ...]]) -> list[Result]:
        """The network's results of what several calls were given; those that are not stored, in
        batches."""
        if (ask := elsewhere()) is not None:
            return cast("list[Result]", ask(self, "predict_many", given))
        items, store = [self.prepare(item_given) for item_given in given], current_store()
        results = [self.settle(item) for item in items]
        missing = [n for n, result in enumerate(results) if result is None]
        keys = dict[int, str]()
        if store is not None and missing:
            name, kind = f"{self._settings()} {self.weights_id()} {self.place().dtype}", self.result
            keys = {n: result_key(name, *items[n]) for n in missing}
            results = [
                store.get(keys[n], kind) if n in keys else result
                for n, result in enumerate(results)
            ]
            missing = [n for n in missing if results[n] is None]
        with spend("networks"):
            fresh = self._batcher().many([items[n] for n in missing])
        for n, result in zip(missing, fresh, strict=True):
            results[n] = result
            if store is not None:
                store.put(keys[n], result)
        return [result for result in results if result is not None]

    def predict_batch(self, items: Sequence[Item]) -> list[Result]:
        """The results of items with the same `batch_key`, as one batch in this thread; nothing is
        stored."""
        network, torch, asked, place = (
            self.network(),
            import_torch(),
            self.place(),
            self._inner_place(),
        )
        lower = torch.autocast(asked.device, asked.torch_dtype, enabled=asked != place)
        with torch.inference_mode(), lower:
            return self.forward(network, place, items)

    def batch_key(self, item: Item) -> Hashable:
        """Items go into one batch where this is equal: by default, where their images have the same
        sizes."""
        return tuple(part.shape for part in item if isinstance(part, np.ndarray))

    def network_key(self) -> Hashable:
        """Wrappers of one class share a network in memory where this is equal."""
        return (self.model, self.revision)

    def weights_id(self) -> str:
        """What identifies the weights in keys of stored results: a sha256 of folder or file, or hub
        id and commit."""
        if Path(self.model).expanduser().exists():
            return weights_hash(self.model)
        commit = getattr(getattr(self.network(), "config", None), "_commit_hash", None)
        return f"{self.model}@{commit or self.revision}"

    def place(self) -> Place:
        """The device and precision of this network on this machine. Raises WeightsError."""
        return Place.of(self.device, self.dtype, "float16" if self.half_is_safe else "float32")

    def network(self) -> Any:
        """The opened network, shared with equal wrappers. Raises WeightsError."""
        place = self._inner_place()
        key = ("network", type(self).__qualname__, self.network_key(), place)
        return open_shared(key, lambda: self.open_network(place))

    def _inner_place(self) -> Place:
        """The place whose precision weights and inputs have."""
        place = self.place()
        return replace(place, dtype="float32") if self.mixed else place

    def _batcher(self) -> Batcher[Item, Result]:
        key = ("batcher", type(self), self._settings(), self.network_key(), self.device, self.batch)
        return open_shared(
            key,
            lambda: Batcher(self.predict_batch, self.batch, self.batch_key, type(self).__name__),
        )

    def _settings(self) -> str:
        """The settings that change results, as one text."""
        return str(canonical({**settings(self), "model": self.model}))

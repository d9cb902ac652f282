"""What every network has in common: weights by id or folder, a place to run, batches, and results kept on disk."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from looktwice.pipelines.config.spec import NOT_IDENTITY, settings
from looktwice.pipelines.model import canonical
from looktwice.pipelines.runtime.batches import Batcher
from looktwice.pipelines.runtime.networks import Device, Dtype, Place, import_torch, open_shared, weights_hash
from looktwice.pipelines.runtime.stores import load_result, result_key, save_result

Item = TypeVar("Item", bound=tuple[Any, ...])
Found = TypeVar("Found")


@dataclass(frozen=True)
class Network(Generic[Item, Found]):
    """A network as the stages see it: `ask` is safe from any thread and gives what a batch of one gives.

    `model` is a hub id or a local folder (nothing is fetched before the first question), `revision` pins a commit
    or tag. `dtype` "auto" is float16 on CUDA where `half_is_safe`, and float32 elsewhere. Questions from several
    threads are gathered into batches of up to `batch` that are `like` one another. Equal wrappers share one network in
    memory; the runner frees it. What was found is kept by pixels, settings and weights where a run has a cache folder.

    A wrapper says how its network is opened (`open_network`), and what it gives for a batch (`forward`).
    """

    model: str = ""
    revision: str | None = None
    dtype: Dtype = "auto"
    device: Device = field(default="auto", metadata=NOT_IDENTITY)
    batch: int = field(default=8, metadata=NOT_IDENTITY)

    found: ClassVar[type[Any]]
    half_is_safe: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch is 1 or more, found {self.batch}")

    def ask(self, item: Item) -> Found:
        """What the network finds in one item, a tuple of arrays and texts. Raises WeightsError, NoEvidence."""
        return self.many([item])[0]

    def many(self, items: Sequence[Item]) -> list[Found]:
        """The same for several items, as one batch where they are like one another and fit."""
        kind: type[Found] = self.found
        keys = [self._key(item) for item in items]
        results = [load_result(key, kind) for key in keys]
        missing = [n for n, result in enumerate(results) if result is None]
        for n, result in zip(missing, self._batcher().many([items[n] for n in missing]), strict=True):
            save_result(keys[n], result)
            results[n] = result
        return [result for result in results if result is not None]

    def open_network(self, place: Place) -> Any:
        """The network itself at its place, ready to infer. Raises WeightsError."""
        raise NotImplementedError

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[Found]:
        """What the network finds in each of several items that are `like` one another; run in inference mode."""
        raise NotImplementedError

    def like(self, item: Item) -> Hashable:
        """What must be equal of items that go into one batch: the sizes of their images."""
        return tuple(each.shape for each in item if isinstance(each, np.ndarray))

    def shared(self) -> Hashable:
        """What wrappers that share one network have in common."""
        return (self.model, self.revision)

    def place(self) -> Place:
        """Where this network runs on this machine. Raises WeightsError."""
        return Place.of(self.device, self.dtype, "float16" if self.half_is_safe else "float32")

    def network(self) -> Any:
        """The opened network, shared with equal wrappers. Raises WeightsError."""
        place = self.place()
        key = ("network", type(self).__qualname__, self.shared(), place)
        return open_shared(key, lambda: self.open_network(place))

    def weights(self) -> str:
        """What stands for the weights: a sha256 over a folder or file, or the hub's id and commit."""
        if Path(self.model).expanduser().exists():
            return weights_hash(self.model)
        commit = getattr(getattr(self.network(), "config", None), "_commit_hash", None)
        return f"{self.model}@{commit or self.revision}"

    def _batcher(self) -> Batcher[Item, Found]:
        key = ("batcher", type(self), self._settings(), self.device, self.batch)
        return open_shared(key, lambda: Batcher(self.together, self.batch, self.like, type(self).__name__))

    def together(self, items: Sequence[Item]) -> list[Found]:
        """What the network finds in items that are `like` one another, as one batch in this thread, nothing kept."""
        network = self.network()
        with import_torch().inference_mode():
            return self.forward(network, self.place(), items)

    def _settings(self) -> str:
        """The settings that change results, as one text."""
        return str(canonical({**settings(self), "model": self.model}))

    def _key(self, item: Item) -> str:
        place = self.place()
        name = f"{self._settings()} {self.weights()} {place.dtype}"
        return result_key(name, *item)

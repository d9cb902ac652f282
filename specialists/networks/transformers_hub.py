"""Networks of transformers by hub id or folder: opened with their processor, in one place."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, from_hub
from looktwice.specialists.networks.image_size import require_size
from looktwice.specialists.networks.network import Network

NARROWEST = 32  # the ratio of the sides from which on processors leave no pixel of the shorter one

Item = TypeVar("Item", bound=tuple[Any, ...])
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Opened:
    """A network of transformers and the processor that was saved with it."""

    model: Any
    processor: Any

    @property
    def config(self) -> Any:
        """The network's configuration."""
        return self.model.config

    def inputs(self, place: Place, **given: Any) -> Any:
        """What the processor makes of images and words, at the network's place and precision."""
        return self.processor(**given, return_tensors="pt").to(place.device, place.torch_dtype)


@dataclass(frozen=True)
class HubNetwork(Network[Item, Found]):
    """A network that transformers opens by id or folder, from safetensors, without torchvision.

    `kind` is the class of transformers that opens it, `processor` that of its processor.
    """

    kind: ClassVar[str]
    processor: ClassVar[str] = "AutoImageProcessor"
    least: ClassVar[int | None] = 4  # pixels of a side: processors take 3 rows for colours; None where it uses none

    def many(self, items: Sequence[Item]) -> list[Found]:
        """The same for several items. Raises NoEvidence where an image is too small for its processor."""
        for image in (each for item in items for each in item if isinstance(each, np.ndarray)):
            if self.least is not None:
                require_size(image, max(self.least, math.ceil(max(image.shape[:2]) / NARROWEST)))
        return super().many(items)

    def open_network(self, place: Place) -> Opened:
        """Network and processor. Raises WeightsError."""
        processor = from_hub(self.processor, self.model, self.revision, backend="pil")
        settings = {"dtype": place.torch_dtype, "use_safetensors": True}
        model = from_hub(self.kind, self.model, self.revision, **settings)
        return Opened(model.to(place.device).eval(), processor)

    def shared(self) -> Hashable:
        """The class of transformers, the id and the revision."""
        return (self.kind, self.model, self.revision)


def first_images(items: Sequence[tuple[Any, ...]]) -> list[Pixels]:
    """The first array of each item."""
    return [item[0] for item in items]

"""Networks of Hugging Face transformers by hub id or folder: opened with their processor, in one
place."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.hub import diffusers_part, from_hub
from looktwice.pipelines.runtime.networks import Place, WeightsError
from looktwice.specialists.networks.checkpoints import FOLDER, is_weights_file, refuse_file
from looktwice.specialists.networks.image_size import require_size
from looktwice.specialists.networks.network import Network

MAX_RATIO = 32  # of the sides; beyond it, processors scale the shorter side to less than a pixel

Item = TypeVar("Item", bound=tuple[Any, ...])
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class HubModel:
    """An opened network of Hugging Face transformers and the processor that was saved with it."""

    model: Any
    processor: Any

    @property
    def config(self) -> Any:
        """The network's configuration."""
        return self.model.config

    def inputs(self, place: Place, **given: Any) -> Any:
        """The processor's tensors for these images and texts, on the network's device and in its
        precision."""
        return self.processor(**given, return_tensors="pt").to(place.device, place.torch_dtype)


@dataclass(frozen=True)
class HubNetwork(Network[Item, Result]):
    """A network that Hugging Face transformers opens by id or folder, from safetensors, without
    torchvision.

    `model_class` and `processor_class` are the transformers classes that open it and its processor.
    `min_side` is the shortest side of an image in pixels that the processor takes; None where no
    processor is used. Files must hold the network's tensors and no others, but for those with one
    of the names `unused` between their dots, because no result of this class depends on them.
    `compile` gives the network to `torch.compile`, which takes a minute at the first call and at
    each new size of image, and needs a C++ compiler on the CPU.
    """

    compile: bool = field(default=False, metadata=NOT_IDENTITY)

    model_class: ClassVar[str]
    processor_class: ClassVar[str] = "AutoImageProcessor"
    min_side: ClassVar[int | None] = 4  # processors take 3 rows for colour channels
    unused: ClassVar[tuple[str, ...]] = ()

    def prepare(self, given: tuple[Any, ...]) -> Item:
        """As in `Network`. Raises NoEvidence where an image is too small for its processor."""
        item = super().prepare(given)
        for image in (part for part in item if isinstance(part, np.ndarray)):
            if self.min_side is not None:
                require_size(image, max(self.min_side, math.ceil(max(image.shape[:2]) / MAX_RATIO)))
        return item

    def open_file(self, path: str) -> HubModel:
        """Network and processor from an original checkpoint, on the CPU. Raises WeightsError where
        none is read."""
        refuse_file(path)
        raise WeightsError(f"there is no folder {path}; give {FOLDER}")

    def open_processor(self) -> Any:
        """The processor that was saved with the network. Raises WeightsError."""
        chosen = {"backend": "pil"} if self.processor_class.startswith("Auto") else {}
        return from_hub(self.processor_class, self.model, self.revision, **chosen)

    def open_network(self, place: Place) -> HubModel:
        """Network and processor. Raises WeightsError."""
        if is_weights_file(self.model):
            opened = self.open_file(self.model)
            model, processor = opened.model.to(place.torch_dtype), opened.processor
        else:
            processor = self.open_processor()
            settings = {"dtype": place.torch_dtype, "use_safetensors": True}
            model = from_hub(self.model_class, self.model, self.revision, self.unused, **settings)
        model = model.to(place.device).eval()
        if self.compile:
            model.compile()
        return HubModel(model, processor)

    def network_key(self) -> Hashable:
        """The transformers class, the id, the revision, and whether it is compiled."""
        return (self.model_class, self.model, self.revision, self.compile)


def open_diffusion(model: str, revision: str | None, place: Place) -> dict[str, Any]:
    """The parts of a pipeline of diffusers that denoises images by words, by their names. Raises
    WeightsError."""
    refuse_file(model, "the id or folder of a pipeline of diffusers")
    source, settings = (
        (model, revision),
        {"torch_dtype": place.torch_dtype, "use_safetensors": True},
    )
    words = {"dtype": place.torch_dtype, "use_safetensors": True, "subfolder": "text_encoder"}
    return {
        "unet": diffusers_part("UNet2DConditionModel", *source, "unet", **settings),
        "vae": diffusers_part("AutoencoderKL", *source, "vae", **settings),
        "scheduler": diffusers_part("DDIMScheduler", *source, "scheduler"),
        "text_encoder": from_hub("CLIPTextModel", *source, **words),
        "tokenizer": from_hub("CLIPTokenizer", *source, subfolder="tokenizer"),
    }


def require_numbers(scores: Any, model: str, dtype: str) -> None:
    """Raises ValueError where scores are no numbers: no threshold lets them pass, so that nothing
    would be found."""
    if scores.isnan().any():
        raise ValueError(
            f"{model} gives scores that are no numbers in {dtype}; set dtype: float32, or fetch it"
            " again"
        )


def first_images(items: Sequence[tuple[Any, ...]]) -> list[Pixels]:
    """The first array of each item."""
    return [item[0] for item in items]

"""The base classes of networks, which manage weights, the device, batches from several threads, and
stored results."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from looktwice.extras.networks.checkpoints import (
    FOLDER_OR_ID_PHRASE,
    Tensors,
    is_weights_file,
    open_tensors,
    refuse_file,
)
from looktwice.extras.networks.hub import find_place, load_diffusers_part, load_from_hub
from looktwice.extras.networks.opening import (
    Batcher,
    Device,
    Dtype,
    Place,
    find_weights_file,
    get_first_line,
    get_remote_call,
    import_torch,
    open_shared,
)
from looktwice.pipelines.clock import track_time
from looktwice.pipelines.config.spec import NOT_IDENTITY, settings
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.stores import get_current_store, make_result_key
from looktwice.pipelines.runtime.weights import WeightsError, hash_weights
from looktwice.specialists.pixels import require_pixels
from looktwice.specialists.protocols import OpensNetwork
from looktwice.specialists.rules import Checked

Inputs = tuple[Any, ...]
"""The arguments of one call of a network."""
Item = TypeVar("Item", bound=Inputs)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Network(OpensNetwork, Checked, ABC, Generic[Item, Result]):
    """A network that stages call; `predict` is thread-safe, and batches do not affect results.

    `model` is a hub id or a local folder (nothing is downloaded before the first item), `revision`
    pins a commit or tag. `device` "auto" chooses CUDA, else MPS, else the CPU; `dtype` "auto" is
    float16 on CUDA if `half_is_safe`, else float32. With `mixed_precision`, weights and inputs stay
    in float32 and only operations inside the network have a lower precision, because coordinates
    would otherwise be off by pixels. Items from several threads are gathered into batches of up to
    `batch` that have the same `get_batch_key`. Equal objects share one network in memory, which the
    runner frees. If a run has a cache folder, results are stored there under keys made from pixels,
    settings and weights.

    A subclass opens its network (`open_network`), runs it on a batch (`forward`), and names its
    `result` class. The arguments of a call pass through `prepare`, `find_known_result` and
    `finish`, so that `many` behaves like a call. The first `image_count` arguments are images, by
    default all of them; their sides have at least `min_side` pixels, and with `needs_colors` none
    of them may have a single colour. A network that `resizes_to_squares` takes images of all sizes
    in one batch. Objects of one class share a network in memory if the settings named in
    `opening_settings` are equal. `ranges` are the valid ranges of the settings; `extra` is the
    extra of looktwice that installs the required packages.
    """

    model: str = ""
    revision: str | None = None
    dtype: Dtype = "auto"
    device: Device = field(default="auto", metadata=NOT_IDENTITY)
    batch: int = field(default=8, metadata=NOT_IDENTITY)

    result: ClassVar[type[Any]]
    half_is_safe: ClassVar[bool] = True
    mixed_precision: ClassVar[bool] = False
    image_count: ClassVar[int | None] = None
    min_side: ClassVar[int] = 1
    needs_colors: ClassVar[bool] = False
    resizes_to_squares: ClassVar[bool] = False
    extra: ClassVar[str] = "torch"
    opening_settings: ClassVar[tuple[str, ...]] = ("model", "revision")
    ranges: ClassVar[tuple[str, ...]] = ("batch >= 1",)

    @abstractmethod
    def open_network(self, place: Place) -> Any:
        """Open the network on its device, in evaluation mode. Raises WeightsError."""

    @abstractmethod
    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[Result]:
        """Compute the result of each item of a batch; all items have the same `get_batch_key`. This
        is called in inference mode."""

    def many(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the results of several calls, in order, computed in batches.

        An input is an image, or a tuple of all arguments of a call. Raises whatever a call with one
        of the inputs raises.
        """
        given = [call if isinstance(call, tuple) else (call,) for call in inputs]
        return list(map(self.finish, given, self.predict_many(given)))

    def prepare(self, given: Inputs) -> Item:
        """Convert the arguments of a call to an item for the network, and check its images. Raises
        ValueError, NoEvidence."""
        images = given[: self.image_count]
        item: Any = tuple(require_pixels(i, self.min_side, self.needs_colors) for i in images)
        checked: Item = item
        return checked

    def find_known_result(self, item: Item) -> Result | None:
        """Return the result of an item if it is known without the network, else None."""
        return None

    def finish(self, given: Inputs, result: Result) -> Any:
        """Convert the network's result to the return value of a call with the arguments `given`."""
        return result

    def predict(self, given: Inputs) -> Result:
        """Return the network's result for the arguments of one call. Raises WeightsError,
        NoEvidence, ValueError."""
        return self.predict_many([given])[0]

    def predict_many(self, given: Sequence[Inputs]) -> list[Result]:
        """Return the network's results for the arguments of several calls; results that are not
        stored are computed in batches."""
        if (ask := get_remote_call()) is not None:
            return cast("list[Result]", ask(self, "predict_many", given))
        items, store, keys = [self.prepare(call) for call in given], get_current_store(), {}
        results = [self.find_known_result(item) for item in items]
        if store is not None and any(result is None for result in results):
            name = f"{self._serialize_settings()} {self.weights_id()} {self.get_place().dtype}"
            for n, item in enumerate(items):
                if results[n] is None:
                    keys[n] = make_result_key(name, *item)
                    results[n] = store.get(keys[n], self.result)
        missing = [n for n, result in enumerate(results) if result is None]
        with track_time("networks"):
            fresh = self._get_batcher().many([items[n] for n in missing])
        for n, result in zip(missing, fresh, strict=True):
            results[n] = result
            if store is not None:
                store.put(keys[n], result)
        return cast("list[Result]", results)

    def predict_batch(self, items: Sequence[Item]) -> list[Result]:
        """Compute items that share a `get_batch_key` as one batch in this thread, without storing
        the results."""
        asked, place = self.get_place(), self._get_inner_place()
        torch = import_torch()
        network = self.network()
        lower = torch.autocast(asked.device, asked.torch_dtype, enabled=asked != place)
        with torch.inference_mode(), lower:
            return self.forward(network, place, items)

    def get_batch_key(self, item: Item) -> Hashable:
        """Return the key that the items of a batch share: by default the sizes of their images; for
        a network that resizes to squares, the key is always the same."""
        if self.resizes_to_squares:
            return True
        return tuple(part.shape for part in item if isinstance(part, np.ndarray))

    def make_network_key(self) -> Hashable:
        """Return the key under which objects of this class share a network in memory."""
        return tuple(getattr(self, name) for name in self.opening_settings)

    def weights_id(self) -> str:
        """Return the identifier of the weights in keys of stored results: the sha256 of the folder
        or file, or the hub id and commit."""
        if Path(self.model).expanduser().exists():
            return hash_weights(self.model)
        commit = getattr(getattr(self.network(), "config", None), "_commit_hash", None)
        return f"{self.model}@{commit or self.revision}"

    def get_place(self) -> Place:
        """Return the device and precision of this network on this machine. Raises WeightsError."""
        half = "float16" if self.half_is_safe else "float32"
        return Place.resolve(self.device, self.dtype, half, self.extra)

    def network(self) -> Any:
        """Return the opened network, which equal objects share. Raises WeightsError."""
        place = self._get_inner_place()
        key = ("network", type(self).__qualname__, self.make_network_key(), place)
        return open_shared(key, lambda: self.open_network(place))

    def _get_inner_place(self) -> Place:
        """Return the device and precision of the weights and inputs."""
        place = self.get_place()
        return replace(place, dtype="float32") if self.mixed_precision else place

    def _get_batcher(self) -> Batcher[Item, Result]:
        key = (
            "batcher",
            type(self),
            self._serialize_settings(),
            self.make_network_key(),
            self.device,
            self.batch,
        )
        return open_shared(
            key,
            lambda: Batcher(
                self.predict_batch, self.batch, self.get_batch_key, type(self).__name__
            ),
        )

    def _serialize_settings(self) -> str:
        """Serialize the settings that affect results."""
        return str(write_canonical({**settings(self), "model": self.model}))


@dataclass(frozen=True, eq=False)
class HubModel:
    """An opened network of Hugging Face transformers and the processor that was saved with it."""

    model: Any
    processor: Any

    @property
    def config(self) -> Any:
        """The network's configuration."""
        return self.model.config

    def make_inputs(self, place: Place, **given: Any) -> Any:
        """Make the processor's tensors for the images and texts in `given`, on the network's
        device and in its precision."""
        return self.processor(**given, return_tensors="pt").to(place.device, place.torch_dtype)


@dataclass(frozen=True)
class HubNetwork(Network[Item, Result]):
    """A network that Hugging Face transformers opens by id or folder, from safetensors, without
    torchvision.

    `model_class` and `processor_class` are the transformers classes of the network and its
    processor. One side of an image is at most `max_ratio` times as long as the other. Files must
    contain exactly the network's tensors; only tensors with a component of their name in
    `unused_tensors` may be missing or additional, because no result of this class depends on them.
    `compile` applies `torch.compile`, which takes a minute at the first call and at each new image
    size, and needs a C++ compiler on the CPU.
    """

    compile: bool = field(default=False, metadata=NOT_IDENTITY)

    model_class: ClassVar[str]
    processor_class: ClassVar[str] = "AutoImageProcessor"
    min_side = 4  # processors mistake 3 rows for colour channels
    max_ratio: ClassVar[float] = 32  # beyond it, processors scale the shorter side to zero pixels
    opening_settings: ClassVar[tuple[str, ...]] = ("model_class", "model", "revision", "compile")
    unused_tensors: ClassVar[tuple[str, ...]] = ()

    def prepare(self, given: Inputs) -> Item:
        """Prepare the arguments. Raises NoEvidence if an image is too small for the processor."""
        item = super().prepare(given)
        for image in item:
            require_pixels(image, math.ceil(max(image.shape[:2]) / self.max_ratio))
        return item

    def get_place(self) -> Place:
        """Return the device and precision of this network on this machine. Raises WeightsError."""
        half = "float16" if self.half_is_safe else "float32"
        return find_place(self.model, self.device, self.dtype, half)

    def open_file(self, path: str) -> HubModel:
        """Open the network and processor from an original checkpoint, on the CPU. Raises
        WeightsError if this class reads no original checkpoints."""
        refuse_file(path)
        raise WeightsError(f"there is no folder {path}; set model: to {FOLDER_OR_ID_PHRASE}")

    def open_processor(self) -> Any:
        """Open the processor that was saved with the network. Raises WeightsError."""
        chosen = {"backend": "pil"} if self.processor_class.startswith("Auto") else {}
        return load_from_hub(self.processor_class, self.model, self.revision, **chosen)

    def open_network(self, place: Place) -> HubModel:
        """Open the network and its processor. Raises WeightsError."""
        if is_weights_file(self.model):
            opened = self.open_file(self.model)
            model, processor = opened.model.to(place.torch_dtype), opened.processor
        else:
            processor = self.open_processor()
            settings = {"dtype": place.torch_dtype, "use_safetensors": True}
            model = load_from_hub(
                self.model_class, self.model, self.revision, self.unused_tensors, **settings
            )
        model = model.to(place.device).eval()
        if self.compile:
            model.compile()
        return HubModel(model, processor)


def open_diffusion(model: str, revision: str | None, place: Place) -> dict[str, Any]:
    """Open the parts of a text-conditioned pipeline of diffusers; return them by name. Raises
    WeightsError."""
    refuse_file(model, "the id or folder of a diffusers pipeline")
    settings = {"torch_dtype": place.torch_dtype, "use_safetensors": True}
    text_settings = {
        "dtype": place.torch_dtype,
        "use_safetensors": True,
        "subfolder": "text_encoder",
    }
    part = partial(load_diffusers_part, model=model, revision=revision)
    return {
        "unet": part("UNet2DConditionModel", subfolder="unet", **settings),
        "vae": part("AutoencoderKL", subfolder="vae", **settings),
        "scheduler": part("DDIMScheduler", subfolder="scheduler"),
        "text_encoder": load_from_hub("CLIPTextModel", model, revision, **text_settings),
        "tokenizer": load_from_hub("CLIPTokenizer", model, revision, subfolder="tokenizer"),
    }


def refuse_nan(scores: Any, model: str, dtype: str) -> None:
    """Raise ValueError if scores are NaN, since NaN passes no threshold and would look like no
    result."""
    if scores.isnan().any():
        raise ValueError(
            f"{model} returns NaN scores in {dtype}; set dtype: float32, or download it again"
        )


@dataclass(frozen=True)
class TensorNetwork(Network[tuple[Pixels], Result]):
    """An image network that consists of the named tensors in a file and is evaluated by `run`;
    `kind` is its name in `originals.yaml`."""

    kind: ClassVar[str]

    @abstractmethod
    def run(self, tensors: Tensors, images: Any) -> Any:
        """Compute the network's output for images (n, 3, height, width)."""

    def find_file(self) -> Path:
        """Return the file of the tensors. Raises WeightsError."""
        return find_weights_file(self.model)

    def open_network(self, place: Place) -> Tensors:
        """Open the named tensors. Raises WeightsError if one is missing or does not fit."""
        file, torch = self.find_file(), import_torch()
        tensors = open_tensors(file, self.kind)
        try:
            with torch.inference_mode():
                self.run(tensors, torch.zeros(1, 3, 32, 32))
        except KeyError as exc:
            raise WeightsError(
                f"{file} lacks the tensor {exc.args[0]}; use the complete file"
            ) from exc
        except RuntimeError as exc:
            raise WeightsError(
                f"{file} holds tensors that do not fit together ({get_first_line(exc)})"
            ) from exc
        return {
            name: tensor.to(place.device, place.torch_dtype) for name, tensor in tensors.items()
        }

    def weights_id(self) -> str:
        """Return the hash of the file."""
        return hash_weights(self.find_file())


def batch_norm(tensors: Tensors, name: str, maps: Any, eps: float = 1e-5) -> Any:
    """Apply the batch normalization of this name to maps (n, d, height, width)."""
    kinds = ("running_mean", "running_var", "weight", "bias")
    parts = (tensors[f"{name}.{kind}"] for kind in kinds)
    return import_torch().nn.functional.batch_norm(maps, *parts, eps=eps)

"""Attention of the vision encoder of a local multimodal network: a map, and its fraction inside marked regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.marks import Box, Mark, Mask
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, WeightsError, from_hub, import_torch
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import resample
from looktwice.specialists.networks.image_size import require_pixels
from looktwice.specialists.networks.transformers_hub import HubModel, HubNetwork
from looktwice.specialists.protocols import ScalarMap

Floats = NDArray[np.float64]
TOWERS = ("vision_tower", "vision_model", "visual", "vision_encoder")


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """`values` (rows, columns): the attention that each patch receives, adding up to 1."""

    values: Floats


@dataclass(frozen=True)
class VisionAttention(HubNetwork[tuple[Pixels], AttentionMap]):
    """The attention that each part of an image receives in the vision encoder, as a map at the image's size.

    The picture, stretched to the encoder's square, goes through the encoder alone, without a question. At `layer`
    (-1 is the last) the weights are averaged over heads and asking patches; a class token is left out. The map adds
    up to 1. `model` is an image-text-to-text network whose encoder has one plain grid of patches, such as LLaVA's
    and Idefics3's. After Do You See Me, appendix N. Raises WeightsError for other encoders.
    """

    layer: int = -1

    result: ClassVar[type[Any]] = AttentionMap
    model_class: ClassVar[str] = "AutoModelForImageTextToText"
    unused: ClassVar[tuple[str, ...]] = ("pooler",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compile:
            raise ValueError("attention is read beside the network's result, which a compiled one hides; drop compile")

    def __call__(self, pixels: Pixels, /) -> Floats:
        """Floats (height, width) that add up to 1: a patch's attention spread evenly over its pixels."""
        return self.finish((pixels,), self.predict((pixels,)))

    def finish(self, given: tuple[Any, ...], result: AttentionMap) -> Floats:
        """The map at the size of the image."""
        height, width = require_pixels(given[0]).shape[:2]
        patches = result.values
        full = cv2.resize(patches, (width, height), interpolation=cv2.INTER_NEAREST_EXACT)
        return np.asarray(full / full.sum(), np.float64)

    def open_network(self, place: Place) -> HubModel:
        """The encoder with plain attention, which alone gives its weights. Raises WeightsError."""
        processor = from_hub("AutoImageProcessor", self.model, self.revision, backend="pil")
        settings = {"dtype": place.torch_dtype, "use_safetensors": True, "attn_implementation": "eager"}
        whole = from_hub(self.model_class, self.model, self.revision, self.unused, **settings)
        inner = getattr(whole, "model", whole)
        tower = next((getattr(inner, name) for name in TOWERS if hasattr(inner, name)), None)
        if tower is None or not hasattr(tower.config, "image_size"):
            raise WeightsError(f"{self.model}: its vision encoder has no plain grid of patches to map attention on")
        return HubModel(tower.to(place.device).eval(), processor)

    def network_key(self) -> Any:
        """Apart from networks that were opened without their attention weights."""
        return ("attention", *super().network_key())  # type: ignore[misc]

    def forward(self, network: Any, place: Place, items: Sequence[tuple[Pixels]]) -> list[AttentionMap]:
        """The maps of several images, one patch a value."""
        torch, size = import_torch(), network.config.image_size
        mean, std = (np.array(getattr(network.processor, name)) for name in ("image_mean", "image_std"))
        squares = [resample(image, size, size, "linear") for (image,) in items]
        planes = ((np.stack(squares) / 255 - mean) / std).transpose(0, 3, 1, 2)
        weights = self._weights(network.model, torch.tensor(planes, dtype=place.torch_dtype, device=place.device))
        side = size // network.config.patch_size
        received = weights.float().mean(dim=(1, 2))[:, -side * side :].cpu().numpy().astype(np.float64)
        return [AttentionMap((row / row.sum()).reshape(side, side)) for row in received]

    def _weights(self, tower: Any, planes: Any) -> Any:
        """Attention (batch, heads, queries, keys) of the layer. Raises WeightsError."""
        layers = [module for name, module in tower.named_modules() if name.split(".")[-1] in ("self_attn", "attention")]
        outputs: list[Any] = []
        if not -len(layers) <= self.layer < len(layers):
            raise WeightsError(f"layer {self.layer} of {self.model}: its vision encoder has {len(layers)} layers")
        hook = layers[self.layer].register_forward_hook(lambda module, given, out: outputs.append(out))
        try:
            tower(planes)
        finally:
            hook.remove()
        attention = outputs[0][1] if outputs and isinstance(outputs[0], tuple) and len(outputs[0]) > 1 else None
        if attention is None or attention.ndim != 4:
            raise WeightsError(f"{self.model}: layer {self.layer} of its vision encoder does not give its attention")
        return attention


@dataclass(frozen=True)
class AttentionShare:
    """Measures the fraction of attention inside the sample's marks, and their fraction of the area.

    The means over images are `attention_share` and `marked_area`; the record notes those of each image.

    Points count with the disc of `radius` pixels around them. Images without a mark are skipped. The views are
    not changed; to draw the map, give the same `attention` to an overlay of scalars.
    """

    attention: ScalarMap
    radius: float = 10

    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise ValueError(f"radius is in source pixels and more than 0, found {self.radius}")

    def __call__(self, state: State, model: Model) -> State:
        """The state with a note for each image that has marks."""
        notes, found = [], list[tuple[float, float]]()
        for number, image in enumerate(state.sample.images):
            if marks := state.sample.on(number):
                share, area = measure_shares(self.attention(image.pixels), marks, self.radius)
                found.append((share, area))
                notes.append(f"attention on the marks of image {number}: {share:.4f} of the whole, area {area:.4f}")
        for name, values in zip(("attention_share", "marked_area"), zip(*found, strict=True), strict=False):
            state = state.measured(name, sum(values) / len(values))
        return state.with_notes(*notes)


def measure_shares(attention: Floats, marks: Sequence[Mark], radius: float) -> tuple[float, float]:
    """(fraction of the attention, fraction of the area) inside the marks, each pixel counted once."""
    covered = np.zeros(attention.shape, bool)
    for mark in marks:
        covered |= _inside(mark, attention.shape, radius)
    return float(attention[covered].sum() / attention.sum()), float(covered.mean())


def _inside(mark: Mark, shape: tuple[int, ...], radius: float) -> NDArray[np.bool_]:
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    if isinstance(mark, Mask):
        return np.asarray(mark.pixels, bool)
    if isinstance(mark, Box):
        left, top, right, bottom = mark.xyxy
        inside = (columns + 0.5 > left) & (columns + 0.5 < right) & (rows + 0.5 > top) & (rows + 0.5 < bottom)
    else:
        inside = (columns - mark.x) ** 2 + (rows - mark.y) ** 2 <= radius**2
    return np.asarray(inside, bool)

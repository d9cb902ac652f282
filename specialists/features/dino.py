"""DINOv2, and any other vision backbone of Hugging Face transformers, as dense features or one
vector per image."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, ClassVar, Literal

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, import_torch, import_transformers
from looktwice.specialists.networks.checkpoints import (
    Rules,
    count,
    open_converted,
    read_tensors,
    rename,
    require_kind,
    split_rows,
    unwrap,
)
from looktwice.specialists.networks.image_size import MEAN, STD, InputSize
from looktwice.specialists.networks.transformers_hub import HubModel, HubNetwork
from looktwice.specialists.results import FeatureGrid

Item = tuple[Pixels]


@dataclass(frozen=True)
class DINOv2(HubNetwork[Item, FeatureGrid]):
    """Features of DINOv2 (Oquab et al., TMLR 2024), or of another backbone of Hugging Face
    transformers.

    Vision transformers (DINOv3, SigLIP 2 also as NaFlex, CLIP's vision part, ViT ...) and
    convolutional ones (ConvNeXt, ResNet ...) work. `model` may be DINOv2's own file
    (`dinov2_vitb14_pretrain.pth`). `layer` is the hidden state that is taken, -1 the last one as
    the network gives it. `part` "patches" gives a vector for each patch, "whole" one for the image:
    that of the class token where there is one, else the mean. Images are brought to a longest side
    of `longest` pixels in their own proportions, sides rounded down to whole patches, and are not
    cropped.
    """

    model: str = "facebook/dinov2-base"
    layer: int = -1
    part: Literal["patches", "whole"] = "patches"
    longest: int = 518

    result = FeatureGrid
    model_class = "AutoModel"
    processor_class = (  # of any network: its mean and deviation alone are read
        "BitImageProcessorPil"
    )
    min_side = None
    version: ClassVar[int] = 2
    unused = ("mask_token", "pooler", "classifier")  # of training, and of classifying

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest < 32:
            raise ValueError(f"longest is in pixels, 32 or more, found {self.longest}")

    def __call__(self, pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        """The features of an HxWx3 RGB image; the prompt is not looked at. Raises WeightsError."""
        return self.predict((pixels,))

    def prepare(self, given: tuple[Any, ...]) -> Item:
        """The image alone."""
        return super().prepare(given[:1])

    def open_file(self, path: str) -> HubModel:
        """An original checkpoint. Raises WeightsError."""
        return open_dinov2(path)

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[FeatureGrid]:
        """One grid for each image."""
        vision = getattr(network.model, "vision_model", network.model)
        config = getattr(network.config, "vision_config", network.config)
        patch = _patch(config)
        sizes = [InputSize.of(item[0], self.longest, patch, enlarge=True) for item in items]
        images = np.stack([size.resized(item[0]) for size, item in zip(sizes, items, strict=True)])
        tokens = self._tokens(vision, _normalize(images, network.processor, place), patch)
        if tokens.ndim == 4:  # a convolutional network
            tokens, before = tokens.permute(0, 2, 3, 1), 0
        else:
            rows, columns = sizes[0].rows // patch, sizes[0].columns // patch
            before = tokens.shape[1] - rows * columns  # the class token and registers
            if before < 0:
                raise ValueError(
                    f"{self.model} does not give a vector for each patch of {patch} x {patch}"
                    " pixels"
                )
            whole, tokens = tokens[:, :1], tokens[:, before:].reshape(len(items), rows, columns, -1)
        if self.part == "whole":
            tokens = whole[:, None] if before else tokens.mean((1, 2), keepdim=True)
        values = tokens.float().cpu().numpy()
        return [
            FeatureGrid(grid, size.width, size.height)
            for grid, size in zip(values, sizes, strict=True)
        ]

    def batch_key(self, item: Item) -> Hashable:
        """The proportions of the image."""
        size = InputSize.of(item[0], self.longest, 1, enlarge=True)
        return (size.columns, size.rows)

    def _tokens(self, model: Any, images: Any, patch: int) -> Any:
        """The chosen hidden state: (n, tokens, d), or (n, d, rows, columns) of a convolutional
        network."""
        takes = signature(model.forward).parameters
        settings: dict[str, Any] = {"pixel_values": images}
        if "interpolate_pos_encoding" in takes:
            settings["interpolate_pos_encoding"] = True
        if "spatial_shapes" in takes:
            settings = _patches(images, patch)
        if self.layer == -1:
            return model(**settings).last_hidden_state
        states = model(output_hidden_states=True, **settings).hidden_states
        if not -len(states) <= self.layer < len(states):
            raise ValueError(
                f"{self.model} has {len(states)} hidden states, layer {self.layer} is none of them"
            )
        return states[self.layer]


def _patches(images: Any, patch: int) -> dict[str, Any]:
    """Images (n, 3, height, width) as NaFlex takes them: patches in rows, colours last, and the
    shape of their grid."""
    torch = import_torch()
    # n, 3, rows, patch, columns, patch
    grid = images.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))
    flat = grid.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
    shape = torch.tensor([grid.shape[2], grid.shape[4]], device=images.device).expand(
        len(images), 2
    )
    mask = torch.ones(flat.shape[:2], dtype=torch.int64, device=images.device)
    return {"pixel_values": flat, "pixel_attention_mask": mask, "spatial_shapes": shape}


def _patch(config: Any) -> int:
    """What the sides of an image must be multiples of: the patch of a transformer, else the usual
    stride."""
    return (
        int(getattr(config, "patch_size", 32)) if not getattr(config, "hidden_sizes", None) else 32
    )


def _normalize(images: Any, processor: Any, place: Place) -> Any:
    """Images (n, height, width, 3) as the network's tensor (n, 3, height, width)."""
    torch = import_torch()
    mean, std = (
        torch.tensor(getattr(processor, name), device=place.device)
        for name in ("image_mean", "image_std")
    )
    floats = (torch.from_numpy(images).to(place.device) / 255 - mean) / std
    return floats.permute(0, 3, 1, 2).to(place.torch_dtype)


HEAD = 64  # channels of an attention head, which is in no shape and the same in every release
# of a patch, that the authors add to the size of the grid of positions (interpolate_offset)
OFFSET = 0.1
NAMES: Rules = (
    (r"^(cls_token|mask_token|register_tokens)$", r"embeddings.\1"),
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^blocks\.", "encoder.layer."),
    (r"\.ls([12])\.gamma$", r".layer_scale\1.lambda1"),
    (r"\.attn\.(query|key|value)\.", r".attention.attention.\1."),
    (r"\.attn\.proj\.", ".attention.output.dense."),
    (r"\.mlp\.w12\.", ".mlp.weights_in."),
    (r"\.mlp\.w3\.", ".mlp.weights_out."),
    (r"^norm\.", "layernorm."),
)


def open_dinov2(path: str) -> HubModel:
    """DINOv2, with or without registers, from a file such as `dinov2_vits14_pretrain.pth`. Raises
    WeightsError."""
    transformers = import_transformers()
    tensors = unwrap(read_tensors(path))
    require_kind(path, tensors, "DINOv2")
    kind = "Dinov2WithRegisters" if "register_tokens" in tensors else "Dinov2"
    config = getattr(transformers, f"{kind}Config")(**dinov2_settings(tensors))
    network = open_converted(f"{kind}Model", config, dinov2_names(tensors), path)
    if kind == "Dinov2":
        keep_positions(network.embeddings)
    return HubModel(network, transformers.BitImageProcessorPil(image_mean=MEAN, image_std=STD))


def dinov2_names(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Original tensors under the names of transformers."""
    return rename(split_rows(tensors, ".qkv.", (".query.", ".key.", ".value.")), NAMES)


def dinov2_settings(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration that these shapes belong to."""
    hidden, patch = (
        tensors["patch_embed.proj.weight"].shape[0],
        tensors["patch_embed.proj.weight"].shape[-1],
    )
    registers = (
        {"num_register_tokens": tensors["register_tokens"].shape[1]}
        if "register_tokens" in tensors
        else {}
    )
    gated = "blocks.0.mlp.w12.weight" in tensors
    return registers | {
        "hidden_size": hidden,
        "num_hidden_layers": count(tensors, r"blocks\.(\d+)\."),
        "num_attention_heads": hidden // HEAD,
        "mlp_ratio": 4 if gated else tensors["blocks.0.mlp.fc1.weight"].shape[0] // hidden,
        "use_swiglu_ffn": gated,
        "patch_size": patch,
        "use_mask_token": "mask_token" in tensors,
        "image_size": math.isqrt(tensors["pos_embed"].shape[1] - 1) * patch,
    }


def keep_positions(embeddings: Any) -> None:
    """Let a network of transformers bring its positions to the size of an image as the authors do.

    They scale by a factor that is a little too large, which moves every position by a part of a
    patch.
    """
    embeddings.interpolate_pos_encoding = partial(_scaled_positions, embeddings)


def _scaled_positions(embeddings: Any, seen: Any, height: int, width: int) -> Any:
    torch = import_torch()
    positions, patch = embeddings.position_embeddings, embeddings.patch_size
    side = math.isqrt(positions.shape[1] - 1)
    rows, columns = height // patch, width // patch
    if (rows, columns) == (side, side):
        return positions
    grid = positions[:, 1:].float().unflatten(1, (side, side)).permute(0, 3, 1, 2)
    factors = ((rows + OFFSET) / side, (columns + OFFSET) / side)
    scaled = torch.nn.functional.interpolate(
        grid, scale_factor=factors, mode="bicubic", align_corners=False
    )
    return torch.cat([positions[:, :1], scaled.flatten(2).mT.to(positions.dtype)], 1)

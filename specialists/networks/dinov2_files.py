"""Original checkpoints of DINOv2, alone or inside another network, converted for Hugging Face transformers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from looktwice.pipelines.runtime.networks import import_torch, import_transformers
from looktwice.specialists.networks.checkpoint_kinds import require_kind, unwrap
from looktwice.specialists.networks.checkpoints import read_tensors
from looktwice.specialists.networks.conversion import Rules, count, open_converted, rename, split_rows
from looktwice.specialists.networks.image_size import MEAN, STD
from looktwice.specialists.networks.transformers_hub import HubModel

HEAD = 64  # channels of an attention head, which is in no shape and the same in every release
OFFSET = 0.1  # of a patch, that the authors add to the size of the grid of positions (interpolate_offset)
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
    """DINOv2, with or without registers, from a file such as `dinov2_vits14_pretrain.pth`. Raises WeightsError."""
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
    hidden, patch = tensors["patch_embed.proj.weight"].shape[0], tensors["patch_embed.proj.weight"].shape[-1]
    registers = {"num_register_tokens": tensors["register_tokens"].shape[1]} if "register_tokens" in tensors else {}
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

    They scale by a factor that is a little too large, which moves every position by a part of a patch.
    """
    embeddings.interpolate_pos_encoding = partial(_scaled_positions, embeddings)


def _scaled_positions(embeddings: Any, seen: Any, height: int, width: int) -> Any:
    torch = import_torch()
    held, patch = embeddings.position_embeddings, embeddings.patch_size
    side = math.isqrt(held.shape[1] - 1)
    rows, columns = height // patch, width // patch
    if (rows, columns) == (side, side):
        return held
    grid = held[:, 1:].float().unflatten(1, (side, side)).permute(0, 3, 1, 2)
    factors = ((rows + OFFSET) / side, (columns + OFFSET) / side)
    scaled = torch.nn.functional.interpolate(grid, scale_factor=factors, mode="bicubic", align_corners=False)
    return torch.cat([held[:, :1], scaled.flatten(2).mT.to(held.dtype)], 1)

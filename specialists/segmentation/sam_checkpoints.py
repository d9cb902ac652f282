"""Original checkpoints of Segment Anything, converted for Hugging Face transformers, without torchvision."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from looktwice.pipelines.runtime.networks import WeightsError, import_transformers
from looktwice.specialists.networks.checkpoints import load_weights, read_tensors

HEADS = 8  # of the mask decoder: in no shape of a checkpoint, and the same in every release
OURS: tuple[tuple[str, str], ...] = (
    (r"^image_encoder\.", "vision_encoder."),
    (r"\.blocks\.", ".layers."),
    (r"\.patch_embed\.proj\.", ".patch_embed.projection."),
    (r"\.neck\.0\.", ".neck.conv1."),
    (r"\.neck\.1\.", ".neck.layer_norm1."),
    (r"\.neck\.2\.", ".neck.conv2."),
    (r"\.neck\.3\.", ".neck.layer_norm2."),
    (r"\.norm(\d|_final)", r".layer_norm\1"),
    (r"\.pe_layer\.positional_encoding_gaussian_matrix$", ".shared_embedding.positional_embedding"),
    (r"\.point_embeddings\.", ".point_embed."),
    (r"\.mask_downscaling\.0\.", ".mask_embed.conv1."),
    (r"\.mask_downscaling\.1\.", ".mask_embed.layer_norm1."),
    (r"\.mask_downscaling\.3\.", ".mask_embed.conv2."),
    (r"\.mask_downscaling\.4\.", ".mask_embed.layer_norm2."),
    (r"\.mask_downscaling\.6\.", ".mask_embed.conv3."),
    (r"\.output_upscaling\.0\.", ".upscale_conv1."),
    (r"\.output_upscaling\.1\.", ".upscale_layer_norm."),
    (r"\.output_upscaling\.3\.", ".upscale_conv2."),
)
"""Pieces of an original name -> of transformers' name; perceptrons are renamed by their depth."""
PERCEPTRON = re.compile(r"(.*\.(?:iou_prediction_head|output_hypernetworks_mlps\.\d+))\.layers\.(\d+)\.(.*)")
SHARED = "prompt_encoder.shared_embedding.positional_embedding"


def open_original(path: str | Path) -> Any:
    """`SamModel` with the weights of a `segment_anything` file (`sam_vit_b_01ec64.pth` ...), in evaluation mode.

    Its sizes are read from the shapes, so pruned or tiny networks of the same build open too. Raises WeightsError.
    """
    transformers = import_transformers()
    tensors = read_tensors(path)
    try:
        settings = _settings(tensors)
    except (KeyError, AttributeError, IndexError, ZeroDivisionError, StopIteration) as exc:
        raise WeightsError(
            f"{path} is no checkpoint of segment_anything ({exc} is missing); give sam_vit_b, sam_vit_l or sam_vit_h, "
            "or a folder or id of transformers"
        ) from exc
    network = transformers.SamModel(transformers.SamConfig(**settings))
    return load_weights(network, convert_names(tensors), path)


def convert_names(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Original tensors under the names of transformers' `SamModel`."""
    depth = 1 + max((int(found[2]) for name in tensors if (found := PERCEPTRON.match(name))), default=0)
    ours = {_convert_name(name, depth): each for name, each in tensors.items() if not name.startswith("pixel_")}
    if SHARED in ours:
        ours["shared_image_embedding.positional_embedding"] = ours[SHARED]
    return ours


def _convert_name(name: str, depth: int) -> str:
    if found := PERCEPTRON.match(name):
        place = int(found[2])
        layer = {0: "proj_in", depth - 1: "proj_out"}.get(place, f"layers.{place - 1}")
        return f"{found[1]}.{layer}.{found[3]}"
    for theirs, ours in OURS:
        name = re.sub(theirs, ours, name)
    return name


def _settings(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration that these shapes belong to. Raises KeyError with a name that is missing."""
    size, patch = tensors["image_encoder.pos_embed"].shape[1], tensors["image_encoder.patch_embed.proj.weight"].shape[2]
    width, hidden = tensors["image_encoder.neck.0.weight"].shape[:2]
    image = {"image_size": size * patch, "patch_size": patch}
    vision = image | _encoder(tensors, size, hidden) | {"output_channels": width}
    vision |= {"num_pos_feats": tensors["prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"].shape[1]}
    prompts = image | {
        "image_embedding_size": size,
        "hidden_size": width,
        "mask_input_channels": tensors["prompt_encoder.mask_downscaling.3.weight"].shape[0],
    }
    return {"vision_config": vision, "prompt_encoder_config": prompts, "mask_decoder_config": _decoder(tensors, width)}


def _encoder(tensors: Mapping[str, Any], size: int, hidden: int) -> dict[str, Any]:
    blocks = _count(tensors, r"image_encoder\.blocks\.(\d+)\.")
    reach = [tensors[f"image_encoder.blocks.{n}.attn.rel_pos_h"].shape for n in range(blocks)]
    whole = [n for n, (rows, _) in enumerate(reach) if rows == 2 * size - 1]
    window = next((rows for n, (rows, _) in enumerate(reach) if n not in whole), 2 * 14 - 1)
    return {
        "hidden_size": hidden,
        "num_hidden_layers": blocks,
        "num_attention_heads": hidden // reach[0][1],
        "mlp_dim": tensors["image_encoder.blocks.0.mlp.lin1.weight"].shape[0],
        "window_size": (window + 1) // 2,
        "global_attn_indexes": whole,
    }


def _decoder(tensors: Mapping[str, Any], width: int) -> dict[str, Any]:
    within = tensors["mask_decoder.transformer.layers.0.cross_attn_token_to_image.q_proj.weight"].shape[0]
    return {
        "hidden_size": width,
        "mlp_dim": tensors["mask_decoder.transformer.layers.0.mlp.lin1.weight"].shape[0],
        "num_hidden_layers": _count(tensors, r"mask_decoder\.transformer\.layers\.(\d+)\."),
        "num_attention_heads": HEADS,
        "attention_downsample_rate": width // within,
        "num_multimask_outputs": tensors["mask_decoder.mask_tokens.weight"].shape[0] - 1,
        "iou_head_depth": _count(tensors, r"mask_decoder\.iou_prediction_head\.layers\.(\d+)\."),
        "iou_head_hidden_dim": tensors["mask_decoder.iou_prediction_head.layers.0.weight"].shape[0],
    }


def _count(tensors: Mapping[str, Any], pattern: str) -> int:
    return len({found[1] for name in tensors if (found := re.match(pattern, name))})

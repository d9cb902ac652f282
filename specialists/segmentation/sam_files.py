"""Original checkpoints of Segment Anything, SAM-HQ, SAM 2 and 2.1, converted for Hugging Face
transformers."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from looktwice.pipelines.runtime.networks import WeightsError, import_torch, import_transformers
from looktwice.specialists.networks.checkpoints import Rules, count, open_converted, rename

if TYPE_CHECKING:
    pass

HEADS = 8  # of the mask decoder: in no shape of a checkpoint, and the same in every release
DECODER_NAMES: Rules = (
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
"""What versions 1 and 2 share; perceptrons are renamed by their depth, before."""
NAMES: Rules = (
    (r"^image_encoder\.", "vision_encoder."),
    (r"\.blocks\.", ".layers."),
    (r"\.patch_embed\.proj\.", ".patch_embed.projection."),
    (r"\.neck\.0\.", ".neck.conv1."),
    (r"\.neck\.1\.", ".neck.layer_norm1."),
    (r"\.neck\.2\.", ".neck.conv2."),
    (r"\.neck\.3\.", ".neck.layer_norm2."),
    *DECODER_NAMES,
    (r"\.hf_token\.", ".hq_token."),
    (r"\.hf_mlp\.", ".hq_mask_mlp."),
    (r"\.compress_vit_feat\.0\.", ".compress_vit_conv1."),
    (r"\.compress_vit_feat\.1\.", ".compress_vit_norm."),
    (r"\.compress_vit_feat\.3\.", ".compress_vit_conv2."),
    (r"\.embedding_encoder\.0\.", ".encoder_conv1."),
    (r"\.embedding_encoder\.1\.", ".encoder_norm."),
    (r"\.embedding_encoder\.3\.", ".encoder_conv2."),
    (r"\.embedding_maskfeature\.0\.", ".mask_conv1."),
    (r"\.embedding_maskfeature\.1\.", ".mask_norm."),
    (r"\.embedding_maskfeature\.3\.", ".mask_conv2."),
)
PERCEPTRON = re.compile(
    r"(.*\.(?:\w+_head|hf_mlp|output_hypernetworks_mlps\.\d+))\.layers\.(\d+)\.(.*)"
)
SHARED = "prompt_encoder.shared_embedding.positional_embedding"


def open_sam1(path: str, tensors: Mapping[str, Any]) -> Any:
    """`SamModel` or `SamHQModel` with these tensors of a file such as `sam_vit_b_01ec64.pth`, in
    evaluation mode.

    Its sizes are read from the shapes, so pruned or tiny networks of the same build open too.
    Raises WeightsError.
    """
    transformers = import_transformers()
    settings = _settings(tensors)
    kind = "SamHQ" if "mask_decoder.hf_token.weight" in tensors else "Sam"
    if kind == "SamHQ":
        settings["mask_decoder_config"]["vit_dim"] = settings["vision_config"]["hidden_size"]
    config = getattr(transformers, f"{kind}Config")(**settings)
    named = {name: tensor for name, tensor in tensors.items() if not name.startswith("pixel_")}
    named = rename(name_perceptrons(named), NAMES)
    named["shared_image_embedding.positional_embedding"] = named[SHARED]
    return open_converted(f"{kind}Model", config, named, path)


def fix_sam_hq(network: Any) -> None:
    """Let an opened SAM-HQ of Hugging Face transformers draw masks from what its decoder has made
    of the image.

    Its code (5.23) draws them from the image as it went in, with rows and columns exchanged.
    """
    seen = threading.local()
    decoder = network.mask_decoder

    def keep(_: Any, __: Any, output: Any) -> None:
        seen.image = output[1]  # (images, prompts, places, channels)

    def give(_: Any, given: Any) -> Any:
        return (seen.image.transpose(2, 3).reshape(given[0].shape),)

    decoder.transformer.register_forward_hook(keep)
    decoder.upscale_conv1.register_forward_pre_hook(give)


def name_perceptrons(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors, with the layers of perceptrons named as transformers does: the first, those
    between, the last."""
    matches = {name: PERCEPTRON.match(name) for name in tensors}
    depth: dict[str, int] = {}
    for match in matches.values():
        if match:
            depth[match[1]] = max(depth.get(match[1], 0), int(match[2]))
    return {
        _layer(match, depth) if (match := matches[name]) else name: tensor
        for name, tensor in tensors.items()
    }


def _layer(match: re.Match[str], depth: Mapping[str, int]) -> str:
    place = int(match[2])
    layer = {0: "proj_in", depth[match[1]]: "proj_out"}.get(place, f"layers.{place - 1}")
    return f"{match[1]}.{layer}.{match[3]}"


def _settings(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration that these shapes belong to. Raises KeyError with a name that is
    missing."""
    size, patch = (
        tensors["image_encoder.pos_embed"].shape[1],
        tensors["image_encoder.patch_embed.proj.weight"].shape[2],
    )
    width, hidden = tensors["image_encoder.neck.0.weight"].shape[:2]
    image = {"image_size": size * patch, "patch_size": patch}
    vision = image | _encoder(tensors, size, hidden) | {"output_channels": width}
    vision |= {
        "num_pos_feats": (
            tensors["prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"].shape[1]
        )
    }
    prompts = image | {
        "image_embedding_size": size,
        "hidden_size": width,
        "mask_input_channels": tensors["prompt_encoder.mask_downscaling.3.weight"].shape[0],
    }
    decoder = decoder_settings(tensors, width, "mask_decoder", "lin1")
    decoder["layer_norm_eps"] = 1e-5  # of the decoder's transformer, as torch has it
    return {
        "vision_config": vision,
        "prompt_encoder_config": prompts,
        "mask_decoder_config": decoder,
    }


def _encoder(tensors: Mapping[str, Any], size: int, hidden: int) -> dict[str, Any]:
    blocks = count(tensors, r"image_encoder\.blocks\.(\d+)\.")
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


def decoder_settings(
    tensors: Mapping[str, Any], width: int, decoder: str, mlp: str
) -> dict[str, Any]:
    """The configuration of a mask decoder: `decoder` is its name in the file, `mlp` that of a
    layer's first weights."""
    first = f"{decoder}.transformer.layers.0."
    within = tensors[f"{first}cross_attn_token_to_image.q_proj.weight"].shape[0]
    return {
        "hidden_size": width,
        "mlp_dim": tensors[f"{first}mlp.{mlp}.weight"].shape[0],
        "num_hidden_layers": count(tensors, rf"{decoder}\.transformer\.layers\.(\d+)\."),
        "num_attention_heads": HEADS,
        "attention_downsample_rate": width // within,
        "num_multimask_outputs": tensors[f"{decoder}.mask_tokens.weight"].shape[0] - 1,
        "iou_head_depth": count(tensors, rf"{decoder}\.iou_prediction_head\.layers\.(\d+)\."),
        "iou_head_hidden_dim": tensors[f"{decoder}.iou_prediction_head.layers.0.weight"].shape[0],
    }


SIDE = 1024  # pixels of the square that every release looks at


class Hiera(NamedTuple):
    """What is in no shape of a file: heads at the first stage, windows by stage, and the blocks
    that see everything."""

    heads: int
    windows: tuple[int, ...]
    everywhere: tuple[int, ...]


RELEASES = {  # by blocks in each stage: tiny, small, base plus, large
    (1, 2, 7, 2): Hiera(1, (8, 4, 14, 7), (5, 7, 9)),
    (1, 2, 11, 2): Hiera(1, (8, 4, 14, 7), (7, 10, 13)),
    (2, 3, 16, 3): Hiera(2, (8, 4, 14, 7), (12, 16, 20)),
    (2, 6, 36, 4): Hiera(2, (8, 4, 16, 8), (23, 33, 43)),
}
# the rest is for video
KEPT = re.compile(r"image_encoder\.|sam_prompt_encoder\.|sam_mask_decoder\.|no_mem_embed$")
POINTS = "sam_prompt_encoder.point_embeddings."
NAMES_2: Rules = (
    (r"^sam_(prompt_encoder|mask_decoder)\.", r"\1."),
    (r"^image_encoder\.trunk\.", "vision_encoder.backbone."),
    (r"^image_encoder\.neck\.convs\.(\d)\.conv\.", r"vision_encoder.neck.convs.\1."),
    (r"^no_mem_embed$", "no_memory_embedding"),
    (r"\.patch_embed\.proj\.", ".patch_embed.projection."),
    (r"\.mlp\.layers\.0\.", ".mlp.proj_in."),
    (r"\.mlp\.layers\.1\.", ".mlp.proj_out."),
    (r"\.out_proj\.", ".o_proj."),
    *DECODER_NAMES,
)


def open_sam2(path: str, tensors: Mapping[str, Any]) -> Any:
    """`Sam2Model` with these tensors of a file such as `sam2.1_hiera_tiny.pt`. Raises
    WeightsError."""
    transformers = import_transformers()
    kept = {name: tensor for name, tensor in tensors.items() if KEPT.match(name)}
    points = [kept.pop(name) for name in sorted(kept) if name.startswith(POINTS)]
    named = rename(name_perceptrons(kept), NAMES_2)
    named["prompt_encoder.point_embed.weight"] = import_torch().cat(points)
    named["shared_image_embedding.positional_embedding"] = named[
        "prompt_encoder.shared_embedding.positional_embedding"
    ]
    width = tensors["no_mem_embed"].shape[-1]
    config = transformers.Sam2Config(
        vision_config=_vision(path, tensors, width),
        prompt_encoder_config={
            "hidden_size": width,
            "image_size": SIDE,
            "patch_size": 16,
            "mask_input_channels": tensors["sam_prompt_encoder.mask_downscaling.3.weight"].shape[0],
        },
        mask_decoder_config=decoder_settings(tensors, width, "sam_mask_decoder", "layers.0"),
    )
    return open_converted("Sam2Model", config, named, path)


def _vision(path: str, tensors: Mapping[str, Any], width: int) -> dict[str, Any]:
    blocks = count(tensors, r"image_encoder\.trunk\.blocks\.(\d+)\.")
    wide = [
        tensors[f"image_encoder.trunk.blocks.{n}.mlp.layers.1.bias"].shape[0] for n in range(blocks)
    ]
    stages = sorted(set(wide))
    depth = tuple(wide.count(stage) for stage in stages)
    if depth not in RELEASES:
        raise WeightsError(
            f"{path} is a SAM 2 with {depth} blocks in its stages, which no release has; give the"
            " file of a release, or an id or folder of transformers"
        )
    release, trunk = RELEASES[depth], "image_encoder.trunk."
    backbone = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": stages[0],
        "num_attention_heads": release.heads,
        "image_size": [SIDE, SIDE],
        "blocks_per_stage": list(depth),
        "embed_dim_per_stage": stages,
        "num_attention_heads_per_stage": [release.heads * 2**n for n in range(len(depth))],
        "window_size_per_stage": list(release.windows),
        "global_attention_blocks": list(release.everywhere),
        "window_positional_embedding_background_size": list(tensors[f"{trunk}pos_embed"].shape[2:]),
    }
    return {
        "model_type": "sam2_vision_model",
        "backbone_config": backbone,
        "backbone_channel_list": stages[::-1],
        "backbone_feature_sizes": [[SIDE // step, SIDE // step] for step in (4, 8, 16)],
        "fpn_hidden_size": width,
    }

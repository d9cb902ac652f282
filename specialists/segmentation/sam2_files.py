"""Original checkpoints of SAM 2 and 2.1, converted for Hugging Face transformers: what still images need of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from looktwice.pipelines.runtime.networks import WeightsError, import_torch, import_transformers
from looktwice.specialists.networks.conversion import Rules, count, open_converted, rename
from looktwice.specialists.segmentation.sam_files import DECODER_NAMES, decoder_settings, name_perceptrons

SIDE = 1024  # pixels of the square that every release looks at


class Hiera(NamedTuple):
    """What is in no shape of a file: heads at the first stage, windows by stage, and the blocks that see everything."""

    heads: int
    windows: tuple[int, ...]
    everywhere: tuple[int, ...]


RELEASES = {  # by blocks in each stage: tiny, small, base plus, large
    (1, 2, 7, 2): Hiera(1, (8, 4, 14, 7), (5, 7, 9)),
    (1, 2, 11, 2): Hiera(1, (8, 4, 14, 7), (7, 10, 13)),
    (2, 3, 16, 3): Hiera(2, (8, 4, 14, 7), (12, 16, 20)),
    (2, 6, 36, 4): Hiera(2, (8, 4, 16, 8), (23, 33, 43)),
}
KEPT = re.compile(r"image_encoder\.|sam_prompt_encoder\.|sam_mask_decoder\.|no_mem_embed$")  # the rest is for video
POINTS = "sam_prompt_encoder.point_embeddings."
NAMES: Rules = (
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
    """`Sam2Model` with these tensors of a file such as `sam2.1_hiera_tiny.pt`. Raises WeightsError."""
    transformers = import_transformers()
    kept = {name: each for name, each in tensors.items() if KEPT.match(name)}
    points = [kept.pop(name) for name in sorted(kept) if name.startswith(POINTS)]
    named = rename(name_perceptrons(kept), NAMES)
    named["prompt_encoder.point_embed.weight"] = import_torch().cat(points)
    named["shared_image_embedding.positional_embedding"] = named["prompt_encoder.shared_embedding.positional_embedding"]
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
    wide = [tensors[f"image_encoder.trunk.blocks.{n}.mlp.layers.1.bias"].shape[0] for n in range(blocks)]
    stages = sorted(set(wide))
    depth = tuple(wide.count(each) for each in stages)
    if depth not in RELEASES:
        raise WeightsError(
            f"{path} is a SAM 2 with {depth} blocks in its stages, which no release has; give the file of a release, "
            "or an id or folder of transformers"
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

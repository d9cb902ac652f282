"""Segment Anything with a handful of weights: both versions, a video network, and an original
checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tiny_networks import seeded

DECODER = {"hidden_size": 32, "mlp_dim": 48, "num_attention_heads": 8, "iou_head_hidden_dim": 24}
PROMPTS = {"hidden_size": 32, "image_size": 64, "patch_size": 8, "mask_input_channels": 8}
VISION = {
    "hidden_size": 32,
    "output_channels": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "image_size": 64,
    "patch_size": 8,
    "num_pos_feats": 16,
    "window_size": 5,
    "global_attn_indexes": [1],
    "mlp_dim": 40,
}
MEMORY = {
    "memory_attention_hidden_size": 32,
    "memory_attention_num_layers": 1,
    "memory_encoder_hidden_size": 32,
    "memory_attention_feed_forward_hidden_size": 32,
    "memory_attention_rope_feat_sizes": [4, 4],
    "memory_encoder_output_channels": 8,
    "mask_downsampler_embed_dim": 32,
    "memory_fuser_embed_dim": 32,
    "memory_fuser_intermediate_dim": 32,
}
TO_ORIGINAL = (  # pieces of transformers' names -> of segment_anything's
    ("shared_embedding.positional_embedding", "pe_layer.positional_encoding_gaussian_matrix"),
    ("patch_embed.projection", "patch_embed.proj"),
    ("neck.conv1", "neck.0"),
    ("neck.layer_norm1", "neck.1"),
    ("neck.conv2", "neck.2"),
    ("neck.layer_norm2", "neck.3"),
    (".point_embed.", ".point_embeddings."),
    ("mask_embed.conv1", "mask_downscaling.0"),
    ("mask_embed.layer_norm1", "mask_downscaling.1"),
    ("mask_embed.conv2", "mask_downscaling.3"),
    ("mask_embed.layer_norm2", "mask_downscaling.4"),
    ("mask_embed.conv3", "mask_downscaling.6"),
    ("upscale_conv1", "output_upscaling.0"),
    ("upscale_layer_norm", "output_upscaling.1"),
    ("upscale_conv2", "output_upscaling.3"),
    ("layer_norm", "norm"),
)


def sam(folder: Path) -> Path:
    """SAM over a three-layer vision transformer, the second of whose layers looks at the whole
    image."""
    _sam().save_pretrained(folder)
    return folder


def sam_hq(folder: Path) -> Path:
    """SAM-HQ over the same transformer, of which its decoder also looks at an early layer."""
    from transformers import SamHQConfig, SamHQModel

    seeded()
    settings = {"prompt_encoder_config": PROMPTS, "mask_decoder_config": DECODER | {"vit_dim": 32}}
    lively(SamHQModel(SamHQConfig(vision_config=VISION, **settings))).save_pretrained(folder)
    return folder


def sam2(folder: Path) -> Path:
    """SAM 2 over a six-layer Hiera."""
    from transformers import Sam2Config, Sam2Model

    _save(Sam2Model, Sam2Config, folder)
    return folder


def sam2_video(folder: Path) -> Path:
    """The same as the networks of SAM 2 are published: with a memory for video, which images do not
    need."""
    from transformers import Sam2VideoConfig, Sam2VideoModel

    _save(Sam2VideoModel, Sam2VideoConfig, folder, **MEMORY, image_size=64)
    return folder


def original(path: Path) -> Path:
    """The tiny SAM as a checkpoint of segment_anything, under its own names."""
    import torch

    held = {
        _theirs(name): each
        for name, each in _sam().state_dict().items()
        if "shared_image" not in name
    }
    held |= {"pixel_mean": torch.zeros(3, 1, 1), "pixel_std": torch.ones(3, 1, 1)}
    torch.save(held, path)
    return path


def _theirs(name: str) -> str:
    for ours, theirs in TO_ORIGINAL:
        name = name.replace(ours, theirs)
    if name.startswith("vision_encoder"):
        name = name.replace("vision_encoder", "image_encoder").replace(".layers.", ".blocks.")
    if "iou_prediction_head" in name or "hypernetworks" in name:
        name = name.replace(".layers.0.", ".layers.1.")
    return name.replace("proj_in", "layers.0").replace("proj_out", "layers.2")


def _sam() -> Any:
    from transformers import SamConfig, SamModel

    seeded()
    prompts = PROMPTS | {"image_embedding_size": 8}
    decoder = DECODER | {"layer_norm_eps": 1e-5}  # as the authors have it
    network = SamModel(
        SamConfig(vision_config=VISION, prompt_encoder_config=prompts, mask_decoder_config=decoder)
    )
    return lively(network)


def _save(network: Any, config: Any, folder: Path, **more: Any) -> None:
    seeded()
    backbone = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": 8,
        "num_attention_heads": 1,
        "image_size": [64, 64],
        "blocks_per_stage": [1, 2, 2, 1],
        "embed_dim_per_stage": [8, 16, 32, 64],
        "num_attention_heads_per_stage": [1, 1, 2, 2],
        "window_size_per_stage": [4, 2, 2, 2],
        "global_attention_blocks": [4],
    }
    vision = {
        "model_type": "sam2_vision_model",
        "backbone_config": backbone,
        "backbone_channel_list": [64, 32, 16, 8],
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
        "fpn_hidden_size": 32,
    }
    prompts = PROMPTS | {"patch_size": 16}
    settings = {
        "vision_config": vision,
        "prompt_encoder_config": prompts,
        "mask_decoder_config": DECODER,
    }
    lively(network(config(**settings, **more))).save_pretrained(folder)


def lively(network: Any, std: float = 0.3, but: str = "none") -> Any:
    """With weights so large that the masks differ from one another and from place to place."""
    import torch

    with torch.no_grad():
        for name, tensor in network.named_parameters():
            if tensor.dim() > 1 or (name.endswith("bias") and but not in name):
                tensor.normal_(std=std)
    return network.eval()

"""Depth networks of transformers with a handful of weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tiny_networks import INNER, save

NECK = {"neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16}


def depth_anything(folder: Path, kind: str = "relative", layers: int = 8) -> Path:
    """Depth Anything over a DINOv2 of 8 layers, of which it reads every second, as version 2; 4 are
    version 1's."""
    from transformers import Dinov2Config

    backbone = Dinov2Config(
        **INNER | {"num_hidden_layers": layers, "intermediate_size": 64},
        image_size=70,
        patch_size=14,
        out_features=[f"stage{n * layers // 4}" for n in (1, 2, 3, 4)],
        reshape_hidden_states=False,
        apply_layernorm=True,
        initializer_range=0.2,
    )
    sizes = NECK | {"backbone_config": backbone, "reassemble_hidden_size": 32, "patch_size": 14}
    sizes |= {"head_hidden_size": 8, "depth_estimation_type": kind, "initializer_range": 0.1}
    takes: dict[str, Any] = {"keep_aspect_ratio": True, "ensure_multiple_of": 14, "do_pad": False}
    takes |= {"size": {"height": 70, "width": 70}}
    return save(folder, "DepthAnything", "ForDepthEstimation", sizes, "DPT", takes)


def depth_anything_1(folder: Path) -> Path:
    """Depth Anything, version 1."""
    return depth_anything(folder, layers=4)


def depth_anything_metric(folder: Path) -> Path:
    """Depth Anything that gives metres."""
    return depth_anything(folder, "metric")


def dpt(folder: Path) -> Path:
    """DPT, of which no configuration says what its numbers mean."""
    sizes = INNER | NECK | {"num_hidden_layers": 4, "image_size": 64, "patch_size": 16}
    sizes |= {"intermediate_size": 32, "backbone_out_indices": [0, 1, 2, 3], "is_hybrid": False}
    takes = {"size": {"height": 64, "width": 64}}
    return save(folder, "DPT", "ForDepthEstimation", sizes, "DPT", takes)


def glpn(folder: Path) -> Path:
    """GLPN, a network for metric depth of another family."""
    sizes = {"depths": [1, 1, 1, 1], "sr_ratios": [8, 4, 2, 1], "decoder_hidden_size": 16}
    sizes |= {"hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 1, 2, 2]}
    return save(folder, "GLPN", "ForDepthEstimation", sizes, "GLPN")


def zoedepth(folder: Path) -> Path:
    """ZoeDepth over a four-layer BEiT; its processor pads images, and takes the padding off
    again."""
    from transformers import BeitConfig

    backbone = BeitConfig(
        **INNER | {"num_hidden_layers": 4, "intermediate_size": 37},
        image_size=64,
        patch_size=16,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        reshape_hidden_states=False,
    )
    bins = {"n_bins": 8, "min_depth": 0.001, "max_depth": 10.0, "name": "nyu"}
    sizes = NECK | {"backbone_config": backbone, "num_relative_features": 8}
    sizes |= {"bottleneck_features": 16, "num_attractors": [4, 2, 1, 1], "bin_embedding_dim": 8}
    takes = {"size": {"height": 64, "width": 64}, "ensure_multiple_of": 32}
    return save(
        folder,
        "ZoeDepth",
        "ForDepthEstimation",
        sizes | {"bin_configurations": [bins]},
        "ZoeDepth",
        takes | {"keep_aspect_ratio": True},
    )


def depth_pro(folder: Path) -> Path:
    """Depth Pro over three two-layer encoders; its processor exists for torchvision alone."""
    model = INNER | {"model_type": "dinov2", "hidden_size": 16, "num_attention_heads": 1}
    model |= {"patch_size": 4, "image_size": 32, "intermediate_size": 32}
    sizes = {"patch_size": 32, "fusion_hidden_size": 16, "intermediate_feature_dims": [16, 16]}
    sizes |= {"intermediate_hook_ids": [1, 0], "scaled_images_feature_dims": [16, 16]}
    sizes |= {"scaled_images_ratios": [0.5, 1.0], "scaled_images_overlap_ratios": [0.0, 0.2]}
    sizes |= {f"{part}_model_config": model for part in ("image", "patch", "fov")}
    save(folder, "DepthPro", "ForDepthEstimation", sizes | {"use_fov_model": True})
    (folder / "preprocessor_config.json").write_text(
        '{"image_processor_type": "DepthProImageProcessor", "size": {"height": 64, "width": 64}}'
    )
    return folder

"""Networks that the documents list beside Depth Anything and DINOv2, with a handful of weights."""

from __future__ import annotations

from pathlib import Path

from tests.tiny_networks import seeded


def zoedepth(folder: Path) -> Path:
    """ZoeDepth over a four-layer BEiT; its processor pads images, and takes the padding off
    again."""
    from transformers import (
        BeitConfig,
        ZoeDepthConfig,
        ZoeDepthForDepthEstimation,
        ZoeDepthImageProcessorPil,
    )

    seeded()
    backbone = BeitConfig(
        image_size=64,
        patch_size=16,
        num_hidden_layers=4,
        hidden_size=32,
        intermediate_size=37,
        num_attention_heads=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        reshape_hidden_states=False,
    )
    config = ZoeDepthConfig(
        backbone_config=backbone,
        num_relative_features=8,
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16,
        bottleneck_features=16,
        num_attractors=[4, 2, 1, 1],
        bin_embedding_dim=8,
        bin_configurations=[{"n_bins": 8, "min_depth": 0.001, "max_depth": 10.0, "name": "nyu"}],
    )
    ZoeDepthForDepthEstimation(config).save_pretrained(folder)
    size = {"height": 64, "width": 64}
    ZoeDepthImageProcessorPil(
        size=size, ensure_multiple_of=32, keep_aspect_ratio=True
    ).save_pretrained(folder)
    return folder


def depth_pro(folder: Path) -> Path:
    """Depth Pro over three two-layer encoders; its processor exists for torchvision alone."""
    from transformers import DepthProConfig, DepthProForDepthEstimation

    seeded()
    model = {
        "model_type": "dinov2",
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "num_attention_heads": 1,
        "patch_size": 4,
        "image_size": 32,
        "intermediate_size": 32,
    }
    config = DepthProConfig(
        patch_size=32,
        fusion_hidden_size=16,
        intermediate_feature_dims=[16, 16],
        intermediate_hook_ids=[1, 0],
        scaled_images_ratios=[0.5, 1.0],
        scaled_images_overlap_ratios=[0.0, 0.2],
        scaled_images_feature_dims=[16, 16],
        image_model_config=model,
        patch_model_config=model,
        fov_model_config=model,
        use_fov_model=True,
    )
    DepthProForDepthEstimation(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        '{"image_processor_type": "DepthProImageProcessor", "size": {"height": 64, "width": 64}}'
    )
    return folder


def dinov3(folder: Path) -> Path:
    """DINOv3 of two layers with registers; its published processor exists for torchvision alone."""
    from transformers import DINOv3ViTConfig, DINOv3ViTModel

    seeded()
    config = DINOv3ViTConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        patch_size=16,
        num_register_tokens=4,
        image_size=64,
    )
    DINOv3ViTModel(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        '{"image_processor_type": "DINOv3ViTImageProcessorFast", "image_mean": [0.485, 0.456,'
        ' 0.406], "image_std": [0.229, 0.224, 0.225], "size": {"height": 64, "width": 64}}'
    )
    return folder


def siglip2_naflex(folder: Path) -> Path:
    """SigLIP 2 in its NaFlex variant, which takes patches of any proportions."""
    from transformers import Siglip2ImageProcessorPil, Siglip2VisionConfig, Siglip2VisionModel

    seeded()
    config = Siglip2VisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        patch_size=16,
        num_patches=16,
    )
    Siglip2VisionModel(config).save_pretrained(folder)
    Siglip2ImageProcessorPil(patch_size=16, max_num_patches=64).save_pretrained(folder)
    return folder

"""Vision backbones of transformers with a handful of weights, each with a processor that tells mean
and deviation."""

from __future__ import annotations

from pathlib import Path

from tests.tiny_networks import INNER, save

SMALL = INNER | {"intermediate_size": 64, "image_size": 64, "patch_size": 16}
TEXT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 99}
TEXT |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def vit(folder: Path) -> Path:
    """ViT of two layers."""
    return save(folder, "ViT", "Model", SMALL, "ViT")


def clip(folder: Path) -> Path:
    """CLIP of two layers, with its part for text, as it is published."""
    parts = {"vision_config": SMALL, "text_config": TEXT, "projection_dim": 16}
    return save(folder, "CLIP", "Model", parts, "CLIP")


def siglip(folder: Path) -> Path:
    """SigLIP of two layers, with its part for text, as it is published."""
    return save(folder, "Siglip", "Model", {"vision_config": SMALL, "text_config": TEXT}, "Siglip")


def resnet(folder: Path) -> Path:
    """ResNet of one block a stage, a map for each 32 x 32 pixels."""
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 32], "depths": [1, 1, 1, 1]}
    return save(folder, "ResNet", "Model", sizes | {"layer_type": "basic"}, "ConvNext")


def dinov2(folder: Path) -> Path:
    """DINOv2 of two layers with patches of 14 pixels."""
    sizes = INNER | {"image_size": 70, "patch_size": 14}
    return save(folder, "Dinov2", "Model", sizes, "Bit")


def convnext(folder: Path) -> Path:
    """ConvNeXt of one block a stage, a map for each 32 x 32 pixels."""
    sizes = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
    return save(folder, "ConvNext", "Model", sizes, "ConvNext")


def dinov3(folder: Path) -> Path:
    """DINOv3 of two layers with registers; its published processor exists for torchvision alone."""
    save(folder, "DINOv3ViT", "Model", SMALL | {"num_register_tokens": 4})
    (folder / "preprocessor_config.json").write_text(
        '{"image_processor_type": "DINOv3ViTImageProcessorFast", "image_mean": [0.485, 0.456,'
        ' 0.406], "image_std": [0.229, 0.224, 0.225], "size": {"height": 64, "width": 64}}'
    )
    return folder


def siglip2_naflex(folder: Path) -> Path:
    """SigLIP 2 in its NaFlex variant, which takes patches of any proportions."""
    sizes = INNER | {"intermediate_size": 64, "patch_size": 16, "num_patches": 16}
    takes = {"patch_size": 16, "max_num_patches": 64}
    return save(folder, "Siglip2Vision", "Model", sizes, "Siglip2", takes)

"""Vision backbones of transformers with a handful of weights, each with a processor that tells mean
and deviation."""

from __future__ import annotations

from pathlib import Path

from tests.tiny_networks import seeded

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 64,
    "patch_size": 16,
}
TEXT = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 99,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def vit(folder: Path) -> Path:
    """ViT of two layers."""
    from transformers import ViTConfig, ViTImageProcessorPil, ViTModel

    seeded()
    ViTModel(ViTConfig(**SMALL)).save_pretrained(folder)
    ViTImageProcessorPil().save_pretrained(folder)
    return folder


def clip(folder: Path) -> Path:
    """CLIP of two layers, with its part for text, as it is published."""
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel

    seeded()
    CLIPModel(CLIPConfig(vision_config=SMALL, text_config=TEXT, projection_dim=16)).save_pretrained(
        folder
    )
    CLIPImageProcessorPil().save_pretrained(folder)
    return folder


def siglip(folder: Path) -> Path:
    """SigLIP of two layers, with its part for text, as it is published."""
    from transformers import SiglipConfig, SiglipImageProcessorPil, SiglipModel

    seeded()
    SiglipModel(SiglipConfig(vision_config=SMALL, text_config=TEXT)).save_pretrained(folder)
    SiglipImageProcessorPil().save_pretrained(folder)
    return folder


def resnet(folder: Path) -> Path:
    """ResNet of one block a stage, a map for each 32 x 32 pixels."""
    from transformers import ConvNextImageProcessorPil, ResNetConfig, ResNetModel

    seeded()
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 32], depths=[1, 1, 1, 1], layer_type="basic"
    )
    ResNetModel(config).save_pretrained(folder)
    ConvNextImageProcessorPil().save_pretrained(folder)
    return folder

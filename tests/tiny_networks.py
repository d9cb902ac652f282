"""Networks of transformers with a handful of weights, built from their configurations and saved to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def words(folder: Path, vocabulary: str = "a cat dog red box mug . the") -> Any:
    """A BERT tokenizer that knows these words."""
    from transformers import BertTokenizer

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", *vocabulary.split()]
    return BertTokenizer(vocab={token: number for number, token in enumerate(dict.fromkeys(tokens))})


def seeded() -> None:
    """The same weights at every build."""
    import torch

    torch.manual_seed(0)


def depth_anything(folder: Path) -> Path:
    """Depth Anything over a two-layer DINOv2."""
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config, DPTImageProcessorPil

    seeded()
    backbone = Dinov2Config(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=64, image_size=70, patch_size=14,
        out_features=["stage1", "stage2", "stage3", "stage4"], reshape_hidden_states=False, apply_layernorm=True,
    )  # fmt: skip
    config = DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=32, patch_size=14, neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16, head_hidden_size=8,
    )  # fmt: skip
    DepthAnythingForDepthEstimation(config).save_pretrained(folder)
    size = {"height": 70, "width": 70}
    DPTImageProcessorPil(size=size, keep_aspect_ratio=True, ensure_multiple_of=14, do_pad=False).save_pretrained(folder)
    return folder


def grounding_dino(folder: Path) -> Path:
    """Grounding DINO over a small Swin and a two-layer BERT."""
    from transformers import (
        BertConfig,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        GroundingDinoImageProcessorPil,
        GroundingDinoProcessor,
        SwinConfig,
    )

    seeded()
    tokenizer = words(folder)
    backbone = SwinConfig(
        image_size=64, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[2, 2, 2, 2], window_size=4,
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    text = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64,
    )  # fmt: skip
    config = GroundingDinoConfig(
        backbone_config=backbone, text_config=text, d_model=32, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=12,
        max_text_len=32,
    )  # fmt: skip
    GroundingDinoForObjectDetection(config).eval().save_pretrained(folder)
    images = GroundingDinoImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 96})
    GroundingDinoProcessor(images, tokenizer).save_pretrained(folder)
    return folder

"""Matchers and feature networks with few or random weights, built from their configurations and
saved to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tiny_backbones import convnext as convnext, dinov2 as dinov2
from tests.tiny_networks import save, seeded

SIZE = {"height": 96, "width": 128}


def _save(folder: Path, kind: str, sizes: dict[str, Any]) -> Path:
    return save(folder, kind, "ForKeypointMatching", sizes, kind, {"size": SIZE})


def efficient_loftr(folder: Path) -> Path:
    """EfficientLoFTR of one block a stage, which keeps every mutual match."""
    sizes = {"stage_num_blocks": [1, 1, 1, 1], "out_features": [8, 8, 16, 32], "hidden_size": 32}
    sizes |= {"num_attention_heads": 8, "num_attention_layers": 1, "fine_matching_slice_dim": 4}
    sizes |= {"coarse_matching_threshold": 0.0, "coarse_matching_border_removal": 1}
    return _save(folder, "EfficientLoFTR", sizes | {"initializer_range": 0.5})


def _super_point() -> Any:
    from transformers import SuperPointConfig

    return SuperPointConfig(
        encoder_hidden_sizes=[8, 8, 16, 16],
        decoder_hidden_size=16,
        descriptor_decoder_dim=16,
        max_keypoints=40,
        keypoint_threshold=0.0,
        border_removal_distance=2,
    )


def light_glue(folder: Path) -> Path:
    """SuperPoint with a LightGlue of two layers, which keeps every mutual match."""
    sizes = {"keypoint_detector_config": _super_point(), "descriptor_dim": 16}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2, "filter_threshold": 0.0}
    return _save(folder, "LightGlue", sizes)


def super_glue(folder: Path) -> Path:
    """SuperPoint with a SuperGlue of two layers, which keeps every mutual match."""
    sizes = {"keypoint_detector_config": _super_point(), "hidden_size": 16}
    sizes |= {"keypoint_encoder_sizes": [8, 16], "gnn_layers_types": ["self", "cross"]}
    sizes |= {"num_attention_heads": 2, "sinkhorn_iterations": 5, "matching_threshold": 0.0}
    return _save(folder, "SuperGlue", sizes)


def stable_diffusion(folder: Path) -> Path:
    """A Stable Diffusion pipeline with a U-Net of four levels."""
    from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    seeded()
    UNet2DConditionModel(
        block_out_channels=(8, 8, 16, 16),
        layers_per_block=1,
        sample_size=16,
        cross_attention_dim=16,
        down_block_types=(*("CrossAttnDownBlock2D",) * 3, "DownBlock2D"),
        up_block_types=("UpBlock2D", *("CrossAttnUpBlock2D",) * 3),
        attention_head_dim=4,
        norm_num_groups=4,
    ).save_pretrained(folder / "unet")
    AutoencoderKL(
        block_out_channels=(4, 4, 8, 8),
        norm_num_groups=2,
        latent_channels=4,
        sample_size=128,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
    ).save_pretrained(folder / "vae")
    DDIMScheduler().save_pretrained(folder / "scheduler")
    text = CLIPTextConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=16,
        bos_token_id=0,
        eos_token_id=1,
    )
    CLIPTextModel(text).save_pretrained(folder / "text_encoder")
    _clip_words().save_pretrained(folder / "tokenizer")
    return folder


def _clip_words() -> Any:
    """CLIP's tokenizer for texts of small letters."""
    from transformers import CLIPTokenizer

    ends = [f"{letter}</w>" for letter in "abcdefghijklmnopqrstuvwxyz"]
    tokens = ["<|startoftext|>", "<|endoftext|>", *"abcdefghijklmnopqrstuvwxyz", *ends]
    return CLIPTokenizer(
        vocab={token: number for number, token in enumerate(tokens)}, merges=[], model_max_length=16
    )


def loftr(file: Path) -> Path:
    """LoFTR's own shape with random weights, as its authors save it."""
    import torch
    from kornia.feature import LoFTR

    seeded()
    torch.save(
        {"state_dict": {f"matcher.{k}": v for k, v in LoFTR(None).state_dict().items()}}, file
    )
    return file


def disk(file: Path) -> Path:
    """DISK's own shape with random weights, as its authors save it."""
    import torch
    from kornia.feature import DISK

    seeded()
    torch.save({"extractor": DISK().state_dict()}, file)
    return file


def aliked(file: Path) -> Path:
    """ALIKED's own shape with random weights, as safetensors."""
    from kornia.feature import ALIKED
    from safetensors.torch import save_file

    seeded()
    save_file(ALIKED().state_dict(), file)
    return file


def head(file: Path, features: str) -> Path:
    """LightGlue's head for these features with random weights, its layers named as in the published
    files."""
    import torch
    from kornia.feature import LightGlue

    seeded()
    tensors = LightGlue(None, **{**LightGlue.features[features], "weights": None}).state_dict()
    renamed = {}
    for name, tensor in tensors.items():
        parts = name.split(".")
        old = [parts[2], parts[1], *parts[3:]] if parts[0] == "transformers" else parts
        renamed[".".join(old)] = tensor
    torch.save(renamed, file)
    return file

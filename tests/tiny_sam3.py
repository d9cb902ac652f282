"""SAM 3 and EdgeTAM with a handful of weights, saved to a folder as their releases are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tiny_networks import seeded, words
from tests.tiny_segmenters import DECODER, MEMORY, lively

INNER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_layers": 1,
    "dropout": 0.0,
}
VISION = {
    "model_type": "sam3_vision_model",
    "fpn_hidden_size": 32,
    "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
    "backbone_config": {
        "model_type": "sam3_vit_model",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 56,
        "patch_size": 14,
        "window_size": 2,
        "global_attn_indexes": [1],
        "pretrain_image_size": 28,
    },
}
PROMPTS = {"hidden_size": 32, "image_size": 56, "patch_size": 14, "mask_input_channels": 8}


def concepts(folder: Path) -> Path:
    """SAM 3's detector of concepts, alone."""
    from transformers import Sam3Config, Sam3Model

    seeded()
    tokenizer = words(folder)
    _lively(Sam3Model(Sam3Config(**_detector(len(tokenizer))))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tracker(folder: Path) -> Path:
    """SAM 3's tracker for images, alone."""
    from transformers import Sam3TrackerConfig, Sam3TrackerModel

    seeded()
    config = Sam3TrackerConfig(
        vision_config=VISION, prompt_encoder_config=PROMPTS, mask_decoder_config=DECODER
    )
    _lively(Sam3TrackerModel(config)).save_pretrained(folder)
    return folder


def video(folder: Path) -> Path:
    """Both in one, as SAM 3 is published."""
    from safetensors.torch import save_file
    from transformers import Sam3VideoConfig, Sam3VideoModel

    seeded()
    tokenizer = words(folder)
    more = {"image_size": 56, "memory_attention_num_attention_heads": 1}
    track = {
        "model_type": "sam3_tracker_video",
        "vision_config": VISION,
        "prompt_encoder_config": PROMPTS,
    }
    config = Sam3VideoConfig(
        detector_config={"model_type": "sam3", **_detector(len(tokenizer))},
        tracker_config={**track, "mask_decoder_config": DECODER, **MEMORY, **more},
    )
    network = _lively(Sam3VideoModel(config))
    # its own way of saving would give the tracker other names than the release
    network.config.save_pretrained(folder)
    held = {name: each.clone() for name, each in network.state_dict().items()}
    save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
    return folder


def _detector(size: int) -> dict[str, Any]:
    text = {
        "model_type": "clip_text_model",
        "vocab_size": size,
        "hidden_size": 32,
        "intermediate_size": 48,
        "projection_dim": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "max_position_embeddings": 32,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    return {
        "vision_config": VISION,
        "text_config": text,
        "geometry_encoder_config": {**INNER, "roi_size": 3},
        "detr_encoder_config": INNER,
        "detr_decoder_config": {**INNER, "num_queries": 12},
        "mask_decoder_config": {
            "hidden_size": 32,
            "num_attention_heads": 4,
            "num_upsampling_stages": 2,
        },
    }


def _lively(network: Any) -> Any:
    return lively(network, 0.25, but="mask_decoder")  # else masks are whole images


def edgetam(folder: Path) -> Path:
    """EdgeTAM over four convolutions in place of its own backbone, which needs timm."""
    from transformers import EdgeTamConfig, EdgeTamModel

    seeded()
    _register_pyramid()
    vision = {
        "backbone_config": {"model_type": "tiny_pyramid"},
        "backbone_channel_list": [64, 32, 16, 8],
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
        "fpn_hidden_size": 32,
    }
    prompts = {**PROMPTS, "image_size": 64, "patch_size": 16}
    config = EdgeTamConfig(
        vision_config=vision, prompt_encoder_config=prompts, mask_decoder_config=DECODER
    )
    _lively(EdgeTamModel(config)).save_pretrained(folder)
    return folder


def _register_pyramid() -> None:
    """Tells transformers of a backbone that gives maps of a half to a sixteenth of the size, as
    timm's do."""
    from torch import nn
    from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput

    class PyramidConfig(PreTrainedConfig):  # type: ignore[misc]
        model_type = "tiny_pyramid"

    class Pyramid(PreTrainedModel):  # type: ignore[misc]
        config_class = PyramidConfig

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            sizes = zip((3, 8, 16, 32), (8, 16, 32, 64), (4, 2, 2, 2), strict=True)
            self.levels = nn.ModuleList(nn.Conv2d(a, b, step, step) for a, b, step in sizes)
            self.post_init()

        def forward(self, pixel_values: Any, **_: Any) -> Any:
            maps = [pixel_values]
            for level in self.levels:
                maps.append(level(maps[-1]))
            return BaseModelOutput(last_hidden_state=maps[1:])

    AutoConfig.register("tiny_pyramid", PyramidConfig, exist_ok=True)
    AutoModel.register(PyramidConfig, Pyramid, exist_ok=True)

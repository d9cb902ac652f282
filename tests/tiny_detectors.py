"""Detectors of fixed classes of transformers with a handful of weights, saved to a folder as their
releases are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.tiny_networks import seeded

LABELS = {0: "N/A", 1: "person", 2: "sports ball", 3: "cat", 4: "knife"}
NAMED = {"id2label": LABELS, "label2id": {label: number for number, label in LABELS.items()}}
SMALL = {
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "d_model": 32,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "num_queries": 20,
}


def _save(network: Any, folder: Path, processor: Any = None) -> Path:
    """A network whose numbers depend on the image from its first layer to its last, and its
    processor."""
    import torch

    with torch.no_grad():
        for name, weight in (*network.named_parameters(), *network.named_buffers()):
            if weight.ndim > 1 and weight.is_floating_point():  # some begin as zeros
                weight.copy_(torch.randn(weight.shape) * (2 * len(weight) / weight.numel()) ** 0.5)
            elif name.endswith("bias"):
                weight.copy_(torch.randn(weight.shape) / 4)
    network.eval().save_pretrained(folder)
    if processor is not None:
        processor.save_pretrained(folder)
    return folder


def rf_detr(folder: Path) -> Path:
    """RF-DETR over a four-layer DINOv2 in windows; as in some releases, its files name the
    processor of DETR."""
    from transformers import RfDetrConfig, RfDetrForObjectDetection

    seeded()
    backbone = {
        "model_type": "rf_detr_dinov2",
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "image_size": 64,
        "patch_size": 8,
        "num_windows": 2,
        "out_features": ["stage2", "stage4"],
    }
    config = RfDetrConfig(
        backbone_config=backbone,
        d_model=32,
        decoder_ffn_dim=32,
        decoder_layers=2,
        decoder_self_attention_heads=2,
        decoder_cross_attention_heads=2,
        decoder_n_points=2,
        num_queries=20,
        group_detr=1,
        intermediate_size=32,
        **NAMED,
    )
    _save(RfDetrForObjectDetection(config), folder)
    looks = {"size": {"height": 64, "width": 64}, "resample": 2, "rescale_factor": 1 / 255}
    looks |= {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    looks |= dict.fromkeys(("do_resize", "do_rescale", "do_normalize", "do_pad"), True)
    text = json.dumps({"image_processor_type": "DetrImageProcessor"} | looks)
    (folder / "preprocessor_config.json").write_text(text)
    return folder


def detr(folder: Path) -> Path:
    """DETR over a small ResNet."""
    from transformers import DetrConfig, DetrForObjectDetection, DetrImageProcessorPil, ResNetConfig

    seeded()
    backbone = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=["stage4"]
    )
    config = DetrConfig(
        backbone_config=backbone,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        **SMALL,
        **NAMED,
    )
    return _save(
        DetrForObjectDetection(config),
        folder,
        DetrImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 96}),
    )


def rt_detr(folder: Path) -> Path:
    """RT-DETR over a small ResNet."""
    from transformers import (
        RTDetrConfig,
        RTDetrForObjectDetection,
        RTDetrImageProcessorPil,
        RTDetrResNetConfig,
    )

    seeded()
    backbone = RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = RTDetrConfig(
        backbone_config=backbone, **_pyramid([16, 24, 32]), num_denoising=0, **NAMED
    )
    return _save(
        RTDetrForObjectDetection(config),
        folder,
        RTDetrImageProcessorPil(size={"height": 64, "width": 64}),
    )


def d_fine(folder: Path) -> Path:
    """D-FINE over a small HGNet."""
    from transformers import (
        DFineConfig,
        DFineForObjectDetection,
        HGNetV2Config,
        RTDetrImageProcessorPil,
    )

    seeded()
    backbone = HGNetV2Config(
        depths=[1, 1, 1, 1],
        embedding_size=8,
        hidden_sizes=[16, 24, 32, 40],
        stem_channels=[3, 8, 8],
        stage_in_channels=[8, 16, 24, 32],
        stage_mid_channels=[8, 8, 8, 8],
        stage_out_channels=[16, 24, 32, 40],
        stage_num_blocks=[1, 1, 1, 1],
        stage_numb_of_layers=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
    )
    config = DFineConfig(
        backbone_config=backbone, **_pyramid([24, 32, 40]), num_denoising=0, **NAMED
    )
    return _save(
        DFineForObjectDetection(config),
        folder,
        RTDetrImageProcessorPil(size={"height": 64, "width": 64}),
    )


def yolos(folder: Path) -> Path:
    """YOLOS of two layers."""
    from transformers import YolosConfig, YolosForObjectDetection, YolosImageProcessorPil

    seeded()
    config = YolosConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=[64, 96],
        num_detection_tokens=20,
        **NAMED,
    )
    processor = YolosImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 96})
    return _save(YolosForObjectDetection(config), folder, processor)


def _pyramid(channels: list[int]) -> dict[str, Any]:
    """The settings of a small hybrid encoder over levels of these channels."""
    more = {
        "encoder_hidden_dim": 32,
        "encoder_in_channels": channels,
        "decoder_in_channels": [32, 32, 32],
    }
    return {**SMALL, **more, "decoder_n_points": 2}


def florence2(folder: Path) -> Path:
    """Florence-2 that writes letters and places without sense, for all its weights are random."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        BartConfig,
        CLIPImageProcessorPil,
        Florence2Config,
        Florence2ForConditionalGeneration,
        Florence2Processor,
        PreTrainedTokenizerFast,
    )

    seeded()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<image>"]
    letters = [chr(code) for code in range(32, 127) if chr(code) not in "<>"]
    inner = Tokenizer(
        models.BPE(vocab={name: n for n, name in enumerate([*special, *letters])}, merges=[])
    )
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
    inner.add_tokens([AddedToken(f"<loc_{n}>", normalized=False) for n in range(1000)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens={"image_token": "<image>"},
    )
    vision = {
        "depths": [1, 1, 1, 1],
        "embed_dim": [8, 16, 16, 32],
        "num_heads": [1, 2, 2, 2],
        "num_groups": [1, 2, 2, 2],
        "window_size": 2,
        "projection_dim": 32,
        "max_temporal_embeddings": 4,
        "max_position_embeddings": 8,
    }
    text = BartConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=256,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
    )
    network = Florence2ForConditionalGeneration(
        Florence2Config(
            vision_config=vision,
            text_config=text,
            image_token_id=4,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
            decoder_start_token_id=2,
        )
    )
    network.generation_config.no_repeat_ngram_size = 1  # or it would write one letter for ever
    images = CLIPImageProcessorPil(
        size={"height": 64, "width": 64},
        crop_size={"height": 64, "width": 64},
        do_center_crop=False,
        resample=3,
    )
    images.image_seq_length = 5  # one of the whole and four of places
    parts = (
        "pure_text",
        "ocr",
        "phrase_grounding",
        "description_with_bboxes",
        "description_with_bboxes_or_polygons",
    )
    read = {
        part: {"PATTERN": None}
        for part in (*parts, "polygons", "bboxes", "description_with_polygons")
    }
    return _save(network, folder, Florence2Processor(images, tokenizer, post_processor_config=read))


def pp_ocr(folder: Path, kind: str, letters: str = "", **more: Any) -> Path:
    """A slim finder (PPOCRV5MobileDet) or reader (such as PPOCRV6SmallRec) of text, at random."""
    import transformers

    seeded()
    config = getattr(transformers, f"{kind}Config")(
        **({"head_out_channels": len(letters)} if letters else {})
    )
    backbone = config.backbone_config
    if kind == "PPOCRV5MobileDet":
        config.neck_out_channels, config.layer_list_out_channels = 16, [8] * 4
        config.backbone_config = type(backbone)(
            scale=0.25, conv_symmetric_num=1, out_features=backbone.out_features
        )
    elif kind == "PPOCRV5ServerRec":
        backbone.stem_channels, backbone.stage_in_channels = [3, 8, 8], [8, 16, 32, 32]
        backbone.stage_mid_channels, backbone.stage_out_channels = [8] * 4, [16, 32, 32, 32]
    else:
        backbone.stem_channels, backbone.stage_out_channels = [3, 8, 16], [16] * 4
        backbone.block_configs = [
            [(size, 16, 16, stride, *last) for size, _, _, stride, *last in row]
            for row in backbone.block_configs
        ]
    network = f"{kind}For{'TextRecognition' if letters else 'ObjectDetection'}"
    _save(getattr(transformers, network)(config), folder)
    version = "PPOCRV5Server" if "V5" in kind or not letters else "PPOCRV6Small"
    said = {
        "image_processor_type": f"{version}{kind[-3:]}ImageProcessor",
        "character_list": list(letters),
        **more,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    return folder

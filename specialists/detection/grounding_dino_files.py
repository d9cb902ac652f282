"""Original checkpoints of Grounding DINO: converted for Hugging Face transformers, or run by the
authors' package."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.hub import from_hub
from looktwice.pipelines.runtime.networks import (
    OPENING,
    Place,
    WeightsError,
    first_line,
    import_torch,
    import_transformers,
)
from looktwice.specialists.networks.checkpoints import (
    Rules,
    count,
    load_weights,
    open_converted,
    read_tensors,
    rename,
    require_kind,
    split_rows,
    unwrap,
)
from looktwice.specialists.networks.packages import INSTALL, find_package_file, import_package
from looktwice.specialists.networks.transformers_hub import HubModel

HEADS = 8  # of the deformable attention; the text's and the fusion's have half as many
POINTS = 4  # that each head looks at in each level
TEXT_HEAD = 64  # channels of an attention head of BERT
DROPPED = ("label_enc.", "bert.pooler.", "bert.embeddings.position_ids", "relative_position_index")
SWIN = "model.backbone.conv_encoder.model."
NAMES: Rules = (
    (r"^backbone\.0\.patch_embed\.proj\.", f"{SWIN}embeddings.patch_embeddings.projection."),
    (r"^backbone\.0\.patch_embed\.norm\.", f"{SWIN}embeddings.norm."),
    (r"^backbone\.0\.layers\.", f"{SWIN}encoder.layers."),
    (r"(blocks\.\d+)\.norm1\.", r"\1.layernorm_before."),
    (r"(blocks\.\d+)\.norm2\.", r"\1.layernorm_after."),
    (r"(blocks\.\d+)\.attn\.relative", r"\1.attention.self.relative"),
    (r"(blocks\.\d+)\.attn\.(query|key|value)\.", r"\1.attention.self.\2."),
    (r"(blocks\.\d+)\.attn\.proj\.", r"\1.attention.output.dense."),
    (r"(blocks\.\d+)\.mlp\.fc1\.", r"\1.intermediate.dense."),
    (r"(blocks\.\d+)\.mlp\.fc2\.", r"\1.output.dense."),
    (r"^backbone\.0\.norm1\.", f"{SWIN}hidden_states_norms.stage2."),
    (r"^backbone\.0\.norm2\.", f"{SWIN}hidden_states_norms.stage3."),
    (r"^backbone\.0\.norm3\.", f"{SWIN}hidden_states_norms.stage4."),
    (r"^bert\.", "model.text_backbone."),
    (r"^feat_map\.", "model.text_projection."),
    (r"^input_proj\.", "model.input_proj_vision."),
    (r"^transformer\.level_embed$", "model.level_embed"),
    (r"^transformer\.tgt_embed\.", "model.query_position_embeddings."),
    (r"^transformer\.enc_output", "model.enc_output"),
    (r"^transformer\.enc_out_bbox_embed\.", "model.encoder_output_bbox_embed."),
    (r"^transformer\.decoder\.norm\.", "model.decoder.layer_norm."),
    (r"^transformer\.decoder\.ref_point_head\.", "model.decoder.reference_points_head."),
    (r"^transformer\.decoder\.bbox_embed\.", "model.decoder.bbox_embed."),
    (r"^transformer\.encoder\.layers\.(\d+)\.", r"model.encoder.layers.\1.deformable_layer."),
    (
        r"^transformer\.encoder\.text_layers\.(\d+)\.",
        r"model.encoder.layers.\1.text_enhancer_layer.",
    ),
    (r"^transformer\.encoder\.fusion_layers\.(\d+)\.", r"model.encoder.layers.\1.fusion_layer."),
    (r"^transformer\.decoder\.layers\.", "model.decoder.layers."),
    (r"(_layer|model\.decoder\.layers\.\d+)\.linear([12])\.", r"\1.fc\2."),
    (r"deformable_layer\.norm1\.", "deformable_layer.self_attn_layer_norm."),
    (r"deformable_layer\.norm2\.", "deformable_layer.final_layer_norm."),
    (r"text_enhancer_layer\.norm1\.", "text_enhancer_layer.layer_norm_before."),
    (r"text_enhancer_layer\.norm2\.", "text_enhancer_layer.layer_norm_after."),
    (r"fusion_layer\.gamma_v$", "fusion_layer.vision_param"),
    (r"fusion_layer\.gamma_l$", "fusion_layer.text_param"),
    (r"fusion_layer\.layer_norm_v\.", "fusion_layer.layer_norm_vision."),
    (r"fusion_layer\.layer_norm_l\.", "fusion_layer.layer_norm_text."),
    (r"(fusion_layer\.attn\.(?:values_|out_)?)v_proj\.", r"\1vision_proj."),
    (r"(fusion_layer\.attn\.(?:values_|out_)?)l_proj\.", r"\1text_proj."),
    (r"(model\.decoder\.layers\.\d+)\.cross_attn\.", r"\1.encoder_attn."),
    (r"(model\.decoder\.layers\.\d+)\.ca_text\.", r"\1.encoder_attn_text."),
    (r"(model\.decoder\.layers\.\d+)\.catext_norm\.", r"\1.encoder_attn_text_layer_norm."),
    (r"(model\.decoder\.layers\.\d+)\.norm1\.", r"\1.encoder_attn_layer_norm."),
    (r"(model\.decoder\.layers\.\d+)\.norm2\.", r"\1.self_attn_layer_norm."),
    (r"(model\.decoder\.layers\.\d+)\.norm3\.", r"\1.final_layer_norm."),
)
THREE = ("query", "key", "value")


def open_grounding_dino(path: str, tokenizer: str) -> HubModel:
    """Grounding DINO from a file such as `groundingdino_swint_ogc.pth`.

    Its words are not in the file: `tokenizer` is the hub id or folder of the BERT that it was
    trained with, or a `vocab.txt`. Raises WeightsError.
    """
    transformers = import_transformers()
    tensors = unwrap(read_tensors(path))
    require_kind(path, tensors, "GroundingDINO")
    words = open_words(tokenizer)
    config = transformers.GroundingDinoConfig(
        backbone_config=transformers.SwinConfig(**_swin(tensors)),
        text_config=transformers.BertConfig(**_bert(tensors)),
        **_transformer(tensors),
    )
    # the last norm of a whole Swin, which a backbone does not use
    network = open_converted(
        "GroundingDinoForObjectDetection", config, _names(tensors), path, "layernorm"
    )
    images = transformers.GroundingDinoImageProcessorPil(
        size={"shortest_edge": 800, "longest_edge": 1333}
    )
    return HubModel(network, transformers.GroundingDinoProcessor(images, words))


def open_words(tokenizer: str) -> Any:
    """The tokenizer of a hub id, a folder, or a `vocab.txt`. Raises WeightsError."""
    place = Path(tokenizer).expanduser()
    if not place.is_file():
        return from_hub("AutoTokenizer", tokenizer, None)
    words = place.read_text(encoding="utf-8").splitlines()
    return import_transformers().BertTokenizer(
        vocab={word: number for number, word in enumerate(words)}
    )


def _names(tensors: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if not any(piece in name for piece in DROPPED)
    }
    kept = split_rows(kept, ".qkv.", [f".{part}." for part in THREE])
    for kind in ("weight", "bias"):
        kept = split_rows(kept, f".in_proj_{kind}", [f".{part}.{kind}" for part in THREE])
    return rename(kept, NAMES)


def _swin(tensors: Mapping[str, Any]) -> dict[str, Any]:
    stages = count(tensors, r"backbone\.0\.layers\.(\d+)\.")
    tables = [
        tensors[f"backbone.0.layers.{n}.blocks.0.attn.relative_position_bias_table"].shape
        for n in range(stages)
    ]
    return {
        "embed_dim": tensors["backbone.0.patch_embed.proj.weight"].shape[0],
        "depths": [
            count(tensors, rf"backbone\.0\.layers\.{n}\.blocks\.(\d+)\.") for n in range(stages)
        ],
        "num_heads": [heads for _, heads in tables],
        "window_size": (math.isqrt(tables[0][0]) + 1) // 2,
        "out_indices": [2, 3, 4],
    }


def _bert(tensors: Mapping[str, Any]) -> dict[str, Any]:
    words, hidden = tensors["bert.embeddings.word_embeddings.weight"].shape
    return {
        "vocab_size": words,
        "hidden_size": hidden,
        "num_hidden_layers": count(tensors, r"bert\.encoder\.layer\.(\d+)\."),
        "num_attention_heads": hidden // TEXT_HEAD,
        "intermediate_size": tensors["bert.encoder.layer.0.intermediate.dense.weight"].shape[0],
        "max_position_embeddings": tensors["bert.embeddings.position_embeddings.weight"].shape[0],
    }


def _transformer(tensors: Mapping[str, Any]) -> dict[str, Any]:
    levels, width = tensors["transformer.level_embed"].shape
    looked = tensors["transformer.encoder.layers.0.self_attn.attention_weights.weight"].shape[0]
    return {
        "d_model": width,
        "num_queries": tensors["transformer.tgt_embed.weight"].shape[0],
        "num_feature_levels": levels,
        "encoder_layers": count(tensors, r"transformer\.encoder\.layers\.(\d+)\."),
        "decoder_layers": count(tensors, r"transformer\.decoder\.layers\.(\d+)\."),
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
        "encoder_n_points": looked // (HEADS * levels),
        "decoder_n_points": POINTS,
        "encoder_ffn_dim": tensors["transformer.encoder.layers.0.linear1.weight"].shape[0],
        "decoder_ffn_dim": tensors["transformer.decoder.layers.0.linear1.weight"].shape[0],
    }


# by the channels of the encoder
CONFIGS = {96: "GroundingDINO_SwinT_OGC.py", 128: "GroundingDINO_SwinB_cfg.py"}
BERT = "bert-base-uncased"
# in the files, and of no use to the network
COMPUTED = ("bert.embeddings.position_ids", "label_enc.weight")


@dataclass(frozen=True, eq=False)
class GroundingDINOPackage:
    """The package's functions and a network of it, which keeps the image in itself: one thread
    looks at a time."""

    inference: Any
    network: Any
    device: str
    turn: Any = field(default_factory=threading.Lock)

    def find(self, pixels: Pixels, words: Sequence[str], threshold: float) -> dict[str, Any]:
        """Boxes as edges in pixels, their scores, and the words of the likeliest token of each, all
        of them."""
        image = self.inference.Model.preprocess_image(np.ascontiguousarray(pixels[..., ::-1]))
        with self.turn:
            middles, scores, labels = self.inference.predict(
                self.network,
                image,
                " . ".join(words) + " .",
                threshold,
                0.0,
                self.device,
                remove_combined=True,
            )
        size = import_torch().tensor([pixels.shape[1], pixels.shape[0]])
        middle, half = middles[:, :2] * size, middles[:, 2:] * size / 2
        boxes = import_torch().cat([middle - half, middle + half], 1)
        return {"boxes": boxes, "scores": scores, "text_labels": labels}


def open_grounding_dino_package(model: str, tokenizer: str, place: Place) -> GroundingDINOPackage:
    """The package's network with the tensors of an original file such as
    `groundingdino_swint_ogc.pth`.

    `tokenizer` is a folder with BERT, or an id of it, which the package then fetches. Raises
    WeightsError where the package or BERT is missing, or the file is of another network or lacks a
    tensor.
    """
    inference, configs = (
        import_package("groundingdino.util.inference"),
        import_package("groundingdino.util.slconfig"),
    )
    tensors = unwrap(read_tensors(model))
    require_kind(model, tensors, "GroundingDINO")
    name = CONFIGS.get(tensors["backbone.0.patch_embed.proj.weight"].shape[0])
    if name is None:
        raise WeightsError(
            f"{model} has an encoder of another size than {' and '.join(CONFIGS.values())}"
        )
    settings = configs.SLConfig.fromfile(
        str(find_package_file("groundingdino-py", "groundingdino", "config", name))
    )
    settings.device, bert = place.device, Path(tokenizer).expanduser()
    settings.text_encoder_type = str(bert) if bert.is_dir() else BERT
    try:
        with OPENING:
            network = inference.build_model(settings)
    except (OSError, ValueError, TypeError, AttributeError) as exc:
        raise WeightsError(
            f"the package groundingdino could not be opened with {settings.text_encoder_type}"
            f" ({first_line(exc)}); set tokenizer: to a folder with {BERT}, its weights too, or"
            f" type: {INSTALL['groundingdino']}"
        ) from exc
    tensors = {key: tensor for key, tensor in tensors.items() if key not in COMPUTED}
    return GroundingDINOPackage(
        inference, load_weights(network, tensors, model).to(place.device), place.device
    )

"""The authors' own networks at a small size: built from a clone of their repository, and run on
tensors.

`bench/upstream/side.py` runs each in a separate process, since each repository needs its own
packages (timm, torchvision; transformers below 5 for GroundingDINO). It writes the input of
`tests/original_files.py`, which makes the tiny files, and the outputs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from bench.upstream.row import alias
from tests.original_files import BERT, photograph, weight


class Upstream(NamedTuple):
    """A network, the file name of its release, the keys around its tensors in that file, and some
    outputs."""

    network: Any
    file: str
    run: Callable[[], Mapping[str, Any]]
    under: str = ""
    prefix: str = ""


def fill(network: Any) -> Any:
    """Fill the network with weights derived from their names; buffers that it computes itself are
    kept."""
    tensors, ties = network.state_dict(), find_ties(network)
    computed = {
        name for name, each in tensors.items() if not each.is_floating_point() and each.dim()
    }
    network.load_state_dict(
        {
            name: each if name in computed else weight(ties.get(name, name), each.shape)
            for name, each in tensors.items()
        }
    )
    return network.eval()


def find_ties(network: Any) -> dict[str, str]:
    """Map the names of tied tensors to the name of the first one."""
    first: dict[int, str] = {}
    tensors = network.state_dict(keep_vars=True).items()
    return {
        name: first[id(each)] for name, each in tensors if first.setdefault(id(each), name) != name
    }


def depth_anything_v2(repo: Path) -> Upstream:
    from depth_anything_v2.dinov2 import DinoVisionTransformer
    from depth_anything_v2.dpt import DepthAnythingV2, DPTHead

    network = DepthAnythingV2("vits", 16, [8, 8, 16, 16])
    network.pretrained = DinoVisionTransformer(**_vit(), interpolate_offset=0.1)
    network.depth_head = DPTHead(64, 16, False, out_channels=[8, 8, 16, 16])
    fill(network)
    pixels = photograph(70, 98)
    return Upstream(network, "depth_anything_v2_vits.pth", lambda: {"depth": network(pixels)})


def depth_anything_v1(repo: Path) -> Upstream:
    sys.path.insert(0, str(repo / "torchhub" / "facebookresearch_dinov2_main"))
    from depth_anything.dpt import DPT_DINOv2, DPTHead
    from dinov2.models.vision_transformer import DinoVisionTransformer

    network = DPT_DINOv2.__new__(DPT_DINOv2)
    torch.nn.Module.__init__(network)
    network.pretrained = DinoVisionTransformer(**_vit())
    network.depth_head = DPTHead(1, 64, 16, False, out_channels=[8, 8, 16, 16])
    fill(network)
    pixels = photograph(70, 98)
    return Upstream(network, "depth_anything_vits14.pth", lambda: {"depth": network(pixels)})


def dinov2(repo: Path, **settings: Any) -> Upstream:
    from dinov2.models.vision_transformer import DinoVisionTransformer

    network = fill(DinoVisionTransformer(**_vit(depth=3), **settings))
    pixels = photograph(70, 98)
    names = ("x_norm_clstoken", "x_norm_patchtokens")
    file = "dinov2_vits14_reg4_pretrain.pth" if settings else "dinov2_vits14_pretrain.pth"
    return Upstream(
        network, file, lambda: {name: network.forward_features(pixels)[name] for name in names}
    )


def dinov2_registers(repo: Path) -> Upstream:
    return dinov2(repo, num_register_tokens=4, interpolate_antialias=True, interpolate_offset=0.0)


def _vit(depth: int = 12) -> dict[str, Any]:
    return {
        "img_size": 56,
        "patch_size": 14,
        "embed_dim": 64,
        "depth": depth,
        "num_heads": 1,
        "mlp_ratio": 2,
        "init_values": 1.0,
        "block_chunks": 0,
    }


def grounding_dino(repo: Path) -> Upstream:
    from groundingdino.config import GroundingDINO_SwinT_OGC as settings
    from groundingdino.models.GroundingDINO import groundingdino as theirs
    from groundingdino.models.GroundingDINO.backbone import backbone
    from groundingdino.models.GroundingDINO.backbone.swin_transformer import SwinTransformer
    from groundingdino.util import get_tokenlizer
    from groundingdino.util.misc import NestedTensor
    from transformers import BertConfig, BertModel, BertTokenizer

    words = repo / "vocab.txt"
    words.write_text("\n".join(BERT), encoding="utf-8")
    text = BertConfig(
        vocab_size=len(BERT),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=1,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    get_tokenlizer.get_tokenlizer = lambda _: BertTokenizer(str(words))
    get_tokenlizer.get_pretrained_language_model = lambda _: BertModel(text)
    swin = {"embed_dim": 16, "depths": [1, 1, 2, 1], "num_heads": [1, 2, 4, 8], "window_size": 4}
    backbone.build_swin_transformer = lambda *_, out_indices, **__: SwinTransformer(
        out_indices=out_indices, **swin
    )
    small = {
        "enc_layers": 2,
        "dec_layers": 2,
        "hidden_dim": 256,
        "dim_feedforward": 48,
        "num_queries": 12,
    }
    options = {
        name: each for name, each in vars(settings).items() if not name.startswith("_")
    } | small
    options |= {
        "fusion_dropout": 0.0,
        "fusion_droppath": 0.1,
        "sub_sentence_present": True,
        "use_checkpoint": False,
    }
    network = fill(
        theirs.build_groundingdino(
            type("Settings", (), options | {"use_transformer_ckpt": False})()
        )
    )
    pixels = photograph(96, 128)

    def run() -> Mapping[str, Any]:
        outputs = network(
            NestedTensor(pixels, torch.zeros(1, 96, 128, dtype=torch.bool)),
            captions=["cat . cup ."],
        )
        return {"logits": outputs["pred_logits"][..., :6], "boxes": outputs["pred_boxes"]}

    return Upstream(network, "groundingdino_swint_ogc.pth", run, "model", "module.")


def sam2(repo: Path) -> Upstream:
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    config = OmegaConf.load(repo / "sam2" / "configs" / "sam2.1" / "sam2.1_hiera_t.yaml").model
    config.image_encoder.trunk.embed_dim = 8
    config.image_encoder.neck.backbone_channel_list = [64, 32, 16, 8]
    text = OmegaConf.to_yaml(config).replace("256", "32").replace("2048", "48")
    config = OmegaConf.create(text)
    extras = {"dynamic_multimask_via_stability": True, "dynamic_multimask_stability_delta": 0.05}
    extras |= {"dynamic_multimask_stability_thresh": 0.98}
    config.sam_mask_decoder_extra_args = extras
    network = fill(instantiate(config, _recursive_=True))
    pixels = photograph(1024, 1024)

    def run() -> Mapping[str, Any]:
        seen = network.forward_image(pixels)
        _, features, _, sizes = network._prepare_backbone_features(seen)
        features[-1] = features[-1] + network.no_mem_embed
        maps = [
            each.permute(1, 2, 0).unflatten(2, size)
            for each, size in zip(features, sizes, strict=True)
        ]
        corners = torch.tensor([[[200.0, 300.0], [700.0, 600.0]]])
        given = {"points": (corners, torch.tensor([[2, 3]])), "boxes": None, "masks": None}
        sparse, dense = network.sam_prompt_encoder(**given)
        masks, scores, *_ = network.sam_mask_decoder(
            image_embeddings=maps[-1],
            image_pe=network.sam_prompt_encoder.get_dense_pe(),
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=True,
            repeat_image=False,
            high_res_features=maps[:-1],
        )
        return {"masks": masks, "scores": scores}

    return Upstream(network, "sam2.1_hiera_tiny.pt", run, "model")


def sam(repo: Path, decoder: str = "MaskDecoder", **settings: Any) -> Upstream:
    from segment_anything import modeling
    from segment_anything.predictor import SamPredictor

    inner = {
        "transformer": modeling.TwoWayTransformer(2, 32, 8, 48),
        "transformer_dim": 32,
        "iou_head_hidden_dim": 24,
    }
    if settings:
        from segment_anything.modeling import mask_decoder_hq as modeling_hq

        head = getattr(modeling_hq, decoder)(num_multimask_outputs=3, **inner, **settings)
    else:
        head = getattr(modeling, decoder)(num_multimask_outputs=3, **inner)
    encoder = modeling.ImageEncoderViT(
        img_size=64,
        patch_size=8,
        embed_dim=32,
        depth=3,
        num_heads=2,
        mlp_ratio=1.25,
        out_chans=32,
        use_rel_pos=True,
        window_size=5,
        global_attn_indexes=(1,),
        norm_layer=lambda width: torch.nn.LayerNorm(width, eps=1e-6),
    )
    network = fill(modeling.Sam(encoder, modeling.PromptEncoder(32, (8, 8), (64, 64), 8), head))
    pixels = photograph(64, 48) * 60 + 120

    def run() -> Mapping[str, Any]:
        predictor = SamPredictor(network)
        predictor.set_torch_image(pixels, (64, 48))
        _, scores, masks = predictor.predict_torch(
            None, None, torch.tensor([[10.0, 12.0, 40.0, 50.0]]), multimask_output=False
        )
        return {"masks": masks, "scores": scores}

    return Upstream(network, "sam_hq_vit_b.pth" if settings else "sam_vit_b_01ec64.pth", run)


def sam_hq(repo: Path) -> Upstream:
    return sam(repo, "MaskDecoderHQ", vit_dim=32)


def efficient_loftr(repo: Path) -> Upstream:
    from copy import deepcopy

    alias("kornia.utils.grid", "kornia.geometry.grid")
    from src.loftr import LoFTR, full_default_cfg

    settings = deepcopy(full_default_cfg)
    settings["match_coarse"].update(thr=0.0)
    network = fill(LoFTR(config=settings))
    image = photograph(192, 256)[:, :1].sigmoid()
    images = {"image0": image, "image1": image.roll(8, 3)}

    def run() -> Mapping[str, Any]:
        outputs = dict(images)
        network(outputs)
        return {"xy0": outputs["mkpts0_f"], "xy1": outputs["mkpts1_f"], "scores": outputs["mconf"]}

    return Upstream(network, "eloftr_outdoor.ckpt", run, "state_dict", "matcher.")


KINDS: dict[str, Callable[[Path], Upstream]] = {
    each.__name__: each
    for each in (
        depth_anything_v1,
        depth_anything_v2,
        dinov2,
        dinov2_registers,
        grounding_dino,
        sam,
        sam_hq,
        sam2,
        efficient_loftr,
    )
}


def record(kind: str, repo: Path, out: Path) -> None:
    """Write the shapes and the outputs of one network."""
    made = KINDS[kind](repo)
    with torch.inference_mode():
        outputs = {name: each.float().numpy() for name, each in made.run().items()}
    floats = {
        name: each
        for name, each in made.network.state_dict().items()
        if each.is_floating_point() or not each.dim()
    }
    shapes = {name: list(each.shape) for name, each in floats.items()}
    facts = {"file": made.file, "under": made.under, "prefix": made.prefix, "shapes": shapes}
    facts["ties"] = find_ties(made.network)
    (out / f"{kind}.json").write_text(json.dumps(facts))
    np.savez(out / f"{kind}.npz", **outputs)

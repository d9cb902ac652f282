"""Original checkpoints of Depth Anything, versions 1 and 2, converted for Hugging Face transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from looktwice.pipelines.runtime.networks import WeightsError, import_transformers
from looktwice.specialists.networks.checkpoint_kinds import require_kind, unwrap
from looktwice.specialists.networks.checkpoints import read_tensors
from looktwice.specialists.networks.conversion import Rules, open_converted, rename
from looktwice.specialists.networks.dinov2_files import dinov2_names, dinov2_settings, keep_positions
from looktwice.specialists.networks.transformers_hub import HubModel

SIDE = 518  # pixels of the shorter side of the authors' input
LAYERS = {12: (3, 6, 9, 12), 24: (5, 12, 18, 24), 40: (10, 20, 30, 40)}  # that version 2 reads, by depth
FARTHEST = {"hypersim": 20, "vkitti": 80}  # metres, of the metric files of version 2
UNIT = r"depth_head\.scratch\.refinenet(\d)\.resConfUnit(\d)\.conv(\d)\."
HEAD: Rules = (
    (r"^depth_head\.projects\.(\d)\.", r"neck.reassemble_stage.layers.\1.projection."),
    (r"^depth_head\.resize_layers\.(\d)\.", r"neck.reassemble_stage.layers.\1.resize."),
    (r"^depth_head\.scratch\.layer1_rn\.", "neck.convs.0."),
    (r"^depth_head\.scratch\.layer2_rn\.", "neck.convs.1."),
    (r"^depth_head\.scratch\.layer3_rn\.", "neck.convs.2."),
    (r"^depth_head\.scratch\.layer4_rn\.", "neck.convs.3."),
    (UNIT, r"depth_head.scratch.refinenet\1.residual_layer\2.convolution\3."),
    (r"\.refinenet(\d)\.out_conv\.", r".refinenet\1.projection."),
    (r"^depth_head\.scratch\.refinenet4\.", "neck.fusion_stage.layers.0."),
    (r"^depth_head\.scratch\.refinenet3\.", "neck.fusion_stage.layers.1."),
    (r"^depth_head\.scratch\.refinenet2\.", "neck.fusion_stage.layers.2."),
    (r"^depth_head\.scratch\.refinenet1\.", "neck.fusion_stage.layers.3."),
    (r"^depth_head\.scratch\.output_conv1\.", "head.conv1."),
    (r"^depth_head\.scratch\.output_conv2\.0\.", "head.conv2."),
    (r"^depth_head\.scratch\.output_conv2\.2\.", "head.conv3."),
)


def open_depth_anything(path: str) -> HubModel:
    """Depth Anything from a file such as `depth_anything_v2_vits.pth` or `depth_anything_vitl14.pth`.

    Which layers it reads, and whether its depth is in metres, is not in the file but in its name, which must be one
    of the authors'. Raises WeightsError.
    """
    transformers = import_transformers()
    tensors = unwrap(read_tensors(path))
    require_kind(path, tensors, "Depth Anything")
    encoder = _under(tensors, "pretrained.")
    settings = dinov2_settings(encoder)
    layers = _layers(path, settings["num_hidden_layers"])
    backbone = transformers.Dinov2Config(
        **settings, out_features=[f"stage{n}" for n in layers], apply_layernorm=True, reshape_hidden_states=False
    )
    head = tensors["depth_head.scratch.output_conv2.0.weight"].shape
    config = transformers.DepthAnythingConfig(
        backbone_config=backbone,
        patch_size=settings["patch_size"],
        reassemble_hidden_size=settings["hidden_size"],
        neck_hidden_sizes=[tensors[f"depth_head.projects.{n}.weight"].shape[0] for n in range(4)],
        fusion_hidden_size=head[1] * 2,
        head_hidden_size=head[0],
        **_metric(path),
    )
    named = {f"backbone.{name}": each for name, each in dinov2_names(encoder).items()}
    named |= rename({name: each for name, each in tensors.items() if name.startswith("depth_head.")}, HEAD)
    network = open_converted("DepthAnythingForDepthEstimation", config, named, path)
    keep_positions(network.backbone.embeddings)
    size = {"height": SIDE, "width": SIDE}
    processor = transformers.DPTImageProcessorPil(
        size=size, keep_aspect_ratio=True, ensure_multiple_of=settings["patch_size"], do_pad=False,
        image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225], resample=3,
    )  # fmt: skip
    return HubModel(network, processor)


def _under(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}


def _layers(path: str, depth: int) -> tuple[int, ...]:
    name = Path(path).name
    if re.match(r"depth_anything_v2_\w*vit[sblg]\b", name) and depth in LAYERS:
        return LAYERS[depth]
    if re.match(r"depth_anything_vit[sbl]14\b", name):
        return tuple(range(depth - 3, depth + 1))
    raise WeightsError(
        f"{path} holds Depth Anything, but neither its tensors nor its name tell which version, and versions 1 and 2 "
        "read other layers; name it as its authors do, depth_anything_v2_vits.pth or depth_anything_vits14.pth"
    )


def _metric(path: str) -> dict[str, Any]:
    name = Path(path).name
    if "metric" not in name:
        return {}
    for scenes, metres in FARTHEST.items():
        if scenes in name:
            return {"depth_estimation_type": "metric", "max_depth": metres}
    raise WeightsError(
        f"{path} holds depth in metres, up to a limit that its name alone tells; name it as its authors do, "
        "depth_anything_v2_metric_hypersim_vits.pth or depth_anything_v2_metric_vkitti_vits.pth"
    )

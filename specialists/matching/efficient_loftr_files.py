"""Original checkpoints of EfficientLoFTR, converted for Hugging Face transformers."""

from __future__ import annotations

import re

from looktwice.pipelines.runtime.networks import import_transformers
from looktwice.specialists.networks.checkpoint_kinds import require_kind, unwrap
from looktwice.specialists.networks.checkpoints import read_tensors
from looktwice.specialists.networks.conversion import Rules, count, open_converted, rename
from looktwice.specialists.networks.transformers_hub import HubModel

ATTENTION = re.compile(r"^matcher\.loftr_coarse\.layers\.(\d+)\.(.*)")  # in turn within an image and across both
NAMES: Rules = (
    (r"^matcher\.backbone\.layer(\d+)\.rbr_", r"matcher.backbone.layer\1.0.rbr_"),
    (r"^matcher\.backbone\.layer(\d+)\.", r"efficientloftr.backbone.stages.\1.blocks."),
    (r"\.rbr_dense\.conv\.", ".conv1.conv."),
    (r"\.rbr_dense\.bn\.", ".conv1.norm."),
    (r"\.rbr_1x1\.conv\.", ".conv2.conv."),
    (r"\.rbr_1x1\.bn\.", ".conv2.norm."),
    (r"\.rbr_identity\.", ".identity."),
    (r"_attention\.aggregate\.", "_attention.aggregation.q_aggregation."),
    (r"_attention\.norm1\.", "_attention.aggregation.norm."),
    (r"_attention\.([qkv]_proj)\.", r"_attention.attention.\1."),
    (r"_attention\.merge\.", "_attention.attention.o_proj."),
    (r"_attention\.mlp\.0\.", "_attention.mlp.fc1."),
    (r"_attention\.mlp\.2\.", "_attention.mlp.fc2."),
    (r"_attention\.norm2\.", "_attention.mlp.layer_norm."),
    (r"^matcher\.fine_preprocess\.layer3_outconv\.", "refinement_layer.out_conv."),
    (r"^matcher\.fine_preprocess\.layer2_", "refinement_layer.out_conv_layers.0."),
    (r"^matcher\.fine_preprocess\.layer1_", "refinement_layer.out_conv_layers.1."),
    (r"\.outconv\.", ".out_conv1."),
    (r"\.outconv2\.0\.", ".out_conv2."),
    (r"\.outconv2\.1\.", ".batch_norm."),
    (r"\.outconv2\.3\.", ".out_conv3."),
)


def open_efficient_loftr(path: str) -> HubModel:
    """EfficientLoFTR, the full network, from its authors' `eloftr_outdoor.ckpt`. Raises WeightsError."""
    transformers = import_transformers()
    tensors = unwrap(read_tensors(path))
    require_kind(path, tensors, "EfficientLoFTR")
    blocks = [count(tensors, rf"matcher\.backbone\.layer{n}\.(\d+)\.") or 1 for n in range(4)]
    wide = [tensors[f"matcher.backbone.layer{n}.{'0.' * (n > 0)}rbr_dense.conv.weight"].shape[0] for n in range(4)]
    reach = tensors["matcher.loftr_coarse.layers.0.aggregate.weight"].shape[-1]
    config = transformers.EfficientLoFTRConfig(
        stage_num_blocks=blocks,
        out_features=wide,
        hidden_size=wide[-1],
        num_attention_layers=count(tensors, r"matcher\.loftr_coarse\.layers\.(\d+)\.") // 2,
        q_aggregation_kernel_size=reach,
        kv_aggregation_kernel_size=reach,
        q_aggregation_stride=reach,
        kv_aggregation_stride=reach,
    )
    named = rename({_attention(name): each for name, each in tensors.items()}, NAMES)
    network = open_converted("EfficientLoFTRForKeypointMatching", config, named, path)
    return HubModel(network, transformers.EfficientLoFTRImageProcessorPil())


def _attention(name: str) -> str:
    found = ATTENTION.match(name)
    if not found:
        return name
    kind = "cross" if int(found[1]) % 2 else "self"
    return f"efficientloftr.local_feature_transformer.layers.{int(found[1]) // 2}.{kind}_attention.{found[2]}"

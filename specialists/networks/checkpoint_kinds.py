"""What a weights file is: its network told from the names of its tensors, and a wrong file called what it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from looktwice.pipelines.runtime.networks import WeightsError

SUFFIXES = (".pth", ".pt", ".ckpt", ".bin", ".safetensors", ".onnx", ".dat", ".tar", ".gguf")
WRAPPINGS = ("state_dict", "model", "teacher", "extractor")  # under which one of these keys, files keep their tensors
DEPTH_3 = "specialists.maps.DepthAnything3 with the folder that it lies in"
FOLDER = "an id or a folder of Hugging Face transformers"


class Kind(NamedTuple):
    """A network, the tensors by which its files are known, and what opens them."""

    name: str
    signs: tuple[str, ...]
    use: str


KINDS: tuple[Kind, ...] = (
    Kind("SAM-HQ", ("mask_decoder.hf_token.weight", "image_encoder.pos_embed"), "specialists.segmentation.SAM"),
    Kind("SAM 2", ("image_encoder.trunk.pos_embed",), "specialists.segmentation.SAM"),
    Kind("SAM", ("image_encoder.pos_embed", "mask_decoder.iou_token.weight"), "specialists.segmentation.SAM"),
    Kind("MobileSAM", ("image_encoder.patch_embed.seq.0.c.weight",), "nothing here; SAM and SAM 2 are read"),
    Kind("Depth Anything", ("pretrained.cls_token", "depth_head.projects.0.weight"), "specialists.maps.DepthAnything"),
    Kind(
        "Depth Anything 1 for metric depth",
        ("core.core.pretrained.cls_token",),
        f"specialists.maps.DepthAnything with version 2's metric file, or {FOLDER}",
    ),
    Kind("Depth Anything 3", ("model.backbone.pretrained.cls_token",), DEPTH_3),
    Kind("Depth Anything 3", ("model.da3.backbone.pretrained.cls_token",), DEPTH_3),
    Kind("MiDaS", ("scratch.refinenet1.out_conv.weight",), f"specialists.maps.DepthAnything with {FOLDER}"),
    Kind("GroundingDINO", ("feat_map.weight", "transformer.level_embed"), "specialists.detection.GroundingDINO"),
    Kind("EfficientLoFTR", ("matcher.backbone.layer0.rbr_dense.conv.weight",), "specialists.matching.KeypointMatcher"),
    Kind("EfficientLoFTR", ("backbone.layer0.rbr_dense.conv.weight",), "specialists.matching.KeypointMatcher"),
    Kind(
        "LoFTR",
        ("matcher.backbone.conv1.weight", "matcher.loftr_coarse.layers.0.norm1.weight"),
        "specialists.matching.LoFTR",
    ),
    Kind("LoFTR", ("backbone.conv1.weight", "loftr_coarse.layers.0.norm1.weight"), "specialists.matching.LoFTR"),
    Kind("XFeat's LightGlue", ("extractor.model.net.skip1.1.weight",), "specialists.matching.XFeat, as its matcher"),
    Kind("LightGlue", ("posenc.Wr.weight",), "specialists.matching.LightGlue, as its head"),
    Kind("XFeat", ("skip1.1.weight", "block1.0.layer.0.weight"), "specialists.matching.XFeat"),
    Kind("DISK", ("unet.path_down.0.1.3.weight",), "specialists.matching.LightGlue"),
    Kind("ALIKED", ("score_head.6.weight",), "specialists.matching.LightGlue with features: aliked"),
    Kind("SuperGlue", ("bin_score", "kenc.encoder.0.weight"), f"specialists.matching.KeypointMatcher with {FOLDER}"),
    Kind("SuperPoint", ("conv1a.weight", "convDa.weight"), f"specialists.matching.KeypointMatcher with {FOLDER}"),
    Kind("DINOv2", ("pos_embed", "cls_token", "blocks.0.ls1.gamma"), "specialists.features.DINOv2"),
    Kind("DINOv3", ("rope_embed.periods", "cls_token"), f"specialists.features.DINOv2 with {FOLDER}"),
    Kind("RoMa", ("decoder.embedding_decoder.blocks.0.norm1.weight",), "specialists.matching.RoMa"),
    Kind("EfficientNet-lite0", ("_conv_stem.weight", "_blocks.0._bn2.bias"), "specialists.features.EfficientNet"),
    Kind("a ResNet with one output, as DIRE's", ("layer4.2.bn3.weight", "fc.weight"), "specialists.detection.DIRE"),
)
"""The first that fits is meant."""
STARTS = (  # of files that are no torch file, what they are, and what to do
    (b"<", "a web page, saved in place of the file behind it; fetch it again"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file; type: git lfs pull"),
    (b"GGUF", "a file of llama.cpp, which nothing here reads"),
    (b"\x08", "an ONNX file; for YuNet's use specialists.detection.YuNet, else give the file of torch"),
    (
        b"\x01\x01",
        "a file of dlib; for it use specialists.detection.FaceRecognition with models: its folder",
    ),
)


def is_weights_file(model: str) -> bool:
    """Whether a setting names a file of weights, rather than a folder or an id of a hub."""
    place = Path(model).expanduser()
    return place.is_file() or (place.suffix in SUFFIXES and not place.is_dir())


def unwrap(content: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors by name in what a file holds, without what its author wrapped around them."""
    for name in WRAPPINGS:
        if isinstance(inner := content.get(name), Mapping):
            return unwrap(inner)
    prefixed = [name for name in content if name.startswith("module.")]
    return {name.removeprefix("module."): each for name, each in content.items()} if prefixed else dict(content)


def find_kind(tensors: Mapping[str, Any]) -> Kind | None:
    """The network whose file holds these tensors, None for an unknown one."""
    return next((kind for kind in KINDS if all(sign in tensors for sign in kind.signs)), None)


def require_kind(path: str | Path, tensors: Mapping[str, Any], *names: str) -> str:
    """The name of the network whose file this is. Raises WeightsError, with what it is, where it is none of `names`."""
    kind = find_kind(tensors)
    if kind is not None and kind.name in names:
        return kind.name
    raise WeightsError(f"{say_kind(path, tensors)}; this takes a file of {' or '.join(names)}, or {FOLDER}")


def say_kind(path: str | Path, tensors: Mapping[str, Any]) -> str:
    """What a file of these tensors is, as a sentence without its end."""
    kind = find_kind(tensors)
    if kind is not None:
        return f"{path} is a checkpoint of {kind.name}; for it use {kind.use}"
    if Path(path).expanduser().with_name("config.json").is_file():
        return f"{path} is a part of a folder of transformers; set model: to the folder {Path(path).parent}"
    first = next(iter(tensors), "")
    return f"{path} is a checkpoint of a network that is not known here, of {len(tensors)} entries such as {first!r}"


def refuse_other(path: str | Path, tensors: Mapping[str, Any], *names: str) -> None:
    """Raises WeightsError, with what it is, where a file is that of a known network, and of none of `names`."""
    kind = find_kind(tensors)
    if kind is not None and kind.name not in names:
        raise WeightsError(f"{say_kind(path, tensors)}; this takes a file of {' or '.join(names)}")


def say_bytes(file: Path) -> str:
    """What a file is that torch cannot read, told from its first bytes; empty where they tell nothing."""
    with file.open("rb") as opened:
        start = opened.read(64).lstrip(b" \n\r\t")
    if not start:
        return f"{file} is empty; fetch it again"
    return next((f"{file} is {what}" for sign, what in STARTS if start.startswith(sign)), "")

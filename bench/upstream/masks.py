"""Segment Anything compared with its authors' code: the mask in a box on the cat."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bench.upstream.row import Outputs, Row, photo, save
from bench.upstream_networks import Upstream, sam, sam2, sam_hq
from looktwice.extras.segmentation import SAM
from looktwice.specialists.results import Boxes

BOX = np.array([[90.0, 20.0, 330.0, 250.0]])


def their_sam(repo: Path, out: Path, build: Any) -> Outputs:
    made: Upstream = build(repo)
    save(made.network.state_dict(), out / "network.pth")
    return their_masks(
        import_module("segment_anything").SamPredictor(made.network),
        np.tile([64 / 451, 43 / 300], 2),
    )


def their_sam2(repo: Path, out: Path) -> Outputs:
    made = sam2(repo)
    save(made.network.state_dict(), out / "network.pth", key="model")
    return their_masks(
        import_module("sam2.sam2_image_predictor").SAM2ImagePredictor(made.network),
        np.tile([1024 / 451, 1024 / 300], 2),
    )


def their_masks(predictor: Any, scale: Any) -> Outputs:
    """Return the authors' masks for the box, whose coordinates are shifted to undo the half pixel
    (of the network's image, `scale` of ours) that their code adds."""
    predictor.set_image(photo())
    masks, scores, _ = predictor.predict(box=BOX[0] - 0.5 / scale, multimask_output=False)
    return {"masks": np.asarray(masks) > 0, "scores": scores}


def our_sam(out: Path) -> Outputs:
    masks = SAM(str(out / "network.pth"), device="cpu")(
        photo(), Boxes(BOX, np.ones(1), np.array(["cat"]))
    )
    return {"masks": masks.masks, "scores": masks.scores}


HOW = "`set_image` and `predict` of a box of the cat, small"
ROWS = [
    Row(
        "sam_box",
        "`SAM`",
        "facebookresearch/segment-anything",
        HOW,
        partial(their_sam, build=sam),
        our_sam,
    ),
    Row(
        "sam_hq_box",
        "`SAM`, SAM-HQ",
        "SysCV/sam-hq",
        HOW,
        partial(their_sam, build=sam_hq),
        our_sam,
    ),
    Row("sam2_box", "`SAM`, SAM 2.1", "facebookresearch/sam2", HOW, their_sam2, our_sam),
]

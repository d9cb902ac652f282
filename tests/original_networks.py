"""Opens the specialists' networks from tiny original files and runs them like upstream's."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.extras.detection import GroundingDINO
from looktwice.extras.features import DINOv2
from looktwice.extras.maps import DepthAnything
from looktwice.extras.matching import KeypointMatcher
from looktwice.extras.networks.opening import Place
from looktwice.extras.segmentation import SAM
from tests.original_files import BERT, photograph

CPU = Place("cpu", "float32")
Outputs = Mapping[str, Any]


def depth(path: Path) -> Outputs:
    network = DepthAnything(str(path)).open_network(CPU).model
    return {"depth": network(photograph(70, 98)).predicted_depth}


def dinov2(path: Path) -> Outputs:
    tokens = DINOv2(str(path)).open_network(CPU).model(photograph(70, 98)).last_hidden_state
    return {"x_norm_clstoken": tokens[:, 0], "x_norm_patchtokens": tokens[:, -35:]}


def grounding_dino(path: Path) -> Outputs:
    words = path.with_name("vocab.txt")
    words.write_text("\n".join(BERT), encoding="utf-8")
    opened = GroundingDINO(str(path), tokenizer=str(words)).open_network(CPU)
    text = opened.processor.tokenizer("cat . cup .", return_tensors="pt")
    outputs = opened.model(pixel_values=photograph(96, 128), **text)
    return {"logits": outputs.logits[..., :6], "boxes": outputs.pred_boxes}


def sam(path: Path) -> Outputs:
    import torch

    opened = SAM(str(path)).open_network(CPU)
    levels = photograph(64, 48) * 60 + 120
    levels_of_imagenet = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    mean, std = (torch.tensor(each).view(1, 3, 1, 1) for each in levels_of_imagenet)
    pixels = torch.nn.functional.pad((levels - mean) / std, (0, 16))
    seen = opened.model.get_image_embeddings(pixels)
    box = np.array([[10.5, 12.5, 40.5, 50.5]])
    masks, scores = opened.decode(seen, box, (64, 48), several=False)
    return {"masks": masks, "scores": scores}


def sam2(path: Path) -> Outputs:
    opened = SAM(str(path)).open_network(CPU)
    seen = opened.model.get_image_embeddings(photograph(1024, 1024))
    box = np.array([[200.5, 300.5, 700.5, 600.5]])
    masks, scores = opened.decode(seen, box, (1024, 1024), several=True)
    return {"masks": masks, "scores": scores}


def efficient_loftr(path: Path) -> Outputs:
    import torch

    opened = KeypointMatcher(str(path)).open_network(CPU)
    opened.model.config.coarse_matching_threshold = 0.0
    image = photograph(192, 256)[:, :1].sigmoid()
    pair = torch.cat([image, image.roll(8, 3)]).expand(2, 3, 192, 256)[None]
    outputs = opened.model(pair)
    kept = outputs.matches[0, 0] >= 0
    xy0, xy1 = (outputs.keypoints[0, side][kept] * torch.tensor([256, 192]) for side in (0, 1))
    return {"xy0": xy0, "xy1": xy1, "scores": outputs.matching_scores[0, 0][kept]}


OPENED: dict[str, Callable[[Path], Outputs]] = {
    "depth_anything_v1": depth,
    "depth_anything_v2": depth,
    "dinov2": dinov2,
    "dinov2_registers": dinov2,
    "grounding_dino": grounding_dino,
    "sam": sam,
    "sam_hq": sam,
    "sam2": sam2,
    "efficient_loftr": efficient_loftr,
}

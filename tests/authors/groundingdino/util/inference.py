"""The face of groundingdino 0.4: its names, signatures and frames, over a network that finds what
is red."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import torch

captions: list[str] = []
"""What `predict` was given."""


class GroundingDINO(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.feat_map, self.transformer = torch.nn.Linear(2, 2), torch.nn.Module()
        self.transformer.level_embed = torch.nn.Parameter(torch.zeros(1))
        embed = torch.nn.ModuleDict({"proj": torch.nn.Conv2d(3, 96, 1)})
        self.backbone = torch.nn.ModuleList([torch.nn.ModuleDict({"patch_embed": embed})])
        self.max_text_len = 256

    def tokenizer(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        tokens = text.replace(".", " .").split()
        return {"input_ids": list(range(len(tokens) + 2 * add_special_tokens))}


def build_model(args: Any) -> GroundingDINO:
    if not Path(args.text_encoder_type).is_dir():
        raise OSError(f"{args.text_encoder_type} is not a local folder")
    assert args.device == "cpu"
    return GroundingDINO()


def predict(
    model: GroundingDINO,
    image: Any,
    caption: str,
    box_threshold: float,
    text_threshold: float,
    device: str = "cuda",
    remove_combined: bool = False,
) -> tuple[Any, Any, list[str]]:
    """The red pixels as a box of the middle and the sides, parts of the image, once for each
    phrase."""
    captions.append(caption)
    # all words of the most likely phrase
    assert device == "cpu" and remove_combined and text_threshold == 0
    phrases = [each.strip() for each in caption.split(".") if each.strip()]
    rows, columns = torch.nonzero((image[0] > 0.9) & (image[2] < 0.1), as_tuple=True)
    size = torch.tensor([image.shape[2], image.shape[1]] * 2)
    low = torch.stack([columns.min(), rows.min()])
    high = torch.stack([columns.max(), rows.max()]) + 1
    box = torch.cat([(low + high) / 2, high - low]) / size
    scores = torch.tensor([0.3 + 0.2 * number for number in range(len(phrases))])
    kept = [number for number, score in enumerate(scores) if score > box_threshold]
    return box.expand(len(kept), 4), scores[kept], [phrases[number] for number in kept]


class Model:
    @staticmethod
    def preprocess_image(image_bgr: Any) -> Any:
        return torch.from_numpy(cv2.cvtColor(image_bgr, cv2.COLOR_BGR2RGB)).permute(2, 0, 1) / 255

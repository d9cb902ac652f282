"""The face of segment_anything 1.0: its names, signatures and frames, over a network that draws
what it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

LONGEST = 1024  # pixels of the longer side that the network sees
# of the three masks of a point: half of their side, and the predicted IoU
SIZES, SCORES = ((2, 5, 9), (0.5, 0.9, 0.7))


class Sam(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.image_encoder, self.mask_decoder = torch.nn.Module(), torch.nn.Module()
        self.image_encoder.pos_embed = torch.nn.Parameter(torch.zeros(1, 1, 1, 768))
        self.mask_decoder.iou_token = torch.nn.Embedding(1, 2)

    @property
    def device(self) -> torch.device:
        return self.image_encoder.pos_embed.device


class Resize:
    def apply_coords(self, coords: Any, original_size: tuple[int, ...]) -> Any:
        return np.asarray(coords, float) * (LONGEST / max(original_size))

    def apply_boxes(self, boxes: Any, original_size: tuple[int, ...]) -> Any:
        return self.apply_coords(boxes, original_size)


class SamPredictor:
    def __init__(self, sam_model: Sam) -> None:
        self.model, self.transform = sam_model, Resize()
        self.is_image_set = False

    def set_image(self, image: Any, image_format: str = "RGB") -> None:
        assert image.dtype == np.uint8 and image.shape[2] == 3
        self.size, self.is_image_set = image.shape[:2], True

    def predict_torch(
        self,
        point_coords: Any,
        point_labels: Any,
        boxes: Any = None,
        mask_input: Any = None,
        multimask_output: bool = True,
        return_logits: bool = False,
    ) -> tuple[Any, Any, Any]:
        shrunk = LONGEST / max(self.size)
        if boxes is not None:
            sides = [[row] for row in (boxes / shrunk).tolist()]
        else:
            assert point_labels.tolist() == [[1]] * len(point_coords)
            places = [row[0] for row in (point_coords / shrunk).tolist()]
            sides = [[(x - n, y - n, x + n + 1, y + n + 1) for n in SIZES] for x, y in places]
        assert multimask_output == (boxes is None)
        drawn = [torch.stack([square(edges, self.size) for edges in row]) for row in sides]
        masks = torch.stack(drawn)
        return masks, torch.tensor([SCORES[: len(row)] for row in sides]), None


def square(edges: Sequence[float], size: tuple[int, int]) -> Any:
    x0, y0, x1, y1 = edges
    mask = torch.zeros(size, dtype=torch.bool)
    mask[max(0, round(y0)) : round(y1), max(0, round(x0)) : round(x1)] = True
    return mask


class SamAutomaticMaskGenerator:
    def __init__(
        self,
        model: Sam,
        points_per_side: int | None = 32,
        points_per_batch: int = 64,
        pred_iou_thresh: float = 0.88,
        stability_score_thresh: float = 0.95,
        stability_score_offset: float = 1.0,
        box_nms_thresh: float = 0.7,
        crop_n_layers: int = 0,
        crop_nms_thresh: float = 0.7,
        crop_overlap_ratio: float = 512 / 1500,
        crop_n_points_downscale_factor: int = 1,
        point_grids: list[Any] | None = None,
        min_mask_region_area: int = 0,
        output_mode: str = "binary_mask",
    ) -> None:
        assert (points_per_side is None) != (point_grids is None)
        self.points, self.cut = (point_grids or [])[0], pred_iou_thresh
        self.told = SimpleNamespace(
            stability=stability_score_thresh, overlap=box_nms_thresh, batch=points_per_batch
        )
        Told.append(self.told)

    def generate(self, image: Any) -> list[dict[str, Any]]:
        """A square around each point, the larger and surer the later; the surest first."""
        height, width = image.shape[:2]
        found = []
        for number, (x, y) in enumerate(self.points * (width, height)):
            half, score = 1 + number, 0.5 + number / 10
            mask = square((x - half, y - half, x + half, y + half), (height, width)).numpy()
            record = {"segmentation": mask, "area": int(mask.sum()), "predicted_iou": score}
            if score > self.cut:
                found.append(record)
        return found[::-1]


Told: list[SimpleNamespace] = []


def build_sam_vit_b(checkpoint: str | None = None) -> Sam:
    return Sam()


sam_model_registry = {"vit_b": build_sam_vit_b}

"""Segment Anything by its authors' package segment_anything: their predictor, and their generator of masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, WeightsError, import_torch
from looktwice.specialists.networks.checkpoint_kinds import require_kind, unwrap
from looktwice.specialists.networks.checkpoints import load_weights, read_tensors
from looktwice.specialists.networks.packages import import_package
from looktwice.specialists.results import Masks
from looktwice.specialists.segmentation.mask_filter import MaskFilter

BUILDS = {768: "vit_b", 1024: "vit_l", 1280: "vit_h"}  # the package's names, by the channels of the encoder


@dataclass(frozen=True, eq=False)
class SamPackage:
    """The package and a network of it, which several threads may use."""

    package: Any
    network: Any

    def masks(self, pixels: Pixels, prompts: NDArray[np.float64], filter: MaskFilter | None, most: int) -> Masks:
        """A mask of each prompt, box (n, 4) or point (n, 2), or with a filter those worth it of all points.

        Prompts are given as the package takes them, in pixels, and it adds half a pixel itself; `most` at once.
        """
        if filter is not None:
            return self._kept(pixels, prompts, filter, most)
        predictor, size = self.package.SamPredictor(self.network), pixels.shape[:2]
        predictor.set_image(pixels)
        masks, scores = [], []
        for start in range(0, len(prompts), most):
            chunk = prompts[start : start + most]
            found, iou, _ = predictor.predict_torch(**self._tensors(predictor.transform, chunk, size))
            best = iou.argmax(1)
            rows = import_torch().arange(len(chunk), device=best.device)
            masks.append(found[rows, best].cpu().numpy())
            scores.append(iou[rows, best].cpu().numpy())
        return Masks(np.concatenate(masks), np.concatenate(scores), np.full(len(prompts), ""))

    def _tensors(self, transform: Any, prompts: NDArray[np.float64], size: Sequence[int]) -> dict[str, Any]:
        def tensor(values: NDArray[np.float64]) -> Any:
            return import_torch().as_tensor(values, device=self.network.device, dtype=import_torch().float32)

        boxes = prompts.shape[1] == 4
        given: dict[str, Any] = {"point_coords": None, "point_labels": None, "multimask_output": not boxes}
        if boxes:
            return given | {"boxes": tensor(transform.apply_boxes(prompts, size))}
        labels = tensor(np.ones((len(prompts), 1)))
        return given | {
            "point_coords": tensor(transform.apply_coords(prompts, size))[:, None], "point_labels": labels
        }  # fmt: skip

    def _kept(self, pixels: Pixels, points: NDArray[np.float64], filter: MaskFilter, most: int) -> Masks:
        height, width = pixels.shape[:2]
        generator = self.package.SamAutomaticMaskGenerator(
            self.network, points_per_side=None, point_grids=[(points + 0.5) / (width, height)], points_per_batch=most,
            pred_iou_thresh=filter.iou, stability_score_thresh=filter.stability, box_nms_thresh=filter.overlap,
        )  # fmt: skip
        least = max(1.0, filter.smallest * height * width)
        found = [each for each in generator.generate(pixels) if each["area"] >= least]
        surest = sorted(found, key=lambda each: -each["predicted_iou"])[: filter.most]
        surest.sort(key=lambda each: -each["area"])
        masks = np.reshape([each["segmentation"] for each in surest], (-1, height, width)).astype(bool)
        return Masks(masks, np.array([each["predicted_iou"] for each in surest]), np.full(len(surest), ""))


def open_sam_package(model: str, place: Place) -> SamPackage:
    """The package's network with the tensors of an original file such as `sam_vit_b_01ec64.pth`.

    Raises WeightsError where the package is missing, or the file is of another network or lacks a tensor.
    """
    package, tensors = import_package("segment_anything"), unwrap(read_tensors(model))
    require_kind(model, tensors, "SAM")
    width = tensors["image_encoder.pos_embed"].shape[-1]
    if width not in BUILDS:
        raise WeightsError(f"{model} has an encoder of {width} channels; the package builds {list(BUILDS)}")
    network = package.sam_model_registry[BUILDS[width]]()
    return SamPackage(package, load_weights(network, tensors, model).to(place.device))

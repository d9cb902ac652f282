"""The package segment_anything of SAM's authors, and which of many masks are worth keeping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, WeightsError, import_torch
from looktwice.specialists.networks.checkpoints import (
    load_weights,
    read_tensors,
    require_kind,
    unwrap,
)
from looktwice.specialists.networks.packages import import_package
from looktwice.specialists.results import Masks


@dataclass(frozen=True)
class MaskFilter:
    """Which masks are worth keeping, with the defaults of Kirillov et al. (ICCV 2023, appendix B).

    A mask is kept where its predicted IoU is above `iou` and its `stability` above that: the IoU of
    the mask with itself when the logits are cut one higher and one lower. Of masks whose boxes
    overlap by more than `overlap` IoU the surest stays. `smallest` is the least share of the image
    that a mask covers. Of more than `most` the surest are kept. SAM 2 predicts lower: its authors
    cut at an `iou` of 0.8.
    """

    iou: float = 0.88
    stability: float = 0.95
    overlap: float = 0.7
    smallest: float = 0.0
    most: int = 64

    def __post_init__(self) -> None:
        shares = (self.iou, self.stability, self.overlap, self.smallest)
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError(f"iou, stability, overlap and smallest lie in 0..1, found {shares}")
        if self.most < 1:
            raise ValueError(f"most is 1 mask or more, found {self.most}")


# the package's names, by the channels of the encoder
BUILDS = {768: "vit_b", 1024: "vit_l", 1280: "vit_h"}


@dataclass(frozen=True, eq=False)
class SamPackage:
    """The package and a network of it, which several threads may use."""

    package: Any
    network: Any

    def masks(
        self, pixels: Pixels, prompts: NDArray[np.float64], filter: MaskFilter | None, most: int
    ) -> Masks:
        """A mask of each prompt, box (n, 4) or point (n, 2), or with a filter those worth it of all
        points.

        Prompts are given as the package takes them, in pixels, and it adds half a pixel itself;
        `most` at once.
        """
        if filter is not None:
            return self._kept(pixels, prompts, filter, most)
        predictor, size = self.package.SamPredictor(self.network), pixels.shape[:2]
        predictor.set_image(pixels)
        masks, scores = [], []
        for start in range(0, len(prompts), most):
            chunk = prompts[start : start + most]
            logits, iou, _ = predictor.predict_torch(
                **self._tensors(predictor.transform, chunk, size)
            )
            best = iou.argmax(1)
            rows = import_torch().arange(len(chunk), device=best.device)
            masks.append(logits[rows, best].cpu().numpy())
            scores.append(iou[rows, best].cpu().numpy())
        return Masks(np.concatenate(masks), np.concatenate(scores), np.full(len(prompts), ""))

    def _tensors(
        self, transform: Any, prompts: NDArray[np.float64], size: Sequence[int]
    ) -> dict[str, Any]:
        def tensor(values: NDArray[np.float64]) -> Any:
            return import_torch().as_tensor(
                values, device=self.network.device, dtype=import_torch().float32
            )

        boxes = prompts.shape[1] == 4
        given: dict[str, Any] = {
            "point_coords": None,
            "point_labels": None,
            "multimask_output": not boxes,
        }
        if boxes:
            return given | {"boxes": tensor(transform.apply_boxes(prompts, size))}
        labels = tensor(np.ones((len(prompts), 1)))
        return given | {
            "point_coords": tensor(transform.apply_coords(prompts, size))[:, None],
            "point_labels": labels,
        }

    def _kept(
        self, pixels: Pixels, points: NDArray[np.float64], filter: MaskFilter, most: int
    ) -> Masks:
        height, width = pixels.shape[:2]
        generator = self.package.SamAutomaticMaskGenerator(
            self.network,
            points_per_side=None,
            point_grids=[(points + 0.5) / (width, height)],
            points_per_batch=most,
            pred_iou_thresh=filter.iou,
            stability_score_thresh=filter.stability,
            box_nms_thresh=filter.overlap,
        )
        least = max(1.0, filter.smallest * height * width)
        candidates = [
            candidate for candidate in generator.generate(pixels) if candidate["area"] >= least
        ]
        surest = sorted(candidates, key=lambda candidate: -candidate["predicted_iou"])[
            : filter.most
        ]
        surest.sort(key=lambda candidate: -candidate["area"])
        masks = np.reshape(
            [candidate["segmentation"] for candidate in surest], (-1, height, width)
        ).astype(bool)
        return Masks(
            masks,
            np.array([candidate["predicted_iou"] for candidate in surest]),
            np.full(len(surest), ""),
        )


def open_sam_package(model: str, place: Place) -> SamPackage:
    """The package's network with the tensors of an original file such as `sam_vit_b_01ec64.pth`.

    Raises WeightsError where the package is missing, or the file is of another network or lacks a
    tensor.
    """
    package, tensors = import_package("segment_anything"), unwrap(read_tensors(model))
    require_kind(model, tensors, "SAM")
    width = tensors["image_encoder.pos_embed"].shape[-1]
    if width not in BUILDS:
        raise WeightsError(
            f"{model} has an encoder of {width} channels; the package builds {list(BUILDS)}"
        )
    network = package.sam_model_registry[BUILDS[width]]()
    return SamPackage(package, load_weights(network, tensors, model).to(place.device))

"""Segment Anything, versions 1 to 3: the thing in a box or at a point, and all in an image."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.marks import mask_bounds
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.hub import from_hub
from looktwice.pipelines.runtime.networks import Place, WeightsError, import_torch
from looktwice.specialists.networks.checkpoints import (
    is_weights_file,
    read_tensors,
    require_kind,
    unwrap,
)
from looktwice.specialists.networks.image_size import MEAN, STD, require_colors, require_pixels
from looktwice.specialists.networks.network import Network
from looktwice.specialists.networks.packages import require_float32
from looktwice.specialists.results import Boxes, Masks
from looktwice.specialists.segmentation.sam3 import see_square
from looktwice.specialists.segmentation.sam_files import fix_sam_hq, open_sam1, open_sam2
from looktwice.specialists.segmentation.sam_package import MaskFilter, SamPackage, open_sam_package

KINDS = {
    "sam": "SamModel",
    "sam_hq": "SamHQModel",
    "sam2": "Sam2Model",
    "sam2_video": "Sam2Model",
    "edgetam": "EdgeTamModel",
    "edgetam_video": "EdgeTamModel",
    "sam3_tracker": "Sam3TrackerModel",
    "sam3_video": "Sam3TrackerModel",
}

Floats = NDArray[np.float64]
Size = tuple[int, int]
"""Height and width in pixels."""


@dataclass(frozen=True, eq=False)
class SamNetwork:
    """A network, its place, and how it looks: version 1 `pads` an image to a square, later ones
    stretch it."""

    model: Any
    place: Place
    pads: bool

    @property
    def config(self) -> Any:
        """The network's configuration."""
        return self.model.config

    @property
    def side(self) -> int:
        """The side in pixels of the square that the network looks at."""
        return int(self.config.prompt_encoder_config.image_size)

    def inner(self, size: Size) -> Size:
        """The rows and columns of the square that an image takes up, from its upper left corner."""
        height, width = size
        if not self.pads:
            return self.side, self.side
        scale = self.side / max(height, width)
        return max(1, int(height * scale + 0.5)), max(1, int(width * scale + 0.5))

    def embed(self, images: Sequence[Pixels]) -> list[Any]:
        """What the network sees in each image, HxWx3 RGB uint8 of any sizes, as one batch."""
        torch = import_torch()
        batch = torch.cat([self._square(image) for image in images]).to(self.place.torch_dtype)
        seen = self.model.get_image_embeddings(batch)
        if self.config.model_type == "sam_hq":  # with what its early layers see
            return [
                (seen[0][n : n + 1], [early[n : n + 1] for early in seen[1]])
                for n in range(len(images))
            ]
        if self.pads:
            return [seen[n : n + 1] for n in range(len(images))]
        return [[level[n : n + 1] for level in seen] for n in range(len(images))]

    def decode(self, seen: Any, prompts: Floats, size: Size, several: bool) -> tuple[Any, Any]:
        """The masks of n prompts as small logits (n, k, h, w), and their predicted IoU (n, k).

        Prompts are points (n, 2) in pixel centres or boxes (n, 4) in edges; k is 3 with `several`,
        else 1.
        """
        torch = import_torch()
        rows, columns = self.inner(size)
        to_square = np.tile([columns / size[1], rows / size[0]], prompts.shape[1] // 2)
        edges = prompts + 0.5 if prompts.shape[1] == 2 else prompts
        # transformers takes pixel centres of the square and adds the half pixel itself
        given = torch.from_numpy(edges * to_square - 0.5).float().to(self.place.device)[None]
        named = (
            {"input_boxes": given} if prompts.shape[1] == 4 else {"input_points": given[:, :, None]}
        )
        if self.config.model_type == "sam_hq":
            named |= {"image_embeddings": seen[0], "intermediate_embeddings": seen[1]}
        output = self.model(**{"image_embeddings": seen, **named}, multimask_output=several)
        return output.pred_masks[0].float(), output.iou_scores[0].float()

    def upscaled(self, logits: Any, size: Size) -> Any:
        """Small logits (n, h, w) at the size of the image (n, height, width); positive is
        inside."""
        resize = import_torch().nn.functional.interpolate
        logits = logits[:, None]
        if self.pads:
            rows, columns = self.inner(size)
            logits = resize(logits, (self.side, self.side), mode="bilinear", align_corners=False)[
                ..., :rows, :columns
            ]
        return resize(logits, size, mode="bilinear", align_corners=False)[:, 0]

    def _square(self, image: Pixels) -> Any:
        rows, columns = self.inner((image.shape[0], image.shape[1]))
        if self.config.model_type.startswith("sam3"):
            return see_square(image, self.side).to(self.place.device)
        torch = import_torch()
        if self.pads:  # as version 1's code does, which rounds what it resizes to whole levels
            image = np.asarray(
                Image.fromarray(image).resize((columns, rows), Image.Resampling.BILINEAR)
            )
        small = (
            torch.from_numpy(image.copy()).to(self.place.device).permute(2, 0, 1)[None].float()
            / 255
        )
        if not self.pads:
            resize = torch.nn.functional.interpolate
            small = resize(
                small, (rows, columns), mode="bilinear", align_corners=False, antialias=True
            )
        mean, std = (
            torch.tensor(values, device=small.device).view(1, 3, 1, 1) for values in (MEAN, STD)
        )
        return torch.nn.functional.pad(
            (small - mean) / std, (0, self.side - columns, 0, self.side - rows)
        )


def open_sam(model: str, revision: str | None, place: Place) -> SamNetwork:
    """SAM in any of its kinds by hub id or folder, or an original checkpoint by its file. Raises
    WeightsError."""
    if is_weights_file(model):
        tensors = unwrap(read_tensors(model))
        name = require_kind(model, tensors, "SAM", "SAM-HQ", "SAM 2")
        opened = open_sam2(model, tensors) if name == "SAM 2" else open_sam1(model, tensors)
        if name == "SAM-HQ":
            fix_sam_hq(opened)
        return SamNetwork(opened.to(place.device, place.torch_dtype), place, pads=name != "SAM 2")
    kind = getattr(from_hub("AutoConfig", model, revision), "model_type", None)
    if kind not in KINDS:
        raise WeightsError(
            f"{model} is a network of the type {kind!r}, not Segment Anything; give an id or folder"
            f" of type {', '.join(KINDS)}"
        )
    network = from_hub(KINDS[kind], model, revision, dtype=place.torch_dtype, use_safetensors=True)
    if kind == "sam_hq":
        fix_sam_hq(network)
    return SamNetwork(network.to(place.device).eval(), place, pads=kind in ("sam", "sam_hq"))


Item = tuple[Pixels, Floats, MaskFilter | None]
"""An image, its prompts (n, 2) or (n, 4), and None for one mask each, in their order."""


@dataclass(frozen=True)
class SAM(Network[Item, Masks]):
    """Masks of the things in boxes, by SAM (Kirillov et al., ICCV 2023) or SAM 2 (Ravi et al., ICLR
    2025).

    `model` is the id or folder of any SAM, SAM-HQ (Ke et al., NeurIPS 2023), SAM 2, SAM 3 (of which
    its tracker looks; what words name is found by `SAM3`) or EdgeTAM (Zhou et al., CVPR 2025; its
    backbone needs timm) of Hugging Face transformers, or an original checkpoint file
    (`sam_vit_b_01ec64.pth`, `sam_hq_vit_l.pth`, `sam2.1_hiera_tiny.pt`). Images of any sizes are
    seen as one batch; `prompts` of them are decoded at once. A box gets the network's one mask, a
    point the best of its three. Scores are the predicted IoU.

    With `package` the authors' own package segment_anything, which is to be installed, looks at the
    original file of version 1 that `model` names: its predictor is given boxes and points, its
    generator those of `SegmentEverything`.
    """

    model: str = "facebook/sam2.1-hiera-tiny"
    prompts: int = field(default=32, metadata=NOT_IDENTITY)
    package: bool = False

    result = Masks
    half_is_safe = False
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prompts < 1:
            raise ValueError(f"prompts is 1 or more at once, found {self.prompts}")
        if self.package:
            require_float32(self.dtype)

    def __call__(self, pixels: Pixels, boxes: Boxes, /) -> Masks:
        """One mask for each box, in its order, with its label. Raises NoEvidence if
        single-coloured, WeightsError."""
        return self.finish((pixels, boxes), self.predict((pixels, boxes)))

    def at(self, pixels: Pixels, points: ArrayLike) -> Masks:
        """One mask for each point (n, 2) in pixel centres, in their order. Raises NoEvidence,
        WeightsError."""
        return self.predict((pixels, points))

    def worthy(self, pixels: Pixels, points: ArrayLike, filter: MaskFilter) -> Masks:
        """What is worth keeping of the masks of each point, three each, the largest first. Raises
        as `at` does."""
        return self.predict((pixels, points, filter))

    def open_network(self, place: Place) -> Any:
        """The network. Raises WeightsError."""
        return (
            open_sam_package(self.model, place)
            if self.package
            else open_sam(self.model, self.revision, place)
        )

    def network_key(self) -> Hashable:
        """The id or file, its revision, and whose code runs it."""
        return (super().network_key(), self.package)

    def forward(
        self, network: SamNetwork | SamPackage, place: Place, items: Sequence[Item]
    ) -> list[Masks]:
        """The masks of each image: all are seen together, and their prompts decoded image by
        image."""
        if isinstance(network, SamPackage):
            return [network.masks(*item, self.prompts) for item in items]
        seen = network.embed([item[0] for item in items])
        return [
            (
                self._best_masks(network, embedding, pixels, prompts)
                if filter is None
                else self._kept(network, embedding, pixels, prompts, filter)
            )
            for embedding, (pixels, prompts, filter) in zip(seen, items, strict=True)
        ]

    def batch_key(self, item: Item) -> Hashable:
        """Images of all sizes go together: the network looks at squares."""
        return None

    def prepare(self, given: tuple[Any, ...]) -> Item:
        """The image, what is asked of it, boxes or points, and the filter, if any. Raises
        NoEvidence, ValueError."""
        pixels, prompts, filter = (*given, None)[:3]
        asked = np.asarray(prompts.xyxy if isinstance(prompts, Boxes) else prompts, np.float64)
        if asked.size and (asked.ndim > 2 or asked.shape[-1] not in (2, 4)):
            raise ValueError(
                f"points are (n, 2) and boxes (n, 4) numbers, found the shape {asked.shape}"
            )
        return (
            require_colors(pixels),
            asked.reshape(-1, asked.shape[-1] if asked.size else 2),
            filter,
        )

    def settle(self, item: Item) -> Masks | None:
        """No mask where nothing is asked."""
        empty = Masks(np.empty((0, *item[0].shape[:2]), bool), np.empty(0), np.empty(0, str))
        return None if len(item[1]) else empty

    def finish(self, given: tuple[Any, ...], result: Masks) -> Masks:
        """The masks with the labels of their boxes."""
        boxes = given[1]
        return (
            Masks(result.masks, result.scores, boxes.labels) if isinstance(boxes, Boxes) else result
        )

    def _chunks(self, prompts: Floats) -> list[Floats]:
        return [
            prompts[start : start + self.prompts] for start in range(0, len(prompts), self.prompts)
        ]

    def _best_masks(self, network: SamNetwork, seen: Any, pixels: Pixels, prompts: Floats) -> Masks:
        size, several, masks, scores = _size(pixels), prompts.shape[1] == 2, [], []
        for chunk in self._chunks(prompts):
            logits, iou = network.decode(seen, chunk, size, several)
            best = iou.argmax(1)
            rows = import_torch().arange(len(chunk), device=best.device)
            masks += [
                _full_size_mask(network, mask_logits, size) for mask_logits in logits[rows, best]
            ]
            scores += iou[rows, best].tolist()
        return Masks(np.array(masks), np.array(scores), np.full(len(masks), ""))

    def _kept(
        self, network: SamNetwork, seen: Any, pixels: Pixels, points: Floats, filter: MaskFilter
    ) -> Masks:
        size, small, scores, boxes = _size(pixels), [], [], []
        for chunk in self._chunks(points):
            logits, iou = (
                tensor.flatten(0, 1) for tensor in network.decode(seen, chunk, size, several=True)
            )
            for n in np.flatnonzero((iou > filter.iou).cpu().numpy()):
                full = network.upscaled(logits[n : n + 1], size)[0]
                inside, union = (int((full > cut).sum()) for cut in (1, -1))
                covered = full > 0
                share = float(covered.float().mean())
                stable = union > 0 and inside / union > filter.stability
                if stable and share > 0 and share >= filter.smallest:
                    small.append(logits[n])
                    scores.append(float(iou[n]))
                    left, top, right, bottom = mask_bounds(covered.cpu().numpy())
                    boxes.append((left, top, right - left, bottom - top))
        kept = _suppress_overlaps(boxes, scores, filter)
        masks = sorted(
            ((_full_size_mask(network, small[n], size), scores[n]) for n in kept),
            key=lambda mask: -mask[0].sum(),
        )
        stacked = np.reshape([mask for mask, _ in masks], (-1, *size))
        return Masks(stacked, np.array([score for _, score in masks]), np.full(len(masks), ""))


@dataclass(frozen=True)
class SegmentEverything:
    """Everything that SAM finds from a grid of `side` x `side` points over the image (Kirillov et
    al., appendix B).

    The masks may overlap and lie in one another; `filter` says which are kept, and the largest
    comes first. The crops of the paper, by which it finds smaller things, are left out.
    """

    sam: SAM = field(default_factory=SAM)
    side: int = 32
    filter: MaskFilter = field(default_factory=MaskFilter)

    def __post_init__(self) -> None:
        if self.side < 1:
            raise ValueError(f"side is 1 point or more along each side, found {self.side}")

    def __call__(self, pixels: Pixels, /) -> Masks:
        """The masks at the size of the image. Raises NoEvidence for a single-coloured image,
        WeightsError."""
        height, width = require_pixels(pixels).shape[:2]
        along = (np.arange(self.side) + 0.5) / self.side
        x, y = np.meshgrid(along * width - 0.5, along * height - 0.5)
        return self.sam.worthy(pixels, np.column_stack((x.ravel(), y.ravel())), self.filter)


def _size(pixels: Pixels) -> Size:
    return pixels.shape[0], pixels.shape[1]


def _full_size_mask(network: SamNetwork, logits: Any, size: Size) -> NDArray[np.bool_]:
    """One mask at the size of the image."""
    full: NDArray[np.bool_] = (network.upscaled(logits[None], size)[0] > 0).cpu().numpy()
    return full


def _suppress_overlaps(
    boxes: Sequence[tuple[int, int, int, int]], scores: Sequence[float], filter: MaskFilter
) -> list[int]:
    """The numbers of the masks that no surer one overlaps by more than is allowed."""
    if not boxes:
        return []
    kept = cv2.dnn.NMSBoxes(boxes, scores, 0.0, filter.overlap)  # scores above `iou` are above 0
    return [int(n) for n in np.ravel(kept)][: filter.most]

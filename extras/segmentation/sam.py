"""Segment Anything, versions 1 to 3: segments the object in a box or at a point, or everything in
an image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from looktwice.extras.networks.checkpoints import is_weights_file
from looktwice.extras.networks.hub import load_from_hub
from looktwice.extras.networks.network import Inputs, Network
from looktwice.extras.networks.opening import Place, import_torch
from looktwice.extras.networks.packages import require_float32
from looktwice.extras.networks.tensors import normalize, resize, to_batch
from looktwice.extras.segmentation.sam3 import resize_to_square
from looktwice.extras.segmentation.sam_files import (
    MaskFilter,
    SamPackage,
    fix_sam_hq,
    open_sam_file,
    open_sam_package,
    sort_by_area,
)
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.marks import mask_bounds
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.pixels import require_pixels
from looktwice.specialists.results import Boxes, Floats, Masks
from looktwice.specialists.rules import Checked

MODEL_CLASSES = {
    "sam": "SamModel",
    "sam_hq": "SamHQModel",
    "sam2": "Sam2Model",
    "sam2_video": "Sam2Model",
    "edgetam": "EdgeTamModel",
    "edgetam_video": "EdgeTamModel",
    "sam3_tracker": "Sam3TrackerModel",
    "sam3_video": "Sam3TrackerModel",
}

BoolMask = NDArray[np.bool_]
Size = tuple[int, int]
"""Height and width in pixels."""


@dataclass(frozen=True, eq=False)
class SamNetwork:
    """A network and its device (`place`); `pads` is True if images are padded to a square, as in
    version 1, and False if they are stretched to it."""

    model: Any
    place: Place
    pads: bool

    @property
    def config(self) -> Any:
        """The network's configuration."""
        return self.model.config

    @property
    def side(self) -> int:
        """The side in pixels of the network's square input."""
        return int(self.config.prompt_encoder_config.image_size)

    def compute_inner_size(self, size: Size) -> Size:
        """Return the rows and columns that an image fills in the network's square input, from the
        upper left."""
        height, width = size
        if not self.pads:
            return self.side, self.side
        scale = self.side / max(height, width)
        return max(1, int(height * scale + 0.5)), max(1, int(width * scale + 0.5))

    def embed(self, images: Sequence[Pixels]) -> list[Any]:
        """Compute the embedding of each image, HxWx3 RGB uint8 of any sizes, as one batch."""
        torch = import_torch()
        batch = torch.cat([self._prepare_square(image) for image in images]).to(
            self.place.torch_dtype
        )
        seen = self.model.get_image_embeddings(batch)

        def select_image(levels: Any, n: int) -> Any:
            if isinstance(levels, torch.Tensor):
                return levels[n : n + 1]
            return [select_image(level, n) for level in levels]

        return [select_image(seen, n) for n in range(len(images))]

    def decode(self, seen: Any, prompts: Floats, size: Size, several: bool) -> tuple[Any, Any]:
        """Decode the masks of n prompts as small logits (n, k, h, w), and their predicted IoU (n,
        k).

        Prompts are points (n, 2) in pixel-centre coordinates or boxes (n, 4) of pixel edges; k is 3
        with `several`, else 1.
        """
        torch = import_torch()
        rows, columns = self.compute_inner_size(size)
        boxes = prompts.shape[1] == 4
        to_square = np.tile([columns / size[1], rows / size[0]], prompts.shape[1] // 2)
        # transformers takes pixel centres of the square and adds the half pixel itself
        places = (prompts if boxes else prompts + 0.5) * to_square - 0.5
        given = torch.from_numpy(places).float().to(self.place.device)[None]
        named = {"input_boxes": given} if boxes else {"input_points": given[:, :, None]}
        named["image_embeddings"] = seen
        if self.config.model_type == "sam_hq":  # SAM-HQ also uses features of early layers
            named["image_embeddings"], named["intermediate_embeddings"] = seen
        output = self.model(**named, multimask_output=several)
        return output.pred_masks[0].float(), output.iou_scores[0].float()

    def upscale(self, logits: Any, size: Size) -> Any:
        """Resize small logits (h, w) to the image's (height, width); logits are positive inside the
        mask."""
        logits = logits[None, None]
        if self.pads:
            rows, columns = self.compute_inner_size(size)
            logits = resize(logits, (self.side, self.side))[..., :rows, :columns]
        return resize(logits, size)[0, 0]

    def make_mask(self, logits: Any, size: Size) -> BoolMask:
        """Return one mask at the size of the image."""
        inside: BoolMask = (self.upscale(logits, size) > 0).cpu().numpy()
        return inside

    def _prepare_square(self, image: Pixels) -> Any:
        rows, columns = self.compute_inner_size(_get_size(image))
        if self.config.model_type.startswith("sam3"):
            return resize_to_square(image, self.side).to(self.place.device)
        if self.pads:  # as in version 1's code, which rounds resized pixels to whole levels
            small = Image.fromarray(image).resize((columns, rows), Image.Resampling.BILINEAR)
            batch = to_batch([np.asarray(small)], self.place).float() / 255
        else:
            whole = to_batch([image], self.place).float() / 255
            batch = resize(whole, (rows, columns), antialias=True)
        rim = (0, self.side - columns, 0, self.side - rows)
        return import_torch().nn.functional.pad(normalize(batch), rim)


def open_sam(model: str, revision: str | None, place: Place) -> SamNetwork:
    """Open any SAM by hub id or folder, or an original checkpoint file. Raises WeightsError."""
    if is_weights_file(model):
        network, pads = open_sam_file(model)
        return SamNetwork(network.to(place.device, place.torch_dtype), place, pads)
    kind = getattr(load_from_hub("AutoConfig", model, revision), "model_type", None)
    if kind not in MODEL_CLASSES:
        raise WeightsError(
            f"{model} is a network of the type {kind!r}, not Segment Anything; set model: to an"
            f" id or folder of type {', '.join(MODEL_CLASSES)}"
        )
    network = load_from_hub(
        MODEL_CLASSES[kind], model, revision, dtype=place.torch_dtype, use_safetensors=True
    )
    if kind == "sam_hq":
        fix_sam_hq(network)
    return SamNetwork(network.to(place.device).eval(), place, pads=kind in ("sam", "sam_hq"))


AnySam = SamNetwork | SamPackage
Item = tuple[Pixels, Floats, MaskFilter | None]
"""An image, its prompts (n, 2) or (n, 4), and a filter; without a filter each prompt gets one
mask."""


@dataclass(frozen=True)
class SAM(Network[Item, Masks]):
    """Masks of the objects in boxes, by SAM (Kirillov et al., ICCV 2023) or SAM 2 (Ravi et al.,
    ICLR 2025).

    `model` is the id or folder of any SAM, SAM-HQ (Ke et al., NeurIPS 2023), SAM 2, SAM 3 (its
    tracker is used; for objects named by words use `SAM3`) or EdgeTAM (Zhou et al., CVPR 2025; its
    backbone needs timm) of Hugging Face transformers, or an original checkpoint file
    (`sam_vit_b_01ec64.pth`, `sam_hq_vit_l.pth`, `sam2.1_hiera_tiny.pt`). Images of any sizes are
    encoded as one batch; `prompts` is the number of prompts decoded at once. A box gets the
    network's single mask, a point the best of its three. Scores are the predicted IoU.

    With `package` the authors' own package segment_anything, which must be installed, runs the
    original file of version 1 that `model` names: its predictor handles boxes and points, its
    generator `SegmentEverything`.
    """

    model: str = "facebook/sam2.1-hiera-tiny"
    prompts: int = field(default=32, metadata=NOT_IDENTITY)
    package: bool = False

    result = Masks
    extra = "hf"
    half_is_safe = False
    resizes_to_squares = True
    opening_settings = (*Network.opening_settings, "package")
    version: ClassVar[int] = 2
    ranges = ("prompts >= 1",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.package:
            require_float32(self.dtype)

    def __call__(self, pixels: Pixels, boxes: Boxes, /) -> Masks:
        """Return one mask for each box, in order, with its label. Raises NoEvidence for a
        single-coloured image, ValueError for a box outside the image, WeightsError."""
        return self.finish((pixels, boxes), self.predict((pixels, boxes)))

    def at(self, pixels: Pixels, points: ArrayLike) -> Masks:
        """Return one mask for each point (n, 2) in pixel-centre coordinates, in order. Raises
        NoEvidence, ValueError for a point outside the image, WeightsError."""
        return self.predict((pixels, points))

    def generate_masks(self, pixels: Pixels, points: ArrayLike, filter: MaskFilter) -> Masks:
        """Generate three masks for each point and return those that pass the filter, largest first.
        Raises the same errors as `at`."""
        return self.predict((pixels, points, filter))

    def open_network(self, place: Place) -> Any:
        """Open the network. Raises WeightsError."""
        if self.package:
            return open_sam_package(self.model, place)
        return open_sam(self.model, self.revision, place)

    def forward(self, network: AnySam, place: Place, items: Sequence[Item]) -> list[Masks]:
        """Return the masks of each image: all images are encoded together, and their prompts
        decoded image by image."""
        masks = []
        seen = network.embed([item[0] for item in items])
        for image, (pixels, prompts, filter) in zip(seen, items, strict=True):
            if filter is None:
                masks.append(self._decode_best_masks(network, image, pixels, prompts))
            elif isinstance(network, SamPackage):
                masks.append(network.generate_masks(pixels, prompts, filter, self.prompts))
            else:
                masks.append(self._generate_masks(network, image, pixels, prompts, filter))
        return masks

    def prepare(self, given: Inputs) -> Item:
        """Return the image, its prompts (boxes or points), and the filter, if any. Raises
        NoEvidence, ValueError."""
        pixels, prompts, filter = (*given, None)[:3]
        asked = np.asarray(prompts.xyxy if isinstance(prompts, Boxes) else prompts, np.float64)
        if asked.size and (asked.ndim > 2 or asked.shape[-1] not in (2, 4)):
            raise ValueError(
                f"points must be (n, 2) and boxes (n, 4) numbers, found the shape {asked.shape}"
            )
        asked = asked.reshape(-1, asked.shape[-1] if asked.size else 2)
        pixels = require_pixels(pixels, colors=True)
        require_inside(asked, _get_size(pixels))
        return pixels, asked, filter

    def find_known_result(self, item: Item) -> Masks | None:
        """Return zero masks if there are no prompts, else None."""
        return None if len(item[1]) else Masks.make_empty(*item[0].shape[:2])

    def finish(self, given: Inputs, result: Masks) -> Masks:
        """Return the masks with the labels of their boxes."""
        labels = given[1].labels if isinstance(given[1], Boxes) else result.labels
        return Masks(result.masks, result.scores, labels)

    def _decode_chunks(
        self, network: AnySam, seen: Any, pixels: Pixels, prompts: Floats
    ) -> Iterator[tuple[Any, Any]]:
        """Yield masks and scores for chunks of prompts: one for a box, three for a point."""
        for start in range(0, len(prompts), self.prompts):
            chunk = prompts[start : start + self.prompts]
            yield network.decode(seen, chunk, _get_size(pixels), prompts.shape[1] == 2)

    def _decode_best_masks(
        self, network: AnySam, seen: Any, pixels: Pixels, prompts: Floats
    ) -> Masks:
        masks, scores = list[BoolMask](), list[float]()
        for logits, iou in self._decode_chunks(network, seen, pixels, prompts):
            for small, best in zip(logits, iou.argmax(1).tolist(), strict=True):
                masks.append(network.make_mask(small[best], _get_size(pixels)))
            scores += iou.amax(1).tolist()
        return Masks(np.array(masks), np.array(scores), np.full(len(masks), ""))

    def _generate_masks(
        self, network: SamNetwork, seen: Any, pixels: Pixels, points: Floats, filter: MaskFilter
    ) -> Masks:
        size, small, scores, boxes = _get_size(pixels), list[Any](), list[float](), list[Any]()
        for chunk in self._decode_chunks(network, seen, pixels, points):
            logits, iou = (tensor.flatten(0, 1) for tensor in chunk)
            for n in np.flatnonzero((iou > filter.iou).cpu().numpy()):
                full = network.upscale(logits[n], size)
                inside, union = (int((full > cut).sum()) for cut in (1, -1))
                mask = (full > 0).cpu().numpy()
                stable = union > 0 and inside / union > filter.stability
                if stable and mask.any() and mask.mean() >= filter.smallest:
                    left, top, right, bottom = mask_bounds(mask)
                    boxes.append((left, top, right - left, bottom - top))
                    small.append(logits[n])
                    scores.append(float(iou[n]))
        # no mask with a higher score overlaps one of these too much; all scores are above 0
        kept = cv2.dnn.NMSBoxes(boxes, scores, 0.0, filter.overlap) if boxes else ()
        numbers = np.ravel(kept).astype(int)[: filter.most]
        masks = [network.make_mask(small[n], size) for n in numbers]
        return sort_by_area(masks, [scores[n] for n in numbers], pixels)


@dataclass(frozen=True)
class SegmentEverything(Checked):
    """Everything that `sam` finds from a grid of `side` x `side` points over the image (Kirillov et
    al., appendix B).

    The masks may overlap and be nested; `filter` decides which are kept, and the largest comes
    first. The image crops by which the paper finds smaller objects are left out.
    """

    sam: SAM = field(default_factory=SAM)
    side: int = 32
    filter: MaskFilter = field(default_factory=MaskFilter)

    ranges = ("side >= 1",)

    def __call__(self, pixels: Pixels, /) -> Masks:
        """Return the masks at the size of the image. Raises WeightsError, and NoEvidence for a
        single-coloured image."""
        height, width = require_pixels(pixels).shape[:2]
        along = (np.arange(self.side) + 0.5) / self.side
        x, y = np.meshgrid(along * width - 0.5, along * height - 0.5)
        return self.sam.generate_masks(pixels, np.column_stack((x.ravel(), y.ravel())), self.filter)


def require_inside(prompts: Floats, size: Size) -> None:
    """Raise ValueError for points (n, 2) in pixel-centre coordinates outside an image of this
    height and width, and for boxes (n, 4) of pixel edges that do not overlap it."""
    edges = (size[1], size[0])
    if prompts.shape[1] == 2:
        inside = (prompts >= -0.5) & (prompts <= np.array(edges) - 0.5)
    else:
        inside = (prompts[:, :2] < edges) & (prompts[:, 2:] > 0)
        inside &= prompts[:, :2] < prompts[:, 2:]
    wrong = np.flatnonzero(~inside.all(1))
    if len(wrong):
        kind = "point" if prompts.shape[1] == 2 else "box"
        numbers = ", ".join(f"{number:g}" for number in prompts[wrong[0]])
        raise ValueError(
            f"the {kind} [{numbers}] lies outside the image of {edges[0]} x {edges[1]} pixels, or"
            " has no area; use coordinates inside it"
        )


def _get_size(pixels: Pixels) -> Size:
    return pixels.shape[0], pixels.shape[1]

"""The networks of Segment Anything as transformers builds them: images and prompts in, masks out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.weights import Place, WeightsError, from_hub, import_torch
from looktwice.specialists.sam_files import from_original

__all__ = ["SamNetwork", "Size", "open_sam"]

KINDS = {"sam": "SamModel", "sam2": "Sam2Model", "sam2_video": "Sam2Model"}
FILES = (".pth", ".pt", ".safetensors")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, of both versions

Floats = NDArray[np.float64]
Size = tuple[int, int]
"""Height and width in pixels."""


@dataclass(frozen=True, eq=False)
class SamNetwork:
    """A network, its place, and how it looks: version 1 `pads` an image to a square, version 2 stretches it."""

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
        if self.pads:
            return [seen[n : n + 1] for n in range(len(images))]
        return [[level[n : n + 1] for level in seen] for n in range(len(images))]

    def decode(self, seen: Any, prompts: Floats, size: Size, several: bool) -> tuple[Any, Any]:
        """The masks of n prompts as small logits (n, k, h, w), and their predicted IoU (n, k).

        Prompts are points (n, 2) in pixel centres or boxes (n, 4) in edges; k is 3 with `several`, else 1.
        """
        torch = import_torch()
        rows, columns = self.inner(size)
        to_square = np.tile([columns / size[1], rows / size[0]], prompts.shape[1] // 2)
        edges = prompts + 0.5 if prompts.shape[1] == 2 else prompts
        # transformers takes pixel centres of the square and adds the half pixel itself
        given = torch.from_numpy(edges * to_square - 0.5).float().to(self.place.device)[None]
        named = {"input_boxes": given} if prompts.shape[1] == 4 else {"input_points": given[:, :, None]}
        found = self.model(image_embeddings=seen, multimask_output=several, **named)
        return found.pred_masks[0].float(), found.iou_scores[0].float()

    def upscaled(self, logits: Any, size: Size) -> Any:
        """Small logits (n, h, w) at the size of the image (n, height, width); positive is inside."""
        resize = import_torch().nn.functional.interpolate
        logits = logits[:, None]
        if self.pads:
            rows, columns = self.inner(size)
            logits = resize(logits, (self.side, self.side), mode="bilinear", align_corners=False)[..., :rows, :columns]
        return resize(logits, size, mode="bilinear", align_corners=False)[:, 0]

    def _square(self, image: Pixels) -> Any:
        torch = import_torch()
        rows, columns = self.inner((image.shape[0], image.shape[1]))
        pixels = torch.from_numpy(image.copy()).to(self.place.device).permute(2, 0, 1)[None].float() / 255
        resize = torch.nn.functional.interpolate
        small = resize(pixels, (rows, columns), mode="bilinear", align_corners=False, antialias=True)
        mean, std = (torch.tensor(each, device=small.device).view(1, 3, 1, 1) for each in (MEAN, STD))
        return torch.nn.functional.pad((small - mean) / std, (0, self.side - columns, 0, self.side - rows))


def open_sam(model: str, revision: str | None, place: Place) -> SamNetwork:
    """SAM or SAM 2 by hub id or folder, or an original checkpoint of version 1 by its file. Raises WeightsError."""
    if Path(model).suffix in FILES:
        return SamNetwork(from_original(model).to(place.device, place.torch_dtype), place, pads=True)
    kind = getattr(from_hub("AutoConfig", model, revision), "model_type", None)
    if kind not in KINDS:
        raise WeightsError(
            f"{model} is a network of the type {kind!r}, not Segment Anything; give an id or folder of type "
            f"{', '.join(KINDS)}"
        )
    network = from_hub(KINDS[kind], model, revision, dtype=place.torch_dtype, use_safetensors=True)
    return SamNetwork(network.to(place.device).eval(), place, pads=kind == "sam")

"""Depth Anything, and any other depth network of Hugging Face transformers, by hub id or folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place
from looktwice.specialists.networks.image_size import require_colors, require_size
from looktwice.specialists.networks.transformers_hub import HubNetwork, first_images
from looktwice.specialists.results import DepthMap


@dataclass(frozen=True)
class DepthAnything(HubNetwork[tuple[Pixels], DepthMap]):
    """Relative depth of one image by Depth Anything V2 (Yang et al., NeurIPS 2024) or another network for depth.

    Any id that Hugging Face transformers opens for depth estimation works. Depth Anything's relative models and
    DPT/MiDaS give inverse depth, `larger_is_nearer`; for metric ones (ZoeDepth, Depth Pro, the Metric variants) say
    `larger_is_nearer: false`. The map is brought to the size of the image bilinearly. The small model of version 2 is
    Apache-2.0, the larger ones CC-BY-NC.
    """

    model: str = "depth-anything/Depth-Anything-V2-Small-hf"
    larger_is_nearer: bool = True

    result: ClassVar[type[Any]] = DepthMap
    model_class: ClassVar[str] = "AutoModelForDepthEstimation"

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        """The map of the first image, at its size; further images are not looked at.

        Raises NoEvidence for a single-coloured image or one too small, and WeightsError.
        """
        require_size(image, 2)  # first, so that an image of one pixel is called too small, not single-coloured
        require_colors(image)
        return self.predict((image,))

    def forward(self, network: Any, place: Place, items: Sequence[tuple[Pixels]]) -> list[DepthMap]:
        """One map for each image."""
        images = first_images(items)
        for image in images:
            require_size(image, getattr(network.processor, "size_divisor", None) or 1)
        outputs = network.model(**network.inputs(place, images=images))
        sizes = [image.shape[:2] for image in images]
        found = network.processor.post_process_depth_estimation(outputs, target_sizes=sizes)
        return [DepthMap(each["predicted_depth"].float().cpu().numpy(), self.larger_is_nearer) for each in found]

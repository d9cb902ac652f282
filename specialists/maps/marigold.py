"""Marigold's intrinsic images: reflectance by a diffusion network, via diffusers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import (
    Place,
    WeightsError,
    first_line,
    import_diffusers,
    import_torch,
)
from looktwice.specialists.maps.retinex import Floats, levels_to_linear
from looktwice.specialists.networks.image_size import require_colors
from looktwice.specialists.networks.network import Network
from looktwice.specialists.networks.transformers_hub import open_diffusion
from looktwice.specialists.results import FeatureGrid

KIND = "MarigoldIntrinsicsPipeline"
Item = tuple[Pixels]


@dataclass(frozen=True)
class MarigoldAlbedo(Network[Item, FeatureGrid]):
    """Reflectance as Marigold denoises it from an image (Ke et al., 2025, intrinsic image decomposition).

    `model` is a pipeline of diffusers for intrinsic images, by hub id or folder; its map named `albedo` is taken.
    `steps` and `longest`, the longest side in pixels at which it looks, are the pipeline's own where None. Of
    `ensemble` draws the median is taken; the noise is made from `seed`, and is the same
    for all images of one size.
    """

    model: str = "prs-eth/marigold-iid-appearance-v1-1"
    steps: int | None = None
    longest: int | None = None
    ensemble: int = 1
    seed: int = 0
    batch: int = field(default=1, metadata=NOT_IDENTITY)

    result = FeatureGrid

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "longest", "ensemble"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is 1 or more, found {value}")
        if self.ensemble == 2:
            raise ValueError("ensemble is 1, or 3 or more, for a median; found 2")

    def __call__(self, pixels: Pixels, /) -> Floats:
        """Linear RGB (height, width, 3), 0..1. Raises NoEvidence for single-coloured images, WeightsError."""
        return self.predict((pixels,)).values

    def prepare(self, given: tuple[Any, ...]) -> Item:
        """The image. Raises NoEvidence for a single-coloured one."""
        item = super().prepare(given[:1])
        require_colors(item[0])
        return item

    def open_network(self, place: Place) -> Any:
        """The pipeline, each part of which has all its tensors. Raises WeightsError."""
        parts = open_diffusion(self.model, self.revision, place)
        kind = getattr(import_diffusers(), KIND)
        try:
            told = kind.load_config(self.model, revision=self.revision)
        except (OSError, ValueError) as exc:
            raise WeightsError(f"{self.model}: its model_index.json could not be read ({first_line(exc)})") from exc
        names = ("prediction_type", "target_properties", "default_denoising_steps", "default_processing_resolution")
        held = {name: told[name] for name in names if name in told}
        if "albedo" not in (held.get("target_properties") or {}).get("target_names", ()):
            raise WeightsError(f"{self.model} is no pipeline for intrinsic images with a map named albedo; {KIND} is")
        pipeline = kind(**parts, **held).to(place.device)
        pipeline.set_progress_bar_config(disable=True)
        return pipeline

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[FeatureGrid]:
        """The map of each image, at its size, one after the other."""
        return [self._albedo(network, place, item[0]) for item in items]

    def _albedo(self, network: Any, place: Place, pixels: Pixels) -> FeatureGrid:
        generator = import_torch().Generator(place.device).manual_seed(self.seed)
        told = network(
            pixels.astype(np.float32) / 255,
            num_inference_steps=self.steps,
            ensemble_size=self.ensemble,
            processing_resolution=self.longest,
            generator=generator,
        )
        about = network.target_properties
        levels = told.prediction[about["target_names"].index("albedo")].astype(np.float64)
        linear = about.get("albedo", {}).get("prediction_space") == "linear"
        height, width = pixels.shape[:2]
        return FeatureGrid(levels if linear else levels_to_linear(levels), width, height)

    def batch_key(self, item: Item) -> Hashable:
        """Equal for all images, which are looked at one after the other."""
        return None

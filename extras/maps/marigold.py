"""Reflectance by Marigold's diffusion network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from looktwice.extras.networks.network import Network, open_diffusion
from looktwice.extras.networks.opening import Place, get_first_line, import_extra, import_torch
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.maps.reflectance import levels_to_linear
from looktwice.specialists.results import FeatureGrid, Floats

PIPELINE_CLASS = "MarigoldIntrinsicsPipeline"
PIPELINE_SETTINGS = (
    "prediction_type",
    "target_properties",
    "default_denoising_steps",
    "default_processing_resolution",
)
Item = tuple[Pixels]


@dataclass(frozen=True)
class MarigoldAlbedo(Network[Item, FeatureGrid]):
    """Reflectance by Marigold, which denoises a map of it, conditioned on the image (Ke et al.,
    2025, intrinsic image decomposition).

    `model` is the hub id or folder of a diffusers pipeline for intrinsic images, whose map `albedo`
    is used. `steps`, and `longest`, the longest side of the input in pixels, default to the
    pipeline's own values. The result is the median of `ensemble` draws; the noise depends on
    `seed`, and is the same for all images of one size.
    """

    model: str = "prs-eth/marigold-iid-appearance-v1-1"
    steps: int | None = None
    longest: int | None = None
    ensemble: int = 1
    seed: int = 0
    batch: int = field(default=1, metadata=NOT_IDENTITY)

    result = FeatureGrid
    image_count = 1
    needs_colors = True
    extra = "diffusion"
    resizes_to_squares = True  # batches may mix sizes, because images are processed one by one
    ranges = ("steps, longest, ensemble >= 1",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ensemble == 2:
            raise ValueError("`ensemble` must be 1, or at least 3 for a median; found 2")

    def __call__(self, pixels: Pixels, /) -> Floats:
        """Return linear RGB (height, width, 3), 0..1. Raises WeightsError, and NoEvidence for
        single-coloured images."""
        return self.predict((pixels,)).values

    def open_network(self, place: Place) -> Any:
        """Open the pipeline, and check that each part has all its tensors. Raises WeightsError."""
        parts = open_diffusion(self.model, self.revision, place)
        kind = getattr(import_extra("diffusers", "diffusion"), PIPELINE_CLASS)
        try:
            config = kind.load_config(self.model, revision=self.revision)
        except (OSError, ValueError) as exc:
            raise WeightsError(
                f"{self.model}: its model_index.json could not be read ({get_first_line(exc)})"
            ) from exc
        settings = {name: config[name] for name in PIPELINE_SETTINGS if name in config}
        if "albedo" not in (settings.get("target_properties") or {}).get("target_names", ()):
            raise WeightsError(
                f"{self.model} is not a pipeline for intrinsic images with a map named albedo;"
                f" set model: to a {PIPELINE_CLASS}"
            )
        pipeline = kind(**parts, **settings).to(place.device)
        pipeline.set_progress_bar_config(disable=True)
        return pipeline

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[FeatureGrid]:
        """Return the map of each image, at the image's size, one after the other."""
        about, grids = network.target_properties, []
        for (pixels,) in items:
            output = network(
                pixels.astype(np.float32) / 255,
                num_inference_steps=self.steps,
                ensemble_size=self.ensemble,
                processing_resolution=self.longest,
                generator=import_torch().Generator(place.device).manual_seed(self.seed),
            )
            levels = output.prediction[about["target_names"].index("albedo")].astype(np.float64)
            if about.get("albedo", {}).get("prediction_space") != "linear":
                levels = levels_to_linear(levels)
            grids.append(FeatureGrid(levels, pixels.shape[1], pixels.shape[0]))
        return grids

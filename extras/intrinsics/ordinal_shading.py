"""Reflectance by Ordinal Shading, from the authors' file."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from looktwice.extras.intrinsics.midas import run_large, run_small
from looktwice.extras.intrinsics.resolution import RECEPTIVE_FIELD, find_size, round_up
from looktwice.extras.networks.checkpoints import Tensors, open_tensors
from looktwice.extras.networks.network import Network
from looktwice.extras.networks.opening import Place, import_torch
from looktwice.extras.networks.tensors import to_array
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.results import FeatureGrid, Floats

GAMMA = 2.2
LUMINANCE_WEIGHTS = np.array([0.3, 0.59, 0.11])
MIN_VALUE = 1e-5
INVERSE_RANGE = 1e-3, 1 - 1e-6  # range of 1 / (1 + shading)
NETWORK_PARTS = {"ord_state_dict": (run_large, 3), "iid_state_dict": (run_small, 5)}
"""The networks by their keys in the file, each with the function that runs it and the number of its
input channels."""
Item = tuple[Pixels]


@dataclass(frozen=True)
class OrdinalShading(Network[Item, FeatureGrid]):
    """Reflectance by Ordinal Shading (Careaga and Aksoy, ACM TOG 2023), BLINK's specialist for
    relative reflectance.

    `model` is the authors' file with both networks, `final_weights.pt` of the release v1.0 of
    compphoto/Intrinsic on GitHub, licensed for academic use. One network estimates how the shadings
    of pixels are ordered, once at 384 pixels and once at full size; the other turns both orders
    into a shading map, by which the image is divided. As in the authors' code, the image is resized
    so that every pixel has an edge within 384 pixels, to at most 1,500 pixels on the longer side,
    and gamma is 2.2; `longest` sets the longer side instead. Memory grows with the square of the
    longer side. The two orders are scaled to each other on a random half of the pixels, which is
    the same in every run. The result is resized to the image.
    """

    longest: int | None = None

    result = FeatureGrid
    image_count = 1
    min_side = 32
    needs_colors = True
    half_is_safe = False
    ranges = ("longest >= 64",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise ValueError(
                "`model` must be the file of Ordinal Shading, final_weights.pt of the release v1.0"
                " of compphoto/Intrinsic on GitHub; it is empty"
            )

    def __call__(self, pixels: Pixels, /) -> Floats:
        """Return linear RGB (height, width, 3) on an unknown scale. Raises WeightsError, and
        NoEvidence for images that have a single colour or a side under 32 pixels."""
        return self.predict((pixels,)).values

    def open_network(self, place: Place) -> dict[str, Tensors]:
        """Open the tensors of both networks. Raises WeightsError if one is missing or does not
        fit."""
        torch, file = import_torch(), open_tensors(self.model, "Ordinal Shading")
        for part, (run, channels) in NETWORK_PARTS.items():
            try:
                with torch.inference_mode():
                    run(file[part], torch.zeros(1, channels, 32, 32))
            except (KeyError, RuntimeError) as exc:
                raise WeightsError(
                    f"{self.model}: its {part} does not hold the network of Ordinal Shading"
                    f" ({' '.join(str(exc).split())[:200]}); download it again"
                ) from exc
        return {
            part: {
                name: tensor.to(place.device, place.torch_dtype)
                for name, tensor in file[part].items()
            }
            for part in NETWORK_PARTS
        }

    def get_batch_key(self, item: Item) -> Hashable:
        """Return one key for all items, because images are processed one by one."""
        return ()

    def forward(
        self, network: dict[str, Tensors], place: Place, items: Sequence[Item]
    ) -> list[FeatureGrid]:
        """Return the reflectance of each image, at the image's size."""

        def run(part: str, channels: Floats) -> Floats:
            image = import_torch().from_numpy(channels.astype(np.float32)).permute(2, 0, 1)[None]
            given = image.to(place.device, place.torch_dtype)
            return to_array(NETWORK_PARTS[part][0](network[part], given)[0]).transpose(1, 2, 0)

        grids = []
        for (pixels,) in items:
            size = pixels.shape[1], pixels.shape[0]
            albedo = self._estimate(pixels.astype(np.float64) / 255, run)
            grids.append(FeatureGrid(resize(albedo, pixels.shape[:2]), *size))
        return grids

    def _estimate(self, image: Floats, run: Callable[[str, Floats], Floats]) -> Floats:
        """Return the reflectance of an image, both with values 0..1, at the size at which it is
        processed."""
        size = find_size(image)
        if self.longest is not None:
            size = _compute_size(image, self.longest)
        light = resize(image, size) ** GAMMA
        coarse = resize(
            run("ord_state_dict", resize(light, _compute_size(light, RECEPTIVE_FIELD))), size
        )
        fine = _match_scale(light, coarse, run("ord_state_dict", light))
        inverse = run("iid_state_dict", np.concatenate([light, coarse, fine], axis=2))
        return light / (1 / inverse.clip(*INVERSE_RANGE) - 1)


def _compute_size(image: Floats, longest: int) -> tuple[int, int]:
    """Return the height and width with this longer side, in multiples of 32."""
    scale = longest / max(image.shape[:2])
    height, width = (round_up(side * scale) for side in image.shape[:2])
    return height, width


def _match_scale(light: Floats, coarse: Floats, fine: Floats) -> Floats:
    """Scale the reflectance that the fine order implies to the one that the coarse order implies,
    by least squares, and convert it back to an order.

    An order is 1 / (1 + shading).
    """
    gray = (light @ LUMINANCE_WEIGHTS)[..., None]
    albedos = [
        gray / np.maximum(1 / np.maximum(order, MIN_VALUE) - 1, MIN_VALUE)
        for order in (coarse, fine)
    ]
    drawn = np.random.RandomState(0).randn(*gray.shape[:2]) > 0
    base, full = (albedo[drawn].ravel() for albedo in albedos)
    scale = float(full @ base) / float(full @ full)
    order: Floats = 1 / (1 + gray / np.maximum(scale * albedos[1], MIN_VALUE))
    return order


def resize(values: Floats, size: Sequence[int]) -> Floats:
    """Resize a map (rows, columns, d) linearly, after Gaussian smoothing if it shrinks."""
    from skimage.transform import resize as resized

    settings = {"order": 1, "preserve_range": True, "anti_aliasing": True}
    out: Floats = cast("Any", resized)(values, (size[0], size[1]), **settings)
    return out

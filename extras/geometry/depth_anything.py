"""Depth and cameras of two views by Depth Anything 3."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from looktwice.extras.geometry.views import Views
from looktwice.extras.maps.depth_anything import DepthAnything3
from looktwice.extras.networks.network import Network
from looktwice.extras.networks.opening import Place
from looktwice.extras.networks.packages import fix_random_draws
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.results import Floats

Pair = tuple[Pixels, Pixels]
INPUT_SIDE = 504  # pixels of the longer side, the package's default


@dataclass(frozen=True)
class DepthAnythingViews(Network[Pair, Views]):
    """Depth and cameras of two views by Depth Anything 3 (Lin et al., arXiv 2511.10647), with its
    package: `pip install depth-anything-3`.

    `model` is an id of its releases that estimates cameras, or a folder with their `config.json`
    and `model.safetensors`: DA3-SMALL and DA3-BASE are Apache-2.0, DA3-LARGE and larger CC-BY-NC.
    Releases for a single view (DA3MONO-LARGE, DA3METRIC-LARGE) are refused. Maps are resized to the
    images bilinearly. If the package gives the two images different sizes, it crops both to the
    smaller size around their centres; the depth outside is unknown. Its confidences, which are 1 or
    more, become 1 minus their inverse. The package chooses the precision itself.
    """

    model: str = "depth-anything/DA3-BASE"

    result = Views
    extra = "hf"
    needs_colors = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._single_view_network

    @property
    def _single_view_network(self) -> DepthAnything3:
        """The same network as an estimator of single images, which opens the files."""
        return DepthAnything3(self.model, self.revision, self.dtype, self.device)

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Views:
        """Estimate the geometry of two images. Raises WeightsError, and NoEvidence for a
        single-coloured image."""
        return self.predict((pixels0, pixels1))

    def open_network(self, place: Place) -> Any:
        """Open the package's network with the tensors of its files. Raises WeightsError."""
        return self._single_view_network.open_network(place)

    def get_batch_key(self, item: Pair) -> Hashable:
        """Return one key for all: pairs are processed one by one."""
        return ()

    def forward(self, network: Any, place: Place, items: Sequence[Pair]) -> list[Views]:
        """Return the geometry of each pair."""
        return [self._reconstruct(network, item) for item in items]

    def weights_id(self) -> str:
        """Return the hash of the files."""
        return self._single_view_network.weights_id()

    def _reconstruct(self, network: Any, item: Pair) -> Views:
        with fix_random_draws():
            found = network.inference([*item], process_res=INPUT_SIDE)
        if found.extrinsics is None or found.intrinsics is None:
            raise WeightsError(
                f"{self.model} estimates no cameras; set model: to one for several views, such as"
                " depth-anything/DA3-BASE"
            )
        maps, cameras = list[Floats](), list[Floats]()
        for number, pixels in enumerate(item):
            prepared = network.input_processor([pixels], process_res=INPUT_SIDE, sequential=True)[0]
            inner = tuple(int(side) for side in prepared.shape[-2:])
            sure = 1 - 1 / np.maximum(np.asarray(found.conf[number], np.float64), 1)
            for values in (found.depth[number], sure):
                maps.append(_restore_size(np.asarray(values, np.float64), inner, pixels.shape[:2]))
            cameras.append(
                _convert_intrinsics(
                    found.intrinsics[number], found.depth[number].shape, inner, pixels.shape
                )
            )
        return Views(
            maps[0], maps[2], maps[1], maps[3], np.stack(cameras), _drop_last_row(found.extrinsics)
        )


def _drop_last_row(extrinsics: Any) -> Floats:
    """Return the upper three rows of extrinsics (2, 3 or 4, 4)."""
    return np.asarray(extrinsics, np.float64)[:, :3]


def _find_margins(cropped: Sequence[int], inner: Sequence[int]) -> tuple[int, int]:
    """Return the numbers of rows and columns that a crop around the middle removed above and to the
    left."""
    return (inner[0] - cropped[0]) // 2, (inner[1] - cropped[1]) // 2


def _restore_size(values: Floats, inner: Sequence[int], size: Sequence[int]) -> Floats:
    """Resize the map of a crop of the prepared image, whose size is `inner`, to the original
    image's `size` (height, width); pixels outside the crop are NaN."""
    (rows, columns), (top, left) = values.shape, _find_margins(values.shape, inner)
    whole = np.full((inner[0], inner[1]), np.nan)
    whole[top : top + rows, left : left + columns] = values
    return np.asarray(cv2.resize(whole, (size[1], size[0]), interpolation=cv2.INTER_LINEAR))


def _convert_intrinsics(
    intrinsics: Any, cropped: Sequence[int], inner: Sequence[int], size: Sequence[int]
) -> Floats:
    """Convert the intrinsics of a crop to those of the whole image."""
    top, left = _find_margins(cropped, inner)
    camera = np.array(intrinsics, np.float64)
    camera[:2, 2] += left, top
    scales = np.diag([size[1] / inner[1], size[0] / inner[0], 1.0])
    rescaled: Floats = scales @ camera
    return rescaled

"""The base classes of networks that match two images, and two dense or semi-dense matchers: LoFTR
and RoMa."""

from __future__ import annotations

import importlib.util
from collections.abc import Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import cv2
import numpy as np
from PIL import Image

from looktwice.extras.networks.checkpoints import load_weights, open_tensors, read_tensors
from looktwice.extras.networks.network import Inputs, Network
from looktwice.extras.networks.opening import Place, find_weights_file
from looktwice.extras.networks.packages import (
    download_network,
    fix_random_draws,
    import_kornia,
    import_package,
)
from looktwice.extras.networks.tensors import to_array, to_batch
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError, hash_weights
from looktwice.specialists.pixels import InputSize, is_one_color
from looktwice.specialists.results import Matches, argsort_descending

Pair = tuple[Pixels, Pixels]
WeightFiles = Sequence[tuple[str | Path, str]]
"""Weight files, each with the name of the download that is used if the path is empty."""


@dataclass(frozen=True)
class MatchingNetwork(Network[Pair, Matches]):
    """A network that matches two images."""

    result = Matches
    half_is_safe = False
    mixed_precision = True

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        """Match two images, HxWx3 RGB uint8; there are no matches if one image has a single colour.

        Raises WeightsError, and NoEvidence if an image is too small.
        """
        return self.predict((pixels0, pixels1))

    def find_known_result(self, item: Pair) -> Matches | None:
        """Return an empty result if an image has a single colour, else None."""
        return Matches.make_empty() if any(map(is_one_color, item)) else None


@dataclass(frozen=True)
class PairNetwork(MatchingNetwork):
    """A matcher that resizes each image separately; pairs with equal sizes share a batch."""

    def prepare(self, given: Inputs) -> Pair:
        """Return the two images. Raises NoEvidence if one is too small."""
        item = super().prepare(given)
        for pixels in item:
            self.get_input_size(pixels)
        return item

    def files(self) -> WeightFiles:
        """Return the weight files, each with the name of the download that is used if the path is
        empty."""
        raise NotImplementedError

    def weights_id(self) -> str:
        """Return the hash of each file, or the name of the download that replaces it."""
        return " ".join(
            hash_weights(find_weights_file(file)) if file else name for file, name in self.files()
        )

    def get_input_size(self, pixels: Pixels) -> InputSize:
        """Return the size to which an image is resized. Raises NoEvidence if it is too small."""
        raise NotImplementedError

    def resize_images(
        self, items: Sequence[Pair], side: int
    ) -> tuple[list[InputSize], list[Pixels]]:
        """Resize the first image of each pair (`side` 0) or the second one (1); return the sizes
        and the images."""
        sizes = [self.get_input_size(item[side]) for item in items]
        return sizes, [s.resize(item[side]) for s, item in zip(sizes, items, strict=True)]

    def get_batch_key(self, item: Pair) -> Hashable:
        """Return the sizes to which the two images are resized."""
        return tuple(self.get_input_size(pixels).size for pixels in item)


@dataclass(frozen=True)
class LoFTR(PairNetwork):
    """Semi-dense matches by LoFTR (Sun et al., CVPR 2021): at most one for each cell of 8 x 8
    pixels of image 0.

    `preset` is the training data: "outdoor" is MegaDepth, "indoor" and "indoor_new" are ScanNet.
    `model` is the checkpoint's file; if it is empty, kornia downloads its own for this preset. A
    match is kept if its confidence is above `threshold`. Images are converted to grey and resized
    to a longest side of at most `longest` pixels (1200 is the authors' value for outdoor pairs),
    with sides rounded down to multiples of 8. Memory grows with the fourth power of `longest`: 4000
    pixels would take about 140 GB.
    """

    preset: Literal["outdoor", "indoor", "indoor_new"] = "outdoor"
    threshold: float = 0.2
    longest: int | None = 1200

    version: ClassVar[int] = 2

    opening_settings = ("preset", "model", "threshold")  # the threshold is built in
    ranges = ("threshold >= 0", "threshold < 1")

    def open_network(self, place: Place) -> Any:
        """Open the network. Raises WeightsError."""
        kornia = import_kornia()
        from kornia.feature.loftr.loftr import default_cfg

        config = deepcopy(default_cfg)
        config["match_coarse"]["thr"] = self.threshold
        if self.model:
            config["coarse"]["temp_bug_fix"] = self.preset == "indoor_new"
            tensors = read_tensors(self.model)
            network = load_weights(kornia.LoFTR(None, config), tensors, self.model)
        else:
            network = download_network(
                f"LoFTR {self.preset} (model:)", lambda: kornia.LoFTR(self.preset, config)
            )
        return network.to(place.device)

    def forward(self, network: Any, place: Place, items: Sequence[Pair]) -> list[Matches]:
        """Return the matches of each pair, highest confidence first."""
        given, sizes = {}, []
        for side in (0, 1):
            input_sizes, images = self.resize_images(items, side)
            sizes.append(input_sizes)
            gray = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[..., None] for image in images]
            given[f"image{side}"] = to_batch(gray, place).to(place.torch_dtype) / 255
        output = network(given)
        pair = output["batch_indexes"].cpu().numpy()
        # kornia returns corners of pixels, as in training, half a pixel from our pixel
        # centres
        xy0, xy1 = (to_array(output[f"keypoints{side}"]) - 0.5 for side in (0, 1))
        confidence = to_array(output["confidence"]).clip(0, 1)
        matches = []
        for number, size0, size1 in zip(range(len(items)), *sizes, strict=True):
            rows = np.flatnonzero(pair == number)
            rows = rows[argsort_descending(confidence[rows])]
            matches.append(
                Matches(size0.to_image(xy0[rows]), size1.to_image(xy1[rows]), confidence[rows])
            )
        return matches

    def files(self) -> WeightFiles:
        """Return the checkpoint's file, with the preset as the name of kornia's download."""
        return [(self.model, self.preset)]

    def get_input_size(self, pixels: Pixels) -> InputSize:
        """Return the size to which an image is resized. Raises NoEvidence if a side is under 48
        pixels."""
        # smaller images would have fewer than five cells inside the border
        return InputSize.fit(pixels, self.longest, 8, min_side=48)


COARSE_SIDE = 560  # pixels of the network's first square input
# the package samples this multiple of the requested matches and keeps those that are spread
# out
SAMPLING_FACTOR = 4


@dataclass(frozen=True)
class RoMa(PairNetwork):
    """Matches sampled from the dense warp of RoMa (Edstedt et al., CVPR 2024), which needs the
    package romatch to be installed.

    `preset` is the training data: "outdoor" is MegaDepth, "indoor" is ScanNet. `model` is the
    authors' file (`roma_outdoor.pth`), `dinov2` the file of its encoder
    (`dinov2_vitl14_pretrain.pth`); if a path is empty, the package downloads the file. `matches` is
    the number of samples: more are drawn where the warp is certain, spread over the image; the same
    images give the same matches. A certainty above 0.05 counts as 1. `dtype` is the precision on
    CUDA, by default float16 as in the authors' code.
    """

    preset: Literal["outdoor", "indoor"] = "outdoor"
    dinov2: str = ""
    matches: int = 5000

    half_is_safe = True
    mixed_precision = False
    opening_settings = ("preset", "model", "dinov2")
    ranges = ("matches >= 1",)

    def open_network(self, place: Place) -> Any:
        """Open the package's matcher. Raises WeightsError."""
        tensors = {
            "weights": open_tensors(self.model, "RoMa") if self.model else None,
            "dinov2_weights": open_tensors(self.dinov2, "DINOv2") if self.dinov2 else None,
        }
        build = getattr(import_package("romatch"), f"roma_{self.preset}")
        fused = place.device == "cuda" and importlib.util.find_spec("local_corr") is not None

        built = partial(
            build,
            device=place.device,
            amp_dtype=place.torch_dtype,
            use_custom_corr=fused,
            **tensors,
        )
        if None in tensors.values():
            return download_network(f"RoMa {self.preset} (model:, dinov2:)", built)
        try:
            return built()
        except RuntimeError as exc:
            reason = " ".join(str(exc).split())[:200]
            raise WeightsError(
                f"{self.model} and {self.dinov2} do not fit romatch ({reason}); use its own files"
            ) from exc

    def forward(self, network: Any, place: Place, items: Sequence[Pair]) -> list[Matches]:
        """Return the matches of each pair, highest confidence first, one pair at a time."""
        return [self._match(network, place, *item) for item in items]

    def _match(self, network: Any, place: Place, pixels0: Pixels, pixels1: Pixels) -> Matches:
        warp, certainty = network.match(
            Image.fromarray(pixels0), Image.fromarray(pixels1), device=place.device
        )
        asked = min(self.matches, int((certainty > 0).sum()) // SAMPLING_FACTOR)
        if not asked:
            return Matches.make_empty()
        with fix_random_draws():
            drawn, sure = network.sample(warp, certainty, num=asked)
        # from the package's pixel edges to our pixel centres
        xy = network.to_pixel_coordinates(drawn, *pixels0.shape[:2], *pixels1.shape[:2])
        confidence = to_array(sure).clip(0, 1)
        order = argsort_descending(confidence)
        xy0, xy1 = (to_array(places)[order] - 0.5 for places in xy)
        return Matches(xy0, xy1, confidence[order])

    def files(self) -> WeightFiles:
        """Return the two files, with the preset as the name of the package's downloads."""
        return [(self.model, self.preset), (self.dinov2, self.preset)]

    def get_input_size(self, pixels: Pixels) -> InputSize:
        """Return the square to which every image is resized."""
        return InputSize(pixels.shape[1], pixels.shape[0], COARSE_SIDE, COARSE_SIDE)

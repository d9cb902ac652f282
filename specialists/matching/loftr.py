"""LoFTR: matches between two images without keypoints, via kornia."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, import_torch, weights_file, weights_hash
from looktwice.specialists.matching.pair_network import Pair, PairNetwork
from looktwice.specialists.networks.checkpoints import load_weights, read_tensors
from looktwice.specialists.networks.image_size import InputSize
from looktwice.specialists.networks.packages import fetch, import_kornia
from looktwice.specialists.results import Matches


@dataclass(frozen=True)
class LoFTR(PairNetwork):
    """Matches of LoFTR (Sun et al., CVPR 2021), semi-dense: at most one for each cell of 8 x 8
    pixels of image 0.

    `preset` says what it was trained on: "outdoor" is MegaDepth, "indoor" and "indoor_new" are
    ScanNet. `model` is the checkpoint's file; where it is empty, kornia fetches its own of this
    preset. A match is kept where its confidence is above `threshold`. Images are looked at in grey
    with a longest side of at most `longest` pixels, the authors' 1200 for outdoor pairs, sides
    rounded down to multiples of 8. Memory grows with its fourth power: 4000 pixels would take some
    140 GB.
    """

    preset: Literal["outdoor", "indoor", "indoor_new"] = "outdoor"
    threshold: float = 0.2
    longest: int | None = 1200

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.threshold < 1:
            raise ValueError(
                f"threshold lies in 0..1 and below 1, found {self.threshold}; LoFTR's own is 0.2"
            )

    def open_network(self, place: Place) -> Any:
        """The network. Raises WeightsError."""
        kornia = import_kornia()
        from kornia.feature.loftr.loftr import default_cfg

        config = deepcopy(default_cfg)
        config["match_coarse"]["thr"] = self.threshold
        if self.model:
            config["coarse"]["temp_bug_fix"] = self.preset == "indoor_new"
            content = read_tensors(self.model)
            tensors = {
                name.removeprefix("matcher."): tensor
                for name, tensor in content.get("state_dict", content).items()
            }
            network = load_weights(kornia.LoFTR(None, config), tensors, self.model)
        else:
            network = fetch(
                f"LoFTR {self.preset} (model:)", lambda: kornia.LoFTR(self.preset, config)
            )
        return network.to(place.device)

    def forward(self, network: Any, place: Place, items: Sequence[Pair]) -> list[Matches]:
        """The matches of each pair, the surest first."""
        sizes = [[self.size(item[side]) for item in items] for side in (0, 1)]
        output = network(
            {f"image{side}": self._gray(items, side, sizes[side], place) for side in (0, 1)}
        )
        pair = output["batch_indexes"].cpu().numpy()
        # kornia gives corners of pixels as the weights were trained, half a pixel from our pixel
        # centres
        xy0, xy1 = (output[f"keypoints{side}"].float().cpu().numpy() - 0.5 for side in (0, 1))
        confidence = output["confidence"].float().cpu().numpy().clip(0, 1)
        matches = []
        for number, size0, size1 in zip(range(len(items)), *sizes, strict=True):
            rows = np.flatnonzero(pair == number)
            rows = rows[np.argsort(-confidence[rows], kind="stable")]
            matches.append(
                Matches(size0.to_image(xy0[rows]), size1.to_image(xy1[rows]), confidence[rows])
            )
        return matches

    def network_key(self) -> Hashable:
        """The preset, the file and the threshold, which is built in."""
        return (self.preset, self.model, self.threshold)

    def weights_id(self) -> str:
        """The hash of the file, or the name of what kornia fetches."""
        return weights_hash(weights_file(self.model)) if self.model else self.preset

    def size(self, pixels: Pixels) -> InputSize:
        """The size at which an image is looked at. Raises NoEvidence where a side is under 48
        pixels."""
        # five cells are left at least without the rim
        return InputSize.of(pixels, self.longest, 8, least=48)

    def _gray(
        self, items: Sequence[Pair], side: int, sizes: Sequence[InputSize], place: Place
    ) -> Any:
        images = [size.resized(item[side]) for size, item in zip(sizes, items, strict=True)]
        gray = np.stack([cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in images])[:, None]
        return import_torch().from_numpy(gray).to(place.device).to(place.torch_dtype) / 255

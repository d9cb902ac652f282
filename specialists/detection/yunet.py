"""YuNet: faces by the small network that OpenCV runs itself, from its ONNX file."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import WeightsError, open_shared, weights_file
from looktwice.specialists.networks.checkpoints import say_file
from looktwice.specialists.networks.image_size import require_pixels, shrink
from looktwice.specialists.protocols import NoEvidence
from looktwice.specialists.results import Faces


@dataclass(frozen=True)
class YuNet:
    """Faces by YuNet (Wu et al., Machine Intelligence Research 2023), without identities.

    `model` is the path of `face_detection_yunet_2023mar.onnx` from OpenCV's model zoo. Faces of 10 to 300 pixels are
    found; a picture whose longer side has more than `longest` pixels is looked at smaller. A face is kept where its
    score is above `threshold`; of boxes that overlap by more than `overlap` IoU the surest stays.
    """

    model: Path
    threshold: float = 0.7
    overlap: float = 0.3
    longest: int = 1280

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1 or not 0 < self.overlap <= 1:
            raise ValueError(f"threshold lies in 0..1 and overlap in 0..1, found {self.threshold} and {self.overlap}")
        if self.longest < 32:
            raise ValueError(f"longest is 32 pixels or more, found {self.longest}")

    def __call__(self, pixels: Pixels, /) -> Faces:
        """The faces of an HxWx3 RGB image in its own pixels, the surest first. Raises WeightsError."""
        pixels = require_pixels(pixels)
        height, width = pixels.shape[:2]
        small = shrink(pixels, self.longest)
        rows = open_shared(("yunet", str(self.model)), lambda: _Detector(self.model)).find(small, self)
        edges = np.column_stack((rows[:, :2], rows[:, :2] + rows[:, 2:4]))
        scale = np.tile([width / small.shape[1], height / small.shape[0]], 2)
        xyxy = (edges * scale).clip(0, [width, height, width, height])
        order = np.argsort(-rows[:, 14], kind="stable")
        return Faces(xyxy[order], rows[order, 14], np.empty((len(rows), 0)))


@dataclass(frozen=True, eq=False)
class _Detector:
    """OpenCV's detector, which keeps the size of its image, so one thread looks at a time."""

    model: Path
    turn: Any = field(default_factory=threading.Lock)
    network: Any = field(init=False)

    def __post_init__(self) -> None:
        file = weights_file(self.model)
        try:
            object.__setattr__(self, "network", cv2.FaceDetectorYN.create(str(file), "", (320, 320)))
        except cv2.error as exc:
            raise WeightsError(
                f"{file} is no YuNet that OpenCV reads ({say_file(file) or str(exc).splitlines()[0]}); "
                "give face_detection_yunet_2023mar.onnx from OpenCV's model zoo"
            ) from exc

    def find(self, pixels: Any, rule: YuNet) -> Any:
        """The rows (n, 15) of the network: left, top, width, height, five landmarks, score."""
        with self.turn:
            self.network.setInputSize((pixels.shape[1], pixels.shape[0]))
            self.network.setScoreThreshold(rule.threshold)
            self.network.setNMSThreshold(rule.overlap)
            try:
                _, rows = self.network.detect(cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
            except cv2.error as exc:
                size = f"{pixels.shape[1]} x {pixels.shape[0]}"
                raise NoEvidence(f"YuNet cannot look at an image of {size} pixels") from exc
        return np.reshape(rows if rows is not None else [], (-1, 15)).astype(np.float64)

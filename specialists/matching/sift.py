"""SIFT keypoints of OpenCV, matched by their descriptors."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.networks.image_size import require_pixels
from looktwice.specialists.results import Features, Matches


@dataclass(frozen=True)
class SIFT:
    """Matches whose descriptor is clearly nearer than the runner-up (Lowe, IJCV 2004, section 7.1).

    A match is kept where its distance is below `ratio` times that of the second nearest; its
    confidence is one minus that quotient. `mutual` keeps only matches that are also each other's
    nearest. `features` is the number of the strongest keypoints taken from each image.
    """

    features: int = 4096
    ratio: float = 0.8
    mutual: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise ValueError(f"ratio lies in 0..1 and above 0, found {self.ratio}; Lowe's is 0.8")
        if self.features < 2:
            raise ValueError(f"features is 2 or more, found {self.features}")

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        """Matches between two images, HxWx3 RGB uint8 each; the strongest confidence first."""
        found0, found1 = self.detect(pixels0), self.detect(pixels1)
        if len(found0) < 2 or len(found1) < 2:
            return Matches.none()
        vectors0, vectors1 = found0.vectors.astype(np.float32), found1.vectors.astype(np.float32)
        matcher = cv2.BFMatcher(cv2.NORM_L2)
        back = (
            {m.queryIdx: m.trainIdx for m in matcher.match(vectors1, vectors0)}
            if self.mutual
            else {}
        )
        kept = []
        for first, second in matcher.knnMatch(vectors0, vectors1, k=2):
            quotient = first.distance / second.distance if second.distance > 0 else 1.0
            if quotient < self.ratio and (
                not self.mutual or back[first.trainIdx] == first.queryIdx
            ):
                kept.append((first.queryIdx, first.trainIdx, 1 - quotient))
        if not kept:
            return Matches.none()
        rows0, rows1, confidence = (
            np.array(column) for column in zip(*sorted(kept, key=lambda row: -row[2]), strict=True)
        )
        return Matches(found0.xy[rows0], found1.xy[rows1], confidence)

    def detect(self, pixels: Pixels) -> Features:
        """Keypoints of one image, with descriptors (n, 128); scores are the keypoints' contrast."""
        detector = cv2.SIFT.create(nfeatures=self.features, enable_precise_upscale=True)
        gray = cv2.cvtColor(require_pixels(pixels), cv2.COLOR_RGB2GRAY)
        points, vectors = detector.detectAndCompute(gray, None)
        if not points:
            return Features(np.empty((0, 2)), np.empty((0, 128)), np.empty(0))
        return Features(
            np.array([p.pt for p in points]),
            np.asarray(vectors, np.float64),
            np.array([p.response for p in points]),
        )

"""Matching of OpenCV's SIFT keypoints by their descriptors, also over rotations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.runtime.stores import get_current_store, make_result_key
from looktwice.pipelines.transforms import rotate
from looktwice.pipelines.view import View
from looktwice.specialists.pixels import is_one_color, require_pixels
from looktwice.specialists.protocols import Matcher
from looktwice.specialists.results import Floats, Matches
from looktwice.specialists.rules import Checked
from looktwice.specialists.sharing import look_once


@dataclass(frozen=True)
class SIFT(Checked):
    """Matches of SIFT descriptors that pass the ratio test against the second nearest one (Lowe,
    IJCV 2004, section 7.1).

    A match is kept if its distance is below `ratio` times that of the second nearest; its
    confidence is one minus the ratio of the two. `mutual` keeps only matches that are each other's
    nearest. `features` is the maximum number of keypoints, the strongest ones, from each image.
    """

    features: int = 4096
    ratio: float = 0.8
    mutual: bool = True

    ranges = ("features >= 2", "ratio > 0", "ratio <= 1")

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        """Match two images, HxWx3 RGB uint8 each, and return the matches in descending
        confidence."""
        (xy0, vectors0), (xy1, vectors1) = self.detect(pixels0), self.detect(pixels1)
        if min(len(xy0), len(xy1)) < 2:
            return Matches.make_empty()
        matcher = cv2.BFMatcher(cv2.NORM_L2)
        kept = []
        for best, next_best in matcher.knnMatch(vectors0, vectors1, k=2):
            quotient = best.distance / next_best.distance if next_best.distance > 0 else 1.0
            if quotient < self.ratio:
                kept.append((best.queryIdx, best.trainIdx, 1 - quotient))
        if self.mutual and kept:  # match back only the remaining ones, since each costs as much
            there = sorted({row[1] for row in kept})
            back = {there[m.queryIdx]: m.trainIdx for m in matcher.match(vectors1[there], vectors0)}
            kept = [row for row in kept if back[row[1]] == row[0]]
        surest = sorted(kept, key=lambda row: -row[2])
        rows0, rows1, confidence = np.reshape(surest, (-1, 3)).T
        return Matches(xy0[rows0.astype(int)], xy1[rows1.astype(int)], confidence)

    def detect(self, pixels: Pixels) -> tuple[Floats, Floats]:
        """Detect keypoints (n, 2) in pixel centres, and their descriptors (n, 128). A run detects
        them once per image, even if it is matched with several others."""
        store = get_current_store()
        if store is None:
            return self._detect(pixels)[0]
        key = make_result_key(f"SIFT {self.features}", pixels)
        return store.memory.get_or_compute(key, lambda: self._detect(pixels))

    def _detect(self, pixels: Pixels) -> tuple[tuple[Floats, Floats], int]:
        """Return the keypoints and descriptors, and their size in bytes."""
        detector = cv2.SIFT.create(nfeatures=self.features, enable_precise_upscale=True)
        gray = cv2.cvtColor(require_pixels(pixels), cv2.COLOR_RGB2GRAY)
        points, vectors = detector.detectAndCompute(gray, None)
        xy: Any = np.array([point.pt for point in points], float).reshape(-1, 2)
        found: Any = np.zeros((0, 128)) if vectors is None else vectors
        described: Any = np.asarray(found).reshape(-1, 128).astype(np.float32)
        return (xy, described), xy.nbytes + described.nbytes


@dataclass(frozen=True)
class RotationSearch:
    """Matches of image 0 with image 1, which is rotated by each of `degrees`, counter-clockwise
    about its centre.

    Networks that were trained on upright pairs fail on views rotated by more than about 20 degrees;
    this searches for the rotation, at the cost of one pass of `matcher` for each. The first
    rotation with the most matches wins. Corners outside the image are black, and matches there are
    dropped.
    """

    matcher: Matcher
    degrees: tuple[float, ...] = (0.0, -20.0, 20.0, -40.0, 40.0)

    def __post_init__(self) -> None:
        if not self.degrees:
            raise ValueError(
                "`degrees` must list at least one rotation, found none; 0 is the unrotated image"
            )

    def __call__(self, pixels0: Pixels, pixels1: Pixels, /) -> Matches:
        """Match two HxWx3 RGB uint8 images; points are in pixels of the original images. Raises the
        errors of the matcher."""
        pixels0, pixels1 = require_pixels(pixels0), require_pixels(pixels1)
        if is_one_color(pixels1):  # after a rotation its corners would have another colour
            return look_once(self.matcher, pixels0, pixels1)
        return max(
            (self._match_rotated(pixels0, pixels1, degrees) for degrees in self.degrees), key=len
        )

    def _match_rotated(self, pixels0: Pixels, pixels1: Pixels, degrees: float) -> Matches:
        if degrees == 0:
            return look_once(self.matcher, pixels0, pixels1)
        rotated = rotate(View.of(Picture(pixels1)), degrees)
        matches = look_once(self.matcher, pixels0, rotated.pixels)
        xy1 = rotated.parts[0].affine.inverse(matches.xy1)
        inside = ((xy1 >= -0.5) & (xy1 <= np.array(pixels1.shape[1::-1]) - 0.5)).all(1)
        return Matches(matches.xy0, xy1, matches.confidence)[np.flatnonzero(inside)]

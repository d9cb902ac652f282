"""Disparity of a rectified stereo pair by OpenCV's semi-global block matching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels
from looktwice.specialists.networks.image_size import require_pixels, require_size
from looktwice.specialists.protocols import NoEvidence
from looktwice.specialists.results import DepthMap

MODES = {
    "sgbm": cv2.STEREO_SGBM_MODE_SGBM,
    "hh": cv2.STEREO_SGBM_MODE_HH,
    "3way": cv2.STEREO_SGBM_MODE_SGBM_3WAY,
}


@dataclass(frozen=True)
class SGBM:
    """Semi-global matching (Hirschmueller, PAMI 2008) over blocks; needs a rectified left and right
    view.

    `disparities` is the largest shift searched, in pixels and a multiple of 16; `block` the odd
    side of the matched blocks. `smooth_step` and `smooth_jump` are the penalties on disparity
    changes by one and by more, per pixel of the block and colour channel (OpenCV's P1 and P2 over
    `channels * block**2`). Unknown disparities are NaN: ambiguous matches, matches that differ by
    over a pixel between the two directions, and small speckles. `mode` is OpenCV's: "hh" follows
    more directions and takes more memory, "3way" fewer of them.
    """

    disparities: int = 128
    block: int = 5
    smooth_step: float = 8
    smooth_jump: float = 32
    mode: Literal["sgbm", "hh", "3way"] = "sgbm"

    def __post_init__(self) -> None:
        if self.disparities < 16 or self.disparities % 16:
            raise ValueError(f"disparities is a multiple of 16, found {self.disparities}")
        if self.block < 1 or self.block % 2 == 0:
            raise ValueError(f"block is the odd side of a square, 1, 3, 5 ..., found {self.block}")
        if not 0 < self.smooth_step < self.smooth_jump:
            raise ValueError(
                "smooth_jump must be larger than smooth_step and both above 0, "
                f"found {self.smooth_jump} and {self.smooth_step}"
            )

    def __call__(self, image: Pixels, /, *others: Pixels) -> DepthMap:
        """Disparity of the left view `image` in pixels, given the right view. Raises NoEvidence."""
        if len(others) != 1:
            raise NoEvidence(
                f"stereo needs a left and a right view, found {1 + len(others)} image(s)"
            )
        left, right = require_pixels(image), require_pixels(others[0])
        if left.shape != right.shape:
            raise NoEvidence(
                f"left and right view differ in size: {left.shape[1::-1]} and {right.shape[1::-1]}"
                " pixels"
            )
        require_size(left, self.block)
        # OpenCV gives no value in the first `disparities` columns, so the rim is repeated to the
        # left
        padded = [
            cv2.copyMakeBorder(view, 0, 0, self.disparities, 0, cv2.BORDER_REPLICATE)
            for view in (left, right)
        ]
        disparity = self._matcher().compute(*padded)[:, self.disparities :].astype(np.float64) / 16
        return DepthMap(np.where(disparity < 0, np.nan, disparity), larger_is_nearer=True)

    def _matcher(self) -> cv2.StereoSGBM:
        unit = 3 * self.block**2
        return cv2.StereoSGBM.create(
            minDisparity=0,
            numDisparities=self.disparities,
            blockSize=self.block,
            P1=round(self.smooth_step * unit),
            P2=round(self.smooth_jump * unit),
            disp12MaxDiff=1,  # pixels
            uniquenessRatio=10,  # percent by which the best must beat the second
            speckleWindowSize=100,  # pixels of the largest speckle
            speckleRange=2,
            mode=MODES[self.mode],
        )

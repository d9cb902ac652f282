"""How a picture enters Pocket's network: its longer side brought to the network's, the rest filled
with grey."""

from __future__ import annotations

import cv2
import numpy as np

from looktwice.pipelines.picture import Pixels

SIDE = 128  # pixels of the network's square input
STEP = 8  # pixels of the input that one place of the encoder stands for
CELLS = SIDE // STEP
GREY = 128


def fit_pixels(pixels: Pixels) -> tuple[Pixels, float, tuple[int, int]]:
    """The input SIDE x SIDE x 3 made of RGB uint8 pixels, the scale, and the left and top edge of
    the picture in it."""
    height, width = pixels.shape[:2]
    scale = SIDE / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    shrinks = scale < 1
    sized = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    if size == (SIDE, SIDE):
        return np.asarray(sized, np.uint8), scale, (0, 0)
    left, top = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
    whole = np.full((SIDE, SIDE, 3), GREY, np.uint8)
    whole[top : top + size[1], left : left + size[0]] = sized
    return whole, scale, (left, top)

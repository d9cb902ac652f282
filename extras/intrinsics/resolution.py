"""The search for the highest resolution at which every part of an image has an edge within the
network's receptive field (Miangoleh et al., CVPR 2021)."""

from __future__ import annotations

from math import ceil
from typing import Any, cast

import cv2
import numpy as np

from looktwice.specialists.results import Floats

RECEPTIVE_FIELD = 384  # pixels: the side of the network's training images
CELL_SIDE = 32  # pixels of the network's input for each cell of the search
EDGE_SHARE = 0.4  # share of the strongest gradient; weaker gradients are not edges
MAX_SCALE, MAX_SEARCHED_SIDE, MAX_RESULT_SIDE = 3, 3000, 1500
"""The search enlarges an image at most 3 times and to at most 3,000 pixels; the result has at most
1,500 pixels on its longer side."""
GRAY_WEIGHTS = np.array([0.2989, 0.5870, 0.1140])


def round_up(side: float) -> int:
    """Round a length up to a multiple of 32."""
    return ceil(side / CELL_SIDE) * CELL_SIDE


def find_size(image: Floats) -> tuple[int, int]:
    """Return the height and width at which no part of an image (height, width, 3) is farther from
    an edge than the network's receptive field reaches (called R_0 in the paper)."""
    longest = max(image.shape[:2])
    scale = min(max(_find_largest_side(image), longest), MAX_RESULT_SIDE) / longest
    height, width = (round_up(side * scale) for side in image.shape[:2])
    return height, width


def _find_largest_side(image: Floats) -> int:
    """Return the largest side, up to the limits, at which edges dilated by the receptive field
    cover the whole image."""
    edges, found = _find_edges(image), RECEPTIVE_FIELD
    limit = min(MAX_SEARCHED_SIDE, MAX_SCALE * max(image.shape[:2]))
    kernel = np.ones((RECEPTIVE_FIELD // CELL_SIDE, RECEPTIVE_FIELD // CELL_SIDE), np.uint8)
    for cells in range(
        RECEPTIVE_FIELD // CELL_SIDE, limit // CELL_SIDE, RECEPTIVE_FIELD // CELL_SIDE // 2
    ):
        small = cv2.resize(_pool_maxima(edges, len(edges) // cells), (cells, cells))
        covered = cv2.dilate((small >= 0.5).astype(np.uint8), kernel)
        if not covered.all():
            break
        found = cells * CELL_SIDE
    return found


def _find_edges(image: Floats) -> Floats:
    """Return a square map of edges, 0 or 1, with the length of the image's shorter side."""
    gray, side = image @ GRAY_WEIGHTS, min(image.shape[:2])
    gradient = sum(np.abs(cv2.Sobel(gray, cv2.CV_64F, *axes, ksize=3)) for axes in ((0, 1), (1, 0)))
    square = cv2.resize(cast("Any", gradient), (side, side))
    low, high = float(square.min()), float(square.max())
    edges: Floats = (square >= low + EDGE_SHARE * (high - low)).astype(np.float64)
    return edges


def _pool_maxima(values: Floats, side: int) -> Floats:
    """Return the maxima of blocks of side x side pixels; the blocks at the right and lower edges
    may be smaller."""
    from skimage.measure import block_reduce

    pooled: Floats = cast("Any", block_reduce)(values, (side, side), np.max)
    return pooled

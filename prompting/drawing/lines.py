"""Straight lines with smooth edges and round ends."""

from __future__ import annotations

import math

import numpy as np

from looktwice.pipelines.geometry import XY
from looktwice.pipelines.picture import Pixels
from looktwice.prompting.drawing.colors import RGB
from looktwice.prompting.drawing.shapes import compute_coverage


def paint_line(pixels: Pixels, start: XY, stop: XY, color: RGB, thickness: float) -> None:
    """Paint a straight line of `thickness` pixels with round ends into the picture. The two points
    are in pixel centres."""
    (x0, y0), (x1, y1) = start, stop
    dx, dy = x1 - x0, y1 - y0
    steep = abs(dy) > abs(dx)
    if steep:  # iterate along the rows instead of the columns
        x0, y0, dx, dy = y0, x0, dy, dx
    height, width = pixels.shape[:2][:: -1 if steep else 1]
    reach = thickness / 2 + 1
    first, last = sorted((x0, x0 + dx))
    left, right = max(0, math.floor(first - reach)), min(width - 1, math.ceil(last + reach))
    if right < left:
        return
    along = np.arange(left, right + 1)[:, None]
    middle = y0 + (np.clip(along, first, last) - x0) * (dy / dx if dx else 0.0)
    side = math.ceil(reach * math.sqrt(2))
    across = np.rint(middle).astype(int) + np.arange(-side, side + 1)
    squared = dx * dx + dy * dy
    share = ((along - x0) * dx + (across - y0) * dy) / squared if squared else 0.0 * across
    share = np.clip(share, 0, 1)
    distance = np.hypot(along - x0 - share * dx, across - y0 - share * dy)
    covered = compute_coverage(distance.astype(np.float32) - np.float32(thickness / 2))
    kept = (covered > 0) & (across >= 0) & (across < height)
    rows, columns = across[kept], np.broadcast_to(along, across.shape)[kept]
    if steep:
        rows, columns = columns, rows
    under = pixels[rows, columns].astype(np.float32)
    mixed = under + covered[kept][:, None] * (np.array(color, np.float32) - under)
    pixels[rows, columns] = np.rint(mixed)

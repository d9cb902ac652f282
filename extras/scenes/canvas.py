"""Drawing functions that work like SVG renderers: filled and stroked outlines with exact
antialiasing, and text.

Coordinates refer to pixel edges: the upper left pixel spans 0..1 in both directions, as in boxes.
Pixels are HxWx3 RGB uint8 and are changed in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.outlines import XY
from looktwice.pipelines.picture import Pixels

RGB = tuple[int, int, int]

BLACK, WHITE = (0, 0, 0), (255, 255, 255)
SQUARE: XY = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
TRIANGLE: XY = np.array([[0.5, 0], [1, 1], [0, 1]])
MAX_CACHED_SIDE = 3000  # largest window, in pixels, whose coverage is cached
SCAN_LINES_PER_PIXEL = 4  # scan lines per pixel; along each of them coverage is exact


def make_blank(width: int, height: int) -> Pixels:
    """Make a white picture of the given width and height."""
    return np.full((height, width, 3), 255, np.uint8)


def fill_outline(pixels: Pixels, points: XY, color: RGB) -> None:
    """Fill a polygon, given by its corners, with a colour."""
    _paint_contours(pixels, [points], color)


def stroke_outline(
    pixels: Pixels,
    points: XY,
    width: float,
    color: RGB = BLACK,
    closed: bool = True,
    cap: float = 0.0,
) -> None:
    """Stroke an outline with mitred corners, or, if not `closed`, single segments extended by `cap`
    at both ends."""
    if closed:
        edges = np.roll(points, -1, axis=0) - points
        units = edges / np.maximum(np.hypot(edges[:, 0], edges[:, 1]), 1e-9)[:, None]
        after = np.stack([units[:, 1], -units[:, 0]], axis=1)
        before = np.roll(after, 1, axis=0)
        # at each corner, the intersection of the lines parallel to both its edges
        turn = np.maximum(1 + (before * after).sum(axis=1), 0.05)[:, None]
        shift = np.asarray((before + after) / turn, np.float64) * (width / 2)
        _paint_contours(pixels, [points + shift, (points - shift)[::-1]], color)
        return
    for start, end in pairwise(points):
        along = end - start
        length = float(np.hypot(*along))
        if length > 0:
            along = along / length
            side, more = np.array([-along[1], along[0]]) * (width / 2), along * cap
            near, far = start - more, end + more
            _paint_contours(
                pixels, [np.array([near + side, far + side, far - side, near - side])], color
            )


def write_text(pixels: Pixels, text: str, center: float, baseline: float, size: float) -> None:
    """Write black text in Pillow's default sans serif, centred on x; `size` is the em in pixels.
    The text must fit into the picture."""
    left, top, ink = _render_text(text, size)
    height, width = ink.shape
    there = pixels[round(baseline) + top :, round(center) + left :][:height, :width]
    there[:] = np.rint(there * (1 - ink[..., None]))


@lru_cache(maxsize=64)
def _render_text(text: str, size: float) -> tuple[int, int, NDArray[np.float64]]:
    """Render text: return the offset of its box from the middle of its baseline, and the coverage
    of its pixels."""
    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise TaskError(
            "Pillow was built without FreeType and cannot draw text; install Pillow's own wheel"
        )
    left, top, right, bottom = (round(edge) for edge in font.getbbox(text, anchor="ms"))
    image = Image.new("L", (right - left + 2, bottom - top + 2))
    ImageDraw.Draw(image).text((1 - left, 1 - top), text, fill=255, font=font, anchor="ms")
    return left - 1, top - 1, np.asarray(image) / 255.0


def get_extent(
    points: XY, size: tuple[int, int] | None = None, rim: float = 0.0
) -> tuple[float, float, float, float]:
    """Return the axis-aligned box around points, grown by `rim`, and clipped to a picture of
    `size` (width, height) if given."""
    xs, ys = points.T.tolist()  # Python's own min and max are faster for a few corners
    edges = min(xs) - rim, min(ys) - rim, max(xs) + rim, max(ys) + rim
    if size is not None:
        edges = tuple(min(max(edge, 0), limit) for edge, limit in zip(edges, size * 2, strict=True))
    x0, y0, x1, y1 = (round(float(edge), 2) for edge in edges)
    return x0, y0, x1, y1


def _paint_contours(pixels: Pixels, contours: Sequence[XY], color: RGB) -> None:
    height, width = pixels.shape[:2]
    x0, y0, x1, y1 = get_extent(np.concatenate(contours))
    left, top = max(0, math.floor(x0)), max(0, math.floor(y0))
    right, bottom = min(width, math.ceil(x1)), min(height, math.ceil(y1))
    if left < right and top < bottom:
        inside = tuple(np.round(contour - (left, top), 6).tobytes() for contour in contours)
        cover = (
            _cached_coverage
            if (right - left) * (bottom - top) <= MAX_CACHED_SIDE
            else _compute_coverage
        )
        share = cover(inside, right - left, bottom - top)
        there = pixels[top:bottom, left:right]
        there[:] = np.rint(there * (1 - share) + np.array(color) * share)


def _compute_coverage(outlines: tuple[bytes, ...], width: int, height: int) -> NDArray[np.float64]:
    """Compute the share of each pixel (height, width, 1) that lies inside the contours, which are
    passed as bytes for the cache."""
    contours = [np.frombuffer(outline).reshape(-1, 2) for outline in outlines]
    x0, y0 = np.concatenate(contours).T
    x1, y1 = np.concatenate([np.roll(contour, -1, axis=0) for contour in contours]).T
    scan = ((np.arange(height * SCAN_LINES_PER_PIXEL) + 0.5) / SCAN_LINES_PER_PIXEL)[:, None]
    down, up = (y0 <= scan) & (scan < y1), (y1 <= scan) & (scan < y0)
    line, edge = np.nonzero(down | up)
    sign = np.where(down[line, edge], 1.0, -1.0)
    x = np.clip(x0[edge] + (scan[line, 0] - y0[edge]) / (y1 - y0)[edge] * (x1 - x0)[edge], 0, width)
    pixel = x.astype(int)  # a crossing covers all pixels before its own, and part of its own
    shape = (height * SCAN_LINES_PER_PIXEL, width + 1)
    place = line * shape[1] + pixel
    whole = np.bincount(place, sign, shape[0] * shape[1]).reshape(shape)
    part = np.bincount(place, sign * (x - pixel), shape[0] * shape[1]).reshape(shape)
    before = np.cumsum(whole[:, ::-1], axis=1)[:, ::-1] - whole
    shares = np.minimum(np.abs(before + part), 1.0)[:, :width]
    return np.asarray(
        shares.reshape(height, SCAN_LINES_PER_PIXEL, width, 1).mean(axis=1), np.float64
    )


_cached_coverage = lru_cache(maxsize=1024)(_compute_coverage)  # dots, cells and small noise recur
